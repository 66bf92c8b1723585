//! Epochs, and the gate between two of them.
//!
//! Time is cut into epochs. Each store is made *inside*, in the epoch that the thread has seen when it entered. An epoch
//! ends with a *cut*: for a moment the gate is closed, nobody is inside, and the next epoch begins. So all stores of an
//! epoch happen before the cut, and the cut before all stores of the next.
//!
//! | step | of a store | order |
//! |---|---|---|
//! | 1 | `inside` = 1; where entrants fence, by an exchange | plain, and a fence of the compiler |
//! | 2 | the state is loaded. *Open*: go on. *Closing*: a full fence, and it is loaded again: *open* or *closing*: go on. *Closed*: `inside` = 0, wait, again from 1 | acquire |
//! | 3 to 7 | the line is marked, and the word stored (`lines.rs`) | |
//! | 8 | `inside` = 0 | release |
//!
//! | step | of a cut | |
//! |---|---|---|
//! | G1 | state = closing | entrants pass, with a fence |
//! | G2 | a barrier in every running thread of the process (`membarrier`) | nobody waits meanwhile. If it fails: open, and there is no cut |
//! | G3 | state = closed; a full fence; every `inside` is looked at, for some 20 µs | |
//! | G4 | all are zero: the state changes from *closed, e* to *open, e + 1* by one exchange | **this is the cut** |
//! | G5 | one is not: open, a rest of 50 µs, from G1 again. After three such tries the gate stays closed for up to 100 ms, while entrants sleep, so that the processors are for those inside; then it is open for as long | |
//!
//! A thread that waits for the gate spins for 5 µs and sleeps then. One that has slept for 200 ms opens the gate: the thread that
//! closed it may have been stopped. The exchange of G4 fails then. Where there is no `membarrier`, and in `Strict`, where a
//! cut must cost little, step 1 is an exchange, and G1 and G2 are left out.
//!
//! # Why it is a cut
//! *Every store of e happens before it.* A thread has seen *open, e*. Then its load comes before the barrier of G2 that
//! reaches it, as behind that it would see closing. So does its step 1, and G3 sees `inside`, or step 8. Or it has seen
//! *closing* twice: between are its step 1, a full fence, and its second load; the other thread stores closed, fences, and
//! loads `inside`. One of the two sees the other. Nobody sees *open, e* again in a try that counts: who opens it makes
//! the exchange of G4 fail. With an exchange as step 1 the second case is the only one.
//!
//! *It happens before every store of e + 1*: those have loaded by acquire what G4 stored.

use std::io;
use std::sync::atomic::compiler_fence;
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use rustix::thread::MembarrierCommand;

use super::planted::{Fault, interrupted, planted};
use super::slot::{Slot, Slots};
use crate::medium::sys;
use crate::primitive::{AtomicU64, Ordering, Watch, fence, lock, rest, spin};

/// The two low bits of a state say whether the gate is open; the epoch stands above them. An entrant waits from `CLOSED` on.
const OPEN: u64 = 0;
const CLOSING: u64 = 1;
const CLOSED: u64 = 2;
/// Closed for as long as it takes: no waiter opens it.
const SHUT: u64 = 3;
const PHASE_BITS: u32 = 2;

/// The look at all threads of a try.
const LOOK: Duration = Duration::from_micros(20);
/// The rest between two tries.
const REST: Duration = Duration::from_micros(50);
/// Tries before the gate stays closed, for how long it does, and how long the rests between looks are then.
const TRIES: u32 = 3;
const HARD: Duration = Duration::from_millis(100);
const HARD_REST: Duration = Duration::from_micros(30);
/// A thread that waits for the gate spins for so long, and opens it after so long.
const SPIN: Duration = Duration::from_micros(5);
const TIRED: Duration = Duration::from_millis(200);

/// The epoch behind `epoch`. Lowest bytes are 1 to 254: never zero, and odd and even in turn.
pub(super) fn next(epoch: u64) -> u64 {
    if epoch as u8 == 254 { epoch + 3 } else { epoch + 1 }
}

/// The lowest byte of the epoch before one with this byte.
pub(super) fn byte_before(byte: u8) -> u8 {
    if byte == 1 { 254 } else { byte - 1 }
}

fn phase(state: u64) -> u64 {
    state & ((1 << PHASE_BITS) - 1)
}

/// The gate of a pool, and its threads.
pub(super) struct Barrier {
    /// In a line of its own.
    state: State,
    /// Entrants fence; else a cut does it for them.
    fences: bool,
    pub(super) slots: Slots,
    /// Held by who closes the gate.
    closer: Mutex<()>,
    /// Threads that sleep before the gate.
    sleeping: Mutex<u64>,
    opened: Condvar,
}

#[repr(align(128))]
struct State(AtomicU64);

/// True if the system makes a barrier in every thread of this process when it is asked to.
fn has_membarrier() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| {
        cfg!(loom) || sys::membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    })
}

/// G2.
fn barrier_everywhere() -> io::Result<()> {
    #[cfg(all(test, loom))]
    return super::planted::barrier_everywhere();
    #[cfg(not(all(test, loom)))]
    sys::membarrier(MembarrierCommand::PrivateExpedited)
}

/// Step 1 with a fence, which the exchange is: it and the load behind it are in one order with the store and the look of who
/// closes the gate. Loom takes them for an acquire and a release, so it needs the fence itself.
#[inline(always)]
fn come(slot: &Slot) {
    if planted(Fault::PlainlyInside) {
        slot.inside.store(1, Ordering::Relaxed);
        return;
    }
    slot.inside.swap(1, Ordering::SeqCst);
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}

impl Barrier {
    /// An open gate in epoch `epoch`.
    pub(super) fn new(epoch: u64, fences: bool) -> Self {
        Barrier {
            state: State(AtomicU64::new(epoch << PHASE_BITS)),
            fences: fences || !has_membarrier(),
            slots: Slots::new(),
            closer: Mutex::new(()),
            sleeping: Mutex::new(0),
            opened: Condvar::new(),
        }
    }

    /// The epoch is another one from now on; before the first store.
    pub(super) fn begin(&self, epoch: u64) {
        self.state.0.store(epoch << PHASE_BITS, Ordering::SeqCst);
    }

    pub(super) fn epoch(&self) -> u64 {
        self.state.0.load(Ordering::SeqCst) >> PHASE_BITS
    }

    /// The lowest byte of the epoch, which may have ended.
    #[inline(always)]
    pub(super) fn byte_hint(&self) -> u8 {
        (self.state.0.load(Ordering::Relaxed) >> PHASE_BITS) as u8
    }

    /// Steps 1 and 2; the epoch.
    #[inline(always)]
    pub(super) fn enter(&self, slot: &Slot) -> u64 {
        if self.fences {
            come(slot);
        } else {
            slot.inside.store(1, Ordering::Relaxed);
            // The thread that makes a cut makes it one of the processor.
            compiler_fence(Ordering::SeqCst);
            interrupted();
        }
        // Behind an exchange, in one order with that and the other thread's store and look.
        let order = if self.fences { Ordering::SeqCst } else { Ordering::Acquire };
        let state = self.state.0.load(order);
        if phase(state) == OPEN { state >> PHASE_BITS } else { self.enter_slowly(slot, state) }
    }

    /// Step 8.
    #[inline(always)]
    pub(super) fn leave(&self, slot: &Slot) {
        slot.inside.store(0, Ordering::Release);
    }

    #[cold]
    #[inline(never)]
    fn enter_slowly(&self, slot: &Slot, mut state: u64) -> u64 {
        loop {
            if phase(state) == CLOSING && !planted(Fault::LookedOnce) {
                if !planted(Fault::PlainlyPassed) {
                    fence(Ordering::SeqCst);
                }
                state = self.state.0.load(Ordering::Acquire);
            }
            if phase(state) < CLOSED {
                return state >> PHASE_BITS;
            }
            slot.inside.store(0, Ordering::Release);
            self.wait(state);
            come(slot);
            state = self.state.0.load(Ordering::SeqCst);
        }
    }

    /// Waits while the gate is closed.
    #[cfg(not(loom))]
    fn wait(&self, closed: u64) {
        let watch = Watch::start();
        let is_closed = || self.state.0.load(Ordering::SeqCst) == closed;
        while is_closed() && !watch.has_passed(SPIN) {
            spin();
        }
        let mut sleeping = lock(&self.sleeping);
        *sleeping += 1;
        while is_closed() {
            let waited = self.opened.wait_timeout(sleeping, TIRED);
            let (guard, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            sleeping = guard;
            if timeout.timed_out() && self.open_tired(closed) {
                self.opened.notify_all();
            }
        }
        *sleeping -= 1;
    }

    /// The same without sleep.
    #[cfg(loom)]
    fn wait(&self, closed: u64) {
        let watch = Watch::start();
        while self.state.0.load(Ordering::SeqCst) == closed {
            if watch.has_passed(TIRED) {
                self.open_tired(closed);
            }
            spin();
        }
    }

    /// Opens the gate, as who has closed it may have been stopped.
    fn open_tired(&self, closed: u64) -> bool {
        phase(closed) == CLOSED && self.change(closed, closed & !CLOSED)
    }

    fn change(&self, from: u64, to: u64) -> bool {
        self.state.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Wakes those who wait for the gate, which is open.
    fn wake(&self) {
        if *lock(&self.sleeping) > 0 {
            self.opened.notify_all();
        }
    }

    /// Ends the epoch; the next one.
    ///
    /// # Errors
    /// The system's, where it makes no barrier.
    pub(super) fn cut(&self) -> io::Result<u64> {
        let _closer = lock(&self.closer);
        let epoch = self.epoch();
        for tries in 0.. {
            if self.close(epoch, tries)? {
                let is_cut = self.end(epoch);
                self.wake();
                if is_cut {
                    return Ok(next(epoch));
                }
            }
        }
        unreachable!("there is no end of tries")
    }

    /// G4.
    fn end(&self, epoch: u64) -> bool {
        let (closed, after) = (epoch << PHASE_BITS | CLOSED, next(epoch) << PHASE_BITS);
        if planted(Fault::EndedByStore) {
            self.state.0.store(after, Ordering::SeqCst);
            return true;
        }
        self.change(closed, after)
    }

    /// Runs `f` while nobody enters, however long that takes, and nobody is inside; but for a thread that stays there for more than
    /// half a second, stopped or in a page fault that waits for the disk, and where the system makes no barrier.
    pub(super) fn while_shut(&self, f: impl FnOnce()) {
        let _closer = lock(&self.closer);
        let epoch = self.epoch();
        let [closed, shut] = [CLOSED, SHUT].map(|p| epoch << PHASE_BITS | p);
        // Not if one who waited has opened it meanwhile.
        let is_shut = (0..2 * TRIES)
            .any(|tries| self.close(epoch, tries).unwrap_or(false) && self.change(closed, shut));
        if !is_shut {
            self.state.0.store(shut, Ordering::SeqCst);
        }
        f();
        self.state.0.store(epoch << PHASE_BITS, Ordering::SeqCst);
        self.wake();
    }

    /// Tries to close the gate with nobody inside, G1 to G3. If it fails, a rest follows with the gate open.
    fn close(&self, epoch: u64, tries: u32) -> io::Result<bool> {
        let [open, closing, closed] = [OPEN, CLOSING, CLOSED].map(|p| epoch << PHASE_BITS | p);
        if !self.fences {
            self.state.0.store(closing, Ordering::SeqCst);
            let barrier = if planted(Fault::NoBarrier) { Ok(()) } else { barrier_everywhere() };
            if barrier.is_err() {
                self.state.0.store(open, Ordering::SeqCst);
            }
            barrier?;
        }
        self.state.0.store(closed, Ordering::SeqCst);
        if !planted(Fault::PlainlyClosed) {
            fence(Ordering::SeqCst);
        }
        let (watch, is_hard) = (Watch::start(), tries >= TRIES);
        if self.waited(is_hard, closed) {
            return Ok(true);
        }
        let _ = self.change(closed, open);
        self.wake();
        if is_hard {
            watch.rest_as_long()
        } else {
            rest(REST)
        }
        Ok(false)
    }

    /// Looks until nobody is inside; whether that came true in time.
    fn waited(&self, is_hard: bool, closed: u64) -> bool {
        let (watch, limit) = (Watch::start(), if is_hard { HARD } else { LOOK });
        while !self.slots.all_outside() {
            if watch.has_passed(limit) || self.state.0.load(Ordering::Relaxed) != closed {
                return false;
            }
            if is_hard { rest(HARD_REST) } else { spin() }
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::thread;
    use std::time::Instant;

    use super::*;

    #[test]
    fn bytes_of_epochs_are_never_zero_and_their_parities_take_turns() {
        let (mut epoch, mut byte) = (1, 1);
        for _ in 0..1000 {
            let after = next(epoch);
            assert!(after as u8 != 0 && after as u8 != 255 && after % 2 != epoch % 2);
            assert_eq!(byte_before(after as u8), byte);
            (epoch, byte) = (after, after as u8);
        }
    }

    /// Threads count in pairs of words; a thread that has cut sees no half of a pair, and no store of an epoch after it.
    #[test]
    fn stores_lie_on_their_side_of_the_cut() {
        for (threads, fences) in [(2, false), (2, true), (24, false)] {
            let barrier = Arc::new(Barrier::new(1, fences));
            let counts: Arc<Vec<[AtomicU64; 2]>> =
                Arc::new((0..threads).map(|_| Default::default()).collect());
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                for count in counts.iter() {
                    let (barrier, stop) = (&barrier, &stop);
                    scope.spawn(move || {
                        let slot = barrier.slots.take();
                        while !stop.load(Ordering::Relaxed) {
                            let epoch = barrier.enter(&slot);
                            for word in count {
                                // The last epoch in which it was stored to, and how often.
                                let n = word.load(Ordering::Relaxed) + 1;
                                word.store(n & 0xffff_ffff | epoch << 32, Ordering::Release);
                            }
                            barrier.leave(&slot);
                        }
                        barrier.slots.give_back(slot);
                    });
                }
                for _ in 0..if threads > 2 { 20 } else { 300 } {
                    let after = barrier.cut().unwrap();
                    for [a, b] in counts.iter() {
                        // Loaded behind the cut: a store that is seen and is not of an epoch before it is a later one.
                        let (a, b) = (a.load(Ordering::Acquire), b.load(Ordering::Acquire));
                        assert!(a >> 32 == after || b >> 32 == after || a == b, "{a:x} {b:x}");
                    }
                }
                stop.store(true, Ordering::Relaxed);
            });
        }
    }

    /// One that never leaves holds the cut up, and nobody else for good.
    #[test]
    fn a_thread_that_sleeps_inside_is_waited_for() {
        let barrier = Barrier::new(1, false);
        let slot = barrier.slots.take();
        barrier.enter(&slot);
        thread::scope(|scope| {
            let cut = scope.spawn(|| barrier.cut().unwrap());
            let other = barrier.slots.take();
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(300) {
                assert_eq!(barrier.enter(&other), 1);
                barrier.leave(&other);
            }
            barrier.leave(&slot);
            assert_eq!(cut.join().unwrap(), 2);
        });
    }
}
