//! Kills, locks, full media, damage: the exit code, the message, and what stays.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Child, Command};

use durahash::{AnyMap, Options};
use serde_json::Value;

use crate::tool::{Work, answer, command_in};

/// Waits until `done`; fails where `child` ends before.
fn wait_until(child: &mut Child, done: impl Fn() -> bool) {
    while !done() {
        assert!(child.try_wait().unwrap().is_none(), "the command ended too early");
        std::thread::yield_now();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Starts to load lines without end, and kills the command when its pool has grown to `bytes`.
/// Line `i` is `key(i)` and `value(i)`.
fn load_and_kill(work: &Work, pool: &str, bytes: u64) {
    // Without a log, whose bytes would count.
    let mut child = work.start(&format!("load {pool} - --durability process"));
    let mut stdin = BufWriter::new(child.stdin.take().unwrap());
    let path = work.path(pool);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Until the command is dead.
            (0..).try_for_each(|i| writeln!(stdin, "{}\t{}", key(i), value(i))).unwrap_err();
        });
        wait_until(&mut child, || fs::metadata(&path).is_ok_and(|m| m.len() >= bytes));
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

fn key(i: u64) -> String {
    format!("key {i}")
}

fn value(i: u64) -> String {
    format!("value {}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

#[test]
fn a_killed_load_leaves_all_that_came_before() {
    let work = Work::new();
    let first: BTreeMap<_, _> = (0..5000).map(|i| (format!("first {i}"), value(i))).collect();
    let text: String = first.iter().map(|(k, v)| format!("{k}\t{v}\n")).collect();
    work.feed("load a.pool", text.as_bytes()).ok();
    let mut bytes = fs::metadata(work.path("a.pool")).unwrap().len();
    for round in 0..3 {
        bytes += 2 << 20;
        load_and_kill(&work, "a.pool", bytes);
        let before = fs::read(work.path("a.pool")).unwrap();
        assert!(work.run("check a.pool").ok().starts_with("a.pool: ok, "));
        assert!(before == fs::read(work.path("a.pool")).unwrap(), "a check changes nothing");

        let map = Options::new().read_only(true).open::<AnyMap>(work.path("a.pool")).unwrap();
        for (k, v) in &first {
            assert_eq!(map.get(k.as_bytes()).unwrap().as_deref(), Some(v.as_bytes()), "{round}");
        }
        // The load puts its lines in order, so the first of them are there.
        let loaded = map.len().unwrap() - first.len() as u64;
        assert!(loaded > 1000, "{loaded}");
        for i in 0..loaded {
            let got = map.get(key(i).as_bytes()).unwrap();
            assert_eq!(got.as_deref(), Some(value(i).as_bytes()), "{i} of {loaded}, {round}");
        }
    }
    // Another load completes the one that was cut short.
    let map = Options::new().read_only(true).open::<AnyMap>(work.path("a.pool")).unwrap();
    let all = map.len().unwrap() - first.len() as u64 + 1000;
    drop(map);
    let text: String = (0..all).map(|i| format!("{}\t{}\n", key(i), value(i))).collect();
    work.feed("load a.pool", text.as_bytes()).ok();
    let keys = all + first.len() as u64;
    assert_eq!(work.run("check a.pool").ok(), format!("a.pool: ok, {keys} keys\n"));
}

#[test]
fn a_pool_is_written_by_one() {
    let work = Work::new();
    let mut child = work.start("load a.pool -");
    wait_until(&mut child, || work.path("a.pool").exists());
    let lines = [
        "put a.pool a 1",
        "get a.pool a",
        "del a.pool a",
        "load a.pool -",
        "dump a.pool",
        "stats a.pool --json",
        "check a.pool --json",
        "backup a.pool b.pool",
        "compact a.pool",
    ];
    for line in lines {
        let complaint = work.run(line).failed(5);
        // A compaction follows links, so it names the file that they lead to.
        assert!(complaint.contains("a.pool: another process"), "{line}: {complaint}");
        assert!(complaint.contains("try again"), "{line}: {complaint}");
    }
    assert!(work.run("create a.pool").failed(2).contains("already exists"));
    child.stdin.take().unwrap().write_all(b"a\t1\n").unwrap();
    answer(child).ok();
    assert_eq!(work.run("get a.pool a").ok(), "1\n");
}

/// Loads more than fits into `pool` and checks the entries that stay.
fn fill(work: &Work, dir: &Path, advice: &str) {
    let run = |line: &str| answer(command_in(dir, line.split(' ')).spawn().unwrap());
    let text: String = (0..200_000).map(|i| format!("{}\t{}\n", key(i), value(i))).collect();
    work.write("more.tsv", text);
    let file = work.path("more.tsv");
    let complaint = run(&format!("load a.pool {}", file.to_str().unwrap())).failed(4);
    assert!(complaint.starts_with("a.pool: no space for "), "{complaint}");
    assert!(complaint.contains(advice), "{complaint}");
    assert!(complaint.ends_with(" entries were loaded and stay"), "{complaint}");

    let keys = Options::new().read_only(true).open::<AnyMap>(dir.join("a.pool")).unwrap().len();
    let keys = keys.unwrap();
    assert!((1000..200_000).contains(&keys), "{keys}");
    // There may be no room for check words.
    let check = run("check a.pool").ok();
    assert!(check.starts_with(&format!("a.pool: ok, {keys} keys\n")), "{check}");
    let dump = run("dump a.pool").ok();
    let dump: BTreeMap<_, _> = dump.lines().map(|line| line.split_once('\t').unwrap()).collect();
    for i in 0..keys {
        assert_eq!(dump.get(key(i).as_str()).copied(), Some(value(i).as_str()));
    }
    // A full pool can be read, and emptied.
    assert_eq!(
        run(&format!("put a.pool {} {}", "k", "v".repeat(1 << 20).get(..90_000).unwrap())).code,
        Some(4)
    );
    let removed = answer(command_in(dir, ["del", "a.pool", &key(1)]).spawn().unwrap());
    removed.ok();
    let again = answer(command_in(dir, ["del", "a.pool", &key(1)]).spawn().unwrap());
    assert_eq!(again.code, Some(1));
}

#[test]
fn a_pool_at_its_limit_keeps_what_it_has() {
    let work = Work::new();
    work.run("create a.pool --max-size 4MiB").ok();
    let dir = work.path("");
    fill(&work, &dir, "into one with a larger --max-size; ");
}

/// A file system that is unmounted in the end.
struct Mount(std::path::PathBuf);

impl Mount {
    /// A small one in memory, where the system lets us.
    fn tmpfs(at: &Path) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let options = ["-t", "tmpfs", "-o", "size=4m", "tmpfs"];
        let done = Command::new("mount").args(options).arg(at).output();
        done.is_ok_and(|done| done.status.success()).then(|| Mount(at.to_path_buf()))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let done = Command::new("umount").arg(&self.0).status();
        assert!(done.is_ok_and(|done| done.success()) || std::thread::panicking());
    }
}

#[test]
fn a_full_file_system_keeps_what_it_has() {
    let work = Work::new();
    let dir = work.path("small");
    let Some(mount) = Mount::tmpfs(&dir) else {
        println!("no file system can be mounted here: only a size limit was tested");
        return;
    };
    let text: String = (0..100_000).map(|i| format!("{}\t{}\n", key(i), value(i))).collect();
    work.feed("load large.pool", text.as_bytes()).ok();
    let complaint = work.run("backup large.pool small/backup.pool").failed(4);
    assert!(complaint.ends_with("; nothing of the backup is left"), "{complaint}");
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    fill(&work, &dir, "; make space on the file system; ");
    let node = "node --listen 127.0.0.1:0 --size 64MiB --fabric local:small/node";
    work.run(node).complains(4, "the disk is full, or a quota is reached; lend less with --size");
    drop(mount);
}

/// A page of the index that is gone takes entries with it of which nothing is left: a dump says so.
#[test]
fn a_dump_that_damage_makes_incomplete_says_so() {
    const PAGE: usize = 4096;
    let work = Work::new();
    work.run("create a.pool --design pea --codec u64 --durability process").ok();
    let text: String = (0..5000).map(|i| format!("{i}\t{i}\n")).collect();
    work.feed("load a.pool", text.as_bytes()).ok();
    work.run("dump a.pool").ok();
    let mut bytes = fs::read(work.path("a.pool")).unwrap();
    // The kinds of extents stand in the second half of the first one; 2 is that of units.
    let extent_bytes = 1 << bytes[40];
    let extent = bytes[extent_bytes / 2..].iter().position(|kind| *kind == 2).unwrap();
    bytes[extent * extent_bytes..][..PAGE].fill(0);
    work.write("a.pool", &bytes);
    let dump = work.run("dump a.pool");
    assert_eq!(dump.code, Some(3), "{dump:?}");
    assert!(dump.err.contains("entries may be missing: `durahash check a.pool`"), "{dump:?}");
}

#[test]
fn other_files_are_not_touched() {
    let work = Work::new();
    fs::create_dir(work.path("directory")).unwrap();
    work.write("empty", "");
    work.write("text", "a text\n".repeat(10_000));
    work.feed("load cut", b"a\t1\n").ok();
    let whole = fs::read(work.path("cut")).unwrap();
    work.write("cut", &whole[..whole.len() / 2]);
    let mut header = whole.clone();
    header[16] ^= 0xff;
    work.write("header", &header);
    for (name, wanted) in [
        ("directory", "it is a directory"),
        ("empty", "it is empty"),
        ("text", "not a durahash pool"),
        ("cut", "it was cut or copied incompletely"),
        ("header", "the pool is damaged: "),
    ] {
        let before = fs::read(work.path(name)).ok();
        let resolved = work.path(name).canonicalize().unwrap();
        for command in ["get", "put", "del", "load", "dump", "stats", "check", "backup", "compact"]
        {
            let rest = match command {
                "get" | "del" => " a",
                "put" => " a b",
                "load" => " -",
                "backup" => " backup.pool",
                _ => "",
            };
            let complaint = work.run(&format!("{command} {name}{rest}")).failed(3);
            // A compaction follows links, so it names the file that they lead to.
            let file = if command == "compact" { &resolved } else { Path::new(name) };
            assert!(complaint.starts_with(file.to_str().unwrap()), "{command}: {complaint}");
            assert!(complaint.contains(wanted), "{command}: {complaint}");
        }
        let check = work.run(&format!("check {name} --json"));
        assert_eq!((check.code, check.err.as_str()), (Some(3), ""));
        let check = check.value();
        assert_eq!(check["ok"], false);
        assert!(check["error"].as_str().unwrap().contains(wanted));
        assert_eq!(fs::read(work.path(name)).ok(), before);
    }
}

#[test]
fn missing_files_are_named() {
    let work = Work::new();
    for line in ["get a.pool a", "put a.pool a b", "dump a.pool", "compact a.pool"] {
        work.run(line).complains(4, "`durahash create a.pool` makes a new pool");
    }
    assert!(work.run("load a.pool none.tsv").failed(4).starts_with("reading none.tsv: "));
    assert!(work.run("load a.pool .").failed(4).starts_with("reading .: "));
    assert!(!work.path("a.pool").exists(), "nothing to load, no pool");
    work.run("create b.pool --durability interval --live-image").ok();
    for line in [
        "create none/a.pool",
        "load none/a.pool -",
        "compact b.pool --to none/c.pool",
        "backup b.pool none/c.pool",
        "put b.pool a b --live-dir none",
    ] {
        let complaint = work.run(line).failed(4);
        assert!(complaint.ends_with("; check that its directory exists"), "{complaint}");
    }
}

#[test]
fn an_output_that_takes_nothing_is_an_error() {
    let work = Work::new();
    work.feed("load a.pool", b"a\t1\n").ok();
    for line in ["get a.pool a", "dump a.pool", "stats a.pool", "check a.pool", "completions zsh"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let child = work.command(line.split(' ')).stdout(full).spawn().unwrap();
        assert!(answer(child).failed(4).starts_with("writing the output: "), "{line}");
    }
}

#[test]
fn damage_is_found_and_the_rest_is_saved() {
    let work = Work::new();
    let text: String = (0..1000).map(|i| format!("{i}\tthe value of {i}.\n")).collect();
    // Without a log, which would have the value a second time.
    work.feed("load a.pool --durability process", text.as_bytes()).ok();
    let mut bytes = fs::read(work.path("a.pool")).unwrap();
    let wanted = b"the value of 77.";
    let at = bytes.windows(wanted.len()).position(|w| w == wanted).unwrap();
    bytes[at] ^= 1;
    work.write("a.pool", &bytes);

    let check = work.run("check a.pool");
    assert_eq!((check.code, check.err.as_str()), (Some(3), ""));
    let out = String::from_utf8(check.out).unwrap();
    assert!(out.starts_with("a.pool: REC-1 at offset 0x"), "{out}");
    let check = work.run("check a.pool --json");
    assert_eq!(check.code, Some(3));
    let check = check.value();
    assert_eq!(check["ok"], false);
    let finding = check["findings"][0].as_object().unwrap();
    assert_eq!(finding.keys().collect::<Vec<_>>(), ["invariant", "offset", "what"]);
    let off = finding["offset"].as_u64().unwrap() as usize;
    assert!((at - 64..at).contains(&off), "{off} is the record's, its value is at {at}");

    assert!(work.run("get a.pool 77").failed(3).contains("`durahash dump a.pool` saves"));
    assert_eq!(work.run("get a.pool 78").ok(), "the value of 78.\n");
    let dump = work.run("dump a.pool");
    assert_eq!(dump.code, Some(3));
    assert!(dump.err.starts_with("durahash: a.pool: left out: "), "{}", dump.err);
    let mut lines: Vec<_> = text.split_inclusive('\n').map(str::as_bytes).collect();
    lines.retain(|line| !line.starts_with(b"77\t"));
    lines.sort();
    assert_eq!(dump.sorted_lines(), lines);
    assert!(fs::read(work.path("a.pool")).unwrap() == bytes, "readers change nothing");
    assert!(work.run("compact a.pool").failed(3).starts_with("a.pool: "));
}

/// A pool that was killed is written, too, where its live image is not beside it.
#[test]
fn a_live_image_in_another_directory_is_asked_for() {
    let work = Work::new();
    fs::create_dir(work.path("live")).unwrap();
    work.run("create a.pool --map m --durability interval --live-image --live-dir live").ok();
    for (line, rest) in [("maps a.pool", "rename m n"), ("compact a.pool", "")] {
        let map = if rest.is_empty() { "n" } else { "m" };
        let mut load = work.start(&format!("load a.pool - --map {map} --live-dir live"));
        let stdin = load.stdin.take();
        wait_until(&mut load, || work.run("maps a.pool").code == Some(5));
        load.kill().unwrap();
        load.wait().unwrap();
        drop(stdin);
        for line in [format!("{line} {rest}"), format!("get a.pool k --map {map}")] {
            let complaint = work
                .run(line.trim_end())
                .complains(3, "name that (`Options::live_dir`, `--live-dir`)");
            assert!(complaint.contains("dump --accept-suspect"), "{complaint}");
        }
        work.run(format!("{line} --live-dir live {rest}").trim_end()).ok();
    }
    assert_eq!(work.run("dump a.pool --map n").ok(), "");
    work.run("maps a.pool --accept-suspect remove n")
        .complains(2, "leave --json and --accept-suspect out");
}

#[test]
fn after_a_power_failure_nothing_is_believed_unasked() {
    let work = Work::new();
    load_and_kill(&work, "a.pool", 8 << 20);
    // As if the machine had started again since: another boot id (docs/format.md).
    let mut bytes = fs::read(work.path("a.pool")).unwrap();
    for byte in &mut bytes[136..152] {
        *byte ^= 0x55;
    }
    work.write("a.pool", &bytes);
    for line in ["get a.pool k", "put a.pool k v", "load a.pool -", "dump a.pool", "check a.pool"] {
        work.run(line).complains(3, "--accept-suspect");
    }
    assert!(fs::read(work.path("a.pool")).unwrap() == bytes);
    let stats = work.run("stats --accept-suspect a.pool --json").ok();
    let stats: Value = serde_json::from_str(&stats).unwrap();
    assert_eq!(stats["suspect"], true);
    assert!(work.run("stats --accept-suspect a.pool").ok().contains("suspect"));
    let check = work.run("check --accept-suspect a.pool").ok();
    assert!(check.contains(": ok, ") && check.contains(": suspect: "), "{check}");
    let check = work.run("check --accept-suspect a.pool --json").ok();
    assert_eq!(serde_json::from_str::<Value>(&check).unwrap()["suspect"], true);
    let args = ["get", "--accept-suspect", "a.pool", "key 0"];
    assert_eq!(work.run_args(args).ok(), value(0) + "\n");
    let dump = work.run("dump --accept-suspect a.pool");
    work.feed("load b.pool", &dump.out).ok();
    assert_eq!(work.run("dump b.pool").sorted_lines(), dump.sorted_lines());
    assert!(fs::read(work.path("a.pool")).unwrap() == bytes, "readers change nothing");
}
