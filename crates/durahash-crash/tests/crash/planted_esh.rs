//! Faults that ESH's paper invites, each planted and found: wrong writes, as changes of recorded
//! runs, and wrong beliefs at the open, as changes of the medium.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use durahash_crash::case::Case;
use durahash_crash::cases::named;
use durahash_crash::mutate::{Verdict, source};
use durahash_crash::run::{Failure, Tester};
use durahash_crash::states::Model;
use durahash_media::sim::{Action, Sim, Site, Step, budget};
use durahash_media::{Memory, PmU64, Pool};

durahash_media::listed! {
    /// A wrong write.
    enum Written {
        /// OFRB is smaller before the slot that it leads to is durably gone.
        ShorterFirst,
        /// OFRB leads to a slot only after that is live.
        LongerLast,
        /// A slot that comes home is cleared where it was before it is durable there.
        LostOnTheWay,
        /// It is never cleared where it was.
        TwiceAtHome,
        /// The directory names halves that are not durable.
        SwitchedFirst,
        /// A segment is dated, and let go, before its repair is durable.
        ReleasedFirst,
        /// MC says something else than the bits beside it.
        Miscounted,
    }
}

/// Functions of ESH by the sites that are in them: reading sources takes time.
#[derive(Default)]
pub(crate) struct Functions(RefCell<HashMap<Site, (String, String)>>);

impl Functions {
    /// True if this function of this file did the step, on a line that contains `line`.
    pub(crate) fn is(&self, step: &Step, file: &str, function: &str, line: &str) -> bool {
        if !step.site.file().ends_with(file) {
            return false;
        }
        let mut known = self.0.borrow_mut();
        let (name, text) = known.entry(step.site).or_insert_with(|| source(step.site));
        name == function && text.contains(line)
    }
}

pub(crate) fn is_store(step: &Step) -> bool {
    matches!(step.action, Action::Store { .. })
}

pub(crate) fn is_flush(step: &Step) -> bool {
    matches!(step.action, Action::Flush { .. })
}

/// Takes steps `from..to` out and puts them before `at`, which is earlier.
fn put_before(steps: &mut [Step], from: usize, to: usize, at: usize) {
    steps[at..to].rotate_right(to - from);
}

pub(crate) fn next_drain(steps: &[Step], from: usize) -> Option<usize> {
    (from..steps.len()).find(|at| steps[*at].action == Action::Drain)
}

impl Written {
    /// Plants it into a copy of `steps`; the first step that is another one.
    fn plant(self, of: &Functions, steps: &[Step], out: &mut Vec<Step>) -> Option<usize> {
        out.clear();
        out.extend_from_slice(steps);
        let write = "esh/write.rs";
        let clears = |step: &Step| of.is(step, write, "clear", "");
        let stores_at_home = |step: &Step, function: &str| {
            let is_in = |line| of.is(step, write, function, line);
            is_store(step) && (is_in("home.commit") || is_in("store_commit(home"))
        };
        match self {
            Written::ShorterFirst => {
                for at in 0..out.len() {
                    if is_store(&out[at]) && of.is(&out[at], write, "shorten", "") {
                        let last = (0..at).rev().find(|i| clears(&out[*i]))?;
                        let first = (0..last).rev().find(|i| !clears(&out[*i]))? + 1;
                        put_before(out, at, at + 1, first);
                    }
                }
            }
            Written::LongerLast => {
                let mut from = 0;
                while let Some(at) =
                    (from..out.len()).find(|at| stores_at_home(&out[*at], "insert"))
                {
                    let drain = next_drain(out, at)?;
                    out[at..=drain].rotate_left(1);
                    from = drain + 1;
                }
            }
            Written::LostOnTheWay => {
                let mut from = 0;
                while let Some(at) =
                    (from..out.len()).find(|at| stores_at_home(&out[*at], "bring_home"))
                {
                    let first = (at..out.len()).find(|i| clears(&out[*i]))?;
                    let drain = next_drain(out, first)?;
                    put_before(out, first, drain + 1, at);
                    from = drain + 1;
                }
            }
            Written::TwiceAtHome => {
                let mut is_due = false;
                out.retain(|step| {
                    let clears = clears(step);
                    is_due = (is_due && (!is_flush(step) || !clears))
                        || stores_at_home(step, "bring_home");
                    !(is_due && clears)
                });
            }
            Written::SwitchedFirst => {
                let writes = |step: &Step| of.is(step, "esh/image.rs", "write", "medium.");
                out.retain(|step| !(is_flush(step) && writes(step)));
                for step in out.iter_mut() {
                    if let Action::StoreNt { word, v } = step.action
                        && writes(step)
                    {
                        step.action = Action::Store { word, v };
                    }
                }
            }
            Written::ReleasedFirst => {
                let repairs = |step: &Step| of.is(step, "esh/repair.rs", "make_exact", "medium.");
                out.retain(|step| is_store(step) || !repairs(step));
            }
            Written::Miscounted => {
                for step in out.iter_mut() {
                    let is_commit = of.is(step, write, "insert", "store_commit(bucket")
                        || of.is(step, write, "clear", "store_commit(bucket");
                    if let Action::Store { v, .. } = &mut step.action
                        && is_commit
                    {
                        // One more or one less, and the parity that goes with it.
                        *v ^= 1 << 31 | 1 << 63;
                    }
                }
            }
        }
        steps.iter().zip(&*out).position(|(before, after)| before != after)
    }
}

/// Short scripts from states that are durable as a whole, and what follows crashes in them.
fn corpus<'s>(case: &'s Case, model: Model) -> Result<Tester<'s>, Box<Failure>> {
    let mut tester = Tester::new(case, model).one_in(budget(4, 1));
    tester.keep_corpus();
    tester.exhaustive_settled(1, true)?;
    tester.exhaustive_settled(1, false)?;
    for prefill in case.prefills.iter().filter(|prefill| prefill.name == "overflowed") {
        tester.crash_and_go_on(prefill, 20)?;
    }
    Ok(tester)
}

#[test]
fn wrong_writes_are_found() {
    let case = &named("esh");
    let mut tester = corpus(case, Model::X86).unwrap_or_else(|failure| panic!("{failure}"));
    let functions = Functions::default();
    let mut missed = Vec::new();
    println!("{} faults", Written::ALL.len());
    for fault in Written::ALL {
        let verdict = tester.planted(|steps, out| fault.plant(&functions, steps, out));
        println!("{fault:?}: {verdict:?}");
        if !matches!(verdict, Verdict::Caught(_)) {
            missed.push((fault, verdict));
        }
    }
    assert!(missed.is_empty(), "{missed:?}");
}

/// A wrong belief at the open.
#[derive(Clone, Copy, Debug)]
enum Believed {
    /// Changes that a crash left half done are discarded (the paper, §4.1).
    Discarded,
    /// A segment that a crash left has the date of this open: it is not repaired.
    DatesTrusted,
    /// A lock that reached the medium is held.
    LocksKept,
}

/// The lock is the second word of a bucket; its flags, and its parity.
const LOCK: usize = 1;
const W: u64 = 1;
const X: u64 = 2;
const PARITY: u64 = 4;

fn sealed(word: u64) -> u64 {
    let word = word & !PARITY;
    if word.count_ones().is_multiple_of(2) { word } else { word | PARITY }
}

/// The buckets, and all else that looks like one: two words with an even number of bits, the second
/// with a date, neither empty.
fn buckets(words: &[PmU64], before: u64, load: impl Fn(&PmU64) -> u64) -> Vec<&[PmU64]> {
    let is_even = |word: u64| word.count_ones().is_multiple_of(2);
    // The pool's own extent comes first.
    let blocks = words.chunks(32).skip(8);
    let looks_like_one = |block: &&[PmU64]| {
        let (commit, lock) = (load(&block[0]), load(&block[LOCK]));
        let is_dated = (1..before).contains(&(lock >> 32));
        commit != 0 && commit < 1 << 63 | 1 << 41 && is_even(commit) && is_even(lock) && is_dated
    };
    blocks.filter(looks_like_one).collect()
}

impl Believed {
    /// Makes what lies on the medium what the fault takes it for. `now` is the epoch of this open.
    fn plant(self, sim: &Sim, now: u64) {
        let count = sim.region().len() / 8;
        let words = sim.region().words(0, count).expect("all of it");
        for bucket in buckets(words, now, |word| sim.load(word)) {
            let lock = sim.load(&bucket[LOCK]);
            let dated = now << 32 | lock & 0xffff_ffff;
            match self {
                Believed::Discarded => {
                    // An empty bucket, of the depth that it had.
                    let depth = sim.load(&bucket[0]) & 0x3f << 35;
                    sim.store(&bucket[0], depth | u64::from(depth.count_ones() % 2) << 63);
                }
                Believed::DatesTrusted => sim.store(&bucket[LOCK], sealed(dated & !(W | X))),
                Believed::LocksKept if lock & W != 0 => {
                    sim.store(&bucket[LOCK], sealed(dated));
                }
                Believed::LocksKept => {}
            }
        }
    }
}

/// ESH with such a fault.
fn believes(fault: Believed) -> Case {
    let esh = named("esh");
    let open = Arc::clone(&esh.open);
    let open = move |sim: Sim| {
        let pool = Pool::open(sim.clone(), false)?;
        if !pool.was_clean() {
            fault.plant(&sim, u64::from(pool.epoch()));
        }
        drop(pool);
        open(sim)
    };
    let open = Arc::new(open);
    Case { name: "esh-planted", recovery_calls: 20_000, open_as_left: None, open, ..esh }
}

#[test]
fn wrong_beliefs_are_found() {
    for fault in [Believed::Discarded, Believed::DatesTrusted, Believed::LocksKept] {
        let case = believes(fault);
        let found = corpus(&case, Model::X86).err();
        println!("{}", found.unwrap_or_else(|| panic!("{fault:?} was not found")));
    }
}
