//! Several maps in a pool, made, renamed and removed beside entries that are put into others.
//!
//! The last keys of the key space are maps: one that has the value `v` is there by the name `KEY v`, so a put
//! makes it or gives it another name. The others are entries, by turns of the pool's own map and of a map that
//! is made for the first of them.

use std::sync::Arc;

use durahash::{Design, Finding, Map, Options, Pool, Result};
use durahash_media::Geometry;

use super::{text, word};
use crate::case::{Case, Prefill, Table};
use crate::script::Op;

/// Keys that are entries.
const ENTRIES: u64 = 6;
/// The designs of the maps that come and go, by their keys.
const DESIGNS: [Design; 4] = [Design::Reh, Design::Pea, Design::Esh, Design::Rewo];
/// The map of every other entry.
const BESIDE: &str = "beside";

/// A pool of REH whose other maps are of all designs.
pub(super) fn several() -> Case {
    let first = ENTRIES as u16;
    let keys = first + DESIGNS.len() as u16;
    let kinds = vec![
        Op::Put(first, 0),
        Op::Put(first + 1, 0),
        Op::Remove(first),
        Op::Remove(first + 3),
        Op::Put(1, 0),
        Op::Step,
    ];
    let puts = |keys: std::ops::Range<u16>| keys.map(|key| Op::Put(key, 1)).collect();
    Case {
        keys: (0..u64::from(keys)).collect(),
        prefills: vec![
            Prefill { name: "empty", ops: Vec::new(), kinds: kinds.clone() },
            Prefill { name: "maps", ops: puts(first..keys), kinds: kinds.clone() },
            Prefill { name: "full", ops: puts(0..keys), kinds },
        ],
        ..Case::new(
            "maps",
            512 << 10,
            Arc::new(|sim| {
                let main: Map<str, str> = options(Design::Reh).create_on(sim)?;
                Ok(Box::new(Maps { pool: Pool::of(&main), main }))
            }),
            Arc::new(|sim| {
                let pool: Pool = Options::new().open_on(sim)?;
                let main = pool.open("main")?;
                Ok(Box::new(Maps { pool, main }))
            }),
        )
    }
}

fn options(design: Design) -> Options {
    let geometry = Geometry { extent_shift: 12, slots: 3, hash_bits: 0, buckets: 2 };
    Options::new().design(design).seed(1).geometry(geometry)
}

struct Maps {
    pool: Pool,
    main: Map<str, str>,
}

impl Maps {
    /// The map of an entry.
    fn of(&self, key: u64) -> Result<Map<str, str>> {
        match key % 2 {
            0 => Ok(self.main.clone()),
            _ => self.pool.open_or_create(BESIDE, &options(Design::Pea)),
        }
    }

    /// The maps that come and go: their keys and values.
    fn named(&self) -> Vec<(u64, u64)> {
        let names = self.pool.names().into_iter();
        let pair = |name: String| name.split_once(' ').map(|(key, v)| (word(key), word(v)));
        names.filter_map(pair).collect()
    }

    /// Puts something into the maps that come and go, each of which has values of its own: what is to be freed when
    /// they are removed. In a step, as an operation is taken for done when it unlocks a bucket.
    fn fill(&self) -> Result<()> {
        for (key, v) in self.named() {
            let map: Map<str, str> = self.pool.open(&format!("{key} {v}"))?;
            (v..v + 3).try_for_each(|i| map.put(&i.to_string(), &text(i)))?;
        }
        Ok(())
    }

    fn change_map(&self, key: u64, op: Op) -> Result<Option<u64>> {
        let name = |v: u64| format!("{key} {v}");
        let found = self.named().into_iter().find(|(other, _)| *other == key).map(|(_, v)| v);
        match (found, op.outcome(found)) {
            (None, Some(v)) => {
                let design = DESIGNS[(key - ENTRIES) as usize];
                let _: Map<str, str> = self.pool.create(&name(v), &options(design))?;
            }
            (Some(old), Some(v)) if old != v => self.pool.rename(&name(old), &name(v))?,
            (Some(old), None) => self.pool.remove(&name(old))?,
            _ => {}
        }
        Ok(found)
    }
}

impl Table for Maps {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        if op == Op::Step {
            return self.fill().and_then(|()| self.pool.step()).map(|_| None);
        }
        if key >= ENTRIES {
            return self.change_map(key, op);
        }
        let (map, name) = (self.of(key)?, key.to_string());
        let found = map.get(&name)?.as_deref().map(word);
        match op.outcome(found) {
            Some(v) if Some(v) != found => map.put(&name, &text(v))?,
            None if found.is_some() => drop(map.remove(&name)?),
            _ => {}
        }
        Ok(found)
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        out.extend(self.named());
        let beside = self.pool.names().iter().any(|name| name == BESIDE);
        for map in (0..if beside { 2 } else { 1 }).map(|key| self.of(key)) {
            for pair in &map? {
                let (key, value) = pair?;
                out.push((word(&key), word(&value)));
            }
        }
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        let mut all = Vec::new();
        self.contents(&mut all)?;
        Ok(all.len() as u64)
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        for info in self.pool.list()?.iter().filter(|info| info.name.contains(' ')) {
            for pair in &self.pool.open::<Map<str, str>>(&info.name)? {
                let (key, value) = pair?;
                if value != text(word(&key)) {
                    let what = format!("the map {:?} has {key} with {value}", info.name);
                    found(Finding::new("MAPS", 0, what));
                }
            }
        }
        self.pool.check(&mut |_, finding| found(finding))
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Maps { pool, main } = *self;
        drop(main);
        pool.close()
    }
}
