//! Fuzzing on the stable toolchain: inputs are mutated, and those that reach something new are kept
//! and mutated further.
//!
//! The targets themselves report what is new, as [features](Target::run): kinds of errors,
//! findings of `check`, figures about the structure. That is coarser than the edges of a compiled
//! program, but needs no instrumentation and means something.

#![forbid(unsafe_code)]

mod bytes;
mod files;
mod image;
mod kept;
mod maps;
mod multi_ops;
mod multis;
mod mutate;
mod open_image;
mod ops_vs_model;
mod requests;

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use durahash::{Error, ErrorKind};
pub use durahash_crash::script::Rng;
pub use open_image::OpenImage;
pub use ops_vs_model::{OpsVsModel, Planted};
pub use requests::NodeRequests;

/// A fuzz target.
pub trait Target {
    /// Inputs to begin with.
    fn seeds(&self, rng: &mut Rng) -> Vec<Vec<u8>>;

    /// Changes `input` a little; `other` is another input that was kept.
    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]);

    /// Runs one input, any bytes, and notes what it reached.
    ///
    /// # Panics
    /// When something is wrong.
    fn run(&self, input: &[u8], features: &mut Features);
}

/// The features that an execution reached.
#[derive(Default)]
pub struct Features {
    hashes: Vec<u64>,
    damage: BTreeSet<&'static str>,
}

impl Features {
    /// Notes a feature: any value, equal ones being the same feature.
    pub(crate) fn add(&mut self, feature: impl Hash) {
        let mut hasher = DefaultHasher::new();
        feature.hash(&mut hasher);
        self.hashes.push(hasher.finish());
    }

    /// Notes the error of `doing`, without the place.
    pub(crate) fn complain(&mut self, doing: &str, e: &Error) {
        self.add((doing, gist(&e.to_string())));
        if let ErrorKind::Corrupt { what, .. } = e.kind() {
            self.damage.insert(what);
        }
    }

    /// The same, which a sound pool never says.
    pub(crate) fn damaged(&mut self, sound: bool, doing: &str, e: &Error) {
        assert!(!sound, "{e}");
        self.complain(doing, e);
    }
}

/// The words of a message, without the numbers: what is wrong, not where.
pub(crate) fn gist(message: &str) -> Vec<&str> {
    let is_word = |word: &&str| word.bytes().all(|b| b.is_ascii_alphabetic());
    message.split([' ', ':', ',']).filter(is_word).collect()
}

/// An input that broke something, and the message.
#[derive(Debug)]
pub struct Failure {
    /// The input.
    pub input: Vec<u8>,
    /// The message of the panic.
    pub message: String,
}

/// Runs one input.
///
/// # Errors
/// The failure, with the input.
pub fn run(target: &dyn Target, input: &[u8], features: &mut Features) -> Result<(), Failure> {
    let run = || target.run(input, features);
    // Nothing outlives a run but thread-local buffers, which a panic leaves empty or whole.
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let message = match panic.downcast_ref::<String>() {
            Some(message) => message.clone(),
            None => (*panic.downcast_ref::<&str>().unwrap_or(&"a panic")).to_owned(),
        };
        Failure { input: input.to_vec(), message }
    })
}

/// A run of a target. The same seed gives the same inputs.
pub struct Fuzzer<'a> {
    target: &'a dyn Target,
    rng: Rng,
    /// Inputs that reached something new; at first those to begin with.
    kept: Vec<Vec<u8>>,
    seeds: usize,
    seen: HashSet<u64>,
    damage: BTreeSet<&'static str>,
    current: Option<File>,
    executions: Arc<AtomicU64>,
}

/// No more inputs are kept than this; a new one takes the place of any other then.
const KEPT_MAX: usize = 4096;
/// No input is longer.
const INPUT_BYTES_MAX: usize = 1 << 17;

impl<'a> Fuzzer<'a> {
    /// Prepares a run that begins at `seed`.
    #[must_use]
    pub fn new(target: &'a dyn Target, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let kept = target.seeds(&mut rng);
        Fuzzer {
            target,
            rng,
            seeds: kept.len(),
            kept,
            seen: HashSet::new(),
            damage: BTreeSet::new(),
            current: None,
            executions: Arc::default(),
        }
    }

    /// Writes every input to `file` before it is run, so that it outlives even an abort.
    pub fn write_inputs_to(&mut self, file: File) {
        self.current = Some(file);
    }

    /// The number of inputs that were run, for another thread to watch.
    #[must_use]
    pub fn executions(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.executions)
    }

    /// The number of inputs that are kept, and that of features that were reached.
    #[must_use]
    pub fn reached(&self) -> (usize, usize) {
        (self.kept.len(), self.seen.len())
    }

    /// All damage that the library reported.
    #[must_use]
    pub fn damage(&self) -> &BTreeSet<&'static str> {
        &self.damage
    }

    /// Runs one more input.
    ///
    /// # Errors
    /// The failure, with the input.
    pub fn step(&mut self) -> Result<(), Failure> {
        let at = self.executions.fetch_add(1, Ordering::Relaxed) as usize;
        let input = match self.kept.get(at).filter(|_| at < self.seeds) {
            Some(seed) => seed.clone(),
            None => self.mutated(),
        };
        if let Some(file) = &self.current {
            write(file, &input).map_err(|e| Failure {
                input: input.clone(),
                message: format!("the input cannot be written down: {e}"),
            })?;
        }
        let mut features = Features::default();
        run(self.target, &input, &mut features)?;
        let before = self.seen.len();
        self.seen.extend(features.hashes);
        self.damage.extend(features.damage);
        if self.seen.len() > before && at >= self.seeds {
            if self.kept.len() < KEPT_MAX {
                self.kept.push(input);
            } else {
                let i = self.rng.below(KEPT_MAX);
                self.kept[i] = input;
            }
        }
        Ok(())
    }

    fn mutated(&mut self) -> Vec<u8> {
        let rng = &mut self.rng;
        let mut input = self.kept[rng.below(self.kept.len())].clone();
        let other = &self.kept[rng.below(self.kept.len())];
        for _ in 0..=rng.below(4) {
            self.target.mutate(rng, &mut input, other);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }
}

fn write(file: &File, input: &[u8]) -> io::Result<()> {
    file.set_len(input.len() as u64)?;
    file.write_all_at(input, 0)
}
