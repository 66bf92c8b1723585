use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use durahash_media::{Error, ErrorKind};

use super::message::{ASK, HERE, VERSION, answer, encode, hello};
use super::*;
use crate::executor::block_on;
use crate::fabric::{Addr, Batch, Fabric};
use crate::wire::{Channel, Handshake};

/// The error of what fails so.
macro_rules! fails {
    ($result:expr, $kind:pat) => {{
        let error = $result.err().expect("it fails");
        assert!(matches!(error.kind(), $kind), "{error}");
        error
    }};
}

/// Long enough for every answer to come sooner, short enough to wait for.
fn limits() -> Limits {
    Limits { handshake: Duration::from_secs(20), ..Limits::default() }
}

fn memory() -> LentMemory {
    LentMemory::create(None, 64 << 10).unwrap()
}

fn listen(memory: &LentMemory, token: Option<&str>, limits: &Limits) -> Listening {
    let token = token.map(|token| Token::new(token.as_bytes()).unwrap());
    Listening::bind("127.0.0.1:0", memory.offer(), token, limits.clone()).unwrap()
}

fn connect(node: &Listening, token: Option<&str>) -> Result<Nodes, Error> {
    let token = token.map(|token| Token::new(token.as_bytes()).unwrap());
    Nodes::connect(&[node.address().to_string()], token.as_ref(), &limits())
}

fn dial(node: &Listening) -> TcpStream {
    TcpStream::connect(node.address()).unwrap()
}

/// All that a node says until it ends the connection.
fn heard(mut stream: TcpStream) -> Vec<u8> {
    let mut said = Vec::new();
    drop(stream.read_to_end(&mut said));
    said
}

/// Whether that is all that a node says.
fn is_told_to_come_again(peer: &mut TcpStream) -> bool {
    let mut said = Vec::new();
    drop(peer.read_to_end(&mut said));
    said == answer(Err(message::Verdict::Crowd))
}

/// A peer that listens, and its address.
fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

/// All that a node says to `bytes`, and that it ends the connection then.
fn told(node: &Listening, bytes: &[u8]) -> Vec<u8> {
    let mut stream = dial(node);
    // The node may end the connection before it has all.
    drop(stream.write_all(bytes));
    drop(stream.shutdown(Shutdown::Write));
    heard(stream)
}

fn read_word(local: &crate::fabric::Local, node: u8) -> Result<u64, Error> {
    let client = local.client()?;
    let batch = Batch::of(|batch| batch.read(Addr::new(node, 64), 8));
    Ok(block_on(client.post(batch))?.word(0))
}

#[test]
fn clients_reach_the_same_memory_and_the_node_knows_how_many_there_are() {
    let memory = memory();
    let node = listen(&memory, None, &limits());
    assert_eq!(node.clients(), 0);
    let [one, two] = [0, 1].map(|_| connect(&node, None).unwrap());
    assert_eq!(node.clients(), 2);
    let client = one.local().client().unwrap();
    block_on(client.post(Batch::of(|b| b.write_word(Addr::new(0, 64), 7)))).unwrap();
    assert_eq!(read_word(two.local(), 0).unwrap(), 7);
    assert_eq!((two.local().bytes(0), two.local().clients().unwrap()), (64 << 10, 1));
    assert_eq!(one.address(0), node.address().to_string());
    drop(one);
    // Its client has a row yet.
    assert_eq!(two.local().clients().unwrap(), 1);
    drop(client);
    assert_eq!(two.local().clients().unwrap(), 0);
}

#[test]
fn the_token_must_be_the_same_or_none_on_both_sides() {
    let memory = memory();
    let (tell, told) = channel();
    let (offer, token) = (memory.offer(), Token::new(b"secret").unwrap());
    let refused = move |_, notice, more| tell.send((notice, more)).unwrap();
    let node = Listening::bind_watched("127.0.0.1:0", offer, Some(token), limits(), refused);
    let node = node.unwrap();
    let open = listen(&memory, None, &limits());
    assert!(connect(&node, Some("secret")).is_ok() && connect(&open, None).is_ok());
    for (node, token, wanted) in [
        (&node, Some("secreT"), "requires a different token"),
        (&node, Some("secrets"), "requires a different token"),
        (&node, None, "requires a token"),
        (&open, Some("secret"), "requires no token"),
    ] {
        let error = fails!(connect(node, token), ErrorKind::Refused { .. });
        assert!(error.to_string().contains(wanted), "{error}");
        assert!(error.to_string().contains(&node.address().to_string()), "{error}");
    }
    let (other, none) = ("it shows a different token", "it shows no token");
    for why in [other, other, none] {
        assert_eq!(told.recv().unwrap(), (Notice::Refused(why), 0));
    }
}

/// One that watches, and blocks, keeps nobody waiting, and learns how many refusals there were.
#[test]
fn refusals_are_told_without_waiting_and_counted() {
    const MANY: u64 = 20;
    let memory = memory();
    let ((tell, told), (go_on, wait)) = (channel(), channel::<()>());
    let refused = move |_, _, more| {
        // The test may have ended.
        let _ = tell.send(more);
        wait.recv().unwrap_err();
    };
    let (offer, token) = (memory.offer(), Token::new(b"secret").unwrap());
    let node = Listening::bind_watched("127.0.0.1:0", offer, Some(token), limits(), refused);
    let node = node.unwrap();
    fails!(connect(&node, None), ErrorKind::Refused { .. });
    assert_eq!(told.recv().unwrap(), 0);
    for _ in 0..MANY {
        fails!(connect(&node, None), ErrorKind::Refused { .. });
    }
    drop(go_on);
    assert_eq!(told.recv().unwrap(), MANY - super::notices::AT_ONCE as u64);
}

#[test]
fn garbage_ends_its_own_connection_only() {
    let memory = memory();
    let node = listen(&memory, Some("secret"), &limits());
    let nodes = connect(&node, Some("secret")).unwrap();
    let version = VERSION.to_le_bytes();
    let long = [&b"durnode\0"[..], &version, &u32::MAX.to_le_bytes(), b"x"].concat();
    let cut = [&b"durnode\0"[..], &version, &1_u32.to_le_bytes(), &[7; 47]].concat();
    let garbage = [b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0; 1 << 20], vec![], long, cut];
    for bytes in garbage {
        assert_eq!(told(&node, &bytes), b"", "{}", bytes.len());
    }
    // Garbage from one that was let in: first in clear, then sealed.
    for sealed in [false, true] {
        let token = Token::new(b"secret").unwrap();
        let address = node.address().to_string();
        let (link, _) = Link::connect(&address, Some(&token), &limits()).unwrap();
        let (mut channel, limits) = link.into_channel();
        let until = Instant::now() + limits.handshake;
        if sealed {
            channel.send(&[ASK, 3], until).unwrap();
        } else {
            channel.stream.as_ref().write_all(&[0; 40]).unwrap();
        }
        let ended = channel.receive(&mut Vec::new(), until).unwrap_err();
        assert_ne!(ended.kind(), std::io::ErrorKind::TimedOut, "sealed: {sealed}");
    }
    assert_eq!(read_word(nodes.local(), 0).unwrap(), 0);
    assert!(connect(&node, Some("secret")).is_ok());
}

#[test]
fn another_version_is_told_before_anything_else() {
    let memory = memory();
    let node = listen(&memory, Some("secret"), &limits());
    let hello = [&b"durnode\0"[..], &9_u32.to_le_bytes(), &[0xff; 4000]].concat();
    let said = told(&node, &hello);
    assert_eq!(said, b"durnode\0\x03\0\0\0\x01\0\0\0\0\0\0\0");
}

/// Something that answers each connection with `bytes`, and then says no more.
fn impostor(bytes: Vec<u8>) -> String {
    let (listener, address) = listener();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&bytes).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        heard(stream);
    });
    address
}

#[test]
fn other_servers_are_told_from_a_node() {
    let answer = |version: u32, verdict: u32, len: u32, rest: &[u8]| {
        let head = [version, verdict, len].map(u32::to_le_bytes).concat();
        [&b"durnode\0"[..], &head, rest].concat()
    };
    for (bytes, wanted) in [
        (b"HTTP/1.1 400 Bad Request\r\n".to_vec(), "does not speak the control protocol"),
        (answer(4, 0, 0, b""), "version 4"),
        (answer(VERSION, 1, 0, b""), "does not support version 3"),
        (answer(VERSION, 0, u32::MAX, b""), "malformed"),
        (answer(VERSION, 0, 3, b"abc"), "does not have the token"),
        (answer(VERSION, 0, 48, &[7; 48]), "does not have the token"),
        (answer(VERSION, 7, 0, b""), "malformed"),
        (answer(VERSION, 2, 8, b""), "malformed"),
    ] {
        let address = impostor(bytes);
        let error = fails!(Link::connect(&address, None, &limits()), ErrorKind::NotANode { .. });
        assert!(error.to_string().contains(wanted), "{error}");
    }
    for bytes in
        [answer(VERSION, 0, 4000, b"too short"), b"dur".to_vec(), answer(VERSION, 5, 0, b"")]
    {
        let address = impostor(bytes);
        let error = fails!(Link::connect(&address, None, &limits()), ErrorKind::Unreachable { .. });
        assert!(error.to_string().contains(&format!("node {address} does not answer: ")));
    }
}

#[test]
fn memory_that_is_not_the_nodes_is_refused() {
    let memory = memory();
    let told = |offer: Offer| {
        let node = Listening::bind("127.0.0.1:0", offer, None, limits()).unwrap();
        connect(&node, None).err().unwrap()
    };
    for offer in [
        Offer { id: memory.offer().id ^ 1, ..memory.offer() },
        Offer { bytes: 4096, ..memory.offer() },
        Offer { max_clients: 1, ..memory.offer() },
    ] {
        let error = told(offer);
        assert!(matches!(error.kind(), ErrorKind::Region { .. }), "{error}");
    }
    let error = told(Offer { place: b"/none".to_vec(), ..memory.offer() });
    assert!(matches!(error.kind(), ErrorKind::Io { .. }), "{error}");
    for (fabric, wanted) in [("ucx", "UCX"), ("other", "does not know")] {
        let error = told(Offer { fabric: fabric.into(), ..memory.offer() });
        assert!(matches!(error.kind(), ErrorKind::Options { .. }), "{error}");
        assert!(error.to_string().contains(wanted), "{error}");
    }
    let offer = Offer { place: vec![b'x'; 5000], ..memory.offer() };
    assert!(Listening::bind("127.0.0.1:0", offer, None, limits()).is_err());
    let node = listen(&memory, None, &limits());
    let twice = [node.address().to_string(), node.address().to_string()];
    fails!(Nodes::connect(&twice, None, &limits()), ErrorKind::Options { .. });
    assert!(Nodes::connect(&[], None, &limits()).is_err());
}

#[test]
fn silent_peers_are_not_waited_for() {
    let memory = memory();
    let short = Limits { handshake: Duration::from_millis(50), ..limits() };
    let node = listen(&memory, None, &short);
    // It says nothing, or not all.
    for bytes in [&b""[..], b"durnode\0", b"durnode\0\x03\0\0\0\x01\0\0\0abc"] {
        let mut stream = dial(&node);
        stream.write_all(bytes).unwrap();
        assert_eq!(heard(stream), b"");
    }
    // A client that never asks.
    let short = Limits { idle: Duration::from_millis(50), ..limits() };
    let node = listen(&memory, None, &short);
    let (link, _) = Link::connect(&node.address().to_string(), None, &limits()).unwrap();
    let (channel, _) = link.into_channel();
    assert_eq!(channel.stream.as_ref().read(&mut [0]).unwrap_or(0), 0);
    // A node that does not answer.
    let (_listener, address) = listener();
    let short = Limits { handshake: Duration::from_millis(50), ..limits() };
    fails!(Link::connect(&address, None, &short), ErrorKind::Unreachable { .. });
}

#[test]
fn a_node_takes_so_many_clients_and_then_others_again() {
    let memory = memory();
    let few = Limits { connections: 2, ..limits() };
    let node = listen(&memory, None, &few);
    let [one, two] = [0, 1].map(|_| connect(&node, None).unwrap());
    let error = fails!(connect(&node, None), ErrorKind::Unreachable { .. });
    assert!(error.to_string().contains("limit of connections"), "{error}");
    drop(two);
    while connect(&node, None).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(read_word(one.local(), 0).unwrap(), 0);
}

#[test]
fn silent_peers_do_not_keep_clients_out() {
    let memory = memory();
    let few = Limits { connections: 2, ..limits() };
    let node = listen(&memory, None, &few);
    let one = connect(&node, None).unwrap();
    for _ in 0..3 {
        // The node takes connections in the order in which they come.
        let mut silent = dial(&node);
        drop(connect(&node, None).unwrap());
        assert!(is_told_to_come_again(&mut silent));
        while node.clients() > 1 {
            std::thread::yield_now();
        }
    }
    assert_eq!(read_word(one.local(), 0).unwrap(), 0);
}

/// Who has shown the token is replaced last.
#[test]
fn silent_peers_do_not_replace_those_with_the_token() {
    let memory = memory();
    let few = Limits { connections: 3, ..limits() };
    let node = listen(&memory, Some("secret"), &few);
    let mut shows = dial(&node);
    let clear = hello(true);
    let key = Token::key(Some(&Token::new(b"secret").unwrap()));
    let mut handshake = Handshake::begin(&key, &clear).unwrap();
    let first = handshake.write(&[]).unwrap();
    shows.write_all(&[&clear[..], &first].concat()).unwrap();
    let mut second = vec![0; 20 + encode(&memory.offer()).len() + Handshake::MESSAGE_BYTES];
    shows.read_exact(&mut second).unwrap();
    let mut silent: Vec<_> = (0..2).map(|_| dial(&node)).collect();
    for _ in 0..10 {
        silent.push(dial(&node));
        assert!(is_told_to_come_again(&mut silent.remove(0)));
    }
    // It is admitted yet.
    handshake.read(&second[20..]).unwrap();
    let mut channel = Channel::new(Arc::new(shows), handshake.finish().unwrap());
    let (mut said, until) = (Vec::new(), Instant::now() + limits().handshake);
    channel.send(&[ASK], until).unwrap();
    channel.receive(&mut said, until).unwrap();
    assert_eq!(said, [HERE]);
}

/// Many more than a node talks to at once, of whom all have the token, come at the same instant.
#[test]
fn all_of_a_crowd_come_in() {
    const CLIENTS: usize = 120;
    let memory = memory();
    let few = Limits { connections: CLIENTS, handshakes: 2, ..limits() };
    let node = listen(&memory, Some("secret"), &few);
    let together = Barrier::new(CLIENTS);
    let come = || {
        together.wait();
        connect(&node, Some("secret")).unwrap()
    };
    let all: Vec<Nodes> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(come)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert_eq!((node.clients(), all.len()), (CLIENTS, CLIENTS));
}

/// A connection that is replaced waits for nothing more, as another one waits for the end of its thread.
#[test]
fn who_is_replaced_ends_at_once() {
    let memory = memory();
    let few = Limits { connections: 4, guess: Duration::from_secs(600), ..limits() };
    let node = listen(&memory, Some("secret"), &few);
    // They wait with a wrong token, not so often that they are turned away, or say nothing.
    let clear = hello(true);
    let first = Handshake::begin(&Token::key(None), &clear).unwrap().write(&[]).unwrap();
    let wrong = [&clear[..], &first].concat();
    let mut peers = Vec::new();
    for i in 0..40 {
        let mut peer = dial(&node);
        if i % 4 == 0 {
            peer.write_all(&wrong).unwrap();
        }
        peers.push(peer);
    }
    for (i, peer) in peers.drain(..36).enumerate() {
        let said = heard(peer);
        // With a wrong token it is told nothing, if the node had looked at it.
        let is_silent = i % 4 == 0 && said.is_empty();
        assert!(is_silent || said == answer(Err(message::Verdict::Crowd)), "{i}");
    }
    assert!(connect(&node, Some("secret")).is_ok());
}

/// A refused peer is not listened to for as long as it likes.
#[test]
fn little_is_read_of_those_that_are_refused() {
    let memory = memory();
    let long = Limits { handshake: Duration::from_secs(600), ..limits() };
    let node = listen(&memory, Some("secret"), &long);
    let mut peer = dial(&node);
    peer.write_all(&[&b"durnode\0"[..], &9_u32.to_le_bytes(), &[0xff; 20_000]].concat()).unwrap();
    let said = heard(peer.try_clone().unwrap());
    assert_eq!(said, b"durnode\0\x03\0\0\0\x01\0\0\0\0\0\0\0");
    while peer.write(&[0; 512]).is_ok() {}
}

#[test]
fn names_are_resolved_within_the_deadline() {
    let memory = memory();
    let node = listen(&memory, None, &limits());
    let name = format!("localhost:{}", node.address().port());
    assert!(Link::connect(&name, None, &limits()).is_ok());
    // Whatever the system makes of such a name, and whenever.
    let over = Limits { handshake: Duration::ZERO, ..limits() };
    fails!(Link::connect(&name, None, &over), ErrorKind::Unreachable { .. });
}

#[test]
fn a_node_that_ends_is_lost_to_its_clients_and_no_other_is() {
    let memories = [memory(), memory()];
    let [one, two] = [0, 1].map(|i| listen(&memories[i], None, &limits()));
    let addresses = [&one, &two].map(|node| node.address().to_string());
    let nodes = Nodes::connect(&addresses, None, &limits()).unwrap();
    assert_eq!([0, 1].map(|node| read_word(nodes.local(), node).unwrap()), [0, 0]);
    drop(two);
    let error = loop {
        if let Err(error) = read_word(nodes.local(), 1) {
            break error;
        }
        std::thread::yield_now();
    };
    assert!(matches!(error.kind(), ErrorKind::NodeLost { node: 1 }), "{error}");
    assert_eq!(read_word(nodes.local(), 0).unwrap(), 0);
    // The flush reports a write that was not awaited.
    let client = nodes.local().client().unwrap();
    client.write_unsignaled(Addr::new(1, 64), &[1]).unwrap();
    let flushed = block_on(client.flush(1)).err().unwrap();
    assert!(matches!(flushed.kind(), ErrorKind::NodeLost { node: 1 }), "{flushed}");
    block_on(client.flush(0)).unwrap();
}

/// A node's part in a handshake without a token.
fn admit(mut stream: TcpStream, offer: &Offer) -> Channel {
    let mut first = [0; 16 + Handshake::MESSAGE_BYTES];
    stream.read_exact(&mut first).unwrap();
    let (clear, first) = first.split_at(16);
    assert_eq!(clear, hello(false));
    let mut handshake = Handshake::answer(&Token::key(None), clear).unwrap();
    handshake.read(first).unwrap();
    let second = handshake.write(&encode(offer)).unwrap();
    stream.write_all(&answer(Ok(&second))).unwrap();
    let mut channel = Channel::new(Arc::new(stream), handshake.finish().unwrap());
    let (mut asked, until) = (Vec::new(), Instant::now() + limits().handshake);
    channel.receive(&mut asked, until).unwrap();
    channel.send(&[HERE], until).unwrap();
    channel
}

/// What a client has said lets nobody in who repeats it, nor stays in the way of others.
#[test]
fn a_repeated_handshake_is_not_admitted() {
    let memory = memory();
    let token = Token::new(b"secret").unwrap();
    let (listener, address) = listener();
    let recorded = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut first = [0; 16 + Handshake::MESSAGE_BYTES];
        stream.read_exact(&mut first).unwrap();
        first
    });
    fails!(Link::connect(&address, Some(&token), &limits()), ErrorKind::Unreachable { .. });
    let recorded = recorded.join().unwrap();
    let short = Limits { handshake: Duration::from_millis(50), ..limits() };
    let node = listen(&memory, Some("secret"), &short);
    for more in [&b""[..], &[0; 100]] {
        let said = told(&node, &[&recorded[..], more].concat());
        // It is answered, by what only the client could read.
        assert_eq!(said[..16], answer(Ok(b""))[..16]);
        assert_eq!(said.len(), 20 + encode(&memory.offer()).len() + Handshake::MESSAGE_BYTES);
        assert_eq!(node.clients(), 0);
    }
}

#[test]
fn a_node_that_falls_silent_is_lost() {
    let memory = memory();
    let (listener, address) = listener();
    let (over, wait) = channel::<()>();
    let thread = std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut channel = admit(stream, &memory.offer());
        // It answers the first question after the handshake, and then no more.
        let mut asked = Vec::new();
        let until = Instant::now() + limits().handshake;
        channel.receive(&mut asked, until).unwrap();
        assert_eq!(asked, [ASK]);
        channel.send(&[HERE], until).unwrap();
        wait.recv().unwrap_err();
    });
    let short = Duration::from_millis(20);
    let (mut link, _) =
        Link::connect(&address, None, &Limits { ask: short, silence: short, ..limits() }).unwrap();
    let (lost, told) = channel();
    link.watch(move || lost.send(()).unwrap()).unwrap();
    told.recv().unwrap();
    drop(over);
    thread.join().unwrap();
}

#[test]
fn the_memory_of_a_node_goes_with_it() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("node");
    let memory = LentMemory::create(Some(&dir), 4096).unwrap();
    let taken = LentMemory::create(Some(&dir), 4096).err().unwrap();
    assert!(matches!(taken.kind(), ErrorKind::Exists));
    let node = listen(&memory, None, &limits());
    let nodes = connect(&node, None).unwrap();
    let client = nodes.local().client().unwrap();
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 2);
    assert!(crate::fabric::Local::remove(&dir, memory.offer().id ^ 1).is_err());
    drop(memory);
    assert!(!dir.exists());
    // A client that has the memory keeps it.
    let read = client.post(Batch::of(|b| b.read(Addr::new(0, 64), 8)));
    assert_eq!(block_on(read).unwrap().word(0), 0);
    let dir = LentMemory::create(None, 4096).unwrap().dir().to_owned();
    assert!(!dir.exists());
    // Of a node that ends before it lends it.
    let place = LentPlace::make(Some(&dir)).unwrap();
    let (made, inode) = place.place();
    std::fs::write(made.join("node-0"), b"begun").unwrap();
    assert!(LentPlace::clear(made, inode ^ 1).is_err() && dir.exists());
    LentPlace::clear(made, inode).unwrap();
    assert!(!dir.exists());
    for bytes in [0, 100, 4097] {
        fails!(LentMemory::create(Some(&dir), bytes), ErrorKind::Options { .. });
        assert!(!dir.exists());
    }
}
