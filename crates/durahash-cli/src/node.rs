//! `node`: memory lent to clients.

mod guard;

use std::path::Path;
use std::thread;
use std::time::Duration;

use durahash_remote::node::{LentMemory, Limits, Listening, Token};
use durahash_remote::{ErrorKind, Result};

use crate::args::remote::{FabricName, Node};
use crate::exit::{Exit, Failure};
use crate::output::print;

use guard::Guard;
pub(crate) use guard::guard_main;

/// How often, and after how long, memory is made again where there is some of that name.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// `durahash node`. It ends by a signal, and its memory is removed then.
pub(crate) fn node(args: &Node) -> std::result::Result<Exit, Failure> {
    let FabricName::Local(dir) = &args.fabric else {
        let message = "this build has no UCX; --fabric local:PATH lends memory to this host";
        return Err(Failure::new(Exit::Usage, message));
    };
    let token = args.token_file.as_deref().map(Token::read).transpose();
    let token = token.map_err(|e| Failure::node(&e))?;
    let memory = lend(dir.as_deref(), args.size).map_err(|e| Failure::node(&e))?;
    let _guard = Guard::start(&memory)?;
    let node = Listening::bind(&args.listen, memory.offer(), token, Limits::default());
    let node = node.map_err(|e| Failure::node(&e))?;
    let text = format!(
        "node {}: {} bytes, fabric local:{}\n",
        node.address(),
        args.size,
        memory.dir().display()
    );
    match print(text.as_bytes()) {
        // Whoever started it need not listen.
        Err(failure) if failure.message.is_none() => {}
        printed => printed?,
    }
    node.serve();
    Ok(Exit::Ok)
}

/// Makes the memory. What is there may be that of a node that was just killed, which is about to be removed.
fn lend(dir: Option<&Path>, bytes: u64) -> Result<LentMemory> {
    for _ in 0..TRIES {
        match LentMemory::create(dir, bytes) {
            Err(e) if matches!(e.kind(), ErrorKind::Exists) => thread::sleep(BETWEEN_TRIES),
            made => return made,
        }
    }
    LentMemory::create(dir, bytes)
}
