//! All that is compared, and the modes of each store, fastest first.

use std::path::Path;
use std::sync::Arc;

use durahash::{Design, Map, Options};
use durahash_bench::Result;
use heed::EnvFlags;

use crate::digests::{Digests, OnBytes};
use crate::memory::{Boxed, Dash, Papaya, Scc, Sharded};
use crate::peers::{Candy, Fjall, Lmdb, Redb, Sync, own};
use crate::store::{Bytes, Numbered, Subject, Words};
use crate::strings::Strings;

/// Names of ours, in tables and ratios.
pub(crate) const DRAM: &str = "REH, memory";
pub(crate) const PEA_DRAM: &str = "Pea Hash, memory";
pub(crate) const SHARED: &str = "REH, shared memory";
pub(crate) const DISK: &str = "REH, disk";
pub(crate) const PEA_SHARED: &str = "Pea Hash, shared memory";
pub(crate) const PEA_DISK: &str = "Pea Hash, disk";

/// Bytes of a store's own cache: more than any data set that is measured here takes.
const CACHE_BYTES: usize = 4 << 30;

/// Which data a table is to hold.
#[derive(Clone)]
pub(crate) enum Data {
    Words,
    Strings(Arc<Strings>),
    /// Keys of 16 bytes with values of 8.
    Digests16,
    /// Keys and values of 32 bytes.
    Digests32,
}

type Made = Result<Box<dyn Subject>>;

impl Data {
    /// A table on a store that knows byte strings only.
    fn on<S: Bytes + 'static>(&self, store: S) -> Made {
        Ok(match self {
            Data::Words => Box::new(Words(store)),
            Data::Strings(strings) => strings_on(strings, store),
            Data::Digests16 => Box::new(Digests::<_, 16, 8>(OnBytes(store))),
            Data::Digests32 => Box::new(Digests::<_, 32, 32>(OnBytes(store))),
        })
    }

    fn own_in_memory(&self, design: Design) -> Made {
        let options = Options::new().design(design);
        Ok(match self {
            Data::Words => Box::new(options.in_memory::<Map<u64, u64>>()?),
            Data::Strings(data) => strings_on(data, options.in_memory::<Map<[u8], [u8]>>()?),
            Data::Digests16 => Box::new(Digests(options.in_memory::<Map<[u8; 16], [u8; 8]>>()?)),
            Data::Digests32 => Box::new(Digests(options.in_memory::<Map<[u8; 32], [u8; 32]>>()?)),
        })
    }

    /// The pool in a directory.
    fn own_file(&self, dir: &Path, design: Design, force_flushes: bool) -> Made {
        Ok(match self {
            Data::Words => Box::new(own::<u64, u64>(dir, design, force_flushes)?),
            Data::Strings(data) => strings_on(data, own::<[u8], [u8]>(dir, design, force_flushes)?),
            Data::Digests16 => {
                Box::new(Digests(own::<[u8; 16], [u8; 8]>(dir, design, force_flushes)?))
            }
            Data::Digests32 => {
                Box::new(Digests(own::<[u8; 32], [u8; 32]>(dir, design, force_flushes)?))
            }
        })
    }
}

/// An empty map in memory of another crate.
macro_rules! map_of {
    ($map:ident, $data:ident) => {
        Ok(match $data {
            Data::Words => Box::new($map::<u64, u64>::default()),
            Data::Strings(strings) => strings_on(strings, $map::<Boxed, Boxed>::default()),
            Data::Digests16 => Box::new(Digests($map::<[u8; 16], [u8; 8]>::default())),
            Data::Digests32 => Box::new(Digests($map::<[u8; 32], [u8; 32]>::default())),
        })
    };
}

fn strings_on<S: Bytes + 'static>(strings: &Arc<Strings>, store: S) -> Box<dyn Subject> {
    let strings = Arc::clone(strings);
    Box::new(Numbered { store, strings })
}

/// Maps in memory. Ours are the first.
pub(crate) const IN_MEMORY: [Mode; 6] = [
    mode(DRAM, |data, _| data.own_in_memory(Design::Reh)),
    mode(PEA_DRAM, |data, _| data.own_in_memory(Design::Pea)),
    mode("hashbrown, sharded", |data, _| map_of!(Sharded, data)),
    mode("dashmap", |data, _| map_of!(Dash, data)),
    mode("papaya", |data, _| map_of!(Papaya, data)),
    mode("scc", |data, _| map_of!(Scc, data)),
];

/// A way to run a store.
pub(crate) struct Mode {
    pub(crate) name: &'static str,
    /// Opens what is in a directory, or makes it.
    pub(crate) open: Open,
}

/// A store on files.
pub(crate) struct Store {
    pub(crate) name: &'static str,
    /// From the fastest to the safest.
    pub(crate) modes: &'static [Mode],
    /// True if a single insert is a transaction, which takes long: then fewer are measured.
    pub(crate) slow_inserts: bool,
}

type Open = fn(&Data, &Path) -> Made;

const fn mode(name: &'static str, open: Open) -> Mode {
    Mode { name, open }
}

const fn store(name: &'static str, modes: &'static [Mode], slow_inserts: bool) -> Store {
    Store { name, modes, slow_inserts }
}

/// REH and Pea Hash, as they are used; and doing what a file in the page cache does not need.
pub(crate) const REH: Store =
    store("REH", &[mode("process", |data, dir| data.own_file(dir, Design::Reh, false))], false);
pub(crate) const REH_FLUSHED: Store = store(
    "REH, flushes forced",
    &[mode("flushes forced", |data, dir| data.own_file(dir, Design::Reh, true))],
    false,
);
pub(crate) const PEA: Store = store(
    "Pea Hash",
    &[mode("process", |data, dir| data.own_file(dir, Design::Pea, false))],
    false,
);
pub(crate) const PEA_FLUSHED: Store = store(
    "Pea Hash, flushes forced",
    &[mode("flushes forced", |data, dir| data.own_file(dir, Design::Pea, true))],
    false,
);

const LMDB: [Mode; 3] = [
    mode("NOSYNC, WRITEMAP", |data, dir| {
        data.on(Lmdb::open(dir, EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP)?)
    }),
    mode("NOSYNC", |data, dir| data.on(Lmdb::open(dir, EnvFlags::NO_SYNC)?)),
    mode("default", |data, dir| data.on(Lmdb::open(dir, EnvFlags::empty())?)),
];
const REDB: [Mode; 3] = [
    mode("Durability::None", |data, dir| data.on(Redb::open(dir, CACHE_BYTES, Sync::Never)?)),
    mode("Immediate, fsync left out", |data, dir| {
        data.on(Redb::open(dir, CACHE_BYTES, Sync::File)?)
    }),
    mode("Immediate", |data, dir| data.on(Redb::open(dir, CACHE_BYTES, Sync::Disk)?)),
];
const FJALL: [Mode; 2] = [
    mode("journal persisted by hand", |data, dir| data.on(Fjall::open(dir, CACHE_BYTES, true)?)),
    mode("default", |data, dir| data.on(Fjall::open(dir, CACHE_BYTES, false)?)),
];
const CANDY: [Mode; 2] = [
    mode("no checkpoints", |data, dir| data.on(Candy::open(dir, false)?)),
    mode("default", |data, dir| data.on(Candy::open(dir, true)?)),
];

pub(crate) const PEERS: [Store; 4] = [
    store("LMDB", &LMDB, true),
    store("redb", &REDB, true),
    store("fjall", &FJALL, false),
    store("candystore", &CANDY, false),
];

/// All stores on files.
pub(crate) fn stores() -> impl Iterator<Item = &'static Store> {
    [&REH, &REH_FLUSHED, &PEA, &PEA_FLUSHED].into_iter().chain(&PEERS)
}
