//! Many tasks on one thread.
//!
//! An operation on remote memory waits most of its time, so a thread runs many of them at once. The
//! executor polls ready tasks in the order in which they became ready. When none is
//! ready, [`run`](Executor::run) waits until the next [sleep](sleep_until) ends or another thread wakes a task;
//! [`Sim`](crate::fabric::Sim) has a loop of its own, which advances virtual time. Where tasks wait for answers of a
//! connection, it also waits for these.
//!
//! A task has an owner, a number that the caller chooses. All tasks of an owner can be dropped at
//! once, as when a simulated client dies.

mod all;
mod drivers;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

pub(crate) use all::all;
use drivers::{Bell, Drivers};
pub(crate) use drivers::{Driver, Patience, wait};

/// An executor of one thread. Clones are the same executor.
///
/// ```
/// use durahash_remote::executor::Executor;
/// let executor = Executor::new();
/// let one = executor.spawn(0, async { 1 });
/// let two = executor.spawn(0, async move { one.await.unwrap() + 1 });
/// executor.run();
/// assert_eq!(two.take(), Some(2));
/// ```
#[derive(Clone)]
pub struct Executor(Rc<Tasks>);

struct Tasks {
    /// By number, in the order in which they were added: the owner, and the future unless it is being polled.
    live: RefCell<BTreeMap<u64, (u64, Option<Spawned>)>>,
    next: Cell<u64>,
    polling: Cell<bool>,
    ready: Arc<Ready>,
    /// By time, and by a number that makes two of them different.
    sleepers: RefCell<BTreeMap<(Instant, u64), Waker>>,
    drivers: RefCell<Drivers>,
    patience: Patience,
}

type Spawned = Pin<Box<dyn Future<Output = ()>>>;

struct Ready {
    queue: Mutex<VecDeque<Arc<TaskWaker>>>,
    thread: Thread,
    /// The thread waits for drivers, so `bell` wakes it.
    waits: AtomicBool,
    bell: Bell,
}

impl Ready {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Arc<TaskWaker>>> {
        // Nothing panics while it is held.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// In place of a task: the future of [`Executor::block_on`], which is not queued.
const MAIN: u64 = u64::MAX;

struct TaskWaker {
    task: u64,
    woken: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            let ready = Arc::clone(&self.ready);
            if self.task != MAIN {
                ready.queue().push_back(self);
            }
            if ready.thread.id() != thread::current().id() {
                // Either this thread sees that the other one waits, or that one sees what was woken.
                fence(Ordering::SeqCst);
                if ready.waits.load(Ordering::Relaxed) {
                    ready.bell.ring();
                } else {
                    ready.thread.unpark();
                }
            }
        }
    }
}

thread_local! {
    static RUNNING: RefCell<Option<Executor>> = const { RefCell::new(None) };
}

impl Default for Executor {
    fn default() -> Self {
        Executor::new()
    }
}

impl Executor {
    /// An executor without tasks, for this thread.
    #[must_use]
    pub fn new() -> Self {
        Executor(Rc::new(Tasks {
            live: RefCell::default(),
            next: Cell::new(0),
            polling: Cell::new(false),
            ready: Arc::new(Ready {
                queue: Mutex::default(),
                thread: thread::current(),
                waits: AtomicBool::new(false),
                bell: Bell::default(),
            }),
            sleepers: RefCell::default(),
            drivers: RefCell::default(),
            patience: Patience::default(),
        }))
    }

    /// Adds a task, which runs when the executor does. A task may add others.
    pub fn spawn<T: 'static>(
        &self,
        owner: u64,
        future: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        let end = Rc::new(End { value: RefCell::new(None), waker: RefCell::new(None) });
        let ends = EndGuard(Rc::clone(&end));
        let future: Spawned = Box::pin(async move {
            let value = future.await;
            *ends.0.value.borrow_mut() = Some(value);
        });
        let (task, ready) = (self.number(), Arc::clone(&self.0.ready));
        let waker = TaskWaker { task, woken: AtomicBool::new(true), ready };
        self.0.ready.queue().push_back(Arc::new(waker));
        self.0.live.borrow_mut().insert(task, (owner, Some(future)));
        Task(end)
    }

    /// The number of tasks that have not ended.
    #[must_use]
    pub fn live(&self) -> usize {
        self.0.live.borrow().len()
    }

    /// Returns whether a task is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.0.ready.queue().is_empty()
    }

    /// Polls one task that is ready; `false` when there is none.
    ///
    /// # Panics
    /// When a task of this executor calls it, or another method that runs tasks.
    pub fn poll_one(&self) -> bool {
        self.assert_idle();
        let Some(waker) = self.0.ready.queue().pop_front() else { return false };
        waker.woken.store(false, Ordering::Release);
        let task = waker.task;
        let live = &self.0.live;
        // It may have ended since it was woken.
        let future = live.borrow_mut().get_mut(&task).and_then(|(_, future)| future.take());
        let Some(mut future) = future else { return true };
        self.0.polling.set(true);
        let waker = Waker::from(waker);
        let ended = future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready();
        self.0.polling.set(false);
        if !ended && let Some((_, place)) = live.borrow_mut().get_mut(&task) {
            *place = Some(future);
            return true;
        }
        drop(future);
        live.borrow_mut().remove(&task);
        true
    }

    /// Drops all tasks of `owner`; one that is being polled, after its poll.
    pub fn cancel(&self, owner: u64) {
        // Dropped when the tasks are borrowed no more: a future may turn to the executor.
        let mut dropped = Vec::new();
        self.0.live.borrow_mut().retain(|_, (of, future)| {
            if *of == owner {
                dropped.push(future.take());
            }
            *of != owner
        });
    }

    fn number(&self) -> u64 {
        self.0.next.replace(self.0.next.get() + 1)
    }

    /// Runs until all tasks have ended.
    ///
    /// # Panics
    /// As [`poll_one`](Executor::poll_one).
    pub fn run(&self) {
        let _running = self.enter();
        while self.live() != 0 {
            self.round(|| self.live() == 0);
        }
    }

    /// Runs until `future` is ready. Other tasks run meanwhile, and stay where they are then.
    ///
    /// # Panics
    /// As [`poll_one`](Executor::poll_one).
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let _running = self.enter();
        let mut future = pin!(future);
        let (woken, ready) = (AtomicBool::new(true), Arc::clone(&self.0.ready));
        let main = Arc::new(TaskWaker { task: MAIN, woken, ready });
        let waker = Waker::from(Arc::clone(&main));
        loop {
            if main.woken.swap(false, Ordering::AcqRel)
                && let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker))
            {
                return value;
            }
            self.round(|| main.woken.load(Ordering::Acquire));
        }
    }

    /// Polls the tasks that are ready now, and then waits until one is, unless `go_on`.
    fn round(&self, go_on: impl Fn() -> bool) {
        // Sleepers wake between rounds, so busy tasks do not delay them for long.
        let count = self.0.ready.queue().len();
        for _ in 0..count {
            self.poll_one();
        }
        let next = self.wake_sleepers();
        let drivers = self.0.drivers.borrow_mut().live();
        if !drivers.is_empty() {
            let is_ready = || self.is_ready() || go_on();
            let patience = &self.0.patience;
            if !drivers::turn(&drivers)
                && !is_ready()
                && !drivers::spin(&drivers, next, patience, is_ready)
            {
                self.sleep(&drivers, next, is_ready);
            }
        } else if !self.is_ready() && !go_on() {
            match next {
                Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
                None => thread::park(),
            }
        }
    }

    /// Waits for drivers, unless a task is ready.
    fn sleep(
        &self,
        drivers: &[Arc<dyn Driver>],
        until: Option<Instant>,
        is_ready: impl Fn() -> bool,
    ) {
        let Ready { waits, bell, .. } = &*self.0.ready;
        bell.prepare();
        waits.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !is_ready() {
            bell.sleep(drivers, until);
        }
        waits.store(false, Ordering::Relaxed);
    }

    fn assert_idle(&self) {
        assert!(!self.0.polling.get(), "an executor is not run by its own tasks");
    }

    /// Makes this the executor by which futures of the thread sleep.
    fn enter(&self) -> Running {
        self.assert_idle();
        Running(RUNNING.replace(Some(self.clone())))
    }

    /// Wakes the tasks whose sleep has ended, and returns when the next one ends.
    fn wake_sleepers(&self) -> Option<Instant> {
        let mut sleepers = self.0.sleepers.borrow_mut();
        while let Some(first) = sleepers.first_entry() {
            let until = first.key().0;
            if until > Instant::now() {
                return Some(until);
            }
            first.remove().wake();
        }
        None
    }
}

/// Restores the executor that ran before.
struct Running(Option<Executor>);

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.set(self.0.take());
    }
}

/// Has the executor of this thread drive a connection whose answers a task of it waits for; `false` without one.
pub(crate) fn drive(driver: &Arc<dyn Driver>) -> bool {
    RUNNING.with_borrow(|running| {
        running.as_ref().is_some_and(|executor| {
            executor.0.drivers.borrow_mut().add(driver);
            true
        })
    })
}

/// Runs `future` on this thread and blocks while it waits, on an executor of its own.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    Executor::new().block_on(future)
}

/// A task of an [`Executor`]. Dropping it lets the task run on. As a future it returns the task's
/// value, or `None` if the task was dropped.
pub struct Task<T>(Rc<End<T>>);

struct End<T> {
    value: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
}

/// Wakes the waiter of a task that ends or is dropped.
struct EndGuard<T>(Rc<End<T>>);

impl<T> Drop for EndGuard<T> {
    fn drop(&mut self) {
        if let Some(waker) = self.0.waker.take() {
            waker.wake();
        }
    }
}

impl<T> Task<T> {
    /// Returns whether the task has ended, or was dropped.
    #[must_use]
    pub fn ended(&self) -> bool {
        // The task has the other one.
        Rc::strong_count(&self.0) == 1
    }

    /// Takes the task's value; `None` if it has none yet, no more, or was dropped.
    #[must_use]
    pub fn take(&self) -> Option<T> {
        self.0.value.take()
    }
}

impl<T> Future for Task<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        if self.ended() {
            return Poll::Ready(self.take());
        }
        *self.0.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Lets other tasks run.
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Sleeps until a time, and lets other tasks run in any case. Outside of an executor of
/// this module the thread sleeps.
pub async fn sleep_until(until: Instant) {
    let mut yielded = false;
    poll_fn(|cx| {
        let now = Instant::now();
        if std::mem::replace(&mut yielded, true) && until <= now {
            return Poll::Ready(());
        }
        RUNNING.with_borrow(|running| match running {
            Some(executor) => {
                let at = (until, executor.number());
                executor.0.sleepers.borrow_mut().insert(at, cx.waker().clone());
                Poll::Pending
            }
            None => {
                thread::sleep(until.saturating_duration_since(now));
                Poll::Ready(())
            }
        })
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn yields(times: u32) {
        for _ in 0..times {
            yield_now().await;
        }
    }

    #[test]
    fn tasks_run_in_the_order_in_which_they_became_ready() {
        let executor = Executor::new();
        let log = Rc::new(RefCell::new(Vec::new()));
        for task in 0..3 {
            let (log, inner) = (Rc::clone(&log), executor.clone());
            executor.spawn(0, async move {
                for round in 0..2 {
                    log.borrow_mut().push((round, task));
                    yield_now().await;
                }
                let log = Rc::clone(&log);
                inner.spawn(0, async move { log.borrow_mut().push((2, task)) });
            });
        }
        executor.run();
        let all: Vec<_> = (0..3).flat_map(|round| (0..3).map(move |task| (round, task))).collect();
        assert_eq!(log.take(), all);
        assert_eq!(executor.live(), 0);
    }

    #[test]
    fn the_tasks_of_an_owner_are_dropped_together() {
        let executor = Executor::new();
        let held = Rc::new(());
        let waits = |owner| {
            let held = Rc::clone(&held);
            executor.spawn(owner, async move {
                std::future::pending::<()>().await;
                drop(held);
            })
        };
        let (of_one, of_two, also_of_one) = (waits(1), waits(2), waits(1));
        // A task that drops itself along with the others, once it returns.
        let inner = executor.clone();
        let suicide = executor.spawn(1, async move {
            inner.cancel(1);
            inner.spawn(2, async {});
            yield_now().await;
        });
        let told = executor.spawn(2, of_one);
        while executor.poll_one() {}
        assert!(also_of_one.ended() && suicide.ended() && !of_two.ended());
        assert_eq!(told.take(), Some(None), "a task that waits for another is told of its end");
        assert_eq!((executor.live(), Rc::strong_count(&held)), (1, 2));
        // Their places are used again, and a late wake of the dead does no harm.
        let waker = Rc::new(RefCell::new(None));
        let own = Rc::clone(&waker);
        executor.spawn(
            3,
            poll_fn(move |cx| {
                *own.borrow_mut() = Some(cx.waker().clone());
                Poll::<()>::Pending
            }),
        );
        while executor.poll_one() {}
        executor.cancel(3);
        let next = executor.spawn(4, async { 7 });
        waker.take().unwrap().wake();
        while executor.poll_one() {}
        assert_eq!(next.take(), Some(7));
        executor.cancel(2);
        assert_eq!((executor.live(), Rc::strong_count(&held)), (0, 1));
    }

    #[test]
    fn other_threads_and_sleepers_wake_tasks() {
        let executor = Executor::new();
        let shared = Arc::new(Mutex::new((false, None::<Waker>)));
        let other = Arc::clone(&shared);
        let start = Instant::now();
        let woken = executor.spawn(
            0,
            poll_fn(move |cx| {
                let mut shared = other.lock().unwrap();
                if shared.0 {
                    return Poll::Ready(());
                }
                shared.1 = Some(cx.waker().clone());
                Poll::Pending
            }),
        );
        let slept = executor.spawn(0, async move {
            sleep_until(start + Duration::from_millis(20)).await;
            Instant::now()
        });
        let soon = executor.spawn(0, async move {
            sleep_until(start).await;
            sleep_until(start + Duration::from_millis(5)).await;
            Instant::now()
        });
        let thread = thread::spawn(move || {
            loop {
                let mut shared = shared.lock().unwrap();
                if let Some(waker) = shared.1.take() {
                    shared.0 = true;
                    return waker.wake();
                }
                drop(shared);
                thread::yield_now();
            }
        });
        executor.run();
        thread.join().unwrap();
        assert_eq!(woken.take(), Some(()));
        let (slept, soon) = (slept.take().unwrap(), soon.take().unwrap());
        assert!(slept >= start + Duration::from_millis(20));
        assert!(soon >= start + Duration::from_millis(5));
    }

    #[test]
    fn a_future_alone_blocks_its_thread() {
        let start = Instant::now();
        block_on(async {
            yields(3).await;
            sleep_until(start + Duration::from_millis(2)).await;
        });
        assert!(Instant::now() >= start + Duration::from_millis(2));
        // Within a task, too: it does not wait for the executor that it keeps waiting.
        let executor = Executor::new();
        let task = executor.spawn(0, async move { block_on(sleep_until(start)) });
        executor.block_on(yields(5));
        executor.run();
        assert_eq!(task.take(), Some(()));
    }

    #[test]
    #[should_panic(expected = "not run by its own tasks")]
    fn a_task_does_not_run_its_executor() {
        let executor = Executor::new();
        let inner = executor.clone();
        executor.spawn(0, async move { inner.run() });
        executor.run();
    }
}
