//! Whole runs, a few thousand keys large. A program of its own, not the test harness's: its child
//! processes are this program again, killed in the middle of their inserts.

use std::process::ExitCode;

use durahash_bench::workload::Workload;
use durahash_bench::{Config, Latency, Medium, Progress, Report};

fn main() -> ExitCode {
    if let Some(done) = durahash_bench::child_main() {
        return done;
    }
    a_run_on_files_finds_everything();
    a_run_in_memory_recovers_nothing();
    an_emulated_medium_says_so();
    what_cannot_be_is_refused();
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
        // Two segments of Pea Hash are large for so few keys.
        let least = if design == "pea" { 0.05 } else { 0.2 };
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
        emulate: Some(Latency::CXL),
        ..config()
    };
    let report = durahash_bench::run(&config, &mut ()).unwrap();
    assert_eq!(report.setup.emulates.as_deref(), Some("cxl"));
    assert_eq!(report.setup.threads, [1], "each number once");
    assert!(report.to_html().contains("emulated"));
    // It only adds: a lookup waits for at least one read.
    let hit = report.find("latency", "reh", "hit", 1, "p50_ns").unwrap();
    assert!(hit.value >= 900.0);
}

fn what_cannot_be_is_refused() {
    for (config, why) in [
        (Config { keys: 10, ..config() }, "too few"),
        (Config { threads: vec![1, 0], ..config() }, "begin with one"),
        (Config { threads: vec![], ..config() }, "begin with one"),
        (Config { threads: vec![41], ..config() }, "too many for 4000 keys"),
        (Config { keys: u64::MAX, threads: vec![1, 257], ..config() }, "the most are 256"),
        (Config { repeats: 0, ..config() }, "repeat"),
        (Config { designs: vec![], ..config() }, "no design"),
        (Config { medium: Medium::Dram, pool: Some(".".into()), ..config() }, "no directory"),
        (Config { pool: Some("/nonexistent/dir".into()), ..config() }, "making a directory"),
    ] {
        let e = durahash_bench::run(&config, &mut ()).unwrap_err().to_string();
        assert!(e.contains(why), "{e}");
    }
}
