//! Multimaps whose types are known at run time.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use durahash_media::{Durability, ErrorKind, Result};

use crate::chain::Pair;
use crate::compact;
use crate::data::Type;
use crate::design::Design;
use crate::index::{Finding, OneKey, Values};
use crate::multi_iter::{MultiPairs, MultiWords};
use crate::multi_raw::MultiRaw;
use crate::options::{Options, is_missing};
use crate::raw::Core;
use crate::record::check_sizes;
use crate::stats::Stats;

/// A multimap whose types are those of the pool that it finds, as [`AnyMap`](crate::AnyMap) is for
/// maps: keys and values are texts of their types.
///
/// Durability and concurrency are those of [`MultiMap`](crate::MultiMap), method by method.
///
/// ```
/// use durahash::{AnyMultiMap, MultiMap, Options};
///
/// # fn main() -> durahash::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("edges.pool");
/// let edges: MultiMap<u32, u32> = Options::new().create_multi(&path)?;
/// edges.add(&1, &2)?;
/// edges.close()?;
///
/// let any = AnyMultiMap::open(&path, &Options::new())?;
/// assert_eq!(any.get_all(b"1")?, [b"2"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnyMultiMap {
    raw: Arc<MultiRaw>,
}

impl AnyMultiMap {
    /// Creates a pool file at `path` for keys and values of these types.
    ///
    /// # Errors
    /// As [`Options::create_multi`].
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::U64, &Options::new())?;
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
    /// As [`Options::open_multi`].
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// # AnyMultiMap::create(&path, Type::U64, Type::U64, &Options::new())?.close()?;
    /// let map = AnyMultiMap::open(&path, &Options::new())?;
    /// assert_eq!(map.key_type(), Type::U64);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        options.open_raw(path.as_ref(), &|_, _, _| Ok(())).map(Self::new)
    }

    /// Opens the pool file at `path`, or creates it for these types where there is none.
    ///
    /// # Errors
    /// As [`Options::open_or_create_multi`].
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::open_or_create(&path, Type::Str, Type::U64, &Options::new())?;
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

    fn new(raw: MultiRaw) -> Self {
        AnyMultiMap { raw: Arc::new(raw) }
    }

    /// The type of the keys.
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
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
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
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
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// assert_eq!(map.design().to_string(), "pea");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn design(&self) -> Design {
        self.raw.design
    }

    /// What an acknowledged operation survives.
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
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

    /// All values of `key`, in no order.
    ///
    /// # Errors
    /// As [`MultiMap::get_all`](crate::MultiMap::get_all); [`ErrorKind::Text`].
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// map.add(b"1", b"one")?;
    /// assert_eq!(map.get_all(b"1")?, [b"one"]);
    /// assert_eq!(map.get_all(b"one").unwrap_err().to_string(), "\"one\" is no u64");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        let raw = &self.raw;
        let key = raw.key.parse(key)?;
        let mut all = Vec::new();
        if raw.is_words() {
            let mut found = Values::default();
            raw.index.read(self.hash(&key), &OneKey, &mut found, &mut |_, _| Ok(()))?;
            for word in found.payloads {
                all.push(raw.value.show(raw.value.unword(word)?)?);
            }
        } else {
            raw.each_value(&key, &mut |bytes| {
                all.push(raw.value.show(bytes.to_vec())?);
                Ok(())
            })?;
        }
        Ok(all)
    }

    /// How many values `key` has.
    ///
    /// # Errors
    /// As [`MultiMap::count`](crate::MultiMap::count); [`ErrorKind::Text`].
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// map.add(b"1", b"one")?;
    /// assert_eq!(map.count(b"1")?, 1);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn count(&self, key: &[u8]) -> Result<u64> {
        let key = self.raw.key.parse(key)?;
        if self.raw.is_words() {
            return self.raw.index.count(self.hash(&key), &OneKey);
        }
        self.raw.count(&key)
    }

    /// Adds a value of `key`.
    ///
    /// # Errors
    /// As [`MultiMap::add`](crate::MultiMap::add); [`ErrorKind::Text`].
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// map.add(b"1", b"10")?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn add(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let raw = &self.raw;
        let (key, value) = (raw.key.parse(key)?, raw.value.parse(value)?);
        if raw.is_words() {
            raw.add_word(self.hash(&key), Type::word(&value))
        } else {
            raw.add(&key, &value)
        }
    }

    /// Whether a pair could be added: whether its texts are of the pool's types, and not too large.
    /// Who is going to add many asks before, since an error does not tell how many were added.
    ///
    /// # Errors
    /// [`ErrorKind::Text`], [`ErrorKind::TooLarge`].
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// assert!(map.accepts(b"1", b"10").is_ok() && map.accepts(b"1", b"x").is_err());
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn accepts(&self, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(&self.raw.key.parse(key)?, &self.raw.value.parse(value)?)
    }

    /// Adds many, as [`MultiMap::add_many`](crate::MultiMap::add_many).
    ///
    /// # Errors
    /// As [`add`](AnyMultiMap::add). Those before the one that failed are there.
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// map.add_many(&[("1", "10"), ("1", "20")])?;
    /// assert_eq!(map.len()?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn add_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: &[(K, V)]) -> Result<()> {
        self.raw.batch(|| {
            for (key, value) in pairs {
                self.add(key.as_ref(), value.as_ref())?;
            }
            Ok(())
        })
    }

    /// Writes the pool at `path` anew, without gaps, as [`AnyMap::compact`](crate::AnyMap::compact).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// # AnyMultiMap::create(&path, Type::U64, Type::U64, &Options::new())?.close()?;
    /// AnyMultiMap::compact_watched(&path, &Options::new(), &mut |done, of| println!("{done} of {of}"))?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn compact_watched(
        path: impl AsRef<Path>,
        options: &Options,
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        compact::compact::<MultiRaw>(path.as_ref(), options, watch)
    }

    /// Removes one of the values of `key` that equal `value`; whether there was one.
    ///
    /// # Errors
    /// As [`MultiMap::remove_one`](crate::MultiMap::remove_one); [`ErrorKind::Text`].
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// map.add(b"1", b"10")?;
    /// assert!(map.remove_one(b"1", b"10")?);
    /// assert!(!map.remove_one(b"1", b"10")?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove_one(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let raw = &self.raw;
        let (key, value) = (raw.key.parse(key)?, raw.value.parse(value)?);
        if raw.is_words() {
            let word = Type::word(&value);
            let wanted = &mut |v| Ok(v == word);
            return Ok(raw.index.remove_one(self.hash(&key), &OneKey, wanted)?.is_some());
        }
        raw.remove_one(&key, &value)
    }

    /// Removes all values of `key` at once; how many they were.
    ///
    /// # Errors
    /// As [`MultiMap::remove_all`](crate::MultiMap::remove_all); [`ErrorKind::Text`].
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// map.add(b"1", b"10")?;
    /// map.add(b"1", b"10")?;
    /// assert_eq!(map.remove_all(b"1")?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove_all(&self, key: &[u8]) -> Result<u64> {
        let key = self.raw.key.parse(key)?;
        if self.raw.is_words() {
            return self.raw.index.remove_all(self.hash(&key), &OneKey, None);
        }
        self.raw.remove_all(&key)
    }

    /// All keys and values, as [`MultiMap::iter`](crate::MultiMap::iter) gives them.
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// map.add(b"1", b"10")?;
    /// for pair in map.iter() {
    ///     assert_eq!(pair?, (b"1".to_vec(), b"10".to_vec()));
    /// }
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn iter(&self) -> AnyMultiIter {
        let raw = Arc::clone(&self.raw);
        AnyMultiIter(if raw.is_words() {
            Source::Words(MultiWords::new(raw))
        } else {
            Source::Bytes(MultiPairs::new(raw))
        })
    }

    /// As [`MultiMap::len`](crate::MultiMap::len).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// map.add(b"1", b"one")?;
    /// assert_eq!(map.len()?, 1);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn len(&self) -> Result<u64> {
        self.raw.index.len()
    }

    /// As [`MultiMap::is_empty`](crate::MultiMap::is_empty).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// assert!(map.is_empty()?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        self.raw.index.is_empty()
    }

    /// As [`MultiMap::clear`](crate::MultiMap::clear).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// map.add(b"1", b"one")?;
    /// map.clear()?;
    /// assert!(map.is_empty()?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn clear(&self) -> Result<()> {
        self.raw.clear()
    }

    /// As [`MultiMap::stats`](crate::MultiMap::stats).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// assert_eq!(map.stats()?.keys, 0);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn stats(&self) -> Result<Stats> {
        self.raw.stats()
    }

    /// As [`MultiMap::check`](crate::MultiMap::check).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// map.check(&mut |finding| panic!("{finding:?}"))?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.check_watched(found, &mut |_, _| ())
    }

    /// The same, and tells `watch` how many entries of how many were looked at.
    ///
    /// # Errors
    /// As [`check`](AnyMultiMap::check).
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::U64, &Options::new())?;
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

    /// As [`MultiMap::step`](crate::MultiMap::step).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// while map.step()? {}
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn step(&self) -> Result<bool> {
        self.raw.step()
    }

    /// As [`MultiMap::close`](crate::MultiMap::close).
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = AnyMultiMap::create(&path, Type::U64, Type::Str, &Options::new())?;
    /// map.close()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        Arc::into_inner(self.raw).map_or(Ok(()), MultiRaw::close)
    }
}

impl fmt::Debug for AnyMultiMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Core { key, value, design, .. } = &**self.raw;
        write!(f, "AnyMultiMap<{key}, {value}> ({design})")
    }
}

impl IntoIterator for &AnyMultiMap {
    type Item = Result<Pair>;
    type IntoIter = AnyMultiIter;

    fn into_iter(self) -> AnyMultiIter {
        self.iter()
    }
}

/// Iterator over an [`AnyMultiMap`]. See [`AnyMultiMap::iter`].
///
/// ```
/// use durahash::{AnyMultiMap, Options, Type};
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("map.pool");
/// let map = AnyMultiMap::create(&path, Type::U64, Type::U64, &Options::new())?;
/// map.add(b"1", b"10")?;
/// for pair in map.iter() {
///     let (key, value) = pair?;
///     assert_eq!((&key[..], &value[..]), (&b"1"[..], &b"10"[..]));
/// }
/// # Ok::<(), durahash::Error>(())
/// ```
pub struct AnyMultiIter(Source);

enum Source {
    Words(MultiWords),
    Bytes(MultiPairs),
}

impl Iterator for AnyMultiIter {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        Some(match &mut self.0 {
            Source::Words(words) => words.next()?.and_then(|(h, word)| {
                let Core { mix, key, value, .. } = &**words.raw();
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
