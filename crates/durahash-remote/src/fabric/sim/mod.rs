//! Simulated nodes, in virtual time.
//!
//! One thread runs any number of clients. When no task is ready, time advances to the next event.
//! All choices follow from the seed, so a run can be repeated exactly.
//!
//! Without [`Chaos`], for measurements, each verb takes effect when it has passed the queues of its client's and its
//! node's [`Nic`]. With it, for tests, verbs take effect in any order between post and completion,
//! some of their words at a time, and clients stall and die.

#[cfg(test)]
mod books;
mod hook;
mod options;
mod rng;
#[cfg(test)]
mod tests;
mod wire;
mod world;

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Waker;

use durahash_media::Result;

pub use hook::{Choice, Hook, Stage, VerbEvent};
pub use options::{Chaos, Nic, SimOptions};
use world::World;

use super::{Addr, Batch, Counts, Done, Fabric};
use crate::executor::{Executor, Task};

/// A simulated fabric: nodes, clients and the time they share. Clones are the same fabric.
///
/// ```
/// use durahash_remote::fabric::{Addr, Batch, Fabric, Sim, SimOptions};
/// let sim = Sim::new(SimOptions::default());
/// let client = sim.client()?;
/// let task = sim.spawn(&client, {
///     let client = client.clone();
///     async move {
///         let mut batch = Batch::new();
///         batch.fetch_add(Addr::new(0, 64), 5);
///         client.post(batch).await.map(|done| done.word(0))
///     }
/// });
/// sim.run();
/// assert_eq!(task.take().unwrap()?, 0);
/// assert_eq!(sim.peek_word(Addr::new(0, 64))?, 5);
/// assert_eq!(client.counts().round_trips, 1);
/// # Ok::<(), durahash_remote::Error>(())
/// ```
#[derive(Clone)]
pub struct Sim {
    world: Rc<RefCell<World>>,
    executor: Executor,
}

impl Sim {
    /// Creates a fabric without clients, its regions zeroed.
    ///
    /// # Panics
    /// When there are no nodes, or more than 255, or a region does not fit into memory, or a rate of
    /// the NICs is zero.
    #[must_use]
    pub fn new(options: SimOptions) -> Self {
        Sim { world: Rc::new(RefCell::new(World::new(options))), executor: Executor::new() }
    }

    /// Creates a client, in the first free row.
    ///
    /// # Errors
    /// [`Io`](durahash_media::ErrorKind::Io), [busy](super::no_row), when no row is free.
    pub fn client(&self) -> Result<SimClient> {
        let number = self.world.borrow_mut().add_client()?;
        Ok(SimClient(Rc::new(Endpoint { world: Rc::clone(&self.world), number })))
    }

    /// Adds a task of a client; it is dropped when the client dies. Tasks may add others.
    pub fn spawn<T: 'static>(
        &self,
        client: &SimClient,
        future: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        self.executor.spawn(client.0.number.into(), future)
    }

    /// Runs until nothing is ready and nothing is under way: every task has ended, or waits for ever.
    pub fn run(&self) {
        while self.step() {}
    }

    /// Runs until nothing is ready, and the next event is after virtual time `ns`.
    pub fn run_until(&self, ns: u64) {
        loop {
            let next = self.world.borrow().next_ns();
            if !self.executor.is_ready() && next.is_none_or(|next| next > ns) {
                break;
            }
            self.step();
        }
        self.world.borrow_mut().wait_until(ns);
    }

    /// Polls one task, or advances time to the next event; `false` when there is neither.
    pub fn step(&self) -> bool {
        let went_on = self.executor.poll_one() || {
            let event = self.world.borrow_mut().step();
            event.map(|waker| waker.map(Waker::wake)).is_some()
        };
        loop {
            let died = self.world.borrow_mut().died.pop();
            let Some(client) = died else { break };
            self.executor.cancel(client.into());
        }
        went_on
    }

    /// The number of tasks that have not ended.
    #[must_use]
    pub fn live_tasks(&self) -> usize {
        self.executor.live()
    }

    /// Virtual time.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.world.borrow().now_ns()
    }

    /// A hash of all events so far: the same for the same seed, options and tasks.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.world.borrow().trace
    }

    /// The verbs of all clients.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let world = self.world.borrow();
        world.clients.iter().fold(Counts::default(), |sum, client| sum + client.counts)
    }

    /// Installs a hook, in place of an earlier one.
    pub fn set_hook(&self, hook: Hook) {
        self.world.borrow_mut().hook = Some(hook);
    }

    /// Kills a client: its tasks are dropped, and its verbs under way take effect or not.
    pub fn kill(&self, client: &SimClient) {
        self.world.borrow_mut().kill(client.0.number);
    }

    /// Stalls a client: it sees no completion for `ns`.
    pub fn stall(&self, client: &SimClient, ns: u64) {
        self.world.borrow_mut().stall(client.0.number, ns);
    }

    /// Loses a node: it no longer answers.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn lose_node(&self, node: u8) {
        self.world.borrow_mut().lose_node(node);
    }

    /// Returns whether a client is alive: it was not killed, and has handles.
    #[must_use]
    pub fn lives(&self, client: &SimClient) -> bool {
        self.world.borrow().lives(client.0.number)
    }

    /// Reads memory as it is now, at no cost.
    ///
    /// # Errors
    /// [`OutOfRegion`](durahash_media::ErrorKind::OutOfRegion).
    pub fn peek(&self, addr: Addr, len: usize) -> Result<Vec<u8>> {
        self.world.borrow().bytes(addr, len).map(<[u8]>::to_vec)
    }

    /// Reads a word as it is now, at no cost.
    ///
    /// # Errors
    /// [`OutOfRegion`](durahash_media::ErrorKind::OutOfRegion).
    pub fn peek_word(&self, addr: Addr) -> Result<u64> {
        let world = self.world.borrow();
        Ok(u64::from_le_bytes(*world.bytes(addr, 8)?.first_chunk().expect("eight bytes")))
    }

    /// Writes memory now, at no cost.
    ///
    /// # Errors
    /// [`OutOfRegion`](durahash_media::ErrorKind::OutOfRegion).
    pub fn poke(&self, addr: Addr, bytes: &[u8]) -> Result<()> {
        self.world.borrow_mut().bytes_mut(addr, bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

/// A client of a [`Sim`].
#[derive(Clone)]
pub struct SimClient(Rc<Endpoint>);

struct Endpoint {
    world: Rc<RefCell<World>>,
    number: u32,
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.world.borrow_mut().leave(self.number);
    }
}

impl SimClient {
    /// The number of this client among all that the fabric has created, from 0.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.0.number
    }

    /// Runs `start` when first polled, and then waits for the post that it has started.
    async fn under_way(
        &self,
        start: impl FnOnce(&mut World, u32) -> Result<Option<u32>>,
    ) -> Result<Done> {
        // A dead client posts nothing: it waits until its task is dropped.
        if !self.0.world.borrow().lives(self.0.number) {
            return std::future::pending().await;
        }
        let slot = start(&mut self.0.world.borrow_mut(), self.0.number)?;
        let Some(slot) = slot else { return Ok(Done::default()) };
        let mut under_way = UnderWay { endpoint: &self.0, slot: Some(slot) };
        let done = poll_fn(|cx| self.0.world.borrow_mut().poll(slot, cx.waker())).await;
        under_way.slot = None;
        done
    }
}

/// Abandons the post if the future that waits for it is dropped.
struct UnderWay<'a> {
    endpoint: &'a Endpoint,
    slot: Option<u32>,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.endpoint.world.borrow_mut().abandon(slot);
        }
    }
}

impl Fabric for SimClient {
    async fn post(&self, batch: Batch) -> Result<Done> {
        self.under_way(|world, client| world.post(client, batch)).await
    }

    fn write_unsignaled(&self, addr: Addr, bytes: &[u8]) -> Result<()> {
        let world = &mut self.0.world.borrow_mut();
        if !world.lives(self.0.number) {
            return Ok(());
        }
        world.write_unsignaled(self.0.number, addr, bytes)
    }

    async fn flush(&self, node: u8) -> Result<()> {
        self.under_way(|world, client| world.flush(client, node)).await.map(drop)
    }

    fn nodes(&self) -> u8 {
        self.0.world.borrow().options.node_bytes.len() as u8
    }

    fn node_bytes(&self, node: u8) -> u64 {
        self.0.world.borrow().options.node_bytes[node as usize]
    }

    fn now_ns(&self) -> u64 {
        self.0.world.borrow().clock_ns(self.0.number)
    }

    async fn sleep_ns(&self, ns: u64) {
        let slept = self.under_way(|world, client| Ok(Some(world.sleep(client, ns)))).await;
        debug_assert!(slept.is_ok());
    }

    fn counts(&self) -> Counts {
        self.0.world.borrow().clients[self.0.number as usize].counts
    }

    fn row(&self) -> u32 {
        self.0.world.borrow().clients[self.0.number as usize].row
    }

    fn max_clients(&self) -> u32 {
        self.0.world.borrow().options.max_clients
    }

    fn lease_ns(&self) -> Option<u64> {
        self.0.world.borrow().options.lease_ns
    }

    fn orders_swaps(&self) -> bool {
        self.0.world.borrow().orders_swaps()
    }

    async fn evict(&self, row: u32) -> Result<bool> {
        let done = self.under_way(|world, client| Ok(Some(world.evict(client, row)))).await?;
        Ok(done.into_bytes() == [1])
    }
}
