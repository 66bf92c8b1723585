use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::error::ErrorKind;
use crate::medium::{Mapped, MappedOptions};
use crate::pool::{Format, Geometry, Pool};

const POOL_BYTES: u64 = 64 << 10;
const AREA_BYTES: u64 = 7 * 4096;

fn sim(keeps_staged: bool) -> SimDisk {
    SimDisk::new(POOL_BYTES, AREA_BYTES, keeps_staged)
}

fn word<M: Medium>(medium: &M, off: u64) -> &PmU64 {
    medium.region().at(off).unwrap()
}

/// Stores and drains a line of its own for each of `numbers`.
fn write<M: Medium>(medium: &M, numbers: std::ops::Range<u64>) {
    for i in numbers {
        let word = word(medium, i % 100 * 64);
        medium.store(word, i);
        medium.flush(word);
        medium.drain();
    }
}

#[test]
fn what_was_drained_is_there_and_what_was_never_flushed_is_not() {
    let disk = sim(false);
    let medium = disk.clone().create(SyncMode::Strict).unwrap();
    medium.grow(POOL_BYTES).unwrap();
    write(&medium, 1..8);
    medium.store(word(&medium, 8 * 64), 8);
    medium.store(word(&medium, 9 * 64), 9);
    medium.flush(word(&medium, 9 * 64));
    medium.fence();
    let image = disk.image();
    let after = SimDisk::resume(image, Vec::new(), POOL_BYTES, false);
    let after = after.open(SyncMode::Strict).unwrap();
    let found: Vec<u64> = (1..10).map(|i| after.load(word(&after, i * 64))).collect();
    assert_eq!(found, [1, 2, 3, 4, 5, 6, 7, 0, 0]);
}

#[test]
fn an_interval_loses_nothing_to_a_kill() {
    let disk = sim(true);
    let medium = disk.clone().create(SyncMode::INTERVAL).unwrap();
    medium.grow(POOL_BYTES).unwrap();
    // Less than is written by itself.
    write(&medium, 1..30);
    assert_eq!(medium.log_stats().unwrap().writes, 0);
    let after = SimDisk::resume(disk.image(), Vec::new(), POOL_BYTES, true);
    let after = after.open(SyncMode::INTERVAL).unwrap();
    assert!((1..30).all(|i| after.load(word(&after, i * 64)) == i));
}

/// A staged line that outlived the power reached the disk by chance; a later open that happens to
/// give its number to another line must not take it for its own.
#[test]
fn lines_of_an_earlier_open_never_come_back() {
    let disk = sim(true);
    let medium = disk.clone().create(SyncMode::INTERVAL).unwrap();
    medium.grow(POOL_BYTES).unwrap();
    write(&medium, 1..3);
    medium.sync(0, 0).unwrap();
    write(&medium, 3..20);
    let mut image = disk.image();
    // Of the staged lines, the first behind the log's last did not reach the disk.
    let slot = 3 * format::STAGED_WORDS * 8;
    image.area[format::Layout::STAGED_OFF as usize + slot..][..8].fill(0);
    let disk = SimDisk::resume(image, Vec::new(), POOL_BYTES, false);
    let medium = disk.clone().open(SyncMode::Strict).unwrap();
    assert_eq!(medium.load(word(&medium, 3 * 64)), 0);
    // As many as it takes for the next number to be that of a line that is still there.
    write(&medium, 50..51);
    let disk = SimDisk::resume(disk.image(), Vec::new(), POOL_BYTES, false);
    let medium = disk.open(SyncMode::Strict).unwrap();
    let found: Vec<u64> = (1..6).map(|i| medium.load(word(&medium, i * 64))).collect();
    assert_eq!(found, [1, 2, 0, 0, 0]);
    assert_eq!(medium.load(word(&medium, 50 * 64)), 50);
}

#[test]
fn a_line_is_replayed_as_its_last_flush_left_it() {
    let disk = sim(false);
    let medium = disk.clone().create(SyncMode::Strict).unwrap();
    medium.grow(POOL_BYTES).unwrap();
    // Round the ring many times, always the same lines.
    write(&medium, 1..1001);
    let stats = medium.log_stats().unwrap();
    assert!(stats.checkpoints > 100 && stats.lines == 1000 && stats.writes == 1000, "{stats:?}");
    let after = SimDisk::resume(disk.image(), Vec::new(), POOL_BYTES, false);
    let after = after.open(SyncMode::Strict).unwrap();
    assert!((901..1001).all(|i| after.load(word(&after, i % 100 * 64)) == i));
}

#[test]
fn more_than_the_ring_holds_is_logged_in_parts() {
    let disk = sim(true);
    let medium = disk.clone().create(SyncMode::INTERVAL).unwrap();
    medium.grow(POOL_BYTES).unwrap();
    let words = medium.region().words(0, POOL_BYTES / 8).unwrap();
    for (i, word) in words.iter().enumerate() {
        medium.store(word, i as u64);
    }
    medium.flush_fresh(words);
    medium.drain();
    let after = SimDisk::resume(disk.image(), Vec::new(), POOL_BYTES, true);
    let after = after.open(SyncMode::INTERVAL).unwrap();
    let words = after.region().words(0, POOL_BYTES / 8).unwrap();
    assert!(words.iter().enumerate().all(|(i, word)| after.load(word) == i as u64));
}

#[test]
fn stores_past_the_cache_are_logged_line_by_line() {
    let disk = sim(false);
    let medium = disk.clone().create(SyncMode::Strict).unwrap();
    medium.grow(POOL_BYTES).unwrap();
    for i in 0..32 {
        medium.store_nt(word(&medium, i * 8), i + 1);
    }
    medium.drain();
    assert_eq!(medium.log_stats().unwrap().lines, 4);
    let after = SimDisk::resume(disk.image(), Vec::new(), POOL_BYTES, false);
    let after = after.open(SyncMode::Strict).unwrap();
    assert!((0..32).all(|i| after.load(word(&after, i * 8)) == i + 1));
}

#[test]
fn a_batch_waits_once_and_others_wait_for_it() {
    let medium = Arc::new(sim(false).create(SyncMode::Strict).unwrap());
    medium.grow(POOL_BYTES).unwrap();
    let writes = || medium.log_stats().unwrap().writes;
    medium.defer(true);
    write(&*medium, 1..10);
    medium.settle(true).unwrap();
    assert_eq!(writes(), 0, "its own operations do not wait");
    let other = Arc::clone(&medium);
    std::thread::spawn(move || other.settle(false).unwrap()).join().unwrap();
    assert_eq!(writes(), 1, "what another thread may have seen is durable");
    write(&*medium, 10..20);
    medium.defer(false);
    medium.settle(true).unwrap();
    assert_eq!(writes(), 2);
}

#[test]
fn a_failed_write_ends_the_log_and_is_never_tried_again() {
    let disk = sim(false);
    let medium = disk.clone().create(SyncMode::Strict).unwrap();
    medium.grow(POOL_BYTES).unwrap();
    write(&medium, 1..3);
    disk.fail_at(1);
    write(&medium, 3..4);
    assert!(medium.settle(false).is_err(), "what was seen might be lost");
    let steps = disk.step_count();
    write(&medium, 4..9);
    assert!(medium.settle(true).is_err() && medium.sync(0, 64).is_err());
    assert!(medium.grow(POOL_BYTES).is_err() && medium.trim(0).is_err());
    assert!(medium.steps().checkpoint().is_err());
    assert_eq!(disk.step_count(), steps);
}

/// Threads that store to the same lines, at the same time: of each line the log ends with what the
/// last flush of it saw, and nothing is lost.
#[test]
fn lines_that_threads_share_end_as_the_last_flush_saw_them() {
    let disk = sim(true);
    let medium = Arc::new(disk.clone().create(SyncMode::INTERVAL).unwrap());
    medium.grow(POOL_BYTES).unwrap();
    let threads: Vec<_> = (0..4_u64)
        .map(|thread| {
            let medium = Arc::clone(&medium);
            std::thread::spawn(move || {
                for i in 1..=500 {
                    let word = word(&*medium, i % 10 * 64 + thread * 8);
                    medium.store(word, i);
                    medium.flush(word);
                    medium.drain();
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let after = SimDisk::resume(disk.image(), Vec::new(), POOL_BYTES, true);
    let after = after.open(SyncMode::INTERVAL).unwrap();
    for i in 491..=500 {
        for thread in 0..4 {
            assert_eq!(after.load(word(&after, i % 10 * 64 + thread * 8)), i);
        }
    }
}

fn format() -> Format {
    Format {
        design: 1,
        kind: 0,
        key_type: 6,
        value_type: 6,
        geometry: Geometry::default(),
        seed: 7,
        max_bytes: 1 << 30,
    }
}

fn make(path: &Path, log_bytes: u64) {
    let pool = Pool::create(Mapped::create(path, &MappedOptions::default()).unwrap(), &format());
    let pool = pool.unwrap();
    pool.publish().unwrap();
    pool.add_log(log_bytes).unwrap();
    pool.set_sync_mode(SyncMode::Strict).unwrap();
    pool.close().unwrap();
}

fn open(path: &Path, mode: SyncMode) -> Logged<FileDisk> {
    let file = Mapped::open(path, false, &MappedOptions::default()).unwrap();
    assert_eq!(Pool::sync_mode(&file).unwrap(), SyncMode::Strict);
    Logged::over_file(file, mode).unwrap()
}

#[test]
fn the_log_of_a_file_brings_back_what_the_file_did_not_get() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    make(&path, 1 << 20);
    let end = fs::metadata(&path).unwrap().len();
    for mode in [SyncMode::Strict, SyncMode::Interval(Duration::from_secs(3600))] {
        let medium = open(&path, mode);
        medium.grow(end + (1 << 20)).unwrap();
        write_at(&medium, end, 1..30);
        medium.store(word(&medium, end), 999);
        // As a kill would leave it.
        drop(medium);
        for read_only in [true, false] {
            let file = Mapped::open(&path, read_only, &MappedOptions::default()).unwrap();
            assert!((1..30).all(|i| file.load(word(&file, end + i * 64)) == i), "{mode:?}");
            assert_eq!(file.load(word(&file, end)), 0, "never flushed");
            write_at_zero(&file, end);
        }
    }
}

fn write_at<M: Medium>(medium: &M, off: u64, numbers: std::ops::Range<u64>) {
    for i in numbers {
        let word = word(medium, off + i * 64);
        medium.store(word, i);
        medium.flush(word);
        medium.drain();
    }
}

fn write_at_zero<M: Medium>(medium: &M, off: u64) {
    (1..30).for_each(|i| medium.store(word(medium, off + i * 64), 0));
}

#[test]
fn a_log_is_added_once_and_stays_when_the_pool_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    make(&path, 1 << 20);
    let bytes = fs::metadata(&path).unwrap().len();
    for _ in 0..2 {
        let pool =
            Pool::open(Mapped::open(&path, false, &MappedOptions::default()).unwrap(), false);
        let pool = pool.unwrap();
        pool.add_log(16 << 20).unwrap();
        pool.begin().unwrap();
        pool.close().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    }
}

#[test]
fn a_damaged_head_is_told_and_one_of_two_is_enough() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    make(&path, 1 << 20);
    drop(open(&path, SyncMode::Strict));
    let whole = fs::read(&path).unwrap();
    let area = u64::from_le_bytes(whole[LOG_OFF as usize..][..8].try_into().unwrap()) as usize;
    let mut damaged = whole.clone();
    damaged[area + 40] ^= 1;
    fs::write(&path, &damaged).unwrap();
    drop(Mapped::open(&path, false, &MappedOptions::default()).unwrap());
    damaged[area + 4096 + 40] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let e = Mapped::open(&path, false, &MappedOptions::default()).err().unwrap();
    assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
    let mut elsewhere = whole;
    elsewhere[LOG_OFF as usize] ^= 1;
    fs::write(&path, &elsewhere).unwrap();
    let e = Mapped::open(&path, false, &MappedOptions::default()).err().unwrap();
    assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}");
}

#[test]
fn threads_that_drain_share_writes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pool");
    make(&path, 1 << 20);
    let end = fs::metadata(&path).unwrap().len();
    let medium = Arc::new(open(&path, SyncMode::Strict));
    medium.grow(end + (1 << 20)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..8_u64)
        .map(|thread| {
            let (medium, stop) = (Arc::clone(&medium), Arc::clone(&stop));
            std::thread::spawn(move || {
                for i in 1.. {
                    if stop.load(Ordering::Relaxed) && i > 50 {
                        return i;
                    }
                    write_at(&*medium, end + thread * 64 * 1024, i % 900..i % 900 + 1);
                }
                unreachable!()
            })
        })
        .collect();
    stop.store(true, Ordering::Relaxed);
    let last = threads.into_iter().map(|thread| thread.join().unwrap()).min();
    assert!(last > Some(50));
    let stats = medium.log_stats().unwrap();
    assert!(stats.writes < stats.lines, "{stats:?}");
}
