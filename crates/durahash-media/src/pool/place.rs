//! The part of a pool that one map has: its description, its roots and counters, its extents. A design asks
//! all else of the pool itself.

use std::sync::Arc;

use super::Pool;
use super::extents::ExtentKind;
use super::superblock::Format;
use crate::error::Result;
use crate::lock::wait_lock;
use crate::medium::Medium;
use crate::word::PmU64;

/// The place of a map in a pool. See the module docs in the source.
pub struct Place<M: Medium> {
    pool: Arc<Pool<M>>,
    map: u8,
    format: Format,
    roots_off: u64,
}

impl<M: Medium> Place<M> {
    /// The place of a map that is there.
    ///
    /// # Errors
    /// [`Options`](crate::ErrorKind::Options) where there is none of this number.
    pub fn of(pool: &Arc<Pool<M>>, map: u8) -> Result<Self> {
        let format = pool.map_format(map)?;
        let roots_off = pool.roots(map)?;
        Ok(Place { pool: Arc::clone(pool), map, format, roots_off })
    }

    /// The pool.
    #[inline(always)]
    pub fn pool(&self) -> &Arc<Pool<M>> {
        &self.pool
    }

    /// The number of the map; 0 is the one that the superblock describes.
    pub fn map(&self) -> u8 {
        self.map
    }

    /// The map's format; extents and the largest size are those of the pool.
    #[inline(always)]
    pub fn format(&self) -> &Format {
        &self.format
    }

    fn root_word(&self, i: usize) -> Result<&PmU64> {
        self.pool.at(self.roots_off + i as u64 * 8)
    }

    /// Root word `i` of the design.
    ///
    /// # Errors
    /// Never for a pool that is open; the bounds are checked all the same.
    pub fn root(&self, i: usize) -> Result<u64> {
        Ok(self.pool.medium.load(self.root_word(i)?))
    }

    /// Changes root word `i` by one store, which is durable before later stores. No caller need wait for
    /// that: the root leads to the same before and after.
    ///
    /// # Errors
    /// As [`Place::root`].
    #[track_caller]
    pub fn set_root(&self, i: usize, v: u64) -> Result<()> {
        self.note_root(i, v)?;
        self.pool.medium.fence();
        Ok(())
    }

    /// Stores and flushes root word `i`, on which nothing but speed depends.
    ///
    /// # Errors
    /// As [`Place::root`].
    #[track_caller]
    pub fn note_root(&self, i: usize, v: u64) -> Result<()> {
        let root = self.root_word(i)?;
        self.pool.touch(self.roots_off + i as u64 * 8);
        self.pool.medium.store(root, v);
        self.pool.medium.flush(root);
        Ok(())
    }

    /// Root word `i` is worth nothing where the pool [may lack pages](Pool::may_lack_pages): [`begin`](Pool::begin)
    /// makes it zero then, durably before the next open can believe it. It comes before that.
    pub fn doubt_root(&self, i: usize) {
        wait_lock(&self.pool.doubted, &self.pool.medium).push(self.roots_off + i as u64 * 8);
    }

    /// Counter `i` as the last clean close saved it.
    pub fn saved(&self, i: usize) -> Option<u64> {
        self.pool.saved(self.map, i)
    }

    /// Sets counter `i` for the next clean close to save.
    pub fn save(&self, i: usize, v: u64) {
        self.pool.save(self.map, i, v);
    }

    /// Takes an extent for units of the design, whose contents are anything; returns its number.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full); nothing has changed then.
    pub fn take_unit_extent(&self) -> Result<u64> {
        wait_lock(&self.pool.extents, &self.pool.medium)
            .take(&self.pool.medium, ExtentKind::Units(self.map))
    }

    /// Takes `count` extents in a row for one large unit. Their kinds are durable with the stores that the caller
    /// fences before anything names them.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full); nothing has changed then.
    pub fn take_unit_extents(&self, count: u64) -> Result<u64> {
        self.take_extents(count, ExtentKind::Units(self.map))
    }

    /// Takes `count` extents in a row for a directory, whose contents are anything; returns the
    /// number of the first.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full); nothing has changed then.
    pub fn take_directory_extents(&self, count: u64) -> Result<u64> {
        self.take_extents(count, ExtentKind::Directory(self.map))
    }

    fn take_extents(&self, count: u64, kind: ExtentKind) -> Result<u64> {
        wait_lock(&self.pool.extents, &self.pool.medium).take_run(
            &self.pool.medium,
            count,
            [kind; 2],
        )
    }

    /// The numbers of all extents of the map's units.
    pub fn unit_extents(&self) -> Vec<u64> {
        wait_lock(&self.pool.extents, &self.pool.medium).of_kind(ExtentKind::Units(self.map))
    }

    /// The numbers of all extents of its directories.
    pub fn directory_extents(&self) -> Vec<u64> {
        wait_lock(&self.pool.extents, &self.pool.medium).of_kind(ExtentKind::Directory(self.map))
    }
}

impl<M: Medium> Clone for Place<M> {
    fn clone(&self) -> Self {
        let (pool, format) = (Arc::clone(&self.pool), self.format.clone());
        Place { pool, format, map: self.map, roots_off: self.roots_off }
    }
}

impl<M: Medium> From<Arc<Pool<M>>> for Place<M> {
    /// The place of map 0.
    fn from(pool: Arc<Pool<M>>) -> Self {
        let format = pool.format().clone();
        let roots_off = std::mem::offset_of!(super::Superblock, roots) as u64;
        Place { pool, map: 0, format, roots_off }
    }
}
