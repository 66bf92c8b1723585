//! Stores to an image pass a gate, which is closed for a moment where a page of it is exchanged.
//!
//! It must cost a store next to nothing. A thread says in a word of its own that it is inside, and looks
//! whether the gate is closed; the thread that closes it says so, and looks at these words. Each would have to
//! make its store visible before its load: here only the closing thread pays for that, by a system call
//! that is a full barrier in every running thread of the process (`membarrier`). Where there is no such
//! call the gate cannot be closed.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence};
use std::sync::{Mutex, OnceLock};

use rustix::thread::MembarrierCommand;

use crate::medium::sys;
use crate::primitive::lock;

/// True if a thread is inside; in lines of its own.
#[repr(align(128))]
struct Slot(AtomicBool);

/// One gate for all images: a store takes no longer than to wait for those of others.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// Held while it is closed.
static CLOSER: Mutex<()> = Mutex::new(());
static SLOTS: Mutex<Slots> = Mutex::new(Slots { all: Vec::new(), free: Vec::new() });

/// They are never freed: as many as there ever were threads at a time that stored.
struct Slots {
    all: Vec<&'static Slot>,
    free: Vec<&'static Slot>,
}

thread_local! {
    static SLOT: Cell<Option<&'static Slot>> = const { Cell::new(None) };
    static RETURN: Return = const { Return };
}

/// Gives a thread's slot back when that ends.
struct Return;

impl Drop for Return {
    fn drop(&mut self) {
        if let Some(slot) = SLOT.take() {
            lock(&SLOTS).free.push(slot);
        }
    }
}

#[cold]
fn register() -> &'static Slot {
    let mut slots = lock(&SLOTS);
    let slot = slots.free.pop().unwrap_or_else(|| {
        let slot: &'static Slot = Box::leak(Box::new(Slot(AtomicBool::new(false))));
        slots.all.push(slot);
        slot
    });
    drop(slots);
    SLOT.set(Some(slot));
    // A thread that is about to end keeps it.
    let _ = RETURN.try_with(|_| ());
    slot
}

/// Runs `store`, one or a few stores to an image, which do not panic.
#[inline]
pub(super) fn pass<T>(store: impl FnOnce() -> T) -> T {
    let slot = SLOT.get().unwrap_or_else(register);
    loop {
        slot.0.store(true, Ordering::Relaxed);
        // The closing thread makes it a barrier of the processor, if it has to be one.
        compiler_fence(Ordering::SeqCst);
        if !CLOSED.load(Ordering::Acquire) {
            break;
        }
        slot.0.store(false, Ordering::Release);
        while CLOSED.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    }
    let done = store();
    slot.0.store(false, Ordering::Release);
    done
}

/// Runs `f` while no thread is inside; `None` where the gate cannot be closed, or where a thread was
/// put to sleep inside: others shall not wait for it.
pub(super) fn closed<T>(f: impl FnOnce() -> T) -> Option<T> {
    const PATIENCE: u32 = 1000;
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let barrier = |command| sys::membarrier(command).is_ok();
    if !*REGISTERED.get_or_init(|| barrier(MembarrierCommand::RegisterPrivateExpedited)) {
        return None;
    }
    let closer = lock(&CLOSER);
    CLOSED.store(true, Ordering::SeqCst);
    let is_empty = || {
        let slots = lock(&SLOTS);
        slots.all.iter().all(|slot| !slot.0.load(Ordering::Acquire))
    };
    let alone = barrier(MembarrierCommand::PrivateExpedited)
        && (0..PATIENCE).any(|_| {
            is_empty() || {
                std::thread::yield_now();
                false
            }
        });
    let done = alone.then(f);
    CLOSED.store(false, Ordering::Release);
    drop(closer);
    done
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    /// Stores that are not atomic as a pair: the thread that closes the gate never sees half of one.
    #[test]
    fn nobody_is_inside_while_it_is_closed() {
        let (a, b) = (AtomicU64::new(0), AtomicU64::new(0));
        let stop = AtomicBool::new(false);
        let closed = std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        pass(|| {
                            a.fetch_add(1, Ordering::Relaxed);
                            b.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            }
            let both = || (a.load(Ordering::Relaxed), b.load(Ordering::Relaxed));
            let seen =
                (0..2000).filter_map(|_| super::closed(|| (both(), both()))).collect::<Vec<_>>();
            stop.store(true, Ordering::Relaxed);
            seen
        });
        assert!(!closed.is_empty());
        assert!(closed.iter().all(|(before, after)| before.0 == before.1 && before == after));
    }
}
