//! How maps are made and opened.

use std::path::{Path, PathBuf};

use durahash_media::{Dax, Geometry, Medium, Result, SyncMode};

use super::openable::Openable;
use crate::cache::{self, Clock};
use crate::designs::pea::Policy;
use crate::designs::rewo::Cache;
use crate::engine::At;
use crate::engine::compact::{compact, compact_to};
use crate::engine::data::Type;
use crate::engine::design::Design;
use crate::engine::open::{self, CreateSpec};
use crate::engine::settings::Settings;

/// How a map is made or opened.
///
/// ```
/// use durahash::{Map, Options};
///
/// # fn main() -> durahash::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("map.pool");
/// let map: Map<u64, u64> = Options::new().max_bytes(1 << 30).open_or_create(&path)?;
/// map.put(&1, &10)?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) settings: Settings,
}

/// The options that set one of the settings each.
macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $Type:ty => $($setting:ident).+;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name(mut self, $name: $Type) -> Self {
            self.settings.$($setting).+ = $name.into();
            self
        }
    )*};
}

impl Options {
    /// The defaults: design REH (for a multimap Pea Hash), a random seed, no limit to the size, DAX where it is had.
    ///
    /// ```
    /// let map = durahash::Options::new().in_memory::<durahash::Map<u64, u64>>()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Options { settings: Settings::new() }
    }

    /// The types of keys and values of a new pool, for an [`AnyMap`](crate::AnyMap) or
    /// [`AnyMultiMap`](crate::AnyMultiMap). A [`Map`](crate::Map) or [`MultiMap`](crate::MultiMap) has those of its
    /// parameters, and an existing pool has its own.
    ///
    /// ```
    /// use durahash::{AnyMap, Options, Type};
    /// let map: AnyMap = Options::new().types(Type::Str, Type::U32).in_memory()?;
    /// map.put(b"Ada", b"36")?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn types(mut self, key: Type, value: Type) -> Self {
        self.settings.types = Some((key, value));
        self
    }

    setters! {
        /// The design of a new pool. An existing one keeps its own.
        ///
        /// ```
        /// use durahash::{Design, Options};
        /// let map = Options::new().design(Design::Reh).in_memory::<durahash::Map<u64, u64>>()?;
        /// # Ok::<(), durahash::Error>(())
        /// ```
        design: Design => design;

        /// The seed of a new pool's hashes; random unless set, so that no attacker can choose keys that
        /// collide. A fixed one makes costs repeatable.
        ///
        /// ```
        /// let map = durahash::Options::new().seed(42).in_memory::<durahash::Map<u64, u64>>()?;
        /// # Ok::<(), durahash::Error>(())
        /// ```
        seed: u64 => seed;

        /// Bytes beyond which a new pool never grows: no limit unless set. Addresses are reserved as it
        /// grows, so that thousands of pools may be open at once.
        ///
        /// ```
        /// let map = durahash::Options::new().max_bytes(64 << 20).in_memory::<durahash::Map<u64, u64>>()?;
        /// # Ok::<(), durahash::Error>(())
        /// ```
        max_bytes: u64 => max_bytes;

        /// Maps the file directly (DAX), so that it survives the loss of power.
        ///
        /// ```
        /// use durahash::{Dax, ErrorKind, Options};
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// match Options::new().dax(Dax::Require).create::<durahash::Map<u64, u64>>(&path) {
        ///     Ok(map) => println!("durability: {}", map.durability()),
        ///     Err(e) => assert!(matches!(e.kind(), ErrorKind::NoDax)),
        /// }
        /// ```
        dax: Dax => dax;

        /// Makes flushes and fences real on files in the page cache, where they buy nothing: for
        /// benchmarks.
        ///
        /// ```
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// let map = durahash::Options::new().force_flushes(true).create::<durahash::Map<u64, u64>>(&path)?;
        /// # Ok::<(), durahash::Error>(())
        /// ```
        force_flushes: bool => force_flushes;

        /// Opens for reading only: the file is never written, several processes may read it at once,
        /// and a recovery happens in memory.
        ///
        /// ```
        /// use durahash::{ErrorKind, Options};
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// # Options::new().create::<durahash::Map<u64, u64>>(&path)?.close()?;
        /// let map = Options::new().read_only(true).open::<durahash::Map<u64, u64>>(&path)?;
        /// assert!(matches!(map.put(&1, &2).unwrap_err().kind(), ErrorKind::ReadOnly));
        /// # Ok::<(), durahash::Error>(())
        /// ```
        read_only: bool => read_only;

        /// Lets other processes read the pool while this one has it open for writing: with
        /// [`read_only`](Options::read_only) they see it as it is from moment to moment. It needs the mode
        /// [`Process`](crate::SyncMode::Process), or a [live image](Options::live_image): in
        /// [`Strict`](crate::SyncMode::Strict) each of their operations waits until all that was stored before is on the disk. A
        /// file of 548 KiB beside the pool is made for it,
        /// `durahash-….readers`, and taken away by the close, if no reader has it, else by a later one; each change of an
        /// entry counts one up there, in a multimap with its hash. Readers of a live image in another directory need the same
        /// [`live_dir`](Options::live_dir).
        ///
        /// A reader finds every key that is there throughout, and gives each a value that it had at some moment of
        /// the call. It stores nothing, and may be stopped or killed at any time; when the writer is killed it goes
        /// on with what that has left. When the pool is closed or opened by another writer, or a map is removed, or the
        /// writer's disk fails, its operations return [`WriterGone`](crate::ErrorKind::WriterGone). It does not see maps
        /// that are made later. The changes of a [`Batch`](crate::Batch) are seen one by one. [`check`](crate::Map::check) looks at
        /// buckets and entries, each by itself.
        ///
        /// The counters are 4096, each of as many hashes: a key that is updated without pause may hold up readers of
        /// its 4096th of the keys as long. In a map of REH of less than some 40,000 entries a lookup of a reader walks over
        /// half of its buckets. A multimap gives the values of a key as they were at one moment, however many: other keys do not
        /// hold up who reads them; changes of this key that follow each other faster than that takes do.
        ///
        /// ```
        /// use durahash::{Map, Options, SyncMode};
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// let shared = Options::new().sync_mode(SyncMode::Process).readers(true);
        /// let map: Map<u64, u64> = shared.create(&path)?;
        /// // Another process would do the same.
        /// let reader: Map<u64, u64> = Options::new().read_only(true).open(&path)?;
        /// map.put(&1, &10)?;
        /// assert_eq!(reader.get(&1)?, Some(10));
        /// # Ok::<(), durahash::Error>(())
        /// ```
        readers: bool => readers;

        /// Makes the state of REH in DRAM in the background, by all processors, as soon as a pool is open. Else each
        /// part of it is made by the operation that first comes to it, which takes some microseconds more: most
        /// parts of a large pool are made after as many lookups as it has buckets.
        ///
        /// ```
        /// use durahash::{Map, Options};
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// # Options::new().create::<Map<u64, u64>>(&path)?.close()?;
        /// let map: Map<u64, u64> = Options::new().warm(true).open(&path)?;
        /// assert_eq!(map.get(&1)?, None);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        warm: bool => warm;

        /// Opens a pool that lay in the page cache when the machine went down, although whole pages may
        /// be missing. It is marked as suspect for good; [`Map::check`](crate::Map::check) finds much, but not all.
        ///
        /// ```
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// # durahash::Options::new().create::<durahash::Map<u64, u64>>(&path)?.close()?;
        /// let map = durahash::Options::new().accept_suspect(true).open::<durahash::Map<u64, u64>>(&path)?;
        /// # Ok::<(), durahash::Error>(())
        /// ```
        accept_suspect: bool => accept_suspect;

        /// Reads the whole pool at the open, but for records of a map, and refuses it as
        /// [`Corrupt`](crate::ErrorKind::Corrupt) if a block does not have its check word. It takes the time of
        /// reading the file. [`Map::check`](crate::Map::check) does the same later, and more.
        ///
        /// A close writes a check word for every block that was stored to since the open. So after a crash this
        /// finds damage of the blocks that were not stored to since the last close, and no other; with a live image,
        /// whose checkpoints write them, too, of all that the log has no line of
        /// ([`PoolStats::verifiable_blocks`](crate::PoolStats::verifiable_blocks) of
        /// [`checked_blocks`](crate::PoolStats::checked_blocks)).
        ///
        /// While the pool is open, every read of a value verifies its record. Else the record of a map is verified when
        /// its value is read for the first time after the open, if this process has not written it. Entries in cells
        /// and those of multimaps are verified at every read. So damage of a record before the open is found at its
        /// first read. No later read finds later damage, or a record that this process overwrites because
        /// a table is damaged; [`Map::check`](crate::Map::check) does.
        ///
        /// A map of records keeps one bit in DRAM for every 16 bytes of the pool that says which are verified: up to
        /// 1/128 of the pool, taken as records are touched, and not counted by
        /// [`IndexStats::dram_bytes`](crate::IndexStats::dram_bytes). Under this option there are none.
        ///
        /// ```
        /// use durahash::{ErrorKind, Map, Options};
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// let map = Options::new().create::<Map<u64, u64>>(&path)?;
        /// (0..1000).try_for_each(|i| map.put(&i, &i))?;
        /// map.close()?;
        /// let mut bytes = std::fs::read(&path).unwrap();
        /// bytes[200] ^= 1;
        /// std::fs::write(&path, bytes).unwrap();
        /// let refused = Options::new().verify(true).open::<Map<u64, u64>>(&path).unwrap_err();
        /// assert!(matches!(refused.kind(), ErrorKind::Corrupt { off: 0, .. }));
        /// # Ok::<(), durahash::Error>(())
        /// ```
        verify: bool => verify;

        /// Chooses the crashes that operations on a file in the page cache survive, and from when on. A new pool keeps the mode; an
        /// existing one is opened in its own mode unless this says another, for this open. On
        /// persistent memory (DAX) all is durable at once.
        ///
        /// A new pool has the mode [`INTERVAL`](SyncMode::INTERVAL) unless this says another, and a log of
        /// [`log_bytes`](Options::log_bytes); the mode [`Process`](SyncMode::Process), and no log, if the file
        /// lies in memory (tmpfs) or on DAX, if [`max_bytes`](Options::max_bytes) is less than 512 MiB (eight times `log_bytes`,
        /// if that is set), or where flushes are forced. Where the disk has no room for a log that was not
        /// asked for, `create` fails with [`Full`](crate::ErrorKind::Full): this mode does without.
        ///
        /// A file in memory (tmpfs) is lost with the machine, whatever the mode.
        ///
        /// Where the disk fails behind a log, in the mode interval or strict, every operation of the map,
        /// lookups too, is an error from then on, and nothing is tried again. Open it anew.
        ///
        /// ```
        /// use durahash::{Durability, Options, SyncMode};
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// let strict = Options::new().sync_mode(SyncMode::Strict);
        /// let map = strict.create::<durahash::Map<u64, u64>>(&path)?;
        /// map.put(&1, &10)?; // on the disk
        /// assert_eq!(map.durability(), Durability::Strict);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        sync_mode: SyncMode => sync_mode;

        /// The most bytes of the log that a pool gets when it is first used in a mode that needs one: 160 MiB with a
        /// [live image](Options::live_image), else 64 MiB, unless set. A longer log is written back to the pool less often. The log uses 512 KiB at
        /// first, and more as the pool grows, up to some 4 times the rest of the pool with a live image, 16 times with lines; its
        /// unused part is a hole of the file. An open that does not set this gives a closed pool a longer one when it is less than an eighth of the
        /// pool, up to these sizes.
        ///
        /// ```
        /// use durahash::{Options, SyncMode};
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// let small = Options::new().sync_mode(SyncMode::Strict).log_bytes(256 << 10);
        /// let map = small.create::<durahash::Map<u64, u64>>(&path)?;
        /// assert_eq!(map.stats()?.log.unwrap().area_bytes, 256 << 10);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        log_bytes: u64 => log_bytes;

        /// Bytes of memory that a pool behind a log of lines may take beside the system's page cache, before pages
        /// that are written back are given back: half of the machine's memory unless set. For a moment it
        /// may take more, a page for each line that the log has room for at the most. Every page that is
        /// given back and stored to again is copied again. A quarter of it, for growth of the pool, is
        /// not given back before the pool is closed.
        ///
        /// ```
        /// use durahash::{Options, SyncMode};
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// let strict = Options::new().sync_mode(SyncMode::Strict).log_bytes(1 << 20);
        /// let map = strict.private_bytes(64 << 20).create::<durahash::Map<u64, u64>>(&path)?;
        /// assert!(map.stats()?.log.unwrap().private_bytes < 64 << 20);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        private_bytes: u64 => private_bytes;

        /// Lets a pool in the mode interval or strict have a *live image*, or with `false` a log of lines: a new pool has a live
        /// image on ext4 and XFS, and lines elsewhere, unless this is set, and so has one without a log, of the mode process or just
        /// compacted, if there is space for its length again. Another one keeps what it had, but gets lines on a file system that cannot
        /// carry a live image.
        ///
        /// A live image is a file as long as the pool, beside it, to which all stores go, so that the kernel has them when the
        /// process is killed. Every interval a snapshot of what has changed goes to the pool's file. An open after a kill
        /// takes milliseconds, and inserts cost less than with lines. The promises are
        /// those of the mode. It needs ext4, XFS or tmpfs.
        ///
        /// After a kill the live image has what the pool's file lacks: without it, or with a copy of it, the pool is refused
        /// ([`NoLiveImage`](crate::ErrorKind::NoLiveImage)) until the machine has been started anew; then it is as after a loss of
        /// power, even if that was done in an orderly way. While the pool is open it takes its length on the disk twice; a live
        /// file of up to 16 MiB goes with the close, a longer one stays for the next open.
        ///
        /// ```
        /// use durahash::{Durability, Options, SyncMode};
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// let live = Options::new().sync_mode(SyncMode::INTERVAL).live_image(true);
        /// let map = live.create::<durahash::Map<u64, u64>>(&path)?;
        /// map.put(&1, &10)?; // survives the death of the process
        /// assert_eq!(map.durability(), Durability::Interval);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        live_image: bool => live_image;

        /// The directory of live images: that of the pool unless set. In memory (tmpfs) the kernel writes none of it to
        /// a disk; it is gone then with the machine, or with a container's own memory. The pool does not know it: name it at
        /// every open.
        ///
        /// ```
        /// use durahash::Options;
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// let live = Options::new().live_image(true).live_dir(std::env::temp_dir());
        /// let map = live.create::<durahash::Map<u64, u64>>(&path)?;
        /// map.close()?;
        /// # Ok::<(), durahash::Error>(())
        /// ```
        live_dir: PathBuf => live_dir;

        /// Sizes of a new pool's parts, so that tests see splits and chains in ten inserts.
        #[doc(hidden)]
        geometry: Geometry => geometry;

        /// How a table of Pea Hash grows while it is open; it may differ from open to open.
        ///
        /// ```
        /// use durahash::pea::Policy;
        /// use durahash::{Design, Options};
        /// let mut in_four = Policy::default();
        /// in_four.split_bits = 2;
        /// let map = Options::new().design(Design::Pea).policy(in_four).in_memory::<durahash::Map<u64, u64>>()?;
        /// # Ok::<(), durahash::Error>(())
        /// ```
        policy: Policy => design_options.policy;

        /// The cached table of a Rewo-Hash; it may differ from open to open.
        ///
        /// ```
        /// use durahash::rewo::Cache;
        /// use durahash::{Design, Options};
        /// let map = Options::new().design(Design::Rewo).cache(Cache::of_bytes(0)).in_memory::<durahash::Map<u64, u64>>()?;
        /// assert_eq!(map.stats()?.index.rewo.unwrap().cached_slots, 0);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        cache: Cache => design_options.cache;

        /// The clock of a [`Cache`](crate::Cache): that of the system unless this sets another, as tests do.
        ///
        /// ```
        /// use durahash::cache::Clock;
        /// use durahash::{Cache, Options};
        /// let cache: Cache<str, u64> = Options::new().clock(Clock::manual(0)).in_memory()?;
        /// # Ok::<(), durahash::Error>(())
        /// ```
        clock: Clock => cache_options.clock;

        /// Has a thread remove what expired from a [`Cache`](crate::Cache) that is open for writing; true unless set.
        /// Else [`Cache::step`](crate::Cache::step) does it.
        ///
        /// ```
        /// use durahash::{Cache, Options};
        /// let cache: Cache<str, u64> = Options::new().sweep(false).in_memory()?;
        /// while cache.step()? {}
        /// # Ok::<(), durahash::Error>(())
        /// ```
        sweep: bool => cache_options.sweep;

        /// The most entries of a [`Cache`](crate::Cache), beyond which it [evicts](Options::eviction). The pool keeps it: an
        /// open that does not set it has the last one. `u64::MAX` is none, as before one is set.
        ///
        /// No more are stored at any time, whatever threads do at once. Entries that have expired count until they are removed. An open for
        /// writing of a cache with a bound reads all of its buckets, and evicts what is over.
        ///
        /// ```
        /// use durahash::{Cache, Options};
        /// let cache: Cache<u64, u64> = Options::new().max_entries(10).in_memory()?;
        /// for key in 0..100 {
        ///     cache.put(&key, &key)?;
        /// }
        /// assert_eq!(cache.len()?, 10);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        max_entries: u64 => cache_options.max_entries;

        /// The most bytes of all entries of a [`Cache`](crate::Cache), as [`max_entries`](Options::max_entries): 16 for
        /// each, and those of its record or cell, in which a value has eight more for its expiry. A word that does not
        /// expire has neither, so one that gets an expiry becomes longer. Free space of the pool
        /// does not count. An open for writing reads all records.
        ///
        /// A put makes room before it is made. How long a value is that a closure makes is known too late for that: it is
        /// stored first if all such ones together are over the bound by a fiftieth of it at the most, and others go for it at
        /// once. Else it waits while room is made, and is stored if its entry is still as the closure found it. So no more than 102 % of
        /// the bound are stored at any time; where nothing is evicted, no more than the bound.
        ///
        /// ```
        /// use durahash::{Cache, Options};
        /// let cache: Cache<u64, [u8]> = Options::new().max_bytes_used(64 << 10).in_memory()?;
        /// for key in 0..100 {
        ///     cache.put(&key, &[0; 1000])?;
        /// }
        /// assert!(cache.stats()?.cache.unwrap().bytes_used.unwrap() <= 64 << 10);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        max_bytes_used: u64 => cache_options.max_bytes_used;

        /// Which entry of a [`Cache`](crate::Cache) goes when another needs its place: [`TinyLfu`](cache::Policy::TinyLfu) unless set. The pool keeps it.
        /// Under [`None`](cache::Policy::None) an insert or a longer value that finds no room removes what has expired, and fails if that is not
        /// enough. What was used is known in DRAM. A close saves it, in 8 bytes for each entry if there is room, and the next open takes
        /// it over; behind a kill it begins anew. Where a pool in memory goes with the cache nothing is saved.
        ///
        /// ```
        /// use durahash::cache::Policy;
        /// use durahash::{Cache, ErrorKind, Options};
        /// let options = Options::new().max_entries(1).eviction(Policy::None);
        /// let cache: Cache<u64, u64> = options.in_memory()?;
        /// cache.put(&1, &10)?;
        /// assert!(matches!(cache.put(&2, &20).unwrap_err().kind(), ErrorKind::Full { .. }));
        /// # Ok::<(), durahash::Error>(())
        /// ```
        eviction: cache::Policy => cache_options.eviction;

        /// Keeps what goes from a [`Cache`](crate::Cache) by itself, evicted or expired, until the caller is
        /// [done](crate::Cache::done) with it: for those who keep a file for each entry, say. From the open that says so
        /// on the pool always does. Changes of the cache take turns then, and what goes is written once more. Of an entry that
        /// is damaged nothing is told. What goes needs room before it gives room back: in a pool of
        /// [`max_bytes`](Options::max_bytes) without any, changes that need it to go fail with [`Full`](crate::ErrorKind::Full) until
        /// others are removed by hand; so let the cache's own bound be the lower one by a good part.
        ///
        /// ```
        /// use durahash::{Cache, Options};
        /// let options = Options::new().max_entries(1).keep_evicted(true);
        /// let files: Cache<str, u64> = options.in_memory()?;
        /// files.put("one", &1)?;
        /// files.put("two", &2)?;
        /// for gone in files.evicted() {
        ///     let gone = gone?;
        ///     assert_eq!((gone.key.as_str(), gone.value), ("one", 1));
        ///     files.done(gone.id)?;
        /// }
        /// assert_eq!(files.evicted().count(), 0);
        /// # Ok::<(), durahash::Error>(())
        /// ```
        keep_evicted: bool => cache_options.keep_evicted;
    }

    /// Creates a pool file at `path`.
    ///
    /// **Durability.** The file appears under its name when it is whole; a crash leaves it, or
    /// nothing.
    /// **Concurrency.** Of several threads or processes that create the same path at once, one succeeds.
    ///
    /// # Errors
    /// [`Exists`](crate::ErrorKind::Exists); [`Full`](crate::ErrorKind::Full); [`NoDax`](crate::ErrorKind::NoDax);
    /// [`Options`](crate::ErrorKind::Options) where the options contradict each other, or where the types of an `Any` map
    /// are not [set](Options::types), or the design has no multimaps; [`Io`](crate::ErrorKind::Io).
    ///
    /// ```
    /// use durahash::{Map, MultiMap, Options};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (path, other) = (dir.path().join("map.pool"), dir.path().join("edges.pool"));
    /// let map: Map<str, [u8]> = Options::new().create(&path)?;
    /// let edges = Options::new().create::<MultiMap<u32, u32>>(&other)?;
    /// edges.add(&1, &2)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn create<T: Openable>(&self, path: impl AsRef<Path>) -> Result<T> {
        open::make(&self.settings, T::REQUIRED, At::New(path.as_ref()))
            .and_then(|(pool, _)| T::new(pool, &self.settings))
    }

    /// Opens the pool file at `path`, and recovers it if it was not closed.
    ///
    /// **Durability.** A crash may cut recovery short any number of times without the loss of anything
    /// that was acknowledged.
    /// **Concurrency.** A pool is open for writing once, in one process, or for reading any number
    /// of times; for both where the writer [allows it](Options::readers).
    ///
    /// # Errors
    /// [`Types`](crate::ErrorKind::Types) where the pool holds other keys or values;
    /// [`Design`](crate::ErrorKind::Design) where it is a multimap and `T` is a map, or the other way round;
    /// [`Locked`](crate::ErrorKind::Locked); [`PowerLoss`](crate::ErrorKind::PowerLoss), see
    /// [`accept_suspect`](Options::accept_suspect); [`Copied`](crate::ErrorKind::Copied), of a copy of a pool that was
    /// open; [`NoLiveImage`](crate::ErrorKind::NoLiveImage), see [`live_dir`](Options::live_dir);
    /// [`Full`](crate::ErrorKind::Full) where the disk has no space for a log, a live image or holes of the file;
    /// [`Options`](crate::ErrorKind::Options) where the pool cannot be opened so; [`NotAPool`](crate::ErrorKind::NotAPool),
    /// [`Version`](crate::ErrorKind::Version), [`ByteOrder`](crate::ErrorKind::ByteOrder),
    /// [`Truncated`](crate::ErrorKind::Truncated), [`Corrupt`](crate::ErrorKind::Corrupt) as the bytes are;
    /// [`NoDax`](crate::ErrorKind::NoDax); [`Io`](crate::ErrorKind::Io). None of them touches the file.
    ///
    /// ```
    /// use durahash::{AnyMap, ErrorKind, Map, MultiMap, Options};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// # Options::new().create::<Map<u64, u64>>(&path)?.close()?;
    /// let wrong = Options::new().open::<Map<str, u64>>(&path);
    /// assert!(matches!(wrong.unwrap_err().kind(), ErrorKind::Types { .. }));
    /// let wrong = Options::new().open::<MultiMap<u64, u64>>(&path);
    /// assert!(matches!(wrong.unwrap_err().kind(), ErrorKind::Design { .. }));
    ///
    /// let map: Map<u64, u64> = Options::new().open(&path)?;
    /// map.put(&1, &10)?;
    /// map.close()?;
    /// let any: AnyMap = Options::new().open(&path)?;
    /// assert_eq!(any.get(b"1")?, Some(b"10".to_vec()));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn open<T: Openable>(&self, path: impl AsRef<Path>) -> Result<T> {
        open::make(&self.settings, T::REQUIRED, At::Existing(path.as_ref()))
            .and_then(|(pool, _)| T::new(pool, &self.settings))
    }

    /// Opens the pool file at `path`, or creates it where there is none.
    ///
    /// **Durability** and **Concurrency** as [`open`](Options::open) and [`create`](Options::create).
    ///
    /// # Errors
    /// As [`open`](Options::open) and [`create`](Options::create).
    ///
    /// ```
    /// use durahash::{Map, Options};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// for visit in 1..=2 {
    ///     let map: Map<str, u64> = Options::new().open_or_create(&path)?;
    ///     let before = map.get("visits")?.unwrap_or(0);
    ///     map.put("visits", &(before + 1))?;
    ///     assert_eq!(map.get("visits")?, Some(visit));
    /// }
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn open_or_create<T: Openable>(&self, path: impl AsRef<Path>) -> Result<T> {
        open::open_or_create(&self.settings, T::REQUIRED, path.as_ref())
            .and_then(|pool| T::new(pool, &self.settings))
    }

    /// Makes a map in memory, which is gone when the last handle is. Without [`max_bytes`](Options::max_bytes) it takes
    /// at most the memory of the machine, or of the process's control group.
    ///
    /// # Errors
    /// [`Options`](crate::ErrorKind::Options) as of [`create`](Options::create);
    /// [`Io`](crate::ErrorKind::Io) where the system has no address space.
    ///
    /// ```
    /// use durahash::{Map, MultiMap, Options};
    /// let map: Map<u64, u64> = Options::new().in_memory()?;
    /// map.put(&1, &10)?;
    /// let edges = Options::new().in_memory::<MultiMap<u32, u32>>()?;
    /// edges.add(&1, &2)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn in_memory<T: Openable>(&self) -> Result<T> {
        open::make(&self.settings, T::REQUIRED, At::Memory)
            .and_then(|(pool, _)| T::new(pool, &self.settings))
    }

    /// Makes a map on any [`Medium`] of `durahash-media`, which is empty: for implementers, benchmarks and tests.
    /// The library compiles its designs for memory, files, files behind a log, and live images; the crate that names another
    /// medium compiles them for that.
    ///
    /// # Errors
    /// As [`create`](Options::create).
    ///
    /// ```
    /// use durahash::{Map, Options};
    /// use durahash_media::Dram;
    /// use durahash_media::metered::Metered;
    /// let medium = Metered::new(Dram::new(64 << 20)?);
    /// let meter = std::sync::Arc::clone(medium.meter());
    /// let map: Map<u64, u64> = Options::new().create_on(medium)?;
    /// let before = meter.counts();
    /// map.put(&1, &10)?;
    /// assert_eq!((meter.counts() - before).flushes, 1);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn create_on<T: Openable, M: Medium>(&self, medium: M) -> Result<T> {
        let spec = CreateSpec::new(&self.settings, T::REQUIRED)?;
        open::create_on(medium, &spec).and_then(|pool| T::new(pool, &self.settings))
    }

    /// Opens the map on any [`Medium`], as [`create_on`](Options::create_on) makes it.
    ///
    /// # Errors
    /// As [`open`](Options::open).
    ///
    /// ```
    /// use durahash::{Map, Options, SyncMode};
    /// use durahash_media::{Mapped, MappedOptions};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map: Map<u64, u64> = Options::new().sync_mode(SyncMode::Process).create(&path)?;
    /// map.put(&1, &10)?;
    /// map.close()?;
    /// let medium = Mapped::open(&path, false, &MappedOptions::default())?;
    /// let map: Map<u64, u64> = Options::new().open_on(medium)?;
    /// assert_eq!(map.get(&1)?, Some(10));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn open_on<T: Openable, M: Medium>(&self, medium: M) -> Result<T> {
        open::open_on(&self.settings, medium, T::REQUIRED)
            .and_then(|pool| T::new(pool, &self.settings))
    }

    /// Writes the pool at `path` anew, without gaps, and puts it in the old one's place. Seed,
    /// types, design and limits stay.
    ///
    /// **Durability.** A crash at any point leaves the old pool or the new one, whole. It may leave
    /// a file beside it, named `.NAME.compact~`, which the next compaction removes.
    /// **Concurrency.** The pool is locked throughout, also under its new file. Owner and
    /// permissions stay.
    ///
    /// # Errors
    /// As [`open`](Options::open) and [`create`](Options::create); [`Corrupt`](crate::ErrorKind::Corrupt) where an entry is
    /// damaged, [`Options`](crate::ErrorKind::Options) for a suspect pool, and [`Io`](crate::ErrorKind::Io) where the new file
    /// cannot get the old one's owner. The old pool stays as it is, unless it was the directory
    /// that could not be synced at last: the new pool is in place then, and nothing is lost.
    ///
    /// ```
    /// use durahash::{AnyMap, Map, Options};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// # Options::new().create::<Map<u64, u64>>(&path)?.close()?;
    /// Options::new().compact::<AnyMap>(&path)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn compact<T: Openable>(&self, path: impl AsRef<Path>) -> Result<()> {
        self.compact_watched::<T>(path, &mut |_, _| ())
    }

    /// As [`compact`](Options::compact), and calls `watch` with the number of slots that were copied, and of all.
    ///
    /// # Errors
    /// As [`compact`](Options::compact).
    ///
    /// ```
    /// use durahash::{AnyMap, Map, Options};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// # Options::new().create::<Map<u64, u64>>(&path)?.close()?;
    /// Options::new().compact_watched::<AnyMap>(&path, &mut |done, of| println!("{done} of {of}"))?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn compact_watched<T: Openable>(
        &self,
        path: impl AsRef<Path>,
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        compact(&self.settings, T::REQUIRED, path.as_ref(), watch)
    }

    /// Writes the pool at `path` anew, without gaps, to the new file `to`: a backup. The old one is only read, so
    /// others may read it meanwhile. `watch` is called as in
    /// [`compact_watched`](Options::compact_watched). The owner alone may open the new file.
    ///
    /// **Durability.** `to` has its name when the whole pool is on the disk, and not before.
    ///
    /// # Errors
    /// As [`compact`](Options::compact); [`Exists`](crate::ErrorKind::Exists) where `to` is there.
    ///
    /// ```
    /// use durahash::{Map, Options, Pool};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (path, backup) = (dir.path().join("map.pool"), dir.path().join("backup.pool"));
    /// # Options::new().create::<Map<u64, u64>>(&path)?.close()?;
    /// Options::new().compact_to::<Pool>(&path, &backup, &mut |_, _| ())?;
    /// # Options::new().open::<Map<u64, u64>>(&backup)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn compact_to<T: Openable>(
        &self,
        path: impl AsRef<Path>,
        to: impl AsRef<Path>,
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        compact_to(&self.settings, T::REQUIRED, (path.as_ref(), to.as_ref()), watch)
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}
