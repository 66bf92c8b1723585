//! Maps whose types and design are known at run time.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use durahash_media::{Durability, Result};

use super::{any_example, any_methods};
use crate::api::common::common_methods;
use crate::engine::data::Type;
use crate::engine::design::Design;
use crate::engine::edit::Rule;
use crate::engine::entries::Entries;
use crate::engine::records::Pair;
use crate::engine::stats::Stats;
use crate::engine::{Engine, Single};
use crate::index::{Change, Finding, Room};

/// A map whose types and design are those of the pool that it finds: for command lines, servers and
/// other languages.
///
/// Keys and values are texts of their types: integers in decimal, `bool` as `true` or `false`,
/// `char` and `str` in UTF-8, bytes as they are. A text that is none of the pool's type is
/// [`Text`](crate::ErrorKind::Text).
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
/// let any: AnyMap = Options::new().open(&path)?;
/// assert_eq!(any.get(b"Ada")?, Some(b"36".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnyMap {
    engine: Arc<Engine<Single>>,
}

impl AnyMap {
    any_methods!(AnyMap, Single);

    /// The value of `key`.
    ///
    /// # Errors
    /// As [`Map::get`](crate::Map::get); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map: AnyMap = Options::new().types(Type::U64, Type::Str).create(&path)?;
    /// map.put(b"1", b"one")?;
    /// assert_eq!(map.get(b"1")?, Some(b"one".to_vec()));
    /// assert_eq!(map.get(b"one").unwrap_err().to_string(), "\"one\" is not a valid u64");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let engine = &self.engine;
        let key = engine.key.parse(key)?;
        let value = if engine.is_words() {
            match engine.index.get(engine.word_hash(&key))? {
                Some(word) => engine.value.unword(word)?,
                None => return Ok(None),
            }
        } else {
            let mut value = Vec::new();
            if !engine.get_bytes(&key, &mut value)? {
                return Ok(None);
            }
            value
        };
        engine.value.show(value).map(Some)
    }

    /// Inserts or replaces the value of `key`.
    ///
    /// # Errors
    /// As [`Map::put`](crate::Map::put); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map: AnyMap = Options::new().types(Type::U64, Type::U64).create(&path)?;
    /// map.put(b"1", b"10")?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let engine = &self.engine;
        let (key, value) = (engine.key.parse(key)?, engine.value.parse(value)?);
        if engine.is_words() {
            let new = Change::Set(Type::word(&value));
            engine.index.update(engine.word_hash(&key), Room::ForNew, &mut |_| Ok(new)).map(drop)
        } else {
            engine.change(&key, Some(&value), Rule::Always, None).map(drop)
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
    /// let map: AnyMap = Options::new().types(Type::U64, Type::U64).create(&path)?;
    /// map.put_many(&[("1", "10"), ("2", "20")])?;
    /// assert_eq!(map.len()?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: &[(K, V)]) -> Result<()> {
        self.engine.batch(|| {
            for (key, value) in pairs {
                self.put(key.as_ref(), value.as_ref())?;
            }
            Ok(())
        })
    }

    /// Removes `key`; false if it was not there.
    ///
    /// # Errors
    /// As [`Map::remove`](crate::Map::remove); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map: AnyMap = Options::new().types(Type::U64, Type::U64).create(&path)?;
    /// map.put(b"1", b"10")?;
    /// assert!(map.remove(b"1")?);
    /// assert!(!map.remove(b"1")?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        let engine = &self.engine;
        let key = engine.key.parse(key)?;
        if engine.is_words() {
            let remove = &mut |_| Ok(Change::Remove);
            Ok(engine.index.update(engine.word_hash(&key), Room::None, remove)?.is_some())
        } else {
            Ok(engine.change(&key, None, Rule::Always, None)?.1)
        }
    }

    /// All keys and values, as [`Map::iter`](crate::Map::iter) gives them.
    ///
    /// # Errors
    /// An item is an error where an entry is damaged; the iterator goes on behind it if it can.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map: AnyMap = Options::new().types(Type::U64, Type::U64).create(&path)?;
    /// map.put(b"1", b"10")?;
    /// for pair in map.iter() {
    ///     assert_eq!(pair?, (b"1".to_vec(), b"10".to_vec()));
    /// }
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn iter(&self) -> AnyIter {
        AnyIter(Entries::new(Arc::clone(&self.engine)))
    }

    common_methods! {
        entries: "keys",
        example: any_example!(AnyMap),
        put: "map.put(b\"1\", b\"one\")?;"
    }
}

// As of a map with types.
impl UnwindSafe for AnyMap {}
impl RefUnwindSafe for AnyMap {}

impl fmt::Debug for AnyMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.engine.describe("AnyMap", f)
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
/// let map: AnyMap = Options::new().types(Type::U64, Type::U64).create(&path)?;
/// map.put(b"1", b"10")?;
/// for pair in map.iter() {
///     let (key, value) = pair?;
///     assert_eq!((&key[..], &value[..]), (&b"1"[..], &b"10"[..]));
/// }
/// # Ok::<(), durahash::Error>(())
/// ```
pub struct AnyIter(Entries<Single>);

impl Iterator for AnyIter {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        self.0.next_texts()
    }
}
