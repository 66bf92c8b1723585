//! Small utilities that know nothing of indexes.

pub(crate) mod arrivals;
pub(crate) mod counter;
pub(crate) mod cycle;
pub(crate) mod parallel;
pub(crate) mod planted;
