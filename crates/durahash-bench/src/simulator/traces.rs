//! Traces: the keys of lookups, in their order, made up or read from a file.

use std::collections::HashMap;
use std::hash::Hash;
use std::path::Path;

use crate::error::{Error, Result};
use crate::text::lines;
use crate::workload::Random;

/// Lookups for each key of a made-up trace.
const LOOKUPS: usize = 10;

/// Lookups, by the numbers of their keys.
pub(crate) struct Trace {
    pub(crate) name: String,
    pub(crate) lookups: Vec<u32>,
    /// Different keys; their numbers are below that.
    pub(crate) keys: usize,
}

impl Trace {
    fn new(name: String, keys: impl Iterator<Item = u64>) -> Self {
        let mut numbers = HashMap::new();
        let lookups = keys.map(|key| number(&mut numbers, key)).collect();
        Trace { name, lookups, keys: numbers.len() }
    }

    /// The trace in a file of a key a line, any text; it may be compressed by gzip. Empty lines, and those that begin
    /// with `#`, do not count.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let (mut numbers, mut lookups) = (HashMap::new(), Vec::new());
        lines(path, |line, _| {
            lookups.push(number(&mut numbers, line.to_owned()));
            Ok(())
        })?;
        if lookups.is_empty() {
            return Err(Error::Config { what: format!("{} has no keys", path.display()) });
        }
        Ok(Trace { name, lookups, keys: numbers.len() })
    }

    /// Keys drawn by Zipf's law.
    pub(crate) fn zipf(keys: u64, exponent: f64, seed: u64) -> Self {
        let (zipf, mut random) = (Zipf::new(keys, exponent), Random::new(seed));
        let lookups = (0..keys as usize * LOOKUPS).map(|_| zipf.draw(&mut random));
        Self::new(format!("zipf {exponent}"), lookups)
    }

    /// Half of the lookups by Zipf's law, over half of the keys; the other half of them are scans, each of a twentieth of
    /// the keys one after another, none of which comes again within a scan of all.
    pub(crate) fn scans(keys: u64, seed: u64) -> Self {
        let (zipf, mut random) = (Zipf::new(keys / 2, 0.99), Random::new(seed));
        let part = (keys / 20).max(1) as usize;
        let mut scanned = 0;
        let lookups = (0..keys as usize * LOOKUPS).map(|i| {
            if (i / part).is_multiple_of(2) {
                return zipf.draw(&mut random);
            }
            scanned += 1;
            keys / 2 + scanned % (keys / 2)
        });
        Self::new("zipf 0.99 and scans".into(), lookups)
    }

    /// All keys one after another, over and over.
    pub(crate) fn loops(keys: u64) -> Self {
        Self::new("loop".into(), (0..keys * LOOKUPS as u64).map(|i| i % keys))
    }
}

/// The number of a key: how many others came before it.
fn number<K: Eq + Hash>(numbers: &mut HashMap<K, u32>, key: K) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry(key).or_insert(next)
}

/// Numbers by Zipf's law with any exponent, by their sums: 0 is the most frequent.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(numbers: u64, exponent: f64) -> Self {
        let mut sum = 0.0;
        let add = |i| {
            sum += ((i + 1) as f64).powf(-exponent);
            sum
        };
        Zipf((0..numbers).map(add).collect())
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let at = random.unit() * self.0.last().copied().unwrap_or(0.0);
        self.0.partition_point(|sum| *sum <= at) as u64
    }
}
