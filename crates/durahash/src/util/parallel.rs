//! Work that is done by several threads where there is enough of it.

use durahash_media::Result;

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
            match std::thread::Builder::new().spawn_scoped(scope, move || f(part)) {
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
