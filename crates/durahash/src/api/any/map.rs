//! Maps whose types and design are known at run time.

use durahash_media::Result;

use super::{AnyMap, any_example};
use crate::engine::edit::Rule;
use crate::index::{Change, Room};

impl AnyMap {
    /// The value of `key`.
    ///
    /// # Errors
    /// As [`Map::get`](crate::Map::get); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    #[doc = any_example!(AnyMap)]
    /// map.put(b"1", b"one")?;
    /// assert_eq!(map.get(b"1")?, Some(b"one".to_vec()));
    /// assert_eq!(map.get(b"one").unwrap_err().to_string(), "\"one\" is not a valid u64");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.handle.run(|engine| {
            let value = self.get_raw(&engine.key.parse(key)?, <[u8]>::to_vec)?;
            value.map(|value| engine.value.show(value)).transpose()
        })
    }

    /// Inserts or replaces the value of `key`.
    ///
    /// # Errors
    /// As [`Map::put`](crate::Map::put); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    #[doc = any_example!(AnyMap)]
    /// map.put(b"1", b"10")?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.handle.run(|engine| self.put_raw(&engine.key.parse(key)?, &engine.value.parse(value)?))
    }

    /// Inserts or replaces many, as [`Map::put_many`](crate::Map::put_many).
    ///
    /// # Errors
    /// As [`put`](AnyMap::put). Those before the one that failed are there.
    ///
    /// ```
    #[doc = any_example!(AnyMap)]
    /// map.put_many(&[("1", "10"), ("2", "20")])?;
    /// assert_eq!(map.len()?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn put_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: &[(K, V)]) -> Result<()> {
        self.handle.run(|engine| {
            engine.batch(|| {
                for (key, value) in pairs {
                    self.put(key.as_ref(), value.as_ref())?;
                }
                Ok(())
            })
        })
    }

    /// Removes `key`; false if it was not there.
    ///
    /// # Errors
    /// As [`Map::remove`](crate::Map::remove); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    #[doc = any_example!(AnyMap)]
    /// map.put(b"1", b"10")?;
    /// assert!(map.remove(b"1")?);
    /// assert!(!map.remove(b"1")?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        self.handle.run(|engine| {
            let key = engine.key.parse(key)?;
            if engine.is_words() {
                let remove = &mut |_| Ok(Change::Remove);
                Ok(engine.update_word(engine.word_hash(&key), Room::None, remove)?.is_some())
            } else {
                Ok(engine.change(&key, None, Rule::Always, None)?.1)
            }
        })
    }
}
