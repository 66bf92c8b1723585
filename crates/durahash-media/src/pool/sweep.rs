//! Finding free record blocks again after an open, in steps.
//!
//! The records above the designs know how slots name blocks: they walk them unit by unit and
//! mark each block that they meet; when all were walked, unmarked blocks are free. Until then:
//!
//! - nothing is allocated from an extent older than this open;
//! - a block of such an extent that is freed is marked and kept, and freed when the sweep ends;
//! - a thread that publishes, moves or clears a slot that names such a block marks it first, so a record
//!   that changes its place behind the walk is not taken for free.
//!
//! Entries in use lie in blocks of the class that the extent's kind says, or else that kind is damaged. Where a slot
//! names a sound entry that does not, nothing of the extent is handed out or given back.
//! Where damage hides slots, the sweep cannot end in this open ([`Pool::give_up_sweep`]): older blocks stay as they
//! are, and the pool grows instead.
//!
//! Marks live in DRAM. A crash during a sweep loses nothing: the next open sweeps again.

use super::Pool;
use crate::error::Result;
use crate::lock::wait_lock;
use crate::medium::Medium;

impl<M: Medium> Pool<M> {
    /// True if free record space is still to be found.
    pub fn sweep_pending(&self) -> bool {
        wait_lock(&self.blocks, &self.medium).sweep.is_some()
    }

    /// True if the sweep has something to do: it is pending, and was not given up.
    pub fn sweep_goes_on(&self) -> bool {
        let blocks = wait_lock(&self.blocks, &self.medium);
        blocks.sweep.as_ref().is_some_and(|sweep| !sweep.given_up)
    }

    /// Damage hides slots: nothing older than this open is found to be free until the next one, and nobody waits
    /// for that.
    pub fn give_up_sweep(&self) {
        if let Some(sweep) = &mut wait_lock(&self.blocks, &self.medium).sweep {
            sweep.given_up = true;
            sweep.freed = Vec::new();
        }
    }

    /// Marks the block at `off` as reachable. Returns whether that is new; false when no sweep is
    /// pending, or the block is younger than this open.
    ///
    /// # Errors
    /// Never now; a medium that reports damage may.
    pub fn mark_block(&self, off: u64) -> Result<bool> {
        Ok(wait_lock(&self.blocks, &self.medium).mark(off)? == Some(true))
    }

    /// Keeps the whole extent that `off` lies in as it is, until the next open: nothing of it is handed out or
    /// given back. Its kind is damaged: it is one of blocks, but not of those that are in use there.
    pub fn keep_extent(&self, off: u64) {
        let i = off / self.extent_bytes();
        wait_lock(&self.blocks, &self.medium).keep(i);
    }

    /// Ends the sweep, after every slot was walked: unmarked blocks are free.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where what was freed is no block.
    pub fn finish_sweep(&self) -> Result<()> {
        let mut extents = wait_lock(&self.extents, &self.medium);
        wait_lock(&self.blocks, &self.medium).end_sweep(&mut extents, &self.medium)
    }
}
