//! What a [`Cache`](crate::Cache) is told beside its pool: the clock by which its entries expire, and the policy by which
//! they go where it has a bound.

// From low to high.
pub(crate) mod clock;
pub(crate) mod planted;
pub(crate) mod policy;

pub use clock::Clock;
pub use policy::Policy;
