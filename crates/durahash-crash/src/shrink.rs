//! Making a failing script small.

use crate::case::Case;
use crate::run::{Failure, Look, Tester};
use crate::script::Op;

/// How many shorter scripts are tried.
const TRIES: usize = 400;

/// The failure with as few operations as still lead to one.
pub fn smallest(case: &Case, failure: Box<Failure>) -> Box<Failure> {
    let mut smallest = failure;
    let model = smallest.model;
    let base = Tester::new(case, model).base(smallest.prefill);
    let Ok(Some(base)) = base else {
        return smallest;
    };
    shrink(&smallest.ops.clone(), TRIES, |ops| {
        // Nothing counts as seen before.
        let again = Tester::new(case, model).script(&base, ops, Look::All);
        again.map_err(|failure| smallest = failure).is_err()
    });
    smallest
}

/// Removes operations from `ops`, in ever smaller runs, for as long as `fails` still says so of what
/// is left; asks at most `tries` times.
pub fn shrink(ops: &[Op], tries: usize, mut fails: impl FnMut(&[Op]) -> bool) -> Vec<Op> {
    let mut ops = ops.to_vec();
    let mut left = tries;
    let mut run = ops.len().div_ceil(2);
    while run > 0 {
        let mut at = 0;
        let mut removed = false;
        while at < ops.len() && left > 0 {
            left -= 1;
            let mut fewer = ops.clone();
            fewer.drain(at..ops.len().min(at + run));
            if fails(&fewer) {
                ops = fewer;
                removed = true;
            } else {
                at += run;
            }
        }
        if run == 1 && !removed || left == 0 {
            break;
        }
        run = if run == 1 { 1 } else { run.div_ceil(2) };
    }
    ops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_that_do_not_matter_go() {
        let ops: Vec<Op> = (0..100).map(Op::Get).collect();
        let needed = [Op::Get(3), Op::Get(40), Op::Get(97)];
        let fails = |ops: &[Op]| needed.iter().all(|op| ops.contains(op));
        assert_eq!(shrink(&ops, 1000, fails), needed);
    }
}
