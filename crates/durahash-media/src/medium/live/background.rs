//! What the threads in the background do for a live image.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::core::{Core, Wake};
use super::disk::LiveDisk;
use crate::medium::background::{Background, Fails, work};
use crate::medium::crew::Seat;
use crate::medium::logged::SyncMode;

impl<D: LiveDisk + 'static> Fails for Core<D> {
    fn fail(&self, e: &io::Error) {
        Core::fail(self, e);
    }
}

/// Readers in other processes wait no longer than about this for what no drain of the writer in `Strict` brings to the disk.
const STRAY: Duration = Duration::from_millis(10);

pub(super) fn start<D: LiveDisk + 'static>(core: &Arc<Core<D>>, mode: SyncMode) -> Background {
    let device = core.disk.device();
    let check = work(core, |core| while core.check_due() {});
    let checkpointer = Seat::take(device, "durahash-check", check);
    let every = mode.every().or(core.waited_for().map(|_| STRAY));
    let taker =
        every.map(|every| (Seat::take(device, "durahash-log", work(core, Core::take_due)), every));
    let background = Background::new(&checkpointer, taker.as_ref());
    let _ = core.wake.set(Wake { taker, checkpointer });
    background
}
