//! Power that is lost while a log is made.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::log::place;
use super::superblock::TABLE_OFF;
use super::{ExtentKind, Format, Geometry, Pool, Superblock};
use crate::error::{ErrorKind, Result};
use crate::lock::wait_lock;
use crate::medium::{Dram, Durability, LogSpace, Memory, Region, Storage};
use crate::word::{OnMedia, PmU64};

const MAX_BYTES: u64 = 1 << 20;
const EXTENT_SHIFT: u8 = 10;
const LOG_BYTES: u64 = 32 << 10;
const SECTOR_WORDS: usize = 64;
const PAGE_WORDS: usize = 512;

#[derive(Clone)]
enum Step {
    Store(u64, u64),
    Write(u64, Vec<u64>),
    Grow(u64),
    Sync(u64, u64),
    SyncFile,
}

/// A file in the page cache, which tells what was done to it.
struct Cached {
    words: Dram,
    steps: Mutex<Vec<Step>>,
}

impl Cached {
    fn new(image: &[u64]) -> Cached {
        let words = Dram::new(MAX_BYTES).unwrap();
        words.grow(image.len() as u64 * 8).unwrap();
        for (i, v) in image.iter().enumerate() {
            words.store(words.region().at(i as u64 * 8).unwrap(), *v);
        }
        Cached { words, steps: Mutex::default() }
    }

    fn did(&self, step: Step) {
        self.steps.lock().unwrap().push(step);
    }

    fn image(&self) -> Vec<u64> {
        let region = self.region();
        region.words(0, region.len() / 8).unwrap().iter().map(|w| self.load(w)).collect()
    }
}

impl Memory for Cached {
    #[inline(always)]
    fn same_line_order(&self) -> bool {
        true
    }
    fn region(&self) -> &Region {
        self.words.region()
    }
    fn load(&self, word: &PmU64) -> u64 {
        word.load()
    }
    fn store(&self, word: &PmU64, v: u64) {
        self.did(Step::Store(self.region().offset_of(word), v));
        word.store(v);
    }
    fn cas(&self, word: &PmU64, old: u64, new: u64) -> Result<u64, u64> {
        word.cas(old, new).inspect(|_| self.did(Step::Store(self.region().offset_of(word), new)))
    }
    fn store_nt(&self, word: &PmU64, v: u64) {
        self.store(word, v);
    }
    fn prefetch<T: OnMedia + ?Sized>(&self, _obj: &T) {}
    fn flush<T: OnMedia + ?Sized>(&self, _obj: &T) {}
    fn fence(&self) {}
    fn drain(&self) {}
}

impl Storage for Cached {
    fn grow(&self, bytes: u64) -> Result<()> {
        if bytes > self.region().len() {
            self.did(Step::Grow(bytes));
        }
        self.words.grow(bytes)
    }
    fn sync(&self, off: u64, bytes: u64) -> Result<()> {
        self.did(Step::Sync(off, bytes));
        Ok(())
    }
    fn durability(&self) -> Durability {
        Durability::Process
    }
}

impl LogSpace for Cached {
    fn write_file(&self, off: u64, bytes: &[u8]) -> Result<()> {
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        for (word, v) in self.region().words(off, bytes.len() as u64 / 8)?.iter().zip(words.clone())
        {
            word.store(v);
        }
        self.did(Step::Write(off, words.collect()));
        Ok(())
    }
    fn sync_file(&self) -> Result<()> {
        self.did(Step::SyncFile);
        Ok(())
    }
}

/// What is on the disk, and what may be.
struct Disk {
    durable: Vec<u64>,
    current: Vec<u64>,
    /// Versions of sectors that were not synced.
    pending: BTreeMap<usize, Vec<Vec<u64>>>,
}

impl Disk {
    fn take(&mut self, step: &Step) {
        match step {
            Step::Store(off, v) => self.write(*off as usize / 8, &[*v]),
            Step::Write(off, words) => self.write(*off as usize / 8, words),
            Step::Grow(bytes) => self.current.resize(*bytes as usize / 8, 0),
            Step::Sync(off, bytes) => {
                let first = *off as usize / 8 / PAGE_WORDS * PAGE_WORDS;
                let end = ((off + bytes) as usize / 8).next_multiple_of(PAGE_WORDS);
                self.settle(first / SECTOR_WORDS..end / SECTOR_WORDS);
            }
            Step::SyncFile => self.settle(0..usize::MAX),
        }
    }

    fn write(&mut self, at: usize, words: &[u64]) {
        self.current[at..at + words.len()].copy_from_slice(words);
        for sector in at / SECTOR_WORDS..(at + words.len()).div_ceil(SECTOR_WORDS) {
            let version = self.current[sector * SECTOR_WORDS..][..SECTOR_WORDS].to_vec();
            self.pending.entry(sector).or_default().push(version);
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

    /// What a loss of power leaves; `choose` says which of so many versions, 0 is the one that was
    /// synced.
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
    let pool = Pool::create(Cached::new(&[]), &format).unwrap();
    for _ in 0..500 {
        let mut extents = wait_lock(&pool.extents, &pool.medium);
        let _ = extents.take(&pool.medium, ExtentKind::Units).unwrap();
    }
    pool.close().unwrap();
    let extents = pool.medium.load(&pool.at::<Superblock>(0).unwrap().extents);
    let mut image = pool.medium.image();
    image.truncate((extents << EXTENT_SHIFT) as usize / 8);
    image
}

fn area(pool: &Pool<Cached>) -> [u64; 2] {
    let superblock = pool.at::<Superblock>(0).unwrap();
    [0, 1].map(|i| pool.medium.load(&superblock.log[i]))
}

#[test]
fn a_log_is_made_whole_or_not_at_all() {
    let image = closed_pool();
    let pool = Pool::open(Cached::new(&image), false).unwrap();
    let wanted = {
        let extents = wait_lock(&pool.extents, &pool.medium);
        place(&extents, 1 << EXTENT_SHIFT, LOG_BYTES).unwrap()
    };
    pool.make_log(LOG_BYTES).unwrap();
    let [off, bytes] = area(&pool);
    assert_eq!((off, bytes), wanted);
    let first = off >> EXTENT_SHIFT;
    assert!(first < 512 && first + (bytes >> EXTENT_SHIFT) > 512, "kinds in two sectors");
    let whole = pool.medium.image();
    let in_area = (off / 8) as usize..((off + bytes) / 8) as usize;

    let steps = pool.medium.steps.lock().unwrap().clone();
    let mut disk = Disk { durable: image.clone(), current: image, pending: BTreeMap::new() };
    let mut random = 1_u64;
    let (mut with, mut without) = (0, 0);
    for step in steps.iter().map(Some).chain([None]) {
        for pick in 0..10 {
            let mut choose = |count: usize| match pick {
                0 => 0,
                1 => count,
                _ => {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    (random >> 33) as usize % (count + 1)
                }
            };
            let left = disk.cut(&mut choose);
            let pool = Pool::open(Cached::new(&left), false).unwrap();
            assert!(pool.was_clean());
            if area(&pool)[0] == 0 {
                without += 1;
                pool.make_log(LOG_BYTES).unwrap();
            } else {
                with += 1;
                assert!(left[in_area.clone()] == whole[in_area.clone()], "the log is not whole");
            }
            assert_eq!(area(&pool)[1], bytes);
            let pool = Pool::open(Cached::new(&pool.medium.image()), false).unwrap();
            pool.begin().unwrap();
            let kinds = wait_lock(&pool.extents, &pool.medium).kinds().to_vec();
            let logs = kinds.iter().filter(|kind| **kind == ExtentKind::Log).count();
            assert_eq!(logs as u64, bytes >> EXTENT_SHIFT);
        }
        if let Some(step) = step {
            disk.take(step);
        }
    }
    assert!(with > 5 && without > 100, "{with} with a log, {without} without");
}

#[test]
fn a_log_that_has_not_all_of_its_extents_is_damage() {
    let pool = Pool::open(Cached::new(&closed_pool()), false).unwrap();
    pool.make_log(LOG_BYTES).unwrap();
    let [off, bytes] = area(&pool);
    let whole = pool.medium.image();
    let refused = |change: &dyn Fn(&mut Vec<u64>)| {
        let mut image = whole.clone();
        change(&mut image);
        let e = Pool::open(Cached::new(&image), false).err().unwrap();
        assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
    };
    for extent in [off, off + bytes - 1].map(|at| TABLE_OFF + (at >> EXTENT_SHIFT)) {
        refused(&|image| image[extent as usize / 8] &= !(0xff << (extent % 8 * 8)));
    }
    let log = std::mem::offset_of!(Superblock, log) / 8;
    refused(&|image| image[log] += 4096);
    refused(&|image| image[log + 1] += MAX_BYTES);
    refused(&|image| image[log + 1] = 4096);
    assert!(Pool::open(Cached::new(&whole), false).is_ok());
}
