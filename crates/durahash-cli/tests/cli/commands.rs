//! Every command, its formats and its exit codes.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;

use durahash::{Design, Map, MultiMap, Options, SyncMode};
use serde_json::Value;

use crate::tool::{Work, answer};

#[test]
fn entries_are_put_found_and_removed() {
    let work = Work::new();
    assert_eq!(work.run("create a.pool").ok(), "");
    assert_eq!(work.run("put a.pool key value").ok(), "");
    assert_eq!(work.run("get a.pool key").ok(), "value\n");
    assert_eq!(work.run("put a.pool key other").ok(), "");
    assert_eq!(work.run("get a.pool key").ok(), "other\n");
    assert_eq!(work.feed("put a.pool second", b"from\nstdin\n").ok(), "");
    assert_eq!(work.run("get a.pool second").ok(), "from\nstdin\n\n");
    assert_eq!(work.run("get a.pool key second").ok(), "key\tother\nsecond\tfrom\\nstdin\\n\n");
    let some = work.run("get a.pool none key");
    assert_eq!((some.code, &some.out[..]), (Some(1), &b"key\tother\n"[..]));
    assert_eq!(work.run("del a.pool key").ok(), "");
    for line in ["get a.pool key", "del a.pool key"] {
        let absent = work.run(line);
        assert_eq!((absent.code, absent.err.as_str()), (Some(1), ""));
        assert!(absent.out.is_empty());
    }
}

#[test]
fn keys_and_values_are_any_bytes() {
    let work = Work::new();
    work.run("create a.pool").ok();
    let cases: [(&[u8], &[u8]); 4] =
        [(b"", b""), (b"#\xff\\n", b"a\tb\nc\r"), (b"-k", b"--json"), (b"\xf0", b"# \x01")];
    for (key, value) in cases {
        let [key, value] = [key, value].map(OsStr::from_bytes);
        work.run_args([OsStr::new("put"), "a.pool".as_ref(), "--".as_ref(), key, value]).ok();
    }
    for (key, value) in cases {
        let args = ["get", "a.pool", "--"].map(OsStr::new);
        let got = work.run_args(args.into_iter().chain([OsStr::from_bytes(key)]));
        assert_eq!(got.code, Some(0));
        assert_eq!(got.out, [value, b"\n"].concat());
    }
    let dump = work.run("dump a.pool");
    let lines: [&[u8]; 4] =
        [b"\t\n", b"-k\t--json\n", b"\\#\xff\\\\n\ta\\tb\\nc\\r\n", b"\xf0\t# \x01\n"];
    assert_eq!(dump.sorted_lines(), lines);
    work.feed("load b.pool", &dump.out).ok();
    assert_eq!(work.run("dump b.pool").sorted_lines(), lines);
}

#[test]
fn numbers_are_decimal() {
    let work = Work::new();
    work.run("create n.pool --codec u64 --design reh --kind map --max-size 10GiB").ok();
    work.run("put n.pool 0 18446744073709551615").ok();
    assert_eq!(work.run("get n.pool 0").ok(), "18446744073709551615\n");
    assert_eq!(work.run("dump n.pool").ok(), "0\t18446744073709551615\n");
    assert!(work.run("put n.pool x 1").failed(2).ends_with("\"x\" is not a valid u64"));
    assert!(work.run("get n.pool 18446744073709551616").failed(2).ends_with("is not a valid u64"));
    let load = work.feed("load n.pool", b"1\t2\n3\tx\n-1\t0\n4\t5");
    assert_eq!(load.code, Some(2));
    assert_eq!(
        load.err,
        "standard input:2: \"x\" is not a valid u64\nstandard input:3: \"-1\" is not a valid u64\n"
    );
    assert_eq!(work.run("dump n.pool").sorted_lines().len(), 3);
    assert_eq!(work.run("get n.pool 4").ok(), "5\n");
}

#[test]
fn a_load_leaves_bad_lines_out_and_says_which() {
    let work = Work::new();
    let mut text = b"# comment\na\t1\nno tab\n\nb\t\\x\n\\#c\tx\ty\r\na\t2\nd\\\t\n".to_vec();
    let long = vec![b'k'; (1 << 20) + 1];
    text.extend([&long, &b"\tv\n"[..]].concat());
    text.extend([&long, &long, &b"\tv\nlast\t"[..]].concat());
    work.write("in.tsv", text);
    let load = work.run("load a.pool in.tsv");
    assert_eq!(load.code, Some(2));
    let out = String::from_utf8(load.out).unwrap();
    let counts = "entries loaded: 4, comments skipped: 1, bad lines left out: 6 (";
    assert!(out.starts_with(counts), "{out}");
    let wanted = [
        "in.tsv:3: no tab between key and value",
        "in.tsv:4: no tab between key and value",
        r"in.tsv:5: \x is not an escape (a backslash is written \\)",
        r"in.tsv:8: a single backslash at the end (it is written \\)",
        "in.tsv:10: the key is too large",
        "in.tsv:9: the key has 1048577 bytes, the limit is 1048576",
    ];
    let mut found: Vec<_> = load.err.lines().collect();
    found.sort_by_key(|line| wanted.iter().position(|wanted| wanted == line));
    assert_eq!(found, wanted);
    let dump = work.run("dump a.pool");
    let lines: [&[u8]; 3] = [b"\\#c\tx\\ty\n", b"a\t2\n", b"last\t\n"];
    assert_eq!(dump.sorted_lines(), lines);
}

#[test]
fn compressed_files_are_loaded() {
    let work = Work::new();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(b"a\t1\nb\t2\n").unwrap();
    let gz = gz.finish().unwrap();
    work.write("in.tsv.gz", &gz);
    work.run("load a.pool in.tsv.gz").ok();
    assert_eq!(work.run("get a.pool b").ok(), "2\n");

    work.write("cut.gz", &gz[..gz.len() - 4]);
    let complaint = work.run("load b.pool cut.gz").failed(4);
    assert!(complaint.starts_with("reading cut.gz: "), "{complaint}");
    assert!(complaint.contains("at least 2 entries were loaded and stay"), "{complaint}");
    assert!(!complaint.contains("again"), "{complaint}");
    assert_eq!(work.run("get b.pool b").ok(), "2\n");
    work.write("no.gz", "a\t1\n");
    let complaint = work.run("load c.pool no.gz").failed(4);
    assert!(complaint.starts_with("reading no.gz: "), "{complaint}");
    assert!(!complaint.contains("loaded"), "{complaint}");
    assert!(!work.path("c.pool").exists(), "nothing to load, no pool");

    // Whatever it is called, and wherever it comes from.
    work.write("in.tsv", &gz);
    work.run("load d.pool in.tsv").ok();
    assert_eq!(work.run("get d.pool b").ok(), "2\n");
    work.feed("load e.pool", &gz).ok();
    assert_eq!(work.run("get e.pool b").ok(), "2\n");
    work.feed("load e.pool", &gz[..12]).failed(4);
    // But not a dump that looks like it.
    work.feed("load f.pool", b"#\n\x1f\x8b\x08\t1\n").ok();
    let dump = work.run("dump f.pool");
    assert_eq!(dump.out, b"#\n\x1f\x8b\x08\t1\n");
    work.feed("load g.pool", &dump.out).ok();
    assert_eq!(work.run("dump g.pool").out, dump.out);
}

#[test]
fn not_every_bad_line_is_named() {
    let work = Work::new();
    let load = work.feed("load a.pool", "bad\n".repeat(100).as_bytes());
    assert_eq!(load.code, Some(2));
    let lines: Vec<_> = load.err.lines().collect();
    assert_eq!(lines.len(), 21);
    assert_eq!(lines[19], "standard input:20: no tab between key and value");
    assert_eq!(lines[20], "standard input: 80 more bad lines are not named");
    assert!(
        load.out.starts_with(b"entries loaded: 0, comments skipped: 0, bad lines left out: 100")
    );
}

#[test]
fn a_load_agrees_with_the_pool_that_is_there() {
    let work = Work::new();
    work.feed("load n.pool - --codec u64", b"1\t1\n").ok();
    work.feed("load n.pool", b"2\t2\n").ok();
    work.feed("load n.pool --codec u64 --design reh", b"3\t3\n").ok();
    work.feed("load n.pool --codec bytes", b"4\t4\n").complains(2, "keys of u64 and values of u64");
    assert_eq!(work.run("dump n.pool").sorted_lines().len(), 3);

    // A pool has whole extents, so this is more than it has.
    for _ in 0..2 {
        work.feed("load a.pool - --max-size 10000000", b"1\t1\n").ok();
    }
    work.run("create a.pool --map m --max-size 10000000").ok();
    work.feed("load n.pool - --max-size 1GiB", b"4\t4\n").complains(2, "without --max-size; leave");
    for line in ["load a.pool - --max-size 2MiB", "create a.pool --map o --max-size 2MiB"] {
        work.feed(line, b"4\t4\n").complains(2, "exists, with --max-size 9961472; ");
    }
    assert_eq!(work.run("maps a.pool").ok().lines().count(), 2);
}

#[test]
fn dump_stops_at_the_limit_and_when_nobody_reads() {
    let work = Work::new();
    let text: String = (0..50_000).map(|i| format!("key {i}\tvalue {i}\n")).collect();
    work.feed("load a.pool -", text.as_bytes()).ok();
    let few = work.run("dump a.pool --limit 3").ok();
    assert_eq!(few.lines().count(), 3);
    assert!(work.run("dump a.pool").ok().starts_with(&few));
    assert_eq!(work.run("dump a.pool --limit 0").ok(), "");

    let mut child = work.start("dump a.pool");
    drop(child.stdout.take());
    let closed = answer(child);
    assert_eq!((closed.code, closed.err.as_str()), (Some(0), ""));
    for line in ["get a.pool key\u{a0}1", "stats a.pool", "check a.pool", "completions bash"] {
        // The key's name has a space, which separates words here.
        let args = line.split(' ').map(|word| word.replace('\u{a0}', " "));
        let mut child = work.command(args).spawn().unwrap();
        drop(child.stdout.take());
        let closed = answer(child);
        assert_eq!((closed.code, closed.err.as_str()), (Some(0), ""), "{line}");
    }
}

#[test]
fn readers_share_a_pool() {
    let work = Work::new();
    let text: String = (0..50_000).map(|i| format!("{i}\tvalue {i}\n")).collect();
    work.feed("load a.pool", text.as_bytes()).ok();
    // More than a pipe holds, so it has the pool open until its output is read.
    let dump = work.start("dump a.pool");
    assert_eq!(work.run("get a.pool 7").ok(), "value 7\n");
    work.run("check a.pool").ok();
    let dump = answer(dump);
    assert_eq!(dump.sorted_lines().len(), 50_000);
}

#[test]
fn a_pool_of_a_running_process_is_read() {
    read_beside(&Options::new().sync_mode(SyncMode::Process), "reh");
    read_beside(&Options::new().sync_mode(SyncMode::INTERVAL).live_image(true), "reh");
    read_beside(&Options::new().sync_mode(SyncMode::Process).design(Design::Rewo), "rewo");
}

fn read_beside(options: &Options, design: &str) {
    let work = Work::new();
    let path = work.path("a.pool");
    let options = options.clone().readers(true);
    let map: Map<str, u64> = options.create(&path).unwrap();
    map.put("key", &7).unwrap();
    assert_eq!(work.run("get a.pool key").ok(), "7\n");
    map.put("key", &8).unwrap();
    assert_eq!(work.run("dump a.pool").ok(), "key\t8\n");
    assert!(work.run("check a.pool").ok().contains('1'));
    assert!(work.run("stats a.pool").ok().contains(design));
    assert!(work.run("backup a.pool b.pool").ok().ends_with("a backup of a.pool\n"));
    assert_eq!(work.run("dump b.pool").ok(), "key\t8\n");
    assert_eq!(work.run("put a.pool key 9").code, Some(5));
    assert_eq!(map.get("key").unwrap(), Some(8));
    map.close().unwrap();
    assert_eq!(work.run("get a.pool key").ok(), "8\n");

    let map: MultiMap<str, u64> = options.design(Design::Pea).create(work.path("m.pool")).unwrap();
    (0..40).for_each(|value| map.add("key", &value).unwrap());
    assert_eq!(work.run("get m.pool key").sorted_lines().len(), 40);
    assert!(map.remove_one("key", &0).unwrap());
    let mut lines: Vec<String> = (1..40).map(|value| format!("key\t{value}\n")).collect();
    lines.sort();
    let dump = work.run("dump m.pool");
    assert!(dump.sorted_lines().into_iter().eq(lines.iter().map(String::as_bytes)));
    work.run("check m.pool").ok();
    assert!(work.run("stats m.pool").ok().contains("entries           39\n"));
}

#[test]
fn figures_are_printed() {
    let work = Work::new();
    let text: String = (0..10_000).map(|i| format!("{i}\t{i}\n")).collect();
    work.feed("load n.pool - --codec u64", text.as_bytes()).ok();
    let stats = work.run("stats n.pool --json").json();
    let names: Vec<_> = stats.as_object().unwrap().keys().map(String::as_str).collect();
    let wanted = [
        "pool",
        "design",
        "kind",
        "key_type",
        "value_type",
        "keys",
        "load_factor",
        "global_depth",
        "depths",
        "bytes_per_entry",
        "file_bytes",
        "disk_bytes",
        "free_bytes",
        "max_bytes",
        "check_bytes",
        "blocks",
        "durability",
        "mode",
        "huge_page_bytes",
        "open_epoch",
        "open_seconds",
        "recovered",
        "suspect",
    ];
    assert_eq!(names, wanted);
    assert_eq!(stats["pool"], "n.pool");
    assert_eq!(stats["design"], "reh");
    assert_eq!(stats["key_type"], "u64");
    assert_eq!(stats["keys"], 10_000);
    assert!((0.6..0.8).contains(&stats["load_factor"].as_f64().unwrap()));
    assert_eq!(stats["file_bytes"], work.path("n.pool").metadata().unwrap().len());
    assert!(stats["disk_bytes"].as_u64().unwrap() > 0);
    assert!(stats["bytes_per_entry"]["medium"].as_f64().unwrap() >= 16.0);
    assert!(stats["bytes_per_entry"]["dram"].as_f64().unwrap() > 0.0);
    assert_eq!(stats["suspect"], false);
    let units: u64 =
        stats["depths"].as_array().unwrap().iter().map(|d| d["units"].as_u64().unwrap()).sum();
    assert!(units > 10_000 / 15);

    let text = work.run("stats n.pool").ok();
    for start in [
        "pool              n.pool\n",
        "keys              10000\n",
        "load factor       0.",
        "durability        ",
        "opened in         ",
        "local depths ",
    ] {
        assert!(
            text.lines().any(|line| format!("{line}\n").starts_with(start)),
            "{start}:\n{text}"
        );
    }
}

/// The entries that a load has read when it is interrupted stay, and it says how many they are.
#[test]
fn an_interrupted_load_says_what_it_stored() {
    let text: String = (0..300_000).map(|i| format!("{i}\tvalue\n")).collect();
    for signal in ["-INT", "-TERM"] {
        let work = Work::new();
        let mut load = work.start("load a.pool");
        // More than pipe, buffers and a batch have room for, so that some is stored; then it waits for the rest.
        load.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
        let input = load.stdin.take();
        Command::new("kill").args([signal, &load.id().to_string()]).status().unwrap();
        let said = answer(load).failed(130);
        drop(input);
        let stats = work.run("stats a.pool --json").json();
        let keys = stats["keys"].as_u64().unwrap();
        assert!(keys > 0 && stats["recovered"] == false, "{stats}");
        let stay = format!("interrupted; at least {keys} entries were loaded and stay");
        assert_eq!(said, stay + ", load again for the rest");
    }
    let work = Work::new();
    let said = work.feed("load a.pool --json", b"# comment\na\t1\nb").value();
    let figures = ["loaded", "comments", "left_out"].map(|name| said[name].as_u64());
    assert_eq!(figures, [Some(1), Some(1), Some(1)]);
}

#[test]
fn a_pool_keeps_the_durability_that_it_was_made_with() {
    let work = Work::new();
    work.run("create a.pool --durability strict").ok();
    work.run("put a.pool key value").ok();
    work.run("put a.pool other value --durability interval:50").ok();
    work.run("del a.pool other --durability process").ok();
    assert_eq!(work.run("get a.pool key").ok(), "value\n");
    let stats = work.run("stats a.pool --json").json();
    assert_eq!((&stats["mode"], &stats["durability"]), (&"strict".into(), &"strict".into()));
    let answer = work.run("create b.pool --durability often");
    assert_eq!(answer.code, Some(2));
    assert!(answer.err.contains("interval:MILLISECONDS"), "{answer:?}");
}

#[test]
fn a_sound_pool_passes_the_check_and_stays_as_it_is() {
    let work = Work::new();
    work.feed("load a.pool", b"a\t1\nb\t2\n").ok();
    let before = std::fs::read(work.path("a.pool")).unwrap();
    assert_eq!(work.run("check a.pool").ok(), "a.pool: ok, 2 keys\n");
    let check = work.run("check a.pool --json").json();
    let blocks = check["blocks"].clone();
    assert!(blocks["of"].as_u64().unwrap() > 0 && blocks["of"] == blocks["verified"], "{check}");
    let wanted = serde_json::json!({
        "pool": "a.pool", "ok": true, "keys": 2, "suspect": false, "blocks": blocks, "findings": [],
    });
    assert_eq!(check, wanted);
    assert_eq!(work.run("get a.pool a --verify").ok(), "1\n");
    assert_eq!(std::fs::read(work.path("a.pool")).unwrap(), before);
}

#[test]
fn a_backup_has_every_map_and_takes_no_name_that_is_there() {
    let work = Work::new();
    work.feed("load a.pool", b"a\t1\nb\t2\n").ok();
    work.feed("load a.pool --map more --kind multimap", b"c\t3\nc\t4\n").ok();
    let said = work.run("backup a.pool b.pool").ok();
    let bytes = work.path("b.pool").metadata().unwrap().len();
    assert!(said.starts_with(&format!("b.pool: {bytes} bytes (")), "{said}");
    assert!(said.ends_with(", a backup of a.pool\n"), "{said}");
    let refused = work.run("backup a.pool b.pool").failed(2);
    assert!(refused.starts_with("b.pool: the file already exists"), "{refused}");
    let wanted = serde_json::json!({ "pool": "b.pool", "backup": "c.pool", "bytes": bytes });
    assert_eq!(work.run("backup b.pool c.pool --json").json(), wanted);
    work.run("check c.pool").ok();
    for map in ["main", "more"] {
        let dump = |pool| work.run(&format!("dump {pool} --map {map}"));
        assert_eq!(dump("c.pool").sorted_lines(), dump("a.pool").sorted_lines());
    }
}

#[test]
fn a_compacted_pool_is_smaller_and_has_everything() {
    let work = Work::new();
    let value = "x".repeat(100);
    let text: String = (0..50_000).map(|i| format!("{i}\t{value}\n")).collect();
    work.feed("load a.pool", text.as_bytes()).ok();
    // Values of another size: the space of the old ones stays in the file.
    let text: String = (0..50_000).map(|i| format!("{i}\t{i}\n")).collect();
    work.feed("load a.pool", text.as_bytes()).ok();
    let size = || work.path("a.pool").metadata().unwrap().len();
    let before = size();
    let said = work.run("compact a.pool").ok();
    let after = size();
    assert!(after < before, "{said}");
    work.run("compact a.pool --to b.pool").ok();
    assert_eq!(work.run("dump b.pool").sorted_lines(), work.run("dump a.pool").sorted_lines());
    let refused = work.run("compact a.pool --to b.pool").failed(2);
    assert!(refused.starts_with("b.pool: the file already exists"), "{refused}");
    let wanted = format!("a.pool: {before} bytes before, {after} bytes after (");
    assert!(said.starts_with(&wanted), "{said}");
    let dump = work.run("dump a.pool");
    let mut lines: Vec<_> = text.split_inclusive('\n').map(str::as_bytes).collect();
    lines.sort();
    assert_eq!(dump.sorted_lines(), lines);
}

#[test]
fn scripts_for_shells_are_printed() {
    let work = Work::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(work.run(&format!("completions {shell}")).ok().contains("durahash"));
    }
}

#[test]
fn wrong_usage_says_what_is_right() {
    let work = Work::new();
    for (line, wanted) in [
        ("nonsense", "unrecognized subcommand"),
        ("get a.pool", "<KEY>"),
        ("create a.pool --design none", "the designs are reh"),
        ("create a.pool --codec text", "bytes, u64"),
        ("create a.pool --max-size 10", "128 KiB"),
        ("create a.pool --expiry --max-entries 0", "--max-entries"),
        ("create a.pool --max-size 10Gb", "KiB, MiB, GiB or TiB"),
        ("create a.pool --max-size 1EiB", "256TiB"),
        ("create a.pool --kind multimap --design reh", "no --kind multimap"),
        ("completions tcsh", "bash"),
    ] {
        let answer = work.run(line);
        assert_eq!(answer.code, Some(2), "{line}: {answer:?}");
        assert!(answer.err.contains(wanted), "{line}: {answer:?}");
        assert!(!work.path("a.pool").exists());
    }
    assert!(work.run("--help").ok().contains("Exit codes"));
    assert!(work.run("--version").ok().starts_with("durahash "));
}

#[test]
fn a_benchmark_prints_tables_and_saves_what_it_measured() {
    let work = Work::new();
    std::fs::create_dir(work.path("pools")).unwrap();
    let text =
        work.run("bench --keys 1000 --threads 1 --pool pools --json out.json --report page").ok();
    for part in ["In short", "GB to files", "Recovery after kill -9"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let json = std::fs::read_to_string(work.path("out.json")).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json.is_object());
    assert!(work.path("page/report.html").exists());
    let left = std::fs::read_dir(work.path("pools")).unwrap().count();
    assert_eq!(left, 0, "the pools are removed");

    let absurd = format!("bench --threads {}", usize::MAX);
    for line in ["bench --keys 1", "bench --threads 0", "bench --threads 1,257", &absurd] {
        let complaint = work.run(line).failed(2);
        assert!(complaint.starts_with("the benchmark cannot be run so: "));
    }
    for line in [
        "bench --keys 1 --json left.json --report left/page",
        "bench --pool none --json left.json --report left/page",
        "bench --json left.json --report /dev/null/page",
    ] {
        assert_ne!(work.run(line).code, Some(0));
        assert!(!work.path("left.json").exists() && !work.path("left").exists(), "{line}");
    }
    for line in ["bench --json no/out.json", "bench --report /dev/null/page"] {
        assert!(work.run(line).failed(4).starts_with("writing "), "{line}");
    }
    assert_eq!(work.run("bench --emulate fast").code, Some(2));
    assert_eq!(work.run("bench --suite none").code, Some(2));
    assert_eq!(work.run("bench --all --design reh").code, Some(2));
}

#[test]
fn benchmarks_of_other_suites_print_their_tables() {
    let work = Work::new();
    std::fs::write(work.path("edges.tsv"), "# of\n1\t2\n1\t3\n2\t1\n".repeat(50)).unwrap();
    let line = "bench --suite duplicates,sizes,stall --graph edges.tsv --keys 1000 --threads 1 \
                --medium dram --json out.json";
    let text = work.run(line).ok();
    for part in ["graph edges", "pea", "Latency by keys in the table", "beside inserts"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(!text.contains("Recovery"), "{text}");
    assert!(work.path("out.json").exists());
    for (line, why) in [
        ("bench --graph edges.tsv", "suite duplicates"),
        ("bench --suite recovery --medium dram", "do not survive"),
        ("bench --suite duplicates --durability strict", "no log"),
        ("bench --suite durability --medium dram", "pools in memory have no modes"),
        ("bench --suite durability --durability strict", "every mode"),
        ("bench --suite duplicates --design reh", "multimaps"),
    ] {
        work.run(line).complains(2, why);
    }
    let missing = "bench --suite duplicates --keys 1000 --medium dram --graph none.tsv";
    assert!(work.run(missing).failed(4).contains("none.tsv"));
}

#[test]
fn a_pool_has_several_maps() {
    let work = Work::new();
    assert_eq!(work.run("create a.pool --map users").ok(), "");
    assert_eq!(work.run("create a.pool --map hits --codec u64 --design esh").ok(), "");
    work.feed("load a.pool --map edges --kind multimap --codec u64", b"1\t2\n1\t3\n").ok();
    work.feed("load a.pool --map edges", b"1\t4\n").ok();
    work.run("put a.pool Ada 36 --map users").ok();
    assert_eq!(work.run("get a.pool Ada --map users").ok(), "36\n");
    assert!(work.run("create a.pool --map users").failed(2).contains("named \"users\" already"));
    assert!(work.run("get a.pool Ada").failed(2).contains("no map named \"main\""));
    assert!(
        work.run("get a.pool Ada --map x")
            .failed(2)
            .ends_with("`durahash maps a.pool` lists its maps")
    );
    work.feed("load a.pool --map edges --kind map", b"1\t2\n").failed(2);
    assert_eq!(work.run("maps a.pool").ok().lines().count(), 3);
    let maps: Value = serde_json::from_str(&work.run("maps a.pool --json").ok()).unwrap();
    let facts = |i: usize| (maps[i]["name"].as_str(), maps[i]["entries"].as_u64());
    assert_eq!([facts(0), facts(1)], [(Some("users"), Some(1)), (Some("hits"), Some(0))]);
    assert_eq!((facts(2), maps[2]["kind"].as_str()), ((Some("edges"), Some(3)), Some("multimap")));

    work.run("maps a.pool rename users people").ok();
    work.run("maps a.pool remove hits").ok();
    assert!(work.run("maps a.pool remove hits").failed(2).contains("no map named \"hits\""));
    assert_eq!(work.run("check a.pool").ok(), "a.pool: ok, 4 entries in 2 maps\n");
    assert!(work.run("compact a.pool").ok().starts_with("a.pool: "));
    assert_eq!(work.run("dump a.pool --map people").ok(), "Ada\t36\n");
    assert_eq!(work.run("dump a.pool --map edges").sorted_lines().len(), 3);
    let stats: Value =
        serde_json::from_str(&work.run("stats a.pool --map people --json").ok()).unwrap();
    assert_eq!(stats["keys"], 1);
    work.run("del a.pool 1 2 --map edges").ok();
    assert_eq!(work.run("get a.pool 1 --map edges").ok().lines().count(), 2);

    // A map of its own, and others beside it.
    work.run("create b.pool").ok();
    work.run("put b.pool key value").ok();
    work.run("create b.pool --map other").ok();
    assert_eq!(work.run("get b.pool key").ok(), "value\n");
    let dump = work.run("dump b.pool");
    assert_eq!((dump.code, &dump.out[..]), (Some(0), &b"key\tvalue\n"[..]));
    assert!(dump.err.contains("--map dumps one of the others: other"), "{}", dump.err);
    work.run("compact b.pool").ok();
    assert_eq!(work.run("check b.pool").ok(), "b.pool: ok, 1 keys in 2 maps\n");
    assert!(work.run("maps b.pool remove main").failed(2).contains("cannot be renamed or removed"));
}
