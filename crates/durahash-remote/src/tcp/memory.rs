//! The memory that a node serves, and its rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use durahash_media::{ErrorKind, Result};

use super::frames::FABRIC;
use super::rows::Rows;
use crate::fabric::{Local, LocalOptions};
use crate::node::{FileMemory, Offer};

/// Rows of clients, at most.
const ROWS_MAX: u32 = 4096;

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
    /// Threads that look for requests without sleeping.
    spinning: AtomicUsize,
    spinning_max: usize,
}

/// A thread that looks for requests without sleeping, until this is dropped.
pub(super) struct Spinning<'a>(&'a Served);

impl Served {
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

    /// The memory in the file of a node, which outlives it. The file is closed when this and the
    /// [`Listening`](crate::node::Listening) that serves it are dropped; until then no process of this host may attach it.
    ///
    /// # Errors
    /// As [`FileMemory::shut`], and [`Options`](ErrorKind::Options) when there are no rows, or more than 4,096.
    pub fn in_file(file: &mut FileMemory, max_clients: u32) -> Result<Self> {
        Self::of(file.served()?, max_clients)
    }

    /// The memory of a local fabric of one node. The rows of clients are not those of that fabric.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) when it has several nodes, or there are no rows, or more than 4,096.
    pub fn of(local: Local, max_clients: u32) -> Result<Self> {
        if !(1..=ROWS_MAX).contains(&max_clients) || local.nodes() != 1 {
            let what = "memory over TCP is that of one node, and has 1 to 4096 rows";
            return Err(ErrorKind::Options { what }.into());
        }
        let rows = Arc::new(Rows::new(max_clients));
        let spinning_max = thread::available_parallelism().map_or(0, |cores| cores.get() / 2);
        Ok(TcpMemory(Arc::new(Served { local, rows, spinning: AtomicUsize::new(0), spinning_max })))
    }

    /// The way to it, for clients.
    #[must_use]
    pub fn offer(&self) -> Offer {
        let Served { local, rows, .. } = &*self.0;
        let (fabric, place) = (FABRIC.into(), Vec::new());
        Offer { id: local.id(), bytes: local.bytes(0), max_clients: rows.count(), fabric, place }
    }

    /// The number of clients now.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.0.rows.taken()
    }
}
