//! Iterators over typed maps and multimaps.

use std::marker::PhantomData;
use std::sync::Arc;

use durahash_media::Result;

use crate::engine::data::Data;
use crate::engine::entries::Entries;
use crate::engine::{Engine, Multi, Single};

/// Iterator over a [`Map`](crate::Map). See [`Map::iter`](crate::Map::iter).
///
/// ```
/// # let map = durahash::Options::new().in_memory::<durahash::Map<str, u64>>()?;
/// map.put("one", &1)?;
/// for pair in &map {
///     let (key, value) = pair?;
///     assert_eq!((key.as_str(), value), ("one", 1));
/// }
/// # Ok::<(), durahash::Error>(())
/// ```
pub struct Iter<K: Data + ?Sized, V: Data + ?Sized> {
    entries: Entries<Single>,
    types: PhantomData<fn(&K, &V)>,
}

impl<K: Data + ?Sized, V: Data + ?Sized> Iter<K, V> {
    pub(crate) fn new(engine: Arc<Engine<Single>>) -> Self {
        Iter { entries: Entries::new(engine), types: PhantomData }
    }
}

impl<K: Data + ?Sized, V: Data + ?Sized> Iterator for Iter<K, V> {
    type Item = Result<(K::Owned, V::Owned)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next_typed::<K, V>()
    }
}

/// Iterator over a [`MultiMap`](crate::MultiMap). See [`MultiMap::iter`](crate::MultiMap::iter).
///
/// ```
/// # let map = durahash::Options::new().in_memory::<durahash::MultiMap<str, u64>>()?;
/// map.add("one", &1)?;
/// for pair in &map {
///     let (key, value) = pair?;
///     assert_eq!((key.as_str(), value), ("one", 1));
/// }
/// # Ok::<(), durahash::Error>(())
/// ```
pub struct MultiIter<K: Data + ?Sized, V: Data + ?Sized> {
    entries: Entries<Multi>,
    types: PhantomData<fn(&K, &V)>,
}

impl<K: Data + ?Sized, V: Data + ?Sized> MultiIter<K, V> {
    pub(crate) fn new(engine: Arc<Engine<Multi>>) -> Self {
        MultiIter { entries: Entries::new(engine), types: PhantomData }
    }
}

impl<K: Data + ?Sized, V: Data + ?Sized> Iterator for MultiIter<K, V> {
    type Item = Result<(K::Owned, V::Owned)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.entries.next_typed::<K, V>()
    }
}
