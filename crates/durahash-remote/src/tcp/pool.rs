//! A client's connections to all nodes.

use std::future::poll_fn;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use durahash_media::Result;
use rustix::event::{PollFd, PollFlags};

use super::conn::Conn;
use super::ops::{Lost, Ops};
use crate::executor::{Driver, drive, wait};
use crate::wire::Channel;

/// The connections, and what waits for them.
pub(super) struct Pool {
    streams: Vec<Arc<TcpStream>>,
    state: Mutex<State>,
}

pub(super) struct State {
    pub(super) conns: Vec<Conn>,
    pub(super) ops: Ops,
    /// The end of one connection is not that of all, as they end one by one when the client leaves.
    pub(super) leaves: bool,
    /// All connections are given up.
    has_given_up: bool,
}

impl Pool {
    pub(super) fn new(channels: Vec<Channel>, rides: Duration) -> Self {
        let streams = channels.iter().map(|channel| Arc::clone(&channel.stream)).collect();
        let conn = |(node, channel)| Conn::new(node, channel, rides);
        let conns = (0..).zip(channels).map(conn).collect();
        let (leaves, has_given_up) = (false, false);
        let state = State { conns, ops: Ops::default(), leaves, has_given_up };
        Pool { streams, state: Mutex::new(state) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves all connections on while the state is locked; wakes when it no longer is.
    fn turn_with(&self, f: impl FnOnce(&mut State)) -> bool {
        let mut state = self.state();
        f(&mut state);
        let State { conns, ops, .. } = &mut *state;
        let mut moved = false;
        for conn in conns.iter_mut() {
            moved |= conn.turn(ops);
        }
        self.give_up_together(&mut state);
        let woken = state.ops.take_woken();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        moved
    }

    /// Gives up all connections when one is lost. A client that lacks a node cannot finish its operations, and keeps the
    /// epoch back until it is evicted, which node 0 allows when it has lost the client, too.
    fn give_up_together(&self, state: &mut State) {
        let State { conns, ops, leaves, has_given_up } = state;
        let lost = || conns.iter().filter_map(Conn::lost);
        let evicted = lost().find(|(lost, _)| *lost == Lost::Evicted);
        let Some(lost) = evicted.or_else(|| lost().next()).filter(|_| !*leaves && !*has_given_up)
        else {
            return;
        };
        *has_given_up = true;
        for (conn, stream) in conns.iter_mut().zip(&self.streams) {
            conn.lose(lost, ops);
            // The system may yet send what it has taken. The node may have closed it already.
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Moves the connections on, gives up a node that has not answered for `silence`, and pings those that have nothing
    /// to answer.
    pub(super) fn look(&self, silence: Duration) {
        // What has arrived counts, even if it is seen late.
        self.turn_with(|_| ());
        self.turn_with(|State { conns, ops, .. }| {
            for (node, conn) in (0..).zip(conns) {
                if conn.is_silent_for(silence) {
                    conn.lose((Lost::Gone, node), ops);
                } else if conn.waits_since().is_none() && !conn.is_lost() {
                    conn.ping(ops);
                }
            }
        });
    }

    #[cfg(test)]
    pub(super) fn stream(&self, node: usize) -> &TcpStream {
        &self.streams[node]
    }

    /// Waits for an operation, which [`Ops::add`] has numbered.
    pub(super) async fn land(self: &Arc<Self>, op: usize) -> Result<Vec<u8>> {
        let mut landing = Landing { pool: self, op, has_landed: false };
        let driver: Arc<dyn Driver> = Arc::clone(self) as _;
        poll_fn(|cx| {
            let is_driven = drive(&driver);
            loop {
                let waker = is_driven.then_some(cx.waker());
                if let Some(done) = self.state().ops.poll(op, waker) {
                    landing.has_landed = true;
                    return Poll::Ready(done);
                }
                if is_driven {
                    return Poll::Pending;
                }
                // Another runtime's thread waits itself.
                if !self.turn() {
                    self.wait();
                }
            }
        })
        .await
    }

    /// Sleeps until there may be something to do.
    fn wait(&self) {
        let mut fds = Vec::new();
        self.watch(&mut fds);
        // The thread that looks may give up a node meanwhile, and another may take what has arrived.
        wait(&mut fds, Some(Instant::now() + Duration::from_millis(10)));
    }

    /// Moves the connections on until nothing is under way but with nodes that have not answered for `silence`.
    pub(super) fn drain(&self, silence: Duration) {
        loop {
            let moved = self.turn();
            let is_over = |conn: &Conn| conn.is_quiet() || conn.is_silent_for(silence);
            if self.state().conns.iter().all(is_over) {
                return;
            }
            if !moved {
                self.wait();
            }
        }
    }
}

impl Driver for Pool {
    fn turn(&self) -> bool {
        self.turn_with(|_| ())
    }

    fn watch<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let state = self.state();
        for (conn, stream) in state.conns.iter().zip(&self.streams) {
            let flags =
                if conn.is_clogged() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            if !conn.is_lost() {
                fds.push(PollFd::new(stream, flags));
            }
        }
    }
}

/// An operation that is waited for.
struct Landing<'a> {
    pool: &'a Pool,
    op: usize,
    has_landed: bool,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if !self.has_landed {
            self.pool.state().ops.drop_op(self.op);
        }
    }
}
