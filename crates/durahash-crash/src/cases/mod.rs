//! The designs under test, each in geometry so tiny that a handful of keys reaches every path.

mod batch;
mod cache;
mod map;
mod maps;
mod multi;
mod synced;
mod words;

pub use synced::{SyncCopies, open_with};
pub use words::rewo_with;

use crate::case::Case;

/// A medium that does not fill up.
const ROOMY: u64 = 64 << 10;

/// Every case.
#[must_use]
pub fn all() -> Vec<Case> {
    let words = [
        words::reh("reh", ROOMY),
        words::reh("reh-full", 3 << 10),
        words::reh_ranges("reh-ranges", ROOMY),
        words::reh_ranges("reh-ranges-full", 7 << 10),
        words::pea("pea", ROOMY),
        words::pea("pea-full", 8 << 10),
        words::pea_small("pea-small", ROOMY),
        // Room for four larger segments, but not for the array that names two of them beside what is there.
        words::pea_small("pea-small-full", 8 << 10),
        words::esh("esh", ROOMY, false),
        words::esh("esh-repaired", ROOMY, true),
        words::esh("esh-full", 8 << 10, false),
        // A cached table has no part in what survives, but for the last.
        words::rewo("rewo", ROOMY, 0),
        words::rewo("rewo-full", 5 << 10, 0),
        words::rewo("rewo-cached", ROOMY, 256),
        synced::by_steps(),
        synced::between(),
    ];
    let (maps, caches) = (map::all().to_vec(), cache::all().to_vec());
    let rest = [maps, caches, multi::all().to_vec(), batch::all().to_vec(), vec![maps::several()]];
    words.into_iter().chain(rest.concat()).collect()
}

/// The case of this name.
#[must_use]
pub fn find(name: &str) -> Option<Case> {
    all().into_iter().find(|case| case.name == name)
}

/// The same, which is there.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn named(name: &str) -> Case {
    find(name).unwrap_or_else(|| panic!("no case {name}"))
}

/// A value of bytes: the word in decimal; every third is longer than a line.
fn text(v: u64) -> String {
    let width = if v.is_multiple_of(3) { 70 } else { 1 };
    format!("{v:0width$}")
}

/// The word that a key or a value of bytes stands for.
fn word(text: &str) -> u64 {
    // Text that is not a number was never put, and is no key of the key space either.
    text.parse().unwrap_or(u64::MAX)
}
