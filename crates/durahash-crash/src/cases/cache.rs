//! Caches, by a clock that stands still. The pool has the time, and every open has a clock that was set back.
//!
//! - `cache`, `cache-pea`, `cache-esh`, `cache-rewo`: of words, each in its slot, or in a cell where it expires. Every other removal of a script lets the entry
//!   expire, so that it is absent and stored; a step goes on with the sweep. A crash must not bring back what has expired.
//! - `cache-evicted`: a cache over REH has room for half of the keys, and keeps what it evicts. An entry is in the cache or among
//!   those that went, and both together are the table.
//! - `cache-aside`: the same room, under the default policy, for some of what a map of words beside it has, which is the
//!   table. What the cache evicts is nowhere else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use durahash::cache::{Clock, Policy};
use durahash::{Cache, Change, Data, Design, Finding, Map, Options, Pool, Result};
use durahash_media::Geometry;
use durahash_media::sim::Sim;

use super::{text, word};
use crate::case::{Case, Make, Prefill, Table};
use crate::script::Op;

const KEYS: u16 = 8;
/// Entries that a cache with a bound has room for.
const MAX: u64 = 4;

pub(super) fn all() -> [Case; 6] {
    let keeps = options().max_entries(MAX).eviction(Policy::Lru).keep_evicted(true);
    let bounded = options().max_entries(MAX).clock(Clock::manual(1000));
    let opened = bounded.clone();
    let expiring =
        |name, design| of_cache(name, options().design(design), |cache| Box::new(Expiring(cache)));
    [
        expiring("cache", Design::Reh),
        expiring("cache-pea", Design::Pea),
        expiring("cache-esh", Design::Esh),
        expiring("cache-rewo", Design::Rewo),
        of_cache("cache-evicted", keeps, |cache| Box::new(Evicting(cache))),
        case(
            "cache-aside",
            Arc::new(move |sim| Aside::table(bounded.create_on(sim)?, &bounded)),
            Arc::new(move |sim| Aside::table(opened.open_on(sim)?, &opened)),
        ),
    ]
}

fn options() -> Options {
    let geometry = Geometry { extent_shift: 12, slots: 3, hash_bits: 0, buckets: 0 };
    Options::new().seed(1).geometry(geometry).sweep(false)
}

fn of_cache<T: Data + ?Sized>(
    name: &'static str,
    options: Options,
    table: fn(Cache<T, T>) -> Box<dyn Table>,
) -> Case {
    let open = options.clone().clock(Clock::manual(500));
    let options = options.clock(Clock::manual(1000));
    let create: Make = Arc::new(move |sim: Sim| {
        let cache: Cache<T, T> = options.create_on(sim)?;
        // It stores the time.
        cache.step()?;
        Ok(table(cache))
    });
    case(name, create, Arc::new(move |sim| open.open_on(sim).map(table)))
}

fn case(name: &'static str, create: Make, open: Make) -> Case {
    let kinds = vec![
        Op::Put(0, 0),
        Op::Insert(1, 0),
        Op::Update(2, 0),
        Op::Remove(1),
        Op::Remove(2),
        Op::Step,
    ];
    let full = (0..KEYS).map(|key| Op::Put(key, 1)).collect();
    Case {
        keys: (0..u64::from(KEYS)).collect(),
        prefills: vec![
            Prefill { name: "empty", ops: Vec::new(), kinds: kinds.clone() },
            Prefill { name: "full", ops: full, kinds },
        ],
        ..Case::new(name, 512 << 10, create, open)
    }
}

struct Expiring(Cache<u64, u64>);

impl Table for Expiring {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        let (cache, key) = (&self.0, &key);
        Ok(match op {
            Op::Put(_, v) => {
                let found = cache.get(key)?;
                match v % 2 {
                    0 => cache.put(key, &v)?,
                    _ => cache.put_for(key, &v, Duration::from_secs(1))?,
                }
                found
            }
            Op::Insert(_, v) => {
                let found = cache.get(key)?;
                cache.get_or_insert_with(key, None, || v)?;
                found
            }
            Op::Update(_, v) => {
                let mut found = None;
                cache.update(key, |old| {
                    found = old;
                    if found.is_some() { Change::Set(v) } else { Change::Keep }
                })?;
                found
            }
            Op::Remove(_) if key % 2 == 1 => {
                let found = cache.get(key)?;
                assert_eq!(cache.expire(key, Duration::ZERO)?, found.is_some());
                found
            }
            Op::Remove(_) => cache.remove(key)?,
            Op::Get(_) => cache.get(key)?,
            _ => {
                if op == Op::Step {
                    cache.step()?;
                }
                None
            }
        })
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        for pair in &self.0 {
            out.push(pair?);
        }
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        self.0.count()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        Pool::of(&self.0).check(&mut |_, finding| found(finding))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}

struct Evicting(Cache<str, str>);

impl Evicting {
    /// The entries that went, in the order in which they did: number, key and value.
    fn gone(&self) -> Result<Vec<(u64, u64, u64)>> {
        let gone = self.0.evicted().map(|gone| gone.map(|g| (g.id, word(&g.key), word(&g.value))));
        let mut gone = gone.collect::<Result<Vec<_>>>()?;
        gone.sort_unstable();
        Ok(gone)
    }

    /// Forgets what went of a key.
    fn done(&self, key: u64) -> Result<()> {
        for (id, ..) in self.gone()?.into_iter().filter(|(_, gone, _)| *gone == key) {
            self.0.done(id)?;
        }
        Ok(())
    }

    fn all(&self) -> Result<BTreeMap<u64, u64>> {
        let mut all = BTreeMap::new();
        for pair in &self.0 {
            let (key, value) = pair?;
            all.insert(word(&key), word(&value));
        }
        // After these, since other threads evict meanwhile.
        let mut gone = self.gone()?;
        gone.reverse();
        for (_, key, v) in gone {
            all.entry(key).or_insert(v);
        }
        Ok(all)
    }
}

impl Table for Evicting {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        if op == Op::Step {
            return self.0.step().map(|_| None);
        }
        let (found, name) = (self.all()?.get(&key).copied(), key.to_string());
        match op.outcome(found) {
            // What went counts until the new value is there, and the value that is there until what went is forgotten.
            Some(v) if Some(v) != found => {
                self.0.put(&name, &text(v))?;
                self.done(key)?;
            }
            None if found.is_some() => {
                self.done(key)?;
                self.0.remove(&name)?;
            }
            _ => {}
        }
        Ok(found)
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        out.extend(self.all()?);
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        Ok(self.all()?.len() as u64)
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let mut once = BTreeSet::new();
        for (id, key, v) in self.gone()? {
            let is_there = self.0.get(&key.to_string())?.is_some_and(|value| word(&value) == v);
            if is_there || !once.insert((key, v)) {
                found(Finding::new("CACHE", id, format!("key {key} went with {v} and is there")));
            }
        }
        let stored = self.0.len()?;
        if stored > MAX || self.0.stats()?.cache.and_then(|stats| stats.entries) != Some(stored) {
            found(Finding::new("CACHE", 0, format!("{stored} entries")));
        }
        Pool::of(&self.0).check(&mut |_, finding| found(finding))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}

struct Aside {
    map: Map<u64, u64>,
    cache: Cache<u64, u64>,
}

impl Aside {
    fn table(map: Map<u64, u64>, options: &Options) -> Result<Box<dyn Table>> {
        let cache = Pool::of(&map).open_or_create("cache", options)?;
        Ok(Box::new(Aside { map, cache }))
    }

    /// How many entries the cache has that are not those of the map.
    fn strays(&self) -> Result<usize> {
        let mut strays = 0;
        for pair in &self.cache {
            let (key, value) = pair?;
            strays += usize::from(self.map.get(&key)? != Some(value));
        }
        Ok(strays)
    }
}

impl Table for Aside {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        let (Aside { map, cache }, key) = (self, &key);
        if op == Op::Step {
            return cache.step().map(|_| None);
        }
        let found = map.get(key)?;
        match op.outcome(found) {
            after if after == found => {
                if let Some(v) = found {
                    cache.get_or_insert_with(key, None, || v)?;
                }
            }
            Some(v) => {
                cache.remove(key)?;
                map.put(key, &v)?;
                cache.put(key, &v)?;
            }
            None => {
                cache.remove(key)?;
                map.remove(key)?;
            }
        }
        Ok(found)
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        for pair in &self.map {
            out.push(pair?);
        }
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        self.map.len()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        let (stored, strays) = (self.cache.len()?, self.strays()?);
        let counted = self.cache.stats()?.cache.and_then(|stats| stats.entries);
        if stored > MAX || counted != Some(stored) || strays > 0 {
            let what = format!("{stored} entries, {counted:?} counted, {strays} not of the map");
            found(Finding::new("CACHE", 0, what));
        }
        Pool::of(&self.map).check(&mut |_, finding| found(finding))
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Aside { map, cache } = *self;
        cache.close()?;
        map.close()
    }
}
