//! Files of several maps.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;
use std::sync::Arc;

use durahash_media::{Durability, ErrorKind, PoolStats, Result};

use super::cache::inner::{SUFFIX, is_beside};
use super::openable::{NamedMap, Openable, sealed};
use super::options::Options;
use crate::engine::data::Type;
use crate::engine::design::Design;
use crate::engine::maps::OpenPool;
use crate::engine::settings::Settings;
use crate::engine::spec::{MapSpec, Required};
use crate::index::Finding;

/// A file of several maps, each with a name, and types and a design of its own. They have one lock and one log,
/// and are recovered together.
///
/// A pool is made and opened by [`Options`], as a map is. A file of one map is a pool, too: its map
/// has the name `main`, and can have others beside it. [`Options::open`] with the type of a map opens that one, and
/// leaves the others as they are.
///
/// A pool has room for `main` and 63 other maps. A name has 1 to 64 bytes, none of them a control character.
/// An empty map takes one to three extents of the file, of 64 KiB.
///
/// Clones, and the maps that were opened, are handles of one pool. The last of them closes it.
///
/// Options of the file are those by which the pool was made or opened; so are [`policy`](Options::policy) and
/// [`cache`](Options::cache) of maps that were there at the open. The options of a new map are its
/// [design](Options::design), [types](Options::types) and [seed](Options::seed), and those two.
///
/// ```
/// use durahash::{Design, Map, MultiMap, Options, Pool};
///
/// # fn main() -> durahash::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("app.pool");
/// let pool: Pool = Options::new().open_or_create(&path)?;
/// let users: Map<str, [u8]> = pool.open_or_create("users", &Options::new().design(Design::Pea))?;
/// let friends: MultiMap<u32, u32> = pool.open_or_create("friends", &Options::new())?;
/// users.put("Ada", b"a mathematician")?;
/// friends.add(&1, &2)?;
/// assert_eq!(pool.list()?.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Pool {
    pool: Arc<OpenPool>,
}

/// A map in the [list](Pool::list) of a pool.
///
/// ```
/// use durahash::{Map, Options, Pool, Type};
/// let pool: Pool = Options::new().in_memory()?;
/// pool.create::<Map<str, u32>>("ages", &Options::new())?;
/// let ages = &pool.list()?[0];
/// assert_eq!((&ages.name[..], ages.key_type, ages.entries), ("ages", Type::Str, 0));
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MapInfo {
    /// The name; `main` is that of the map of a file that was made as one.
    pub name: String,
    /// True for a multimap.
    pub is_multimap: bool,
    /// The design.
    pub design: Design,
    /// Type of the keys.
    pub key_type: Type,
    /// Type of the values; [`Type::Expiring`] if the map is a [`Cache`](crate::Cache).
    pub value_type: Type,
    /// How many entries there are.
    pub entries: u64,
}

// As of a map.
impl UnwindSafe for Pool {}
impl RefUnwindSafe for Pool {}

impl sealed::Sealed for Pool {
    const REQUIRED: Required = Required::ANY;
    fn new(pool: Arc<OpenPool>, _: &Settings) -> Result<Self> {
        Ok(Pool { pool })
    }
}

impl Openable for Pool {}

impl Pool {
    /// The pool of a map that is open, whose file cannot be opened again meanwhile.
    ///
    /// ```
    /// use durahash::{Map, Options, Pool};
    /// let map: Map<str, u32> = Options::new().in_memory()?;
    /// let beside: Map<u64, u64> = Pool::of(&map).create("beside", &Options::new())?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn of<T: NamedMap>(map: &T) -> Self {
        Pool { pool: Arc::clone(map.pool()) }
    }

    /// Makes a map.
    ///
    /// **Durability.** A crash leaves the map, empty, or nothing; once this returns it stays, as far as the pool's
    /// mode promises.
    /// **Concurrency.** Operations on other maps go on meanwhile.
    ///
    /// # Errors
    /// [`MapExists`](crate::ErrorKind::MapExists); [`Full`](crate::ErrorKind::Full), also where there are 63 maps;
    /// [`Options`](crate::ErrorKind::Options) for a name that cannot be, and as of [`Options::create`];
    /// [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned).
    ///
    /// ```
    /// use durahash::{ErrorKind, Map, Options, Pool};
    /// let pool: Pool = Options::new().in_memory()?;
    /// let ages: Map<str, u32> = pool.create("ages", &Options::new())?;
    /// let again = pool.create::<Map<str, u32>>("ages", &Options::new());
    /// assert!(matches!(again.unwrap_err().kind(), ErrorKind::MapExists { .. }));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn create<T: NamedMap>(&self, name: &str, options: &Options) -> Result<T> {
        self.make(name, options).map_err(self.at())
    }

    fn make<T: NamedMap>(&self, name: &str, options: &Options) -> Result<T> {
        self.pool.store.writable()?;
        let spec = MapSpec::new(&options.settings, T::REQUIRED)?;
        // The type says that one is wanted.
        let spec = spec.ok_or(ErrorKind::Closed)?;
        if matches!(spec.value, Type::Expiring(_)) {
            self.clear_way(name)?;
        }
        let map = self.pool.create(name, &spec, Ok)?;
        T::numbered(&self.pool, map, &options.settings).inspect_err(|_| {
            let _caches = self.pool.shared();
            if self.is_cache(name) && !self.has(&beside(name)) {
                // Nobody could open it. Where this fails, the error tells more than its own.
                let _ = self.pool.remove(name);
            }
        })
    }

    /// Removes what a removal of a cache of this name left that was cut off.
    fn clear_way(&self, name: &str) -> Result<()> {
        let _caches = self.pool.shared();
        let beside = beside(name);
        if self.has(name) || !self.has(&beside) {
            return Ok(());
        }
        if !is_beside(&self.pool, &beside)? {
            return Err(ErrorKind::MapExists { name: beside }.into());
        }
        self.pool.remove(&beside)
    }

    /// Opens a map. It is open once, whatever number of handles it has. A [`Cache`](crate::Cache) has the bounds that the
    /// pool keeps; [`open_or_create`](Pool::open_or_create) sets others, if it has no handle yet.
    ///
    /// # Errors
    /// [`NoMap`](crate::ErrorKind::NoMap); [`Types`](crate::ErrorKind::Types) and
    /// [`Design`](crate::ErrorKind::Design) where the map is another than `T`.
    ///
    /// ```
    /// use durahash::{AnyMap, Map, Options, Pool};
    /// let pool: Pool = Options::new().in_memory()?;
    /// let ages: Map<str, u32> = pool.create("ages", &Options::new())?;
    /// ages.put("Ada", &36)?;
    /// let any: AnyMap = pool.open("ages")?;
    /// assert_eq!(any.get(b"Ada")?, Some(b"36".to_vec()));
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn open<T: NamedMap>(&self, name: &str) -> Result<T> {
        self.open_by(name, &Options::new())
    }

    fn open_by<T: NamedMap>(&self, name: &str, options: &Options) -> Result<T> {
        T::named(&self.pool, name, &options.settings).map_err(self.at())
    }

    /// Opens a map, or makes it where there is none of its name.
    ///
    /// # Errors
    /// As [`open`](Pool::open) and [`create`](Pool::create).
    ///
    /// ```
    /// use durahash::{Map, Options, Pool};
    /// let pool: Pool = Options::new().in_memory()?;
    /// for _ in 0..2 {
    ///     let ages: Map<str, u32> = pool.open_or_create("ages", &Options::new())?;
    /// }
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn open_or_create<T: NamedMap>(&self, name: &str, options: &Options) -> Result<T> {
        match self.open_by(name, options) {
            Err(e) if matches!(e.kind(), ErrorKind::NoMap { .. }) => {}
            opened => return opened,
        }
        match self.create(name, options) {
            // Another thread was quicker.
            Err(e) if matches!(e.kind(), ErrorKind::MapExists { .. }) => {
                self.open_by(name, options)
            }
            created => created,
        }
    }

    /// The maps, `main` first.
    ///
    /// **Concurrency.** The counts of entries are exact while there are no writers. After a pool was not closed,
    /// the first call may count them, which takes time in proportion to the pool.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) where a map is damaged.
    ///
    /// ```
    /// use durahash::{Map, Options, Pool};
    /// let pool: Pool = Options::new().in_memory()?;
    /// pool.create::<Map<str, u32>>("ages", &Options::new())?;
    /// for map in pool.list()? {
    ///     println!("{}: {} to {}, {} entries", map.name, map.key_type, map.value_type, map.entries);
    /// }
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn list(&self) -> Result<Vec<MapInfo>> {
        let maps = self.pool.list().map_err(self.at())?.into_iter();
        let info = maps.map(|map| {
            let (design, key_type, value_type) = map.types;
            let (name, is_multimap, entries) = (map.name, map.is_multimap, map.entries);
            MapInfo { name, is_multimap, design, key_type, value_type, entries }
        });
        Ok(info.collect())
    }

    /// The names of the maps, `main` first: faster than the [list](Pool::list).
    ///
    /// ```
    /// use durahash::{Map, Options, Pool};
    /// let pool: Pool = Options::new().in_memory()?;
    /// pool.create::<Map<str, u32>>("ages", &Options::new())?;
    /// assert_eq!(pool.names(), ["ages"]);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.pool.store.maps().into_iter().map(|(_, name, _)| name).collect()
    }

    /// Gives a map another name. Its handles stay good.
    ///
    /// **Durability.** A crash leaves the old name or the new one.
    ///
    /// # Errors
    /// [`NoMap`](crate::ErrorKind::NoMap), [`MapExists`](crate::ErrorKind::MapExists);
    /// [`Options`](crate::ErrorKind::Options) for a name that cannot be, for `main`, and for a
    /// [`Cache`](crate::Cache); [`ReadOnly`](crate::ErrorKind::ReadOnly), [`Poisoned`](crate::ErrorKind::Poisoned).
    ///
    /// ```
    /// use durahash::{Map, Options, Pool};
    /// let pool: Pool = Options::new().in_memory()?;
    /// let ages: Map<str, u32> = pool.create("ages", &Options::new())?;
    /// pool.rename("ages", "years")?;
    /// ages.put("Ada", &36)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn rename(&self, name: &str, new: &str) -> Result<()> {
        let of = name.strip_suffix(SUFFIX).unwrap_or(name);
        if self.is_cache(name) || self.is_cache(of) {
            let what = "a cache keeps its name, which the map beside it has, too";
            return Err(ErrorKind::Options { what }.into());
        }
        self.pool.rename(name, new).map_err(self.at())
    }

    /// Removes a map with all of its entries, and gives its space back to the pool; with a [`Cache`](crate::Cache) the map
    /// beside it.
    ///
    /// **Durability.** A crash leaves the map as it was, or nothing of it; or the map beside a cache, which a new cache of its name
    /// or another removal removes.
    /// **Concurrency.** Operations on other maps go on meanwhile.
    ///
    /// # Errors
    /// [`Options`](crate::ErrorKind::Options) while the map has handles or iterators, and for `main`;
    /// [`NoMap`](crate::ErrorKind::NoMap); [`ReadOnly`](crate::ErrorKind::ReadOnly),
    /// [`Poisoned`](crate::ErrorKind::Poisoned).
    ///
    /// ```
    /// use durahash::{Map, Options, Pool};
    /// let pool: Pool = Options::new().in_memory()?;
    /// let ages: Map<str, u32> = pool.create("ages", &Options::new())?;
    /// assert!(pool.remove("ages").is_err());
    /// drop(ages);
    /// pool.remove("ages")?;
    /// assert!(pool.list()?.is_empty());
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn remove(&self, name: &str) -> Result<()> {
        self.remove_both(name).map_err(self.at())
    }

    fn remove_both(&self, name: &str) -> Result<()> {
        // No cache is opened meanwhile.
        let _caches = self.pool.shared();
        let (beside, was_cache) = (beside(name), self.is_cache(name));
        let removed = self.pool.remove(name);
        if matches!(&removed, Err(e) if !matches!(e.kind(), ErrorKind::NoMap { .. })) {
            return removed;
        }
        // Behind the cache, which would forget its bounds without it. It may be all that an earlier removal left.
        if self.has(&beside) && (was_cache || is_beside(&self.pool, &beside)?) {
            return self.pool.remove(&beside);
        }
        removed
    }

    fn has(&self, name: &str) -> bool {
        self.pool.store.maps().iter().any(|(_, other, _)| other == name)
    }

    fn is_cache(&self, name: &str) -> bool {
        self.pool.store.maps().iter().any(|(_, other, format)| {
            let value = Type::from_tag(format.value_type);
            other == name && matches!(value, Some(Type::Expiring(_)))
        })
    }

    /// Puts everything that has returned on the disk, as [`Map::sync`](crate::Map::sync) does: of all maps.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// let pool: durahash::Pool = durahash::Options::new().in_memory()?;
    /// pool.sync()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn sync(&self) -> Result<()> {
        self.pool.sync().map_err(self.at())
    }

    /// Figures about the space of the pool. Those of a map are its own ([`Map::stats`](crate::Map::stats)).
    ///
    /// ```
    /// let pool: durahash::Pool = durahash::Options::new().in_memory()?;
    /// assert!(pool.stats().bytes > 0);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> PoolStats {
        self.pool.store.facts().space
    }

    /// Verifies every invariant of all maps, of their records and of the pool, calls `found` with each violation
    /// and the name of the map, which is empty for the pool, and changes nothing.
    ///
    /// **Concurrency.** There must be no writers: a change under way looks like damage.
    ///
    /// # Errors
    /// Errors that keep the check from being done.
    ///
    /// ```
    /// let pool: durahash::Pool = durahash::Options::new().in_memory()?;
    /// pool.check(&mut |map, finding| panic!("{map}: {finding:?}"))?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn check(&self, found: &mut dyn FnMut(&str, Finding)) -> Result<()> {
        self.check_watched(found, &mut |_, _| ())
    }

    /// As [`check`](Pool::check), and tells `watch` how many entries of how many of a map were looked at.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// let pool: durahash::Pool = durahash::Options::new().in_memory()?;
    /// pool.check_watched(&mut |_, _| (), &mut |done, of| println!("{done} of {of}"))?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn check_watched(
        &self,
        found: &mut dyn FnMut(&str, Finding),
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        self.pool.check(found, watch).map_err(self.at())
    }

    /// Writes the pool to the new file `to`, as [`Map::backup`](crate::Map::backup), and tells `watch` how much of how much is copied.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// let pool: durahash::Pool = durahash::Options::new().in_memory()?;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let to = dir.path().join("backup.pool");
    /// pool.backup_watched(&to, &mut |done, of| println!("{done} of {of}"))?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn backup_watched(
        &self,
        to: impl AsRef<Path>,
        watch: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        self.pool.backup(to.as_ref(), watch).map_err(self.at())
    }

    /// As [`backup_watched`](Pool::backup_watched), unwatched.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// let pool: durahash::Pool = durahash::Options::new().in_memory()?;
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let to = dir.path().join("backup.pool");
    /// pool.backup(&to)?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<()> {
        self.backup_watched(to, &mut |_, _| ())
    }

    /// Does a piece of background work of any of the maps, and returns true if more is waiting, as
    /// [`Map::step`](crate::Map::step).
    ///
    /// # Errors
    /// Errors that the work meets.
    ///
    /// ```
    /// let pool: durahash::Pool = durahash::Options::new().in_memory()?;
    /// while pool.step()? {}
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn step(&self) -> Result<bool> {
        self.pool.step().map_err(self.at())
    }

    /// The crashes that an acknowledged operation survives.
    ///
    /// ```
    /// let pool: durahash::Pool = durahash::Options::new().in_memory()?;
    /// println!("survives: {}", pool.durability());
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.pool.store.durability()
    }

    /// The pool's file; `None` in memory.
    ///
    /// ```
    /// let pool: durahash::Pool = durahash::Options::new().in_memory()?;
    /// assert_eq!(pool.path(), None);
    /// # Ok::<(), durahash::Error>(())
    /// ```
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.pool.store.path()
    }

    /// Closes the pool, if this is its last handle, as [`Map::close`](crate::Map::close). While maps are open, it
    /// stays open.
    ///
    /// # Errors
    /// As there.
    ///
    /// ```
    /// let pool: durahash::Pool = durahash::Options::new().in_memory()?;
    /// pool.close()?;
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub fn close(self) -> Result<()> {
        self.pool.close_last()
    }

    /// Errors name the file.
    fn at(&self) -> impl Fn(durahash_media::Error) -> durahash_media::Error {
        |e| e.at_path(self.path())
    }
}

/// The name of the map beside a cache of this name.
fn beside(name: &str) -> String {
    format!("{name}{SUFFIX}")
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("path", &self.path()).finish_non_exhaustive()
    }
}
