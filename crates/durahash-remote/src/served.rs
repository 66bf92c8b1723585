//! A client with a thread of its own, which runs the operations that other threads and tasks send to it.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use durahash_media::{Error, ErrorKind, Result, process};

use crate::executor::{Executor, Patience};
use crate::fabric::Fabric;
use crate::map::RemoteMap;

/// The longest time between two ticks of a client without operations, in ticks of a busy one.
const IDLE_TICKS: u64 = 32;

/// Time after which lost nodes are asked once more whether they are back.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// The same where they have another token: each try counts as a guess of this address, whose other clients would wait.
const REFUSED_AGAIN: Duration = Duration::from_secs(10);

/// The methods that take slices and send them to the thread, for the macro `$forward`.
macro_rules! methods {
    ($forward:ident) => {
        $forward! {
            get(key: [u8]) -> Option<Vec<u8>>;
            get_many(keys: [Vec<u8>]) -> Vec<Option<Vec<u8>>>;
            put(key: [u8], value: [u8]) -> ();
            put_many(pairs: [Pair]) -> ();
            delete(key: [u8]) -> ();
            insert_new(key: [u8], value: [u8]) -> bool;
            insert_many(pairs: [Pair]) -> Vec<bool>;
            replace(key: [u8], value: [u8]) -> Option<Vec<u8>>;
            take(key: [u8]) -> Option<Vec<u8>>;
            check() -> Report;
            summary() -> Summary;
            sweep() -> u64;
        }
    };
}
pub(crate) use methods;

type Job<F> = Box<dyn FnOnce(RemoteMap<F>) -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// The way to the thread, which lets the client leave and ends when this is dropped.
pub(crate) struct Served<F: Fabric> {
    /// `None` when this is dropped.
    jobs: Option<Sender<Job<F>>>,
    /// Wakes the task that takes jobs.
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    /// Dropping this waits for the end of the thread.
    pub(crate) joins: bool,
    /// Threads that wait for an answer.
    waiting: AtomicUsize,
}

/// A thread that had to wait no longer than this looks for the next answer before it sleeps.
const HOT: Duration = Duration::from_micros(100);

thread_local! {
    /// Of a thread that waits, and whether its last answer came soon.
    static PATIENCE: (Patience, Cell<bool>) = Default::default();
}

impl<F: Fabric> Drop for Served<F> {
    fn drop(&mut self) {
        self.jobs = None;
        self.waker.wake_by_ref();
        if let Some(thread) = self.thread.take().filter(|_| self.joins) {
            // A panic there was printed, and has failed the operation that it was in.
            drop(thread.join());
        }
    }
}

impl<F: Fabric + Send> Served<F> {
    /// Has the thread run `f`. The result is sent, unless the thread has ended by a panic.
    pub(crate) fn send<T, O>(
        &self,
        f: impl FnOnce(RemoteMap<F>) -> O + Send + 'static,
    ) -> oneshot::Receiver<T>
    where
        T: Send + 'static,
        O: Future<Output = T> + 'static,
    {
        let (done, wait) = oneshot::channel();
        let job: Job<F> = Box::new(move |map| {
            let operation = f(map);
            Box::pin(async move { tell(done, operation.await) })
        });
        // Without the thread, the job is dropped, and with it the channel.
        drop(self.jobs.as_ref().map(|jobs| jobs.send(job)));
        self.waker.wake_by_ref();
        wait
    }

    /// Waits for the result on this thread. If it waits alone, it looks for the result before it sleeps: to be woken takes
    /// as long as a round trip.
    pub(crate) fn wait<T>(&self, wait: oneshot::Receiver<T>) -> Result<T, oneshot::RecvError> {
        PATIENCE.with(|(patience, hot)| {
            let begun = Instant::now();
            if self.waiting.fetch_add(1, Ordering::Relaxed) == 0 && hot.get() {
                patience.look(None, || wait.has_message());
            }
            let answer = wait.recv();
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            hot.set(begun.elapsed() < HOT);
            answer
        })
    }
}

/// What an operation has answered.
///
/// # Panics
/// When the thread has ended by a panic.
pub(crate) fn answer<T>(answer: Result<T, oneshot::RecvError>) -> T {
    answer.expect("no operation has panicked, which would have ended the thread of this client")
}

/// A thread that opens a map.
pub(crate) struct Starting<F: Fabric> {
    jobs: Sender<Job<F>>,
    thread: JoinHandle<()>,
    opened: oneshot::Receiver<Result<Waker>>,
}

impl<F: Fabric + Send> Starting<F> {
    pub(crate) fn new<O>(open: impl FnOnce() -> O + Send + 'static) -> Result<Self>
    where
        O: Future<Output = Result<RemoteMap<F>>>,
    {
        let (jobs, theirs) = channel();
        let (opened, wait) = oneshot::channel();
        let run = move || {
            let executor = Executor::new();
            executor.block_on(async {
                match open().await {
                    Ok(map) => {
                        let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
                        tell(opened, Ok(waker));
                        // The other clients evict one that could not give up its row.
                        drop(serve(&executor, map, &theirs).await);
                    }
                    Err(error) => tell(opened, Err(error)),
                }
            });
        };
        let thread = process::spawn("durahash-remote", run);
        let thread = thread.map_err(|e| Error::io("starting a thread", None, e))?;
        Ok(Starting { jobs, thread, opened: wait })
    }

    pub(crate) fn wait(self) -> Result<Served<F>> {
        let Starting { jobs, thread, opened } = self;
        ready(jobs, thread, opened.recv())
    }

    pub(crate) async fn ready(self) -> Result<Served<F>> {
        let Starting { jobs, thread, opened } = self;
        ready(jobs, thread, opened.await)
    }
}

fn ready<F: Fabric>(
    jobs: Sender<Job<F>>,
    thread: JoinHandle<()>,
    opened: Result<Result<Waker>, oneshot::RecvError>,
) -> Result<Served<F>> {
    match opened.expect("the thread tells whether the map is open") {
        Ok(waker) => {
            let waiting = AtomicUsize::new(0);
            Ok(Served { jobs: Some(jobs), waker, thread: Some(thread), joins: false, waiting })
        }
        Err(error) => {
            // The row is free again when this returns.
            drop(thread.join());
            Err(error)
        }
    }
}

/// Ticks until the map is closed. A tick that fails may succeed the next time, which comes later each time, until one does.
async fn show_life<F: Fabric>(map: RemoteMap<F>) {
    let (mut ticks, mut ticked_ns) = (1_u64, map.ticked_ns());
    while let Err(error) = map.clone().service_if_busy(IDLE_TICKS).await {
        if matches!(error.kind(), ErrorKind::Evicted) {
            return;
        }
        let last_ns = map.ticked_ns();
        if std::mem::replace(&mut ticked_ns, last_ns) != last_ns {
            ticks = 1;
        }
        map.pause(ticks).await;
        ticks = ticks.saturating_mul(2);
    }
}

/// Does the jobs that are sent until there is no sender. Those that are under way when a node is lost fail; those that are
/// sent when it is back are done by another client.
async fn serve<F: Fabric>(
    executor: &Executor,
    mut map: RemoteMap<F>,
    jobs: &Receiver<Job<F>>,
) -> Result<()> {
    let start = |map: &RemoteMap<F>| executor.spawn(0, show_life(map.clone()));
    start(&map);
    let mut rests_until = None::<Instant>;
    loop {
        let next = poll_fn(|_| match jobs.try_recv() {
            Ok(job) => Poll::Ready(Some(job)),
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
            // The sender wakes this task: its waker does not change.
            Err(TryRecvError::Empty) => Poll::Pending,
        });
        match next.await {
            Some(job) => {
                if rests_until.is_none_or(|until| Instant::now() >= until)
                    && let Some(again) = map.again().await
                {
                    let rest = match again {
                        Ok(again) => {
                            let lost = std::mem::replace(&mut map, again);
                            executor.spawn(0, async { drop(lost.close().await) });
                            start(&map);
                            LOOK_AGAIN
                        }
                        Err(e) if matches!(e.kind(), ErrorKind::Refused { .. }) => REFUSED_AGAIN,
                        Err(_) => LOOK_AGAIN,
                    };
                    rests_until = Some(Instant::now() + rest);
                }
                // The task itself answers its caller.
                executor.spawn(0, job(map.clone()));
            }
            None => return map.close().await,
        }
    }
}

/// Answers a call, whose caller may be gone.
fn tell<T>(to: oneshot::Sender<T>, what: T) {
    drop(to.send(what));
}
