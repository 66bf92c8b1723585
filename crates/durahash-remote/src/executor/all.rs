//! Several futures of one task.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Ready when all of these are. Of many that wait, one whose answer has arrived is polled alone.
pub(crate) async fn all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let all = Arc::new(Mutex::new(Waker::noop().clone()));
    let lane = |future| {
        let lane = Arc::new(Lane { woken: AtomicBool::new(true), all: Arc::clone(&all) });
        (Box::pin(future), Waker::from(Arc::clone(&lane)), lane)
    };
    let mut lanes: Vec<_> = futures.map(lane).collect();
    poll_fn(|cx| {
        lock(&all).clone_from(cx.waker());
        lanes.retain_mut(|(future, waker, lane)| {
            let is_woken = lane.woken.swap(false, Ordering::AcqRel);
            !is_woken || future.as_mut().poll(&mut Context::from_waker(waker)).is_pending()
        });
        if lanes.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

/// One of several futures, which wakes the task that waits for all.
struct Lane {
    woken: AtomicBool,
    all: Arc<Mutex<Waker>>,
}

impl Wake for Lane {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.woken.swap(true, Ordering::AcqRel) {
            let all = lock(&self.all).clone();
            all.wake();
        }
    }
}

fn lock(all: &Mutex<Waker>) -> MutexGuard<'_, Waker> {
    // Nothing panics while it is held.
    all.lock().unwrap_or_else(PoisonError::into_inner)
}
