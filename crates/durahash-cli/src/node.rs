//! `node`: memory lent to clients.

mod guard;
mod tcp;
#[cfg(feature = "ucx")]
mod ucx;

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use durahash_remote::Error;
use durahash_remote::node::{Limits, Listening, Service, Token};

use crate::args::remote::{FabricName, Node};
use crate::exit::{Exit, Failure};
use crate::output::{complain, print};

use guard::Guard;
pub(crate) use guard::guard_main;

/// Disconnected when the standard input has ended, by which the node does; nothing where it does not.
type Eof = Option<Receiver<()>>;

/// `durahash node`. It ends by a signal, or with its input, and its memory is removed then.
pub(crate) fn node(args: &Node) -> Result<Exit, Failure> {
    let token = args.token_file.as_deref().map(Token::read).transpose();
    let token = token.map_err(|e| Failure::node(&e))?;
    let eof = args.until_eof.then(read_to_end).transpose()?;
    let address = address(&args.listen)?;
    let fabric = args.fabric.clone().unwrap_or(match is_loopback(address) {
        true => FabricName::Local(None),
        false => FabricName::Tcp,
    });
    match &fabric {
        FabricName::Local(dir) => local(args, address, dir.as_deref(), token, eof),
        FabricName::Tcp => tcp::serve(args, address, token, eof),
        FabricName::Ucx => over_ucx(args, address, token, eof),
    }
}

/// Reads what nobody wants, by a thread.
fn read_to_end() -> Result<Receiver<()>, Failure> {
    let (open, eof) = channel();
    let read = move || {
        // However it ends.
        drop(io::copy(&mut io::stdin(), &mut io::sink()));
        drop(open);
    };
    let thread = thread::Builder::new().name("durahash-eof".into()).spawn(read);
    thread.map_err(|e| Failure::new(Exit::Io, format!("starting a thread: {e}")))?;
    Ok(eof)
}

/// Where to listen: of the addresses that a name has the first at which that is possible, and no other.
fn address(listen: &str) -> Result<SocketAddr, Failure> {
    let failed = |e| Failure::node(&Error::io("listening", Some(listen.into()), e));
    let mut last = io::ErrorKind::AddrNotAvailable.into();
    for address in listen.to_socket_addrs().map_err(failed)? {
        match TcpListener::bind(address) {
            Ok(_) => return Ok(address),
            Err(e) => last = e,
        }
    }
    Err(failed(last))
}

/// True if no other host can connect there.
fn is_loopback(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

fn local(
    args: &Node,
    address: SocketAddr,
    dir: Option<&Path>,
    token: Option<Token>,
    eof: Eof,
) -> Result<Exit, Failure> {
    // It makes the directory, so it is there before there is anything to remove.
    let (mut guard, place) = Guard::start(dir)?;
    let memory = place.lend(args.size).map_err(|e| Failure::node(&e))?;
    guard.tell(&memory)?;
    let fabric = format!("local:{}", memory.dir().display());
    let node = listen(args, address, memory.offer(), token, &fabric)?;
    if !is_loopback(address) {
        complain(&format!(
            "durahash: other hosts may reach {}, but not the memory: that is files of this host; \
             `--fabric tcp` lends it over a network",
            node.address()
        ));
    }
    serve(node, eof);
    Ok(Exit::Ok)
}

/// Serves until the input ends, or a signal comes.
fn serve(node: Listening, eof: Eof) {
    match eof {
        // Nothing is ever sent.
        Some(eof) => drop(eof.recv()),
        None => node.serve(),
    }
}

#[cfg(feature = "ucx")]
fn over_ucx(
    args: &Node,
    address: SocketAddr,
    token: Option<Token>,
    eof: Eof,
) -> Result<Exit, Failure> {
    ucx::serve(args, address, token, eof)
}

#[cfg(not(feature = "ucx"))]
fn over_ucx(_: &Node, _: SocketAddr, _: Option<Token>, _: Eof) -> Result<Exit, Failure> {
    Err(Failure::no_ucx("--fabric ucx lends memory over UCX"))
}

/// Listens for clients, and says so.
fn listen(
    args: &Node,
    address: SocketAddr,
    service: impl Into<Service>,
    token: Option<Token>,
    fabric: &str,
) -> Result<Listening, Failure> {
    let refused = |client, why: &str| complain(&format!("refused {client}: {why}"));
    let limits = Limits::default();
    let node = Listening::bind_watched(&address.to_string(), service, token, limits, refused);
    let node = node.map_err(|e| Failure::node(&e))?;
    let text = format!("node {}, {} bytes, fabric {fabric}\n", node.address(), args.size);
    match print(text.as_bytes()) {
        // The program that started it need not listen.
        Err(failure) if failure.message.is_none() => {}
        printed => printed?,
    }
    Ok(node)
}
