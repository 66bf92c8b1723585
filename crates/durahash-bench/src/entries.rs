//! Entries with equal keys among them, and the operations on these, drawn before the clock starts.

use std::collections::HashMap;
use std::path::Path;

use durahash_media::hash::WordMix;

use crate::error::Result;
use crate::graph::{self, Edge};
use crate::workload::{Random, Zipfian, shuffle};

/// The most values that lookups read, for each entry: of skewed keys every lookup reads many.
const READ_PER_ENTRY: u64 = 10;

/// Keys, each with how many values are expected of it.
pub(crate) type Keys = Vec<(u64, u64)>;

/// Entries that are added to a table.
pub(crate) struct Entries {
    /// Their name in tables and rows.
    pub(crate) name: String,
    pub(crate) pairs: Vec<(u64, u64)>,
    /// Every key once, in any order.
    pub(crate) keys: Keys,
}

impl Entries {
    /// `count` entries whose keys are drawn from as many, by the zipfian distribution of an exponent.
    /// All values differ.
    pub(crate) fn zipfian(count: u64, theta: f64, seed: u64) -> Self {
        let zipfian = Zipfian::with_exponent(count, theta);
        let mix = WordMix::new(seed);
        let mut random = Random::new(seed);
        let pairs = (0..count).map(|i| (mix.mix(zipfian.draw(&mut random)), i)).collect();
        Self::new(format!("zipf {theta:.1}"), pairs, random)
    }

    /// The edges of a graph, sources as keys, in any order.
    pub(crate) fn graph(name: &str, mut edges: Vec<Edge>, seed: u64) -> Self {
        let mut random = Random::new(seed);
        shuffle(&mut edges, &mut random);
        Self::new(format!("graph {name}"), edges, random)
    }

    /// The graph in a file, or one that is made up, of `count` edges.
    pub(crate) fn graph_of(path: Option<&Path>, count: u64, seed: u64) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Self::graph("made up", graph::made_up(count, seed), seed));
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = name.split('.').next().unwrap_or_default().to_owned();
        Ok(Self::graph(&name, graph::read(path)?, seed))
    }

    fn new(name: String, pairs: Vec<(u64, u64)>, mut random: Random) -> Self {
        let mut counts: HashMap<u64, u64> = HashMap::new();
        for (key, _) in &pairs {
            *counts.entry(*key).or_default() += 1;
        }
        let mut keys: Keys = counts.into_iter().collect();
        keys.sort_unstable();
        shuffle(&mut keys, &mut random);
        Entries { name, pairs, keys }
    }

    pub(crate) fn count(&self) -> u64 {
        self.pairs.len() as u64
    }

    /// Values of the key that has the most.
    pub(crate) fn longest(&self) -> u64 {
        self.keys.iter().map(|(_, count)| *count).max().unwrap_or(0)
    }

    /// Keys to look up, each as often as it has entries, on average: as many as there are entries, or
    /// fewer where these would read too much.
    pub(crate) fn lookups(&self, random: &mut Random) -> Keys {
        let counts: HashMap<u64, u64> = self.keys.iter().copied().collect();
        let mut left = self.count() * READ_PER_ENTRY;
        let mut draw = || {
            let (key, _) = self.pairs[random.below(self.count()) as usize];
            let count = counts[&key];
            left = left.checked_sub(count)?;
            Some((key, count))
        };
        let mut lookups = Vec::new();
        while lookups.len() < self.pairs.len() {
            let Some(lookup) = draw() else { break };
            lookups.push(lookup);
        }
        lookups
    }

    /// A tenth of the entries, and another tenth, both in any order.
    pub(crate) fn two_tenths(&self, random: &mut Random) -> [Vec<(u64, u64)>; 2] {
        let mut pairs = self.pairs.clone();
        shuffle(&mut pairs, random);
        let tenth = pairs.len() / 10;
        [pairs[..tenth].to_vec(), pairs[tenth..2 * tenth].to_vec()]
    }
}

/// The items of each of `threads` threads: every `threads`-th.
pub(crate) fn dealt<T: Copy>(items: &[T], threads: usize) -> Vec<Vec<T>> {
    let of = |thread| items.iter().skip(thread).step_by(threads).copied().collect();
    (0..threads).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_entries() {
        let edges = vec![(1, 2), (1, 2), (3, 4), (1, 5)];
        let entries = Entries::graph("g", edges, 7);
        assert_eq!((entries.count(), entries.longest()), (4, 3));
        let mut keys = entries.keys.clone();
        keys.sort_unstable();
        assert_eq!(keys, [(1, 3), (3, 1)]);
        for (key, count) in entries.lookups(&mut Random::new(1)) {
            assert!(keys.contains(&(key, count)));
        }
    }

    #[test]
    fn lookups_end_where_they_would_read_too_much() {
        let entries = Entries::graph("g", (0..1000).map(|i| (1, i)).collect(), 7);
        assert_eq!(entries.lookups(&mut Random::new(1)), [(1, 1000); 10]);
        let flat = Entries::zipfian(1000, 0.0, 7);
        assert_eq!(flat.lookups(&mut Random::new(1)).len(), 1000);
    }

    #[test]
    fn skew_makes_lists_long() {
        let longest = [0.0, 0.4, 0.8].map(|theta| Entries::zipfian(10_000, theta, 7).longest());
        assert!(longest.is_sorted() && longest[0] < 15 && longest[2] > 200, "{longest:?}");
        let entries = Entries::zipfian(10_000, 0.8, 7);
        let [one, other] = entries.two_tenths(&mut Random::new(3));
        assert_eq!((one.len(), other.len()), (1000, 1000));
        assert!(one.iter().all(|pair| !other.contains(pair)));
        let dealt = dealt(&one, 3);
        assert_eq!(dealt.iter().map(Vec::len).collect::<Vec<_>>(), [334, 333, 333]);
    }
}
