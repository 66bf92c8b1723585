//! Multimaps whose types are known at run time.

use durahash_media::Result;

use super::{AnyMultiMap, any_example};
use crate::engine::data::Type;
use crate::engine::record::check_sizes;
use crate::index::{OneKey, Values};

impl AnyMultiMap {
    /// All values of `key`, in no order.
    ///
    /// # Errors
    /// As [`MultiMap::get_all`](crate::MultiMap::get_all); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    #[doc = any_example!(AnyMultiMap)]
    /// map.add(b"1", b"one")?;
    /// assert_eq!(map.get_all(b"1")?, [b"one"]);
    /// assert_eq!(map.get_all(b"one").unwrap_err().to_string(), "\"one\" is not a valid u64");
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn get_all(&self, key: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.handle.run(|engine| {
            let key = engine.key.parse(key)?;
            let mut all = Vec::new();
            if engine.is_words() {
                let mut found = Values::default();
                engine
                    .index
                    .read(engine.word_hash(&key), &OneKey, &mut found, &mut |_, _| Ok(()))?;
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
        })
    }

    /// Returns the number of values of `key`.
    ///
    /// # Errors
    /// As [`MultiMap::count`](crate::MultiMap::count); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    #[doc = any_example!(AnyMultiMap)]
    /// map.add(b"1", b"one")?;
    /// assert_eq!(map.count(b"1")?, 1);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn count(&self, key: &[u8]) -> Result<u64> {
        self.handle.run(|engine| {
            let key = engine.key.parse(key)?;
            if engine.is_words() {
                return engine.index.count(engine.word_hash(&key), &OneKey);
            }
            engine.count(&key)
        })
    }

    /// Adds a value of `key`.
    ///
    /// # Errors
    /// As [`MultiMap::add`](crate::MultiMap::add); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    #[doc = any_example!(AnyMultiMap)]
    /// map.add(b"1", b"10")?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn add(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.handle.run(|engine| {
            let (key, value) = (engine.key.parse(key)?, engine.value.parse(value)?);
            if engine.is_words() {
                engine.add_word(engine.word_hash(&key), Type::word(&value))
            } else {
                engine.add(&key, &value)
            }
        })
    }

    /// Checks that a pair could be added: that its texts are of the pool's types, and not too large. Check all
    /// pairs before [`add_many`](AnyMultiMap::add_many), since its error does not tell how many were added.
    ///
    /// # Errors
    /// [`Text`](crate::ErrorKind::Text), [`TooLarge`](crate::ErrorKind::TooLarge).
    ///
    /// ```
    #[doc = any_example!(AnyMultiMap)]
    /// assert!(map.accepts(b"1", b"10").is_ok() && map.accepts(b"x", b"10").is_err());
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn accepts(&self, key: &[u8], value: &[u8]) -> Result<()> {
        self.handle.run(|engine| check_sizes(&engine.key.parse(key)?, &engine.value.parse(value)?))
    }

    /// Adds many, as [`MultiMap::add_many`](crate::MultiMap::add_many).
    ///
    /// # Errors
    /// As [`add`](AnyMultiMap::add). Those before the one that failed are there.
    ///
    /// ```
    #[doc = any_example!(AnyMultiMap)]
    /// map.add_many(&[("1", "10"), ("1", "20")])?;
    /// assert_eq!(map.len()?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn add_many<K: AsRef<[u8]>, V: AsRef<[u8]>>(&self, pairs: &[(K, V)]) -> Result<()> {
        self.handle.run(|engine| {
            engine.batch(|| {
                for (key, value) in pairs {
                    self.add(key.as_ref(), value.as_ref())?;
                }
                Ok(())
            })
        })
    }

    /// Removes one of the values of `key` that equal `value`; false if there was none.
    ///
    /// # Errors
    /// As [`MultiMap::remove_one`](crate::MultiMap::remove_one); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    #[doc = any_example!(AnyMultiMap)]
    /// map.add(b"1", b"10")?;
    /// assert!(map.remove_one(b"1", b"10")?);
    /// assert!(!map.remove_one(b"1", b"10")?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove_one(&self, key: &[u8], value: &[u8]) -> Result<bool> {
        self.handle.run(|engine| {
            let (key, value) = (engine.key.parse(key)?, engine.value.parse(value)?);
            if engine.is_words() {
                let word = Type::word(&value);
                let wanted = &mut |v| Ok(v == word);
                return Ok(engine
                    .index
                    .remove_one(engine.word_hash(&key), &OneKey, wanted)?
                    .is_some());
            }
            engine.remove_one(&key, &value)
        })
    }

    /// Removes all values of `key` at once; how many they were.
    ///
    /// # Errors
    /// As [`MultiMap::remove_all`](crate::MultiMap::remove_all); [`Text`](crate::ErrorKind::Text).
    ///
    /// ```
    #[doc = any_example!(AnyMultiMap)]
    /// map.add(b"1", b"10")?;
    /// map.add(b"1", b"10")?;
    /// assert_eq!(map.remove_all(b"1")?, 2);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove_all(&self, key: &[u8]) -> Result<u64> {
        self.handle.run(|engine| {
            let key = engine.key.parse(key)?;
            if engine.is_words() {
                return engine.index.remove_all(engine.word_hash(&key), &OneKey, None);
            }
            engine.remove_all(&key)
        })
    }
}
