//! Extendible hashing, as far as designs share it: which hashes an entry covers, the directory in DRAM and
//! on the medium, and figures.

// From low to high.
pub(crate) mod count;
pub(crate) mod extend;
pub(crate) mod free;
pub(crate) mod unit;

pub(crate) mod growth;

pub(crate) mod directory;

pub(crate) mod array;
