//! Damage found by check words (`checks.rs`), and the notes that those who store take for them.

use super::{Pool, Superblock};
use crate::error::{Error, Result};
use crate::lock::wait_lock;
use crate::medium::{CHECKS_OFF, Medium};

impl<M: Medium> Pool<M> {
    /// Before a store to the block of 256 bytes at `off`, or to a word there: the first since the open takes the
    /// check word of the bytes around it out of use, durably. Blocks of an extent that was taken since the
    /// open need no such call.
    #[inline(always)]
    pub fn touch(&self, off: u64) {
        if self.has_checks {
            self.checks.touch(&self.medium, off);
        }
    }

    /// The same of an object of so many bytes.
    pub(crate) fn touch_bytes(&self, off: u64, bytes: u64) {
        if self.has_checks {
            self.checks.touch_bytes(&self.medium, off..off + bytes);
        }
    }

    /// Tells a medium that keeps the check words itself where they are, before anything else may come to lie where they
    /// were: what says so is on the disk.
    pub(super) fn begin_sums(&self) -> Result<()> {
        let Some(sums) = self.medium.disk_sums().filter(|_| !self.read_only) else {
            return Ok(());
        };
        let area = self.checks.area();
        if area.is_none() {
            self.medium.sync(0, size_of::<Superblock>() as u64)?;
        }
        sums.keep_only(area);
        Ok(())
    }

    /// True if record blocks have check words, too: there are lists of a multimap among them, or the table of
    /// further maps, which have no sums of their own. It never becomes false.
    pub(crate) fn checks_records(&self) -> bool {
        self.format.kind != 0 || wait_lock(&self.maps, &self.medium).table_off() != 0
    }

    /// Calls `found` with the offset of every block that its check word says is damaged, and what is wrong
    /// there (**POOL-4**). Others may store meanwhile.
    pub fn check_blocks(&self, found: &mut dyn FnMut(u64, &'static str)) {
        if self.looks_on() {
            return;
        }
        if self.checks.is_lost {
            found(CHECKS_OFF, "the place of the check words is damaged: none was verified");
        }
        let records = self.checks_records();
        let checked = wait_lock(&self.extents, &self.medium).checked(records);
        self.checks.verify(&self.medium, &checked, &mut |off| {
            found(off, "the block, or its check word, is damaged");
        });
    }

    /// The same as an error, at an open.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) with the first that was found.
    pub fn verify(&self) -> Result<()> {
        let mut first = None;
        self.check_blocks(&mut |off, what| {
            first.get_or_insert((off, what));
        });
        match first {
            Some((off, what)) => Err(Error::corrupt(what, off).at_path(self.medium.path())),
            None => Ok(()),
        }
    }
}
