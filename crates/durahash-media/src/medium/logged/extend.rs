//! A log that uses more of its area once it is half full.
//!
//! A small pool shall be a small file, and a long load wants a long log, since a checkpoint writes each page of
//! the pool that was changed. So a log uses the first part of its area: 512 KiB, and when these are half full, up to 16
//! times as many bytes as the rest of the pool has. The rest of the area is a hole of the file. The heads say
//! where the parts are. They change while the log is empty:
//!
//! | Step | Who | If it stops after this step |
//! |---|---|---|
//! | a block is written: half of what the log uses is in use, which is noted, since a writer that finds no room makes a checkpoint at once | the writer | as before |
//! | zeros are what is used in addition, in `Interval` without being written; where there is no space or memory for it, the log stays as it is until the pool is twice as long | the thread in the background | as before, in a file that takes more space |
//! | a [checkpoint](super), whose sync has that on the disk, too | the same | as in any |
//! | no line gets a number, and no other thread writes, from here on | | |
//! | what is staged is written to the log and to the pool, which is synced | the same | lines of the log, in its old parts |
//! | both heads: the new parts, from the line behind the last one on; each is durable before the next | the same | the old head, whose lines are where they were; or a new one, behind which there is nothing that the pool lacks |
//! | lines are staged and blocks written in the new parts | all | |
//!
//! LOG-2 holds: what the old head needs is written over in the last step only. Nothing that lies in the new
//! parts from before is taken for a line: what was staged there, or elsewhere, has a smaller number than
//! the head; so has a block, which is also not what the head's chain continues with.

use std::sync::atomic::Ordering;

use rustix::io::Errno;

use super::disk::Disk;
use super::format::{Head, Layout};
use super::log::Log;
use crate::medium::sys;
use crate::primitive::lock;

/// Bytes of the area that may be used for each byte of the rest of the pool.
const PER_BYTE: u64 = 16;

impl<D: Disk> Log<D> {
    /// The parts of more of the area, if half of the log was in use and the pool is long enough.
    fn wanted_parts(&self) -> Option<Layout> {
        let rest = self.disk.bytes_beside_log();
        let refused = self.refused_at.load(Ordering::Relaxed);
        if !self.was_half_full.load(Ordering::Relaxed) || rest < refused.saturating_mul(2) {
            return None;
        }
        let whole = self.disk.whole();
        let bytes = rest.min(self.disk.log_bytes()) * PER_BYTE;
        let parts = Layout::of(bytes.next_power_of_two());
        // Where the ring is written past the page cache nothing was ever staged.
        let fits = parts.bytes() < whole.bytes() && parts.ring_off() <= whole.ring_off();
        let parts = if fits { parts } else { whole };
        (parts.bytes() > self.layout().bytes()).then_some(parts)
    }

    /// True if the next checkpoint is to let the log use more of its area.
    pub(super) fn is_short(&self) -> bool {
        self.wanted_parts().is_some()
    }

    /// Takes the space for more of the area, if the log is short. Nobody waits for it, and one thread does it.
    pub(super) fn prepare(&self) -> Option<Layout> {
        let parts = self.wanted_parts().filter(|_| !self.has_failed())?;
        self.was_half_full.store(false, Ordering::Relaxed);
        let filled = match self.grow_own(parts) {
            Ok(()) => self.disk.fill_log(self.layout().bytes(), parts.bytes()),
            Err(_) => Err(Errno::NOMEM.into()),
        };
        match filled {
            Ok(()) => return Some(parts),
            Err(e) if sys::is(&e, Errno::IO) => self.fail(&e),
            // Each try takes the last space of a disk for a moment.
            Err(_) => self.refused_at.store(self.disk.bytes_beside_log(), Ordering::Relaxed),
        }
        None
    }

    /// Lets the log have these parts, with `head` locked, directly behind a checkpoint.
    pub(super) fn extend(&self, head: &mut Head, parts: Layout) {
        let mut writer = lock(&self.writer);
        let tail = lock(&self.tail);
        if self.has_failed() || parts.bytes() <= self.layout().bytes() {
            return;
        }
        while self.durable() < *tail {
            if let Err(e) = self.write_batch(&mut writer) {
                return self.fail(&e);
            }
            // Only where others have filled the ring meanwhile.
            if self.durable() < *tail {
                let next = self.behind(&writer, head);
                self.move_to(head, next, false);
            }
            if self.has_failed() {
                return;
            }
        }
        let next = Head { parts, ..self.behind(&writer, head) };
        self.move_to(head, next, true);
        if !self.has_failed() {
            self.set_layout(parts);
        }
    }
}
