//! The tables under the crash tester, in geometry so tiny that a handful of keys reaches every path. What it finds is
//! in `docs/papers/baselines.md`.

use std::sync::Arc;

use durahash::index::IndexBase;
use durahash_crash::case::{self, Case, Make, Prefill, Slots};
use durahash_crash::run::Tester;
use durahash_crash::script::{Op, spread};
use durahash_crash::states::Model;
use durahash_media::sim::Sim;
use durahash_media::{Format, Geometry, Pool, Result};

use super::cceh::Cceh;
use super::dash::Dash;
use super::level::Level;
use super::{Shared, Table};

const MAX_BYTES: u64 = 128 << 10;
/// Keys 0 to 13 begin with 00, 14 to 19 with 01, 20 to 33 with 1.
const GROUPS: [(u64, u32, u64); 3] = [(0b00, 2, 14), (0b01, 2, 6), (0b1, 1, 14)];
const KEYS: u16 = 34;

type Shares = Arc<Pool<Sim>>;

fn puts(keys: impl IntoIterator<Item = u16>) -> Vec<Op> {
    keys.into_iter().map(|key| Op::Put(key, 1)).collect()
}

/// On a key that is not there, on one that is, and on another.
fn kinds(new: u16, present: u16, other: u16) -> Vec<Op> {
    vec![
        Op::Put(new, 0),
        Op::Put(present, 0),
        Op::Insert(other, 0),
        Op::Remove(present),
        Op::Remove(other),
    ]
}

/// A case whose table splits, or is resized, for the key `full`; of these, the keys begin with that many.
fn case<T: Table + 'static>(
    name: &'static str,
    geometry: Geometry,
    full: u16,
    create: impl Fn(Shares) -> Result<T> + Send + Sync + 'static,
    open: impl Fn(Shares) -> Result<T> + Send + Sync + 'static,
) -> Case {
    let table = |pool: Shares, table: T| -> Result<Box<dyn case::Table>> {
        let index = Arc::new(Shared::new(Arc::clone(&pool), table)?);
        Ok(Box::new(Slots { index, step: IndexBase::step, pool: Some(pool) }))
    };
    let create: Make = Arc::new(move |sim| {
        let pool = Arc::new(Pool::create(sim, &Format::of_index(0, geometry, MAX_BYTES))?);
        let made = table(Arc::clone(&pool), create(Arc::clone(&pool))?)?;
        pool.publish()?;
        Ok(made)
    });
    let open: Make = Arc::new(move |sim| {
        let pool = Arc::new(Pool::open(sim, false)?);
        table(Arc::clone(&pool), open(pool)?)
    });
    let mut shrunk = puts(0..KEYS);
    shrunk.extend((0..KEYS).filter(|key| key % 4 != 0).map(Op::Remove));
    let prefill = |name, ops, kinds| Prefill { name, ops, kinds };
    Case {
        keys: GROUPS.iter().flat_map(|(prefix, bits, n)| spread(*prefix, *bits, *n)).collect(),
        prefills: vec![
            prefill("empty", Vec::new(), kinds(0, 1, 20)),
            prefill("full", puts(0..full), kinds(full, 0, full + 1)),
            prefill("grown", puts(0..=full), kinds(full + 1, 0, 1)),
            prefill("deep", puts(0..KEYS - 1), kinds(KEYS - 1, 0, 4)),
            prefill("shrunk", shrunk, kinds(9, 0, 20)),
        ],
        ..Case::new(name, MAX_BYTES, create, open)
    }
}

fn cases() -> [Case; 4] {
    let geometry =
        |extent_shift, slots, buckets| Geometry { extent_shift, slots, hash_bits: 0, buckets };
    let cceh = |name, both, full| {
        case(name, geometry(10, 2, 8), full, move |pool| Cceh::create(pool, both), Cceh::open)
    };
    [
        cceh("cceh", false, 10),
        cceh("cceh, both", true, 12),
        case("dash", geometry(11, 2, 0), 13, Dash::create, Dash::open),
        case("level", geometry(10, 2, 2), 10, Level::create, Level::open),
    ]
}

/// The first failure of a case under a model, if there is one, and how many states were looked at before.
fn tried(case: &Case, model: Model) -> (Option<String>, u64) {
    // A split of Dash stores to many lines, so that a crash inside it may leave many states.
    let one_in = if case.name == "dash" { 64 } else { 1 };
    let mut tester = Tester::new(case, model).without_checks().one_in(one_in);
    let done = tester.exhaustive(1).and_then(|()| {
        (0..2).try_for_each(|seed| {
            tester.forget();
            tester.random(seed, 100)
        })
    });
    (done.err().map(|failure| failure.to_string()), tester.counts().unique)
}

/// On a medium that keeps the order of stores to a line, as the papers' machines do, and after the death of a process.
#[test]
fn tables_survive_as_their_papers_say() {
    for case in cases() {
        for model in [Model::X86, Model::Program] {
            let (failure, states) = tried(&case, model);
            println!("{case:?} under {}: {states} states", model.name());
            assert!(failure.is_none(), "{}", failure.unwrap());
        }
    }
}

/// CCEH and Dash commit by the last of several stores to one line.
#[test]
fn where_a_line_has_no_order_two_of_them_do_not() {
    for case in cases() {
        let (failure, states) = tried(&case, Model::Word);
        println!("{case:?} under word: {states} states\n{}", failure.as_deref().unwrap_or("none"));
        assert_eq!(failure.is_none(), case.name == "level", "{case:?}");
    }
}
