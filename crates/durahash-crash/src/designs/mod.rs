//! The designs under test, each in geometry so tiny that a handful of keys reaches every path.

mod esh;
mod map;
mod multi;
mod pea;
mod planted;
mod pool;
mod reh;
mod rewo;
mod synced;

pub use esh::{EshFullSubject, EshRepairedSubject, EshSubject, EshWithin};
pub use map::{
    EshMapSubject, MapSubject, PeaMapSubject, RehMapSubject, RewoMapSubject, RewoSmallMapSubject,
};
pub use multi::{PeaMultiFullSubject, PeaMultiMapSubject, PeaMultiSubject, PeaMultiWithin};
pub use pea::{PeaFullSubject, PeaSubject, PeaWithin};
pub use planted::{FOLLOWS, Fault, RewoPlanted, SYNCED, lost};
pub use reh::{RehFullSubject, RehSubject, RehWithin};
pub use rewo::{RewoCachedSubject, RewoFullSubject, RewoSubject, RewoWithin};
pub use synced::{RewoBetweenSubject, RewoSynced, RewoSyncedSubject, SyncCopies};

/// A value of bytes: the word in decimal; every third is longer than a line.
fn text(v: u64) -> String {
    let width = if v.is_multiple_of(3) { 70 } else { 1 };
    format!("{v:0width$}")
}

/// The word that a key or a value of bytes stands for.
fn word(text: &str) -> u64 {
    // What is no number was never put, and is no key of the key space either.
    text.parse().unwrap_or(u64::MAX)
}
