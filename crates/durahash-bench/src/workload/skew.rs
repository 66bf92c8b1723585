//! Reads and puts of keys that are loaded, drawn uniformly or by Zipf's law.
//!
//! YCSB's scrambled distribution, which [`Workload`](super::Workload) has, folds many more ranks than there
//! are keys, so that half of all draws hit any key. Here the ranks are the keys.

use super::{Kind, Op, Random, Workloads, Zipfian, shuffled};
use crate::named::named;

named! {
    /// How often which key is drawn.
    pub enum Drawn {
        /// Each as often.
        Uniform = "uniform",
        /// By the zipfian distribution of YCSB's exponent.
        Zipf = "zipf 0.99",
    }
}

/// Draws operations on the keys of workloads.
pub struct Skew<'a> {
    workloads: &'a Workloads,
    zipfian: Zipfian,
    /// The number of the key of each rank: what is frequent was loaded at any time.
    order: Vec<u64>,
}

impl<'a> Skew<'a> {
    /// Over the keys of workloads.
    #[must_use]
    pub fn new(workloads: &'a Workloads) -> Self {
        let keys = workloads.keys;
        let order = shuffled(keys, &mut Random::new(!workloads.seed));
        Skew { workloads, zipfian: Zipfian::new(keys), order }
    }

    /// Operations of each of `threads` threads, as many in all as there are keys: so large a part of them
    /// reads, the others put. Each `round` draws others.
    #[must_use]
    pub fn draw(&self, drawn: Drawn, reads: f64, threads: usize, round: u64) -> Vec<Vec<Op>> {
        let keys = self.workloads.keys;
        let of_thread = |thread: u64| {
            let seed = WordOfDraw { drawn, reads, round, thread }.word();
            let mut random = Random::new(self.workloads.seed ^ seed);
            let mut next = || {
                let number = match drawn {
                    Drawn::Uniform => random.below(keys),
                    Drawn::Zipf => self.order[self.zipfian.draw(&mut random) as usize],
                };
                let kind = if random.unit() < reads { Kind::Get } else { Kind::Put };
                Op { key: self.workloads.key(number), kind }
            };
            let mine = (thread..keys).step_by(threads);
            mine.map(|_| next()).collect()
        };
        (0..threads as u64).map(of_thread).collect()
    }
}

/// The part of the seed that differs between threads.
struct WordOfDraw {
    drawn: Drawn,
    reads: f64,
    round: u64,
    thread: u64,
}

impl WordOfDraw {
    fn word(&self) -> u64 {
        let mix = self.round << 32 ^ self.thread << 16 ^ (self.drawn as u64) << 8;
        Random::new(mix ^ (self.reads * 100.0) as u64).word()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn few_keys_have_most_of_the_draws_and_lie_anywhere() {
        let workloads = Workloads::new(10_000, 7);
        let skew = Skew::new(&workloads);
        let numbers: HashMap<u64, u64> = (0..10_000).map(|i| (workloads.key(i), i)).collect();
        let share_of_most = |drawn| {
            let mut counts = vec![0_u64; 10_000];
            for op in skew.draw(drawn, 0.5, 2, 1).into_iter().flatten() {
                counts[numbers[&op.key] as usize] += 1;
            }
            assert_eq!(counts.iter().sum::<u64>(), 10_000);
            let early = counts[..5000].iter().sum::<u64>();
            assert!((3000..7000).contains(&early), "{drawn:?}: {early}");
            counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
            counts[..1250].iter().sum::<u64>()
        };
        // Of an eighth of the keys; of uniform draws, those that came again by chance.
        let [uniform, zipf] = Drawn::ALL.map(share_of_most);
        assert!(uniform < 4500 && zipf > 6500, "{uniform} {zipf}");
    }

    #[test]
    fn reads_are_a_part_of_all() {
        let workloads = Workloads::new(10_000, 7);
        let skew = Skew::new(&workloads);
        for reads in [0.5, 0.95, 1.0] {
            let streams = skew.draw(Drawn::Zipf, reads, 3, 1);
            assert_eq!(streams.iter().map(Vec::len).collect::<Vec<_>>(), [3334, 3333, 3333]);
            let gets = streams.iter().flatten().filter(|op| op.kind == Kind::Get).count();
            assert!((gets as f64 / 1e4 - reads).abs() < 0.02);
            assert_ne!(streams, skew.draw(Drawn::Zipf, reads, 3, 2), "each round draws others");
            assert_eq!(streams, skew.draw(Drawn::Zipf, reads, 3, 1));
        }
    }
}
