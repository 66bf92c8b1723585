//! The test kit: designs on every medium, keys and values of several types, and a model to compare
//! them with. A count is [`budget`]ed where a test is long.

#![forbid(unsafe_code)]

pub mod ops;

use std::collections::HashMap;
use std::hash::Hash;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use durahash::esh::Esh;
use durahash::index::Index;
use durahash::pea::{Pea, Policy};
use durahash::reh::Reh;
use durahash::rewo::{Cache, Rewo};
use durahash::{Data, Design, Finding, Map, MultiMap, Openable, Options, Plain, Result};
use durahash_media::hash::WordMix;
use durahash_media::metered::Metered;
use durahash_media::sim::{Call, Hook, Sim, Site};
pub use durahash_media::sim::{budget, seed};
use durahash_media::{Event, Format, Geometry, Mapped, MappedOptions, Pool};
use tempfile::TempDir;

// The examples of the documents: this crate is not packaged, so it may include files from outside of it.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide.md")]
mod guide {}

/// Bytes that a tiny pool may grow to.
const TINY_BYTES: u64 = 16 << 20;

/// A map or a multimap, as far as they are left, opened and checked alike.
pub trait Handle: Openable {
    /// As `Map::close`.
    fn close(self) -> Result<()>;
    /// As `Map::check`.
    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()>;
}

macro_rules! handles {
    ($($map:ident)*) => {$(
        impl<K: Data + ?Sized, V: Data + ?Sized> Handle for $map<K, V> {
            fn close(self) -> Result<()> {
                self.close()
            }
            fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
                self.check(found)
            }
        }
    )*};
}

handles!(Map MultiMap);

impl Handle for durahash::Pool {
    fn close(self) -> Result<()> {
        self.close()
    }
    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.check(&mut |_, finding| found(finding))
    }
}

durahash_media::listed! {
    /// Where the words of a test live.
    pub enum Backing {
        /// Anonymous memory: cannot be opened again.
        Memory,
        /// Simulated, stores to one line in order.
        Sim,
        /// Simulated, no order.
        SimWord,
        /// A file in the page cache.
        File,
        /// The same with real flushes and fences.
        ForcedFile,
        /// The same, counted.
        CountedFile,
    }
}

/// How a map is left before it is opened again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By `close`.
    Closed,
    /// As if the process had died.
    Dead,
}

/// A design on a medium, and the pools that are made of it.
pub struct Setup {
    /// Its medium.
    pub medium: Backing,
    options: Options,
    dir: TempDir,
    sim: std::sync::Mutex<Option<Sim>>,
    number: AtomicU32,
}

impl Setup {
    /// A design with `geometry`, that keeps its pools on `medium`.
    pub fn new(design: Design, medium: Backing, geometry: Geometry) -> Self {
        // The seed is fixed, so that a failure can be repeated and shrunk.
        let mut options =
            Options::new().design(design).geometry(geometry).seed(7).max_bytes(TINY_BYTES);
        options = match medium {
            Backing::ForcedFile => options.force_flushes(true),
            _ => options,
        };
        Setup {
            medium,
            options,
            dir: tempfile::tempdir().expect("a directory for a test"),
            sim: std::sync::Mutex::default(),
            number: AtomicU32::new(0),
        }
    }

    /// All designs on all media.
    pub fn all(geometry: Geometry) -> Vec<Self> {
        let on = |medium| Design::ALL.iter().map(move |d| Setup::new(*d, medium, geometry));
        Backing::ALL.iter().copied().flat_map(on).collect()
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join(format!("{}.pool", self.number.load(Ordering::Relaxed)))
    }

    fn next_path(&self) -> PathBuf {
        self.number.fetch_add(1, Ordering::Relaxed);
        self.path()
    }

    /// A new, empty map or multimap.
    pub fn create<T: Handle>(&self) -> T {
        let made = match self.medium {
            Backing::Memory => self.options.in_memory(),
            Backing::Sim | Backing::SimWord => {
                let sim = Sim::new(TINY_BYTES).with_line_order(self.medium == Backing::Sim);
                *self.sim.lock().unwrap() = Some(sim.clone());
                self.options.create_on(sim)
            }
            Backing::CountedFile => {
                let file = Mapped::create(&self.next_path(), &file_options()).expect("a new file");
                self.options.create_on(Metered::new(file))
            }
            Backing::File | Backing::ForcedFile => self.options.create(self.next_path()),
        };
        made.expect("a new map")
    }

    /// Leaves a map and opens it again; in memory it just stays.
    pub fn reopen<T: Handle>(&self, map: T, exit: Exit) -> T {
        let opened = match self.medium {
            Backing::Memory => return map,
            Backing::Sim | Backing::SimWord => {
                let mut sim = self.sim.lock().unwrap();
                leave(map, exit, || {
                    let image = sim.as_ref().expect("a map was made").image();
                    let order = self.medium == Backing::Sim;
                    *sim = Some(Sim::from_image(&image, TINY_BYTES).with_line_order(order));
                });
                self.options.open_on(sim.clone().expect("just set"))
            }
            _ => {
                // A process that dies leaves the contents of its file at that moment.
                leave(map, exit, || {
                    durahash_media::sim::copies_pass(true);
                    let from = self.path();
                    std::fs::copy(from, self.next_path()).expect("a copy of the pool");
                });
                if self.medium == Backing::CountedFile {
                    let file = Mapped::open(&self.path(), false, &file_options());
                    self.options.open_on(Metered::new(file.expect("the file opens")))
                } else {
                    self.options.open(self.path())
                }
            }
        };
        opened.expect("the map opens again")
    }
}

fn file_options() -> MappedOptions {
    let mut options = MappedOptions::default();
    options.max_bytes = TINY_BYTES;
    options
}

/// Runs `copy` after the map was closed, or while it is in use.
fn leave<T: Handle>(map: T, exit: Exit, copy: impl FnOnce()) {
    match exit {
        Exit::Closed => {
            map.close().expect("the map closes");
            copy();
        }
        Exit::Dead => copy(),
    }
}

/// A new directory, and the path of a pool in it.
pub fn new_path() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory for a test");
    let path = dir.path().join("map.pool");
    (dir, path)
}

/// A pool without a map, for what is tested below keys and values.
pub fn pool_on<M: durahash_media::Medium>(medium: M, geometry: Geometry) -> Arc<Pool<M>> {
    let max_bytes = medium.region().max_bytes();
    let format = Format::of_index(1, geometry, max_bytes);
    Arc::new(Pool::create(medium, &format).expect("a new pool"))
}

/// A design over such a pool.
pub fn index_on<M: durahash_media::Medium>(design: Design, pool: Arc<Pool<M>>) -> Box<dyn Index> {
    match design {
        Design::Reh => Box::new(Reh::create(pool).expect("a new index")),
        Design::Pea => Box::new(Pea::create(pool, Policy::default()).expect("a new index")),
        Design::Esh => Box::new(Esh::create(pool).expect("a new index")),
        Design::Rewo => Box::new(Rewo::create(pool, Cache::default()).expect("a new index")),
        other => panic!("no index of {other}"),
    }
}

/// A design alone on a medium.
pub fn index_of<M: durahash_media::Medium>(
    design: Design,
    medium: M,
    geometry: Geometry,
) -> Box<dyn Index> {
    index_on(design, pool_on(medium, geometry))
}

/// Sizes with which everything happens in a few inserts: four slots to a bucket, 4 KiB extents.
pub fn tiny() -> Geometry {
    Geometry { extent_shift: 12, slots: 4, hash_bits: 0, buckets: 0 }
}

/// The same, and eight hashes for all byte keys, so that most of them share a chain.
pub fn colliding() -> Geometry {
    Geometry { hash_bits: 3, ..tiny() }
}

/// Types whose values can be counted off: equal numbers give equal values, others different ones.
pub trait Sample: Data<Ref: PartialEq, Owned: Eq + Hash> {
    /// The sample of this number.
    fn sample(i: u64) -> Self::Owned;
}

impl Sample for u64 {
    fn sample(i: u64) -> u64 {
        // The words that mark empty slots are keys and values like all others.
        match i {
            0 => 0,
            1 => u64::MAX,
            _ => i,
        }
    }
}

impl Sample for i32 {
    fn sample(i: u64) -> i32 {
        -(i as i32)
    }
}

impl Sample for [u8; 5] {
    fn sample(i: u64) -> [u8; 5] {
        let [a, b, c, d, ..] = i.to_le_bytes();
        [b'k', a, b, c, d]
    }
}

/// Arrays and structs as digests are: no word of two is the same.
macro_rules! digests {
    ($($ty:ty: $bytes:literal $of:expr;)*) => {$(
        impl Sample for $ty {
            fn sample(i: u64) -> $ty {
                let words: [[u8; 8]; 8] = std::array::from_fn(|n| {
                    let mix = WordMix::new(42 + n as u64 / 4);
                    mix.mix(4 * i + n as u64 % 4 + 1).to_le_bytes()
                });
                $of(words.as_flattened()[..$bytes].try_into().expect("so many bytes"))
            }
        }
    )*};
}

digests! {
    [u8; 16]: 16 |bytes| bytes;
    [u8; 20]: 20 |bytes| bytes;
    [u8; 32]: 32 |bytes| bytes;
    [u8; 64]: 64 |bytes| bytes;
    u128: 16 u128::from_le_bytes;
    Plain<[u32; 5]>: 20 |bytes: [u8; 20]| Plain(bytes.as_chunks::<4>().0.try_into()
        .map(|words: [[u8; 4]; 5]| words.map(u32::from_le_bytes)).expect("five words"));
}

impl Sample for (u32, i64) {
    fn sample(i: u64) -> (u32, i64) {
        (i as u32 % 3, -(i as i64))
    }
}

impl Sample for str {
    fn sample(i: u64) -> String {
        match i {
            0 => String::new(),
            _ => format!("{i}{}", "·".repeat((i % 7) as usize)),
        }
    }
}

impl Sample for [u8] {
    /// Mostly short; some need blocks of other classes, some a run of extents.
    fn sample(i: u64) -> Vec<u8> {
        let bytes = match i % 16 {
            0..=12 => i % 16 * 5,
            13 => 100,
            14 => 1500,
            _ => 9000,
        };
        let mut value = i.to_le_bytes()[..2].to_vec();
        value.resize(2 + bytes as usize, i as u8);
        value
    }
}

/// `check` finds nothing wrong with the map.
pub fn assert_sound(map: &impl Handle) {
    let mut findings = Vec::new();
    map.check(&mut |finding| findings.push(finding)).expect("the check runs");
    assert!(findings.is_empty(), "{findings:#?}");
}

/// The expected contents of a map: numbers of sample keys, and of their values.
pub type Model = HashMap<u64, u64>;

/// The map holds exactly what the model does, however it is asked.
pub fn assert_equal<K: Sample + ?Sized, V: Sample + ?Sized>(map: &Map<K, V>, model: &Model) {
    assert_eq!(map.len().unwrap(), model.len() as u64);
    assert_eq!(map.is_empty().unwrap(), model.is_empty());
    let mut seen = HashMap::new();
    for pair in map {
        let (key, value) = pair.unwrap();
        assert_eq!(seen.insert(key.clone(), value), None, "{key:?} twice");
    }
    let want = model.iter().map(|(k, v)| (K::sample(*k), V::sample(*v)));
    assert_eq!(seen, want.collect::<HashMap<_, _>>());
}

/// A hook of a medium that counts how often threads wait.
pub struct Waits(pub Arc<AtomicU64>);

impl Hook for Waits {
    fn before(&self, call: Call, _: Site) {
        if matches!(call, Call::Event(Event::Wait)) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}
