//! Threads that the pools on one disk share.
//!
//! A *crew* does one kind of work (writes, or checkpoints) for all pools of this process on one device, which is what `st_dev`
//! tells apart: partitions of a disk, and subvolumes of btrfs, are several. A pool has a *seat* in
//! it, and *calls* for a time at which its work is due. A thread is hired when a call comes and none is idle, up to
//! [`THREADS_MAX`]; it leaves when it has been idle for [`LINGER`], the last one only when nothing is due any more, so it may
//! stay for the longest interval. All are gone when the last seat is given up, before that returns; where several are given up
//! at the same time, before the call returns that finds them. A pool that is not written to costs no thread and no time.
//!
//! Who delays whom:
//!
//! - Pools on other devices: nobody. They have other crews.
//! - Pools on the same device: a job that is due waits only while [`THREADS_MAX`] others of its kind are under way, as each
//!   thread that takes a job sees to it that another is idle if more are to come. Jobs start in the order in which they are due.
//! - Writes and checkpoints: they have threads apart. But a write that finds its ring full, as the checkpoints of its pool are
//!   slower than its changes, waits for a checkpoint or makes it, and that syncs the whole pool, which may take seconds. While
//!   [`THREADS_MAX`] pools on a device are loaded so fast, the writes of others on it wait for such syncs.
//! - A thread has the nice value, the scheduling class, the processors, and the mask of signals of the one whose call hired it:
//!   where that yields to others, the writes of all pools on the device do, until the thread leaves.
//!
//! Where the system gives no further thread, and none is idle, a call says so: the caller does the work. A job that was called
//! for earlier waits for a thread that is there, and, should that hang, for that. Two things depend on a thread that could not
//! be had: how late a write may be, and that a log comes to use more of its area (`extend.rs`).
//!
//! # Concurrency
//! One mutex guards all of a crew; it is not held while work is done. The work of a seat is done by one thread at a time: who
//! finds it under way leaves a note, as a call does for work at once, and it is done again. A call *happens before* the beginning of the work that it leads to,
//! as both hold the mutex; so what a caller did before is seen by it. An idle thread waits until the first job is due, and is
//! woken by a call for an earlier time; so one leaves only when another one waits for that time, or nothing is to come.
//! Who gives a seat up takes its job back and waits for work that is under way, after whose end the thread has nothing of it
//! any more: the file of a pool that was closed is not locked.
//! The mutex of all crews is taken before that of one.
//!
//! A forked child has none of the threads, and perhaps mutexes that another thread held at the fork: of crews, and of all crews.
//! It takes none of these. It makes a registry of its own, without a lock, and the crews in that; the registry of its parent
//! stays allocated, a few words for each generation of forks that uses pools.

use std::collections::{BTreeSet, HashMap};
use std::mem::take;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::medium::process::{self, Process};
use crate::primitive::lock;

/// Threads of a crew, at the most: with more writes at once a disk, or a file system's journal, gets no faster.
pub(super) const THREADS_MAX: usize = 16;
/// How long a thread stays that has nothing to do.
const LINGER: Duration = Duration::from_secs(1);
/// No time that is later is kept apart from never.
const LATEST: Duration = Duration::from_secs(1 << 30);

/// The work of a seat. It does not panic.
pub(super) type Work = Arc<dyn Fn() + Send + Sync>;

/// The device and the kind of work of a crew.
type Key = (u64, &'static str);

/// All crews of a process.
struct Registry {
    process: Process,
    crews: Mutex<Vec<Arc<Crew>>>,
}

/// That of this process, of an ancestor, or none. Never freed once it is here.
static REGISTRY: AtomicPtr<Registry> = AtomicPtr::new(null_mut());

/// The crews of this process. Waits for no other thread, as at a fork that may be one of the parent.
fn crews() -> &'static Mutex<Vec<Arc<Crew>>> {
    let process = Process::own();
    loop {
        let before = REGISTRY.load(Ordering::Acquire);
        // SAFETY: null, or one that was published below and is never freed or changed but through its mutex.
        if let Some(registry) = unsafe { before.as_ref() }
            && registry.process == process
        {
            return &registry.crews;
        }
        let own = Box::into_raw(Box::new(Registry { process, crews: Mutex::default() }));
        if REGISTRY.compare_exchange(before, own, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            // SAFETY: made above, and not published.
            drop(unsafe { Box::from_raw(own) });
        }
    }
}

pub(super) struct Crew {
    key: Key,
    state: Mutex<State>,
    /// A job is due earlier than those before, or the crew is no more.
    changed: Condvar,
    /// Work has ended whose seat is given up.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    seats: HashMap<u64, Place>,
    seats_ever: u64,
    /// Jobs by the time at which they are due, and seat.
    jobs: BTreeSet<(Instant, u64)>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that were hired and have not left, and those of them that wait or are about to look for work.
    hired: usize,
    idle: usize,
    is_over: bool,
}

struct Place {
    work: Work,
    due: Option<Instant>,
    is_under_way: bool,
    is_due_again: bool,
    is_given_up: bool,
}

impl State {
    /// Sets when the work of a seat is due; never, if there is no time.
    fn set_due(&mut self, seat: u64, due: Option<Instant>) {
        let Some(place) = self.seats.get_mut(&seat) else { return };
        if let Some(before) = std::mem::replace(&mut place.due, due) {
            self.jobs.remove(&(before, seat));
        }
        self.jobs.extend(due.map(|due| (due, seat)));
    }
}

impl Crew {
    /// Hires a thread, if there may be one more; whether it could be had.
    fn hire(self: &Arc<Self>, state: &mut State) -> bool {
        if state.hired == THREADS_MAX {
            return false;
        }
        state.threads.retain(|thread| !thread.is_finished());
        let crew = Arc::clone(self);
        let hired = process::spawn(self.key.1, move || crew.attend());
        let Ok(thread) = hired else { return false };
        state.threads.push(thread);
        state.hired += 1;
        state.idle += 1;
        true
    }

    /// The life of a thread.
    fn attend(self: Arc<Self>) {
        let mut state = lock(&self.state);
        state.idle -= 1;
        let mut idle_since = Instant::now();
        while !state.is_over {
            let now = Instant::now();
            let first = state.jobs.first().copied();
            if let Some((due, seat)) = first
                && due <= now
            {
                state = self.work(state, seat);
                idle_since = Instant::now();
                continue;
            }
            let is_alone = state.idle == 0;
            let left = first.map(|(due, _)| due - now);
            if (left.is_none() || !is_alone) && idle_since.elapsed() >= LINGER {
                break;
            }
            let rest = if is_alone { LATEST } else { LINGER };
            let wait = left.unwrap_or(LINGER).min(rest);
            state.idle += 1;
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
        }
        state.hired -= 1;
    }

    /// Does the work of a seat, which is due.
    fn work<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        seat: u64,
    ) -> MutexGuard<'a, State> {
        state.set_due(seat, None);
        let Some(place) = state.seats.get_mut(&seat) else { return state };
        if place.is_under_way {
            place.is_due_again = true;
            return state;
        }
        place.is_under_way = true;
        let work = Arc::clone(&place.work);
        if state.idle == 0 && !state.jobs.is_empty() {
            // Where there is none, the others wait for this one.
            self.hire(&mut state);
        }
        drop(state);
        work();
        // Before anybody gets to know that it has ended: a pool goes with it.
        drop(work);
        let mut state = lock(&self.state);
        if let Some(place) = state.seats.get_mut(&seat) {
            place.is_under_way = false;
            if place.is_given_up {
                self.ended.notify_all();
            } else if take(&mut place.is_due_again) {
                state.set_due(seat, Some(Instant::now()));
            }
        }
        state
    }

    fn is_without_seats(&self) -> bool {
        lock(&self.state).seats.is_empty()
    }
}

/// A seat, until it is given up.
#[derive(Clone)]
pub(super) struct Seat {
    crew: Arc<Crew>,
    number: u64,
}

impl Seat {
    /// A seat in the crew of this process for a device and a kind of work.
    pub(super) fn take(device: u64, kind: &'static str, work: Work) -> Seat {
        let key = (device, kind);
        let mut crews = lock(crews());
        let crew = crews.iter().find(|crew| crew.key == key).cloned().unwrap_or_else(|| {
            let (state, changed, ended) = (Mutex::default(), Condvar::new(), Condvar::new());
            let crew = Arc::new(Crew { key, state, changed, ended });
            crews.push(Arc::clone(&crew));
            crew
        });
        let mut state = lock(&crew.state);
        state.seats_ever += 1;
        let number = state.seats_ever;
        let place =
            Place { work, due: None, is_under_way: false, is_due_again: false, is_given_up: false };
        state.seats.insert(number, place);
        drop(state);
        drop(crews);
        Seat { crew, number }
    }

    /// Has the work done so long from now, or earlier. False if there is no thread for it: then only earlier calls count.
    pub(super) fn call(&self, from_now: Duration) -> bool {
        let due = Instant::now() + from_now.min(LATEST);
        let mut state = lock(&self.crew.state);
        let state = &mut *state;
        match state.seats.get_mut(&self.number) {
            Some(place) if !place.is_given_up => {
                if place.due.is_some_and(|before| before <= due) {
                    return true;
                }
                if place.is_under_way && from_now.is_zero() {
                    place.is_due_again = true;
                    return true;
                }
            }
            _ => return true,
        }
        // Where there are all, one of them will be free. Those that are there because no more could be had may all hang.
        if state.idle == 0 && state.hired < THREADS_MAX && !self.crew.hire(state) {
            return false;
        }
        state.set_due(self.number, Some(due));
        if state.jobs.first() == Some(&(due, self.number)) {
            self.crew.changed.notify_all();
        }
        true
    }

    /// Takes what is due back, and waits for the end of work that is under way: none begins any more.
    pub(super) fn give_up(self) {
        let crew = &self.crew;
        let mut state = lock(&crew.state);
        state.set_due(self.number, None);
        while let Some(place) = state.seats.get_mut(&self.number).filter(|place| place.is_under_way)
        {
            place.is_given_up = true;
            state = crew.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let place = state.seats.remove(&self.number);
        drop(state);
        drop(place);
        let mut crews = lock(crews());
        if !crew.is_without_seats() {
            return;
        }
        // Nobody finds it any more.
        crews.retain(|other| !Arc::ptr_eq(other, crew));
        drop(crews);
        let mut state = lock(&crew.state);
        state.is_over = true;
        let threads = take(&mut state.threads);
        drop(state);
        crew.changed.notify_all();
        for thread in threads {
            // It panics only because of a bug; the drop of a map cannot act on it.
            let _ = thread.join();
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::io;
    use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::medium::sim::{faults, in_forked_child};

    /// Devices of these tests, each with crews of its own.
    fn device() -> u64 {
        static DEVICES: AtomicU64 = AtomicU64::new(u64::MAX / 2);
        DEVICES.fetch_add(1, Ordering::Relaxed)
    }

    const SOON: Duration = Duration::from_millis(1);
    const NEVER: Duration = Duration::from_secs(1 << 20);

    #[test]
    fn what_was_called_for_is_done_after_the_call() {
        let device = device();
        let seats: Vec<_> = (0..40)
            .map(|_| {
                let (called, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
                let (from, to) = (Arc::clone(&called), Arc::clone(&done));
                let copy = move || to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                (Seat::take(device, "test", Arc::new(copy)), called, done)
            })
            .collect();
        std::thread::scope(|scope| {
            for (seat, called, done) in &seats {
                scope.spawn(move || {
                    for i in 1..200 {
                        called.store(i, Ordering::Relaxed);
                        assert!(seat.call(if i % 3 == 0 { SOON } else { Duration::ZERO }));
                        while i % 50 == 0 && done.load(Ordering::Relaxed) < i {
                            std::thread::yield_now();
                        }
                    }
                });
            }
        });
        let crew = Arc::clone(&seats[0].0.crew);
        assert!(lock(&crew.state).hired <= THREADS_MAX);
        for (seat, called, done) in seats {
            while done.load(Ordering::Relaxed) < called.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            seat.give_up();
        }
        let state = lock(&crew.state);
        assert_eq!((state.hired, state.idle, state.jobs.len()), (0, 0, 0));
        assert!(lock(crews()).iter().all(|other| !Arc::ptr_eq(other, &crew)));
    }

    #[test]
    fn a_seat_that_never_calls_has_no_thread() {
        let seat = Seat::take(device(), "test", Arc::new(|| ()));
        assert_eq!(lock(&seat.crew.state).hired, 0);
        seat.give_up();
    }

    /// As many as there are threads less one: jobs of others go on beside them.
    #[test]
    fn work_that_lasts_holds_no_other_up() {
        let device = device();
        let (stop, held) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let slow: Vec<_> = (1..THREADS_MAX)
            .map(|_| {
                let (stop, held) = (Arc::clone(&stop), Arc::clone(&held));
                let wait = move || {
                    held.fetch_add(1, Ordering::Relaxed);
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::sleep(SOON);
                    }
                };
                Seat::take(device, "test", Arc::new(wait))
            })
            .collect();
        let (sender, done) = channel();
        let quick = Seat::take(device, "test", Arc::new(move || sender.send(()).unwrap()));
        for seat in &slow {
            assert!(seat.call(Duration::ZERO));
        }
        while held.load(Ordering::Relaxed) < slow.len() {
            std::thread::yield_now();
        }
        for wait in [Duration::ZERO, SOON, SOON] {
            assert!(quick.call(wait));
            done.recv().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        slow.into_iter().for_each(Seat::give_up);
        quick.give_up();
    }

    /// A seat whose work begins, and lasts until it may end.
    fn lasting(device: u64) -> (Seat, Receiver<()>, Sender<()>) {
        let (begins, begun) = channel();
        let (ends, may_end) = channel();
        let may_end = Mutex::new(may_end);
        let wait = move || {
            begins.send(()).unwrap();
            lock(&may_end).recv().unwrap();
        };
        (Seat::take(device, "test", Arc::new(wait)), begun, ends)
    }

    #[test]
    fn a_call_for_work_that_is_under_way_hires_nobody_and_it_is_done_again() {
        let (seat, begun, ends) = lasting(device());
        assert!(seat.call(Duration::ZERO));
        begun.recv().unwrap();
        for _ in 0..10 {
            assert!(seat.call(Duration::ZERO));
        }
        let state = lock(&seat.crew.state);
        assert_eq!((state.hired, state.idle, state.jobs.len()), (1, 0, 0));
        drop(state);
        ends.send(()).unwrap();
        begun.recv().unwrap();
        ends.send(()).unwrap();
        seat.give_up();
        assert!(begun.try_recv().is_err(), "once is enough");
    }

    #[test]
    fn where_no_thread_is_idle_or_to_be_had_the_caller_does_the_work() {
        let device = device();
        let (slow, begun, ends) = lasting(device);
        assert!(slow.call(Duration::ZERO));
        begun.recv().unwrap();
        let seat = Seat::take(device, "test", Arc::new(|| ()));
        let jobs = || lock(&seat.crew.state).jobs.len();
        faults::NO_THREADS.set(Some(Box::new(|| ())));
        assert!(!seat.call(Duration::ZERO) && !seat.call(NEVER));
        assert_eq!(jobs(), 0);
        faults::NO_THREADS.set(None);
        assert!(seat.call(NEVER));
        assert_eq!(jobs(), 1);
        ends.send(()).unwrap();
        slow.give_up();
        seat.give_up();
    }

    #[test]
    fn a_seat_that_is_given_up_takes_its_job_back_and_waits_for_what_is_under_way() {
        let device = device();
        let under_way = Arc::new(AtomicUsize::new(0));
        for round in 0..200 {
            let (begun, state) = (Arc::new(AtomicBool::new(false)), Arc::clone(&under_way));
            let mark = Arc::clone(&begun);
            let work = move || {
                state.fetch_add(1, Ordering::Relaxed);
                mark.store(true, Ordering::Relaxed);
                std::thread::yield_now();
                state.fetch_sub(1, Ordering::Relaxed);
            };
            let seat = Seat::take(device, "test", Arc::new(work));
            assert!(seat.call(if round % 2 == 0 { Duration::ZERO } else { NEVER }));
            while round % 4 == 0 && !begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            seat.clone().give_up();
            assert_eq!(under_way.load(Ordering::Relaxed), 0);
            assert_eq!(Arc::strong_count(&begun), 1, "nobody has anything of it");
            assert!(seat.call(Duration::ZERO), "nothing is to be done any more");
        }
    }

    #[test]
    fn a_forked_child_waits_for_no_lock_of_its_parent() {
        let device = device();
        let seat = Seat::take(device, "test", Arc::new(|| ()));
        // As other threads may hold them at a fork.
        let of_crews = lock(crews());
        let of_crew = lock(&seat.crew.state);
        let ended = in_forked_child(move || {
            let (sender, ended) = channel();
            std::thread::spawn(move || {
                let (at_work, done) = channel();
                let seat = Seat::take(device, "test", Arc::new(move || at_work.send(()).unwrap()));
                assert!(seat.call(Duration::ZERO));
                done.recv().unwrap();
                seat.give_up();
                sender.send(()).unwrap();
            });
            // Only a child that hangs waits for so long.
            ended.recv_timeout(Duration::from_secs(60)).map_err(io::Error::other)
        });
        drop((of_crew, of_crews));
        assert!(ended.unwrap().success());
        seat.give_up();
    }
}
