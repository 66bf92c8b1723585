//! Maps whose types and design are known at run time.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use durahash_media::{Durability, Result};

use super::{any_example, any_methods};
use crate::api::common::handle_methods;
use crate::api::compact;
use crate::api::options::{Compiled, Options};
use crate::engine::chain::Rule;
use crate::engine::core::{Pair, Untyped};
use crate::engine::data::Type;
use crate::engine::design::Design;
use crate::engine::entries::Entries;
use crate::engine::map::Raw;
use crate::engine::stats::Stats;
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
    any_methods!(AnyMap, Raw, multi: "");

    /// Writes the pool at `path` anew, without gaps, and puts it in the old one's place. Seed,
    /// types, design and limits stay.
    ///
    /// **Durability.** A crash at any point leaves the old pool or the new one, whole. It may leave
    /// a file beside it, named `.NAME.compact~`, which the next compaction removes.
    /// **Concurrency.** The pool is locked throughout, also under its new file. Owner and
    /// permissions stay.
    ///
    /// # Errors
    /// As [`Options::open`] and [`Options::create`]; [`Corrupt`](crate::ErrorKind::Corrupt) where an entry is
    /// damaged, [`Options`](crate::ErrorKind::Options) for a suspect pool, and [`Io`](crate::ErrorKind::Io) where the new file
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

    /// The value of `key`.
    ///
    /// # Errors
    /// As [`Map::get`](crate::Map::get); [`Text`](crate::ErrorKind::Text).
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
            match raw.index.get(raw.word_hash(&key))? {
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
    /// As [`Map::put`](crate::Map::put); [`Text`](crate::ErrorKind::Text).
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
            raw.index.update(raw.word_hash(&key), Room::ForNew, &mut |_| Ok(new)).map(drop)
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
    /// As [`Map::remove`](crate::Map::remove); [`Text`](crate::ErrorKind::Text).
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
            Ok(raw.index.update(raw.word_hash(&key), Room::None, remove)?.is_some())
        } else {
            Ok(raw.change(&key, None, Rule::Always, None)?.1)
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
    /// let map = AnyMap::create(&path, Type::U64, Type::U64, &Options::new())?;
    /// map.put(b"1", b"10")?;
    /// for pair in map.iter() {
    ///     assert_eq!(pair?, (b"1".to_vec(), b"10".to_vec()));
    /// }
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn iter(&self) -> AnyIter {
        AnyIter(Entries::new(Arc::clone(&self.raw)))
    }

    handle_methods! {
        entries: "keys",
        example: any_example!(AnyMap),
        put: "map.put(b\"1\", b\"one\")?;"
    }
}

impl fmt::Debug for AnyMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.describe("AnyMap", f)
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
pub struct AnyIter(Entries<Raw>);

impl Iterator for AnyIter {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Result<Pair>> {
        self.0.next_texts()
    }
}
