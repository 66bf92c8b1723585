//! Damaged pools: every bit of small images flipped, words that change under an open map, and
//! structures that no writer makes. A typed error or the right answer; nothing wrong beyond what is
//! damaged. Where the words of a slot are the key and value themselves, that one key may differ:
//! such a flip cannot be told from a value. Where they lead to records, no value is ever wrong, not
//! even one that the key once had.

use std::borrow::Borrow;
use std::collections::HashSet;

use durahash::{Design, Error, ErrorKind, Map, Options, Result};
use durahash_media::sim::Sim;
use durahash_media::{Geometry, Memory, bits};
use durahash_testkit::{Exit, Model, Sample, budget};

const MAX_BYTES: u64 = 256 << 10;
/// The distance of two values of equal size.
const OLD: u64 = 16;
const EXTENT_WORDS: usize = 128;
const BUCKET_WORDS: usize = 32;
const TABLE_BYTE: usize = 512;
/// The kind of an extent of check words.
const CHECKS: u8 = 7;

/// The role of a word of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Covered by a checksum, or units must agree about it: damage is always found.
    Guarded,
    /// A slot of a live bucket, or what says that it is live.
    Slot,
    /// The end bit of a bucket of Pea Hash: what lies elsewhere is not found by a lookup.
    End,
    /// A record block, used or not.
    Record,
    /// Kinds of extents, and their number.
    Table,
    /// Links from bucket to bucket in a range: operations that come to it return the damage.
    Chain,
    /// Nothing depends on it.
    Loose,
}

/// A pool as it was left, what it holds, and what its words are.
struct Sound {
    image: Vec<u64>,
    model: Model,
    parts: Vec<Part>,
    exit: Exit,
    design: Design,
    /// How many keys a slot may have.
    slot_keys: usize,
}

fn geometry(hash_bits: u8) -> Geometry {
    Geometry { extent_shift: 10, slots: 3, hash_bits, buckets: 0 }
}

fn open<K: Sample + ?Sized, V: Sample + ?Sized>(image: &[u64]) -> Result<Map<K, V>> {
    Options::new().open_on(Sim::from_image(image, MAX_BYTES))
}

fn byte(image: &[u64], at: usize) -> u8 {
    image[at / 8].to_le_bytes()[at % 8]
}

impl Sound {
    fn new<K: Sample + ?Sized, V: Sample + ?Sized>(
        design: Design,
        hash_bits: u8,
        keys: u64,
        exit: Exit,
    ) -> Self {
        Self::of::<K, V>(design, geometry(hash_bits), keys, exit)
    }

    fn of<K: Sample + ?Sized, V: Sample + ?Sized>(
        design: Design,
        geometry: Geometry,
        keys: u64,
        exit: Exit,
    ) -> Self {
        let sim = Sim::new(MAX_BYTES);
        let options = Options::new().design(design).geometry(geometry).seed(7).max_bytes(MAX_BYTES);
        let map: Map<K, V> = options.create_on(sim.clone()).unwrap();
        let mut model = Model::new();
        // More than stays, so that there are stale copies, free blocks and free buckets.
        for k in 0..keys {
            for k in [k, keys + k] {
                map.put(K::sample(k).borrow(), V::sample(k % 15 + OLD).borrow()).unwrap();
            }
        }
        for k in 0..keys {
            map.remove(K::sample(keys + k).borrow()).unwrap();
            // Into the block that was just freed: the old record stays, where one bit leads to it.
            map.put(K::sample(k).borrow(), V::sample(k % 15).borrow()).unwrap();
            model.insert(k, k % 15);
        }
        if exit == Exit::Closed {
            map.close().unwrap();
        }
        let image = sim.image();
        let parts = parts(design, &image);
        let slot_keys = if geometry.hash_bits == 0 { 1 } else { keys as usize };
        Sound { image, model, parts, exit, design, slot_keys }
    }

    fn part(&self, bit: usize) -> Part {
        let part = self.parts[bit / 64];
        let is_end = self.design == Design::Pea && bit.is_multiple_of(BUCKET_WORDS * 64);
        if is_end && part == Part::Slot { Part::End } else { part }
    }

    /// Opens and uses the image with one bit flipped.
    fn flip<K: Sample + ?Sized, V: Sample + ?Sized>(&self, bit: usize) {
        let part = self.part(bit);
        let mut image = self.image.clone();
        image[bit / 64] ^= 1 << (bit % 64);
        let case = format!("word {}, bit {}, {part:?}", bit / 64, bit % 64);
        let sim = Sim::from_image(&image, MAX_BYTES);
        let map: Map<K, V> = match Options::new().open_on(sim.clone()) {
            Ok(map) => map,
            Err(e) => {
                assert!(matches!(part, Part::Guarded | Part::Table), "{case}: refused: {e}");
                assert!(is_damage(&e), "{case}: {e}");
                assert!(sim.image() == image, "{case}: refused, but written to");
                return;
            }
        };
        assert_ne!(part, Part::Guarded, "{case}: not found");
        let right = self.read(&map, part, &case);
        // The array of words lets such a pool open, with ranges that cannot be read, or cleared.
        let hides_ranges =
            self.parts.contains(&Part::Chain) && matches!(part, Part::Chain | Part::Table);
        write(&map, &right, hides_ranges, &case);
        // Counters of a clean close are believed, and a flipped bit of a slot makes them wrong.
        if self.exit == Exit::Dead && !hides_ranges {
            heal(map, &sim, &case);
        }
    }

    /// Reads everything in every way; returns the keys that have their values.
    fn read<K: Sample + ?Sized, V: Sample + ?Sized>(
        &self,
        map: &Map<K, V>,
        part: Part,
        case: &str,
    ) -> HashSet<u64> {
        let words = size_of_val(&V::sample(0)) == 8;
        let (mut right, mut failed, mut lost) = (HashSet::new(), 0, 0);
        for (k, v) in &self.model {
            match map.get(K::sample(*k).borrow()) {
                Ok(Some(value)) if value == V::sample(*v) => drop(right.insert(*k)),
                Ok(Some(value)) => {
                    assert!(words && part == Part::Slot, "{case}: {k} has {value:?}");
                    lost += 1;
                }
                Ok(None) => lost += 1,
                Err(e) => {
                    assert!(is_damage(&e), "{case}: {e}");
                    failed += 1;
                }
            }
        }
        assert!(lost == 0 || matches!(part, Part::Slot | Part::End), "{case}: a key is absent");
        assert!(lost <= self.slot_keys || part == Part::End, "{case}: {lost} keys lost");
        if !matches!(part, Part::Table | Part::Chain) {
            assert!(failed <= self.slot_keys, "{case}: {failed} keys cannot be read");
        }
        if part == Part::Loose {
            assert_eq!(right.len(), self.model.len(), "{case}");
        }
        let (mut strangers, mut seen, mut hidden) = (0, 0, 0);
        for pair in map {
            match pair {
                Ok((key, value)) => {
                    let known = right
                        .iter()
                        .any(|k| key == K::sample(*k) && value == V::sample(self.model[k]));
                    let sound =
                        |(k, v): (&u64, &u64)| key == K::sample(*k) && value == V::sample(*v);
                    let is_hidden = part == Part::End && !known && self.model.iter().any(sound);
                    seen += usize::from(known);
                    hidden += usize::from(is_hidden);
                    strangers += usize::from(!known && !is_hidden);
                }
                Err(e) => assert!(is_damage(&e), "{case}: {e}"),
            }
        }
        // Iteration goes on behind a damaged range.
        assert_eq!(seen, right.len(), "{case}: iteration and lookup disagree");
        assert!(part != Part::End || !words || hidden == lost, "{case}: an iteration has all");
        assert!(strangers <= usize::from(words && part == Part::Slot), "{case}");
        let mut findings = 0;
        map.check(&mut |_| findings += 1).unwrap();
        assert!(
            findings > 0 || failed == 0 && (lost == 0 || part != Part::End),
            "{case}: not found by check"
        );
        // By the check word of the block, also where no other block says so.
        if self.exit == Exit::Closed && matches!(part, Part::Slot | Part::End | Part::Table) {
            assert!(findings > 0, "{case}: not found by check");
        }
        match map.len().and_then(|len| Ok((len, map.stats()?))) {
            Ok((len, _)) => {
                assert!(part != Part::Loose || len == self.model.len() as u64, "{case}: {len} keys")
            }
            Err(e) => assert!(is_damage(&e), "{case}: {e}"),
        }
        right
    }
}

/// Writes before, during and after the sweep, which does not end where damage hides records; right entries stay
/// right.
fn write<K: Sample + ?Sized, V: Sample + ?Sized>(
    map: &Map<K, V>,
    right: &HashSet<u64>,
    hides_records: bool,
    case: &str,
) {
    let mut put = HashSet::new();
    for k in 100..118 {
        match map.put(K::sample(k).borrow(), V::sample(k % 15).borrow()) {
            Ok(()) => drop(put.insert(k)),
            Err(e) => assert!(is_damage(&e), "{case}: {e}"),
        }
        if k == 108 {
            let mut steps = 0;
            while map.step().unwrap_or_else(|e| {
                assert!(hides_records && is_damage(&e), "{case}: {e}");
                false
            }) {
                steps += 1;
                assert!(steps < 1000, "{case}: a sweep without an end");
            }
        }
    }
    for k in right.union(&put) {
        let got = map.get(K::sample(*k).borrow());
        let got = got.unwrap_or_else(|e| panic!("{case}: {k} was right before others: {e}"));
        assert_eq!(got, Some(V::sample(k % 15)), "{case}: {k}");
    }
    for k in put.iter().filter(|k| **k % 2 == 0).chain(right.iter().next()) {
        match map.remove(K::sample(*k).borrow()) {
            Ok(old) => assert_eq!(old, Some(V::sample(k % 15)), "{case}: {k}"),
            // A record before it in its chain is damaged.
            Err(e) => assert!(is_damage(&e), "{case}: {e}"),
        }
    }
}

/// A map that was cleared is sound and empty after the next open, whatever the damage was.
fn heal<K: Sample + ?Sized, V: Sample + ?Sized>(map: Map<K, V>, sim: &Sim, case: &str) {
    map.clear().unwrap();
    assert_eq!(map.iter().count(), 0, "{case}");
    map.put(K::sample(3).borrow(), V::sample(14).borrow()).unwrap();
    map.close().unwrap();
    let map: Map<K, V> = open(&sim.image()).unwrap_or_else(|e| panic!("{case}: {e}"));
    while map.step().unwrap() {}
    map.check(&mut |finding| panic!("{case}: {finding:?}")).unwrap();
    let all: Vec<_> = map.iter().map(Result::unwrap).collect();
    assert_eq!(all, [(K::sample(3), V::sample(14))], "{case}");
    assert_eq!(map.len().unwrap(), 1, "{case}");
}

/// Names the words of an image.
fn parts(design: Design, image: &[u64]) -> Vec<Part> {
    let mut parts = vec![Part::Loose; image.len()];
    parts[..12].fill(Part::Guarded);
    parts[19] = Part::Table;
    // Where the log is, of which there is none.
    parts[20] = Part::Guarded;
    parts[32] = Part::Guarded;
    // Where the table of further maps is, of which there is none either.
    parts[40] = Part::Guarded;
    // The intent of a batch that a crash has cut off: no other record is one.
    parts[41] = Part::Guarded;
    // There are no extent tables beside the first one.
    parts[42..61].fill(Part::Guarded);
    let table = TABLE_BYTE / 8..(TABLE_BYTE + image.len() / EXTENT_WORDS).div_ceil(8);
    parts[table].fill(Part::Table);
    for extent in 0..image.len() / EXTENT_WORDS {
        let is_record = ![0, 1, 2, 3, CHECKS].contains(&byte(image, TABLE_BYTE + extent));
        if is_record {
            parts[extent * EXTENT_WORDS..][..EXTENT_WORDS].fill(Part::Record);
        }
    }
    match design {
        // A segment of either is an extent.
        Design::Pea | Design::Esh => array_parts(image, &mut parts),
        Design::Rewo => rewo_parts(image, &mut parts),
        _ => reh_parts(image, &mut parts),
    }
    parts
}

/// The buckets that the siblings lead to.
fn reh_parts(image: &[u64], parts: &mut [Part]) {
    // Where there is an array of words an open looks at no bucket.
    let chain = if image[33] == 0 { Part::Guarded } else { Part::Chain };
    parts[32] = chain;
    let mut bucket = image[32];
    while bucket != 0 {
        let from = bucket as usize * BUCKET_WORDS;
        parts[from..][..30].fill(Part::Slot);
        parts[from + 30..][..2].fill(chain);
        bucket = image[from + 30] >> 24;
    }
}

/// The segments that the array of the directory names where their hashes begin.
fn array_parts(image: &[u64], parts: &mut [Part]) {
    let read = |word: u64| (bits(word, 8, 38) as usize, word & 63);
    let (array, depth) = read(image[32]);
    let mut i = 0;
    while i < 1 << depth {
        let at = array * EXTENT_WORDS + i;
        let (segment, local) = read(image[at]);
        parts[at] = Part::Guarded;
        parts[segment * EXTENT_WORDS..][..EXTENT_WORDS].fill(Part::Slot);
        i += 1 << (depth - local);
    }
}

/// The block of tables that the root names, and the tables.
fn rewo_parts(image: &[u64], parts: &mut [Part]) {
    let block = bits(image[32], 0, 46) as usize * BUCKET_WORDS;
    parts[block..][..21].fill(Part::Guarded);
    for table in image[block + 2..][..18].iter().filter(|table| **table != 0) {
        let (first, extents) = ((table >> 8) as usize, 1 << (table & 0xff));
        parts[first * EXTENT_WORDS..][..extents * EXTENT_WORDS].fill(Part::Slot);
    }
}

fn is_damage(e: &Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::Corrupt { .. }
            | ErrorKind::NotAPool { .. }
            | ErrorKind::ByteOrder
            | ErrorKind::Truncated { .. }
    )
}

/// Both halves of the bits at once: this is what takes the time. The default tier has one bit in 13, so
/// that every word, and every bit of a word, has its turn; and all bits that say how many others are read: those of
/// kinds of extents, and of the first words of buckets.
fn all_flips<K: Sample + ?Sized, V: Sample + ?Sized>(sound: &Sound, step: usize) {
    let step = step * budget(29, 1);
    let bits = sound.image.len() * 64;
    let is_in_use = |bucket: &[u64]| bucket.iter().any(|word| *word != 0);
    let counts = |bit: usize| match sound.parts[bit / 64] {
        Part::Table => true,
        Part::Slot if (bit / 64).is_multiple_of(BUCKET_WORDS) => {
            is_in_use(&sound.image[bit / 64..][..BUCKET_WORDS])
        }
        _ => false,
    };
    let flipped = |bit: &usize| bit.is_multiple_of(step) || counts(*bit);
    println!("{} images", (0..bits).filter(flipped).count());
    std::thread::scope(|scope| {
        for from in 0..2 {
            scope.spawn(move || {
                for bit in (0..bits).filter(flipped).skip(from).step_by(2) {
                    // Hashes of two bits: flipped, they are those of other keys, as never happens
                    // to whole ones.
                    if sound.slot_keys == 1 || sound.parts[bit / 64] != Part::Slot || bit % 64 < 62
                    {
                        sound.flip::<K, V>(bit);
                    }
                }
            });
        }
    });
}

#[test]
fn every_bit_of_words() {
    for design in Design::ALL {
        all_flips::<u64, u64>(&Sound::new::<u64, u64>(*design, 0, 30, Exit::Dead), 1);
    }
}

/// Where ranges are made when an operation comes to them: damage is told there, and words of the array make them longer.
#[test]
fn every_bit_of_ranges() {
    let geometry = Geometry { buckets: 1, ..geometry(0) };
    for exit in [Exit::Dead, Exit::Closed] {
        let sound = Sound::of::<u64, u64>(Design::Reh, geometry, 30, exit);
        assert!(sound.parts.contains(&Part::Chain));
        all_flips::<u64, u64>(&sound, 1);
        all_flips::<str, [u8]>(&Sound::of::<str, [u8]>(Design::Reh, geometry, 14, exit), 3);
    }
}

#[test]
fn every_bit_of_texts_and_bytes() {
    for design in Design::ALL {
        all_flips::<str, [u8]>(&Sound::new::<str, [u8]>(*design, 0, 14, Exit::Dead), 1);
    }
}

#[test]
fn every_bit_of_cells() {
    for design in Design::ALL {
        let sound = Sound::new::<[u8; 20], [u8; 16]>(*design, 0, 20, Exit::Dead);
        all_flips::<[u8; 20], [u8; 16]>(&sound, 1);
    }
}

#[test]
fn bits_of_chains() {
    for design in Design::ALL {
        all_flips::<str, [u8]>(&Sound::new::<str, [u8]>(*design, 2, 12, Exit::Dead), 3);
        let digests = Sound::new::<[u8; 32], u128>(*design, 2, 12, Exit::Dead);
        all_flips::<[u8; 32], u128>(&digests, 7);
    }
}

#[test]
fn bits_of_words_in_pools_that_were_closed() {
    for design in Design::ALL {
        all_flips::<u64, u64>(&Sound::new::<u64, u64>(*design, 0, 30, Exit::Closed), 5);
    }
}

#[test]
fn bits_of_pools_that_were_closed() {
    for (design, hash_bits) in Design::ALL.iter().flat_map(|d| [0, 2].map(|bits| (*d, bits))) {
        let sound = Sound::new::<str, [u8]>(design, hash_bits, 12, Exit::Closed);
        all_flips::<str, [u8]>(&sound, 11);
    }
}

/// Words that change under an open map: directory, fingerprints and bitmaps in DRAM keep all keys
/// readable but the one of the slot, and nothing is built on damage.
fn live_flips<K: Sample + ?Sized, V: Sample + ?Sized>(sound: &Sound) {
    for bit in (0..sound.image.len() * 64).step_by(budget(143, 11)) {
        let part = sound.parts[bit / 64];
        let case = format!("live word {}, bit {}, {part:?}", bit / 64, bit % 64);
        let sim = Sim::from_image(&sound.image, MAX_BYTES);
        let map: Map<K, V> = Options::new().open_on(sim.clone()).unwrap();
        let word = &sim.region().words(0, sound.image.len() as u64).unwrap()[bit / 64];
        sim.store(word, sim.load(word) ^ 1 << (bit % 64));
        let mut model = sound.model.clone();
        let mut unsure = HashSet::new();
        let mut failed = 0;
        for k in (100..140).chain(0..30).chain(100..130) {
            let (key, value) = (K::sample(k), V::sample(k % 15));
            let done = if k >= 100 && !model.contains_key(&k) && !unsure.contains(&k) {
                map.put(key.borrow(), value.borrow()).map(|()| {
                    model.insert(k, k % 15);
                })
            } else {
                map.remove(key.borrow()).map(|_| {
                    model.remove(&k);
                })
            };
            if let Err(e) = done {
                assert!(is_damage(&e), "{case}: {e}");
                unsure.insert(k);
                failed += 1;
            }
        }
        let words = size_of_val(&V::sample(0)) == 8;
        let mut wrong = 0;
        for (k, v) in model.iter().filter(|(k, _)| !unsure.contains(k)) {
            match map.get(K::sample(*k).borrow()) {
                Ok(Some(value)) if value == V::sample(*v) => {}
                Ok(value) => {
                    assert!(words || value.is_none(), "{case}: {k} has {value:?}");
                    wrong += 1;
                }
                Err(e) => {
                    assert!(is_damage(&e), "{case}: {e}");
                    failed += 1;
                }
            }
        }
        assert!(wrong <= usize::from(part == Part::Slot), "{case}: {wrong} wrong");
        assert!(failed == 0 || part != Part::Loose, "{case}: {failed} failed");
        map.check(&mut |_| ()).unwrap();
        let _ = map.iter().count();
        map.close().unwrap();
        match open::<K, V>(&sim.image()) {
            Ok(map) => {
                let got = |k: u64| map.get(K::sample(k).borrow());
                for (k, v) in model.iter().filter(|(k, _)| !unsure.contains(k)) {
                    match got(*k) {
                        Ok(Some(value)) if value == V::sample(*v) => {}
                        Ok(value) => assert!(
                            part == Part::Slot && (words || value.is_none()),
                            "{case}: {k} has {value:?}"
                        ),
                        Err(e) => assert!(is_damage(&e), "{case}: {e}"),
                    }
                }
            }
            Err(e) => assert!(is_damage(&e), "{case}: {e}"),
        }
    }
}

#[test]
fn words_that_change_under_an_open_map() {
    for design in Design::ALL {
        live_flips::<u64, u64>(&Sound::new::<u64, u64>(*design, 0, 30, Exit::Dead));
        live_flips::<str, [u8]>(&Sound::new::<str, [u8]>(*design, 0, 14, Exit::Dead));
        let cells = Sound::new::<u128, [u8; 20]>(*design, 0, 14, Exit::Dead);
        live_flips::<u128, [u8; 20]>(&cells);
    }
}
