//! What tests of faults share that a module plants itself, under the feature `planted`.

use std::fmt::Debug;

use durahash_crash::case::Case;
use durahash_crash::run::Tester;
use durahash_crash::states::Model;
use durahash_media::sim::seed;

/// Runs `f` in a thread with a fault, or without one.
pub(crate) fn with<F, T>(plant: fn(Option<F>), fault: Option<F>, f: impl FnOnce() -> T) -> T {
    plant(fault);
    let done = f();
    plant(None);
    done
}

/// Each of these faults is found, and nothing without one.
pub(crate) fn are_found<F: Copy + Debug>(faults: &[F], find: impl Fn(Option<F>) -> Option<String>) {
    println!("{} faults", faults.len());
    for fault in faults {
        let found = find(Some(*fault)).unwrap_or_else(|| panic!("{fault:?} is missed"));
        println!("{fault:?}: {found}\n");
    }
    assert_eq!(find(None), None);
}

/// What scripts alone find, with or without a crash: those of one operation, and so many random ones of `ops`. Of
/// many states about one in so many is looked at.
pub(crate) fn by_scripts(case: &Case, seeds: u64, ops: usize, one_in: u64) -> Option<String> {
    let mut tester = Tester::new(case, Model::X86).one_in(one_in);
    let mut run = || {
        tester.exhaustive(1)?;
        (seed(0)..seed(seeds)).try_for_each(|seed| tester.random(seed, ops))
    };
    run().err().map(|failure| failure.to_string())
}
