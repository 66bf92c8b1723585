//! Everything that is asked of the library from outside, in one program; `tests/kill.rs` apart, which
//! starts processes of itself.

mod any;
mod backup;
mod batch;
mod cache;
mod cache_beside;
mod cache_bounds;
mod cache_gone;
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
use durahash_media::Pool;
use durahash_media::hash::WordMix;
use durahash_media::sim::Sim;

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

/// Units that merged away make room for other uses while the pool is open, but for so many extents, whatever else is in
/// it. `others` use the pool while the index is empty.
fn assert_gives_back(
    pool: &Pool<Sim>,
    index: &dyn Index,
    hashes: &[u64],
    kept: u64,
    mut others: impl FnMut(),
) {
    let many = 30 * pool.extent_bytes();
    for round in 0..3 {
        hashes.iter().for_each(|h| assert_eq!(put(index, *h, round), None));
        let most = pool.stats().unit_bytes;
        assert!(most > many, "{most}");
        hashes.iter().for_each(|h| assert_eq!(remove(index, *h), Some(round)));
        let least = pool.stats().unit_bytes;
        assert!(least <= kept * pool.extent_bytes(), "{least} of {most} bytes");
        assert_holds(index, &HashMap::new());
        others();
    }
    // Another use finds nearly all that there is.
    pool.medium().set_limit(0);
    let free = pool.stats().free_bytes;
    assert!(free > many, "{free}");
    assert!(pool.alloc_block(free / 2, true).unwrap().is_some());
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
