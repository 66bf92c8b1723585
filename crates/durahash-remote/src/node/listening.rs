//! The node's side: a thread for whoever connects, and not too many of them.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use durahash_media::{Error, ErrorKind, Result};

use super::limits::Limits;
use super::message::{ASK, HERE, Offer, Verdict, Wrong, answer, read_hello};
use super::stream::{read_all, write_all};
use super::token::Token;

/// How long is waited where the system has no descriptor or thread for another connection.
const SHORT_OF_MEANS: Duration = Duration::from_millis(50);

/// A node that listens, and tells its clients what it offers. Dropping it ends all connections.
///
/// **Concurrency.** A thread takes connections, and each connection has one. Peers that are silent, send
/// garbage or vanish end nothing but their own connection; where there are as many connections as there may
/// be, the one that has been silent the longest is ended for a new one, if it was not let in yet.
pub struct Listening {
    node: Arc<Node>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

struct Node {
    offer: Offer,
    token: Option<Token>,
    limits: Limits,
    open: Mutex<Open>,
    /// A connection has ended.
    ended: Condvar,
}

#[derive(Default)]
struct Open {
    connections: HashMap<u64, Connection>,
    next: u64,
    closing: bool,
}

struct Connection {
    stream: TcpStream,
    /// It was let in.
    welcome: bool,
}

impl Open {
    /// Ends the connection that is the oldest of those not let in yet, if there is one: who has something to
    /// say says it at once.
    fn drop_one_silent(&mut self) -> bool {
        let waiting = self.connections.iter().filter(|(_, connection)| !connection.welcome);
        let Some(oldest) = waiting.map(|(number, _)| *number).min() else { return false };
        if let Some(connection) = self.connections.remove(&oldest) {
            // By which its thread ends, too. The peer may have ended it already.
            drop(connection.stream.shutdown(Shutdown::Both));
        }
        true
    }
}

impl Listening {
    /// Listens at `address`, as `127.0.0.1:7410`, and tells whoever shows the token, or no token where that
    /// is `None`, what is on offer.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) when the system does not let it listen there, or has no thread for it;
    /// [`Options`](ErrorKind::Options) when the offer cannot be told.
    pub fn bind(address: &str, offer: Offer, token: Option<Token>, limits: Limits) -> Result<Self> {
        if !offer.fits() {
            let what = "the name of a fabric has at most 32 bytes, the place of memory 4096";
            return Err(ErrorKind::Options { what }.into());
        }
        let failed = |e| Error::io("listening", Some(address.into()), e);
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let (open, ended) = (Mutex::default(), Condvar::new());
        let node = Arc::new(Node { offer, token, limits, open, ended });
        let ours = Arc::clone(&node);
        let thread = thread::Builder::new().name("durahash-node".into());
        let thread = thread.spawn(move || ours.accept(&listener)).map_err(failed)?;
        Ok(Listening { node, address, thread: Some(thread) })
    }

    /// Where it listens: with the port that the system chose, where that was 0.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many clients are connected, and were let in.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.node.open().connections.values().filter(|connection| connection.welcome).count()
    }

    /// Serves for as long as the process lives.
    pub fn serve(mut self) {
        if let Some(thread) = self.thread.take() {
            // It ends where it panics, and has said so then.
            drop(thread.join());
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.node.open().closing = true;
        if let Some(thread) = self.thread.take() {
            // So that it looks again.
            let mut wake = self.address;
            if wake.ip().is_unspecified() {
                wake.set_ip(match wake.ip() {
                    IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
                    IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
                });
            }
            let woken = TcpStream::connect_timeout(&wake, self.node.limits.handshake);
            if woken.is_ok() {
                // A panic there has shown itself.
                drop(thread.join());
            }
        }
        let mut open = self.node.open();
        for connection in open.connections.values() {
            // One that the peer has ended already is fine.
            drop(connection.stream.shutdown(Shutdown::Both));
        }
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

    /// Takes connections until the node closes.
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        loop {
            let accepted = listener.accept();
            if self.open().closing {
                return;
            }
            match accepted {
                Ok((stream, _)) => self.start(stream),
                // Either the peer has gone again, or there is a lack that passes.
                Err(_) => thread::sleep(SHORT_OF_MEANS),
            }
        }
    }

    /// Gives a connection a thread.
    fn start(self: &Arc<Self>, stream: TcpStream) {
        let Ok(copy) = stream.try_clone() else { return };
        let number = {
            let mut open = self.open();
            if open.connections.len() >= self.limits.connections && !open.drop_one_silent() {
                drop(open);
                self.turn_away(&stream);
                return;
            }
            open.next += 1;
            let number = open.next;
            open.connections.insert(number, Connection { stream: copy, welcome: false });
            number
        };
        // Also where the thread panics, or does not come to be.
        let ends = Ends { node: Arc::clone(self), number };
        let attend = move || {
            let ends = ends;
            // Whatever the peer did wrong, or whether it has left: that is the end of it.
            drop(ends.node.attend(&stream, ends.number));
        };
        drop(thread::Builder::new().name("durahash-link".into()).spawn(attend));
    }

    /// Says to one peer too many that it is. A few bytes never wait in a new connection.
    fn turn_away(&self, stream: &TcpStream) {
        let until = Instant::now() + self.limits.handshake;
        drop(write_all(stream, &answer(Err(Verdict::TooMany)), until));
    }

    /// A connection from its begin to its end.
    fn attend(&self, stream: &TcpStream, number: u64) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let until = Instant::now() + self.limits.handshake;
        let verdict = match read_hello(stream, until) {
            Ok(token) => self.judge(token.as_ref()),
            Err(Wrong::Version(_)) => Verdict::Version,
            Err(Wrong::Io(e)) => return Err(e),
            Err(Wrong::Magic | Wrong::Malformed) => return Err(io::ErrorKind::InvalidData.into()),
        };
        if verdict != Verdict::Welcome {
            write_all(stream, &answer(Err(verdict)), until)?;
            stream.shutdown(Shutdown::Write)?;
            return drain(stream, until);
        }
        if let Some(connection) = self.open().connections.get_mut(&number) {
            connection.welcome = true;
        }
        write_all(stream, &answer(Ok(&self.offer)), until)?;
        loop {
            let mut asked = [0];
            read_all(stream, &mut asked, Instant::now() + self.limits.idle)?;
            if asked != [ASK] {
                return Err(io::ErrorKind::InvalidData.into());
            }
            write_all(stream, &[HERE], Instant::now() + self.limits.handshake)?;
        }
    }

    fn judge(&self, shown: Option<&Token>) -> Verdict {
        match (&self.token, shown) {
            (None, None) => Verdict::Welcome,
            (None, Some(_)) => Verdict::NoToken,
            (Some(_), None) => Verdict::TokenWanted,
            (Some(wanted), Some(shown)) if wanted.is(shown) => Verdict::Welcome,
            (Some(_), Some(_)) => Verdict::AnotherToken,
        }
    }
}

/// Reads what a peer has sent too much, up to its end: to close before would take from it the answer
/// that is under way.
fn drain(mut stream: &TcpStream, until: Instant) -> io::Result<()> {
    let mut bytes = [0; 512];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        stream.set_read_timeout(Some(left))?;
        if stream.read(&mut bytes)? == 0 {
            return Ok(());
        }
    }
}

/// Takes a connection from the book when its thread ends.
struct Ends {
    node: Arc<Node>,
    number: u64,
}

impl Drop for Ends {
    fn drop(&mut self) {
        let gone = self.node.open().connections.remove(&self.number);
        drop(gone);
        self.node.ended.notify_all();
    }
}
