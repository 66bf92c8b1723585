//! For implementers: the traits [`IndexBase`] and [`Index`] or [`MultiIndex`], which a design implements over a pool.
//!
//! A design stores words, a 64-bit hash and a 64-bit payload, and never sees a key. The engine above these traits
//! turns typed keys and values into words or records, once for all designs.

use std::sync::atomic::AtomicBool;

use durahash_media::{Event, Medium, Result};

/// Hashes to a call of [`Index::prefetch`]: enough to overlap their misses, few enough for the
/// processor's buffers and its nearest cache.
pub(crate) const PREFETCHED: usize = 32;

/// Does `f` between the events by which a medium knows where an operation begins and when it is
/// acknowledged.
#[inline(always)]
#[track_caller]
pub(crate) fn operation<M: Medium, T>(medium: &M, f: impl FnOnce() -> T) -> T {
    medium.event(Event::Begin);
    let done = f();
    medium.event(Event::Ack);
    done
}

/// The answer of the closure of [`Map::update`](crate::Map::update), and of [`Index::update`]: how the entry
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<V = u64> {
    /// Leave everything as it is.
    Keep,
    /// Store this value, as a new one or in place of the old.
    Set(V),
    /// Remove the entry, if there is one.
    Remove,
}

/// Says if an update may need a new slot, which is then secured before the closure runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The closure may answer [`Change::Set`] where nothing was found.
    ForNew,
    /// It never does: only existing entries are changed.
    None,
    /// As [`ForNew`](Room::ForNew), by the batch that is under way in the pool: others wait until it ends.
    ForNewOfBatch,
    /// As [`None`](Room::None), by that batch.
    OfBatch,
}

impl Room {
    /// True if a slot is secured.
    #[inline(always)]
    pub(crate) fn is_for_new(self) -> bool {
        matches!(self, Room::ForNew | Room::ForNewOfBatch)
    }

    /// True for a change by a batch.
    #[inline(always)]
    pub(crate) fn is_of_batch(self) -> bool {
        matches!(self, Room::OfBatch | Room::ForNewOfBatch)
    }
}

/// The reader's closure of [`Index::read`]: the payload if there is one, and a question to ask
/// before trusting a length that was read: is all that was loaded so far still valid?
pub type Reader<'a> = &'a mut dyn FnMut(Option<u64>, &dyn Fn() -> bool) -> Result<()>;

/// The payload of the last try of a read.
pub(crate) fn last_read(read: impl FnOnce(Reader<'_>) -> Result<()>) -> Result<Option<u64>> {
    let mut last = None;
    read(&mut |payload, _| {
        last = payload;
        Ok(())
    })?;
    Ok(last)
}

/// The writer's closure of [`Index::update`].
pub type Updater<'a> = &'a mut dyn FnMut(Option<u64>) -> Result<Change>;

/// A finding of [`IndexBase::check`]: an invariant that does not hold.
///
/// ```
/// let map = durahash::Options::new().in_memory::<durahash::Map<u64, u64>>()?;
/// map.check(&mut |finding| panic!("{} at {:#x}: {}", finding.invariant, finding.off, finding.what))?;
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The invariant's name, as in the design's docs (`REH-3`, `POOL-2`, `REC-1`).
    pub invariant: &'static str,
    /// Offset in the pool, in bytes.
    pub off: u64,
    /// The finding in words.
    pub what: String,
}

impl Finding {
    /// For checks of indexes.
    #[doc(hidden)]
    pub fn new(invariant: &'static str, off: u64, what: impl Into<String>) -> Self {
        Finding { invariant, off, what: what.into() }
    }
}

/// Figures about an index. See [`Map::stats`](crate::Map::stats) for the whole.
///
/// Figures of events count from the open of the pool. A design splits *units*: buckets, or segments.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct IndexStats {
    /// Live slots.
    pub slots_used: u64,
    /// Slots that exist, live or free.
    pub slots: u64,
    /// Bytes on the medium that hold slots (records and superblock not counted).
    pub medium_bytes: u64,
    /// Bytes of DRAM: directory, metadata, locks; not the bits of records that were verified.
    pub dram_bytes: u64,
    /// Splits of units; of Rewo-Hash, tables that were added.
    pub splits: u64,
    /// Merges of units; of Rewo-Hash, halvings of the table.
    pub merges: u64,
    /// Global depth of the directory; 0 if there is none.
    pub global_depth: u32,
    /// How many units have local depth `i`, for each `i`; empty without a directory.
    pub depths: Vec<u64>,
    /// Doublings of the directory.
    pub doublings: u64,
    /// Halvings of the directory.
    pub halvings: u64,
    /// Figures that only Pea Hash has.
    pub pea: Option<PeaStats>,
    /// Figures that only ESH has.
    pub esh: Option<EshStats>,
    /// Figures that only Rewo-Hash has.
    pub rewo: Option<RewoStats>,
}

/// Figures of Pea Hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeaStats {
    /// How many segments have each hashing strategy: single, two-choice, two-choice with stash.
    pub strategies: [u64; 3],
    /// The same of the segments that were made since the open, when they were made.
    pub strategies_at_start: [u64; 3],
}

/// Figures of ESH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EshStats {
    /// Segments that were repaired, each by the first operation that came to it.
    pub repairs: u64,
    /// Segments that a crash may have left half changed, and that no operation has come to yet. Counting them,
    /// and their live slots, visits them all: if the pool may be written, that repairs them, and the next
    /// count is 0.
    pub unrepaired: u64,
}

/// Figures of Rewo-Hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RewoStats {
    /// Tables, the one of a rebuild among them.
    pub tables: u64,
    /// Full rebuilds.
    pub rebuilds: u64,
    /// Slots that resizes migrated.
    pub migrated: u64,
    /// Buckets that resizes went over for that.
    pub walked: u64,
    /// Slots of the cached table.
    pub cached_slots: u64,
    /// True if the cached table has every slot.
    pub cached_all: bool,
    /// Copies in the cached table that gave way to others.
    pub replaced: u64,
    /// Copies that threads changed for writers.
    pub synced: u64,
}

/// The order of a walk that another index of the same hashes can be filled by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalkOrder {
    /// Positions from the first to the last.
    Ascending,
    /// So many of their first bits from the last to the first, and the others as they are.
    Reversed(u32),
    /// The same of an eighth of them, then the others from the first to the last.
    SampleFirst(u32),
}

/// The part that [`Index`] and [`MultiIndex`] have in common.
pub trait IndexBase: Send + Sync {
    /// The content of a slot.
    type Slot: Copy;

    /// Starts to fetch the lines that an operation on each of a few hashes (some dozens) will touch, so that
    /// the misses of all overlap.
    fn prefetch(&self, _h: &[u64]) {}

    /// Appends the slots of the unit that covers hash `at`, from `at` on, in the order of their
    /// hashes, and returns where the next unit begins; `None` after the last. The slots of one hash are
    /// those of one instant. A design that has [positions](Self::position) means those, in the place of hashes.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where the medium contradicts the format.
    fn scan(&self, at: u64, out: &mut Vec<(u64, Self::Slot)>) -> Result<Option<u64>>;

    /// The position of a hash in scans.
    fn position(&self, h: u64) -> u64 {
        h
    }

    /// The order of walks, in which entries may be given to another index.
    fn walk_order(&self) -> WalkOrder {
        WalkOrder::Ascending
    }

    /// Where a scan can go on behind a unit at `at` that it could not read, if it is not the last; `None` where that
    /// is not known.
    fn behind(&self, _at: u64) -> Option<Option<u64>> {
        None
    }

    /// Splits units until there are enough for so many entries. An index that grows in another way does nothing.
    ///
    /// # Errors
    /// As those of inserts.
    fn reserve(&self, _entries: u64) -> Result<()> {
        Ok(())
    }

    /// Does a piece of background work; true if more is waiting.
    ///
    /// # Errors
    /// Errors that the work meets.
    fn step(&self) -> Result<bool> {
        Ok(false)
    }

    /// Gives space that nothing needs back to the pool, where that was put off. It waits for no other thread's
    /// operation.
    ///
    /// # Errors
    /// As [`IndexBase::step`].
    fn give_back(&self) -> Result<()> {
        Ok(())
    }

    /// Makes the state in DRAM, by all processors, that operations would make as they come to it, until `stop` is true.
    fn warm(&self, _stop: &AtomicBool) {}

    /// The last call before the pool is closed: leaves state there that the next open can use.
    fn close(&self) {}

    /// Makes lookups find all slots that a walk finds, and drops those that neither finds, which only damage leaves
    /// behind; and mends marks that help lookups.
    ///
    /// # Errors
    /// Errors that keep it from being done; of a pool that is read only, if there is something to do.
    fn mend(&self) -> Result<()> {
        Ok(())
    }

    /// How many entries there are.
    ///
    /// # Errors
    /// As [`IndexBase::scan`].
    fn len(&self) -> Result<u64>;

    /// True if there is no entry.
    ///
    /// # Errors
    /// As [`IndexBase::len`].
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Figures about the index.
    fn stats(&self) -> IndexStats;

    /// Verifies every invariant of the design and changes nothing. There must be no writers.
    ///
    /// # Errors
    /// Errors that keep the check from being done; its findings go to `found`.
    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()>;
}

/// One design over one pool: a map from unique 64-bit hashes to 64-bit payloads.
///
/// Every operation is linearizable, and strictly durably linearizable as far as the pool's
/// [`durability`](crate::Map::durability) goes: a crash that this covers undoes no operation that has
/// returned, and takes back nothing that one returned.
///
/// ```
/// use std::sync::Arc;
///
/// use durahash::reh::Reh;
/// use durahash::index::{Change, Index, Room};
/// use durahash_media::{Dram, Format, Geometry, Pool};
///
/// let (geometry, max_bytes) = (Geometry::default(), 64 << 20);
/// let format = Format::of_index(1, geometry, max_bytes);
/// let index = Reh::create(Arc::new(Pool::create(Dram::new(max_bytes)?, &format)?))?;
/// // Counts how often a hash was seen.
/// for _ in 0..3 {
///     index.update(7, Room::ForNew, &mut |n| Ok(Change::Set(n.unwrap_or(0) + 1)))?;
/// }
/// assert_eq!(index.get(7)?, Some(3));
/// # Ok::<(), durahash::Error>(())
/// ```
pub trait Index: IndexBase<Slot = u64> {
    /// The payload of `h`.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where the medium contradicts the format.
    fn get(&self, h: u64) -> Result<Option<u64>>;

    /// Starts to fetch the slot that `h` would get, which was looked up just now.
    fn prefetch_to_insert(&self, _h: u64) {}

    /// The payloads of many hashes, into `out`, which is as long.
    ///
    /// # Errors
    /// As [`Index::get`].
    fn get_many(&self, h: &[u64], out: &mut [Option<u64>]) -> Result<()> {
        for (h, out) in h.chunks(PREFETCHED).zip(out.chunks_mut(PREFETCHED)) {
            self.prefetch(h);
            for (h, out) in h.iter().zip(out) {
                *out = self.get(*h)?;
            }
        }
        Ok(())
    }

    /// Runs `f` with the payload of `h` between two reads of the version, maybe several times: the
    /// last run counts, and its loads are consistent with the payload.
    ///
    /// # Errors
    /// Those of `f`'s last run, and as [`Index::get`].
    fn read(&self, h: u64, f: Reader<'_>) -> Result<()>;

    /// Looks once for `h`, without a lock, and runs `f` with its payload before it reads the version again: true if
    /// there is a payload, and the loads of `f` are consistent with it. `None` where one look cannot tell, as when a
    /// writer was in the way; a [`read`](Index::read) looks until it can.
    #[inline(always)]
    fn read_once(&self, _h: u64, _f: impl FnOnce(u64)) -> Option<bool>
    where
        Self: Sized,
    {
        None
    }

    /// Runs `f` once with the payload of `h`, the bucket locked and a slot secured if `room` says
    /// so, then does what it answers. Returns the payload found. An error of `f` changes nothing.
    ///
    /// # Errors
    /// Those of `f`; [`Full`](crate::ErrorKind::Full), [`Skewed`](crate::ErrorKind::Skewed) when no
    /// slot could be made; [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// [`Poisoned`](crate::ErrorKind::Poisoned).
    fn update(&self, h: u64, room: Room, f: Updater<'_>) -> Result<Option<u64>>;

    /// The same with [`Room::None`], of a removal for an entry that comes: units that are sparse then are merged behind
    /// one in four, as a pair stays sparse over many of them.
    ///
    /// # Errors
    /// As of [`update`](Index::update).
    fn make_way(&self, h: u64, f: Updater<'_>) -> Result<Option<u64>> {
        self.update(h, Room::None, f)
    }

    /// The payloads of a few hashes (some dozens), found without locks, into `out`, for a batch that has closed the
    /// pool's [gate](durahash_media::Gate) for them: no writer had the locks of a hash, so none that did not see the
    /// gate changes it any more. `None` where that cannot be said, or where `rooms`, which is as long, asks for a slot
    /// and none is free: the batch looks by an [`update`](Index::update) then. Starts to fetch the lines of those
    /// slots. `out` is as long, and has `None` only.
    fn look_in_batch(&self, _h: &[u64], _rooms: &[Room], _out: &mut [Option<Option<u64>>]) {}

    /// Gives a few hashes these payloads, which are as many, or removes them, one after the other, by the batch that is
    /// under way.
    ///
    /// # Errors
    /// As [`Index::update`], of the first that has one: those after it are as before.
    fn change_in_batch(&self, h: &[u64], payloads: &[Option<u64>]) -> Result<()> {
        h.iter().zip(payloads).try_for_each(|(h, payload)| {
            let (change, room) = match payload {
                Some(payload) => (Change::Set(*payload), Room::ForNewOfBatch),
                None => (Change::Remove, Room::OfBatch),
            };
            self.update(*h, room, &mut |_| Ok(change)).map(drop)
        })
    }
}

/// Tells the keys of entries apart whose hashes are equal.
///
/// The answers come from the entries themselves, which a reader may look at while they change: then
/// they may be errors, and the index asks again.
pub trait Keys {
    /// True if the entry with this payload is of the key that is meant.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where the entry is damaged.
    fn is_meant(&self, payload: u64) -> Result<bool>;

    /// True if the entries with these payloads are of one key.
    ///
    /// # Errors
    /// As [`Keys::is_meant`].
    fn are_same(&self, one: u64, other: u64) -> Result<bool>;
}

/// The keys of an index without equal hashes; or the answer that means all keys of a hash.
///
/// ```
/// use durahash::index::{Keys, OneKey};
/// assert!(OneKey.is_meant(7)?);
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct OneKey;

impl Keys for OneKey {
    fn is_meant(&self, _payload: u64) -> Result<bool> {
        Ok(true)
    }

    fn are_same(&self, _one: u64, _other: u64) -> Result<bool> {
        Ok(true)
    }
}

/// The content of a slot, as [`IndexBase::scan`] finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scanned {
    /// It holds this payload.
    One(u64),
    /// It names a value buffer by this word.
    Many(u64),
}

/// The result of [`MultiIndex::read`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Values {
    /// The payloads, in no order.
    pub payloads: Vec<u64>,
    /// The blocks of the value buffers that they stand in.
    pub buffers: Vec<u64>,
}

/// The reader's closure of [`MultiIndex::read`], as [`Reader`].
pub type MultiReader<'a> = &'a mut dyn FnMut(&[u64], &dyn Fn() -> bool) -> Result<()>;

/// Is told of the payloads of a key right before they are removed, under the lock.
pub type Gone<'a> = &'a mut dyn FnMut(&[u64]) -> Result<()>;

/// One design over one pool: any number of 64-bit payloads for each 64-bit hash, equal ones too.
///
/// Every operation is linearizable and strictly durably linearizable, as those of [`Index`].
///
/// ```
/// use std::sync::Arc;
///
/// use durahash::pea::{MultiPea, Policy};
/// use durahash::index::{MultiIndex, OneKey, Values};
/// use durahash_media::{Dram, Format, Geometry, Pool};
///
/// let (geometry, max_bytes) = (Geometry::default(), 64 << 20);
/// let format = Format { kind: 1, ..Format::of_index(2, geometry, max_bytes) };
/// let pool = Arc::new(Pool::create(Dram::new(max_bytes)?, &format)?);
/// let index = MultiPea::create(pool, Policy::default())?;
/// for payload in [10, 20, 20] {
///     index.add(7, payload, &OneKey)?;
/// }
/// let mut found = Values::default();
/// index.read(7, &OneKey, &mut found, &mut |_, _| Ok(()))?;
/// found.payloads.sort();
/// assert_eq!(found.payloads, [10, 20, 20]);
/// # Ok::<(), durahash::Error>(())
/// ```
pub trait MultiIndex: IndexBase<Slot = Scanned> {
    /// Adds an entry.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full), also where a sweep of record space may still find some;
    /// [`Skewed`](crate::ErrorKind::Skewed) where too many hashes share a prefix, or too many keys a
    /// hash; [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned);
    /// those of `keys`. Nothing was changed then.
    fn add(&self, h: u64, payload: u64, keys: &dyn Keys) -> Result<()>;

    /// Collects the entries of a key, then runs `f` with their payloads, between two reads of the
    /// version, maybe several times: the last run counts, and `found` holds what it had.
    ///
    /// # Errors
    /// Those of the last run of `f` and of `keys`; [`Corrupt`](crate::ErrorKind::Corrupt) where the
    /// medium contradicts the format.
    fn read(&self, h: u64, keys: &dyn Keys, found: &mut Values, f: MultiReader<'_>) -> Result<()>;

    /// How many entries a key has.
    ///
    /// # Errors
    /// As [`MultiIndex::read`].
    fn count(&self, h: u64, keys: &dyn Keys) -> Result<u64>;

    /// Removes one entry that is `wanted`, if there is one; its payload.
    ///
    /// # Errors
    /// Those of `keys` and `wanted`; [`Corrupt`](crate::ErrorKind::Corrupt),
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned).
    fn remove_one(
        &self,
        h: u64,
        keys: &dyn Keys,
        wanted: &mut dyn FnMut(u64) -> Result<bool>,
    ) -> Result<Option<u64>>;

    /// Removes all entries of a key at once; how many they were. `gone` is told of their payloads before.
    ///
    /// # Errors
    /// As [`MultiIndex::remove_one`]; those of `gone`.
    fn remove_all(&self, h: u64, keys: &dyn Keys, gone: Option<Gone<'_>>) -> Result<u64>;

    /// Removes everything of a hash, damaged or not. `gone` is told before of the payloads that could be read.
    ///
    /// # Errors
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned); those of `gone`.
    fn wipe(&self, h: u64, gone: Gone<'_>) -> Result<()>;

    /// How many entries there are beyond one a slot, if that is known.
    fn extra_count(&self) -> Option<u64>;
}
