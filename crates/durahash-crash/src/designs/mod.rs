//! The designs under test, each in geometry so tiny that a handful of keys reaches every path.

mod reh;

pub use reh::RehSubject;
