//! Multimaps: the same commands, any number of values for each key.

use std::collections::{BTreeSet, HashMap};

use durahash::{ErrorKind, Map, MultiMap, Options};

use crate::tables::{Numbers, unpacked};
use crate::tool::Work;

fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn every_command_knows_multimaps() {
    let work = Work::new();
    work.run("create e.pool --kind multimap --codec u64").ok();
    for (key, value) in [(1, 10), (1, 11), (1, 10), (2, 20)] {
        work.run(&format!("put e.pool {key} {value}")).ok();
    }
    assert_eq!(lines(&work.run("get e.pool 1").ok()), ["10", "10", "11"]);
    assert_eq!(work.run("get e.pool 3").code, Some(1));
    assert_eq!(work.run("check e.pool").ok(), "e.pool: ok, 4 entries\n");
    let dump = work.run("dump e.pool").ok();
    assert_eq!(lines(&dump), ["1\t10", "1\t10", "1\t11", "2\t20"]);
    assert_eq!(work.run("dump e.pool --limit 2").ok().lines().count(), 2);

    let stats = work.run("stats e.pool").ok();
    assert!(stats.contains("multimap") && stats.contains("entries           4\n"), "{stats}");
    let json = work.run("stats e.pool --json").json();
    assert_eq!((&json["kind"], &json["entries"]), (&"multimap".into(), &4.into()));
    let json = work.run("check e.pool --json").json();
    assert_eq!((&json["ok"], &json["entries"]), (&true.into(), &4.into()));

    // One value, then all of them.
    work.run("del e.pool 1 10").ok();
    assert_eq!(lines(&work.run("get e.pool 1").ok()), ["10", "11"]);
    assert_eq!(work.run("del e.pool 1 12").code, Some(1));
    work.run("del e.pool 1").ok();
    assert_eq!(work.run("get e.pool 1").code, Some(1));
    assert_eq!(work.run("del e.pool 1").code, Some(1));
    work.run("compact e.pool").ok();
    assert_eq!(work.run("get e.pool 2").ok(), "20\n");
}

#[test]
fn a_dump_of_a_multimap_loads_into_another() {
    let work = Work::new();
    let text: String = (0..2000).map(|i| format!("key {}\tvalue {i}\n", i % 40)).collect();
    let said = work.feed("load a.pool - --kind multimap", text.as_bytes()).ok();
    assert!(said.starts_with("entries loaded: 2000, "), "{said}");
    let dump = work.run("dump a.pool").ok();
    assert_eq!(lines(&dump), lines(&text));
    work.feed("load b.pool --kind multimap", dump.as_bytes()).ok();
    assert_eq!(lines(&work.run("dump b.pool").ok()), lines(&text));
    work.run("compact b.pool").ok();
    assert_eq!(lines(&work.run("dump b.pool").ok()), lines(&text));
    assert_eq!(work.run("check b.pool").ok(), "b.pool: ok, 2000 entries\n");
    // Lines are added to what is there.
    work.feed("load b.pool", b"key 0\tvalue 0\n").ok();
    assert_eq!(work.run_args(["get", "b.pool", "key 0"]).ok().lines().count(), 51);
}

#[test]
fn bad_lines_are_left_out_and_nothing_is_added_twice() {
    let work = Work::new();
    let answer =
        work.feed("load e.pool --kind multimap --codec u64", b"1\t10\n1\tx\ny\t10\n1\t10\n");
    assert_eq!(answer.code, Some(2));
    assert!(answer.err.contains("-:2: ") || answer.err.contains(":2: "), "{answer:?}");
    assert_eq!(work.run("get e.pool 1").ok(), "10\n10\n");
}

#[test]
fn kinds_are_not_mixed() {
    let work = Work::new();
    work.run("create m.pool").ok();
    work.run("create e.pool --kind multimap").ok();
    for line in ["load m.pool --kind multimap", "load e.pool --kind map"] {
        assert!(work.feed(line, b"a\tb\n").failed(2).contains("the pool exists"), "{line}");
    }
    work.run("put m.pool a b").ok();
    assert!(work.run("del m.pool a b").failed(2).contains("leave VALUE out"));
    assert_eq!(work.run("get m.pool a").ok(), "b\n");
    let other = Options::new().open::<Map<[u8], [u8]>>(work.path("e.pool"));
    assert!(matches!(other.unwrap_err().kind(), ErrorKind::Design { .. }));
}

/// A made-up graph, whose nodes have from none to thousands of successors.
fn made_up() -> String {
    let mut numbers = Numbers(13);
    let mut text = String::from("# from<TAB>to\n");
    for from in 0..80_000 {
        for _ in 0..4000 / (1 + numbers.below(8000)) {
            text.push_str(&format!("{from}\t{}\n", numbers.below(80_000)));
        }
    }
    // No edge is there twice.
    let lines: BTreeSet<_> = text.lines().collect();
    lines.into_iter().flat_map(|line| [line, "\n"]).collect()
}

/// The edges of a graph: the real one that `DURAHASH_GRAPH` names, or a made-up one.
#[test]
fn a_graph_is_loaded_and_every_list_is_whole() {
    let work = Work::new();
    let (name, text) = match std::env::var("DURAHASH_GRAPH") {
        Ok(path) => (path.clone(), unpacked(&path)),
        Err(_) => ("graph.tsv".into(), made_up()),
    };
    if name == "graph.tsv" {
        work.write(&name, &text);
    }
    let mut edges: HashMap<u64, BTreeSet<u64>> = HashMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (from, to) = line.split_once('\t').unwrap();
        edges.entry(from.parse().unwrap()).or_default().insert(to.parse().unwrap());
    }
    let count: usize = edges.values().map(BTreeSet::len).sum();

    let said =
        work.run_args(["load", "g.pool", &name, "--kind", "multimap", "--codec", "u64"]).ok();
    assert!(said.starts_with(&format!("entries loaded: {count}, ")), "{said}");
    assert_eq!(work.run("check g.pool").ok(), format!("g.pool: ok, {count} entries\n"));
    let pool: MultiMap<u64, u64> = Options::new().open(work.path("g.pool")).unwrap();
    for (from, to) in &edges {
        let found = pool.get_all(from).unwrap();
        assert_eq!(found.len(), to.len());
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), *to, "of {from}");
        assert_eq!(pool.count(from).unwrap(), to.len() as u64);
    }
    // Most have few: those stand in buckets, not in buffers of their own.
    let stats = pool.stats().unwrap();
    let bytes = stats.medium_bytes_per_key();
    assert!(bytes < 64.0, "{bytes} bytes an edge");
    let longest = edges.values().map(BTreeSet::len).max().unwrap();
    println!("{} sources, {count} edges, {longest} of one, {bytes:.1} bytes each", edges.len());
}
