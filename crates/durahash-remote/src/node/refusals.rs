//! Who is told of refused clients: at most a few times a second, and never by the thread of a connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use durahash_media::process;

/// Refusals that are told before a pause, and that wait to be told.
pub(super) const AT_ONCE: usize = 4;
const PAUSE: Duration = Duration::from_secs(1);

pub(super) struct Refusals {
    tell: SyncSender<(SocketAddr, &'static str)>,
    /// Refusals that are not told one by one.
    more: Arc<AtomicU64>,
}

impl Refusals {
    /// Starts a thread that calls `refused` with an address, why it was refused, and how many were refused since the last
    /// call beside it. The thread ends some time after this is dropped: nobody waits for `refused`, which may wait for
    /// anything.
    pub(super) fn start(
        refused: impl Fn(SocketAddr, &str, u64) + Send + 'static,
    ) -> io::Result<Self> {
        let (tell, told) = sync_channel(AT_ONCE);
        let more = Arc::new(AtomicU64::new(0));
        let theirs = Arc::clone(&more);
        process::spawn("durahash-refused", move || {
            loop {
                for _ in 0..AT_ONCE {
                    let Ok((address, why)) = told.recv() else { return };
                    refused(address, why, theirs.swap(0, Ordering::Relaxed));
                }
                thread::sleep(PAUSE);
            }
        })?;
        Ok(Refusals { tell, more })
    }

    /// Never waits.
    pub(super) fn tell(&self, address: SocketAddr, why: &'static str) {
        if self.tell.try_send((address, why)).is_err() {
            self.more.fetch_add(1, Ordering::Relaxed);
        }
    }
}
