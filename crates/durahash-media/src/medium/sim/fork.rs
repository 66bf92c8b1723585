//! Forked children.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

/// Runs `f` in a forked child of this process, which executes another program then; returns how that ended, or the
/// error of `f`.
///
/// # Errors
/// Errors of `f`, and those of starting a program.
pub fn in_forked_child(
    f: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<ExitStatus> {
    let mut command = Command::new("true");
    // SAFETY: the child has one thread and a copy of the memory. `f` is safe code, which the locks that other
    // threads held may stop, but not make unsound.
    unsafe { command.pre_exec(f) };
    command.status()
}
