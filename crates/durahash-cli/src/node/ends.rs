//! What ends a node in order: the end of its input, and a signal where there is a file to close.

use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
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
    // What `nohup` starts stays when its terminal goes.
    let all = [SIGINT, SIGTERM, SIGHUP];
    for signal in all.into_iter().filter(|signal| *signal != SIGHUP || ends_by(SIGHUP)) {
        flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&told))?;
        flag::register(signal, Arc::clone(&told))?;
        low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// Returns whether the signal would end this process: it was not started with the signal ignored, as far as that is known.
fn ends_by(signal: i32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 0)
}
