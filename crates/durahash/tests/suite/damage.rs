//! REH by ranges, where a part of the chain is damaged or may be older than the rest: operations that go on all the
//! same, and those that must not.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use durahash::index::{Change, Index, IndexBase, Room};
use durahash::reh::Reh;
use durahash::{Batch, Design, ErrorKind, Map, MultiMap, Options, Pool};
use durahash_media::metered::Metered;
use durahash_media::sim::{Action, Sim, Step};
use durahash_media::{Durability, Geometry};

use super::ranges::{
    BUCKET_WORDS, LINK, MAX_BYTES, PREFIX, ROOTS, Run, TINY, array, chain, is_corrupt, open,
};
use super::{findings, spread};

const BOOT_ID: usize = 17;
const BATCH: usize = 328 / 8;

/// A table in which many buckets are free, with one word of a bucket on the chain changed.
fn damaged(word: usize, bit: u32) -> (Run, Vec<u64>, usize) {
    let mut run = Run::with(400);
    (0..300).for_each(|i| run.remove(i));
    let mut image = run.sim.image();
    let chain = chain(&image);
    let bucket = chain[chain.len() / 2].0;
    image[bucket * BUCKET_WORDS + word] ^= 1 << bit;
    (run, image, bucket)
}

/// A bucket is not free as long as a part of the chain is not known, even if its own words say so.
#[test]
fn a_bucket_that_damage_hides_is_not_free() {
    for (word, bit) in
        [0, 40, 58, 60, 62, 63].map(|bit| (PREFIX, bit)).into_iter().chain([(LINK, 3)])
    {
        for sweeps_first in [true, false] {
            let (run, image, bucket) = damaged(word, bit);
            let words = bucket * BUCKET_WORDS..(bucket + 1) * BUCKET_WORDS;
            let (sim, pool, reh) = open(&image).unwrap();
            let mut steps = 0;
            while sweeps_first && reh.step().unwrap() {
                steps += 1;
                assert!(steps < 10_000, "a sweep without an end");
            }
            // More than are free, and more than are taken before a sweep is asked for.
            let put = |i| reh.update(spread(i), Room::ForNew, &mut |_| Ok(Change::Set(i)));
            let put =
                (1000..5000).filter(|i| put(*i).inspect_err(|e| assert!(is_corrupt(e))).is_ok());
            let put: Vec<u64> = put.collect();
            assert!(put.len() > 3000, "{} only", put.len());
            assert_eq!(sim.image()[words.clone()], image[words], "bit {bit} of word {word}");
            for i in put {
                assert_eq!(reh.get(spread(i)).unwrap(), Some(i));
            }
            drop((run, pool));
        }
    }
}

#[test]
fn a_check_of_a_damaged_table_changes_nothing() {
    for bit in [0, 61] {
        let (_, image, _) = damaged(PREFIX, bit);
        let (sim, _pool, reh) = open(&image).unwrap();
        let before = sim.image();
        assert!(findings(&reh).iter().any(|finding| finding.invariant == "REH-1"));
        assert!(sim.image() == before, "bit {bit}");
    }
}

/// All is one range, in the middle of which a link is damaged: it is walked once, however many operations come to it.
#[test]
fn a_damaged_range_is_walked_once() {
    let run = Run::with(2000);
    let mut image = run.sim.image();
    let words = array(&image);
    image[words.clone()].fill(0);
    let chain = chain(&image);
    let bucket = chain[chain.len() / 2].0;
    image[bucket * BUCKET_WORDS + LINK] ^= 1 << 3;
    let pool = Metered::new(Sim::from_image(&image, MAX_BYTES));
    let pool = Arc::new(durahash_media::Pool::open(pool, false).unwrap());
    let reh = Reh::open(Arc::clone(&pool)).unwrap();
    let before = pool.medium().counts();
    for i in 0..100 {
        assert!(is_corrupt(&reh.get(spread(i)).unwrap_err()));
    }
    assert!(is_corrupt(&reh.len().unwrap_err()));
    while reh.step().unwrap() {}
    reh.stats();
    let loaded = (pool.medium().counts() - before).bytes_loaded;
    // The buckets and the words once, and what each step asks beside that.
    let all = ((chain.len() * BUCKET_WORDS + words.len()) * 8) as u64;
    assert!(loaded < 2 * all, "{loaded} bytes, all of it has {all}");
}

const POOL_BYTES: u64 = 1 << 20;

/// A pool of two maps of words, one of records and a multimap; the first bucket of the one of these that `is_it`
/// names has a damaged link.
fn pool_with_damage(sim: &Sim) -> Vec<u64> {
    let geometry = Geometry { extent_shift: 12, buckets: 2, ..TINY };
    let options = Options::new().design(Design::Reh).geometry(geometry).seed(7);
    let pool: Pool = options.create_on(sim.clone()).unwrap();
    let texts: Map<str, str> = pool.create("texts", &options).unwrap();
    let words: Map<u64, u64> = pool.create("words", &options).unwrap();
    let others: Map<str, str> = pool.create("others", &options).unwrap();
    let lists: MultiMap<str, str> =
        pool.create("lists", &Options::new().design(Design::Pea).geometry(geometry)).unwrap();
    for i in 0..200 {
        let key = format!("key {i}");
        texts.put(&key, &key).unwrap();
        others.put(&key, &key).unwrap();
        words.put(&i, &i).unwrap();
        lists.add(&key, &key).unwrap();
    }
    // One whose link and prefix agree with those of a bucket of the first map: its root is in the table of maps.
    let mut image = sim.image();
    let is_first = |i: &usize| {
        let [link, prefix] = [image[i * BUCKET_WORDS + LINK], image[i * BUCKET_WORDS + PREFIX]];
        let hash = |slot: usize| image[i * BUCKET_WORDS + 2 * slot];
        prefix >> 60 == 0b0110
            && (4..12).contains(&(link & 0xffff))
            && (0..3).any(|slot| hash(slot) >> 60 == 0b0110)
    };
    let bucket = (1..image.len() / BUCKET_WORDS).find(is_first).unwrap();
    image[bucket * BUCKET_WORDS + LINK] ^= 1 << 5;
    drop((texts, words, others, lists));
    image
}

/// Damage in one range of one map: no other operation waits for a sweep that cannot end, or gets its error.
#[test]
fn damage_in_one_map_is_no_other_writers() {
    let image = pool_with_damage(&Sim::new(POOL_BYTES));
    let sim = Sim::from_image(&image, POOL_BYTES);
    let pool: Pool = Options::new().open_on(sim).unwrap();
    let texts: Map<str, str> = pool.open("texts").unwrap();
    let words: Map<u64, u64> = pool.open("words").unwrap();
    let others: Map<str, str> = pool.open("others").unwrap();
    let lists: MultiMap<str, str> = pool.open("lists").unwrap();
    let key = |i: u64| format!("key {i}");
    let sound: Vec<u64> = (0..200).filter(|i| texts.get(&key(*i)).is_ok()).collect();
    assert!(sound.len() < 200 && sound.len() > 100, "{} of 200 are sound", sound.len());
    assert!(is_corrupt(&texts.len().unwrap_err()));
    assert!(pool.stats().sweep_pending);
    // A walk, which is in the order of copies while a range is not made, tells of it once.
    let (given, told): (Vec<_>, Vec<_>) = texts.iter().partition(|entry| entry.is_ok());
    assert!(told.len() == 1 && given.len() == sound.len(), "{} errors", told.len());
    let mut model = HashMap::new();
    for i in &sound {
        let key = key(*i);
        match i % 4 {
            0 => texts.put(&key, "new").unwrap(),
            1 => drop(texts.update(&key, |_| durahash::Change::Set("new".into())).unwrap()),
            2 => {
                let mut batch = Batch::new();
                batch.put(&texts, &key, "new").unwrap();
                batch.put(&words, i, &7).unwrap();
                batch.apply().unwrap();
            }
            _ => assert_eq!(texts.remove(&key).unwrap().as_deref(), Some(&*key)),
        }
        model.insert(*i, if i % 4 == 3 { None } else { Some("new".to_owned()) });
    }
    let mut steps = 0;
    while pool.step().unwrap() {
        steps += 1;
        assert!(steps < 10_000, "background work without an end");
    }
    for i in 0..200 {
        others.update(&key(i), |_| durahash::Change::Set("other".into())).unwrap();
        lists.add(&key(i), "other").unwrap();
        words.put(&i, &8).unwrap();
    }
    for (i, v) in &model {
        assert_eq!(texts.get(&key(*i)).unwrap(), *v);
    }
    // Until the pool is full, which is said, and no more than that.
    let full = (1000..).find_map(|i| others.put(&key(i), &"long".repeat(50)).err()).unwrap();
    assert!(matches!(full.kind(), ErrorKind::Full { .. }), "{full}");
    let full = (1000..).find_map(|i| words.put(&i, &1).err()).unwrap();
    assert!(matches!(full.kind(), ErrorKind::Full { .. }), "{full}");
    for i in 0..200 {
        assert_eq!(others.get(&key(i)).unwrap().as_deref(), Some("other"));
        assert_eq!(words.get(&i).unwrap(), Some(8));
    }
    pool.close().unwrap();
}

/// Of a pool that may lack pages an array is not believed by this open, nor by any later one: wherever the open that
/// accepts it ends, the next one is told of the loss, or finds no array.
#[test]
fn an_array_that_may_be_older_than_buckets_is_gone_before_the_loss_is_forgotten() {
    let geometry = Geometry { buckets: 1, ..TINY };
    let options =
        Options::new().design(Design::Reh).geometry(geometry).seed(7).max_bytes(MAX_BYTES);
    let sim = Sim::new(MAX_BYTES).with_durability(Durability::Process);
    let pool: Pool = options.create_on(sim.clone()).unwrap();
    for name in ["one", "other"] {
        let map: Map<u64, u64> = pool.create(name, &options).unwrap();
        (0..300).for_each(|i| map.put(&i, &i).unwrap());
    }
    let mut image = sim.image();
    drop(pool);
    image[BOOT_ID] ^= 1;
    let on = |image: &[u64]| Sim::from_image(image, MAX_BYTES).with_durability(Durability::Process);
    let lost = Options::new().open_on::<Pool, _>(on(&image)).err().unwrap();
    assert!(matches!(lost.kind(), ErrorKind::PowerLoss));

    // Root words with the check sum of arrays: that of each map is not in the superblock.
    let sim = on(&image);
    sim.record(Vec::new());
    let pool: Pool = Options::new().accept_suspect(true).open_on(sim.clone()).unwrap();
    let steps = sim.recorded();
    pool.check(&mut |map, finding| panic!("{map}: {finding:?}")).unwrap();
    let roots: Vec<usize> = zeroed(&steps).filter(|word| image[*word] != 0).collect();
    assert_eq!(roots.len(), 2, "{roots:?}");
    let is_told = |image: &[u64]| {
        let opened = durahash_media::Pool::open(on(image), false);
        opened.is_err_and(|e| matches!(e.kind(), ErrorKind::PowerLoss))
    };
    let judge = |image: &[u64], at: usize| {
        let has_array = roots.iter().any(|word| image[*word] != 0);
        assert!(!has_array || is_told(image), "after {at} steps");
    };
    // As the page cache has it; and as power leaves it that had the superblock written back, and what was synced.
    let (mut cached, mut synced) = (image.clone(), image.clone());
    for (at, step) in steps.iter().enumerate() {
        Step::replay(std::slice::from_ref(step), &mut cached);
        synced.resize(cached.len(), 0);
        let range = match step.action {
            Action::Sync { word, words } => word as usize..(word + words) as usize,
            _ => 0..64,
        };
        synced[range.clone()].copy_from_slice(&cached[range]);
        judge(&cached, at);
        judge(&synced, at);
    }
    assert!(!is_told(&cached) && !is_told(&synced));
}

/// A batch that a crash has cut off is done as a whole or not begun, where damage hides the bucket of one of its keys
/// from the open: when that is mended, all of it is there.
#[test]
fn a_batch_whose_bucket_is_hidden_waits_for_the_mend() {
    const KEYS: u64 = 300;
    let geometry = Geometry { buckets: 1, ..TINY };
    let options =
        Options::new().design(Design::Reh).geometry(geometry).seed(7).max_bytes(MAX_BYTES);
    let sim = Sim::new(MAX_BYTES);
    let map: Map<u64, u64> = options.create_on(sim.clone()).unwrap();
    (0..KEYS).for_each(|i| map.put(&i, &i).unwrap());
    let mut image = sim.image();
    sim.record(Vec::new());
    let mut batch = Batch::new();
    (0..KEYS).step_by(2).for_each(|i| batch.put(&map, &i, &(i + KEYS)).unwrap());
    batch.apply().unwrap();
    let steps = sim.recorded();
    drop((batch, map));
    let is_named = |image: &[u64]| image[BATCH] != 0;
    let open = |image: &[u64]| {
        let sim = Sim::from_image(image, MAX_BYTES);
        (Options::new().open_on::<Map<u64, u64>, _>(sim.clone()), sim)
    };
    let chain = chain(&image);
    let mut cut = 0;
    for step in &steps {
        Step::replay(std::slice::from_ref(step), &mut image);
        if !is_named(&image) || !matches!(step.action, Action::Store { .. }) {
            continue;
        }
        cut += 1;
        if cut % 40 != 1 {
            continue;
        }
        let mut damaged = image.clone();
        let link = chain[chain.len() / 2].0 * BUCKET_WORDS + LINK;
        damaged[link] ^= 1 << 3;
        let (refused, sim) = open(&damaged);
        assert!(is_corrupt(&refused.err().unwrap()), "cut {cut}");
        let mut left = sim.image();
        let differ: Vec<usize> =
            (64..left.len()).filter(|word| left[*word] != damaged[*word]).collect();
        assert!(differ.is_empty() && left[BATCH] == image[BATCH], "cut {cut}: {differ:?}");
        left[link] ^= 1 << 3;
        let map = open(&left).0.unwrap();
        for i in 0..KEYS {
            let after = if i % 2 == 0 { i + KEYS } else { i };
            assert_eq!(map.get(&i).unwrap(), Some(after), "cut {cut}");
        }
    }
    assert!(cut > KEYS / 2, "{cut} stores only");
}

/// Words to which a trace stores zero.
fn zeroed(steps: &[Step]) -> impl Iterator<Item = usize> {
    steps.iter().filter_map(|step| match step.action {
        Action::Store { word, v: 0 } => Some(word as usize),
        _ => None,
    })
}

/// However far the sweep has come when the last extent that it would look at is given back, the count of extents
/// that were taken begins anew.
#[test]
fn the_count_begins_anew_however_the_sweep_ends() {
    // All buckets of the last extent are in use, or some never were.
    for count in 200..210 {
        let image = Run::with(count).sim.image();
        for swept in 0.. {
            let (sim, _pool, reh) = open(&image).unwrap();
            let taken = || sim.image()[ROOTS + 3];
            let put = |i: &u64| {
                assert_eq!(super::put(&reh, spread(*i), *i), None);
                taken() == 4
            };
            let last = (count..).find(put).unwrap();
            // Each makes ranges, or sweeps an extent.
            let more = (0..swept).all(|_| reh.step().unwrap());
            (0..=last).for_each(|i| assert!(super::remove(&reh, spread(i)).is_some()));
            while reh.step().unwrap() {}
            assert!(taken() < 3, "{} after {swept} steps, {count} entries", taken());
            if !more {
                break;
            }
        }
    }
}

/// A thread that counts while another makes the last range finds all of it.
#[test]
fn a_count_waits_for_the_maker_of_the_last_range() {
    use durahash_media::Event;
    use durahash_media::sim::{Call, Hook, Site};
    use std::sync::mpsc::{Sender, channel};
    use std::thread::{JoinHandle, ThreadId};

    type Counts = JoinHandle<(u64, usize)>;

    /// The maker's thread, and what is done each time when it lets go of the directory's lock.
    struct Maker {
        thread: ThreadId,
        reh: Arc<Mutex<Option<Arc<Reh<Sim>>>>>,
        counts: Arc<Mutex<Vec<Counts>>>,
        turned: Mutex<Option<Sender<()>>>,
    }

    impl Hook for Maker {
        fn before(&self, call: Call, _site: Site) {
            let is_maker = std::thread::current().id() == self.thread;
            match call {
                Call::Event(Event::Unlocked(_)) if is_maker => {
                    let Some(reh) = self.reh.lock().unwrap().clone() else {
                        return;
                    };
                    let (turned, waits) = channel();
                    *self.turned.lock().unwrap() = Some(turned.clone());
                    let count = move || {
                        let answer = (reh.len().unwrap(), findings(&*reh).len());
                        let _ = turned.send(());
                        answer
                    };
                    self.counts.lock().unwrap().push(std::thread::spawn(count));
                    // It has its answer, or waits.
                    waits.recv().unwrap();
                }
                Call::Event(Event::Wait) if !is_maker => {
                    let turned = self.turned.lock().unwrap().clone();
                    turned.into_iter().for_each(|turned| _ = turned.send(()));
                }
                _ => {}
            }
        }
    }

    let run = Run::with(300);
    let mut image = run.sim.image();
    let words = array(&image);
    image[words].fill(0);
    let (sim, _pool, reh) = open(&image).unwrap();
    let (shared, counts) = (Arc::new(Mutex::new(Some(Arc::new(reh)))), Arc::default());
    let reh = shared.lock().unwrap().clone().unwrap();
    let maker = Maker {
        thread: std::thread::current().id(),
        reh: Arc::clone(&shared),
        counts: Arc::clone(&counts),
        turned: Mutex::default(),
    };
    sim.set_hook(Box::new(maker));
    assert_eq!(reh.get(spread(0)).unwrap(), Some(0));
    *shared.lock().unwrap() = None;
    let counts = std::mem::take(&mut *counts.lock().unwrap());
    assert!(!counts.is_empty(), "nobody has come between");
    for count in counts {
        assert_eq!(count.join().unwrap(), (300, 0));
    }
}
