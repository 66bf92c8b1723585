//! Words, media and pools: the one door to persistent bytes.
//!
//! This crate holds all the `unsafe` code of durahash, bindings to C apart (`durahash-ucx`). From below to above:
//!
//! - [`PmU64`] and [`on_media!`]: the words that everything on a medium is made of.
//! - [`hash`], [`probe`]: arithmetic on words that were loaded.
//! - [`Medium`]: loads, stores, flushes and fences ([`Memory`]) over a file or memory ([`Storage`]);
//!   [`Dram`], [`Mapped`], [`Logged`], [`Live`]. Features `sim` and `metered` add media for tests and
//!   benchmarks.
//! - [`VersionLock`], [`Reserved`], [`ByDepth`]: structures in DRAM beside them. [`EpochLock`]: a lock
//!   that lies on the medium.
//! - [`SharedRegion`]: memory that several processes access word by word; [`NodeFile`]: one in a file that a node lends.
//! - [`Pool`]: superblock, extents, record blocks, and finding free space again after a crash.

#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
compile_error!(
    "durahash needs 64-bit Linux: it maps large files, and relies on Linux's system calls"
);

// From low to high: a module uses only what stands in the groups above its own
// (`durahash/tests/suite/layers.rs`).
mod error;
mod listed;
mod primitive;
mod word;

mod copied;
mod flush;
pub mod hash;
pub mod probe;

mod identity;

mod medium;

#[cfg(not(loom))]
mod zeroed;

#[cfg(not(loom))]
mod by_depth;

#[cfg(not(loom))]
mod reserved;

mod lock;

#[cfg(not(loom))]
mod pool;

#[cfg(not(loom))]
pub use by_depth::{ByDepth, DepthWord};
pub use copied::{COPIED_WORDS, CopiedWords};
pub use error::{Error, ErrorKind, Limit, Result};
pub use identity::FileId;
pub use lock::{DirectoryLock, Version, VersionLock, wait_lock};
#[cfg(not(loom))]
pub use lock::{EpochLock, Epochs, Present, Taken};
#[cfg(not(loom))]
pub use medium::LiveFiles;
#[cfg(any(test, feature = "metered"))]
pub use medium::metered;
pub use medium::process;
#[cfg(any(test, feature = "sim"))]
pub use medium::sim;
pub use medium::{
    BLOCK_BYTES, Blank, Changes, CopiedAs, Dax, Disk, DiskSums, Dram, Durability, Event, FileDisk,
    FileLock, FileName, LINE_BYTES, LIVE_WORDS, Line, Live, LiveDisk, LiveSource, LogStats, Logged,
    Mapped, MappedOptions, Medium, Memory, PoolCopy, Region, Storage, SumArea, SyncMode,
};
#[cfg(not(loom))]
pub use medium::{NodeFile, SharedHeader, SharedRegion};
#[cfg(not(loom))]
pub use pool::{ExtentKind, Format, Gate, Geometry, MapEntry, Place, Pool, PoolStats, Superblock};
#[cfg(not(loom))]
pub use reserved::Reserved;
pub use word::{Field, OnMedia, PmU64, bits};
