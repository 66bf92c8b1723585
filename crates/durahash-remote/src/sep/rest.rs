//! Rest: a client without operations gives its memory and its row up, and the others need not wait for it.
//!
//! An idle client that ticks seldom holds up what others free, and the turns of generations; one that ticks often costs
//! itself and the nodes. One that rests does neither. To the others it has left; the fabric keeps its row for it.
//!
//! | Operation | Step | What | If the client dies after it |
//! |---|---|---|---|
//! | rest | 1 | no tick and no operation is under way; from here on those that come wait | |
//! | | 2 | flush all nodes, give all memory to the shelf | what is left is lost to a sweep |
//! | | 3 | own row: swap to free; from here on it registers before it does anything, also if the future is dropped | it has left |
//! | wake | 1 | register, as a client that comes | evicted |
//! | | 2 | read the words of sweeps | |
//! | | 3 | operations begin | |
//!
//! # Why that is safe
//! Steps 2 and 3 are those of a client that leaves, and waking is the coming of one that knows more: its cache. That is
//! checked as always: segments never move, and contents count while their whole word A is the same, if they were confirmed
//! less than 500 epochs before. So long they cannot come round (`cache.rs`), with this client or without. Nothing that
//! it has read since it registered is older than its row. It keeps no memory, so it may miss claims.
//!
//! *Who waits for whom.* The epoch waits for clients that do not rest, thus for those that tick, at
//! least once a second. Sweeps wait for the epoch. A client that rests looks at the words of sweeps from time to time, and wakes
//! for one that is due, or that has been left by its client: so memory returns where all that live are idle.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use durahash_media::Result;

use crate::fabric::Fabric;
use crate::planted::{Fault, planted};

use super::Core;
use super::claim::{Phase, Words};
use super::epoch::Op;
use super::layout::{RowState, SWEEP};
use super::tags::Rest;
use super::verbs::Post;

/// Looks of a client that rests in which a sweep has not gone on, after which nobody goes on with it.
const LEFT: u32 = 6;

impl<F: Fabric> Core<F> {
    pub(crate) fn rests(&self) -> bool {
        matches!(self.rest.get(), Rest::Yes | Rest::Ends)
    }

    fn may_rest(&self) -> bool {
        let reclaim = self.reclaim.borrow();
        self.rest.get() == Rest::No
            && self.epochs.borrow().is_idle()
            && !self.has_left()
            && reclaim.is_quiet()
    }

    /// Rests if there is nothing to do. If the future is dropped, others may wait for this client until it ends.
    pub(crate) async fn rest(&self) -> Result<()> {
        let _still = self.still().await;
        if !self.may_rest() {
            return Ok(());
        }
        self.rest.set(Rest::Begins);
        for node in 0..self.geometry.nodes {
            self.fabric.flush(node).await?;
        }
        if !planted(Fault::RestsHolding) {
            let op = Op::tending(self);
            self.give_back(&op).await?;
            drop(op);
            self.space.borrow_mut().forget();
        }
        self.repay().await?;
        let epoch = self.epochs.borrow().row.epoch();
        // The swap may take effect whatever becomes of this future.
        self.rest.set(Rest::Ends);
        self.swap_row(epoch, RowState::Free).await?;
        self.rest.set(Rest::Yes);
        Ok(())
    }

    /// Wakes if the client rests: before an operation begins.
    pub(super) async fn wake(&self) -> Result<()> {
        if self.rest.get() == Rest::No {
            return Ok(());
        }
        let still = self.still().await;
        if self.has_left() {
            return Err(self.left().await);
        }
        self.return_from_rest().await?;
        drop(still);
        self.end_doze();
        Ok(())
    }

    /// The same while no tick may begin. Without a row that is free nothing is to be done: the rest did not come so far.
    pub(super) async fn return_from_rest(&self) -> Result<()> {
        if self.rests() && !planted(Fault::WokenUnregistered) {
            self.rest.set(Rest::Ends);
            let (epochs, _) = Self::register(&self.fabric, &self.geometry).await?;
            self.epochs.borrow_mut().again_from(epochs);
            let told = self.listen().await?.ok_or_else(|| self.held_back())?;
            self.heed(told);
        }
        self.rest.set(Rest::No);
        Ok(())
    }

    pub(super) fn end_doze(&self) {
        if let Some(waker) = self.dozing.take() {
            waker.wake();
        }
    }

    /// Sleeps for as long as the client rests, at most for this time; then wakes if there is a sweep to do.
    pub(crate) async fn doze(&self, ns: u64) -> Result<()> {
        {
            let mut sleep = pin!(self.fabric.sleep_ns(ns));
            poll_fn(|cx| {
                if !self.rests() || self.has_left() {
                    return Poll::Ready(());
                }
                self.dozing.set(Some(cx.waker().clone()));
                sleep.as_mut().poll(cx)
            })
            .await;
        }
        if self.rest.get() == Rest::Ends {
            return self.wake().await;
        }
        if !self.rests() || self.has_left() {
            return Ok(());
        }
        let words = Words::new(&self.fabric.read_words(SWEEP, 5).await?);
        let is_due = {
            let mut reclaim = self.reclaim.borrow_mut();
            let (word, looks) = reclaim.seen;
            reclaim.seen = (words.sweep, if word == words.sweep { looks + 1 } else { 0 });
            let is_left = words.sweep.phase() != Phase::Idle && reclaim.seen.1 >= LEFT;
            is_left || words.sweep.phase() == Phase::Idle && self.is_much(&words)
        };
        if is_due && !self.reclaim.borrow().is_damaged && !self.has_left() {
            return self.wake().await;
        }
        Ok(())
    }
}
