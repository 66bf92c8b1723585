//! `node`: memory lent to clients.

mod guard;
#[cfg(feature = "ucx")]
mod ucx;

use std::io;
use std::path::Path;
use std::process;
use std::thread;
use std::time::Duration;

use durahash_remote::node::{LentPlace, Limits, Listening, Offer, Token};
use durahash_remote::{ErrorKind, Result};

use crate::args::remote::{FabricName, Node};
use crate::exit::{Exit, Failure};
use crate::output::print;

use guard::Guard;
pub(crate) use guard::guard_main;

/// How often, and after how long, memory is made again where there is some of that name.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// `durahash node`. It ends by a signal, or with its input, and its memory is removed then.
pub(crate) fn node(args: &Node) -> std::result::Result<Exit, Failure> {
    let token = args.token_file.as_deref().map(Token::read).transpose();
    let token = token.map_err(|e| Failure::node(&e))?;
    if args.until_eof {
        let end = || {
            // However it ends. Memory in files is removed by another process, as after a signal.
            drop(io::copy(&mut io::stdin(), &mut io::sink()));
            process::exit(0);
        };
        let thread = thread::Builder::new().name("durahash-eof".into()).spawn(end);
        thread.map_err(|e| Failure::new(Exit::Io, format!("starting a thread: {e}")))?;
    }
    match &args.fabric {
        FabricName::Local(dir) => local(args, dir.as_deref(), token),
        FabricName::Ucx => over_ucx(args, token),
    }
}

fn local(
    args: &Node,
    dir: Option<&Path>,
    token: Option<Token>,
) -> std::result::Result<Exit, Failure> {
    let place = place(dir).map_err(|e| Failure::node(&e))?;
    // Before there is anything to remove.
    let mut guard = Guard::start(&place)?;
    let memory = place.lend(args.size).map_err(|e| Failure::node(&e))?;
    guard.tell(&memory)?;
    let node = listen(args, memory.offer(), token, &format!("local:{}", memory.dir().display()))?;
    node.serve();
    Ok(Exit::Ok)
}

#[cfg(feature = "ucx")]
fn over_ucx(args: &Node, token: Option<Token>) -> std::result::Result<Exit, Failure> {
    ucx::serve(args, token)
}

#[cfg(not(feature = "ucx"))]
fn over_ucx(_: &Node, _: Option<Token>) -> std::result::Result<Exit, Failure> {
    Err(Failure::no_ucx("--fabric ucx lends memory over UCX"))
}

/// Listens for clients, and says so.
fn listen(
    args: &Node,
    offer: Offer,
    token: Option<Token>,
    fabric: &str,
) -> std::result::Result<Listening, Failure> {
    let node = Listening::bind(&args.listen, offer, token, Limits::default());
    let node = node.map_err(|e| Failure::node(&e))?;
    let text = format!("node {}: {} bytes, fabric {fabric}\n", node.address(), args.size);
    match print(text.as_bytes()) {
        // Whoever started it need not listen.
        Err(failure) if failure.message.is_none() => {}
        printed => printed?,
    }
    Ok(node)
}

/// Makes the directory. What is there may be that of a node that was just killed, which is about to be removed.
fn place(dir: Option<&Path>) -> Result<LentPlace> {
    for _ in 0..TRIES {
        match LentPlace::make(dir) {
            Err(e) if matches!(e.kind(), ErrorKind::Exists) => thread::sleep(BETWEEN_TRIES),
            made => return made,
        }
    }
    LentPlace::make(dir)
}
