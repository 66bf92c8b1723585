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
}

impl Pool {
    pub(super) fn new(channels: Vec<Channel>) -> Self {
        let streams = channels.iter().map(|channel| Arc::clone(&channel.stream)).collect();
        let conns = (0..).zip(channels).map(|(node, channel)| Conn::new(node, channel)).collect();
        Pool { streams, state: Mutex::new(State { conns, ops: Ops::default() }) }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves all connections on while the state is locked; wakes when it no longer is.
    fn turn_with(&self, f: impl FnOnce(&mut State)) -> bool {
        let mut state = self.state();
        f(&mut state);
        let State { conns, ops } = &mut *state;
        let mut moved = false;
        for (conn, stream) in conns.iter_mut().zip(&self.streams) {
            moved |= conn.turn(stream, ops);
        }
        let woken = ops.take_woken();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
        moved
    }

    /// Moves the connections on, gives up a node that has not answered for `silence`, and pings those that have nothing
    /// to answer.
    pub(super) fn look(&self, silence: Duration) {
        // What has arrived counts, even if it is seen late.
        self.turn_with(|_| ());
        self.turn_with(|State { conns, ops }| {
            for (conn, stream) in conns.iter_mut().zip(&self.streams) {
                match conn.waits_since() {
                    _ if conn.is_lost() => {}
                    Some(since) if since.elapsed() >= silence => {
                        conn.lose(Lost::Gone, ops);
                        // What the system has not sent yet is not sent.
                        drop(stream.shutdown(Shutdown::Both));
                    }
                    Some(_) => {}
                    None => conn.ping(ops),
                }
            }
        });
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
                    self.wait(None);
                }
            }
        })
        .await
    }

    /// Sleeps until there may be something to do.
    fn wait(&self, until: Option<Instant>) {
        let mut fds = Vec::new();
        self.watch(&mut fds);
        let soon = Instant::now() + Duration::from_millis(10);
        // The thread that looks may give up a node meanwhile, and another may take what has arrived.
        wait(&mut fds, Some(until.map_or(soon, |until| until.min(soon))));
    }

    /// Moves the connections on until nothing is under way, at most until that time.
    pub(super) fn drain(&self, until: Instant) {
        loop {
            let moved = self.turn();
            if self.state().conns.iter().all(Conn::is_quiet) || Instant::now() >= until {
                return;
            }
            if !moved {
                self.wait(Some(until));
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
