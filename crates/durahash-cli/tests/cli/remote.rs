//! Nodes and their clients, as real processes over the loopback address. With the feature `ucx` those tests that
//! have a fabric are of UCX, over TCP and over shared memory, else of files in shared memory and of the fabric over TCP.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::{BufWriter, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use durahash_media::sim::budget;
use serde_json::Value;

use crate::tool::{Answer, Work, answer};

mod file;
mod node;
mod soak;
mod watch;

use self::node::{Node, Over, over_each, patiently, signal};

fn line(i: u64) -> String {
    format!("key {i}\tvalue {}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn lines(range: std::ops::Range<u64>) -> String {
    range.map(line).collect()
}

#[test]
fn entries_are_put_found_and_removed() {
    over_each("--size 64MiB", |_, _, node| {
        for line in ["get key", "put key value", "del key", "dump", "stats", "check --json"] {
            let complaint = node.run(line).complains(4, "there is no index in the memory");
            assert!(complaint.contains(&format!("`durahash remote --node {} load`", node.address)));
        }
        let said = node.feed("load", b"key\tvalue\n# comment\nother\t1\n").ok();
        let counts = "entries loaded: 2, comments skipped: 1, bad lines left out: 0 (";
        assert!(said.starts_with(counts), "{said}");
        assert_eq!(node.run("get key").ok(), "value\n");
        assert_eq!(node.run("put key another").ok(), "");
        assert_eq!(node.run("get key").ok(), "another\n");
        assert_eq!(node.run("del key").ok(), "");
        for line in ["get key", "del key"] {
            let absent = node.run(line);
            assert_eq!(
                (absent.code, absent.err.as_str(), &absent.out[..]),
                (Some(1), "", &b""[..])
            );
        }
        assert_eq!(node.run("dump").ok(), "other\t1\n");
        let address = &node.address;
        assert_eq!(node.run("check").ok(), format!("{address}: ok, 1 keys\n"));
        let check = node.run("check --json").json();
        let wanted = serde_json::json!({ "pool": address, "ok": true, "keys": 1, "findings": [] });
        assert_eq!(check, wanted);
        let stats = node.run("stats --json").json();
        assert_eq!((&stats["keys"], &stats["clients"]), (&1.into(), &1.into()));
        assert_eq!(
            (&stats["pool"], &stats["memory_bytes"]),
            (&address[..].into(), &(64 << 20).into())
        );
        let quick = node.run("stats --quick --json").json();
        // The two of a key that was removed count until its segment is merged.
        assert_eq!((&quick["keys_about"], &quick["segments_seen"]), (&3.into(), &1.into()));
        assert!(quick["taken_bytes"].as_u64() >= stats["taken_bytes"].as_u64());
        assert!(node.run("stats --quick").ok().contains("keys              about 3\n"));
        let text = node.run("stats").ok();
        for start in
            ["pool              127.0.0.1:", "keys              1\n", "memory            64.0 MiB"]
        {
            assert!(text.contains(start), "{text}");
        }
        assert!(node.dir.as_ref().is_none_or(|dir| dir.exists()));
    });
}

#[test]
fn keys_and_values_are_any_bytes_and_bad_lines_are_left_out() {
    over_each("--size 64MiB", |over, work, node| {
        let long = "k".repeat((1 << 20) + 1);
        let text = format!("a\t1\nno tab\n{long}\tv\nb\t{long}\nb\t2\na\t3\n");
        let load = node.feed("load", text.as_bytes());
        assert_eq!(load.code, Some(2));
        assert!(
            load.out.starts_with(b"entries loaded: 3, comments skipped: 0, bad lines left out: 3")
        );
        for wanted in [
            "standard input:2: no tab between key and value\n",
            "standard input:3: the key has 1048577 bytes, the limit is 1048576\n",
            "standard input:4: the value has 1048577 bytes, the limit is 1048576\n",
        ] {
            assert!(load.err.contains(wanted), "{}", load.err);
        }
        assert_eq!(node.run("get a").ok(), "3\n");
        let words = ["remote", "--node", &node.address, "put", "--"].map(OsStr::new);
        let cases: [(&[u8], &[u8]); 4] =
            [(b"", b""), (b"#\xff\\n", b"a\tb\nc\r"), (b"-k", b"--json"), (b"\xf0", b"# \x01")];
        for (key, value) in cases {
            let pair = [key, value].map(OsStr::from_bytes);
            work.run_args(words.into_iter().chain(pair)).ok();
        }
        let dump = node.run("dump");
        assert_eq!(dump.sorted_lines().len(), 6);
        let other = Node::start(work, over, "--size 64MiB");
        other.feed("load", &dump.out).ok();
        assert_eq!(other.run("dump").sorted_lines(), dump.sorted_lines());
        // And the same of a pool.
        work.feed("load a.pool", &dump.out).ok();
        assert_eq!(work.run("dump a.pool").sorted_lines(), dump.sorted_lines());
        assert_eq!(other.run("dump --limit 2").sorted_lines().len(), 2);
    });
}

fn several_nodes_have_one_index() {
    for over in Over::ALL {
        let work = over.work();
        let [one, two] = [0, 1].map(|_| Node::start(&work, over, "--size 16MiB"));
        let both = format!("remote --node {} --node {}", one.address, two.address);
        let keys = over.fewer(20_000);
        let text = lines(0..keys);
        work.feed(&format!("{both} load"), text.as_bytes()).ok();
        let dump = work.run(&format!("{both} dump"));
        let mut wanted: Vec<_> = text.split_inclusive('\n').map(str::as_bytes).collect();
        wanted.sort();
        assert_eq!(dump.sorted_lines(), wanted);
        let stats = work.run(&format!("{both} stats --json")).json();
        assert_eq!((&stats["keys"], &stats["memory_bytes"]), (&keys.into(), &(32 << 20).into()));
        assert_eq!(stats["nodes"], serde_json::json!([one.address, two.address]));
        let name = format!("{},{}", one.address, two.address);
        assert_eq!(work.run(&format!("{both} check")).ok(), format!("{name}: ok, {keys} keys\n"));
        // Not all of them, or in another order.
        let others = [
            format!("remote --node {} get key", one.address),
            format!("remote --node {} get key", two.address),
            format!("remote --node {} --node {} get key", two.address, one.address),
        ];
        for answer in work.run_all(&others) {
            // Over TCP, where another client with another first node is there just then, that is told.
            match answer.code {
                Some(2) if over == Over::Net => answer.complains(2, "name another node first"),
                _ => answer.complains(3, "named in another order"),
            };
        }
        let twice = format!("remote --node {} --node {}", one.address, one.address);
        assert!(work.run(&format!("{twice} get key")).failed(2).contains("each named once"));
    }
}

fn set_mode(work: &Work, name: &str, mode: u32) {
    fs::set_permissions(work.path(name), Permissions::from_mode(mode)).unwrap();
}

/// Writes a file that nobody else may read.
fn secret(work: &Work, name: &str, text: &str) {
    work.write(name, text);
    set_mode(work, name, 0o600);
}

#[test]
fn tokens_keep_out_clients_with_another() {
    for over in Over::ALL {
        let work = over.work();
        secret(&work, "token", "a secret of 20 bytes\n");
        secret(&work, "other", "A secret of 20 bytes\n");
        work.write("empty", "");
        let mut node = Node::start(&work, over, "--size 16MiB --token-file token");
        let address = node.address.clone();
        let load = |options: &str| {
            let line = format!("remote --node {address} {options} load");
            work.run_args(line.split_whitespace())
        };
        load("--token-file token").ok();
        // One that others may read is told of, and serves.
        work.write("shared", "a secret of 20 bytes\n");
        set_mode(&work, "shared", 0o644);
        let warned = load("--token-file shared");
        assert_eq!(warned.code, Some(0));
        assert_eq!(warned.err, "durahash: others may read the token: `chmod 600 shared`\n");
        assert!(load("").failed(2).ends_with("it requires a token"));
        assert!(load("--token-file other").failed(2).ends_with("it requires a different token"));
        assert!(load("--token-file empty").failed(2).contains("1 to 1024 bytes"));
        assert!(load("--token-file none").failed(4).starts_with("reading the token none: "));
        let mut open = Node::start(&work, over, "--size 16MiB");
        let shown = format!("remote --node {} --token-file token get k", open.address);
        assert!(work.run(&shown).failed(2).contains("requires no token"));
        // A line of each client that was refused, and of no other.
        let refused = [node.complaints(2), open.complaints(1)].concat();
        let why = [
            "it shows no token",
            "it shows a different token",
            "it shows a token, and this node requires none",
        ];
        assert_eq!(refused.len(), why.len(), "{refused:?}");
        for (line, why) in refused.iter().zip(why) {
            assert!(line.starts_with("refused 127.0.0.1:"), "{line}");
            assert!(line.ends_with(&format!(": {why}")), "{line}");
        }
    }
}

#[test]
fn garbage_does_not_end_a_node() {
    over_each("--size 16MiB", |_, _, node| {
        node.feed("load", b"key\tvalue\n").ok();
        let silent = TcpStream::connect(&node.address).unwrap();
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &[0xff; 100_000],
            b"durnode\0\x03\0\0\0\xff\xff\xff\xff",
        ] {
            let mut stream = TcpStream::connect(&node.address).unwrap();
            // The node may end the connection before it has all.
            drop(stream.write_all(bytes));
            drop(stream.shutdown(Shutdown::Write));
            let mut said = Vec::new();
            drop(stream.read_to_end(&mut said));
            assert!(said.is_empty());
        }
        assert_eq!(node.run("get key").ok(), "value\n");
        drop(silent);
    });
}

#[test]
fn wrong_usage_of_nodes_says_what_is_right() {
    let work = Work::new();
    std::fs::create_dir(work.path("there")).unwrap();
    secret(&work, "weak", "15 bytes of it.\n");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    for (line, code, wanted) in [
        #[cfg(not(feature = "ucx"))]
        ("node --fabric ucx", 2, "this build has no UCX"),
        ("node --fabric local:there", 2, "already exists"),
        ("node --fabric local:none/there", 4, "none/there"),
        ("node --size 5000", 2, "a multiple of 4096"),
        ("node --fabric tcp --size 5000", 2, "a multiple of 4096"),
        ("node --fabric tcp --token-file weak", 2, "16 bytes or more, chosen at random"),
        ("node --clients 65", 2, "--clients is for --fabric tcp"),
        ("node --listen 0.0.0.0:0", 2, "give --token-file FILE"),
        ("node --token-file none", 4, "reading the token none"),
        (&format!("node --size 4KiB --listen {taken}"), 4, "listening"),
    ] {
        work.run(line).complains(code, wanted);
    }
    for line in
        ["node --fabric other", "node --listen host", "remote get k", "remote --node x get k"]
    {
        assert_eq!(work.run(line).code, Some(2), "{line}");
    }
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 1024; exec \"$0\" node --size 64MiB --listen 127.0.0.1:0"]);
    limited.arg(env!("CARGO_BIN_EXE_durahash")).stdout(Stdio::piped()).stderr(Stdio::piped());
    answer(limited.spawn().unwrap()).complains(4, "raise that limit, or lend less with --size");
    // An address where nothing listens, and one where another program does.
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let complaint = work.run(&format!("remote --node {nobody} get k")).failed(4);
    assert!(complaint.starts_with(&format!("node {nobody} does not answer: ")), "{complaint}");
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = other.accept().unwrap();
            stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
            // The client may have read enough already.
            drop(stream.shutdown(Shutdown::Write));
            drop(stream.read_to_end(&mut Vec::new()));
        });
        work.run(&format!("remote --node {address} get k"))
            .complains(3, "is not a node that this build can talk to");
    });
}

#[test]
fn memory_that_is_too_small_is_full() {
    over_each("--size 4KiB", |over, work, node| {
        node.feed("load", lines(0..1000).as_bytes()).complains(4, "no space for ");
        let node = Node::start(work, over, "--size 1MiB");
        let complaint =
            node.feed("load", lines(0..50_000).as_bytes()).complains(4, "no space for ");
        assert!(complaint.contains(" entries were loaded and stay"), "{complaint}");
        let kept = node.run("dump").ok();
        assert!(kept.lines().count() > 1000 && node.run("check").code == Some(0));
        for line in kept.split_inclusive('\n') {
            let i = line.split(['\t', ' ']).nth(1).unwrap().parse().unwrap();
            assert_eq!(line, self::line(i));
        }
    });
}

/// Starts to load lines without end.
fn load_without_end(work: &Work, nodes: &str, run: impl FnOnce(&mut Child)) -> Answer {
    let mut child = work.start(&format!("remote {nodes} load"));
    let mut stdin = BufWriter::new(child.stdin.take().unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Until the command ends.
            (0..).try_for_each(|i| stdin.write_all(line(i).as_bytes())).unwrap_err();
        });
        run(&mut child);
        answer(child)
    })
}

/// Waits until line `i` was loaded.
fn wait_for(work: &Work, nodes: &str, i: u64) {
    let words = format!("remote {nodes} get");
    let key = format!("key {i}");
    let args: Vec<_> = words.split(' ').chain([key.as_str()]).collect();
    patiently(|| work.run_args(&args).code == Some(0));
}

#[test]
fn a_node_that_is_killed_during_a_load_ends_it() {
    over_each("--size 256MiB", |over, work, mut node| {
        let nodes = format!("--node {}", node.address);
        let address = node.address.clone();
        let load = load_without_end(work, &nodes, |_| {
            wait_for(work, &nodes, over.fewer(1000));
            node.kill();
        });
        let complaint = load.failed(4);
        assert!(complaint.starts_with(&format!("node {address} does not answer; ")), "{complaint}");
        assert!(
            complaint.contains("entries were loaded; they are lost if the node has ended"),
            "{complaint}"
        );
        for line in ["get key", "put key v", "del key", "dump", "stats --json", "check --json"] {
            node.run(line).complains(4, "does not answer: ");
        }
        // Also the memory goes, though the node could not see to it any more.
        node.wait_until_removed();
    });
}

#[test]
fn a_load_that_waits_for_lines_ends_with_its_node() {
    over_each("--size 16MiB", |_, work, mut node| {
        let nodes = format!("--node {}", node.address);
        let mut child = work.start(&format!("remote {nodes} load"));
        let mut stdin = child.stdin.take().unwrap();
        // Half a line is waited for, too.
        stdin.write_all(format!("{}half", line(0)).as_bytes()).unwrap();
        wait_for(work, &nodes, 0);
        node.kill();
        let complaint = answer(child).failed(4);
        let wanted = format!("node {} does not answer; ", node.address);
        assert!(complaint.starts_with(&wanted), "{complaint}");
        assert!(complaint.contains("at least 1 entries were loaded; they are lost"), "{complaint}");
        drop(stdin);
    });
}

/// Of a named pipe nobody writes to at first, and then nobody goes on.
#[test]
fn a_load_from_a_pipe_ends_with_its_node() {
    let work = Work::new();
    for written in [false, true] {
        let mut node = Node::start(&work, Over::Local, "--size 16MiB");
        let nodes = format!("--node {}", node.address);
        let pipe = work.path(&format!("pipe-{written}"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let child = work.start(&format!("remote {nodes} load pipe-{written}"));
        let mut writer = None;
        if written {
            let mut file = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
            file.write_all(format!("{}half", line(0)).as_bytes()).unwrap();
            wait_for(&work, &nodes, 0);
            writer = Some(file);
        } else {
            // It is a client, so it has opened what it loads into.
            node.feed("load", b"key\tvalue\n").ok();
            patiently(|| node.run("stats --json").json()["clients"] == 2);
        }
        node.kill();
        let complaint = answer(child).failed(4);
        let wanted = format!("node {} does not answer; ", node.address);
        assert!(complaint.starts_with(&wanted), "{complaint}");
        drop(writer);
    }
}

#[test]
fn the_input_of_a_pipe_is_loaded() {
    let work = Work::new();
    let pipe = work.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let child = work.start("load a.pool pipe");
    std::fs::write(&pipe, lines(0..1000)).unwrap();
    assert!(answer(child).ok().starts_with("entries loaded: 1000, "));
    assert_eq!(work.run("dump a.pool").sorted_lines().len(), 1000);
}

#[test]
fn one_client_too_many_is_told_so() {
    one_too_many(Over::Local, "--size 64MiB", 64);
    one_too_many(Over::Net, "--size 64MiB --clients 3", 3);
}

fn one_too_many(over: Over, arguments: &str, most: usize) {
    let work = Work::new();
    let node = Node::start(&work, over, arguments);
    node.feed("load", b"key\tvalue\n").ok();
    // Each is a client until its input ends.
    let start = || work.start(&format!("remote --node {} load", node.address));
    let mut clients: Vec<_> = (0..most).map(|_| start()).collect();
    let mut last = None;
    patiently(|| {
        // The one that comes last ends where a `get` has the last row just then.
        let ended = clients.iter_mut().filter_map(|c| c.try_wait().unwrap().is_some().then_some(c));
        ended.for_each(|client| *client = start());
        let answer = node.run("get key");
        let full = answer.code == Some(5);
        last = Some(answer);
        full
    });
    last.unwrap().complains(5, format!("all {most} clients are alive; try again when one"));
    for client in &mut clients {
        drop(client.stdin.take());
    }
    clients.into_iter().for_each(|client| drop(answer(client).ok()));
    assert_eq!(node.run("get key").ok(), "value\n");
}

#[test]
fn one_of_two_nodes_that_is_killed_ends_a_load_too() {
    for over in Over::ALL {
        let work = over.work();
        let [one, mut two] = [0, 1].map(|_| Node::start(&work, over, "--size 128MiB"));
        let nodes = format!("--node {} --node {}", one.address, two.address);
        let load = load_without_end(&work, &nodes, |_| {
            wait_for(&work, &nodes, over.fewer(1000));
            two.kill();
        });
        let complaint = load.failed(4);
        let wanted = format!("node {} does not answer; ", two.address);
        assert!(complaint.starts_with(&wanted), "{complaint}");
    }
}

#[test]
fn a_client_that_is_killed_during_a_load_loses_nothing_that_was_acknowledged() {
    over_each("--size 512MiB", |over, work, node| {
        let nodes = format!("--node {}", node.address);
        let keys = over.fewer(5000);
        let first: String = (0..keys).map(|i| format!("first {i}\t{i}\n")).collect();
        node.feed("load", first.as_bytes()).ok();
        for round in 1..4 {
            let killed = load_without_end(work, &nodes, |child| {
                wait_for(work, &nodes, over.fewer(round * 3000));
                over.let_node_answer(child);
                child.kill().unwrap();
            });
            assert_eq!(killed.code, None);
            let dump = node.run("dump").ok();
            let all: BTreeMap<_, _> =
                dump.lines().map(|line| line.split_once('\t').unwrap()).collect();
            for i in 0..keys {
                assert_eq!(all.get(format!("first {i}").as_str()), Some(&i.to_string().as_str()));
            }
            for (key, value) in all.iter().filter(|(key, _)| key.starts_with("key ")) {
                let i = key[4..].parse().unwrap();
                assert_eq!(line(i), format!("{key}\t{value}\n"));
            }
            assert!(node.run("check").ok().contains(": ok, "), "round {round}");
            // Another client repeats the load that was cut short.
            let again = lines(0..over.fewer(round * 3000));
            node.feed("load", again.as_bytes()).ok();
            let dump = node.run("dump").ok();
            let all: std::collections::BTreeSet<_> = dump.split_inclusive('\n').collect();
            assert!(
                first
                    .split_inclusive('\n')
                    .chain(again.split_inclusive('\n'))
                    .all(|l| all.contains(l))
            );
        }
    });
}

#[test]
fn clients_that_load_at_the_same_time_make_one_index() {
    over_each("--size 256MiB", |over, work, node| {
        let each = over.fewer(5000);
        let loads: Vec<_> = (0..4)
            .map(|i| {
                let mut child = work.start(&format!("remote --node {} load", node.address));
                let mut stdin = child.stdin.take().unwrap();
                std::thread::spawn(move || {
                    let lines = lines(i * each..(i + 1) * each);
                    stdin.write_all(lines.as_bytes()).unwrap();
                    drop(stdin);
                    answer(child).ok();
                })
            })
            .collect();
        for load in loads {
            load.join().unwrap();
        }
        let check = node.run("check").ok();
        assert_eq!(check, format!("{}: ok, {} keys\n", node.address, 4 * each));
    });
}

#[test]
fn a_dump_ends_with_its_node() {
    over_each("--size 128MiB", |over, work, mut node| {
        let keys = over.fewer(budget(50_000, 100_000)).max(20_000);
        node.feed("load", lines(0..keys).as_bytes()).ok();
        let words = ["remote", "--node", &node.address, "dump"];
        let mut child = work.command(words).stdin(Stdio::null()).spawn().unwrap();
        // More than a pipe holds is to come yet.
        let mut begin = [0; 1000];
        child.stdout.as_mut().unwrap().read_exact(&mut begin).unwrap();
        node.kill();
        node.wait_until_removed();
        let dump = answer(child);
        assert_eq!(dump.code, Some(4), "{}", dump.err);
        let wanted = format!("durahash: node {} does not answer; ", node.address);
        assert!(dump.err.starts_with(&wanted), "{}", dump.err);
    });
}

/// Tests that do little but wait, at the same time.
pub(crate) fn those_that_do_not_answer_are_missed() {
    let waiting = [
        a_node_that_is_stopped_is_as_one_that_is_gone,
        a_client_that_is_stopped_is_named_to_those_that_it_blocks,
        several_nodes_have_one_index,
        damage_is_found_and_told,
    ];
    std::thread::scope(|scope| {
        for test in waiting {
            scope.spawn(test);
        }
    });
}

/// A client with a connection misses a stopped node within 11 s, one that connects within 5 s.
fn a_node_that_is_stopped_is_as_one_that_is_gone() {
    let over = Over::Local;
    let work = over.work();
    let node = Node::start(&work, over, "--size 128MiB");
    let nodes = format!("--node {}", node.address);
    node.feed("load", lines(0..over.fewer(budget(20_000, 100_000))).as_bytes()).ok();
    let words = ["remote", "--node", &node.address, "dump"];
    let mut dump = work.command(words).stdin(Stdio::null()).spawn().unwrap();
    let mut begin = [0; 1000];
    dump.stdout.as_mut().unwrap().read_exact(&mut begin).unwrap();
    let mut load = work.start(&format!("remote {nodes} load"));
    let mut stdin = load.stdin.take().unwrap();
    stdin.write_all(b"last\t1\n").unwrap();
    patiently(|| node.run("get last").code == Some(0));
    signal(&node.child, "-STOP");
    let start = Instant::now();
    node.run("get last").complains(4, "does not answer: ");
    let wanted = format!("node {} does not answer; ", node.address);
    let complaint = answer(load).failed(4);
    assert!(complaint.starts_with(&wanted), "{complaint}");
    // It has asked within the last second before that.
    std::thread::sleep(Duration::from_secs(2));
    let dump = answer(dump);
    assert_eq!(dump.code, Some(4), "{}", dump.err);
    assert!(dump.err.starts_with(&format!("durahash: {wanted}")), "{}", dump.err);
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    signal(&node.child, "-CONT");
    drop(stdin);
}

fn a_client_that_is_stopped_is_named_to_those_that_it_blocks() {
    let work = Work::new();
    let node = Node::start(&work, Over::Local, "--size 64MiB");
    let mut stopped = work.start(&format!("remote --node {} load", node.address));
    let mut stdin = stopped.stdin.take().unwrap();
    stdin.write_all(line(0).as_bytes()).unwrap();
    wait_for(&work, &format!("--node {}", node.address), 0);
    // Without operations it would rest, and nobody would wait for it.
    let (stops, told) = channel::<()>();
    let feeds = std::thread::spawn(move || {
        while told.recv_timeout(Duration::from_millis(50)) == Err(RecvTimeoutError::Timeout) {
            stdin.write_all(line(0).as_bytes()).unwrap();
        }
    });
    std::thread::sleep(Duration::from_millis(200));
    signal(&stopped, "-STOP");
    drop(stops);
    // The same keys again and again: of one segment, the 64th merge waits.
    let again = lines(0..1000).repeat(budget(20, 100));
    let complaint = node.feed("load", again.as_bytes()).failed(4);
    for part in ["the client in row ", "was stopped, as by Ctrl-Z", "entries were loaded and stay"]
    {
        assert!(complaint.contains(part), "{complaint}");
    }
    signal(&stopped, "-CONT");
    feeds.join().unwrap();
    answer(stopped).ok();
    node.feed("load", lines(0..budget(20_000, 100_000)).as_bytes()).ok();
}

/// Over UCX the dead are found by time: then others can take what such a client had.
#[cfg(feature = "ucx")]
#[test]
fn a_client_that_is_short_of_memory_outstays_a_dead_one() {
    let work = Over::Tcp.work();
    let node = Node::start(&work, Over::Tcp, "--size 1MiB");
    let nodes = format!("--node {}", node.address);
    let mut dead = work.start(&format!("remote {nodes} load"));
    let mut stdin = dead.stdin.take().unwrap();
    stdin.write_all(line(0).as_bytes()).unwrap();
    wait_for(&work, &nodes, 0);
    Over::Tcp.let_node_answer(&dead);
    dead.kill().unwrap();
    drop(answer(dead));
    let start = Instant::now();
    let load = node.feed("load", lines(0..50_000).as_bytes());
    assert_eq!(load.code, Some(4), "{}", load.err);
    // A load that takes longer than a lease finds the dead before memory is short.
    let waits = load.err.contains("memory is short: waiting for other clients to leave");
    assert!(waits || start.elapsed() > Duration::from_secs(40), "{}", load.err);
    assert!(load.err.contains("no space for "), "{}", load.err);
    assert_eq!(node.run("stats --json").json()["clients"], 1);
    drop(stdin);
}

/// Bytes of a node's file, changed at `off` bytes behind where `what` is.
fn damage(node: &Node<'_>, what: &[u8], off: usize) {
    let path = node.dir.as_ref().unwrap().join("node-0");
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(what.len()).position(|window| window == what).unwrap() + off;
    bytes[at] ^= 1;
    // In place, as the file is mapped.
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes[at..=at], at as u64).unwrap();
}

fn damage_is_found_and_told() {
    let work = Work::new();
    let mut node = Node::start(&work, Over::Local, "--size 1MiB");
    let address = &node.address.clone();
    node.feed("load", b"key\tvalue of it\nother\tsound\n").ok();
    // A value, whose checksum tells.
    damage(&node, b"value of it", 0);
    let check = node.run("check");
    let text = String::from_utf8(check.out).unwrap();
    assert_eq!(check.code, Some(3), "{text}{}", check.err);
    assert!(text.starts_with(&format!("{address}: at offset 0x")), "{text}");
    assert!(text.ends_with(&format!("\n{address}: 1 finding\n")), "{text}");
    let check = node.run("check --json");
    let found = check.value();
    assert_eq!((check.code, &found["ok"]), (Some(3), &false.into()));
    assert_eq!(found["findings"].as_array().unwrap().len(), 1, "{found}");
    for line in ["stats", "stats --json", "get key"] {
        let complaint = node.run(line).failed(3);
        assert!(
            complaint.starts_with(&format!("{address}: the index is damaged: ")),
            "{complaint}"
        );
    }
    assert_eq!(node.run("dump").code, Some(3));
    assert_eq!(node.run("get other").ok(), "sound\n");
    // The index itself, and then what says that this is the memory of a node.
    for (what, wanted) in
        [(&b"DURASEP\0"[..], "there is no sound index"), (b"durareg\0", "was not lent by a node")]
    {
        damage(&node, what, 0);
        let lines = ["check", "stats", "dump", "get key", "check --json"]
            .map(|line| format!("remote --node {address} {line}"));
        let mut answers = work.run_all(&lines);
        let check = answers.pop().unwrap();
        for answer in answers {
            answer.complains(3, wanted);
        }
        let answer = check.value();
        assert_eq!((check.code, &answer["pool"]), (Some(3), &address[..].into()));
        assert_eq!(answer["ok"], false);
        assert!(answer["error"].as_str().unwrap().contains(wanted), "{answer}");
    }
    node.kill();
    node.wait_until_removed();
}

#[test]
fn a_benchmark_leaves_an_empty_index() {
    over_each("--size 64MiB", |over, work, node| {
        let threads = if over.fewer(20) == 20 { "1,2" } else { "2" };
        let bench = format!("bench --keys 1000 --threads {threads} --json out.json --report page");
        let text = node.run(&bench).ok();
        for part in ["sephash", "put_many", "YCSB F", &node.address] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        let saved: Value =
            serde_json::from_slice(&std::fs::read(work.path("out.json")).unwrap()).unwrap();
        assert!(saved.is_object() && work.path("page/report.html").exists());
        assert_eq!(node.run("check").ok(), format!("{}: ok, 0 keys\n", node.address));
        node.run("put key value").ok();
        assert!(node.run("bench --keys 1000").failed(2).contains("has entries"));
        assert_eq!(node.run("get key").ok(), "value\n");
        assert!(node.run("bench --keys 1").failed(2).contains("too few"));
    });
}

#[test]
fn benchmarks_take_their_memory_once() {
    let work = Work::new();
    let node = Node::start(&work, Over::Local, "--size 32MiB");
    let bench = format!("bench --keys {} --threads 2", budget(1000, 2000));
    let taken = || {
        node.run(&bench).ok();
        node.run("stats --json").json()["taken_bytes"].as_u64().unwrap()
    };
    let [first, _, last] = [taken(), taken(), taken()];
    assert!(last < 2 * first, "{first} and {last} bytes");
}

#[test]
fn a_benchmark_that_fails_leaves_nothing_or_says_so() {
    let work = Work::new();
    let node = Node::start(&work, Over::Local, "--size 1MiB");
    let complaint = node.run("bench --keys 50000 --threads 2").complains(4, "no space for ");
    let dump = node.run("dump");
    assert_eq!((dump.code, dump.err.as_str()), (Some(0), ""));
    assert!(dump.out.is_empty() || complaint.contains("may still be in the index"), "{complaint}");
}

#[test]
fn real_nodes_are_measured() {
    let work = Work::new();
    let line = "bench --suite nodes --medium dram --keys 1000 --threads 1 --json out.json";
    let text = work.run(line).ok();
    for part in ["this machine, real\n", "shared memory"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    let report: Value =
        serde_json::from_slice(&std::fs::read(work.path("out.json")).unwrap()).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let fabrics: Vec<_> = rows.iter().map(|row| row["design"].as_str().unwrap()).collect();
    for fabric in ["shared memory", "ucx, tcp", "ucx, shared memory"] {
        let there = !fabric.starts_with("ucx") || cfg!(feature = "ucx");
        assert_eq!(fabrics.contains(&fabric), there, "{fabric}");
    }
    assert!(rows.iter().all(|row| row["table"] == "real" && row["value"].as_f64().unwrap() > 0.0));
}

#[test]
fn a_node_ends_with_its_input_if_it_is_told_to() {
    over_each("--size 1MiB --until-eof", |_, _, mut node| {
        node.feed("load", b"key\tvalue\n").ok();
        drop(node.child.stdin.take());
        let mut status = None;
        patiently(|| {
            status = node.child.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(0));
        node.wait_until_removed();
    });
}

/// Processes that a process has started.
fn children(of: u32) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{name}/stat")).ok()?;
        // Behind its name: its state, and its parent.
        let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse();
        (parent == Ok(of)).then_some(name)
    });
    all.collect()
}

/// The signals by which services are stopped. The process that runs the tests may ignore others, and its
/// children then ignore them as well.
#[test]
fn a_signal_to_a_node_and_its_guard_leaves_nothing() {
    let work = Work::new();
    let mut node = Node::start(&work, Over::Local, "--size 1MiB");
    let guards = children(node.child.id());
    assert_eq!(guards.len(), 1, "{guards:?}");
    let all = ["-TERM".to_owned(), guards[0].clone(), node.child.id().to_string()];
    assert!(std::process::Command::new("kill").args(all).status().unwrap().success());
    patiently(|| node.child.try_wait().unwrap().is_some());
    node.wait_until_removed();
}

#[test]
fn a_node_that_is_killed_while_it_takes_memory_leaves_none() {
    let work = Work::new();
    let line = "node --listen 127.0.0.1:0 --size 256MiB --fabric local:taken";
    let mut child = work.command(line.split(' ')).stdin(Stdio::null()).spawn().unwrap();
    patiently(|| work.path("taken/node-0").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    patiently(|| !work.path("taken").exists());
}

#[test]
fn the_memory_of_a_node_is_where_it_is_told_to_be() {
    let work = Work::new();
    let mut node = Node::start(&work, Over::Local, "--size 1MiB --fabric local:memory");
    assert_eq!(node.dir, Some(work.path("memory").canonicalize().unwrap()));
    node.feed("load", b"key\tvalue\n").ok();
    assert!(work.path("memory").exists());
    // A second one cannot have it.
    let other = "node --listen 127.0.0.1:0 --size 1MiB --fabric local:memory";
    assert!(work.run(other).failed(2).contains("already exists"));
    assert_eq!(node.run("get key").ok(), "value\n");
    node.kill();
    node.wait_until_removed();
    // And the next one begins anew.
    let next = Node::start(&work, Over::Local, "--size 1MiB --fabric local:memory");
    assert!(next.run("get key").failed(4).contains("there is no index"));
}
