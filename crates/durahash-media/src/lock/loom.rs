//! The locks under loom: every interleaving, and every value that the memory model lets a load see.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p durahash-media --lib loom`
//!
//! Data are loom's atomics, loaded with acquire and stored with release order as a medium does. The
//! directory is the smallest one that can split and double; reader, split and doubling do in the
//! same order what REH does.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::{DirectoryLock, VersionLock};
use crate::medium::Dram;

fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Acquire)
}

fn store(word: &AtomicU64, v: u64) {
    word.store(v, Ordering::Release);
}

fn medium() -> Arc<Dram> {
    Arc::new(Dram::new(4096).unwrap())
}

#[test]
fn loom_a_validated_read_is_never_torn() {
    loom::model(|| {
        let medium = medium();
        let state = Arc::new((AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)));
        let writer = thread::spawn({
            let (medium, state) = (medium.clone(), state.clone());
            move || {
                let lock = VersionLock::new(&state.0);
                lock.lock(&*medium);
                lock.exclude_readers();
                store(&state.1, 1);
                store(&state.2, 1);
                lock.unlock_changed(&*medium);
            }
        });
        let lock = VersionLock::new(&state.0);
        let version = lock.read(&*medium);
        let seen = (load(&state.1), load(&state.2));
        if lock.validate(version) {
            assert_eq!(seen.0, seen.1);
        }
        writer.join().unwrap();
    });
}

#[test]
fn loom_writers_exclude_each_other() {
    loom::model(|| {
        let medium = medium();
        let state = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let add = {
            let (medium, state) = (medium.clone(), state.clone());
            move || {
                let lock = VersionLock::new(&state.0);
                lock.lock(&*medium);
                // Not one instruction, so that a broken lock would lose an addition.
                let before = state.1.load(Ordering::Relaxed);
                state.1.store(before + 1, Ordering::Relaxed);
                lock.unlock_changed(&*medium);
            }
        };
        let other = thread::spawn(add.clone());
        add();
        other.join().unwrap();
        assert_eq!(state.1.load(Ordering::Relaxed), 2);
    });
}

/// One key, in bucket 1 at first, and a directory of depth 1 that can become one of depth 2.
/// Buckets: a lock word and a word that is the key's payload or 0.
struct Table {
    medium: Dram,
    depth: AtomicU64,
    shallow: [AtomicU64; 1],
    deep: [AtomicU64; 2],
    lock: DirectoryLock,
    buckets: [(AtomicU64, AtomicU64); 3],
}

impl Table {
    fn new() -> Self {
        Table {
            medium: Dram::new(4096).unwrap(),
            depth: AtomicU64::new(1),
            shallow: [AtomicU64::new(1)],
            deep: [AtomicU64::new(0), AtomicU64::new(0)],
            lock: DirectoryLock::new(),
            buckets: std::array::from_fn(|i| {
                (AtomicU64::new(0), AtomicU64::new(if i == 1 { 7 } else { 0 }))
            }),
        }
    }

    /// The entry of the key: the last one at each depth.
    fn find(&self) -> u64 {
        loop {
            let entry = match load(&self.depth) {
                1 => load(&self.shallow[0]),
                _ => load(&self.deep[1]),
            };
            if entry != 0 {
                return entry;
            }
            thread::yield_now();
        }
    }

    fn lookup(&self) -> u64 {
        loop {
            let entry = self.find();
            let (word, payload) = &self.buckets[entry as usize];
            let lock = VersionLock::new(word);
            let version = lock.read(&self.medium);
            if self.find() == entry {
                let found = load(payload);
                if lock.validate(version) {
                    return found;
                }
            }
            thread::yield_now();
        }
    }

    /// The key moves to bucket 2.
    fn split(&self) {
        let (old, new) =
            (VersionLock::new(&self.buckets[1].0), VersionLock::new(&self.buckets[2].0));
        old.lock(&self.medium);
        self.double();
        new.lock(&self.medium);
        store(&self.buckets[2].1, load(&self.buckets[1].1));
        old.exclude_readers();
        store(&self.buckets[1].1, 0);
        self.lock.shared(&self.medium, || store(&self.deep[1], 2));
        new.unlock_changed(&self.medium);
        old.unlock_changed(&self.medium);
    }

    fn double(&self) {
        self.lock.exclusive(&self.medium, || {
            let entry = self.shallow[0].load(Ordering::Relaxed);
            self.deep[0].store(entry, Ordering::Relaxed);
            self.deep[1].store(entry, Ordering::Relaxed);
            self.depth.swap(2, Ordering::AcqRel);
            store(&self.shallow[0], 0);
        });
    }
}

fn bounded(f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    // Enough for every known bug of this kind; without a bound the search does not end.
    model.preemption_bound = Some(3);
    model.check(f);
}

#[test]
fn loom_a_key_that_moves_is_always_found() {
    bounded(|| {
        let table = Arc::new(Table::new());
        let splitter = thread::spawn({
            let table = table.clone();
            move || table.split()
        });
        assert_eq!(table.lookup(), 7);
        splitter.join().unwrap();
        assert_eq!(table.lookup(), 7);
    });
}

#[test]
fn loom_a_writer_with_an_old_entry_loses_no_update() {
    bounded(|| {
        let table = Arc::new(Table::new());
        let splitter = thread::spawn({
            let table = table.clone();
            move || table.split()
        });
        loop {
            let entry = table.find();
            let (word, payload) = &table.buckets[entry as usize];
            let lock = VersionLock::new(word);
            lock.lock(&table.medium);
            if table.find() == entry {
                lock.exclude_readers();
                store(payload, 8);
                lock.unlock_changed(&table.medium);
                break;
            }
            lock.unlock_unchanged(&table.medium);
            thread::yield_now();
        }
        splitter.join().unwrap();
        assert_eq!(table.lookup(), 8);
    });
}
