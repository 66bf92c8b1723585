//! Pools of any bytes: opened, read in every way, checked, written to, closed and opened again.
//!
//! Nothing may panic, hang or take memory without bounds; a pool that is refused is left as it was;
//! and what `check` finds nothing wrong with behaves as a map does, or a multimap. Some images are also
//! files.

use durahash::{AnyMap, AnyMultiMap, Design, ErrorKind, Map, MultiMap, Options};
use durahash_media::Geometry;
use durahash_media::sim::Sim;

use crate::files::use_file;
use crate::image::{Image, MAX_BYTES, SEED, input};
use crate::mutate::{is_multi, mutate_words};
use crate::{Features, Rng, Target, open_map, open_multi};

/// What an input begins with: types in the first byte, the seed of what is done in the second word.
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
                        open_map::images::<u64, u64>(&options, 0, rng, &mut seeds);
                        seeds.push(input(0, rng, &open_map::deep(&options)));
                    }
                    open_map::images::<str, [u8]>(&options, 1, rng, &mut seeds);
                    open_map::images::<str, u64>(&options, 2, rng, &mut seeds);
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

/// The words of a message, without the numbers: what is wrong, not where.
fn gist(message: &str) -> Vec<&str> {
    let is_word = |word: &&str| word.bytes().all(|b| b.is_ascii_alphabetic());
    message.split([' ', ':', ',']).filter(is_word).collect()
}

impl OpenImage {
    /// Whether nothing was found that it is not blind to.
    fn findings<I: Image>(&self, map: &I, features: &mut Features) -> bool {
        let mut sound = true;
        let checked = map.check(&mut |finding| {
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

    fn use_image<I: Image>(&self, image: &[u64], rng: &mut Rng, features: &mut Features) {
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
        let sound = self.findings(&map, features);
        let mut model = read(&map, sound, features);
        write(&map, &mut model, sound, rng, features);
        map.note(features);
        if sound {
            assert!(self.findings(&map, features), "no longer sound");
            assert!(read(&map, sound, features) == model, "what was written is not there");
        }
        if rng.below(4) == 0 {
            match map.clear() {
                Ok(()) => model = I::Found::default(),
                Err(e) => features.complain("clear", &e),
            }
        }
        map.close().unwrap_or_else(|e| features.damaged(sound, "close", &e));
        match Options::new().open_on::<I, _>(Sim::from_image(&sim.image(), room)) {
            Ok(map) => {
                let still = self.findings(&map, features);
                assert!(still || !sound, "not sound when opened again");
                let found = read(&map, sound, features);
                assert!(!sound || found == model, "closing changed something");
            }
            Err(e) => assert!(!sound, "not opened again: {e}"),
        }
    }
}

fn read<I: Image>(map: &I, sound: bool, features: &mut Features) -> I::Found {
    let found = map.read(sound, features);
    match map.len() {
        Ok(len) => assert!(!sound || len == I::count(&found), "{len} entries"),
        Err(e) => features.damaged(sound, "len", &e),
    }
    found
}

fn write<I: Image>(
    map: &I,
    model: &mut I::Found,
    sound: bool,
    rng: &mut Rng,
    features: &mut Features,
) {
    for i in 0..80 {
        if let Err(e) = map.change(model, sound, rng) {
            let expected = matches!(e.kind(), ErrorKind::Full { .. } | ErrorKind::Skewed { .. });
            assert!(!sound || expected, "{e}");
            features.complain("write", &e);
        }
        if i == 40 {
            finish_sweep(map, sound, features);
        }
    }
}

fn finish_sweep<I: Image>(map: &I, sound: bool, features: &mut Features) {
    for _ in 0..1 << 20 {
        match map.step() {
            Ok(true) => {}
            Ok(false) => return,
            Err(e) => features.damaged(sound, "step", &e),
        }
    }
    panic!("a sweep without an end");
}
