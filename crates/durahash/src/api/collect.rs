//! Maps in memory, made as a `HashMap` is.

use std::borrow::Borrow;

use durahash_media::Result;

use super::map::Map;
use super::options::Options;
use crate::engine::data::Data;

impl<K: Data + ?Sized, V: Data + ?Sized> Map<K, V> {
    /// A map [in memory](Options::in_memory) with room for so many entries. For a file: create it, and
    /// [`reserve`](Map::reserve).
    ///
    /// # Errors
    /// As [`in_memory`](Options::in_memory) and [`reserve`](Map::reserve).
    ///
    /// ```
    /// let map: durahash::Map<u64, u64> = durahash::Map::with_capacity(1000)?;
    /// assert!(map.is_empty()?);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn with_capacity(entries: u64) -> Result<Self> {
        let map: Self = Options::new().in_memory()?;
        map.reserve(entries)?;
        Ok(map)
    }
}

/// A map in memory, for tests and trials: it panics where [`extend`](Map::extend) returns an error. For a file: create it,
/// and `extend`.
///
/// ```
/// let squares: durahash::Map<u64, u64> = (0..10).map(|i| (i, i * i)).collect();
/// assert_eq!(squares.get(&3)?, Some(9));
/// # Ok::<(), durahash::Error>(())
/// ```
impl<K, V, Q, W> FromIterator<(Q, W)> for Map<K, V>
where
    K: Data + ?Sized,
    V: Data + ?Sized,
    Q: Borrow<K::Ref>,
    W: Borrow<V::Ref>,
{
    fn from_iter<I: IntoIterator<Item = (Q, W)>>(pairs: I) -> Self {
        let map: Self = Options::new().in_memory().expect("a map in memory");
        map.extend(pairs).expect("memory for the entries");
        map
    }
}
