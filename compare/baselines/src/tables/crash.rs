//! The tables under the crash tester, in geometry so tiny that a handful of keys reaches every path. What it finds is
//! in `docs/papers/baselines.md`.

use std::collections::BTreeMap;
use std::sync::Arc;

use durahash::index::IndexBase;
use durahash_crash::case::{self, Case, Make, Prefill, Slots};
use durahash_crash::mutate::{Accepted, Kind, Mutant, Verdict, add, unproven};
use durahash_crash::run::{Look, Tester};
use durahash_crash::script::{Op, spread};
use durahash_crash::states::Model;
use durahash_media::sim::Sim;
use durahash_media::{Format, Geometry, Pool, Result};

use super::cceh::Cceh;
use super::dash::Dash;
use super::level::Level;
use super::{Keys, Shared, Table};

const MAX_BYTES: u64 = 128 << 10;
/// Keys 0 to 13 begin with 00, 14 to 19 with 01, 20 to 33 with 1.
const GROUPS: [(u64, u32, u64); 3] = [(0b00, 2, 14), (0b01, 2, 6), (0b1, 1, 14)];
const KEYS: u16 = 34;
/// Keys of each half of the directory where it is wide.
const WIDE: u64 = 20;
/// Crashes in each growth that are mended and gone on from.
const MENDED: u32 = 12;

/// What no state misses.
const RECOVERED_AGAIN: Accepted = Accepted {
    function: "recover",
    source: "flush(word)",
    kinds: &[Kind::Drop],
    why: "what is not durable is taken back again, and a split stores to all words of its segment",
};
const FENCE_OF_RECOVERY: Accepted = Accepted { source: "fence()", ..RECOVERED_AGAIN };
const NOT_NEEDED_BY_CCEH: &[Accepted] = &[
    Accepted {
        function: "create",
        source: "set_root",
        kinds: &[Kind::Drop],
        why: "the root word of the directory lies in the same line, and is stored and flushed after it",
    },
    Accepted {
        function: "fill",
        source: "fence()",
        kinds: &[Kind::Drop],
        why: "the directory has a fence of its own before it names the segment",
    },
    RECOVERED_AGAIN,
    FENCE_OF_RECOVERY,
];
const NOT_NEEDED_BY_DASH: &[Accepted] = &[
    Accepted {
        function: "clear",
        source: "flush_fresh(&bucket.commit)",
        kinds: &[Kind::Drop],
        why: "a recovery empties a new segment again, and all of its buckets are flushed once they are filled",
    },
    Accepted {
        function: "split",
        source: "fence()",
        kinds: &[Kind::Drop],
        why: "the last one: until the old segment is whole again, a recovery goes by its state and ends the split anew",
    },
    RECOVERED_AGAIN,
    FENCE_OF_RECOVERY,
];
const NOT_NEEDED_BY_LEVEL: &[Accepted] = &[
    Accepted {
        function: "make_level",
        source: "flush_fresh(tokens)",
        kinds: &[Kind::Drop],
        why: "memory is zero, or of a level whose keys have moved, so that its tokens are durably zero",
    },
    Accepted { function: "make_level", source: "fence()", kinds: &[Kind::Drop], why: "the same" },
];

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

fn prefill(name: &'static str, ops: Vec<Op>, kinds: Vec<Op>) -> Prefill {
    Prefill { name, ops, kinds }
}

/// A case without keys.
fn bare<T: Table + 'static>(
    name: &'static str,
    geometry: Geometry,
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
    Case::new(name, MAX_BYTES, create, open)
}

/// The same with keys that meet. The table splits, or is resized, for the key `full`; of these, the keys begin with that many.
fn tiny(bare: Case, full: u16) -> Case {
    let mut shrunk = puts(0..KEYS);
    shrunk.extend((0..KEYS).filter(|key| key % 4 != 0).map(Op::Remove));
    Case {
        keys: GROUPS.iter().flat_map(|(prefix, bits, n)| spread(*prefix, *bits, *n)).collect(),
        prefills: vec![
            prefill("empty", Vec::new(), kinds(0, 1, 20)),
            prefill("full", puts(0..full), kinds(full, 0, full + 1)),
            prefill("grown", puts(0..=full), kinds(full + 1, 0, 1)),
            prefill("deep", puts(0..KEYS - 1), kinds(KEYS - 1, 0, 4)),
            prefill("shrunk", shrunk, kinds(9, 0, 20)),
        ],
        ..bare
    }
}

fn geometry(extent_shift: u8, slots: u8, buckets: u8) -> Geometry {
    Geometry { extent_shift, slots, hash_bits: 0, buckets }
}

fn cases() -> Vec<Case> {
    let cceh = |name, both, keys| {
        let create = move |pool| Cceh::create(pool, both, keys);
        bare(name, geometry(10, 2, 8), create, move |pool| Cceh::open(pool, keys))
    };
    let dash = |name, keys| {
        let create = move |pool| Dash::create(pool, keys);
        bare(name, geometry(11, 2, 0), create, move |pool| Dash::open(pool, keys))
    };
    let level = |name, keys| {
        let create = move |pool| Level::create(pool, keys);
        bare(name, geometry(10, 2, 2), create, move |pool| Level::open(pool, keys))
    };
    vec![
        tiny(cceh("cceh", false, Keys::Words), 10),
        tiny(cceh("cceh, both", true, Keys::Words), 12),
        tiny(cceh("cceh, strings", false, Keys::Strings), 10),
        tiny(dash("dash", Keys::Words), 13),
        tiny(level("level", Keys::Words), 10),
        tiny(level("level, strings", Keys::Strings), 10),
    ]
}

/// A case with slots beyond the line of their bucket's metadata, keys whose homes are three buckets, and a directory of several
/// lines: keys of a half of it fill a segment, and differ in their fifth bit first; then those of the other half split a
/// segment that has two lines of the directory. Also the keys, by number, for which the table grows.
fn wide<T: Table + 'static>(
    name: &'static str,
    geometry: Geometry,
    create: fn(Shares) -> Result<T>,
    open: fn(Shares) -> Result<T>,
) -> (Case, Vec<u16>) {
    let home = |(i, key): (u64, u64)| key | (i % 3 * (1 << 16) / 5 + 1) << 8;
    let keys: Vec<u64> =
        (0..).zip(spread(0, 4, WIDE).chain(spread(1, 1, WIDE))).map(home).collect();
    let sim = Sim::from_image(&[], MAX_BYTES);
    let pool = Pool::create(sim, &Format::of_index(0, geometry, MAX_BYTES)).unwrap();
    let mut table = create(Arc::new(pool)).unwrap();
    let mut growing = Vec::new();
    for (number, key) in (0..).zip(&keys) {
        let before = table.space().growths;
        table.insert(*key, 0).unwrap();
        if table.space().growths != before {
            growing.push(number);
        }
    }
    (Case { keys, ..bare(name, geometry, create, open) }, growing)
}

/// The first failure of a case under a model, if there is one, and how many states were looked at before.
fn tried(case: &Case, model: Model) -> (Option<String>, u64) {
    // A split of Dash stores to many lines, so that a crash inside it may leave many states.
    let one_in = if case.name.starts_with("dash") { 64 } else { 1 };
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
        assert_eq!(failure.is_none(), case.name.starts_with("level"), "{case:?}");
    }
}

/// A state tells of each flush and each fence that is left out, and of each flush of the first of several lines, but of those
/// that are not needed.
fn flushes_are_needed((case, growing): &(Case, Vec<u16>), models: &[Model], accepted: &[Accepted]) {
    // A split stores to many lines.
    let one_in = if case.name == "level" { 1 } else { 64 };
    let mut verdicts = BTreeMap::new();
    for model in models {
        let mut tester = Tester::new(case, *model).without_checks().one_in(one_in);
        tester.keep_corpus();
        let last = growing[growing.len() - 1];
        let others = (0..=last).flat_map(|key| [Op::Put(key, 2), Op::Remove(key), Op::Put(key, 3)]);
        let mut scripts = vec![(puts(0..=last).into_iter().chain(others).collect(), Look::All)];
        for grows in [growing[0], last] {
            // A crash while it grows, another one while that is mended, and what is done then.
            scripts.extend((0..MENDED).map(|which| {
                let mut ops = puts(0..=grows);
                ops.extend([Op::Crash(which * 7919), Op::Put(grows, 2), Op::Remove(0)]);
                (ops, Look::LastSegment)
            }));
        }
        let nothing = tester.nothing();
        for (ops, look) in scripts {
            tester.script(&nothing, &ops, look).unwrap_or_else(|failure| panic!("{failure}"));
        }
        let (states, model) = (tester.counts().unique, model.name());
        println!("{case:?} under {model} grows for {growing:?}: {states} states");
        let wanted = |mutant: &Mutant| {
            [Kind::Drop, Kind::FirstLine].contains(&mutant.kind)
                && mutant.site.file().contains("baselines/src/tables")
        };
        add(&mut verdicts, tester.mutants(wanted));
    }
    let caught = verdicts.values().filter(|verdict| matches!(verdict, Verdict::Caught(_))).count();
    println!("{caught} of {} changes are seen", verdicts.len());
    let unproven = unproven(&verdicts, accepted);
    assert!(unproven.is_empty(), "{}", unproven.join("\n"));
    // Each accepted one is one place.
    assert_eq!(verdicts.len() - caught, accepted.len(), "{verdicts:?}");
}

#[test]
fn flushes_of_cceh_are_needed() {
    let create = |pool| Cceh::create(pool, false, Keys::Words);
    let open = |pool| Cceh::open(pool, Keys::Words);
    let wide = wide("cceh", geometry(10, 2, 8), create, open);
    flushes_are_needed(&wide, &[Model::X86], NOT_NEEDED_BY_CCEH);
}

#[test]
fn flushes_of_cceh_with_strings_are_needed() {
    let create = |pool| Cceh::create(pool, false, Keys::Strings);
    let open = |pool| Cceh::open(pool, Keys::Strings);
    let wide = wide("cceh, strings", geometry(10, 2, 8), create, open);
    flushes_are_needed(&wide, &[Model::X86], NOT_NEEDED_BY_CCEH);
}

#[test]
fn flushes_of_dash_are_needed() {
    let (create, open) =
        (|pool| Dash::create(pool, Keys::Words), |pool| Dash::open(pool, Keys::Words));
    let wide = wide("dash", geometry(11, 3, 0), create, open);
    flushes_are_needed(&wide, &[Model::X86], NOT_NEEDED_BY_DASH);
}

/// All words of the root are in one line, and x86 keeps the order of stores to it.
#[test]
fn flushes_of_level_hashing_are_needed() {
    let (create, open) =
        (|pool| Level::create(pool, Keys::Words), |pool| Level::open(pool, Keys::Words));
    let wide = wide("level", geometry(10, 5, 2), create, open);
    flushes_are_needed(&wide, &[Model::X86, Model::Word], NOT_NEEDED_BY_LEVEL);
}
