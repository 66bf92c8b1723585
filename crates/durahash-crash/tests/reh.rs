//! REH under the tester.

use durahash_crash::designs::RehSubject;
use durahash_crash::mutate::unproven;
use durahash_crash::run::Tester;
use durahash_crash::states::Model;

fn clean<const LINE: bool>(model: Model) {
    let mut tester = Tester::<_, LINE>::new(&RehSubject, model);
    let start = std::time::Instant::now();
    let done = tester.exhaustive(2).and_then(|()| {
        println!("{:?} {:?}", tester.counts(), start.elapsed());
        (0..5).try_for_each(|seed| tester.random(seed, 200))
    });
    println!("{:?} {:?}", tester.counts(), start.elapsed());
    if let Err(failure) = done {
        panic!("{failure}");
    }
}

#[test]
fn x86() {
    clean::<true>(Model::X86);
}

#[test]
fn word() {
    clean::<false>(Model::Word);
}

#[test]
fn program() {
    clean::<true>(Model::Program);
}

fn mutants<const LINE: bool>(model: Model) {
    let mut tester = Tester::<_, LINE>::new(&RehSubject, model);
    let start = std::time::Instant::now();
    tester.keep_corpus();
    tester.exhaustive(2).unwrap();
    (0..4)
        .try_for_each(|seed| tester.random(seed, 150))
        .unwrap();
    let verdicts = tester.mutants();
    for line in unproven(&verdicts, &[]) {
        println!("{line}");
    }
    println!("{:?} {:?}", tester.counts(), start.elapsed());
}

#[test]
fn mutants_x86() {
    mutants::<true>(Model::X86);
}

#[test]
fn mutants_word() {
    mutants::<false>(Model::Word);
}
