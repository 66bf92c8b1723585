//! The public API.

// From low to high.
pub(crate) mod common;
pub(crate) mod iter;

pub(crate) mod map;
pub(crate) mod multi_map;

pub(crate) mod options;

pub(crate) mod compact;

pub(crate) mod any;
