//! The memory that a node serves, and its rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use durahash_media::{ErrorKind, Result};

use super::frames::FABRIC;
use super::rows::Rows;
use super::work::{Ends, Work};
use crate::fabric::{Local, LocalOptions};
use crate::node::{Figure, FileMemory, Offer};
use crate::sep::Extent;

/// Rows of clients, at most.
const ROWS_MAX: u32 = 4096;
/// Of an opening of a file, this many low bits of an incarnation are left.
const OPENING_SHIFT: u32 = 40;
/// Time between two looks for threads that have the memory.
const LOOK: Duration = Duration::from_millis(1);

/// Memory that clients reach over TCP. Clones are the same memory.
///
/// A [`Listening`](crate::node::Listening) serves it with a thread for each client. That holds less than a MiB of
/// requests and answers, and a few KiB where the client sends little. A client that takes no answers for
/// [`Limits::silence`](crate::node::Limits::silence) is disconnected, and so is one that sends nothing for
/// [`Limits::idle`](crate::node::Limits::idle).
#[derive(Clone)]
pub struct TcpMemory(pub(super) Arc<Served>);

pub(super) struct Served {
    pub(super) local: Local,
    pub(super) rows: Arc<Rows>,
    pub(super) ends: Ends,
    /// Threads that look for requests without sleeping.
    spinning: AtomicUsize,
    spinning_max: usize,
    /// Where it lies, if that is a file; dropped when `local` is.
    file: Option<FileMemory>,
}

/// A thread that looks for requests without sleeping, until this is dropped.
pub(super) struct Spinning<'a>(&'a Served);

impl Served {
    /// Memory whose clients get incarnations after `given`.
    fn new(local: Local, max_clients: u32, given: u64) -> Result<Self> {
        if !(1..=ROWS_MAX).contains(&max_clients) || local.nodes() != 1 {
            let what = "memory over TCP is that of one node, and has 1 to 4096 rows";
            return Err(ErrorKind::Options { what }.into());
        }
        let rows = Arc::new(Rows::new(max_clients, given));
        let spinning_max = thread::available_parallelism().map_or(0, |cores| cores.get() / 2);
        let (ends, spinning) = (Ends::default(), AtomicUsize::new(0));
        Ok(Served { local, rows, ends, spinning, spinning_max, file: None })
    }

    /// Figures about clients and memory.
    pub(super) fn figures(&self) -> Vec<Figure> {
        let done = self.rows.done();
        let mut figures = vec![
            Figure::now("clients", "Clients that have a row", self.rows.taken().into()),
            Figure::now("rows", "Clients at once, at most", self.rows.count().into()),
            Figure::each(
                "clients_ended",
                "Clients that have left, died (gone), or were evicted, by how they ended",
                "how",
                self.ends.all(),
            ),
            Figure::each(
                "verbs",
                "Verbs that were run, by kind",
                "kind",
                Work::VERBS.into_iter().zip(done),
            ),
            Figure::since("received_bytes", "Bytes that clients sent", done[Work::RECEIVED]),
            Figure::since("sent_bytes", "Bytes that were sent to clients", done[Work::SENT]),
        ];
        if let Some(Extent { taken_bytes, free_bytes }) = Extent::of(&self.local) {
            figures.extend([
                Figure::now("taken_bytes", "Memory that clients took for the index", taken_bytes),
                Figure::now("free_bytes", "Memory that no client has taken yet", free_bytes),
            ]);
        }
        figures
    }

    /// Lets a thread look for requests, if few others do: on one processor, a thread that looks keeps the sender from running.
    pub(super) fn spin(&self) -> Option<Spinning<'_>> {
        let guard = Spinning(self);
        (self.spinning.fetch_add(1, Ordering::Relaxed) < self.spinning_max).then_some(guard)
    }
}

impl Drop for Spinning<'_> {
    fn drop(&mut self) {
        self.0.spinning.fetch_sub(1, Ordering::Relaxed);
    }
}

impl TcpMemory {
    /// Zeroed memory of this process, and rows for so many clients. The system gives each page when it is first
    /// written.
    ///
    /// # Errors
    /// As [`Local::anonymous`]; [`Options`](ErrorKind::Options) when there are no rows, or more than 4,096.
    pub fn anonymous(bytes: u64, max_clients: u32) -> Result<Self> {
        let options =
            LocalOptions { node_bytes: vec![bytes], max_clients: 1, ..LocalOptions::default() };
        Self::of(Local::anonymous(&options)?, max_clients)
    }

    /// The memory in the file of a node, which outlives it: [`close`](Self::close) closes it. Until then, or until the last
    /// clone is dropped, no process of this host may attach it, and no other node may open it.
    ///
    /// # Errors
    /// As [`FileMemory::shut`], and [`Options`](ErrorKind::Options) when there are no rows, or more than 4,096.
    pub fn in_file(file: FileMemory, max_clients: u32) -> Result<Self> {
        let file = file.shut()?;
        // Not by the clock: after a kill it may show an earlier time.
        let given = file.file().opening() << OPENING_SHIFT;
        match file.served().and_then(|local| Served::new(local, max_clients, given)) {
            Ok(served) => Ok(TcpMemory(Arc::new(Served { file: Some(file), ..served }))),
            Err(e) => {
                // Nobody has stored to it. That it is not served is what is told.
                drop(file.close(Duration::ZERO));
                Err(e)
            }
        }
    }

    /// The memory of a local fabric of one node. The rows of clients are not those of that fabric.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) when it has several nodes, or there are no rows, or more than 4,096.
    pub fn of(local: Local, max_clients: u32) -> Result<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let served = Served::new(local, max_clients, now.as_nanos() as u64)?;
        Ok(TcpMemory(Arc::new(served)))
    }

    /// The way to it, for clients.
    #[must_use]
    pub fn offer(&self) -> Offer {
        let Served { local, rows, .. } = &*self.0;
        let (fabric, place) = (FABRIC.into(), Vec::new());
        Offer { id: local.id(), bytes: local.bytes(0), max_clients: rows.count(), fabric, place }
    }

    /// As [`FileMemory::written_back`]; nothing where the memory is in no file.
    ///
    /// # Errors
    /// As there.
    pub fn written_back(&self) -> Result<()> {
        self.0.file.as_ref().map_or(Ok(()), FileMemory::written_back)
    }

    /// Closes the file that the memory lies in, if it does, when this is the last clone, and the
    /// [`Listening`](crate::node::Listening) that served it is dropped.
    ///
    /// # Errors
    /// [`Locked`](ErrorKind::Locked) when there are others for longer than `patience`; else as [`FileMemory::close`].
    pub fn close(self, patience: Duration) -> Result<()> {
        let (start, mut shared) = (Instant::now(), self.0);
        loop {
            match Arc::try_unwrap(shared) {
                Ok(Served { local, file, .. }) => {
                    drop(local);
                    return file.map_or(Ok(()), |file| file.close(patience));
                }
                Err(_) if start.elapsed() >= patience => return Err(ErrorKind::Locked.into()),
                Err(others) => shared = others,
            }
            thread::sleep(LOOK);
        }
    }

    /// The number of clients now.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.0.rows.taken()
    }
}
