//! What a node does for its clients, counted.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::fabric::{Kind, Verb};

/// Counts of one connection, which only its thread adds to.
#[derive(Default)]
pub(super) struct Work([AtomicU64; Work::COUNTS]);

impl Work {
    /// The kinds of verbs, in the order of their counts, which come first.
    pub(super) const VERBS: [&'static str; 4] = ["read", "write", "compare_swap", "fetch_add"];
    /// Bytes that came, and bytes that went.
    pub(super) const RECEIVED: usize = Self::VERBS.len();
    pub(super) const SENT: usize = Self::RECEIVED + 1;
    pub(super) const COUNTS: usize = Self::SENT + 1;

    fn add(&self, which: usize, count: u64) {
        // Nobody else adds.
        let count = self.0[which].load(Ordering::Relaxed).wrapping_add(count);
        self.0[which].store(count, Ordering::Relaxed);
    }

    pub(super) fn ran(&self, verbs: &[Verb]) {
        let mut counts = [0; Self::VERBS.len()];
        for verb in verbs {
            counts[match verb.kind {
                Kind::Read => 0,
                Kind::Write => 1,
                Kind::CompareSwap { .. } => 2,
                Kind::FetchAdd { .. } => 3,
            }] += 1;
        }
        counts.into_iter().enumerate().for_each(|(which, count)| self.add(which, count));
    }

    pub(super) fn received(&self, bytes: usize) {
        self.add(Self::RECEIVED, bytes as u64);
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.add(Self::SENT, bytes as u64);
    }

    pub(super) fn add_to(&self, sum: &mut [u64; Self::COUNTS]) {
        for (sum, count) in sum.iter_mut().zip(&self.0) {
            *sum = sum.wrapping_add(count.load(Ordering::Relaxed));
        }
    }
}

/// How clients have ended.
#[derive(Default)]
pub(super) struct Ends([AtomicU64; End::ALL.len()]);

/// How a client has ended, at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Left,
    /// Its connection has ended: its process, or the way to it.
    Gone,
    /// Another client, or who watches over the node, has evicted it.
    Barred,
    Silent,
    Clogged,
    Wrong,
}

impl End {
    /// All of them, by what figures call them.
    const ALL: [(End, &'static str); 6] = [
        (End::Left, "left"),
        (End::Gone, "gone"),
        (End::Barred, "evicted"),
        (End::Silent, "silent"),
        (End::Clogged, "clogged"),
        (End::Wrong, "wrong"),
    ];

    /// Why the node has ended the client.
    pub(super) const fn why(self) -> Option<&'static str> {
        match self {
            End::Left | End::Gone => None,
            End::Barred => Some("another client has lost it, or it was to be evicted"),
            End::Silent => Some("it was silent for too long"),
            End::Clogged => Some("it took no answers for too long"),
            End::Wrong => Some("it sent what is no request"),
        }
    }
}

impl Ends {
    pub(super) fn add(&self, end: End) {
        self.0[end as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&'static str, u64)> {
        End::ALL.iter().map(|&(end, name)| (name, self.0[end as usize].load(Ordering::Relaxed)))
    }
}
