//! What each design promises to cost, counted and asserted: blocks read, flushes, fences, load
//! factor, space. All counts are deterministic.

use std::sync::Arc;

use durahash::reh::Reh;
use durahash::{Change, Index, Room};
use durahash_media::hash::WordMix;
use durahash_media::{Counts, Dram, Format, Geometry, Medium, Metered, Pool};

const MAX_BYTES: u64 = 8 << 30;

fn pool<M: Medium>(medium: M) -> Arc<Pool<M>> {
    let format = Format {
        design: 1,
        kind: 0,
        key_type: 0,
        value_type: 0,
        geometry: Geometry::default(),
        seed: 1,
        max_bytes: MAX_BYTES,
    };
    Arc::new(Pool::create(medium, &format).unwrap())
}

fn dram() -> Dram {
    Dram::new(MAX_BYTES).unwrap()
}

/// The `i`-th of distinct uniform hashes.
fn h(i: u64) -> u64 {
    const MIX: WordMix = WordMix::new(42);
    MIX.mix(i)
}

fn put(index: &dyn Index, i: u64) {
    index.update(h(i), Room::ForNew, &mut |_| Ok(Change::Set(i))).unwrap();
}

fn remove(index: &dyn Index, i: u64) {
    let found = index.update(h(i), Room::None, &mut |_| Ok(Change::Remove)).unwrap();
    assert_eq!(found, Some(i));
}

/// The sum of the counts of the operations `ops` and how many they are, without those during which
/// a unit split or merged.
fn steady<M: Medium>(
    index: &dyn Index,
    pool: &Pool<Metered<M>>,
    ops: impl Iterator<Item = u64>,
    mut op: impl FnMut(u64),
) -> (Counts, u64) {
    let (mut total, mut count) = (Counts::default(), 0);
    for i in ops {
        let (stats, before) = (index.stats(), pool.medium().counts());
        op(i);
        let counts = pool.medium().counts() - before;
        let after = index.stats();
        if (stats.splits, stats.merges) == (after.splits, after.merges) {
            total = total + counts;
            count += 1;
        }
    }
    (total, count)
}

#[test]
fn reh_meets_its_costs() {
    const LOADED: u64 = 300_000;
    let pool = pool(Metered::new(dram()));
    let reh = Reh::create(Arc::clone(&pool)).unwrap();
    (0..LOADED).for_each(|i| put(&reh, i));

    let (hits, n) = steady(&reh, &pool, 0..20_000, |i| {
        assert_eq!(reh.get(h(i)).unwrap(), Some(i));
    });
    let read = hits.blocks_read as f64 / n as f64;
    assert!((1.0..=1.06).contains(&read), "{read} blocks read by a hit");
    assert_eq!((hits.flushes, hits.fences, hits.drains, hits.lines_written), (0, 0, 0, 0));

    let (misses, n) = steady(&reh, &pool, LOADED..LOADED + 20_000, |i| {
        assert_eq!(reh.get(h(i)).unwrap(), None);
    });
    let read = misses.blocks_read as f64 / n as f64;
    assert!(read <= 0.06, "{read} blocks read by a miss");

    let one_persist = |(counts, n): (Counts, u64), what: &str| {
        assert!(n > 15_000);
        assert_eq!(counts.flushes, n, "flushes of {what}");
        assert_eq!(counts.fences + counts.drains, n, "fences of {what}");
        assert_eq!(counts.blocks_written, n, "blocks written by {what}");
    };
    let fresh = LOADED..LOADED + 20_000;
    one_persist(steady(&reh, &pool, fresh, |i| put(&reh, i)), "inserts");
    one_persist(steady(&reh, &pool, 0..20_000, |i| put(&reh, i)), "updates");
    one_persist(steady(&reh, &pool, 0..20_000, |i| remove(&reh, i)), "removes");
}

/// A split writes the new bucket, four lines, and the old one's link; two fences.
#[test]
fn reh_splits_with_two_fences() {
    let pool = pool(Metered::new(dram()));
    let reh = Reh::create(Arc::clone(&pool)).unwrap();
    (0..1000).for_each(|i| put(&reh, i));
    let (stats, before) = (reh.stats(), pool.medium().counts());
    let unit_bytes = pool.stats().unit_bytes;
    (1000..1800).for_each(|i| put(&reh, i));
    assert_eq!(pool.stats().unit_bytes, unit_bytes, "no extent was taken in between");
    let counts = pool.medium().counts() - before;
    let splits = reh.stats().splits - stats.splits;
    assert!(splits > 40);
    assert_eq!(counts.flushes, 800 + 5 * splits);
    assert_eq!(counts.fences + counts.drains, 800 + 2 * splits);
}

#[test]
fn reh_keeps_its_load_factor_at_every_million() {
    const MILLION: u64 = 1_000_000;
    let reh = Reh::create(pool(dram())).unwrap();
    for millions in 1..=10 {
        ((millions - 1) * MILLION..millions * MILLION).for_each(|i| put(&reh, i));
        let stats = reh.stats();
        let load_factor = stats.slots_used as f64 / stats.slots as f64;
        assert!(
            (0.673..=0.714).contains(&load_factor),
            "{load_factor} after {millions} million: the curve runs from 0.683 to 0.704"
        );
    }
}

#[test]
fn reh_gives_space_back() {
    const LOADED: u64 = 1_000_000;
    let reh = Reh::create(pool(dram())).unwrap();
    (0..LOADED).for_each(|i| put(&reh, i));
    let survives = |i: &u64| i.is_multiple_of(10);
    (0..LOADED).filter(|i| !survives(i)).for_each(|i| remove(&reh, i));

    let fresh = Reh::create(pool(dram())).unwrap();
    (0..LOADED).filter(survives).for_each(|i| put(&fresh, i));
    let ratio = reh.stats().medium_bytes as f64 / fresh.stats().medium_bytes as f64;
    assert_eq!(reh.len().unwrap(), LOADED / 10);
    assert!(ratio <= 1.6, "{ratio} times a fresh load");
}

/// Doubling and halving in turn reuse what they have.
#[test]
fn reh_memory_does_not_creep() {
    let pool = pool(dram());
    let reh = Reh::create(Arc::clone(&pool)).unwrap();
    let mut sizes = Vec::new();
    for _ in 0..4 {
        (0..50_000).for_each(|i| put(&reh, i));
        sizes.push((reh.stats().dram_bytes, reh.stats().medium_bytes, pool.stats().unit_bytes));
        (0..50_000).for_each(|i| remove(&reh, i));
    }
    assert!(reh.stats().halvings > 30);
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
}
