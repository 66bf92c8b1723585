//! Changes of several keys that are one.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use durahash_media::{ErrorKind, Result};

use super::any::AnyMap;
use super::map::Map;
use crate::engine::Single;
use crate::engine::batch::{Op, What, apply};
use crate::engine::data::{Data, Type};
use crate::engine::maps::Handle;
use crate::engine::record::check_sizes;

/// Puts and removals of any keys, of which a crash leaves all or none.
///
/// A batch may have keys of several [`Map`]s, of one pool. It keeps the pool open. Multimaps have no batches: to add
/// a value twice is not the same as to add it once, so that a batch of them could not be done again.
///
/// ```
/// use durahash::{Batch, Map, Options};
///
/// # fn main() -> durahash::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("accounts.pool");
/// let accounts: Map<str, u64> = Options::new().create(&path)?;
/// accounts.put_many(&[("Ada", 50), ("Bea", 20), ("Cyd", 0)])?;
///
/// let mut batch = Batch::new();
/// batch.put(&accounts, "Ada", &40)?;
/// batch.put(&accounts, "Bea", &30)?;
/// batch.remove(&accounts, "Cyd")?;
/// batch.apply()?;
/// assert_eq!(accounts.get("Bea")?, Some(30));
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Batch {
    maps: Vec<Handle<Single>>,
    ops: Vec<Op>,
    /// Keys and values of maps of byte strings.
    bytes: Vec<u8>,
}

impl Batch {
    /// An empty batch.
    ///
    /// ```
    /// assert!(durahash::Batch::new().is_empty());
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the operation that gives `key` of `map` the value `value`. Of several operations on one key the last one
    /// counts.
    ///
    /// # Errors
    /// [`TooLarge`](crate::ErrorKind::TooLarge) for a key or a value as in [`Map::put`];
    /// [`Options`](crate::ErrorKind::Options) where the batch has operations on a map of another pool. The batch is
    /// as before then.
    ///
    /// ```
    /// let map: durahash::Map<u64, str> = durahash::Options::new().in_memory()?;
    /// let mut batch = durahash::Batch::new();
    /// batch.put(&map, &1, "one")?;
    /// batch.apply()?;
    /// assert_eq!(map.get(&1)?.as_deref(), Some("one"));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put<K, V>(&mut self, map: &Map<K, V>, key: &K::Ref, value: &V::Ref) -> Result<()>
    where
        K: Data + ?Sized,
        V: Data + ?Sized,
    {
        self.add(map, key, Some(value))
    }

    /// Adds the operation that removes `key` from `map`.
    ///
    /// # Errors
    /// As [`put`](Batch::put).
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.put(&1, &10)?;
    /// let mut batch = durahash::Batch::new();
    /// batch.remove(&map, &1)?;
    /// batch.apply()?;
    /// assert!(map.is_empty()?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove<K, V>(&mut self, map: &Map<K, V>, key: &K::Ref) -> Result<()>
    where
        K: Data + ?Sized,
        V: Data + ?Sized,
    {
        self.add(map, key, None)
    }

    fn add<K, V>(&mut self, map: &Map<K, V>, key: &K::Ref, value: Option<&V::Ref>) -> Result<()>
    where
        K: Data + ?Sized,
        V: Data + ?Sized,
    {
        map.handle.run(|_| {
            if Map::<K, V>::WORDS {
                return self.add_word(&map.handle, map.hash(key), value.map(V::to_word));
            }
            let (mut key_buffer, mut value_buffer) = (K::Buffer::default(), V::Buffer::default());
            let value = value.map(|value| V::bytes(value, &mut value_buffer));
            self.add_bytes(&map.handle, map.hash(key), K::bytes(key, &mut key_buffer), value)
        })
    }

    /// As [`put`](Batch::put), of texts of the types of a map that are known at run time.
    ///
    /// # Errors
    /// As [`put`](Batch::put); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    /// use durahash::{AnyMap, Batch, Options, Type};
    /// let map: AnyMap = Options::new().types(Type::U64, Type::Str).in_memory()?;
    /// let mut batch = Batch::new();
    /// batch.put_any(&map, b"1", b"one")?;
    /// batch.apply()?;
    /// assert_eq!(map.get(b"1")?, Some(b"one".to_vec()));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put_any(&mut self, map: &AnyMap, key: &[u8], value: &[u8]) -> Result<()> {
        self.add_any(map, key, Some(value))
    }

    /// As [`remove`](Batch::remove), of texts.
    ///
    /// # Errors
    /// As [`put_any`](Batch::put_any).
    ///
    /// ```
    /// use durahash::{AnyMap, Batch, Options, Type};
    /// let map: AnyMap = Options::new().types(Type::U64, Type::Str).in_memory()?;
    /// map.put(b"1", b"one")?;
    /// let mut batch = Batch::new();
    /// batch.remove_any(&map, b"1")?;
    /// batch.apply()?;
    /// assert!(map.is_empty()?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove_any(&mut self, map: &AnyMap, key: &[u8]) -> Result<()> {
        self.add_any(map, key, None)
    }

    fn add_any(&mut self, map: &AnyMap, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        map.handle.run(|engine| {
            let key = engine.key.parse(key)?;
            let value = value.map(|value| engine.value.parse(value)).transpose()?;
            if engine.is_words() {
                self.add_word(&map.handle, engine.word_hash(&key), value.as_deref().map(Type::word))
            } else {
                self.add_bytes(&map.handle, engine.records.hash(&key), &key, value.as_deref())
            }
        })
    }

    fn add_word(&mut self, map: &Handle<Single>, h: u64, value: Option<u64>) -> Result<()> {
        let map = self.number(map)?;
        self.ops.push(Op { h, map, what: What::Word(value) });
        Ok(())
    }

    pub(super) fn add_bytes(
        &mut self,
        map: &Handle<Single>,
        h: u64,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        check_sizes(key, value.unwrap_or_default())?;
        let (map, at) = (self.number(map)?, self.bytes.len());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let value_bytes = value.map(|value| value.len() as u32);
        let what = What::Bytes { at, key_bytes: key.len() as u32, value_bytes };
        self.ops.push(Op { h, map, what });
        Ok(())
    }

    /// The number of a map, which is added if it is new.
    #[inline]
    fn number(&mut self, handle: &Handle<Single>) -> Result<u8> {
        let known = self.maps.iter().position(|map| Arc::ptr_eq(&map.engine, &handle.engine));
        let number = known.unwrap_or(self.maps.len());
        if known.is_none() {
            let pool = |map: &Handle<Single>| Arc::as_ptr(&map.engine.store).addr();
            if self.maps.first().is_some_and(|map| pool(map) != pool(handle)) {
                let what = "a batch has operations on the maps of one pool only";
                return Err(ErrorKind::Options { what }.into());
            }
            self.maps.push(handle.clone());
        }
        Ok(number as u8)
    }

    /// How many operations were added.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// let mut batch = durahash::Batch::new();
    /// batch.remove(&map, &1)?;
    /// assert_eq!(batch.len(), 1);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// True if there are none.
    ///
    /// ```
    /// assert!(durahash::Batch::new().is_empty());
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Forgets all operations and maps.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// let mut batch = durahash::Batch::new();
    /// batch.put(&map, &1, &10)?;
    /// batch.clear();
    /// batch.apply()?; // nothing
    /// assert!(map.is_empty()?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn clear(&mut self) {
        self.maps.clear();
        self.ops.clear();
        self.bytes.clear();
    }

    /// Does all operations. The batch stays as it is, and may be applied again.
    ///
    /// **Durability.** `Ok` means that all of it outlives a crash. A crash before leaves all of it or
    /// nothing. `Err` means nothing, except after [`Io`](crate::ErrorKind::Io) and
    /// [`Poisoned`](crate::ErrorKind::Poisoned): then the next open finds all of it or nothing.
    ///
    /// **Concurrency.** No instant: a reader may see a part of it. A crash does not lose what it sees, but
    /// an `apply` that returns an error may take it back. Each key has the value before or the one after. Writers of
    /// its keys, and of few others, wait until it has ended. A pool applies one batch at a time.
    ///
    /// # Errors
    /// As [`Map::insert`]; [`TooLarge`](crate::ErrorKind::TooLarge) for more than some 40 million operations. It needs
    /// room for its new entries beside those that they replace, and for 16 to 32 bytes an operation.
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// let mut batch = durahash::Batch::new();
    /// for key in 0..1000 {
    ///     batch.put(&map, &key, &(key * key))?;
    /// }
    /// batch.apply()?;
    /// assert_eq!(map.len()?, 1000);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn apply(&self) -> Result<()> {
        apply(&self.maps, &self.ops, &self.bytes)
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch of {} operations on {} maps", self.ops.len(), self.maps.len())
    }
}

// As of maps: `apply` runs no code of the caller.
impl UnwindSafe for Batch {}
impl RefUnwindSafe for Batch {}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use durahash_media::Geometry;
    use durahash_media::sim::{Call, Hook, Sim, Site};

    use super::*;
    use crate::{Design, Options};

    /// Another thread, which stops the pool at a call into the medium.
    #[derive(Clone, Default)]
    struct Stop {
        map: Arc<OnceLock<Map<u64, u64>>>,
        calls_left: Arc<AtomicU64>,
    }

    impl Hook for Stop {
        fn before(&self, _: Call, _: Site) {
            let left = self.calls_left.load(Ordering::Relaxed);
            self.calls_left.store(left.saturating_sub(1), Ordering::Relaxed);
            if left == 1 {
                self.map.get().inspect(|map| map.handle.engine.store.poison());
            }
        }
    }

    const OLD: [u64; 4] = [0, 1, 2, 3];
    const NEW: [u64; 2] = [3, 4];

    /// Applies a batch to a pool that is stopped after so many calls; `None` if it was not.
    fn stopped_at(call: u64, options: &Options) -> Option<Vec<u64>> {
        const MAX_BYTES: u64 = 64 << 10;
        let (sim, stop) = (Sim::new(MAX_BYTES), Stop::default());
        sim.set_hook(Box::new(stop.clone()));
        let map: Map<u64, u64> = options.create_on(sim.clone()).unwrap();
        let mut batch = Batch::new();
        for key in OLD {
            map.put(&key, &key).unwrap();
            batch.remove(&map, &key).unwrap();
        }
        NEW.iter().for_each(|key| batch.put(&map, key, key).unwrap());
        stop.map.set(map).unwrap();
        stop.calls_left.store(call, Ordering::Relaxed);
        if batch.apply().is_ok() && stop.calls_left.swap(0, Ordering::Relaxed) > 0 {
            return None;
        }
        let map: Map<u64, u64> = options.open_on(Sim::from_image(&sim.image(), MAX_BYTES)).unwrap();
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
        let mut keys: Vec<u64> = map.iter().map(|entry| entry.unwrap().0).collect();
        keys.sort_unstable();
        Some(keys)
    }

    /// A batch that finds the pool stopped, between two of its removals, say, is done or undone by the next open.
    #[test]
    fn a_batch_in_a_pool_that_is_stopped_is_all_or_nothing() {
        let geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 0 };
        for design in Design::ALL {
            let options = Options::new().design(*design).geometry(geometry).seed(1);
            let found: Vec<_> = (1..).map_while(|call| stopped_at(call, &options)).collect();
            assert!(found.iter().all(|keys| keys == &OLD || keys == &NEW), "{design}: {found:?}");
            assert!(found.contains(&OLD.to_vec()) && found.contains(&NEW.to_vec()), "{design}");
        }
    }
}
