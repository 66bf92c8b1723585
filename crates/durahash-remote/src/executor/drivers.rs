//! Connections whose messages complete what tasks wait for.
//!
//! A task that posts to a connection names its driver. The executor lets drivers send what its tasks have posted when it
//! has polled those that were ready, so what they posted meanwhile goes out together, and lets them wake the tasks whose
//! answers have arrived. When nothing has arrived for a while, it sleeps until something does.

use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{read, write};

/// How long an executor looks for an answer before it sleeps: several times what a node takes that runs.
const SPIN: Duration = Duration::from_micros(50);
/// A thread that has lost its processor while it looked sleeps at once for so many times as long: by looks it loses no more
/// than a part of its time.
const CROWDED: u32 = 64;
/// The longest such time: it may have been stopped.
const CROWDED_MAX: Duration = Duration::from_secs(1);
/// The longest sleep where the system has no descriptor by which others could end it.
const BLIND: Duration = Duration::from_millis(1);

/// What an executor does for a connection, or for several.
pub(crate) trait Driver: Send + Sync {
    /// Sends what was posted and wakes the tasks whose answers have arrived, without waiting. Returns whether there was
    /// anything to do.
    fn turn(&self) -> bool;

    /// Adds what to wait for while there is nothing to do.
    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>);
}

/// The drivers of an executor.
#[derive(Default)]
pub(super) struct Drivers(Vec<Weak<dyn Driver>>);

impl Drivers {
    pub(super) fn add(&mut self, driver: &Arc<dyn Driver>) {
        let is_there =
            |known: &Weak<dyn Driver>| std::ptr::addr_eq(known.as_ptr(), Arc::as_ptr(driver));
        if !self.0.iter().any(is_there) {
            self.0.push(Arc::downgrade(driver));
        }
    }

    /// The drivers that live.
    pub(super) fn live(&mut self) -> Vec<Arc<dyn Driver>> {
        let live: Vec<_> = self.0.iter().filter_map(Weak::upgrade).collect();
        if live.len() < self.0.len() {
            self.0.retain(|driver| driver.strong_count() > 0);
        }
        live
    }
}

/// Lets all drivers do what there is to do.
pub(super) fn turn(drivers: &[Arc<dyn Driver>]) -> bool {
    drivers.iter().fold(false, |moved, driver| driver.turn() | moved)
}

/// Looks for answers until there is something to do, or a time has passed: that until which an executor sleeps, or a
/// short one. Returns whether there is something to do.
pub(super) fn spin(
    drivers: &[Arc<dyn Driver>],
    until: Option<Instant>,
    patience: &Patience,
    is_ready: impl Fn() -> bool,
) -> bool {
    patience.look(until, || turn(drivers) || is_ready())
}

/// Whether a thread may look for something again and again before it sleeps. Where other threads want its processor it
/// may not: each look would give the processor away for a whole time slice, and a sleep is shorter.
#[derive(Default)]
pub(crate) struct Patience(Cell<Option<Instant>>);

impl Patience {
    /// Looks until something is there, or [`SPIN`] is over, or `until` has come. Returns whether something is there.
    pub(crate) fn look(&self, until: Option<Instant>, mut is_there: impl FnMut() -> bool) -> bool {
        let mut now = Instant::now();
        if self.0.get().is_some_and(|from| now < from) {
            return is_there();
        }
        let end = now + SPIN;
        let end = until.map_or(end, |until| until.min(end));
        loop {
            if is_there() {
                return true;
            }
            if now >= end {
                return false;
            }
            let before = Instant::now();
            thread::yield_now();
            now = Instant::now();
            if now - before > SPIN {
                self.0.set(Some(now + (CROWDED * (now - before)).min(CROWDED_MAX)));
                return is_there();
            }
        }
    }
}

/// The descriptor by which another thread ends a sleep.
#[derive(Default)]
pub(super) struct Bell(OnceLock<Option<OwnedFd>>);

impl Bell {
    /// Ends a sleep, if one has begun.
    pub(super) fn ring(&self) {
        if let Some(Some(bell)) = self.0.get() {
            // It is full where it was rung without end.
            let _ = write(bell, &1_u64.to_le_bytes());
        }
    }

    /// Makes the descriptor, before the thread tells that it sleeps.
    pub(super) fn prepare(&self) {
        self.0.get_or_init(|| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok());
    }

    /// Sleeps until a driver has something to do, or that time, or a ring.
    pub(super) fn sleep(&self, drivers: &[Arc<dyn Driver>], until: Option<Instant>) {
        let mut fds = Vec::new();
        for driver in drivers {
            driver.watch(&mut fds);
        }
        let bell = self.0.get().and_then(Option::as_ref);
        if let Some(bell) = bell {
            fds.push(PollFd::from_borrowed_fd(bell.as_fd(), PollFlags::IN));
        }
        wait(
            &mut fds,
            match bell {
                Some(_) => until,
                None => {
                    Some(until.map_or(Instant::now() + BLIND, |t| t.min(Instant::now() + BLIND)))
                }
            },
        );
        if let Some(bell) = bell {
            // Empty where it was not rung.
            let _ = read(bell, &mut [0; 8]);
        }
    }
}

/// Waits until one of these is ready, or that time.
pub(crate) fn wait(fds: &mut [PollFd<'_>], until: Option<Instant>) {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    // A signal ends it early, which does no harm.
    let _ = poll(fds, left.as_ref());
}
