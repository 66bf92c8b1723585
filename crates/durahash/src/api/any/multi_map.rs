//! Multimaps whose types are known at run time.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use durahash_media::{Durability, Result};

use super::{any_example, any_methods};
use crate::api::common::handle_methods;
use crate::api::compact;
use crate::api::options::{Compiled, Options};
use crate::engine::core::{Pair, Untyped};
use crate::engine::data::Type;
use crate::engine::design::Design;
use crate::engine::entries::Entries;
use crate::engine::multi_map::MultiRaw;
use crate::engine::record::check_sizes;
use crate::engine::stats::Stats;
use crate::index::{Finding, OneKey, Values};

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
    any_methods!(AnyMultiMap, MultiRaw, multi: "_multi");

    /// All values of `key`, in no order.
    ///
    /// # Errors
    /// As [`MultiMap::get_all`](crate::MultiMap::get_all); [`Text`](crate::ErrorKind::Text).
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
            raw.index.read(raw.word_hash(&key), &OneKey, &mut found, &mut |_, _| Ok(()))?;
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
    /// As [`MultiMap::count`](crate::MultiMap::count); [`Text`](crate::ErrorKind::Text).
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
            return self.raw.index.count(self.raw.word_hash(&key), &OneKey);
        }
        self.raw.count(&key)
    }

    /// Adds a value of `key`.
    ///
    /// # Errors
    /// As [`MultiMap::add`](crate::MultiMap::add); [`Text`](crate::ErrorKind::Text).
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
            raw.add_word(raw.word_hash(&key), Type::word(&value))
        } else {
            raw.add(&key, &value)
        }
    }

    /// Whether a pair could be added: whether its texts are of the pool's types, and not too large.
    /// Who is going to add many asks before, since an error does not tell how many were added.
    ///
    /// # Errors
    /// [`Text`](crate::ErrorKind::Text), [`TooLarge`](crate::ErrorKind::TooLarge).
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

    /// Removes one of the values of `key` that equal `value`; whether there was one.
    ///
    /// # Errors
    /// As [`MultiMap::remove_one`](crate::MultiMap::remove_one); [`Text`](crate::ErrorKind::Text).
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
            return Ok(raw.index.remove_one(raw.word_hash(&key), &OneKey, wanted)?.is_some());
        }
        raw.remove_one(&key, &value)
    }

    /// Removes all values of `key` at once; how many they were.
    ///
    /// # Errors
    /// As [`MultiMap::remove_all`](crate::MultiMap::remove_all); [`Text`](crate::ErrorKind::Text).
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
            return self.raw.index.remove_all(self.raw.word_hash(&key), &OneKey, None);
        }
        self.raw.remove_all(&key)
    }

    /// All keys and values, as [`MultiMap::iter`](crate::MultiMap::iter) gives them.
    ///
    /// # Errors
    /// An item is an error where an entry is damaged; the iterator goes on behind it if it can.
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
        AnyMultiIter(Entries::new(Arc::clone(&self.raw)))
    }

    handle_methods! {
        entries: "pairs of a key and a value",
        example: any_example!(AnyMultiMap),
        put: "map.add(b\"1\", b\"one\")?;"
    }
}

impl fmt::Debug for AnyMultiMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.describe("AnyMultiMap", f)
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
pub struct AnyMultiIter(Entries<MultiRaw>);

impl Iterator for AnyMultiIter {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        self.0.next_texts()
    }
}
