//! This process: what tells it from its forked children, and its threads.

use std::io;
use std::ptr::{self, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use rustix::io::Errno;

use super::sys;

/// Bytes of the stack of a thread.
const STACK_BYTES: usize = 2 << 20;

/// A process. One that was forked is another one than its parent, even where both have the same number, as in two
/// namespaces of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(pub(crate) u64);

impl Process {
    /// The process that asks. Waits for no other thread, as at a fork that may be one of the parent.
    #[must_use]
    pub fn own() -> Self {
        /// Numbers that were given, to this process and its ancestors. A fork's child has a larger one than each of
        /// these that has anything which the child has a copy of.
        static GIVEN: AtomicU64 = AtomicU64::new(0);
        let Some(own) = wiped() else {
            return Process(1 << 63 | u64::from(std::process::id()));
        };
        let mut number = own.load(Ordering::Acquire);
        if number == 0 {
            let new = GIVEN.fetch_add(1, Ordering::Relaxed) + 1;
            let given = own.compare_exchange(0, new, Ordering::AcqRel, Ordering::Acquire);
            number = given.map_or_else(|other| other, |_| new);
        }
        Process(number)
    }
}

/// A word that is zero again in a forked child; `None` where the system has no such words.
fn wiped() -> Option<&'static AtomicU64> {
    static NONE: AtomicU64 = AtomicU64::new(0);
    static WORD: AtomicPtr<AtomicU64> = AtomicPtr::new(null_mut());
    let mut word = WORD.load(Ordering::Acquire);
    if word.is_null() {
        let none = ptr::from_ref(&NONE).cast_mut();
        let new =
            if cfg!(miri) { none } else { sys::map_wiped_page().map_or(none, |page| page.cast()) };
        // The page of a thread that comes late stays, unused.
        let published = WORD.compare_exchange(null_mut(), new, Ordering::AcqRel, Ordering::Acquire);
        word = published.map_or_else(|other| other, |_| new);
    }
    // SAFETY: a static, or the first word of a page of zeros that is never unmapped; both are accessed as atomics.
    let word = unsafe { &*word };
    (!ptr::eq(word, &NONE)).then_some(word)
}

/// Starts a thread of this name.
///
/// # Errors
/// Where the system gives no further thread, or the process may not have the memory that one begins with: a thread that
/// does not get that while it begins ends the process.
pub fn spawn<T: Send + 'static>(
    name: &str,
    f: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    builder(name)?.spawn(f)
}

/// The same, for a thread that ends with a scope.
///
/// # Errors
/// As [`spawn`].
pub fn spawn_scoped<'s, T: Send + 's>(
    scope: &'s Scope<'s, '_>,
    name: &str,
    f: impl FnOnce() -> T + Send + 's,
) -> io::Result<ScopedJoinHandle<'s, T>> {
    builder(name)?.spawn_scoped(scope, f)
}

fn builder(name: &str) -> io::Result<Builder> {
    if !cfg!(miri) && !sys::has_room_for_thread(STACK_BYTES) {
        return Err(Errno::NOMEM.into());
    }
    Ok(Builder::new().name(name.into()).stack_size(STACK_BYTES))
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::fs;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    use super::*;
    use crate::medium::sim::in_forked_child;

    /// Not by the number of the process, which it may share.
    #[test]
    fn a_forked_child_is_another_process() {
        let parent = Process::own();
        assert_eq!(Process::own(), parent);
        let ended = in_forked_child(move || {
            let is_next = Process::own().0 == parent.0 + 1 && Process::own() == Process::own();
            if is_next { Ok(()) } else { Err(io::Error::other("not the next number")) }
        });
        assert!(ended.unwrap().success());
    }

    /// There is room for its stack, and not for what it maps when it begins.
    #[test]
    fn a_thread_that_may_not_have_its_memory_is_not_started() {
        let ended = in_forked_child(|| {
            let pages = fs::read_to_string("/proc/self/statm")?;
            let pages: u64 = pages.split(' ').next().unwrap_or_default().parse().unwrap_or(0);
            let has = pages * rustix::param::page_size() as u64;
            let before = getrlimit(Resource::As);
            let current = Some(has + STACK_BYTES as u64 + (64 << 10));
            setrlimit(Resource::As, Rlimit { current, ..before })?;
            let started = spawn("test", || ());
            setrlimit(Resource::As, before)?;
            match started {
                Err(e) if sys::is(&e, Errno::NOMEM) => Ok(()),
                _ => Err(io::Error::other("it was started")),
            }
        });
        assert!(ended.unwrap().success());
    }
}
