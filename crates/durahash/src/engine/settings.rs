//! How pools are made and opened: what [`Options`](crate::Options) sets.

use std::path::PathBuf;

use durahash_media::{Dax, Geometry, MappedOptions, SyncMode};

use super::data::Type;
use super::design::Design;
use crate::cache::{self, Clock};
use crate::designs::pea::Policy;
use crate::designs::rewo::Cache;

/// Bytes that a log has at the most, unless set.
pub(crate) const LOG_BYTES: u64 = 64 << 20;
/// The same of the ring beside a live image: with much less, two busy threads would wait for checkpoints; with more, the check
/// words of a new pool would take it beyond a mebibyte.
pub(crate) const RING_BYTES: u64 = 160 << 20;

/// The options of designs, which may differ from open to open.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DesignOptions {
    pub(crate) policy: Policy,
    pub(crate) cache: Cache,
}

/// The options of caches, which may differ from open to open.
#[derive(Clone, Debug)]
pub(crate) struct CacheOptions {
    pub(crate) clock: Clock,
    pub(crate) sweep: bool,
    pub(crate) max_entries: Option<u64>,
    pub(crate) max_bytes_used: Option<u64>,
    pub(crate) eviction: Option<cache::Policy>,
    pub(crate) keep_evicted: bool,
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions {
            clock: Clock::system(),
            sweep: true,
            max_entries: None,
            max_bytes_used: None,
            eviction: None,
            keep_evicted: false,
        }
    }
}

/// See [`Options`](crate::Options), method by method.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) design: Option<Design>,
    pub(crate) types: Option<(Type, Type)>,
    pub(crate) seed: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) dax: Dax,
    pub(crate) force_flushes: bool,
    pub(crate) read_only: bool,
    pub(crate) readers: bool,
    pub(crate) accept_suspect: bool,
    pub(crate) verify: bool,
    pub(crate) warm: bool,
    pub(crate) sync_mode: Option<SyncMode>,
    pub(crate) log_bytes: Option<u64>,
    pub(crate) private_bytes: Option<u64>,
    pub(crate) live_image: Option<bool>,
    pub(crate) live_dir: Option<PathBuf>,
    pub(crate) geometry: Option<Geometry>,
    pub(crate) design_options: DesignOptions,
    pub(crate) cache_options: CacheOptions,
}

impl Settings {
    pub(crate) fn new() -> Self {
        Settings {
            design: None,
            types: None,
            seed: None,
            max_bytes: None,
            dax: Dax::Auto,
            force_flushes: false,
            read_only: false,
            readers: false,
            accept_suspect: false,
            verify: false,
            warm: false,
            sync_mode: None,
            log_bytes: None,
            private_bytes: None,
            live_image: None,
            live_dir: None,
            geometry: None,
            design_options: DesignOptions::default(),
            cache_options: CacheOptions::default(),
        }
    }

    pub(crate) fn mapped(&self, max_bytes: u64) -> MappedOptions {
        let mut options = MappedOptions::default();
        options.max_bytes = max_bytes;
        (options.dax, options.force_flushes) = (self.dax, self.force_flushes);
        options.readers = self.readers;
        options
    }
}
