//! The node, which lends its memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use durahash_media::{Error, ErrorKind, Limit, Result, SharedHeader};
use durahash_remote::node::{FileMemory, Offer};

use crate::connect_info::ConnectInfo;
use crate::leases::{
    BEAT_OFF, ID_OFF, LEASE_MAX, LEASE_MIN, PAGE, REGION_BYTES_MAX, ROWS_MAX, own_bytes,
};
use crate::sys::{self, Node};

/// The name of the fabric in an offer.
pub(crate) const FABRIC: &str = "ucx";
/// Polls of the thread without a verb, before it sleeps until there is one.
const SPINS: u32 = 50;
/// The sleep's limit: then the thread checks whether it must end.
const WAIT_MS: u32 = 20;
/// Time between two questions to the system whether it could not write pages of the file back.
const LOOK: Duration = Duration::from_secs(1);

/// Options of a node.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct UcxNodeOptions {
    /// Bytes of the region, a multiple of 4096.
    pub bytes: u64,
    /// Clients at once, at most: 1 to 4096. The value of node 0 counts.
    pub max_clients: u32,
    /// How long a client must be silent before it may be evicted: a second to a day. The value of node 0
    /// counts.
    ///
    /// UCX cannot shut out a client. So each verb must take effect within a quarter of the lease, or never;
    /// [`Ucx`](crate::Ucx) lists what it ensures. And each live client must post something within the lease, as an
    /// index's [`service`](durahash_remote::RemoteMap::service) does.
    pub lease: Duration,
    /// Restricts TCP to the loopback device unless `UCX_NET_DEVICES` is set; `false` by default.
    pub loopback: bool,
}

impl Default for UcxNodeOptions {
    fn default() -> Self {
        let lease = Duration::from_secs(10);
        UcxNodeOptions { bytes: 64 << 20, max_clients: 1024, lease, loopback: false }
    }
}

/// A region of memory that clients reach over UCX, and a thread that progresses their verbs.
///
/// Dropping it discards the region and its contents, unless they lie in a file. Clients then get [`NodeLost`](ErrorKind::NodeLost).
///
/// **Broken connections.** UCX 1.13 ends the node's whole process (`Fatal: unexpected error: Endpoint
/// timeout`) if a client's connection over TCP breaks before UCX has answered its writes. That happened in about one of
/// eight kills of a client that wrote 100 kB at a time, and never to
/// one that had nothing under way. A client breaks its connection with writes under way when it is
/// killed, when it gives up a node that exceeds its deadline, when a write has been
/// under way for a quarter of the lease, and when it is dropped after an eviction or the loss of a node. So
/// a slow client can end a node for all clients. Run a node in a process of its own, and choose a long deadline and lease.
///
/// **Trust.** Any host that reaches its port can write anywhere in this process, not only in the region, even without the
/// token of the control connection. Run it only on a network where every host is trusted. See the [crate](crate).
#[derive(Debug)]
pub struct UcxNode {
    id: u64,
    bytes: u64,
    rows: u32,
    info: Vec<u8>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Node>>>,
}

impl UcxNode {
    /// Allocates zeroed memory, registers it, and starts the thread. UCX's environment variables
    /// `UCX_NET_DEVICES` and `UCX_TLS` choose devices and transports.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) when an option is out of its range; [`Io`](ErrorKind::Io) with UCX's message.
    pub fn start(options: &UcxNodeOptions) -> Result<Self> {
        let UcxNodeOptions { bytes, max_clients: rows, .. } = *options;
        if bytes == 0 || !bytes.is_multiple_of(PAGE) || bytes > REGION_BYTES_MAX {
            let what =
                "the bytes of a region are a multiple of 4096, at least 4096 and at most 128 TiB";
            return Err(ErrorKind::Options { what }.into());
        }
        if !(1..=ROWS_MAX).contains(&rows) {
            return Err(ErrorKind::Options { what: "a fabric has 1 to 4096 rows" }.into());
        }
        let id = getrandom::u64().map_err(|e| {
            Error::io("choosing a random id for a region", None, std::io::Error::other(e))
        })?;
        let all = usize::try_from(own_bytes(rows) + bytes)
            .map_err(|_| Error::full(bytes, Limit::Nodes))?;
        Self::serve(options, (id, bytes, rows), |loopback| Node::start(all, loopback))
    }

    /// The same in the memory of a file, which has its own size and rows. Clients may connect again when a node that
    /// served it was killed. [`stop`](Self::stop) returns it, to be [closed](FileMemory::close).
    ///
    /// UCX registers memory that lies in the page cache. For a NIC with RDMA, the kernel may refuse that on
    /// file systems with a disk.
    ///
    /// # Errors
    /// As [`start`](Self::start); [`Locked`](ErrorKind::Locked) when processes of this host have it attached, as
    /// clients of a node that lent it to them.
    pub fn start_in(memory: FileMemory, options: &UcxNodeOptions) -> Result<Self> {
        let SharedHeader { id, bytes, rows, .. } = memory.file().region().header();
        let rows = u32::try_from(rows).unwrap_or(u32::MAX).min(ROWS_MAX);
        if own_bytes(rows) != PAGE {
            let what = "the file of a node has 448 rows at most over UCX";
            return Err(ErrorKind::Options { what }.into());
        }
        let memory = memory.shut()?;
        Self::serve(options, (id, bytes, rows), |loopback| Node::start_in(memory, loopback))
    }

    fn serve(
        options: &UcxNodeOptions,
        (id, bytes, rows): (u64, u64, u32),
        start: impl FnOnce(bool) -> Result<Node>,
    ) -> Result<Self> {
        let UcxNodeOptions { lease, loopback, .. } = *options;
        if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
            let what = "a lease is a second at least, and a day at most";
            return Err(ErrorKind::Options { what }.into());
        }
        let lease_ns = lease.as_nanos() as u64;
        let mut node = start(loopback && std::env::var_os("UCX_NET_DEVICES").is_none())?;
        node.set_word(ID_OFF, id.to_le());
        let info =
            ConnectInfo::new(id, sys::version(), bytes, rows, lease_ns, node.parts()).to_bytes();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let serve = move || {
            let (mut beat, mut looked) = (0, Instant::now());
            while !stopped.load(Ordering::Acquire) {
                node.serve(SPINS, WAIT_MS)?;
                if looked.elapsed() >= LOOK {
                    node.written_back()?;
                    looked = Instant::now();
                }
                beat += 1;
                node.set_word(BEAT_OFF, u64::to_le(beat));
            }
            Ok(node)
        };
        let thread = thread::Builder::new().name("durahash-ucx".into()).spawn(serve);
        let thread = Some(thread.map_err(|e| Error::io("starting a thread", None, e))?);
        Ok(UcxNode { id, bytes, rows, info, stop, thread })
    }

    /// How a client reaches the region: a few hundred bytes for
    /// [`Ucx::connect`](crate::Ucx::connect). Pass them on by a channel that cannot be tampered with: see
    /// [`Trusted`](crate::Trusted). They give access to the whole region.
    #[must_use]
    pub fn connect_info(&self) -> &[u8] {
        &self.info
    }

    /// The same as an offer, which a [`Listening`](durahash_remote::node::Listening) sends to clients that
    /// [find](crate::Ucx::find) it.
    #[must_use]
    pub fn offer(&self) -> Offer {
        let (fabric, place) = (FABRIC.into(), self.info.clone());
        Offer { id: self.id, bytes: self.bytes, max_clients: self.rows, fabric, place }
    }

    /// Returns whether the thread still serves the region: it ends when UCX fails, or the disk of its file.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops the node, as dropping does, and returns the file that its memory lies in, if it does.
    ///
    /// # Errors
    /// The error that had ended the thread before, if there was one.
    pub fn stop(mut self) -> Result<Option<FileMemory>> {
        Ok(self.end()?.and_then(Node::into_memory))
    }

    fn end(&mut self) -> Result<Option<Node>> {
        self.stop.store(true, Ordering::Release);
        let thread = self.thread.take();
        thread.map(|thread| thread.join().expect("the thread of a node does not panic")).transpose()
    }
}

impl Drop for UcxNode {
    fn drop(&mut self) {
        // `stop` returns the error.
        drop(self.end());
    }
}
