//! Who is told of refused and evicted clients: of each at most a few times a second, and never by the thread of a
//! connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use durahash_media::process;

/// What happened to a client, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// It was not admitted.
    Refused(&'static str),
    /// It was a client, and is none any more, although it has not left.
    Evicted(&'static str),
}

impl Notice {
    fn lane(self) -> usize {
        match self {
            Notice::Refused(_) => 0,
            Notice::Evicted(_) => 1,
        }
    }
}

/// Notices of a kind that are told before a pause, and that wait to be told.
pub(super) const AT_ONCE: usize = 4;
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Notices {
    tell: Sender<(SocketAddr, Notice)>,
    /// For each kind: those that refused clients come upon keep no others from being told.
    lanes: Arc<[Lane; 2]>,
}

#[derive(Default)]
struct Lane {
    waiting: AtomicUsize,
    /// Those that are not told one by one.
    more: AtomicU64,
}

impl Notices {
    /// Starts a thread that calls `told` with an address, what happened, and of how many others the same is true since the
    /// last call. The thread ends some time after this is dropped: nobody waits for `told`, which may wait for anything.
    pub(super) fn start(
        told: impl Fn(SocketAddr, Notice, u64) + Send + 'static,
    ) -> io::Result<Self> {
        let (tell, hear) = channel::<(SocketAddr, Notice)>();
        let lanes = Arc::<[Lane; 2]>::default();
        let theirs = Arc::clone(&lanes);
        process::spawn("durahash-notices", move || {
            loop {
                for _ in 0..AT_ONCE {
                    let Ok((address, notice)) = hear.recv() else { return };
                    let lane = &theirs[notice.lane()];
                    lane.waiting.fetch_sub(1, Ordering::Relaxed);
                    told(address, notice, lane.more.swap(0, Ordering::Relaxed));
                }
                thread::sleep(PAUSE);
            }
        })?;
        Ok(Notices { tell, lanes })
    }

    /// Never waits.
    pub(super) fn tell(&self, address: SocketAddr, notice: Notice) {
        let lane = &self.lanes[notice.lane()];
        let room = |waiting| (waiting < AT_ONCE).then_some(waiting + 1);
        let taken = lane.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        if taken.is_err() || self.tell.send((address, notice)).is_err() {
            lane.more.fetch_add(1, Ordering::Relaxed);
        }
    }
}
