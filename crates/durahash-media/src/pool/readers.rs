//! Pools that another process has open for writing, and this one reads.

use std::sync::atomic::{Ordering, fence};

use super::Pool;
use super::superblock::{State, Superblock};
use crate::error::{Error, ErrorKind, Result};
use crate::lock::wait_lock;
use crate::medium::Medium;

impl<M: Medium> Pool<M> {
    /// True if this is a reader beside a writer in another process: what it reads may change at any time, and nothing
    /// of it can be stored to.
    #[inline]
    pub fn looks_on(&self) -> bool {
        self.medium.changes().is_some() && self.read_only
    }

    /// Lets readers in other processes rely on the counters of changes: all maps are recovered.
    pub fn count_changes(&self) {
        if let Some(changes) = self.medium.changes().filter(|_| !self.read_only) {
            changes.count_for(self.state.epoch);
            fence(Ordering::SeqCst);
            // A medium that has failed says so before it takes the epoch from the counters.
            if self.medium.wait_until_durable().is_err() {
                changes.count_for(0);
            }
        }
    }

    /// Refuses a reader beside a writer that was read in the state `before`, whose changes are not counted.
    pub(super) fn check_readable(&self, before: State) -> Result<()> {
        let Some(changes) = self.medium.changes().filter(|_| self.looks_on()) else {
            return Ok(());
        };
        if before.clean || !changes.are_counted_for(before.epoch) {
            return Err(ErrorKind::Locked.into());
        }
        // No block is taken or given back here.
        wait_lock(&self.blocks, &self.medium).sweep = None;
        // For what is kept of the pool: the names of its maps.
        self.medium.wait_until_durable()?;
        self.check_writer()
    }

    /// Asked behind the loads of a reader beside a writer: they were of the open that it knows. Of others that is
    /// always so.
    ///
    /// # Errors
    /// [`WriterGone`](ErrorKind::WriterGone).
    pub fn check_writer(&self) -> Result<()> {
        let state = self.medium.load(&self.at::<Superblock>(0)?.state);
        let Some(changes) = self.medium.changes().filter(|_| self.looks_on()) else {
            return Ok(());
        };
        let is_same = (state, changes.removed_maps()) == self.read_state;
        // Another open may store elsewhere, and this state word stay as it is.
        if is_same && changes.are_counted_for(State::from_word(state).epoch) {
            return Ok(());
        }
        Err(Error::from(ErrorKind::WriterGone).at_path(self.medium.path()))
    }

    /// Takes note of how much larger the writer has made the pool; true if it has. What was loaded before lies in the
    /// pool then.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io); [`Full`](ErrorKind::Full) where there are no addresses for it.
    pub fn follow(&self) -> Result<bool> {
        let superblock = self.at::<Superblock>(0)?;
        let extents = self.medium.load(&superblock.extents).min(self.format.max_extents());
        let bytes = extents << self.format.geometry.extent_shift;
        if !self.looks_on() || bytes <= self.medium.region().len() {
            return Ok(false);
        }
        // A table is named before there are extents that have their kinds in it.
        self.table.follow(&self.medium)?;
        self.medium.follow(bytes)?;
        Ok(true)
    }
}
