//! Caches: the same commands, entries that expire, and bounds.

use std::time::Duration;

use durahash::{Cache, Options};

use crate::tool::Work;

#[test]
fn every_command_knows_caches() {
    for codec in ["bytes", "u64"] {
        let work = Work::new();
        work.run(&format!("create c.pool --expiry --codec {codec}")).ok();
        work.run("put c.pool 1 10").ok();
        work.run("put c.pool 2 20 --ttl 10d").ok();
        work.run("put c.pool 3 30 --ttl 0s").ok();
        work.run("put c.pool 4 40 --until 4000000000").ok();
        work.run("put c.pool 5 50 --until 1").ok();
        assert_eq!(work.run("put c.pool 5 50 --until 4000000000 --ttl 1s").code, Some(2));
        assert_eq!(work.run("get c.pool 4").ok(), "40\n");
        assert_eq!(work.run("get c.pool 5").code, Some(1));
        work.run("del c.pool 4").ok();
        assert_eq!(work.run("get c.pool 1").ok(), "10\n");
        assert_eq!(work.run("get c.pool 2").ok(), "20\n");
        let expired = work.run("get c.pool 3");
        assert_eq!((expired.code, expired.err.as_str()), (Some(1), ""));
        assert!(expired.out.is_empty());
        let dump = work.run("dump c.pool");
        assert_eq!(dump.sorted_lines(), [b"1\t10\n", b"2\t20\n"]);
        assert_eq!(dump.err, "");
        assert!(work.run("check c.pool").ok().starts_with("c.pool: ok, "));

        work.run("del c.pool 1").ok();
        for key in [1, 3] {
            assert_eq!(work.run(&format!("del c.pool {key}")).code, Some(1));
        }
        // A put without a lifetime takes the one that was set.
        work.run("put c.pool 2 21").ok();
        work.run("compact c.pool").ok();
        assert_eq!(work.run("get c.pool 2").ok(), "21\n");
        let refused = work.run("put c.pool 2 20 --ttl 10");
        assert!(refused.code == Some(2) && refused.err.contains("ms, s, m, h or d"), "{refused:?}");
        assert!(work.run("del c.pool 2 21").failed(2).contains("leave VALUE out"));
    }
}

#[test]
fn a_load_has_lifetimes_in_a_third_column() {
    let work = Work::new();
    let lines = b"a\t1\nb\t2\t10m\nc\t3\t0s\r\nd\tx\\ty\t2h\ne\t5\tsoon\n";
    let load = work.feed("load c.pool - --expiry", lines);
    assert_eq!(load.code, Some(2));
    assert!(load.err.starts_with("standard input:5: a time is a whole number with "), "{load:?}");
    let dump = work.run("dump c.pool");
    let wanted: [&[u8]; 3] = [b"a\t1\n", b"b\t2\n", b"d\tx\\ty\n"];
    assert_eq!(dump.sorted_lines(), wanted);
    let cache: Cache<[u8], [u8]> = Options::new().open(work.path("c.pool")).unwrap();
    assert_eq!(cache.expires_at(b"a").unwrap(), Some(None));
    assert!(matches!(cache.expires_at(b"b").unwrap(), Some(Some(_))));
    cache.close().unwrap();
    // Elsewhere the second tab belongs to the value.
    work.feed("load m.pool", b"b\t2\t10m\n").ok();
    assert_eq!(work.run("get m.pool b").ok(), "2\t10m\n");
}

#[test]
fn bounds_are_kept_and_stats_tell_of_them() {
    let work = Work::new();
    work.run(
        "create c.pool --map c --expiry --max-entries 10 --max-bytes-used 1MiB --eviction lru",
    )
    .ok();
    let text: String = (0..50).map(|i| format!("{i}\tvalue\n")).collect();
    work.feed("load c.pool - --map c", text.as_bytes()).ok();
    assert_eq!(work.run("dump c.pool --map c").ok().lines().count(), 10);
    work.run("put c.pool --map c more value --ttl 0s").ok();
    let json = work.run("stats c.pool --map c --json").json();
    assert_eq!((&json["kind"], &json["value_type"]), (&"cache".into(), &"bytes".into()));
    let stored = json["entries"].as_u64().unwrap();
    // The sweep may have been there before the command ended.
    let wanted = serde_json::json!({
        "live": 9, "expired": stored - 9,
        "removed": { "expired": 10 - stored, "evicted": 41 }, "max_entries": 10, "max_bytes_used": 1 << 20, "eviction": "lru",
    });
    assert_eq!(json["cache"], wanted);
    let stats = work.run("stats c.pool --map c").ok();
    assert!(
        stats.contains(
            "\nbound             10 entries, 1.0 MiB\neviction          lru, 41 evicted\n"
        ),
        "{stats}"
    );

    work.run("create n.pool --expiry --max-entries 1 --eviction none").ok();
    work.run("put n.pool a 1").ok();
    for (line, input) in [("put n.pool b 2", ""), ("load n.pool", "b\t2\n")] {
        let complaint = work.feed(line, input.as_bytes()).complains(4, "as much as it may");
        assert!(complaint.contains("remove entries, or let a program open it"), "{complaint}");
    }
    let maps = work.run("maps n.pool --json").json();
    let wanted = serde_json::json!([{
        "name": "main", "kind": "cache", "design": "reh", "key_type": "bytes", "value_type": "bytes", "entries": 1,
    }]);
    assert_eq!(maps, wanted);
    work.feed("load n.pool - --expiry --max-entries 1 --eviction none", b"a\t1\n").ok();
    for (option, found) in [
        ("--max-entries 2", "with --max-entries 1"),
        ("--max-bytes-used 1MiB", "without --max-bytes-used"),
        ("--eviction lru", "with --eviction none"),
    ] {
        let complaint = work.feed(&format!("load n.pool - --expiry {option}"), b"a\t1\n").failed(2);
        assert!(
            complaint.starts_with(&format!("n.pool: the pool exists, {found}; leave ")),
            "{complaint}"
        );
    }
    assert!(
        work.run("stats n.pool")
            .ok()
            .contains("\nbound             1 entries\neviction          none, 0 evicted\n")
    );
}

/// What the library has made, of any types.
#[test]
fn a_cache_of_the_library_is_one_of_the_command() {
    let work = Work::new();
    let path = work.path("c.pool");
    let cache: Cache<str, (u32, bool)> = Options::new().create(&path).unwrap();
    cache.put_for("a", &(1, true), Duration::ZERO).unwrap();
    cache.close().unwrap();
    assert_eq!(work.run("get c.pool a").code, Some(1));
    work.run("put c.pool a 2,false --ttl 1h").ok();
    assert!(work.run("put c.pool a 2").failed(2).contains("not a valid (u32, bool)"));
    assert_eq!(work.run("get c.pool a").ok(), "2,false\n");
    let cache: Cache<str, (u32, bool)> = Options::new().open(&path).unwrap();
    assert_eq!(cache.get("a").unwrap(), Some((2, false)));
}

#[test]
fn other_kinds_forget_nothing() {
    let work = Work::new();
    work.run("create m.pool").ok();
    assert!(work.run("put m.pool a b --ttl 10m").failed(2).contains("leave --ttl and --until out"));
    assert_eq!(work.run("get m.pool a").code, Some(1));
    work.run("create c.pool --expiry").ok();
    for line in ["load m.pool --expiry", "load c.pool --kind map"] {
        assert!(work.feed(line, b"a\tb\n").failed(2).contains("the pool exists"), "{line}");
    }
    assert_eq!(work.run("create x.pool --expiry --kind multimap").code, Some(2));
    assert_eq!(work.run("create x.pool --max-entries 10").code, Some(2));
}
