//! The tester on a toy: nothing found where nothing is wrong, and everything that is planted.

use std::collections::BTreeMap;

use crate::toy_table::{Bug, toy};
use durahash_crash::mutate::{Verdict, add, unproven};
use durahash_crash::run::{Failure, Tester};
use durahash_crash::states::Model;
use durahash_media::sim::seed;

use crate::known;

/// Short scripts, all of them, and a few long ones.
fn first_failure(bug: Bug, model: Model, line_order: bool) -> Option<Box<Failure>> {
    let case = toy(bug);
    let mut tester = Tester::new(&case, model).with_line_order(line_order);
    let run = |tester: &mut Tester<'_>| {
        tester.exhaustive(2)?;
        (seed(0)..seed(20)).try_for_each(|seed| {
            tester.forget();
            tester.random(seed, 200)
        })
    };
    run(&mut tester).err()
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    for (model, failure) in [
        (Model::X86, first_failure(Bug::None, Model::X86, true)),
        (Model::Word, first_failure(Bug::None, Model::Word, false)),
        (Model::Program, first_failure(Bug::None, Model::Program, true)),
    ] {
        assert!(failure.is_none(), "{model:?}: {}", failure.unwrap());
    }
}

#[test]
fn stores_to_a_line_out_of_order_are_found() {
    // Written for a medium that keeps their order, run on one that does not.
    let failure = first_failure(Bug::None, Model::Word, true).expect("a violation");
    assert!(failure.wrong.contains("holds Some(0)"), "{failure}");
}

#[test]
fn planted_bugs_are_found() {
    let bugs = [
        Bug::CommitFirst,
        Bug::TwoWords,
        Bug::CapacityFirst,
        Bug::MarkStays,
        Bug::VisibleFirst,
        Bug::FirstLine,
        Bug::FreshUnpersisted,
        Bug::BothCopies,
        Bug::RepairUnflushed,
        Bug::WrongCount,
        Bug::ClearFirst,
        Bug::Endless,
        Bug::Panics,
    ];
    println!("{} faults", bugs.len());
    for bug in bugs {
        let failure = first_failure(bug, Model::X86, true);
        println!("{}\n", failure.unwrap_or_else(|| panic!("{bug:?} was not found")));
    }
}

#[test]
fn every_flush_fence_and_release_is_needed() {
    let case = toy(Bug::None);
    let mut tester = Tester::new(&case, Model::X86);
    tester.keep_corpus();
    tester.exhaustive(2).unwrap();
    known(10).try_for_each(|seed| tester.random(seed, 200)).unwrap();
    let mut verdicts = BTreeMap::new();
    add(&mut verdicts, tester.mutants(|_| true));
    let unproven = unproven(&verdicts, &[]);
    assert!(unproven.is_empty(), "{}", unproven.join("\n"));
    let caught = verdicts.values().filter(|verdict| matches!(verdict, Verdict::Caught(_))).count();
    println!("{caught} of {} mutants are caught", verdicts.len());
    assert!(caught > 15);
}
