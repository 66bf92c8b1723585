//! Work that is done by several threads where there is enough of it.

use durahash_media::Result;
use durahash_media::process::spawn_scoped;

/// Does `f` with all items, in parts of at least `least` each, every part by a thread of its own.
///
/// # Errors
/// The first of any part.
pub(crate) fn in_parts<T: Sync>(
    items: &[T],
    least: usize,
    f: impl Fn(&[T]) -> Result<()> + Sync,
) -> Result<()> {
    let threads = match items.len() / least {
        0 | 1 => 1,
        most => std::thread::available_parallelism().map_or(1, usize::from).min(most),
    };
    if threads == 1 {
        return f(items);
    }
    std::thread::scope(|scope| {
        let f = &f;
        let mut parts = items.chunks(items.len().div_ceil(threads));
        let own = parts.next().unwrap_or_default();
        let mut workers = Vec::new();
        for part in parts {
            match spawn_scoped(scope, "durahash-part", move || f(part)) {
                Ok(worker) => workers.push(worker),
                // The system gives no more threads: this one does it.
                Err(_) => f(part)?,
            }
        }
        f(own)?;
        workers.into_iter().try_for_each(|worker| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use durahash_media::sim::faults;

    use super::*;

    #[test]
    fn all_is_done_also_where_no_thread_can_be_had() {
        for refuses in [false, true] {
            faults::NO_THREADS.set(refuses.then(|| Box::new(|| ()) as Box<dyn FnMut()>));
            let (items, sum) = ((0..1000).collect::<Vec<u64>>(), AtomicU64::new(0));
            let add = |part: &[u64]| {
                sum.fetch_add(part.iter().sum(), Ordering::Relaxed);
                Ok(())
            };
            in_parts(&items, 10, add).unwrap();
            assert_eq!(sum.into_inner(), 999 * 500);
        }
        faults::NO_THREADS.set(None);
    }
}
