//! Which client has which row, at a node.
//!
//! Node 0 gives rows out, each time with a larger incarnation. A client shows both to the other nodes. A node ends the
//! connection of a row's client before it takes one of a later incarnation, and takes none of an earlier one than it has
//! seen, or was told to bar. So when a row has its next client, or was barred, nothing of the previous one takes effect.
//!
//! Rows and incarnations mean something together with the node 0 that gave them, which the id of its memory names. All
//! clients of a node have the same node 0; what it has seen and barred counts until a client with another one joins.

use std::io;
use std::net::{IpAddr, Ipv6Addr, Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::frames::{WHO_BYTES, WHO_ROWS};
use super::work::Work;

/// The rows of a node.
pub(super) struct Rows {
    state: Mutex<State>,
    /// A row has lost its client.
    left: Condvar,
}

struct State {
    rows: Vec<Row>,
    /// The id of the memory of node 0, for the clients there are and the incarnations of the rows.
    zero: u64,
    /// The latest incarnation given.
    given: u64,
    /// What was done for clients that are gone.
    done: [u64; Work::COUNTS],
}

#[derive(Default)]
struct Row {
    /// The earliest incarnation that is taken, at another node than node 0.
    from: u64,
    client: Option<Client>,
}

struct Client {
    incarnation: u64,
    connection: Arc<Connection>,
}

/// A connection, as those see it who may end its client.
pub(super) struct Connection {
    stream: Option<Arc<TcpStream>>,
    ended: AtomicBool,
    /// Its thread waits until the client takes an answer.
    waits: AtomicBool,
    start: Instant,
    /// Nanoseconds from then until its thread last began to wait for a request.
    heard_ns: AtomicU64,
    pub(super) work: Work,
}

/// Why a connection gets no row.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoSeat {
    /// All rows have clients.
    Full,
    /// There are clients with another node 0.
    Other,
    /// The client is evicted, or there is no such row.
    Evicted,
}

/// A row that a connection has until this is dropped.
pub(super) struct Seat {
    rows: Arc<Rows>,
    pub(super) row: u32,
    pub(super) incarnation: u64,
}

impl Connection {
    pub(super) fn new(stream: Option<Arc<TcpStream>>) -> Arc<Self> {
        let (ended, waits) = (AtomicBool::new(false), AtomicBool::new(false));
        let (start, heard_ns, work) = (Instant::now(), AtomicU64::new(0), Work::default());
        Arc::new(Connection { stream, ended, waits, start, heard_ns, work })
    }

    /// Its thread begins to wait for a request, and has answered all before.
    pub(super) fn waits_from(&self, now: Instant) {
        let ns = now.saturating_duration_since(self.start).as_nanos() as u64;
        self.heard_ns.store(ns, Ordering::Relaxed);
    }

    /// Milliseconds since it was last heard of.
    fn silent_ms(&self) -> u64 {
        let ns = self.start.elapsed().as_nanos() as u64;
        ns.saturating_sub(self.heard_ns.load(Ordering::Relaxed)) / 1_000_000
    }

    fn address(&self) -> SocketAddr {
        let address = self.stream.as_ref().and_then(|stream| stream.peer_addr().ok());
        address.unwrap_or((Ipv6Addr::UNSPECIFIED, 0).into())
    }

    /// Returns whether its client is evicted: nothing more of it may take effect.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }

    /// Runs `f`, which may wait for the client, unless that is evicted: then, or as soon as it is, `f` fails.
    pub(super) fn while_it_waits<T>(&self, f: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        self.waits.store(true, Ordering::SeqCst);
        if self.has_ended() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let done = f();
        self.waits.store(false, Ordering::SeqCst);
        done
    }

    /// Its thread then ends as soon as it has done the request that it is at.
    fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        let waits = self.waits.load(Ordering::SeqCst);
        // The client is told if its thread can. It may be closed already.
        let how = if waits { Shutdown::Both } else { Shutdown::Read };
        drop(self.stream.as_ref().map(|stream| stream.shutdown(how)));
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        {
            let mut state = self.rows.state();
            if let Some(client) = state.rows[self.row as usize].client.take() {
                client.connection.work.add_to(&mut state.done);
            }
        }
        self.rows.left.notify_all();
    }
}

impl State {
    /// An incarnation later than all that this node has given.
    fn next(&mut self) -> u64 {
        self.given += 1;
        self.given
    }

    /// The number of rows with clients.
    fn taken(&self) -> usize {
        self.rows.iter().filter(|row| row.client.is_some()).count()
    }

    /// Makes sure that all clients have the node 0 whose memory has this id.
    fn agree(&mut self, zero: u64) -> Result<(), NoSeat> {
        if self.zero != zero {
            if self.taken() > 0 {
                return Err(NoSeat::Other);
            }
            self.zero = zero;
            self.rows.iter_mut().for_each(|row| row.from = 0);
        }
        Ok(())
    }
}

impl Rows {
    /// Rows of a node whose memory had incarnations up to `given`, before the node was started anew.
    pub(super) fn new(count: u32, given: u64) -> Self {
        let rows = (0..count).map(|_| Row::default()).collect();
        let state = State { rows, zero: 0, given, done: [0; Work::COUNTS] };
        Rows { state: Mutex::new(state), left: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> u32 {
        self.state().rows.len() as u32
    }

    /// The number of rows with clients.
    pub(super) fn taken(&self) -> u32 {
        self.state().taken() as u32
    }

    /// Appends who has the rows from `first` on, as an answer tells it.
    pub(super) fn who(&self, first: u32, to: &mut Vec<u8>) {
        let state = self.state();
        for row in 0..WHO_ROWS {
            let row = state.rows.get((first as usize).saturating_add(row as usize));
            let Some(client) = row.and_then(|row| row.client.as_ref()) else {
                to.resize(to.len() + WHO_BYTES, 0);
                continue;
            };
            let address = client.connection.address();
            let ip = match address.ip() {
                IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                IpAddr::V6(ip) => ip,
            };
            to.extend(client.incarnation.to_le_bytes());
            to.extend(client.connection.silent_ms().to_le_bytes());
            to.extend(ip.octets());
            to.extend(address.port().to_le_bytes());
        }
    }

    /// What was done for all clients.
    pub(super) fn done(&self) -> [u64; Work::COUNTS] {
        let state = self.state();
        let mut done = state.done;
        let clients = state.rows.iter().filter_map(|row| row.client.as_ref());
        clients.for_each(|client| client.connection.work.add_to(&mut done));
        done
    }

    /// For node 0, whose memory has the id `zero`: gives the first free row to a connection.
    pub(super) fn give(
        self: &Arc<Self>,
        zero: u64,
        connection: &Arc<Connection>,
    ) -> Result<Seat, NoSeat> {
        let mut state = self.state();
        state.agree(zero)?;
        let row = state.rows.iter().position(|row| row.client.is_none()).ok_or(NoSeat::Full)?;
        let incarnation = state.next();
        Ok(self.seat(&mut state, row as u32, incarnation, connection))
    }

    /// Gives a row to a connection whose client has it at node 0, when the row's previous client has ended.
    pub(super) fn take(
        self: &Arc<Self>,
        row: u32,
        incarnation: u64,
        zero: u64,
        connection: &Arc<Connection>,
    ) -> Result<Seat, NoSeat> {
        let mut state = self.state();
        state.agree(zero)?;
        let place = state.rows.get_mut(row as usize).ok_or(NoSeat::Evicted)?;
        if incarnation < place.from {
            return Err(NoSeat::Evicted);
        }
        place.from = incarnation;
        let mut state = self.end(state, row, incarnation, || false).ok_or(NoSeat::Evicted)?;
        // Another connection may have come meanwhile.
        let place = &state.rows[row as usize];
        if state.zero != zero || place.from > incarnation || place.client.is_some() {
            return Err(NoSeat::Evicted);
        }
        Ok(self.seat(&mut state, row, incarnation, connection))
    }

    fn seat(
        self: &Arc<Self>,
        state: &mut State,
        row: u32,
        incarnation: u64,
        connection: &Arc<Connection>,
    ) -> Seat {
        let client = Client { incarnation, connection: Arc::clone(connection) };
        state.rows[row as usize].client = Some(client);
        Seat { rows: Arc::clone(self), row, incarnation }
    }

    /// For node 0: an incarnation after all that the row had, none of which has a client any more; `None` when it has
    /// a client.
    pub(super) fn free_since(&self, row: u32) -> Option<u64> {
        let mut state = self.state();
        let has_client = state.rows.get(row as usize).is_some_and(|row| row.client.is_some());
        (!has_client).then(|| state.next())
    }

    /// Ends the clients of a row up to an incarnation, and waits until nothing of them takes effect any more, or
    /// `give_up` returns `true`. Returns whether it was waited for.
    pub(super) fn bar(&self, row: u32, incarnation: u64, give_up: impl Fn() -> bool) -> bool {
        let mut state = self.state();
        let Some(place) = state.rows.get_mut(row as usize) else { return true };
        place.from = place.from.max(incarnation);
        self.end(state, row, incarnation, give_up).is_some()
    }

    /// Ends the client of a row, if it has one up to this incarnation, and waits until it has left. `None` when it gave
    /// up.
    fn end<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        row: u32,
        incarnation: u64,
        give_up: impl Fn() -> bool,
    ) -> Option<MutexGuard<'a, State>> {
        loop {
            match &state.rows[row as usize].client {
                Some(client) if client.incarnation <= incarnation => {
                    client.connection.end();
                    // It may be waiting for another client to leave.
                    self.left.notify_all();
                }
                _ => return Some(state),
            }
            if give_up() {
                return None;
            }
            state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
