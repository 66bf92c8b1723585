//! Rewo-Hash: what its paper leaves open or gets wrong, and its cached table.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use durahash::index::{Change, Index, IndexBase, Room};
use durahash::rewo::{Cache, Rewo};
use durahash::{Design, ErrorKind, Map, Options};
use durahash_media::hash::WordMix;
use durahash_media::sim::Sim;
use durahash_media::{Dram, Geometry, Memory, Pool, bits};
use durahash_testkit::{budget, pool_on};

use super::{findings, put, remove};

const TINY: Geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 0 };
const TINY_BYTES: u64 = 1 << 20;
const BUCKET_WORDS: usize = 32;

const NONE: Cache = Cache::of_bytes(0);

/// The `i`-th of distinct uniform hashes.
fn spread(i: u64) -> u64 {
    WordMix::new(9).mix(i)
}

fn on_dram(bytes: u64, geometry: Geometry, cache: Cache) -> Rewo<Dram> {
    Rewo::create(pool_on(Dram::new(bytes).unwrap(), geometry), cache).unwrap()
}

/// Ends what is under way.
fn rest(rewo: &dyn Index) {
    while rewo.step().unwrap() {}
    assert_eq!(findings(rewo), []);
}

fn figures(rewo: &dyn Index) -> durahash::RewoStats {
    rewo.stats().rewo.unwrap()
}

fn tiny(cache: Cache) -> (Sim, Rewo<Sim>) {
    let sim = Sim::new(TINY_BYTES);
    let rewo = Rewo::create(pool_on(sim.clone(), TINY), cache).unwrap();
    (sim, rewo)
}

/// As after a crash that lost nothing.
fn reopen(image: &[u64], cache: Cache) -> (Sim, Rewo<Sim>) {
    let sim = Sim::from_image(image, TINY_BYTES);
    let rewo = Rewo::open(Arc::new(Pool::open(sim.clone(), false).unwrap()), cache).unwrap();
    (sim, rewo)
}

/// The first table's buckets, by their first words.
fn first_table(image: &[u64]) -> std::ops::Range<usize> {
    let block = bits(image[32], 0, 46) as usize * BUCKET_WORDS;
    let first = (image[block + 2] >> 8) as usize * 128;
    first..first + 128
}

/// The bucket and slot of a hash in the first table.
fn find(image: &[u64], h: u64) -> (usize, usize) {
    let is_live = |bucket: usize, slot| image[bucket] >> slot & 1 == 1;
    let table = first_table(image).step_by(BUCKET_WORDS);
    let slots = table.flat_map(|bucket| (0..15).map(move |slot| (bucket, slot)));
    let mut found =
        slots.filter(|(bucket, slot)| image[bucket + 2 + slot * 2] == h && is_live(*bucket, *slot));
    found.next().expect("it is there")
}

fn set_commit(image: &mut [u64], bucket: usize, live: u64, leaving: u64) {
    let slots = (0..15_usize).filter(|slot| live >> slot & 1 == 1);
    let high = |slot: usize| {
        let h = image[bucket + 2 + slot * 2];
        (bits(h, 4, 1) << 30 | bits(h, 5, 1) << 45) << slot
    };
    let word = live | leaving << 15 | slots.map(high).sum::<u64>() | 1 << 60;
    image[bucket] = word | u64::from(word.count_ones() % 2) << 63;
}

/// "Redo": the mark of a move without a double is what a crash before the copy leaves.
#[test]
fn a_slot_that_leaves_and_has_not_arrived_stays() {
    let (sim, rewo) = tiny(NONE);
    (0..5).for_each(|i| assert_eq!(put(&rewo, spread(i), i), None));
    let mut image = sim.image();
    let (bucket, slot) = find(&image, spread(3));
    let live = bits(image[bucket], 0, 15);
    set_commit(&mut image, bucket, live, 1 << slot);
    let (_, rewo) = reopen(&image, NONE);
    assert_eq!(rewo.get(spread(3)).unwrap(), Some(3));
    assert_eq!((rewo.len().unwrap(), findings(&rewo)), (5, vec![]));
}

/// A crash after the copy is live: the one that is leaving goes, even if the other is newer, as a paper's
/// update into a new table would leave it.
#[test]
fn of_two_the_one_that_leaves_goes() {
    let (sim, rewo) = tiny(NONE);
    (0..5).for_each(|i| assert_eq!(put(&rewo, spread(i), i), None));
    let before = sim.image();
    let table = first_table(&before);
    let (bucket, slot) = find(&before, spread(3));
    let mut recovered = 0;
    for other in table.step_by(BUCKET_WORDS).filter(|other| *other != bucket) {
        let mut image = before.clone();
        // A copy in each other bucket: only one of them is the other bucket of this hash.
        let live = bits(image[other], 0, 15);
        let free = [0, 1, 3].into_iter().find(|slot| live >> slot & 1 == 0);
        let Some(free) = free else {
            continue;
        };
        image[other + 2 + free * 2] = spread(3);
        image[other + 3 + free * 2] = 33;
        let nibble = 0xf << (free * 4);
        image[other + 1] = image[other + 1] & !nibble | (spread(3) & 0xf) << (free * 4);
        set_commit(&mut image, other, live | 1 << free, 0);
        let live = bits(image[bucket], 0, 15);
        set_commit(&mut image, bucket, live, 1 << slot);
        let (_, rewo) = reopen(&image, NONE);
        let found = rewo.get(spread(3)).unwrap();
        if found == Some(33) {
            assert_eq!((rewo.len().unwrap(), findings(&rewo)), (5, vec![]));
            recovered += 1;
        } else {
            // No lookup finds a copy elsewhere, which is damage: the slot stays.
            assert_eq!(found, Some(3));
            assert!(!findings(&rewo).is_empty());
        }
    }
    assert!(recovered <= 1, "a hash has two buckets");
}

/// All that a bucket holds at any time, through every resize and back.
#[test]
fn everything_is_found_at_every_moment_of_every_resize() {
    for slots in [2, 3, 15] {
        let geometry = Geometry { slots, ..TINY };
        let rewo = on_dram(TINY_BYTES, geometry, NONE);
        let keys: u64 = if slots == 15 { 2500 } else { 600 };
        let mut most = 0;
        for i in 0..keys {
            assert_eq!(put(&rewo, spread(i), i), None);
            let all = if i.is_multiple_of(50) { 0..i + 1 } else { i.saturating_sub(3)..i + 1 };
            assert!(all.clone().all(|i| rewo.get(spread(i)).unwrap() == Some(i)), "{i}");
            most = most.max(figures(&rewo).tables);
        }
        assert!(most >= 4, "{:?}", rewo.stats());
        assert_eq!(findings(&rewo), []);
        for i in 0..keys {
            assert_eq!(remove(&rewo, spread(i)), Some(i));
            let left = if i.is_multiple_of(50) { i + 1..keys } else { i + 1..(i + 4).min(keys) };
            assert!(left.clone().all(|i| rewo.get(spread(i)).unwrap() == Some(i)), "{i}");
        }
        rest(&rewo);
        let stats = rewo.stats();
        assert_eq!((stats.rewo.unwrap().tables, stats.slots_used), (1, 0));
        assert!(stats.merges > 2, "{stats:?}");
    }
}

/// Sixteen tables, then one of all; and halves of that.
#[test]
fn after_sixteen_tables_everything_is_rebuilt() {
    let (slots, keys) = budget((3, 380_000), (0, 1_900_000));
    let geometry = Geometry { slots, ..TINY };
    let rewo = on_dram(512 << 20, geometry, NONE);
    let mut most = 0;
    for i in 0..keys {
        put(&rewo, spread(i), i);
        most = most.max(figures(&rewo).tables);
        if i.is_power_of_two() {
            assert_eq!(findings(&rewo), []);
        }
    }
    while rewo.step().unwrap() {}
    let stats = rewo.stats();
    assert!(most >= 16 && stats.rewo.unwrap().rebuilds >= 1, "{most} {stats:?}");
    assert!((0..keys).all(|i| rewo.get(spread(i)).unwrap() == Some(i)));
    assert_eq!(findings(&rewo), []);
    (100..keys).for_each(|i| assert_eq!(remove(&rewo, spread(i)), Some(i)));
    rest(&rewo);
    assert!(rewo.stats().slots <= 1024, "{:?}", rewo.stats());
    assert!((0..100).all(|i| rewo.get(spread(i)).unwrap() == Some(i)));
}

/// Hashes that share their first bits go to one table, whatever is added.
#[test]
fn hashes_with_a_common_prefix_are_rebuilt_into_one_table() {
    let rewo = on_dram(TINY_BYTES, TINY, NONE);
    for i in 0..500 {
        assert_eq!(put(&rewo, i, i), None);
    }
    assert!((0..500).all(|i| rewo.get(i).unwrap() == Some(i)));
    assert_eq!(findings(&rewo), []);
    let stats = rewo.stats();
    assert!(stats.rewo.unwrap().rebuilds > 0 && stats.slots < 10_000, "{stats:?}");
}

/// Keys move between buckets and tables while they are iterated over.
#[test]
fn iteration_gives_every_key_once_while_tables_come_and_go() {
    const STAY: u64 = 400;
    let rewo = on_dram(256 << 20, Geometry { extent_shift: 18, slots: 0, ..TINY }, NONE);
    let mut next = STAY;
    (0..20_000).for_each(|i| assert_eq!(put(&rewo, spread(i), i), None));
    for round in 0..3 {
        let mut seen = HashMap::new();
        let (mut at, mut unit) = (Some(0), Vec::new());
        while let Some(from) = at {
            unit.clear();
            at = rewo.scan(from, &mut unit).unwrap();
            for (h, v) in &unit {
                assert_eq!(seen.insert(*h, *v), None, "{h:#x} twice");
            }
            for _ in 0..15_000 {
                next += 1;
                if round == 1 {
                    let i = STAY + next % 20_000;
                    rewo.update(spread(i), Room::None, &mut |_| Ok(Change::Remove)).unwrap();
                } else {
                    put(&rewo, spread(next + 20_000), next);
                }
            }
        }
        assert!((0..STAY).all(|i| seen.get(&spread(i)) == Some(&i)), "round {round}");
    }
    assert!(rewo.stats().splits > 1, "{:?}", rewo.stats());
    assert_eq!(findings(&rewo), []);
}

/// A clean close is opened without a look at any bucket, and with the right count.
#[test]
fn after_a_clean_close_no_bucket_is_read() {
    let sim = Sim::new(TINY_BYTES);
    let options = Options::new().design(Design::Rewo).geometry(TINY).max_bytes(TINY_BYTES).seed(1);
    let map: Map<u64, u64> = options.create_on(sim.clone()).unwrap();
    (0..300).for_each(|i| map.put(&i, &i).unwrap());
    map.close().unwrap();
    let mut image = sim.image();
    // A commit word that a scan would count.
    let bucket = first_table(&image).start;
    let lost = bits(image[bucket], 0, 15).count_ones();
    assert!(lost > 0);
    image[bucket] = 0;
    let open = |image: &[u64]| -> Map<u64, u64> {
        options.open_on(Sim::from_image(image, TINY_BYTES)).unwrap()
    };
    let map = open(&image);
    assert_eq!(map.len().unwrap(), 300);
    let mut wrong = 0;
    map.check(&mut |_| wrong += 1).unwrap();
    assert_eq!(wrong, 2, "the counter, and the check word of the block");
}

#[test]
fn a_resize_goes_on_after_a_crash_at_the_cursor() {
    let (sim, rewo) = tiny(NONE);
    let mut images = Vec::new();
    for i in 0..200 {
        put(&rewo, spread(i), i);
        images.push((i, sim.image()));
    }
    let mut resuming = 0;
    for (last, image) in images.iter().step_by(3) {
        let (_, rewo) = reopen(image, NONE);
        assert_eq!(rewo.len().unwrap(), last + 1);
        assert_eq!(findings(&rewo), [], "{last}");
        resuming += u64::from(rewo.step().unwrap());
        while rewo.step().unwrap() {}
        assert_eq!(findings(&rewo), [], "{last}");
        assert!((0..=*last).all(|i| rewo.get(spread(i)).unwrap() == Some(i)));
    }
    assert!(resuming > 3, "{resuming} were left in a resize");
}

/// After a power cut pages of a file may be of different ages: the cursor may be newer than the buckets that
/// it has passed. Nothing that is in them is hidden then, for good.
#[test]
fn a_cursor_that_is_newer_than_its_buckets_hides_nothing() {
    let (sim, rewo) = tiny(NONE);
    let block = |image: &[u64]| bits(image[32], 0, 46) as usize * BUCKET_WORDS;
    let (mut at_rest, mut forged) = ((0, sim.image()), 0);
    for i in 0..200 {
        put(&rewo, spread(i), i);
        let image = sim.image();
        let state = image[block(&image)];
        if state & 7 == 0 {
            at_rest = (i + 1, image);
            continue;
        }
        let (keys, old) = &at_rest;
        let count = (state >> 3) as usize;
        if state & 7 != 1 || image[block(&image) + 1] == 0 {
            continue;
        }
        // All tables but the newest as they were; nothing of that.
        let mut image = image;
        for table in 0..count {
            let entry = image[block(&image) + 2 + table];
            let first = (entry >> 8) as usize * 128;
            let words = first..first + (128 << (entry & 0xff));
            if table + 1 < count {
                image[words.clone()].copy_from_slice(&old[words]);
            } else {
                image[words].fill(0);
            }
        }
        image[16] |= 1 << 33;
        let (sim, rewo) = reopen(&image, NONE);
        let all = |rewo: &dyn Index| (0..*keys).all(|i| rewo.get(spread(i)).unwrap() == Some(i));
        assert!(all(&rewo));
        assert_eq!((rewo.len().unwrap(), findings(&rewo)), (*keys, vec![]));
        drop(rewo);
        let (_, rewo) = reopen(&sim.image(), NONE);
        while rewo.step().unwrap() {}
        assert!(all(&rewo));
        assert_eq!((rewo.len().unwrap(), findings(&rewo)), (*keys, vec![]));
        forged += 1;
    }
    assert!(forged > 3, "{forged} cursors");
}

#[test]
fn the_cached_table_follows_every_change() {
    let (_, rewo) = tiny(Cache::of_bytes(1 << 10));
    let mut model = HashMap::new();
    for round in 0..20_u64 {
        for i in 0..200 {
            let h = spread(i);
            match (i + round) % 5 {
                0 => assert_eq!(remove(&rewo, h), model.remove(&h)),
                1 | 2 => assert_eq!(put(&rewo, h, round), model.insert(h, round)),
                _ => assert_eq!(rewo.get(h).unwrap(), model.get(&h).copied()),
            }
            assert_eq!(rewo.get(h).unwrap(), model.get(&h).copied());
        }
        assert_eq!(findings(&rewo), [], "round {round}");
    }
    let stats = rewo.stats();
    assert!(stats.rewo.unwrap().replaced > 100 && !stats.rewo.unwrap().cached_all, "{stats:?}");
}

#[test]
fn the_cached_table_has_everything_until_it_overflows() {
    let (sim, rewo) = tiny(Cache::of_bytes(128));
    for i in 0..7 {
        put(&rewo, spread(i), i);
        assert!(figures(&rewo).cached_all);
    }
    remove(&rewo, spread(2));
    put(&rewo, spread(7), 7);
    assert!(figures(&rewo).cached_all);
    assert_eq!(findings(&rewo), []);
    put(&rewo, spread(8), 8);
    assert!(!figures(&rewo).cached_all, "seven slots for eight");
    assert_eq!(rewo.get(spread(8)).unwrap(), Some(8));
    assert_eq!(rewo.get(spread(2)).unwrap(), None);
    // It begins full-loaded for an empty pool, and not for another, unless it is filled.
    let (_, again) = reopen(&sim.image(), Cache::of_bytes(1 << 10));
    assert!(!figures(&again).cached_all);
    let mut cache = Cache::of_bytes(1 << 14);
    cache.fill = true;
    let (_, filled) = reopen(&sim.image(), cache);
    assert!(figures(&filled).cached_all);
    assert_eq!(findings(&filled), []);
    cache.bytes = Some(128);
    let (_, small) = reopen(&sim.image(), cache);
    assert!(!figures(&small).cached_all);
    assert_eq!(findings(&small), []);
    for rewo in [again, filled, small] {
        assert_eq!(rewo.get(spread(8)).unwrap(), Some(8));
        assert_eq!(rewo.get(spread(2)).unwrap(), None);
    }
}

/// Its size follows the tables where no bound is given, and copies that are still in place stay.
#[test]
fn the_cached_table_grows_and_shrinks_with_the_others() {
    let rewo = on_dram(16 << 20, Geometry { extent_shift: 14, ..TINY }, Cache::default());
    let first = figures(&rewo).cached_slots;
    for i in 0..5000 {
        put(&rewo, spread(i), i);
        assert_eq!(rewo.get(spread(i / 2)).unwrap(), Some(i / 2));
    }
    assert_eq!(findings(&rewo), []);
    assert!(figures(&rewo).cached_slots >= 8 * first && first > 0);
    for i in 0..4990 {
        assert_eq!(rewo.get(spread(i)).unwrap(), Some(i));
        remove(&rewo, spread(i));
    }
    rest(&rewo);
    assert_eq!(figures(&rewo).cached_slots, first);
}

/// Copies that a size of the cached table left in other buckets are not found again when it has that size again.
#[test]
fn copies_of_a_size_before_do_not_come_back() {
    const KEYS: u64 = 3000;
    let rewo = on_dram(16 << 20, Geometry { extent_shift: 14, ..TINY }, Cache::default());
    let mut model = HashMap::new();
    let mut sizes = Vec::new();
    for round in 0..6_u64 {
        for i in 0..KEYS {
            // Few at the end of a round, all at the end of the next, each with another value.
            let (h, v) = (spread(i), round * KEYS + i);
            if round % 2 == 0 {
                assert_eq!(put(&rewo, h, v), model.insert(h, v));
            } else if i >= 60 {
                assert_eq!(remove(&rewo, h), model.remove(&h));
            } else {
                assert_eq!(put(&rewo, h, v), model.insert(h, v));
            }
            for i in [i, i / 2, KEYS - 1 - i] {
                assert_eq!(rewo.get(spread(i)).unwrap(), model.get(&spread(i)).copied());
            }
            if sizes.last() != Some(&figures(&rewo).cached_slots) {
                sizes.push(figures(&rewo).cached_slots);
                assert_eq!(findings(&rewo), [], "{sizes:?}");
            }
        }
        assert_eq!(findings(&rewo), [], "round {round}");
    }
    let turns = sizes.windows(3).filter(|w| (w[0] < w[1]) != (w[1] < w[2])).count();
    assert!(turns >= 4, "{sizes:?}");
}

/// Buckets that one operation migrates, at the most, while tables are added, given up and rebuilt.
#[test]
fn no_operation_migrates_more_than_one_bucket() {
    let most: fn(u64) -> bool = |_| true;
    // Writes whose hashes would leave a resize to others: they wait instead, before there is no room.
    let idle: fn(u64) -> bool = |h| h % 4 != 0;
    for (extent_shift, keys, is_used) in
        [(16, 60_000, most), (18, 60_000, most), (16, 60_000, idle)]
    {
        let geometry = Geometry { slots: 15, extent_shift, ..TINY };
        let rewo = on_dram(64 << 20, geometry, Cache::default());
        let hashes: Vec<u64> = (0..).map(spread).filter(|h| is_used(*h)).take(2 * keys).collect();
        let mut walked = 0;
        let mut counted = |what: &str, h: u64, op: &dyn Fn() -> Option<u64>| {
            let before = figures(&rewo).walked;
            let found = op();
            let n = figures(&rewo).walked - before;
            assert!(n <= 1, "{what} {h:#x} migrated {n} buckets: {:?}", rewo.stats());
            walked += n;
            found
        };
        // Grows; shrinks to a sixth, and again grows, so that a resize of one kind follows on another.
        let mut live = 0..0;
        for (low, high) in [(0, keys), (keys / 6 * 5, keys), (keys / 6 * 5, keys * 2)] {
            for h in &hashes[live.start..low] {
                assert_eq!(counted("remove", *h, &|| remove(&rewo, *h)), Some(7));
            }
            for h in &hashes[live.end..high] {
                assert_eq!(counted("insert", *h, &|| put(&rewo, *h, 7)), None);
            }
            live = low..high;
            assert!(hashes[live.clone()].iter().all(|h| rewo.get(*h).unwrap() == Some(7)));
            assert_eq!(findings(&rewo), []);
        }
        for h in &hashes[live] {
            assert_eq!(counted("remove", *h, &|| remove(&rewo, *h)), Some(7));
        }
        let stats = rewo.stats();
        assert!(walked > 1000 && stats.splits > 2, "{walked} {stats:?}");
        assert!(stats.merges > 2 || !is_used(4), "{stats:?}");
    }
}

/// The resize that the block of tables names: none, grow, shrink, rebuild, overtake, again.
fn resize_of(sim: &Sim) -> u64 {
    let image = sim.image();
    image[bits(image[32], 0, 46) as usize * BUCKET_WORDS] & 7
}

/// Grows to so many keys, shrinks a few times, and grows again at once, in tables so tiny that many resizes
/// find no room. Adds each step from one resize to another that is seen to `seen`.
fn shrink_then_grow(slots: u8, seed: u64, keys: u64, seen: &mut BTreeSet<(u64, u64)>) {
    const MORE: u64 = 150;
    let mix = WordMix::new(seed);
    let sim = Sim::new(1 << 19);
    let rewo = Rewo::create(pool_on(sim.clone(), Geometry { slots, ..TINY }), NONE).unwrap();
    let mut before = 0;
    let mut see = |rewo: &dyn Index| {
        let now = resize_of(&sim);
        if now != before {
            assert_eq!(findings(rewo), [], "{slots} slots, seed {seed}: {before} to {now}");
            seen.insert((before, now));
        }
        before = now;
    };
    for i in 0..keys {
        assert_eq!(put(&rewo, mix.mix(i), i), None);
        see(&rewo);
    }
    while rewo.step().unwrap() {
        see(&rewo);
    }
    let mut first = 0;
    while first < keys && rewo.stats().merges <= seed % 3 {
        assert_eq!(remove(&rewo, mix.mix(first)), Some(first));
        first += 1;
        see(&rewo);
    }
    for i in keys..keys + MORE {
        let done = rewo.update(mix.mix(i), Room::ForNew, &mut |_| Ok(Change::Set(i)));
        assert!(done.is_ok(), "{slots} slots, seed {seed}, {keys} keys and {i}: {done:?}");
        see(&rewo);
    }
    assert!((first..keys + MORE).all(|i| rewo.get(mix.mix(i)).unwrap() == Some(i)));
    while rewo.step().unwrap() {
        see(&rewo);
    }
    assert_eq!(findings(&rewo), []);
    assert!((first..keys + MORE).all(|i| rewo.get(mix.mix(i)).unwrap() == Some(i)));
}

/// A resize that finds no room is overtaken by one that has room for all inserts meanwhile: none is told that there
/// is none. Each resize begins, ends, and is overtaken.
#[test]
fn every_resize_ends_or_is_overtaken() {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        shrink_then_grow(2, seed, 30, &mut seen);
        shrink_then_grow(3, seed, if seed % 2 == 0 { 45 } else { 100 }, &mut seen);
    }
    const WAYS: [(u64, u64); 11] =
        [(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0), (1, 4), (2, 4), (3, 5), (4, 0), (5, 0)];
    let never: Vec<_> = WAYS.iter().filter(|way| !seen.contains(*way)).collect();
    assert!(never.is_empty(), "{never:?} of {seen:?}");
}

/// Hashes of one pair of buckets in any table that is tested here, and with these first two bits.
fn crowded(first_bits: u64, n: usize) -> impl Iterator<Item = u64> {
    // That of pools of seed 1.
    let remix = WordMix::new(!1);
    let all = (0..).map(move |i: u64| remix.unmix(i << 26 | 1 << 16));
    all.filter(move |h| h >> 62 == first_bits).take(n)
}

/// Where hashes that are chosen leave no room in what overtakes, either: an insert that needs some is told, nothing is
/// lost, and the resize goes on when there is room.
#[test]
fn a_resize_that_nothing_can_overtake_waits_for_room() {
    const OTHERS: u64 = 24;
    // Two buckets have room for six. Tables that have as many of them each are rebuilt into one; or the last of those that
    // have four is given up, as others leave.
    for (resize, groups, each, left) in
        [(5, &[0b00, 0b01, 0b10][..], 6, OTHERS), (4, &[0b00, 0b01], 4, 0)]
    {
        let (sim, rewo) = tiny(NONE);
        (0..OTHERS).for_each(|i| assert_eq!(put(&rewo, spread(i), i), None));
        while rewo.step().unwrap() {}
        let all: Vec<u64> = groups.iter().flat_map(|bits| crowded(*bits, each)).collect();
        all.iter().for_each(|h| assert_eq!(put(&rewo, *h, 7), None));
        (left..OTHERS).for_each(|i| assert_eq!(remove(&rewo, spread(i)), Some(i)));
        while rewo.step().unwrap() {}
        let more = crowded(groups[0], each + 1).last().unwrap();
        let e = rewo.update(more, Room::ForNew, &mut |_| Ok(Change::Set(7))).unwrap_err();
        assert!(matches!(e.kind(), ErrorKind::Skewed { .. }), "{e}");
        assert_eq!((resize_of(&sim), findings(&rewo)), (resize, vec![]));
        assert!(all.iter().all(|h| rewo.get(*h).unwrap() == Some(7)));
        // Others find room.
        (left..OTHERS).for_each(|i| assert_eq!(put(&rewo, spread(i), i), None));
        let (gone, stay) = all.split_at(all.len() - 6);
        gone.iter().for_each(|h| assert_eq!(remove(&rewo, *h), Some(7)));
        while rewo.step().unwrap() {}
        assert_eq!((resize_of(&sim), findings(&rewo)), (0, vec![]));
        assert!(stay.iter().all(|h| rewo.get(*h).unwrap() == Some(7)));
        assert!((0..OTHERS).all(|i| rewo.get(spread(i)).unwrap() == Some(i)));
    }
}

/// Threads that insert faster than one of them could migrate: they wait for the walk before there is no room.
#[test]
fn many_threads_are_not_faster_than_the_walk() {
    const THREADS: u64 = 8;
    const KEYS: u64 = 20_000;
    for slots in [3, 15] {
        let geometry = Geometry { slots, extent_shift: 13, ..TINY };
        let rewo = on_dram(64 << 20, geometry, NONE);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let rewo = &rewo;
                let own = (0..KEYS).filter(move |i| i % THREADS == thread);
                scope.spawn(move || own.for_each(|i| assert_eq!(put(rewo, spread(i), i), None)));
            }
        });
        rest(&rewo);
        assert!((0..KEYS).all(|i| rewo.get(spread(i)).unwrap() == Some(i)));
    }
}

/// Threads change copies while writers wait: no reader sees less than what had returned before, or what
/// comes later never; copies are those of the slots in the end.
#[test]
fn copies_that_threads_change_are_neither_old_nor_early() {
    const KEYS: u64 = 40;
    const ROUNDS: u64 = 4_000;
    // Two buckets of copies: they are replaced all the time.
    let mut cache = Cache::of_bytes(256);
    cache.sync_threads = 2;
    let rewo = on_dram(1 << 22, TINY, cache);
    // The last value begun and the last returned, for each key. Values only grow; 0 is removed.
    let begun: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let done: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let ended = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (rewo, begun, done, ended) = (&rewo, &begun, &done, &ended);
            scope.spawn(move || {
                let start = Instant::now();
                let mut round = 0;
                while round < ROUNDS
                    || figures(rewo).synced == 0 && start.elapsed() < Duration::from_secs(60)
                {
                    round += 1;
                    let key = (round * 7 % (KEYS / 2) * 2 + writer) as usize;
                    begun[key].store(round, SeqCst);
                    if round % 5 == 0 {
                        remove(rewo, spread(key as u64));
                    }
                    put(rewo, spread(key as u64), round);
                    done[key].store(round, SeqCst);
                }
                ended.fetch_add(1, SeqCst);
            });
        }
        let mut last = vec![0; KEYS as usize];
        let mut at = 0;
        while ended.load(SeqCst) < 2 {
            at = (at + 1) % KEYS as usize;
            let before = done[at].load(SeqCst).max(last[at]);
            let found = rewo.get(spread(at as u64)).unwrap();
            let after = begun[at].load(SeqCst);
            // Between a removal and the next insert there is nothing.
            if let Some(found) = found {
                assert!((before..=after).contains(&found), "{before} <= {found} <= {after}");
                last[at] = found;
            } else {
                assert!(
                    before == 0 || after != before || after.is_multiple_of(5),
                    "lost: key {at}"
                );
            }
        }
    });
    assert!(figures(&rewo).synced > 0, "no thread ever came for an order");
    for (key, done) in done.iter().enumerate() {
        let (wanted, h) = (done.load(SeqCst), spread(key as u64));
        for _ in 0..3 {
            assert_eq!(rewo.get(h).unwrap().unwrap_or(0), wanted);
        }
    }
    assert_eq!(findings(&rewo), []);
}

/// A block whose check sum is right, and whose tables are not each as large as all before it: an insert
/// would look for room in them without end.
#[test]
fn tables_of_other_sizes_are_damage() {
    let (sim, rewo) = tiny(NONE);
    (0..60).for_each(|i| assert_eq!(put(&rewo, spread(i), i), None));
    while rewo.step().unwrap() {}
    let image = sim.image();
    let block = bits(image[32], 0, 46) as usize * BUCKET_WORDS;
    let count = (image[block] >> 3) as usize;
    assert!(count >= 3 && image[block] & 7 == 0, "{count} tables, at rest");
    let mix = WordMix::new(!Pool::open(sim, false).unwrap().format().seed);
    let open = |image: &[u64]| {
        let sum = image[block..block + 20].iter().fold(0, |sum, word| mix.mix(mix.mix(sum) ^ word));
        let mut image = image.to_vec();
        image[block + 20] = sum;
        let sim = Sim::from_image(&image, TINY_BYTES);
        Rewo::open(Arc::new(Pool::open(sim, false).unwrap()), NONE).map(|rewo| rewo.len().unwrap())
    };
    assert_eq!(open(&image).unwrap(), 60, "the check sum is that of the tables");
    let mut forged = image.clone();
    forged[block] = 2 << 3;
    forged[block + 3] = image[block + 4];
    forged[block + 4..block + 18].fill(0);
    let e = open(&forged).unwrap_err();
    assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
}

/// A counter whose check sum is right is believed as far as there are slots. A wrong count leads to no
/// work without end: tables are not halved again and again that have more slots than it says.
#[test]
fn forged_counters_lead_to_no_work_without_end() {
    for (first_bits_differ, forged) in
        [true, false].into_iter().flat_map(|differ| [1, 2, 9, 1 << 40].map(|f| (differ, f)))
    {
        let h = |i| if first_bits_differ { spread(i) } else { i };
        let sim = Sim::new(TINY_BYTES);
        let pool = pool_on(sim.clone(), TINY);
        let rewo = Rewo::create(pool.clone(), NONE).unwrap();
        (0..60).for_each(|i| assert_eq!(put(&rewo, h(i), i), None));
        while rewo.step().unwrap() {}
        pool.save(0, 0, forged);
        pool.close().unwrap();
        let (_, rewo) = reopen(&sim.image(), NONE);
        let believed = if forged == 1 << 40 { 60 } else { forged - 1 };
        assert_eq!(rewo.len().unwrap(), believed);
        let steps = (0..10_000).take_while(|_| rewo.step().unwrap()).count();
        assert!(steps < 100, "{steps} steps with a counter of {believed}");
        assert!((0..60).all(|i| rewo.get(h(i)).unwrap() == Some(i)));
    }
}

/// The part of the next table that is prepared is no part of a pool that is closed, or was left.
#[test]
fn a_prepared_table_is_given_back() {
    let (sim, rewo) = tiny(NONE);
    let mut prepared = 0;
    for i in 0..300 {
        put(&rewo, spread(i), i);
        let image = sim.image();
        let (_, again) = reopen(&image, NONE);
        assert_eq!(findings(&again), [], "{i}");
        prepared += u64::from(again.stats().medium_bytes < extents(&sim) * 1024);
    }
    assert!(prepared > 0);
}

/// Extents of units and of directories.
fn extents(sim: &Sim) -> u64 {
    let image = sim.image();
    let kind = |i: usize| image[64 + i / 8].to_le_bytes()[i % 8];
    (0..sim.region().len() as usize / 1024).filter(|i| [2, 3].contains(&kind(*i))).count() as u64
}

/// The bits of hashes in a commit word whose parity is wrong hide nothing, and mending it brings nothing back.
#[test]
fn a_flipped_bit_of_a_commit_word_hides_no_key() {
    const KEYS: u64 = 100;
    let sim = Sim::new(TINY_BYTES);
    let geometry = Geometry { slots: 15, ..TINY };
    let rewo = Rewo::create(pool_on(sim.clone(), geometry), NONE).unwrap();
    (0..KEYS).for_each(|i| assert_eq!(put(&rewo, spread(i), i), None));
    let (bucket, slot) = find(&sim.image(), spread(7));
    for bit in [30 + slot, 45 + slot, 60] {
        let mut image = sim.image();
        image[bucket] ^= 1 << bit;
        let (_, rewo) = reopen(&image, NONE);
        assert_ne!(findings(&rewo), []);
        (0..KEYS).for_each(|i| assert_eq!(put(&rewo, spread(i), i + 1), Some(i)));
        rewo.mend().unwrap();
        assert_eq!(findings(&rewo), []);
        (0..KEYS).for_each(|i| assert_eq!(rewo.get(spread(i)).unwrap(), Some(i + 1)));
    }
}
