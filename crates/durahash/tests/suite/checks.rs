//! Flipped bits in pools of words, where no record has a sum of its own: those that change an answer are found
//! by `check`, or refused by the open. After a crash that goes for blocks that were not stored to since the
//! last close.

use std::borrow::Borrow;
use std::path::Path;

use durahash::{Design, ErrorKind, Map, MultiMap, Options, PoolStats, SyncMode};
use durahash_media::Geometry;
use durahash_media::hash::WordMix;
use durahash_media::sim::{Sim, seed};
use durahash_testkit::{Handle, budget, new_path};

const MAX_BYTES: u64 = 4 << 20;
const KEYS: u64 = 1500;
/// Values of each key of a multimap that has many.
const MANY: u64 = 40;

/// A map or multimap under the same questions.
trait Words: Handle {
    /// Everything that a pool is filled with.
    fn fill(&self, keys: std::ops::Range<u64>);

    /// True if all of these keys are answered right, and nothing else is there.
    fn is_right(&self, keys: u64) -> bool;

    fn findings(&self) -> u64 {
        let mut found = 0;
        // An error tells of damage, too.
        let done = self.check(&mut |_| found += 1);
        found + u64::from(done.is_err())
    }

    fn space(&self) -> PoolStats;

    fn step(&self) -> durahash::Result<bool>;
}

impl Words for Map<u64, u64> {
    fn fill(&self, keys: std::ops::Range<u64>) {
        keys.for_each(|k| self.put(&k, &(k * 3)).unwrap());
    }

    fn is_right(&self, keys: u64) -> bool {
        (0..keys).all(|k| self.get(&k).is_ok_and(|v| v == Some(k * 3)))
            && self.iter().filter_map(Result::ok).count() as u64 == keys
            && self.len().is_ok_and(|len| len == keys)
    }

    fn space(&self) -> PoolStats {
        self.stats().unwrap().space
    }

    fn step(&self) -> durahash::Result<bool> {
        self.step()
    }
}

impl Words for MultiMap<u64, u64> {
    fn fill(&self, keys: std::ops::Range<u64>) {
        for k in keys {
            let values = if k % 50 == 0 { MANY } else { 1 };
            (0..values).for_each(|v| self.add(&k, &(k + v)).unwrap());
        }
    }

    fn is_right(&self, keys: u64) -> bool {
        let right = |k: u64| {
            let mut values = self.get_all(&k).unwrap_or_default();
            values.sort_unstable();
            values.into_iter().eq(k..k + if k.is_multiple_of(50) { MANY } else { 1 })
        };
        let len = keys + keys.div_ceil(50) * (MANY - 1);
        (0..keys).all(right) && self.len().is_ok_and(|found| found == len)
    }

    fn space(&self) -> PoolStats {
        self.stats().unwrap().space
    }

    fn step(&self) -> durahash::Result<bool> {
        self.step()
    }
}

fn options(design: Design) -> Options {
    let geometry = Geometry { extent_shift: 14, slots: 0, hash_bits: 0, buckets: 0 };
    Options::new().design(design).seed(7).max_bytes(MAX_BYTES).geometry(geometry)
}

/// The image of a closed pool of `KEYS` keys.
fn closed<T: Words>(options: &Options) -> Vec<u64> {
    let sim = Sim::new(MAX_BYTES);
    let map: T = options.create_on(sim.clone()).unwrap();
    map.fill(0..KEYS);
    map.close().unwrap();
    sim.image()
}

/// Flips one bit at a time, at places that `counts`; returns how many changed an answer and were told.
fn flips<T: Words>(
    options: &Options,
    (image, keys): (&[u64], u64),
    n: u64,
    counts: impl Fn(u64) -> bool,
) -> u64 {
    let mix = WordMix::new(seed(11));
    let (mut told, mut done) = (0, 0);
    for bit in (0..).map(|i| mix.mix(i) % (image.len() as u64 * 64)) {
        if done == n {
            break;
        }
        if !counts(bit / 8) {
            continue;
        }
        done += 1;
        let mut image = image.to_vec();
        image[(bit / 64) as usize] ^= 1 << (bit % 64);
        let case = format!("byte {:#x}, bit {}", bit / 8, bit % 8);
        let Ok(map) = options.open_on::<T, _>(Sim::from_image(&image, MAX_BYTES)) else {
            told += 1;
            continue;
        };
        let findings = map.findings();
        if !map.is_right(keys) {
            assert!(findings > 0, "{case}: a wrong answer, and nothing is found");
            told += 1;
        }
    }
    told
}

/// The word and the bit that say that the block at `off` has no check word, by what `docs/format.md` says.
fn mark_of(image: &[u64], off: u64) -> (usize, u64) {
    const CHECKS: usize = 488 / 8;
    let marks = (image[CHECKS] / 8) as usize;
    let block = off / 4096;
    (marks + (block / 64) as usize, 1 << (block % 64))
}

fn has_check_word(image: &[u64], off: u64) -> bool {
    let (word, bit) = mark_of(image, off);
    image[word] & bit == 0
}

fn after_a_close<T: Words>(design: Design) {
    let options = options(design);
    let image = closed::<T>(&options);
    let told = flips::<T>(&options, (&image, KEYS), budget(150, 3000), |_| true);
    println!("{design}: {told} changed an answer, or were refused, and were told");
    assert!(told > 10);
}

fn after_a_crash<T: Words>(design: Design) {
    let options = options(design);
    let image = closed::<T>(&options);
    let sim = Sim::from_image(&image, MAX_BYTES);
    let map: T = options.open_on(sim.clone()).unwrap();
    const MORE: u64 = 5;
    map.fill(KEYS..KEYS + MORE);
    let stats = map.space();
    assert!(0 < stats.verifiable_blocks && stats.verifiable_blocks < stats.checked_blocks);
    let image = sim.image();
    drop(map);
    let told = flips::<T>(&options, (&image, KEYS + MORE), budget(100, 2000), |off| {
        has_check_word(&image, off)
    });
    println!("{design}: {told} were told after a crash");
    assert!(told > 5);
}

/// Makes a pool of `KEYS` keys larger and smaller, in two opens; nothing of that is called damaged.
fn written_anew<T: Words>(design: Design, empty: impl Fn(&T, std::ops::Range<u64>)) {
    let options = options(design);
    let mut image = closed::<T>(&options);
    let is_whole = |map: &T| {
        map.check(&mut |finding| panic!("{design}: {finding:?}")).unwrap();
        let space = map.space();
        assert!(space.checked_blocks > 10);
        // An open may give back an extent that was kept ahead: its kind is stored to one block.
        space.verifiable_blocks + 1 >= space.checked_blocks
    };
    for keys in [KEYS..3 * KEYS, 0..KEYS] {
        let sim = Sim::from_image(&image, MAX_BYTES);
        let map: T = options.open_on(sim.clone()).unwrap();
        assert!(is_whole(&map));
        // Most of the space is given back, to be taken for other uses.
        empty(&map, 0..3 * KEYS);
        while map.step().unwrap() {}
        map.fill(keys);
        assert!(!is_whole(&map));
        map.close().unwrap();
        image = sim.image();
    }
    let map: T = options.open_on(Sim::from_image(&image, MAX_BYTES)).unwrap();
    assert!(is_whole(&map) && map.is_right(KEYS));
}

#[test]
fn blocks_written_after_a_close_are_not_called_damaged() {
    for design in Design::ALL {
        written_anew::<Map<u64, u64>>(*design, |map, keys| {
            keys.for_each(|k| map.remove(&k).map(drop).unwrap());
        });
    }
    written_anew::<MultiMap<u64, u64>>(Design::Pea, |map, keys| {
        keys.for_each(|k| map.remove_all(&k).map(drop).unwrap());
    });
}

#[test]
fn flipped_bits_of_closed_pools_give_no_wrong_answer_that_is_not_found() {
    Design::ALL.iter().for_each(|design| after_a_close::<Map<u64, u64>>(*design));
    after_a_close::<MultiMap<u64, u64>>(Design::Pea);
}

#[test]
fn flipped_bits_of_blocks_that_a_crash_left_alone_give_no_wrong_answer_that_is_not_found() {
    Design::ALL.iter().for_each(|design| after_a_crash::<Map<u64, u64>>(*design));
    after_a_crash::<MultiMap<u64, u64>>(Design::Pea);
}

/// A mark that damage took away gives a block of records no check word that counts.
#[test]
fn marks_of_records_say_nothing() {
    let options = options(Design::Reh);
    let sim = Sim::new(MAX_BYTES);
    let map: Map<str, str> = options.create_on(sim.clone()).unwrap();
    let text = |k: u64| format!("text number {k}");
    let put = |map: &Map<str, str>, keys: std::ops::Range<u64>| {
        keys.for_each(|k| map.put(&text(k), &text(k)).unwrap());
    };
    put(&map, 0..KEYS);
    (0..KEYS / 2).for_each(|k| map.remove(&text(k)).map(drop).unwrap());
    map.close().unwrap();
    let mut image = sim.image();
    // Kinds of extents of 16 KiB, from the middle of the first on; from 16 on they are records.
    let kind = |image: &[u64], i: u64| image[1024 + (i / 8) as usize] >> (i % 8 * 8) & 0xff;
    let records = (0..MAX_BYTES >> 14).filter(|i| (16..95).contains(&kind(&image, *i)));
    let records: Vec<u64> = records.flat_map(|i| (0..4).map(move |n| i << 14 | n << 12)).collect();
    assert!(records.len() > 4 && !records.iter().any(|off| has_check_word(&image, *off)));
    for off in records {
        let (word, bit) = mark_of(&image, off);
        image[word] &= !bit;
    }
    let map: Map<str, str> = options.open_on(Sim::from_image(&image, MAX_BYTES)).unwrap();
    while map.step().unwrap() {}
    put(&map, KEYS..KEYS * 2);
    map.check(&mut |finding| panic!("{finding:?}")).unwrap();
}

/// The same in files, in every mode, of which the whole is looked at by the open.
#[test]
fn an_open_that_verifies_refuses_a_damaged_pool() {
    let modes = [SyncMode::Process, SyncMode::INTERVAL, SyncMode::Strict];
    for (mode, design) in
        modes.into_iter().flat_map(|mode| Design::ALL.iter().map(move |d| (mode, *d)))
    {
        let (_dir, path) = new_path();
        let options = Options::new().design(design).sync_mode(mode).log_bytes(1 << 20);
        let map: Map<u64, u64> = options.create(&path).unwrap();
        map.put_many(&(0..KEYS).map(|k| (k, k * 3)).collect::<Vec<_>>()).unwrap();
        map.close().unwrap();
        let open = |path: &Path| options.clone().verify(true).open::<Map<u64, u64>>(path);
        let map = open(&path).unwrap();
        let space = map.stats().unwrap().space;
        assert!(space.verifiable_blocks > 0, "{mode} {design}");
        map.put(&KEYS, &(KEYS * 3)).unwrap();
        map.close().unwrap();
        let sound = std::fs::read(&path).unwrap();
        let map = options.clone().read_only(true).open::<Map<u64, u64>>(&path).unwrap();
        let space = map.stats().unwrap().space;
        assert_eq!(space.checked_blocks, space.verifiable_blocks, "{mode} {design}");
        drop(map);
        let mix = WordMix::new(seed(5));
        for at in (0..budget(6, 200)).map(|i| mix.mix(i)) {
            let mut bytes = sound.clone();
            let off = (at % bytes.len() as u64) as usize;
            bytes[off] ^= 1 << (at >> 61);
            std::fs::write(&path, &bytes).unwrap();
            match open(&path) {
                Err(e) => {
                    let is_damage =
                        !matches!(e.kind(), ErrorKind::Io { .. } | ErrorKind::Options { .. });
                    assert!(is_damage, "{mode} {design}, byte {off:#x}: {e}");
                }
                Ok(map) => assert!(map.is_right(KEYS + 1), "{mode} {design}, byte {off:#x}"),
            }
        }
    }
}

/// A longer log costs the check words: they are read before.
#[test]
fn an_open_that_replaces_the_log_verifies_before() {
    let (_dir, path) = new_path();
    let options = Options::new().sync_mode(SyncMode::INTERVAL).verify(true);
    let map: Map<u64, u64> = options.clone().log_bytes(1).create(&path).unwrap();
    map.put_many(&(0..40 * KEYS).map(|k| (k, k * 3)).collect::<Vec<_>>()).unwrap();
    let area_bytes = |map: &Map<u64, u64>| map.stats().unwrap().log.unwrap().area_bytes;
    let short = area_bytes(&map);
    map.close().unwrap();
    let sound = std::fs::read(&path).unwrap();
    let mix = WordMix::new(seed(9));
    let mut refused = 0;
    for at in (0..20).map(|i| mix.mix(i)) {
        let mut bytes = sound.clone();
        bytes[(at % sound.len() as u64) as usize] ^= 1 << (at >> 61);
        std::fs::write(&path, &bytes).unwrap();
        if options.clone().read_only(true).open::<Map<u64, u64>>(&path).is_err() {
            assert!(options.open::<Map<u64, u64>>(&path).is_err());
            refused += 1;
        }
    }
    assert!(refused > 5);
    std::fs::write(&path, &sound).unwrap();
    let map: Map<u64, u64> = options.open(&path).unwrap();
    assert!(area_bytes(&map) > short && map.is_right(40 * KEYS));
}

/// Records have sums of their own, which are verified when they are read; slots that lead to them are covered.
#[test]
fn flipped_bits_of_texts_are_found() {
    let options = options(Design::Reh);
    let sim = Sim::new(MAX_BYTES);
    let map: Map<str, str> = options.create_on(sim.clone()).unwrap();
    let text = |k: u64| format!("text number {k}");
    for k in 0..KEYS / 2 {
        map.put(text(k).borrow(), text(k * 3).borrow()).unwrap();
    }
    map.close().unwrap();
    let sound = sim.image();
    let mix = WordMix::new(seed(3));
    for bit in (0..budget(100, 2000)).map(|i| mix.mix(i) % (sound.len() as u64 * 64)) {
        let mut image = sound.clone();
        image[(bit / 64) as usize] ^= 1 << (bit % 64);
        let Ok(map) = options.open_on::<Map<str, str>, _>(Sim::from_image(&image, MAX_BYTES))
        else {
            continue;
        };
        let mut found = 0;
        let done = map.check(&mut |_| found += 1);
        let is_right = (0..KEYS / 2)
            .all(|k| map.get(&text(k)).is_ok_and(|v| v.as_deref() == Some(text(k * 3).borrow())));
        assert!(is_right || found > 0 || done.is_err(), "byte {:#x}, bit {}", bit / 8, bit % 8);
    }
}
