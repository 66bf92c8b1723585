//! Everything that is asked of the library from outside, in one program; `tests/kill.rs` apart, which
//! starts processes of itself.

mod any;
mod concurrent;
mod costs;
mod esh;
mod faults;
mod format;
mod images;
mod imports;
mod index;
mod layers;
mod logged;
mod model;
mod multi;
mod pea;
mod records;
mod rewo;
