//! A short run of each target: the same inputs every time.

use durahash_fuzz::{Fuzzer, OpenImage, OpsVsModel, Target};

fn short(target: &dyn Target, executions: u64) {
    let mut fuzzer = Fuzzer::new(target, 1);
    let mut count = 0;
    while count < executions {
        count += 1;
        if let Err(failure) = fuzzer.step() {
            panic!("execution {count}: {}", failure.message);
        }
    }
    let (kept, features) = fuzzer.reached();
    println!("{kept} inputs kept, {features} features");
    assert!(features > 50, "only {features} features reached");
}

#[test]
fn open_image() {
    short(&OpenImage, 5000);
}

#[test]
fn ops_vs_model() {
    short(&OpsVsModel, 1000);
}
