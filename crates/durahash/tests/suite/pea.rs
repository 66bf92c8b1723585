//! Mistakes of public code of Pea Hash, each once: with the hashes chosen so that what is to
//! happen happens.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use durahash::index::{Index, IndexBase};
use durahash::pea::{Pea, Policy};
use durahash::{Design, Map, Options, SyncMode};
use durahash_media::sim::Sim;
use durahash_media::{Dram, Geometry, Medium, Pool};
use durahash_testkit::{new_path, pool_on};

use super::{put, remove, scanned};

/// Two main buckets of three slots, two of stash.
const TINY: Geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 0 };
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

fn pea<M: Medium>(medium: M) -> Pea<M> {
    Pea::create(pool_on(medium, TINY), Policy::default()).unwrap()
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
    assert_eq!(pea.stats().pea.unwrap().strategies, [1, 0, 1], "the lower half is empty");
    hashes
}

#[test]
fn what_is_in_the_stash_outlives_a_kill_and_later_inserts() {
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
fn lookups_find_what_moves_and_removes_take_what_splits() {
    for split_bits in [1, 2] {
        let policy = Policy { split_bits, ..Policy::default() };
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
fn every_policy_holds_what_it_is_given() {
    use durahash::pea::Strategy;
    for split_bits in [1, 2] {
        for (first, last) in [
            (Strategy::Single, Strategy::Single),
            (Strategy::TwoChoice, Strategy::TwoChoice),
            (Strategy::Stash, Strategy::Stash),
            (Strategy::Single, Strategy::TwoChoice),
        ] {
            let policy = Policy { split_bits, first, last, ..Policy::default() };
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
    let sim = Sim::new(TINY_BYTES);
    let hashes = fill_with_stash(&pea(sim.clone()));
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
fn compaction_finds_what_an_end_bit_hides() {
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

/// In a map of format 3 bit 0 of every head is one and no end bit.
#[test]
fn a_pool_of_format_3_has_no_end_bits() {
    // So that the head of both formats has one extent.
    const BYTES: u64 = 256 << 10;
    let sim = Sim::new(BYTES);
    let mut hashes = fill_with_stash(&pea(sim.clone()));
    let mut image = sim.image();
    // In extents of 1 KiB the tables of both formats begin at the same byte.
    image[2] = 3;
    let fixed: Vec<u8> = image[..11].iter().flat_map(|word| word.to_le_bytes()).collect();
    image[11] = u64::from(crate::logged::crc32(&fixed));
    heads(&mut image).for_each(|head| *head |= 1);
    let sim = Sim::from_image(&image, BYTES);
    let pool = Arc::new(Pool::open(sim.clone(), false).unwrap());
    let pea = Pea::open(pool, Policy::default()).unwrap();
    assert!(hashes.iter().all(|h| pea.get(*h).unwrap() == Some(!h)));
    for i in 6..40 {
        hashes.extend([in_bucket_0(i), in_bucket_1(i)]);
        put(&pea, in_bucket_0(i), !in_bucket_0(i));
        put(&pea, in_bucket_1(i), !in_bucket_1(i));
        assert_sound(&pea);
    }
    assert!(pea.stats().splits > 5);
    assert!(hashes.iter().all(|h| pea.get(*h).unwrap() == Some(!h)));
    let mut image = sim.image();
    assert!(heads(&mut image).all(|head| *head & 1 == 1));
}

/// A head that says more slots are live than the geometry uses is damaged; what is in them is read, and
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
