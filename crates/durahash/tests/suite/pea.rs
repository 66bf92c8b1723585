//! Mistakes of public code of Pea Hash, each once: with the hashes chosen so that what is to
//! happen happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use durahash::index::{Change, Index, IndexBase, Room};
use durahash::pea::{Pea, Policy};
use durahash::{Design, ErrorKind, Map, Options, SyncMode};
use durahash_media::hash::WordMix;
use durahash_media::sim::Sim;
use durahash_media::{Dram, Geometry, Medium, Place, Pool};
use durahash_testkit::{budget, new_path, pool_on};

use super::{put, remove, scanned};

/// Two main buckets of three slots, two of stash.
const TINY: Geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 0 };
/// The same of segments of four extents, but of one as long as they are small.
const GROWING: Geometry = Geometry { buckets: 4, ..TINY };
const TINY_BYTES: u64 = 1 << 20;

/// The `i`-th hash of the upper half whose first bucket is 0.
fn in_bucket_0(i: u64) -> u64 {
    assert!(i < 1 << 20);
    1 << 63 | i.reverse_bits() >> 1 | i
}

/// The same whose first bucket is 1.
fn in_bucket_1(i: u64) -> u64 {
    in_bucket_0(i) | 1 << 39
}

fn pea_of<M: Medium>(medium: M, geometry: Geometry) -> Pea<M> {
    Pea::create(pool_on(medium, geometry), Policy::default()).unwrap()
}

fn pea<M: Medium>(medium: M) -> Pea<M> {
    pea_of(medium, TINY)
}

/// The table that is opened after a kill, and its pool.
fn reopened(sim: &Sim) -> (Arc<Pool<Sim>>, Pea<Sim>) {
    let sim = Sim::from_image(&sim.image(), TINY_BYTES);
    let pool = Arc::new(Pool::open(sim, false).unwrap());
    (pool.clone(), Pea::open(pool, Policy::default()).unwrap())
}

fn assert_sound(pea: &dyn Index) {
    pea.check(&mut |finding| panic!("{finding:?}")).unwrap();
}

/// Twelve entries: both main buckets and both stash buckets are full.
fn fill_with_stash(pea: &dyn Index) -> Vec<u64> {
    let hashes: Vec<u64> = (0..6).flat_map(|i| [in_bucket_0(i), in_bucket_1(i)]).collect();
    for h in &hashes {
        assert_eq!(put(pea, *h, !h), None);
    }
    let strategies = pea.stats().pea.unwrap().strategies;
    // The lower half is empty; small segments have no other strategy.
    assert!([[1, 0, 1], [0, 0, 2]].contains(&strategies), "{strategies:?}");
    hashes
}

#[test]
fn stashed_entries_outlive_a_kill_and_later_inserts() {
    let sim = Sim::new(TINY_BYTES);
    let hashes = fill_with_stash(&pea(sim.clone()));
    let sim = Sim::from_image(&sim.image(), TINY_BYTES);
    let pea = Pea::open(Arc::new(Pool::open(sim, false).unwrap()), Policy::default()).unwrap();
    assert_eq!(pea.stats().pea.unwrap().strategies, [1, 0, 1]);
    // Two more segments get a stash.
    for i in 100..140 {
        put(&pea, in_bucket_0(i) ^ 1 << 63, i);
    }
    assert!(pea.stats().pea.unwrap().strategies[2] > 1 || pea.stats().splits > 0);
    assert!(hashes.iter().all(|h| pea.get(*h).unwrap() == Some(!h)));
    assert_sound(&pea);
}

#[test]
fn a_key_in_the_stash_is_not_inserted_again() {
    let pea = pea(Dram::new(TINY_BYTES).unwrap());
    let hashes = fill_with_stash(&pea);
    // Room in the main buckets, where a second copy would go.
    for h in &hashes[..6] {
        assert_eq!(remove(&pea, *h), Some(!h));
    }
    for h in &hashes[6..] {
        assert_eq!(put(&pea, *h, 7), Some(!h), "{h:#x}");
    }
    assert_eq!(pea.len().unwrap(), 6);
    assert_sound(&pea);
    for h in &hashes[6..] {
        assert_eq!(remove(&pea, *h), Some(7));
        assert_eq!(pea.get(*h).unwrap(), None);
    }
    assert!(pea.is_empty().unwrap());
}

#[test]
fn a_split_places_every_entry_once() {
    let pea = pea(Dram::new(TINY_BYTES).unwrap());
    let mut hashes = fill_with_stash(&pea);
    for i in 6..40 {
        hashes.extend([in_bucket_0(i), in_bucket_1(i)]);
        put(&pea, in_bucket_0(i), !in_bucket_0(i));
        put(&pea, in_bucket_1(i), !in_bucket_1(i));
        assert_sound(&pea);
    }
    assert!(pea.stats().splits > 5);
    hashes.sort_unstable();
    assert_eq!(scanned(&pea), hashes.iter().map(|h| (*h, !h)).collect::<Vec<_>>());
}

/// Keys that stay, while others make entries move within buckets, segments split, and merge.
#[test]
fn lookups_and_removes_find_entries_that_move() {
    for split_bits in [1, 2] {
        let mut policy = Policy::default();
        policy.split_bits = split_bits;
        let pool = pool_on(Dram::new(TINY_BYTES).unwrap(), TINY);
        let pea = Pea::create(pool, policy).unwrap();
        let stay: Vec<u64> = (0..8).map(|i| in_bucket_0(i << 10)).collect();
        for h in &stay {
            put(&pea, *h, !h);
        }
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    for h in &stay {
                        assert_eq!(pea.get(*h).unwrap(), Some(!h));
                    }
                }
            });
            for round in 0..300 {
                for i in 1..40 {
                    put(&pea, in_bucket_0(i) ^ ((round % 2) << 39), i);
                }
                for i in 1..40 {
                    assert_eq!(remove(&pea, in_bucket_0(i) ^ ((round % 2) << 39)), Some(i));
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(pea.stats().splits > 100 && pea.stats().merges > 100, "{:?}", pea.stats());
        assert_eq!(pea.len().unwrap(), 8);
        assert_sound(&pea);
    }
}

/// Every strategy by itself, and both ways to split, hold what they are given.
#[test]
fn every_policy_keeps_all_entries() {
    use durahash::pea::Strategy;
    for split_bits in [1, 2] {
        for (first, last) in [
            (Strategy::Single, Strategy::Single),
            (Strategy::TwoChoice, Strategy::TwoChoice),
            (Strategy::Stash, Strategy::Stash),
            (Strategy::Single, Strategy::TwoChoice),
        ] {
            let mut policy = Policy::default();
            (policy.split_bits, policy.first, policy.last) = (split_bits, first, last);
            let pool = pool_on(Dram::new(TINY_BYTES).unwrap(), TINY);
            let pea = Pea::create(pool, policy).unwrap();
            for i in 0..300 {
                put(&pea, in_bucket_0(i), i);
            }
            assert!((0..300).all(|i| pea.get(in_bucket_0(i)).unwrap() == Some(i)));
            assert_sound(&pea);
            for i in 0..300 {
                remove(&pea, in_bucket_0(i));
            }
            assert_sound(&pea);
        }
    }
}

/// The first two segments have an extent each until one of them is full.
#[test]
fn small_segments_become_large() {
    for buckets in [2, 4, 8, 64] {
        let sim = Sim::new(TINY_BYTES);
        let pea = pea_of(sim.clone(), Geometry { buckets, ..TINY });
        let mut hashes = fill_with_stash(&pea);
        let is_as_large = |pea: &Pea<Sim>, extents: u64, hashes: &[u64]| {
            let stats = pea.stats();
            assert_eq!((stats.slots, stats.medium_bytes), (extents * 12, (extents + 1) << 10));
            assert!(hashes.iter().all(|h| pea.get(*h).unwrap() == Some(!h)));
            assert_eq!(scanned(pea).len(), hashes.len());
            assert_sound(pea);
        };
        is_as_large(&pea, 2, &hashes);
        let (pool, small) = reopened(&sim);
        is_as_large(&small, 2, &hashes);
        small.reserve(1000).unwrap();
        assert!(small.stats().splits > 0 || buckets == 64);
        assert_sound(&small);
        drop((pool, small));

        let next = in_bucket_0(6);
        assert_eq!(put(&pea, next, !next), None);
        hashes.push(next);
        let extents = 2 * u64::from(buckets);
        is_as_large(&pea, extents, &hashes);
        let (pool, large) = reopened(&sim);
        is_as_large(&large, extents, &hashes);
        let place: Place<Sim> = pool.into();
        assert_eq!(
            (place.unit_extents().len() as u64, place.directory_extents().len()),
            (extents, 1)
        );
        // They stay large.
        hashes.iter().for_each(|h| assert_eq!(remove(&large, *h), Some(!h)));
        is_as_large(&large, extents, &[]);
        for i in 0..1000 {
            let h = in_bucket_0(i) ^ i << 63;
            assert_eq!(put(&large, h, i), None);
        }
        assert!(large.stats().splits > 0);
        assert_sound(&large);
    }
}

/// However little room is left: an insert that fails changes nothing, and what failed in the middle is given back.
#[test]
fn small_segments_without_room_stay_as_they_are() {
    let mut small = 0;
    for extents in 4..=24 {
        let pool = pool_on(Dram::new(extents << 10).unwrap(), GROWING);
        let place: Place<Dram> = pool.clone().into();
        let pea = Pea::create(pool, Policy::default()).unwrap();
        let mut hashes = Vec::new();
        loop {
            let h = in_bucket_0(hashes.len() as u64);
            match pea.update(h, Room::ForNew, &mut |_| Ok(Change::Set(!h))) {
                Ok(_) => hashes.push(h),
                Err(e) => {
                    assert!(matches!(e.kind(), ErrorKind::Full { .. }), "{e}");
                    break;
                }
            }
        }
        assert!(hashes.len() >= 12);
        if pea.stats().slots == 24 {
            small += 1;
            assert_eq!((place.unit_extents().len(), place.directory_extents().len()), (2, 1));
        }
        assert!(hashes.iter().all(|h| pea.get(*h).unwrap() == Some(!h)));
        assert_sound(&pea);
    }
    // Three are there, two large segments and an array come.
    assert_eq!(small, 9);
}

/// A merge takes the reserve where others have taken all that was free.
#[test]
fn a_merge_has_space_where_nothing_is_free() {
    let pool = pool_on(Dram::new(64 << 10).unwrap(), TINY);
    let place: Place<Dram> = pool.clone().into();
    let pea = Pea::create(pool, Policy::default()).unwrap();
    let hash = |i: u64| WordMix::new(9).mix(i) << 1;
    let is_put = |i: &u64| pea.update(hash(*i), Room::ForNew, &mut |_| Ok(Change::Set(1))).is_ok();
    let keys = (0..).take_while(is_put).count() as u64;
    while place.take_unit_extent().is_ok() {}
    assert!((0..keys).all(|i| remove(&pea, hash(i)) == Some(1)));
    assert_eq!(pea.stats().depths, [0, 2], "everything has merged");
}

/// A map beside others has segments of half a mebibyte, whatever the extents are of the pool.
#[test]
fn segments_have_one_size_in_all_pools() {
    for (extent_shift, slots) in [(16, 2 << 8), (19, 2 << 11), (20, 2 << 12)] {
        let geometry = Geometry { extent_shift, ..Geometry::default() };
        let (_dir, path) = new_path();
        let pool: durahash::Pool = Options::new().geometry(geometry).create(&path).unwrap();
        let options = Options::new().design(Design::Pea);
        let map: Map<u64, u64> = pool.create("beside", &options).unwrap();
        assert_eq!(map.stats().unwrap().index.slots, slots * 15);
        for i in 0..8000 {
            map.put(&i, &i).unwrap();
        }
        let slots = slots.max(2 << 11);
        assert_eq!(map.stats().unwrap().index.slots, slots * 15);
        drop((map, pool));
        let pool: durahash::Pool = Options::new().open(&path).unwrap();
        let map: Map<u64, u64> = pool.open("beside").unwrap();
        assert!((0..8000).all(|i| map.get(&i).unwrap() == Some(i)));
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
    }
}

/// Readers find every key, and writers lose none, while segments become large under them.
#[test]
fn others_are_at_work_while_segments_become_large() {
    for _ in 0..budget(10, 100) {
        let map: Map<u64, u64> = Options::new().design(Design::Pea).in_memory().unwrap();
        let done = [const { AtomicU64::new(0) }; 2];
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (map, done) = (&map, &done);
                scope.spawn(move || {
                    for i in 0..6000 {
                        map.put(&(i * 2 + writer), &i).unwrap();
                        done[writer as usize].store(i + 1, Ordering::Release);
                    }
                });
                scope.spawn(move || {
                    let mut at = 0;
                    while at < 6000 {
                        let until = done[writer as usize].load(Ordering::Acquire);
                        // The last ones, and some of all before.
                        for i in (at..until).chain((0..until).step_by(97)) {
                            assert_eq!(map.get(&(i * 2 + writer)).unwrap(), Some(i));
                        }
                        at = until;
                    }
                });
            }
        });
        assert_eq!(map.len().unwrap(), 12_000);
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
        let index = map.stats().unwrap().index;
        assert!(index.medium_bytes > 1 << 20, "{index:?}");
    }
}

/// The heads of all segments of an image.
fn heads(image: &mut [u64]) -> impl Iterator<Item = &mut u64> {
    const UNITS: u8 = 2;
    let kinds: Vec<u8> = image[64..].iter().flat_map(|word| word.to_le_bytes()).collect();
    let extents = image.chunks_mut(128).zip(kinds).filter(|(_, kind)| *kind == UNITS);
    extents.flat_map(|(words, _)| words.chunks_mut(32).map(|bucket| &mut bucket[0]))
}

/// Lookups end where an end bit says so: where it is wrong, what is behind it is lost until it is mended.
#[test]
fn an_end_bit_that_is_wrong_is_found_and_mended() {
    [TINY, GROWING].into_iter().for_each(is_mended);
}

fn is_mended(geometry: Geometry) {
    let sim = Sim::new(TINY_BYTES);
    let hashes = fill_with_stash(&pea_of(sim.clone(), geometry));
    let mut image = sim.image();
    heads(&mut image).for_each(|head| *head |= 1);
    let sim = Sim::from_image(&image, TINY_BYTES);
    let pea = Pea::open(Arc::new(Pool::open(sim, false).unwrap()), Policy::default()).unwrap();
    let mut found = Vec::new();
    pea.check(&mut |finding| found.push(finding.invariant)).unwrap();
    assert_eq!(found, ["PEA-10"; 6], "what is in the stash");
    let lost = hashes.iter().filter(|h| pea.get(**h).unwrap().is_none());
    assert_eq!(lost.count(), 6);
    assert_eq!(scanned(&pea).len(), 12, "an iteration has them");
    pea.mend().unwrap();
    assert_sound(&pea);
    assert!(hashes.iter().all(|h| pea.get(*h).unwrap() == Some(!h)));
}

/// The same of records, which an iteration finds by lookups.
#[test]
fn compaction_finds_entries_that_an_end_bit_hides() {
    let (_dir, path) = new_path();
    // Without a log, which would have the first extents.
    let options = Options::new().design(Design::Pea).geometry(TINY).sync_mode(SyncMode::Process);
    let options = options.seed(1);
    let map: Map<str, str> = options.create(&path).unwrap();
    let keys: Vec<String> = (0..60).map(|i| i.to_string()).collect();
    keys.iter().for_each(|key| map.put(key, key).unwrap());
    map.close().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let mut words: Vec<u64> = words.collect();
    heads(&mut words).for_each(|head| *head |= 1);
    std::fs::write(&path, words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
        .unwrap();
    let found = || {
        let map: Map<str, str> = Options::new().open(&path).unwrap();
        keys.iter().filter(|key| map.get(*key).unwrap().is_some_and(|v| v == **key)).count()
    };
    assert!(found() < keys.len());
    Options::new().compact::<Map<str, str>>(&path).unwrap();
    assert_eq!(found(), keys.len());
}

/// A head that says more slots are live than the geometry uses is damaged; entries in them are read, and
/// split with the others.
#[test]
fn slots_that_the_geometry_does_not_use_outlive_a_split() {
    let sim = Sim::new(TINY_BYTES);
    let mut hashes = fill_with_stash(&pea(sim.clone()));
    let mut image = sim.image();
    let is_live = |bucket: &[u64]| bucket[0] >> 1 & 1 == 1 && hashes.contains(&bucket[2]);
    let full: Vec<usize> =
        (0..image.len() / 32).filter(|i| is_live(&image[i * 32..][..32])).collect();
    assert_eq!(full.len(), 4, "all buckets of a segment");
    for (n, bucket) in full.into_iter().enumerate() {
        let words = &mut image[bucket * 32..][..32];
        // A bucket of three slots uses 0, 7 and 8.
        for i in 11..14 {
            let h = in_bucket_0(100 + 4 * n as u64 + i as u64);
            words[0] |= 2 << i;
            words[2 + 2 * i] = h;
            words[3 + 2 * i] = !h;
            let shift = (i + 2) % 8 * 8;
            words[1] = words[1] & !(0xff << shift) | (h & 0xff) << shift;
            hashes.push(h);
        }
    }
    let sim = Sim::from_image(&image, TINY_BYTES);
    let pea = Pea::open(Arc::new(Pool::open(sim, false).unwrap()), Policy::default()).unwrap();
    let mut found = Vec::new();
    pea.check(&mut |finding| found.push(finding.invariant)).unwrap();
    assert_eq!(found, ["PEA-2"; 4]);
    let new = in_bucket_1(50);
    assert_eq!(put(&pea, new, !new), None);
    assert_eq!(pea.stats().splits, 1);
    for h in hashes.iter().chain([&new]) {
        assert_eq!(pea.get(*h).unwrap(), Some(!h), "{h:#018x}");
    }
}
