//! The trace of a simulated medium.

use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::medium::Event;

/// A place in the source: that of the call into the medium, seen through every helper that is
/// `#[track_caller]`.
pub type Site = &'static Location<'static>;

/// One thing that one thread did to the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The thread that did it; see [`name_thread`] and [`Hook::thread`].
    pub thread: u32,
    /// Where in the source.
    pub site: Site,
    /// The action.
    pub action: Action,
}

impl Step {
    /// Does what these steps did to the words of a medium, as if each was durable at once.
    pub fn replay(steps: &[Step], image: &mut Vec<u64>) {
        for step in steps {
            match step.action {
                Action::Store { word, v }
                | Action::StoreNt { word, v }
                | Action::Cas { word, v } => image[word as usize] = v,
                Action::Resize { words } => image.resize(words as usize, 0),
                _ => {}
            }
        }
    }
}

/// The action of a [`Step`]. Words and lines are counted from the start of the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A store.
    Store {
        /// The word.
        word: u32,
        /// Its new value.
        v: u64,
    },
    /// A non-temporal store.
    StoreNt {
        /// The word.
        word: u32,
        /// Its new value.
        v: u64,
    },
    /// A compare-and-swap that succeeded: a store, and on x86 a locked instruction, which orders
    /// this thread's flushes.
    Cas {
        /// The word.
        word: u32,
        /// Its new value.
        v: u64,
    },
    /// A flush: one step for all lines of the object.
    Flush {
        /// The first line.
        line: u32,
        /// How many lines.
        lines: u32,
    },
    /// A fence.
    Fence,
    /// A drain.
    Drain,
    /// A sync: these words are durable, of stores of any thread.
    Sync {
        /// The first word.
        word: u32,
        /// How many words.
        words: u32,
    },
    /// The file has this many words from here on: zeros where it grew, durably.
    Resize {
        /// The new length.
        words: u32,
    },
    /// The pool took its name: before this, a crash leaves no pool.
    Publish,
    /// An event.
    Event(Event),
    /// A mark of the test that runs the simulation.
    Mark(u64),
}

/// A call into the medium, as a [`Hook`] sees it before it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A load.
    Load,
    /// A store, non-temporal or not, or a compare-and-swap.
    Store,
    /// A flush.
    Flush,
    /// A fence.
    Fence,
    /// A drain.
    Drain,
    /// Growing, syncing, publishing or trimming.
    System,
    /// An event.
    Event(Event),
}

/// Decides what happens around calls into a medium: a scheduler yields here, an adversary stops
/// a thread.
pub trait Hook: Send + Sync {
    /// The number of the logical thread that is running, for the trace.
    fn thread(&self) -> u32 {
        thread()
    }

    /// Runs before `call` is done. The medium holds no lock meanwhile.
    fn before(&self, call: Call, site: Site);
}

thread_local! {
    static THREAD: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Numbers the calling thread in traces. Threads that were not named are numbered as they come,
/// from 1,000 on.
pub fn name_thread(number: u32) {
    THREAD.set(Some(number));
}

pub(super) fn thread() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1000);
    THREAD.get().unwrap_or_else(|| {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        name_thread(number);
        number
    })
}
