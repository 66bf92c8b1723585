//! Indexes in remote memory, for the suite that compares them in simulated time.
//!
//! - `race/`: RACE hashing, which SepHash is compared with.
//! - `index.rs`: either of them. `bed.rs`: clients in virtual time, and what their operations take.
//! - `stepwise.rs`: SepHash's clients with more round trips than they need.

mod bed;
mod index;
pub(crate) mod race;
mod stepwise;

pub(crate) use bed::{Bed, Image, Op, Phase, Setting};
pub(crate) use index::{Kind, Space};
pub(crate) use stepwise::Awaited;
