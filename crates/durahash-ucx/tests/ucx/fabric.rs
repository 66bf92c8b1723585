//! Verbs, rows and what is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use durahash_media::ErrorKind;
use durahash_remote::executor::block_on;
use durahash_remote::fabric::{Addr, Batch, Done, Fabric};
use durahash_remote::node::Limits;
use durahash_ucx::{Trusted, Ucx, UcxNode, UcxNodeOptions};

use crate::process::{Transport, hear, tell};
use crate::{DEADLINE, Nodes, connect, hear_infos, reach, verbs};

const BODIES: [&str; 6] = ["what_verbs_do", "counted", "wrong", "awaited", "dropped", "slept"];

pub(crate) fn verb_bodies() {
    let (infos, body) = (hear_infos(), hear());
    let client = || reach(&infos, DEADLINE).unwrap();
    let (one, two) = (client(), client());
    match body.as_str() {
        "what_verbs_do" => block_on(verbs::what_verbs_do(one, two)),
        "counted" => block_on(verbs::counted(one, two)),
        "wrong" => block_on(verbs::wrong(one, two)),
        "awaited" => block_on(verbs::awaited(one, two)),
        "dropped" => block_on(verbs::dropped(one, two)),
        "slept" => block_on(verbs::slept(one, two)),
        _ => panic!("there is no body {body}"),
    }
}

fn what_holds_for_every_fabric(transport: Transport) {
    for body in BODIES {
        // So long a lease that no beat is due.
        Nodes::serve("verbs", &[body], transport, &verbs::NODE_BYTES, 4, 12_000);
    }
}

#[test]
fn what_holds_for_every_fabric_over_tcp() {
    what_holds_for_every_fabric(Transport::Tcp);
}

#[test]
fn what_holds_for_every_fabric_over_shared_memory() {
    what_holds_for_every_fabric(Transport::Shm);
}

fn post<T>(client: &Ucx, fill: impl FnOnce(&mut Batch) -> T) -> Done {
    let mut batch = Batch::new();
    fill(&mut batch);
    block_on(client.post(batch)).unwrap()
}

const REGION: u64 = 1 << 20;

/// Reads and writes at any offset and length, against a copy.
pub(crate) fn lengths() {
    let client = connect();
    let mut model = vec![0; REGION as usize];
    let mut value = 0_u8;
    let lens = (0..40).chain([63, 64, 65, 4095, 4096, 4097, 8192, 20_000, 70_001]);
    for (off, len) in lens.zip((0..).step_by(4093)).map(|(len, off)| (off + len % 9, len)) {
        let bytes: Vec<u8> = (0..len)
            .map(|_| {
                value = value.wrapping_mul(5).wrapping_add(3);
                value
            })
            .collect();
        post(&client, |batch| batch.write(Addr::new(0, off), &bytes));
        model[off as usize..][..len as usize].copy_from_slice(&bytes);
        let done = post(&client, |batch| batch.read(Addr::new(0, off), len as usize));
        assert_eq!(done.bytes(0), bytes, "{len} bytes at {off}");
    }
    for part in (0..REGION).step_by(1 << 18) {
        let done = post(&client, |batch| batch.read(Addr::new(0, part), 1 << 18));
        assert!(done.bytes(0) == &model[part as usize..][..1 << 18]);
    }
}

#[test]
fn bytes_go_to_any_offset() {
    for transport in Transport::ALL {
        Nodes::serve("lengths", &[], transport, &[REGION], 4, 60_000);
    }
}

/// A client reads the writes that another has awaited or flushed, however long they take.
pub(crate) fn seen() {
    const BYTES: usize = 600_000;
    let infos = hear_infos();
    let client = || reach(&infos, DEADLINE).unwrap();
    let (one, two) = (client(), client());
    let at = Addr::new(0, 64);
    for round in 1..=60 {
        if round % 2 == 0 {
            post(&one, |batch| batch.write(at, &[round; BYTES]));
        } else {
            one.write_unsignaled(at, &[round; BYTES]).unwrap();
            block_on(one.flush(0)).unwrap();
        }
        let done = post(&two, |batch| batch.read(at.add(BYTES as u64 - 8), 8));
        assert_eq!(done.bytes(0), [round; 8]);
    }
}

#[test]
fn long_batches_are_awaited_whole() {
    for transport in Transport::ALL {
        Nodes::serve("seen", &[], transport, &[REGION], 4, 60_000);
    }
}

const ADDS: u64 = 400;
const COUNTERS: [Addr; 2] = [Addr::new(0, 64), Addr::new(1, 4088)];

/// Adds to two words, to one by swaps.
pub(crate) fn adds() {
    let client = connect();
    let mut was = 0;
    for _ in 0..ADDS {
        post(&client, |batch| batch.fetch_add(COUNTERS[0], 3));
        loop {
            let now = post(&client, |b| b.compare_swap(COUNTERS[1], was, was + 5)).word(0);
            if now == was {
                break;
            }
            was = now;
        }
    }
}

/// Tells what is in both.
pub(crate) fn words() {
    let client = connect();
    let [one, two] = COUNTERS.map(|at| post(&client, |batch| batch.read(at, 8)).word(0));
    tell(&format!("{one} {two}"));
}

#[test]
fn atomics_of_several_processes_are_exact() {
    for transport in Transport::ALL {
        let nodes = Nodes::start(transport, &[8192; 2], 8, 60_000);
        let clients: Vec<_> = (0..3).map(|_| nodes.client("adds", &[])).collect();
        clients.into_iter().for_each(|client| client.end());
        let words = nodes.client("words", &[]);
        words.expect(&format!("{} {}", 3 * ADDS * 3, 3 * ADDS * 5));
        words.end();
        nodes.end();
    }
}

/// Off every multiple of what a transport may send at once.
const BLOCK: Addr = Addr::new(0, 72);
const BLOCK_BYTES: usize = 100_000;

/// Writes the same word all over, another one each time, until it is told to end.
pub(crate) fn writes() {
    let client = connect();
    let end = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&end);
    thread::spawn(move || {
        hear();
        told.store(true, Ordering::Relaxed);
    });
    for byte in (0..=255).cycle().take_while(|_| !end.load(Ordering::Relaxed)) {
        post(&client, |batch| batch.write(BLOCK, &[byte; BLOCK_BYTES]));
        if byte == 3 {
            tell("writes");
        }
    }
}

/// Reads all of it, again and again: no word is half of one write and half of another.
pub(crate) fn reads() {
    let client = connect();
    let mut mixed = 0;
    for _ in 0..100 {
        let done = post(&client, |batch| batch.read(BLOCK, BLOCK_BYTES));
        let (words, _) = done.bytes(0).as_chunks::<8>();
        for word in words {
            assert_eq!(*word, [word[0]; 8]);
        }
        mixed += u32::from(words.iter().any(|word| word != &words[0]));
    }
    println!("{mixed} reads met a write");
}

#[test]
fn words_are_whole() {
    for transport in Transport::ALL {
        let nodes = Nodes::start(transport, &[REGION], 4, 60_000);
        let mut writer = nodes.client("writes", &[]);
        writer.expect("writes");
        nodes.client("reads", &[]).end();
        writer.say("end");
        writer.end();
        nodes.end();
    }
}

/// Three clients and two rows: a client that posts keeps its row, one that does not is evicted.
pub(crate) fn rows() {
    let infos = hear_infos();
    let client = || reach(&infos, DEADLINE);
    let (busy, idle) = (client().unwrap(), client().unwrap());
    assert_eq!((busy.row(), idle.row(), busy.max_clients()), (0, 1, 2));
    let end = AtomicBool::new(false);
    let third = thread::scope(|scope| {
        scope.spawn(|| {
            while !end.load(Ordering::Relaxed) {
                post(&busy, |batch| batch.fetch_add(COUNTERS[0], 1));
                thread::sleep(Duration::from_millis(1));
            }
        });
        let third = client();
        end.store(true, Ordering::Relaxed);
        third.unwrap()
    });
    assert_eq!(third.row(), 1);
    // It has no beat that is recent enough, so this waits for one, and never takes effect.
    idle.write_unsignaled(COUNTERS[1], &[7]).unwrap();
    let mut batch = Batch::new();
    batch.write_word(COUNTERS[1], 9);
    for _ in 0..2 {
        let error = block_on(idle.post(batch.clone())).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::Evicted), "{error}");
        let error = block_on(idle.flush(1)).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::Evicted), "{error}");
    }
    drop(idle);
    assert_eq!(post(&third, |batch| batch.read(COUNTERS[1], 8)).word(0), 0);
    // The row of a client that left is given out at once.
    drop(busy);
    let fourth = client().unwrap();
    assert_eq!(fourth.row(), 0);
    // An eviction by name evicts a live client, too.
    assert!(block_on(third.evict(0)).unwrap() && block_on(third.evict(7)).unwrap());
    thread::sleep(Duration::from_nanos(third.lease_ns().unwrap() / 4));
    let error = block_on(fourth.post(batch)).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::Evicted), "{error}");
}

#[test]
fn rows_are_for_clients_that_show_life() {
    let nodes = Nodes::start(Transport::Tcp, &[8192; 2], 2, 8_000);
    nodes.client("rows", &[]).end();
    nodes.end();
}

/// More than the system takes for a node that does not read it.
const LATE_BYTES: usize = 64 << 20;
/// Of `late`: its quarter is longer than a busy machine makes a node wait.
const LATE_LEASE: Duration = Duration::from_secs(8);

/// Writes to a node that does not answer, and is stopped with that under way.
pub(crate) fn late() {
    let client = connect();
    tell("connected");
    hear();
    client.write_unsignaled(Addr::new(1, 0), &vec![7; LATE_BYTES]).unwrap();
    tell("written");
    hear();
    let mut batch = Batch::new();
    batch.read(Addr::new(1, 0), 8);
    for _ in 0..2 {
        let error = block_on(client.post(batch.clone())).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::NodeLost { node: 1 }), "{error}");
        let error = block_on(client.flush(1)).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::NodeLost { node: 1 }), "{error}");
        // The other node is there.
        post(&client, |batch| batch.fetch_add(COUNTERS[0], 1));
    }
}

/// Tells what the last word holds of what `late` has written.
pub(crate) fn last() {
    let last = block_on(async {
        let mut batch = Batch::new();
        batch.read(Addr::new(1, LATE_BYTES as u64 - 8), 8);
        reach(&hear_infos(), DEADLINE)?.post(batch).await
    });
    tell(&last.map_or("gone".into(), |done| done.word(0).to_string()));
}

#[test]
fn what_was_held_back_for_too_long_is_not_written() {
    let lease_ms = LATE_LEASE.as_millis() as u64;
    let nodes = Nodes::start(Transport::Tcp, &[4096, LATE_BYTES as u64], 4, lease_ms);
    let mut client = nodes.client("late", &[]);
    client.expect("connected");
    nodes.processes[1].stop();
    client.say("write");
    client.expect("written");
    client.stop();
    thread::sleep(LATE_LEASE / 4);
    nodes.processes[1].go_on();
    client.go_on();
    client.say("read");
    client.end();
    let last = nodes.client("last", &[]);
    // UCX may have ended the node: see `UcxNode`.
    let told = last.next().unwrap();
    println!("the last word: {told}");
    assert!(["0", "gone"].contains(&&*told), "{told}");
    last.end();
    nodes.kill();
}

/// Writes, and awaits nothing for longer than a verb may be under way.
pub(crate) fn idle() {
    let client = connect();
    for _ in 0..2 {
        client.write_unsignaled(Addr::new(0, 0), &[7; 100_000]).unwrap();
        thread::sleep(LATE_LEASE / 4 + Duration::from_millis(1));
        block_on(client.flush(0)).unwrap();
    }
}

#[test]
fn unawaited_writes_arrive() {
    let lease_ms = LATE_LEASE.as_millis() as u64;
    Nodes::serve("idle", &[], Transport::Tcp, &[REGION], 4, lease_ms);
}

/// Uses one node while the other ends.
pub(crate) fn beside() {
    let client = reach(&hear_infos(), Duration::from_secs(2)).unwrap();
    tell("connected");
    let use_both = || {
        post(&client, |batch| batch.fetch_add(COUNTERS[0], 1));
        let mut batch = Batch::new();
        batch.fetch_add(COUNTERS[1], 1);
        block_on(client.post(batch)).err()
    };
    let error = std::iter::repeat_with(use_both).flatten().next().unwrap();
    assert!(matches!(error.kind(), ErrorKind::NodeLost { node: 1 }), "{error}");
    assert!((0..1000).all(|_| use_both().is_some()));
}

#[test]
fn a_node_that_ends_takes_no_other_with_it() {
    for transport in Transport::ALL {
        let mut nodes = Nodes::start(transport, &[8192; 2], 4, 60_000);
        let client = nodes.client("beside", &[]);
        client.expect("connected");
        nodes.processes.remove(1).kill();
        client.end();
        nodes.end();
    }
}

#[test]
fn impossible_options_are_refused() {
    let (rows, lease) = (1024, Duration::from_secs(10));
    for (bytes, max_clients, lease) in [
        (0, rows, lease),
        (100, rows, lease),
        (1 << 60, rows, lease),
        (4096, 0, lease),
        (4096, 4097, lease),
        (4096, rows, Duration::ZERO),
        (4096, rows, Duration::from_millis(999)),
        (4096, rows, Duration::MAX),
    ] {
        let mut wrong = UcxNodeOptions::default();
        (wrong.bytes, wrong.max_clients, wrong.lease) = (bytes, max_clients, lease);
        let refused = UcxNode::start(&wrong).err().unwrap();
        assert!(matches!(refused.kind(), ErrorKind::Options { .. }), "{wrong:?}");
    }
    for count in [0, 256] {
        let refused = reach(&vec![vec![0; 300]; count], DEADLINE).err().unwrap();
        assert!(matches!(refused.kind(), ErrorKind::Options { .. }));
        // SAFETY: no node is contacted.
        let nowhere = unsafe { Trusted::new(vec!["nowhere"; count]) };
        let refused = Ucx::find(&nowhere, None, &Limits::default(), DEADLINE).err().unwrap();
        assert!(matches!(refused.kind(), ErrorKind::Options { .. }));
    }
    let refused = reach(&[vec![0; 300]], DEADLINE).err().unwrap();
    assert!(matches!(refused.kind(), ErrorKind::Region { .. }));
}
