//! Maps whose types and design are known at run time.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use durahash_media::{Durability, ErrorKind, Result};

use crate::chain::{Pair, Rule};
use crate::compact;
use crate::data::Type;
use crate::design::Design;
use crate::index::{Change, Finding, Room};
use crate::iter::{Pairs, Slots};
use crate::options::{Options, is_missing};
use crate::raw::{Core, Raw};
use crate::stats::Stats;

/// A map whose types and design are those of the pool that it finds: for command lines, servers and
/// other languages.
///
/// Keys and values are texts of their types: integers in decimal, `bool` as `true` or `false`,
/// `char` and `str` in UTF-8, bytes as they are. A text that is none of the pool's type is
/// [`ErrorKind::Text`].
///
/// Durability and concurrency are those of [`Map`](crate::Map), method by method.
///
/// ```
/// use durahash::{AnyMap, Map, Options};
///
/// # fn main() -> durahash::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("ages.pool");
/// let ages: Map<str, u32> = Options::new().create(&path)?;
/// ages.put("Ada", &36)?;
/// ages.close()?;
///
/// let any = AnyMap::open(&path, &Options::new())?;
/// assert_eq!(any.get(b"Ada")?, Some(b"36".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnyMap {
    raw: Arc<Raw>,
}

impl AnyMap {
    /// Creates a pool file at `path` for keys and values of these types.
    ///
    /// # Errors
    /// As [`Options::create`].
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn create(
        path: impl AsRef<Path>,
        key: Type,
        value: Type,
        options: &Options,
    ) -> Result<Self> {
        options.create_raw(path.as_ref(), key, value).map(Self::new)
    }

    /// Opens the pool file at `path`, whatever its types.
    ///
    /// # Errors
    /// As [`Options::open`].
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// # AnyMap::create(&path, Type::U64, Type::U64, &Options::new())?.close()?;
    /// let map = AnyMap::open(&path, &Options::new())?;
    /// assert_eq!(map.key_type(), Type::U64);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        options.open_raw(path.as_ref(), &|_, _, _| Ok(())).map(Self::new)
    }

    /// Opens the pool file at `path`, or creates it for these types where there is none.
    ///
    /// # Errors
    /// As [`Options::open_or_create`].
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::open_or_create(&path, Type::Bytes, Type::Bytes, &Options::new())?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn open_or_create(
        path: impl AsRef<Path>,
        key: Type,
        value: Type,
        options: &Options,
    ) -> Result<Self> {
        let path = path.as_ref();
        match Self::open(path, options) {
            Err(e) if is_missing(&e) => {}
            opened => return opened,
        }
        match Self::create(path, key, value, options) {
            // Somebody else was quicker.
            Err(e) if matches!(e.kind(), ErrorKind::Exists) => Self::open(path, options),
            created => created,
        }
    }

    /// Writes the pool at `path` anew, without gaps, and puts it in the old one's place. Seed,
    /// types, design and limits stay.
    ///
    /// **Durability.** A crash at any point leaves the old pool or the new one, whole. It may leave
    /// a file beside it, named `.NAME.compact~`, which the next compaction removes.
    /// **Concurrency.** The pool is locked throughout, also under its new file. Owner and
    /// permissions stay.
    ///
    /// # Errors
    /// As [`Options::open`] and [`Options::create`]; [`ErrorKind::Corrupt`] where an entry is
    /// damaged, [`ErrorKind::Options`] for a suspect pool, and [`ErrorKind::Io`] where the new file
    /// cannot get the old one's owner. The old pool stays as it is, unless it was the directory
    /// that could not be synced at last: the new pool is in place then, and nothing is lost.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// # AnyMap::create(&path, Type::U64, Type::U64, &Options::new())?.close()?;
    /// AnyMap::compact(&path, &Options::new())?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn compact(path: impl AsRef<Path>, options: &Options) -> Result<()> {
        Self::compact_watched(path, options, &mut |_, _| ())
    }

    /// The same, and tells `watch` how many slots of how many were copied.
    ///
    /// # Errors
    /// As [`compact`](AnyMap::compact).
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// # AnyMap::create(&path, Type::U64, Type::U64, &Options::new())?.close()?;
    /// AnyMap::compact_watched(&path, &Options::new(), &mut |done, of| println!("{done} of {of}"))?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn compact_watched(
        path: impl AsRef<Path>,
        options: &Options,
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        compact::compact::<Raw>(path.as_ref(), options, watch)
    }

    fn new(raw: Raw) -> Self {
        AnyMap { raw: Arc::new(raw) }
    }

    /// The type of the keys.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// assert_eq!(map.key_type(), Type::U64);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn key_type(&self) -> Type {
        self.raw.key
    }

    /// The type of the values.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// assert_eq!(map.value_type(), Type::Str);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn value_type(&self) -> Type {
        self.raw.value
    }

    /// The design.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// assert_eq!(map.design().to_string(), "reh");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn design(&self) -> Design {
        self.raw.design
    }

    /// What an acknowledged operation survives.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// println!("survives: {}", map.durability());
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.raw.store.durability()
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.raw.mix.mix(Type::word(key))
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// As [`Map::get`](crate::Map::get); [`ErrorKind::Text`].
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// map.put(b"1", b"one")?;
    /// assert_eq!(map.get(b"1")?, Some(b"one".to_vec()));
    /// assert_eq!(map.get(b"one").unwrap_err().to_string(), "\"one\" is no u64");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let raw = &self.raw;
        let key = raw.key.parse(key)?;
        let value = if raw.is_words() {
            match raw.index.get(self.hash(&key))? {
                Some(word) => raw.value.unword(word)?,
                None => return Ok(None),
            }
        } else {
            let mut value = Vec::new();
            if !raw.get_bytes(&key, &mut value)? {
                return Ok(None);
            }
            value
        };
        raw.value.show(value).map(Some)
    }

    /// Inserts or replaces the value of `key`.
    ///
    /// # Errors
    /// As [`Map::put`](crate::Map::put); [`ErrorKind::Text`].
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// map.put(b"1", b"10")?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let raw = &self.raw;
        let (key, value) = (raw.key.parse(key)?, raw.value.parse(value)?);
        if raw.is_words() {
            let new = Change::Set(Type::word(&value));
            raw.index.update(self.hash(&key), Room::ForNew, &mut |_| Ok(new)).map(drop)
        } else {
            raw.change(&key, Some(&value), Rule::Always, None).map(drop)
        }
    }

    /// Inserts or replaces many, as [`Map::put_many`](crate::Map::put_many).
    ///
    /// # Errors
    /// As [`put`](AnyMap::put). Those before the one that failed are there.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// map.put_many(&[("1", "10"), ("2", "20")])?;
    /// assert_eq!(map.len()?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: &[(K, V)]) -> Result<()> {
        self.raw.batch(|| {
            for (key, value) in pairs {
                self.put(key.as_ref(), value.as_ref())?;
            }
            Ok(())
        })
    }

    /// Removes `key`; whether it was there.
    ///
    /// # Errors
    /// As [`Map::remove`](crate::Map::remove); [`ErrorKind::Text`].
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// map.put(b"1", b"10")?;
    /// assert!(map.remove(b"1")?);
    /// assert!(!map.remove(b"1")?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let raw = &self.raw;
        let key = raw.key.parse(key)?;
        if raw.is_words() {
            let remove = &mut |_| Ok(Change::Remove);
            Ok(raw.index.update(self.hash(&key), Room::None, remove)?.is_some())
        } else {
            Ok(raw.change(&key, None, Rule::Always, None)?.1)
        }
    }

    /// All keys and values, as [`Map::iter`](crate::Map::iter) gives them.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// map.put(b"1", b"10")?;
    /// for pair in map.iter() {
    ///     assert_eq!(pair?, (b"1".to_vec(), b"10".to_vec()));
    /// }
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn iter(&self) -> AnyIter {
        let raw = Arc::clone(&self.raw);
        AnyIter(if raw.is_words() {
            Source::Words(Slots::new(raw))
        } else {
            Source::Bytes(Pairs::new(raw))
        })
    }

    /// As [`Map::len`](crate::Map::len).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// map.put(b"1", b"one")?;
    /// assert_eq!(map.len()?, 1);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn len(&self) -> Result<u64> {
        self.raw.len()
    }

    /// As [`Map::is_empty`](crate::Map::is_empty).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// assert!(map.is_empty()?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        self.raw.index.is_empty()
    }

    /// As [`Map::clear`](crate::Map::clear).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// map.put(b"1", b"one")?;
    /// map.clear()?;
    /// assert!(map.is_empty()?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn clear(&self) -> Result<()> {
        self.raw.clear()
    }

    /// As [`Map::stats`](crate::Map::stats).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// assert_eq!(map.stats()?.keys, 0);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn stats(&self) -> Result<Stats> {
        self.raw.stats()
    }

    /// As [`Map::check`](crate::Map::check).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// map.check(&mut |finding| panic!("{finding:?}"))?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.check_watched(found, &mut |_, _| ())
    }

    /// The same, and tells `watch` how many slots of how many were looked at.
    ///
    /// # Errors
    /// As [`check`](AnyMap::check).
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// map.check_watched(
    ///     &mut |finding| panic!("{finding:?}"),
    ///     &mut |done, of| println!("{done} of {of}"),
    /// )?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn check_watched(
        &self,
        found: &mut dyn FnMut(Finding),
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        self.raw.check(found, watch)
    }

    /// As [`Map::step`](crate::Map::step).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// while map.step()? {}
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn step(&self) -> Result<bool> {
        self.raw.step()
    }

    /// As [`Map::close`](crate::Map::close).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// map.close()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        Arc::into_inner(self.raw).map_or(Ok(()), Raw::close)
    }
}

impl fmt::Debug for AnyMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Core { key, value, design, .. } = &**self.raw;
        write!(f, "AnyMap<{key}, {value}> ({design})")
    }
}

impl IntoIterator for &AnyMap {
    type Item = Result<Pair>;
    type IntoIter = AnyIter;

    fn into_iter(self) -> AnyIter {
        self.iter()
    }
}

/// Iterator over an [`AnyMap`]. See [`AnyMap::iter`].
///
/// ```
/// use durahash::{AnyMap, Options, Type};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("map.pool");
/// let map = AnyMap::create(&path, Type::U64, Type::U64, &Options::new())?;
/// map.put(b"1", b"10")?;
/// for pair in map.iter() {
///     let (key, value) = pair?;
///     assert_eq!((&key[..], &value[..]), (&b"1"[..], &b"10"[..]));
/// }
/// # Ok::<(), durahash::Error>(())
/// ```
pub struct AnyIter(Source);

enum Source {
    Words(Slots),
    Bytes(Pairs),
}

impl Iterator for AnyIter {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        Some(match &mut self.0 {
            Source::Words(slots) => slots.next()?.and_then(|(h, word)| {
                let Core { mix, key, value, .. } = &**slots.raw();
                let bytes = (key.unword(mix.unmix(h))?, value.unword(word)?);
                Ok((key.show(bytes.0)?, value.show(bytes.1)?))
            }),
            Source::Bytes(pairs) => pairs.next()?.and_then(|(k, v)| {
                let Core { key, value, .. } = &**pairs.raw();
                Ok((key.show(k)?, value.show(v)?))
            }),
        })
    }
}
