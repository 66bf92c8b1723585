use super::*;
use crate::report::tests::{sample, samples};
use crate::suites::caches::{PARTS, case_of};
use crate::suites::duplicates::Operation;
use crate::workload::skew::Drawn;

/// Enough of a parser to see that elements nest and that numbers are numbers.
pub(crate) fn well_formed(xml: &str) {
    let mut open = Vec::new();
    for tag in xml.split('<').skip(1) {
        let (tag, text) = tag.split_once('>').expect("a tag ends");
        assert!(!text.contains('>') || text.contains("--"), "{text}");
        let name = tag.split([' ', '/']).find(|part| !part.is_empty());
        let name = name.expect("a tag has a name").to_owned();
        assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') && !tag.starts_with(['!', '?']) {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
    for bad in ["NaN", "inf"] {
        assert!(!xml.contains(bad), "{bad}");
    }
}

#[test]
fn figures_are_well_formed_and_labelled() {
    for (designs, threads, count) in [
        (vec!["reh"], vec![1, 2], 2 + 2 + 1 + 3 + 1),
        (vec!["reh", "esh", "rewo", "pea"], vec![1, 2], 4 + 2 + 1 + 3 + 1),
        (vec!["reh", "esh"], vec![1, 2, 4], 6 + 3 + 2 + 1 + 3 + 1),
    ] {
        let figures = draw(&sample(&designs, &threads));
        assert_eq!(figures.len(), count);
        for figure in &figures {
            well_formed(&figure.file());
            assert!(figure.file().contains("<style>"));
            assert!(!figure.inline().contains("<style>"));
            for design in designs.iter().filter(|_| designs.len() > 1) {
                assert!(figure.svg.contains(&format!(">{design}")), "{}", figure.name);
            }
        }
        let named = |name: &str| {
            let found = figures.iter().find(|figure| figure.name.starts_with(name));
            &found.unwrap_or_else(|| panic!("no {name}")).svg
        };
        for (name, label) in [
            ("throughput", "million operations per second"),
            ("throughput", "emulated optane"),
            ("throughput", "YCSB A"),
            ("latency", "time of one operation"),
            ("latency", "p99.99"),
            ("latency", "100 ns"),
            ("load-factor", "load factor"),
            ("bytes-per-entry", "bytes per entry"),
            ("resize-latency", "p99.9<"),
            ("blocks-read", "blocks of 256 bytes"),
            ("recovery", "nothing emulated"),
            ("flushes", "64-byte lines"),
            ("recovery", "milliseconds"),
        ] {
            assert!(named(name).contains(label), "{name} lacks {label}");
        }
    }
}

#[test]
fn what_was_not_measured_is_not_drawn() {
    assert!(draw(&Report::default()).is_empty());
    let mut report = sample(&["reh"], &[1]);
    report.rows.retain(|row| row.table == "recovery");
    assert_eq!(draw(&report).len(), 1);
}

#[test]
fn names_of_others_do_no_harm() {
    let figures = draw(&sample(&["<b>&\"x\""], &[1]));
    figures.iter().for_each(|figure| well_formed(&figure.file()));
}

#[test]
fn sizes_are_points_and_others_are_lines_beside() {
    let mut report = Report::default();
    report.setup.designs = vec!["reh".into(), "rewo".into()];
    report.setup.threads = vec![1];
    for drawn in Drawn::ALL {
        for part in PARTS {
            let metrics = [("ops_per_s", 2e6), ("hits", 0.25), ("bytes", 1048576.0)];
            let case = case_of(drawn.name(), part);
            report.rows.extend(samples("cache", "rewo", &case, 1, 1000, &metrics));
        }
        let metrics = [("ops_per_s", 4e6)];
        report.rows.extend(samples("cache", "reh", drawn.name(), 1, 1000, &metrics));
    }
    let figures = draw(&report);
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["cache-uniform", "cache-zipf-0-99", "cache-hits"]);
    figures.iter().for_each(|figure| well_formed(&figure.file()));
    assert!(figures[0].svg.contains(">1/64<") && figures[0].svg.contains(">reh<"));
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for part in ["rewo    1/64    1.00", "2.00  25.0 %", "reh                         4.00"] {
        assert!(text.contains(part), "no {part} in\n{text}");
    }
}

#[test]
fn curves_have_a_line_for_each_table_and_number_of_threads() {
    let mut report = Report::default();
    for case in ["zipf 0.0", "zipf 0.8", "graph <g>"] {
        for design in ["pea", "pea, lists"] {
            let space = [("medium_bytes_per_entry", 27.5)];
            report.rows.extend(samples("duplicates", design, case, 1, 1000, &space));
            for threads in [1, 2] {
                for operation in Operation::ALL {
                    let per_s = operation.per_s();
                    let values = operation.values_per_s();
                    let metrics = [(per_s.as_str(), 3e6), (values.as_str(), 2e7)];
                    report.rows.extend(samples(
                        "duplicates",
                        design,
                        case,
                        threads,
                        1000,
                        &metrics,
                    ));
                }
            }
        }
    }
    let figures = draw(&report);
    assert_eq!(figures.len(), 7);
    for figure in &figures {
        well_formed(&figure.file());
        let of_threads = figure.svg.contains(">pea, lists, 2 threads<");
        assert_eq!(of_threads, figure.name != "duplicates-bytes-per-entry", "{}", figure.name);
        assert!(figure.svg.contains(">pea"));
    }
    let graph = figures.iter().find(|figure| figure.name == "graph").unwrap();
    assert!(graph.svg.contains("SI: add edges") && graph.svg.contains("&lt;g&gt;"));
}

#[test]
fn every_operation_has_a_chart_and_every_design_its_lines() {
    let mut report = Report::default();
    report.setup.designs = vec!["reh".into(), "pea".into()];
    for design in ["reh", "pea"] {
        for case in ["insert", "hit"] {
            for keys in [10_000, 1_000_000] {
                let metrics = [("p50_ns", 100.0), ("p99_ns", 400.0)];
                report.rows.extend(samples("size", design, case, 1, keys, &metrics));
            }
        }
        for (case, threads) in [("beside inserts", 2), ("alone", 1)] {
            let metrics =
                [("p50_ns", 90.0), ("p99.9_ns", 1e3), ("p99.99_ns", 2e4), ("max_ns", 4e6)];
            report.rows.extend(samples("stall", design, case, threads, 1_000_000, &metrics));
        }
    }
    let figures = draw(&report);
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["size-insert", "size-hit", "stall"]);
    for figure in &figures {
        well_formed(&figure.file());
        assert!(figure.svg.contains(">pea"));
    }
    assert!(figures[0].svg.contains(">reh, p99<") && figures[0].svg.contains(">1M<"));
    assert!(figures[2].svg.contains("beside inserts") && figures[2].svg.contains("longest"));
}

#[test]
fn a_resize_is_a_line_between_two() {
    let mut report = Report::default();
    for side in ["rewo", "rewo, no cache"] {
        for (metric, count) in
            [("before ops_per_s", 3), ("during ops_per_s", 2), ("after ops_per_s", 3)]
        {
            for _ in 0..count {
                let rows = samples("slice", side, "lookups", 1, 1000, &[(metric, 2e6)]);
                report.rows.extend(rows);
            }
        }
        let metrics = [
            ("usual_per_s", 2e6),
            ("during_per_s", 1.9e6),
            ("ratio", 0.95),
            ("before_ms", 30.0),
            ("during_ms", 20.0),
            ("after_ms", 30.0),
        ];
        report.rows.extend(samples("slices", side, "lookups", 1, 1000, &metrics));
    }
    let figures = draw(&report);
    assert_eq!(figures.len(), 1);
    assert_eq!(figures[0].name, "resize-lookups");
    well_formed(&figures[0].file());
    assert!(figures[0].svg.contains(">rewo, no cache, during<"));
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line = "rewo            lookups    2.00    1.90      1.71   0.95   30 ms   20 ms  30 ms";
    assert!(text.contains(line), "{text}");
}

#[test]
fn every_operation_has_a_chart() {
    let mut report = Report::default();
    report.setup.designs = vec!["reh".into(), "rewo".into()];
    report.setup.keys = 1000;
    for design in ["reh", "rewo"] {
        for case in ["hit", "insert"] {
            for keys in [200, 400, 600, 800] {
                let metrics = [("mean_ns", 100.0), ("p99.99_ns", 9000.0)];
                report.rows.extend(samples("load", design, case, 1, keys, &metrics));
            }
        }
        let metrics = [("load_factor", 0.5)];
        report.rows.extend(samples("load", design, "slots", 1, 200, &metrics));
    }
    let figures = draw(&report);
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["load-hit", "load-insert"]);
    figures.iter().for_each(|figure| well_formed(&figure.file()));
    assert!(figures[0].svg.contains(">rewo, p99.99<"));
}

#[test]
fn mixes_are_groups_of_bars() {
    let mut report = Report::default();
    report.setup.designs = vec!["reh".into(), "rewo".into()];
    report.setup.threads = vec![1, 2];
    for design in ["reh", "rewo"] {
        for (case, threads) in [("A, uniform", 1), ("A, zipf 0.99", 1), ("A, uniform", 2)] {
            let metrics = [("ops_per_s", 2e6)];
            report.rows.extend(samples("ycsb", design, case, threads, 1000, &metrics));
        }
    }
    let figures = draw(&report);
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["ycsb-1", "ycsb-2"]);
    figures.iter().for_each(|figure| well_formed(&figure.file()));
    assert!(figures[0].svg.contains(">A, zipf 0.99<"));
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("A, uniform      2.00     2.00    2.00     2.00"), "{text}");
}

#[test]
fn modes_are_groups_of_times() {
    let mut report = Report::default();
    report.setup.designs = vec!["reh".into(), "rewo".into()];
    report.setup.threads = vec![1, 2];
    for design in ["reh", "rewo"] {
        for (mode, rate) in [("process", 4e6), ("strict", 7000.0)] {
            let mut add = |what: &str, threads, metric: &str, value| {
                let (case, metrics) = (format!("{what}, {mode}"), [(metric, value)]);
                let rows = samples("durability", design, &case, threads, 1000, &metrics);
                report.rows.extend(rows);
            };
            add("put_many", 1, "ops_per_s", 6e6);
            add("insert", 1, "ops_per_s", rate);
            add("insert", 2, "ops_per_s", rate);
            add("kill -9", 2, "open_ms", 2.0);
        }
    }
    let figures = draw(&report);
    let names: Vec<&str> = figures.iter().map(|figure| figure.name.as_str()).collect();
    assert_eq!(names, ["durability-1", "durability-2"]);
    figures.iter().for_each(|figure| well_formed(&figure.file()));
    let has = |i: usize, label: &str| figures[i].svg.contains(&format!(">{label}<"));
    assert!(has(0, "insert, strict") && has(0, "put_many, process"));
    // Of one thread only, and no rate.
    assert!(!has(1, "put_many, process") && !has(1, "kill -9, strict"));
}

#[test]
fn every_figure_says_that_it_is_simulated() {
    let mut report = Report::default();
    for index in ["sephash", "race"] {
        for clients in [1, 128] {
            let metrics = [("ops_per_s", 2e6), ("p50_ns", 4e3), ("p99_ns", 4e6)];
            for (table, case) in [
                ("simulated", "insert"),
                ("simulated", "search"),
                ("simulated many", "insert"),
                ("simulated mix", "25 % inserts"),
                ("simulated ycsb", "YCSB A"),
            ] {
                report.rows.extend(samples(table, index, case, clients, 1000, &metrics));
            }
        }
        for keys in [1000, 2000] {
            let metrics = [("entry_utilization", 0.9), ("space_utilization", 0.8)];
            report.rows.extend(samples("simulated space", index, "growth", 1, keys, &metrics));
        }
    }
    let figures = draw(&report);
    assert_eq!(figures.len(), 9);
    for figure in &figures {
        well_formed(&figure.file());
        assert!(figure.svg.contains("simulated"), "{}", figure.name);
        assert!(figure.name.starts_with("simulated-") && figure.svg.contains("sephash"));
    }
}
