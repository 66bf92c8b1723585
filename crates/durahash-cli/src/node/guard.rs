//! A process that outlives the node, to remove its memory: however the node ends, kill -9 included, its
//! end of a pipe is closed by the system.

use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

use durahash_remote::fabric::Local;
use durahash_remote::node::LentMemory;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;

use crate::exit::{Exit, Failure};
use crate::output::{complain, print};

/// Names the directory that a guard shall remove; a program that finds it set is such a guard.
const GUARD_ENV: &str = "DURAHASH_NODE_GUARD";

/// The process, whose standard input is closed when this is dropped.
pub(crate) struct Guard(Child);

impl Guard {
    pub(crate) fn start(memory: &LentMemory) -> Result<Self, Failure> {
        let failed = |e: io::Error| {
            Failure::new(Exit::Io, format!("starting the process that removes the memory: {e}"))
        };
        let program = std::env::current_exe().map_err(failed)?;
        let mut child = Command::new(program)
            .arg(memory.offer().id.to_string())
            .env(GUARD_ENV, memory.dir())
            // What a terminal sends to the node is not for the guard.
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let mut ready = [0];
        let said = child.stdout.take().map(|mut said| said.read_exact(&mut ready));
        let guard = Guard(child);
        // Signals end it until it has said so.
        said.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into())).map_err(failed)?;
        Ok(guard)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // It ends in any case.
        drop(self.0.wait());
    }
}

/// Does the work of a guard, if this process was started as one: to be called first thing in `main`.
pub(crate) fn guard_main() -> Option<ExitCode> {
    let dir: OsString = std::env::var_os(GUARD_ENV)?;
    let id = std::env::args().nth(1).and_then(|id| id.parse().ok());
    let Some(id) = id else {
        complain("durahash: a guard of a node's memory was not told its id");
        return Some(ExitCode::FAILURE);
    };
    // Who ends all processes of a service, or of this name, means the node.
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
        if let Err(e) = flag::register(signal, Arc::default()) {
            complain(&format!(
                "durahash: the guard of a node's memory cannot ignore signal {signal}: {e}"
            ));
        }
    }
    if let Err(failure) = print(b"\n") {
        complain(&format!(
            "durahash: the guard of a node's memory cannot speak: {:?}",
            failure.message
        ));
    }
    // Nothing comes; the end of the node is the end of the file, whether read or failed to be.
    drop(io::stdin().read_to_end(&mut Vec::new()));
    // The node may have removed it itself, and nobody is left to be told.
    Some(match Local::remove(Path::new(&dir), id) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}
