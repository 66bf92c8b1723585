//! Maps to be measured, on the media that a configuration names.

use std::path::{Path, PathBuf};

use durahash::{Design, Durability, Map, Options, SyncMode};
use durahash_media::{Dram, Latency, Mapped, MappedOptions, Metered};
use tempfile::TempDir;

use crate::config::{Config, Medium};
use crate::error::{Error, Result};
use crate::machine;

/// Bytes of address space for a map in memory whose latency is emulated.
const EMULATED_BYTES: u64 = 64 << 30;

/// Where maps are made.
pub(crate) struct Bench {
    /// Where files are made, in directories of our own.
    parent: Option<PathBuf>,
    emulate: Option<Latency>,
    sync_mode: Option<SyncMode>,
    seed: u64,
}

impl Bench {
    pub(crate) fn new(config: &Config) -> Self {
        let parent = match config.medium {
            Medium::Dram => None,
            Medium::File => Some(config.pool.clone().unwrap_or_else(|| ".".into())),
        };
        Bench { parent, emulate: config.emulate, sync_mode: config.sync_mode, seed: config.seed }
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

    /// What acknowledged operations survive here.
    pub(crate) fn durability(&self) -> Result<Durability> {
        Ok(self.create(Design::default())?.durability())
    }

    /// An empty map. Its file has no name any more, so it goes with the map, or with this process,
    /// however that ends.
    pub(crate) fn create(&self, design: Design) -> Result<Map<u64, u64>> {
        let mut options = Options::new().design(design).seed(self.seed);
        if let Some(mode) = self.sync_mode {
            options = options.sync_mode(mode);
        }
        let Some(dir) = self.dir()? else {
            return Ok(match self.emulate {
                None => options.in_memory()?,
                Some(latency) => {
                    let medium = Dram::new(EMULATED_BYTES)?;
                    options.create_on(Metered::with_latency(medium, latency))?
                }
            });
        };
        let path = dir.path().join("pool");
        let map = match self.emulate {
            None => options.create(&path)?,
            Some(latency) => {
                let medium = Mapped::create(&path, &MappedOptions::default())?;
                options.create_on(Metered::with_latency(medium, latency))?
            }
        };
        remove(&path)?;
        Ok(map)
    }
}

/// Removes a file.
pub(crate) fn remove(path: &Path) -> Result<()> {
    std::fs::remove_file(path).map_err(|e| Error::io("removing", Some(path), e))
}
