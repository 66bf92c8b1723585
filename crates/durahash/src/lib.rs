//! Crash-consistent hash indexes for persistent memory, files and DRAM.

#![forbid(unsafe_code)]

mod count;
mod extend;
mod index;
pub mod reh;

pub use durahash_media::{Durability, Error, ErrorKind, Result};
pub use index::{Change, Finding, Index, IndexStats, Reader, Room, Updater};
