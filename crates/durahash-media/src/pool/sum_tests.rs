//! Check words of a pool with a live image: those of the disk, which checkpoints keep.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Pool;
use super::tests::{covered, damaged, format, place};
use crate::hash::WordMix;
use crate::medium::sim::{DiskImage, DiskStep, SimDisk, seed};
use crate::medium::{Live, Memory, Storage, SumArea, SyncMode};

const MAX_BYTES: u64 = 512 << 10;
const AREA_BYTES: u64 = 16 * 4096;

type Opened = (SimDisk, Arc<Pool<Live<SimDisk>>>);

/// A pool with this many extents of units, closed: the disk, and where the first of them is.
fn closed(units: u64) -> (DiskImage, u64) {
    let disk = SimDisk::new(MAX_BYTES, AREA_BYTES, false);
    let medium = disk.clone().create_live(SyncMode::INTERVAL, AREA_BYTES).unwrap();
    let pool = Arc::new(Pool::create(medium, &format()).unwrap());
    let first = place(&pool).take_unit_extents(units).unwrap() << 10;
    fill(&pool, first..first + (units << 10), 1);
    pool.close().unwrap();
    (disk.image(), first)
}

fn open(image: DiskImage) -> Opened {
    let disk = SimDisk::resume(image, Vec::new(), MAX_BYTES, false);
    let medium = disk.clone().open_live(SyncMode::INTERVAL).unwrap();
    let pool = Arc::new(Pool::open(medium, false).unwrap());
    assert_eq!(damaged(&pool), [], "before it begins");
    pool.begin().unwrap();
    (disk, pool)
}

fn fill(pool: &Pool<Live<SimDisk>>, bytes: std::ops::Range<u64>, v: u64) {
    for off in bytes.step_by(64) {
        pool.touch(off);
        pool.medium().store(pool.at(off).unwrap(), v + off);
    }
}

/// The pool, before it begins.
fn found(image: DiskImage) -> Pool<Live<SimDisk>> {
    let disk = SimDisk::resume(image, Vec::new(), MAX_BYTES, false);
    Pool::open(disk.open_live(SyncMode::INTERVAL).unwrap(), false).unwrap()
}

/// Brings all that was stored to the base.
fn checkpoint(pool: &Pool<Live<SimDisk>>) {
    pool.medium().steps().write().unwrap();
    pool.medium().steps().checkpoint().unwrap();
}

fn flip(image: &mut DiskImage, off: u64) {
    image.pool[off as usize / 8] ^= 1 << (off % 64);
}

#[test]
fn what_a_checkpoint_has_written_is_covered_whatever_happens_then() {
    let (image, _) = closed(40);
    assert_eq!(covered(&found(image.clone())), [41, 41]);
    let (disk, pool) = open(image);
    fill(&pool, 16 << 10..24 << 10, 2);
    checkpoint(&pool);
    fill(&pool, 32 << 10..33 << 10, 3);
    pool.medium().steps().write().unwrap();
    for image in [disk.image(), disk.image().of_next_boot()] {
        let (_, pool) = open(image.clone());
        // But for two pages, the first of which every open stores to, with readers beside before it returns.
        assert_eq!(covered(&pool), [41, 33]);
        for off in [16 << 10, 20_000, (24 << 10) - 1, 37_000] {
            let mut image = image.clone();
            flip(&mut image, off);
            let pool = found(image);
            assert_eq!(damaged(&pool), [off / 1024 * 1024], "before it begins");
            pool.begin().unwrap();
            assert_eq!(damaged(&pool), [off / 1024 * 1024]);
        }
    }
}

/// Stores, growth, snapshots, checkpoints, ways out, closes, kills and losses of power, one after the other, and the same with
/// a bit flipped in a block that is covered.
#[test]
fn covered_blocks_are_right_whatever_happened() {
    let (mut flipped, mut areas) = (0, BTreeSet::new());
    for seed in seed(0)..seed(60) {
        let mix = WordMix::new(seed);
        let mut n = 0;
        let mut next = |below: u64| {
            n += 1;
            mix.mix(n) % below
        };
        let (image, _) = closed(3);
        let (mut disk, mut pool) = open(image);
        for _ in 0..60 {
            let extents = place(&pool).unit_extents();
            match next(12) {
                0 => drop(place(&pool).take_unit_extents(1 + next(4) * next(20))),
                1 => pool.medium().steps().write().unwrap(),
                2 => pool.medium().steps().checkpoint().unwrap(),
                3 => (disk, pool) = open(disk.image()),
                4 => (disk, pool) = open(disk.image().of_next_boot()),
                5 => {
                    pool.close().unwrap();
                    let closed = found(disk.image());
                    let [all, covered] = covered(&closed);
                    // On a full disk there is no room for the words.
                    assert!(covered == all || closed.stats().bytes > MAX_BYTES - 4096);
                    drop(closed);
                    (disk, pool) = open(disk.image());
                }
                6 if extents.len() > 1 => {
                    pool.release_extent(extents[next(extents.len() as u64) as usize]).unwrap();
                }
                _ => {
                    let off = extents[next(extents.len() as u64) as usize] << 10;
                    let from = next(16) * 64;
                    fill(&pool, off + from..off + 1024, next(1000));
                }
            }
            areas.extend(area(&pool).map(|area| (area.off, area.extents)));
            assert_eq!(damaged(&pool), [], "seed {seed}");
            if next(8) == 0 {
                flipped += u64::from(flip_one(disk.image(), &pool, next(1 << 40)));
            }
        }
    }
    assert!(flipped > 40 && areas.len() > 2, "{flipped} {areas:?}");
}

/// A pool that grows beyond its area, and is closed: killed, or without power, behind each step of the disk, and the next process
/// once more behind its own.
#[test]
fn an_area_that_moves_is_right_behind_each_step() {
    let (image, first) = closed(150);
    let (disk, pool) = open(image.clone());
    fill(&pool, first..first + 8192, 5);
    checkpoint(&pool);
    let (from, before) = (disk.step_count(), area(&pool));
    while area(&pool) == before {
        place(&pool).take_unit_extents(5).unwrap();
    }
    pool.close().unwrap();
    let steps = disk.steps();
    let is_line = |step: Option<&DiskStep>| matches!(step, Some(DiskStep::Line { .. }));
    for at in from..=steps.len() {
        if is_line(steps.get(at)) && at % 64 != 0 {
            continue;
        }
        let left = SimDisk::resume(image.clone(), steps[..at].to_vec(), MAX_BYTES, false).image();
        for image in [left.clone(), left.of_next_boot()] {
            let (disk, pool) = open(image);
            assert_eq!(damaged(&pool), [], "step {at}");
            fill(&pool, first + 4096..first + 12288, at as u64);
            // More than the ring has room for, but for the first snapshot, which waits for the way out.
            for v in 0..3 {
                fill(&pool, first..first + (40 << 10), v);
                assert_eq!(damaged(&open(disk.image().of_next_boot()).1), [], "step {at}");
                pool.medium().steps().write().unwrap();
                assert_eq!(damaged(&open(disk.image().of_next_boot()).1), [], "step {at}");
            }
            checkpoint(&pool);
            assert_eq!(damaged(&pool), [], "step {at}");
            assert_eq!(damaged(&open(disk.image().of_next_boot()).1), [], "step {at}");
        }
    }
}

fn area(pool: &Pool<Live<SimDisk>>) -> Option<SumArea> {
    SumArea::of(pool.medium().region())
}

/// Flips a bit of a block of units, after which power is lost: it is told if the block is covered. True if it was.
fn flip_one(image: DiskImage, pool: &Arc<Pool<Live<SimDisk>>>, at: u64) -> bool {
    let extents = place(pool).unit_extents();
    let off = (extents[(at >> 20) as usize % extents.len()] << 10) + at % 1024;
    let [sound, mut image] = [image.clone(), image].map(DiskImage::of_next_boot);
    if image.pool.len() as u64 * 8 <= off {
        return false;
    }
    flip(&mut image, off);
    let [(none, before), (told, after)] = [sound, image].map(|image| {
        let pool = found(image);
        (damaged(&pool), covered(&pool))
    });
    assert!(none.is_empty() && before == after);
    assert!(told.is_empty() || told == [off / 1024 * 1024], "{told:?} of {off}");
    !told.is_empty()
}

/// The end of a pool is cut off, and comes back as zeros: what the check words said of it is not called damage.
#[test]
fn blocks_that_were_cut_off_have_no_words_when_they_come_back() {
    let (mut image, _) = closed(8);
    for round in 0..3 {
        let (disk, pool) = open(image);
        let first = place(&pool).take_unit_extents(20).unwrap();
        let bytes = pool.stats().bytes;
        assert_eq!(damaged(&pool), [], "{round}");
        fill(&pool, first << 10..(first + 20) << 10, round);
        pool.close().unwrap();
        let (disk, pool) =
            open(if round == 1 { disk.image().of_next_boot() } else { disk.image() });
        (first..first + 20).for_each(|extent| pool.release_extent(extent).unwrap());
        pool.close().unwrap();
        image = disk.image();
        assert!((image.pool.len() as u64) * 8 < bytes);
    }
}

/// A block that was damaged when the image was made of it gets no sum that is right, whatever is stored to it.
#[test]
fn damage_that_was_copied_stays_told_until_its_extent_is_taken_anew() {
    let (mut image, first) = closed(8);
    flip(&mut image, first + 100);
    for _ in 0..2 {
        let disk = SimDisk::resume(image.of_next_boot(), Vec::new(), MAX_BYTES, false);
        let medium = disk.clone().open_live(SyncMode::INTERVAL).unwrap();
        let pool = Arc::new(Pool::open(medium, false).unwrap());
        pool.begin().unwrap();
        fill(&pool, first + 512..first + 1024, 7);
        checkpoint(&pool);
        assert_eq!(damaged(&pool), [first]);
        pool.close().unwrap();
        image = disk.image();
    }
}

/// A bit of the image that changes by itself, in a page at rest, is told, too.
#[test]
fn damage_of_the_image_alone_is_told() {
    let (image, first) = closed(8);
    let (_, pool) = open(image);
    checkpoint(&pool);
    let word: &crate::PmU64 = pool.at(first + 128).unwrap();
    word.store(word.load() ^ 4);
    assert_eq!(damaged(&pool), [first]);
}

/// The lines that a checkpoint writes to the base: those of its pages, and of one page of marks and one of sums.
#[test]
fn a_checkpoint_writes_few_lines_more() {
    let mut lines = Vec::new();
    for is_kept in [true, false] {
        let (image, first) = closed(34);
        let (disk, pool) = open(image);
        if !is_kept {
            pool.medium().disk_sums().unwrap().keep_only(None);
        }
        checkpoint(&pool);
        fill(&pool, first..first + (16 << 10), 2);
        let before = disk.step_count();
        checkpoint(&pool);
        let steps = disk.steps();
        let is_line = |step: &&DiskStep| matches!(step, DiskStep::Line { .. });
        lines.push(steps[before..].iter().filter(is_line).count());
    }
    assert_eq!(lines[0] - lines[1], 64, "one page has both: {lines:?}");
}
