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
    /// Ticks until this client looks at the rows of all: among many clients, few do so in a tick.
    pub(super) until_look: Option<u32>,
    /// Live clients, at the last look.
    pub(super) live: u32,
    /// The row whose client the fabric was last asked about.
    pub(super) asked: u32,
}

/// Looks for which a row must keep the epoch back before the fabric is asked whether its client is dead.
pub(super) const PATIENCE: u32 = 3;
/// Clients that the fabric is asked about in a look, of those that turn out to live: idle ones are behind most of the time.
pub(super) const ASKS: usize = 4;
/// Clients that look at the rows of all in a tick, among many.
const LOOKERS: u32 = 8;
/// Ticks until a client that waits for the epoch looks: most of those that lived may be dead.
const HURRIED: u32 = 16;

/// Whether a client rests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    No,
    /// It gives its memory up. Its row is live.
    Begins,
    Yes,
    /// It gives its row up, or registers. Its row may be live or free.
    Ends,
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
            until_look: None,
            live: 1,
            asked: 0,
        }
    }

    /// Returns whether it is this client's turn to look at the rows of all.
    pub(super) fn is_to_look(&mut self) -> bool {
        self.until_look = self.until_look.map(|ticks| ticks.saturating_sub(1));
        self.until_look.unwrap_or(0) == 0
    }

    /// The client has registered once more.
    pub(super) fn again_from(&mut self, new: Epochs) {
        let asked = self.asked;
        *self = Epochs { asked, ticking: self.ticking, swapping: self.swapping, ..new };
    }

    /// This client waits for the epoch.
    pub(super) fn hurry(&mut self) {
        self.until_look = self.until_look.map(|ticks| ticks.min(HURRIED));
    }

    /// Notes a look of the client in `row`, which has seen so many live ones.
    pub(super) fn looked(&mut self, row: u32, live: usize) {
        self.live = live as u32;
        let every = self.live / LOOKERS;
        // A row that has not moved since the look before may be that of a dead client: the next look will tell.
        let suspects = self.behind.values().any(|(_, _, looks)| *looks == PATIENCE - 1);
        self.until_look = Some(match self.until_look {
            _ if suspects => 0,
            // Clients that came together take turns.
            None => 1 + row % every.max(1),
            Some(_) => every,
        });
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
