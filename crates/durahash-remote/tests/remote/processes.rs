//! Processes that put into one index, and are killed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use durahash_media::hash::WordMix;
use durahash_remote::BlockingMap;
use durahash_remote::fabric::{Local, LocalOptions};

use crate::common::tiny;

const DIR: &str = "DURAHASH_TEST_FABRIC";
const NAME: &str = "DURAHASH_TEST_NAME";
/// Keys of a process.
const KEYS: u64 = 150;

fn key(name: u64, i: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&name.to_le_bytes());
    key[8..].copy_from_slice(&(i % KEYS).to_le_bytes());
    key
}

/// The other process: this binary, started with a directory in its environment.
#[test]
fn other_process() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let name: u64 = std::env::var(NAME).unwrap().parse().unwrap();
    let local = Local::attach(Path::new(&dir), None).unwrap();
    let map = BlockingMap::open(local.client().unwrap(), tiny()).unwrap();
    let mut out = std::io::stdout();
    writeln!(out, "\nbegins").unwrap();
    // This process does not outlive the test.
    let parent = std::os::unix::process::parent_id();
    let mut i = 0;
    while std::os::unix::process::parent_id() == parent {
        i += 1;
        map.put(&key(name, i), &i.to_le_bytes()).unwrap();
        writeln!(out, "put {i}").unwrap();
    }
}

fn start(dir: &Path, name: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::other_process", "--nocapture"])
        .env(DIR, dir)
        .env(NAME, name.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The last put that was told; kills the process after at least so many.
fn kill_after(mut child: Child, puts: u64) -> u64 {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let told = |line: &String| line.strip_prefix("put ").and_then(|i| i.parse().ok());
    let reached = lines.find(|line| told(line).is_some_and(|i: u64| i >= puts));
    assert!(reached.is_some(), "the process ended by itself");
    // That is kill -9.
    child.kill().unwrap();
    // The rest of its output.
    let rest = lines.filter_map(|line| told(&line)).last();
    child.wait().unwrap();
    rest.unwrap_or(puts)
}

#[test]
fn puts_of_processes_stay_when_they_are_killed() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("fabric");
    let mut options = LocalOptions::default();
    options.node_bytes = vec![64 << 20; 2];
    options.max_clients = 16;
    let local = Local::create(&dir, &options).unwrap();
    let map = BlockingMap::create(local.client().unwrap(), tiny()).unwrap();
    let mix = WordMix::new(11);
    let mut last = BTreeMap::new();
    for round in 0..8 {
        let children = [2 * round, 2 * round + 1].map(|name| (name, start(&dir, name)));
        for (name, child) in children {
            last.insert(name, kill_after(child, 50 + mix.mix(name) % 3000));
        }
        for (name, last) in &last {
            for i in 1..=KEYS.min(*last) {
                // The latest put of that key that was told, or one that was under way.
                let told = last - (last - i) % KEYS;
                let found = map.get(&key(*name, i)).unwrap().expect("a key that was put");
                let found = u64::from_le_bytes(found.try_into().unwrap());
                let under_way = last + 1;
                assert!(
                    found == told || (found == under_way && under_way % KEYS == i % KEYS),
                    "process {name}, key {i}: {found}, told {told}"
                );
            }
        }
    }
    let report = map.check().unwrap();
    println!("{report:?}");
    assert!(report.keys >= 8 * 2 * 50 && report.deepest > 2);
    // All of them are dead: a sweep finds their memory again.
    map.sweep().unwrap();
    assert_eq!(map.check().unwrap().unaccounted_bytes, 0);
}
