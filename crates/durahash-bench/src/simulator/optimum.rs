//! The offline optimum: what is looked up again last goes first (Belady).

use std::collections::BinaryHeap;

use super::cache::Cache;
use super::traces::Trace;

pub(super) struct Optimum {
    /// For each lookup, the next one of the same key; the length of the trace if there is none.
    next: Vec<u32>,
    at: usize,
    /// For each key that is there, its next lookup.
    there: Vec<Option<u32>>,
    /// What is there by its next lookup, and what was so before.
    order: BinaryHeap<(u32, u32)>,
    entries: usize,
    size: usize,
}

impl Optimum {
    pub(super) fn new(trace: &Trace, size: usize) -> Self {
        let end = trace.lookups.len() as u32;
        let mut seen = vec![end; trace.keys];
        let mut next = vec![end; trace.lookups.len()];
        for (at, key) in trace.lookups.iter().enumerate().rev() {
            next[at] = seen[*key as usize];
            seen[*key as usize] = at as u32;
        }
        let (there, order) = (vec![None; trace.keys], BinaryHeap::new());
        Optimum { next, at: 0, there, order, entries: 0, size }
    }
}

impl Cache for Optimum {
    fn access(&mut self, key: u32) -> bool {
        let next = self.next[self.at];
        self.at += 1;
        let found = self.there[key as usize].is_some();
        if !found {
            if self.entries == self.size {
                while let Some((next, victim)) = self.order.pop() {
                    if self.there[victim as usize] == Some(next) {
                        self.there[victim as usize] = None;
                        self.entries -= 1;
                        break;
                    }
                }
            }
            self.entries += 1;
        }
        self.there[key as usize] = Some(next);
        self.order.push((next, key));
        found
    }
}
