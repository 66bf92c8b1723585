//! The costs that each design promises, counted and asserted: blocks read, flushes, fences, load
//! factor, space. All counts are deterministic.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use durahash::cache::Clock;
use durahash::esh::Esh;
use durahash::index::{Index, IndexBase};
use durahash::pea::{Pea, Policy, Strategy};
use durahash::rewo::{Cache, Rewo};
use durahash::{Design, Map, MultiMap, Options, SyncMode};
use durahash_media::metered::{Counts, Metered};
use durahash_media::{Dram, Geometry, Medium, Place, Pool};
use durahash_testkit::{budget, index_on, new_path, pool_on};

use super::spread as h;

const MAX_BYTES: u64 = 8 << 30;
/// Operations of each kind whose costs are counted.
const OPS: u64 = 400;

fn pool<M: Medium>(medium: M) -> std::sync::Arc<Pool<M>> {
    pool_on(medium, Geometry::default())
}

/// The sizes of a new pool of this design.
fn geometry(design: Design) -> Geometry {
    match design {
        Design::Pea => Geometry { extent_shift: 16, buckets: 8, ..Geometry::default() },
        _ => Geometry::default(),
    }
}

fn pea_pool<M: Medium>(medium: M) -> std::sync::Arc<Pool<M>> {
    pool_on(medium, geometry(Design::Pea))
}

fn dram() -> Dram {
    Dram::new(MAX_BYTES).unwrap()
}

fn put(index: &dyn Index, i: u64) {
    super::put(index, h(i), i);
}

fn remove(index: &dyn Index, i: u64) {
    assert_eq!(super::remove(index, h(i)), Some(i));
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

/// Blocks read by a hit and by a miss among `loaded` keys.
fn lookups(index: &dyn Index, pool: &Pool<Metered<Dram>>, loaded: u64) -> [f64; 2] {
    let (hits, n) = steady(index, pool, (0..OPS).map(|i| i * loaded / OPS), |i| {
        assert_eq!(index.get(h(i)).unwrap(), Some(i));
    });
    assert_eq!((hits.flushes, hits.fences, hits.drains, hits.lines_written), (0, 0, 0, 0));
    let (misses, of) = steady(index, pool, 0..OPS, |i| {
        assert_eq!(index.get(h(i + (1 << 40))).unwrap(), None);
    });
    [hits.blocks_read as f64 / n as f64, misses.blocks_read as f64 / of as f64]
}

/// Flushes and fences of each.
fn persists((counts, n): (Counts, u64)) -> [f64; 2] {
    [counts.flushes, counts.fences + counts.drains].map(|count| count as f64 / n as f64)
}

/// After a tenth of the keys is left, an index takes so many times what that tenth takes by itself.
#[test]
fn every_design_gives_space_back() {
    let rewo = || -> Box<dyn Index> { Box::new(rewo_of(dram(), Some(0)).1) };
    let of = |design| move || index_on(design, pool_on(dram(), geometry(design)));
    gives_space_back(&of(Design::Reh), 1.6);
    gives_space_back(&of(Design::Pea), 2.1);
    gives_space_back(&of(Design::Esh), 1.6);
    gives_space_back(&rewo, 2.1);
}

fn gives_space_back(new: &dyn Fn() -> Box<dyn Index>, most: f64) {
    let loaded = budget(200_000, 1_000_000);
    let (index, fresh) = (new(), new());
    (0..loaded).for_each(|i| put(&*index, i));
    let survives = |i: &u64| i.is_multiple_of(10);
    (0..loaded).filter(|i| !survives(i)).for_each(|i| remove(&*index, i));
    (0..loaded).filter(survives).for_each(|i| put(&*fresh, i));
    while index.step().unwrap() || fresh.step().unwrap() {}
    let ratio = index.stats().medium_bytes as f64 / fresh.stats().medium_bytes as f64;
    assert_eq!(index.len().unwrap(), loaded / 10);
    println!("{ratio} times a fresh load");
    assert!(ratio <= most, "{ratio} times a fresh load, at most {most}");
}

/// Behind a log of `Strict` a drain waits for the disk. A change waits once, for itself, whatever grows or shrinks
/// by it: no thread waits for another's directory or table.
#[test]
fn growth_waits_for_no_disk() {
    for design in Design::ALL.iter().copied() {
        let buckets = if design == Design::Pea { 2 } else { 0 };
        let geometry = Geometry { extent_shift: 10, buckets, ..Geometry::default() };
        let pool = pool_on(Metered::new(Dram::new(16 << 20).unwrap()), geometry);
        let index = index_on(design, pool.clone());
        let drains_once = |change: &dyn Fn()| {
            let before = pool.medium().counts();
            change();
            assert_eq!((pool.medium().counts() - before).drains, 1, "{design}");
        };
        (0..10_000).for_each(|i| drains_once(&|| put(&*index, i)));
        (0..10_000).for_each(|i| drains_once(&|| remove(&*index, i)));
        let stats = index.stats();
        // Rewo-Hash has tables, each a split, in place of a directory.
        let [grown, shrunk] = match design {
            Design::Rewo => [stats.splits, stats.merges],
            _ => [stats.doublings, stats.halvings],
        };
        assert!(grown > 4 && shrunk > 4, "{stats:?}");
    }
}

#[test]
fn reh_meets_its_costs() {
    let loaded = budget(75_000, 300_000);
    let pool = pool(Metered::new(dram()));
    let reh = index_on(Design::Reh, pool.clone());
    (0..loaded).for_each(|i| put(&*reh, i));

    let (hits, n) = steady(&*reh, &pool, 0..20_000, |i| {
        assert_eq!(reh.get(h(i)).unwrap(), Some(i));
    });
    let read = hits.blocks_read as f64 / n as f64;
    assert!((1.0..=1.06).contains(&read), "{read} blocks read by a hit");
    assert_eq!((hits.flushes, hits.fences, hits.drains, hits.lines_written), (0, 0, 0, 0));

    let (misses, n) = steady(&*reh, &pool, loaded..loaded + 20_000, |i| {
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
    let fresh = loaded..loaded + 20_000;
    one_persist(steady(&*reh, &pool, fresh, |i| put(&*reh, i)), "inserts");
    one_persist(steady(&*reh, &pool, 0..20_000, |i| put(&*reh, i)), "updates");
    one_persist(steady(&*reh, &pool, 0..20_000, |i| remove(&*reh, i)), "removes");
}

/// A split writes the new bucket, four lines, and the old one's link; two fences.
#[test]
fn reh_splits_with_two_fences() {
    let pool = pool(Metered::new(dram()));
    let reh = index_on(Design::Reh, pool.clone());
    (0..1000).for_each(|i| put(&*reh, i));
    let (stats, before) = (reh.stats(), pool.medium().counts());
    let unit_bytes = pool.stats().unit_bytes;
    (1000..1800).for_each(|i| put(&*reh, i));
    assert_eq!(pool.stats().unit_bytes, unit_bytes, "no extent was taken in between");
    let counts = pool.medium().counts() - before;
    let splits = reh.stats().splits - stats.splits;
    assert!(splits > 40);
    assert_eq!(counts.flushes, 800 + 5 * splits);
    assert_eq!(counts.fences + counts.drains, 800 + 2 * splits);
}

/// The array of words costs a flush where a bucket is as shallow as the array, which are few, and no fence.
#[test]
fn reh_keeps_its_words_for_nothing() {
    // Sixteen buckets an extent: there is an array from 256 buckets on, and the next one comes with 1024.
    let geometry = Geometry { extent_shift: 12, ..Geometry::default() };
    let pool = pool_on(Metered::new(dram()), geometry);
    let reh = index_on(Design::Reh, pool.clone());
    let place: Place<Metered<Dram>> = pool.clone().into();
    (0..6000).for_each(|i| put(&*reh, i));
    let array = place.directory_extents();
    assert_eq!(array.len(), 1);
    let counted = |changes: &dyn Fn()| {
        let (stats, before) = (reh.stats(), pool.medium().counts());
        let units = pool.stats().unit_bytes;
        changes();
        let (after, counts) = (reh.stats(), pool.medium().counts() - before);
        let extents = units.abs_diff(pool.stats().unit_bytes) / pool.extent_bytes();
        let merged = after.merges - stats.merges;
        (counts, after.splits - stats.splits, merged, extents)
    };
    // Extents are taken and given back, the pool and the directory grow now and then.
    const OTHERS: u64 = 16;
    let (counts, splits, _, extents) = counted(&|| (6000..9000).for_each(|i| put(&*reh, i)));
    let most = [3000 + 5 * splits + extents + OTHERS, 3000 + 2 * splits + extents + OTHERS];
    let found = [counts.flushes, counts.fences + counts.drains];
    println!("{splits} splits: {found:?} flushes and fences, at most {most:?}");
    assert!(splits > 200 && found[0] <= most[0] && found[1] <= most[1]);
    let (counts, _, merges, extents) = counted(&|| (6000..9000).for_each(|i| remove(&*reh, i)));
    let (fences, most) = (counts.fences + counts.drains, 3000 + 2 * merges + 2 * extents + OTHERS);
    println!("{merges} merges: {fences} fences, at most {most}");
    assert!(merges > 50 && fences <= most);
    assert_eq!(place.directory_extents(), array, "no other array was written meanwhile");
}

#[test]
fn reh_keeps_its_load_factor_as_it_grows() {
    let part = budget(100_000, 1_000_000);
    let reh = index_on(Design::Reh, pool(dram()));
    for parts in 1..=10 {
        ((parts - 1) * part..parts * part).for_each(|i| put(&*reh, i));
        let stats = reh.stats();
        let load_factor = stats.slots_used as f64 / stats.slots as f64;
        assert!(
            (0.673..=0.714).contains(&load_factor),
            "{load_factor} after {parts} times {part} keys: the curve runs from 0.683 to 0.704"
        );
    }
}

/// Doubling and halving in turn reuse what they have.
#[test]
fn reh_memory_does_not_creep() {
    let pool = pool(dram());
    let reh = index_on(Design::Reh, pool.clone());
    let mut sizes = Vec::new();
    for _ in 0..4 {
        (0..50_000).for_each(|i| put(&*reh, i));
        sizes.push((reh.stats().dram_bytes, reh.stats().medium_bytes, pool.stats().unit_bytes));
        (0..50_000).for_each(|i| remove(&*reh, i));
    }
    assert!(reh.stats().halvings > 30);
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
}

/// Of Pea Hash with `loaded` keys: blocks read by a hit and by a miss, flushes and fences of an insert.
fn pea_costs(pea: &dyn Index, pool: &Pool<Metered<Dram>>, loaded: u64) -> [f64; 4] {
    let [hit, miss] = lookups(pea, pool, loaded);
    let updates = persists(steady(pea, pool, 0..OPS, |i| put(pea, i)));
    let [flushes, fences] = persists(steady(pea, pool, loaded..loaded + OPS, |i| put(pea, i)));
    let removes = persists(steady(pea, pool, loaded..loaded + OPS, |i| remove(pea, i)));
    assert_eq!([updates, removes], [[1.0; 2]; 2]);
    [hit, miss, flushes, fences]
}

#[test]
fn pea_meets_its_costs() {
    let pool = pea_pool(Metered::new(dram()));
    let pea = index_on(Design::Pea, pool.clone());
    // Two large segments, which then go from one strategy to the next.
    pea.reserve(20_000).unwrap();
    let mut keys = 0..;
    let mut costs_in = |strategies: [u64; 3], more: u64| {
        while pea.stats().pea.unwrap().strategies != strategies {
            put(&*pea, keys.next().unwrap());
        }
        (&mut keys).take(more as usize).for_each(|i| put(&*pea, i));
        assert_eq!(pea.stats().pea.unwrap().strategies, strategies);
        let costs = pea_costs(&*pea, &pool, keys.start);
        println!("{strategies:?} with {} keys: {costs:?}", keys.start);
        assert!(costs[2] <= 1.4 && costs[3] <= 1.4);
        costs
    };
    let single = costs_in([2, 0, 0], 10_000);
    assert!(single[0] <= 1.0 && single[1] <= 1.0);
    let two = costs_in([0, 2, 0], 5_000);
    assert!(two[0] <= 1.2 && two[1] <= 2.0);
    let stash = costs_in([0, 0, 2], 0);
    assert!(stash[0] <= 2.2 && stash[1] <= 4.0);
    // From here to the next split, and all of the next doubling.
    let more = keys.start..keys.start + 60_000;
    let [flushes, fences] = persists(steady(&*pea, &pool, more, |i| put(&*pea, i)));
    println!("{flushes} flushes and {fences} fences of an insert");
    assert!(flushes <= 1.4 && fences <= 1.4);
}

/// Means over a doubling, during which segments fill and split: few lookups leave the first bucket.
#[test]
fn pea_reads_one_bucket_for_most_misses() {
    const FROM: u64 = 150_000;
    const POINTS: u32 = 24;
    let pool = pea_pool(Metered::new(dram()));
    let pea = index_on(Design::Pea, pool.clone());
    let mut keys = 0;
    let mut means = [0.0; 4];
    for point in 0..POINTS {
        let until = (FROM as f64 * (f64::from(point) / f64::from(POINTS)).exp2()) as u64;
        (keys..until).for_each(|i| put(&*pea, i));
        keys = keys.max(until);
        let costs = pea_costs(&*pea, &pool, keys);
        println!("{keys} keys, load {:.3}: {costs:.3?}", load_factor(&*pea));
        means.iter_mut().zip(costs).for_each(|(sum, one)| *sum += one / f64::from(POINTS));
    }
    println!("means: {means:.3?}");
    let [hit, miss, flushes, fences] = means;
    assert!((1.0..=1.06).contains(&hit), "{hit} blocks read by a hit");
    assert!((1.0..=1.35).contains(&miss), "{miss} blocks read by a miss");
    assert!(flushes <= 1.4 && fences <= 1.4, "{flushes} flushes, {fences} fences of an insert");
}

/// The first entry of a bucket that goes elsewhere costs a flush and a fence more, the others nothing; nor does
/// the first one if the bucket is full. Second buckets are empty: a bucket of fifteen slots takes one entry fewer.
#[test]
fn pea_opens_a_bucket_once() {
    for (slots, first_until, takes) in [(15, 14, 13), (4, 3, 3), (4, 4, 4)] {
        let pool = pool_on(Metered::new(dram()), Geometry { slots, ..Geometry::default() });
        let mut policy = Policy::default();
        (policy.first, policy.first_until) = (Strategy::TwoChoice, first_until);
        let pea = Pea::create(pool.clone(), policy).unwrap();
        // All of bucket 0.
        let mut next = (1..).map(|i: u64| i << 40);
        let mut insert = || {
            let before = pool.medium().counts();
            assert_eq!(super::put(&pea, next.next().unwrap(), 7), None);
            let counts = pool.medium().counts() - before;
            [counts.flushes, counts.fences + counts.drains]
        };
        for _ in 0..takes {
            assert!(insert().iter().all(|count| (1..=2).contains(count)));
        }
        let opening = if takes < slots { [2, 2] } else { [1, 1] };
        assert_eq!([insert(), insert(), insert()], [opening, [1, 1], [1, 1]]);
    }
}

/// Entry moving saves persists (§3.4).
#[test]
fn pea_moves_entries_to_save_persists() {
    let persists = |moving| {
        let pool = pea_pool(Metered::new(dram()));
        let mut policy = Policy::default();
        policy.moving = moving;
        let pea = Pea::create(pool.clone(), policy).unwrap();
        let before = pool.medium().counts();
        (0..100_000).for_each(|i| put(&pea, i));
        let counts = pool.medium().counts() - before;
        (counts.fences + counts.drains) as f64 / 100_000.0
    };
    let (with, without) = (persists(true), persists(false));
    println!("{with} persists an insert with moving, {without} without");
    assert!(with <= 1.35 && without >= 1.6, "{with} {without}");
}

/// Load factor at the splits, average utility and bytes an entry over the growth.
#[test]
fn pea_uses_its_space() {
    let pea = index_on(Design::Pea, pea_pool(dram()));
    let (mut entries, mut space) = (0_u128, 0_u128);
    let (mut peak, mut most) = (0.0_f64, 0.0_f64);
    let from = budget(250_000, 1_000_000);
    for i in 0..4 * from {
        put(&*pea, i);
        if i.is_multiple_of(1000) && i >= from {
            let stats = pea.stats();
            entries += u128::from(stats.slots_used) * 16;
            space += u128::from(stats.medium_bytes);
            peak = peak.max(stats.slots_used as f64 / stats.slots as f64);
            most = most.max(stats.medium_bytes as f64 / stats.slots_used as f64);
        }
    }
    let utility = entries as f64 / space as f64;
    println!("peak {peak}, utility {utility}, at most {most} bytes an entry");
    assert!(peak >= 0.91 && utility >= 0.58 && most <= 38.0);
}

/// Sparse buddies whose entries of a hash find no room in one bucket of one segment are not merged,
/// and the removals that follow do not each try again: a try reads thousands of lines.
#[test]
fn pea_tries_no_merge_in_vain_at_every_removal() {
    const ENTRIES: u64 = 100_000;
    let medium = Metered::new(dram());
    let meter = std::sync::Arc::clone(medium.meter());
    let map: MultiMap<u64, u64> = Options::new().seed(42).create_on(medium).unwrap();
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    for i in 0..ENTRIES {
        let key = h(i) % ENTRIES;
        map.add(&key, &i).unwrap();
        *counts.entry(key).or_default() += 1;
    }
    let before = meter.counts();
    for (key, count) in &counts {
        assert_eq!(map.remove_all(key).unwrap(), *count);
    }
    let lines = (meter.counts() - before).lines_read as f64 / counts.len() as f64;
    println!("{lines:.1} lines read for each key removed");
    assert!(lines < 20.0, "{lines}");
    let stats = map.stats().unwrap().index;
    assert!(stats.merges > 0 && stats.merges == stats.splits);
}

/// An ESH with so many buckets a segment.
fn esh_of<M: Medium>(medium: M, buckets: u8) -> (std::sync::Arc<Pool<M>>, Esh<M>) {
    let pool = pool_on(medium, Geometry { buckets, ..Geometry::default() });
    (pool.clone(), Esh::create(pool).unwrap())
}

/// Means over a doubling, during which segments fill and split: blocks read by lookups, and persists.
#[test]
fn esh_meets_its_costs() {
    const FROM: u64 = 100_000;
    const POINTS: u32 = 24;
    let (pool, esh) = esh_of(Metered::new(dram()), 4);
    let mut keys = 0;
    let mut sums = [0.0; 6];
    let mut read = Counts::default();
    for point in 0..POINTS {
        let until = (FROM as f64 * (f64::from(point) / f64::from(POINTS)).exp2()) as u64;
        (keys..until).for_each(|i| put(&esh, i));
        keys = keys.max(until);
        let [hit, miss] = lookups(&esh, &pool, keys);
        let updates = persists(steady(&esh, &pool, 0..OPS, |i| put(&esh, i)));
        assert_eq!(updates, [1.0; 2]);
        let insert = persists(steady(&esh, &pool, keys..keys + OPS, |i| put(&esh, i)));
        keys += OPS;
        // Any keys, not those that were inserted last.
        let some = (0..OPS).map(|i| i * keys / OPS + u64::from(point));
        let removes = steady(&esh, &pool, some.clone(), |i| remove(&esh, i));
        read = read + removes.0;
        let remove = persists(removes);
        some.for_each(|i| put(&esh, i));
        let all = [hit, miss, insert[0], insert[1], remove[0], remove[1]];
        println!("{keys} keys, load {:.3}: {all:.3?}", load_factor(&esh));
        sums.iter_mut().zip(all).for_each(|(sum, one)| *sum += one / f64::from(POINTS));
    }
    let [hit, miss, flushes, fences, remove_flushes, remove_fences] = sums;
    println!("means: {sums:.3?}");
    assert!((1.0..=1.1).contains(&hit), "{hit} blocks read by a hit");
    assert!(miss <= 1.3, "{miss} blocks read by a miss");
    assert!(flushes <= 2.2 && fences <= 2.2, "{flushes} flushes, {fences} fences of an insert");
    let [flushes, fences] = [remove_flushes, remove_fences];
    assert!(flushes <= 1.45 && fences <= 1.45, "{flushes} flushes, {fences} fences of a remove");
    let read = read.blocks_read as f64 / f64::from(POINTS * OPS as u32);
    println!("{read} blocks read by a remove during growth");
    assert!(read <= 1.3, "{read} blocks read by a remove during growth");

    // All of them, and all merges.
    let before = pool.medium().counts();
    (0..keys).for_each(|i| remove(&esh, i));
    let shrunk = pool.medium().counts() - before;
    let read = shrunk.blocks_read as f64 / keys as f64;
    println!("{read} blocks read by a remove while all go");
    assert!(read <= 1.3, "{read} blocks read by a remove while all go");
}

fn load_factor(index: &dyn Index) -> f64 {
    let stats = index.stats();
    stats.slots_used as f64 / stats.slots as f64
}

fn least_mean_most(of: &[f64]) -> [f64; 3] {
    let (least, most) =
        (of.iter().copied().fold(f64::MAX, f64::min), of.iter().copied().fold(0.0, f64::max));
    [least, of.iter().sum::<f64>() / of.len() as f64, most]
}

/// Load factor over two doublings (Fig. 10): its lowest, its mean and its highest are arithmetic.
fn esh_curve(buckets: u8, from: u64) -> [f64; 3] {
    let (_, esh) = esh_of(dram(), buckets);
    let (mut loads, mut next) = (Vec::new(), from);
    for i in 0..from * 4 {
        put(&esh, i);
        if i + 1 == next {
            loads.push(load_factor(&esh));
            next += next / 100;
        }
    }
    let curve = least_mean_most(&loads);
    println!("{buckets} buckets: {curve:.3?}");
    curve
}

#[test]
fn esh_fills_its_segments() {
    let near = |found: f64, wanted: f64| (found - wanted).abs() <= 0.01;
    let [least, mean, most] = esh_curve(4, budget(100_000, 400_000));
    assert!(near(least, 0.626) && near(mean, 0.697) && near(most, 0.775));
    let [least, _, most] = esh_curve(64, budget(250_000, 2_000_000));
    assert!(near(least, 0.541) && near(most, 0.917));
}

/// Buckets that a lookup looks at, at each load factor that a segment size comes by over a doubling: the
/// load factor, those of a hit and of a miss.
fn esh_probes(buckets: u8, from: u64) -> Vec<[f64; 3]> {
    const POINTS: u32 = 12;
    const LOOKUPS: u64 = 5000;
    let (pool, esh) = esh_of(Metered::new(dram()), buckets);
    let mut keys = 0;
    let point = |point| {
        let until = (from as f64 * (f64::from(point) / f64::from(POINTS)).exp2()) as u64;
        (keys..until).for_each(|i| put(&esh, i));
        keys = until;
        let blocks = |first: u64, step: u64| {
            let before = pool.medium().counts();
            for i in 0..LOOKUPS {
                assert_eq!(esh.get(h(first + i * step)).unwrap().is_some(), first == 0);
            }
            (pool.medium().counts() - before).blocks_read as f64 / LOOKUPS as f64
        };
        [load_factor(&esh), blocks(0, keys / LOOKUPS), blocks(1 << 40, 1)]
    };
    (0..POINTS).map(point).collect()
}

#[test]
fn esh_looks_at_few_buckets_at_each_load() {
    // At most, and where the load factor is highest: load factor, hit, miss. It is worse after that: most
    // segments have split, and the few that have not are full.
    for (buckets, from, most, fullest) in [
        (4, 100_000, [0.786, 1.08, 1.45], [0.776, 1.04, 1.36]),
        (64, budget(250_000, 1_000_000), [0.927, 1.55, 4.8], [0.909, 1.29, 2.83]),
    ] {
        let mut probes = esh_probes(buckets, from);
        for [load, hit, miss] in &probes {
            println!("{buckets} buckets, load {load:.3}: {hit:.3} of a hit, {miss:.3} of a miss");
        }
        assert!(
            probes.iter().flatten().zip(most.iter().cycle()).all(|(found, most)| found <= most)
        );
        probes.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let [load, hit, miss] = probes[probes.len() - 1];
        let near = |found: f64, wanted: f64, by: f64| (found - wanted).abs() <= by;
        assert!(near(load, fullest[0], 0.01));
        assert!(near(hit, fullest[1], 0.02) && near(miss, fullest[2], 0.05));
    }
}

/// Bytes of the medium for an entry of sixteen over a doubling, the least, the mean and the most: what
/// the load factors make of a bucket's share in each slot.
fn bytes_per_entry(design: Design) -> [f64; 3] {
    const FROM: u64 = 400_000;
    let index = index_on(design, pool_on(dram(), geometry(design)));
    let mut bytes = Vec::new();
    for i in 0..FROM * 2 {
        put(&*index, i);
        if i >= FROM && i.is_multiple_of(FROM / 100) {
            let stats = index.stats();
            bytes.push(stats.medium_bytes as f64 / stats.slots_used as f64);
        }
    }
    least_mean_most(&bytes)
}

#[test]
fn bytes_of_an_entry_side_by_side() {
    let [reh, pea, esh] = [Design::Reh, Design::Pea, Design::Esh].map(bytes_per_entry);
    println!("bytes an entry, least, mean, most: reh {reh:.2?}, pea {pea:.2?}, esh {esh:.2?}");
    let near = |found: [f64; 3], wanted: [f64; 3]| {
        found.iter().zip(wanted).all(|(found, wanted)| (found - wanted).abs() <= 0.5)
    };
    // Of the latter, the directory is a part.
    assert!(near(reh, [24.2, 24.6, 25.1]), "256 bytes for 15 slots at 0.683 to 0.704");
    assert!(near(esh, [24.3, 27.1, 30.2]), "1024 bytes for 56 slots at 0.626 to 0.775");
    assert!(near(pea, [18.9, 26.4, 36.0]), "0.45 to 0.90");
}

/// Bytes of the pool for each of so many values of `bytes` and a digest as their keys, without the index: as they were
/// put, and when each was replaced once, in another order.
fn bytes_per_value(design: Design, bytes: usize, count: u64) -> [f64; 2] {
    let map = Options::new().design(design).in_memory::<Map<[u8], [u8]>>().unwrap();
    let put = |i: u64| {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&h(i).to_le_bytes());
        map.put(&key, &vec![7; bytes]).unwrap();
    };
    let now = || {
        let space = map.stats().unwrap().space;
        let index = space.head_bytes + space.unit_bytes + space.directory_bytes;
        (space.bytes - index - space.check_bytes - space.free_bytes) as f64 / count as f64
    };
    (0..count).for_each(put);
    let fresh = now();
    (0..count).for_each(|i| put(i * 7 % count));
    [fresh, now()]
}

/// A round value with its header and key takes little more than itself, if there are some of them.
#[test]
fn values_of_round_sizes_take_little_more_than_themselves() {
    let most = [
        (Design::Reh, 1, 1.29),
        (Design::Pea, 1, 1.29),
        (Design::Reh, 4, 1.09),
        (Design::Reh, 16, 1.07),
        (Design::Reh, 32, 1.11),
        (Design::Reh, 48, 1.06),
        (Design::Reh, 64, 1.08),
        (Design::Reh, 100, 1.08),
        (Design::Reh, 256, 1.06),
        (Design::Pea, 64, 1.08),
    ];
    for (design, kib, most) in most {
        let bytes = kib << 10;
        let times = bytes_per_value(design, bytes, 500).map(|taken| taken / bytes as f64);
        let few = bytes_per_value(design, bytes, 10)[0] / bytes as f64;
        println!("{design}, {kib} KiB: {times:.3?}, of ten {few:.3}");
        assert!(times.iter().all(|times| *times <= most), "{design}, {kib} KiB: {times:?}");
        // An extent has 64 KiB.
        assert!(kib < 4 || few <= 2.0, "{design}, {kib} KiB: {few} of ten");
    }
}

/// The files of values of which each was overwritten once, beside the log: in times their bytes, while they are open, and
/// closed. A live image is as long as the pool.
#[test]
fn a_file_of_overwritten_values_is_little_more_than_they() {
    for (mode, live_image, kib, most) in [
        (SyncMode::Process, false, 1, [1.61, 1.33]),
        (SyncMode::INTERVAL, false, 1, [1.61, 1.33]),
        (SyncMode::INTERVAL, true, 1, [3.22, 2.90]),
        (SyncMode::Process, false, 64, [1.40, 1.13]),
        (SyncMode::INTERVAL, false, 64, [1.40, 1.13]),
        (SyncMode::INTERVAL, true, 64, [2.85, 2.50]),
    ] {
        let (dir, path) = new_path();
        let options = Options::new().sync_mode(mode).live_image(live_image);
        let map: Map<u64, [u8]> = options.create(&path).unwrap();
        let (value, bytes) = (vec![7; kib << 10], budget(24 << 20, 96 << 20));
        let count = bytes / value.len() as u64;
        (0..2 * count).for_each(|i| map.put(&(i * 7 % count), &value).unwrap());
        let times = |map: &Map<u64, [u8]>| {
            map.sync().unwrap();
            let log = map.stats().unwrap().log.map_or(0, |log| log.area_bytes);
            let files = fs::read_dir(dir.path()).unwrap();
            let blocks: u64 = files.map(|file| file.unwrap().metadata().unwrap().blocks()).sum();
            (blocks * 512 - log) as f64 / bytes as f64
        };
        let open = times(&map);
        map.close().unwrap();
        let times = [open, times(&Options::new().open(&path).unwrap())];
        println!("{mode}, live image {live_image}, {kib} KiB: {times:.2?}");
        assert!(times[0] <= most[0] && times[1] <= most[1], "{mode} {live_image} {kib}: {times:?}");
    }
}

/// A Rewo-Hash with a cached table of so many bytes.
fn rewo_of<M: Medium>(medium: M, bytes: Option<u64>) -> (std::sync::Arc<Pool<M>>, Rewo<M>) {
    let (pool, mut cache) = (pool(medium), Cache::default());
    cache.bytes = bytes;
    (pool.clone(), Rewo::create(pool, cache).unwrap())
}

/// Without a cached table: blocks read by lookups, and persists, over several resizes, those of the
/// resizes apart.
#[test]
fn rewo_meets_its_costs() {
    const FROM: u64 = 100_000;
    const POINTS: u32 = 12;
    let (pool, rewo) = rewo_of(Metered::new(dram()), Some(0));
    let mut keys = 0;
    for point in 0..POINTS {
        let until = (FROM as f64 * (f64::from(point) / f64::from(POINTS)).exp2()) as u64;
        (keys..until).for_each(|i| put(&rewo, i));
        keys = keys.max(until);
        let during = rewo.stats().rewo.unwrap().tables;
        let [hit, miss] = lookups(&rewo, &pool, keys);
        println!(
            "{keys} keys, {during} tables, load {:.3}: {hit:.3} {miss:.3}",
            load_factor(&rewo)
        );
        assert!(hit <= 4.0 && miss <= 4.0);
        while rewo.step().unwrap() {}
        // At rest, lines of hits and of misses.
        let lines = [0, 1 << 40].map(|from| {
            let mut lines = 0;
            for i in (0..OPS).map(|i| if from == 0 { i * keys / OPS } else { from + i }) {
                let before = pool.medium().counts();
                let _ = rewo.get(h(i)).unwrap();
                let made = pool.medium().counts() - before;
                assert!(made.blocks_read <= 2);
                lines += made.lines_read;
            }
            lines as f64 / OPS as f64
        });
        println!("    lines: {:.3} a hit, {:.3} a miss", lines[0], lines[1]);
        assert!(lines[0] < 2.15 && lines[1] < 2.4);
        let updates = persists(steady(&rewo, &pool, 0..OPS, |i| put(&rewo, i)));
        let some = (0..OPS).map(|i| i * keys / OPS + u64::from(point));
        let removes = persists(steady(&rewo, &pool, some.clone(), |i| remove(&rewo, i)));
        assert_eq!([updates, removes], [[1.0; 2]; 2]);
        let [flushes, fences] = persists(steady(&rewo, &pool, some, |i| put(&rewo, i)));
        println!("    inserts: {flushes:.3} flushes, {fences:.3} fences");
        // One and two, but for evictions.
        assert!((1.0..1.3).contains(&flushes) && (2.0..2.4).contains(&fences));
    }
}

/// The slots of a bucket that a resize moves share their fences.
#[test]
fn rewo_migrates_several_slots_at_once() {
    let (pool, rewo) = rewo_of(Metered::new(dram()), Some(0));
    let mut keys = 0;
    while rewo.stats().splits < 4 {
        put(&rewo, keys);
        keys += 1;
    }
    let before = (pool.medium().counts(), rewo.stats().rewo.unwrap().migrated);
    while rewo.step().unwrap() {}
    let (cost, n) =
        (pool.medium().counts() - before.0, rewo.stats().rewo.unwrap().migrated - before.1);
    assert!(n > keys / 3, "{n} of {keys}");
    let fences = (cost.fences + cost.drains) as f64 / n as f64;
    let flushes = cost.flushes as f64 / n as f64;
    let blocks = cost.blocks_written as f64 / n as f64;
    println!(
        "{n} slots, each {flushes:.3} flushes, {fences:.3} fences, {blocks:.3} blocks written"
    );
    assert!(fences < 0.6 && flushes < 1.4 && blocks < 1.4);
}

/// A table that has room for everything answers everything, and no block is read; one that has not
/// answers what was looked up last.
#[test]
fn rewo_reads_no_block_for_cached_entries() {
    const KEYS: u64 = 20_000;
    for (bytes, has_all) in [(16 << 20, true), (64 << 10, false)] {
        let (pool, rewo) = rewo_of(Metered::new(dram()), Some(bytes));
        (0..KEYS).for_each(|i| put(&rewo, i));
        while rewo.step().unwrap() {}
        // The number of its buckets follows the tables; then it is filled by lookups.
        assert!((0..KEYS).all(|i| rewo.get(h(i)).unwrap() == Some(i)));
        assert_eq!(rewo.stats().rewo.unwrap().cached_all, has_all, "{:?}", rewo.stats());
        let hot: Vec<u64> = if has_all { (0..KEYS).collect() } else { (0..100).collect() };
        // One lookup in eight replaces a copy.
        for _ in 0..if has_all { 1 } else { 100 } {
            assert!(hot.iter().all(|i| rewo.get(h(*i)).unwrap() == Some(*i)));
        }
        let before = pool.medium().counts();
        assert!(hot.iter().all(|i| rewo.get(h(*i)).unwrap() == Some(*i)));
        let read = (pool.medium().counts() - before).blocks_read;
        assert!(read <= if has_all { 0 } else { 10 }, "{read} blocks");
        if has_all {
            (0..1000).for_each(|i| assert_eq!(rewo.get(h(i + (1 << 40))).unwrap(), None));
            assert_eq!((pool.medium().counts() - before).blocks_read, 0, "misses");
        }
    }
}

/// Where a few buckets have too many slots, the others say what is absent: filled by inserts, and at an open.
#[test]
fn rewo_knows_absent_keys_where_a_bucket_has_room() {
    const KEYS: u64 = 20_000;
    let mut cache = Cache::of_bytes(1 << 20);
    cache.fill = true;
    let (pool, rewo) = rewo_of(Metered::new(dram()), cache.bytes);
    (0..KEYS).for_each(|i| put(&rewo, i));
    while rewo.step().unwrap() {}
    let misses = |rewo: &Rewo<_>| {
        let before = pool.medium().counts();
        (KEYS..2 * KEYS).for_each(|i| assert_eq!(rewo.get(h(i)).unwrap(), None));
        assert!(!rewo.stats().rewo.unwrap().cached_all);
        (pool.medium().counts() - before).blocks_read
    };
    let filled = misses(&rewo);
    drop(rewo);
    let rewo = Rewo::open(pool.clone(), cache).unwrap();
    let filled_at_open = misses(&rewo);
    println!("{filled} and {filled_at_open} blocks for {KEYS} misses");
    assert!((1..KEYS / 20).contains(&filled) && (1..KEYS / 20).contains(&filled_at_open));
    assert_eq!(crate::findings(&rewo), []);
}

/// Buckets that are full when a pool is opened do not keep others from being filled.
#[test]
fn rewo_fills_its_cached_table_as_far_as_it_goes() {
    const KEYS: u64 = 20_000;
    let (pool, rewo) = rewo_of(Metered::new(dram()), Some(0));
    (0..KEYS).for_each(|i| put(&rewo, i));
    while rewo.step().unwrap() {}
    drop(rewo);
    let mut cache = Cache::of_bytes(256 << 10);
    cache.fill = true;
    let rewo = Rewo::open(pool.clone(), cache).unwrap();
    let slots = rewo.stats().rewo.unwrap().cached_slots;
    assert!(!rewo.stats().rewo.unwrap().cached_all && slots < KEYS);
    let reads_block = |i: &u64| {
        let before = pool.medium().counts();
        assert_eq!(rewo.get(h(*i)).unwrap(), Some(*i));
        pool.medium().counts().blocks_read > before.blocks_read
    };
    let answered = KEYS - (0..KEYS).filter(reads_block).count() as u64;
    assert!(answered > slots * 9 / 10, "{answered} of {slots} slots are filled");
}

/// How full the tables are when the next one is added.
#[test]
fn rewo_fills_its_tables() {
    let (_, rewo) = rewo_of(dram(), Some(0));
    let mut loads = Vec::new();
    for i in 0..budget(250_000, 1_000_000) {
        let before = (rewo.stats().splits, load_factor(&rewo));
        put(&rewo, i);
        if rewo.stats().splits > before.0 {
            loads.push(before.1);
        }
    }
    println!("{loads:.3?}");
    assert!(loads.len() >= budget(4, 5) && loads.iter().all(|load| *load >= 0.90));
}

/// A round of the sweep, in which nothing or a tenth has expired: lines read for each entry, and what is left.
#[test]
fn a_sweep_reads_two_or_three_lines_of_each_entry() {
    const KEYS: u64 = 20_000;
    let medium = Metered::new(dram());
    let meter = Arc::clone(medium.meter());
    let clock = Clock::manual(1);
    let options = Options::new().clock(clock.clone()).sweep(false);
    let cache: durahash::Cache<u64, u64> = options.create_on(medium).unwrap();
    for key in 0..KEYS {
        let seconds = if key.is_multiple_of(10) { 1 } else { 3600 };
        cache.put_for(&key, &key, Duration::from_secs(seconds)).unwrap();
    }
    let round = || {
        let before = meter.counts();
        while cache.step().unwrap() {}
        let lines = (meter.counts() - before).lines_read as f64 / KEYS as f64;
        (lines, cache.len().unwrap())
    };
    let (lines, left) = round();
    assert!(lines < 2.5 && left == KEYS, "{lines} lines, {left} are left");
    clock.advance(Duration::from_secs(1));
    let (lines, left) = round();
    assert!(lines < 3.5 && left == KEYS - KEYS / 10, "{lines} lines, {left} are left");
}
