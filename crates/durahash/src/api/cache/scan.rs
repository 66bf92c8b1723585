//! Walks over caches in steps.

use durahash_media::Result;

use super::super::scan::{Cursor, ScanStep};
use super::Cache;
use crate::engine::data::Data;

impl<K: Data + ?Sized, V: Data + ?Sized> Cache<K, V> {
    /// The next entries of a walk, about `n`, of those that have not expired, as [`Map::scan`](crate::Map::scan).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::Cursor;
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// cache.put(&1, &10)?;
    /// assert_eq!(cache.scan(Cursor::START, 100)?, (vec![(1, 10)], None));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn scan(&self, from: Cursor, n: usize) -> Result<ScanStep<K::Owned, V::Owned>> {
        let (entries, next) = self.map.scan(from, n)?;
        let (walk, mut found) = (self.iter(), Vec::new());
        for (key, bytes) in entries {
            found.extend(walk.live(&key, &bytes)?.map(|value| (key, value)));
        }
        Ok((found, next))
    }
}
