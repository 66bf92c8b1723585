use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::error::ErrorKind;
use crate::medium::sim::{DiskImage, DiskStep, SimDisk, faults};
use crate::medium::{Mapped, MappedOptions, Medium};
use crate::pool::{Format, Geometry, Pool};

const POOL_BYTES: u64 = 64 << 10;
const AREA_BYTES: u64 = 7 * 4096;

/// A disk with a log's area of so many bytes, and an empty pool on it. In `Interval` staged lines outlive
/// the process.
fn empty(area_bytes: u64, mode: SyncMode) -> (SimDisk, Logged<SimDisk>) {
    let disk = SimDisk::new(POOL_BYTES, area_bytes, mode != SyncMode::Strict);
    let medium = disk.clone().create(mode).unwrap();
    medium.grow(POOL_BYTES).unwrap();
    (disk, medium)
}

/// The disk that a kill of the process leaves.
fn left(image: DiskImage, mode: SyncMode) -> SimDisk {
    SimDisk::resume(image, Vec::new(), POOL_BYTES, mode != SyncMode::Strict)
}

fn word<M: Medium>(medium: &M, off: u64) -> &PmU64 {
    medium.region().at(off).unwrap()
}

/// The pool on `disk`, recovered.
fn recovered(disk: SimDisk, mode: SyncMode) -> Logged<SimDisk> {
    let medium = disk.open(mode).unwrap();
    medium.begin().unwrap();
    medium
}

fn reopen(image: DiskImage, mode: SyncMode) -> Logged<SimDisk> {
    recovered(left(image, mode), mode)
}

/// Stores `v`, flushes and drains.
fn put<M: Medium>(medium: &M, off: u64, v: u64) {
    let word = word(medium, off);
    medium.store(word, v);
    medium.flush(word);
    medium.drain();
}

/// Stores and drains a line of its own for each of `numbers`.
fn write<M: Medium>(medium: &M, numbers: std::ops::Range<u64>) {
    numbers.for_each(|i| put(medium, i % 100 * 64, i));
}

#[test]
fn drained_stores_are_there_and_unflushed_ones_are_not() {
    let (disk, medium) = empty(AREA_BYTES, SyncMode::Strict);
    write(&medium, 1..8);
    medium.store(word(&medium, 8 * 64), 8);
    medium.store(word(&medium, 9 * 64), 9);
    medium.flush(word(&medium, 9 * 64));
    medium.fence();
    let after = reopen(disk.image(), SyncMode::Strict);
    let found: Vec<u64> = (1..10).map(|i| after.load(word(&after, i * 64))).collect();
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 0, 0]);
}

#[test]
fn an_interval_loses_nothing_to_a_kill() {
    let (disk, medium) = empty(AREA_BYTES, SyncMode::INTERVAL);
    // Less than is written by itself.
    write(&medium, 1..30);
    assert_eq!(medium.log_stats().unwrap().writes, 0);
    let after = reopen(disk.image(), SyncMode::INTERVAL);
    assert!((1..30).all(|i| after.load(word(&after, i * 64)) == i));
}

/// A staged line that outlived the power reached the disk by chance; a later open that happens to
/// give its number to another line must not take it for its own.
/// A disk answers in as much time as it takes to write a mebibyte.
#[test]
fn much_that_is_staged_is_written_at_once() {
    let (_disk, medium) = empty(64 << 20, SyncMode::INTERVAL);
    write(&medium, 0..50_000);
    medium.steps().write().unwrap();
    let stats = medium.log_stats().unwrap();
    assert!(stats.writes == 1 && stats.bytes > 3 << 20, "{stats:?}");
}

#[test]
fn lines_of_an_earlier_open_never_come_back() {
    let (disk, medium) = empty(AREA_BYTES, SyncMode::INTERVAL);
    write(&medium, 1..3);
    medium.sync(0, 0).unwrap();
    write(&medium, 3..20);
    let mut image = disk.image();
    // Of the staged lines, the first behind the log's last did not reach the disk.
    let slot = 3 * format::STAGED_WORDS * 8;
    image.area[format::Layout::STAGED_OFF as usize + slot..][..8].fill(0);
    let disk = left(image, SyncMode::Strict);
    let medium = recovered(disk.clone(), SyncMode::Strict);
    assert_eq!(medium.load(word(&medium, 3 * 64)), 0);
    // As many as it takes for the next number to be that of a line that is still there.
    write(&medium, 50..51);
    let medium = reopen(disk.image(), SyncMode::Strict);
    let found: Vec<u64> = (1..6).map(|i| medium.load(word(&medium, i * 64))).collect();
    assert_eq!(found, [1, 2, 0, 0, 0]);
    assert_eq!(medium.load(word(&medium, 50 * 64)), 50);
}

#[test]
fn a_line_is_private_as_its_last_flush_left_it() {
    let (disk, medium) = empty(AREA_BYTES, SyncMode::Strict);
    // Round the ring many times, always the same lines.
    write(&medium, 1..1001);
    let stats = medium.log_stats().unwrap();
    assert!(stats.checkpoints > 100 && stats.lines == 1000 && stats.writes == 1000, "{stats:?}");
    let after = reopen(disk.image(), SyncMode::Strict);
    assert!((901..1001).all(|i| after.load(word(&after, i % 100 * 64)) == i));
}

#[test]
fn more_than_the_ring_holds_is_logged_in_parts() {
    let (disk, medium) = empty(AREA_BYTES, SyncMode::INTERVAL);
    let words = medium.region().words(0, POOL_BYTES / 8).unwrap();
    for (i, word) in words.iter().enumerate() {
        medium.store(word, i as u64);
    }
    medium.flush_fresh(words);
    medium.drain();
    let after = reopen(disk.image(), SyncMode::INTERVAL);
    let words = after.region().words(0, POOL_BYTES / 8).unwrap();
    assert!(words.iter().enumerate().all(|(i, word)| after.load(word) == i as u64));
}

#[test]
fn stores_past_the_cache_are_logged_line_by_line() {
    let (disk, medium) = empty(AREA_BYTES, SyncMode::Strict);
    for i in 0..32 {
        medium.store_nt(word(&medium, i * 8), i + 1);
    }
    medium.drain();
    assert_eq!(medium.log_stats().unwrap().lines, 4);
    let after = reopen(disk.image(), SyncMode::Strict);
    assert!((0..32).all(|i| after.load(word(&after, i * 8)) == i + 1));
}

#[test]
fn a_batch_waits_once_and_others_wait_for_it() {
    let medium = Arc::new(empty(AREA_BYTES, SyncMode::Strict).1);
    let writes = || medium.log_stats().unwrap().writes;
    medium.defer(true);
    write(&*medium, 1..10);
    medium.wait_until_durable().unwrap();
    assert_eq!(writes(), 0, "its own operations do not wait");
    let other = Arc::clone(&medium);
    std::thread::spawn(move || other.wait_until_durable().unwrap()).join().unwrap();
    assert_eq!(writes(), 1, "what another thread may have seen is durable");
    write(&*medium, 10..20);
    medium.defer(false);
    medium.wait_until_durable().unwrap();
    assert_eq!(writes(), 2);
}

#[test]
fn a_failed_write_ends_the_log_and_is_never_tried_again() {
    let (disk, medium) = empty(AREA_BYTES, SyncMode::Strict);
    write(&medium, 1..3);
    disk.fail_at(1);
    write(&medium, 3..4);
    assert!(medium.wait_until_durable().is_err(), "what was seen might be lost");
    let steps = disk.step_count();
    write(&medium, 4..9);
    assert!(medium.wait_until_durable().is_err() && medium.sync(0, 64).is_err());
    assert!(medium.grow(POOL_BYTES).is_err() && medium.trim(0).is_err());
    assert!(medium.steps().checkpoint().is_err());
    assert_eq!(disk.step_count(), steps);
}

/// Threads that store to the same lines, at the same time: of each line the log ends with what the
/// last flush of it saw, and nothing is lost.
#[test]
fn lines_that_threads_share_end_as_the_last_flush_saw_them() {
    let (disk, medium) = empty(AREA_BYTES, SyncMode::INTERVAL);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let medium = &medium;
            let stores = move || (1..=500).for_each(|i| put(medium, i % 10 * 64 + thread * 8, i));
            scope.spawn(stores);
        }
    });
    let after = reopen(disk.image(), SyncMode::INTERVAL);
    for i in 491..=500 {
        for thread in 0..4 {
            assert_eq!(after.load(word(&after, i % 10 * 64 + thread * 8)), i);
        }
    }
}

/// A disk whose log has several blocks, each of them waited for.
fn blocks(lines: u64) -> DiskImage {
    let (disk, medium) = empty(64 * 4096, SyncMode::Strict);
    write(&medium, 1..lines + 1);
    disk.image()
}

fn found(image: DiskImage) -> Result<Vec<u64>> {
    let medium = left(image, SyncMode::Strict).open(SyncMode::Strict)?;
    Ok((1..100).map(|i| medium.load(word(&medium, i * 64))).filter(|v| *v != 0).collect())
}

#[test]
fn damage_before_the_end_is_told_and_the_end_may_be_cut() {
    const LINES: u64 = 10;
    let whole = blocks(LINES);
    let ring = format::Layout::of(64 * 4096).block_off(0) as usize;
    for block in 0..LINES {
        for at in [0, 33, 52, 57, 100, 4095] {
            let mut image = whole.clone();
            image.area[ring + block as usize * 4096 + at] ^= 4;
            // The pool has it already, but a loss of power might have kept it from there.
            image.pool.fill(0);
            match found(image) {
                Ok(found) => {
                    assert_eq!(block, LINES - 1, "byte {at} of block {block} is not missed");
                    assert_eq!(found, (1..LINES).collect::<Vec<_>>());
                }
                Err(e) => {
                    assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
                    assert!(block < LINES - 1, "the end of the log was taken for damage");
                }
            }
        }
    }
}

/// Of one write of several blocks any may be on the disk.
#[test]
fn a_write_that_was_cut_is_no_damage() {
    let (disk, medium) = empty(64 * 4096, SyncMode::Strict);
    write(&medium, 1..3);
    medium.defer(true);
    write(&medium, 3..300);
    medium.defer(false);
    medium.wait_until_durable().unwrap();
    let ring = format::Layout::of(64 * 4096).block_off(0) as usize;
    for lost in 2..8 {
        let mut image = disk.image();
        image.area[ring + lost * 4096..][..4096].fill(0);
        image.pool.fill(0);
        let lines = (lost as u64 - 2) * format::BLOCK_LINES;
        assert_eq!(found(image).unwrap().len() as u64, (lines + 2).min(99), "block {lost}");
    }
}

#[test]
fn a_damaged_head_loses_nothing_or_is_told() {
    let mut refused = 0;
    for lines in 0..100 {
        let (disk, medium) = empty(AREA_BYTES, SyncMode::Strict);
        write(&medium, 1..lines + 1);
        for head in [0, 4096] {
            let mut image = disk.image();
            image.area[head + 50] ^= 1;
            match found(image) {
                Ok(found) => assert_eq!(found.len() as u64, lines, "head at {head}"),
                Err(e) => {
                    assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0, "the ring was never written over");
}

/// An old line would come back where the pool was changed without the log meanwhile.
#[test]
fn a_closed_log_is_empty_with_either_head() {
    let (disk, medium) = empty(AREA_BYTES, SyncMode::Strict);
    write(&medium, 1..3);
    medium.trim(POOL_BYTES).unwrap();
    for head in [0, 4096] {
        let mut image = disk.image();
        image.area[head + 50] ^= 1;
        image.pool.fill(7);
        let medium = left(image, SyncMode::Strict).open(SyncMode::Strict).unwrap();
        assert!((1..3).all(|i| medium.load(word(&medium, i * 64)) == 7));
    }
}

#[test]
fn nothing_is_written_before_the_pool_begins() {
    let disk = left(blocks(10), SyncMode::Strict);
    let before = disk.image();
    let medium = disk.clone().open(SyncMode::Strict).unwrap();
    assert!((1..11).all(|i| medium.load(word(&medium, i * 64)) == i));
    drop(medium);
    assert!(disk.step_count() == 0 && disk.image() == before);
    recovered(disk.clone(), SyncMode::Strict);
    assert!(disk.step_count() > 0);
}

/// After a write that failed the system may show what is not on the disk, and write it in no later sync.
#[test]
fn a_recovery_writes_its_log_again_before_the_pool() {
    let (disk, medium) = empty(64 * 4096, SyncMode::Strict);
    write(&medium, 1..3);
    medium.defer(true);
    write(&medium, 3..100);
    medium.defer(false);
    disk.fail_at(1);
    assert!(medium.wait_until_durable().is_err());
    let shown = disk.image();
    let disk = left(shown.clone(), SyncMode::Strict);
    let medium = recovered(disk.clone(), SyncMode::Strict);
    assert!((1..100).all(|i| medium.load(word(&medium, i * 64)) == i));
    let steps = disk.steps();
    let is_line = |step: &DiskStep| matches!(step, DiskStep::Line { .. });
    let before = &steps[..steps.iter().position(is_line).unwrap()];
    // From nothing: the head that was read and the blocks of all lines are there.
    let mut again = DiskImage { area: vec![0; shown.area.len()], ..DiskImage::default() };
    assert!(before.iter().all(|step| matches!(step, DiskStep::Again { .. })));
    before.iter().for_each(|step| again.apply(step));
    again.pool = vec![0; POOL_BYTES as usize / 8];
    assert_eq!(found(again).unwrap(), (1..100).collect::<Vec<_>>());
}

#[test]
fn a_growth_that_fails_ends_the_log_but_for_want_of_space() {
    let disk = SimDisk::new(POOL_BYTES, AREA_BYTES, false);
    let medium = disk.clone().create(SyncMode::Strict).unwrap();
    medium.grow(POOL_BYTES / 2).unwrap();
    disk.set_limit(POOL_BYTES / 2);
    assert!(matches!(medium.grow(POOL_BYTES).unwrap_err().kind(), ErrorKind::Full { .. }));
    write(&medium, 1..3);
    medium.wait_until_durable().unwrap();
    disk.set_limit(POOL_BYTES);
    disk.fail_at(1);
    assert!(matches!(medium.grow(POOL_BYTES).unwrap_err().kind(), ErrorKind::Io { .. }));
    let steps = disk.step_count();
    write(&medium, 3..5);
    assert!(medium.wait_until_durable().is_err() && medium.grow(POOL_BYTES).is_err());
    assert!(medium.steps().checkpoint().is_err());
    assert_eq!(disk.step_count(), steps);
}

/// A closed pool in a file, in strict mode, with a log of about so many bytes.
fn made(log_bytes: u64) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    make(&path, log_bytes);
    (dir, path)
}

fn make(path: &Path, log_bytes: u64) {
    let geometry = Geometry::default();
    let (key_type, value_type, max_bytes) = (6, 6, 1 << 30);
    let format = Format {
        design: 1,
        kind: 0,
        cells: false,
        in_slots: false,
        key_type,
        value_type,
        geometry,
        seed: 7,
        max_bytes,
    };
    let file = Mapped::create(path, &MappedOptions::default()).unwrap();
    let pool = Pool::create(file, &format).unwrap();
    pool.publish().unwrap();
    pool.add_log(log_bytes, false).unwrap();
    pool.set_sync_mode(SyncMode::Strict).unwrap();
    pool.close().unwrap();
}

/// Grows the pool, which counts its extents: what lies behind them is not its own.
fn grow(medium: &Logged<FileDisk>, bytes: u64) {
    medium.grow(bytes).unwrap();
    put(medium, area::EXTENTS_OFF, bytes >> Geometry::default().extent_shift);
}

fn mapped(path: &Path, read_only: bool) -> Result<Mapped> {
    Mapped::open(path, read_only, &MappedOptions::default())
}

fn assert_damaged<T>(result: Result<T>) {
    let e = result.err().unwrap();
    assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
}

fn open(path: &Path, mode: SyncMode) -> Logged<FileDisk> {
    let file = mapped(path, false).unwrap();
    assert_eq!(Pool::sync_mode(&file).unwrap(), SyncMode::Strict);
    let medium = Logged::over_file(file, mode, Some(1 << 20)).unwrap();
    medium.begin().unwrap();
    medium
}

#[test]
fn a_log_that_says_that_it_is_elsewhere_is_refused() {
    let (_dir, path) = made(1 << 20);
    let medium = open(&path, SyncMode::Strict);
    let was = medium.load(word(&medium, LOG_OFF));
    put(&medium, LOG_OFF, 0);
    // As if the pool had not got it yet.
    let mut left = fs::read(&path).unwrap();
    left[LOG_OFF as usize..][..8].copy_from_slice(&was.to_le_bytes());
    drop(medium);
    fs::write(&path, &left).unwrap();
    for read_only in [true, false] {
        assert_damaged(mapped(&path, read_only));
    }
    assert!(fs::read(&path).unwrap() == left, "what is refused is left alone");
}

#[test]
fn the_log_of_a_file_brings_back_stores_that_the_file_lacks() {
    let (_dir, path) = made(1 << 20);
    let end = fs::metadata(&path).unwrap().len();
    for mode in [SyncMode::Strict, SyncMode::Interval(Duration::from_secs(3600))] {
        let medium = open(&path, mode);
        grow(&medium, end + (1 << 20));
        write_at(&medium, end, 1..30);
        medium.store(word(&medium, end), 999);
        // As a kill would leave it.
        let left = fs::read(&path).unwrap();
        drop(medium);
        fs::write(&path, left).unwrap();
        for read_only in [true, false] {
            let file = mapped(&path, read_only).unwrap();
            assert!((1..30).all(|i| file.load(word(&file, end + i * 64)) == i), "{mode:?}");
            assert_eq!(file.load(word(&file, end)), 0, "never flushed");
            file.begin().unwrap();
            assert!((1..30).all(|i| file.load(word(&file, end + i * 64)) == i), "{mode:?}");
            (1..30).for_each(|i| file.store(word(&file, end + i * 64), 0));
        }
    }
}

fn write_at<M: Medium>(medium: &M, off: u64, numbers: std::ops::Range<u64>) {
    numbers.for_each(|i| put(medium, off + i * 64, i));
}

#[test]
fn a_line_is_written_after_the_interval_and_at_once_where_no_thread_would() {
    for (every, hour) in [(Duration::from_millis(1), false), (Duration::from_secs(3600), true)] {
        let mode = SyncMode::Interval(every);
        let (_disk, mut medium) = empty(AREA_BYTES, mode);
        medium.background = Some(background::start(&medium.log, mode));
        medium.log.write_due();
        let log = Arc::clone(&medium.log);
        let is_written = || log.is_durable(log.next());
        faults::NO_THREADS.set(Some(Box::new(|| ())));
        for i in 0..3 {
            put(&medium, 64, i);
            assert!(is_written());
        }
        faults::NO_THREADS.set(None);
        for i in 0..3 {
            put(&medium, 64, i);
            while !hour && !is_written() {
                std::thread::yield_now();
            }
        }
        assert_eq!(is_written(), !hour);
        drop(medium);
        assert!(is_written());
        assert_eq!(Arc::strong_count(&log), 1, "no thread has it");
    }
}

/// A sync writes the line of the first, and another thread stages one meanwhile, which relies on the call of the first.
#[test]
fn a_line_that_is_staged_while_the_system_refuses_a_thread_is_written_too() {
    let mode = SyncMode::Interval(Duration::from_secs(3600));
    let (_disk, mut medium) = empty(AREA_BYTES, mode);
    medium.background = Some(background::start(&medium.log, mode));
    medium.log.write_due();
    let log = Arc::clone(&medium.log);
    let mut log = Some(log);
    faults::NO_THREADS.set(Some(Box::new(move || {
        // The checkpointer's call is refused too.
        if let Some(log) = log.take() {
            log.commit(log.next());
            log.append(128, 1);
        }
    })));
    put(&medium, 64, 1);
    faults::NO_THREADS.set(None);
    assert!(medium.log.is_durable(medium.log.next()));
}

/// A map that was poisoned is not closed, and its pool may stay unopened for long.
#[test]
fn staged_lines_are_written_when_the_medium_is_dropped() {
    let (_dir, path) = made(1 << 20);
    let blocks = || {
        let bytes = fs::read(&path).unwrap();
        bytes.chunks(4096).filter(|block| block.starts_with(b"DURALOGB")).count()
    };
    let medium = open(&path, SyncMode::Interval(Duration::from_secs(3600)));
    write_at(&medium, 1 << 12, 0..20);
    drop(medium);
    assert!(blocks() > 0, "no line was written");
}

#[test]
fn a_pool_whose_name_leads_elsewhere_is_written_as_before() {
    let (dir, path) = made(1 << 20);
    let medium = open(&path, SyncMode::Interval(Duration::from_secs(3600)));
    let write = || medium.log.disk.write_durably(false, &[], 0);
    let other = dir.path().join("other");
    fs::rename(&path, &other).unwrap();
    write().expect("the name leads to nothing").unwrap();
    fs::write(&path, "another file").unwrap();
    write().expect("the name leads to another file").unwrap();
    fs::remove_file(&other).unwrap();
    write().expect("the file has no name").unwrap();
    drop(medium);
    assert_eq!(fs::read(&path).unwrap(), b"another file");
}

/// A head that says so may have been read from the page cache only.
#[test]
fn a_closed_log_is_closed_again_before_the_pool_is_used_without_it() {
    let (_dir, path) = made(1 << 20);
    let heads = || {
        let bytes = fs::read(&path).unwrap();
        let area = u64::from_le_bytes(bytes[LOG_OFF as usize..][..8].try_into().unwrap()) as usize;
        [0, 4096].map(|at| bytes[area + at..][..4096].to_vec())
    };
    let before = heads();
    let file = mapped(&path, true).unwrap();
    file.begin().unwrap();
    drop(file);
    let file = mapped(&path, false).unwrap();
    assert!(heads() == before, "nothing is written by an open alone");
    file.begin().unwrap();
    let after = heads();
    assert!(before.iter().zip(&after).all(|(old, new)| old != new));
}

#[test]
fn a_log_is_added_once_and_stays_when_the_pool_is_cut() {
    let (_dir, path) = made(1 << 20);
    let bytes = fs::metadata(&path).unwrap().len();
    for _ in 0..2 {
        let pool = Pool::open(mapped(&path, false).unwrap(), false).unwrap();
        pool.add_log(16 << 20, false).unwrap();
        pool.begin().unwrap();
        pool.close().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    }
}

#[test]
fn a_damaged_head_is_told_and_one_of_two_is_enough() {
    let (_dir, path) = made(1 << 20);
    drop(open(&path, SyncMode::Strict));
    let whole = fs::read(&path).unwrap();
    let area = u64::from_le_bytes(whole[LOG_OFF as usize..][..8].try_into().unwrap()) as usize;
    for first in [0, 4096] {
        let mut damaged = whole.clone();
        damaged[area + first + 40] ^= 1;
        fs::write(&path, &damaged).unwrap();
        drop(open(&path, SyncMode::Strict));
        damaged[area + 4096 - first + 40] ^= 1;
        fs::write(&path, &damaged).unwrap();
        assert_damaged(mapped(&path, false));
    }
    let mut elsewhere = whole;
    elsewhere[LOG_OFF as usize] ^= 1;
    fs::write(&path, &elsewhere).unwrap();
    assert_damaged(mapped(&path, false));
}

/// The system reports a failed write-back once: the thread that gets the report tells the others.
#[test]
fn after_a_failed_growth_no_sync_succeeds() {
    const EIO: i32 = 5;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    let mut failures = 0;
    for nth in 1.. {
        let _ = fs::remove_file(&path);
        make(&path, 1 << 20);
        let medium = open(&path, SyncMode::Strict);
        let end = medium.region().len();
        faults::arm(nth, EIO);
        let grown = medium.grow(end + (1 << 20));
        if !faults::disarm() {
            break;
        }
        failures += 1;
        // Calls that are not necessary may fail.
        if grown.is_err() {
            assert!(medium.wait_until_durable().is_err() && medium.steps().checkpoint().is_err());
            assert_eq!(medium.region().len(), end);
        }
    }
    assert!(failures >= 3, "space, pages, and the sync");

    let _ = fs::remove_file(&path);
    make(&path, 1 << 20);
    let medium = open(&path, SyncMode::Strict);
    let disk = &medium.log.disk;
    faults::arm(1, EIO);
    assert!(disk.sync_data().is_err());
    assert!(faults::disarm());
    assert!(disk.sync_data().is_err() && disk.grow(disk.region().len() + 4096).is_err());
    let bytes = disk.region().len();
    disk.write_log(0, &vec![0; 4096]).unwrap();
    faults::arm(1, EIO);
    assert!(disk.write_log(0, &vec![0; 4096]).is_err());
    assert!(faults::disarm() && disk.write_log(0, &vec![0; 4096]).is_err());
    assert_eq!(disk.region().len(), bytes);
}

#[test]
fn the_ring_of_a_large_log_shares_no_folio_and_that_of_a_small_one_is_cached() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    for (log_bytes, apart) in [(1 << 20, false), (8 << 20, false), (10 << 20, true)] {
        make(&path, log_bytes);
        let medium = open(&path, SyncMode::Strict);
        let (area, direct) = medium.log.disk.place();
        assert_eq!(area.is_some(), apart);
        assert!(apart || !direct, "a ring that shares pages is written past the cache");
        if let Some((ring, end)) = area {
            let folio = 2048 * rustix::param::page_size() as u64;
            assert!(ring.is_multiple_of(folio) && end.is_multiple_of(folio) && ring < end);
        }
        let end = medium.region().len();
        grow(&medium, end + (1 << 20));
        // Blocks through the cache and past it are read alike.
        write_at(&medium, end, 1..30);
        drop(medium);
        let file = mapped(&path, false).unwrap();
        assert!((1..30).all(|i| file.load(word(&file, end + i * 64)) == i));
        drop(file);
        fs::remove_file(&path).unwrap();
    }
}

/// Bytes of the image in pages of this process, by `/proc`.
fn private_bytes_of_image(medium: &Logged<FileDisk>) -> u64 {
    let start = format!("{:x}-", medium.region().base().addr());
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let image = maps.lines().skip_while(|line| !line.starts_with(&start));
    let mut about = image.take_while(|line| !line.starts_with("VmFlags"));
    let line = about.find(|line| line.starts_with("Anonymous:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Stores to one line while pages are given back all the time: none is lost, and nobody sees an older one.
#[test]
fn pages_that_are_equal_to_the_file_are_given_back_and_no_store_is_lost() {
    const PAGES: u64 = 2048;
    let (_dir, path) = made(4 << 20);
    let end = fs::metadata(&path).unwrap().len();
    let medium = open(&path, SyncMode::Interval(Duration::from_secs(3600)));
    medium.grow(end + PAGES * 4096).unwrap();
    let steps = medium.steps();
    let private = || medium.log_stats().unwrap().private_bytes;
    let page = |i: u64| word(&medium, end + i * 4096);
    let stored = |i: u64| put(&medium, end + i * 4096, i + 1);
    // The bound is a megabyte: a quarter of these, and what one step cannot see yet.
    (0..PAGES).for_each(stored);
    // The gate stays open where a thread of another test sleeps inside.
    while private() > 1 << 20 {
        steps.give_back().unwrap();
    }
    // Counted first: a thread in the background may give more back meanwhile.
    let counted = private();
    assert!(private_bytes_of_image(&medium) <= counted + (64 << 10));
    assert!((0..PAGES).all(|i| medium.load(page(i)) == i + 1));
    // A page that differs is kept, flushed or not.
    medium.store(page(0), 77);
    (1..PAGES).for_each(stored);
    steps.give_back().unwrap();
    assert_eq!(medium.load(page(0)), 77);

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|thread| {
                let medium = &medium;
                scope.spawn(move || {
                    for round in 1..=40 {
                        for i in (0..PAGES).step_by(4) {
                            let off = end + i * 4096 + 64 + thread * 8;
                            let word = word(medium, off);
                            assert_eq!(medium.load(word), round - 1, "page {i}");
                            put(medium, off, round);
                            assert_eq!(medium.load(word), round, "page {i}");
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                medium.log.give_back();
            }
        });
        let done: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        stop.store(true, Ordering::Relaxed);
        done.into_iter().for_each(|done| done.unwrap());
    });
    for i in (0..PAGES).step_by(4) {
        let words = [0, 8].map(|at| medium.load(word(&medium, end + i * 4096 + 64 + at)));
        assert_eq!(words, [40, 40], "page {i}");
    }
}

#[test]
fn pages_are_given_back_where_no_thread_can_be_had() {
    const PAGES: u64 = 1024;
    let (_dir, path) = made(4 << 20);
    let end = fs::metadata(&path).unwrap().len();
    // The bound is a megabyte.
    let medium = open(&path, SyncMode::Interval(Duration::from_secs(3600)));
    medium.grow(end + PAGES * 4096).unwrap();
    // Hires the writer.
    put(&medium, end, 1);
    faults::NO_THREADS.set(Some(Box::new(|| ())));
    (0..PAGES).for_each(|i| put(&medium, end + i * 4096, i + 1));
    faults::NO_THREADS.set(None);
    // Not always the last time: the gate stays open where a thread of another test sleeps inside.
    assert!(medium.log_stats().unwrap().private_bytes < 3 << 20);
    assert!((0..PAGES).all(|i| medium.load(word(&medium, end + i * 4096)) == i + 1));
}

#[test]
fn threads_that_drain_share_writes() {
    let (_dir, path) = made(1 << 20);
    let end = fs::metadata(&path).unwrap().len();
    let medium = open(&path, SyncMode::Strict);
    medium.grow(end + (1 << 20)).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let medium = &medium;
            scope.spawn(move || write_at(medium, end + thread * 64 * 1024, 1..51));
        }
    });
    let stats = medium.log_stats().unwrap();
    assert!(stats.writes < stats.lines, "{stats:?}");
}

/// A block of the log for each number: two are half of a ring.
fn half_full<M: Medium>(medium: &M, numbers: std::ops::Range<u64>) {
    for i in numbers {
        write(medium, i..i + 1);
        medium.sync(0, POOL_BYTES).unwrap();
    }
}

/// The old parts are left alone until the heads of the new ones are durable. A recovery at any instant goes on in
/// the parts that the heads name.
#[test]
fn a_log_uses_more_of_its_area_when_it_is_half_full() {
    const LONG_BYTES: u64 = 64 * 4096;
    for mode in [SyncMode::Strict, SyncMode::INTERVAL] {
        let disk = SimDisk::new(POOL_BYTES, LONG_BYTES, mode != SyncMode::Strict);
        let medium = disk.clone().create_with(mode, AREA_BYTES).unwrap();
        let used = || medium.log_stats().unwrap().area_bytes;
        medium.grow(POOL_BYTES).unwrap();
        half_full(&medium, 1..2);
        medium.steps().checkpoint().unwrap();
        assert_eq!(used(), AREA_BYTES, "it was not half full");
        half_full(&medium, 2..4);
        // Writers that cannot wait make checkpoints themselves, and leave it to this one.
        half_full(&medium, 4..30);
        medium.steps().checkpoint().unwrap();
        assert_eq!(used(), LONG_BYTES);
        write(&medium, 30..60);
        medium.sync(0, POOL_BYTES).unwrap();
        let steps = disk.steps();
        let start = SimDisk::new(POOL_BYTES, LONG_BYTES, mode != SyncMode::Strict).image();
        let long = steps.iter().rposition(|step| matches!(step, DiskStep::Resize(_))).unwrap();
        for cut in long + 1..=steps.len() {
            let mut image = start.clone();
            steps[..cut].iter().for_each(|step| image.apply(step));
            let medium = left(image, mode).open(mode).unwrap();
            medium.begin().unwrap();
            let found = (1..60).take_while(|i| medium.load(word(&medium, i * 64)) == *i).count();
            assert!((found as u64 + 1..60).all(|i| medium.load(word(&medium, i * 64)) == 0));
            assert!(cut < steps.len() || found == 59);
        }
    }
}

/// Where there is no space, the log stays as it is.
#[test]
fn a_log_that_cannot_use_more_goes_on() {
    let disk = SimDisk::new(POOL_BYTES, 64 * 4096, false);
    let medium = disk.clone().create_with(SyncMode::Strict, AREA_BYTES).unwrap();
    let used = || medium.log_stats().unwrap().area_bytes;
    medium.grow(POOL_BYTES / 2).unwrap();
    medium.steps().checkpoint().unwrap();
    disk.set_full_log(true);
    half_full(&medium, 1..3);
    medium.steps().checkpoint().unwrap();
    write(&medium, 3..90);
    assert_eq!(used(), AREA_BYTES);
    disk.set_full_log(false);
    half_full(&medium, 90..92);
    medium.steps().checkpoint().unwrap();
    assert_eq!(used(), AREA_BYTES, "not before the pool has grown");
    medium.grow(POOL_BYTES).unwrap();
    half_full(&medium, 92..94);
    medium.steps().checkpoint().unwrap();
    assert!(used() > AREA_BYTES);
    let after = reopen(disk.image(), SyncMode::Strict);
    assert!((1..94).all(|i| after.load(word(&after, i * 64)) == i));
}
