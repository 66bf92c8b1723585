//! Cycles in linked lists, which only damage makes.

use durahash_media::{Error, Result};

/// Brent's algorithm: remember the offset at each power-of-two step; reaching it again is a cycle.
#[derive(Default)]
pub(crate) struct CycleDetector {
    steps: u64,
    remembered: u64,
}

impl CycleDetector {
    /// The walk goes from one offset to the next.
    ///
    /// # Errors
    /// `Corrupt`, with `what`, on a cycle; after at most four times as many steps as the cycle and the way to it
    /// are long.
    #[inline]
    pub(crate) fn step(&mut self, from: u64, to: u64, what: &'static str) -> Result<()> {
        self.steps += 1;
        if self.steps.is_power_of_two() {
            self.remembered = from;
        }
        if to == self.remembered {
            return Err(Error::corrupt(what, to));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_noticed_wherever_it_begins() {
        for (length, back_to) in [(1, 1), (2, 1), (9, 1), (9, 9), (100, 37)] {
            let mut cycle = CycleDetector::default();
            let mut at = 1;
            let steps = (1..).find(|_| {
                let next = if at == length { back_to } else { at + 1 };
                cycle.step(std::mem::replace(&mut at, next), next, "cycle").is_err()
            });
            assert!(steps.unwrap() <= 4 * length, "{length} {back_to} {steps:?}");
        }
        let mut cycle = CycleDetector::default();
        assert!((1..1000).all(|at| cycle.step(at, at + 1, "cycle").is_ok()));
    }
}
