//! Touching bytes: words, lines and their order. Compiled into each design.

use super::{Changes, Region, each_line, prefetch_line};
use crate::copied::CopiedWords;
use crate::error::Result;
use crate::word::{OnMedia, PmU64, copy_out};

/// An action of a thread that is not a store: nothing in release, a yield point and a mark in the
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
    /// About to look at words that a lock guards, without holding it.
    Look,
    /// About to look again whether a lock is free, or a state has changed.
    Wait,
}

/// The words of a medium, and their way to durability.
///
/// It is statically dispatched: on [`Dram`](super::Dram) a load or store is the plain machine
/// instruction, and flush, fence, drain and event are nothing. A medium owns a [`Region`] of bytes;
/// offsets into it are the addresses that are stored.
pub trait Memory: Send + Sync + Sized + 'static {
    /// True where a drain waits for a device that is much slower than memory, and flushed lines are
    /// durable only after it: no operation may return, and nothing may report a change, before
    /// [`wait_until_durable`](Memory::wait_until_durable).
    const DRAIN_WAITS: bool = false;

    /// True where stores to one line become durable in program order. Elsewhere a design persists
    /// the words that a commit word relies on before it stores that. A constant on real media, so
    /// that only one of the two ways is compiled.
    fn same_line_order(&self) -> bool;

    /// The bytes.
    fn region(&self) -> &Region;

    /// Acquire load.
    #[inline(always)]
    #[track_caller]
    fn load(&self, word: &PmU64) -> u64 {
        word.load()
    }

    /// Release store.
    #[inline(always)]
    #[track_caller]
    fn store(&self, word: &PmU64, v: u64) {
        word.store(v);
    }

    /// Compare and swap; orders like a store on success. The result is the word's former value.
    ///
    /// # Errors
    /// The value found, where it was not `old`.
    #[inline(always)]
    #[track_caller]
    fn cas(&self, word: &PmU64, old: u64, new: u64) -> Result<u64, u64> {
        word.cas(old, new)
    }

    /// Non-temporal store: bypasses the cache where fences are real.
    #[inline(always)]
    #[track_caller]
    fn store_nt(&self, word: &PmU64, v: u64) {
        self.store(word, v);
    }

    /// Starts to fetch every line of `obj`.
    #[inline(always)]
    fn prefetch<T: OnMedia + ?Sized>(&self, obj: &T) {
        each_line(obj, prefetch_line);
    }

    /// Starts to fetch what a store to the line at `off`, wherever that is, needs beside that line.
    #[inline(always)]
    fn expect_store(&self, _off: u64) {}

    /// Starts the write-back of every line that `obj` touches.
    #[track_caller]
    fn flush<T: OnMedia + ?Sized>(&self, obj: &T);

    /// Starts the write-back of an object that nothing points to yet (a new segment, a record): a
    /// medium may do so more cheaply than [`flush`](Memory::flush).
    #[track_caller]
    fn flush_fresh<T: OnMedia + ?Sized>(&self, obj: &T) {
        self.flush(obj);
    }

    /// Orders: lines that this thread flushed before are durable before anything that it stores
    /// after, and before stores of other threads that have seen those.
    #[track_caller]
    fn fence(&self);

    /// Waits: lines that this thread flushed before are durable when this returns. Behind a log it
    /// blocks on I/O, so only the step that makes a key's change durable needs it: a step that moves
    /// a key and changes none ends with a [`fence`](Memory::fence).
    #[inline(always)]
    #[track_caller]
    fn drain(&self) {
        self.fence();
    }

    /// With `true`, this thread's drains only order, like fences, until it is called with `false`:
    /// a batch of operations then waits once, in
    /// [`wait_until_durable`](Memory::wait_until_durable). Ignored where a drain is cheap.
    fn defer(&self, _defer: bool) {}

    /// True if [`wait_until_durable`](Memory::wait_until_durable) has nothing to do.
    #[inline]
    fn is_durable(&self) -> bool {
        true
    }

    /// The last step of an operation that has released its locks: waits until all that it may have
    /// seen or changed is as durable as [`durability`](super::Storage::durability) promises.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) if it never will be.
    fn wait_until_durable(&self) -> Result<()> {
        Ok(())
    }

    /// True if a change may wait for the disk at present. It may have changed when the caller looks at it.
    #[inline]
    fn may_wait(&self) -> bool {
        false
    }

    /// The counters for readers in other processes, where there may be any.
    #[inline(always)]
    fn changes(&self) -> Option<&Changes> {
        None
    }

    /// Counts a change of hashes that begin like `h` in `bits` bits for them.
    #[inline(always)]
    fn changed(&self, h: u64, bits: u32) {
        if let Some(changes) = self.changes() {
            changes.raise(h, bits);
        }
    }

    /// Tells a simulation what happens; empty elsewhere.
    #[inline(always)]
    #[track_caller]
    fn event(&self, _event: Event) {}

    /// Waits a while for another thread, to which the processor is given.
    #[track_caller]
    fn wait(&self) {
        self.event(Event::Wait);
        crate::primitive::give_way();
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
        copy_out(src, skip, dst, |word| self.load(word));
    }

    /// Copies words, at most [`COPIED_WORDS`](crate::COPIED_WORDS), for a reader that validates a version afterwards:
    /// one that is stored to meanwhile may come in parts.
    #[inline(always)]
    fn copy_words(&self, src: &[PmU64], dst: &mut CopiedWords) {
        dst.fill(src, |word| self.load(word));
    }

    /// Copies `out.len()` bytes from `off`, whole words, as they are durable after a fence: they are flushed, or
    /// read where flushed lines go. Lines flushed before were synced.
    ///
    /// # Errors
    /// As [`Region::words`].
    #[track_caller]
    fn copy_durable(&self, off: u64, out: &mut [u8]) -> Result<()> {
        let words = self.region().words(off, out.len() as u64 / 8)?;
        self.flush(words);
        self.copy_out(words, 0, out);
        Ok(())
    }

    /// True if the words begin with `bytes`.
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
        if rest.is_empty() {
            return true;
        }
        let bits = 8 * rest.len() as u32;
        let want = match bytes.last_chunk() {
            Some(last) => u64::from_le_bytes(*last) >> (64 - bits),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        self.load(&src[words.len()]) & !(u64::MAX << bits) == want
    }
}

#[cfg(test)]
mod tests {
    use crate::medium::{Dram, Memory, Storage};

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
