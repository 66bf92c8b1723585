//! Pools of any bytes: opened, read in every way, checked, written to, closed and opened again.
//!
//! Nothing may panic, hang or take memory without bounds; a pool that is refused is left as it was;
//! and what `check` finds nothing wrong with behaves as a map does, or a multimap. Some images are also
//! files.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use durahash::{Data, Design, ErrorKind, Finding, Map, Options, Result};
use durahash_media::hash::WordMix;
use durahash_media::{Geometry, Sim, Step};

use crate::common::Sample;
use crate::files::use_file;
use crate::multi_files::use_multi_file;
use crate::mutate::{is_multi, mutate_words};
use crate::{Features, Rng, Target, open_multi};

/// What a pool of the seeds may grow to.
pub(crate) const MAX_BYTES: u64 = 256 << 10;
/// What an input begins with: types in the first byte, the seed of what is done in the second word.
const HEAD_BYTES: usize = 16;
const SEED: u64 = 7;
/// The types of the seeds, as a superblock names them.
const TYPES_WORD: usize = 4;
const TYPES: [u64; 3] = [6 << 32 | 6, 13 << 32 | 14, 6 << 32 | 14];
/// One of so many images is opened as a file too, and all of other types.
const FILES: usize = 8;

/// Byte strings as images of pools.
#[derive(Default)]
pub struct OpenImage {
    /// An invariant that `check` is thought not to look at, to see that this would be found.
    pub blind_to: Option<&'static str>,
}

impl Target for OpenImage {
    fn seeds(&self, rng: &mut Rng) -> Vec<Vec<u8>> {
        let mut seeds = Vec::new();
        for (extent_shift, slots) in [(10, 3), (10, 2), (12, 4), (12, 0)] {
            for hash_bits in [0, 2] {
                let geometry = Geometry { extent_shift, slots, hash_bits, buckets: 0 };
                for design in Design::ALL {
                    let options = options(*design, geometry);
                    if hash_bits == 0 {
                        images::<u64, u64>(&options, 0, rng, &mut seeds);
                        seeds.push(input(0, rng, &deep(&options)));
                    }
                    images::<str, [u8]>(&options, 1, rng, &mut seeds);
                    images::<str, u64>(&options, 2, rng, &mut seeds);
                }
                let options = Options::new().geometry(geometry).seed(SEED).max_bytes(MAX_BYTES);
                if hash_bits == 0 {
                    open_multi::images::<u64, u64>(&options, 0, rng, &mut seeds);
                }
                open_multi::images::<str, [u8]>(&options, 1, rng, &mut seeds);
                open_multi::images::<str, u64>(&options, 2, rng, &mut seeds);
            }
        }
        seeds
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
        input.resize(input.len().max(HEAD_BYTES).next_multiple_of(8), 0);
        match rng.below(40) {
            0 => input[0] = rng.number() as u8,
            1 => input[8..HEAD_BYTES].copy_from_slice(&rng.number().to_le_bytes()),
            _ => {
                let mut image = words(&input[HEAD_BYTES..]);
                let other = words(other.get(HEAD_BYTES..).unwrap_or_default());
                mutate_words(rng, &mut image, &other);
                input.truncate(HEAD_BYTES);
                input.extend(image.iter().flat_map(|word| word.to_le_bytes()));
            }
        }
    }

    fn run(&self, input: &[u8], features: &mut Features) {
        let Some((head, image)) = input.split_at_checked(HEAD_BYTES) else {
            return;
        };
        let (image, mut rng) = (words(image), Rng::new(words(head)[1]));
        // Now and then as what it is not.
        let multi = is_multi(&image) != (rng.below(32) == 0);
        match (head[0] % 3, multi) {
            (0, false) => self.use_image::<u64, u64>(&image, &mut rng, features),
            (1, false) => self.use_image::<str, [u8]>(&image, &mut rng, features),
            (_, false) => self.use_image::<str, u64>(&image, &mut rng, features),
            (0, true) => self.use_multi::<u64, u64>(&image, &mut rng, features),
            (1, true) => self.use_multi::<str, [u8]>(&image, &mut rng, features),
            (_, true) => self.use_multi::<str, u64>(&image, &mut rng, features),
        }
        let other_types = image.get(TYPES_WORD).is_some_and(|types| !TYPES.contains(types));
        if other_types || rng.below(FILES) == 0 {
            if multi {
                use_multi_file(&image, self.blind_to, &mut rng, features);
            } else {
                use_file(&image, self.blind_to, &mut rng, features);
            }
        }
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    bytes.as_chunks().0.iter().map(word).collect()
}

pub(crate) fn input(types: u8, rng: &mut Rng, image: &[u64]) -> Vec<u8> {
    let head = [u64::from(types), rng.number()];
    let all = head.iter().chain(image);
    all.flat_map(|word| word.to_le_bytes()).collect()
}

fn options(design: Design, geometry: Geometry) -> Options {
    Options::new().design(design).geometry(geometry).seed(SEED).max_bytes(MAX_BYTES)
}

/// Pools as they come into being: open, closed, and killed within splits and merges.
fn images<K: Sample + ?Sized, V: Sample + ?Sized>(
    options: &Options,
    types: u8,
    rng: &mut Rng,
    out: &mut Vec<Vec<u8>>,
) {
    let sim = Sim::<true>::new(MAX_BYTES);
    let map: Map<K, V> = options.create_on(sim.clone()).expect("a new map");
    let (mut longest, mut cut) = (0, Vec::new());
    for i in 0..70 {
        let mut before = sim.image();
        sim.record(Vec::new());
        let key = K::sample(i % 40);
        let done = if i < 40 {
            map.put(key.borrow(), V::sample(i % 16).borrow())
        } else {
            map.remove(key.borrow()).map(drop)
        };
        done.expect("there is room");
        // The operation with the most stores is one that splits or merges.
        let steps = sim.recorded();
        if steps.len() >= longest {
            longest = steps.len();
            Step::replay(&steps[..steps.len() * 2 / 3], &mut before);
            cut = before;
        }
        if i % 20 == 0 {
            out.push(input(types, rng, &sim.image()));
        }
        if i % 35 == 0 {
            out.push(input(types, rng, &cut));
            longest = 0;
        }
    }
    map.close().expect("closes");
    out.push(input(types, rng, &sim.image()));
}

/// A pool of keys that share a long prefix: a deep directory.
fn deep(options: &Options) -> Vec<u64> {
    let sim = Sim::<true>::new(MAX_BYTES);
    let map: Map<u64, u64> = options.create_on(sim.clone()).expect("a new map");
    let mix = WordMix::new(SEED);
    for bits in 0..40 {
        let h = (u64::MAX >> (bits % 14)) ^ (bits << 52);
        map.put(&mix.unmix(h), &bits).expect("there is room");
    }
    sim.image()
}

/// The words of a message, without the numbers: what is wrong, not where.
fn gist(message: &str) -> Vec<&str> {
    let is_word = |word: &&str| word.bytes().all(|b| b.is_ascii_alphabetic());
    message.split([' ', ':', ',']).filter(is_word).collect()
}

impl OpenImage {
    /// Whether nothing was found that it is not blind to.
    pub(crate) fn findings(
        &self,
        check: impl FnOnce(&mut dyn FnMut(Finding)) -> Result<()>,
        features: &mut Features,
    ) -> bool {
        let mut sound = true;
        let checked = check(&mut |finding| {
            if self.blind_to == Some(finding.invariant) {
                return;
            }
            sound = false;
            features.add((finding.invariant, gist(&finding.what)));
        });
        if let Err(e) = checked {
            features.complain("check", &e);
            sound = false;
        }
        sound
    }

    fn use_image<K: Sample + ?Sized, V: Sample + ?Sized>(
        &self,
        image: &[u64],
        rng: &mut Rng,
        features: &mut Features,
    ) {
        let room = (size_of_val(image) as u64).max(MAX_BYTES);
        let sim = Sim::<true>::from_image(image, room);
        let opened = Options::new().accept_suspect(rng.below(2) == 0).open_on(sim.clone());
        let map: Map<K, V> = match opened {
            Ok(map) => map,
            Err(e) => {
                features.complain("open", &e);
                assert!(sim.image() == image, "refused, but written to");
                return;
            }
        };
        let sound = self.findings(|found| map.check(found), features);
        let mut model = read(&map, sound, features);
        write(&map, &mut model, sound, rng, features);
        note(&map, features);
        if sound {
            assert!(self.findings(|found| map.check(found), features), "no longer sound");
            assert!(read(&map, sound, features) == model);
        }
        if rng.below(4) == 0 {
            match map.clear() {
                Ok(()) => model.clear(),
                Err(e) => features.complain("clear", &e),
            }
        }
        match map.close() {
            Ok(()) => {}
            Err(e) => {
                assert!(!sound, "{e}");
                features.complain("close", &e);
            }
        }
        match Options::new().open_on::<_, K, V>(Sim::<true>::from_image(&sim.image(), room)) {
            Ok(map) => {
                let still = self.findings(|found| map.check(found), features);
                assert!(still || !sound, "not sound when opened again");
                let found = read(&map, sound, features);
                assert!(!sound || found == model);
            }
            Err(e) => assert!(!sound, "not opened again: {e}"),
        }
    }
}

/// Its order is the same in every run, so that a failure can be repeated.
type Found<K, V> =
    HashMap<<K as Data>::Owned, <V as Data>::Owned, BuildHasherDefault<DefaultHasher>>;

/// Reads everything that can be read.
fn read<K: Sample + ?Sized, V: Sample + ?Sized>(
    map: &Map<K, V>,
    sound: bool,
    features: &mut Features,
) -> Found<K, V> {
    let mut found = Found::<K, V>::default();
    for pair in map {
        match pair {
            Ok((key, value)) => {
                let twice = found.insert(key, value).is_some();
                assert!(!twice || !sound, "a key twice");
            }
            Err(e) => {
                assert!(!sound, "{e}");
                features.complain("iter", &e);
            }
        }
    }
    for (key, value) in &found {
        match map.get(key.borrow()) {
            Ok(got) => assert!(!sound || got.as_ref() == Some(value), "lookup and iteration"),
            Err(e) => {
                assert!(!sound, "{e}");
                features.complain("get", &e);
            }
        }
    }
    match map.len() {
        Ok(len) => assert!(!sound || len == found.len() as u64, "{len} keys"),
        Err(e) => {
            assert!(!sound, "{e}");
            features.complain("len", &e);
        }
    }
    found
}

fn write<K: Sample + ?Sized, V: Sample + ?Sized>(
    map: &Map<K, V>,
    model: &mut Found<K, V>,
    sound: bool,
    rng: &mut Rng,
    features: &mut Features,
) {
    let known: Vec<K::Owned> = model.keys().cloned().collect();
    for i in 0..80 {
        let key = if known.is_empty() || rng.below(2) == 0 {
            K::sample(rng.below(120) as u64)
        } else {
            known[rng.below(known.len())].clone()
        };
        let done: Result<()> = match rng.below(8) {
            0..=3 => {
                let value = V::sample(rng.below(32) as u64);
                map.put(key.borrow(), value.borrow()).map(|()| drop(model.insert(key, value)))
            }
            4 => {
                let value = V::sample(rng.below(32) as u64);
                map.insert(key.borrow(), value.borrow()).map(|old| {
                    let want = model.insert(key, value);
                    assert!(!sound || old == want, "insert");
                })
            }
            5 | 6 => map.remove(key.borrow()).map(|old| {
                let want = model.remove::<K::Owned>(&key);
                assert!(!sound || old == want, "remove");
            }),
            _ => map.get(key.borrow()).map(|got| {
                assert!(!sound || got.as_ref() == model.get::<K::Owned>(&key), "get");
            }),
        };
        if let Err(e) = done {
            let expected = matches!(e.kind(), ErrorKind::Full { .. } | ErrorKind::Skewed { .. });
            assert!(!sound || expected, "{e}");
            features.complain("write", &e);
        }
        if i == 40 {
            finish_sweep(|| map.step(), sound, features);
        }
    }
}

pub(crate) fn finish_sweep(step: impl Fn() -> Result<bool>, sound: bool, features: &mut Features) {
    for _ in 0..1 << 20 {
        match step() {
            Ok(true) => {}
            Ok(false) => return,
            Err(e) => {
                assert!(!sound, "{e}");
                return features.complain("step", &e);
            }
        }
    }
    panic!("a sweep without an end");
}

fn note<K: Sample + ?Sized, V: Sample + ?Sized>(map: &Map<K, V>, features: &mut Features) {
    match map.stats() {
        Ok(stats) => {
            let (index, space) = (&stats.index, &stats.space);
            let sizes = [
                index.splits,
                index.merges,
                index.doublings,
                index.halvings,
                u64::from(index.global_depth),
                space.record_bytes,
            ];
            for (i, size) in sizes.into_iter().enumerate() {
                features.add((map.design(), i, size.checked_ilog2()));
            }
        }
        Err(e) => features.complain("stats", &e),
    }
}
