//! Which client has which row, at a node.
//!
//! Node 0 gives rows out, each time with a larger incarnation. A client shows both to the other nodes. A node ends the
//! connection of a row's client before it takes one of a later incarnation, and takes none of an earlier one than it has
//! seen, or was told to bar. So when a row has its next client, or was barred, nothing of the previous one takes effect.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The rows of a node.
pub(super) struct Rows {
    state: Mutex<State>,
    /// A row has lost its client.
    left: Condvar,
}

struct State {
    rows: Vec<Row>,
    /// The latest incarnation given.
    given: u64,
}

#[derive(Default)]
struct Row {
    /// The earliest incarnation that is taken.
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
        Arc::new(Connection { stream, ended, waits })
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
        self.rows.state().rows[self.row as usize].client = None;
        self.rows.left.notify_all();
    }
}

impl State {
    /// An incarnation later than all that this node has given, also before it was started anew, if the clock has not
    /// gone back.
    fn next(&mut self) -> u64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.given = (self.given + 1).max(now.as_nanos() as u64);
        self.given
    }
}

impl Rows {
    pub(super) fn new(count: u32) -> Self {
        let rows = (0..count).map(|_| Row::default()).collect();
        Rows { state: Mutex::new(State { rows, given: 0 }), left: Condvar::new() }
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
        self.state().rows.iter().filter(|row| row.client.is_some()).count() as u32
    }

    /// Gives the first free row to a connection.
    pub(super) fn give(self: &Arc<Self>, connection: &Arc<Connection>) -> Option<Seat> {
        let mut state = self.state();
        let row = state.rows.iter().position(|row| row.client.is_none())?;
        let incarnation = state.next();
        Some(self.seat(&mut state, row as u32, incarnation, connection))
    }

    /// Gives a row to a connection whose client has it at node 0, when the row's previous client has ended. `None`
    /// when the client is evicted, or there is no such row.
    pub(super) fn take(
        self: &Arc<Self>,
        row: u32,
        incarnation: u64,
        connection: &Arc<Connection>,
    ) -> Option<Seat> {
        let mut state = self.state();
        let from = state.rows.get(row as usize)?.from;
        if incarnation < from {
            return None;
        }
        state.rows[row as usize].from = incarnation;
        let mut state = self.end(state, row, incarnation, || false)?;
        // Another connection may have come meanwhile.
        if state.rows[row as usize].from > incarnation || state.rows[row as usize].client.is_some()
        {
            return None;
        }
        Some(self.seat(&mut state, row, incarnation, connection))
    }

    fn seat(
        self: &Arc<Self>,
        state: &mut State,
        row: u32,
        incarnation: u64,
        connection: &Arc<Connection>,
    ) -> Seat {
        let client = Client { incarnation, connection: Arc::clone(connection) };
        let place = &mut state.rows[row as usize];
        (place.from, place.client) = (incarnation, Some(client));
        Seat { rows: Arc::clone(self), row, incarnation }
    }

    /// For node 0: an incarnation after all that the row had, none of which has a client any more; `None` when it has
    /// a client.
    pub(super) fn free_since(&self, row: u32) -> Option<u64> {
        let mut state = self.state();
        let bar = state.next();
        match state.rows.get_mut(row as usize) {
            Some(row) if row.client.is_some() => None,
            Some(row) => {
                row.from = bar;
                Some(bar)
            }
            None => Some(bar),
        }
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
