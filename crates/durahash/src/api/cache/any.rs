//! Caches whose types are known at run time.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use durahash_media::{Durability, ErrorKind, Result};

use super::super::map::Map;
use super::Cache;
use super::guard::Guard;
use crate::engine::Single;
use crate::engine::data::Type;
use crate::engine::design::Design;
use crate::engine::maps::Handle;
use crate::engine::records::Pair;
use crate::engine::settings::Settings;
use crate::engine::stats::Stats;
use crate::index::Finding;

/// A cache whose types are those of the pool that it finds, as [`AnyMap`](crate::AnyMap) is for maps: keys and values are
/// texts of their types.
///
/// Durability and concurrency are those of [`Cache`](crate::Cache), method by method.
///
/// ```
/// use durahash::{AnyCache, Cache, Options};
///
/// # fn main() -> durahash::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("ages.pool");
/// let ages: Cache<str, u32> = Options::new().create(&path)?;
/// ages.put("Ada", &36)?;
/// ages.close()?;
///
/// let any: AnyCache = Options::new().open(&path)?;
/// assert_eq!(any.get(b"Ada")?, Some(b"36".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnyCache {
    /// Of the bytes that the pool keeps, whatever their types are.
    pub(in crate::api) cache: Cache<[u8], [u8]>,
}

/// The lines of an example that make a `cache`.
macro_rules! example {
    () => {
        "use durahash::{AnyCache, Options, Type};\n\
         let cache: AnyCache = Options::new().types(Type::U64, Type::Str).in_memory()?;"
    };
}

impl AnyCache {
    pub(in crate::api) fn new(handle: Handle<Single>, settings: &Settings) -> Result<Self> {
        let (key, value) = (handle.engine.key, handle.engine.value);
        if !matches!(value, Type::Expiring(_)) {
            let found = format!("a map with keys of {key} and values of {value}");
            return Err(ErrorKind::Types { found, wanted: "a cache".into() }.into());
        }
        let guard = Guard::of(&handle, &settings.cache_options)?;
        let (map, inner) = (Map::of_bytes(handle), Arc::clone(&guard.inner));
        Ok(AnyCache { cache: Cache { map, inner, guard } })
    }

    /// The type of the keys.
    ///
    /// ```
    #[doc = example!()]
    /// assert_eq!(cache.key_type(), Type::U64);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn key_type(&self) -> Type {
        self.cache.map.handle.engine.key
    }

    /// The type of the values, without their expiry. [`Stats`] and [`MapInfo`](crate::MapInfo) have it with that, as
    /// [`Type::Expiring`].
    ///
    /// ```
    #[doc = example!()]
    /// assert_eq!(cache.value_type(), Type::Str);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn value_type(&self) -> Type {
        match self.cache.map.handle.engine.value {
            Type::Expiring(of) => of.value_type(),
            ty => ty,
        }
    }

    /// Does `f` with the bytes of a key.
    fn with_key<R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
        self.cache.map.handle.run(|_| f(&self.key_type().parse(key)?))
    }

    /// Does `f` with the bytes of a key and a value.
    fn with_pair<R>(
        &self,
        key: &[u8],
        value: &[u8],
        f: impl FnOnce(&[u8], &[u8]) -> Result<R>,
    ) -> Result<R> {
        self.with_key(key, |key| f(key, &self.value_type().parse(value)?))
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// As [`Cache::get`](crate::Cache::get); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    #[doc = example!()]
    /// cache.put(b"1", b"one")?;
    /// assert_eq!(cache.get(b"1")?, Some(b"one".to_vec()));
    /// assert_eq!(cache.get(b"one").unwrap_err().to_string(), "\"one\" is not a valid u64");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.with_key(key, |key| {
            self.cache.get(key)?.map(|value| self.value_type().show(value)).transpose()
        })
    }

    /// Inserts or replaces the value of `key`. The entry does not expire.
    ///
    /// # Errors
    /// As [`Cache::put`](crate::Cache::put); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    #[doc = example!()]
    /// cache.put(b"1", b"one")?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.with_pair(key, value, |key, value| self.cache.put(key, value))
    }

    /// Inserts or replaces the value of `key`, which expires after `lifetime`.
    ///
    /// # Errors
    /// As [`put`](AnyCache::put).
    ///
    /// ```
    #[doc = example!()]
    /// cache.put_for(b"1", b"one", std::time::Duration::ZERO)?;
    /// assert_eq!(cache.get(b"1")?, None);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put_for(&self, key: &[u8], value: &[u8], lifetime: Duration) -> Result<()> {
        self.with_pair(key, value, |key, value| self.cache.put_for(key, value, lifetime))
    }

    /// Inserts or replaces the value of `key`, which expires at this time of day.
    ///
    /// # Errors
    /// As [`put`](AnyCache::put).
    ///
    /// ```
    #[doc = example!()]
    /// cache.put_until(b"1", b"one", std::time::UNIX_EPOCH)?;
    /// assert_eq!(cache.get(b"1")?, None);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put_until(&self, key: &[u8], value: &[u8], at: SystemTime) -> Result<()> {
        self.with_pair(key, value, |key, value| self.cache.put_until(key, value, at))
    }

    /// When the entry of `key` expires, as [`Cache::expires_at`](crate::Cache::expires_at).
    ///
    /// # Errors
    /// As [`get`](AnyCache::get).
    ///
    /// ```
    #[doc = example!()]
    /// cache.put(b"1", b"one")?;
    /// assert_eq!(cache.expires_at(b"1")?, Some(None));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn expires_at(&self, key: &[u8]) -> Result<Option<Option<SystemTime>>> {
        self.with_key(key, |key| self.cache.expires_at(key))
    }

    /// Removes `key`; false if it was not there.
    ///
    /// # Errors
    /// As [`Cache::remove`](crate::Cache::remove); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    #[doc = example!()]
    /// cache.put(b"1", b"one")?;
    /// assert!(cache.remove(b"1")?);
    /// assert!(!cache.remove(b"1")?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.with_key(key, |key| Ok(self.cache.remove(key)?.is_some()))
    }

    /// All keys and values that have not expired, as [`Cache::iter`](crate::Cache::iter) gives them.
    ///
    /// # Errors
    /// An item is an error where an entry is damaged; the iterator goes on behind it if it can.
    ///
    /// ```
    #[doc = example!()]
    /// cache.put(b"1", b"one")?;
    /// for pair in cache.iter() {
    ///     assert_eq!(pair?, (b"1".to_vec(), b"one".to_vec()));
    /// }
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn iter(&self) -> impl Iterator<Item = Result<Pair>> + use<> {
        let (key, value) = (self.key_type(), self.value_type());
        self.cache
            .iter()
            .map(move |pair| pair.and_then(|(k, v)| Ok((key.show(k)?, value.show(v)?))))
    }

    /// As [`Cache::len`](crate::Cache::len).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    #[doc = example!()]
    /// assert_eq!(cache.len()?, 0);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn len(&self) -> Result<u64> {
        self.cache.len()
    }

    /// As [`Cache::count`](crate::Cache::count).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    #[doc = example!()]
    /// assert_eq!(cache.count()?, 0);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn count(&self) -> Result<u64> {
        self.cache.count()
    }

    /// As [`Cache::is_empty`](crate::Cache::is_empty).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    #[doc = example!()]
    /// assert!(cache.is_empty()?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        self.cache.is_empty()
    }

    /// As [`Cache::stats`](crate::Cache::stats).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    #[doc = example!()]
    /// assert_eq!(cache.stats()?.keys, 0);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn stats(&self) -> Result<Stats> {
        self.cache.stats()
    }

    /// As [`AnyMap::huge_bytes`](crate::AnyMap::huge_bytes).
    ///
    /// ```
    #[doc = example!()]
    /// assert!(cache.huge_bytes().is_some());
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn huge_bytes(&self) -> Option<u64> {
        self.cache.map.huge_bytes()
    }

    /// As [`AnyMap::check_watched`](crate::AnyMap::check_watched).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    #[doc = example!()]
    /// cache.check_watched(&mut |finding| panic!("{finding:?}"), &mut |_, _| ())?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn check_watched(
        &self,
        found: &mut dyn FnMut(Finding),
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let _rest = self.cache.inner.rest();
        self.cache.map.handle.run(|engine| engine.check(found, watch))
    }

    /// As [`Cache::step`](crate::Cache::step); of a cache that is only read, as [`AnyMap::step`](crate::AnyMap::step).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    #[doc = example!()]
    /// while cache.step()? {}
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn step(&self) -> Result<bool> {
        if self.cache.map.handle.engine.store.is_read_only() {
            return self.cache.map.step();
        }
        self.cache.step()
    }

    /// As [`Cache::design`](crate::Cache::design).
    ///
    /// ```
    #[doc = example!()]
    /// println!("design: {}", cache.design());
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn design(&self) -> Design {
        self.cache.design()
    }

    /// As [`Cache::durability`](crate::Cache::durability).
    ///
    /// ```
    #[doc = example!()]
    /// println!("survives: {}", cache.durability());
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.cache.durability()
    }

    /// As [`Cache::path`](crate::Cache::path).
    ///
    /// ```
    #[doc = example!()]
    /// assert_eq!(cache.path(), None);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.cache.path()
    }

    /// As [`Cache::close`](crate::Cache::close).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    #[doc = example!()]
    /// cache.close()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        self.cache.close()
    }
}

impl fmt::Debug for AnyCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cache.map.handle.engine.describe("AnyCache", f)
    }
}
