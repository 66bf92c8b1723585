//! How maps are made and opened.

use std::path::Path;

use durahash_media::{
    Dax, Dram, Error, ErrorKind, FileLock, Geometry, Mapped, MappedOptions, Medium, Result,
    SyncMode,
};

use crate::api::map::Map;
use crate::api::multi_map::MultiMap;
use crate::designs::pea::Policy;
use crate::designs::rewo::Cache;
use crate::engine::data::{Data, Type};
use crate::engine::design::Design;
use crate::engine::map::Raw;
use crate::engine::multi_map::MultiRaw;
use crate::engine::open::{self, Opened, Tuning, Wanted};

/// Bytes of address space for a file, unless another limit is set.
const FILE_BYTES: u64 = 1 << 40;
/// The same for a map in memory.
const MEMORY_BYTES: u64 = 64 << 30;
/// What is always had: below this a refusal of address space is an error.
const MEMORY_BYTES_MIN: u64 = 1 << 30;
/// Bytes of a log.
const LOG_BYTES: u64 = 64 << 20;
/// A pool that may not grow to so many times its log has none unless one is asked for.
const LOG_PART: u64 = 8;

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
    design: Option<Design>,
    seed: Option<u64>,
    max_bytes: Option<u64>,
    dax: Dax,
    force_flushes: bool,
    read_only: bool,
    accept_suspect: bool,
    sync_mode: Option<SyncMode>,
    log_bytes: u64,
    private_bytes: Option<u64>,
    geometry: Geometry,
    pub(crate) tuning: Tuning,
}

impl Options {
    /// The defaults: design REH (for a multimap Pea Hash), a random seed, files of up to 1 TiB, DAX where it is had.
    ///
    /// ```
    /// let map = durahash::Options::new().in_memory::<u64, u64>()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Options {
            design: None,
            seed: None,
            max_bytes: None,
            dax: Dax::Auto,
            force_flushes: false,
            read_only: false,
            accept_suspect: false,
            sync_mode: None,
            log_bytes: LOG_BYTES,
            private_bytes: None,
            geometry: Geometry::default(),
            tuning: Tuning::default(),
        }
    }

    /// The design of a new pool. An existing one keeps its own.
    ///
    /// ```
    /// use durahash::{Design, Options};
    /// let map = Options::new().design(Design::Reh).in_memory::<u64, u64>()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn design(mut self, design: Design) -> Self {
        self.design = Some(design);
        self
    }

    /// The seed of a new pool's hashes; random unless set, so that nobody can choose keys that
    /// collide. A fixed one makes costs repeatable.
    ///
    /// ```
    /// let map = durahash::Options::new().seed(42).in_memory::<u64, u64>()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Bytes beyond which a new pool never grows, and bytes of address space: 1 TiB for files and
    /// 64 GiB in memory unless set, less where the system has less.
    ///
    /// ```
    /// let map = durahash::Options::new().max_bytes(64 << 20).in_memory::<u64, u64>()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = Some(bytes);
        self
    }

    /// Whether a file shall be mapped directly, so that it survives the loss of power.
    ///
    /// ```
    /// use durahash::{Dax, ErrorKind, Options};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// match Options::new().dax(Dax::Require).create::<u64, u64>(&path) {
    ///     Ok(map) => println!("durability: {}", map.durability()),
    ///     Err(e) => assert!(matches!(e.kind(), ErrorKind::NoDax)),
    /// }
    /// ```
    #[must_use]
    pub fn dax(mut self, dax: Dax) -> Self {
        self.dax = dax;
        self
    }

    /// Makes flushes and fences real on files in the page cache, where they buy nothing: for
    /// benchmarks.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = durahash::Options::new().force_flushes(true).create::<u64, u64>(&path)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn force_flushes(mut self, force: bool) -> Self {
        self.force_flushes = force;
        self
    }

    /// Opens for reading only: the file is never written, several processes may read it at once,
    /// and a recovery happens in memory.
    ///
    /// ```
    /// use durahash::{ErrorKind, Options};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// # Options::new().create::<u64, u64>(&path)?.close()?;
    /// let map = Options::new().read_only(true).open::<u64, u64>(&path)?;
    /// assert!(matches!(map.put(&1, &2).unwrap_err().kind(), ErrorKind::ReadOnly));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Opens a pool that lay in the page cache when the machine went down, although whole pages may
    /// be missing. It is marked as suspect for good; [`Map::check`] finds much, but not all.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// # durahash::Options::new().create::<u64, u64>(&path)?.close()?;
    /// let map = durahash::Options::new().accept_suspect(true).open::<u64, u64>(&path)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn accept_suspect(mut self, accept: bool) -> Self {
        self.accept_suspect = accept;
        self
    }

    /// What operations on a file in the page cache survive, and when. A new pool keeps the mode; an
    /// existing one is opened in its own mode unless this says another, for this open. On
    /// persistent memory (DAX) all is durable at once.
    ///
    /// A new pool has the mode [`INTERVAL`](SyncMode::INTERVAL) unless this says another, and a log of
    /// [`log_bytes`](Options::log_bytes); the mode [`Process`](SyncMode::Process), and no log, if the file
    /// lies in memory (tmpfs), if [`max_bytes`](Options::max_bytes) is less than eight times the log, or
    /// where flushes are forced. Where the disk has no room for a log that was not
    /// asked for, `create` fails with [`Full`](crate::ErrorKind::Full), and this is what does without.
    ///
    /// Where the disk fails behind a log, in the mode interval or strict, every operation of the map,
    /// lookups too, is an error from then on, and nothing is tried again. Open it anew.
    ///
    /// ```
    /// use durahash::{Durability, Options, SyncMode};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let strict = Options::new().sync_mode(SyncMode::Strict);
    /// let map = strict.create::<u64, u64>(&path)?;
    /// map.put(&1, &10)?; // on the disk
    /// assert_eq!(map.durability(), Durability::Power);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn sync_mode(mut self, mode: SyncMode) -> Self {
        self.sync_mode = Some(mode);
        self
    }

    /// Bytes of the log that a pool gets when it is first used in a mode that needs one: 64 MiB
    /// unless set. A longer log is written back to the pool less often.
    ///
    /// ```
    /// use durahash::{Options, SyncMode};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let small = Options::new().sync_mode(SyncMode::Strict).log_bytes(1 << 20);
    /// let map = small.create::<u64, u64>(&path)?;
    /// assert_eq!(map.stats()?.log.unwrap().area_bytes, 1 << 20);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn log_bytes(mut self, bytes: u64) -> Self {
        self.log_bytes = bytes;
        self
    }

    /// Bytes of memory that a pool behind a log may take beside the system's page cache, before pages
    /// that are written back are given back: half of the machine's memory unless set. For a moment it
    /// may take more, a page for each line that the log has room for at the most. Every page that is
    /// given back and stored to again is copied again. A quarter of it, for what the pool grows by, is
    /// not given back before the pool is closed.
    ///
    /// ```
    /// use durahash::{Options, SyncMode};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let strict = Options::new().sync_mode(SyncMode::Strict).log_bytes(1 << 20);
    /// let map = strict.private_bytes(64 << 20).create::<u64, u64>(&path)?;
    /// assert!(map.stats()?.log.unwrap().private_bytes < 64 << 20);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn private_bytes(mut self, bytes: u64) -> Self {
        self.private_bytes = Some(bytes);
        self
    }

    /// Sizes of a new pool's parts, so that tests see splits and chains in ten inserts.
    #[doc(hidden)]
    #[must_use]
    pub fn geometry(mut self, geometry: Geometry) -> Self {
        self.geometry = geometry;
        self
    }

    /// How a table of Pea Hash grows while it is open; it may differ from open to open.
    ///
    /// ```
    /// use durahash::pea::Policy;
    /// use durahash::{Design, Options};
    /// let in_four = Policy { split_bits: 2, ..Policy::default() };
    /// let map = Options::new().design(Design::Pea).policy(in_four).in_memory::<u64, u64>()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.tuning.policy = policy;
        self
    }

    /// The cached table of a Rewo-Hash; it may differ from open to open.
    ///
    /// ```
    /// use durahash::rewo::Cache;
    /// use durahash::{Design, Options};
    /// let none = Cache { bytes: Some(0), ..Cache::default() };
    /// let map = Options::new().design(Design::Rewo).cache(none).in_memory::<u64, u64>()?;
    /// assert_eq!(map.stats()?.index.cached_slots, 0);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn cache(mut self, cache: Cache) -> Self {
        self.tuning.cache = cache;
        self
    }

    /// Creates a pool file at `path`.
    ///
    /// **Durability.** The file appears under its name when it is whole; a crash leaves it, or
    /// nothing.
    /// **Concurrency.** Of several that create the same path at once, one succeeds.
    ///
    /// # Errors
    /// [`Exists`](ErrorKind::Exists); [`Full`](ErrorKind::Full); [`NoDax`](ErrorKind::NoDax);
    /// [`Options`](ErrorKind::Options) where the options contradict each other;
    /// [`Io`](ErrorKind::Io).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// let map = durahash::Options::new().create::<str, [u8]>(&path)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn create<K: Data + ?Sized, V: Data + ?Sized>(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Map<K, V>> {
        Raw::create(self, path.as_ref(), K::TYPE, V::TYPE).map(Map::new)
    }

    /// Opens the pool file at `path`, and recovers it if it was not closed.
    ///
    /// **Durability.** Recovery may be cut short any number of times; nothing acknowledged is lost by
    /// it.
    /// **Concurrency.** A pool is open for writing once, in one process, or for reading any number
    /// of times.
    ///
    /// # Errors
    /// [`Types`](ErrorKind::Types) where the pool holds other keys or values;
    /// [`Locked`](ErrorKind::Locked); [`PowerLoss`](ErrorKind::PowerLoss), see
    /// [`accept_suspect`](Options::accept_suspect); [`NotAPool`](ErrorKind::NotAPool),
    /// [`Version`](ErrorKind::Version), [`ByteOrder`](ErrorKind::ByteOrder),
    /// [`Design`](ErrorKind::Design), [`Truncated`](ErrorKind::Truncated),
    /// [`Corrupt`](ErrorKind::Corrupt) as the bytes are; [`NoDax`](ErrorKind::NoDax);
    /// [`Io`](ErrorKind::Io). None of them touches the file.
    ///
    /// ```
    /// use durahash::{ErrorKind, Options};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// # Options::new().create::<u64, u64>(&path)?.close()?;
    /// let wrong = Options::new().open::<str, u64>(&path);
    /// assert!(matches!(wrong.unwrap_err().kind(), ErrorKind::Types { .. }));
    /// let map = Options::new().open::<u64, u64>(&path)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn open<K: Data + ?Sized, V: Data + ?Sized>(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Map<K, V>> {
        self.open_raw::<Raw>(path.as_ref(), &accept::<K, V>).map(Map::new)
    }

    /// Opens the pool file at `path`, or creates it where there is none.
    ///
    /// **Durability** and **Concurrency** as [`open`](Options::open) and [`create`](Options::create).
    ///
    /// # Errors
    /// As [`open`](Options::open) and [`create`](Options::create).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("map.pool");
    /// for visit in 1..=2 {
    ///     let map = durahash::Options::new().open_or_create::<str, u64>(&path)?;
    ///     let before = map.get("visits")?.unwrap_or(0);
    ///     map.put("visits", &(before + 1))?;
    ///     assert_eq!(map.get("visits")?, Some(visit));
    /// }
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn open_or_create<K: Data + ?Sized, V: Data + ?Sized>(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Map<K, V>> {
        self.open_or_create_raw(path.as_ref(), K::TYPE, V::TYPE, &accept::<K, V>).map(Map::new)
    }

    /// Makes a map in memory, which is gone when the last handle is.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) where the options contradict each other;
    /// [`Io`](ErrorKind::Io) where the system has no address space.
    ///
    /// ```
    /// let map = durahash::Options::new().in_memory::<u64, u64>()?;
    /// map.put(&1, &10)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn in_memory<K: Data + ?Sized, V: Data + ?Sized>(&self) -> Result<Map<K, V>> {
        Raw::create_in_memory(self, K::TYPE, V::TYPE).map(Map::new)
    }

    fn create_in_memory<R: Opened>(&self, key: Type, value: Type) -> Result<R> {
        if self.read_only {
            let what = "a new map cannot be read-only";
            return Err(ErrorKind::Options { what }.into());
        }
        if self.dax == Dax::Require {
            return Err(ErrorKind::NoDax.into());
        }
        let wanted = self.wanted::<R>(key, value)?;
        self.with_less_space(MEMORY_BYTES, |bytes| open::create(Dram::new(bytes)?, &wanted))
    }

    /// Creates a pool file at `path` for any number of values for each key.
    ///
    /// **Durability** and **Concurrency** as [`create`](Options::create).
    ///
    /// # Errors
    /// As [`create`](Options::create); [`Options`](ErrorKind::Options) where a design was asked for that
    /// has no multimaps.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("edges.pool");
    /// let edges = durahash::Options::new().create_multi::<u32, u32>(&path)?;
    /// edges.add(&1, &2)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn create_multi<K: Data + ?Sized, V: Data + ?Sized>(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<MultiMap<K, V>> {
        MultiRaw::create(self, path.as_ref(), K::TYPE, V::TYPE).map(MultiMap::new)
    }

    /// Opens the pool file of a multimap at `path`, and recovers it if it was not closed.
    ///
    /// **Durability** and **Concurrency** as [`open`](Options::open).
    ///
    /// # Errors
    /// As [`open`](Options::open); [`Design`](ErrorKind::Design) where it is the pool of a map.
    ///
    /// ```
    /// use durahash::{ErrorKind, Options};
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("edges.pool");
    /// # Options::new().create_multi::<u32, u32>(&path)?.close()?;
    /// let wrong = Options::new().open::<u32, u32>(&path);
    /// assert!(matches!(wrong.unwrap_err().kind(), ErrorKind::Design { .. }));
    /// let edges = Options::new().open_multi::<u32, u32>(&path)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn open_multi<K: Data + ?Sized, V: Data + ?Sized>(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<MultiMap<K, V>> {
        self.open_raw::<MultiRaw>(path.as_ref(), &accept::<K, V>).map(MultiMap::new)
    }

    /// Opens the pool file of a multimap at `path`, or creates it where there is none.
    ///
    /// **Durability** and **Concurrency** as [`open`](Options::open) and [`create`](Options::create).
    ///
    /// # Errors
    /// As [`open_multi`](Options::open_multi) and [`create_multi`](Options::create_multi).
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("edges.pool");
    /// for visit in 1..=2 {
    ///     let edges = durahash::Options::new().open_or_create_multi::<u32, u32>(&path)?;
    ///     edges.add(&1, &visit)?;
    ///     assert_eq!(edges.count(&1)?, u64::from(visit));
    /// }
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn open_or_create_multi<K: Data + ?Sized, V: Data + ?Sized>(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<MultiMap<K, V>> {
        self.open_or_create_raw(path.as_ref(), K::TYPE, V::TYPE, &accept::<K, V>).map(MultiMap::new)
    }

    /// Makes a multimap in memory, which is gone when the last handle is.
    ///
    /// # Errors
    /// As [`in_memory`](Options::in_memory) and [`create_multi`](Options::create_multi).
    ///
    /// ```
    /// let edges = durahash::Options::new().in_memory_multi::<u32, u32>()?;
    /// edges.add(&1, &2)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn in_memory_multi<K: Data + ?Sized, V: Data + ?Sized>(&self) -> Result<MultiMap<K, V>> {
        MultiRaw::create_in_memory(self, K::TYPE, V::TYPE).map(MultiMap::new)
    }

    /// Makes a map on any medium, which is empty.
    #[doc(hidden)]
    pub fn create_on<M: Medium, K: Data + ?Sized, V: Data + ?Sized>(
        &self,
        medium: M,
    ) -> Result<Map<K, V>> {
        let wanted = self.wanted::<Raw>(K::TYPE, V::TYPE)?;
        open::create::<Raw, M>(medium, &wanted).map(Map::new)
    }

    /// Opens the map on any medium.
    #[doc(hidden)]
    pub fn open_on<M: Medium, K: Data + ?Sized, V: Data + ?Sized>(
        &self,
        medium: M,
    ) -> Result<Map<K, V>> {
        let accept = &accept::<K, V>;
        open::open::<Raw, M>(medium, self.accept_suspect, self.tuning, accept).map(Map::new)
    }

    /// Makes a multimap on any medium, which is empty.
    #[doc(hidden)]
    pub fn create_multi_on<M: Medium, K: Data + ?Sized, V: Data + ?Sized>(
        &self,
        medium: M,
    ) -> Result<MultiMap<K, V>> {
        let wanted = self.wanted::<MultiRaw>(K::TYPE, V::TYPE)?;
        open::create::<MultiRaw, M>(medium, &wanted).map(MultiMap::new)
    }

    /// Opens the multimap on any medium.
    #[doc(hidden)]
    pub fn open_multi_on<M: Medium, K: Data + ?Sized, V: Data + ?Sized>(
        &self,
        medium: M,
    ) -> Result<MultiMap<K, V>> {
        let accept = &accept::<K, V>;
        open::open::<MultiRaw, M>(medium, self.accept_suspect, self.tuning, accept)
            .map(MultiMap::new)
    }

    fn create_file<R: Opened>(&self, path: &Path, key: Type, value: Type) -> Result<R> {
        if self.read_only {
            let what = "a new map cannot be read-only";
            return Err(ErrorKind::Options { what }.into());
        }
        let wanted = self.wanted::<R>(key, value)?;
        self.with_less_space(FILE_BYTES, |max_bytes| {
            let options = self.mapped(max_bytes);
            let medium = Mapped::create(path, &options)?;
            let sync_mode = self.sync_mode.unwrap_or_else(|| self.default_mode(&medium));
            let wanted = Wanted { sync_mode, ..wanted.clone() };
            if wanted.sync_mode == SyncMode::Process || medium.is_dax() {
                return open::create(medium, &wanted);
            }
            // The log comes to a pool that is whole, and the name to one that is in use.
            let lock = medium.file_lock();
            open::create::<R, _>(medium, &Wanted { publish: false, ..wanted.clone() })?.close()?;
            let file = Mapped::reopen(lock, &options)?;
            let lock = file.file_lock();
            let raw = self.open_behind_log(file, wanted.sync_mode, &|_, _, _| Ok(()))?;
            lock.publish()?;
            Ok(raw)
        })
    }

    pub(crate) fn open_raw<R: Compiled>(
        &self,
        path: &Path,
        accept: &dyn Fn(Design, Type, Type) -> Result<()>,
    ) -> Result<R> {
        R::open(self, path, accept).map(|(raw, _)| raw)
    }

    pub(crate) fn open_or_create_raw<R: Compiled>(
        &self,
        path: &Path,
        key: Type,
        value: Type,
        accept: &dyn Fn(Design, Type, Type) -> Result<()>,
    ) -> Result<R> {
        match self.open_raw(path, accept) {
            Err(e) if !self.read_only && is_missing(&e) => {}
            opened => return opened,
        }
        match R::create(self, path, key, value) {
            // Somebody else was quicker.
            Err(e) if matches!(e.kind(), ErrorKind::Exists) => self.open_raw(path, accept),
            created => created,
        }
    }

    /// As [`open_raw`](Self::open_raw), with the lock of the file.
    fn open_file<R: Opened>(
        &self,
        path: &Path,
        accept: &dyn Fn(Design, Type, Type) -> Result<()>,
    ) -> Result<(R, FileLock)> {
        self.with_less_space(FILE_BYTES, |max_bytes| {
            let medium = Mapped::open(path, self.read_only, &self.mapped(max_bytes))?;
            let lock = medium.file_lock();
            let mode = open::sync_mode::<R, _>(&medium, accept)?;
            let mode = self.sync_mode.unwrap_or(mode);
            let raw = if mode == SyncMode::Process || self.read_only || medium.is_dax() {
                self.open_medium(medium, accept)
            } else {
                self.open_behind_log(medium, mode, accept)
            };
            Ok((raw?, lock))
        })
    }

    /// The mode of a new pool for which none is asked. Behind a log it has seven times the inserts of
    /// the best log-structured store that does not sync, one by one, and nearly all of its own lookups, and
    /// the loss of power takes a moment instead of the pool (`docs/benchmarks.md`). Where that is no
    /// question, or a log would be most of the pool, there is
    /// none. On a disk that is too full for one, a pool without a log has to be asked for.
    fn default_mode(&self, medium: &Mapped) -> SyncMode {
        let forgets = medium.is_dax() || medium.is_in_memory();
        let is_large = self.max_bytes.is_none_or(|max| max / LOG_PART >= self.log_bytes);
        if is_large && !forgets && !self.force_flushes {
            SyncMode::INTERVAL
        } else {
            SyncMode::Process
        }
    }

    fn open_behind_log<R: Opened>(
        &self,
        file: Mapped,
        mode: SyncMode,
        accept: &dyn Fn(Design, Type, Type) -> Result<()>,
    ) -> Result<R> {
        let medium = open::behind_log::<R>(
            file,
            self.accept_suspect,
            mode,
            self.log_bytes,
            self.private_bytes,
            accept,
        )?;
        self.open_medium(medium, accept)
    }

    fn open_medium<R: Opened, M: Medium>(
        &self,
        medium: M,
        accept: &dyn Fn(Design, Type, Type) -> Result<()>,
    ) -> Result<R> {
        open::open(medium, self.accept_suspect, self.tuning, accept)
    }

    /// Makes what needs address space, `bytes` of it unless a limit is set; where the system has not
    /// so much, tries with less and less. The design's own arrays take some beside the medium.
    fn with_less_space<T>(&self, bytes: u64, make: impl Fn(u64) -> Result<T>) -> Result<T> {
        let mut max_bytes = self.max_bytes.unwrap_or(bytes);
        loop {
            match make(max_bytes) {
                Err(e)
                    if is_out_of_memory(&e)
                        && self.max_bytes.is_none()
                        && max_bytes > MEMORY_BYTES_MIN =>
                {
                    max_bytes /= 2;
                }
                made => return made,
            }
        }
    }

    pub(crate) fn mapped(&self, max_bytes: u64) -> MappedOptions {
        MappedOptions { max_bytes, dax: self.dax, force_flushes: self.force_flushes }
    }

    fn wanted<R: Opened>(&self, key: Type, value: Type) -> Result<Wanted> {
        if [key, value].iter().any(|ty| matches!(ty, Type::Array(bytes) if *bytes >= 1 << 24)) {
            let what = "an array type has less than 16 MiB; longer values are bytes";
            return Err(ErrorKind::Options { what }.into());
        }
        let seed = match self.seed {
            Some(seed) => seed,
            None => getrandom::u64().map_err(|e| {
                Error::io("asking for random bytes", None, std::io::Error::other(e))
            })?,
        };
        Ok(Wanted {
            design: self.design.unwrap_or(R::DESIGN),
            key,
            value,
            geometry: self.geometry,
            seed,
            max_bytes: self.max_bytes.unwrap_or(u64::MAX),
            sync_mode: SyncMode::Process,
            tuning: self.tuning,
            publish: true,
        })
    }
}

/// Makes and opens maps without parameters of types, and so is the way of all methods that have any: every
/// design over every medium is compiled here, once, and not in each crate that names its keys.
pub(crate) trait Compiled: Opened {
    /// Makes one in a new file.
    fn create(options: &Options, path: &Path, key: Type, value: Type) -> Result<Self>;

    /// Makes one in memory.
    fn create_in_memory(options: &Options, key: Type, value: Type) -> Result<Self>;

    /// Opens that of a file, after `accept` has agreed to its design and types.
    fn open(
        options: &Options,
        path: &Path,
        accept: &dyn Fn(Design, Type, Type) -> Result<()>,
    ) -> Result<(Self, FileLock)>;
}

macro_rules! compile {
    ($($Raw:ty),*) => {
        $(impl Compiled for $Raw {
            fn create(options: &Options, path: &Path, key: Type, value: Type) -> Result<Self> {
                options.create_file(path, key, value)
            }

            fn create_in_memory(options: &Options, key: Type, value: Type) -> Result<Self> {
                options.create_in_memory(key, value)
            }

            fn open(
                options: &Options,
                path: &Path,
                accept: &dyn Fn(Design, Type, Type) -> Result<()>,
            ) -> Result<(Self, FileLock)> {
                options.open_file(path, accept)
            }
        })*
    };
}

compile!(Raw, MultiRaw);

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}

/// Whether the system has not so much memory or address space.
fn is_out_of_memory(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Io { source, .. }
        if source.kind() == std::io::ErrorKind::OutOfMemory)
}

/// Whether an open failed because there is no file.
fn is_missing(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Io { source, .. }
        if source.kind() == std::io::ErrorKind::NotFound)
}

/// Refuses pools of other types.
fn accept<K: Data + ?Sized, V: Data + ?Sized>(_: Design, key: Type, value: Type) -> Result<()> {
    if (key, value) == (K::TYPE, V::TYPE) {
        return Ok(());
    }
    let name = |key: Type, value: Type| format!("keys of {key} and values of {value}");
    Err(ErrorKind::Types { found: name(key, value), wanted: name(K::TYPE, V::TYPE) }.into())
}
