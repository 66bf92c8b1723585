//! What the tester has to know about a design: a [`Subject`], in well under a hundred lines.

use durahash::{Change, Finding, Index, Result, Room};
use durahash_media::sim::Sim;

use crate::script::{Op, random};

/// A design under test: how its tables come into being on a simulated medium, in geometry so tiny
/// that a few operations reach every path, and from where exhaustive scripts set out.
pub trait Subject: Sync {
    /// The name in commands.
    const NAME: &'static str;
    /// How far a medium may grow.
    const MAX_BYTES: u64;
    /// Whether operations may find the medium full, and then change nothing.
    const MAY_FILL: bool = false;
    /// Whether there is work that a step does in the middle of others' operations.
    const SYNCED: bool = false;
    /// How many calls into the medium a recovery may need at most.
    const RECOVERY_CALLS: u64 = 200_000;

    /// Makes an empty table on an empty medium and publishes it.
    ///
    /// # Errors
    /// Those of the design.
    fn create(&self, sim: Sim) -> Result<Box<dyn Table>>;

    /// Opens the table on `sim`, recovering it as after a crash.
    ///
    /// # Errors
    /// Those of the design.
    fn open(&self, sim: Sim) -> Result<Box<dyn Table>>;

    /// The same of what must not be written to: it is read as the crash left it. `None` where a
    /// recovery is whole when the table is open, so that there is nothing else to be read.
    ///
    /// # Errors
    /// Those of the design.
    fn open_as_left(&self, _sim: Sim) -> Result<Option<Box<dyn Table>>> {
        Ok(None)
    }

    /// The key space: few keys, chosen so that they meet.
    fn keys(&self) -> Vec<u64>;

    /// The states that exhaustive scripts set out from; the first is the empty table.
    fn prefills(&self) -> Vec<Prefill>;

    /// What is done to this kind of table where `op` would be done to a map; `salt` decides where
    /// there is a choice, and zero takes the most away.
    fn translate(op: Op, _salt: u64) -> Op {
        op
    }

    /// Random operations.
    fn random(&self, count: usize, seed: u64) -> Vec<Op> {
        random(self.keys().len() as u16, count, seed)
    }

    /// How many entries the value of a key stands for.
    fn entries(_v: u64) -> u64 {
        1
    }
}

/// A state that exhaustive scripts set out from, and the operations that are tried there.
#[derive(Clone, Debug)]
pub struct Prefill {
    /// Its name in commands.
    pub name: &'static str,
    /// What leads to it from the empty table.
    pub ops: Vec<Op>,
    /// About six operations: every sequence of up to four of them is tried.
    pub kinds: Vec<Op>,
}

/// What the tester asks of a table; keys and values are words.
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
    fn len(&self) -> Result<u64>;

    /// Whether it holds none.
    ///
    /// # Errors
    /// Those of the table.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Verifies every invariant.
    ///
    /// # Errors
    /// What keeps the check from being done.
    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()>;

    /// Whether the medium said, when it was opened, that the table had been closed properly.
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
pub struct Slots<I, C> {
    /// The index.
    pub index: I,
    /// Whether it had been closed properly, if the medium tells.
    pub was_closed: Option<bool>,
    /// Closes it.
    pub close: C,
}

impl<I: Index, C: FnOnce(I) -> Result<()> + Send + Sync> Table for Slots<I, C> {
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
            Op::Step => index.step().map(|_| None),
            Op::Add(..) | Op::RemoveOne(..) | Op::RemoveAll(_) => {
                unreachable!("{op} is for multimaps")
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

    fn len(&self) -> Result<u64> {
        self.index.len()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.index.check(found)
    }

    fn was_closed(&self) -> Option<bool> {
        self.was_closed
    }

    fn close(self: Box<Self>) -> Result<()> {
        (self.close)(self.index)
    }
}
