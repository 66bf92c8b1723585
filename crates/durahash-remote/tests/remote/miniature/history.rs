//! Operations and their answers, and a check that one order of them explains the answers.
//!
//! Keys are independent, so each has a history of its own: a register that holds a value or, 0,
//! nothing. An operation takes effect at one instant between its begin and its end; one whose client
//! died took effect at some instant after its begin, or never. The search is that of Wing and Gong,
//! with Lowe's memory of what was tried.

use std::collections::HashSet;

/// Values are different from one another and from 0, which is "nothing".
pub(crate) type Value = u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Get,
    Put(Value),
    Delete,
    InsertIfAbsent(Value),
    CompareAndSet(Value, Value),
    GetAndPut(Value),
}

impl Kind {
    /// The register's next value, and the answer.
    fn apply(self, held: Value) -> (Value, Value) {
        match self {
            Self::Get => (held, held),
            Self::Put(value) => (value, 0),
            Self::Delete => (0, 0),
            Self::InsertIfAbsent(value) if held == 0 => (value, 1),
            Self::CompareAndSet(old, new) if held == old => (new, 1),
            Self::InsertIfAbsent(_) | Self::CompareAndSet(..) => (held, 0),
            Self::GetAndPut(value) => (value, held),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) client: usize,
    pub(crate) key: usize,
    pub(crate) kind: Kind,
    pub(crate) begin: u64,
    /// When it ended, and the answer.
    pub(crate) end: Option<(u64, Value)>,
}

/// Returns whether an order explains the answers about one key. At most 64 operations.
pub(crate) fn linearizable(history: &[Operation]) -> bool {
    assert!(history.len() <= 64, "a set of operations is one word");
    let ended = history.iter().enumerate().filter(|(_, op)| op.end.is_some());
    let must = ended.fold(0u64, |set, (i, _)| set | 1 << i);
    let mut seen = HashSet::new();
    let mut open = vec![(0u64, 0)];
    while let Some((done, held)) = open.pop() {
        if done & must == must {
            return true;
        }
        let rest = || history.iter().enumerate().filter(|(i, _)| done & 1 << i == 0);
        let first_end = rest().filter_map(|(_, op)| op.end).map(|(end, _)| end).min();
        for (i, op) in rest().filter(|(_, op)| first_end.is_none_or(|end| op.begin < end)) {
            let (after, answer) = op.kind.apply(held);
            let next = (done | 1 << i, after);
            if op.end.is_none_or(|(_, given)| given == answer) && seen.insert(next) {
                open.push(next);
            }
        }
    }
    false
}

#[test]
fn histories_by_hand() {
    let op = |kind, begin, end| Operation { client: 0, key: 0, kind, begin, end };
    use Kind::{Delete, Get, InsertIfAbsent, Put};
    assert!(linearizable(&[]));
    assert!(linearizable(&[op(Put(1), 0, None), op(Get, 1, Some((2, 0)))]));
    assert!(linearizable(&[op(Put(1), 0, None), op(Get, 1, Some((2, 1)))]));
    // What was seen once stays.
    let seen = [op(Put(1), 0, None), op(Get, 1, Some((2, 1))), op(Get, 3, Some((4, 0)))];
    assert!(!linearizable(&seen));
    let deleted = [op(Put(1), 0, Some((1, 0))), op(Delete, 2, None), op(Get, 3, Some((4, 0)))];
    assert!(linearizable(&deleted));
    let twice = [op(InsertIfAbsent(1), 0, Some((3, 1))), op(InsertIfAbsent(2), 1, Some((2, 1)))];
    assert!(!linearizable(&twice));
}
