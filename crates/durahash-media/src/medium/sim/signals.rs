//! Signals.

use std::io;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn handle(_: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Sends a signal to every other thread of this process, again and again for as long as it lives; its handler does nothing, and a
/// system call that it interrupts is not begun again. Returns what counts how often it was run.
///
/// # Errors
/// The system's, where it does not take the handler.
pub fn interrupt_threads() -> io::Result<&'static AtomicU64> {
    // SAFETY: zeros are a handler of the system's own, no flags and no mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does one store, which may be done anywhere.
    if unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    thread::spawn(|| {
        // SAFETY: takes nothing.
        let own = unsafe { libc::gettid() };
        loop {
            let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
            let ids = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
            for id in ids.filter(|id: &libc::pid_t| *id != own) {
                // SAFETY: takes numbers only; a thread that has ended gets none.
                unsafe { libc::syscall(libc::SYS_tgkill, process::id(), id, libc::SIGUSR1) };
            }
            thread::sleep(Duration::from_micros(50));
        }
    });
    Ok(&HANDLED)
}
