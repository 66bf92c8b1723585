//! `node`: memory lent to clients.

mod ends;
mod file;
mod guard;
mod metrics;
mod tcp;
#[cfg(feature = "ucx")]
mod ucx;

use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use durahash::Limit;
use durahash_remote::node::{Limits, Listening, Notice, Service, Token};
use durahash_remote::{Error, ErrorKind};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::args::remote::{FabricName, Node, SIZE};
use crate::exit::{Exit, Failure};
use crate::output::{complain, print};
use crate::token::token;

use ends::{Ends, ends};
use guard::Guard;
pub(crate) use guard::guard_main;

/// Time between two looks after the disk of a file.
const LOOK: Duration = Duration::from_secs(1);

/// `durahash node`. It ends by a signal, or with its input. Its memory is removed then, or closed where it is a file.
pub(crate) fn node(args: &Node) -> Result<Exit, Failure> {
    let token = token(args.token_file.as_deref())?;
    let ends = ends(args)?;
    let address = address(&args.listen)?;
    let fabric = args.fabric.clone().unwrap_or(match is_loopback(address) {
        true => FabricName::Local(None),
        false => FabricName::Tcp,
    });
    if args.clients.is_some() && fabric != FabricName::Tcp {
        return Err(Failure::new(Exit::Usage, "--clients is for --fabric tcp: leave it out"));
    }
    match (&fabric, &args.file) {
        (FabricName::Local(None), Some(file)) => local_file(args, address, file, token, ends),
        (FabricName::Local(Some(_)), Some(_)) => {
            let what =
                "--file and --fabric local:PATH name two places for one memory: leave one out";
            Err(Failure::new(Exit::Usage, what))
        }
        (FabricName::Local(dir), None) => local(args, address, dir.as_deref(), token, ends),
        (FabricName::Tcp, _) => tcp::serve(args, address, token, ends),
        (FabricName::Ucx, _) => over_ucx(args, address, token, ends),
    }
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
    ends: Ends,
) -> Result<Exit, Failure> {
    // It makes the directory, so it is there before there is anything to remove.
    let (mut guard, place) = Guard::start(dir)?;
    let memory = place.lend(args.size.unwrap_or(SIZE)).map_err(|e| not_lent(&e))?;
    guard.tell(&memory)?;
    let fabric = format!("local:{}", memory.dir().display());
    let node = listen(args, address, memory.offer(), token, &fabric)?;
    warn_others(address, &node);
    serve(node, ends, || Ok(()))?;
    Ok(Exit::Ok)
}

fn not_lent(e: &Error) -> Failure {
    let mut failure = Failure::node(e);
    if let ErrorKind::Full { wanted_bytes, limit } = e.kind() {
        let place = e.path().map_or_else(String::new, |path| format!("{}: ", path.display()));
        let then = match limit {
            Limit::FileSize => "raise that limit, or lend less with --size",
            _ => "lend less with --size, or a file on a disk with --file",
        };
        let message = format!("{place}no space for {wanted_bytes} bytes: {limit}; {then}");
        failure.message = Some(message);
    }
    failure
}

/// The same in a file, which stays.
fn local_file(
    args: &Node,
    address: SocketAddr,
    path: &Path,
    token: Option<Token>,
    ends: Ends,
) -> Result<Exit, Failure> {
    let memory = file::open(args, path)?;
    let fabric = format!("local, file {}", memory.path().display());
    let offer = memory.lend().map_err(|e| file::explained(path, &e));
    let served = offer.and_then(|offer| listen(args, address, offer, token, &fabric));
    let served = served.and_then(|node| {
        warn_others(address, &node);
        serve(node, ends, || memory.written_back().map_err(|e| file::explained(path, &e)))
    });
    let closed = file::close(path, |patience| memory.close(patience));
    served.and(closed)
}

fn warn_others(address: SocketAddr, node: &Listening) {
    if !is_loopback(address) {
        complain(&format!(
            "durahash: other hosts may reach {}, but not the memory: that is files of this host; \
             `--fabric tcp` lends it over a network",
            node.address()
        ));
    }
}

/// Serves until what ends the node in order, or a signal, or a failure of `look`, which is asked again and again.
fn serve(
    node: Listening,
    ends: Ends,
    look: impl Fn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(ends) = ends else {
        node.serve();
        return Ok(());
    };
    // However it comes.
    while ends.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
        look()?;
    }
    // Now the connections end, so that clients learn of it.
    Ok(())
}

#[cfg(feature = "ucx")]
fn over_ucx(
    args: &Node,
    address: SocketAddr,
    token: Option<Token>,
    ends: Ends,
) -> Result<Exit, Failure> {
    ucx::serve(args, address, token, ends)
}

#[cfg(not(feature = "ucx"))]
fn over_ucx(_: &Node, _: SocketAddr, _: Option<Token>, _: Ends) -> Result<Exit, Failure> {
    Err(Failure::no_ucx("--fabric ucx lends memory over UCX"))
}

/// Lets this process have as many descriptors as the system allows: each connection takes one.
fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Without, connections beyond the limit wait.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Listens for clients, and says so.
fn listen(
    args: &Node,
    address: SocketAddr,
    service: impl Into<Service>,
    token: Option<Token>,
    fabric: &str,
) -> Result<Listening, Failure> {
    let told = |client, notice, more| {
        let (what, why) = match notice {
            Notice::Refused(why) => ("refused", why),
            Notice::Evicted(why) => ("evicted", why),
            _ => return,
        };
        let others = if more > 0 { format!("; and {more} others") } else { String::new() };
        complain(&format!("{what} {client}: {why}{others}"));
    };
    let (mut limits, service) = (Limits::default(), service.into());
    limits.connections = service.max_clients() as usize + limits.handshakes;
    raise_descriptors();
    let bytes = service.bytes();
    let node = Listening::bind_watched(&address.to_string(), service, token, limits, told);
    let node = node.map_err(|e| Failure::node(&e))?;
    let mut text = format!("node {}, {bytes} bytes, fabric {fabric}\n", node.address());
    if let Some(metrics) = &args.metrics {
        text.push_str(&format!("metrics {}\n", metrics::tell(metrics, node.gauges())?));
    }
    match print(text.as_bytes()) {
        // The program that started it need not listen.
        Err(failure) if failure.message.is_none() => {}
        printed => printed?,
    }
    Ok(node)
}
