//! Lists that damage has made run in a circle.

use durahash_media::{Error, Result};

/// Follows a walk along a list. In a circle it comes back to an element that it passed, and to one of
/// these, which lie ever further apart.
#[derive(Default)]
pub(crate) struct Circle {
    steps: u64,
    passed: u64,
}

impl Circle {
    /// The walk goes from one offset to the next.
    ///
    /// # Errors
    /// `Corrupt`, with `what`, where it was there before; after at most four times as many steps as the
    /// circle and what leads to it are long.
    #[inline]
    pub(crate) fn step(&mut self, from: u64, to: u64, what: &'static str) -> Result<()> {
        self.steps += 1;
        if self.steps.is_power_of_two() {
            self.passed = from;
        }
        if to == self.passed {
            return Err(Error::corrupt(what, to));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_noticed_wherever_it_begins() {
        for (length, back_to) in [(1, 1), (2, 1), (9, 1), (9, 9), (100, 37)] {
            let mut circle = Circle::default();
            let mut at = 1;
            let steps = (1..).find(|_| {
                let next = if at == length { back_to } else { at + 1 };
                circle.step(std::mem::replace(&mut at, next), next, "circle").is_err()
            });
            assert!(steps.unwrap() <= 4 * length, "{length} {back_to} {steps:?}");
        }
        let mut circle = Circle::default();
        assert!((1..1000).all(|at| circle.step(at, at + 1, "circle").is_ok()));
    }
}
