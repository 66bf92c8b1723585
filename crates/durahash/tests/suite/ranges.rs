//! REH's recovery by ranges: what is made when, and what damage does. Crash states are the crash tester's, and so is
//! what a planted fault would break.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use durahash::index::{self, Index, IndexBase, Room};
use durahash::reh::Reh;
use durahash::{Error, ErrorKind, Map, Options, Result, SyncMode};
use durahash_media::metered::Metered;
use durahash_media::sim::{Sim, budget};
use durahash_media::{Geometry, Pool};
use durahash_testkit::{new_path, pool_on};

use super::{assert_holds, findings, put, remove, spread};

pub(super) const MAX_BYTES: u64 = 4 << 20;
/// A word for each bucket.
pub(super) const TINY: Geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 1 };
const EXTENT_WORDS: usize = 128;
pub(super) const BUCKET_WORDS: usize = 32;
pub(super) const LINK: usize = 30;
pub(super) const PREFIX: usize = 31;
/// Root words: of the first bucket, the array, the depths, and the extents taken.
pub(super) const ROOTS: usize = 32;

pub(super) struct Run {
    pub(super) sim: Sim,
    pool: Arc<Pool<Sim>>,
    reh: Reh<Sim>,
    model: HashMap<u64, u64>,
}

/// The table in an image.
pub(super) fn open(image: &[u64]) -> Result<(Sim, Arc<Pool<Sim>>, Reh<Sim>)> {
    let sim = Sim::from_image(image, MAX_BYTES);
    let pool = Arc::new(Pool::open(sim.clone(), false)?);
    Ok((sim, Arc::clone(&pool), Reh::open(pool)?))
}

impl Run {
    fn new(geometry: Geometry) -> Self {
        let sim = Sim::new(MAX_BYTES);
        let pool = pool_on(sim.clone(), geometry);
        let reh = Reh::create(Arc::clone(&pool)).unwrap();
        Run { sim, pool, reh, model: HashMap::new() }
    }

    pub(super) fn with(count: u64) -> Self {
        let mut run = Run::new(TINY);
        (0..count).for_each(|i| run.put(i, i));
        run
    }

    fn put(&mut self, i: u64, v: u64) {
        assert_eq!(put(&self.reh, spread(i), v), self.model.insert(spread(i), v));
    }

    pub(super) fn remove(&mut self, i: u64) {
        assert_eq!(remove(&self.reh, spread(i)), self.model.remove(&spread(i)));
    }

    fn get(&self, i: u64) {
        assert_eq!(self.reh.get(spread(i)).unwrap(), self.model.get(&spread(i)).copied());
    }

    /// Dies, and is opened.
    fn die(self) -> Self {
        let (sim, pool, reh) = open(&self.sim.image()).unwrap();
        Run { sim, pool, reh, ..self }
    }

    fn close(self) -> Vec<u64> {
        self.reh.close();
        drop(self.reh);
        self.pool.close().unwrap();
        self.sim.image()
    }

    fn assert_right(&self) {
        assert_holds(&self.reh, &self.model);
    }
}

/// The words of the array in an image.
pub(super) fn array(image: &[u64]) -> std::ops::Range<usize> {
    array_of(image, EXTENT_WORDS)
}

/// The same in one with extents of so many words.
fn array_of(image: &[u64], extent_words: usize) -> std::ops::Range<usize> {
    let root = image[ROOTS + 1];
    assert_ne!(root, 0, "there is an array");
    let first = (root >> 6 & ((1 << 38) - 1)) as usize * extent_words;
    first..first + (1 << (root & 0x3f))
}

/// Buckets on the chain of an image, with the first of their hashes.
pub(super) fn chain(image: &[u64]) -> Vec<(usize, u64)> {
    let (mut bucket, mut all) = (image[ROOTS] as usize, Vec::new());
    while bucket != 0 {
        all.push((bucket, image[bucket * BUCKET_WORDS + PREFIX]));
        bucket = (image[bucket * BUCKET_WORDS + LINK] >> 24) as usize;
    }
    all
}

pub(super) fn is_corrupt(e: &Error) -> bool {
    matches!(e.kind(), ErrorKind::Corrupt { .. })
}

/// The first operation makes its own range alone; later ones make those beside it, too.
#[test]
fn ranges_beside_each_other_are_made_together() {
    let image = Run::with(2000).sim.image();
    let places = array(&image).len() as u64;
    let pool = Metered::new(Sim::from_image(&image, MAX_BYTES));
    let pool = Arc::new(Pool::open(pool, false).unwrap());
    let reh = Reh::open(Arc::clone(&pool)).unwrap();
    let shift = 64 - places.ilog2();
    let loaded = |places: std::ops::Range<u64>| {
        let before = pool.medium().counts();
        places.for_each(|i| _ = reh.get(i << shift).unwrap());
        (pool.medium().counts() - before).bytes_loaded
    };
    // A walk reads links, prefixes and hashes; a miss has next to nothing to read.
    loaded(0..1);
    assert!(loaded(1..8) > 7 * 32);
    loaded(8..places / 8);
    let middle = places / 16 * 8;
    assert!(loaded(middle + 3..middle + 4) > 8 * 32);
    assert!(loaded(middle..middle + 8) <= 64);
    assert!(loaded(middle + 8..middle + 9) > 8 * 32);
}

#[test]
fn lookups_and_changes_find_everything_in_any_order() {
    let mut run = Run::with(400);
    for round in 1..=8_u64 {
        run = run.die();
        for i in 0..400 {
            let i = spread(i + round) % 400;
            match (i + round) % 5 {
                0 => run.remove(i),
                1 => run.put(i, round),
                _ => run.get(i),
            }
            assert_eq!(run.reh.get(spread(i + 1000)).unwrap(), None);
        }
        run.assert_right();
        assert!(run.reh.stats().merges > 0 || round < 3);
    }
}

#[test]
fn an_open_reads_no_bucket_and_damage_is_told_where_it_is() {
    let run = Run::with(400);
    let mut image = run.sim.image();
    let chain = chain(&image);
    assert!(chain.len() > 120, "{}", chain.len());
    let (bucket, from) = chain[chain.len() / 2];
    image[bucket * BUCKET_WORDS + PREFIX] ^= 1;
    let (_, _, reh) = open(&image).unwrap();
    let (mut told, mut right) = (0, 0);
    for (h, v) in &run.model {
        match reh.get(*h) {
            Ok(found) => {
                assert_eq!(found, Some(*v));
                right += 1;
            }
            Err(e) => {
                assert!(is_corrupt(&e) && h.abs_diff(from) < 1 << 60, "{e}");
                told += 1;
            }
        }
    }
    assert!(told > 0 && right > 10 * told, "{told} in error, {right} right");
    assert!(is_corrupt(&reh.len().unwrap_err()));
    while reh.step().unwrap() {}
    assert!(findings(&reh).iter().any(|finding| finding.invariant == "REH-1"));
    let (h, v) = run.model.iter().find(|(h, _)| reh.get(**h).is_ok()).unwrap();
    assert_eq!(put(&reh, *h, 7), Some(*v));
}

/// Changes the word of this number.
type Change<'a> = &'a dyn Fn(&mut [u64], u64);

#[test]
fn wrong_words_are_slow_and_found() {
    let run = Run::with(300);
    let sound = run.sim.image();
    let words = array(&sound);
    let changes: [(&str, Change<'_>); 4] = [
        ("zero", &|words, i| words[i as usize] = 0),
        ("a bit", &|words, i| words[i as usize] ^= 1 << (spread(i) % 64)),
        ("another's", &|words, i| {
            words[i as usize] = words[(spread(i) % words.len() as u64) as usize]
        }),
        ("anything", &|words, i| words[i as usize] = spread(i)),
    ];
    for (what, change) in changes {
        for share in [1, 7] {
            let mut image = sound.clone();
            let words = &mut image[words.clone()];
            let before = words.to_vec();
            for i in (1..words.len() as u64).filter(|i| i % share == 0) {
                change(words, i);
            }
            let wrong = before.iter().zip(&*words).filter(|(old, new)| old != new && **new != 0);
            let wrong = wrong.count();
            let (_, _, reh) = open(&image).unwrap();
            for i in 0..300 {
                let h = spread(spread(i) % 300);
                assert_eq!(reh.get(h).unwrap(), run.model.get(&h).copied(), "{what}");
            }
            let mut found = findings(&reh);
            assert_eq!(found.len(), wrong, "{what}: {found:?}");
            assert!(found.iter().all(|finding| finding.invariant == "REH-7"), "{what}");
            // Another array mends it.
            (300..1400).for_each(|i| assert_eq!(put(&reh, spread(i), 1), None));
            found = findings(&reh);
            assert_eq!(found, [], "{what}");
        }
    }
}

/// Compaction writes the array of the new pool from its own directory.
#[test]
fn compaction_leaves_wrong_words_behind() {
    let (_dir, path) = new_path();
    let geometry = Geometry { extent_shift: 12, slots: 3, hash_bits: 0, buckets: 1 };
    let options = Options::new().seed(7).geometry(geometry).max_bytes(MAX_BYTES);
    let map: Map<u64, u64> = options.clone().sync_mode(SyncMode::Process).create(&path).unwrap();
    (0..3000).for_each(|i| map.put(&i, &i).unwrap());
    map.close().unwrap();

    let bytes = std::fs::read(&path).unwrap();
    let mut image: Vec<u64> =
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let words = array_of(&image, 1 << (geometry.extent_shift - 3));
    let wrong = words.len() - 1;
    (words.start + 1..words.end).for_each(|i| image[i] = spread(i as u64));
    std::fs::write(&path, image.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
        .unwrap();

    let findings = || {
        let map: Map<u64, u64> = Options::new().open(&path).unwrap();
        (0..3000).for_each(|i| assert_eq!(map.get(&i).unwrap(), Some(i)));
        let mut found = Vec::new();
        map.check(&mut |finding| found.push(finding.invariant)).unwrap();
        found
    };
    // The words were damaged after the close had sealed them, so that is found, too.
    let found = findings();
    assert_eq!(found.iter().filter(|invariant| **invariant == "REH-7").count(), wrong, "{found:?}");
    Options::new().compact::<Map<u64, u64>>(&path).unwrap();
    assert!(findings().is_empty());
}

#[test]
fn wrong_roots_cost_time_only() {
    let run = Run::with(300);
    let sound = run.sim.image();
    for root in 1..=3 {
        for word in [0, 1, u64::MAX, sound[ROOTS + root] ^ 1, spread(root as u64), 0x2c2c] {
            let mut image = sound.clone();
            image[ROOTS + root] = word;
            let (sim, pool, reh) = open(&image).unwrap();
            let mut run = Run { sim, pool, reh, model: run.model.clone() };
            (290..330).for_each(|i| run.put(i, 5));
            run.assert_right();
            run = run.die();
            run.assert_right();
        }
    }
}

#[test]
fn a_close_keeps_the_number_of_entries() {
    let mut run = Run::with(300);
    for saved in [true, false] {
        let model = run.model.clone();
        let mut image = if saved { run.close() } else { run.sim.image() };
        // Counting meets damage.
        let bucket = chain(&image)[50].0;
        image[bucket * BUCKET_WORDS + PREFIX] ^= 1;
        let (sim, pool, reh) = open(&image).unwrap();
        let found = |h: &u64| reh.get(*h).is_ok_and(|found| found.is_some());
        let sound: Vec<u64> = model.keys().copied().filter(found).collect();
        sound[..20].iter().for_each(|h| assert!(remove(&reh, *h).is_some()));
        match reh.len() {
            Ok(len) => assert!(saved && len == 280),
            Err(e) => assert!(!saved && is_corrupt(&e)),
        }
        drop((sim, pool));
        run = Run::with(300);
    }
    // The count that a close has saved is right later, too, although some ranges were never made.
    let mut image = run.close();
    for round in 0..3 {
        let (sim, pool, reh) = open(&image).unwrap();
        assert_eq!(reh.len().unwrap(), 300 - round);
        assert!(remove(&reh, spread(round)).is_some());
        image = Run { sim, pool, reh, model: HashMap::new() }.close();
    }
    let (_, _, reh) = open(&image).unwrap();
    assert_eq!((reh.len().unwrap(), findings(&reh)), (297, Vec::new()));
    assert_eq!(reh.stats().slots_used, 297);
}

#[test]
fn space_is_found_before_a_pool_is_full() {
    let geometry = Geometry { extent_shift: 10, ..TINY };
    let sim = Sim::new(64 << 10);
    let pool = pool_on(sim.clone(), geometry);
    let reh = Reh::create(pool).unwrap();
    let fill = |reh: &Reh<Sim>, from: u64| {
        (from..).find(|i| {
            let done = reh.update(spread(*i), Room::ForNew, &mut |_| Ok(index::Change::Set(*i)));
            done.is_err_and(|e| matches!(e.kind(), ErrorKind::Full { .. }))
        })
    };
    let full = fill(&reh, 0).unwrap();
    // Every fourth stays, so that buckets become free in all extents.
    let goes = |i: &u64| !i.is_multiple_of(4);
    (0..full).filter(goes).for_each(|i| assert_eq!(remove(&reh, spread(i)), Some(i)));
    let sim = Sim::from_image(&sim.image(), 64 << 10);
    let reh = Reh::open(Arc::new(Pool::open(sim, false).unwrap())).unwrap();
    let again = fill(&reh, full).unwrap() - full;
    assert!(again * 10 > full * 6, "{again} more, {full} at first");
    assert_eq!(findings(&reh), []);
}

/// Threads come to ranges at the same time, to read, to write, and to sweep; each has keys of its own.
#[test]
fn threads_make_ranges_at_once() {
    const KEYS: u64 = 600;
    const THREADS: u64 = 4;
    let mut run = Run::with(KEYS);
    for round in 0..budget(6, 40) {
        run = run.die();
        let stop = AtomicBool::new(false);
        let reh = &run.reh;
        let model = &run.model;
        let parts: Vec<_> = std::thread::scope(|scope| {
            scope.spawn(|| match round % 3 {
                0 => while reh.step().unwrap() {},
                1 => reh.warm(&stop),
                _ => {}
            });
            let part = |thread: u64| {
                move || {
                    let mut own: HashMap<u64, u64> = HashMap::new();
                    for n in 0..KEYS {
                        let i = spread(n + round) % (KEYS / THREADS) * THREADS + thread;
                        let had = own.get(&i).copied().or(model.get(&spread(i)).copied());
                        let had = had.filter(|v| *v != u64::MAX);
                        match (spread(i + n + round)) % 3 {
                            0 => assert_eq!(reh.get(spread(i)).unwrap(), had),
                            1 => {
                                assert_eq!(put(reh, spread(i), n), had);
                                own.insert(i, n);
                            }
                            _ => {
                                assert_eq!(remove(reh, spread(i)), had);
                                own.insert(i, u64::MAX);
                            }
                        }
                    }
                    own
                }
            };
            let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(part(thread))).collect();
            let parts = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            stop.store(true, Ordering::Relaxed);
            parts
        });
        for (i, v) in parts.into_iter().flatten() {
            match v {
                u64::MAX => run.model.remove(&spread(i)),
                v => run.model.insert(spread(i), v),
            };
        }
        run.assert_right();
        while run.reh.step().unwrap() {}
        run.assert_right();
    }
}
