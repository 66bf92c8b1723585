//! What came of a conditional change.

/// What came of [`Map::try_insert`](crate::Map::try_insert) or
/// [`Map::compare_exchange`](crate::Map::compare_exchange).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Outcome {
    /// The change was made.
    Done,
    /// Nothing was changed: the key is there (with another value than was expected).
    Present,
    /// Nothing was changed: the key is not there.
    Absent,
}
