//! The shelf: free memory that clients give to others, as a stack of bags on node 0.
//!
//! ```text
//! bag     0     the next bag, 0 none
//!         8     epoch from which on the extents are free, 0: at once
//!         16    number of extents
//!         24    extents: address 42, units 22
//! ```
//!
//! | Operation | Step | What | If the client dies after it |
//! |---|---|---|---|
//! | push | 1 | write the bags, each with the next one; the last names the first on the shelf | lost to a sweep |
//! | | 2 | swap the shelf's word from that to the first bag; else write the last bag again | given |
//! | replace | | in a sweep: `reclaim.rs` | |
//! | pop | 1 | read the shelf's word | |
//! | | 2 | read that bag | |
//! | | 3 | swap the word from the bag to the next one | the bag is lost to a sweep |
//!
//! Clients give what they have in excess, and all of it when they leave. A client that has no memory takes from the shelf
//! before it takes a chunk.
//!
//! # Why no bag is taken for another
//! A bag does not change while it is on the shelf. The block of a popped bag is retired, not free: so a client that pops
//! the bag too late reads what was there, and its swap fails, as the same address is not on the shelf again while its
//! operation lives. Both run under the tag of an operation, which was taken before memory left the [`Space`] for the bag:
//! a sweep waits for such tags. If the future of a push is dropped, the tag stays, as after any dropped write; so operations,
//! whose futures are often dropped, push nothing.
//!
//! [`Space`]: super::space::Space

use durahash_media::{Error, Result};

use crate::fabric::{Batch, Fabric};

use super::Core;
use super::epoch::Op;
use super::layout::{Ref, SHELF, UNIT, usable_bytes, words};
use super::space::{BAG_BYTES, Bag};
use super::verbs::Post;
use super::walk::is_of_damage;

/// Bags that are pushed at once.
pub(super) const PUSHED: usize = 64;

fn bag_bytes(bag: &Bag, next: Ref) -> Vec<u8> {
    let head = [next.word(), bag.epoch, bag.extents.len() as u64];
    let extents = bag.extents.iter().map(|&(at, bytes)| at.word() | (bytes / UNIT) << 42);
    head.into_iter().chain(extents).flat_map(u64::to_le_bytes).collect()
}

/// Writes bags, the last of which names the `next` one.
pub(super) fn write_bags(batch: &mut Batch, bags: &[Bag], next: Ref) {
    for (i, bag) in bags.iter().enumerate() {
        let next = bags.get(i + 1).map_or(next, |bag| bag.at);
        batch.write(bag.at.addr(), &bag_bytes(bag, next));
    }
}

impl<F: Fabric> Core<F> {
    /// The bag at `at`, and the next one.
    pub(super) async fn read_bag(&self, post: &impl Post, at: Ref) -> Result<(Bag, Ref)> {
        let corrupt = || Error::corrupt("a bag of the shelf", at.addr().off());
        if at.addr().node() >= self.geometry.nodes {
            return Err(corrupt());
        }
        let bytes = post.read(at.addr(), BAG_BYTES as usize).await?;
        let all: Vec<u64> = words(&bytes).collect();
        let extents = all[3..].get(..all[2] as usize).ok_or_else(corrupt)?;
        let extents = extents.iter().map(|&word| (Ref::from_word(word), (word >> 42) * UNIT));
        let extents: Vec<(Ref, u64)> = extents.collect();
        let is_sound = extents.iter().all(|&(at, bytes)| {
            let (node, off) = (at.addr().node(), at.addr().off());
            node < self.geometry.nodes
                && off >= self.geometry.first_chunk(node)
                && off + bytes <= usable_bytes(&self.fabric, node)
        });
        if !is_sound {
            return Err(corrupt());
        }
        Ok((Bag { at, epoch: all[1], extents }, Ref::from_word(all[0])))
    }

    /// Takes so many bags from the shelf, or until `serve` finds what it looks for in this client's memory.
    pub(super) async fn pop(
        &self,
        op: &Op<'_, F>,
        most: u32,
        serve: impl Fn() -> Option<Ref>,
    ) -> Result<Option<Ref>> {
        let mut head = Ref::from_word(op.read_word(SHELF).await?);
        let mut pops = 0;
        while !head.is_none() && pops < most {
            let (bag, next) = match self.read_bag(op, head).await {
                Ok(read) => read,
                // The memory behind it is lost to a sweep.
                Err(error) if is_of_damage(&error) => {
                    head = Ref::NONE;
                    break;
                }
                Err(error) => return Err(error),
            };
            let found = Ref::from_word(op.swap_word(SHELF, head.word(), next.word()).await?);
            if found != head {
                head = found;
                continue;
            }
            self.adopt(op, &bag, false);
            (head, pops) = (next, pops + 1);
            self.shelf.set(head);
            if let Some(block) = serve() {
                return Ok(Some(block));
            }
        }
        self.shelf.set(head);
        Ok(None)
    }

    /// Adds a bag that was popped to this client's memory.
    pub(super) fn adopt(&self, op: &Op<'_, F>, bag: &Bag, sweeps: bool) {
        let epoch = self.epochs.borrow().latest;
        self.space.borrow_mut().adopt(bag, op.tag, epoch, sweeps);
    }

    async fn push(&self, op: &Op<'_, F>, bags: &[Bag]) -> Result<()> {
        let Some(last) = bags.len().checked_sub(1) else { return Ok(()) };
        let mut head = self.shelf.get();
        let mut written = bags;
        loop {
            op.send(Batch::of(|batch| write_bags(batch, written, head))).await?;
            written = &bags[last..];
            let found = op.swap_word(SHELF, head.word(), bags[0].at.word()).await?;
            if found == head.word() {
                self.shelf.set(bags[0].at);
                return Ok(());
            }
            head = Ref::from_word(found);
        }
    }

    /// Bytes of a bag where there is so much: so many that others find some, and so few that they are pushed at once.
    pub(super) fn bag_bytes(&self, of: u64) -> u64 {
        (4 * self.chunk_bytes()).max(of / PUSHED as u64)
    }

    /// Gives free memory to the shelf until this client has `keep` bytes.
    pub(super) async fn share(&self, op: &Op<'_, F>, keep: u64) -> Result<()> {
        loop {
            let bags = {
                let mut space = self.space.borrow_mut();
                let some = self.bag_bytes(space.free_bytes());
                space.give(keep, some, PUSHED)
            };
            self.push(op, &bags).await?;
            if bags.len() < PUSHED {
                return Ok(());
            }
        }
    }

    /// Gives all memory to the shelf.
    pub(super) async fn give_back(&self, op: &Op<'_, F>) -> Result<()> {
        let held = || self.space.borrow().held().iter().sum::<u64>();
        while held() > 0 {
            let bags = self.space.borrow_mut().give_waiting(PUSHED);
            self.push(op, &bags).await?;
            if bags.is_empty() {
                self.share(op, 0).await?;
                // There is no block for another bag, but in a chunk.
                if held() > 0 && !self.take_any_chunk(op, BAG_BYTES).await? {
                    self.space.borrow_mut().owed_bytes += held();
                    break;
                }
            }
        }
        Ok(())
    }
}
