//! Everything that is asked of the library from outside, in one program; `tests/kill.rs` apart, which
//! starts processes of itself.

mod any;
mod backup;
mod batch;
mod cache;
mod cells;
mod checks;
mod concurrent;
mod costs;
mod damage;
mod esh;
mod faults;
mod format;
mod images;
mod imports;
mod index;
mod layers;
mod live;
mod live_faults;
mod logged;
mod maps;
mod model;
mod multi;
mod pea;
mod ranges;
mod readers;
mod records;
mod reh;
mod rewo;
mod space;
mod update;
mod walks;

use std::collections::HashMap;

use durahash::Finding;
use durahash::index::{Change, Index, Room};
use durahash_media::hash::WordMix;

/// The `i`-th of distinct uniform hashes.
fn spread(i: u64) -> u64 {
    const MIX: WordMix = WordMix::new(42);
    MIX.mix(i)
}

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

/// All slots, unit by unit.
fn scanned(index: &dyn Index) -> Vec<(u64, u64)> {
    let (mut at, mut all) = (Some(0), Vec::new());
    while let Some(from) = at {
        at = index.scan(from, &mut all).unwrap();
    }
    all
}

/// The index is sound and has exactly this, however it is asked.
fn assert_holds(index: &dyn Index, model: &HashMap<u64, u64>) {
    assert_eq!(findings(index), []);
    assert_eq!(index.len().unwrap(), model.len() as u64);
    assert!(model.iter().all(|(h, v)| index.get(*h).unwrap() == Some(*v)));
    let all = scanned(index);
    let has_depths = !index.stats().depths.is_empty();
    assert!(!has_depths || all.is_sorted_by(|a, b| a.0 < b.0), "in the order of hashes");
    assert_eq!(all.len(), model.len(), "each once");
    assert_eq!(all.into_iter().collect::<HashMap<_, _>>(), *model);
}
