use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use durahash_media::hash::WordMix;
use durahash_media::{Error, ErrorKind};

use super::frames::{
    DONE, ENDED, FULL, JOIN, NO_ROW, OTHER, PING, ROW, ROWS, VERBS, WHO, WHO_BYTES, WHO_ROWS, join,
    plain,
};
use super::pool::State;
use super::{Seated, Tcp, TcpMemory, Warden};
use crate::executor::{Driver, Executor, block_on};
use crate::fabric::{Addr, Batch, Fabric, Local, LocalOptions};
use crate::node::{FileMemory, Limits, Link, Listening, Offers, Token};
use crate::wire::{Channel, Handshake};
use crate::{BlockingMap, Options, RemoteMap};

/// Long enough for every answer to come sooner.
fn limits() -> Limits {
    let long = Duration::from_secs(60);
    Limits { handshake: long, silence: long, guess: Duration::ZERO, ..Limits::default() }
}

fn token() -> Token {
    Token::new(b"0123456789abcdef").unwrap()
}

fn node(limits: &Limits) -> (TcpMemory, Listening) {
    let memory = TcpMemory::anonymous(8192, 3).unwrap();
    let listening = Listening::bind("127.0.0.1:0", &memory, Some(token()), limits.clone()).unwrap();
    (memory, listening)
}

fn client(nodes: &[&Listening], limits: &Limits) -> Result<Tcp, Error> {
    let addresses: Vec<_> = nodes.iter().map(|node| node.address().to_string()).collect();
    Tcp::attach(Offers::gather(&addresses, Some(&token()), limits)?)
}

/// A connection that was admitted, without a client behind it, and the id of node 0's memory.
struct Raw(Channel, u64);

impl Raw {
    fn connect(node: &Listening) -> Self {
        let address = node.address().to_string();
        let (link, offer) = Link::connect(&address, Some(&token()), &limits()).unwrap();
        Raw(link.into_channel().0, offer.id)
    }

    /// Of the same client, to another node.
    fn beside(&self, node: &Listening) -> Self {
        Raw(Self::connect(node).0, self.1)
    }

    /// The answer to a request.
    fn ask(&mut self, request: &[u8]) -> io::Result<Vec<u8>> {
        let (mut answer, until) = (Vec::new(), Instant::now() + limits().handshake);
        self.0.send(request, until)?;
        self.0.receive(&mut answer, until)?;
        Ok(answer)
    }

    fn join(&mut self, row: u32, incarnation: u64) -> (u32, u64) {
        let answer = self.ask(&join(row, incarnation, self.1)).unwrap();
        let row = u32::from_le_bytes(*answer[1..].first_chunk().unwrap());
        (row, u64::from_le_bytes(*answer[5..].first_chunk().unwrap()))
    }

    /// Asserts that the request ends the connection, if that has not ended before, and is not answered.
    fn is_ended_by(&mut self, request: &[u8]) {
        let (mut answer, until) = (Vec::new(), Instant::now() + limits().handshake);
        // The node may have closed it already.
        drop(self.0.send(request, until));
        self.0.receive(&mut answer, until).unwrap();
        assert_eq!(answer, [ENDED]);
    }
}

/// A record with verbs: kind, offset, and what follows.
fn verbs(all: &[(u64, u64, &[u8])]) -> Vec<u8> {
    let mut record = vec![VERBS];
    for (kind, off, rest) in all {
        record.extend((kind << 48 | off).to_le_bytes());
        record.extend(*rest);
    }
    record
}

fn write(off: u64, bytes: &[u8]) -> Vec<u8> {
    let rest = [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat();
    verbs(&[(1, off, &rest)])
}

fn read_word(client: &Tcp, at: Addr) -> Result<u64, Error> {
    Ok(block_on(client.post(Batch::of(|batch| batch.read(at, 8))))?.word(0))
}

#[test]
fn a_wrong_token_is_refused_and_a_weak_one_is_known() {
    let (memory, node) = node(&limits());
    let address = [node.address().to_string()];
    for other in [None, Some(&b"0123456789abcdeF"[..]), Some(b"0123456789abcde")] {
        let other = other.map(|other| Token::new(other).unwrap());
        let error = Offers::gather(&address, other.as_ref(), &limits()).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::Refused { .. }), "{error}");
    }
    assert_eq!((node.clients(), memory.clients()), (0, 0));
    assert!(client(&[&node], &limits()).is_ok());
}

#[test]
fn memory_is_not_lent_beyond_the_loopback_address_without_a_strong_token() {
    let memory = TcpMemory::anonymous(8192, 3).unwrap();
    for token in [None, Some(Token::new(b"0123456789abcde").unwrap())] {
        let bound = Listening::bind("0.0.0.0:0", &memory, token, limits());
        let error = bound.err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::Options { .. }), "{error}");
    }
}

#[test]
fn two_hundred_clients_are_served_at_once() {
    const CLIENTS: u32 = 200;
    let memory = TcpMemory::anonymous(8192, CLIENTS).unwrap();
    let handshakes = 4;
    let limits = Limits { connections: CLIENTS as usize + handshakes, handshakes, ..limits() };
    let node = Listening::bind("127.0.0.1:0", &memory, Some(token()), limits).unwrap();
    let mut all: Vec<_> = (0..CLIENTS).map(|_| Raw::connect(&node)).collect();
    let rows: BTreeSet<_> = all.iter_mut().map(|raw| raw.join(NO_ROW, 0).0).collect();
    assert_eq!((rows.len(), memory.clients()), (CLIENTS as usize, CLIENTS));
    assert_eq!(Raw::connect(&node).ask(&join(NO_ROW, 0, all[0].1)).unwrap(), [FULL]);
    for (raw, i) in all.iter_mut().zip(1_u64..) {
        let add = verbs(&[(3, 64, &1_u64.to_le_bytes())]);
        assert_eq!(raw.ask(&add).unwrap()[1..], (i - 1).to_le_bytes());
    }
}

#[test]
fn verbs_that_are_not_all_valid_do_nothing() {
    let (memory, node) = node(&limits());
    let whole = client(&[&node], &limits()).unwrap();
    let (word, len) = (7_u64.to_le_bytes(), 8_u16.to_le_bytes());
    let put = [&len[..], &word].concat();
    let bad: [(u64, u64, &[u8]); 9] = [
        (0, 8192, &[1, 0]),
        (0, 8185, &len),
        (0, (1 << 48) - 1, &[1, 0]),
        (1, 8185, &put),
        (2, 8192, &[0; 16]),
        (2, 4, &[0; 16]),
        (3, 8188, &[0; 8]),
        (4, 64, &[0; 8]),
        (1, 64, &len),
    ];
    for bad in bad {
        let mut raw = Raw::connect(&node);
        raw.join(NO_ROW, 0);
        raw.is_ended_by(&verbs(&[(1, 64, &put), bad]));
        assert_eq!(read_word(&whole, Addr::new(0, 64)).unwrap(), 0, "{bad:?}");
        while memory.clients() > 1 {
            thread::yield_now();
        }
    }
    // As much as an answer holds, and more.
    let mut raw = Raw::connect(&node);
    raw.join(NO_ROW, 0);
    let many = |count| verbs(&vec![(0, 0, &8189_u16.to_le_bytes()[..]); count]);
    assert_eq!(raw.ask(&many(8)).unwrap().len(), 1 + 8 * 8189);
    raw.is_ended_by(&many(9));
}

#[test]
fn requests_are_for_those_that_have_joined() {
    let (memory, node) = node(&limits());
    let early = [write(64, &[1]), plain(ROW, 0, 0), plain(ROWS, 0, 0)];
    for request in early {
        let mut raw = Raw::connect(&node);
        assert_eq!(raw.ask(&[PING]).unwrap(), [DONE]);
        raw.is_ended_by(&request);
    }
    for request in [join(NO_ROW, 0, 0), vec![], vec![9], vec![PING, 0], vec![JOIN, 0, 0]] {
        let mut raw = Raw::connect(&node);
        raw.join(NO_ROW, 0);
        raw.is_ended_by(&request);
        while memory.clients() > 0 {
            thread::yield_now();
        }
    }
    let whole = client(&[&node], &limits()).unwrap();
    assert_eq!((whole.row(), whole.clients().unwrap()), (0, 1));
}

/// It needs no row, ends the client at both nodes, and does nothing to the next one.
#[test]
fn a_warden_sees_clients_and_evicts_them() {
    let node = || {
        let memory = TcpMemory::anonymous(8192, 1).unwrap();
        Listening::bind("127.0.0.1:0", &memory, Some(token()), limits()).unwrap()
    };
    let (one, two) = (node(), node());
    let nodes = [&one, &two];
    let first = client(&nodes, &limits()).unwrap();
    assert_eq!(read_word(&first, Addr::new(1, 64)).unwrap(), 0);
    let addresses = nodes.map(|node| node.address().to_string());
    let offers = Offers::gather(&addresses, Some(&token()), &limits()).unwrap();
    let mut warden = Warden::attach(offers).unwrap();
    let all = warden.clients().unwrap();
    let [evicted @ Seated { row: 0, address, .. }] = &all[..] else { panic!("{all:?}") };
    assert!(address.ip().is_loopback() && address.port() != 0, "{address}");
    warden.evict(evicted).unwrap();
    assert!(warden.clients().unwrap().is_empty());
    for node in [0, 1] {
        let error = read_word(&first, Addr::new(node, 64)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Evicted), "{error}");
    }
    let next = client(&nodes, &limits()).unwrap();
    assert_eq!(next.row(), 0);
    warden.evict(evicted).unwrap();
    assert_eq!(read_word(&next, Addr::new(1, 64)).unwrap(), 0);
    let ended = one.gauges().read().into_iter().find(|figure| figure.name == "clients_ended");
    let ended = ended.unwrap().values.into_iter().filter(|(_, count)| *count > 0);
    assert!(ended.eq([("evicted", 1)]));
    let mut raw = Raw::connect(&one);
    let answer = raw.ask(&plain(WHO, u32::MAX, 0)).unwrap();
    assert_eq!(answer, vec![0; 1 + WHO_ROWS as usize * WHO_BYTES]);
}

/// Of two nodes, one has lost the client and the other has not.
#[test]
fn what_an_evicted_client_sends_later_is_refused() {
    let ((_, one), (_, two)) = (node(&limits()), node(&limits()));
    let other = client(&[&one, &two], &limits()).unwrap();
    let mut first = Raw::connect(&one);
    let (mut second, mut again) = (first.beside(&two), first.beside(&two));
    let (row, incarnation) = first.join(NO_ROW, 0);
    assert_eq!(second.join(row, incarnation), (row, incarnation));
    assert!(!block_on(other.evict(row)).unwrap());
    assert_eq!(second.ask(&write(64, &[1])).unwrap(), [DONE]);
    drop(first);
    while !block_on(other.evict(row)).unwrap() {
        thread::yield_now();
    }
    second.is_ended_by(&write(64, &[2]));
    // Nor does it come back.
    let comes = join(row, incarnation, again.1);
    again.is_ended_by(&comes);
    assert_eq!(read_word(&other, Addr::new(1, 64)).unwrap(), 1);
    let next = client(&[&one, &two], &limits()).unwrap();
    assert_eq!(next.row(), row);
    assert_eq!(read_word(&next, Addr::new(1, 64)).unwrap(), 1);
}

/// The next client of a row ends the previous one at each node that it joins.
#[test]
fn a_row_has_one_client_at_each_node() {
    let ((_, one), (_, two)) = (node(&limits()), node(&limits()));
    let mut first = Raw::connect(&one);
    let mut second = first.beside(&two);
    let (row, incarnation) = first.join(NO_ROW, 0);
    second.join(row, incarnation);
    drop(first);
    let next = loop {
        let next = client(&[&one, &two], &limits()).unwrap();
        if next.row() == row {
            break next;
        }
    };
    second.is_ended_by(&write(64, &[2]));
    assert_eq!(read_word(&next, Addr::new(1, 64)).unwrap(), 0);
}

#[test]
fn clients_that_name_the_nodes_in_another_order_are_refused_and_evict_nobody() {
    let ((_, one), (_, two)) = (node(&limits()), node(&limits()));
    let first = client(&[&one, &two], &limits()).unwrap();
    for nodes in [&[&two, &one][..], &[&two]] {
        let error = client(nodes, &limits()).err().unwrap();
        assert!(matches!(error.kind(), ErrorKind::Options { .. }), "{error}");
    }
    let mut raw = Raw::connect(&two);
    for row in [0, 1, NO_ROW] {
        assert_eq!(raw.ask(&join(row, u64::MAX, raw.1)).unwrap(), [OTHER]);
    }
    assert_eq!([0, 1].map(|node| read_word(&first, Addr::new(node, 64)).unwrap()), [0, 0]);
    drop(first);
    // Nor do the incarnations of one node 0 keep out the clients of another.
    assert_eq!(raw.join(0, u64::MAX), (0, u64::MAX));
    drop(raw);
    for nodes in [[&one, &two], [&two, &one]] {
        while let Err(e) = client(&nodes, &limits()) {
            assert!(matches!(e.kind(), ErrorKind::Options { .. }), "{e}");
        }
    }
}

#[test]
fn a_client_that_loses_one_node_of_two_is_evicted_by_others() {
    let memories = [0, 1].map(|_| TcpMemory::anonymous(64 << 20, 3).unwrap());
    let [one, two] = [0, 1].map(|node: usize| {
        Listening::bind("127.0.0.1:0", &memories[node], Some(token()), limits()).unwrap()
    });
    let [cut, whole] = [0, 1].map(|_| client(&[&one, &two], &limits()).unwrap());
    // A map with a thread of its own would go on as another client.
    let map = block_on(RemoteMap::create(cut.clone(), Options::default())).unwrap();
    let other = BlockingMap::open(whole, Options::default()).unwrap();
    block_on(map.put(b"key", b"value")).unwrap();
    cut.pool().stream(1).shutdown(Shutdown::Both).unwrap();
    let error = block_on(map.put(b"key", b"later")).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NodeLost { node: 1 }), "{error}");
    // Nor does it use the node that has not lost it: that ends the connection, too.
    let error = read_word(&cut, Addr::new(0, 64)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NodeLost { node: 1 }), "{error}");
    while memories[0].clients() > 1 {
        thread::yield_now();
    }
    // Its row no longer keeps the epoch back.
    while other.stats().evictions == 0 {
        thread::yield_now();
    }
    other.put(b"key", b"another").unwrap();
}

#[test]
fn clients_in_rows_that_a_node_started_anew_does_not_have_are_evicted() {
    let options = LocalOptions { max_clients: 1, ..LocalOptions::default() };
    let local = Local::anonymous(&options).unwrap();
    let serve = |rows| {
        let memory = TcpMemory::of(local.clone(), rows).unwrap();
        Listening::bind("127.0.0.1:0", &memory, Some(token()), limits()).unwrap()
    };
    let node = serve(2);
    let map = BlockingMap::create(client(&[&node], &limits()).unwrap(), Options::default());
    let other = BlockingMap::open(client(&[&node], &limits()).unwrap(), Options::default());
    // As if the node had been killed.
    drop(node);
    drop((map, other));
    let node = serve(1);
    let map = BlockingMap::open(client(&[&node], &limits()).unwrap(), Options::default()).unwrap();
    while map.stats().evictions == 0 {
        thread::yield_now();
    }
}

#[test]
fn memory_in_a_file_is_locked_until_it_is_closed_and_its_incarnations_grow() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.node");
    FileMemory::create(&path, 8192).unwrap();
    let open = || FileMemory::open(&path, None, false);
    for _ in 0..2 {
        let file = open().unwrap();
        let opening = file.file().opening();
        let memory = TcpMemory::in_file(file, 3).unwrap();
        let node = Listening::bind("127.0.0.1:0", &memory, Some(token()), limits()).unwrap();
        let mut raw = Raw::connect(&node);
        assert_eq!(raw.join(NO_ROW, 0), (0, (opening << 40) + 1));
        assert_eq!(raw.ask(&write(64, &[1])).unwrap(), [DONE]);
        assert!(matches!(open().err().unwrap().kind(), ErrorKind::Locked));
        let refused = memory.clone().close(Duration::ZERO).unwrap_err();
        assert!(matches!(refused.kind(), ErrorKind::Locked));
        drop(node);
        memory.close(limits().silence).unwrap();
    }
}

/// What was answered before the end is told before it.
#[test]
fn the_end_comes_after_the_answers_to_earlier_requests() {
    let (_memory, node) = node(&limits());
    let mut raw = Raw::connect(&node);
    raw.join(NO_ROW, 0);
    let mut both = Vec::new();
    raw.0.cipher.seal(&write(64, &[1]), &mut both).unwrap();
    raw.0.cipher.seal(&[9], &mut both).unwrap();
    raw.0.stream.as_ref().write_all(&both).unwrap();
    let (mut said, until) = (Vec::new(), Instant::now() + limits().handshake);
    for wanted in [DONE, ENDED] {
        raw.0.receive(&mut said, until).unwrap();
        assert_eq!(said, [wanted]);
    }
}

#[test]
fn a_client_that_cannot_send_reads_yet_that_it_is_evicted() {
    let address = dumb(|channel, until| channel.send(&[ENDED], until).unwrap());
    let offers = Offers::gather(&[address], Some(&token()), &limits()).unwrap();
    let client = Tcp::attach(offers).unwrap();
    let stream = client.pool().stream(0);
    stream.peek(&mut [0]).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let error = read_word(&client, Addr::new(0, 64)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Evicted), "{error}");
}

/// A node that answers one record after the other is not silent, however long the last one waits.
#[test]
fn silence_begins_with_the_last_answer() {
    let (go_on, wait) = channel();
    let address = dumb(move |channel, until| {
        channel.receive(&mut Vec::new(), until).unwrap();
        wait.recv().unwrap();
        channel.send(&[DONE], until).unwrap();
        // The connection ends when the test does.
        wait.recv().unwrap_err();
    });
    // No ping comes between.
    let limits = Limits { ask: limits().silence, ..limits() };
    let offers = Offers::gather(&[address], Some(&token()), &limits).unwrap();
    let client = Tcp::attach(offers).unwrap();
    let since = || client.pool().state().conns[0].waits_since().unwrap();
    {
        let State { conns, ops, .. } = &mut *client.pool().state();
        (0..2).for_each(|_| conns[0].ping(ops));
    }
    client.pool().turn();
    let (asked, sent) = (Instant::now(), since());
    go_on.send(()).unwrap();
    while since() == sent {
        client.pool().turn();
    }
    assert!(since() >= asked);
    drop(go_on);
}

#[test]
fn a_client_that_is_silent_is_evicted_and_told_so() {
    let short = Limits { idle: Duration::from_millis(50), ..limits() };
    let (memory, node) = node(&short);
    // It pings too rarely, as one that is stopped.
    let client = client(&[&node], &limits()).unwrap();
    while memory.clients() > 0 {
        thread::yield_now();
    }
    let error = read_word(&client, Addr::new(0, 64)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Evicted), "{error}");
    assert!(matches!(client.nodes_stand().unwrap_err().kind(), ErrorKind::Evicted));
}

#[test]
fn a_client_that_takes_no_answers_is_disconnected() {
    let short = Limits { silence: Duration::from_millis(50), ..limits() };
    let (memory, node) = node(&short);
    let mut raw = Raw::connect(&node);
    raw.join(NO_ROW, 0);
    let request = verbs(&[(0, 0, &8192_u16.to_le_bytes()[..]); 7]);
    let until = Instant::now() + limits().handshake;
    // The system's buffers are full at some time, and then the node waits for 50 ms.
    while raw.0.send(&request, until).is_ok() {}
    while memory.clients() > 0 {
        thread::yield_now();
    }
    assert!(client(&[&node], &limits()).is_ok());
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let (memory, node) = node(&limits());
    let whole = client(&[&node], &limits()).unwrap();
    for seed in 0..200 {
        let mix = WordMix::new(seed);
        let bytes = |count: u64| (0..count).map(|i| mix.mix(i) as u8).collect::<Vec<_>>();
        let mut raw = Raw::connect(&node);
        if seed % 2 == 0 {
            raw.join(NO_ROW, 0);
        }
        let garbage = bytes(mix.mix(99) % 300);
        if seed % 3 == 0 {
            // Not even a record.
            drop(raw.0.stream.as_ref().write_all(&garbage));
            drop(raw.0.stream.shutdown(Shutdown::Write));
            drop(raw.0.stream.as_ref().read_to_end(&mut Vec::new()));
        } else {
            // Verbs of any bytes.
            drop(raw.ask(&[&[VERBS][..], &garbage].concat()));
        }
        drop(raw);
        assert_eq!(read_word(&whole, Addr::new(0, 8184)).map(drop).ok(), Some(()), "{seed}");
    }
    drop(whole);
    while memory.clients() > 0 {
        thread::yield_now();
    }
}

/// A node that admits a client, has it join, does `then`, and ends.
fn dumb(then: impl FnOnce(&mut Channel, Instant) + Send + 'static) -> String {
    let offer = TcpMemory::anonymous(8192, 3).unwrap().offer();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut hello = [0; 16 + Handshake::MESSAGE_BYTES];
        stream.read_exact(&mut hello).unwrap();
        let mut handshake = Handshake::answer(&Token::key(Some(&token())), &hello[..16]).unwrap();
        handshake.read(&hello[16..]).unwrap();
        let second = handshake.write(&crate::node::encode(&offer)).unwrap();
        stream.write_all(&crate::node::answer(Ok(&second))).unwrap();
        let mut channel = Channel::new(Arc::new(stream), handshake.finish().unwrap());
        let (mut asked, until) = (Vec::new(), Instant::now() + limits().handshake);
        for answer in [&[DONE][..], &[&[DONE][..], &[0; 12]].concat()] {
            channel.receive(&mut asked, until).unwrap();
            channel.send(answer, until).unwrap();
        }
        then(&mut channel, until);
        drop(channel.stream.shutdown(Shutdown::Write));
        drop(channel.stream.as_ref().read_to_end(&mut asked));
    });
    address
}

#[test]
fn what_is_posted_together_is_one_record() {
    const POSTS: usize = 64;
    let (to_us, ended) = channel();
    let address = dumb(move |channel, until| {
        let (mut record, mut verbs) = (Vec::new(), Vec::new());
        channel.receive(&mut record, until).unwrap();
        assert_eq!(super::frames::verbs(&record, &mut verbs), Some(8 * POSTS));
        assert_eq!(verbs.len(), 2 * POSTS);
        let words = (0..POSTS as u64).flat_map(u64::to_le_bytes);
        channel.send(&[DONE].into_iter().chain(words).collect::<Vec<_>>(), until).unwrap();
        for (back, count) in [(8, 2), (0, 1), (0, 1)] {
            channel.receive(&mut record, until).unwrap();
            assert_eq!(super::frames::verbs(&record, &mut verbs), Some(back));
            assert_eq!(verbs.len(), count);
            channel.send(&vec![DONE; 1 + back], until).unwrap();
        }
        // The client leaves.
        channel.receive(&mut record, until).unwrap();
        to_us.send(()).unwrap();
    });
    // No ping comes first, and a write that nobody waits for stays.
    let limits = Limits { ask: 1000 * limits().silence, ..limits() };
    let offers = Offers::gather(&[address], Some(&token()), &limits).unwrap();
    let (client, executor) = (Tcp::attach(offers).unwrap(), Executor::new());
    let post = |i: usize| {
        let client = client.clone();
        executor.spawn(0, async move {
            let at = Addr::new(0, 8 * i as u64);
            client.write_unsignaled(at, &[1]).unwrap();
            client.post(Batch::of(|batch| batch.read(at, 8))).await.unwrap().word(0)
        })
    };
    let posts: Vec<_> = (0..POSTS).map(post).collect();
    executor.run();
    for (i, post) in posts.into_iter().enumerate() {
        assert_eq!(post.take(), Some(i as u64));
    }
    // Its answer was that to the writes.
    block_on(client.flush(0)).unwrap();
    // It goes with the next read, or alone when nothing has moved for a while, or before the client leaves.
    let write = || client.write_unsignaled(Addr::new(0, 0), &[1]).unwrap();
    write();
    assert!(!client.pool().turn());
    read_word(&client, Addr::new(0, 0)).unwrap();
    let rides = std::mem::take(&mut client.pool().state().conns[0].rides);
    write();
    assert!(client.pool().turn());
    client.pool().state().conns[0].rides = rides;
    write();
    drop((client, executor));
    ended.recv().unwrap();
}

#[test]
fn a_node_that_does_not_answer_or_says_nonsense_is_lost() {
    for after in [&[][..], &[DONE], &[DONE; 10], &[3; 9]] {
        let silence = Duration::from_millis(if after.is_empty() { 50 } else { 60_000 });
        let short = Limits { ask: Duration::from_millis(10), silence, ..limits() };
        let address = dumb(move |channel, until| {
            channel.receive(&mut Vec::new(), until).unwrap();
            if after.is_empty() {
                // Until the client gives up.
                while channel.receive(&mut Vec::new(), until).is_ok() {}
            } else {
                channel.send(after, until).unwrap();
            }
        });
        let offers = Offers::gather(&[address], Some(&token()), &short).unwrap();
        let client = Tcp::attach(offers).unwrap();
        let error = read_word(&client, Addr::new(0, 64)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::NodeLost { node: 0 }), "{error}");
    }
}
