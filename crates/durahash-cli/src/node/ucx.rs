//! Memory that is lent over UCX.

use std::net::ToSocketAddrs;
use std::thread;
use std::time::Duration;

use durahash_remote::node::Token;
use durahash_ucx::{UcxNode, UcxNodeOptions};

use super::listen;
use crate::args::remote::Node;
use crate::exit::{Exit, Failure};

/// Clients at once. Each of them looks at the rows of all, again and again.
const ROWS: u32 = 64;
/// A client that shows no life for so long is taken as dead; a node that does not answer for a quarter of it
/// is lost.
const LEASE: Duration = Duration::from_secs(40);
/// How often is looked whether UCX serves the memory yet.
const LOOK: Duration = Duration::from_millis(100);

/// Serves until a signal ends it, or UCX fails.
pub(super) fn serve(args: &Node, token: Option<Token>) -> Result<Exit, Failure> {
    durahash_ucx::quiet();
    let loopback = is_loopback(&args.listen);
    let options = UcxNodeOptions { bytes: args.size, rows: ROWS, lease: LEASE, loopback };
    let memory = UcxNode::start(&options).map_err(|e| Failure::node(&e))?;
    let node = listen(args, memory.offer(), token, "ucx")?;
    while memory.serves() {
        thread::sleep(LOOK);
    }
    // So that clients learn of it.
    drop(node);
    memory.stop().map_err(|e| Failure::node(&e))?;
    Ok(Exit::Ok)
}

/// Whether nobody can connect there from another host. What is no address fails when it is listened at.
fn is_loopback(listen: &str) -> bool {
    listen.to_socket_addrs().is_ok_and(|mut all| all.all(|address| address.ip().is_loopback()))
}
