//! The tests of the crate.
//!
//! By default they take seconds; with `DURAHASH_DEEP=1` they run as many schedules and sizes as a release asks for.

mod common;
mod copies;
mod costs;
mod document;
mod fabric;
mod figures;
mod index;
mod miniature;
mod planted;
mod processes;
mod schedules;
mod shelf;
mod tcp;
mod verbs;

/// Returns whether this is the deep run.
fn deep() -> bool {
    durahash_media::sim::budget(false, true)
}

/// The value of the variable `name`; without it `few`, or `many` in the deep run.
fn budget(name: &str, few: u64, many: u64) -> u64 {
    let default = if deep() { many } else { few };
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}
