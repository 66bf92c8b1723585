//! One report of made-up numbers for the tests: it has rows for every table and every figure.

use crate::figures::draw;
use crate::machine::Machine;
use crate::report::{About, Report, Setup};
use crate::tables::tables;

/// Lines of table, designs, cases, threads, keys, and metrics with values. `*` stands for the designs, or the
/// numbers of threads, of the report; `others` for the designs but rewo.
const ROWS: &str = "\
stores|durahash;LMDB|durable inserts;inserts of 1000;lookups|1,2|1000|ops_per_s=2e6
throughput|*|load;put_many;hit;miss;YCSB A|*|1000|ops_per_s=2e6
latency|*|load;hit;YCSB A|*|1000|p50_ns=90;p99_ns=800;p99.99_ns=31e3;max_ns=2e6
latency|*|put_many|*|1000|p50_ns=900;max_ns=2e6
growth|*|load|1|100,200,300,400,500,600,700,800,900,1000|load_factor=0.6;medium_bytes_per_key=25;dram_bytes_per_key=4
space|*|load|1|1000|load_factor_mean=0.69;load_factor_min=0.68;load_factor_max=0.7;utility_medium=0.66;utility=0.57
space|*|load|1|1000|load_factor=0.69;medium_bytes_per_key=24.5;dram_bytes_per_key=4.5;file_bytes=4e7
resize|*|all|1|1000|splits=93;doublings=9;doubling_max_ns=3e5
resize|*|insert;insert that splits|1|1000|count=900;p50_ns=200;p90_ns=300;p99_ns=900;p99.9_ns=2e3;p99.99_ns=4e4;max_ns=1e6
cost|*|hit;miss;insert;insert that splits;update;remove|1|1000|blocks_read=1.02;blocks_written=1.1;lines_read=1.2
cost|*|hit;miss;insert;insert that splits;update;remove|1|1000|lines_written=1.3;flushes=1.4;waits=1
recovery|*|kill -9|2|250,500,1000|acknowledged=500;lost=0;unacknowledged=1;repaired_by_first_get=1;repaired=20
recovery|*|kill -9|2|250,500,1000|open_ms=0.6;first_get_ms=0.8;open_closed_ms=0.5
duplicates|pea;pea, lists|zipf 0.0;zipf 0.8;graph <g>|1|1000|keys=500;longest=31;lists=7
duplicates|pea;pea, lists|zipf 0.0;zipf 0.8;graph <g>|1|1000|medium_bytes_per_entry=28;utility_medium=0.5
duplicates|pea;pea, lists|zipf 0.0;zipf 0.8;graph <g>|1,2|1000|add per_s=3e6;get by entry per_s=2e6;get by key per_s=1e6
duplicates|pea;pea, lists|zipf 0.0;zipf 0.8;graph <g>|1,2|1000|get by entry values_per_s=2e7;get by key values_per_s=3e7
duplicates|pea;pea, lists|zipf 0.0;zipf 0.8;graph <g>|1,2|1000|count per_s=4e6;update per_s=5e6;remove one per_s=6e6
duplicates|pea;pea, lists|zipf 0.0;zipf 0.8;graph <g>|1,2|1000|remove all per_s=7e6;remove all values_per_s=8e6
size|*|insert;hit|1|10000,1000000|p50_ns=100;p99_ns=400;max_ns=9e5
resizing|*|insert;insert that splits|1|1000000|count=3;min_ns=10;p50_ns=20;p90_ns=30;p99_ns=40;max_ns=5e6;total_ms=9
stall|*|beside inserts|2|1000|count=70;p50_ns=90;p99_ns=200;p99.9_ns=1e3;p99.99_ns=2e4;max_ns=4e6
stall|*|alone|1|1000|count=70;p50_ns=80;p99_ns=100;max_ns=3e6
load|*|slots|1|200,400,600,800|load_factor=0.5
load|*|hit;insert|1|200,400,600,800|mean_ns=100;p50_ns=90;p99_ns=300;p99.99_ns=9000
ycsb|*|A, uniform;A, zipf 0.99|*|1000|ops_per_s=2e6
cache|rewo|uniform, 0;uniform, 1/64;uniform, 1/1;zipf 0.99, 0;zipf 0.99, 1/64;zipf 0.99, 1/1|*|1000|ops_per_s=2e6
cache|others|uniform;zipf 0.99|*|1000|ops_per_s=4e6
cache|rewo|uniform, 0;uniform, 1/64;uniform, 1/1;zipf 0.99, 0;zipf 0.99, 1/64;zipf 0.99, 1/1|1|1000|bytes=1e6;hits=0.25
slice|rewo;rewo, no cache|lookups|1|1000|before ops_per_s=2e6;before ops_per_s=2.1e6;before ops_per_s=2e6
slice|rewo;rewo, no cache|lookups|1|1000|during ops_per_s=1.9e6;during ops_per_s=1.8e6;after ops_per_s=2e6
slices|rewo;rewo, no cache|lookups|1|1000|before_ms=30;during_ms=20;after_ms=10
slices|rewo;rewo, no cache|lookups|1|1000|during_per_s=1.9e6;usual_per_s=2e6;ratio=0.95
hit rates|s3fifo;exact LRU|zipf 0.99;loop|1|1000|hits at 1 %=0.4;hits at 5 %=0.6;hits at 25 %=0.8
hit rates|s3fifo|zipf 0.99;loop|1|1000|bytes_per_entry=12.5
restarts|s3fifo|zipf 0.99|1|1000|hits of as many=0.6;hits of as many behind a restart=0.59
restarts|s3fifo|zipf 0.99|1|1000|hits of ten times as many=0.62;hits of ten times as many behind a restart=0.61
durability|*|put_many, process|1|1000|count=1000;ops_per_s=1.84e6;log_bytes=0;survives=1
durability|*|put_many, strict|1|1000|count=1000;ops_per_s=1.2e6;log_bytes=90;survives=3
durability|*|hit, process;hit, strict|*|1000|ops_per_s=12.1e6
durability|*|insert, process;insert, strict|*|1000|count=500;ops_per_s=7768;log_bytes=4096
durability|*|kill -9, process;kill -9, strict|2|1000|acknowledged=1000;lost=0;open_ms=1.5
media latency|optane-100;optane-flat|read in order|1|0|measured_ns=180
media latency|optane-100|read in order|1|0|model_ns=170;published_ns=169
media bandwidth|optane-100|reads in order|1,2|0|model_gb_s=3.02;published_gb_s=2.88
simulated nic|all|assumed|1|0|round_trip_ns=1800;gigabits=100;packets_per_s=75e6;atomics_per_s=10e6;computing_percent=100
simulated|sephash;race|insert;search|128,1|1000|ops_per_s=2e6;p50_ns=4000;p99_ns=4e6;round_trips=2.1;verbs=3;bytes=99
simulated many|sephash;race|insert|128,1|1000|ops_per_s=2e6;p50_ns=4000;p99_ns=4e6;splits=7;merges=8
simulated techniques|sephash|insert, hints awaited|1|1000|ops_per_s=2e6
simulated mix|sephash;race|25 % inserts|128|1000|ops_per_s=2e6
simulated ycsb|sephash;race|YCSB A|128,1|1000|ops_per_s=2e6
simulated sizes|sephash|2 nodes, insert|64|1000|ops_per_s=2e6
simulated space|sephash;race|growth|1|1000,2000|entry_utilization=0.9;space_utilization=0.8
simulated space|race|1 node|64|1000|entry_utilization=0.9;segments=7;depth=3;entries=1e4;index_bytes=1e5;cache_bytes=1e4
real|ucx, tcp|hit|1|1000|ops_per_s=25e3;p50_ns=4e4;p99_ns=9e4
real|ucx, tcp|YCSB A|2|1000|ops_per_s=25e3;p50_ns=4e4;p99_ns=9e4
survives|LMDB|NOSYNC|1|4000|survives=1;lost=0;open_ms=20
survives|redb|None|1|4000|survives=0;lost=7;open_ms=20
words|REH, disk;LMDB|bulk insert|*|1000|ops_per_s=3e6
words|REH, disk;LMDB|hit|1|1000|ops_per_s=3e7
opening|REH, disk|create|1|0|ms=2.5
cache-peers|durahash, file|hit|*|1000|ops_per_s=4e6
cache-peers|durahash, file|insert that evicts|*|1000|ops_per_s=1e6
cache-peers|durahash, file|lookup|*|1000|ops_per_s=2e6
cache-peers|durahash, file|memory|1|1000|bytes=90
cache-peers|durahash, file|before|1|1000|part=0.8
cache-peers|durahash, file|after a close|1|1000|part=0.79;next_part=0.78;open_ms=3
cache-peers|durahash, file|after kill -9|1|1000|part=0.79;next_part=0.78;open_ms=4;lost=0
targets|REH, disk|hit / LMDB|1|1000|ratio=6.5;wanted=5;reached=1
targets|REH, disk|keys recovered|1|1000|seconds=0.5;wanted=0.3;reached=0
";

/// The report of these designs and numbers of threads. Values grow by design, case, threads and keys.
pub(crate) fn sample(designs: &[&str], threads: &[u64]) -> Report {
    let mut report = Report {
        machine: Machine {
            cpu: "Some <CPU> & co".into(),
            cores: 2,
            memory_bytes: 8 << 30,
            system: "Linux 6.1".into(),
            architecture: "x86_64".into(),
            huge_pages: "madvise".into(),
        },
        setup: Setup {
            version: "0.1.0".into(),
            commit: Some("abcdef0".into()),
            unix_seconds: 1_700_000_000,
            designs: designs.iter().map(|design| (*design).to_owned()).collect(),
            keys: 1000,
            threads: threads.to_vec(),
            medium: "file".into(),
            file_system: "ext4".into(),
            durability: "process".into(),
            emulates: Some("optane".into()),
            repeats: 3,
            seed: 42,
            clock_ns: 21.5,
            written_bytes: 1 << 30,
        },
        rows: Vec::new(),
    };
    for line in ROWS.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let [table, of, cases, at, keys, metrics] = fields[..] else { panic!("{line}") };
        let of: Vec<&str> = match of {
            "*" => designs.to_vec(),
            "others" => designs.iter().copied().filter(|design| *design != "rewo").collect(),
            _ => of.split(';').collect(),
        };
        let numbers =
            |text: &str| text.split(',').map(|n| n.parse().unwrap()).collect::<Vec<u64>>();
        let at = if at == "*" { threads.to_vec() } else { numbers(at) };
        for (d, design) in of.into_iter().enumerate() {
            for (c, case) in cases.split(';').enumerate() {
                for (t, threads) in at.iter().enumerate() {
                    for (k, keys) in numbers(keys).into_iter().enumerate() {
                        for metric in metrics.split(';') {
                            let (metric, value) = metric.split_once('=').unwrap();
                            let grown = 1.0 + (d as f64 * 4.0 + c as f64 + t as f64 * 2.0) / 20.0;
                            let grown = grown + (k % 3) as f64 / 50.0;
                            let value = value.parse::<f64>().unwrap() * grown;
                            let about =
                                About { table, design, case, threads: *threads as usize, keys };
                            report.rows.push(about.row(metric, &[value * 0.9, value, value * 1.4]));
                        }
                    }
                }
            }
        }
    }
    report
}

/// Enough of a parser to see that elements nest and that numbers are numbers.
fn well_formed(xml: &str) {
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

/// All designs, with figures for each number of threads and of all of them.
fn whole() -> Report {
    sample(&["reh", "esh", "rewo", "pea"], &[1, 2, 4])
}

/// The printed text of the report, and the words of its figures, as they were looked at: a change of either shows as
/// a difference of these files.
#[test]
fn text_and_figures_are_as_expected() {
    let mut text = Vec::new();
    whole().write_text(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut words = String::new();
    for figure in draw(&whole()) {
        well_formed(&figure.file());
        assert!(figure.file().contains("<style>") && !figure.inline().contains("<style>"));
        let texts = figure.inline().lines().filter(|line| line.starts_with("<text"));
        let texts: Vec<&str> = texts.map(|line| line.split(['<', '>']).nth(2).unwrap()).collect();
        words += &format!("{}: {}\n  {}\n", figure.name, figure.caption, texts.join(" | "));
    }
    for (found, expected, name) in [
        (text, include_str!("sample/text.txt"), "text.txt"),
        (words, include_str!("sample/figures.txt"), "figures.txt"),
    ] {
        if found != expected {
            let path = std::env::temp_dir().join(name);
            std::fs::write(&path, found).unwrap();
            panic!("it differs from src/sample/{name}: look at {}", path.display());
        }
    }
}

#[test]
fn one_design_has_figures_of_all_numbers_of_threads() {
    let figures = draw(&sample(&["reh"], &[1, 2]));
    let named = |name: &str| figures.iter().find(|figure| figure.name == name).unwrap().inline();
    for name in ["throughput", "latency", "ycsb", "durability"] {
        assert!(named(name).contains(">2 threads<"), "{name}");
    }
    assert!(figures.iter().all(|figure| !figure.name.starts_with("scaling")));
    // Names of others do no harm.
    let figures = draw(&sample(&["<b>&\"x\""], &[1]));
    figures.iter().for_each(|figure| well_formed(&figure.file()));
}

#[test]
fn missing_measurements_are_not_drawn() {
    assert!(draw(&Report::default()).is_empty() && tables(&Report::default()).is_empty());
    let mut report = whole();
    // One figure; its table, and the one that says which design opens soonest.
    report.rows.retain(|row| row.table == "recovery");
    assert_eq!((draw(&report).len(), tables(&report).len()), (1, 2));
}

#[test]
fn the_page_is_whole_and_needs_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("made");
    let report = whole();
    report.write_page(&dir).unwrap();
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    let page = read("report.html");
    assert_eq!(page, report.to_html());
    // The two elements of HTML that are never closed.
    let (head, body) = page.split_once("<title>").unwrap();
    assert_eq!(head.matches("<meta").count(), 2);
    well_formed(&format!("<html><head><title>{body}"));
    for part in ["Some &lt;CPU&gt; &amp; co", "optane is emulated", "no measurement"] {
        assert!(page.contains(part), "{part}");
    }
    for foreign in ["<script", "<link", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert!(Report::from_json(&read("report.json")).unwrap() == report);
    draw(&report)
        .iter()
        .for_each(|figure| assert_eq!(read(&format!("{}.svg", figure.name)), figure.file()));
    report.write_page(&dir).unwrap();
}

#[test]
fn json_comes_back_and_has_its_fields() {
    for emulates in [None, Some("cxl".to_owned())] {
        let mut report = whole();
        report.setup.emulates = emulates;
        // Not `assert_eq`, which would print all of it.
        assert!(Report::from_json(&report.to_json()).unwrap() == report);
    }
    assert_eq!(Report::from_json(&Report::default().to_json()).unwrap(), Report::default());
    // Other programs rely on these fields and types.
    let json: serde_json::Value = serde_json::from_str(&sample(&["reh"], &[1]).to_json()).unwrap();
    assert_eq!((&json["format"], &json["machine"]["cores"]), (&1.into(), &2.into()));
    assert_eq!(json["setup"]["commit"], "abcdef0");
    assert_eq!(json["setup"]["threads"], serde_json::json!([1]));
    let fields: Vec<&str> =
        json["rows"][0].as_object().unwrap().keys().map(String::as_str).collect();
    let expected = ["table", "design", "case", "threads", "keys", "metric", "value", "min", "max"];
    assert_eq!(fields, expected);
}

#[test]
fn other_json_is_refused_with_a_reason() {
    let good = sample(&["reh"], &[1]).to_json();
    for (from, to, reason) in [
        ("\"format\": 1", "\"format\": 2", "format is 2"),
        ("\"rows\"", "\"lines\"", "missing field `rows`"),
        ("\"cores\": 2", "\"cores\": \"two\"", "expected u64"),
        ("\"seed\": 42", "\"seed\": -1", "expected u64"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good);
        let e = Report::from_json(&bad).unwrap_err().to_string();
        assert!(e.contains(reason), "{e}");
    }
    assert!(Report::from_json("[]").is_err() && Report::from_json("").is_err());
}
