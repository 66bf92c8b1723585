//! The side that lends its memory out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use durahash_media::{Error, ErrorKind, Result};
use durahash_remote::node::Offer;

use crate::connect_info::ConnectInfo;
use crate::leases::{
    BEAT_OFF, ID_OFF, LEASE_MAX, LEASE_MIN, PAGE, REGION_BYTES_MAX, ROWS_MAX, own_bytes,
};
use crate::sys::{self, Node};

/// The name of the fabric in an offer.
pub(crate) const FABRIC: &str = "ucx";
/// So often the thread looks for verbs before it sleeps until there are some.
const SPINS: u32 = 50;
/// Then it wakes so often all the same, and looks whether it shall end.
const WAIT_MS: u32 = 20;

/// What a node lends out.
#[derive(Clone, Copy, Debug)]
pub struct UcxNodeOptions {
    /// Bytes of the region, a multiple of 4096.
    pub bytes: u64,
    /// Rows of clients, so how many can live at once: 1 to 4096. Those of node 0 count.
    pub rows: u32,
    /// How long a client must have shown no life before it may be evicted: a second to a day. That of node 0
    /// counts.
    ///
    /// UCX cannot shut out a client. So the lease must be so long that whatever a client posts takes effect
    /// within a quarter of it, or never does ([`Ucx`](crate::Ucx) says what it sees to, and what not); and so
    /// long that a client that lives posts something within it, as an index's
    /// [`service`](durahash_remote::RemoteMap::service) does.
    pub lease: Duration,
    /// Whether TCP reaches it from this host only, by the loopback device, unless `UCX_NET_DEVICES` says
    /// otherwise; `false` by default.
    pub loopback: bool,
}

impl Default for UcxNodeOptions {
    fn default() -> Self {
        let lease = Duration::from_secs(10);
        UcxNodeOptions { bytes: 64 << 20, rows: 1024, lease, loopback: false }
    }
}

/// A region of memory that clients reach over UCX, and a thread that lets their verbs take effect.
///
/// It is gone, with what is in it, when this is dropped; clients get
/// [`NodeLost`](ErrorKind::NodeLost) from then on.
///
/// **Connections that break.** UCX 1.13 ends the whole process of the node (`Fatal: unexpected error: Endpoint
/// timeout`) when the connection of a client breaks over TCP, and then comes to writes of it that are to be
/// answered: seen in about one of eight kills of a client that did nothing but write 100 kB at once, not of
/// one that had nothing under way. A client breaks its connection with writes under way not only when it is
/// killed: also when it gives the node up, since its deadline is short for a slow node, or since a write has been
/// under way for a quarter of the lease; and when it is dropped having been evicted, or with a node lost. So
/// a client that is merely slow can end a node for all. Give a node a process of its own, which has nothing
/// else to lose, and choose deadline and lease long.
///
/// **Who reaches its port** can write anywhere in this process, not only in the region, whatever token a
/// control connection wants: only on a network where everybody is trusted. See the [crate](crate).
#[derive(Debug)]
pub struct UcxNode {
    id: u64,
    bytes: u64,
    rows: u32,
    info: Vec<u8>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl UcxNode {
    /// Takes zeroed memory, registers it, and starts the thread. UCX's environment variables say over
    /// which devices and transports it is reached: `UCX_NET_DEVICES`, `UCX_TLS`.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) when they cannot be met; [`Io`](ErrorKind::Io) with what UCX says.
    pub fn start(options: &UcxNodeOptions) -> Result<Self> {
        let UcxNodeOptions { bytes, rows, lease, loopback } = *options;
        let refused = |what| Err(ErrorKind::Options { what }.into());
        if bytes == 0 || !bytes.is_multiple_of(PAGE) || bytes > REGION_BYTES_MAX {
            return refused(
                "the bytes of a region are a multiple of 4096, and not more than 128 TiB",
            );
        }
        if !(1..=ROWS_MAX).contains(&rows) {
            return refused("a fabric has 1 to 4096 rows");
        }
        if !(LEASE_MIN..=LEASE_MAX).contains(&lease) {
            return refused("a lease is a second at least, and a day at most");
        }
        let lease_ns = lease.as_nanos() as u64;
        let id = getrandom::u64().map_err(|e| {
            Error::io("choosing a random id for a region", None, std::io::Error::other(e))
        })?;
        let all = usize::try_from(own_bytes(rows) + bytes)
            .map_err(|_| Error::from(ErrorKind::Full { wanted_bytes: bytes }))?;
        let loopback = loopback && std::env::var_os("UCX_NET_DEVICES").is_none();
        let mut node = Node::start(all, loopback)?;
        node.set_word(ID_OFF, id.to_le());
        let info =
            ConnectInfo::new(id, sys::version(), bytes, rows, lease_ns, node.parts()).to_bytes();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let serve = move || {
            let mut beat = 0;
            while !stopped.load(Ordering::Acquire) {
                node.serve(SPINS, WAIT_MS)?;
                beat += 1;
                node.set_word(BEAT_OFF, u64::to_le(beat));
            }
            Ok(())
        };
        let thread = thread::Builder::new().name("durahash-ucx".into()).spawn(serve);
        let thread = Some(thread.map_err(|e| Error::io("starting a thread", None, e))?);
        Ok(UcxNode { id, bytes, rows, info, stop, thread })
    }

    /// What a client needs to reach the region: a few hundred bytes, to be given to
    /// [`Ucx::connect`](crate::Ucx::connect) by a way on which nobody changes them: see
    /// [`Trusted`](crate::Trusted). Whoever has them can read and write all of the region.
    #[must_use]
    pub fn connect_info(&self) -> &[u8] {
        &self.info
    }

    /// The same as an offer, for a [`Listening`](durahash_remote::node::Listening) to make to clients, which
    /// [find](crate::Ucx::find) it there.
    #[must_use]
    pub fn offer(&self) -> Offer {
        let (fabric, place) = (FABRIC.into(), self.info.clone());
        Offer { id: self.id, bytes: self.bytes, rows: self.rows, fabric, place }
    }

    /// Whether the thread serves the region yet: it ends when UCX fails.
    #[must_use]
    pub fn serves(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends it, as dropping does.
    ///
    /// # Errors
    /// What ended the thread before, if something did.
    pub fn stop(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.stop.store(true, Ordering::Release);
        match self.thread.take() {
            Some(thread) => thread.join().expect("the thread of a node does not panic"),
            None => Ok(()),
        }
    }
}

impl Drop for UcxNode {
    fn drop(&mut self) {
        // Whoever wants to know calls `stop`.
        drop(self.end());
    }
}
