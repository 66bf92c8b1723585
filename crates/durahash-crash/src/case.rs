//! The description of a design for the tester: a [`Case`], in well under a hundred lines.

use std::fmt;
use std::sync::Arc;

use durahash::index::{Change, Index, Room};
use durahash::{Finding, Result};
use durahash_media::Pool;
use durahash_media::sim::Sim;

use crate::script::{self, Bag, Op, mix};

/// How a table comes into being on a simulated medium.
pub type Make = Arc<dyn Fn(Sim) -> Result<Box<dyn Table>> + Send + Sync>;

/// A design under test: how its tables come into being, in geometry so tiny that a few operations
/// reach every path, and from where exhaustive scripts set out.
#[derive(Clone)]
pub struct Case {
    /// The name in commands.
    pub name: &'static str,
    /// The limit of a medium's growth.
    pub max_bytes: u64,
    /// Operations may find the medium full, and then change nothing.
    pub may_fill: bool,
    /// A step does some of its work in the middle of others' operations.
    pub synced: bool,
    /// A recovery goes on while the table is used: more operations are also done on one that nobody has read.
    pub is_lazy: bool,
    /// The most calls into the medium that a recovery may need.
    pub recovery_calls: u64,
    /// Makes an empty table on an empty medium and publishes it.
    pub create: Make,
    /// Opens the table on a medium, recovering it as after a crash.
    pub open: Make,
    /// The same of what must not be written to: it is read as the crash left it. `None` where a
    /// recovery is whole when the table is open, so that there is nothing else to be read.
    pub open_as_left: Option<Make>,
    /// The key space: few keys, chosen so that they meet.
    pub keys: Vec<u64>,
    /// The states that exhaustive scripts set out from; the first is the empty table.
    pub prefills: Vec<Prefill>,
    /// Half of the puts of random scripts are batches.
    pub batches: bool,
    /// Of a multimap, the keys that random scripts prefer, so that their lists grow.
    pub hot: Option<&'static [u16]>,
}

impl Case {
    /// A case of words, with nothing special about it.
    #[must_use]
    pub fn new(name: &'static str, max_bytes: u64, create: Make, open: Make) -> Self {
        Case {
            name,
            max_bytes,
            may_fill: false,
            synced: false,
            is_lazy: false,
            recovery_calls: 200_000,
            create,
            open,
            open_as_left: None,
            keys: Vec::new(),
            prefills: Vec::new(),
            batches: false,
            hot: None,
        }
    }

    /// The operation on this kind of table that stands for `op` on a map; `salt` decides where
    /// there is a choice, and zero takes the most away.
    #[must_use]
    pub fn translate(&self, op: Op, salt: u64) -> Op {
        if self.hot.is_none() {
            return match op {
                Op::Put(key, v) if self.batches && salt.is_multiple_of(2) => Op::Apply(key, v),
                op => op,
            };
        }
        match op {
            Op::Put(key, v) | Op::Insert(key, v) => Op::Add(key, v),
            Op::Update(key, v) => Op::RemoveOne(key, v),
            Op::Remove(key) if salt.is_multiple_of(6) => Op::RemoveAll(key),
            Op::Remove(key) => Op::RemoveOne(key, salt >> 32),
            op => op,
        }
    }

    /// Random operations.
    #[must_use]
    pub fn random(&self, count: usize, seed: u64) -> Vec<Op> {
        let ops = script::random(self.keys.len() as u16, count, seed);
        let Some(hot) = self.hot else {
            let each = ops.into_iter().enumerate();
            return each.map(|(i, op)| self.translate(op, mix(seed ^ (i as u64) << 32))).collect();
        };
        let ops = ops.into_iter().enumerate().map(|(i, op)| {
            let salt = mix(seed.rotate_left(32) ^ i as u64);
            let hot = hot[(salt >> 16) as usize % hot.len()];
            match self.translate(op, salt) {
                Op::Add(_, v) if salt & 0x300 != 0 => Op::Add(hot, v),
                Op::RemoveOne(_, v) if salt & 0x300 != 0 => Op::RemoveOne(hot, v),
                op => op,
            }
        });
        ops.collect()
    }

    /// How many entries the value of a key stands for.
    #[must_use]
    pub fn entries(&self, v: u64) -> u64 {
        if self.hot.is_some() { Bag(v).size() } else { 1 }
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// A state that exhaustive scripts set out from, and the operations that are tried there.
#[derive(Clone, Debug)]
pub struct Prefill {
    /// Its name in commands.
    pub name: &'static str,
    /// The operations that lead to it from the empty table.
    pub ops: Vec<Op>,
    /// About six operations: every sequence of up to four of them is tried.
    pub kinds: Vec<Op>,
}

/// A table as the tester uses it; keys and values are words.
///
/// An [`Index`] becomes one through [`Slots`], with the hash as the key; a map of typed keys by
/// choosing a key for each word.
pub trait Table: Send + Sync {
    /// Does `op`, which has a key, and returns its [answer](Op::answer); or does a step.
    ///
    /// # Errors
    /// Those of the table.
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>>;

    /// Appends everything that the table holds.
    ///
    /// # Errors
    /// Those of the table.
    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()>;

    /// How many entries it holds.
    ///
    /// # Errors
    /// Those of the table.
    fn count(&self) -> Result<u64>;

    /// Verifies every invariant.
    ///
    /// # Errors
    /// The check could not be done.
    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()>;

    /// True if the medium said, when it was opened, that the table had been closed properly.
    fn was_closed(&self) -> Option<bool> {
        None
    }

    /// Closes it properly.
    ///
    /// # Errors
    /// Those of the table.
    fn close(self: Box<Self>) -> Result<()>;
}

/// An index as a table.
pub struct Slots<I> {
    /// The index.
    pub index: Arc<I>,
    /// Does one step of its background work.
    pub step: fn(&I) -> Result<bool>,
    /// The pool that it is in, unless it is a toy.
    pub pool: Option<Arc<Pool<Sim>>>,
}

impl<I: Index> Table for Slots<I> {
    fn apply(&self, op: Op, h: u64) -> Result<Option<u64>> {
        let index = &self.index;
        match op {
            Op::Put(_, v) => index.update(h, Room::ForNew, &mut |_| Ok(Change::Set(v))),
            Op::Insert(_, v) => index.update(h, Room::ForNew, &mut |found| {
                Ok(found.map_or(Change::Set(v), |_| Change::Keep))
            }),
            Op::Update(_, v) => index.update(h, Room::None, &mut |found| {
                Ok(found.map_or(Change::Keep, |_| Change::Set(v)))
            }),
            Op::Remove(_) => index.update(h, Room::None, &mut |_| Ok(Change::Remove)),
            Op::Get(_) => index.get(h),
            Op::Step => (self.step)(index).map(|_| None),
            Op::Apply(..) | Op::Add(..) | Op::RemoveOne(..) | Op::RemoveAll(_) => {
                unreachable!("{op} is for others")
            }
            Op::Reopen | Op::Close | Op::Crash(_) => Ok(None),
        }
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        let mut at = Some(0);
        while let Some(from) = at {
            at = self.index.scan(from, out)?;
        }
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        self.index.len()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        if let Some(pool) = &self.pool {
            pool.check_blocks(&mut |off, what| {
                found(Finding::new("POOL-4", off, what));
            });
        }
        self.index.check(found)
    }

    fn was_closed(&self) -> Option<bool> {
        self.pool.as_ref().map(|pool| pool.was_clean())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Slots { index, pool, .. } = *self;
        index.close();
        drop(index);
        pool.map_or(Ok(()), |pool| pool.close())
    }
}
