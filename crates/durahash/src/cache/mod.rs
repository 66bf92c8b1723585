//! What a [`Cache`](crate::Cache) is told beside its pool: the clock by which its entries expire.

// From low to high.
pub(crate) mod clock;

pub use clock::Clock;
