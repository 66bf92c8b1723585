//! Everything that is asked of the library from outside, in one program; `tests/kill.rs` apart, which
//! starts processes of itself.

mod any;
mod concurrent;
mod costs;
mod esh;
mod faults;
mod format;
mod images;
mod imports;
mod index;
mod layers;
mod logged;
mod model;
mod multi;
mod pea;
mod records;
mod rewo;
mod update;

use durahash::Finding;
use durahash::index::{Change, Index, Room};

/// Sets the payload of `h`, and returns the one before.
fn put(index: &dyn Index, h: u64, v: u64) -> Option<u64> {
    index.update(h, Room::ForNew, &mut |_| Ok(Change::Set(v))).unwrap()
}

fn remove(index: &dyn Index, h: u64) -> Option<u64> {
    index.update(h, Room::None, &mut |_| Ok(Change::Remove)).unwrap()
}

fn findings(index: &dyn Index) -> Vec<Finding> {
    let mut findings = Vec::new();
    index.check(&mut |finding| findings.push(finding)).unwrap();
    findings
}
