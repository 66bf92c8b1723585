//! Memory that is lent over UCX.

use std::net::SocketAddr;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use durahash_remote::node::Token;
use durahash_ucx::{UcxNode, UcxNodeOptions};

use super::{Ends, file, is_loopback, listen};
use crate::args::remote::{Node, SIZE};
use crate::exit::{Exit, Failure};

/// Clients at once. Each of them looks at the rows of all, again and again.
const ROWS: u32 = 64;
/// A client that shows no life for so long is taken as dead; a node that does not answer for a quarter of it
/// is lost.
const LEASE: Duration = Duration::from_secs(40);
/// Time between two looks whether UCX serves the memory yet.
const LOOK: Duration = Duration::from_millis(100);

/// Serves until a signal ends it, or the end of its input, or UCX fails.
pub(super) fn serve(
    args: &Node,
    address: SocketAddr,
    token: Option<Token>,
    ends: Ends,
) -> Result<Exit, Failure> {
    durahash_ucx::quiet();
    let loopback = is_loopback(address);
    let mut options = UcxNodeOptions::default();
    (options.bytes, options.max_clients) = (args.size.unwrap_or(SIZE), ROWS);
    (options.lease, options.loopback) = (LEASE, loopback);
    let (memory, fabric) = match &args.file {
        Some(path) => {
            let memory = file::open(args, path)?;
            let fabric = format!("ucx, file {}", memory.path().display());
            let started = UcxNode::start_in(memory, &options);
            (started.map_err(|e| file::explained(path, &e))?, fabric)
        }
        None => (UcxNode::start(&options).map_err(|e| Failure::node(&e))?, "ucx".into()),
    };
    let served = listen(args, address, memory.offer(), token, &fabric).map(|node| {
        while memory.serves() {
            match &ends {
                Some(ends) if ends.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) => {}
                Some(_) => break,
                None => thread::sleep(LOOK),
            }
        }
        // Now the connections end, so that clients learn of it.
        drop(node);
    });
    let closed = match (memory.stop().map_err(|e| Failure::node(&e))?, &args.file) {
        (Some(memory), Some(path)) => file::close(path, |patience| memory.close(patience)),
        _ => Ok(Exit::Ok),
    };
    served.and(closed)
}
