//! A profile's machine on a clock of its own: what accesses would take, without taking it.

use super::counts::{AtomicTraffic, Traffic};
use super::model::{Access, Bandwidth, Thread};
use super::profile::{Cost, Profile};

/// An access to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// A load that waits for the line.
    Load,
    /// A load that does not: it waits only until it can begin.
    Prefetch,
    /// A store, which does not wait for the line, either.
    Store,
    /// The beginning of a write-back.
    Flush,
    /// A store past the cache.
    StorePast,
    /// A wait for all that was flushed or stored past the cache, of whatever line.
    Fence,
}

/// Threads of an emulated machine, each on a clock that stands still but for its waits: times and counts repeat exactly.
pub struct Processor {
    threads: Vec<Core>,
    bandwidth: Bandwidth,
}

struct Core {
    thread: Thread,
    traffic: AtomicTraffic,
    now: u64,
}

impl Processor {
    /// So many threads of a machine; none where the profile is flat, and has no machine.
    #[must_use]
    pub fn new(profile: &Profile, threads: usize) -> Option<Self> {
        let Cost::Machine(machine) = profile.cost else { return None };
        let core =
            |_| Core { thread: Thread::new(machine), traffic: AtomicTraffic::default(), now: 0 };
        Some(Processor {
            threads: (0..threads).map(core).collect(),
            bandwidth: Bandwidth::default(),
        })
    }

    /// Lets a thread access a line, by its number.
    pub fn run(&mut self, thread: usize, touch: Touch, line: u64) {
        let Core { thread, traffic, now } = &mut self.threads[thread];
        let at = *now;
        let mut access = Access { thread, bandwidth: &self.bandwidth, traffic, now: &|| at };
        let until = match touch {
            Touch::Load => access.load(line),
            Touch::Prefetch => access.prefetch(line),
            Touch::Store => access.store(line),
            Touch::Fence => access.fence(),
            Touch::Flush => {
                access.flush(line);
                0
            }
            Touch::StorePast => {
                access.store_past(line);
                0
            }
        };
        *now = at.max(until);
    }

    /// Nanoseconds that a thread has waited.
    #[must_use]
    pub fn now(&self, thread: usize) -> u64 {
        self.threads[thread].now
    }

    /// What became of the accesses of a thread.
    #[must_use]
    pub fn traffic(&self, thread: usize) -> Traffic {
        self.threads[thread].traffic.counts()
    }
}
