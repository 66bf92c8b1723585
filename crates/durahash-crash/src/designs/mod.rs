//! The designs under test, each in geometry so tiny that a handful of keys reaches every path.

mod reh;
mod reh_map;

pub use reh::{RehFullSubject, RehSubject, RehWithin};
pub use reh_map::RehMapSubject;
