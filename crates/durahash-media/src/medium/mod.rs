//! Media: the one door to persistent bytes.
//!
//! An index reaches the words of a pool only through a [`Medium`]. It is statically dispatched, so
//! on [`Dram`] a load or store is the plain machine instruction and flush, fence, drain and event
//! are nothing. The rules of persistence that a design may rely on:
//!
//! - A [`store`](Medium::store) of one word is failure-atomic. It may become durable at any time
//!   after it was made (a cache evicts when it likes), and *must* be durable only after a
//!   [`flush`](Medium::flush) of its line and a [`fence`](Medium::fence) by the same thread.
//! - Stores to different lines become durable in any order until fenced.
//! - Stores to one line become durable in program order where
//!   [`same_line_order`](Medium::same_line_order) is true, in any order elsewhere.
//! - [`store_nt`](Medium::store_nt) needs no flush, but a fence; before it, any subset of such
//!   stores may be durable.
//! - [`fence`](Medium::fence) orders; [`drain`](Medium::drain) waits. On directly mapped memory both
//!   are one instruction; a medium with a log makes the fence free and the drain dear. The drain is
//!   an operation's last step before it unlocks.

mod dram;
mod logged;
mod mapped;
mod metered;
mod region;
#[cfg(not(loom))]
mod shared;
mod sim;
mod sys;
#[cfg(test)]
mod zero_cost;

#[cfg(not(loom))]
pub(crate) use dram::Anonymous;
pub use dram::Dram;
#[cfg(not(loom))]
pub(crate) use logged::{
    AREA_BYTES_MIN, LOG_ALIGN, LOG_OFF, LOG_VERSION, LogSpace, format_log, place_log,
};
pub use logged::{
    Disk, DiskImage, DiskStep, FileDisk, Line, LogStats, LogSteps, Logged, SimDisk, SyncMode,
};
pub use mapped::{Dax, FileLock, Mapped, MappedOptions};
pub use metered::{Counts, Latency, Meter, Metered};
pub use region::Region;
#[cfg(not(loom))]
pub use shared::{SharedHeader, SharedRegion};
pub use sim::{Action, Call, Hook, Sim, Site, Step, name_thread};
pub use sys::faults;

use std::path::Path;

use crate::error::Result;
use crate::identity;
use crate::word::{OnMedia, PmU64};

/// Bytes of a cache line: what a flush writes back.
pub const LINE_BYTES: u64 = 64;

/// Bytes of a block: the medium's own unit, by which cost is counted.
pub const BLOCK_BYTES: u64 = 256;

/// Bytes of address space that a process has, at the most: a larger wish is cut to it.
pub(crate) const ADDRESS_BYTES: u64 = 1 << 47;

/// What an acknowledged operation survives.
///
/// ```
/// use durahash_media::Durability;
/// assert!(Durability::Power > Durability::Process && Durability::Process > Durability::None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: the bytes die with the process.
    None,
    /// The death of the process at any instant, not of the machine.
    Process,
    /// The death of the process; of the loss of power, all but the last moments: what is left is
    /// everything up to some operation, and nothing after it.
    Interval,
    /// Loss of power.
    Power,
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Durability::None => "none (dies with the process)",
            Durability::Process => "process (survives kill -9, not power failure)",
            Durability::Interval => {
                "interval (survives kill -9; after power failure, all but the last moments)"
            }
            Durability::Power => "power (survives power failure)",
        })
    }
}

/// What a thread does that is not a store: nothing in release, a yield point and a mark in the
/// trace under simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// An operation begins.
    Begin,
    /// The operation is acknowledged: it returned.
    Ack,
    /// A lock was taken; the number tells locks apart.
    Locked(usize),
    /// A lock was released.
    Unlocked(usize),
    /// About to look at what a lock guards, without holding it.
    Look,
    /// About to look again whether a lock is free, or a state has changed.
    Wait,
}

/// The way to persistent words. See the module docs in the source for the rules.
///
/// A medium owns a [`Region`] of bytes. Offsets into it are the addresses that are stored.
pub trait Medium: Send + Sync + Sized + 'static {
    /// Stores to one line become durable in program order. Where they do not, a design persists what a
    /// commit word relies on before that word. Every medium but a simulated one answers with a constant,
    /// inlined.
    fn same_line_order(&self) -> bool;

    /// Whether a drain waits for something much slower than memory, and what was flushed is durable only
    /// then: whatever is told without waiting must not tell of it before.
    const DRAIN_WAITS: bool = false;

    /// The bytes.
    fn region(&self) -> &Region;

    /// Acquire load.
    #[track_caller]
    fn load(&self, word: &PmU64) -> u64;

    /// Release store.
    #[track_caller]
    fn store(&self, word: &PmU64, v: u64);

    /// Compare and swap; orders like a store on success. The result is the word's former value.
    ///
    /// # Errors
    /// The value found, where it was not `old`.
    #[track_caller]
    #[allow(clippy::missing_errors_doc, reason = "the error is the other answer")]
    fn cas(&self, word: &PmU64, old: u64, new: u64) -> Result<u64, u64>;

    /// Non-temporal store: bypasses the cache where fences are real.
    #[track_caller]
    fn store_nt(&self, word: &PmU64, v: u64);

    /// Starts to fetch every line of `obj`.
    fn prefetch<T: OnMedia + ?Sized>(&self, obj: &T);

    /// Starts the write-back of every line that `obj` touches.
    #[track_caller]
    fn flush<T: OnMedia + ?Sized>(&self, obj: &T);

    /// What this thread flushed before is durable before anything that it stores after, and before what
    /// others store who have seen that.
    #[track_caller]
    fn fence(&self);

    /// What this thread flushed before is durable when this returns. Behind a log that is a wait for the
    /// disk, so only what an operation has to answer for needs it: a step that changes where a key is
    /// found, and no key, ends with a [`fence`](Medium::fence).
    #[track_caller]
    fn drain(&self);

    /// Starts the write-back of an object that nothing reaches yet (a new segment, a record): a
    /// medium may take a cheaper way than for [`flush`](Medium::flush).
    #[track_caller]
    fn flush_fresh<T: OnMedia + ?Sized>(&self, obj: &T) {
        self.flush(obj);
    }

    /// Tells simulation what happens; empty elsewhere.
    #[inline(always)]
    #[track_caller]
    fn event(&self, _event: Event) {}

    /// Comes before the first store of an open: backs what a file has of holes, and brings what a
    /// log holds into it. Before, a file is as it was.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) where there is no space: nothing has changed then.
    /// [`Io`](crate::ErrorKind::Io) with what the system says.
    fn begin(&self) -> Result<()> {
        Ok(())
    }

    /// Makes durable what a process that was killed has stored and not flushed: it is read as if it
    /// were. Nothing where stores survive no process, or are flushed by nobody but a sync.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io).
    fn write_back(&self) -> Result<()> {
        Ok(())
    }

    /// Backs the first `bytes` bytes, never sparsely.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) where there is no space: nothing has changed then.
    fn grow(&self, bytes: u64) -> Result<()>;

    /// Puts what was flushed in `bytes` bytes from `off` where it survives what
    /// [`durability`](Medium::durability) does not: on the disk, for a file in the page cache.
    ///
    /// # Errors
    /// What the system says. A failed sync is never tried again and called success.
    #[track_caller]
    fn sync(&self, off: u64, bytes: u64) -> Result<()>;

    /// Puts a pool that was made aside in its place, under its name.
    ///
    /// # Errors
    /// [`Exists`](crate::ErrorKind::Exists) where the name is taken.
    fn publish(&self) -> Result<()> {
        Ok(())
    }

    /// Cuts the file to `bytes` bytes; the last thing done to a medium.
    ///
    /// # Errors
    /// What the system says.
    fn trim(&self, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// What an acknowledged operation survives.
    fn durability(&self) -> Durability;

    /// Whether this thread's drains only order, like fences, until it says otherwise: a batch of
    /// operations then waits once, in [`settle`](Medium::settle). Ignored where a drain is cheap.
    fn defer(&self, _defer: bool) {}

    /// Whether [`settle`](Medium::settle) has nothing to do.
    #[inline]
    fn is_settled(&self) -> bool {
        true
    }

    /// The last step of an operation that has released its locks: waits until what it may have seen,
    /// or changed, is as durable as is promised.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) where it never will be.
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// What the log did, where there is one.
    fn log_stats(&self) -> Option<LogStats> {
        None
    }

    /// What a new pool is told from all others by. A simulation has no chance in it: what it finds once
    /// is found again, so there it is always the same.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) where the system has no random bytes.
    fn new_uuid(&self) -> Result<[u64; 2]> {
        identity::new_uuid()
    }

    /// What this boot of the machine is told from others by; zeros where the system does not tell. As
    /// [`new_uuid`](Medium::new_uuid) in a simulation.
    fn boot_id(&self) -> [u64; 2] {
        identity::boot_id()
    }

    /// Whether stores must not reach the file: recovery then happens in private pages.
    fn read_only(&self) -> bool {
        false
    }

    /// Bytes in huge pages, where the system tells.
    fn huge_bytes(&self) -> Option<u64> {
        None
    }

    /// The pool's file.
    fn path(&self) -> Option<&Path> {
        None
    }

    /// What is emulated, for every figure that this medium's numbers go into.
    fn emulates(&self) -> Option<&'static str> {
        None
    }

    /// What was done to this medium, where that is counted.
    fn counts(&self) -> Option<Counts> {
        None
    }

    /// Stores `src` into the words, whole words at a time, the last one padded with zeros.
    #[inline]
    #[track_caller]
    fn copy_in(&self, dst: &[PmU64], src: &[u8]) {
        let mut dst = dst.iter();
        let (words, rest) = src.as_chunks::<8>();
        // In this order: the end of `words` must not cost a word of `dst`.
        for (bytes, word) in words.iter().zip(dst.by_ref()) {
            self.store(word, u64::from_le_bytes(*bytes));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            if let Some(word) = dst.next() {
                self.store(word, u64::from_le_bytes(last));
            }
        }
    }

    /// Loads `dst.len()` bytes that begin `skip` bytes into `src`.
    ///
    /// # Panics
    /// When `src` is shorter than that.
    #[inline]
    fn copy_out(&self, src: &[PmU64], skip: usize, dst: &mut [u8]) {
        let mut at = skip / 8;
        let mut dst = dst;
        let lead = skip % 8;
        if lead != 0 && !dst.is_empty() {
            let word = self.load(&src[at]).to_le_bytes();
            let n = dst.len().min(8 - lead);
            dst[..n].copy_from_slice(&word[lead..lead + n]);
            dst = &mut dst[n..];
            at += 1;
        }
        let (words, rest) = dst.as_chunks_mut::<8>();
        for bytes in words {
            *bytes = self.load(&src[at]).to_le_bytes();
            at += 1;
        }
        if !rest.is_empty() {
            let word = self.load(&src[at]).to_le_bytes();
            let n = rest.len();
            rest.copy_from_slice(&word[..n]);
        }
    }

    /// Whether the words begin with `bytes`.
    #[inline]
    fn starts_with(&self, src: &[PmU64], bytes: &[u8]) -> bool {
        let (words, rest) = bytes.as_chunks::<8>();
        if src.len() < bytes.len().div_ceil(8) {
            return false;
        }
        for (word, want) in src.iter().zip(words) {
            if self.load(word) != u64::from_le_bytes(*want) {
                return false;
            }
        }
        rest.is_empty() || self.load(&src[words.len()]).to_le_bytes()[..rest.len()] == *rest
    }
}

/// Calls `f` with the address of each line that `obj` touches.
#[inline(always)]
pub(crate) fn each_line<T: ?Sized>(obj: &T, mut f: impl FnMut(*const u8)) {
    let start = std::ptr::from_ref(obj).cast::<u8>();
    let bytes = size_of_val(obj);
    let skip = start.addr() % LINE_BYTES as usize;
    let mut at = start.wrapping_sub(skip);
    let end = start.addr() + bytes;
    while at.addr() < end {
        f(at);
        at = at.wrapping_add(LINE_BYTES as usize);
    }
}

/// Asks the processor to fetch the line at `addr`.
#[inline(always)]
pub(crate) fn prefetch_line(addr: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(addr.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) addr, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = addr;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_copied_in_out_and_compared_at_any_length() {
        let medium = Dram::new(4096).unwrap();
        medium.grow(4096).unwrap();
        let bytes: Vec<u8> = (1..=64).collect();
        for len in 0..=40 {
            let words = medium.region().words(0, 8).unwrap();
            for word in words {
                medium.store(word, u64::MAX);
            }
            medium.copy_in(words, &bytes[..len]);
            assert!(medium.starts_with(words, &bytes[..len]));
            assert!(!medium.starts_with(words, &bytes[..=len]));
            for skip in 0..=len {
                let mut out = vec![0; len - skip];
                medium.copy_out(words, skip, &mut out);
                assert_eq!(out, bytes[skip..len]);
            }
        }
    }
}
