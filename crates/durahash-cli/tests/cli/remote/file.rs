//! Nodes whose memory lies in a file: killed, stopped, and started again.

use std::fs;
use std::path::Path;

use durahash_media::NodeFile;
use durahash_media::sim::set_boot;

use super::node::{Node, Over, patiently, signal};
use super::{line, lines, load_without_end, wait_for};
use crate::tool::Work;

/// Ends it in order.
fn stop(node: &mut Node<'_>, which: &str) {
    signal(&node.child, which);
    let mut status = None;
    patiently(|| {
        status = node.child.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0), "{which}");
}

/// What a loss of power leaves of a file that was closed: it was opened again in another boot, and not closed.
fn lose_power(path: &Path) {
    set_boot(9);
    drop(NodeFile::open(path, None, false).unwrap());
    set_boot(0);
}

#[test]
fn a_killed_node_comes_back_with_all_that_was_loaded() {
    for over in Over::ALL {
        let work = over.work();
        let keys = over.fewer(20_000);
        let mut node = Node::start(&work, over, "--size 32MiB --file a.node");
        node.feed("load", lines(0..keys).as_bytes()).ok();
        // And of a client that is killed, too: its row stays, and must not be that of a live one for good.
        let nodes = format!("--node {}", node.address);
        load_without_end(&work, &nodes, |client| {
            wait_for(&work, &nodes, keys + 100);
            over.let_node_answer(client);
            client.kill().unwrap();
        });
        node.kill();
        let mut node = Node::start(&work, over, "--file a.node");
        let dump = node.run("dump").ok();
        let found: std::collections::HashSet<_> = dump.split_inclusive('\n').collect();
        // Of the lines that the killed client had under way any are there.
        assert!((0..keys).chain([keys + 100]).all(|i| found.contains(&*line(i))));
        assert_eq!(node.run("check").code, Some(0));
        node.run("put key again").ok();
        assert_eq!(node.run("get key").ok(), "again\n");
        if over == Over::Local {
            assert_eq!(node.run("stats --json").json()["clients"], 1);
        }
        let said = node.complaints(1);
        assert!(
            said[0].starts_with("durahash: a.node: goes on with what the last node"),
            "{said:?}"
        );
    }
}

#[test]
fn an_index_over_two_nodes_survives_a_kill_of_either() {
    for over in Over::ALL {
        let work = over.work();
        let keys = over.fewer(10_000);
        let start =
            |i: usize, more: &str| Node::start(&work, over, &format!("{more} --file {i}.node"));
        let mut nodes = [0, 1].map(|i| start(i, "--size 16MiB"));
        let remote = |nodes: &[Node<'_>; 2], line: &str, input: &[u8]| {
            let [one, two] = nodes.each_ref().map(|node| node.address.clone());
            work.feed(&format!("remote --node {one} --node {two} {line}"), input)
        };
        let mut loaded = 0;
        for killed in [0, 1] {
            remote(&nodes, "load", lines(loaded..loaded + keys).as_bytes()).ok();
            loaded += keys;
            nodes[killed].kill();
            remote(&nodes, "get key", b"").complains(4, "does not answer");
            nodes[killed] = start(killed, "");
            let dump = remote(&nodes, "dump", b"");
            let text = lines(0..loaded);
            let mut wanted: Vec<_> = text.split_inclusive('\n').map(str::as_bytes).collect();
            wanted.sort();
            assert_eq!(dump.sorted_lines(), wanted);
            assert_eq!(remote(&nodes, "check", b"").code, Some(0));
        }
        // They are the same nodes, so their order counts as before.
        nodes.reverse();
        remote(&nodes, "get key", b"").complains(3, "named in another order");
    }
}

#[test]
fn a_file_that_was_closed_survives_a_restart_of_the_machine_and_is_suspect_otherwise() {
    for over in Over::ALL {
        let work = over.work();
        let path = work.path("a.node");
        for which in ["-TERM", "-INT"] {
            let mut node = Node::start(&work, over, "--size 1MiB --file a.node");
            node.feed("load", b"key\tvalue\n").ok();
            stop(&mut node, which);
        }
        // A copy of it is as good, wherever it lies.
        fs::create_dir(work.path("elsewhere")).unwrap();
        fs::copy(&path, work.path("elsewhere/a.node")).unwrap();
        let copy = Node::start(&work, over, "--file elsewhere/a.node");
        assert_eq!(copy.run("get key").ok(), "value\n");
        lose_power(&path);
        let refused = work.run("node --listen 127.0.0.1:0 --file a.node");
        let complaint = refused.complains(3, "was not closed before the machine went down");
        assert!(complaint.starts_with("a.node: "), "{complaint}");
        assert!(complaint.contains("--accept-suspect serves what is there"), "{complaint}");
        let mut node = Node::start(&work, over, "--file a.node --accept-suspect");
        assert_eq!(node.run("get key").ok(), "value\n");
        stop(&mut node, "-TERM");
        // It stays so, and each node says so.
        let mut node = Node::start(&work, over, "--file a.node");
        assert_eq!(node.run("get key").ok(), "value\n");
        let said = node.complaints(0);
        assert!(said.len() == 1 && said[0].contains("a.node: pages of this memory may be missing"));
    }
}

#[test]
fn a_file_has_one_node_and_clients_of_this_host_end_before_it_is_closed() {
    let work = Work::new();
    let mut node = Node::start(&work, Over::Local, "--size 1MiB --file a.node");
    let second = "node --listen 127.0.0.1:0 --file a.node";
    work.run(second).complains(5, "another node serves this file");
    // A client that waits for lines ends with its node, which waits for that.
    let child = work.start(&format!("remote --node {} load", node.address));
    patiently(|| node.run("stats --json").code == Some(0));
    stop(&mut node, "-TERM");
    crate::tool::answer(child).failed(4);
    NodeFile::open(&work.path("a.node"), None, false).unwrap().close().unwrap();
}

#[test]
fn files_that_cannot_be_served_are_named_with_what_to_do() {
    let work = Work::new();
    let mut node = Node::start(&work, Over::Local, "--size 1MiB --file a.node");
    node.feed("load", b"key\tvalue\n").ok();
    // While its node runs, and after a kill.
    fs::copy(work.path("a.node"), work.path("copy.node")).unwrap();
    node.kill();
    let good = fs::read(work.path("a.node")).unwrap();
    work.write("short.node", &good[..good.len() - 1]);
    work.write("long.node", [&good[..], b"x"].concat());
    work.write("other", "anything that is as long as a header. ".repeat(200));
    work.write("empty", "");
    let mut version = good.clone();
    version[8] ^= 3;
    work.write("version.node", &version);
    fs::create_dir(work.path("dir")).unwrap();
    for (arguments, code, wanted) in [
        ("copy.node", 3, "copy.node: this file is a copy that was made while its node ran"),
        ("a.node --size 2MiB", 3, "a.node: the memory in this file has 1048576 bytes, not 2097152"),
        (
            "short.node",
            3,
            "short.node: the file has 1052671 bytes, but the memory in it needs 1052672",
        ),
        (
            "long.node",
            3,
            "long.node: this is no memory of a node of this build: the length of its file",
        ),
        ("other", 3, "other: this is no memory of a node of this build: the magic number"),
        ("empty", 3, "empty: this is no memory of a node: it is empty; check the path"),
        ("dir", 3, "dir: this is no memory of a node: it is a directory"),
        ("version.node", 3, "the protocol version is 0x2, not 0x1"),
        ("none/new.node", 4, "none/new.node: creating the file: No such file"),
        ("new.node --size 5000", 2, "a multiple of 4096"),
        ("a.node --fabric local:dir", 2, "two places for one memory"),
        #[cfg(not(feature = "ucx"))]
        ("a.node --fabric ucx", 2, "this build has no UCX"),
    ] {
        let line = format!("node --listen 127.0.0.1:0 --file {arguments}");
        work.run(&line).complains(code, wanted);
    }
    assert_eq!(work.run("node --accept-suspect").code, Some(2));
    // What the clients lock is gone, and may have been locked.
    let clients = fs::read_dir(work.path("")).unwrap().map(|entry| entry.unwrap().path());
    let clients: Vec<_> =
        clients.filter(|path| path.extension() == Some("clients".as_ref())).collect();
    assert_eq!(clients.len(), 1, "{clients:?}");
    fs::remove_dir_all(&clients[0]).unwrap();
    work.run("node --listen 127.0.0.1:0 --file a.node")
        .complains(4, "it was removed, so it is not known");
    let node = Node::start(&work, Over::Local, "--file a.node --accept-suspect");
    assert_eq!(node.run("get key").ok(), "value\n");
}
