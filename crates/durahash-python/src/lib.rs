//! durahash for Python: the module `durahash._native`, which the package in `python/durahash` makes its classes of.
//!
//! Keys and values go between Python and a pool as the bytes that the pool keeps (`AnyMap::get_raw` and the like), so
//! that one class serves maps of all types. A cache keeps bytes that say what they are. The interpreter's lock is released
//! around what may wait or take long: all of an open, a close and a batch, what copies large or many values, every
//! operation in the mode `strict`, and a change for which a log or a live image may have no room. Another operation takes
//! less time than to release the lock and take it again, so it keeps it. No code of Python runs while the
//! library holds a lock of its own; so no thread waits for the interpreter and for a bucket at once.
//!
//! The crate stands outside the workspace: who builds and tests the library in Rust builds neither PyO3 nor needs a
//! Python, and who builds this needs no part of the workspace but the libraries.

#![forbid(unsafe_code)]

// From low to high.
mod error;
mod kind;
mod open;

mod clock;
mod plain;

mod number;

mod codec;

mod column;
mod core;

mod flags;

mod cache;
mod common;
mod map;
mod multi_map;

mod many;
mod shard;
mod whole;

use pyo3::prelude::*;

#[cfg(not(target_endian = "little"))]
compile_error!("arrays are taken as they are, in the byte order of the pool");

/// The native half of the package durahash.
// Without the interpreter's lock threads would wait for one another at that of a `Core`.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<map::Map>()?;
    module.add_class::<multi_map::MultiMap>()?;
    module.add_class::<cache::Cache>()?;
    module.add_class::<clock::Clock>()?;
    module.add_class::<common::Entries>()?;
    module.add_function(wrap_pyfunction!(shard::split, module)?)
}
