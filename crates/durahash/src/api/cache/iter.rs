//! Iterators over caches.

use std::borrow::Borrow;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use durahash_media::Result;

use super::super::iter::Iter;
use super::super::map::Map;
use super::inner::Inner;
use super::look::look;
use crate::engine::data::{Data, no_value};
use crate::engine::expiry::{Timed, is_over, split};

/// Iterator over a [`Cache`](crate::Cache). See [`Cache::iter`](crate::Cache::iter).
///
/// ```
/// let cache: durahash::Cache<str, u64> = durahash::Options::new().in_memory()?;
/// cache.put("one", &1)?;
/// for pair in &cache {
///     let (key, value) = pair?;
///     assert_eq!((key.as_str(), value), ("one", 1));
/// }
/// # Ok::<(), durahash::Error>(())
/// ```
pub struct CacheIter<K: Data + ?Sized, V: Data + ?Sized> {
    map: Map<K, Timed<V>>,
    entries: Iter<K, Timed<V>>,
    inner: Arc<Inner>,
}

impl<K: Data + ?Sized, V: Data + ?Sized> CacheIter<K, V> {
    pub(super) fn new(map: Map<K, Timed<V>>, inner: Arc<Inner>) -> Self {
        CacheIter { entries: map.iter(), map, inner }
    }

    /// The value of an entry that was met, if it has not expired. One that has may have got more time since.
    pub(super) fn live(&self, key: &K::Owned, bytes: &[u8]) -> Result<Option<V::Owned>> {
        let (expiry, value) = split(bytes).ok_or_else(no_value)?;
        if !is_over(expiry, self.inner.time.now()) {
            return V::from_bytes(value).map(Some).ok_or_else(no_value);
        }
        self.map.handle.run(|engine| {
            let mut buffer = K::Buffer::default();
            let key = K::bytes(key.borrow(), &mut buffer);
            let key = (key, engine.key_hash(key));
            look(&self.map, &self.inner.time, key, |_, value| V::from_bytes(value))
        })
    }
}

// As of a map: an entry is taken off before it is decoded.
impl<K: Data + ?Sized, V: Data + ?Sized> UnwindSafe for CacheIter<K, V> {}
impl<K: Data + ?Sized, V: Data + ?Sized> RefUnwindSafe for CacheIter<K, V> {}

impl<K: Data + ?Sized, V: Data + ?Sized> Iterator for CacheIter<K, V> {
    type Item = Result<(K::Owned, V::Owned)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (key, bytes) = match self.entries.next()? {
                Ok(entry) => entry,
                Err(e) => return Some(Err(e)),
            };
            match self.live(&key, &bytes) {
                Ok(Some(value)) => return Some(Ok((key, value))),
                Ok(None) => {}
                Err(e) => return Some(Err(e)),
            }
        }
    }
}
