//! Lease words of clients, in the fabric's own pages.
//!
//! Every region begins with pages of the fabric itself. In the file of a node there is one, which begins with what
//! identifies the file:
//!
//! ```text
//! off  0  the file's own, else zeros
//!    128  id of the region
//!    136  a number that changes at least every 20 ms while the node serves the region
//!    512  the lease word of each row; those of node 0 count
//! ```
//!
//! In a file they outlive the node. A client of the last node cannot reach the next one, so it no longer renews its
//! lease; but it may still have verbs under way to other nodes, so its row is not free before it is evicted.
//!
//! | step | state if the client dies then |
//! |---|---|
//! | take a row: swap it from free to live, of the next incarnation | a row to be evicted |
//! | renew: swap it to the same with the next beat | the same |
//! | leave: when all verbs have taken effect, swap it to free | a free row |
//! | evict: swap it from live to evicting | a row to be evicted |
//! | half a lease later: swap it from evicting to free | a free row |

use std::time::Duration;

use durahash_media::NodeFile;

/// Rows at most.
pub(crate) const ROWS_MAX: u32 = 4096;
/// A quarter of a lease is longer than a round trip takes on any network.
pub(crate) const LEASE_MIN: Duration = Duration::from_secs(1);
/// The longest wait for a row.
pub(crate) const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes of a region at most.
pub(crate) const REGION_BYTES_MAX: u64 = 1 << 47;
/// Offset of the region's id.
pub(crate) const ID_OFF: usize = NodeFile::FABRIC_OFF;
/// Offset of the node's beat.
pub(crate) const BEAT_OFF: usize = ID_OFF + 8;
const ROWS_OFF: u64 = 512;
/// Regions consist of whole pages.
pub(crate) const PAGE: u64 = 4096;

/// Bytes of the fabric's own pages in each region's memory.
pub(crate) fn own_bytes(rows: u32) -> u64 {
    (ROWS_OFF + 8 * u64::from(rows)).next_multiple_of(PAGE)
}

/// Offset of the lease word of a row.
pub(crate) fn lease_off(row: u32) -> u64 {
    ROWS_OFF + 8 * u64::from(row)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Live,
    Evicting,
}

/// A lease word: state in 2 bits, beat in 30, incarnation in 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lease(pub(crate) u64);

const BEAT_MASK: u32 = u32::MAX >> 2;

impl Lease {
    fn new(state: State, beat: u32, incarnation: u32) -> Self {
        let state = match state {
            State::Free => 0,
            State::Live => 1,
            State::Evicting => 2,
        };
        Lease(u64::from(incarnation) << 32 | u64::from(beat & BEAT_MASK) << 2 | state)
    }

    pub(crate) fn state(self) -> State {
        match self.0 & 3 {
            0 => State::Free,
            1 => State::Live,
            // An eviction frees a damaged word.
            _ => State::Evicting,
        }
    }

    fn beat(self) -> u32 {
        (self.0 >> 2) as u32 & BEAT_MASK
    }

    fn incarnation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Taken by a client.
    pub(crate) fn taken(self) -> Self {
        Lease::new(State::Live, 0, self.incarnation().wrapping_add(1))
    }

    /// With the next beat.
    pub(crate) fn beaten(self) -> Self {
        Lease::new(State::Live, self.beat().wrapping_add(1), self.incarnation())
    }

    /// Of the same client, in another state.
    pub(crate) fn with(self, state: State) -> Self {
        Lease::new(state, self.beat(), self.incarnation())
    }

    /// Returns whether it is of the same client, and live.
    pub(crate) fn lives_as(self, other: Lease) -> bool {
        self.state() == State::Live && self.incarnation() == other.incarnation()
    }
}

/// Lease words that a client without a row has seen.
#[derive(Default)]
pub(crate) struct Silence(Option<Vec<u64>>);

/// How to get a row when none is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Read the words again a lease later.
    Wait,
    /// The client of this row was silent for a lease. The eviction takes time, so afterwards the wait for the others
    /// begins again.
    Silent(u32),
    /// All clients have renewed their leases.
    Life,
}

impl Silence {
    pub(crate) fn look(&mut self, words: Vec<u64>) -> Look {
        let Some(before) = self.0.take() else {
            self.0 = Some(words);
            return Look::Wait;
        };
        let silent = (0..).zip(before.iter().zip(&words)).find(|(_, (then, now))| then == now);
        silent.map_or(Look::Life, |(row, _)| Look::Silent(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evicted_client_was_silent_for_a_whole_lease() {
        let mut silence = Silence::default();
        assert_eq!(silence.look(vec![5, 7]), Look::Wait);
        assert_eq!(silence.look(vec![5, 8]), Look::Silent(0));
        // Another has the row that was freed, half a lease later; the second one need not have beaten.
        assert_eq!(silence.look(vec![9, 8]), Look::Wait);
        assert_eq!(silence.look(vec![9, 8]), Look::Silent(0));
        assert_eq!(silence.look(vec![1, 1]), Look::Wait);
        assert_eq!(silence.look(vec![2, 2]), Look::Life);
    }

    #[test]
    fn a_row_has_its_parts_in_its_word() {
        let taken = Lease(0).taken();
        assert_eq!((taken.state(), taken.beat(), taken.incarnation()), (State::Live, 0, 1));
        let last = Lease::new(State::Live, BEAT_MASK, u32::MAX);
        assert_eq!((last.beat(), last.beaten().beat()), (BEAT_MASK, 0));
        assert!(last.beaten().lives_as(last) && !last.lives_as(last.taken()));
        assert_eq!(last.taken().incarnation(), 0);
        let evicting = last.with(State::Evicting);
        assert!(evicting.state() == State::Evicting && !evicting.lives_as(last));
        assert_eq!(evicting.with(State::Live), last);
        assert_eq!(Lease(3).state(), State::Evicting);
        assert_eq!((own_bytes(1), own_bytes(448), own_bytes(449)), (4096, 4096, 8192));
        assert!(lease_off(ROWS_MAX - 1) + 8 <= own_bytes(ROWS_MAX));
    }
}
