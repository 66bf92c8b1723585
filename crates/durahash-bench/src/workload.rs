//! Operations on a table: keys, the order in which they come, and the mixes of operations.
//!
//! Operations are drawn before the clock starts, so that drawing them costs nobody anything. All
//! draws come from one seed: the same seed, keys and threads give the same operations.

pub mod skew;

use durahash_media::hash::WordMix;

use crate::named::named;

/// Exponent of YCSB's zipfian distributions.
pub const THETA: f64 = 0.99;
/// Ranks that YCSB draws before it scatters them over the keys: `0..=10^10`.
const SCRAMBLED_RANKS: u64 = 10_000_000_001;
/// The sum of `i^-0.99` over that many `i`, as YCSB has it; summing takes minutes.
const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Random numbers that are the same everywhere (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below `n`, which is not zero.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(n)) >> 64) as u64
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The zipfian ranks of Gray et al., *Quickly Generating Billion-Record Synthetic Databases*, as
/// YCSB's `ZipfianGenerator` draws them: rank 0 is the most frequent.
#[derive(Clone, Debug)]
pub struct Zipfian {
    ranks: u64,
    theta: f64,
    zeta: f64,
    eta: f64,
}

impl Zipfian {
    /// The ranks `0..ranks`, by the exponent [`THETA`]; sums that many terms.
    #[must_use]
    pub fn new(ranks: u64) -> Self {
        Self::with_exponent(ranks, THETA)
    }

    /// The same by an exponent from 0, where all ranks are as frequent, to less than 1.
    #[must_use]
    pub fn with_exponent(ranks: u64, theta: f64) -> Self {
        let mut zipfian = Self::with_zeta(0, theta, 0.0);
        zipfian.grow(ranks);
        zipfian
    }

    fn with_zeta(ranks: u64, theta: f64, zeta: f64) -> Self {
        let zeta_of_two = 1.0 + 0.5_f64.powf(theta);
        let eta = (1.0 - (2.0 / ranks as f64).powf(1.0 - theta)) / (1.0 - zeta_of_two / zeta);
        Zipfian { ranks, theta, zeta, eta }
    }

    /// Makes it the ranks `0..ranks`; sums those that are new.
    pub fn grow(&mut self, ranks: u64) {
        let theta = self.theta;
        let new: f64 = (self.ranks..ranks).map(|i| ((i + 1) as f64).powf(-theta)).sum();
        *self = Self::with_zeta(ranks, theta, self.zeta + new);
    }

    /// Draws a rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let at = u * self.zeta;
        if at < 1.0 {
            return 0;
        }
        if at < 1.0 + 0.5_f64.powf(self.theta) {
            return 1.min(self.ranks - 1);
        }
        let part = (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - self.theta));
        let rank = self.ranks as f64 * part;
        (rank as u64).min(self.ranks - 1)
    }
}

/// YCSB's `ScrambledZipfianGenerator`: popular numbers lie anywhere in `0..n`.
#[derive(Clone, Debug)]
pub struct Scrambled {
    zipfian: Zipfian,
    n: u64,
}

impl Scrambled {
    /// The numbers `0..n`.
    #[must_use]
    pub fn new(n: u64) -> Self {
        let zipfian = Zipfian::with_zeta(SCRAMBLED_RANKS, THETA, SCRAMBLED_ZETA);
        Scrambled { zipfian, n }
    }

    /// Draws a number.
    pub fn draw(&self, random: &mut Random) -> u64 {
        fnv(self.zipfian.draw(random)) % self.n
    }
}

/// YCSB's `fnvhash64`: FNV-1a over the eight bytes, lowest first, then the absolute value.
fn fnv(mut v: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for _ in 0..8 {
        hash = (hash ^ (v & 0xff)).wrapping_mul(1_099_511_628_211);
        v >>= 8;
    }
    hash.cast_signed().unsigned_abs()
}

/// The effect of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Looks a key up.
    Get,
    /// Inserts a key or replaces its value, reading nothing back.
    Put,
    /// Looks a key up, then replaces its value.
    ReadModifyWrite,
    /// Removes a key.
    Remove,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// The key.
    pub key: u64,
    /// The operation on it.
    pub kind: Kind,
}

named! {
    /// A mix of operations. They can run on one table in their order: each finds the keys that it looks up. Only
    /// `PutMany` wants a table of its own.
    pub enum Workload {
        Load = "load": "insert all keys into an empty table",
        PutMany = "put_many": "the same in batches of 64",
        Hit = "hit": "look up keys that are there, uniformly",
        Miss = "miss": "look up keys that are not there",
        GetMany = "get_many": "hit in batches of 64",
        Update = "update": "replace values, uniformly",
        YcsbA = "YCSB A": "50 % read, 50 % update, zipfian",
        YcsbB = "YCSB B": "95 % read, 5 % update, zipfian",
        YcsbC = "YCSB C": "100 % read, zipfian",
        YcsbD = "YCSB D": "95 % read of the latest, 5 % insert",
        YcsbF = "YCSB F": "50 % read, 50 % read-modify-write, zipfian",
        // It removes keys that it inserted.
        Mixed = "mixed": "50 % hit, 25 % insert, 25 % remove",
        Delete = "delete": "remove all keys",
    }
}

/// Where the numbers of keys begin that are not loaded.
const ABSENT: u64 = 1 << 56;
const FRESH: u64 = 2 << 56;

/// Draws the operations of workloads over a number of keys.
#[derive(Clone, Debug)]
pub struct Workloads {
    keys: u64,
    seed: u64,
    mix: WordMix,
    scrambled: Scrambled,
    latest: Zipfian,
}

impl Workloads {
    /// Workloads over `keys` keys, at least one.
    #[must_use]
    pub fn new(keys: u64, seed: u64) -> Self {
        Workloads {
            keys,
            seed,
            mix: WordMix::new(seed),
            scrambled: Scrambled::new(keys),
            latest: Zipfian::new(keys),
        }
    }

    /// How many keys are loaded.
    #[must_use]
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// The key with a number: different numbers, different keys.
    #[inline]
    #[must_use]
    pub fn key(&self, number: u64) -> u64 {
        self.mix.mix(number)
    }

    /// The operations of each of `threads` threads, as many in all as there are keys. Each `round`
    /// draws others.
    #[must_use]
    pub fn draw(&self, workload: Workload, threads: usize, round: u64) -> Vec<Vec<Op>> {
        let mut random = Random::new(self.seed ^ (round << 32));
        let order = match workload {
            Workload::Delete => shuffled(self.keys, &mut random),
            _ => Vec::new(),
        };
        (0..threads as u64)
            .map(|thread| {
                let stream = Stream {
                    all: self,
                    workload,
                    thread,
                    threads: threads as u64,
                    // A sequence of its own for every workload and thread.
                    random: Random::new(random.word() ^ (workload as u64) << 24 ^ thread),
                };
                stream.draw(&order)
            })
            .collect()
    }
}

/// The numbers below `n`, in any order.
fn shuffled(n: u64, random: &mut Random) -> Vec<u64> {
    let mut order: Vec<u64> = (0..n).collect();
    shuffle(&mut order, random);
    order
}

/// Puts `items` in any order (Fisher and Yates).
pub(crate) fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for i in (1..items.len()).rev() {
        items.swap(i, random.below(i as u64 + 1) as usize);
    }
}

/// The operations of one thread.
struct Stream<'a> {
    all: &'a Workloads,
    workload: Workload,
    thread: u64,
    threads: u64,
    random: Random,
}

impl Stream<'_> {
    fn draw(mut self, order: &[u64]) -> Vec<Op> {
        let keys = self.all.keys;
        // The numbers below `keys` that are this thread's: every `threads`-th.
        let mine = (self.thread..keys).step_by(self.threads as usize);
        let op = |kind, number| Op { key: self.all.key(number), kind };
        match self.workload {
            Workload::Load | Workload::PutMany => mine.map(|i| op(Kind::Put, i)).collect(),
            Workload::Delete => mine.map(|i| op(Kind::Remove, order[i as usize])).collect(),
            Workload::Hit | Workload::GetMany => {
                mine.map(|_| op(Kind::Get, self.random.below(keys))).collect()
            }
            Workload::Miss => {
                mine.map(|_| op(Kind::Get, ABSENT + self.random.below(keys))).collect()
            }
            Workload::Update => mine.map(|_| op(Kind::Put, self.random.below(keys))).collect(),
            Workload::YcsbA => self.zipfian(mine.count(), 0.5, Kind::Put),
            Workload::YcsbB => self.zipfian(mine.count(), 0.95, Kind::Put),
            Workload::YcsbC => self.zipfian(mine.count(), 1.0, Kind::Put),
            Workload::YcsbF => self.zipfian(mine.count(), 0.5, Kind::ReadModifyWrite),
            Workload::YcsbD => self.latest(mine.count()),
            Workload::Mixed => self.mixed(mine.count()),
        }
    }

    /// Reads with the given share, else `other`.
    fn zipfian(&mut self, ops: usize, reads: f64, other: Kind) -> Vec<Op> {
        let mut next = || Op {
            kind: if self.random.unit() < reads { Kind::Get } else { other },
            key: self.all.key(self.all.scrambled.draw(&mut self.random)),
        };
        (0..ops).map(|_| next()).collect()
    }

    /// The number of the `i`-th key that this thread inserts.
    fn fresh(&self, i: u64) -> u64 {
        FRESH + ((self.workload as u64) << 48) + i * self.threads + self.thread
    }

    /// YCSB D. The latest keys of a thread are its own: those of others may not be there yet.
    fn latest(&mut self, ops: usize) -> Vec<Op> {
        let keys = self.all.keys;
        let mut latest = self.all.latest.clone();
        let mut inserted = 0;
        let mut next = || {
            if self.random.unit() < 0.05 {
                inserted += 1;
                latest.grow(keys + inserted);
                let key = self.all.key(self.fresh(inserted - 1));
                return Op { key, kind: Kind::Put };
            }
            let age = latest.draw(&mut self.random);
            let number = match age.checked_sub(inserted) {
                None => self.fresh(inserted - 1 - age),
                Some(age) => keys - 1 - age,
            };
            Op { key: self.all.key(number), kind: Kind::Get }
        };
        (0..ops).map(|_| next()).collect()
    }

    fn mixed(&mut self, ops: usize) -> Vec<Op> {
        let (mut inserted, mut removed) = (0, 0);
        let mut next = || {
            let draw = self.random.below(4);
            let (kind, number) = if draw < 2 {
                (Kind::Get, self.random.below(self.all.keys))
            } else if draw == 2 || removed == inserted {
                inserted += 1;
                (Kind::Put, self.fresh(inserted - 1))
            } else {
                removed += 1;
                (Kind::Remove, self.fresh(removed - 1))
            };
            Op { key: self.all.key(number), kind }
        };
        (0..ops).map(|_| next()).collect()
    }
}

#[cfg(test)]
mod tests;
