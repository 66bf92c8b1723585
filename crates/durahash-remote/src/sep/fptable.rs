//! A client's table of where the entries of a fingerprint begin in a MainSegment (§4.4.2 of
//! the paper).
//!
//! Of `E` entries, those of fp `i` are predicted to begin at `E·i/256 + δ`. A record point gives δ
//! from its fp on; a new one is added when the prediction errs by half of the average length `E/256`
//! or more. Builder and reader compute in the same integers, so the reader's margin on both sides
//! is exactly the builder's tolerance.
//!
//! Departures: δ has 16 bits, as 5 overflow from 2,048 entries on; the number of points is not
//! limited, as more than 32 are common at 4,096 entries. If points would take more than the plain
//! table, or a δ does not fit, the plain table is used.

use std::ops::Range;

use crate::planted::{Fault, planted};

use super::layout::FPS;

/// The table of one MainSegment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FpTable {
    len: u32,
    starts: Starts,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Starts {
    /// By fp, each from its own on.
    Points(Box<[(u8, i16)]>),
    Plain(Box<[u32]>),
}

const POINT_BYTES: usize = 3;

/// `E·i/256`, rounded down.
fn line(len: u32, fp: usize) -> i64 {
    (i64::from(len) * fp as i64) >> 8
}

/// The largest whole error below half of the average length.
fn slack(len: u32) -> i64 {
    i64::from(len.saturating_sub(1)) / (2 * FPS as i64)
}

/// The index of the first entry of each fp.
fn running(counts: &[u32]) -> impl Iterator<Item = u32> {
    counts.iter().scan(0, |next, count| {
        let start = *next;
        *next += count;
        Some(start)
    })
}

impl FpTable {
    /// The table of a MainSegment with these counts by fp.
    pub(super) fn new(counts: &[u32]) -> Self {
        let len: u32 = counts.iter().sum();
        let mut points = Vec::new();
        let (mut start, mut delta) = (0u32, 0i64);
        let mut fits = true;
        for (fp, count) in counts.iter().enumerate() {
            let error = i64::from(start) - line(len, fp) - delta;
            if error.abs() > slack(len) {
                delta += error;
                fits &= i16::try_from(delta).is_ok();
                points.push((fp as u8, delta as i16));
            }
            start += count;
        }
        let starts = if fits && points.len() * POINT_BYTES < 4 * FPS {
            Starts::Points(points.into())
        } else {
            Starts::Plain(running(counts).collect())
        };
        FpTable { len, starts }
    }

    /// Entries of the MainSegment.
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Bytes that the table takes.
    pub(super) fn bytes(&self) -> usize {
        match &self.starts {
            Starts::Points(points) => POINT_BYTES * points.len(),
            Starts::Plain(starts) => 4 * starts.len(),
        }
    }

    /// The predicted beginning of an fp, and the maximum error.
    fn predict(&self, fp: usize) -> (i64, i64) {
        if fp == FPS {
            return (self.len.into(), 0);
        }
        match &self.starts {
            Starts::Plain(starts) => (starts[fp].into(), 0),
            Starts::Points(points) => {
                let after = points.partition_point(|&(from, _)| usize::from(from) <= fp);
                let delta = after.checked_sub(1).map_or(0, |i| points[i].1);
                (line(self.len, fp) + i64::from(delta), slack(self.len))
            }
        }
    }

    /// Indices that contain the entries of `fp` and one more on each side, if there is one. The additional ones show a
    /// reader that it has all.
    pub(super) fn range(&self, fp: u8) -> Range<u32> {
        let fp = usize::from(fp);
        let ((from, before), (to, after)) = (self.predict(fp), self.predict(fp + 1));
        let clamp = |i: i64| i.clamp(0, self.len.into()) as u32;
        if planted(Fault::RangeBare) {
            return clamp(from)..clamp(to);
        }
        clamp(from - before - 1)..clamp(to + after + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use durahash_media::hash::WordMix;

    fn starts(counts: &[u32]) -> Vec<u32> {
        running(counts).chain([counts.iter().sum()]).collect()
    }

    fn check(counts: &[u32]) -> FpTable {
        let table = FpTable::new(counts);
        let starts = starts(counts);
        let len = starts[FPS];
        assert_eq!(table.len(), len);
        for fp in 0..FPS {
            let range = table.range(fp as u8);
            let (from, to) = (starts[fp], starts[fp + 1]);
            assert!(range.start < from.max(1) && (range.end > to || to == len), "{fp}: {range:?}");
            assert!(range.end <= len);
            let spare = (range.end - range.start) - (to - from);
            assert!(i64::from(spare) <= 4 * slack(len) + 2, "{fp}: {spare} too many");
        }
        table
    }

    fn uniform(len: u32, seed: u64) -> Vec<u32> {
        let mix = WordMix::new(seed);
        let mut counts = vec![0; FPS];
        for i in 0..len {
            counts[(mix.mix(i.into()) >> 56) as usize] += 1;
        }
        counts
    }

    #[test]
    fn ranges_hold_all_entries_of_an_fp() {
        for len in (0..600).chain([1000, 2047, 2048, 4096, 8191, 8192, 20_000]) {
            check(&uniform(len, u64::from(len) + 1));
        }
        for fp in [0, 1, 100, 254, 255] {
            for len in [1, 2, 8192, 1 << 20] {
                let mut counts = vec![0; FPS];
                counts[fp] = len;
                check(&counts);
                counts[255 - fp] += 3;
                check(&counts);
            }
        }
    }

    /// The paper: a compact table is about a third of the plain one.
    #[test]
    fn tables_of_uniform_keys_are_small() {
        for len in [2048, 4096, 8192] {
            let bytes: usize = (0..50).map(|seed| check(&uniform(len, seed)).bytes()).sum();
            assert!(bytes / 50 < 4 * FPS / 3, "{len}: {}", bytes / 50);
        }
    }
}
