//! Which entry goes when a cache is full.
//!
//! A policy knows entries by the hashes of their keys alone, in DRAM: queues of hashes behind locks, which inserts and
//! evictions take, and two bits for each entry in a table found by hash, which lookups raise without a lock.
//!
//! ```text
//!  hit ----------------------------> cells: 2 bits a cell, shared by what hashes there
//!  inserted, removed, victim --> lock of a shard --> queues (8 bytes a node), what is gone, ghosts
//! ```
//!
//! An entry takes 8 bytes in a queue, 2 in the cells and, with S3-FIFO, 2.5 for those that are remembered after they
//! went.

// From low to high.
mod cells;
mod evict;
mod gone;
mod queue;

mod ghost;
mod sharded;

mod lru;
mod random;
mod s3fifo;
mod sieve;

use std::fmt;
use std::str::FromStr;

use durahash_media::{Error, ErrorKind, Result};

pub use evict::Evict;
use lru::Lru;
use random::Random;
use s3fifo::S3Fifo;
use sharded::Sharded;
use sieve::Sieve;

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
    /// About the one that was used least recently (CLOCK).
    Lru,
    /// S3-FIFO: what is used once goes soon, from a small queue; the rest goes through a large one, once more for each
    /// of its last uses.
    #[default]
    S3Fifo,
    /// SIEVE: the oldest one that was not used since the last pass.
    Sieve,
    /// Any.
    Random,
}

impl Policy {
    /// All policies.
    pub const ALL: &'static [Policy] =
        &[Policy::None, Policy::Lru, Policy::S3Fifo, Policy::Sieve, Policy::Random];

    /// The state of the policy, of a cache that will have about so many entries when it is full; none where nothing is
    /// evicted.
    #[doc(hidden)]
    #[must_use]
    pub fn state(self, entries: u64) -> Option<Box<dyn Evict>> {
        Some(match self {
            Policy::None => return None,
            Policy::Lru => Box::new(Sharded::<Lru>::new(entries)),
            Policy::S3Fifo => Box::new(Sharded::<S3Fifo>::new(entries)),
            Policy::Sieve => Box::new(Sharded::<Sieve>::new(entries)),
            Policy::Random => Box::new(Sharded::<Random>::new(entries)),
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Policy::None => "none",
            Policy::Lru => "lru",
            Policy::S3Fifo => "s3fifo",
            Policy::Sieve => "sieve",
            Policy::Random => "random",
        })
    }
}

impl FromStr for Policy {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let policy = Self::ALL.iter().find(|policy| policy.to_string() == name);
        policy.copied().ok_or_else(|| {
            ErrorKind::Options { what: "no such policy (none, lru, s3fifo, sieve, random)" }.into()
        })
    }
}

#[cfg(test)]
mod tests;
