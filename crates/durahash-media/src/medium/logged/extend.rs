//! A log that uses more of its area when its pool has become longer.
//!
//! A small pool shall be a small file, and a long load wants a long log, since a checkpoint writes each page of
//! the pool that was changed. So a log uses the first part of its area: 128 MiB, and once the rest of the pool is
//! longer than 1 MiB, 64 times as much as it is longer. What is behind that is a hole of the file. The heads say
//! where the parts are. They change while the log is empty:
//!
//! | Step | Who | If it stops after this step |
//! |---|---|---|
//! | the pool became longer: what the log shall use is noted | who made it so | as before |
//! | zeros are written to what is used in addition; where there is no space or memory for it, the log stays as it is until the pool grows again | the thread in the background | as before, in a file that takes more space |
//! | a [checkpoint](super) | the same | as in any |
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
use super::log::{Log, lock};
use crate::medium::sys;

/// Bytes of the area that are used for each byte by which the rest of the pool is longer than a small pool.
const PER_BYTE: u64 = 64;

impl<D: Disk> Log<D> {
    /// Notes how long the pool is. True if the log is to use more of its area.
    pub(super) fn note_length(&self) -> bool {
        let rest = self.disk.bytes_beside_small_pool().min(self.disk.log_bytes());
        self.wanted.store((rest * PER_BYTE).next_power_of_two(), Ordering::Relaxed);
        self.wants_more()
    }

    /// True if the log is to use more of its area.
    pub(super) fn wants_more(&self) -> bool {
        self.extends && self.wanted_parts().bytes() > self.layout().bytes()
    }

    fn wanted_parts(&self) -> Layout {
        let whole = self.disk.whole();
        let wanted = Layout::of(self.wanted.load(Ordering::Relaxed));
        // Where the ring is written past the page cache nothing was ever staged.
        let fits = wanted.bytes() < whole.bytes() && wanted.ring_off() <= whole.ring_off();
        if fits { wanted } else { whole }
    }

    /// Takes the space for the parts that the log is to have, if these are others than it has. Nobody waits for it.
    pub(super) fn prepare(&self) -> Option<Layout> {
        if !self.wants_more() || self.has_failed() {
            return None;
        }
        let (used, parts) = (self.layout().bytes(), self.wanted_parts());
        let filled = match self.grow_own(parts) {
            Ok(()) => self.disk.fill_log(used, parts.bytes()),
            Err(_) => Err(Errno::NOSPC.into()),
        };
        match filled {
            Ok(()) => return Some(parts),
            Err(e) => {
                let no_space = [Errno::NOSPC, Errno::DQUOT, Errno::FBIG];
                if no_space.into_iter().any(|errno| sys::is(&e, errno)) {
                    self.wanted.store(0, Ordering::Relaxed);
                } else {
                    self.fail(&e);
                }
            }
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
        let next = Head { parts: Some(parts), ..self.behind(&writer, head) };
        self.move_to(head, next, true);
        if !self.has_failed() {
            self.set_layout(parts);
        }
    }
}
