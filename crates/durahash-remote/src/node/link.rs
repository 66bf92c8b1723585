//! The client's side of a connection to a node.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use durahash_media::{Error, ErrorKind, Result, process};

use super::limits::Limits;
use super::message::{
    ASK, HERE, MessageError, Offer, VERSION, Verdict, decode, hello, read_answer,
};
use super::token::Token;
use crate::wire::{Channel, Handshake, left, write_all};

/// Pause before a client comes again to a node that has a crowd of them, at first and at the most.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(640);

/// A connection to a node, which detects the node's end. Dropping it closes it.
pub struct Link {
    stream: Arc<TcpStream>,
    /// Until a thread has it.
    channel: Option<Channel>,
    limits: Limits,
    address: String,
    token: Option<Token>,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    /// Connects to the node at `address`, such as `127.0.0.1:7410`, and returns its offer. A node on which more clients
    /// come at once than it can talk to tells some to come again, which this does for as long as a handshake may take.
    ///
    /// # Errors
    /// [`Unreachable`](ErrorKind::Unreachable) when there is no answer, or the node has too many connections;
    /// [`Refused`](ErrorKind::Refused) when it does not admit this client;
    /// [`NotANode`](ErrorKind::NotANode) when the peer is not a node of this version.
    pub fn connect(address: &str, token: Option<&Token>, limits: &Limits) -> Result<(Self, Offer)> {
        let until = Instant::now() + limits.handshake;
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(connected) = Self::attempt(address, token, limits, until)? {
                return Ok(connected);
            }
            // Anything between half and all of it, so that those who came together come apart.
            let part = 1 << 31 | getrandom::u32().unwrap_or(0) >> 1;
            let waits = pause.mul_f64(f64::from(part) / f64::from(u32::MAX));
            if left(until).is_ok_and(|left| left > waits) {
                thread::sleep(waits);
                pause = LONGEST_PAUSE.min(2 * pause);
            } else {
                return Err(refusal(address, Verdict::Crowd));
            }
        }
    }

    /// The same, once; `None` if the node was in a crowd of clients.
    fn attempt(
        address: &str,
        token: Option<&Token>,
        limits: &Limits,
        until: Instant,
    ) -> Result<Option<(Self, Offer)>> {
        let unreachable = |source| {
            let address = address.to_owned();
            Error::from(ErrorKind::Unreachable { address, source })
        };
        let stream = dial(address, until).map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let clear = hello(token.is_some());
        let mut handshake = Handshake::begin(&Token::key(token), &clear).map_err(unreachable)?;
        let first = handshake.write(&[]).map_err(unreachable)?;
        let said = write_all(&stream, &[&clear[..], &first].concat(), until);
        // A node that closes the connection early has sent its verdict before.
        let second = match (read_answer(&stream, until), said) {
            (Ok(Ok(second)), Ok(())) => second,
            (Ok(Err(Verdict::Crowd)), _) => return Ok(None),
            (Ok(Err(verdict)), _) => return Err(refusal(address, verdict)),
            (Ok(Ok(_)), Err(e)) | (Err(MessageError::Io(_)), Err(e)) => return Err(unreachable(e)),
            (Err(wrong), _) => return Err(not_a_node(address, wrong)),
        };
        let Some(offer) = handshake.read(&second) else {
            let why =
                "it does not have the token, or something between it and here changes messages";
            return Err(ErrorKind::NotANode { address: address.into(), why: why.into() }.into());
        };
        let malformed = || not_a_node(address, MessageError::Malformed);
        let offer = decode(&offer).ok_or_else(malformed)?;
        let stream = Arc::new(stream);
        let cipher = handshake.finish().map_err(unreachable)?;
        let mut channel = Channel::new(Arc::clone(&stream), cipher);
        // Only now does the node know that this is not the repetition of a message that an attacker recorded.
        let mut said = Vec::new();
        let asked = channel.send(&[ASK], until);
        match asked.and_then(|()| channel.receive(&mut said, until)) {
            // It has shown the token, so a crowd of others that have it has come.
            Err(e) if is_end(&e) => return Ok(None),
            asked => asked.map_err(unreachable)?,
        }
        if said != [HERE] {
            return Err(malformed());
        }
        let (limits, address, token) = (limits.clone(), address.into(), token.cloned());
        let channel = Some(channel);
        Ok(Some((Link { stream, channel, limits, address, token, thread: None }, offer)))
    }

    /// The node's address, as it was given.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The token that the node has taken.
    pub(crate) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// The connection, for another protocol, and the limits. Nothing pings the node then.
    pub(crate) fn into_channel(mut self) -> (Channel, Limits) {
        (self.take_channel(), self.limits.clone())
    }

    fn take_channel(&mut self) -> Channel {
        self.channel.take().expect("a link is watched once, or given away")
    }

    /// Starts a thread that pings the node, and calls `lost` when the node no longer answers or this
    /// is dropped.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) when no thread can be started.
    ///
    /// # Panics
    /// When it is called again.
    pub fn watch(&mut self, lost: impl FnOnce() + Send + 'static) -> Result<()> {
        let (mut channel, limits) = (self.take_channel(), self.limits.clone());
        let watch = move || {
            // The node no longer answers.
            drop(watch(&mut channel, &limits));
            lost();
            drop(channel.stream.shutdown(Shutdown::Both));
        };
        let thread = process::spawn("durahash-link", watch);
        self.thread = Some(thread.map_err(|e| Error::io("starting a thread", None, e))?);
        Ok(())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.channel.is_none() && self.thread.is_none() {
            // It was given away.
            return;
        }
        // It may be closed already.
        drop(self.stream.shutdown(Shutdown::Both));
        if let Some(thread) = self.thread.take() {
            // A panic there was printed.
            drop(thread.join());
        }
    }
}

/// True if the peer has ended the connection.
fn is_end(e: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(e.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

/// Connects to one of the addresses of the name.
fn dial(address: &str, until: Instant) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in resolve(address, until)? {
        match TcpStream::connect_timeout(&address, left(until)?) {
            Ok(stream) => return Ok(stream),
            Err(e) => failed = e,
        }
    }
    Err(failed)
}

/// The addresses of a name. The system may take longer than the limit to resolve it, so a thread does it, which is
/// abandoned then.
fn resolve(address: &str, until: Instant) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = address.parse() {
        return Ok(vec![address]);
    }
    let (tell, told) = channel();
    let name = address.to_owned();
    let ask = move || {
        // The limit may have passed.
        drop(tell.send(name.to_socket_addrs().map(Vec::from_iter)));
    };
    process::spawn("durahash-names", ask)?;
    told.recv_timeout(left(until)?).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Pings the node; returns when it does not answer, or answers anything else.
fn watch(channel: &mut Channel, limits: &Limits) -> io::Result<()> {
    let mut said = Vec::new();
    loop {
        match channel.receive(&mut said, Instant::now() + limits.ask) {
            Err(e) if e.kind() == io::ErrorKind::TimedOut => {}
            Err(e) => return Err(e),
            Ok(()) => return Err(io::ErrorKind::InvalidData.into()),
        }
        let until = Instant::now() + limits.silence;
        channel.send(&[ASK], until)?;
        channel.receive(&mut said, until)?;
        if said != [HERE] {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

fn refusal(address: &str, verdict: Verdict) -> Error {
    let busy = |what| {
        let source = io::Error::new(io::ErrorKind::ResourceBusy, what);
        ErrorKind::Unreachable { address: address.into(), source }.into()
    };
    let why = match verdict {
        Verdict::TooMany => {
            return busy(
                "it has reached its limit of connections, or of wrong tokens from this address",
            );
        }
        Verdict::Crowd => {
            return busy("more clients come than it can talk to at once; come again later");
        }
        Verdict::Version | Verdict::Welcome => {
            let why = format!("it does not support version {VERSION} of the control protocol");
            return ErrorKind::NotANode { address: address.into(), why }.into();
        }
        Verdict::TokenWanted => "it requires a token",
        Verdict::AnotherToken => "it requires a different token",
        Verdict::NoToken => "it requires no token, so it is not the node that this token is for",
    };
    ErrorKind::Refused { address: address.into(), why }.into()
}

fn not_a_node(address: &str, wrong: MessageError) -> Error {
    let why = match wrong {
        MessageError::Io(source) => {
            return ErrorKind::Unreachable { address: address.into(), source }.into();
        }
        MessageError::Magic => "it does not speak the control protocol".into(),
        MessageError::Version(version) => {
            format!("it has version {version} of the control protocol, this build {VERSION}")
        }
        MessageError::Malformed => "its answer is malformed".into(),
    };
    ErrorKind::NotANode { address: address.into(), why }.into()
}
