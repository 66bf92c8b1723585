//! Pools that outgrow their extent tables.

use std::collections::BTreeSet;

use super::{ExtentKind, Format, Geometry, Pool};
use crate::error::{ErrorKind, Result};
use crate::lock::wait_lock;
use crate::medium::sim::{Action, Sim};
use crate::medium::{Medium, Memory};

const MAX_BYTES: u64 = 4 << 20;
/// Extents of the first table.
const GROUP: u64 = 512;

fn format(max_bytes: u64) -> Format {
    Format::of_index(1, Geometry { extent_shift: 10, ..Geometry::default() }, max_bytes)
}

pub(super) fn create() -> Pool<Sim> {
    Pool::create(Sim::new(MAX_BYTES), &format(u64::MAX)).unwrap()
}

pub(super) fn open(image: &[u64]) -> Result<Pool<Sim>> {
    Pool::open(Sim::from_image(image, MAX_BYTES), false)
}

fn take<M: Medium>(pool: &Pool<M>) -> Result<u64> {
    wait_lock(&pool.extents, &pool.medium).take(&pool.medium, ExtentKind::Units(0))
}

fn of_kind<M: Medium>(pool: &Pool<M>, kind: ExtentKind) -> Vec<u64> {
    wait_lock(&pool.extents, &pool.medium).of_kind(kind)
}

#[test]
fn a_pool_without_a_limit_grows_through_its_tables() {
    let pool = create();
    assert!(!pool.format().is_limited());
    let mut taken = Vec::new();
    let full = loop {
        match take(&pool) {
            Ok(i) => taken.push(i),
            Err(e) => break e,
        }
    };
    assert!(matches!(full.kind(), ErrorKind::Full { .. }), "{full}");
    // Of 4096: the first one, and tables of 512, 1024, 2048 and, ahead, 4096 bytes.
    let heads = of_kind(&pool, ExtentKind::Head);
    assert_eq!(heads.len(), 1 + 1 + 1 + 2 + 4);
    assert_eq!(taken.len() + heads.len(), (MAX_BYTES >> 10) as usize);
    pool.close().unwrap();
    let image = pool.medium.image();
    let pool = open(&image).unwrap();
    pool.begin().unwrap();
    assert_eq!(of_kind(&pool, ExtentKind::Units(0)), taken);
    for i in taken.iter().rev().take(3000) {
        wait_lock(&pool.extents, &pool.medium).release(&pool.medium, *i).unwrap();
    }
    pool.close().unwrap();
    let count = wait_lock(&pool.extents, &pool.medium).kinds().len();
    assert!(count < 3000, "the end is cut, though there are tables for it: {count}");
    let pool = open(&pool.medium.image()).unwrap();
    pool.begin().unwrap();
    while take(&pool).is_ok() {}
    // But for those of check words, for which the first close had no room.
    let mut all = of_kind(&pool, ExtentKind::Units(0));
    all.extend(of_kind(&pool, ExtentKind::Checks));
    all.sort_unstable();
    assert_eq!(all, taken);

    // Without the table, or with it elsewhere, the pool is damaged.
    let place = std::mem::offset_of!(super::Superblock, tables) / 8;
    for (table, change) in [(0, 1 << 10), (1, 1 << 10), (2, 8), (2, 1 << 40)] {
        let mut damaged = image.clone();
        damaged[place + table] ^= change;
        let e = open(&damaged).err().unwrap();
        assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
        damaged[place + table] = 0;
        assert!(open(&damaged).is_err());
    }
}

/// A growth ahead of use may need a table where the growth that is asked for does not.
#[test]
fn a_run_is_found_beside_the_table_that_its_growth_needs() {
    let pool = create();
    let take_run = |count: u64| {
        let kinds = [ExtentKind::RunHead, ExtentKind::RunRest];
        wait_lock(&pool.extents, &pool.medium).take_run(&pool.medium, count, kinds)
    };
    let count = || wait_lock(&pool.extents, &pool.medium).kinds().len() as u64;
    let free = || of_kind(&pool, ExtentKind::Free).len();
    // Full before: a quarter of the pool more needs the table behind 2,048 extents, and one less does not.
    let before = (0..).find(|before| before + before / 4 == GROUP * 4 / 2 + 1).unwrap();
    while count() < before {
        while free() > 0 {
            take(&pool).unwrap();
        }
        take_run((before - count()).min(count())).unwrap();
    }
    while free() > 0 {
        take(&pool).unwrap();
    }
    assert_eq!(count(), before);
    take_run(before / 4 - 1).unwrap();
}

/// The words on a medium, and those that a crash may leave out: flushed lines count at the next fence.
#[derive(Default)]
pub(super) struct Crash {
    durable: Vec<u64>,
    current: Vec<u64>,
    dirty: BTreeSet<usize>,
    flushed: BTreeSet<usize>,
}

impl Crash {
    pub(super) fn of(image: &[u64]) -> Self {
        Crash { durable: image.to_vec(), current: image.to_vec(), ..Crash::default() }
    }

    fn settle(&mut self, lines: impl Iterator<Item = usize>) {
        for line in lines {
            let words = line * 8..line * 8 + 8;
            self.durable[words.clone()].copy_from_slice(&self.current[words]);
            self.dirty.remove(&line);
        }
    }

    pub(super) fn take(&mut self, action: Action) {
        match action {
            Action::Store { word, v } => {
                self.current[word as usize] = v;
                self.dirty.insert(word as usize / 8);
            }
            Action::Flush { line, lines } => {
                self.flushed.extend((line..line + lines).map(|line| line as usize));
            }
            Action::Fence | Action::Drain => {
                let flushed = std::mem::take(&mut self.flushed);
                self.settle(flushed.into_iter());
            }
            Action::Sync { .. } => self.settle(0..self.current.len() / 8),
            Action::Resize { words } => {
                self.current.resize(words as usize, 0);
                self.durable.resize(words as usize, 0);
            }
            _ => {}
        }
    }

    /// The durable words, and of the other lines those that are chosen.
    pub(super) fn image(&self, choose: &mut dyn FnMut() -> bool) -> Vec<u64> {
        let mut image = self.durable.clone();
        for line in self.dirty.iter().filter(|_| choose()) {
            let words = line * 8..line * 8 + 8;
            image[words.clone()].copy_from_slice(&self.current[words]);
        }
        image
    }
}

/// The steps of a pool that grows past two tables, with a mark after each extent that was taken.
fn growth() -> (Vec<u64>, Vec<Action>, Vec<u64>) {
    let pool = create();
    let mut taken: Vec<_> = (0..GROUP / 2 - 20).map(|_| take(&pool).unwrap()).collect();
    pool.close().unwrap();
    let image = pool.medium.image();
    let pool = open(&image).unwrap();
    pool.medium.record(Vec::new());
    pool.begin().unwrap();
    for _ in 0..400 {
        let i = take(&pool).unwrap();
        pool.medium.mark(i);
        taken.push(i);
    }
    // Past the next table, too, in one step.
    let count = 1200;
    let rest = [ExtentKind::Units(0); 2];
    let first = wait_lock(&pool.extents, &pool.medium).take_run(&pool.medium, count, rest).unwrap();
    pool.medium.fence();
    (first..first + count).for_each(|i| pool.medium.mark(i));
    let steps = pool.medium.recorded().into_iter().map(|step| step.action).collect();
    taken.truncate(GROUP as usize / 2 - 20);
    (image, steps, taken)
}

/// Checks that the image of a crash opens, has every extent that was taken, and grows on.
fn recovers(image: &[u64], taken: &[u64]) -> std::result::Result<(), String> {
    let pool = open(image).map_err(|e| e.to_string())?;
    pool.begin().map_err(|e| e.to_string())?;
    let units: BTreeSet<_> = of_kind(&pool, ExtentKind::Units(0)).into_iter().collect();
    if let Some(i) = taken.iter().find(|i| !units.contains(i)) {
        return Err(format!("extent {i} is lost"));
    }
    let heads = of_kind(&pool, ExtentKind::Head);
    if heads != {
        let mut named = pool.table.heads();
        named.sort_unstable();
        named
    } {
        return Err(format!("heads that nothing names: {heads:?}"));
    }
    let mut more = BTreeSet::new();
    for _ in 0..600 {
        let i = take(&pool).map_err(|e| e.to_string())?;
        if units.contains(&i) || !more.insert(i) {
            return Err(format!("extent {i} was taken twice"));
        }
    }
    let again = open(&pool.medium.image()).map_err(|e| e.to_string())?;
    let found = of_kind(&again, ExtentKind::Units(0)).len();
    (found == units.len() + 600).then_some(()).ok_or_else(|| format!("{found} extents"))
}

fn crash_all(steps: &[Action], image: &[u64], taken: &[u64]) -> std::result::Result<u32, String> {
    let mut crash = Crash::of(image);
    let (mut taken, mut states, mut random) = (taken.to_vec(), 0, 1_u64);
    for action in steps {
        crash.take(*action);
        if let Action::Mark(i) = action {
            taken.push(*i);
        }
        // Every step while a table is made or counted; some of the others, which are alike.
        let word = match action {
            Action::Store { word, .. } => *word as usize,
            Action::Fence => 0,
            _ => usize::MAX,
        };
        let looks = if word < 64 { 12 } else { u64::from(states % 16 == 0) };
        states += 1;
        for look in 0..looks {
            let mut choose = || match look {
                0 => false,
                1 => true,
                _ => {
                    random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                    random >> 63 == 1
                }
            };
            recovers(&crash.image(&mut choose), &taken)
                .map_err(|e| format!("{e} at {action:?}"))?;
        }
    }
    Ok(states)
}

#[test]
fn a_crash_while_a_table_is_made_loses_nothing() {
    let (image, steps, taken) = growth();
    assert!(crash_all(&steps, &image, &taken).unwrap() > 1000);
    // A table that is named before its zeros, or before its extents are the head's: told apart from that.
    let place = std::mem::offset_of!(super::Superblock, tables) as u32 / 8;
    let is_name = |action: &Action| {
        matches!(action, Action::Store { word, .. }
        if (place..place + 19).contains(word))
    };
    let named = steps.iter().position(is_name).unwrap();
    let fence = steps[..named].iter().rposition(|action| *action == Action::Fence).unwrap();
    let mut planted = steps.clone();
    planted.remove(fence);
    assert!(crash_all(&planted, &image, &taken).is_err(), "the fault was not found");
}
