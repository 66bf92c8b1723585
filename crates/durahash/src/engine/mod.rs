//! Maps and multimaps without type parameters: an index, a pool, and byte strings in the pool. Compiled once,
//! whatever the types of keys and values are.

// From low to high.
pub(crate) mod data;
pub(crate) mod design;
pub(crate) mod durable;
pub(crate) mod outcome;
pub(crate) mod record;

pub(crate) mod stats;

pub(crate) mod core;

pub(crate) mod map;
pub(crate) mod text;

pub(crate) mod chain;

pub(crate) mod multi_map;

pub(crate) mod entries;
pub(crate) mod open;
