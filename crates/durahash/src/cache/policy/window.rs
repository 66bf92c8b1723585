//! Which part of the entries a window has: as large a one as pays.
//!
//! One place more keeps what goes next a little longer, and is worth how often that comes again. So some of what goes is noted
//! by its hash: from which queue it went, and when. What of it comes again within as many evictions as there are entries counts.
//!
//! ```text
//!  word of a place:   31      16   15   1     0
//!                    | of hash | its number | from the main queue |
//! ```
//!
//! When enough was noted, the window grows if a larger part of what went from it came again than of what went from
//! the main queue. Else it shrinks, also where hardly anything came again, as beside scans.

/// The window's part is counted in so many parts of all: at first a twentieth, from a hundredth to the half. A close saves none of it.
const ALL: usize = 4096;
const FIRST: usize = ALL / 20;
const LEAST: usize = ALL / 100;
const MOST: usize = ALL / 2;
/// From here on it is wide.
const WIDE: usize = ALL / 14;
/// It grows by one part in so many, and shrinks by as much.
const STEP: usize = 8;

/// Places for what went.
const PLACES: usize = 1024;
/// Between two changes so many are noted.
const NOTED: u32 = 192;
/// The fewest that come again before it grows.
const BACK_MIN: u32 = 4;

/// The bits of a word that are of the hash, and those of the number, above whence it went.
const HASH: u32 = !0 << 16;
const NUMBER: u32 = !HASH >> 1;

/// From where an entry went.
#[derive(Clone, Copy)]
pub(super) enum Origin {
    Window,
    Main,
}

pub(super) struct Window {
    part: usize,
    /// None before the first eviction.
    noted: Vec<u32>,
    /// How many were noted.
    number: u32,
    /// Since the last change: how many went from each, and came again.
    gone: [u32; 2],
    back: [u32; 2],
}

impl Default for Window {
    fn default() -> Self {
        Window { part: FIRST, noted: Vec::new(), number: 0, gone: [0; 2], back: [0; 2] }
    }
}

/// One in so many is noted, by its hash.
#[inline]
fn every(entries: usize) -> usize {
    (entries / PLACES).max(1).next_power_of_two()
}

/// The place of a hash, if it is noted where there are so many entries.
#[inline]
fn place(hash: u64, entries: usize) -> Option<usize> {
    // Neither by the bits of its shard nor by all of those of its row of frequencies.
    let is_noted = hash >> 16 & (every(entries) - 1) as u64 == 0;
    is_noted.then_some((hash >> 44) as usize % PLACES)
}

/// The bits of a hash that are noted: those above the ones that choose it, below the ones of its place.
fn bits(hash: u64) -> u32 {
    (hash >> 12) as u32 & HASH
}

impl Window {
    /// The most entries of it, of so many in all; it has no less than three fourths of that.
    #[inline]
    pub(super) fn size(&self, entries: usize) -> usize {
        entries * self.part / ALL
    }

    /// True where what was used last comes again soon.
    #[inline]
    pub(super) fn is_wide(&self) -> bool {
        self.part >= WIDE
    }

    /// One comes in.
    #[inline]
    pub(super) fn came(&mut self, hash: u64, entries: usize) {
        let Some(place) = place(hash, entries) else { return };
        let Some(noted) =
            self.noted.get_mut(place).filter(|noted| **noted & HASH == bits(hash) && **noted != 0)
        else {
            return;
        };
        let (number, from) = (*noted >> 1, (*noted & 1) as usize);
        *noted = 0;
        if self.number.wrapping_sub(number) & NUMBER <= (entries / every(entries)) as u32 {
            self.back[from] += 1;
        }
    }

    /// One is evicted.
    #[inline]
    pub(super) fn went(&mut self, hash: u64, from: Origin, entries: usize) {
        if let Some(place) = place(hash, entries) {
            self.note(place, bits(hash), from);
        }
    }

    fn note(&mut self, place: usize, bits: u32, from: Origin) {
        self.number = self.number.wrapping_add(1) & NUMBER;
        self.noted.resize(PLACES, 0);
        self.noted[place] = bits | self.number << 1 | from as u32;
        self.gone[from as usize] += 1;
        if self.gone.iter().sum::<u32>() < NOTED {
            return;
        }
        let ([from_window, from_main], [window, main]) = (self.back, self.gone);
        let grows = from_window + from_main >= BACK_MIN && from_window * main > from_main * window;
        let part =
            if grows { self.part + self.part / STEP } else { self.part - self.part / (STEP + 1) };
        self.part = part.clamp(LEAST, MOST);
        (self.gone, self.back) = ([0; 2], [0; 2]);
    }

    pub(super) fn bytes(&self) -> usize {
        self.noted.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use durahash_media::hash::WordMix;

    use super::*;

    const ENTRIES: usize = 20_000;

    /// Of what goes from the window, and of what goes from the main queue, one of so many comes again, beside as many new ones: in the
    /// first of 64 shards.
    fn part_of(window: u64, main: u64) -> usize {
        let (mix, mut share) = (WordMix::new(7), Window::default());
        let hash = |i: u64| mix.mix(i) >> 6;
        for i in 0..1_000_000 {
            let (from, every) =
                if i % 4 > 0 { (Origin::Window, window) } else { (Origin::Main, main) };
            share.went(hash(i), from, ENTRIES);
            share.came(hash(1 << 40 | i), ENTRIES);
            if i / 4 % every == 0 {
                share.came(hash(i), ENTRIES);
            }
            // Too late to count.
            if i > 3 * ENTRIES as u64 {
                share.came(hash(i - 3 * ENTRIES as u64), ENTRIES);
            }
        }
        share.part
    }

    #[test]
    fn a_window_is_as_large_as_pays() {
        assert!(part_of(5, 10) >= MOST / 2);
        assert!(part_of(10, 5) <= LEAST * 2);
        // Nothing comes again.
        assert!(part_of(u64::MAX, u64::MAX) <= LEAST * 9 / 8);
    }
}
