//! Who watches over nodes: lists of clients, evictions, figures, and what a flood of connections does.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use durahash_remote::node::{Limits, Offers, Token};
use durahash_remote::tcp::Tcp;
use durahash_remote::{BlockingMap, Options};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::node::{Node, Over, patiently, signal};
use super::{line, lines, secret, wait_for};
use crate::tool::{Work, answer};

#[test]
fn a_client_that_is_stopped_is_evicted_and_told_so() {
    let work = Work::new();
    let mut node = Node::start(&work, Over::Net, "--size 64MiB --clients 2");
    let mut stopped = work.start(&format!("remote --node {} load", node.address));
    let mut stdin = stopped.stdin.take().unwrap();
    stdin.write_all(line(0).as_bytes()).unwrap();
    wait_for(&work, &format!("--node {}", node.address), 0);
    assert_eq!(node.run("evict --silent 1h").ok(), "");
    signal(&stopped, "-STOP");
    // It is silent for longer than any that lives. Who waited for it may have come before it.
    let mut client_id = u64::MAX;
    patiently(|| {
        let clients = node.run("clients --json").json();
        let client = &clients["clients"][0];
        client_id = client["client"].as_u64().unwrap();
        assert!(client["address"].as_str().unwrap().starts_with("127.0.0.1:"));
        client["silent_ms"].as_u64().unwrap() >= 1500
    });
    assert!(node.run("clients").ok().contains(&format!("\n{client_id}       127.0.0.1:")));
    let evicted = node.run("evict --silent 1500ms").ok();
    assert!(evicted.starts_with(&format!("evicted client {client_id}, 127.0.0.1:")), "{evicted}");
    for gone in [&format!("evict {client_id}"), "evict 127.0.0.1:1"] {
        assert_eq!(node.run(gone).code, Some(1));
    }
    // Nobody holds others up.
    node.feed("load", lines(1..2000).as_bytes()).ok();
    signal(&stopped, "-CONT");
    drop(stdin);
    answer(stopped).complains(4, "the nodes evicted this client");
    assert_eq!(node.run("stats --json").json()["keys"], 2000);
    let said = node.complaints(1);
    assert!(said.len() == 1 && said[0].starts_with("evicted 127.0.0.1:"), "{said:?}");
}

/// What is told at a path.
fn figures(node: &Node<'_>, path: &str) -> String {
    let mut stream = TcpStream::connect(node.metrics.as_ref().unwrap()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: node\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

/// A figure, by its name and label.
fn figure(text: &str, name: &str) -> u64 {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    found.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
}

#[test]
fn figures_of_a_node_are_told() {
    let work = Work::new();
    secret(&work, "token", "a secret of 20 bytes");
    let node = Node::start(&work, Over::Net, "--size 64MiB --metrics 0 --token-file token");
    let run = |token: &str, input: &str| {
        let line = format!("remote --node {} {token}load", node.address);
        work.feed(&line, input.as_bytes())
    };
    run("--token-file token ", &lines(0..100)).ok();
    run("", "").failed(2);
    // The node may not have seen the end of its client yet.
    patiently(|| figure(&figures(&node, "/metrics"), "durahash_node_connections") == 0);
    let text = figures(&node, "/metrics");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"));
    for (name, wanted) in [
        ("memory_bytes", 64 << 20),
        ("clients", 0),
        ("rows", 64),
        ("accepted_total", 2),
        ("refused_total{why=\"it shows no token\"}", 1),
        ("refused_total{why=\"it shows a different token\"}", 0),
        ("clients_ended_total{how=\"left\"}", 1),
    ] {
        assert_eq!(figure(&text, &format!("durahash_node_{name}")), wanted, "{name}");
    }
    for name in ["verbs_total{kind=\"write\"}", "received_bytes_total", "taken_bytes"] {
        assert!(figure(&text, &format!("durahash_node_{name}")) > 100, "{name}: {text}");
    }
    assert!(text.contains("# TYPE durahash_node_verbs_total counter\n"), "{text}");
    assert!(figures(&node, "/other").starts_with("HTTP/1.1 404 "));
    // Nobody waits for those who say nothing.
    let silent = || TcpStream::connect(node.metrics.as_ref().unwrap()).unwrap();
    let _silent: Vec<_> = (0..40).map(|_| silent()).collect();
    figures(&node, "/metrics");
}

/// What the system says of a process: threads, KiB of memory, and milliseconds of processors.
fn cost(pid: u32) -> [u64; 3] {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let ticks = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    [field("Threads:"), field("VmRSS:"), ticks * 10]
}

/// `fallback` of something, or as many as this variable of the environment says; and descriptors for them.
fn as_many(variable: &str, fallback: usize) -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    std::env::var(variable).map_or(fallback, |count| count.parse().unwrap())
}

/// The median, and the time that one of a hundred takes.
fn lookups(map: &BlockingMap<Tcp>, key: &[u8], count: usize) -> [Duration; 2] {
    let look = |_| {
        let start = Instant::now();
        assert_eq!(map.get(key).unwrap().as_deref(), Some(&b"value"[..]));
        start.elapsed()
    };
    let mut all: Vec<Duration> = (0..count).map(look).collect();
    all.sort_unstable();
    [all[count / 2], all[count * 99 / 100]]
}

/// `DURAHASH_CLIENTS` says how many there are in this process; then `--nocapture` prints what they cost when they are idle, and
/// when they are not.
#[test]
fn a_node_serves_many_clients() {
    let many = as_many("DURAHASH_CLIENTS", 100);
    let work = Work::new();
    let node = Node::start(&work, Over::Net, "--size 1024MiB --clients 4096 --metrics 0");
    let mut options = Options::default();
    options.max_clients = 4096;
    let come = |number| {
        let tcp = Offers::gather(&[&node.address], None, &Limits::default()).and_then(Tcp::attach);
        match number {
            0 => BlockingMap::create(tcp.unwrap(), options),
            _ => BlockingMap::open(tcp.unwrap(), options),
        }
    };
    let maps: Vec<_> = (0..many).map(|number| come(number).unwrap()).collect();
    let key = |number| format!("key {number}").into_bytes();
    for (number, map) in maps.iter().enumerate() {
        map.put(&key(number), b"value").unwrap();
    }
    assert_eq!(figure(&figures(&node, "/"), "durahash_node_clients"), many as u64);
    let keys: Vec<_> = (0..many).map(key).collect();
    let all = || {
        std::thread::scope(|scope| {
            let look = |maps: &[BlockingMap<Tcp>]| {
                for map in maps {
                    assert!(map.get_many(&keys).unwrap().iter().all(Option::is_some));
                }
            };
            for maps in maps.chunks(many.div_ceil(16)) {
                scope.spawn(move || look(maps));
            }
        });
    };
    all();
    if std::env::var_os("DURAHASH_CLIENTS").is_some() {
        let pids = [node.child.id(), std::process::id()];
        let costs = |what: &str, f: &dyn Fn()| {
            let (start, before) = (Instant::now(), pids.map(cost));
            f();
            let seconds = start.elapsed().as_secs_f64();
            let ms = [0, 1].map(|i| (cost(pids[i])[2] - before[i][2]) as f64 / seconds / 10.0);
            let [threads, kib, _] = cost(pids[0]);
            println!(
                "{what}: {seconds:.2} s; node {:.1} % of a core, {threads} threads, {kib} KiB; clients {:.1} %",
                ms[0], ms[1]
            );
        };
        let rest = || std::thread::sleep(Duration::from_secs(10));
        rest();
        costs("idle", &rest);
        costs("idle but for one", &|| println!("{:?}", lookups(&maps[0], &keys[0], 20_000)));
        costs("each looks up all keys", &all);
    }
    drop(maps);
    patiently(|| figure(&figures(&node, "/"), "durahash_node_clients") == 0);
}

/// A connection from another address than that of clients.
fn from_elsewhere(to: SocketAddr) -> TcpStream {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2), 0)).unwrap();
    connect(&socket, &to).unwrap();
    socket.into()
}

/// Connections that say nothing, half of a first message, or a wrong token, all held open: no thread or memory stays with
/// them, a client works on, and further ones come in. `DURAHASH_FLOOD` says how many of each; with `--nocapture` it prints what they cost.
#[test]
fn a_flood_of_connections_takes_nothing_from_a_client() {
    let many = as_many("DURAHASH_FLOOD", 300);
    let work = Work::new();
    secret(&work, "token", "a secret of 20 bytes");
    let node = Node::start(&work, Over::Net, "--size 64MiB --metrics 0 --token-file token");
    let token = Token::new(b"a secret of 20 bytes").unwrap();
    let come = || {
        let offers = Offers::gather(&[&node.address], Some(&token), &Limits::default())?;
        Tcp::attach(offers)
    };
    let map = BlockingMap::create(come().unwrap(), Options::default()).unwrap();
    map.put(b"key", b"value").unwrap();
    let lookups = |count| lookups(&map, b"key", count);
    let told = |what: &str, since: u64, [p50, p99]: [Duration; 2]| {
        let [threads, kib, ms] = cost(node.child.id());
        let replaced = figure(&figures(&node, "/"), "durahash_node_replaced_total");
        println!(
            "{what}: {threads} threads, {kib} KiB, {} ms of a core, {replaced} replaced; lookups {p50:?}, p99 {p99:?}",
            ms - since
        );
        (threads, ms)
    };
    let (idle, mut since) = told("nobody else", 0, lookups(many));
    let hello = [&b"durnode\0\x03\0\0\0\x01\0\0\0"[..], &[7; 48]].concat();
    for (what, said) in [("silent", 0), ("half of a message", 20), ("a wrong token", hello.len())] {
        let (go_on, wait) = std::sync::mpsc::channel::<()>();
        let (address, hello) = (node.address.parse().unwrap(), &hello);
        let flood = move || {
            let open = |_| {
                let mut stream = from_elsewhere(address);
                // The node may have ended it for another.
                drop(stream.write_all(&hello[..said]));
                stream
            };
            let held: Vec<_> = (0..many).map(open).collect();
            let _ = wait.recv();
            drop(held);
        };
        std::thread::scope(|scope| {
            let flooded = scope.spawn(flood);
            let during = lookups(many);
            // While they are held: as many as wait at once, and those that others replace, are all there is.
            let (threads, _) = told(&format!("{what}, as they come"), since, during);
            assert!(threads <= idle + 64 + 1, "{threads} threads, {idle} before");
            patiently(|| come().is_ok());
            drop(go_on);
            flooded.join().unwrap();
        });
        patiently(|| cost(node.child.id())[0] <= idle + 1);
        (_, since) = told(&format!("{what}, gone"), since, lookups(many));
    }
    let text = figures(&node, "/");
    // Some were listened to, and then their address was not.
    for why in [
        "it shows a different token",
        "there are too many connections, or wrong tokens from its address",
    ] {
        let refused = figure(&text, &format!("durahash_node_refused_total{{why=\"{why}\"}}"));
        assert!(refused > 0, "{text}");
    }
}
