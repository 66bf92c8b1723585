//! SepHash between processes: loads, clients and nodes that are killed.

use std::thread;
use std::time::Duration;

use durahash_media::sim::set_boot;
use durahash_media::{Error, ErrorKind};
use durahash_remote::executor::{Executor, block_on};
use durahash_remote::fabric::{Addr, Fabric};
use durahash_remote::node::{FileMemory, Limits, Listening, Token};
use durahash_remote::{BlockingMap, Options, RemoteMap, Result};
use durahash_ucx::{Trusted, Ucx, UcxNode, UcxNodeOptions};

use crate::process::{Process, Transport, hear, tell};
use crate::{DEADLINE, Nodes, connect, hear_infos, reach};

/// Operations under way at once.
const AT_ONCE: u64 = 16;

/// So small that there are merges and splits all the time, and that generations wrap.
fn tiny() -> Options {
    let mut options = Options::default();
    options.cur_entries = 8;
    options.main_entries = 128;
    options.max_clients = 8;
    options.chunk_bytes = 16 << 10;
    options.tick_ns = 20_000_000;
    options
}

fn key(name: u64, i: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&name.to_le_bytes());
    key[8..].copy_from_slice(&i.to_le_bytes());
    key
}

fn hear_number() -> u64 {
    hear().parse().unwrap()
}

/// Makes the index, with a directory of so many bits at most.
pub(crate) fn create() {
    let client = connect();
    let mut options = tiny();
    options.max_depth = hear().parse().unwrap();
    block_on(async { RemoteMap::create(client, options).await?.close().await }).unwrap();
}

/// Puts keys, many at once, and tells of each of them; then how many clients it has evicted.
pub(crate) fn load() {
    let (client, name, count) = (connect(), hear_number(), hear_number());
    let executor = Executor::new();
    let loaded = executor.block_on(async {
        let map = RemoteMap::open(client, tiny()).await?;
        let service = executor.spawn(0, map.clone().service());
        let tasks: Vec<_> = (0..AT_ONCE)
            .map(|task| {
                let map = map.clone();
                executor.spawn(0, async move {
                    for i in (task..count).step_by(AT_ONCE as usize) {
                        map.put(&key(name, i), &i.to_le_bytes()).await?;
                        tell(&format!("put {i}"));
                    }
                    Ok::<(), Error>(())
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("nobody drops the task")?;
        }
        tell(&format!("evicted {}", map.stats().evictions));
        map.close().await?;
        service.await.expect("nobody drops the task")
    });
    loaded.unwrap();
}

/// Looks keys up: all of some names, those that are told of others; then tells what the index has.
pub(crate) fn check() {
    let (client, ranges) = (connect(), hear());
    let report = Executor::new().block_on(async {
        let map = RemoteMap::open(client, tiny()).await?;
        for range in ranges.split(' ') {
            let (name, keys) = range.split_once(':').unwrap();
            let name = name.parse().unwrap();
            for i in keys.split(',').map(|i| i.parse::<u64>().unwrap()) {
                let found = map.get(&key(name, i)).await?;
                assert_eq!(found.as_deref(), Some(&i.to_le_bytes()[..]), "key {i} of {name}");
            }
        }
        let report = map.check().await?;
        map.close().await?;
        Ok::<_, Error>(report)
    });
    tell(&report.unwrap().keys.to_string());
}

fn all(count: u64) -> String {
    (0..count).map(|i| i.to_string()).collect::<Vec<_>>().join(",")
}

#[test]
fn two_processes_load_one_index() {
    const KEYS: u64 = 1500;
    for transport in Transport::ALL {
        let nodes = Nodes::start(transport, &[16 << 20; 2], 8, 60_000);
        nodes.client("create", &["4"]).end();
        let count = KEYS.to_string();
        let loads = ["0", "1"].map(|name| nodes.client("load", &[name, &count]));
        loads.into_iter().for_each(|load| load.end());
        let check = nodes.client("check", &[&format!("0:{0} 1:{0}", all(KEYS))]);
        check.expect(&(2 * KEYS).to_string());
        check.end();
        nodes.end();
    }
}

#[test]
fn a_client_that_is_killed_stops_nobody() {
    kill_a_client(Nodes::start(Transport::Tcp, &[16 << 20; 2], 8, 8_000), |nodes| nodes);
}

/// Its row is in the files, as it may have had verbs under way to a node that was not killed.
#[test]
fn a_client_that_is_killed_with_its_nodes_is_evicted_from_the_next_ones() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["one", "two"].map(|name| dir.path().join(name));
    files.iter().for_each(|file| FileMemory::create(file, 16 << 20).unwrap());
    let start = || Nodes::start_in(Transport::Tcp, &files, 8_000);
    kill_a_client(start(), |nodes| {
        nodes.kill();
        start()
    });
    // They were closed, so they may come from another boot.
    set_boot(1);
    files.iter().for_each(|file| drop(FileMemory::open(file, None, false).unwrap()));
}

fn kill_a_client(nodes: Nodes, then: impl FnOnce(Nodes) -> Nodes) {
    const KEYS: u64 = 2500;
    // Of so few segments that each is merged more often than a dead client allows.
    nodes.client("create", &["1"]).end();
    let victim = nodes.client("load", &["0", "1000000"]);
    let mut told = Vec::new();
    while told.len() < 300 {
        told.push(victim.next().expect("it loads until it is killed"));
    }
    // The node has answered all of it when it is killed: see `UcxNode` for what UCX does otherwise.
    victim.stop();
    thread::sleep(Duration::from_millis(500));
    told.extend(victim.kill());
    let told: Vec<_> = told.iter().map(|line| line.strip_prefix("put ").unwrap()).collect();
    let nodes = then(nodes);
    let survivor = nodes.client("load", &["1", &KEYS.to_string()]);
    let mut last = String::new();
    while let Some(line) = survivor.next() {
        last = line;
    }
    assert_eq!(last, "evicted 1");
    survivor.end();
    let check = nodes.client("check", &[&format!("0:{} 1:{}", told.join(","), all(KEYS))]);
    let keys: u64 = check.next().unwrap().parse().unwrap();
    // Of what was under way when it was killed, any may be there.
    let least = told.len() as u64 + KEYS;
    assert!((least..=least + AT_ONCE).contains(&keys), "{keys} keys, {least} told");
    check.end();
    nodes.end();
}

/// Puts until the node is lost, and tries again when it is told to.
pub(crate) fn lose() {
    let client = reach(&hear_infos(), Duration::from_secs(6)).unwrap();
    let lost = |result: Result<()>| {
        let error = result.err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::NodeLost { .. }), "{error}");
        tell("lost");
    };
    let executor = Executor::new();
    let error = executor.block_on(async {
        let map = RemoteMap::create(client.clone(), tiny()).await?;
        for i in 0.. {
            map.put(&key(0, i), &[1; 100]).await?;
            map.delete(&key(0, i)).await?;
            if i == 20 {
                tell("puts");
            }
        }
        Ok(())
    });
    lost(error);
    assert_eq!(hear(), "again");
    lost(executor.block_on(async { RemoteMap::open(client.clone(), tiny()).await.map(drop) }));
    client.write_unsignaled(Addr::new(0, 4096), &[1]).unwrap();
    lost(executor.block_on(client.flush(0)));
}

/// Makes an offer of a region.
pub(crate) fn listen() {
    let mut options = UcxNodeOptions::default();
    options.bytes = 16 << 20;
    let node = UcxNode::start(&options).unwrap();
    let token = Some(Token::new(b"sesame").unwrap());
    let listening = Listening::bind("127.0.0.1:0", node.offer(), token, Limits::default()).unwrap();
    tell(&listening.address().to_string());
    hear();
}

/// Puts by threads until the node is lost.
pub(crate) fn find() {
    // SAFETY: the test has started the process that listens there.
    let addresses = unsafe { Trusted::new([hear()]) };
    let find = |token| {
        let token = Token::new(token).unwrap();
        Ucx::find(&addresses, Some(&token), &Limits::default(), DEADLINE)
    };
    let refused = find(&b"salami"[..]).err().unwrap();
    assert!(matches!(refused.kind(), ErrorKind::Refused { .. }), "{refused}");
    let map = BlockingMap::create(find(b"sesame").unwrap(), tiny()).unwrap();
    let error = (0..).find_map(|i| {
        if i == 20 {
            tell("puts");
        }
        map.put(&key(0, i), b"value").and_then(|()| map.delete(&key(0, i))).err()
    });
    let error = error.unwrap();
    assert!(matches!(error.kind(), ErrorKind::NodeLost { .. }), "{error}");
    tell("lost");
}

#[test]
fn nodes_are_found_by_a_control_connection_which_tells_their_end() {
    for transport in Transport::ALL {
        let node = Process::start(transport, "listen", &[]);
        let client = Process::start(transport, "find", &[node.next().unwrap()]);
        client.expect("puts");
        node.kill();
        client.expect("lost");
        client.end();
    }
}

/// Connects to what is not there any more.
pub(crate) fn stale() {
    let refused = reach(&hear_infos(), Duration::from_secs(6)).err().unwrap();
    assert!(
        matches!(refused.kind(), ErrorKind::NodeLost { .. } | ErrorKind::Io { .. }),
        "{refused}"
    );
    tell("refused");
}

/// Has a client that runs `lose`, and has lost its node once, lose it again in every other way.
fn loses_again(mut client: Process) {
    client.say("again");
    client.expect("lost");
    client.expect("lost");
    client.end();
}

#[test]
fn a_node_that_is_killed_is_lost_and_a_new_one_is_another() {
    for transport in Transport::ALL {
        let nodes = Nodes::start(transport, &[16 << 20], 8, 60_000);
        let client = nodes.client("lose", &[]);
        client.expect("puts");
        let infos = nodes.infos.clone();
        nodes.kill();
        client.expect("lost");
        let new = Nodes::start(transport, &[16 << 20], 8, 60_000);
        loses_again(client);
        let old = Nodes { transport, processes: Vec::new(), infos };
        let stale = old.client("stale", &[]);
        stale.expect("refused");
        stale.end();
        // The new one has nothing of the old.
        new.client("create", &["4"]).end();
        new.client("load", &["0", "50"]).end();
        let check = new.client("check", &[&format!("0:{}", all(50))]);
        check.expect("50");
        check.end();
        new.end();
    }
}

#[test]
fn a_node_that_does_not_answer_is_lost_after_the_deadline() {
    for transport in Transport::ALL {
        let nodes = Nodes::start(transport, &[16 << 20], 8, 60_000);
        let client = nodes.client("lose", &[]);
        client.expect("puts");
        nodes.processes[0].stop();
        client.expect("lost");
        loses_again(client);
        nodes.kill();
    }
}

#[test]
fn a_node_that_ends_is_lost() {
    let nodes = Nodes::start(Transport::Tcp, &[16 << 20], 8, 60_000);
    let client = nodes.client("lose", &[]);
    client.expect("puts");
    nodes.end();
    client.expect("lost");
    loses_again(client);
}
