//! The node's side: a thread for each connection, up to a limit.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use durahash_media::{Error, ErrorKind, Result, process};

use super::figures::Figure;
use super::guesses::Guesses;
use super::limits::Limits;
use super::message::{
    ASK, HERE, MessageError, Offer, VERDICTS, Verdict, answer, encode, read_hello,
};
use super::notices::{Notice, Notices};
use super::token::Token;
use crate::wire::{Channel, Handshake, Key, left, write_all};

/// Pause when the system has no descriptor or thread for another connection.
const SHORT_OF_MEANS: Duration = Duration::from_millis(50);
/// Bytes of a refused peer that are read after its first message, at most.
const DRAINED_BYTES: usize = 4 << 10;

/// A node that listens, and sends its offer to clients. Dropping it ends all connections.
///
/// **Concurrency.** One thread accepts connections, and each connection has a thread. Peers that are silent, send
/// garbage or vanish affect only their own connection. At the limit of connections, a new one
/// replaces one that has not been admitted yet: the oldest of those that have not shown the token, if there is one.
pub struct Listening {
    node: Arc<Node>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// What a node does for the clients that it admits.
pub(crate) trait Attend: Send + Sync {
    /// Serves a connection to its end. Returns why it has evicted the client, if it has.
    fn attend(&self, channel: Channel, limits: &Limits) -> Option<&'static str>;

    /// Figures about what it serves.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }
}

/// An offer, and what the node does for clients that accept it: for memory that they reach past the node, only
/// answers to their pings.
pub struct Service {
    pub(crate) offer: Offer,
    pub(crate) attend: Box<dyn Attend>,
    /// Every client that connects can write to the memory.
    pub(crate) is_open: bool,
}

impl Service {
    /// Bytes of the memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.offer.bytes
    }

    /// Clients at once, at most.
    #[must_use]
    pub fn max_clients(&self) -> u32 {
        self.offer.max_clients
    }
}

impl From<Offer> for Service {
    fn from(offer: Offer) -> Self {
        Service { offer, attend: Box::new(Pings), is_open: false }
    }
}

/// Answers pings.
struct Pings;

impl Attend for Pings {
    fn attend(&self, mut channel: Channel, limits: &Limits) -> Option<&'static str> {
        let mut asked = Vec::new();
        loop {
            // However it ends: the client may go on with the memory.
            channel.receive(&mut asked, Instant::now() + limits.idle).ok()?;
            if asked != [ASK] {
                return None;
            }
            channel.send(&[HERE], Instant::now() + limits.handshake).ok()?;
        }
    }
}

struct Node {
    service: Service,
    has_token: bool,
    key: Key,
    limits: Limits,
    notices: Option<Notices>,
    counts: Counts,
    guesses: Guesses,
    open: Mutex<Open>,
    /// A connection has ended.
    ended: Condvar,
}

/// What has happened since the node was started.
#[derive(Default)]
struct Counts {
    accepted: AtomicU64,
    /// By verdict.
    refused: [AtomicU64; VERDICTS.len()],
    /// Connections that were ended for others before they were admitted.
    replaced: AtomicU64,
}

/// Reads the figures of a node, from any thread. It does not keep the node.
#[derive(Clone)]
pub struct Gauges(Weak<Node>);

#[derive(Default)]
struct Open {
    connections: HashMap<u64, Connection>,
    next: u64,
    closing: bool,
}

/// A connection, until its thread ends.
struct Connection {
    stream: Arc<TcpStream>,
    standing: Standing,
    /// It has shown a wrong token.
    is_wrong: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    /// It was ended, for another one or with the node, and its thread ends soon.
    Ended,
    New,
    /// It has shown the token, or a repetition of what has.
    Shown,
    /// It was sent the offer.
    Answered,
    /// The client was admitted.
    Welcome,
}

impl Open {
    /// The number of connections that are not admitted yet, or are about to end.
    fn waiting(&self) -> usize {
        self.connections.values().filter(|open| open.standing != Standing::Welcome).count()
    }

    /// Ends a connection that is not admitted yet: the oldest of those that have shown least, as a client sends its first
    /// message at once. It is told to come again, unless it has been answered, or has a wrong token. If one ends already it is
    /// left at that. Returns whether it has ended one.
    fn end_one_silent(&mut self, until: Instant) -> bool {
        let lowest =
            self.connections.iter_mut().min_by_key(|(number, open)| (open.standing, **number));
        if let Some((_, open)) = lowest
            && open.standing != Standing::Welcome
        {
            let was_open = open.standing != Standing::Ended;
            if open.standing < Standing::Answered && was_open && !open.is_wrong {
                // A few bytes, to a new connection, never block. The peer may have closed it already.
                drop(write_all(&open.stream, &answer(Err(Verdict::Crowd)), until));
            }
            open.standing = Standing::Ended;
            // This ends its thread, too. The peer may have closed it already.
            drop(open.stream.shutdown(Shutdown::Both));
            return was_open;
        }
        false
    }

    /// Notes what a connection has shown; `false` if it has to end.
    fn rise(&mut self, number: u64, standing: Standing) -> bool {
        let open = self.connections.get_mut(&number);
        let open = open.filter(|open| open.standing != Standing::Ended);
        open.map(|open| open.standing = standing).is_some()
    }
}

impl Listening {
    /// Listens at `address`, such as `127.0.0.1:7410`, and sends the offer to clients that show the token, or no token
    /// if it is `None`.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) when the system refuses the address, or a thread;
    /// [`Options`](ErrorKind::Options) when the offer does not fit into a message, or [memory over
    /// TCP](crate::tcp::TcpMemory) would be lent beyond the loopback address without a [strong](Token::is_strong) token.
    pub fn bind(
        address: &str,
        service: impl Into<Service>,
        token: Option<Token>,
        limits: Limits,
    ) -> Result<Self> {
        Self::listen(address, service.into(), token, limits, None)
    }

    /// The same, and calls `told` with the address of a client that was refused or evicted, why, and how many others were
    /// since it was last told so: it runs on a thread of its own, at most four times a second, and may wait. The node's end
    /// does not wait for it.
    ///
    /// # Errors
    /// As [`bind`](Listening::bind).
    pub fn bind_watched(
        address: &str,
        service: impl Into<Service>,
        token: Option<Token>,
        limits: Limits,
        told: impl Fn(SocketAddr, Notice, u64) + Send + 'static,
    ) -> Result<Self> {
        let notices = Notices::start(told);
        let notices = notices.map_err(|e| Error::io("starting a thread", None, e))?;
        Self::listen(address, service.into(), token, limits, Some(notices))
    }

    fn listen(
        address: &str,
        service: Service,
        token: Option<Token>,
        limits: Limits,
        notices: Option<Notices>,
    ) -> Result<Self> {
        if !service.offer.fits() {
            let what = "the name of a fabric has at most 32 bytes, the place of memory 4096";
            return Err(ErrorKind::Options { what }.into());
        }
        let failed = |e| Error::io("listening", Some(address.into()), e);
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let is_strong = token.as_ref().is_some_and(Token::is_strong);
        if service.is_open && !is_strong && !address.ip().to_canonical().is_loopback() {
            let what = "memory over TCP beyond the loopback address needs a token of 16 bytes or \
                        more, chosen at random";
            return Err(ErrorKind::Options { what }.into());
        }
        let (open, ended) = (Mutex::default(), Condvar::new());
        let (has_token, key) = (token.is_some(), Token::key(token.as_ref()));
        let (counts, guesses) = (Counts::default(), Guesses::new(limits.guess));
        let node = Arc::new(Node {
            service,
            has_token,
            key,
            limits,
            notices,
            counts,
            guesses,
            open,
            ended,
        });
        let ours = Arc::clone(&node);
        let thread = process::spawn("durahash-node", move || ours.accept(&listener));
        let thread = thread.map_err(failed)?;
        Ok(Listening { node, address, thread: Some(thread) })
    }

    /// The address, with the port that the system chose for port 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The number of admitted clients.
    #[must_use]
    pub fn clients(&self) -> usize {
        let open = self.node.open();
        open.connections.len() - open.waiting()
    }

    /// What reads its figures.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        Gauges(Arc::downgrade(&self.node))
    }

    /// Serves for as long as the process lives.
    pub fn serve(mut self) {
        if let Some(thread) = self.thread.take() {
            // It ends by a panic only, which is printed.
            drop(thread.join());
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.node.open().closing = true;
        if let Some(thread) = self.thread.take() {
            // Wakes the thread that accepts.
            let mut wake = self.address;
            if wake.ip().is_unspecified() {
                wake.set_ip(match wake.ip() {
                    IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                    IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                });
            }
            let woken = TcpStream::connect_timeout(&wake, self.node.limits.handshake);
            if woken.is_ok() {
                // A panic there was printed.
                drop(thread.join());
            }
        }
        let mut open = self.node.open();
        for connection in open.connections.values_mut() {
            connection.standing = Standing::Ended;
            // The peer may have closed it already.
            drop(connection.stream.shutdown(Shutdown::Both));
        }
        // One of them may be pausing.
        self.node.ended.notify_all();
        while !open.connections.is_empty() {
            open = self.node.ended.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Node {
    fn open(&self) -> MutexGuard<'_, Open> {
        // Nothing panics while it is held.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts connections until the node closes.
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.open().closing {
                return;
            }
            match accepted {
                Ok((stream, address)) => self.start(stream, address),
                // Either the peer has gone again, or the system is short of something for a while.
                Err(_) => thread::sleep(SHORT_OF_MEANS),
            }
        }
    }

    /// Gives a connection a thread.
    fn start(self: &Arc<Self>, stream: TcpStream, address: SocketAddr) {
        self.counts.accepted.fetch_add(1, Ordering::Relaxed);
        if self.guesses.are_too_many(address.ip(), Instant::now()) {
            self.turn_away(&stream, address);
            return;
        }
        let stream = Arc::new(stream);
        let number = {
            let mut open = self.open();
            loop {
                let waiting = open.waiting();
                if waiting < self.limits.handshakes
                    && open.connections.len() < self.limits.connections
                {
                    break;
                }
                if waiting == 0 {
                    drop(open);
                    self.turn_away(&stream, address);
                    return;
                }
                if open.end_one_silent(Instant::now() + self.limits.handshake) {
                    self.counts.replaced.fetch_add(1, Ordering::Relaxed);
                }
                // It may be pausing. Its thread ends soon, and only then is there room for another.
                self.ended.notify_all();
                open = self.ended.wait(open).unwrap_or_else(PoisonError::into_inner);
            }
            open.next += 1;
            let (number, stream) = (open.next, Arc::clone(&stream));
            let (standing, is_wrong) = (Standing::New, false);
            open.connections.insert(number, Connection { stream, standing, is_wrong });
            number
        };
        // Also when the thread panics, or cannot be started.
        let ends = ConnectionGuard { node: Arc::clone(self), number };
        let attend = move || {
            let ends = ends;
            // Every failure, and the peer's leaving, just ends the connection.
            drop(ends.node.attend(stream, address, ends.number));
        };
        drop(process::spawn("durahash-link", attend));
    }

    /// Refuses a peer beyond the limit. Writing a few bytes to a new connection never blocks.
    fn turn_away(&self, stream: &TcpStream, address: SocketAddr) {
        self.refuse(address, Verdict::TooMany);
        let until = Instant::now() + self.limits.handshake;
        drop(write_all(stream, &answer(Err(Verdict::TooMany)), until));
    }

    /// Counts a peer that is refused, and tells of it.
    fn refuse(&self, address: SocketAddr, verdict: Verdict) {
        self.counts.refused[verdict as usize].fetch_add(1, Ordering::Relaxed);
        if let Some(notices) = &self.notices {
            notices.tell(address, Notice::Refused(verdict.why()));
        }
    }

    /// Serves a connection to its end.
    fn attend(&self, stream: Arc<TcpStream>, address: SocketAddr, number: u64) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let until = Instant::now() + self.limits.handshake;
        let verdict = match read_hello(&stream, until) {
            Ok((clear, has_token, first)) if has_token == self.has_token => {
                let mut handshake = Handshake::answer(&self.key, &clear)?;
                if handshake.read(&first).is_some() {
                    self.rise(number, Standing::Shown)?;
                    return self.admit((stream, address), number, handshake, until);
                }
                Verdict::AnotherToken
            }
            Ok((_, true, _)) => Verdict::NoToken,
            Ok((_, false, _)) => Verdict::TokenWanted,
            Err(MessageError::Version(_)) => Verdict::Version,
            Err(MessageError::Io(e)) => return Err(e),
            Err(MessageError::Magic | MessageError::Malformed) => {
                return Err(io::ErrorKind::InvalidData.into());
            }
        };
        self.refuse(address, verdict);
        if verdict == Verdict::AnotherToken {
            self.guesses.note(address.ip(), Instant::now());
            self.pause(number)?;
        }
        write_all(&stream, &answer(Err(verdict)), until)?;
        stream.shutdown(Shutdown::Write)?;
        drain(&stream, until)
    }

    fn rise(&self, number: u64, standing: Standing) -> io::Result<()> {
        let rises = self.open().rise(number, standing);
        rises.then_some(()).ok_or_else(|| io::ErrorKind::ConnectionAborted.into())
    }

    /// Sends the offer, while no other connection takes its place: so it is either answered, or told to come again. A few
    /// bytes, to a new connection, never block.
    fn offer(
        &self,
        number: u64,
        stream: &TcpStream,
        answer: &[u8],
        until: Instant,
    ) -> io::Result<()> {
        let mut open = self.open();
        if !open.rise(number, Standing::Answered) {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        write_all(stream, answer, until)
    }

    /// Has a peer with a wrong token wait, unless a new connection replaces its own.
    fn pause(&self, number: u64) -> io::Result<()> {
        let until = Instant::now() + self.limits.guess;
        let mut open = self.open();
        if let Some(ours) = open.connections.get_mut(&number) {
            ours.is_wrong = true;
        }
        while open.rise(number, Standing::New) {
            let Ok(left) = left(until) else { return Ok(()) };
            let waited = self.ended.wait_timeout(open, left);
            (open, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Err(io::ErrorKind::ConnectionAborted.into())
    }

    /// Serves a client that has shown the token, when it has also shown that it is there now: its first message may be a
    /// repetition of one that an attacker recorded.
    fn admit(
        &self,
        (stream, address): (Arc<TcpStream>, SocketAddr),
        number: u64,
        mut handshake: Handshake,
        until: Instant,
    ) -> io::Result<()> {
        let second = handshake.write(&encode(&self.service.offer))?;
        self.offer(number, &stream, &answer(Ok(&second)), until)?;
        let mut channel = Channel::new(stream, handshake.finish()?);
        let mut asked = Vec::new();
        channel.receive(&mut asked, until)?;
        if asked != [ASK] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        self.rise(number, Standing::Welcome)?;
        channel.send(&[HERE], until)?;
        let evicted = self.service.attend.attend(channel, &self.limits);
        if let (Some(why), Some(notices)) = (evicted, &self.notices) {
            notices.tell(address, Notice::Evicted(why));
        }
        Ok(())
    }
}

impl Gauges {
    /// The figures now; none when the node has ended.
    #[must_use]
    pub fn read(&self) -> Vec<Figure> {
        let Some(node) = self.0.upgrade() else { return Vec::new() };
        let (admitted, waiting) = {
            let open = node.open();
            (open.connections.len() - open.waiting(), open.waiting())
        };
        let Counts { accepted, refused, replaced } = &node.counts;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let refused = VERDICTS.into_iter().zip(refused).skip(1);
        let refused = refused.filter(|(verdict, _)| *verdict != Verdict::Crowd);
        let mut figures = vec![
            Figure::now("connections", "Connections that were admitted", admitted as u64),
            Figure::now("handshakes", "Connections that are not admitted yet", waiting as u64),
            Figure::since("accepted", "Connections that were accepted", count(accepted)),
            Figure::each(
                "refused",
                "Connections that were refused, by why",
                "why",
                refused.map(|(verdict, refused)| (verdict.why(), count(refused))),
            ),
            Figure::since(
                "replaced",
                "Connections that were ended for others before they were admitted",
                count(replaced),
            ),
            Figure::now("memory_bytes", "Memory that is lent", node.service.bytes()),
        ];
        figures.extend(node.service.attend.figures());
        figures
    }
}

/// Reads the rest of what a peer has sent, as far as a client sends it: closing before would discard the answer that is
/// under way.
fn drain(mut stream: &TcpStream, until: Instant) -> io::Result<()> {
    let mut bytes = [0; 512];
    for _ in 0..DRAINED_BYTES / bytes.len() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        if stream.read(&mut bytes)? == 0 {
            return Ok(());
        }
    }
    Ok(())
}

/// Removes a connection from the list when its thread ends.
struct ConnectionGuard {
    node: Arc<Node>,
    number: u64,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let gone = self.node.open().connections.remove(&self.number);
        drop(gone);
        self.node.ended.notify_all();
    }
}
