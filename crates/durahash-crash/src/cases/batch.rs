//! Batches over any design: each key of the tester stands for three of a map, or of two maps of a pool, which one
//! batch puts or removes, so that a crash in it is seen where they do not agree.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use durahash::{Batch, Change, Data, Design, Finding, Map, Options, Pool, Result};
use durahash_media::Geometry;

use super::word;
use crate::case::{Case, Make, Prefill, Table};
use crate::script::Op;

/// Keys of the map that stand for one of the tester's.
const MEMBERS: u64 = 3;
/// The value of a key whose members do not agree: none that was ever put.
const TORN: u64 = u64::MAX;

/// Batches over every design, of words and of byte strings with hashes of four bits; on a medium that fills up;
/// and batches beside operations on single keys, for threads.
pub(super) fn all() -> Vec<Case> {
    let words = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 0 };
    let texts = Geometry { extent_shift: 12, hash_bits: 4, ..words };
    let esh = Geometry { extent_shift: 11, buckets: 4, ..words };
    vec![
        of_words("reh-batch", (Design::Reh, words), 64 << 10, true),
        of_words("reh-batch-full", (Design::Reh, words), 5 << 10, true),
        of_words("pea-batch", (Design::Pea, words), 64 << 10, true),
        of_words("pea-batch-full", (Design::Pea, words), 9 << 10, true),
        of_words("esh-batch", (Design::Esh, esh), 64 << 10, true),
        of_words("rewo-batch", (Design::Rewo, words), 64 << 10, true),
        of_texts("reh-batch-map", (Design::Reh, texts), true),
        over_two_maps(texts),
        of_words("reh-batch-threads", (Design::Reh, words), 64 << 10, false),
        of_words("pea-batch-threads", (Design::Pea, words), 64 << 10, false),
        of_words("esh-batch-threads", (Design::Esh, esh), 64 << 10, false),
        of_words("rewo-batch-threads", (Design::Rewo, words), 64 << 10, false),
        of_texts("reh-batch-map-threads", (Design::Reh, texts), false),
    ]
}

type Place = (Design, Geometry);

fn of_words(name: &'static str, place: Place, max_bytes: u64, grouped: bool) -> Case {
    over::<u64>(name, place, max_bytes, grouped, |v| v, |v| *v)
}

fn of_texts(name: &'static str, place: Place, grouped: bool) -> Case {
    // Some records have the size of an intent.
    let text = |v: u64| format!("{v:0width$}", width = if v.is_multiple_of(3) { 100 } else { 1 });
    over::<str>(name, place, 512 << 10, grouped, text, |v| word(v))
}

/// `new` makes keys and values from numbers, `number` the numbers from these.
fn over<T: Data + ?Sized>(
    name: &'static str,
    (design, geometry): Place,
    max_bytes: u64,
    grouped: bool,
    new: fn(u64) -> T::Owned,
    number: fn(&T::Owned) -> u64,
) -> Case {
    let options = Options::new().design(design).seed(1).geometry(geometry);
    let table = move |map| Box::new(Batches::<T> { map, second: None, grouped, new, number });
    let (created, opened) = (options.clone(), options);
    let create: Make = Arc::new(move |sim| Ok(table(created.create_on(sim)?)));
    let open: Make = Arc::new(move |sim| Ok(table(opened.open_on(sim)?)));
    case((name, max_bytes), grouped, create, open)
}

/// Byte strings in REH, and for the last of the members of a key words in Pea Hash.
fn over_two_maps(geometry: Geometry) -> Case {
    fn table(pool: Pool, map: Map<str, str>, words: Map<u64, u64>) -> Box<dyn Table> {
        let number = |v: &String| word(v);
        let new = |v: u64| v.to_string();
        Box::new(Batches { map, second: Some((words, pool)), grouped: true, new, number })
    }
    let options = move |design| Options::new().design(design).seed(1).geometry(geometry);
    let create: Make = Arc::new(move |sim| {
        let map: Map<str, str> = options(Design::Reh).create_on(sim)?;
        let pool = Pool::of(&map);
        let words = pool.create("words", &options(Design::Pea))?;
        Ok(table(pool, map, words))
    });
    let open: Make = Arc::new(move |sim| {
        let pool: Pool = Options::new().open_on(sim)?;
        // A crash may have left the one that the medium was published with.
        let words = pool.open_or_create("words", &options(Design::Pea))?;
        let map = pool.open("main")?;
        Ok(table(pool, map, words))
    });
    case(("two-batch-maps", 512 << 10), true, create, open)
}

fn case((name, max_bytes): (&'static str, u64), grouped: bool, create: Make, open: Make) -> Case {
    const KEYS: u16 = 6;
    let mut kinds = vec![Op::Apply(0, 0), Op::Apply(1, 0), Op::Remove(0), Op::Remove(2)];
    if !grouped {
        kinds.extend([Op::Insert(1, 0), Op::Update(0, 0)]);
    }
    let full = (0..KEYS).map(|key| Op::Apply(key, 1)).collect();
    Case {
        may_fill: max_bytes < 16 << 10,
        batches: true,
        keys: (0..u64::from(KEYS)).collect(),
        prefills: vec![
            Prefill { name: "empty", ops: Vec::new(), kinds: kinds.clone() },
            Prefill { name: "full", ops: full, kinds },
        ],
        ..Case::new(name, max_bytes, create, open)
    }
}

struct Batches<T: Data + ?Sized> {
    map: Map<T, T>,
    /// Where the last member of each key is, and the pool of both.
    second: Option<(Map<u64, u64>, Pool)>,
    /// Members say what a key has; else it has what it has itself, and the others are only in the way.
    grouped: bool,
    new: fn(u64) -> T::Owned,
    number: fn(&T::Owned) -> u64,
}

impl<T: Data + ?Sized> Batches<T> {
    /// The value of a member where the key has `v`: the first one has that itself, of the others one may have none.
    fn value(member: u64, v: u64) -> Option<u64> {
        (member == 0 || !(v + member).is_multiple_of(MEMBERS)).then_some(v + member)
    }

    /// The key of a member. Those that are only in the way are in the way of two.
    fn key(&self, key: u64, member: u64) -> T::Owned {
        let key = if self.grouped || member == 0 { key } else { key / 2 };
        (self.new)(key * MEMBERS + member)
    }

    fn get(&self, key: u64, member: u64) -> Result<Option<u64>> {
        Ok(self.map.get(self.key(key, member).borrow())?.as_ref().map(self.number))
    }

    /// Gives a key this value, or none, by a batch.
    fn set(&self, key: u64, v: Option<u64>) -> Result<()> {
        let mut batch = Batch::new();
        for member in 0..MEMBERS {
            let name = self.key(key, member);
            if let Some((map, _)) = self.second.as_ref().filter(|_| member == MEMBERS - 1) {
                match v.and_then(|v| Self::value(member, v)) {
                    Some(v) => batch.put(map, &(key * MEMBERS + member), &v)?,
                    None => batch.remove(map, &(key * MEMBERS + member))?,
                }
                continue;
            }
            match v.and_then(|v| Self::value(member, v)) {
                Some(v) => batch.put(&self.map, name.borrow(), (self.new)(v).borrow())?,
                None => batch.remove(&self.map, name.borrow())?,
            }
        }
        batch.apply()
    }
}

impl<T: Data + ?Sized> Table for Batches<T> {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        match op {
            Op::Apply(_, v) => self.set(key, Some(v)).map(|()| None),
            Op::Get(_) => self.get(key, 0),
            Op::Put(..) | Op::Insert(..) | Op::Update(..) | Op::Remove(_) if self.grouped => {
                let found = self.get(key, 0)?;
                self.set(key, op.outcome(found))?;
                Ok(found)
            }
            Op::Put(..) | Op::Insert(..) | Op::Update(..) | Op::Remove(_) => {
                let mut found = None;
                self.map.update(self.key(key, 0).borrow(), |old| {
                    found = old.as_ref().map(self.number);
                    op.outcome(found).map_or(Change::Remove, |v| Change::Set((self.new)(v)))
                })?;
                Ok(found)
            }
            Op::Step => match &self.second {
                Some((_, pool)) => pool.step().map(|_| None),
                None => self.map.step().map(|_| None),
            },
            Op::Add(..) | Op::RemoveOne(..) | Op::RemoveAll(_) => {
                unreachable!("{op} is for multimaps")
            }
            Op::Reopen | Op::Close | Op::Crash(_) => Ok(None),
        }
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        let mut groups = BTreeMap::<u64, [Option<u64>; MEMBERS as usize]>::new();
        let of_map = self
            .map
            .iter()
            .map(|pair| pair.map(|(key, value)| ((self.number)(&key), (self.number)(&value))));
        let of_second = self.second.iter().flat_map(|(map, _)| map.iter());
        for pair in of_map.chain(of_second) {
            let (key, value) = pair?;
            groups.entry(key / MEMBERS).or_default()[(key % MEMBERS) as usize] = Some(value);
        }
        for (key, members) in groups {
            let v = members[0].unwrap_or(TORN);
            let is_whole = (0..).zip(members).all(|(i, found)| found == Self::value(i, v));
            if self.grouped {
                out.push((key, if is_whole { v } else { TORN }));
            } else if let Some(v) = members[0] {
                out.push((key, v));
            }
        }
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        let mut contents = Vec::new();
        self.contents(&mut contents)?;
        let is_exact = self.map.len()? == self.map.iter().count() as u64;
        // As many as the map says, or else a number that is none.
        Ok(if is_exact { contents.len() as u64 } else { TORN })
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        match &self.second {
            Some((_, pool)) => pool.check(&mut |_, finding| found(finding)),
            None => self.map.check(found),
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        drop(self.second);
        self.map.close()
    }
}
