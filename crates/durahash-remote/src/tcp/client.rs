//! The client, which posts verbs.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use durahash_media::{Error, ErrorKind, Result, process};

use super::frames::{self, BAR, DONE, FABRIC, FULL, LEAVE, NO_ROW, OTHER, ROW, ROWS};
use super::ops::Lost;
use super::pool::{Pool, State};
use crate::executor::{block_on, sleep_until};
use crate::fabric::{Addr, Batch, Counts, Done, Fabric, Kind, Verb, no_row};
use crate::node::{Limits, Offers, Token};
use crate::wire::Channel;

/// A client of nodes over TCP. Clones are the same client, for any thread.
///
/// Verbs progress while a future of this client is polled by an [executor](crate::executor) of this crate. Elsewhere its
/// futures block their thread. What the coroutines of an executor post together crosses the network together. A write that
/// is not awaited crosses with what is awaited of its node next, or a moment later, with a ping at the latest.
///
/// **Deadline.** A node that has not answered for [`Limits::silence`], or whose connection has ended, is lost to this
/// client for good, and all other nodes with it: the client gives up its connections, so that others can evict it.
/// Later verbs to any node fail with the [`NodeLost`](ErrorKind::NodeLost) of the first. When the nodes are back,
/// [`again`](Fabric::again) is another client, which maps with a thread of their own turn to by themselves.
///
/// **Death.** A client is dead when its connection to node 0 has ended, which the system does at once when its process
/// dies; node 0 does it when nothing has come for [`Limits::idle`]. A thread pings all nodes each [`Limits::ask`], so a
/// client lives that posts nothing, until its process is stopped. An eviction ends the client's connections to all nodes
/// before it returns: what arrives later is not read. A client that was evicted is told so.
///
/// When its last clone is dropped the client leaves: it waits until its verbs have taken effect, as long as nodes answer
/// within [`Limits::silence`], and gives up its row.
#[derive(Clone)]
pub struct Tcp(Arc<Endpoint>);

struct Endpoint {
    pool: Arc<Pool>,
    /// Ends when the sender is dropped.
    watch: Option<(Sender<()>, JoinHandle<()>)>,
    way: Way,
    region_bytes: Vec<u64>,
    max_clients: u32,
    row: u32,
    start: Instant,
    own: Mutex<Own>,
}

/// How this client has come to its nodes.
struct Way {
    addresses: Vec<String>,
    token: Option<Token>,
    limits: Limits,
    /// The ids of their memory.
    ids: Vec<u64>,
}

struct Own {
    counts: Counts,
    /// For each node, writes that were not awaited, and how many of them are flushed.
    unsignaled: Vec<(u64, u64)>,
}

/// Refuses offers of another fabric.
pub(super) fn check_fabric(offers: &Offers) -> Result<()> {
    if offers.fabric() == FABRIC {
        return Ok(());
    }
    let what = "the nodes lend their memory over another fabric than TCP";
    Err(ErrorKind::Options { what }.into())
}

impl Tcp {
    /// Joins the nodes that have admitted this client, and takes a row at the first.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) when the offers are of another fabric, other clients name the nodes in another
    /// order, or a node lets fewer clients in than the first;
    /// [`Unreachable`](ErrorKind::Unreachable) when a node does not answer; [`Io`](ErrorKind::Io),
    /// [busy](no_row), when no row is free, or when no thread can be started.
    pub fn attach(offers: Offers) -> Result<Self> {
        check_fabric(&offers)?;
        let (links, offers) = offers.into_parts();
        if offers.iter().any(|offer| offer.max_clients < offers[0].max_clients) {
            let what = "a node lets fewer clients in than the first one";
            return Err(ErrorKind::Options { what }.into());
        }
        let ids: Vec<_> = offers.iter().map(|offer| offer.id).collect();
        let mut way = Way { addresses: Vec::new(), token: None, limits: Limits::default(), ids };
        let (mut place, mut channels, zero) = ((NO_ROW, 0), Vec::new(), way.ids[0]);
        for link in links {
            let address = link.address().to_owned();
            way.addresses.push(address.clone());
            way.token = link.token().cloned();
            let (mut channel, limits) = link.into_channel();
            let until = Instant::now() + limits.handshake;
            let joined = join(&mut channel, place, zero, until);
            place = match joined.map_err(|source| ErrorKind::Unreachable { address, source })? {
                Joined::At(place) => place,
                Joined::Full => return Err(no_row(offers[0].max_clients)),
                Joined::Other => {
                    let what = "a node has clients that name another node first: all clients name \
                                the nodes in the same order";
                    return Err(ErrorKind::Options { what }.into());
                }
            };
            way.limits = limits;
            channels.push(channel);
        }
        // A hundredth of the time after which it would ping.
        let pool = Arc::new(Pool::new(channels, way.limits.ask / 100));
        let own = Own { counts: Counts::default(), unsignaled: vec![(0, 0); offers.len()] };
        Ok(Tcp(Arc::new(Endpoint {
            watch: Some(watch(Arc::clone(&pool), &way.limits)?),
            pool,
            way,
            region_bytes: offers.iter().map(|offer| offer.bytes).collect(),
            max_clients: offers[0].max_clients,
            row: place.0,
            start: Instant::now(),
            own: Mutex::new(own),
        })))
    }

    /// Returns `Ok` if no node is known to be lost.
    ///
    /// # Errors
    /// [`NodeLost`](ErrorKind::NodeLost) with the first lost node, or [`Evicted`](ErrorKind::Evicted).
    pub fn nodes_stand(&self) -> Result<()> {
        self.0.pool.state().conns.iter().try_for_each(|conn| conn.stands())
    }

    #[cfg(test)]
    pub(super) fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// The number of clients now.
    ///
    /// # Errors
    /// Those of the fabric.
    pub fn clients(&self) -> Result<u32> {
        let counted = block_on(self.0.ask(&[0], &frames::plain(ROWS, 0, 0), 4))?;
        Ok(u32::from_le_bytes(*counted.first_chunk().expect("four bytes come back")))
    }
}

/// The answer of a node to a join.
enum Joined {
    /// The row, and its incarnation.
    At((u32, u64)),
    Full,
    Other,
}

/// Asks a node for a row, or shows it that of node 0, whose memory has the id `zero`.
fn join(
    channel: &mut Channel,
    (row, incarnation): (u32, u64),
    zero: u64,
    until: Instant,
) -> std::io::Result<Joined> {
    let mut answer = Vec::new();
    channel.send(&frames::join(row, incarnation, zero), until)?;
    channel.receive(&mut answer, until)?;
    let Some((&DONE, place)) = answer.split_first() else {
        return match answer.first() {
            Some(&FULL) => Ok(Joined::Full),
            Some(&OTHER) => Ok(Joined::Other),
            _ => Err(std::io::ErrorKind::ConnectionAborted.into()),
        };
    };
    let place = place.split_first_chunk().and_then(|(row, incarnation)| {
        let incarnation = u64::from_le_bytes(incarnation.try_into().ok()?);
        Some((u32::from_le_bytes(*row), incarnation))
    });
    place.map(Joined::At).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

/// A thread that gives up nodes that do not answer, and shows the others that this client lives.
fn watch(pool: Arc<Pool>, limits: &Limits) -> Result<(Sender<()>, JoinHandle<()>)> {
    let (go_on, told) = channel();
    let (often, silence) = (limits.ask, limits.silence);
    let watch = move || {
        while told.recv_timeout(often) == Err(RecvTimeoutError::Timeout) {
            pool.look(silence);
        }
    };
    let thread = process::spawn("durahash-tcp", watch);
    Ok((go_on, thread.map_err(|e| Error::io("starting a thread", None, e))?))
}

impl Endpoint {
    fn own(&self) -> MutexGuard<'_, Own> {
        // Nothing panics while it is held.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of a node's region.
    fn region(&self) -> impl Fn(u8) -> Option<u64> {
        |node| self.region_bytes.get(usize::from(node)).copied()
    }

    /// Sends a request to these nodes, and returns what comes back of the last.
    async fn ask(&self, nodes: &[u8], request: &[u8], back: usize) -> Result<Vec<u8>> {
        let op = {
            let State { conns, ops, .. } = &mut *self.pool.state();
            nodes.iter().try_for_each(|node| conns[usize::from(*node)].stands())?;
            let op = ops.add(back);
            for node in nodes {
                conns[usize::from(*node)].ask(ops, Some(op), request, back);
            }
            op
        };
        self.pool.land(op).await
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        {
            let State { conns, ops, leaves, .. } = &mut *self.pool.state();
            *leaves = true;
            for conn in conns.iter_mut().filter(|conn| !conn.is_lost()) {
                conn.ask(ops, None, &frames::plain(LEAVE, 0, 0), 0);
            }
        }
        self.pool.drain(self.way.limits.silence);
        let State { conns, ops, .. } = &mut *self.pool.state();
        (0..).zip(conns).for_each(|(node, conn)| conn.lose((Lost::Gone, node), ops));
        if let Some((go_on, thread)) = self.watch.take() {
            drop(go_on);
            // A panic there was printed.
            drop(thread.join());
        }
    }
}

impl Fabric for Tcp {
    async fn post(&self, batch: Batch) -> Result<Done> {
        batch.check(self.0.region())?;
        if batch.is_empty() {
            return Ok(Done::default());
        }
        let (op, verbs) = {
            let State { conns, ops, .. } = &mut *self.0.pool.state();
            for verb in batch.verbs() {
                conns[usize::from(verb.addr.node())].stands()?;
            }
            batch.count(&mut self.0.own().counts);
            let (verbs, out, back) = batch.into_parts();
            let op = ops.add(back);
            for verb in &verbs {
                conns[usize::from(verb.addr.node())].post(ops, Some(op), verb, &out);
            }
            (op, verbs)
        };
        Ok(Done::new(verbs, self.0.pool.land(op).await?))
    }

    fn write_unsignaled(&self, addr: Addr, bytes: &[u8]) -> Result<()> {
        let verb = Verb { addr, kind: Kind::Write, start: 0, len: bytes.len() as u32 };
        verb.check(&self.0.region())?;
        let node = usize::from(addr.node());
        let State { conns, ops, .. } = &mut *self.0.pool.state();
        let mut own = self.0.own();
        own.unsignaled[node].0 += 1;
        // The next flush reports a lost node.
        if !conns[node].is_lost() {
            own.counts.write_unsignaled(bytes);
            conns[node].post(ops, None, &verb, bytes);
        }
        Ok(())
    }

    async fn flush(&self, node: u8) -> Result<()> {
        Batch::of(|batch| batch.read(Addr::new(node, 0), 0)).check(self.0.region())?;
        let place = usize::from(node);
        let (op, posted) = {
            let State { conns, ops, .. } = &mut *self.0.pool.state();
            let mut own = self.0.own();
            let (posted, flushed) = own.unsignaled[place];
            if flushed == posted {
                return Ok(());
            }
            conns[place].stands()?;
            own.counts.round_trips += 1;
            let op = ops.add(0);
            conns[place].flush(ops, op);
            (op, posted)
        };
        self.0.pool.land(op).await?;
        let mut own = self.0.own();
        own.unsignaled[place].1 = own.unsignaled[place].1.max(posted);
        Ok(())
    }

    fn nodes(&self) -> u8 {
        self.0.region_bytes.len() as u8
    }

    fn node_bytes(&self, node: u8) -> u64 {
        self.0.region_bytes[usize::from(node)]
    }

    fn now_ns(&self) -> u64 {
        self.0.start.elapsed().as_nanos() as u64
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
        self.0.max_clients
    }

    fn lease_ns(&self) -> Option<u64> {
        None
    }

    /// The node runs what a connection brings in its order.
    fn orders_swaps(&self) -> bool {
        true
    }

    fn again(&self) -> Option<Result<Self>> {
        let lost = self.nodes_stand().err()?;
        if !matches!(lost.kind(), ErrorKind::NodeLost { .. }) {
            return None;
        }
        let Way { addresses, token, limits, ids } = &self.0.way;
        let gather = || {
            let offers = Offers::gather(addresses, token.as_ref(), limits)?;
            // Other memory at the same address is not what was lost.
            if !offers.ids().eq(ids.iter().copied()) {
                return Err(lost);
            }
            Tcp::attach(offers)
        };
        Some(gather())
    }

    async fn evict(&self, row: u32) -> Result<bool> {
        self.0.own().counts.round_trips += 1;
        // No row has a client that node 0 has lost.
        let free = self.0.ask(&[0], &frames::plain(ROW, row, 0), 8).await?;
        let bar = u64::from_le_bytes(*free.first_chunk().expect("eight bytes come back"));
        if bar == 0 {
            return Ok(false);
        }
        let others: Vec<u8> = (1..self.nodes()).collect();
        if !others.is_empty() {
            self.0.ask(&others, &frames::plain(BAR, row, bar), 0).await?;
        }
        Ok(true)
    }
}
