//! The threads behind a log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::disk::Disk;
use super::log::{Log, Wake};
use super::mode::SyncMode;
use crate::error::{Error, Result};

/// One makes checkpoints, and in `Interval` one writes.
pub(super) struct Background {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// The process that has them: a fork's child has none.
    process: u32,
}

impl Background {
    pub(super) fn start<D: Disk + 'static>(log: &Arc<Log<D>>, mode: SyncMode) -> Result<Self> {
        let process = std::process::id();
        let stop = Arc::new(AtomicBool::new(false));
        let mut background = Background { stop, threads: Vec::new(), process };
        let checkpointer = background.spawn("durahash-check", log, |log| {
            if (log.is_half_full() || log.is_short()) && !log.has_failed() {
                log.checkpoint();
            } else {
                if log.private.is_too_much() && !log.has_failed() {
                    log.give_back();
                }
                std::thread::park();
            }
        })?;
        let writer = match mode {
            SyncMode::Interval(every) => {
                Some(background.spawn("durahash-log", log, move |log| {
                    // A shorter interval would make a thread that never rests.
                    std::thread::park_timeout(every.max(Duration::from_millis(1)));
                    log.commit(log.next());
                })?)
            }
            SyncMode::Process | SyncMode::Strict => None,
        };
        let _ = log.wake.set(Wake { writer, checkpointer });
        Ok(background)
    }

    /// Runs `step` again and again until the end.
    fn spawn<D: Disk + 'static>(
        &mut self,
        name: &str,
        log: &Arc<Log<D>>,
        step: impl Fn(&Log<D>) + Send + 'static,
    ) -> Result<std::thread::Thread> {
        let (log, stop) = (Arc::clone(log), Arc::clone(&self.stop));
        let run = move || {
            while !stop.load(Ordering::Acquire) {
                step(&log);
            }
        };
        match std::thread::Builder::new().name(name.into()).spawn(run) {
            Ok(handle) => {
                let thread = handle.thread().clone();
                self.threads.push(handle);
                Ok(thread)
            }
            Err(e) => {
                self.stop_all();
                Err(Error::io("starting a thread for the log", None, e))
            }
        }
    }

    /// True if this process has the threads, and the mappings.
    pub(super) fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    pub(super) fn stop(mut self) {
        self.stop_all();
    }

    fn stop_all(&mut self) {
        self.stop.store(true, Ordering::Release);
        let is_own = self.is_own();
        for handle in self.threads.drain(..) {
            handle.thread().unpark();
            if is_own {
                // It panics only because of a bug; the drop of a map cannot act on it.
                let _ = handle.join();
            }
        }
    }
}
