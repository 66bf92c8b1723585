//! Record blocks under the tester: values that stand in blocks of the pool, so that every put takes
//! one block and frees another. Known faults of allocators are planted, and caught.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use durahash::index::{Change, Index, IndexBase, Room};
use durahash::reh::Reh;
use durahash::{Finding, Result};
use durahash_crash::case::{Case, Table};
use durahash_crash::cases::named;
use durahash_crash::run::Tester;
use durahash_crash::script::Op;
use durahash_crash::states::Model;
use durahash_media::sim::{Sim, budget, seed};
use durahash_media::{Format, Geometry, Memory, Pool};

/// Faults of class 9, "allocator", and one of class 7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// Blocks that were replaced or removed are not freed.
    Leak,
    /// The old block is freed, and taken by the next put, before the slot names the new one.
    FreedFirst,
    /// The block is named before its contents are durable.
    NotPersisted,
    /// The sweep forgets blocks in use.
    SweptAll,
}

const MAX_BYTES: u64 = 64 << 10;

struct Values {
    bug: Bug,
    pool: Arc<Pool<Sim>>,
    index: Reh<Sim>,
    /// Writers take turns: the test is about blocks.
    turn: Mutex<()>,
}

impl Values {
    /// A new block that holds `v`.
    fn write(&self, v: u64) -> Result<u64> {
        // Classes of an extent, large ones with blocks in one extent and in two, and runs of one extent and of two.
        let bytes = [16, 56, 1024, 96, 600, 1100, 1500, 2048, 1100][v as usize % 9];
        let off = self.pool.alloc_block(bytes, true)?.expect("it may grow");
        let words = self.pool.words(off, 2)?;
        let medium = self.pool.medium();
        medium.store(&words[0], v);
        medium.store(&words[1], !v);
        if self.bug != Bug::NotPersisted {
            medium.flush_fresh(words);
            medium.fence();
        }
        Ok(off)
    }

    fn read(&self, off: u64) -> Result<u64> {
        let words = self.pool.words(off, 2)?;
        let medium = self.pool.medium();
        let (v, complement) = (medium.load(&words[0]), medium.load(&words[1]));
        // Something that was never put, and so is found to be wrong.
        Ok(if v == !complement { v } else { u64::MAX })
    }

    fn change(&self, h: u64, new: Option<u64>, needs: Option<bool>) -> Result<Option<u64>> {
        let found = self.index.get(h)?;
        if needs.is_some_and(|present| present != found.is_some()) {
            return found.map(|off| self.read(off)).transpose();
        }
        let value = found.map(|off| self.read(off)).transpose()?;
        let free = |off: Option<u64>| off.map_or(Ok(()), |off| self.pool.free_block(off));
        if self.bug == Bug::FreedFirst {
            free(found)?;
        }
        let change = match new {
            Some(v) => Change::Set(self.write(v)?),
            None => Change::Remove,
        };
        self.index.update(h, Room::ForNew, &mut |_| Ok(change))?;
        if !matches!(self.bug, Bug::Leak | Bug::FreedFirst) {
            free(found)?;
        }
        Ok(value)
    }

    fn slots(&self) -> Result<Vec<(u64, u64)>> {
        let (mut slots, mut at) = (Vec::new(), Some(0));
        while let Some(from) = at {
            at = self.index.scan(from, &mut slots)?;
        }
        Ok(slots)
    }
}

impl Table for Values {
    fn apply(&self, op: Op, h: u64) -> Result<Option<u64>> {
        let _turn = self.turn.lock().unwrap();
        match op {
            Op::Put(_, v) => self.change(h, Some(v), None),
            Op::Insert(_, v) => self.change(h, Some(v), Some(false)),
            Op::Update(_, v) => self.change(h, Some(v), Some(true)),
            Op::Remove(_) => self.change(h, None, Some(true)),
            _ => self.index.get(h)?.map(|off| self.read(off)).transpose(),
        }
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        for (h, off) in self.slots()? {
            out.push((h, self.read(off)?));
        }
        Ok(())
    }

    fn count(&self) -> Result<u64> {
        self.index.len()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.index.check(found)?;
        let mut tell = |what: &str, off| {
            found(Finding::new("BLOCK", off, what));
        };
        let (mut named, mut used) = (BTreeSet::new(), BTreeSet::new());
        for (_, off) in self.slots()? {
            if !named.insert(off) {
                tell("named twice", off);
            }
        }
        self.pool.each_block(&mut |off| {
            used.insert(off);
        });
        used.difference(&named).for_each(|off| tell("in use and not named", *off));
        named.difference(&used).for_each(|off| tell("named and not in use", *off));
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.pool.close()
    }
}

/// REH whose values stand in blocks.
fn blocks(bug: Bug) -> Case {
    let create = move |sim| -> Result<Box<dyn Table>> {
        let format = Format::of_index(
            1,
            Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 0 },
            MAX_BYTES,
        );
        let pool = Arc::new(Pool::create(sim, &format)?);
        let index = Reh::create(Arc::clone(&pool))?;
        pool.publish()?;
        Ok(Box::new(Values { bug, pool, index, turn: Mutex::new(()) }))
    };
    let open = move |sim| -> Result<Box<dyn Table>> {
        let pool = Arc::new(Pool::open(sim, false)?);
        let index = Reh::open(Arc::clone(&pool))?;
        let values = Values { bug, pool, index, turn: Mutex::new(()) };
        if bug != Bug::SweptAll {
            for (_, off) in values.slots()? {
                values.pool.mark_block(off)?;
            }
        }
        values.pool.finish_sweep()?;
        Ok(Box::new(values))
    };
    let (create, open) = (Arc::new(create), Arc::new(open));
    Case { name: "blocks", max_bytes: MAX_BYTES, create, open, ..named("reh") }
}

/// The first thing that is found wrong.
fn first_failure(bug: Bug, model: Model) -> Option<String> {
    let case = blocks(bug);
    let mut tester = Tester::new(&case, model).one_in(budget(16, 1));
    let run = tester
        .exhaustive(budget(1, 2))
        .and_then(|()| (seed(0)..seed(budget(2, 4))).try_for_each(|seed| tester.random(seed, 150)));
    println!("{} states under {}", tester.counts().unique, model.name());
    run.err().map(|failure| failure.to_string())
}

#[test]
fn blocks_are_named_once_or_free_whatever_the_crash() {
    assert_eq!(first_failure(Bug::None, Model::X86), None);
    assert_eq!(first_failure(Bug::None, Model::Word), None);
}

#[test]
fn faults_of_allocators_are_found() {
    let bugs = [Bug::Leak, Bug::FreedFirst, Bug::NotPersisted, Bug::SweptAll];
    println!("{} faults", bugs.len());
    for bug in bugs {
        let failure = first_failure(bug, Model::X86);
        println!("{bug:?}: {}\n", failure.unwrap_or_else(|| panic!("{bug:?} was not found")));
    }
}
