//! Maps in memory. All of them hash with foldhash, the fastest that their users take.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use crossbeam_utils::CachePadded;
use dashmap::DashMap;
use durahash_baselines::paper::Peer;
use durahash_bench::Result;
use durahash_bench::driver::Table;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use parking_lot::RwLock;

use crate::digests::Fixed;
use crate::store::{Bytes, word};

/// Shards of [`Sharded`]: two threads seldom meet.
const SHARDS: usize = 256;

type Shard<K, V> = RwLock<HashTable<(K, V)>>;

/// Tables of hashbrown, each behind a lock of parking_lot.
pub(crate) struct Sharded<K, V> {
    hash: RandomState,
    shards: Box<[CachePadded<Shard<K, V>>]>,
}

impl<K, V> Default for Sharded<K, V> {
    fn default() -> Self {
        Sharded {
            hash: RandomState::default(),
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
        }
    }
}

impl<K: Hash + Eq, V> Sharded<K, V> {
    /// hashbrown takes the lowest bits, and the highest seven.
    #[inline]
    fn shard(&self, hash: u64) -> &Shard<K, V> {
        &self.shards[(hash >> 48) as usize % SHARDS]
    }

    #[inline]
    fn read<Q: Hash + PartialEq + ?Sized, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
    {
        let hash = self.hash.hash_one(key);
        let shard = self.shard(hash).read();
        shard.find(hash, |(k, _)| k.borrow() == key).map(|(_, v)| f(v))
    }

    #[inline]
    fn insert(&self, key: K, value: V) {
        let hash = self.hash.hash_one(&key);
        let mut shard = self.shard(hash).write();
        match shard.entry(hash, |(k, _)| *k == key, |(k, _)| self.hash.hash_one(k)) {
            Entry::Occupied(mut found) => found.get_mut().1 = value,
            Entry::Vacant(free) => drop(free.insert((key, value))),
        }
    }

    fn take<Q: Hash + PartialEq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let hash = self.hash.hash_one(key);
        let mut shard = self.shard(hash).write();
        let found = shard.find_entry(hash, |(k, _)| k.borrow() == key);
        found.map(|entry| entry.remove()).is_ok()
    }
}

/// A map of another crate.
macro_rules! wrapped {
    ($name:ident, $map:ty) => {
        pub(crate) struct $name<K, V>($map);

        impl<K: Hash + Eq, V> Default for $name<K, V> {
            fn default() -> Self {
                $name(Default::default())
            }
        }
    };
}

wrapped!(Dash, DashMap<K, V, RandomState>);
wrapped!(Papaya, papaya::HashMap<K, V, RandomState>);
wrapped!(Scc, scc::HashMap<K, V, RandomState>);

/// The map that stands in the papers' figures of DRAM, in place of CLHT: as there, a lookup takes no lock.
pub(crate) fn peer() -> Peer {
    Peer::of::<Papaya<u64, u64>>("papaya")
}

pub(crate) type Boxed = Box<[u8]>;

/// Both kinds of data for a map: how a value is read, put and removed.
macro_rules! in_memory {
    ($map:ident, |$self:ident, $key:ident, $f:ident| $get:expr, |$k:ident, $v:ident| $put:expr, $remove:expr) => {
        impl Table for $map<u64, u64> {
            #[inline]
            fn get(&$self, key: u64) -> Result<Option<u64>> {
                let ($key, $f) = (&key, |value: &u64| *value);
                Ok($get)
            }

            #[inline]
            fn put(&$self, $k: u64, $v: u64) -> Result<()> {
                $put;
                Ok(())
            }

            fn remove(&$self, key: u64) -> Result<bool> {
                let $key = &key;
                Ok($remove)
            }
        }

        impl<const K: usize, const V: usize> Fixed<K, V> for $map<[u8; K], [u8; V]> {
            #[inline]
            fn get(&$self, $key: &[u8; K]) -> Result<Option<u64>> {
                let $f = |value: &[u8; V]| word(value);
                $get.transpose()
            }

            #[inline]
            fn put(&$self, $k: [u8; K], $v: [u8; V]) -> Result<()> {
                $put;
                Ok(())
            }

            fn remove(&$self, $key: &[u8; K]) -> Result<bool> {
                Ok($remove)
            }
        }

        impl Bytes for $map<Boxed, Boxed> {
            #[inline]
            fn get(&$self, $key: &[u8]) -> Result<Option<u64>> {
                let $f = |value: &Boxed| word(value);
                $get.transpose()
            }

            #[inline]
            fn put(&$self, key: &[u8], value: &[u8]) -> Result<()> {
                let ($k, $v) = (Boxed::from(key), Boxed::from(value));
                $put;
                Ok(())
            }

            fn remove(&$self, $key: &[u8]) -> Result<bool> {
                Ok($remove)
            }
        }
    };
}

in_memory!(Sharded, |self, key, f| self.read(key, f), |k, v| self.insert(k, v), self.take(key));
in_memory!(
    Dash,
    |self, key, f| self.0.get(key).map(|value| f(&value)),
    |k, v| self.0.insert(k, v),
    self.0.remove(key).is_some()
);
in_memory!(
    Papaya,
    |self, key, f| self.0.pin().get(key).map(f),
    |k, v| {
        self.0.pin().insert(k, v);
    },
    self.0.pin().remove(key).is_some()
);
in_memory!(
    Scc,
    |self, key, f| self.0.read_sync(key, |_, value| f(value)),
    |k, v| self.0.upsert_sync(k, v),
    self.0.remove_sync(key).is_some()
);
