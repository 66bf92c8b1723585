//! The results of conditional changes.

/// The result of [`Map::try_insert`](crate::Map::try_insert) or
/// [`Map::compare_exchange`](crate::Map::compare_exchange).
///
/// ```
/// use durahash::{Options, Outcome};
/// let map = Options::new().in_memory::<durahash::Map<u64, u64>>()?;
/// assert_eq!(map.try_insert(&1, &10)?, Outcome::Done);
/// assert_eq!(map.try_insert(&1, &11)?, Outcome::Present(10));
/// assert_eq!(map.compare_exchange(&2, &10, &11)?, Outcome::Absent);
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub enum Outcome<V = ()> {
    /// The change was made.
    Done,
    /// Nothing was changed: the key is there with this value, another than was expected.
    Present(V),
    /// Nothing was changed: the key is not there.
    Absent,
}

impl<V> Outcome<V> {
    /// True if the change was made.
    ///
    /// ```
    /// let map = durahash::Options::new().in_memory::<durahash::Map<u64, u64>>()?;
    /// assert!(map.try_insert(&1, &10)?.is_done());
    /// # Ok::<(), durahash::Error>(())
    /// ```
    pub const fn is_done(&self) -> bool {
        matches!(self, Outcome::Done)
    }
}
