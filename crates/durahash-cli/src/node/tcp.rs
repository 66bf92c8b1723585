//! Memory that is lent over TCP.

use std::net::SocketAddr;

use durahash_remote::node::Token;
use durahash_remote::tcp::TcpMemory;

use super::{Eof, is_loopback, listen};
use crate::args::remote::Node;
use crate::exit::{Exit, Failure};

/// Clients at once. Each of them looks at the rows of all, again and again.
const ROWS: u32 = 64;

/// Serves until a signal ends it, or the end of its input.
pub(super) fn serve(
    args: &Node,
    address: SocketAddr,
    token: Option<Token>,
    eof: Eof,
) -> Result<Exit, Failure> {
    let advice = "make one: `head -c 32 /dev/urandom | base64 > FILE`";
    match &token {
        Some(token) if !token.is_strong() => {
            let why = "over TCP, a token is 16 bytes or more, chosen at random";
            return Err(Failure::new(Exit::Usage, format!("{why}; {advice}")));
        }
        None if !is_loopback(address) => {
            let why =
                format!("whoever reaches {address} could write to the memory without a token");
            return Err(Failure::new(
                Exit::Usage,
                format!("{why}: give --token-file FILE, and {advice}"),
            ));
        }
        _ => {}
    }
    let memory = TcpMemory::anonymous(args.size, ROWS).map_err(|e| Failure::node(&e))?;
    let node = listen(args, address, &memory, token, "tcp")?;
    super::serve(node, eof);
    Ok(Exit::Ok)
}
