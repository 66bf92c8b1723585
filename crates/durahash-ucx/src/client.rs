//! The side that posts verbs.

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

/// So often a client tries to show life in time.
const BEATS: u32 = 3;

/// A client of nodes that are reached over UCX. Clones are the same client; several threads may use it, one
/// at a time progresses.
///
/// Verbs go on while a future of this client is polled. A future looks again and again for 200 µs, and ever more
/// seldom afterwards, at least every millisecond. A thread of the client lets those go on that nobody
/// waits for, every sixteenth of the lease.
///
/// **Deadline.** A node that has not answered within the deadline, or whose connection has failed, is lost
/// to this client for good: everything that it posts there fails as [`NodeLost`](ErrorKind::NodeLost),
/// and nothing more is sent. Connect anew. The deadline is a quarter of the lease at most; a longer one is cut
/// to that. Over shared memory, verbs take effect in what is left of a node that has ended, so there a client
/// looks every quarter of the deadline whether the node lives: a round trip that is not counted. Other nodes
/// are not lost with it.
///
/// **Leases.** The row of a client is a word in the memory of node 0. It is beaten before a verb is
/// posted when the last beat was posted more than a quarter of the lease ago: a round trip that is not
/// counted. UCX cannot shut a client out at a node, so an eviction marks the row and waits for half a
/// lease: it relies on a verb to take effect within a quarter of the lease after it was posted, or never.
///
/// UCX may hold a verb back until the client lets it go on. So before it does, a client that was held up closes
/// the connection to every node to which a verb has been under way for longer, which is lost then: a
/// process that is stopped with verbs under way loses nodes. What that does not reach:
///
/// - a client that is held up between the look at its row, or at the clock, and the verb itself;
/// - a client's machine that is suspended, and its clock with it;
/// - bytes that the system or the NIC has taken already, for a node that is held up itself and takes them later;
/// - shared memory, where a connection cannot be closed so; there, writes do not wait.
///
/// A lease must be long beside all that.
///
/// With the last clone the client leaves: it waits until what it posted has taken effect, for no longer than
/// the deadline, and gives its row back.
#[derive(Clone)]
pub struct Ucx(Arc<Endpoint>);

struct Endpoint {
    link: Arc<Link>,
    /// Ends when it is no longer told to go on.
    tender: Option<(Sender<()>, JoinHandle<()>)>,
    /// By which the end of nodes is noticed.
    _links: Vec<node::Link>,
    region_bytes: Vec<u64>,
    rows: u32,
    lease_ns: u64,
    start: Instant,
    row: u32,
    state: Mutex<Own>,
}

/// What changes.
struct Own {
    /// The lease word of this client's row.
    lease: Lease,
    /// When the last beat that arrived was posted.
    beat_ns: u64,
    evicted: bool,
    /// Writes that wait for the next beat.
    held: Vec<(Addr, Vec<u8>)>,
    /// Of each node: writes that were not awaited, and how many of them were flushed.
    unsignaled: Vec<(u64, u64)>,
    counts: Counts,
}

impl Ucx {
    /// Connects to nodes, by what [`UcxNode::connect_info`](crate::UcxNode::connect_info) of each of them gave: they are
    /// numbered in this order, which must be the same for all clients. Takes a free row; if there is none, waits
    /// for a lease to find a client that shows no life, which it evicts.
    ///
    /// `deadline` is how long a node may take to answer, now and ever after, but at most a quarter of the lease.
    ///
    /// The bytes must be those that a node has made, which whoever calls [`Trusted::new`] answers for.
    ///
    /// # Errors
    /// [`Region`](ErrorKind::Region) when the bytes are damaged, of another version of this crate or of UCX, or
    /// not of the node that answers; [`Options`](ErrorKind::Options) when there are no nodes, or too
    /// many; [`NodeLost`](ErrorKind::NodeLost); [`Io`](ErrorKind::Io) with what UCX says, or
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

    /// Connects to the nodes that listen at these addresses and make an [offer](crate::UcxNode::offer), as
    /// [`attach`](Self::attach) does. Whoever calls [`Trusted::new`] answers for who listens there.
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

    /// Connects to nodes that have let this client in, as [`connect`](Self::connect) does. The connections by
    /// which they did are held as long as this client: where one ends, that node is lost at once.
    ///
    /// # Errors
    /// As [`connect`](Self::connect); [`Options`](ErrorKind::Options) when their memory is on another
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

    /// Whether no node is known to be lost.
    ///
    /// # Errors
    /// [`NodeLost`](ErrorKind::NodeLost) with the first that is.
    pub fn nodes_stand(&self) -> Result<()> {
        self.0.link.nodes_stand()
    }

    /// How many clients have a row now, those that died among them until they are evicted.
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

/// Nodes have numbers of 8 bits, and one of them is left.
fn check_count(nodes: usize) -> Result<()> {
    if (1..=255).contains(&nodes) {
        return Ok(());
    }
    Err(ErrorKind::Options { what: "a fabric has 1 to 255 nodes" }.into())
}

/// A thread by which what nobody waits for does not expire.
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

/// Swaps the word of a row; what it was.
async fn swap_lease(link: &Link, row: u32, old: Lease, new: Lease) -> Result<Lease> {
    let mut batch = Batch::new();
    batch.compare_swap(Addr::new(0, lease_off(row)), old.0, new.0);
    let (verbs, out, back) = batch.into_parts();
    let bytes = link.carry(Load { verbs: &verbs, out: &out, back, own: true }).await?;
    Ok(Lease(u64::from_le_bytes(*bytes.first_chunk().expect("a word comes back"))))
}

/// Takes the first free row, or one whose client shows no life for a lease.
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
                // If that fails another has done it, and the row may have a new client.
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

    /// Makes sure that the row was this client's a short time ago, and posts what waited for that.
    ///
    /// Each beat that comes too late has taken node 0 longer than the deadline.
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

    /// Sends a write that nobody waits for. Where that fails, for whichever reason, the node is lost, by which
    /// the flush fails.
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
        // A beat whose future was dropped.
        if found != lease && found.lives_as(lease) {
            swap_lease(&self.link, self.row, found, found.with(State::Free)).await?;
        }
        Ok(())
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if !self.own().evicted {
            // A client that cannot say that it left is evicted by the others.
            drop(block_on(self.leave()));
        }
        if let Some((go_on, thread)) = self.tender.take() {
            drop(go_on);
            // A panic there has shown itself.
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
        own.counts = own.counts
            + Counts { unsignaled: 1, bytes_out: bytes.len() as u64, ..Counts::default() };
        own.unsignaled[usize::from(addr.node())].0 += 1;
        if own.evicted {
            // The flush says so.
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
        let one = Counts { round_trips: 1, ..Counts::default() };
        {
            let mut own = endpoint.own();
            own.counts = own.counts + one;
        }
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

    fn rows(&self) -> u32 {
        self.0.rows
    }

    fn lease_ns(&self) -> Option<u64> {
        Some(self.0.lease_ns)
    }

    async fn evict(&self, row: u32) -> Result<bool> {
        let endpoint = &*self.0;
        endpoint.admit().await?;
        let one = Counts { round_trips: 1, ..Counts::default() };
        {
            let mut own = endpoint.own();
            own.counts = own.counts + one;
        }
        if row < endpoint.rows {
            evict(&endpoint.link, row, endpoint.lease_ns).await?;
        }
        Ok(true)
    }
}
