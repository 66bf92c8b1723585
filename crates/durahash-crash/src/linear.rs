//! Linearizability of one key, with crashes: a search in the manner of Wing, Gong and Lowe.
//!
//! Operations on different keys commute, so each key has a history of its own: a register that is
//! put, removed and read, or a bag of values. Each operation takes effect at one instant between its begin and its end;
//! one that has not ended took effect at some instant after its begin, or never. [`outcomes`] gives
//! every value that the key may have once all that has ended is explained. None at all means that
//! the history is not linearizable. A value found after a crash that is not among them means that
//! an acknowledged operation was lost, or that one of the answers given before the crash was a
//! value that the crash took back: the map is not *strictly* durable then.

use crate::script::Op;

/// An operation of a history.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// It answers with the value that the key had.
    pub op: Op,
    /// When it began.
    pub begin: u64,
    /// When it ended, and what it answered; nothing while it is under way.
    pub end: Option<(u64, Option<u64>)>,
}

/// Every value that the key may have after `history`, which began with the value `initial`. Empty
/// where nothing explains the answers.
///
/// # Panics
/// When the history has more than 64 operations.
#[must_use]
pub fn outcomes(initial: Option<u64>, history: &[Operation]) -> Vec<Option<u64>> {
    let times: Vec<_> = history.iter().map(|op| (op.begin, op.end.map(|(end, _)| end))).collect();
    outcomes_by(initial, &times, &|i, value| {
        let Operation { op, end, .. } = history[i];
        let is_explained = end.is_none_or(|(_, answer)| answer == op.answer(value));
        is_explained.then(|| op.outcome(value))
    })
}

/// The same of operations that began and ended at these times. `step` says what an operation makes of a value; `None`
/// where that does not explain its answer.
///
/// # Panics
/// When there are more than 64.
#[must_use]
pub fn outcomes_by(
    initial: Option<u64>,
    times: &[(u64, Option<u64>)],
    step: &dyn Fn(usize, Option<u64>) -> Option<Option<u64>>,
) -> Vec<Option<u64>> {
    assert!(times.len() <= 64, "a set of operations is one word");
    let mut search = Search { times, step, seen: Vec::new(), outcomes: Vec::new() };
    search.go(0, initial);
    search.outcomes
}

struct Search<'a> {
    times: &'a [(u64, Option<u64>)],
    step: &'a dyn Fn(usize, Option<u64>) -> Option<Option<u64>>,
    /// Sets of operations that took effect, with the value that they left.
    seen: Vec<(u64, Option<u64>)>,
    outcomes: Vec<Option<u64>>,
}

impl Search<'_> {
    fn go(&mut self, done: u64, value: Option<u64>) {
        if self.seen.contains(&(done, value)) {
            return;
        }
        self.seen.push((done, value));
        let rest = || self.times.iter().enumerate().filter(|(i, _)| done & 1 << i == 0);
        // Whatever takes effect next began before the first end among those that are left.
        let first_end = rest().filter_map(|(_, (_, end))| *end).min();
        if first_end.is_none() && !self.outcomes.contains(&value) {
            self.outcomes.push(value);
        }
        let next: Vec<(usize, Option<u64>)> = rest()
            .filter(|(_, (begin, _))| first_end.is_none_or(|end| *begin < end))
            .filter_map(|(i, _)| Some((i, (self.step)(i, value)?)))
            .collect();
        for (i, value) in next {
            self.go(done | 1 << i, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(op: Op, begin: u64, end: u64, answer: Option<u64>) -> Operation {
        Operation { op, begin, end: Some((end, answer)) }
    }

    fn pending(op: Op, begin: u64) -> Operation {
        Operation { op, begin, end: None }
    }

    #[test]
    fn histories_by_hand() {
        let (get, remove) = (Op::Get(0), Op::Remove(0));
        let (put, insert) = (|v| Op::Put(0, v), |v| Op::Insert(0, v));
        let cases: [(&[Operation], &[Option<u64>]); 8] = [
            (&[], &[None]),
            (&[ended(put(1), 0, 1, None)], &[Some(1)]),
            (&[pending(put(1), 0)], &[None, Some(1)]),
            // A read that saw a write under way binds it.
            (&[pending(put(1), 0), ended(get, 1, 2, Some(1))], &[Some(1)]),
            // Overlapping writes in either order; one after the other in theirs.
            (&[ended(put(1), 0, 3, Some(2)), ended(put(2), 1, 2, None)], &[Some(1)]),
            (&[ended(put(1), 0, 1, Some(2)), ended(put(2), 2, 3, None)], &[]),
            // Nobody can have read what was overwritten before.
            (
                &[
                    ended(put(1), 0, 1, None),
                    ended(put(2), 2, 3, Some(1)),
                    ended(get, 4, 5, Some(1)),
                ],
                &[],
            ),
            (
                &[ended(insert(1), 0, 9, Some(2)), pending(put(2), 1), pending(remove, 2)],
                &[Some(2), None],
            ),
        ];
        for (history, expected) in cases {
            let mut found = outcomes(None, history);
            let mut expected = expected.to_vec();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{history:?}");
        }
    }
}
