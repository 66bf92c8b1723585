//! Sends verbs to nodes and waits for them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use durahash_media::{Error, ErrorKind, Result};
use durahash_remote::executor::{sleep_until, yield_now};
use durahash_remote::fabric::{Addr, Batch, Kind, Verb};

use crate::connect_info::ConnectInfo;
use crate::leases::BEAT_OFF;
use crate::sys::{Client, Key, State};

/// Longer reads and writes are split into pieces that end at multiples of this: a piece fits into one message of a
/// transport without RMA, so a word is never divided between two messages.
const PIECE: u64 = 4096;
/// A wait that takes longer than this yields the processor.
const SPIN: Duration = Duration::from_micros(200);
/// Then it polls again after an eighth of the time that it has waited, but at least this often.
const LOOK_MAX: Duration = Duration::from_millis(1);
const LOOK_MIN: Duration = Duration::from_micros(20);

/// A worker with an endpoint to each node, for any thread.
pub(crate) struct Link {
    client: Mutex<Client>,
    /// Bytes of the fabric's own pages before the region of each node.
    own_bytes: Vec<u64>,
    /// For each node whose end UCX does not report: its last beat, when that was seen first, and when the node was
    /// checked last.
    watched: Mutex<Vec<Watched>>,
    /// For each node, true if another thread has reported its end.
    ended: Arc<[AtomicBool]>,
    /// How many waits poll for completions, and their polls since the last progress.
    lookers: AtomicU32,
    vain_looks: AtomicU32,
    deadline: Duration,
}

struct Watched {
    node: u8,
    beat: u64,
    since: Instant,
    looked: Instant,
}

/// Verbs to be sent, as of a batch.
pub(crate) struct Load<'a> {
    pub(crate) verbs: &'a [Verb],
    pub(crate) out: &'a [u8],
    pub(crate) back: usize,
    /// In the fabric's own memory instead of the region.
    pub(crate) own: bool,
}

/// Verbs under way. Their memory stays as long as they need it, even if this is dropped.
struct Flight<'a> {
    link: &'a Link,
    key: Key,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.link.lock().release(self.key);
    }
}

/// A wait that polls for completions, until its next poll.
struct Looker<'a>(&'a Link);

impl<'a> Looker<'a> {
    fn new(link: &'a Link) -> Self {
        link.lookers.fetch_add(1, Ordering::Relaxed);
        Looker(link)
    }
}

impl Drop for Looker<'_> {
    fn drop(&mut self) {
        self.0.lookers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Load<'_> {
    fn atomics(&self) -> impl Iterator<Item = (usize, &Verb)> {
        let atomic =
            |verb: &&Verb| matches!(verb.kind, Kind::CompareSwap { .. } | Kind::FetchAdd { .. });
        self.verbs.iter().filter(atomic).enumerate().map(|(i, verb)| (16 * i, verb))
    }

    /// Offset of the bytes to be written in a batch's memory, after two words for each atomic.
    fn out_at(&self) -> usize {
        16 * self.atomics().count()
    }

    /// Offset of the bytes that come back.
    fn back_at(&self) -> usize {
        self.out_at() + self.out.len()
    }
}

impl Link {
    pub(crate) fn new(infos: &[ConnectInfo], deadline: Duration) -> Result<Self> {
        // A verb must not take effect after that.
        let patience = Duration::from_nanos(infos[0].lease_ns / 4);
        let deadline = deadline.min(patience);
        let mut client = Client::open(patience)?;
        for info in infos {
            client.connect(info)?;
        }
        let own_bytes = infos.iter().map(ConnectInfo::own_bytes).collect();
        let (since, silent) = (Instant::now(), |node: &u8| !client.tells(*node));
        let watched = (0..infos.len() as u8).filter(silent);
        let watched = watched.map(|node| Watched { node, beat: 0, since, looked: since }).collect();
        Ok(Link {
            client: Mutex::new(client),
            own_bytes,
            watched: Mutex::new(watched),
            ended: infos.iter().map(|_| AtomicBool::new(false)).collect(),
            lookers: AtomicU32::new(0),
            vain_looks: AtomicU32::new(0),
            deadline,
        })
    }

    /// For reporting from another thread that a node has ended.
    pub(crate) fn ended(&self) -> Arc<[AtomicBool]> {
        Arc::clone(&self.ended)
    }

    /// Fails if `node` is known to be lost.
    fn standing(&self, client: &mut Client, node: u8) -> Result<()> {
        let ended = self.ended[usize::from(node)].load(Ordering::Acquire);
        if ended || client.is_lost(node) { Err(lost(client, node)) } else { Ok(()) }
    }

    /// Fails if a node is known to be lost.
    pub(crate) fn nodes_stand(&self) -> Result<()> {
        let mut client = self.lock();
        (0..self.ended.len()).try_for_each(|node| self.standing(&mut client, node as u8))
    }

    /// Gives up a node.
    pub(crate) fn lose(&self, node: u8) -> Error {
        lost(&mut self.lock(), node)
    }

    /// Progresses verbs that are not awaited.
    pub(crate) fn tend(&self) {
        let mut client = self.lock();
        while client.progress() {}
    }

    /// Finds ended nodes over shared memory, in whose memory verbs still take effect. A node whose
    /// beat does not change for half the deadline is lost. The beat is checked every quarter of the deadline. Only verbs to
    /// that node fail.
    pub(crate) async fn watch(&self) -> Result<()> {
        loop {
            let due = {
                let now = Instant::now();
                let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
                let due = watched.iter_mut().find(|it| now - it.looked >= self.deadline / 4);
                due.map(|it| {
                    it.looked = now;
                    it.node
                })
            };
            let Some(node) = due else { return Ok(()) };
            let seen = self.read_own(node, BEAT_OFF as u64, 8).await;
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(at) = watched.iter().position(|it| it.node == node) else { continue };
            let it = &mut watched[at];
            let stands = match seen {
                Ok(words) if words[0] != it.beat => {
                    (it.beat, it.since) = (words[0], it.looked);
                    false
                }
                Ok(_) => it.looked - it.since >= self.deadline / 2,
                Err(e) if matches!(e.kind(), ErrorKind::NodeLost { .. }) => true,
                Err(e) => return Err(e),
            };
            if stands {
                watched.swap_remove(at);
                self.lock().lose(node);
            }
        }
    }

    /// Reads words of the fabric's own pages.
    pub(crate) async fn read_own(&self, node: u8, off: u64, bytes: usize) -> Result<Vec<u64>> {
        let mut batch = Batch::new();
        batch.read(Addr::new(node, off), bytes);
        let (verbs, out, back) = batch.into_parts();
        let bytes = self.carry(Load { verbs: &verbs, out: &out, back, own: true }).await?;
        let (words, _) = bytes.as_chunks::<8>();
        Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    fn lock(&self) -> MutexGuard<'_, Client> {
        // A panic leaves it consistent: each change is one call.
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends verbs to their nodes, waits until all have taken effect, and returns their results.
    pub(crate) async fn carry(&self, load: Load<'_>) -> Result<Vec<u8>> {
        let flight = self.start(&load)?;
        self.land(&flight).await?;
        let client = self.lock();
        let bytes = client.bytes(flight.key);
        let mut back = bytes[load.back_at()..].to_vec();
        for (at, verb) in load.atomics() {
            back[verb.start as usize..][..8].copy_from_slice(&bytes[at + 8..at + 16]);
        }
        // As for memory that is shared with the processor: see `Local`.
        fence(Ordering::SeqCst);
        Ok(back)
    }

    /// Sends writes that are not awaited; a failure is one of the node.
    pub(crate) fn send(&self, load: &Load<'_>) -> Result<()> {
        let flight = self.start(load)?;
        self.lock().progress();
        drop(flight);
        Ok(())
    }

    /// Waits until all verbs to `node` have taken effect.
    pub(crate) async fn flush(&self, node: u8) -> Result<()> {
        let flight = {
            let mut client = self.lock();
            client.expire();
            self.standing(&mut client, node)?;
            let key = client.batch(0)?;
            client.flush(key, node);
            Flight { link: self, key }
        };
        self.land(&flight).await?;
        self.standing(&mut self.lock(), node)
    }

    fn start(&self, load: &Load<'_>) -> Result<Flight<'_>> {
        let mut client = self.lock();
        client.expire();
        for verb in load.verbs {
            self.standing(&mut client, verb.addr.node())?;
        }
        let (out_at, back_at) = (load.out_at(), load.back_at());
        let key = client.batch(back_at + load.back)?;
        client.fill(key, out_at, load.out);
        for (at, verb) in load.atomics() {
            let (first, second) = match verb.kind {
                Kind::CompareSwap { old, new } => (old, new),
                Kind::FetchAdd { n } => (n, 0),
                Kind::Read | Kind::Write => unreachable!("no atomic"),
            };
            client.fill(key, at, &first.to_le_bytes());
            client.fill(key, at + 8, &second.to_le_bytes());
        }
        let mut next = 0;
        let mut written = Vec::new();
        for verb in load.verbs {
            let node = verb.addr.node();
            let before = if load.own { 0 } else { self.own_bytes[usize::from(node)] };
            let (off, start) = (before + verb.addr.off(), verb.start as usize);
            match verb.kind {
                Kind::Read => pieces(off, verb.len.into()).for_each(|(skip, len)| {
                    client.get(key, node, back_at + start + skip, len, off + skip as u64)
                }),
                Kind::Write => {
                    pieces(off, verb.len.into()).for_each(|(skip, len)| {
                        client.put(key, node, out_at + start + skip, len, off + skip as u64)
                    });
                    if !written.contains(&node) {
                        written.push(node);
                    }
                }
                Kind::CompareSwap { .. } | Kind::FetchAdd { .. } => {
                    let swap = matches!(verb.kind, Kind::CompareSwap { .. });
                    client.atomic(key, node, next, swap, off);
                    next += 16;
                }
            }
        }
        // A write that has completed here may not have taken effect there.
        for node in written {
            client.flush(key, node);
        }
        Ok(Flight { link: self, key })
    }

    /// Yields the processor once in a round of polls without progress, not in each of them: the
    /// coroutines of a client poll the same worker.
    fn give_way(&self, moved: bool) {
        if moved {
            self.vain_looks.store(0, Ordering::Relaxed);
        } else if self.vain_looks.fetch_add(1, Ordering::Relaxed) + 1
            >= self.lookers.load(Ordering::Relaxed)
        {
            self.vain_looks.store(0, Ordering::Relaxed);
            thread::yield_now();
        }
    }

    /// Waits until all verbs have completed, or a node is lost.
    async fn land(&self, flight: &Flight<'_>) -> Result<()> {
        let begun = Instant::now();
        loop {
            let moved = {
                let mut client = self.lock();
                let waited = begun.elapsed();
                // A completion counts even if it is seen late, unless the verb has expired.
                let mut moved = false;
                while client.progress() {
                    moved = true;
                }
                match client.state(flight.key) {
                    State::Done => return Ok(()),
                    State::Failed(node) => return Err(lost(&mut client, node)),
                    State::Pending(node) if waited >= self.deadline => {
                        return Err(lost(&mut client, node));
                    }
                    State::Pending(node) => self.standing(&mut client, node)?,
                }
                moved
            };
            let waited = begun.elapsed();
            if waited < SPIN {
                let _looker = Looker::new(self);
                self.give_way(moved);
                yield_now().await;
            } else {
                sleep_until(Instant::now() + (waited / 8).clamp(LOOK_MIN, LOOK_MAX)).await;
            }
        }
    }
}

fn lost(client: &mut Client, node: u8) -> Error {
    client.lose(node);
    ErrorKind::NodeLost { node }.into()
}

/// The pieces of `len` bytes from `off` on: where each begins, and its length.
fn pieces(off: u64, len: u64) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let piece = (PIECE - (off + at) % PIECE).min(len - at);
        let from = at;
        at += piece;
        (piece != 0).then_some((from as usize, piece as usize))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_at_words_and_make_up_the_whole() {
        assert_eq!(pieces(64, 0).count(), 0);
        for (off, len) in [(0, 1), (4095, 1), (4095, 2), (4096, 4096), (1, 4096), (77, 100_000)] {
            let mut next = 0;
            for (skip, piece) in pieces(off, len) {
                assert_eq!(skip, next);
                assert!((1..=4096).contains(&piece));
                next += piece;
                assert!(next as u64 == len || (off + next as u64).is_multiple_of(PIECE));
            }
            assert_eq!(next as u64, len);
        }
    }
}
