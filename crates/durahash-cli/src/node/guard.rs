//! A process that outlives the node, to remove its memory: however the node ends, kill -9 included, its
//! end of a pipe is closed by the system.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

use durahash_remote::fabric::Local;
use durahash_remote::node::{LentMemory, LentPlace};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;

use crate::exit::{Exit, Failure};
use crate::output::{complain, print};

/// Names the directory that a guard shall remove, whose inode is its argument; a program that finds it set is
/// such a guard. What it reads is the id of the memory, when that is there.
const GUARD_ENV: &str = "DURAHASH_NODE_GUARD";

/// The process, whose standard input is closed when this is dropped.
pub(crate) struct Guard(Child);

impl Guard {
    pub(crate) fn start(place: &LentPlace) -> Result<Self, Failure> {
        let program = std::env::current_exe().map_err(failed)?;
        let (dir, inode) = place.place();
        let mut child = Command::new(program)
            .arg(inode.to_string())
            .env(GUARD_ENV, dir)
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

    /// Says which memory it is: from then on nothing else in its place is removed.
    pub(crate) fn tell(&mut self, memory: &LentMemory) -> Result<(), Failure> {
        let told = self.0.stdin.as_mut().map(|stdin| writeln!(stdin, "{}", memory.offer().id));
        told.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into())).map_err(failed)
    }
}

fn failed(e: io::Error) -> Failure {
    Failure::new(Exit::Io, format!("starting the process that removes the memory: {e}"))
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
    let inode = std::env::args().nth(1).and_then(|inode| inode.parse().ok());
    let Some(inode) = inode else {
        complain("durahash: a guard of a node's memory was not told its inode");
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
    // The end of the node is the end of the file, whether read or failed to be.
    let mut told = String::new();
    drop(io::stdin().read_to_string(&mut told));
    // Half a number names no memory. Without one the node has ended before there was any.
    let removed = match told.strip_suffix('\n').and_then(|id| id.parse().ok()) {
        Some(id) => Local::remove(Path::new(&dir), id),
        None => LentPlace::clear(Path::new(&dir), inode),
    };
    // The node may have removed it itself, and nobody is left to be told.
    Some(if removed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
