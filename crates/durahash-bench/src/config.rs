//! The configuration of a run, and its progress.

use std::fmt;
use std::path::PathBuf;

use durahash::{Design, SyncMode};
use durahash_media::metered::Profile;

use crate::error::{Error, Result};
use crate::named::named;

named! {
    /// Where pools are made.
    #[derive(Default)]
    pub enum Medium {
        #[default]
        File = "file": "in files",
        Dram = "dram": "in memory of this process",
    }
}

impl fmt::Display for Medium {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

named! {
    /// A set of measurements, in the order in which they run.
    #[derive(Default)]
    pub enum Suite {
        Summary = "summary": "durable inserts, lookups, bytes for each entry, the open after kill -9",
        #[default]
        Standard = "standard": "throughput, latency, growth, costs on the medium, recovery, as --all",
        Duplicates = "duplicates": "many values for each key, in multimaps: skewed keys, and a graph",
        Sizes = "sizes": "latency against the number of keys, and inserts that split something",
        Stall = "stall": "lookups while another thread inserts",
        Loads = "loads": "latency while a table fills: with a fifth of the keys, two, three and four",
        Ycsb = "ycsb": "mixes of reads and updates, of uniform and of skewed keys",
        Caches = "caches": "lookups by the size of the cached table of rewo",
        Resizing = "resizing": "throughput before, during and after a resize of rewo",
        Recovery = "recovery": "kill -9 and the first lookup after it, of a fortieth of the keys, a quarter, and all",
        Cache = "cache": "hit rates of eviction policies by size, simulated: on made-up lookups, and on traces",
        Durability = "durability": "process, interval and strict side by side, in files",
        Media = "media": "emulated media beside what is published of them: latency by pattern, bandwidth by threads",
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The configuration of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// The suites.
    pub suites: Vec<Suite>,
    /// The designs.
    pub designs: Vec<Design>,
    /// Keys that are loaded.
    pub keys: u64,
    /// Numbers of threads, each measured once.
    pub threads: Vec<usize>,
    /// Where pools are made.
    pub medium: Medium,
    /// The directory in which the files are made, in one of their own that is removed afterwards;
    /// the current one unless set.
    pub pool: Option<PathBuf>,
    /// When operations on files are durable; as the library has it unless set.
    pub sync_mode: Option<SyncMode>,
    /// A live image, or a log of lines, in modes that have one; as the library has it unless set.
    pub live_image: Option<bool>,
    /// The medium that is emulated, if one is.
    pub emulate: Option<Profile>,
    /// Bytes of the cached table of Rewo-Hash; an eighth of its tables unless set.
    pub cache_bytes: Option<u64>,
    /// Threads that change its copies while writers wait for the medium.
    pub sync_threads: u32,
    /// Repeats of each timed run.
    pub repeats: u32,
    /// Seed of keys, draws and pools.
    pub seed: u64,
    /// The edges of a graph, for [`Suite::Duplicates`]: lines SOURCE, tab, TARGET, as text or
    /// compressed by gzip; a made-up graph unless set.
    pub graph: Option<PathBuf>,
    /// Traces for [`Suite::Cache`]: a key a line, as text or compressed by gzip.
    pub traces: Vec<PathBuf>,
    /// Exponents of Zipf's law for [`Suite::Cache`]; without these and traces, some, scans and a loop.
    pub zipf: Vec<f64>,
    /// The program that is started to be killed, which calls
    /// [`child_main`](crate::child_main); this one unless set.
    pub child: Option<PathBuf>,
}

impl Default for Config {
    /// The standard suite: all designs, a million keys in files, one thread and two, three repeats.
    fn default() -> Self {
        Config {
            suites: vec![Suite::Standard],
            designs: Design::ALL.to_vec(),
            keys: 1_000_000,
            threads: vec![1, 2],
            medium: Medium::File,
            pool: None,
            sync_mode: None,
            live_image: None,
            emulate: None,
            cache_bytes: None,
            sync_threads: 0,
            repeats: 3,
            seed: 42,
            graph: None,
            traces: Vec::new(),
            zipf: Vec::new(),
            child: None,
        }
    }
}

impl Config {
    /// The fewest keys: with fewer, nothing grows.
    pub const KEYS_MIN: u64 = 1000;
    /// The most threads.
    pub const THREADS_MAX: usize = 256;
    /// The fewest keys for each thread: with fewer, its start is what is measured.
    pub const KEYS_PER_THREAD_MIN: u64 = 100;

    /// The same with every suite, design and number of threads once.
    pub(crate) fn without_repetitions(&self) -> Self {
        let mut config = self.clone();
        config.suites = Suite::ALL.into_iter().filter(|suite| self.has(*suite)).collect();
        let (mut designs, mut threads) = (Vec::new(), Vec::new());
        config.designs.retain(|design| first_time(&mut designs, *design));
        config.threads.retain(|n| first_time(&mut threads, *n));
        config
    }

    /// True if a suite is configured.
    pub(crate) fn has(&self, suite: Suite) -> bool {
        self.suites.contains(&suite)
    }

    /// A suite that is to be run and needs Rewo-Hash, which is not to be.
    fn of_rewo_alone(&self) -> Option<Suite> {
        let is_in_vain = |suite: &Suite| self.has(*suite) && !self.designs.contains(&Design::Rewo);
        [Suite::Caches, Suite::Resizing].into_iter().find(is_in_vain)
    }

    /// Refuses what cannot be run.
    ///
    /// # Errors
    /// [`Error::Config`] says why.
    pub fn check(&self) -> Result<()> {
        let threads = self.threads.iter().copied().max().unwrap_or(0);
        let what = if self.designs.is_empty() {
            "no design is named".into()
        } else if self.keys < Self::KEYS_MIN {
            format!("{} keys are too few, at least {} are needed", self.keys, Self::KEYS_MIN)
        } else if self.threads.is_empty() || self.threads.contains(&0) {
            "numbers of threads begin with one".into()
        } else if threads > Self::THREADS_MAX {
            format!("{threads} threads are too many, the most are {}", Self::THREADS_MAX)
        } else if threads as u64 > self.keys / Self::KEYS_PER_THREAD_MIN {
            let each = Self::KEYS_PER_THREAD_MIN;
            format!("{threads} threads are too many for {} keys, each needs {each}", self.keys)
        } else if self.repeats == 0 {
            "at least one repeat is needed".into()
        } else if self.pool.is_some() && self.medium == Medium::Dram {
            "pools in memory have no directory".into()
        } else if self.sync_mode.is_some() && self.medium == Medium::Dram {
            "pools in memory are not durable".into()
        } else if self.sync_mode.is_some() && self.emulate.is_some() {
            "emulated media have no log".into()
        } else if self.graph.is_some() && !self.has(Suite::Duplicates) {
            format!("a graph is for the suite {}", Suite::Duplicates)
        } else if !self.has(Suite::Cache) && self.traces.len() + self.zipf.len() > 0 {
            format!("traces and exponents are for the suite {}", Suite::Cache)
        } else if !self.zipf.iter().all(|exponent| (0.0..=10.0).contains(exponent)) {
            "exponents of Zipf's law are from 0 to 10".into()
        } else if let Some(suite) = self.of_rewo_alone() {
            format!("the suite {suite} is about the design {}", Design::Rewo)
        } else if self.medium == Medium::Dram && self.has(Suite::Recovery) {
            format!("pools in memory do not survive, for the suite {}", Suite::Recovery)
        } else if self.medium == Medium::Dram && self.has(Suite::Durability) {
            format!("pools in memory have no modes, for the suite {}", Suite::Durability)
        } else if self.emulate.is_some() && self.has(Suite::Durability) {
            format!("emulated media have no log, for the suite {}", Suite::Durability)
        } else if self.sync_mode.is_some() && self.has(Suite::Durability) {
            format!("the suite {} is about every mode", Suite::Durability)
        } else if self.sync_mode.is_some() && self.has(Suite::Duplicates) {
            format!("the multimaps of the suite {} have no log", Suite::Duplicates)
        } else {
            return Ok(());
        };
        Err(Error::Config { what })
    }
}

/// Adds `one` to those `seen`; true if it was not among them.
fn first_time<T: PartialEq>(seen: &mut Vec<T>, one: T) -> bool {
    let first = !seen.contains(&one);
    if first {
        seen.push(one);
    }
    first
}

/// Receives the progress of a run.
pub trait Progress {
    /// Called when `done` of `total` parts, of about equal length, are done, and `what` begins.
    fn at(&mut self, done: u64, total: u64, what: &str);
}

/// Ignores the progress.
impl Progress for () {
    fn at(&mut self, _done: u64, _total: u64, _what: &str) {}
}
