//! A process that outlives the node, to remove its memory: however the node ends, kill -9 included, its
//! end of a pipe is closed by the system.
//!
//! It also makes the directory of the memory, after it has begun to ignore signals: so there is no moment in
//! which the directory is there and nobody to remove it.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{self, Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use durahash_remote::fabric::Local;
use durahash_remote::node::{LentMemory, LentPlace};
use durahash_remote::{Error, ErrorKind};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::flag;

use crate::exit::{Exit, Failure};
use crate::output::{complain, print};

/// Names the directory that a guard shall make, or is empty for one of any name; a program that finds it set is
/// such a guard. It reads the id of the memory, when that is there.
const GUARD_ENV: &str = "DURAHASH_NODE_GUARD";
/// The first message of a guard: that it has made the directory, whose path follows, or why it has not. The end is a
/// zero byte.
const MADE: u8 = b'+';
const NOT_MADE: u8 = b'-';

/// How often, and after how long, memory is made again where there is some of that name.
const TRIES: u32 = 20;
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

/// The process, whose standard input is closed when this is dropped.
pub(crate) struct Guard(Child);

impl Guard {
    /// Starts it, and has it make the directory `dir`.
    pub(crate) fn start(dir: Option<&Path>) -> Result<(Self, LentPlace), Failure> {
        let program = std::env::current_exe().map_err(failed)?;
        let dir = dir.map_or_else(|| Ok(PathBuf::new()), path::absolute).map_err(failed)?;
        let child = Command::new(program)
            .env(GUARD_ENV, dir)
            // Signals that a terminal sends to the node are not for the guard.
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let mut guard = Guard(child);
        let mut said = Vec::new();
        if let Some(out) = guard.0.stdout.take() {
            BufReader::new(out).read_until(0, &mut said).map_err(failed)?;
        }
        match said.split_first() {
            Some((&MADE, [path @ .., 0])) => {
                let path = PathBuf::from(OsString::from_vec(path.to_vec()));
                let place = LentPlace::made(&path).map_err(|e| Failure::node(&e))?;
                Ok((guard, place))
            }
            Some((&NOT_MADE, [exit, why @ .., 0])) => {
                let exit = if *exit == Exit::Usage as u8 { Exit::Usage } else { Exit::Io };
                Err(Failure::new(exit, String::from_utf8_lossy(why)))
            }
            // A signal came before it ignored them.
            _ => Err(failed(io::ErrorKind::BrokenPipe.into())),
        }
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
    let dir = std::env::var_os(GUARD_ENV)?;
    let dir = (!dir.is_empty()).then_some(Path::new(&dir));
    // A signal to all processes of a service, or of this name, is meant for the node.
    for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT] {
        if let Err(e) = flag::register(signal, Arc::default()) {
            complain(&format!(
                "durahash: the guard of a node's memory cannot ignore signal {signal}: {e}"
            ));
        }
    }
    let made = make(dir);
    let first = match &made {
        Ok(place) => [&[MADE], place.place().0.as_os_str().as_bytes(), &[0]].concat(),
        Err(e) => {
            let why = Failure::node(e);
            let text = why.message.unwrap_or_default();
            [&[NOT_MADE, why.exit as u8], text.as_bytes(), &[0]].concat()
        }
    };
    // A node that cannot be told has ended, which is the end of the file that is read now.
    drop(print(&first));
    let Ok(place) = made else { return Some(ExitCode::FAILURE) };
    // When the node ends, the read ends, at the end of the file or with an error.
    let mut told = String::new();
    drop(io::stdin().read_to_string(&mut told));
    // Half a number names no memory. Without one the node has ended before there was any.
    let (dir, inode) = place.place();
    let removed = match told.strip_suffix('\n').and_then(|id| id.parse().ok()) {
        // Memory with a damaged header is nobody else's; with another id it may be.
        Some(id) => Local::remove(dir, id).or_else(|e| match e.kind() {
            ErrorKind::Region { expected, .. } if *expected == id => Err(e),
            _ => LentPlace::clear(dir, inode),
        }),
        None => LentPlace::clear(dir, inode),
    };
    // The node may have removed it itself, and nobody is left to be told.
    Some(if removed.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Makes the directory. One that is there may be of a node that was just killed, and about to be removed.
fn make(dir: Option<&Path>) -> Result<LentPlace, Error> {
    for _ in 0..TRIES {
        match LentPlace::make(dir) {
            Err(e) if matches!(e.kind(), ErrorKind::Exists) => thread::sleep(BETWEEN_TRIES),
            made => return made,
        }
    }
    LentPlace::make(dir)
}
