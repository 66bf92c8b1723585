//! Memory that is lent over TCP.

use std::net::SocketAddr;

use durahash_remote::node::Token;
use durahash_remote::tcp::TcpMemory;

use super::{Ends, file, is_loopback, listen};
use crate::args::remote::{Node, SIZE};
use crate::exit::{Exit, Failure};

/// Clients at once, unless it is told otherwise. Each of them looks at the rows of all, again and again.
const ROWS: u32 = 64;

/// Serves until a signal ends it, or the end of its input, and closes the file then, if there is one.
pub(super) fn serve(
    args: &Node,
    address: SocketAddr,
    token: Option<Token>,
    ends: Ends,
) -> Result<Exit, Failure> {
    let advice = "make one: `(umask 077; head -c 32 /dev/urandom | base64 > FILE)`";
    match &token {
        Some(token) if !token.is_strong() => {
            let why = "over TCP, a token is 16 bytes or more, chosen at random";
            return Err(Failure::new(Exit::Usage, format!("{why}; {advice}")));
        }
        None if !is_loopback(address) => {
            let why = format!(
                "every program that reaches {address} could write to the memory without a token"
            );
            return Err(Failure::new(
                Exit::Usage,
                format!("{why}: give --token-file FILE, and {advice}"),
            ));
        }
        _ => {}
    }
    let rows = args.clients.unwrap_or(ROWS);
    let Some(path) = &args.file else {
        let memory = TcpMemory::anonymous(args.size.unwrap_or(SIZE), rows);
        let memory = memory.map_err(|e| Failure::node(&e))?;
        super::serve(listen(args, address, &memory, token, "tcp")?, ends, || Ok(()))?;
        return Ok(Exit::Ok);
    };
    let file = file::open(args, path)?;
    let fabric = format!("tcp, file {}", file.path().display());
    let memory = TcpMemory::in_file(file, rows).map_err(|e| file::explained(path, &e))?;
    let look = || memory.written_back().map_err(|e| file::explained(path, &e));
    let served = listen(args, address, &memory, token, &fabric);
    let served = served.and_then(|node| super::serve(node, ends, look));
    let closed = file::close(path, |patience| memory.close(patience));
    served.and(closed)
}
