//! Caches that are simulated: which part of the lookups of a trace finds its key, by policy and size. One thread, no
//! clock, and no values: a key that is not found is inserted, as a cache does that reads it from elsewhere.

// From low to high.
mod cache;
mod list;
pub(crate) mod traces;

mod lru;
mod optimum;
mod tiny_lfu;

use durahash::policy::{Evict, Policy};
use durahash_media::hash::WordMix;

use crate::named::named;
use cache::Cache;
use lru::Lru;
use optimum::Optimum;
use tiny_lfu::TinyLfu;
use traces::Trace;

named! {
    /// What durahash's policies are held against.
    pub(crate) enum Reference {
        Lru = "exact LRU",
        TinyLfu = "W-TinyLFU",
        Optimum = "optimum",
    }
}

/// The lookups that found their key, and the bytes of DRAM that the policy takes in the end, where that is known.
pub(crate) struct Counted {
    pub(crate) hits: u64,
    pub(crate) bytes: Option<u64>,
}

/// The policies of durahash that evict, but the one that goes by expiry: nothing expires here, so it is as the one at random.
pub(crate) fn evicting() -> impl Iterator<Item = Policy> {
    let others = [Policy::None, Policy::Soonest];
    Policy::ALL.iter().copied().filter(move |policy| !others.contains(policy))
}

/// The hits of a policy of durahash, in a cache of `size` entries.
pub(crate) fn of_policy(policy: Policy, trace: &Trace, size: usize) -> Counted {
    let mut cache = Evicting::new(policy, trace, size);
    let hits = hits(&mut cache, &trace.lookups);
    Counted { hits, bytes: Some(cache.evict.bytes()) }
}

/// The hits of so many lookups behind the middle of a trace: of a cache that goes on, and of one that was opened again there.
pub(crate) fn of_restart(policy: Policy, trace: &Trace, size: usize, lookups: usize) -> [u64; 2] {
    let (before, behind) = trace.lookups.split_at(trace.lookups.len() / 2);
    [false, true].map(|restarts| {
        let mut cache = Evicting::new(policy, trace, size);
        hits(&mut cache, before);
        if restarts {
            cache.open_again(policy);
        }
        hits(&mut cache, &behind[..lookups.min(behind.len())])
    })
}

/// The hits of what it is held against.
pub(crate) fn of_reference(reference: Reference, trace: &Trace, size: usize) -> Counted {
    let hits = match reference {
        Reference::Lru => hits(&mut Lru::new(trace.keys, size), &trace.lookups),
        Reference::TinyLfu => hits(&mut TinyLfu::new(trace.keys, size), &trace.lookups),
        Reference::Optimum => hits(&mut Optimum::new(trace, size), &trace.lookups),
    };
    Counted { hits, bytes: None }
}

fn hits(cache: &mut impl Cache, lookups: &[u32]) -> u64 {
    lookups.iter().map(|key| u64::from(cache.access(*key))).sum()
}

/// A cache with a policy of durahash.
struct Evicting {
    evict: Box<dyn Evict>,
    hashes: WordMix,
    there: Vec<bool>,
    entries: usize,
    size: usize,
}

impl Evicting {
    fn new(policy: Policy, trace: &Trace, size: usize) -> Self {
        let evict = policy.state(size as u64, u64::MAX).expect("it evicts");
        let hashes = WordMix::new(size as u64);
        Evicting { evict, hashes, there: vec![false; trace.keys], entries: 0, size }
    }

    /// The entries stay, and the policy begins anew with them and with what it has saved, as behind a close.
    fn open_again(&mut self, policy: Policy) {
        let saved: Vec<u64> = (0..).map_while(|part| self.evict.save(part)).flatten().collect();
        self.evict = policy.state(self.size as u64, u64::MAX).expect("it evicts");
        let keys = (0..self.there.len() as u32).filter(|key| self.there[*key as usize]);
        self.evict.restore(keys.map(|key| self.hashes.mix(u64::from(key))).collect(), &saved);
    }
}

impl Cache for Evicting {
    fn access(&mut self, key: u32) -> bool {
        let hash = self.hashes.mix(u64::from(key));
        if self.there[key as usize] {
            self.evict.hit(hash);
            return true;
        }
        if self.entries == self.size {
            let victim = self.evict.victim().expect("it has entries");
            self.there[self.hashes.unmix(victim) as usize] = false;
            self.entries -= 1;
        }
        self.evict.inserted(hash);
        self.there[key as usize] = true;
        self.entries += 1;
        false
    }
}

#[cfg(test)]
mod tests;
