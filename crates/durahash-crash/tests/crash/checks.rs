//! Check words under the tester: no crash makes one wrong, and faults that would do so are found.

use std::sync::Arc;

use durahash::reh::Reh;
use durahash::{Finding, Result};
use durahash_crash::case::{Case, Slots, Table};
use durahash_crash::cases::named;
use durahash_crash::mutate::{Verdict, source};
use durahash_crash::run::{Failure, Look, Tester};
use durahash_crash::script::{Op, parse};
use durahash_crash::states::Model;
use durahash_media::sim::{Action, Sim, Step, budget};
use durahash_media::{Format, Geometry, Pool};

/// Every operation from pools that were closed, and a close after it.
fn explore(tester: &mut Tester<'_>) -> std::result::Result<(), Box<Failure>> {
    tester.exhaustive_settled(1, true)
}

#[test]
fn no_crash_makes_a_check_word_wrong() {
    for name in ["reh", "pea", "esh", "rewo", "pea-multi", "pea-multi-map", "reh-map", "rewo-map"] {
        let case = named(name);
        for model in [Model::X86, Model::Word] {
            let mut tester = Tester::new(&case, model).one_in(budget(32, 1));
            explore(&mut tester).unwrap_or_else(|failure| panic!("{failure}"));
            let unique = tester.counts().unique;
            println!("{name} under {}: {unique} states", model.name());
            assert!(unique > 50, "only {unique} states");
        }
    }
}

/// REH in a pool whose steps take so many extents.
struct Growing {
    inner: Slots<Reh<Sim>>,
    pool: Arc<Pool<Sim>>,
}

const EXTENTS: u64 = 150;
const GROWING_BYTES: u64 = 512 << 10;

impl Table for Growing {
    fn apply(&self, op: Op, key: u64) -> Result<Option<u64>> {
        if matches!(op, Op::Step) {
            // Of a record: REH does not look at them.
            let bytes = EXTENTS * self.pool.extent_bytes();
            if self.pool.stats().bytes < bytes {
                self.pool.alloc_block(bytes, true)?;
            }
            return Ok(None);
        }
        self.inner.apply(op, key)
    }

    fn contents(&self, out: &mut Vec<(u64, u64)>) -> Result<()> {
        self.inner.contents(out)
    }

    fn count(&self) -> Result<u64> {
        self.inner.count()
    }

    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        self.inner.check(found)
    }

    fn was_closed(&self) -> Option<bool> {
        self.inner.was_closed()
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Growing { inner, pool } = *self;
        drop(pool);
        Box::new(inner).close()
    }
}

fn growing() -> Case {
    let table = |pool: Arc<Pool<Sim>>, index| -> Result<Box<dyn Table>> {
        let slots =
            Slots { index: Arc::new(index), step: |_| Ok(false), pool: Some(Arc::clone(&pool)) };
        Ok(Box::new(Growing { inner: slots, pool }))
    };
    let create = move |sim| {
        let geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 0 };
        // Whose records have check words.
        let format = Format { kind: 1, ..Format::of_index(1, geometry, GROWING_BYTES) };
        let pool = Arc::new(Pool::create(sim, &format)?);
        let index = Reh::create(Arc::clone(&pool))?;
        pool.publish()?;
        table(pool, index)
    };
    let open = move |sim| {
        let pool = Arc::new(Pool::open(sim, false)?);
        let index = Reh::open(Arc::clone(&pool))?;
        table(pool, index)
    };
    let (create, open) = (Arc::new(create), Arc::new(open));
    Case { name: "growing", max_bytes: GROWING_BYTES, create, open, ..named("reh") }
}

/// The first close makes an area, the second a longer one.
const GROWS: &str =
    "put 0 1, close, put 1 2, put 8 3, step, close, put 0 4, put 9 5, close, put 1 6";

fn grow(tester: &mut Tester<'_>) -> std::result::Result<(), Box<Failure>> {
    let ops = parse(GROWS).expect("a script");
    let nothing = tester.nothing();
    tester.script(&nothing, &ops, Look::All)
}

#[test]
fn an_area_that_is_too_short_gives_way_to_a_longer_one() {
    let case = growing();
    for model in [Model::X86, Model::Word] {
        let mut tester = Tester::new(&case, model).one_in(budget(8, 1));
        grow(&mut tester).unwrap_or_else(|failure| panic!("{failure}"));
        println!("{} states under {}", tester.counts().unique, model.name());
    }
}

/// A fault of the stores that a line of `pool/checks.rs` makes.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// They never happen.
    Lost,
    /// They are durable with the next fence but one.
    Late,
}

/// Function, what its source says, and the fault.
const FAULTS: [(&str, &str, Fault); 8] = [
    // The check word of a block that was stored to stays.
    ("mark", "medium.store(word, before | mask);", Fault::Lost),
    // The mark is not durable before the store.
    ("mark", "medium.flush(word);", Fault::Lost),
    ("mark", "medium.fence();", Fault::Late),
    // The sum is not, before the mark is gone.
    ("store_sum", "medium.store(word, other", Fault::Lost),
    ("renew", "medium.flush(&sums[", Fault::Lost),
    ("renew", "medium.fence();", Fault::Lost),
    // The bytes that the sum is of are not.
    ("sum", "medium.copy_durable(off, bytes)", Fault::Lost),
    // The area has its place before its marks.
    ("move_to", "medium.flush_fresh(marks);", Fault::Lost),
];

/// Changes the steps as the fault would have.
fn plant(
    (function, line, fault): (&str, &str, Fault),
    steps: &[Step],
    out: &mut Vec<Step>,
) -> Option<usize> {
    out.clear();
    let mut first = None;
    let mut late: Option<Step> = None;
    for (at, step) in steps.iter().enumerate() {
        let is_file = step.site.file().ends_with("pool/checks.rs");
        let is_here = is_file && {
            let (in_function, says) = source(step.site);
            in_function == function && says.contains(line)
        };
        if is_here {
            first = first.or(Some(at));
            late = match fault {
                Fault::Lost => None,
                Fault::Late => Some(*step),
            };
            continue;
        }
        out.push(*step);
        if matches!(step.action, Action::Store { .. })
            && let Some(step) = late.take()
        {
            out.push(step);
        }
    }
    out.extend(late);
    first
}

#[test]
fn faults_of_check_words_are_found() {
    let (reh, growing) = (named("reh"), growing());
    let mut of_reh = Tester::new(&reh, Model::X86).one_in(budget(32, 1));
    of_reh.keep_corpus();
    explore(&mut of_reh).unwrap_or_else(|failure| panic!("{failure}"));
    let mut of_growing = Tester::new(&growing, Model::X86).one_in(budget(8, 1));
    of_growing.keep_corpus();
    grow(&mut of_growing).unwrap_or_else(|failure| panic!("{failure}"));
    println!("{} faults", FAULTS.len());
    for fault in FAULTS {
        let verdicts = [&mut of_reh, &mut of_growing]
            .map(|tester| tester.planted(|steps, out| plant(fault, steps, out)));
        println!("{fault:?}: {verdicts:?}");
        let is_caught = |verdict: &Verdict| matches!(verdict, Verdict::Caught(_));
        assert!(verdicts.iter().any(is_caught), "{fault:?} is not found: {verdicts:?}");
    }
}
