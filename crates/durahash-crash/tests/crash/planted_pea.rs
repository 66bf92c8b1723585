//! Faults of Pea Hash's end bits, and of its first two segments when they become large, each planted and found, as
//! changes of recorded runs.

use durahash_crash::cases::named;
use durahash_crash::mutate::Verdict;
use durahash_crash::run::{Failure, Tester};
use durahash_crash::states::Model;
use durahash_media::sim::{Action, Step, budget};

use crate::planted_esh::{Functions, is_flush, is_store, next_drain};

durahash_media::listed! {
    /// A wrong write.
    enum Fault {
        /// A bucket is opened after the entry is there for which it is.
        OpenedLate,
        /// It is not flushed before.
        Unflushed,
        /// Nothing keeps the entry from being durable first.
        Unfenced,
        /// A new segment has entries behind end bits that are set.
        ClosedBySplit,
    }
}

/// The end bit of a map, in the first of a bucket's words.
const END: u64 = 1;
const BUCKET_WORDS: u32 = 32;

impl Fault {
    /// Plants it into a copy of `steps`; the first step that is another one.
    fn plant(self, of: &Functions, steps: &[Step], out: &mut Vec<Step>) -> Option<usize> {
        out.clear();
        out.extend_from_slice(steps);
        let opens = |step: &Step| of.is(step, "pea/write.rs", "open_before", "medium.");
        match self {
            Fault::OpenedLate => {
                let mut from = 0;
                while let Some(at) =
                    (from..out.len()).find(|at| is_store(&out[*at]) && opens(&out[*at]))
                {
                    let drain = next_drain(out, at)?;
                    // The store and its flush; there may be more of them, which have their turn.
                    out[at..=drain].rotate_left(2);
                    from = if is_store(&out[at]) && opens(&out[at]) { at } else { drain + 1 };
                }
            }
            Fault::Unflushed => out.retain(|step| !(is_flush(step) && opens(step))),
            Fault::Unfenced => {
                let is_fence = |step: &Step| step.action == Action::Fence;
                let inserts = |step: &Step| of.is(step, "pea/write.rs", "insert_into", "fence");
                out.retain(|step| !(is_fence(step) && inserts(step)));
            }
            Fault::ClosedBySplit => {
                for step in out.iter_mut() {
                    let writes = of.is(step, "pea/image.rs", "write", "medium.");
                    if let Action::StoreNt { word, v } = &mut step.action
                        && writes
                        && word.is_multiple_of(BUCKET_WORDS)
                    {
                        *v |= END;
                    }
                }
            }
        }
        steps.iter().zip(&*out).position(|(before, after)| before != after)
    }
}

#[test]
fn wrong_end_bits_are_found() {
    let case = &named("pea");
    let mut tester = Tester::new(case, Model::X86).one_in(budget(64, 4));
    tester.keep_corpus();
    let run = |tester: &mut Tester<'_>| -> Result<(), Box<Failure>> {
        tester.exhaustive(1)?;
        (0..4).try_for_each(|seed| tester.random(seed, 150))
    };
    run(&mut tester).unwrap_or_else(|failure| panic!("{failure}"));
    let functions = Functions::default();
    println!("{} faults", Fault::ALL.len());
    for fault in Fault::ALL {
        let verdict = tester.planted(|steps, out| fault.plant(&functions, steps, out));
        println!("{fault:?}: {verdict:?}");
        assert!(matches!(verdict, Verdict::Caught(_)), "{fault:?}: {verdict:?}");
    }
}

/// The root names two large segments before they, or the array that names them, are durable.
#[test]
fn small_segments_that_are_replaced_too_early_are_found() {
    let case = &named("pea-small");
    let mut tester = Tester::new(case, Model::X86).one_in(budget(16, 1));
    tester.keep_corpus();
    let base = tester.base("grown").unwrap_or_else(|failure| panic!("{failure}"));
    assert!(base.is_some(), "crashes on the way there were looked at");
    let functions = Functions::default();
    let array = |step: &Step, line| functions.is(step, "extendible/array.rs", "write", line);
    let fences = |step: &Step| {
        let of_segments = functions.is(step, "pea/grow.rs", "write_images", "fence");
        step.action == Action::Fence && (of_segments || array(step, "medium.fence"))
    };
    let flushes = |step: &Step| is_flush(step) && array(step, "medium.flush_fresh");
    let writes = |step: &Step| functions.is(step, "pea/image.rs", "write", "medium.");
    let kinds: [&dyn Fn(&Step) -> bool; 3] = [&fences, &flushes, &writes];
    for (what, is_left_out) in ["fences", "flushes of the array", "segments"].iter().zip(kinds) {
        let verdict = tester.planted(|steps, out| {
            // Not while the pool is made.
            let insert =
                steps.iter().position(|step| step.site.file().ends_with("pea/write.rs"))?;
            let first = (insert..steps.len()).find(|at| is_left_out(&steps[*at]))?;
            out.clear();
            out.extend_from_slice(&steps[..first]);
            out.extend(steps[first..].iter().filter(|step| !is_left_out(step)));
            Some(first)
        });
        println!("without {what}: {verdict:?}");
        assert!(matches!(verdict, Verdict::Caught(_)), "{what}: {verdict:?}");
    }
}
