//! Multimaps whose types are known at run time.

use durahash_media::Result;

use super::{AnyMultiMap, any_example};
use crate::engine::record::check_sizes;

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
            let mut all = Vec::new();
            let key = engine.key.parse(key)?;
            self.each_raw(&key, |value| all.push(engine.value.show(value.to_vec())))?;
            all.into_iter().collect()
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
        self.handle.run(|engine| self.count_raw(&engine.key.parse(key)?))
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
        self.handle.run(|engine| self.add_raw(&engine.key.parse(key)?, &engine.value.parse(value)?))
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
        self.handle
            .run(|engine| self.remove_one_raw(&engine.key.parse(key)?, &engine.value.parse(value)?))
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
        self.handle.run(|engine| self.remove_all_raw(&engine.key.parse(key)?))
    }
}
