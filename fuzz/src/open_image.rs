//! Pools of any bytes: opened, read in every way, checked, written to, closed and opened again.
//!
//! Nothing may panic, hang or take memory without bounds; a pool that is refused is left as it was;
//! and a pool in which `check` finds nothing behaves as a map does, or a multimap. Some images are also
//! files.

use durahash::{AnyMap, AnyMultiMap, Design, ErrorKind, Map, MultiMap, Options};
use durahash_media::Geometry;
use durahash_media::sim::Sim;

use crate::files::use_file;
use crate::image::{MAX_BYTES, SEED, input};
use crate::kept::{Do, Kept, Model, is_sound, note, read};
use crate::mutate::{is_multi, mutate_words};
use crate::{Features, Rng, Target, maps, multis};

/// The head of an input: types in the first byte, the seed of the operations in the second word.
const HEAD_BYTES: usize = 16;
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
                        maps::images::<u64, u64>(&options, 0, rng, &mut seeds);
                        seeds.push(input(0, rng, &maps::deep(&options)));
                    }
                    maps::images::<str, [u8]>(&options, 1, rng, &mut seeds);
                    maps::images::<str, u64>(&options, 2, rng, &mut seeds);
                }
                if hash_bits == 0 {
                    // Where REH opens by ranges.
                    let options = options(Design::Reh, Geometry { buckets: 1, ..geometry });
                    maps::images::<u64, u64>(&options, 0, rng, &mut seeds);
                    seeds.push(input(0, rng, &maps::deep(&options)));
                }
                let options = Options::new().geometry(geometry).seed(SEED).max_bytes(MAX_BYTES);
                if hash_bits == 0 {
                    multis::images::<u64, u64>(&options, 0, rng, &mut seeds);
                }
                multis::images::<str, [u8]>(&options, 1, rng, &mut seeds);
                multis::images::<str, u64>(&options, 2, rng, &mut seeds);
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
            (0, false) => self.use_image::<Map<u64, u64>>(&image, &mut rng, features),
            (1, false) => self.use_image::<Map<str, [u8]>>(&image, &mut rng, features),
            (_, false) => self.use_image::<Map<str, u64>>(&image, &mut rng, features),
            (0, true) => self.use_image::<MultiMap<u64, u64>>(&image, &mut rng, features),
            (1, true) => self.use_image::<MultiMap<str, [u8]>>(&image, &mut rng, features),
            (_, true) => self.use_image::<MultiMap<str, u64>>(&image, &mut rng, features),
        }
        let other_types = image.get(TYPES_WORD).is_some_and(|types| !TYPES.contains(types));
        if other_types || rng.below(FILES) == 0 {
            if multi {
                use_file::<AnyMultiMap>(&image, self.blind_to, &mut rng, features);
            } else {
                use_file::<AnyMap>(&image, self.blind_to, &mut rng, features);
            }
        }
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    bytes.as_chunks().0.iter().map(word).collect()
}

fn options(design: Design, geometry: Geometry) -> Options {
    Options::new().design(design).geometry(geometry).seed(SEED).max_bytes(MAX_BYTES)
}

impl OpenImage {
    fn use_image<I: Kept>(&self, image: &[u64], rng: &mut Rng, features: &mut Features) {
        let room = (size_of_val(image) as u64).max(MAX_BYTES);
        let sim = Sim::from_image(image, room);
        let options = Options::new().accept_suspect(rng.below(2) == 0);
        let map = match options.open_on::<I, _>(sim.clone()) {
            Ok(map) => map,
            Err(e) => {
                features.complain("open", &e);
                assert!(sim.image() == image, "refused, but written to");
                return;
            }
        };
        let sound = is_sound(&map, self.blind_to, features);
        let mut model = read(&map, sound, features);
        write(&map, &mut model, sound, rng, features);
        note(&map, (), features);
        if sound {
            assert!(is_sound(&map, self.blind_to, features), "no longer sound");
            assert!(read(&map, sound, features) == model, "what was written is not there");
        }
        if rng.below(4) == 0 {
            match map.clear() {
                Ok(()) => model.clear(),
                Err(e) => features.complain("clear", &e),
            }
        }
        map.close().unwrap_or_else(|e| features.damaged(sound, "close", &e));
        match Options::new().open_on::<I, _>(Sim::from_image(&sim.image(), room)) {
            Ok(map) => {
                let still = is_sound(&map, self.blind_to, features);
                assert!(still || !sound, "not sound when opened again");
                let found = read(&map, sound, features);
                assert!(!sound || found == model, "closing changed something");
            }
            Err(e) => assert!(!sound, "not opened again: {e}"),
        }
    }
}

/// A key of the model, or any.
fn some_key<I: Kept>(map: &I, model: &Model<I>, rng: &mut Rng) -> I::Key {
    if !model.is_empty() && rng.below(3) > 0 {
        let known = model.keys().nth(rng.below(model.len()));
        return known.expect("one of them").clone();
    }
    map.key(rng.below(120) as u64)
}

fn write<I: Kept>(
    map: &I,
    model: &mut Model<I>,
    sound: bool,
    rng: &mut Rng,
    features: &mut Features,
) {
    for i in 0..80 {
        let op = match rng.below(16) {
            0..=6 => Do::Put(1),
            7 => Do::Put(rng.below(40) as u64),
            8 | 9 => Do::Insert,
            10..=12 => Do::RemoveSome(1),
            13 => Do::RemoveAll,
            _ => Do::Look,
        };
        let (key, v) = (some_key(map, model, rng), rng.below(20) as u64);
        if let Err(e) = map.change(model, key, v, op, sound) {
            let expected = matches!(e.kind(), ErrorKind::Full { .. } | ErrorKind::Skewed { .. });
            assert!(!sound || expected, "{e}");
            features.complain("write", &e);
        }
        if i == 40 {
            finish_sweep(map, sound, features);
        }
    }
}

/// Errors of steps after which no more are asked for.
const STEP_ERRORS_MAX: usize = 100;

/// Steps until none is left. Where damage keeps a unit from being read, as an ESH lock that looks held and is
/// not, each step tells so again.
fn finish_sweep<I: Kept>(map: &I, sound: bool, features: &mut Features) {
    let mut errors = 0;
    for _ in 0..1 << 20 {
        match map.step() {
            Ok(true) => {}
            Ok(false) => return,
            Err(e) => {
                features.damaged(sound, "step", &e);
                errors += 1;
                if errors == STEP_ERRORS_MAX {
                    return;
                }
            }
        }
    }
    panic!("steps without an end, {errors} of them errors: {:?}", map.stats());
}
