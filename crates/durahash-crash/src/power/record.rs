//! The writes to a disk, and the disk after a loss of power.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::index::THREADS;
use crate::block::Pick;
use crate::script::Rng;

const SECTOR_BYTES: usize = 512;
/// The sectors of ext4's superblock, which are lost or kept together: ext4 relies on that, and refuses to
/// mount where its checksum is wrong.
const SUPERBLOCK: Range<usize> = 2..4;

/// A step of a disk, or of the program that uses it.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Write {
        off: usize,
        bytes: Vec<u8>,
    },
    /// Earlier writes are on the disk.
    Flush,
    /// So many operations of a thread survive from here on, and the pool does.
    Promised {
        thread: usize,
        count: u64,
    },
}

/// A disk in memory that records its writes and flushes.
pub(super) struct Recorder(Mutex<(Vec<u8>, Vec<Step>)>);

impl Recorder {
    pub(super) fn new(image: Vec<u8>) -> Self {
        Recorder(Mutex::new((image, Vec::new())))
    }

    fn state(&self) -> MutexGuard<'_, (Vec<u8>, Vec<Step>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.state().0.len() as u64
    }

    /// The bytes there; fewer at the end.
    pub(super) fn read(&self, off: usize, bytes: usize) -> Vec<u8> {
        let state = self.state();
        let (from, to) = (off.min(state.0.len()), (off + bytes).min(state.0.len()));
        state.0[from..to].to_vec()
    }

    /// True if there is so much room.
    pub(super) fn write(&self, off: usize, bytes: &[u8]) -> bool {
        let (image, steps) = &mut *self.state();
        let Some(place) = image.get_mut(off..off + bytes.len()) else {
            return false;
        };
        place.copy_from_slice(bytes);
        steps.push(Step::Write { off, bytes: bytes.to_vec() });
        true
    }

    pub(super) fn did(&self, step: Step) {
        self.state().1.push(step);
    }

    pub(super) fn into_steps(self) -> Vec<Step> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// Follows the steps.
pub(super) struct Walk {
    durable: Vec<u8>,
    /// Versions of sectors since the last flush, oldest first.
    pending: BTreeMap<usize, Vec<Vec<u8>>>,
    /// Operations of each thread that must be there; none before the pool must be.
    pub(super) promised: Option<[u64; THREADS]>,
}

impl Walk {
    pub(super) fn new(image: Vec<u8>) -> Self {
        Walk { durable: image, pending: BTreeMap::new(), promised: None }
    }

    pub(super) fn take(&mut self, step: &Step) {
        match step {
            Step::Write { off, bytes } => {
                let first = off / SECTOR_BYTES;
                for sector in first..(off + bytes.len()).div_ceil(SECTOR_BYTES) {
                    let at = sector * SECTOR_BYTES;
                    let versions = self.pending.entry(sector).or_default();
                    let before =
                        versions.last().map_or(&self.durable[at..at + SECTOR_BYTES], |v| v);
                    let mut version = before.to_vec();
                    let (from, to) = (at.max(*off), (at + SECTOR_BYTES).min(off + bytes.len()));
                    version[from - at..to - at].copy_from_slice(&bytes[from - off..to - off]);
                    versions.push(version);
                }
            }
            Step::Flush => {
                for (sector, versions) in std::mem::take(&mut self.pending) {
                    let last = versions.last().expect("one at least");
                    self.durable[sector * SECTOR_BYTES..][..SECTOR_BYTES].copy_from_slice(last);
                }
            }
            Step::Promised { thread, count } => {
                let promised = &mut self.promised.get_or_insert_default()[*thread];
                *promised = (*promised).max(*count);
            }
        }
    }

    /// The disk after a loss of power now.
    pub(super) fn cut(&self, pick: Pick) -> Vec<u8> {
        let mut image = self.durable.clone();
        let mut rng = match pick {
            Pick::Random(seed) => Some(Rng::new(seed)),
            Pick::Least | Pick::Most => None,
        };
        let mut superblock = None;
        for (sector, versions) in &self.pending {
            let whole = SUPERBLOCK.contains(sector);
            let i = match (&mut rng, pick) {
                (Some(rng), _) => {
                    superblock.filter(|_| whole).unwrap_or_else(|| rng.below(versions.len() + 1))
                }
                (None, Pick::Most) => versions.len(),
                (None, _) => 0,
            };
            superblock = whole.then_some(i);
            if let Some(i) = i.checked_sub(1) {
                image[sector * SECTOR_BYTES..][..SECTOR_BYTES].copy_from_slice(&versions[i]);
            }
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_leaves_flushed_writes_and_any_sector_of_others() {
        let recorder = Recorder::new(vec![0; 4096]);
        assert!(recorder.write(0, &[1; 1024]) && !recorder.write(4000, &[1; 100]));
        recorder.did(Step::Flush);
        recorder.did(Step::Promised { thread: 1, count: 3 });
        assert!(recorder.write(100, &[2; 1000]));
        assert_eq!(recorder.read(90, 20), [[1; 10], [2; 10]].concat());
        let mut walk = Walk::new(vec![0; 4096]);
        recorder.into_steps().iter().for_each(|step| walk.take(step));
        assert_eq!(walk.promised, Some([0, 3]));
        let least = walk.cut(Pick::Least);
        assert_eq!((least[200], least[1050]), (1, 0));
        let most = walk.cut(Pick::Most);
        assert_eq!((most[99], most[100], most[1099], most[1100]), (1, 2, 2, 0));
        let sectors = (0..64).map(|seed| {
            let image = walk.cut(Pick::Random(seed));
            (image[511] == 2, image[512] == 2, image[1024] == 2)
        });
        assert_eq!(sectors.collect::<std::collections::HashSet<_>>().len(), 8);
    }

    #[test]
    fn a_superblock_is_not_torn() {
        let recorder = Recorder::new(vec![0; 4096]);
        (1..=3).for_each(|version| assert!(recorder.write(1024, &[version; 1024])));
        let mut walk = Walk::new(vec![0; 4096]);
        recorder.into_steps().iter().for_each(|step| walk.take(step));
        for seed in 0..64 {
            let image = walk.cut(Pick::Random(seed));
            assert_eq!(image[1024], image[2047], "seed {seed}");
        }
    }
}
