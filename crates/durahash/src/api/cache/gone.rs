//! What went from a cache by itself, for its callers.

use std::fmt;
use std::sync::Arc;

use durahash_media::Result;

use super::Cache;
use super::queue::{FIRST, parts};
use crate::engine::data::{Data, no_value};

/// An entry that went from a [`Cache`] by itself. See [`Cache::evicted`].
pub struct Gone<K: Data + ?Sized, V: Data + ?Sized> {
    /// Its number, by which [`Cache::done`] forgets it. The later one has the higher number, whether the cache or the pool was
    /// opened again between; not for sure behind a close that failed, where the pool stayed open.
    pub id: u64,
    /// The key.
    pub key: K::Owned,
    /// The value.
    pub value: V::Owned,
}

impl<K: Data + ?Sized, V: Data + ?Sized> fmt::Debug for Gone<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gone { id, key, value } = self;
        f.debug_struct("Gone").field("id", id).field("key", key).field("value", value).finish()
    }
}

impl<K: Data + ?Sized, V: Data + ?Sized> Cache<K, V> {
    /// What went by itself, evicted or expired, and is not [done](Cache::done) yet, in no order; nothing where it
    /// is not [kept](crate::Options::keep_evicted).
    ///
    /// **Durability.** An entry is in the cache or here, whatever crashes, until the caller is done with it.
    /// **Concurrency.** As [`Map::iter`](crate::Map::iter). Of several threads that ask at once each gets all. A key
    /// that went and was put again is here with the value that it had. What is here has left the cache; but in a process that
    /// only reads it may be on its way.
    ///
    /// # Errors
    /// As [`Map::iter`](crate::Map::iter).
    ///
    /// ```
    /// use std::time::Duration;
    /// use durahash::{Cache, Options};
    /// let blobs: Cache<str, u64> = Options::new().keep_evicted(true).in_memory()?;
    /// blobs.put_for("a", &4711, Duration::ZERO)?;
    /// while blobs.step()? {}
    /// for gone in blobs.evicted() {
    ///     let gone = gone?;
    ///     println!("blob {} of {} can go", gone.value, gone.key);
    ///     assert!(blobs.done(gone.id)?);
    /// }
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn evicted(&self) -> impl Iterator<Item = Result<Gone<K, V>>> + use<K, V> {
        // The cache is open as long as this is asked: the turns of a later open are others.
        let (inner, guard) = (Arc::clone(&self.inner), Arc::clone(&self.guard));
        let entries = inner.beside.as_ref().map(|beside| beside.iter());
        entries.into_iter().flatten().filter_map(move |entry| {
            let _open = &guard;
            let told = entry.and_then(|(id, entry)| {
                if id < FIRST || !inner.has_gone(id, &entry)? {
                    return Ok(None);
                }
                gone(id, &entry).map(Some).ok_or_else(no_value)
            });
            told.transpose()
        })
    }

    /// Forgets what went with this number; false where there is nothing.
    ///
    /// **Durability.** `Ok` means that it stays away after a crash.
    ///
    /// # Errors
    /// As [`remove`](Cache::remove).
    ///
    /// ```
    /// let cache: durahash::Cache<u64, u64> = durahash::Options::new().in_memory()?;
    /// assert!(!cache.done(1 << 32)?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn done(&self, id: u64) -> Result<bool> {
        match &self.inner.beside {
            Some(beside) if id >= FIRST => Ok(beside.remove(&id)?.is_some()),
            _ => Ok(false),
        }
    }
}

fn gone<K: Data + ?Sized, V: Data + ?Sized>(id: u64, entry: &[u8]) -> Option<Gone<K, V>> {
    let (key, value) = parts(entry)?;
    Some(Gone { id, key: K::from_bytes(key)?, value: V::from_bytes(value)? })
}
