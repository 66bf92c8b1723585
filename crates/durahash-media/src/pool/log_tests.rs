//! Power that is lost while a log is made.

use std::collections::BTreeMap;

use super::log::place;
use super::superblock::TABLE_OFF;
use super::{ExtentKind, Format, Geometry, Pool, Superblock};
use crate::error::{ErrorKind, Result};
use crate::lock::wait_lock;
use crate::medium::sim::{Action, Sim};
use crate::medium::{LogSpace, Memory, Storage};

const MAX_BYTES: u64 = 1 << 20;
const EXTENT_SHIFT: u8 = 10;
const LOG_BYTES: u64 = 32 << 10;
const SECTOR_WORDS: usize = 64;
const PAGE_WORDS: usize = 512;

impl LogSpace for Sim {
    fn write_file(&self, off: u64, bytes: &[u8]) -> Result<()> {
        self.copy_in(self.region().words(off, bytes.len() as u64 / 8)?, bytes);
        Ok(())
    }
    fn sync_file(&self) -> Result<()> {
        self.sync(0, self.region().len())
    }
}

/// The bytes on the disk of a file in the page cache, and those that may be there.
struct Disk {
    durable: Vec<u64>,
    current: Vec<u64>,
    /// Versions of sectors that were not synced.
    pending: BTreeMap<usize, Vec<Vec<u64>>>,
}

impl Disk {
    fn take(&mut self, action: Action) {
        match action {
            Action::Store { word, v } => {
                let (word, sector) = (word as usize, word as usize / SECTOR_WORDS);
                self.current[word] = v;
                let version = self.current[sector * SECTOR_WORDS..][..SECTOR_WORDS].to_vec();
                self.pending.entry(sector).or_default().push(version);
            }
            Action::Resize { words } => self.current.resize(words as usize, 0),
            Action::Sync { word, words } => {
                let first = word as usize / PAGE_WORDS * PAGE_WORDS;
                let end = ((word + words) as usize).next_multiple_of(PAGE_WORDS);
                self.settle(first / SECTOR_WORDS..end / SECTOR_WORDS);
            }
            _ => {}
        }
    }

    fn settle(&mut self, sectors: std::ops::Range<usize>) {
        // Only a sync that reaches there takes the length along.
        let reached = sectors.end.saturating_mul(SECTOR_WORDS).min(self.current.len());
        self.durable.resize(reached.max(self.durable.len()), 0);
        for (sector, versions) in self.pending.extract_if(sectors, |_, _| true) {
            let version = versions.last().expect("one at least");
            self.durable[sector * SECTOR_WORDS..][..SECTOR_WORDS].copy_from_slice(version);
        }
    }

    /// The image that a loss of power leaves. `choose` picks one of so many versions; 0 is the one that
    /// was synced.
    fn cut(&self, choose: &mut dyn FnMut(usize) -> usize) -> Vec<u64> {
        let mut image = self.durable.clone();
        if choose(1) == 1 {
            image.resize(self.current.len(), 0);
        }
        for (sector, versions) in &self.pending {
            let at = sector * SECTOR_WORDS;
            if let Some(i) = choose(versions.len()).checked_sub(1)
                && at < image.len()
            {
                image[at..at + SECTOR_WORDS].copy_from_slice(&versions[i]);
            }
        }
        image
    }
}

/// A closed pool with so many extents in use that a log's kinds lie in two sectors of the table.
fn closed_pool() -> Vec<u64> {
    let format = Format {
        design: 1,
        kind: 0,
        key_type: 6,
        value_type: 6,
        geometry: Geometry { extent_shift: EXTENT_SHIFT, ..Geometry::default() },
        seed: 7,
        max_bytes: MAX_BYTES,
    };
    let pool = Pool::create(Sim::new(MAX_BYTES), &format).unwrap();
    for _ in 0..500 {
        let mut extents = wait_lock(&pool.extents, &pool.medium);
        let _ = extents.take(&pool.medium, ExtentKind::Units(0)).unwrap();
    }
    pool.close().unwrap();
    pool.medium.image()
}

fn open(image: &[u64]) -> Result<Pool<Sim>> {
    Pool::open(Sim::from_image(image, MAX_BYTES), false)
}

/// True for what changes a file, or the part of it that is on the disk.
fn is_of_file(action: Action) -> bool {
    matches!(action, Action::Store { .. } | Action::Resize { .. } | Action::Sync { .. })
}

fn area(pool: &Pool<Sim>) -> [u64; 2] {
    let superblock = pool.at::<Superblock>(0).unwrap();
    [0, 1].map(|i| pool.medium.load(&superblock.log[i]))
}

#[test]
fn a_log_is_made_whole_or_not_at_all() {
    let image = closed_pool();
    let pool = open(&image).unwrap();
    let wanted = {
        let extents = wait_lock(&pool.extents, &pool.medium);
        place(&extents, 1 << EXTENT_SHIFT, LOG_BYTES).unwrap()
    };
    pool.medium.record(Vec::new());
    pool.add_log(LOG_BYTES).unwrap();
    let steps = pool.medium.recorded();
    let [off, bytes] = area(&pool);
    assert_eq!((off, bytes), wanted);
    let first = off >> EXTENT_SHIFT;
    assert!(first < 512 && first + (bytes >> EXTENT_SHIFT) > 512, "kinds in two sectors");
    let whole = pool.medium.image();
    let in_area = (off / 8) as usize..((off + bytes) / 8) as usize;

    let mut disk = Disk { durable: image.clone(), current: image, pending: BTreeMap::new() };
    let mut random = 1_u64;
    let (mut with, mut without) = (0, 0);
    let (mut last, actions) = (None, steps.into_iter().map(|step| step.action));
    for action in actions.map(Some).chain([None]) {
        // Cuts within a write of many words are those of its sectors' versions.
        let goes_on = matches!((last, action), (Some(Action::Store { word, .. }),
            Some(Action::Store { word: next, .. })) if next == word + 1);
        let picks =
            if goes_on || action.is_some_and(|action| !is_of_file(action)) { 0 } else { 10 };
        for pick in 0..picks {
            let mut choose = |count: usize| match pick {
                0 => 0,
                1 => count,
                _ => {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    (random >> 33) as usize % (count + 1)
                }
            };
            let left = disk.cut(&mut choose);
            let pool = open(&left).unwrap();
            assert!(pool.was_clean());
            if area(&pool)[0] == 0 {
                without += 1;
                pool.add_log(LOG_BYTES).unwrap();
            } else {
                with += 1;
                assert!(left[in_area.clone()] == whole[in_area.clone()], "the log is not whole");
            }
            assert_eq!(area(&pool)[1], bytes);
            let pool = open(&pool.medium.image()).unwrap();
            pool.begin().unwrap();
            let kinds = wait_lock(&pool.extents, &pool.medium).kinds().to_vec();
            let logs = kinds.iter().filter(|kind| **kind == ExtentKind::Log).count();
            assert_eq!(logs as u64, bytes >> EXTENT_SHIFT);
        }
        action.into_iter().for_each(|action| disk.take(action));
        last = action;
    }
    assert!(with > 5 && without > 100, "{with} with a log, {without} without");
}

#[test]
fn a_log_that_has_not_all_of_its_extents_is_damage() {
    let pool = open(&closed_pool()).unwrap();
    pool.add_log(LOG_BYTES).unwrap();
    let [off, bytes] = area(&pool);
    let whole = pool.medium.image();
    let refused = |change: &dyn Fn(&mut Vec<u64>)| {
        let mut image = whole.clone();
        change(&mut image);
        let e = open(&image).err().unwrap();
        assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
    };
    for extent in [off, off + bytes - 1].map(|at| TABLE_OFF + (at >> EXTENT_SHIFT)) {
        refused(&|image| image[extent as usize / 8] &= !(0xff << (extent % 8 * 8)));
    }
    let log = std::mem::offset_of!(Superblock, log) / 8;
    refused(&|image| image[log] += 4096);
    refused(&|image| image[log + 1] += MAX_BYTES);
    refused(&|image| image[log + 1] = 4096);
    assert!(open(&whole).is_ok());
}
