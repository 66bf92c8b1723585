//! The designs, each an [`Index`](crate::index::Index) over a pool. None uses another.

pub mod esh;
pub mod pea;
pub mod reh;
pub mod rewo;
