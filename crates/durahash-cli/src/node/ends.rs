//! What ends a node in order: the end of its input, and a signal where there is a file to close.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use crate::args::remote::Node;
use crate::exit::{Exit, Failure};

/// Tells when the node shall end, or is disconnected then; nothing where only the system ends it.
pub(super) type Ends = Option<Receiver<()>>;

/// Begins to wait for what ends the node.
pub(super) fn ends(args: &Node) -> Result<Ends, Failure> {
    let (tell, ends) = channel();
    if args.until_eof {
        // However it ends.
        start("durahash-eof", tell.clone(), || drop(io::copy(&mut io::stdin(), &mut io::sink())))?;
    }
    if args.file.is_some() {
        let failed = |e| Failure::new(Exit::Io, format!("signals: {e}"));
        let mut signals = signals().map_err(failed)?;
        start("durahash-ends", tell, move || drop(signals.read(&mut [0])))?;
    } else if !args.until_eof {
        return Ok(None);
    }
    Ok(Some(ends))
}

/// Waits in a thread, and tells then.
fn start(
    name: &str,
    tell: Sender<()>,
    wait: impl FnOnce() + Send + 'static,
) -> Result<(), Failure> {
    let run = move || {
        wait();
        // The node may end already.
        let _ = tell.send(());
    };
    let thread = thread::Builder::new().name(name.into()).spawn(run);
    thread.map_err(|e| Failure::new(Exit::Io, format!("starting a thread: {e}")))?;
    Ok(())
}

/// A stream that the first signal to end writes to. The second one ends the process at once.
fn signals() -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    let told = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&told))?;
        flag::register(signal, Arc::clone(&told))?;
        low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read)
}
