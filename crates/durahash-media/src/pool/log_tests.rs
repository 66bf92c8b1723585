//! Power that is lost while a log is made.

use std::collections::BTreeMap;

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
    fn grow_with_hole(&self, bytes: u64, _hole: u64) -> Result<()> {
        self.grow(bytes)
    }
    fn fill(&self, _from: u64, _to: u64) -> Result<()> {
        Ok(())
    }
    fn write_file(&self, off: u64, bytes: &[u8]) -> Result<()> {
        self.copy_in(self.region().words(off, bytes.len() as u64 / 8)?, bytes);
        Ok(())
    }
    fn sync_file(&self) -> Result<()> {
        self.sync(0, self.region().len())
    }
    fn is_log_closed(&self) -> bool {
        true
    }
    fn disown_image(&self) -> Result<()> {
        Ok(())
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
    let geometry = Geometry { extent_shift: EXTENT_SHIFT, ..Geometry::default() };
    let format = Format::of_index(1, geometry, MAX_BYTES);
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

/// Cuts the power at each of these steps. Returns how often the pool then has a log of each length, or the
/// violation. `wholes`: the places of areas, and the pool that has each whole.
fn cut_all(
    image: &[u64],
    steps: &[Action],
    wholes: &[([u64; 2], Vec<u64>)],
) -> std::result::Result<BTreeMap<u64, u32>, String> {
    let mut disk =
        Disk { durable: image.to_vec(), current: image.to_vec(), pending: BTreeMap::new() };
    let mut random = 1_u64;
    let (mut found, mut last) = (BTreeMap::new(), None);
    for action in steps.iter().copied().map(Some).chain([None]) {
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
            let pool = open(&left).map_err(|e| e.to_string())?;
            let at = area(&pool);
            if at[0] == 0 {
                *found.entry(0).or_default() += 1;
                pool.add_log(LOG_BYTES, false).map_err(|e| e.to_string())?;
            } else {
                *found.entry(at[1]).or_default() += 1;
                let (_, whole) =
                    wholes.iter().find(|(there, _)| *there == at).ok_or("the log is elsewhere")?;
                let words = (at[0] / 8) as usize..((at[0] + at[1]) / 8) as usize;
                if left[words.clone()] != whole[words] {
                    return Err("the log is not whole".into());
                }
            }
            let bytes = area(&pool)[1];
            let pool = open(&pool.medium.image()).map_err(|e| e.to_string())?;
            pool.begin().map_err(|e| e.to_string())?;
            let kinds = wait_lock(&pool.extents, &pool.medium).kinds().to_vec();
            let logs = kinds.iter().filter(|kind| **kind == ExtentKind::Log).count();
            if !pool.was_clean() || logs as u64 != bytes >> EXTENT_SHIFT {
                return Err(format!("{logs} extents for a log of {bytes} bytes"));
            }
        }
        action.into_iter().for_each(|action| disk.take(action));
        last = action;
    }
    Ok(found)
}

fn steps_of(pool: &Pool<Sim>, change: impl FnOnce()) -> Vec<Action> {
    pool.medium.record(Vec::new());
    change();
    pool.medium.recorded().into_iter().map(|step| step.action).collect()
}

#[test]
fn a_log_is_made_whole_or_not_at_all() {
    for is_ring in [false, true] {
        let image = closed_pool();
        let pool = open(&image).unwrap();
        let steps = steps_of(&pool, || pool.add_log(LOG_BYTES, is_ring).unwrap());
        let at = area(&pool);
        let found = cut_all(&image, &steps, &[(at, pool.medium.image())]).unwrap();
        assert!(found[&0] > 100 && found[&at[1]] > 5, "{found:?}");
    }
}

#[test]
fn a_log_is_replaced_whole_or_not_at_all() {
    let pool = open(&closed_pool()).unwrap();
    pool.add_log(LOG_BYTES, false).unwrap();
    let (before, image) = (area(&pool), pool.medium.image());
    let pool = open(&image).unwrap();
    let steps = steps_of(&pool, || pool.replace_log(1, 2 * LOG_BYTES, false, true).unwrap());
    let after = area(&pool);
    assert_eq!(after[1], 2 * before[1]);
    let wholes = [(before, image.clone()), (after, pool.medium.image())];
    let found = cut_all(&image, &steps, &wholes).unwrap();
    assert!(found[&before[1]] > 100 && found[&0] > 5 && found[&after[1]] > 5, "{found:?}");
    let again = steps_of(&pool, || pool.replace_log(1, 2 * LOG_BYTES, false, true).unwrap());
    assert!(again.is_empty(), "it is as long");

    // Without the step between the two logs, and without a sync before the new one is named.
    let log = std::mem::offset_of!(Superblock, log) as u32 / 8;
    let place = |step: &Action| matches!(step, Action::Store { word, .. } if *word == log);
    let (gone, named) =
        (steps.iter().position(place).unwrap(), steps.iter().rposition(place).unwrap());
    let mut planted = steps.clone();
    planted.remove(gone);
    assert!(cut_all(&image, &planted, &wholes).is_err(), "a length that is not that of the log");
    let mut planted = steps[..named].to_vec();
    planted.retain(|step| !matches!(step, Action::Sync { .. }));
    planted.extend_from_slice(&steps[named..]);
    assert!(cut_all(&image, &planted, &wholes).is_err(), "a log that is not there yet");
}

#[test]
fn a_pool_without_room_for_a_longer_log_keeps_its_check_words() {
    let pool = open(&closed_pool()).unwrap();
    assert!(pool.checks.exist());
    pool.medium.set_limit(pool.medium.region().len());
    let steps = steps_of(&pool, || {
        let full = pool.add_log(LOG_BYTES, false).unwrap_err();
        assert!(matches!(full.kind(), ErrorKind::Full { .. }));
    });
    assert!(steps.is_empty() && pool.checks.exist(), "{steps:?}");
}

#[test]
fn a_log_that_has_not_all_of_its_extents_is_damage() {
    let pool = open(&closed_pool()).unwrap();
    pool.add_log(LOG_BYTES, false).unwrap();
    let [off, bytes] = area(&pool);
    let whole = pool.medium.image();
    let refused = |change: &dyn Fn(&mut Vec<u64>)| {
        let mut image = whole.clone();
        change(&mut image);
        let e = open(&image).err().unwrap();
        assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
    };
    for extent in [off, off + bytes - 1].map(|at| pool.table.off(at >> EXTENT_SHIFT)) {
        refused(&|image| image[extent as usize / 8] &= !(0xff << (extent % 8 * 8)));
    }
    let log = std::mem::offset_of!(Superblock, log) / 8;
    refused(&|image| image[log] += 4096);
    refused(&|image| image[log + 1] += MAX_BYTES);
    refused(&|image| image[log + 1] = 4096);
    assert!(open(&whole).is_ok());
}
