//! Faults of Pea Hash's end bits, each planted and found, as changes of recorded runs.

use durahash_crash::cases::named;
use durahash_crash::mutate::Verdict;
use durahash_crash::run::{Failure, Tester};
use durahash_crash::states::Model;
use durahash_media::sim::{Action, Step, budget};

use crate::planted_esh::{Functions, is_flush, is_store, next_drain};

#[derive(Clone, Copy, Debug)]
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

/// The end bit of a map, in the first of a bucket's words.
const END: u64 = 1;
const BUCKET_WORDS: u32 = 32;

impl Fault {
    const ALL: [Fault; 4] =
        [Fault::OpenedLate, Fault::Unflushed, Fault::Unfenced, Fault::ClosedBySplit];

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
fn what_is_wrong_with_end_bits_is_found() {
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
