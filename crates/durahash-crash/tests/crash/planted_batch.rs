//! Faults of batches, each planted and found: as changes of recorded runs where a script is enough, by the engine
//! itself under the feature `planted` where only other threads are hurt.

use std::mem::offset_of;

use durahash::batch::Fault;
use durahash_crash::cases::named;
use durahash_crash::mutate::Verdict;
use durahash_crash::run::Tester;
use durahash_crash::states::Model;
use durahash_media::Superblock;
use durahash_media::sim::{Action, Step};

use crate::schedules::hurts_threads;

durahash_media::listed! {
    /// An early write.
    enum Early {
        /// The intent is named before it is durable.
        Named,
        /// A payload is stored before the name is durable.
        Applied,
        /// The name is cleared before the payloads are durable.
        Cleared,
        /// The batch is acknowledged, and what follows it done, before the name is durably cleared.
        Acknowledged,
        /// The intent is free, and the next batch has written its own there, before the name is cleared.
        Freed,
    }
}

/// The word of the superblock that names a batch.
const BATCH: u32 = offset_of!(Superblock, batch) as u32 / 8;

impl Early {
    /// Plants it into a copy of `steps`; the first step that is another one.
    fn plant(self, steps: &[Step], out: &mut Vec<Step>) -> Option<usize> {
        let is_fence = |at: &usize| matches!(steps[*at].action, Action::Fence | Action::Drain);
        let stores = |step: &Step, wanted: fn(u64) -> bool| matches!(step.action, Action::Store { word: BATCH, v } if wanted(v));
        // The last batch: what came before it is not looked at.
        let named = steps.iter().rposition(|step| stores(step, |v| v != 0))?;
        let cleared = named + steps[named..].iter().position(|step| stores(step, |v| v == 0))?;
        let left_out: Vec<usize> = match self {
            Early::Named => (0..named).rev().find(is_fence).into_iter().collect(),
            Early::Applied => (named..cleared).find(is_fence).into_iter().collect(),
            Early::Cleared => (named + 2..cleared).filter(is_fence).skip(1).collect(),
            Early::Acknowledged => (cleared..steps.len()).find(is_fence).into_iter().collect(),
            Early::Freed => {
                let cleared = steps[..named].iter().rposition(|step| stores(step, |v| v == 0))?;
                let end = (cleared..named).find(is_fence)? + 1;
                out.clear();
                out.extend_from_slice(steps);
                out[cleared..named].rotate_left(end - cleared);
                return Some(cleared);
            }
        };
        out.clear();
        let kept = steps.iter().enumerate().filter(|(at, _)| !left_out.contains(at));
        out.extend(kept.map(|(_, step)| *step));
        left_out.first().copied()
    }
}

#[test]
fn early_writes_of_a_batch_are_found() {
    let case = named("reh-batch");
    let mut tester = Tester::new(&case, Model::X86).one_in(4);
    tester.keep_corpus();
    tester.exhaustive(1).unwrap_or_else(|failure| panic!("{failure}"));
    for early in Early::ALL {
        let verdict = tester.planted(|steps, out| early.plant(steps, out));
        println!("{early:?}: {verdict:?}");
        assert!(matches!(verdict, Verdict::Caught(_)), "{early:?}: {verdict:?}");
    }
}

#[test]
fn faults_of_a_batch_that_hurt_threads_are_found() {
    for fault in [Fault::GateOpen, Fault::LockUnseen] {
        println!("{fault:?}: {}", hurts_threads(fault).expect("not found"));
    }
}
