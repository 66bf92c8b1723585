//! Maps to be measured, on the media that a configuration names.

use std::path::{Path, PathBuf};

use durahash::{Design, Durability, Map, Options};
use durahash_media::{Dram, Latency, Mapped, MappedOptions, Metered};
use tempfile::TempDir;

use crate::config::{Config, Medium};
use crate::error::{Error, Result};
use crate::machine;

/// Bytes of address space for a map in memory whose latency is emulated.
const EMULATED_BYTES: u64 = 64 << 30;

/// Where maps are made.
pub(crate) struct Bench {
    /// A directory of our own, for files; removed with all that is in it.
    dir: Option<TempDir>,
    emulate: Option<Latency>,
    seed: u64,
}

impl Bench {
    pub(crate) fn new(config: &Config) -> Result<Self> {
        let dir = match config.medium {
            Medium::Dram => None,
            Medium::File => {
                let parent = config.pool.as_deref().unwrap_or(Path::new("."));
                let dir = tempfile::Builder::new().prefix("durahash-bench-").tempdir_in(parent);
                Some(dir.map_err(|e| Error::io("making a directory in", Some(parent), e))?)
            }
        };
        Ok(Bench { dir, emulate: config.emulate, seed: config.seed })
    }

    /// The path of a file in the directory, if there is one.
    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.dir.as_ref().map(|dir| dir.path().join(name))
    }

    /// The file system of the directory; nothing in memory.
    pub(crate) fn file_system(&self) -> String {
        let dir = self.dir.as_ref();
        dir.map_or_else(String::new, |dir| machine::file_system(dir.path()))
    }

    /// What acknowledged operations survive here.
    pub(crate) fn durability(&self) -> Result<Durability> {
        Ok(self.create(Design::default())?.durability())
    }

    /// An empty map. Its file has no name any more, so it goes with the map, or with this process,
    /// however that ends.
    pub(crate) fn create(&self, design: Design) -> Result<Map<u64, u64>> {
        let options = Options::new().design(design).seed(self.seed);
        let Some(path) = self.path("pool") else {
            return Ok(match self.emulate {
                None => options.in_memory()?,
                Some(latency) => {
                    let medium = Dram::new(EMULATED_BYTES)?;
                    options.create_on(Metered::with_latency(medium, latency))?
                }
            });
        };
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
