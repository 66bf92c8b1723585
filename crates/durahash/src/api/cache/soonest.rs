//! Eviction by expiry: of some entries the one that expires soonest.
//!
//! An order of all by expiry would be a word or more in DRAM for each entry, which each change of an expiry goes to, and which
//! an open fills by a read of each. Of eight that are drawn at random, the one that goes is among the first ninth of all, on
//! average; and what has expired is found by most draws where it is a third of all.

use super::bounds::Bounds;
use super::inner::Inner;
use crate::cache::policy::{Evict, Victim};

/// Entries that are drawn for each that goes.
const DRAWN: usize = 8;

impl Inner {
    /// The next to go; the others that were drawn are put back. Entries that never expire go last.
    pub(super) fn soonest(&self, bounds: &Bounds, order: &dyn Evict) -> Option<Victim> {
        // Others that find nothing to evict wait for what is put back.
        let _hand = bounds.hand();
        let mut drawn: Vec<Victim> = (0..DRAWN).map_while(|_| order.next_victim()).collect();
        let engine = &*self.handle.engine;
        engine.index.prefetch(&drawn.iter().map(|victim| victim.hash).collect::<Vec<_>>());
        let mut expiries = Vec::new();
        let mut expiry = |victim: &Victim| {
            // What is damaged or gone goes first, and is met there.
            let read = engine.expiries(victim.hash, &mut expiries).ok();
            // Never, which is 0, is behind all.
            read.and_then(|()| expiries.iter().map(|expiry| expiry.wrapping_sub(1)).min())
        };
        let soonest = (0..drawn.len()).min_by_key(|i| expiry(&drawn[*i]))?;
        let victim = drawn.swap_remove(soonest);
        drawn.iter().for_each(|victim| order.inserted(victim.hash));
        Some(victim)
    }
}
