//! Whole runs, a few thousand keys large. A program of its own, not the test harness's: its child
//! processes are this program again, killed in the middle of their inserts.

use std::process::ExitCode;

use durahash::{Design, SyncMode};
use durahash_bench::workload::Workload;
use durahash_bench::{Config, Medium, Profile, Progress, Report, Suite};

fn main() -> ExitCode {
    if let Some(done) = durahash_bench::child_main() {
        return done;
    }
    std::thread::scope(|scope| {
        // Which waits for the disk.
        scope.spawn(modes_are_measured_side_by_side);
        a_run_on_files_finds_everything();
        a_run_in_memory_recovers_nothing();
        an_emulated_medium_says_so();
        duplicates_are_counted();
        caches_are_simulated();
        sizes_have_latencies();
        lookups_go_on_beside_inserts();
        latencies_are_told_while_a_table_fills();
        mixes_are_drawn_both_ways();
        copies_answer_the_more_lookups_the_more_there_are();
        slices_show_a_resize();
        the_first_lookup_after_a_kill_is_timed();
        impossible_configurations_are_refused();
    });
    ExitCode::SUCCESS
}

/// Remembers how far it was told the run is.
#[derive(Default)]
struct Told(Vec<(u64, u64)>);

impl Progress for Told {
    fn at(&mut self, done: u64, total: u64, what: &str) {
        assert!(!what.is_empty());
        self.0.push((done, total));
    }
}

fn config() -> Config {
    Config { keys: 4000, threads: vec![1, 2], repeats: 2, ..Config::default() }
}

fn a_run_on_files_finds_everything() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { pool: Some(dir.path().to_owned()), ..config() };
    let mut told = Told::default();
    let report = durahash_bench::run(&config, &mut told).unwrap();
    // Nothing is left behind.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(told.0.is_sorted());
    assert!(told.0.iter().all(|(done, total)| done <= total));

    assert!(!report.setup.file_system.is_empty());
    assert_eq!(report.setup.emulates, None);
    for design in &report.setup.designs {
        for workload in Workload::ALL {
            for threads in [1, 2] {
                let find = |table, metric| {
                    let row = report.find(table, design, workload.name(), threads, metric);
                    row.unwrap_or_else(|| panic!("{table} {metric} of {workload:?}"))
                };
                let row = find("throughput", "ops_per_s");
                assert!(row.min > 0.0 && row.min <= row.value && row.value <= row.max);
                let (p50, max) = (find("latency", "p50_ns").value, find("latency", "max_ns").value);
                assert!(p50 <= max * 1.001);
                let told =
                    |metric| report.find("latency", design, workload.name(), threads, metric);
                let batched = matches!(workload, Workload::GetMany | Workload::PutMany);
                assert_eq!(told("p99_ns").is_none(), batched, "63 batches are too few");
                assert!(told("p99.99_ns").is_none(), "4000 operations are too few");
            }
        }
        let one = |table, case, metric| report.find(table, design, case, 1, metric).unwrap().value;
        let load_factor = one("space", "load", "load_factor");
        // Two segments of Pea Hash are large for so few keys, and so is the first table of Rewo-Hash.
        let least = if ["pea", "rewo"].contains(&design.as_str()) { 0.05 } else { 0.2 };
        assert!((least..=1.0).contains(&load_factor), "{load_factor}");
        assert!(one("space", "load", "medium_bytes_per_key") >= 16.0);
        let (utility, of_medium) =
            (one("space", "load", "utility"), one("space", "load", "utility_medium"));
        assert!(0.0 < utility && utility <= of_medium && of_medium <= 1.0);
        // There is no row of what never happened: no segment of Pea Hash fills.
        let inserts = ["insert", "insert that splits"].map(|case| {
            report.find("resize", design, case, 1, "count").map_or(0.0, |row| row.value)
        });
        assert_eq!(inserts[0] + inserts[1], 4000.0);
        assert!(inserts[1] <= one("resize", "all", "splits"));
        // The costs that the design promises hold here too; more of that in the library's tests.
        assert!(one("cost", "insert", "flushes") >= 1.0);
        assert_eq!(one("cost", "hit", "flushes"), 0.0);
        let kills: Vec<_> = report.table("recovery").collect();
        let lost: Vec<_> = kills.iter().filter(|row| row.metric == "lost").collect();
        assert_eq!(lost.len(), 3 * report.setup.designs.len());
        assert!(lost.iter().all(|row| row.value == 0.0 && row.threads == 2));
        assert!(lost.iter().any(|row| row.keys > 3500));
    }
    assert!(report.table("growth").any(|row| row.keys == 4000));
    assert!(Report::from_json(&report.to_json()).unwrap() == report);
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    assert!(text.ends_with(b"checked.\n"));
}

fn a_run_in_memory_recovers_nothing() {
    let config = Config { medium: Medium::Dram, repeats: 1, ..config() };
    let report = durahash_bench::run(&config, &mut ()).unwrap();
    assert_eq!(report.table("recovery").count(), 0);
    assert!(report.table("throughput").count() > 0);
    assert_eq!(report.setup.file_system, "");
}

fn an_emulated_medium_says_so() {
    let config = Config {
        medium: Medium::Dram,
        keys: 1000,
        threads: vec![1, 1],
        repeats: 1,
        emulate: Some(Profile::CXL_FLAT),
        ..config()
    };
    let report = durahash_bench::run(&config, &mut ()).unwrap();
    assert_eq!(report.setup.emulates.as_deref(), Some("cxl-flat"));
    assert_eq!(report.setup.threads, [1], "each number once");
    assert!(report.to_html().contains("emulated"));
    // It only adds: a lookup waits for at least one read.
    let hit = report.find("latency", "reh", "hit", 1, "p50_ns").unwrap();
    assert!(hit.value >= 900.0);
}

/// A run of one suite, in files; its report is whole, has these words, and leaves no files.
fn run_of(suite: Suite, config: Config, words: &[&str]) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { suites: vec![suite], pool: Some(dir.path().to_owned()), ..config };
    let mut told = Told::default();
    let report = durahash_bench::run(&config, &mut told).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    assert!(told.0.is_sorted());
    assert!(told.0.iter().all(|(done, total)| done <= total));
    assert!(Report::from_json(&report.to_json()).unwrap() == report);
    assert!(!durahash_bench::figures::draw(&report).is_empty());
    assert!(!report.to_html().is_empty());
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for word in words {
        assert!(text.contains(word), "no {word} in {text}");
    }
    report
}

fn duplicates_are_counted() {
    let report = run_of(Suite::Duplicates, config(), &["graph made up"]);
    let cases = report.cases("duplicates");
    assert_eq!(
        cases,
        ["zipf 0.0", "zipf 0.2", "zipf 0.4", "zipf 0.6", "zipf 0.8", "graph made up"]
    );
    for case in &cases {
        let find = |design: &str, threads, metric: &str| {
            let row = report.find("duplicates", design, case, threads, metric);
            row.unwrap_or_else(|| panic!("{metric} of {design}, {case}")).value
        };
        for threads in [1, 2] {
            for metric in ["add per_s", "get by entry values_per_s", "remove all per_s"] {
                assert!(find("pea", threads, metric) > 0.0);
            }
        }
        let keys = find("pea", 1, "keys");
        assert!(keys < 4000.0 && keys * find("pea", 1, "longest") >= 4000.0);
        assert!(find("pea", 1, "lists") <= keys);
    }
    let longest = |case| report.find("duplicates", "pea", case, 1, "longest").unwrap().value;
    assert!(longest("zipf 0.8") > longest("zipf 0.0"));
    assert!(report.find("duplicates", "pea", "zipf 0.8", 1, "lists").unwrap().value > 0.0);

    let config = Config { designs: vec![Design::Reh], ..config() };
    let config = Config { suites: vec![Suite::Duplicates], medium: Medium::Dram, ..config };
    let e = durahash_bench::run(&config, &mut ()).unwrap_err().to_string();
    assert!(e.contains("multimaps"), "{e}");
}

/// Rates of traces from files, and of made-up lookups.
fn caches_are_simulated() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("keys.txt");
    // A hundred keys, each twice in a row: half of the lookups hit wherever one entry fits.
    let twice = (0..100).map(|i| format!("key {i}\nkey {i}\n"));
    std::fs::write(&trace, format!("# keys\n\n{}", twice.collect::<String>())).unwrap();
    let config = |config| Config { suites: vec![Suite::Cache], medium: Medium::Dram, ..config };
    let run = |config: &Config| durahash_bench::run(config, &mut ()).unwrap();
    let report = run(&config(Config { traces: vec![trace.clone()], ..self::config() }));
    assert_eq!(report.cases("hit rates"), ["keys.txt"]);
    let rates = report.table("hit rates").filter(|row| row.metric.starts_with("hits"));
    let rates: Vec<_> = rates.map(|row| (row.keys, row.value)).collect();
    assert_eq!(rates, [(100, 0.5); 2 * 8], "at 10 and at 25 %");

    let report = run(&config(self::config()));
    assert_eq!(report.cases("hit rates").len(), 5);
    let mut text = Vec::new();
    report.write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("optimum") && text.contains("zipf 1.2"), "{text}");
    std::fs::write(&trace, "# nothing\n").unwrap();
    let empty = config(Config { traces: vec![trace], ..self::config() });
    let e = durahash_bench::run(&empty, &mut ()).unwrap_err().to_string();
    assert!(e.contains("has no keys"), "{e}");
}

fn sizes_have_latencies() {
    let report = run_of(Suite::Sizes, config(), &["Latency by keys in the table"]);
    for design in &report.setup.designs {
        let mut sizes: Vec<u64> = Vec::new();
        for row in report.table("size").filter(|row| row.design == *design) {
            if row.metric == "count" {
                assert_eq!(row.value, (row.keys / 10) as f64, "{}", row.case);
            }
            assert!(row.value > 0.0);
            sizes.push(row.keys);
        }
        sizes.dedup();
        assert_eq!(sizes, [40, 100, 400, 1000, 4000]);
        let one = |case: &str, metric| report.find("resizing", design, case, 1, metric);
        let count = |case| one(case, "count").map_or(0.0, |row| row.value);
        assert_eq!(count("insert") + count("insert that splits"), 4000.0);
        assert!(count("insert that doubles") <= count("insert that splits"));
    }
    assert_eq!(report.cases("size"), ["insert", "hit", "miss", "delete"]);
}

fn lookups_go_on_beside_inserts() {
    let report = run_of(Suite::Stall, config(), &["beside inserts"]);
    for design in &report.setup.designs {
        let find = |case, threads, metric| {
            report.find("stall", design, case, threads, metric).unwrap().value
        };
        assert!(find("beside inserts", 2, "count") >= 10_000.0);
        assert_eq!(find("alone", 1, "count"), find("beside inserts", 2, "count"));
        assert!(find("beside inserts", 2, "max_ns") >= find("beside inserts", 2, "p50_ns"));
        // A pool without a log is copied entry by entry, which stops nobody.
        let backups = report.find("backup", design, "beside a backup", 2, "max_ns");
        assert_eq!(backups.is_some(), report.setup.durability.starts_with("interval"));
    }
}

fn latencies_are_told_while_a_table_fills() {
    let report = run_of(Suite::Loads, config(), &[]);
    assert_eq!(report.cases("load"), ["slots", "hit", "miss", "insert", "update", "remove"]);
    for design in &report.setup.designs {
        for case in &report.cases("load")[1..] {
            let rows =
                report.table("load").filter(|row| row.design == *design && row.case == *case);
            let counts: Vec<_> = rows.filter(|row| row.metric == "count").collect();
            let keys: Vec<u64> = counts.iter().map(|row| row.keys).collect();
            assert_eq!(keys, [800, 1600, 2400, 3200]);
            assert!(counts.iter().all(|row| row.value == 80.0));
        }
        let of_slots = report.find("load", design, "slots", 1, "load_factor").unwrap().value;
        assert!((0.0..=1.0).contains(&of_slots));
    }
}

fn mixes_are_drawn_both_ways() {
    let report = run_of(Suite::Ycsb, config(), &[]);
    assert_eq!(
        report.cases("ycsb"),
        ["A, uniform", "A, zipf 0.99", "B, uniform", "B, zipf 0.99", "C, uniform", "C, zipf 0.99"]
    );
    for design in &report.setup.designs {
        for case in report.cases("ycsb") {
            for threads in [1, 2] {
                let row = report.find("ycsb", design, case, threads, "ops_per_s").unwrap();
                assert!(row.min > 0.0 && row.min <= row.value && row.value <= row.max);
            }
        }
    }
}

fn copies_answer_the_more_lookups_the_more_there_are() {
    let config = Config { emulate: Some(Profile::CXL), threads: vec![1], repeats: 1, ..config() };
    let report = run_of(Suite::Caches, config, &[]);
    assert!(report.to_html().contains("emulated cxl"));
    let find = |design: &str, case: &str, metric| {
        report.find("cache", design, case, 1, metric).unwrap_or_else(|| panic!("{design} {case}"))
    };
    for drawn in ["uniform", "zipf 0.99"] {
        for design in ["reh", "pea", "esh"] {
            assert!(find(design, drawn, "ops_per_s").value > 0.0);
        }
        let sizes = ["0", "1/64", "1/8", "1/1"].map(|part| format!("{drawn}, {part}"));
        let hits = sizes.each_ref().map(|case| find("rewo", case, "hits").value);
        assert_eq!(hits[0], 0.0);
        // A cache of the size of the tables lacks some, where their buckets have more than its own.
        assert!(hits.is_sorted() && hits[3] > 0.8, "{hits:?}");
        let bytes = sizes.each_ref().map(|case| find("rewo", case, "bytes").value);
        assert!(bytes[0] == 0.0 && bytes[1] * 64.0 == bytes[3]);
        assert!(find("rewo", &sizes[2], "ops_per_s").value > 0.0);
    }
    let [uniform, zipf] = ["uniform, 1/64", "zipf 0.99, 1/64"];
    assert!(find("rewo", zipf, "hits").value > find("rewo", uniform, "hits").value);
}

fn slices_show_a_resize() {
    let report = run_of(Suite::Resizing, config(), &[]);
    assert_eq!(report.cases("slices"), ["lookups", "skewed lookups", "updates", "inserts"]);
    for case in report.cases("slices") {
        for design in ["rewo", "rewo, no cache"] {
            let find = |metric: &str| report.find("slices", design, case, 1, metric).unwrap();
            for part in ["before", "during", "after"] {
                let metric = format!("{part} ops_per_s");
                let rows = report
                    .table("slice")
                    .filter(|row| row.design == design && row.case == case && row.metric == metric);
                let ms = find(&format!("{part}_ms")).value;
                assert_eq!(rows.count() as f64 * 10.0, ms);
                // Of inserts, so few keys may leave no time before the resize, or until the next.
                assert!(ms > 0.0 || (case == "inserts" && part != "during"), "{case}, {part}");
            }
            assert!(find("during_per_s").value > 0.0);
            assert!(case == "inserts" || find("ratio").value > 0.0);
        }
    }
}

fn the_first_lookup_after_a_kill_is_timed() {
    let config = Config { keys: 40_000, designs: vec![Design::Reh, Design::Esh], ..config() };
    let report = run_of(Suite::Recovery, config, &["first get"]);
    for (design, repairs) in [("reh", false), ("esh", true)] {
        let rows = |metric: &str| {
            let rows = report.table("recovery");
            let rows = rows.filter(|row| row.design == design && row.metric == metric);
            rows.map(|row| row.value).collect::<Vec<_>>()
        };
        let (open, first_get) = (rows("open_ms"), rows("first_get_ms"));
        assert_eq!((open.len(), first_get.len()), (3, 3));
        assert!(open.iter().zip(&first_get).all(|(open, first_get)| open <= first_get));
        let first = f64::from(u8::from(repairs));
        assert_eq!(rows("repaired_by_first_get"), [first; 3], "one segment, that of the key");
        // Every segment, of 56 slots, is looked at in the end.
        let all = rows("repaired");
        assert!(
            all.iter()
                .zip([1000.0, 10_000.0, 40_000.0])
                .all(|(all, keys)| { if repairs { *all >= keys / 56.0 } else { *all == 0.0 } })
        );
    }
}

fn modes_are_measured_side_by_side() {
    let designs = vec![Design::Reh, Design::Pea];
    let config = Config { designs, repeats: 1, ..config() };
    let words = ["each mode, side by side", "put_many of 1000", "reh     strict"];
    let report = run_of(Suite::Durability, config, &words);
    let whats = ["put_many", "hit", "insert", "update", "kill -9"];
    let on_disk = report.setup.file_system != "tmpfs";
    for design in ["reh", "pea"] {
        for (mode, survives) in [
            ("process", 1.0),
            ("interval", 2.0),
            ("interval-live", 2.0),
            ("strict", 3.0),
            ("strict-live", 3.0),
        ] {
            let [put_many, hit, insert, update, killed] =
                whats.map(|what| format!("{what}, {mode}"));
            let find = |case: &str, threads, metric: &str| {
                let row = report.find("durability", design, case, threads, metric);
                row.unwrap_or_else(|| panic!("{metric} of {design}, {case}")).value
            };
            assert_eq!(find(&put_many, 1, "count"), 4000.0);
            assert!(find(&put_many, 1, "ops_per_s") > 0.0);
            assert_eq!(find(&put_many, 1, "survives"), if on_disk { survives } else { 1.0 });
            let has_log = mode != "process";
            assert_eq!(find(&put_many, 1, "log_bytes") > 0.0, has_log);
            for threads in [1, 2] {
                assert!(find(&hit, threads, "ops_per_s") > 0.0);
                assert!(find(&insert, threads, "ops_per_s") > 0.0);
                assert!((1.0..=4000.0).contains(&find(&insert, threads, "count")));
                assert_eq!(find(&insert, threads, "log_bytes") > 0.0, has_log);
            }
            assert_eq!(find(&put_many, 2, "count"), 4000.0);
            assert_eq!(find(&update, 1, "log_bytes") > 0.0, has_log);
            // Each insert of one thread is a block of its own.
            assert!(mode != "strict" || find(&insert, 1, "log_bytes") >= 4096.0);
            assert_eq!(find(&killed, 2, "lost"), 0.0);
            assert!(find(&killed, 2, "open_ms") > 0.0);
        }
    }
}

fn impossible_configurations_are_refused() {
    let of_modes = |config| Config { suites: vec![Suite::Durability], ..config };
    for (config, why) in [
        (Config { suites: vec![], ..config() }, "no suite"),
        (Config { graph: Some("edges.tsv".into()), ..config() }, "suite duplicates"),
        (Config { traces: vec!["keys.txt".into()], ..config() }, "suite cache"),
        (Config { suites: vec![Suite::Cache], zipf: vec![-1.0], ..config() }, "from 0 to 10"),
        (Config { keys: 10, ..config() }, "too few"),
        (Config { threads: vec![1, 0], ..config() }, "begin with one"),
        (Config { threads: vec![], ..config() }, "begin with one"),
        (Config { threads: vec![41], ..config() }, "too many for 4000 keys"),
        (Config { keys: u64::MAX, threads: vec![1, 257], ..config() }, "the most are 256"),
        (Config { repeats: 0, ..config() }, "repeat"),
        (Config { designs: vec![], ..config() }, "no design"),
        (
            Config { suites: vec![Suite::Caches], designs: vec![Design::Reh], ..config() },
            "about the design rewo",
        ),
        (Config { medium: Medium::Dram, pool: Some(".".into()), ..config() }, "no directory"),
        (of_modes(Config { medium: Medium::Dram, ..config() }), "no modes"),
        (of_modes(Config { emulate: Some(Profile::CXL), ..config() }), "emulated"),
        (of_modes(Config { sync_mode: Some(SyncMode::Strict), ..config() }), "every mode"),
        (Config { pool: Some("/nonexistent/dir".into()), ..config() }, "making a directory"),
    ] {
        let e = durahash_bench::run(&config, &mut ()).unwrap_err().to_string();
        assert!(e.contains(why), "{e}");
    }
}
