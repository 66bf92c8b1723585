use super::*;
use crate::report::tests::{sample, samples};
use crate::suites::duplicates::Operation;

#[test]
fn text_has_everything_aligned() {
    let mut text = Vec::new();
    sample(&["reh", "esh"], &[1, 2]).write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for part in [
        "Some <CPU> & co, 2 cores, 8.0 GiB",
        "file on ext4; latency of optane is emulated",
        "0.1.0 (abcdef0), 2023-11-14",
        "1,000 keys",
        "Throughput, million operations per second (×threads, emulated optane)",
        "Latency, 2 threads, emulated optane",
        "insert that splits",
        "Recovery after kill -9",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    let hit = text.lines().find(|line| line.trim_start().starts_with("hit"));
    assert!(hit.unwrap().contains("4.00"), "{text}");
}

#[test]
fn percentiles_of_too_few_are_not_told() {
    let mut report = sample(&["reh"], &[1]);
    report.rows.retain(|row| row.metric != "p99.99_ns");
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let dashes = text.lines().filter(|line| line.contains(" -  "));
    assert_eq!(dashes.count(), 4 + 2, "{text}");
}

#[test]
fn empty_reports_have_no_tables() {
    assert!(tables(&Report::default()).is_empty());
}

#[test]
fn days_have_dates() {
    for (seconds, text) in [
        (0, "1970-01-01"),
        (951_782_400, "2000-02-29"),
        (1_709_251_199, "2024-02-29"),
        (1_709_251_200, "2024-03-01"),
        (4_102_444_800, "2100-01-01"),
    ] {
        assert_eq!(date(seconds), text);
    }
    assert_eq!(grouped(1_234_567), "1,234,567");
    assert_eq!(grouped(999), "999");
}

#[test]
fn every_case_and_table_has_a_line() {
    let mut report = Report::default();
    for (scale, name) in [(1.0, "pea"), (2.0, "pea, lists")] {
        let mut rows = vec![("longest", 31.0), ("medium_bytes_per_entry", 28.0)];
        let metrics = Operation::ALL.map(|operation| (operation.per_s(), operation.values_per_s()));
        for (per_s, values_per_s) in &metrics {
            rows.extend([(per_s.as_str(), 3e6 * scale), (values_per_s.as_str(), 5e6 * scale)]);
        }
        report.rows.extend(samples("duplicates", name, "zipf 0.4", 1, 1000, &rows));
    }
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    assert_eq!((lines("zipf 0.4  pea "), lines("zipf 0.4  pea, lists")), (3, 3), "{text}");
    assert!(text.contains("10.00") && text.contains("28.0"), "{text}");
}

#[test]
fn sizes_are_columns_and_designs_lines() {
    let mut report = Report::default();
    report.setup.designs = vec!["reh".into(), "pea".into()];
    for (keys, ns) in [(1000, 100.0), (10_000, 120.0)] {
        for design in ["reh", "pea"] {
            let rows = [("p50_ns", ns), ("p99_ns", ns * 3.0)];
            report.rows.extend(samples("size", design, "hit", 1, keys, &rows));
        }
    }
    let rows = [("count", 3.0), ("min_ns", 10.0), ("max_ns", 5e6), ("total_ms", 9.0)];
    report.rows.extend(samples("resizing", "pea", "insert that splits", 1, 10_000, &rows));
    for (case, threads) in [("beside inserts", 2), ("alone", 1)] {
        let rows = [("count", 70.0), ("p50_ns", 90.0), ("max_ns", 4e6)];
        report.rows.extend(samples("stall", "pea", case, threads, 10_000, &rows));
    }
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for part in [
        "hit        reh     p50  100 ns  120 ns",
        "hit        pea     p99  300 ns  360 ns",
        "5 ms    9 ms",
        "beside inserts     70",
        "alone              70",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
    assert!(!text.contains("reh     insert that"), "{text}");
}

#[test]
fn loads_are_columns() {
    let mut report = Report::default();
    report.setup.designs = vec!["reh".into(), "rewo".into()];
    report.setup.keys = 1000;
    for (keys, ns) in [(200, 100.0), (400, 120.0), (600, 130.0), (800, 150.0)] {
        for design in ["reh", "rewo"] {
            let rows = [("load_factor", 0.5)];
            report.rows.extend(samples("load", design, "slots", 1, keys, &rows));
            let rows = [("mean_ns", ns), ("p50_ns", ns), ("p99_ns", ns * 3.0)];
            report.rows.extend(samples("load", design, "hit", 1, keys, &rows));
        }
    }
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for part in [
        "operation  design        at 0.2  at 0.4  at 0.6  at 0.8",
        "slots      reh            0.500   0.500   0.500   0.500",
        "hit        rewo    p99   300 ns  360 ns  390 ns  450 ns",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

#[test]
fn modes_are_rows_beside_one_another() {
    let mut report = Report::default();
    report.setup.designs = vec!["reh".into(), "pea".into()];
    report.setup.threads = vec![1, 2];
    for design in ["reh", "pea"] {
        for (mode, survives, log) in
            [("process", 1.0, 0.0), ("interval", 2.0, 106.4), ("strict", 3.0, 4096.0)]
        {
            let mut add = |what: &str, threads, metrics: &[(&str, f64)]| {
                let case = format!("{what}, {mode}");
                let rows = samples("durability", design, &case, threads, 1000, metrics);
                report.rows.extend(rows);
            };
            let rates = [("ops_per_s", 7768.0), ("log_bytes", log)];
            add(
                "put_many",
                1,
                &[("ops_per_s", 1.84e6), ("log_bytes", 90.0), ("survives", survives)],
            );
            for threads in [1, 2] {
                add("hit", threads, &[("ops_per_s", 12.1e6)]);
                add("insert", threads, &rates);
            }
            add("kill -9", 2, &[("lost", 0.0), ("open_ms", 1.5)]);
        }
    }
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for part in [
        "design  mode      insert ×1  insert ×2  put_many of 1000  hit ×1  hit ×2",
        "reh     strict         7768       7768             1.84M   12.1M   12.1M         4096 B",
        "1.50 ms  survives kill -9; system crash and power cut but for the last moments\n",
        "some 1,000 keys",
    ] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

#[test]
fn every_table_says_that_it_is_simulated() {
    let mut report = Report::default();
    for (table, case) in [
        ("simulated", "insert"),
        ("simulated many", "insert"),
        ("simulated techniques", "insert, hints awaited"),
        ("simulated mix", "25 % inserts"),
        ("simulated ycsb", "YCSB A"),
        ("simulated sizes", "2 nodes, insert"),
    ] {
        for clients in [128, 1] {
            let metrics = [("ops_per_s", 2e6), ("p50_ns", 4000.0), ("round_trips", 2.1)];
            report.rows.extend(samples(table, "sephash", case, clients, 1000, &metrics));
        }
    }
    let metrics = [("entry_utilization", 0.9), ("segments", 7.0)];
    report.rows.extend(samples("simulated space", "race", "1 node", 64, 1000, &metrics));
    let nic = [
        ("round_trip_ns", 1800.0),
        ("gigabits", 100.0),
        ("packets_per_s", 75e6),
        ("atomics_per_s", 10e6),
    ];
    report.rows.extend(samples("simulated nic", "all", "assumed", 1, 0, &nic));
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches(", simulated\n").count(), 7, "{text}");
    assert!(text.contains("round trip 1800 ns, 100 Gb/s, 75 million packets"), "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("YCSB A")).collect();
    assert!(lines[0].contains("  1      2.000  4 µs"), "{text}");
    assert!(report.to_html().contains("no measurement"));
}

#[test]
fn real_figures_stand_beside_simulated_ones() {
    let mut report = Report::default();
    let metrics = [("p50_ns", 3700.0), ("ops_per_s", 2e5)];
    report.rows.extend(samples("simulated", "sephash", "search", 1, 1000, &metrics));
    let metrics = [("ops_per_s", 25e3), ("p50_ns", 40_000.0), ("p99_ns", 90_000.0)];
    report.rows.extend(samples("real", "ucx, tcp", "hit", 1, 1000, &metrics));
    report.rows.extend(samples("real", "ucx, tcp", "YCSB A", 2, 1000, &metrics));
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("SepHash on nodes of this machine, real\n"), "{text}");
    let line = |case| {
        let line = text.lines().find(|line| line.trim_start().starts_with(case)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("hit"), "hit ucx, tcp 1 25.00 40 µs 90 µs 3.7 µs");
    assert_eq!(line("YCSB A"), "YCSB A ucx, tcp 2 25.00 40 µs 90 µs -");
}
