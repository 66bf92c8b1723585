//! Caches: maps that keep to a bound by evicting.

pub(crate) mod policy;
