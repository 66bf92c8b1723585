//! The `durahash` command as its users meet it: real processes, real files.

#![forbid(unsafe_code)]

mod caches;
mod commands;
mod faults;
mod multimaps;
mod remote;
mod tables;
mod tool;

/// The longest test. Its name has no module, so that it is the first, and waits beside all others.
#[test]
fn a_client_or_a_node_that_does_not_answer_is_missed() {
    remote::those_that_do_not_answer_are_missed();
}
