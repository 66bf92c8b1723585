//! Multimaps whose types are known at run time.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use durahash_media::{Durability, Result};

use super::{any_example, any_methods};
use crate::api::common::common_methods;
use crate::engine::data::Type;
use crate::engine::design::Design;
use crate::engine::entries::Entries;
use crate::engine::record::check_sizes;
use crate::engine::records::Pair;
use crate::engine::stats::Stats;
use crate::engine::{Engine, Multi};
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
/// let edges: MultiMap<u32, u32> = Options::new().create(&path)?;
/// edges.add(&1, &2)?;
/// edges.close()?;
///
/// let any: AnyMultiMap = Options::new().open(&path)?;
/// assert_eq!(any.get_all(b"1")?, [b"2"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnyMultiMap {
    engine: Arc<Engine<Multi>>,
}

impl AnyMultiMap {
    any_methods!(AnyMultiMap, Multi);

    /// All values of `key`, in no order.
    ///
    /// # Errors
    /// As [`MultiMap::get_all`](crate::MultiMap::get_all); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map: AnyMultiMap = Options::new().types(Type::U64, Type::Str).create(&path)?;
    /// map.add(b"1", b"one")?;
    /// assert_eq!(map.get_all(b"1")?, [b"one"]);
    /// assert_eq!(map.get_all(b"one").unwrap_err().to_string(), "\"one\" is not a valid u64");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        let engine = &self.engine;
        let key = engine.key.parse(key)?;
        let mut all = Vec::new();
        if engine.is_words() {
            let mut found = Values::default();
            engine.index.read(engine.word_hash(&key), &OneKey, &mut found, &mut |_, _| Ok(()))?;
            for word in found.payloads {
                all.push(engine.value.show(engine.value.unword(word)?)?);
            }
        } else {
            engine.each_value(&key, &mut |bytes| {
                all.push(engine.value.show(bytes.to_vec())?);
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
    /// let map: AnyMultiMap = Options::new().types(Type::U64, Type::Str).create(&path)?;
    /// map.add(b"1", b"one")?;
    /// assert_eq!(map.count(b"1")?, 1);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn count(&self, key: &[u8]) -> Result<u64> {
        let key = self.engine.key.parse(key)?;
        if self.engine.is_words() {
            return self.engine.index.count(self.engine.word_hash(&key), &OneKey);
        }
        self.engine.count(&key)
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
    /// let map: AnyMultiMap = Options::new().types(Type::U64, Type::U64).create(&path)?;
    /// map.add(b"1", b"10")?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn add(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let engine = &self.engine;
        let (key, value) = (engine.key.parse(key)?, engine.value.parse(value)?);
        if engine.is_words() {
            engine.add_word(engine.word_hash(&key), Type::word(&value))
        } else {
            engine.add(&key, &value)
        }
    }

    /// Checks that a pair could be added: that its texts are of the pool's types, and not too large. Check all
    /// pairs before [`add_many`](AnyMultiMap::add_many), since its error does not tell how many were added.
    ///
    /// # Errors
    /// [`Text`](crate::ErrorKind::Text), [`TooLarge`](crate::ErrorKind::TooLarge).
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map: AnyMultiMap = Options::new().types(Type::U64, Type::U64).create(&path)?;
    /// assert!(map.accepts(b"1", b"10").is_ok() && map.accepts(b"1", b"x").is_err());
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn accepts(&self, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(&self.engine.key.parse(key)?, &self.engine.value.parse(value)?)
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
    /// let map: AnyMultiMap = Options::new().types(Type::U64, Type::U64).create(&path)?;
    /// map.add_many(&[("1", "10"), ("1", "20")])?;
    /// assert_eq!(map.len()?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn add_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: &[(K, V)]) -> Result<()> {
        self.engine.batch(|| {
            for (key, value) in pairs {
                self.add(key.as_ref(), value.as_ref())?;
            }
            Ok(())
        })
    }

    /// Removes one of the values of `key` that equal `value`; false if there was none.
    ///
    /// # Errors
    /// As [`MultiMap::remove_one`](crate::MultiMap::remove_one); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    /// use durahash::{AnyMultiMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map: AnyMultiMap = Options::new().types(Type::U64, Type::U64).create(&path)?;
    /// map.add(b"1", b"10")?;
    /// assert!(map.remove_one(b"1", b"10")?);
    /// assert!(!map.remove_one(b"1", b"10")?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove_one(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        let engine = &self.engine;
        let (key, value) = (engine.key.parse(key)?, engine.value.parse(value)?);
        if engine.is_words() {
            let word = Type::word(&value);
            let wanted = &mut |v| Ok(v == word);
            return Ok(engine.index.remove_one(engine.word_hash(&key), &OneKey, wanted)?.is_some());
        }
        engine.remove_one(&key, &value)
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
    /// let map: AnyMultiMap = Options::new().types(Type::U64, Type::U64).create(&path)?;
    /// map.add(b"1", b"10")?;
    /// map.add(b"1", b"10")?;
    /// assert_eq!(map.remove_all(b"1")?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove_all(&self, key: &[u8]) -> Result<u64> {
        let key = self.engine.key.parse(key)?;
        if self.engine.is_words() {
            return self.engine.index.remove_all(self.engine.word_hash(&key), &OneKey, None);
        }
        self.engine.remove_all(&key)
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
    /// let map: AnyMultiMap = Options::new().types(Type::U64, Type::U64).create(&path)?;
    /// map.add(b"1", b"10")?;
    /// for pair in map.iter() {
    ///     assert_eq!(pair?, (b"1".to_vec(), b"10".to_vec()));
    /// }
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn iter(&self) -> AnyMultiIter {
        AnyMultiIter(Entries::new(Arc::clone(&self.engine)))
    }

    common_methods! {
        entries: "pairs of a key and a value",
        example: any_example!(AnyMultiMap),
        put: "map.add(b\"1\", b\"one\")?;"
    }
}

// As of a map with types.
impl UnwindSafe for AnyMultiMap {}
impl RefUnwindSafe for AnyMultiMap {}

impl fmt::Debug for AnyMultiMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.describe("AnyMultiMap", f)
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
/// let map: AnyMultiMap = Options::new().types(Type::U64, Type::U64).create(&path)?;
/// map.add(b"1", b"10")?;
/// for pair in map.iter() {
///     let (key, value) = pair?;
///     assert_eq!((&key[..], &value[..]), (&b"1"[..], &b"10"[..]));
/// }
/// # Ok::<(), durahash::Error>(())
/// ```
pub struct AnyMultiIter(Entries<Multi>);

impl Iterator for AnyMultiIter {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        self.0.next_texts()
    }
}
