//! Walks in steps, each a call of its own: for servers, whose clients keep the place.

use durahash_media::Result;

use super::map::Map;
use crate::engine::Kind;
use crate::engine::data::Data;
use crate::engine::entries::Entries;
use crate::engine::maps::Handle;
use crate::engine::walk::Place;

/// The place at which a [`Map::scan`] goes on: a number, which a client may keep for any time.
///
/// It stays good whatever is inserted, removed, split or merged meanwhile, and when the pool is opened again; not in
/// another pool, nor after a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cursor(u64);

impl Cursor {
    /// Where a walk begins.
    pub const START: Cursor = Cursor(0);

    /// The number, which [`from_word`](Cursor::from_word) makes the cursor of again.
    ///
    /// ```
    /// use durahash::Cursor;
    /// assert_eq!(Cursor::from_word(Cursor::START.to_word()), Cursor::START);
    /// ```
    #[must_use]
    pub const fn to_word(self) -> u64 {
        self.0
    }

    /// The cursor of a number. Any number is one: it begins somewhere.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Cursor(word)
    }
}

/// The entries of a step, and where the next one begins, if there is one.
pub type ScanStep<K, V> = (Vec<(K, V)>, Option<Cursor>);

impl<K: Data + ?Sized, V: Data + ?Sized> Map<K, V> {
    /// The next entries of a walk, about `n`, and the cursor for those after them; `None` at the end.
    ///
    /// A step ends where a bucket or segment does, so it may give more than `n` entries (a segment of Pea Hash
    /// or ESH has up to some ten thousand). It gives fewer at the end; also, or even none, where a large map has become
    /// nearly empty. Only `None` is the end.
    ///
    /// **Concurrency.** As [`iter`](Map::iter), for the whole walk: every key that is there from its first step to
    /// its last is given exactly once.
    ///
    /// # Errors
    /// As [`iter`](Map::iter); nothing of the step is given then.
    ///
    /// ```
    /// use durahash::Cursor;
    /// let map: durahash::Map<u64, u64> = durahash::Options::new().in_memory()?;
    /// map.extend((0..1000).map(|i| (i, i)))?;
    /// let (mut at, mut keys) = (Some(Cursor::START), 0);
    /// while let Some(from) = at {
    ///     let (entries, next) = map.scan(from, 100)?;
    ///     (keys, at) = (keys + entries.len(), next);
    /// }
    /// assert_eq!(keys, 1000);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn scan(&self, from: Cursor, n: usize) -> Result<ScanStep<K::Owned, V::Owned>> {
        step(&self.handle, from, n, Entries::next_typed::<K, V>)
    }
}

/// A step over what `next` makes of entries.
pub(super) fn step<E: Kind, T>(
    handle: &Handle<E>,
    from: Cursor,
    n: usize,
    next: impl Fn(&mut Entries<E>) -> Option<Result<T>>,
) -> Result<(Vec<T>, Option<Cursor>)> {
    let index = &*handle.engine.index;
    let at = match from {
        Cursor::START => Place::first(index),
        Cursor(word) => Place::from_word(index, word),
    };
    let mut entries = Entries::from(handle.clone(), at, at.most_empty_units());
    let cursor = |next: Option<Place>| next.map(|place| Cursor(place.to_word()));
    let mut found = Vec::new();
    while let Some(entry) = next(&mut entries) {
        found.push(entry?);
        if found.len() >= n.max(1)
            && let Some(next) = entries.next_unit()
        {
            return Ok((found, cursor(next)));
        }
    }
    Ok((found, cursor(entries.next_unit().flatten())))
}
