//! The designs under the tester: alone, on a medium that fills up, and with a map of byte strings over
//! them.

use std::collections::{BTreeMap, BTreeSet};

use durahash_crash::designs::{
    EshFullSubject, EshMapSubject, EshRepairedSubject, EshSubject, PeaFullSubject, PeaMapSubject,
    PeaMultiFullSubject, PeaMultiMapSubject, PeaMultiSubject, PeaSubject, RehFullSubject,
    RehMapSubject, RehSubject, RewoBetweenSubject, RewoCachedSubject, RewoFullSubject,
    RewoMapSubject, RewoSmallMapSubject, RewoSubject,
};
use durahash_crash::mutate::{Accepted, Kind, Mutant, Verdict, add, unproven};
use durahash_crash::run::Tester;
use durahash_crash::states::Model;
use durahash_crash::subject::{Prefill, Subject};

/// All scripts of up to `length` operations and `randoms` long ones: nothing is wrong, and so many
/// states were looked at.
fn is_right<S: Subject>(subject: &S, model: Model, length: u32, randoms: u64) -> u64 {
    explore(Tester::new(subject, model), model, length, randoms)
}

fn explore<S: Subject>(mut tester: Tester<'_, S>, model: Model, length: u32, randoms: u64) -> u64 {
    let done = tester.exhaustive(length).and_then(|()| {
        (0..randoms).try_for_each(|seed| {
            tester.forget();
            tester.random(seed, 300)
        })
    });
    if let Err(failure) = done {
        panic!("{failure}");
    }
    let unique = tester.counts().unique;
    println!("{} under {}: {unique} states", S::NAME, model.name());
    unique
}

#[test]
fn reh_survives_on_x86() {
    let unique = is_right(&RehSubject::default(), Model::X86, 4, 80);
    assert!(unique > 1_000_000, "only {unique} states");
}

#[test]
fn reh_survives_where_words_have_no_order() {
    let unique = is_right(&RehSubject::default(), Model::Word, 4, 4);
    assert!(unique > 1_000_000, "only {unique} states");
}

#[test]
fn reh_survives_the_death_of_its_process() {
    let unique = is_right(&RehSubject::default(), Model::Program, 4, 12);
    assert!(unique > 15_000, "only {unique} states");
}

#[test]
fn reh_survives_on_a_full_medium() {
    let x86 = is_right(&RehFullSubject::default(), Model::X86, 2, 8);
    let word = is_right(&RehFullSubject::default(), Model::Word, 2, 2);
    assert!(x86 + word > 100_000, "only {x86} {word} states");
}

#[test]
fn pea_survives_on_x86() {
    let unique = is_right(&PeaSubject::default(), Model::X86, 2, 30);
    assert!(unique > 400_000, "only {unique} states");
}

#[test]
fn pea_survives_where_words_have_no_order() {
    let unique = is_right(&PeaSubject::default(), Model::Word, 2, 12);
    assert!(unique > 600_000, "only {unique} states");
}

#[test]
fn pea_survives_the_death_of_its_process() {
    let unique = is_right(&PeaSubject::default(), Model::Program, 3, 12);
    assert!(unique > 15_000, "only {unique} states");
}

#[test]
fn pea_survives_on_a_full_medium() {
    let x86 = is_right(&PeaFullSubject::default(), Model::X86, 2, 8);
    let word = is_right(&PeaFullSubject::default(), Model::Word, 2, 2);
    assert!(x86 + word > 100_000, "only {x86} {word} states");
}

#[test]
fn esh_survives_on_x86() {
    let unique = is_right(&EshSubject::default(), Model::X86, 0, 1);
    assert!(unique > 1_000_000, "only {unique} states");
}

#[test]
fn esh_survives_where_words_have_no_order() {
    let unique = is_right(&EshSubject::default(), Model::Word, 0, 0);
    assert!(unique > 200_000, "only {unique} states");
}

#[test]
fn esh_survives_the_death_of_its_process() {
    let unique = is_right(&EshSubject::default(), Model::Program, 3, 12);
    assert!(unique > 15_000, "only {unique} states");
}

/// Deaths inside repairs, and inside the repairs of what they leave. Under the other models these are tens
/// of millions of states: `soak --design esh-repaired` has them.
#[test]
fn esh_survives_crashes_of_its_repair() {
    let [line, word] = [true, false].map(|order| {
        let esh = EshRepairedSubject::default();
        explore(Tester::new(&esh, Model::Program).with_line_order(order), Model::Program, 0, 0)
    });
    assert!(line > 100 && word > 100, "only {line} {word} states");
}

#[test]
fn esh_survives_on_a_full_medium() {
    let x86 = is_right(&EshFullSubject::default(), Model::X86, 0, 1);
    let word = is_right(&EshFullSubject::default(), Model::Word, 0, 0);
    assert!(x86 + word > 100_000, "only {x86} {word} states");
}

#[test]
fn rewo_survives_on_x86() {
    let unique = is_right(&RewoSubject::default(), Model::X86, 3, 200);
    assert!(unique > 500_000, "only {unique} states");
}

#[test]
fn rewo_survives_where_words_have_no_order() {
    let unique = is_right(&RewoSubject::default(), Model::Word, 2, 80);
    assert!(unique > 200_000, "only {unique} states");
}

#[test]
fn rewo_survives_the_death_of_its_process() {
    let unique = is_right(&RewoSubject::default(), Model::Program, 3, 60);
    assert!(unique > 60_000, "only {unique} states");
}

#[test]
fn rewo_survives_on_a_full_medium() {
    let x86 = is_right(&RewoFullSubject::default(), Model::X86, 2, 60);
    let word = is_right(&RewoFullSubject::default(), Model::Word, 2, 20);
    assert!(x86 + word > 100_000, "only {x86} {word} states");
}

/// What is answered from the cached table is held against the same oracle.
#[test]
fn rewo_survives_with_a_cached_table() {
    let unique = is_right(&RewoCachedSubject::default(), Model::X86, 2, 40);
    assert!(unique > 100_000, "only {unique} states");
}

/// The same, where copies are changed in the middle of the operations that they are of.
#[test]
fn rewo_survives_with_copies_that_others_change() {
    let x86 = is_right(&RewoBetweenSubject::default(), Model::X86, 2, 40);
    let word = is_right(&RewoBetweenSubject::default(), Model::Word, 1, 20);
    assert!(x86 > 100_000 && word > 20_000, "only {x86} {word} states");
}

#[test]
fn multimaps_survive_on_x86() {
    let unique = is_right(&PeaMultiSubject::default(), Model::X86, 1, 20);
    assert!(unique > 800_000, "only {unique} states");
}

#[test]
fn multimaps_survive_where_words_have_no_order() {
    let unique = is_right(&PeaMultiSubject::default(), Model::Word, 0, 8);
    assert!(unique > 300_000, "only {unique} states");
}

#[test]
fn multimaps_survive_the_death_of_their_process() {
    let unique = is_right(&PeaMultiSubject::default(), Model::Program, 2, 8);
    assert!(unique > 10_000, "only {unique} states");
}

#[test]
fn multimaps_survive_on_a_full_medium() {
    let x86 = is_right(&PeaMultiFullSubject::default(), Model::X86, 1, 8);
    let word = is_right(&PeaMultiFullSubject::default(), Model::Word, 1, 2);
    assert!(x86 + word > 50_000, "only {x86} {word} states");
}

#[test]
fn multimaps_of_texts_survive_on_every_medium() {
    map_survives(&PeaMultiMapSubject);
}

fn map_survives<S: Subject>(subject: &S) {
    let x86 = is_right(subject, Model::X86, 2, 6);
    let word = is_right(subject, Model::Word, 2, 6);
    let program = is_right(subject, Model::Program, 2, 6);
    assert!(x86 + word + program > 100_000, "only {x86} {word} {program} states");
}

#[test]
fn maps_over_reh_survive_on_every_medium() {
    map_survives(&RehMapSubject::new());
}

#[test]
fn maps_over_pea_survive_on_every_medium() {
    map_survives(&PeaMapSubject::new());
}

/// Of deaths of the process: under the other models it takes too long here; `soak --design esh-map` has them.
#[test]
fn maps_over_esh_survive_the_death_of_their_process() {
    let unique = is_right(&EshMapSubject::new(), Model::Program, 0, 0);
    assert!(unique > 10, "only {unique} states");
}

#[test]
fn maps_over_rewo_survive_on_every_medium() {
    let x86 = is_right(&RewoMapSubject::new(), Model::X86, 2, 10);
    let word = is_right(&RewoMapSubject::new(), Model::Word, 1, 1);
    let program = is_right(&RewoMapSubject::new(), Model::Program, 2, 10);
    assert!(x86 + word + program > 60_000, "only {x86} {word} {program} states");
}

/// How the mutants of everything that a subject does fared.
fn mutants<S: Subject>(subject: &S, model: Model, length: u32) -> Vec<(Mutant, Verdict)> {
    mutants_of_long(subject, model, length, 150)
}

/// The same, with random scripts of so many operations.
fn mutants_of_long<S: Subject>(
    subject: &S,
    model: Model,
    length: u32,
    ops: usize,
) -> Vec<(Mutant, Verdict)> {
    let mut tester = Tester::new(subject, model);
    tester.keep_corpus();
    let done = tester
        .exhaustive(length)
        .and_then(|()| (0..4).try_for_each(|seed| tester.random(seed, ops)));
    if let Err(failure) = done {
        panic!("{failure}");
    }
    tester.mutants()
}

/// The same of scripts from states that are durable as a whole, and of what is done after crashes in
/// them: all states of these are few.
fn settled_mutants<S: Subject>(subject: &S, model: Model) -> Vec<(Mutant, Verdict)> {
    let mut tester = Tester::new(subject, model);
    tester.keep_corpus();
    let overflow = |prefill: &Prefill| ["home-full", "overflowed"].contains(&prefill.name);
    let done = tester
        .exhaustive_settled(1, true)
        .and_then(|()| tester.exhaustive_settled(1, false))
        .and_then(|()| {
            let mut prefills = subject.prefills().into_iter().filter(overflow);
            prefills.try_for_each(|prefill| tester.crash_and_go_on(&prefill, 12))
        });
    if let Err(failure) = done {
        panic!("{failure}");
    }
    tester.mutants()
}

/// What need not be caught.
const ACCEPTED: &[Accepted] = &[
    Accepted {
        function: "take",
        source: "medium.fence();",
        kinds: &[Kind::Drop, Kind::Delay],
        why: "only another thread needs it: tests/schedules.rs",
    },
    Accepted {
        function: "begin",
        source: "self.store_state(self.state)?;",
        kinds: &[Kind::SwapAcrossFence],
        why: "the next store is not visible yet",
    },
    Accepted {
        function: "close",
        source: "self.store_state(state)?;",
        kinds: &[Kind::Drop, Kind::Delay, Kind::SwapAcrossFence],
        why: "a clean pool that is taken for an unclean one is recovered",
    },
    Accepted {
        function: "merge",
        source: "medium.store(&to.link",
        kinds: &[Kind::SwapAcrossFence],
        why: "the next store is that of another merge, and not visible yet",
    },
    Accepted {
        function: "remove",
        source: "medium.store(&bucket.head[",
        kinds: &[Kind::SwapAcrossFence],
        why: "the next store is that of a merge, and not visible yet",
    },
    Accepted {
        function: "add_entry",
        source: "held.release_unchanged();",
        kinds: &[Kind::UnlockEarly],
        why: "the same as in update_slot",
    },
    Accepted {
        function: "update_slot",
        source: "held.release_unchanged();",
        kinds: &[Kind::UnlockEarly],
        why: "nothing was changed under this lock; what was durable before it was waited for there",
    },
];

/// The same of ESH.
const ACCEPTED_OF_ESH: &[Accepted] = &[
    Accepted {
        function: "open",
        source: "esh.pool.set_root(DATES_ROOT",
        kinds: &[Kind::SwapAcrossFence],
        why: "the next store, if it is of the open, gives back an extent: nothing is dated yet",
    },
    Accepted {
        function: "insert",
        source: "medium.fence();",
        kinds: &[Kind::Delay],
        why: "the next store is to a lock on the medium, of which nothing counts after a crash",
    },
    Accepted {
        function: "make_exact",
        source: "medium.drain();",
        kinds: &[Kind::Delay],
        why: "the next store is a date, which counts for nothing after a crash",
    },
];

/// The same of Rewo-Hash.
const ACCEPTED_OF_REWO: &[Accepted] = &[
    Accepted {
        function: "drop_slots",
        source: "medium.fence();",
        kinds: &[Kind::Delay],
        why: "one store later only the payload is another, of a slot that has its double",
    },
    Accepted {
        function: "prepare_some",
        source: "medium.store(&bucket.commit, 0);",
        kinds: &[Kind::SwapAcrossFence],
        why: "the next store is to a block of tables that nothing names yet",
    },
    Accepted {
        function: "create",
        source: "medium.flush(&bucket.commit);",
        kinds: &[Kind::Drop],
        why: "a new medium is zeros here; one that was used before need not be",
    },
    Accepted {
        function: "undo_moves",
        source: "medium.drain();",
        kinds: &[Kind::Drop, Kind::Delay],
        why: "only another thread needs it: the next drain of this one does the same",
    },
];

/// File, call, and why no script comes to it.
const UNREACHED: &[(&str, &str, &str)] = &[
    ("pool/mod.rs", "self.medium.", "in the name of the caller, where it is left out"),
    ("pool/mod.rs", "medium.flush(word)", "the same"),
    ("reh/write.rs", "medium.flush(bucket);", "an operation that panics: tests/breaks.rs"),
    ("reh/write.rs", "            medium.drain();", "the same"),
    ("pool/log.rs", "medium.flush(", "a log, which the log's own tester cuts: tests/logged.rs"),
    ("pool/mod.rs", "medium.flush(superblock);", "the same, where a close is behind a log"),
    ("pea/write.rs", "medium.flush(bucket);", "an operation that panics: tests/breaks.rs"),
    ("pea/write.rs", "                medium.drain();", "the same"),
    ("pea/write.rs", "medium.flush(word);", "the same"),
    ("pea/write.rs", "            medium.drain();", "the same"),
    (
        "esh/write.rs",
        "            medium.flush(bucket);",
        "an operation that panics: tests/breaks.rs",
    ),
    ("esh/write.rs", "            medium.drain();", "the same"),
    ("rewo/hold.rs", "medium.flush(bucket);", "the same"),
    ("rewo/hold.rs", "        medium.drain();", "the same"),
    ("rewo/check.rs", "medium.drain();", "a damaged bucket: durahash/tests/suite/images.rs"),
    (
        "pool/extents.rs",
        "                medium.fence();",
        "a damaged table: durahash/tests/suite/images.rs",
    ),
];

/// Flushes, fences and drains in the sources in `dirs` that no mutant left out, because no script came
/// there.
fn unreached(verdicts: &BTreeMap<Mutant, Verdict>, dirs: &[&str]) -> Vec<String> {
    let left_out: BTreeSet<(&str, u32)> = verdicts
        .keys()
        .filter(|mutant| mutant.kind == Kind::Drop)
        .map(|mutant| (mutant.site.file(), mutant.site.line()))
        .collect();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let mut unreached = Vec::new();
    for dir in dirs {
        for entry in std::fs::read_dir(format!("{root}{dir}")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let file = format!("{dir}/{name}");
            if !name.ends_with(".rs") || ["tests.rs", "traps.rs"].contains(&&*name) {
                continue;
            }
            let text = std::fs::read_to_string(format!("{root}{file}")).unwrap();
            for (line, number) in text.lines().zip(1..) {
                let calls =
                    ["medium.flush(", "medium.flush_fresh(", "medium.fence()", "medium.drain()"];
                let is_call = calls.iter().any(|call| line.contains(call));
                let known = UNREACHED
                    .iter()
                    .any(|(part, call, _)| file.ends_with(part) && line.contains(call));
                if is_call && !known && !left_out.contains(&(&*file, number)) {
                    unreached.push(format!("{file}:{number}: {}", line.trim()));
                }
            }
        }
    }
    unreached
}

#[test]
fn every_flush_fence_and_release_is_needed() {
    let mut verdicts = BTreeMap::new();
    add(&mut verdicts, mutants(&RehSubject::default(), Model::X86, 2));
    add(&mut verdicts, mutants(&RehSubject::default(), Model::Word, 2));
    add(&mut verdicts, mutants(&RehMapSubject::new(), Model::X86, 2));
    add(&mut verdicts, mutants(&RehMapSubject::new(), Model::Word, 2));
    add(&mut verdicts, mutants(&PeaSubject::default(), Model::X86, 2));
    add(&mut verdicts, mutants(&PeaSubject::default(), Model::Word, 2));
    add(&mut verdicts, mutants(&PeaMultiSubject::default(), Model::X86, 0));
    add(&mut verdicts, mutants(&PeaMultiSubject::default(), Model::Word, 0));
    let unproven = unproven(&verdicts, ACCEPTED);
    assert!(unproven.is_empty(), "{}", unproven.join("\n"));
    let unreached = unreached(
        &verdicts,
        &[
            "crates/durahash/src/engine",
            "crates/durahash/src/extendible",
            "crates/durahash/src/designs/reh",
            "crates/durahash/src/designs/pea",
            "crates/durahash/src/designs/pea/multi",
            "crates/durahash-media/src/pool",
        ],
    );
    assert!(unreached.is_empty(), "no script comes to\n{}", unreached.join("\n"));

    // The order within a line that designs rely on where it is kept.
    let swapped = verdicts.iter().filter(|(mutant, verdict)| {
        mutant.kind == Kind::SwapInLine && matches!(verdict, Verdict::Caught(_))
    });
    let swapped: Vec<&str> = swapped.map(|(mutant, _)| mutant.site.file()).collect();
    for file in ["reh/write.rs", "pea/write.rs", "pea/multi/store.rs"] {
        assert!(swapped.iter().any(|swapped| swapped.ends_with(file)), "{swapped:?}");
    }
}

/// What ESH shares with the others is left out with them.
#[test]
fn every_flush_fence_and_release_of_esh_is_needed() {
    const DIR: &str = "crates/durahash/src/designs/esh";
    let mut verdicts = BTreeMap::new();
    add(&mut verdicts, settled_mutants(&EshSubject::default(), Model::X86));
    add(&mut verdicts, settled_mutants(&EshSubject::default(), Model::Word));
    verdicts.retain(|mutant, _| mutant.site.file().contains(DIR));
    let unproven = unproven(&verdicts, ACCEPTED_OF_ESH);
    assert!(unproven.is_empty(), "{}", unproven.join("\n"));
    let unreached = unreached(&verdicts, &[DIR]);
    assert!(unreached.is_empty(), "no script comes to\n{}", unreached.join("\n"));

    let caught = |verdict: &&Verdict| matches!(verdict, Verdict::Caught(_));
    let count = verdicts.values().filter(caught).count();
    println!("{count} of {} are caught", verdicts.len());
    assert!(count >= 60, "only {count}");
    let in_line = |mutant: &Mutant| {
        mutant.kind == Kind::SwapInLine && mutant.site.file().ends_with("esh/write.rs")
    };
    let in_line = verdicts.iter().filter(|(mutant, verdict)| in_line(mutant) && caught(verdict));
    assert!(in_line.count() > 0, "nothing relies on the order within a line");
}

#[test]
fn every_flush_fence_and_release_of_rewo_is_needed() {
    const DIR: &str = "crates/durahash/src/designs/rewo";
    let mut verdicts = BTreeMap::new();
    add(&mut verdicts, mutants(&RewoSubject::default(), Model::X86, 2));
    add(&mut verdicts, mutants(&RewoSubject::default(), Model::Word, 2));
    // Long enough for a table where records were.
    let map = RewoSmallMapSubject::new();
    add(&mut verdicts, mutants_of_long(&map, Model::X86, 1, 1000));
    verdicts.retain(|mutant, _| mutant.site.file().contains(DIR));
    let unproven = unproven(&verdicts, ACCEPTED_OF_REWO);
    assert!(unproven.is_empty(), "{}", unproven.join("\n"));
    let unreached = unreached(&verdicts, &[DIR]);
    assert!(unreached.is_empty(), "no script comes to\n{}", unreached.join("\n"));
}
