//! How much a run does: the suite, which is over in a minute, or a deep run.
//!
//! What is done is the same in both, and so are the seeds; a deep run does more of it.

use std::ops::Range;

use durahash_media::sim::budget;

/// A tier, and where its seeds begin.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Whether this is a deep run.
    pub deep: bool,
    /// Added to every seed that a deep run draws scripts and schedules from, so that runs differ.
    pub seed: u64,
}

impl Budget {
    /// That of this process: deep where `DURAHASH_DEEP` is set, from `DURAHASH_SEED` on.
    ///
    /// # Panics
    /// When `DURAHASH_SEED` is not a number.
    #[must_use]
    pub fn get() -> Self {
        let seed = std::env::var("DURAHASH_SEED");
        let seed = seed.map_or(0, |seed| seed.parse().expect("DURAHASH_SEED is a number"));
        Budget { deep: budget(false, true), seed }
    }

    /// One of two numbers.
    #[must_use]
    pub fn of<T>(self, suite: T, deep: T) -> T {
        if self.deep { deep } else { suite }
    }

    /// Seeds of so many scripts.
    #[must_use]
    pub fn seeds(self, suite: u64, deep: u64) -> Range<u64> {
        self.seed..self.seed + self.of(suite, deep)
    }

    /// Of many crash states at a point, about one in so many is opened.
    #[must_use]
    pub fn one_in(self, suite: u64) -> u64 {
        self.of(suite, 1)
    }

    /// Every so manieth of what is all tried in a deep run.
    #[must_use]
    pub fn every(self, suite: usize) -> usize {
        self.of(suite, 1)
    }

    /// Schedules of three threads.
    #[must_use]
    pub fn schedules(self) -> usize {
        self.of(100, 2500)
    }

    /// Of how many schedules one has its crash states visited where words have no order: there are so
    /// many states.
    #[must_use]
    pub fn word_every(self) -> u64 {
        self.of(20, 8)
    }

    /// Cuts of the power under a log.
    #[must_use]
    pub fn cuts(self) -> u64 {
        self.of(1500, 10_000)
    }

    /// Rounds of real threads.
    #[must_use]
    pub fn rounds(self) -> u64 {
        self.of(2_000, 30_000)
    }
}
