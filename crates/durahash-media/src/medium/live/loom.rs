//! The gate under loom: every interleaving of few threads, and every value that the memory model lets a load see.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p durahash-media --lib loom_the_gate`
//!
//! Where entrants fence, gate and slots are the code as it is, but that an exchange is followed by a fence: loom takes
//! sequentially consistent accesses for acquires and releases, and knows such fences only. Where they do not, the system's
//! barrier is an interrupt, in which the entrant makes a fence: it may come between any two of its accesses, at the places
//! that ask [`interrupted`]. That a system call is such an interrupt is taken from its documentation, not shown here; nor is that
//! the compiler leaves step 1 before step 2. There is no time: a limit has passed when it was asked for twice.
//!
//! Marks and copies are not the code, whose words are those of a file, but its steps once more over loom's words, with the
//! lists of the code. So are the epochs by which readers in other processes wait in `Strict` (`mapped/seen.rs`).

use std::sync::Arc;

use loom::thread;

use super::barrier::{Barrier, byte_before};
use super::planted::{Fault, PLANTED, ended, interrupted, is_planted};
use super::slot::Slot;
use crate::primitive::{AtomicU64, Ordering, fence};

fn bounded(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(f);
}

/// `threads` threads store `stores` times each to a word of their own, while another cuts.
fn cut(fences: bool, threads: usize, stores: u64) {
    // Of three threads there are too many orders with a third.
    bounded(if threads > 1 { 2 } else { 3 }, move || {
        let barrier = Arc::new(Barrier::new(1, fences));
        let words: Arc<Vec<AtomicU64>> =
            Arc::new((0..threads).map(|_| AtomicU64::new(0)).collect());
        let before = Arc::new(AtomicU64::new(0));
        let entrants: Vec<_> = (0..threads)
            .map(|i| {
                let (barrier, words, before) = (barrier.clone(), words.clone(), before.clone());
                // Before the look of who cuts.
                let slot = barrier.slots.take();
                thread::spawn(move || {
                    let mut epochs = Vec::new();
                    for n in 1..=stores {
                        let epoch = barrier.enter(&slot);
                        interrupted();
                        if epoch > 1 {
                            assert_eq!(before.load(Ordering::Relaxed), 1, "not behind the cut");
                        }
                        words[i].store(n, Ordering::Relaxed);
                        interrupted();
                        epochs.push(epoch);
                        barrier.leave(&slot);
                        interrupted();
                    }
                    ended();
                    epochs
                })
            })
            .collect();
        before.store(1, Ordering::Relaxed);
        assert_eq!(barrier.cut().unwrap(), 2);
        let seen: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        for (entrant, seen) in entrants.into_iter().zip(seen) {
            let epochs = entrant.join().unwrap();
            let stored = epochs.iter().filter(|epoch| **epoch == 1).count() as u64;
            assert!(seen >= stored, "not before the cut");
        }
    });
}

#[test]
fn loom_the_gate_cuts_where_entrants_fence() {
    cut(true, 1, 2);
    cut(true, 2, 1);
}

#[test]
fn loom_the_gate_cuts_where_the_system_makes_the_barrier() {
    cut(false, 1, 2);
}

/// Nobody is inside while the gate is shut, whichever thread opens it before.
#[test]
fn loom_the_gate_is_shut() {
    for fences in [true, false] {
        bounded(3, move || {
            let barrier = Arc::new(Barrier::new(1, fences));
            let inside = Arc::new(AtomicU64::new(0));
            let slot = barrier.slots.take();
            let entrant = thread::spawn({
                let (barrier, inside) = (barrier.clone(), inside.clone());
                move || {
                    for _ in 0..2 {
                        barrier.enter(&slot);
                        interrupted();
                        inside.store(1, Ordering::Relaxed);
                        interrupted();
                        inside.store(0, Ordering::Relaxed);
                        barrier.leave(&slot);
                        interrupted();
                    }
                    ended();
                }
            });
            barrier.while_shut(|| assert_eq!(inside.load(Ordering::Relaxed), 0, "one is inside"));
            entrant.join().unwrap();
        });
    }
}

macro_rules! caught {
    ($($name:ident: $fault:ident, $fences:literal, $expected:literal;)*) => {$(
        #[test]
        #[should_panic(expected = $expected)]
        fn $name() {
            PLANTED.set(Some(Fault::$fault));
            cut($fences, 1, 2);
        }
    )*};
}

caught! {
    loom_the_gate_needs_an_exchange: PlainlyInside, true, "not before the cut";
    loom_the_gate_needs_a_fence_of_who_passes: PlainlyPassed, false, "not before the cut";
    loom_the_gate_needs_a_second_look: LookedOnce, false, "not before the cut";
    loom_the_gate_needs_the_barrier: NoBarrier, false, "not before the cut";
    loom_the_gate_needs_a_fence_of_who_closes: PlainlyClosed, true, "not before the cut";
    loom_the_gate_needs_to_be_ended_by_an_exchange: EndedByStore, true, "not before the cut";
}

/// A line of two words, with its mark.
struct Line {
    barrier: Barrier,
    copying: AtomicU64,
    mark: AtomicU64,
    words: [AtomicU64; 2],
    met: AtomicU64,
}

impl Line {
    /// A store of no meaning where threads may come in any order: loom looks at the last access to a word only, so a
    /// thread that loads it before it stores to it hides what others did.
    fn meet(&self) {
        self.met.store(0, Ordering::Relaxed);
    }

    fn read(&self) -> [u64; 2] {
        [0, 1].map(|i| self.words[i].load(Ordering::Acquire))
    }

    /// Steps 1 to 8; the epoch.
    fn store(&self, slot: &Slot, v: u64) -> u64 {
        let epoch = self.barrier.enter(slot);
        let byte = epoch & 0xff;
        let mut found = self.mark.load(Ordering::Acquire);
        loop {
            if found == byte {
                break;
            }
            if found != u64::from(byte_before(byte as u8))
                || self.copying.load(Ordering::Acquire) == 0
                || is_planted(Fault::NotSaved)
            {
                self.mark.swap(byte, Ordering::AcqRel);
                break;
            }
            let [a, b] = self.read();
            self.meet();
            match self.mark.compare_exchange(found, byte, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.meet();
                    slot.saves[epoch as usize & 1].push([0, a, b, 0, 0, 0, 0, 0, 0]);
                    break;
                }
                Err(now) => found = now,
            }
        }
        self.meet();
        self.words.iter().for_each(|word| word.store(v, Ordering::Release));
        self.meet();
        self.barrier.leave(slot);
        epoch
    }

    /// Steps S1 to S5; the copies of the line, which is marked in epoch 1.
    fn snapshot(&self) -> Vec<[u64; 2]> {
        let mut copies = Vec::new();
        self.copying.store(1, Ordering::SeqCst);
        self.barrier.cut().unwrap();
        let is_marked = |order| self.mark.load(order) == 1;
        let mut missing = true;
        if is_marked(Ordering::Acquire) {
            self.meet();
            let copy = self.read();
            fence(Ordering::Acquire);
            if is_planted(Fault::CopiedUnseen) || is_marked(Ordering::Relaxed) {
                copies.push(copy);
                missing = false;
            }
        }
        if missing {
            fence(Ordering::Acquire);
            for slot in self.barrier.slots.all() {
                while slot.inside.load(Ordering::Acquire) != 0 && !is_planted(Fault::SavedUnseen) {
                    thread::yield_now();
                }
                self.meet();
                let saves = &slot.saves[0];
                copies.extend((0..saves.len()).map(|i| [saves.get(i)[1], saves.get(i)[2]]));
            }
        }
        self.copying.store(0, Ordering::SeqCst);
        copies
    }
}

/// A line that was changed in epoch 1 is changed once more while a snapshot of that epoch is taken.
fn copied() {
    bounded(3, || {
        let line = Arc::new(Line {
            barrier: Barrier::new(1, true),
            copying: AtomicU64::new(0),
            mark: AtomicU64::new(1),
            words: [AtomicU64::new(1), AtomicU64::new(1)],
            met: AtomicU64::new(0),
        });
        let slot = line.barrier.slots.take();
        slot.saves[0].reserve(1);
        let other = thread::spawn({
            let line = line.clone();
            move || line.store(&slot, 2)
        });
        let copies = line.snapshot();
        let of_cut = other.join().unwrap();
        let v = if of_cut == 1 { 2 } else { 1 };
        assert!(!copies.is_empty(), "no copy");
        assert!(copies.iter().all(|copy| *copy == [v; 2]), "not of the cut");
    });
}

#[test]
fn loom_the_gate_copies_are_of_the_cut() {
    copied();
}

#[test]
#[should_panic(expected = "no copy")]
fn loom_the_gate_needs_copies_of_who_changes_a_line() {
    PLANTED.set(Some(Fault::NotSaved));
    copied();
}

#[test]
#[should_panic(expected = "not of the cut")]
fn loom_the_gate_needs_a_second_look_at_a_mark() {
    PLANTED.set(Some(Fault::CopiedUnseen));
    copied();
}

#[test]
#[should_panic(expected = "no copy")]
fn loom_the_gate_needs_each_thread_seen_outside() {
    PLANTED.set(Some(Fault::SavedUnseen));
    copied();
}

/// A word that readers in other processes see beside a writer in `Strict`, and what tells them how old the disk is. Each store is of the
/// number of its epoch.
struct Shown {
    barrier: Barrier,
    mark: AtomicU64,
    word: AtomicU64,
    /// Of which open the epochs are.
    counted: AtomicU64,
    stored: AtomicU64,
    durable: AtomicU64,
    /// The last epoch whose stores a loss of power does not take back.
    disk: AtomicU64,
}

impl Shown {
    fn new() -> Arc<Self> {
        let [mark, word, stored, durable, disk] = [0; 5].map(AtomicU64::new);
        let (barrier, counted) = (Barrier::new(1, true), AtomicU64::new(1));
        Arc::new(Shown { barrier, mark, word, counted, stored, durable, disk })
    }

    fn tell_stored(&self, epoch: u64) {
        if self.stored.load(Ordering::Acquire) != epoch {
            self.stored.store(epoch, Ordering::Release);
        }
    }

    fn store(&self, slot: &Slot) {
        let epoch = self.barrier.enter(slot);
        if self.mark.load(Ordering::Acquire) != epoch {
            let [marked, stored] = [Fault::ToldMarked, Fault::ToldStored].map(is_planted);
            if !marked && !stored {
                self.tell_stored(epoch);
            }
            self.mark.swap(epoch, Ordering::AcqRel);
            if marked {
                self.tell_stored(epoch);
            }
        }
        self.word.store(epoch, Ordering::Release);
        if is_planted(Fault::ToldStored) {
            self.tell_stored(epoch);
        }
        self.barrier.leave(slot);
    }

    fn snapshot(&self) {
        let epoch = self.barrier.epoch();
        self.barrier.cut().unwrap();
        if !is_planted(Fault::ToldFirst) {
            self.disk.store(epoch, Ordering::Relaxed);
        }
        self.durable.store(epoch, Ordering::Release);
        self.disk.store(epoch, Ordering::Relaxed);
    }

    /// A lookup, which has an answer where the writer is still the one that it knows.
    fn read(&self) {
        let is_same = || self.counted.load(Ordering::Acquire) == 1;
        let durable = || self.durable.load(Ordering::Acquire);
        let stored = || self.stored.load(Ordering::Acquire);
        let first = if is_planted(Fault::LookedFirst) { stored() } else { 0 };
        let found = self.word.load(Ordering::Acquire);
        if !is_same() {
            return;
        }
        let seen = if is_planted(Fault::LookedFirst) { first } else { stored() };
        while durable() < seen && stored() >= seen && is_same() {
            thread::yield_now();
        }
        if is_same() || is_planted(Fault::LookedUncounted) {
            assert!(self.disk.load(Ordering::Relaxed) >= found, "may be lost");
        }
    }
}

/// A reader beside `threads` threads that store to one line, and `snapshots` that end before all of them have.
fn shown(threads: usize, stores: u64, snapshots: u64) {
    bounded(2, move || {
        let shown = Shown::new();
        let storing: Vec<_> = (0..threads)
            .map(|_| {
                let (shown, slot) = (shown.clone(), shown.barrier.slots.take());
                thread::spawn(move || (0..stores).for_each(|_| shown.store(&slot)))
            })
            .collect();
        let reading = thread::spawn({
            let shown = shown.clone();
            move || shown.read()
        });
        (0..snapshots).for_each(|_| shown.snapshot());
        storing.into_iter().for_each(|thread| thread.join().unwrap());
        // Of what no drain has waited for.
        shown.snapshot();
        reading.join().unwrap();
    });
}

/// A writer fails before its store is on the disk, and another one opens the pool, whose epochs begin anew.
fn followed() {
    bounded(3, || {
        let shown = Shown::new();
        shown.stored.store(7, Ordering::Relaxed);
        shown.word.store(7, Ordering::Relaxed);
        let reading = thread::spawn({
            let shown = shown.clone();
            move || shown.read()
        });
        shown.counted.store(0, Ordering::Release);
        shown.stored.store(0, Ordering::Release);
        shown.durable.store(0, Ordering::Release);
        shown.counted.store(2, Ordering::Release);
        reading.join().unwrap();
    });
}

#[test]
fn loom_readers_see_what_is_on_the_disk() {
    shown(1, 2, 1);
    shown(2, 1, 0);
    followed();
}

macro_rules! lost {
    ($($name:ident: $fault:ident, $model:expr;)*) => {$(
        #[test]
        #[should_panic(expected = "may be lost")]
        fn $name() {
            PLANTED.set(Some(Fault::$fault));
            $model;
        }
    )*};
}

lost! {
    loom_readers_are_told_of_stores_before_the_mark: ToldMarked, shown(2, 1, 0);
    loom_readers_are_told_of_stores_before_them: ToldStored, shown(1, 1, 0);
    loom_readers_are_told_of_the_disk_behind_the_write: ToldFirst, shown(1, 1, 1);
    loom_readers_look_at_epochs_behind_the_words: LookedFirst, shown(1, 1, 0);
    loom_readers_look_whose_epochs_they_are: LookedUncounted, followed();
}
