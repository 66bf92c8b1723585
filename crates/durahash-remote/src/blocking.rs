//! The map for threads that wait.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;

use durahash_media::{Error, ErrorKind, Result, process};

use crate::executor::Executor;
use crate::fabric::{Counts, Fabric};
use crate::map::{Compared, Cursor, Pages, RemoteMap};
use crate::sep::{Options, Report, Stats};

/// A client of an index in remote memory for any number of threads. A call blocks until its operation has ended.
///
/// The map has a thread that runs the operations, many at once, and sends heartbeats also between
/// calls, ever more rarely, down to every 32nd of those that its [`Options`] ask for. Clones are the same client, which leaves with the last one, or by [`close`](Self::close).
///
/// **Concurrency.** Operations of all threads and of all other clients are linearizable: each takes
/// effect at one moment between its call and its return.
///
/// **Durability** and **Full nodes** are as for [`RemoteMap`].
///
/// **Panics.** If an operation panics, or a closure given to [`each`](Self::each), the thread ends, and every
/// later call panics. After [`Evicted`](durahash_media::ErrorKind::Evicted) every call fails: open
/// another map with a new client.
///
/// ```
/// use durahash_remote::fabric::{Local, LocalOptions};
/// use durahash_remote::{BlockingMap, Options};
/// let local = Local::anonymous(&LocalOptions::default())?;
/// let map = BlockingMap::create(local.client()?, Options::default())?;
/// map.put(b"key", b"value")?;
/// assert_eq!(map.get(b"key")?.as_deref(), Some(&b"value"[..]));
/// let other = BlockingMap::open(local.client()?, Options::default())?;
/// assert!(!other.insert_new(b"key", b"another")?);
/// map.delete(b"key")?;
/// assert_eq!(map.get(b"key")?, None);
/// # Ok::<(), durahash_remote::Error>(())
/// ```
pub struct BlockingMap<F: Fabric + Send>(Arc<Server<F>>);

impl<F: Fabric + Send> Clone for BlockingMap<F> {
    fn clone(&self) -> Self {
        BlockingMap(Arc::clone(&self.0))
    }
}

type Job<F> = Box<dyn FnOnce(RemoteMap<F>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

struct Server<F: Fabric> {
    /// `None` when the last clone of the map is dropped.
    jobs: Option<Sender<Job<F>>>,
    /// Wakes the task that takes jobs.
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl<F: Fabric> Drop for Server<F> {
    fn drop(&mut self) {
        self.jobs = None;
        self.waker.wake_by_ref();
        if let Some(thread) = self.thread.take() {
            // A panic there was printed, and has failed the operation that it was in.
            drop(thread.join());
        }
    }
}

/// The longest time between two ticks of a client without operations, in ticks of a busy one.
const IDLE_TICKS: u64 = 32;

/// Ticks until the map is closed. A tick that fails may succeed the next time.
async fn show_life<F: Fabric>(map: RemoteMap<F>) {
    while let Err(error) = map.clone().service_if_busy(IDLE_TICKS).await {
        if matches!(error.kind(), ErrorKind::Evicted) {
            return;
        }
    }
}

/// Does the jobs that are sent until there is no sender.
async fn serve<F: Fabric>(
    executor: &Executor,
    map: RemoteMap<F>,
    jobs: &Receiver<Job<F>>,
) -> Result<()> {
    executor.spawn(0, show_life(map.clone()));
    loop {
        let next = poll_fn(|_| match jobs.try_recv() {
            Ok(job) => Poll::Ready(Some(job)),
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
            // The sender wakes this task: its waker does not change.
            Err(TryRecvError::Empty) => Poll::Pending,
        });
        match next.await {
            // The task itself answers its caller.
            Some(job) => drop(executor.spawn(0, job(map.clone()))),
            // An operation under way would have kept its sender.
            None => return map.close().await,
        }
    }
}

/// Methods that do as those of [`RemoteMap`] with slices.
macro_rules! forward {
    ($($method:ident($($slice:ident: $type:ty),*) -> $value:ty;)*) => {
        #[allow(clippy::type_complexity, reason = "pairs of keys and values")]
        impl<F: Fabric + Send> BlockingMap<F> {$(
            #[doc = concat!("As [`RemoteMap::", stringify!($method), "`].")]
            ///
            /// # Errors
            /// The same.
            pub fn $method(&self, $($slice: &$type),*) -> Result<$value> {
                $(let $slice = $slice.to_vec();)*
                self.call(move |map| async move { map.$method($(&$slice),*).await })
            }
        )*}
    };
}

forward! {
    get(key: [u8]) -> Option<Vec<u8>>;
    put(key: [u8], value: [u8]) -> ();
    put_many(pairs: [(Vec<u8>, Vec<u8>)]) -> ();
    delete(key: [u8]) -> ();
    insert_new(key: [u8], value: [u8]) -> bool;
    replace(key: [u8], value: [u8]) -> Option<Vec<u8>>;
    take(key: [u8]) -> Option<Vec<u8>>;
    check() -> Report;
    sweep() -> u64;
}

impl<F: Fabric + Send> BlockingMap<F> {
    /// As [`RemoteMap::create`].
    ///
    /// # Errors
    /// The same, and [`Io`](durahash_media::ErrorKind::Io) when no thread can be started.
    pub fn create(fabric: F, options: Options) -> Result<Self> {
        Self::start(move || RemoteMap::create(fabric, options))
    }

    /// As [`RemoteMap::open`].
    ///
    /// # Errors
    /// The same, and [`Io`](durahash_media::ErrorKind::Io) when no thread can be started.
    pub fn open(fabric: F, options: Options) -> Result<Self> {
        Self::start(move || RemoteMap::open(fabric, options))
    }

    fn start<O>(open: impl FnOnce() -> O + Send + 'static) -> Result<Self>
    where
        O: Future<Output = Result<RemoteMap<F>>>,
    {
        let (jobs, theirs) = channel();
        let (opened, wait) = channel();
        let run = move || {
            let executor = Executor::new();
            executor.block_on(async {
                match open().await {
                    Ok(map) => {
                        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
                        tell(&opened, Ok(waker));
                        // The other clients evict one that could not give up its row.
                        drop(serve(&executor, map, &theirs).await);
                    }
                    Err(error) => tell(&opened, Err(error)),
                }
            });
        };
        let thread = process::spawn("durahash-remote", run);
        let thread = thread.map_err(|e| Error::io("starting a thread", None, e))?;
        let waker = match wait.recv().expect("the thread tells whether the map is open") {
            Ok(waker) => waker,
            Err(error) => {
                // The row is free again when this returns.
                drop(thread.join());
                return Err(error);
            }
        };
        Ok(BlockingMap(Arc::new(Server { jobs: Some(jobs), waker, thread: Some(thread) })))
    }

    /// Runs `f` on the thread and waits for its result.
    fn call<T, O>(&self, f: impl FnOnce(RemoteMap<F>) -> O + Send + 'static) -> T
    where
        T: Send + 'static,
        O: Future<Output = T> + 'static,
    {
        let (done, wait) = channel();
        let job: Job<F> = Box::new(move |map| {
            let operation = f(map);
            Box::pin(async move { tell(&done, operation.await) })
        });
        // Without the thread, the job is dropped, and with it the channel.
        drop(self.0.jobs.as_ref().map(|jobs| jobs.send(job)));
        self.0.waker.wake_by_ref();
        wait.recv()
            .expect("no operation has panicked, which would have ended the thread of this client")
    }

    /// As [`RemoteMap::compare_set`].
    ///
    /// # Errors
    /// The same.
    pub fn compare_set(
        &self,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Compared> {
        let (key, expected, new) =
            (key.to_vec(), expected.map(<[u8]>::to_vec), new.map(<[u8]>::to_vec));
        self.call(move |map| async move {
            map.compare_set(&key, expected.as_deref(), new.as_deref()).await
        })
    }

    /// Calls `f` for all keys and values, in the order of [`RemoteMap::pages`]. `f` runs on the map's thread and must
    /// not call this map. The first error ends the iteration.
    ///
    /// # Errors
    /// The same.
    pub fn each(&self, mut f: impl FnMut(Vec<u8>, Vec<u8>) + Send + 'static) -> Result<()> {
        self.call(move |map| async move {
            let mut pages = map.pages();
            while let Some(page) = pages.next().await? {
                page.into_iter().for_each(|(key, value)| f(key, value));
            }
            Ok(())
        })
    }

    /// As [`RemoteMap::pages`].
    ///
    /// # Errors
    /// See [`BlockingPages::next`].
    #[must_use]
    pub fn pages(&self) -> BlockingPages<F> {
        BlockingPages { map: self.clone(), cursor: Cursor::START }
    }

    /// As [`RemoteMap::close`]: the client leaves now, and later calls of other clones fail.
    /// Dropping the last clone does the same without reporting errors; the other clients evict one that could
    /// not give up its row.
    ///
    /// # Errors
    /// The same.
    pub fn close(self) -> Result<()> {
        self.call(|map| async move { map.close().await })
    }

    /// As [`RemoteMap::stats`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.call(|map| async move { map.stats() })
    }

    /// As [`RemoteMap::counts`].
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.call(|map| async move { map.counts() })
    }
}

/// The keys and values of a map, from [`BlockingMap::pages`].
pub struct BlockingPages<F: Fabric + Send> {
    map: BlockingMap<F>,
    cursor: Cursor,
}

impl<F: Fabric + Send> BlockingPages<F> {
    /// As [`Pages::next`](crate::Pages::next).
    ///
    /// # Errors
    /// The same.
    #[allow(clippy::should_implement_trait, reason = "as `Pages::next`, it tells errors")]
    #[allow(clippy::type_complexity, reason = "pairs of keys and values")]
    pub fn next(&mut self) -> Result<Option<Vec<(Vec<u8>, Vec<u8>)>>> {
        let cursor = std::mem::replace(&mut self.cursor, Cursor::START);
        let page;
        (page, self.cursor) = self.map.call(move |map| async move {
            let mut pages = Pages { map, cursor };
            (pages.next().await, pages.cursor)
        });
        page
    }
}

/// Answers a call; its thread may have panicked meanwhile.
fn tell<T>(to: &Sender<T>, what: T) {
    drop(to.send(what));
}
