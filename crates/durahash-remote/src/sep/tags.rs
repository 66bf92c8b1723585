//! The epochs that a client knows, and the tags of its operations.

use std::collections::{BTreeMap, HashMap};

use crate::planted::{Fault, planted};

use super::layout::Row;

#[derive(Debug)]
pub(super) struct Epochs {
    /// The word of this client's row.
    pub(super) row: Row,
    /// Operations under way by tag.
    pub(super) tags: BTreeMap<u64, u32>,
    /// The latest global epoch seen: the tag of operations that begin now.
    pub(super) latest: u64,
    /// When the last heartbeat that has arrived was posted.
    pub(super) beat_ns: u64,
    /// A swap of the row is under way.
    pub(super) swapping: bool,
    pub(super) ticking: bool,
    pub(super) ticked_ns: u64,
    /// Rows that hold the epoch back: their word, since when, for how many ticks.
    pub(super) behind: HashMap<u32, (Row, u64, u32)>,
}

impl Epochs {
    pub(super) fn new(row: Row, posted_ns: u64) -> Self {
        Epochs {
            row,
            tags: BTreeMap::new(),
            latest: row.epoch(),
            beat_ns: posted_ns,
            swapping: false,
            ticking: false,
            ticked_ns: posted_ns,
            behind: HashMap::new(),
        }
    }

    pub(super) fn enter(&mut self) -> u64 {
        let tag = if planted(Fault::TagOfRow) { self.row.epoch() } else { self.latest };
        *self.tags.entry(tag).or_default() += 1;
        tag
    }

    pub(super) fn again(&mut self, tag: u64) {
        *self.tags.entry(tag).or_default() += 1;
    }

    pub(super) fn leave(&mut self, tag: u64) {
        if let Some(count) = self.tags.get_mut(&tag) {
            *count -= 1;
            if *count == 0 {
                self.tags.remove(&tag);
            }
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.tags.is_empty()
    }
}
