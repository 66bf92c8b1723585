//! W-TinyLFU, after Einziger, Friedman and Manes, *TinyLFU: A Highly Efficient Cache Admission Policy* (ACM Transactions
//! on Storage 13, 2017): a window of a hundredth in front of a segmented LRU, of which four fifths are protected. What
//! leaves the window is admitted in place of the next to go if it was looked up more often of late, by a sketch of four
//! rows of four bits, halved every ten lookups an entry.

use durahash_media::hash::WordMix;

use super::cache::Cache;
use super::list::Lists;

const ROWS: usize = 4;
const MOST: u8 = 15;
/// Lookups for each entry until all counts are halved.
const SAMPLE: usize = 10;

/// The lists, and where a key is.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Window,
    Probation,
    Protected,
    Out,
}

pub(super) struct TinyLfu {
    sketch: Sketch,
    lists: Lists,
    places: Vec<Place>,
    size: usize,
    window: usize,
    protected: usize,
}

impl TinyLfu {
    pub(super) fn new(keys: usize, size: usize) -> Self {
        let window = (size / 100).max(1);
        TinyLfu {
            sketch: Sketch::new(size),
            lists: Lists::new(keys, 3),
            places: vec![Place::Out; keys],
            size,
            window,
            protected: (size - window) * 4 / 5,
        }
    }

    fn put(&mut self, place: Place, key: u32) {
        self.lists.push(place as usize, key);
        self.places[key as usize] = place;
    }

    fn pop(&mut self, place: Place) -> u32 {
        let key = self.lists.pop(place as usize);
        self.places[key as usize] = Place::Out;
        key
    }

    /// Keeps the window to its size: the next of it comes into the main part, if it is admitted.
    fn admit(&mut self) {
        if self.lists.len(Place::Window as usize) <= self.window {
            return;
        }
        let candidate = self.pop(Place::Window);
        let main = [Place::Probation, Place::Protected].map(|place| self.lists.len(place as usize));
        if main[0] + main[1] < self.size - self.window {
            return self.put(Place::Probation, candidate);
        }
        let from = if main[0] > 0 { Place::Probation } else { Place::Protected };
        // A main part of no entries admits none.
        if main[0] + main[1] == 0 {
            return;
        }
        let victim = self.lists.oldest(from as usize);
        if self.sketch.count(candidate) > self.sketch.count(victim) {
            self.pop(from);
            self.put(Place::Probation, candidate);
        }
    }
}

impl Cache for TinyLfu {
    fn access(&mut self, key: u32) -> bool {
        self.sketch.add(key);
        let place = self.places[key as usize];
        if place == Place::Out {
            self.put(Place::Window, key);
            self.admit();
            return false;
        }
        self.lists.remove(place as usize, key);
        if place == Place::Window {
            self.put(Place::Window, key);
            return true;
        }
        self.put(Place::Protected, key);
        if self.lists.len(Place::Protected as usize) > self.protected {
            let oldest = self.pop(Place::Protected);
            self.put(Place::Probation, oldest);
        }
        true
    }
}

/// How often keys were looked up of late, at least.
struct Sketch {
    counts: [Vec<u8>; ROWS],
    hashes: WordMix,
    added: usize,
    sample: usize,
}

impl Sketch {
    fn new(size: usize) -> Self {
        let row = vec![0; (4 * size).next_power_of_two()];
        let counts = std::array::from_fn(|_| row.clone());
        Sketch { counts, hashes: WordMix::new(1), added: 0, sample: SAMPLE * size }
    }

    fn places(&self, key: u32) -> [usize; ROWS] {
        let hash = self.hashes.mix(u64::from(key));
        std::array::from_fn(|row| {
            let hash = self.hashes.mix(hash ^ row as u64);
            hash as usize & (self.counts[row].len() - 1)
        })
    }

    fn count(&self, key: u32) -> u8 {
        let places = self.places(key);
        (0..ROWS).map(|row| self.counts[row][places[row]]).min().unwrap_or(0)
    }

    /// Raises the lowest of the key's counts.
    fn add(&mut self, key: u32) {
        let (places, count) = (self.places(key), self.count(key));
        for (row, at) in places.into_iter().enumerate() {
            let old = self.counts[row][at];
            if old == count && old < MOST {
                self.counts[row][at] += 1;
            }
        }
        self.added += 1;
        if self.added == self.sample {
            self.added /= 2;
            self.counts.iter_mut().flatten().for_each(|count| *count /= 2);
        }
    }
}
