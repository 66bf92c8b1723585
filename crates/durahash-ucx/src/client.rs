//! The client, which posts verbs.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use durahash_media::{Error, ErrorKind, Result};
use durahash_remote::executor::{block_on, sleep_until};
use durahash_remote::fabric::{Addr, Batch, Counts, Done, Fabric, no_row};
use durahash_remote::node::{self, Limits, Offers, Token};

use crate::connect_info::ConnectInfo;
use crate::leases::{ID_OFF, Lease, Look, Silence, State, lease_off};
use crate::link::{Link, Load};
use crate::node::FABRIC;
use crate::sys::{self, Trusted};

/// Attempts of a client to renew its lease in time.
const BEATS: u32 = 3;

/// A client of nodes over UCX. Clones are the same client; several threads may use it, but only one
/// at a time makes progress.
///
/// Verbs progress while a future of this client is polled. A future polls for completions without a pause for 200 µs, and
/// then ever less often, at least every millisecond. A thread of the client progresses verbs that are not
/// awaited, every sixteenth of the lease.
///
/// **Deadline.** A node that has not answered within the deadline, or whose connection has failed, is lost
/// to this client for good: later verbs to it fail with [`NodeLost`](ErrorKind::NodeLost),
/// and nothing more is sent. Other nodes are not affected. Create a new client to connect again. The deadline is at most a
/// quarter of the lease; a longer one is shortened. Over shared memory, verbs still take effect in the memory of a node
/// that has ended, so there a client
/// checks every quarter of the deadline whether the node is alive: a round trip that is not counted.
///
/// **Leases.** The lease of a client is a word in the memory of node 0. Before a post, the client renews it if the last
/// renewal was posted more than a quarter of the lease ago: a round trip that is not
/// counted. UCX cannot shut out a client at a node, so an eviction marks the lease word and waits for half a
/// lease. It relies on each verb to take effect within a quarter of the lease after its post, or never.
///
/// UCX may hold a verb back until the client progresses it. So a client that was delayed first closes
/// the connection to every node to which a verb has been under way for longer than that. Such a node is lost: a
/// process that is stopped with verbs under way loses nodes. This does not cover:
///
/// - a client that is delayed between the check of its lease, or of the clock, and the post;
/// - a client whose machine is suspended together with its clock;
/// - bytes that the system or the NIC has accepted for a node that is itself delayed, and receives them later;
/// - shared memory, where such a connection cannot be closed; but there, writes take effect at once.
///
/// Choose a lease that is long compared with all of these.
///
/// When its last clone is dropped the client leaves: it waits until its verbs have taken effect, at most for
/// the deadline, and frees its row.
#[derive(Clone)]
pub struct Ucx(Arc<Endpoint>);

struct Endpoint {
    link: Arc<Link>,
    /// Ends when the sender is dropped.
    tender: Option<(Sender<()>, JoinHandle<()>)>,
    /// They detect the end of nodes.
    _links: Vec<node::Link>,
    region_bytes: Vec<u64>,
    rows: u32,
    lease_ns: u64,
    start: Instant,
    row: u32,
    state: Mutex<Own>,
}

/// The mutable state.
struct Own {
    /// The lease word of this client's row.
    lease: Lease,
    /// When the last renewal that arrived was posted.
    beat_ns: u64,
    evicted: bool,
    /// Writes that wait for the next renewal.
    held: Vec<(Addr, Vec<u8>)>,
    /// For each node, writes that were not awaited, and how many of them are flushed.
    unsignaled: Vec<(u64, u64)>,
    counts: Counts,
}

impl Ucx {
    /// Connects to nodes by their [connect info](crate::UcxNode::connect_info). The nodes are
    /// numbered in this order, which must be the same for all clients. Takes a free row; if there is none, waits
    /// for a lease, and evicts a client that was silent meanwhile.
    ///
    /// `deadline` limits how long a node may take to answer, now and later; at most a quarter of the lease.
    ///
    /// The bytes must come from nodes. The caller of [`Trusted::new`] vouches for that.
    ///
    /// # Errors
    /// [`Region`](ErrorKind::Region) when the bytes are damaged, of another version of this crate or of UCX, or
    /// not of the node that answers; [`Options`](ErrorKind::Options) when there are no nodes, or too
    /// many; [`NodeLost`](ErrorKind::NodeLost); [`Io`](ErrorKind::Io) with UCX's message, or
    /// [busy](no_row) when no row is free.
    pub fn connect<T, B>(infos: &Trusted<T>, deadline: Duration) -> Result<Self>
    where
        T: AsRef<[B]>,
        B: AsRef<[u8]>,
    {
        let infos = infos.get().as_ref();
        check_count(infos.len())?;
        let version = sys::version();
        let infos: Vec<ConnectInfo> = infos
            .iter()
            .map(|info| ConnectInfo::from_bytes(info.as_ref(), version))
            .collect::<Result<_>>()?;
        Self::reach(&infos, Vec::new(), deadline)
    }

    /// Connects to the nodes that listen at these addresses with an [offer](crate::UcxNode::offer), as
    /// [`attach`](Self::attach) does. The caller of [`Trusted::new`] vouches for the listeners.
    ///
    /// # Errors
    /// As [`Offers::gather`] and [`attach`](Self::attach).
    pub fn find<T, A>(
        addresses: &Trusted<T>,
        token: Option<&Token>,
        limits: &Limits,
        deadline: Duration,
    ) -> Result<Self>
    where
        T: AsRef<[A]>,
        A: AsRef<str>,
    {
        let offers = Offers::gather(addresses.get().as_ref(), token, limits)?;
        Self::reach_offers(offers, deadline)
    }

    /// Connects to nodes that have admitted this client, as [`connect`](Self::connect) does. The client keeps their
    /// control connections: if one ends, that node is lost at once.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); [`Options`](ErrorKind::Options) when the offers are of another
    /// fabric.
    pub fn attach(offers: Trusted<Offers>, deadline: Duration) -> Result<Self> {
        Self::reach_offers(offers.into_inner(), deadline)
    }

    fn reach_offers(offers: Offers, deadline: Duration) -> Result<Self> {
        if offers.fabric() != FABRIC {
            let what = "the nodes lend their memory over another fabric than UCX";
            return Err(ErrorKind::Options { what }.into());
        }
        let version = sys::version();
        let (links, offers) = offers.into_parts();
        let infos: Vec<ConnectInfo> = offers
            .iter()
            .map(|offer| ConnectInfo::from_bytes(&offer.place, version))
            .collect::<Result<_>>()?;
        Self::reach(&infos, links, deadline)
    }

    /// Returns `Ok` if no node is known to be lost.
    ///
    /// # Errors
    /// [`NodeLost`](ErrorKind::NodeLost) with the first lost node.
    pub fn nodes_stand(&self) -> Result<()> {
        self.0.link.nodes_stand()
    }

    /// The number of clients now, including dead ones that are not evicted yet.
    ///
    /// # Errors
    /// Those of the fabric.
    pub fn clients(&self) -> Result<u32> {
        let endpoint = &*self.0;
        block_on(async {
            endpoint.admit().await?;
            let words = endpoint.link.read_own(0, lease_off(0), 8 * endpoint.rows as usize).await?;
            Ok(words.iter().filter(|word| Lease(**word).state() != State::Free).count() as u32)
        })
    }

    fn reach(
        infos: &[ConnectInfo],
        mut links: Vec<node::Link>,
        deadline: Duration,
    ) -> Result<Self> {
        let link = Arc::new(Link::new(infos, deadline)?);
        for (node, connection) in links.iter_mut().enumerate() {
            let ended = link.ended();
            connection.watch(move || ended[node].store(true, Ordering::Release))?;
        }
        let (rows, lease_ns) = (infos[0].rows, infos[0].lease_ns);
        let start = Instant::now();
        let (row, word) = block_on(async {
            for (info, node) in infos.iter().zip(0..) {
                let found = link.read_own(node, ID_OFF as u64, 8).await?[0];
                if found != info.id {
                    let (what, expected) = ("the id of the region", info.id);
                    return Err(Error::from(ErrorKind::Region { what, found, expected }));
                }
            }
            take_row(&link, rows, lease_ns).await
        })?;
        let own = Own {
            lease: word,
            beat_ns: 0,
            evicted: false,
            held: Vec::new(),
            unsignaled: vec![(0, 0); infos.len()],
            counts: Counts::default(),
        };
        let tender = Some(tend(Arc::clone(&link), lease_ns)?);
        let region_bytes = infos.iter().map(|info| info.region_bytes).collect();
        let state = Mutex::new(own);
        Ok(Ucx(Arc::new(Endpoint {
            link,
            tender,
            _links: links,
            region_bytes,
            rows,
            lease_ns,
            start,
            row,
            state,
        })))
    }
}

/// A node's number has 8 bits, and one number is reserved.
fn check_count(nodes: usize) -> Result<()> {
    if (1..=255).contains(&nodes) {
        return Ok(());
    }
    Err(ErrorKind::Options { what: "a fabric has 1 to 255 nodes" }.into())
}

/// A thread that progresses verbs that are not awaited, before they expire.
fn tend(link: Arc<Link>, lease_ns: u64) -> Result<(Sender<()>, JoinHandle<()>)> {
    let (go_on, told) = mpsc::channel();
    let often = Duration::from_nanos(lease_ns / 16);
    let tend = move || {
        while told.recv_timeout(often) == Err(RecvTimeoutError::Timeout) {
            link.tend();
        }
    };
    let thread = thread::Builder::new().name("durahash-ucx".into()).spawn(tend);
    Ok((go_on, thread.map_err(|e| Error::io("starting a thread", None, e))?))
}

/// Swaps the lease word of a row, and returns the previous one.
async fn swap_lease(link: &Link, row: u32, old: Lease, new: Lease) -> Result<Lease> {
    let mut batch = Batch::new();
    batch.compare_swap(Addr::new(0, lease_off(row)), old.0, new.0);
    let (verbs, out, back) = batch.into_parts();
    let bytes = link.carry(Load { verbs: &verbs, out: &out, back, own: true }).await?;
    Ok(Lease(u64::from_le_bytes(*bytes.first_chunk().expect("a word comes back"))))
}

/// Takes the first free row, or one whose client is silent for a lease.
async fn take_row(link: &Link, rows: u32, lease_ns: u64) -> Result<(u32, Lease)> {
    let mut silence = Silence::default();
    loop {
        let words = link.read_own(0, lease_off(0), 8 * rows as usize).await?;
        for (row, &word) in (0..).zip(&words) {
            let word = Lease(word);
            if word.state() == State::Free
                && swap_lease(link, row, word, word.taken()).await? == word
            {
                return Ok((row, word.taken()));
            }
        }
        match silence.look(words) {
            Look::Wait => sleep_until(Instant::now() + Duration::from_nanos(lease_ns)).await,
            Look::Silent(row) => evict(link, row, lease_ns).await?,
            Look::Life => {
                return Err(no_row(rows));
            }
        }
    }
}

/// Frees a row, by the steps of `leases.rs`.
async fn evict(link: &Link, row: u32, lease_ns: u64) -> Result<()> {
    loop {
        let word = Lease(link.read_own(0, lease_off(row), 8).await?[0]);
        match word.state() {
            State::Free => return Ok(()),
            State::Live => {
                swap_lease(link, row, word, word.with(State::Evicting)).await?;
            }
            State::Evicting => {
                sleep_until(Instant::now() + Duration::from_nanos(lease_ns / 2)).await;
                // If that fails another client has done it, and the row may have a new client.
                swap_lease(link, row, word, word.with(State::Free)).await?;
                return Ok(());
            }
        }
    }
}

impl Endpoint {
    fn own(&self) -> MutexGuard<'_, Own> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn check(&self, batch: &Batch) -> Result<()> {
        batch.check(|node| self.region_bytes.get(usize::from(node)).copied())
    }

    fn is_late(&self, own: &Own) -> bool {
        self.now_ns() - own.beat_ns >= self.lease_ns / 4
    }

    /// Makes sure that this client's lease was renewed a short time ago, and posts the writes that waited for that.
    ///
    /// A renewal comes too late only if node 0 took longer than the deadline.
    async fn admit(&self) -> Result<()> {
        self.link.watch().await?;
        for _ in 0..=BEATS {
            let lease = {
                let mut own = self.own();
                if own.evicted {
                    return Err(ErrorKind::Evicted.into());
                }
                if !self.is_late(&own) {
                    for (addr, bytes) in std::mem::take(&mut own.held) {
                        self.send(addr, &bytes);
                    }
                    return Ok(());
                }
                own.lease
            };
            let posted_ns = self.now_ns();
            let found = swap_lease(&self.link, self.row, lease, lease.beaten()).await?;
            let mut own = self.own();
            if found == lease {
                own.lease = lease.beaten();
            } else if found.lives_as(lease) {
                // Another coroutine of this client was first.
                own.lease = found;
            } else {
                own.evicted = true;
                continue;
            }
            own.beat_ns = own.beat_ns.max(posted_ns);
        }
        Err(self.link.lose(0))
    }

    /// Sends a write that is not awaited. A failure of any kind loses the node, and so fails the flush.
    fn send(&self, addr: Addr, bytes: &[u8]) {
        let mut batch = Batch::new();
        batch.write(addr, bytes);
        let (verbs, out, back) = batch.into_parts();
        if self.link.send(&Load { verbs: &verbs, out: &out, back, own: false }).is_err() {
            self.link.lose(addr.node());
        }
    }

    async fn leave(&self) -> Result<()> {
        for node in 0..self.region_bytes.len() {
            self.link.flush(node as u8).await?;
        }
        let lease = self.own().lease;
        let found = swap_lease(&self.link, self.row, lease, lease.with(State::Free)).await?;
        // A renewal whose future was dropped.
        if found != lease && found.lives_as(lease) {
            swap_lease(&self.link, self.row, found, found.with(State::Free)).await?;
        }
        Ok(())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if !self.own().evicted {
            // The other clients evict one that could not free its row.
            drop(block_on(self.leave()));
        }
        if let Some((go_on, thread)) = self.tender.take() {
            drop(go_on);
            // A panic there was printed.
            drop(thread.join());
        }
    }
}

impl Fabric for Ucx {
    async fn post(&self, batch: Batch) -> Result<Done> {
        let endpoint = &*self.0;
        endpoint.check(&batch)?;
        if batch.is_empty() {
            return Ok(Done::default());
        }
        endpoint.admit().await?;
        batch.count(&mut endpoint.own().counts);
        let (verbs, out, back) = batch.into_parts();
        let back = endpoint.link.carry(Load { verbs: &verbs, out: &out, back, own: false }).await?;
        Ok(Done::new(verbs, back))
    }

    fn write_unsignaled(&self, addr: Addr, bytes: &[u8]) -> Result<()> {
        let endpoint = &*self.0;
        let mut batch = Batch::new();
        batch.write(addr, bytes);
        endpoint.check(&batch)?;
        let mut own = endpoint.own();
        own.counts.write_unsignaled(bytes);
        own.unsignaled[usize::from(addr.node())].0 += 1;
        if own.evicted {
            // The flush reports it.
        } else if endpoint.is_late(&own) {
            own.held.push((addr, bytes.to_vec()));
        } else {
            endpoint.send(addr, bytes);
        }
        Ok(())
    }

    async fn flush(&self, node: u8) -> Result<()> {
        let endpoint = &*self.0;
        if usize::from(node) >= endpoint.region_bytes.len() {
            let (off, bytes, region_bytes) = (0, 0, 0);
            return Err(ErrorKind::OutOfRegion { node, off, bytes, region_bytes }.into());
        }
        let (posted, flushed) = endpoint.own().unsignaled[usize::from(node)];
        if posted == flushed {
            return Ok(());
        }
        endpoint.admit().await?;
        endpoint.own().counts.round_trips += 1;
        endpoint.link.flush(node).await?;
        let flushed = &mut endpoint.own().unsignaled[usize::from(node)].1;
        *flushed = posted.max(*flushed);
        Ok(())
    }

    fn nodes(&self) -> u8 {
        self.0.region_bytes.len() as u8
    }

    fn node_bytes(&self, node: u8) -> u64 {
        self.0.region_bytes[usize::from(node)]
    }

    fn now_ns(&self) -> u64 {
        self.0.now_ns()
    }

    async fn sleep_ns(&self, ns: u64) {
        sleep_until(Instant::now() + Duration::from_nanos(ns)).await;
    }

    fn counts(&self) -> Counts {
        self.0.own().counts
    }

    fn row(&self) -> u32 {
        self.0.row
    }

    fn max_clients(&self) -> u32 {
        self.0.rows
    }

    fn lease_ns(&self) -> Option<u64> {
        Some(self.0.lease_ns)
    }

    async fn evict(&self, row: u32) -> Result<bool> {
        let endpoint = &*self.0;
        endpoint.admit().await?;
        endpoint.own().counts.round_trips += 1;
        if row < endpoint.rows {
            evict(&endpoint.link, row, endpoint.lease_ns).await?;
        }
        Ok(true)
    }
}
