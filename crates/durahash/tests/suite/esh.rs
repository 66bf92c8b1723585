//! Where ESH's paper leaves its metadata inexact, or would lose what was acknowledged: each once, with
//! the hashes chosen so that what is to happen happens.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use durahash::esh::Esh;
use durahash::index::{Change, Index, IndexBase, Room};
use durahash::{Design, ErrorKind, Map, Options, SyncMode};
use durahash_media::metered::Metered;
use durahash_media::sim::{Action, Call, Hook, Sim, Site, copies_pass};
use durahash_media::{Dram, Event, Geometry, Memory, Pool};
use durahash_testkit::{new_path, pool_on};

use super::{assert_gives_back, assert_holds, findings, put, remove, spread};

/// Four buckets of three slots; a segment is an extent.
const TINY: Geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 4 };
const TINY_BYTES: u64 = 1 << 20;
const BUCKET_WORDS: usize = 32;
/// Of a bucket, behind its commit word.
const LOCK_WORD: usize = 1;

/// The `i`-th hash of the upper half with this home.
fn at_home(home: u64, i: u64) -> u64 {
    assert!(i < 1 << 20);
    1 << 63 | i.reverse_bits() >> 1 | home << 8 | i & 0xff
}

/// The image that a process leaves that dies now, opened again.
fn reopen(sim: &Sim) -> (Sim, Esh<Sim>) {
    let sim = Sim::from_image(&sim.image(), TINY_BYTES);
    let esh = Esh::open(Arc::new(Pool::open(sim.clone(), false).unwrap())).unwrap();
    (sim, esh)
}

/// An image, opened so that nothing writes to it.
fn as_left(sim: Sim) -> Esh<Sim> {
    let pool = Arc::new(Pool::open(sim, false).unwrap());
    let esh = Esh::open(pool.clone()).unwrap();
    pool.poison();
    esh
}

fn tiny() -> (Sim, Esh<Sim>) {
    let sim = Sim::new(TINY_BYTES);
    let esh = Esh::create(pool_on(sim.clone(), TINY)).unwrap();
    (sim, esh)
}

/// Segments that were repaired, that are to be, and live slots.
fn figures(index: &dyn Index) -> (u64, u64, u64) {
    let stats = index.stats();
    let esh = stats.esh.unwrap();
    (esh.repairs, esh.unrepaired, stats.slots_used)
}

/// The paper discards what a crash left in doubt (§4.1): nothing that was acknowledged may go.
#[test]
fn segments_are_repaired_on_first_use_and_nothing_is_discarded() {
    let (sim, esh) = tiny();
    (0..400).for_each(|i| assert_eq!(put(&esh, spread(i), i), None));
    let segments: u64 = esh.stats().depths.iter().sum();
    assert!(segments > 30);

    let (sim, esh) = reopen(&sim);
    assert_eq!(findings(&esh), [], "before any repair");
    assert_eq!(esh.get(spread(7)).unwrap(), Some(7));
    let first = sim.image();
    assert_eq!(esh.get(spread(7)).unwrap(), Some(7));
    assert!(sim.image() == first, "a repaired segment is not written to by readers");
    put(&esh, spread(400), 400);
    assert_eq!(findings(&esh), [], "with some repaired");

    // A second crash, before all are.
    let (sim, esh) = reopen(&sim);
    assert_eq!(esh.len().unwrap(), 401);
    let all = esh.stats().depths.iter().sum();
    assert_eq!(figures(&esh).0, all, "each once");
    assert_eq!(findings(&esh), []);
    assert!((0..=400).all(|i| esh.get(spread(i)).unwrap() == Some(i)));
    assert_eq!(figures(&esh).0, all);

    // Background work does what is left.
    let (_, esh) = reopen(&sim);
    while esh.step().unwrap() {}
    assert_eq!(figures(&esh).0, all);
    assert_eq!(findings(&esh), []);
}

#[test]
fn figures_tell_how_many_segments_are_repaired() {
    let (sim, esh) = tiny();
    (0..400).for_each(|i| assert_eq!(put(&esh, spread(i), i), None));
    let segments: u64 = esh.stats().depths.iter().sum();
    assert_eq!(figures(&esh), (0, 0, 400));

    let (_, esh) = reopen(&sim);
    assert_eq!(findings(&esh), [], "before any repair");
    assert_eq!(esh.get(spread(7)).unwrap(), Some(7));
    assert_eq!(figures(&esh), (1, segments - 1, 400));
    assert_eq!(figures(&esh), (segments, 0, 400), "the count went to them all");
    assert_eq!((esh.len().unwrap(), findings(&esh)), (400, vec![]));

    // Where nothing may be written, all says the same without any repair.
    let sim = Sim::from_image(&sim.image(), TINY_BYTES);
    let esh = as_left(sim.clone());
    let before = sim.image();
    for _ in 0..2 {
        assert_eq!(figures(&esh), (0, segments, 400));
        assert_eq!((esh.len().unwrap(), findings(&esh)), (400, vec![]));
    }
    assert!(sim.image() == before);
}

#[test]
fn a_clean_close_leaves_nothing_to_repair_and_the_count() {
    copies_pass(true);
    let (dir, path) = new_path();
    let options = Options::new().design(Design::Esh).geometry(TINY).max_bytes(TINY_BYTES);
    let map: Map<u64, u64> = options.create(&path).unwrap();
    (0..300).for_each(|i| map.put(&i, &i).unwrap());
    map.close().unwrap();
    let copy = dir.path().join("copy");
    for round in 0..3_u64 {
        let map: Map<u64, u64> = Options::new().open(&path).unwrap();
        assert_eq!(map.len().unwrap(), 300 + round);
        map.put(&(1000 + round), &0).unwrap();
        assert!((0..300).all(|i| map.get(&i).unwrap() == Some(i)));
        assert_eq!(map.stats().unwrap().index.esh.unwrap().repairs, 0);
        if round == 1 {
            std::fs::copy(&path, &copy).unwrap();
        }
        map.close().unwrap();
    }
    // Some segments are older than the last crash, some are not; a clean close after it keeps apart
    // which are which.
    let map: Map<u64, u64> = Options::new().open(&copy).unwrap();
    assert_eq!(map.get(&1).unwrap(), Some(1));
    assert_eq!(map.iter().count(), 302);
    let repairs = map.stats().unwrap().index.esh.unwrap().repairs;
    assert_eq!(repairs, map.stats().unwrap().index.depths.iter().sum::<u64>());
    map.close().unwrap();
    let map: Map<u64, u64> = Options::new().open(&copy).unwrap();
    assert_eq!((map.iter().count(), map.stats().unwrap().index.esh.unwrap().repairs), (302, 0));
}

#[test]
fn repairs_go_on_after_a_clean_close() {
    let (sim, esh) = tiny();
    (0..400).for_each(|i| assert_eq!(put(&esh, spread(i), i), None));
    let sim = Sim::from_image(&sim.image(), TINY_BYTES);
    let pool = Arc::new(Pool::open(sim.clone(), false).unwrap());
    let esh = Esh::open(pool.clone()).unwrap();
    assert_eq!(esh.get(spread(1)).unwrap(), Some(1));
    IndexBase::close(&esh);
    pool.close().unwrap();
    let (_, esh) = reopen(&sim);
    assert_eq!(esh.len().unwrap(), 400);
    let all: u64 = esh.stats().depths.iter().sum();
    assert_eq!(figures(&esh).0, all - 1, "one was repaired before");
}

/// A pool that is opened for reading is not written to, so it stays as the crash left it.
#[test]
fn a_read_only_open_finds_everything_without_repair() {
    copies_pass(true);
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("pool"), dir.path().join("copy"));
    let options = Options::new().design(Design::Esh).geometry(TINY).max_bytes(TINY_BYTES);
    let map: Map<u64, u64> = options.create(&path).unwrap();
    (0..300).for_each(|i| map.put(&i, &i).unwrap());
    std::fs::copy(&path, &copy).unwrap();
    let before = std::fs::read(&copy).unwrap();
    let reader: Map<u64, u64> = Options::new().read_only(true).open(&copy).unwrap();
    assert!((0..300).all(|i| reader.get(&i).unwrap() == Some(i)));
    assert_eq!(reader.get(&300).unwrap(), None);
    assert_eq!((reader.len().unwrap(), reader.iter().count()), (300, 300));
    reader.check(&mut |finding| panic!("{finding:?}")).unwrap();
    assert_eq!(reader.stats().unwrap().index.esh.unwrap().repairs, 0);
    drop(reader);
    assert!(std::fs::read(&copy).unwrap() == before);
}

/// OFRB, OC and the slot in the other bucket are three stores: all that a crash may leave of them.
#[test]
fn overflow_metadata_that_a_crash_left_behind_is_made_exact() {
    let (sim, esh) = tiny();
    let home: Vec<u64> = (0..6).map(|i| at_home(0, i)).collect();
    home.iter().for_each(|h| assert_eq!(put(&esh, *h, !h), None));
    let before = sim.image();
    let segment = before.iter().position(|word| *word == home[0]).unwrap() / 128 * 128;
    let commit = |image: &[u64], bucket: usize| image[segment + bucket * 32];
    assert_eq!(commit(&before, 0) >> 21 & 0x3ff, 3, "OC");
    assert!(commit(&before, 0) >> 20 & 1 == 1 && commit(&before, 0) >> 14 & 63 == 3, "OB, OFRB");

    // The commit of the last one is not durable yet, but all that comes before it is.
    let mut image = before.clone();
    let last = (1..4).find(|b| {
        let at = segment + b * 32;
        image[at..at + 32].contains(&home[5])
    });
    let at = segment + last.unwrap() * 32;
    image[at] = reparity(image[at] & !0x3fff & !(0xf << 31));
    let (sim, esh) = reopen(&Sim::from_image(&image, TINY_BYTES));
    assert_eq!(esh.get(home[5]).unwrap(), None);
    assert_eq!((esh.len().unwrap(), findings(&esh)), (5, vec![]));
    assert_eq!(commit(&sim.image(), 0) >> 21 & 0x3ff, 2, "OC");
    assert!((0..5).all(|i| esh.get(home[i]).unwrap() == Some(!home[i])));

    // A later remove is not misled by what was there.
    for (left, h) in home[..5].iter().enumerate().rev() {
        assert_eq!(remove(&esh, *h), Some(!h));
        assert_eq!((esh.len().unwrap(), findings(&esh)), (left as u64, vec![]));
    }
    assert_eq!(commit(&sim.image(), 0) >> 14 & 0x1_ffff, 0, "MC aside, nothing overflows");
}

/// The word of a commit with the right parity.
fn reparity(word: u64) -> u64 {
    let word = word & !(1 << 63);
    word | u64::from(word.count_ones() % 2) << 63
}

/// The image that a crash leaves between the two commits of a slot on its way home, and the hashes of that home:
/// the second was removed, and the fourth, which came into its place, is still there twice.
fn on_its_way_home() -> (Sim, Vec<u64>) {
    let (sim, esh) = tiny();
    let home: Vec<u64> = (0..4).map(|i| at_home(0, i)).collect();
    home.iter().for_each(|h| assert_eq!(put(&esh, *h, !h), None));
    sim.record(Vec::new());
    assert_eq!(remove(&esh, home[1]), Some(!home[1]));
    let _ = sim.recorded();
    assert_eq!(esh.get(home[3]).unwrap(), Some(!home[3]));

    // As it was before the other bucket's commit word lost the slot.
    let mut image = sim.image();
    let segment = image.iter().position(|word| *word == home[0]).unwrap() / 128 * 128;
    let holds = |image: &[u64], b: usize| image[segment + b * 32..][..32].contains(&home[3]);
    assert!(holds(&image, 0), "it came home");
    let other = (1..4).find(|b| holds(&image, *b)).expect("a stale copy");
    let at = segment + other * 32;
    let slot =
        (image[at + 4..at + 32].iter().position(|word| *word == home[3]).unwrap() / 2) as u32;
    image[at] = reparity(image[at] | 1 << slot | 1 << 31);
    // Nor was its fingerprint made wrong yet, nor the home's OFRB smaller.
    image[segment] = reparity(image[segment] | 1 << 20 | (other as u64) << 14);
    image[at + 2 + slot as usize / 8] ^= 0xff << (slot % 8 * 8);
    (Sim::from_image(&image, TINY_BYTES), home)
}

#[test]
fn entries_on_their_way_home_are_neither_lost_nor_doubled() {
    let (sim, home) = on_its_way_home();
    let (_, esh) = reopen(&sim);
    assert_eq!(findings(&esh), [], "both may be there before the repair");
    assert_eq!(esh.get(home[3]).unwrap(), Some(!home[3]));
    assert_eq!((esh.len().unwrap(), findings(&esh)), (3, vec![]));
    assert_eq!(put(&esh, home[3], 5), Some(!home[3]));
    assert_eq!(remove(&esh, home[3]), Some(5));
    assert_eq!((esh.get(home[3]).unwrap(), esh.len().unwrap()), (None, 2));
}

/// Its double goes away before OFRB does: at no moment of the repair is there a slot that OFRB does not
/// lead to.
#[test]
fn a_repair_that_is_cut_short_leaves_nothing_out_of_reach() {
    let (sim, home) = on_its_way_home();
    let (sim, esh) = reopen(&sim);
    let mut image = sim.image();
    sim.record(Vec::new());
    assert_eq!(esh.get(home[3]).unwrap(), Some(!home[3]));
    let mut stores = 0;
    for step in sim.recorded() {
        if let Action::Store { word, v } | Action::Cas { word, v } = step.action {
            image[word as usize] = v;
            stores += 1;
            let esh = as_left(Sim::from_image(&image, TINY_BYTES));
            assert_eq!((esh.len().unwrap(), findings(&esh)), (3, vec![]), "{}", step.site);
            assert_eq!(esh.get(home[3]).unwrap(), Some(!home[3]));
        }
    }
    assert!(stores > 5, "only {stores} stores");
}

/// A lock, or an epoch, may reach the medium at any time: a cache evicts when it likes.
#[test]
fn locks_that_reached_the_medium_block_nobody() {
    let (sim, esh) = tiny();
    put(&esh, at_home(0, 1), 1);
    let mut held = None;
    let read = esh.update(at_home(0, 1), Room::None, &mut |_| {
        held = Some(sim.image());
        Ok(Change::Keep)
    });
    assert_eq!(read.unwrap(), Some(1));
    let held = Sim::from_image(&held.unwrap(), TINY_BYTES);
    let (sim, esh) = reopen(&held);
    assert_eq!(esh.get(at_home(0, 1)).unwrap(), Some(1));
    assert_eq!(put(&esh, at_home(0, 1), 2), Some(1));
    assert_eq!(findings(&esh), []);
    // And the pool of which that is left, too.
    let (_, esh) = reopen(&sim);
    assert_eq!(remove(&esh, at_home(0, 1)), Some(2));
}

/// Every slot is taken when a segment splits, whatever the homes of its hashes.
#[test]
fn segments_are_full_when_they_split() {
    for geometry in [TINY, Geometry { buckets: 8, extent_shift: 12, slots: 0, ..TINY }] {
        let pool = pool_on(Dram::new(64 << 20).unwrap(), geometry);
        let esh = Esh::create(pool).unwrap();
        let slots = if geometry.slots == 0 { 14 } else { 3 };
        let capacity = slots * u64::from(geometry.buckets);
        let mut splits = 0;
        for i in 0..20_000 {
            let mut unit = Vec::new();
            let h = spread(i);
            let splits_before = esh.stats().splits;
            // The unit of `h` is the last one that a walk to it meets.
            let mut at = Some(0);
            if i % 64 == 0 || i < 2000 {
                while let Some(from) = at.filter(|from| *from <= h) {
                    unit.clear();
                    at = esh.scan(from, &mut unit).unwrap();
                }
            }
            put(&esh, h, i);
            if esh.stats().splits > splits_before && !unit.is_empty() {
                assert_eq!(unit.len() as u64, capacity, "key {i}");
                splits += 1;
            }
        }
        assert!(splits > 5, "only {splits} splits were looked at");
        assert_eq!(findings(&esh), []);
    }
}

/// An open reads the array of the directory and no segment, however many there are.
#[test]
fn an_open_reads_no_segment() {
    let bytes = 64 << 20;
    let reads = |keys: u64| {
        let sim = Sim::new(bytes);
        let esh = Esh::create(pool_on(sim.clone(), Geometry::default())).unwrap();
        (0..keys).for_each(|i| assert_eq!(put(&esh, spread(i), i), None));
        let image = sim.image();
        let medium = Metered::new(Sim::from_image(&image, bytes));
        let pool = Arc::new(Pool::open(medium, false).unwrap());
        let before = pool.medium().counts();
        let esh = Esh::open(pool.clone()).unwrap();
        let open = (pool.medium().counts() - before).blocks_read;
        let before = pool.medium().counts();
        assert_eq!(esh.get(spread(1)).unwrap(), Some(1));
        let get = (pool.medium().counts() - before).blocks_read;
        let array = (8 << esh.stats().global_depth) / 256;
        (open, array, get)
    };
    for keys in [1000, 20_000, 80_000] {
        let (open, array, get) = reads(keys);
        println!("{keys} keys: {open} blocks read by the open, {get} by the first get");
        assert!(open <= array + 24, "{open} blocks, the array has {array}");
        assert!(get <= 10, "{get} blocks");
    }
}

/// A clean close behind a log keeps no line that was not flushed: the epochs of repaired buckets are.
/// Segments of which some buckets were dated and others not kept writers waiting for ever.
#[test]
fn a_clean_close_behind_a_log_keeps_repairs() {
    copies_pass(true);
    let dir = tempfile::tempdir().unwrap();
    for mode in [SyncMode::Strict, SyncMode::INTERVAL] {
        let (path, copy) = (dir.path().join("pool"), dir.path().join("copy"));
        let options = Options::new().live_image(false).log_bytes(256 << 10).sync_mode(mode);
        let made = options.clone().design(Design::Esh).geometry(TINY).max_bytes(TINY_BYTES);
        let map: Map<u64, u64> = made.create(&path).unwrap();
        (0..300).for_each(|i| map.put(&i, &i).unwrap());
        // As a process leaves it that dies now.
        std::fs::copy(&path, &copy).unwrap();
        drop(map);
        std::fs::remove_file(&path).unwrap();

        let map: Map<u64, u64> = options.open(&copy).unwrap();
        (300..320).for_each(|i| map.put(&i, &i).unwrap());
        let repairs = map.stats().unwrap().index.esh.unwrap().repairs;
        assert!(repairs > 0, "{mode:?}");
        while map.step().unwrap() {}
        map.close().unwrap();
        let map: Map<u64, u64> = options.open(&copy).unwrap();
        (320..700).for_each(|i| map.put(&i, &i).unwrap());
        (0..700).for_each(|i| assert_eq!(map.remove(&i).unwrap(), Some(i), "{mode:?}"));
        let repairs = map.stats().unwrap().index.esh.unwrap().repairs;
        assert_eq!(repairs, 0, "{mode:?}: all was repaired before");
        map.check(&mut |finding| panic!("{finding:?}")).unwrap();
        map.close().unwrap();
        std::fs::remove_file(&copy).unwrap();
    }
}

/// A pool that was closed, one bit of one bucket's lock flipped, and writers that come first: a date
/// that is not to be trusted among others that are.
#[test]
fn one_flipped_bit_of_a_lock_stops_nobody() {
    const KEYS: u64 = 25;
    let sim = Sim::new(TINY_BYTES);
    let options = Options::new().design(Design::Esh).geometry(TINY).max_bytes(TINY_BYTES).seed(3);
    let map: Map<u64, u64> = options.create_on(sim.clone()).unwrap();
    (0..KEYS).for_each(|i| map.put(&i, &i).unwrap());
    map.close().unwrap();
    let image = sim.image();
    let buckets = image.len() / BUCKET_WORDS;
    let mut repaired = 0;
    for (bucket, bit) in (2..buckets).flat_map(|bucket| (0..64).map(move |bit| (bucket, bit))) {
        let mut image = image.clone();
        if image[bucket * BUCKET_WORDS..][..BUCKET_WORDS].iter().all(|word| *word == 0) {
            continue;
        }
        image[bucket * BUCKET_WORDS + LOCK_WORD] ^= 1 << bit;
        let sim = Sim::from_image(&image, TINY_BYTES);
        // The first word may be one of the directory, or of the free list.
        let Ok(map) = Options::new().open_on::<Map<u64, u64>, _>(sim) else {
            continue;
        };
        let refused = |e: durahash::Error| {
            assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{bucket} {bit}: {e}");
        };
        for i in KEYS..KEYS + 15 {
            map.put(&i, &i).unwrap_or_else(refused);
        }
        for i in 0..KEYS + 15 {
            map.remove(&i).map(drop).unwrap_or_else(refused);
        }
        repaired += map.stats().unwrap().index.esh.unwrap().repairs;
    }
    assert!(repaired > 100, "{repaired} repairs");
}

#[test]
fn extents_of_an_emptied_map_go_back_to_the_pool() {
    for geometry in [TINY, Geometry { extent_shift: 12, ..TINY }] {
        let sim = Sim::new(TINY_BYTES);
        let pool = pool_on(sim.clone(), geometry);
        let esh = Esh::create(pool.clone()).unwrap();
        let hashes: Vec<u64> = (0..1500).map(spread).collect();
        assert_gives_back(&pool, &esh, &hashes, 4, || {
            // They have it all for a while, and leave damaged locks there that seem to be held.
            let mut blocks = Vec::new();
            while let Ok(Some(off)) = pool.alloc_block(pool.extent_bytes(), true) {
                let words = pool.words(off, pool.extent_bytes() / 8).unwrap();
                words.iter().for_each(|word| sim.store(word, u64::from(pool.epoch()) << 32 | 5));
                blocks.push(off);
            }
            blocks.iter().for_each(|off| pool.free_block(*off).unwrap());
        });
        let (_, esh) = reopen(&sim);
        assert_holds(&esh, &HashMap::new());
    }
}

/// The work of others while a thread is held up before one of its calls, as long as it has no lock.
#[derive(Clone)]
struct Late {
    left: Arc<AtomicUsize>,
    others: Arc<Mutex<Option<Others>>>,
}

type Others = Box<dyn FnOnce() + Send>;

impl Hook for Late {
    fn before(&self, call: Call, _site: Site) {
        if matches!(call, Call::Event(Event::Locked(_))) {
            self.left.store(0, Ordering::Relaxed);
        }
        let left = |left: usize| left.checked_sub(1);
        if self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left) == Ok(1) {
            let others = self.others.lock().unwrap().take().expect("once");
            others();
        }
    }
}

/// Does something with a hash.
type Operate = fn(&Esh<Sim>, u64);

/// A thread is held up before its `at`-th call of an operation on a hash, which is there. Meanwhile all others are
/// removed, and all extents that go back to the pool get words of another use: where locks were, the same ones
/// but for the bits of `differs`, so that versions may be valid; else zeros. Returns how many extents, unless the
/// operation has no such call.
fn held_up((reopens, differs): (bool, u64), h: u64, at: usize, operate: Operate) -> Option<usize> {
    let sim = Sim::new(TINY_BYTES);
    let esh = Esh::create(pool_on(sim.clone(), TINY)).unwrap();
    let hashes: Vec<u64> = (0..200).map(spread).collect();
    hashes.iter().for_each(|h| assert_eq!(put(&esh, *h, !h), None));
    let before = sim.image();
    let sim = Sim::from_image(&before, TINY_BYTES);
    let pool = Arc::new(Pool::open(sim.clone(), false).unwrap());
    let esh = Arc::new(Esh::open(pool.clone()).unwrap());
    if !reopens {
        assert_eq!(esh.len().unwrap(), 200, "which repairs all");
    }
    let before = sim.image();
    sim.set_limit(0);

    let taken = Arc::new(Mutex::new(Vec::new()));
    let others = {
        let (sim, pool, esh, taken) = (sim.clone(), pool.clone(), esh.clone(), taken.clone());
        move || {
            let others = hashes.iter().filter(|other| **other != h);
            others.for_each(|other| assert_eq!(remove(&*esh, *other), Some(!other)));
            let bytes = pool.extent_bytes();
            while let Ok(Some(off)) = pool.alloc_block(bytes, true) {
                for (i, word) in pool.words(off, bytes / 8).unwrap().iter().enumerate() {
                    let at = off as usize / 8 + i;
                    let v = if i % BUCKET_WORDS == LOCK_WORD { before[at] ^ differs } else { 0 };
                    sim.store(word, v);
                    taken.lock().unwrap().push((at, v));
                }
            }
        }
    };
    let late = Late {
        left: Arc::new(AtomicUsize::new(at)),
        others: Arc::new(Mutex::new(Some(Box::new(others)))),
    };
    sim.set_hook(Box::new(late.clone()));
    operate(&esh, h);
    late.left.store(0, Ordering::Relaxed);
    let was_held_up = late.others.lock().unwrap().take().is_none();

    let image = sim.image();
    let taken = taken.lock().unwrap();
    assert!(taken.iter().all(|(at, v)| image[*at] == *v), "a word of another use was changed");
    assert_eq!(findings(&*esh), []);
    if was_held_up {
        // Extents that waited for the thread go back now.
        esh.step().unwrap();
        let least = pool.stats().unit_bytes;
        assert!(least <= 4 * pool.extent_bytes(), "{least} bytes");
    }
    was_held_up.then_some((taken.len() * 8) >> TINY.extent_shift)
}

/// A thread that found a segment in the directory reads or locks there, however late it is.
#[test]
fn threads_that_are_late_meet_no_other_use_of_an_extent() {
    let operations: [(&str, Operate); 5] = [
        ("get", |esh, h| assert_eq!(esh.get(h).unwrap(), Some(!h))),
        ("read", |esh, h| {
            let mut last = None;
            let read = esh.read(h, &mut |payload, _| {
                last = payload;
                Ok(())
            });
            read.unwrap();
            assert_eq!(last, Some(!h));
        }),
        ("scan", |esh, h| {
            let mut found = Vec::new();
            esh.scan(h, &mut found).unwrap();
            assert_eq!(found.first(), Some(&(h, !h)));
        }),
        ("put", |esh, h| assert_eq!(put(esh, h, 5), Some(!h))),
        ("remove", |esh, h| assert_eq!(remove(esh, h), Some(!h))),
    ];
    // X, which keeps readers out, without its parity: a damaged lock.
    let words = [(false, 0), (true, 0), (false, 2), (true, 2)];
    for (name, operate) in &operations {
        for (reopens, differs) in words {
            let (mut plays, mut most) = (0, 0);
            for h in (0..200).step_by(40).map(spread) {
                for at in 1.. {
                    let Some(extents) = held_up((reopens, differs), h, at, *operate) else {
                        break;
                    };
                    plays += 1;
                    most = most.max(extents);
                }
            }
            println!("{name}, {reopens}, {differs}: {plays} plays, {most} extents");
            assert!(plays >= 15 && most > 10, "{name}: {plays} plays, {most} extents");
        }
    }
}
