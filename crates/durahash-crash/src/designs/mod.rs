//! The designs under test, each in geometry so tiny that a handful of keys reaches every path.

mod map;
mod multi;
mod pea;
mod pool;
mod reh;

pub use map::{MapSubject, PeaMapSubject, RehMapSubject};
pub use multi::{PeaMultiFullSubject, PeaMultiMapSubject, PeaMultiSubject, PeaMultiWithin};
pub use pea::{PeaFullSubject, PeaSubject, PeaWithin};
pub use reh::{RehFullSubject, RehSubject, RehWithin};
