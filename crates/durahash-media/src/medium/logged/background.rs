//! What the threads in the background do for a log.

use std::io;
use std::sync::Arc;

use super::disk::Disk;
use super::log::{Log, Wake};
use super::mode::SyncMode;
use crate::medium::background::{Background, Fails, work};
use crate::medium::crew::Seat;

impl<D: Disk + 'static> Fails for Log<D> {
    fn fail(&self, e: &io::Error) {
        Log::fail(self, e);
    }
}

pub(super) fn start<D: Disk + 'static>(log: &Arc<Log<D>>, mode: SyncMode) -> Background {
    let device = log.disk.device();
    let check = work(log, |log| {
        while (log.is_half_full() || log.is_short()) && !log.has_failed() {
            log.checkpoint();
        }
        if log.private.is_too_much() && !log.has_failed() {
            log.give_back();
        }
    });
    let checkpointer = Seat::take(device, "durahash-check", check);
    let every = mode.every();
    let writer =
        every.map(|every| (Seat::take(device, "durahash-log", work(log, Log::write_due)), every));
    let background = Background::new(&checkpointer, writer.as_ref());
    let _ = log.wake.set(Wake { writer, checkpointer });
    background
}
