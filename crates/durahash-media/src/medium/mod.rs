//! Media: the one door to persistent bytes.
//!
//! An index reaches the words of a pool only through a [`Medium`]: [`Memory`] loads, stores and
//! flushes words, and is compiled into each design; [`Storage`] grows, syncs and names the file, and
//! is called rarely. The rules of persistence that a design may rely on:
//!
//! - A [`store`](Memory::store) of one word is failure-atomic. It may become durable at any time
//!   after it was made (a cache evicts when it likes), and *must* be durable only after a
//!   [`flush`](Memory::flush) of its line and a [`fence`](Memory::fence) by the same thread.
//! - Stores to different lines become durable in any order until fenced.
//! - Stores to one line become durable in program order where
//!   [`same_line_order`](Memory::same_line_order) is true, in any order elsewhere.
//! - [`store_nt`](Memory::store_nt) needs no flush, but a fence; before it, any subset of such
//!   stores may be durable.
//! - [`fence`](Memory::fence) orders; [`drain`](Memory::drain) waits. On directly mapped memory both
//!   are one instruction; a medium with a log makes the fence free and the drain dear. The drain is
//!   an operation's last step before it unlocks.

// From low to high: a module uses only what stands above it (`durahash/tests/suite/layers.rs`).
mod changes;
mod line;
mod region;
mod sys;

pub mod process;
mod room;
mod sums;

mod crew;
mod group;

mod background;

mod memory;
mod storage;

mod dram;
mod live;
mod logged;
mod mapped;
#[cfg(not(loom))]
mod shared;

#[cfg(not(loom))]
mod node_file;

#[cfg(any(test, feature = "metered"))]
pub mod metered;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
#[cfg(test)]
mod zero_cost;

pub use changes::Changes;
pub use dram::Dram;
#[cfg(not(loom))]
pub(crate) use dram::{Anonymous, SMALL_BYTES};
pub(crate) use line::{ADDRESS_BYTES, each_line, prefetch_line};
pub use line::{BLOCK_BYTES, LINE_BYTES};
#[cfg(not(loom))]
pub use live::LiveFiles;
pub use live::{FileName, LIVE_WORDS, Live, LiveDisk, LiveSource};
#[cfg(not(loom))]
pub(crate) use logged::{
    AREA_BYTES_MIN, FORMAT_VERSION, LOG_ALIGN, LOG_OFF, LogSpace, TABLES, TABLES_OFF, end_of_log,
    format_log, place_log, used_at_first,
};
pub use logged::{Disk, FileDisk, Line, Logged, SyncMode};
pub use mapped::{Dax, FileLock, Mapped, MappedOptions, PoolCopy};
pub use memory::{Event, Memory};
#[cfg(not(loom))]
pub use node_file::NodeFile;
pub use region::Region;
#[cfg(not(loom))]
pub use shared::{SharedHeader, SharedRegion};
pub use storage::{Blank, CopiedAs, DiskSums, Durability, LogStats, Storage};
#[cfg(not(loom))]
pub(crate) use sums::BLOCK_SHIFT_MAX;
pub use sums::SumArea;
pub(crate) use sums::{CHECKS_OFF, MARKS, sum_of};

/// A medium: [`Memory`] that touches bytes, and [`Storage`] that manages them.
pub trait Medium: Memory + Storage {}

impl<M: Memory + Storage> Medium for M {}
