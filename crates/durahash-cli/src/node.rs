//! `node`: memory lent to clients.

mod guard;

use durahash_remote::node::{LentMemory, Limits, Listening, Token};

use crate::args::remote::{FabricName, Node};
use crate::exit::{Exit, Failure};
use crate::output::print;

use guard::Guard;
pub(crate) use guard::guard_main;

/// `durahash node`. It ends by a signal, and its memory is removed then.
pub(crate) fn node(args: &Node) -> Result<Exit, Failure> {
    let FabricName::Local(dir) = &args.fabric else {
        let message = "this build has no UCX; --fabric local:PATH lends memory to this host";
        return Err(Failure::new(Exit::Usage, message));
    };
    let token = args.token_file.as_deref().map(Token::read).transpose();
    let token = token.map_err(|e| Failure::node(&e))?;
    let memory = LentMemory::create(dir.as_deref(), args.size).map_err(|e| Failure::node(&e))?;
    let _guard = Guard::start(&memory)?;
    let node = Listening::bind(&args.listen, memory.offer(), token, Limits::default());
    let node = node.map_err(|e| Failure::node(&e))?;
    let text = format!(
        "node {}: {} bytes, fabric local:{}\n",
        node.address(),
        args.size,
        memory.dir().display()
    );
    print(text.as_bytes())?;
    node.serve();
    Ok(Exit::Ok)
}
