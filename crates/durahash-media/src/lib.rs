//! Words, media and pools: the one door to persistent bytes.
//!
//! This crate holds all the `unsafe` code of durahash, bindings to C apart (`durahash-ucx`). From below to above:
//!
//! - [`PmU64`] and [`on_media!`]: the words that everything on a medium is made of.
//! - [`hash`], [`probe`]: arithmetic on words that were loaded.
//! - [`Medium`]: loads, stores, flushes and fences; [`Dram`], [`Mapped`], [`Metered`], [`Sim`].
//! - [`VersionLock`], [`Rows`], [`Levels`]: what lives in DRAM beside them. [`DatedLock`]: a lock
//!   that lies on the medium.
//! - [`SharedRegion`]: memory that several processes access word by word.
//! - [`Pool`]: superblock, extents, record blocks, and finding free space again after a crash.

// From low to high: a module uses only what stands in the groups above its own
// (`durahash/tests/layers.rs`).
mod error;
mod primitive;
mod word;

mod flush;
pub mod hash;
mod identity;
pub mod probe;

mod medium;

#[cfg(not(loom))]
mod zeroed;

#[cfg(not(loom))]
mod levels;
#[cfg(not(loom))]
mod rows;

mod lock;

#[cfg(not(loom))]
mod pool;

pub use error::{Error, ErrorKind, Result};
#[cfg(not(loom))]
pub use levels::{LevelWord, Levels};
#[cfg(not(loom))]
pub use lock::{DatedLock, Dates, Present, Taken};
pub use lock::{DirectoryLock, Version, VersionLock, wait_lock};
#[doc(hidden)]
pub use medium::faults;
pub use medium::{
    Action, BLOCK_BYTES, Call, Counts, Dax, Disk, DiskImage, DiskStep, Dram, Durability, Event,
    FileDisk, FileLock, Hook, LINE_BYTES, Latency, Line, LogStats, LogSteps, Logged, Mapped,
    MappedOptions, Medium, Meter, Metered, Region, Sim, SimDisk, Site, Step, SyncMode, name_thread,
};
#[cfg(not(loom))]
pub use medium::{SharedHeader, SharedRegion};
#[cfg(not(loom))]
pub use pool::{ExtentKind, Format, Geometry, Pool, PoolStats, Superblock};
#[cfg(not(loom))]
pub use rows::Rows;
pub use word::{Field, OnMedia, PmU64, bits};
