//! The public API.

// From low to high.
pub(crate) mod common;
pub(crate) mod iter;

pub(crate) mod map;
pub(crate) mod multi_map;

pub(crate) mod any;

pub(crate) mod batch;
pub(crate) mod scan;
pub(crate) mod update;

pub(crate) mod cache;
mod raw;

pub(crate) mod openable;

pub(crate) mod options;

pub(crate) mod collect;

pub(crate) mod pool;
