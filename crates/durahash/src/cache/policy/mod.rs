//! Which entry goes when a cache is full.
//!
//! A policy knows entries by the hashes of their keys alone, in DRAM: queues of hashes behind locks, which inserts and
//! evictions take, and a few bits for each entry in a table found by hash, which lookups raise without a lock.
//!
//! ```text
//!  hit --------------------------------------------> table: frequencies (6 bytes an entry), or cells (2)
//!                                                      |
//!  inserted, removed, victim --> lock of a shard --> queues (8 bytes a node), what is gone, ghosts (2.5, S3-FIFO)
//! ```
//!
//! A shard of several chooses its next two victims ahead, so that the lines of their entries, and those of the
//! frequencies that choose the ones behind them, are fetched while others go: they are waited for otherwise.
//!
//! The bits are of an entry that hashes there: what tells entries apart for sure would take as much as a queue. Other
//! entries' hits may count for it, which costs hit rates little.

// From low to high.
mod evict;
mod gone;
mod growing;
mod queue;
mod table;

mod cells;
mod frequencies;
mod ghost;
mod sharded;
mod window;

mod lru;
mod random;
mod s3fifo;
mod sieve;
mod tiny_lfu;

use std::fmt;
use std::str::FromStr;

use durahash_media::{Error, ErrorKind, Result};

pub use evict::{Evict, Victim};
use lru::Lru;
use random::Random;
use s3fifo::S3Fifo;
use sharded::Sharded;
use sieve::Sieve;
use tiny_lfu::TinyLfu;

/// Which entry a full cache evicts.
///
/// ```
/// use durahash::cache::Policy;
/// assert_eq!("s3fifo".parse::<Policy>()?, Policy::S3Fifo);
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Policy {
    /// None: an insert into a full cache fails.
    None,
    /// The oldest that was not used, or a new entry if its key came less often of late: frequencies also count for keys that
    /// went. How long new ones are kept, and how much their use counts, follows from what comes again (W-TinyLFU over queues); an open
    /// begins that anew.
    #[default]
    TinyLfu,
    /// About the one that was used least recently (CLOCK).
    Lru,
    /// S3-FIFO: what is used once goes soon, from a small queue; the rest goes through a large one, once more for each
    /// of its last uses.
    S3Fifo,
    /// SIEVE: the oldest one that was not used since the last pass.
    Sieve,
    /// Any.
    Random,
    /// Of eight that are drawn at random the one that expires soonest. Entries that never expire go last.
    Soonest,
}

impl Policy {
    /// All policies.
    pub const ALL: &'static [Policy] = &[
        Policy::None,
        Policy::TinyLfu,
        Policy::Lru,
        Policy::S3Fifo,
        Policy::Sieve,
        Policy::Random,
        Policy::Soonest,
    ];

    /// The state of the policy, of a cache that will have about so many entries when it is full if they are small, and at
    /// most so many bytes; none where nothing is evicted.
    #[doc(hidden)]
    #[must_use]
    pub fn state(self, entries: u64, bytes: u64) -> Option<Box<dyn Evict>> {
        Some(match self {
            Policy::None => return None,
            Policy::TinyLfu => Box::new(Sharded::<TinyLfu>::new(entries, bytes)),
            Policy::Lru => Box::new(Sharded::<Lru>::new(entries, bytes)),
            Policy::S3Fifo => Box::new(Sharded::<S3Fifo>::new(entries, bytes)),
            Policy::Sieve => Box::new(Sharded::<Sieve>::new(entries, bytes)),
            // Who knows the expiries chooses among what this one gives.
            Policy::Random | Policy::Soonest => Box::new(Sharded::<Random>::new(entries, bytes)),
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::None => "none",
            Policy::TinyLfu => "tinylfu",
            Policy::Lru => "lru",
            Policy::S3Fifo => "s3fifo",
            Policy::Sieve => "sieve",
            Policy::Random => "random",
            Policy::Soonest => "soonest",
        })
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let policy = Self::ALL.iter().find(|policy| policy.to_string() == name);
        policy.copied().ok_or_else(|| {
            ErrorKind::Options {
                what: "no such policy (none, tinylfu, lru, s3fifo, sieve, random, soonest)",
            }
            .into()
        })
    }
}

#[cfg(test)]
mod tests;
