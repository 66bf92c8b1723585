//! Maps to be measured, on the media that a configuration names.

use std::path::{Path, PathBuf};

use durahash::rewo::Cache;
use durahash::{Design, Durability, Map, Options, SyncMode};
use durahash_media::metered::{Metered, Profile};
use durahash_media::{Dram, Mapped, MappedOptions, Medium};
use tempfile::TempDir;

use crate::config::{self, Config};
use crate::error::{Error, Result};
use crate::machine;

/// Bytes of address space for what is made in memory without the library's own way to it.
const MEMORY_BYTES: u64 = 64 << 30;

/// Where maps are made.
pub struct Bench {
    /// Where files are made, in directories of our own.
    parent: Option<PathBuf>,
    emulate: Option<Profile>,
    sync_mode: Option<SyncMode>,
    live_image: Option<bool>,
    cache: Cache,
    seed: u64,
}

impl Bench {
    pub(crate) fn new(config: &Config) -> Self {
        let parent = match config.medium {
            config::Medium::Dram => None,
            config::Medium::File => Some(config.pool.clone().unwrap_or_else(|| ".".into())),
        };
        let Config { emulate, sync_mode, live_image, seed, sync_threads, .. } = *config;
        let mut cache = Cache::default();
        (cache.bytes, cache.sync_threads) = (config.cache_bytes, sync_threads);
        Bench { parent, emulate, sync_mode, live_image, cache, seed }
    }

    /// The same, with files that have no log.
    #[must_use]
    pub fn without_log(&self) -> Self {
        self.with_mode(SyncMode::Process, None)
    }

    /// The same, with files in this mode, and a live image or a log of lines.
    pub(crate) fn with_mode(&self, mode: SyncMode, live_image: Option<bool>) -> Self {
        let sync_mode = self.parent.as_ref().map(|_| mode);
        Bench { parent: self.parent.clone(), sync_mode, live_image, ..*self }
    }

    /// The same, with so many bytes for the cached table of Rewo-Hash.
    pub(crate) fn with_cache(&self, bytes: u64) -> Self {
        let mut cache = self.cache;
        cache.bytes = Some(bytes);
        Bench { parent: self.parent.clone(), cache, ..*self }
    }

    /// A new directory for files, unless they are made in memory; removed with all that is in it
    /// when it is dropped, though not by a signal, so nobody holds it for long.
    pub(crate) fn dir(&self) -> Result<Option<TempDir>> {
        let Some(parent) = &self.parent else {
            return Ok(None);
        };
        let dir = tempfile::Builder::new().prefix("durahash-bench-").tempdir_in(parent);
        dir.map(Some).map_err(|e| Error::io("making a directory in", Some(parent), e))
    }

    /// The file system that files are made on; nothing in memory.
    pub(crate) fn file_system(&self) -> String {
        self.parent.as_deref().map_or_else(String::new, machine::file_system)
    }

    /// The durability of an acknowledged operation here.
    pub(crate) fn durability(&self) -> Result<Durability> {
        Ok(self.create(Design::default())?.durability())
    }

    /// An empty map. Its file has no name any more, so it goes with the map, or with this process,
    /// however that ends.
    pub fn create(&self, design: Design) -> Result<Map<u64, u64>> {
        let mut options = Options::new().design(design).seed(self.seed).cache(self.cache);
        if let Some(live_image) = self.live_image {
            options = options.live_image(live_image);
        }
        if let Some(mode) = self.sync_mode {
            options = options.sync_mode(mode);
        }
        let Some(dir) = self.dir()? else {
            return Ok(match self.emulate {
                None => options.in_memory()?,
                Some(profile) => {
                    let medium = Dram::new(MEMORY_BYTES)?;
                    options.create_on(Metered::with_profile(medium, profile))?
                }
            });
        };
        let path = dir.path().join("pool");
        let map = match self.emulate {
            None => options.create(&path)?,
            Some(profile) => {
                let medium = Mapped::create(&path, &MappedOptions::default())?;
                options.create_on(Metered::with_profile(medium, profile))?
            }
        };
        remove(&path)?;
        Ok(map)
    }

    /// The product of `make` on a new medium, which has no log. Its file goes as that of
    /// [`create`](Bench::create).
    pub fn make<T: Make>(&self, make: T) -> Result<T::Made> {
        let Some(dir) = self.dir()? else {
            let medium = Dram::new(MEMORY_BYTES)?;
            return match self.emulate {
                None => make.on(medium),
                Some(profile) => make.on(Metered::with_profile(medium, profile)),
            };
        };
        let path = dir.path().join("pool");
        let medium = Mapped::create(&path, &MappedOptions::default())?;
        let made = match self.emulate {
            None => make.on(medium)?,
            Some(profile) => make.on(Metered::with_profile(medium, profile))?,
        };
        remove(&path)?;
        Ok(made)
    }
}

/// A recipe for something on any medium.
pub trait Make {
    /// The product.
    type Made;

    /// Makes it on `medium`, which is empty, and gives that its name.
    fn on<M: Medium>(self, medium: M) -> Result<Self::Made>;
}

/// Removes a file.
pub(crate) fn remove(path: &Path) -> Result<()> {
    std::fs::remove_file(path).map_err(|e| Error::io("removing", Some(path), e))
}
