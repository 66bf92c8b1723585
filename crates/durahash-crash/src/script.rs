//! Sequences of operations before a crash.
//!
//! Keys are named by their position in the case's key space, so that a script is short to print
//! (`put 3 17, remove 3`) and means the same for every design.

use std::fmt;

/// An operation on a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Inserts or replaces.
    Put(u16, u64),
    /// Inserts where the key is absent.
    Insert(u16, u64),
    /// Replaces where the key is present.
    Update(u16, u64),
    /// Puts, by a batch that changes other keys, too. It does not tell what was there.
    Apply(u16, u64),
    /// Removes.
    Remove(u16),
    /// Adds one of the values of [`Bag`] to those of the key.
    Add(u16, u64),
    /// Removes one value, if the key has it.
    RemoveOne(u16, u64),
    /// Removes all values of the key.
    RemoveAll(u16),
    /// Reads.
    Get(u16),
    /// Background work, one step.
    Step,
    /// Drops the table without closing it and opens the medium again.
    Reopen,
    /// Closes the table properly and opens the medium again.
    Close,
    /// The machine dies inside the operation before this one; of the states that this may leave, the
    /// one of this number (they are counted around) is opened again. The script goes on with its contents.
    Crash(u32),
}

impl Op {
    /// The operation with another value, if it has one.
    #[must_use]
    pub fn with_value(self, v: u64) -> Op {
        match self {
            Op::Put(key, _) => Op::Put(key, v),
            Op::Insert(key, _) => Op::Insert(key, v),
            Op::Update(key, _) => Op::Update(key, v),
            Op::Apply(key, _) => Op::Apply(key, v),
            Op::Add(key, _) => Op::Add(key, v),
            other => other,
        }
    }

    /// The key, if it has one.
    #[must_use]
    pub fn key(self) -> Option<u16> {
        match self {
            Op::Put(key, _) | Op::Insert(key, _) | Op::Update(key, _) => Some(key),
            Op::Apply(key, _) | Op::Remove(key) | Op::RemoveAll(key) | Op::Get(key) => Some(key),
            Op::Add(key, _) | Op::RemoveOne(key, _) => Some(key),
            Op::Step | Op::Reopen | Op::Close | Op::Crash(_) => None,
        }
    }

    /// The value of its key after it, where the key had `found` before.
    #[must_use]
    pub fn outcome(self, found: Option<u64>) -> Option<u64> {
        match self {
            Op::Put(_, v) | Op::Apply(_, v) => Some(v),
            Op::Insert(_, v) => found.or(Some(v)),
            Op::Update(_, v) => found.and(Some(v)),
            Op::Remove(_) | Op::RemoveAll(_) => None,
            Op::Add(_, v) => Some(Bag::of(found).with(v).0),
            Op::RemoveOne(_, v) => Bag::of(found).without(v).word(),
            Op::Get(_) | Op::Step | Op::Reopen | Op::Close | Op::Crash(_) => found,
        }
    }

    /// The answer where the key had `found` before.
    #[must_use]
    pub fn answer(self, found: Option<u64>) -> Option<u64> {
        match self {
            Op::Add(..) | Op::Apply(..) => None,
            Op::RemoveOne(_, v) => Bag::of(found).has(v).then_some(1),
            Op::RemoveAll(_) => found.map(|bag| Bag(bag).size()),
            _ => found,
        }
    }
}

/// The values of a key of a multimap as one word, so that what holds for a map's values holds for
/// them: there are eight values, the numbers below eight, and byte `v` says how often `v` is there.
/// Greater numbers stand for one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bag(pub u64);

impl Bag {
    /// How many values there are to choose from.
    pub const VALUES: u64 = 8;

    /// The values of a key.
    #[must_use]
    pub fn of(found: Option<u64>) -> Self {
        Bag(found.unwrap_or(0))
    }

    /// The word, if there is anything in it.
    #[must_use]
    pub fn word(self) -> Option<u64> {
        (self.0 != 0).then_some(self.0)
    }

    /// How often each value is there.
    #[must_use]
    pub fn counts(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// How many values are in it.
    #[must_use]
    pub fn size(self) -> u64 {
        self.counts().into_iter().map(u64::from).sum()
    }

    /// True if a value is in it.
    #[must_use]
    pub fn has(self, v: u64) -> bool {
        self.counts()[(v % Self::VALUES) as usize] > 0
    }

    /// With one more of a value.
    ///
    /// # Panics
    /// Where a value would be there more than 255 times.
    #[must_use]
    pub fn with(self, v: u64) -> Self {
        assert!(self.counts()[(v % Self::VALUES) as usize] < u8::MAX, "a count is one byte");
        Bag(self.0 + (1 << (8 * (v % Self::VALUES))))
    }

    /// With one less of a value, if it is there.
    #[must_use]
    pub fn without(self, v: u64) -> Self {
        if self.has(v) { Bag(self.0 - (1 << (8 * (v % Self::VALUES)))) } else { self }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Put(key, v) => write!(f, "put {key} {v}"),
            Op::Insert(key, v) => write!(f, "insert {key} {v}"),
            Op::Update(key, v) => write!(f, "update {key} {v}"),
            Op::Apply(key, v) => write!(f, "apply {key} {v}"),
            Op::Remove(key) => write!(f, "remove {key}"),
            Op::Add(key, v) => write!(f, "add {key} {v}"),
            Op::RemoveOne(key, v) => write!(f, "remove-one {key} {v}"),
            Op::RemoveAll(key) => write!(f, "remove-all {key}"),
            Op::Get(key) => write!(f, "get {key}"),
            Op::Step => f.write_str("step"),
            Op::Reopen => f.write_str("reopen"),
            Op::Close => f.write_str("close"),
            Op::Crash(which) => write!(f, "crash {which}"),
        }
    }
}

/// A script as text.
#[must_use]
pub fn print(ops: &[Op]) -> String {
    let ops: Vec<String> = ops.iter().map(Op::to_string).collect();
    ops.join(", ")
}

/// The script that `text` holds, as [`print()`] writes it.
///
/// # Errors
/// The part that is no operation.
pub fn parse(text: &str) -> Result<Vec<Op>, String> {
    let parts = text.split(',').map(str::trim).filter(|op| !op.is_empty());
    parts
        .map(|part| {
            let words: Vec<&str> = part.split_whitespace().collect();
            let key = || words.get(1).and_then(|key| key.parse().ok());
            let v = || words.get(2).and_then(|v| v.parse().ok());
            let op = match words[0] {
                "put" => key().zip(v()).map(|(key, v)| Op::Put(key, v)),
                "insert" => key().zip(v()).map(|(key, v)| Op::Insert(key, v)),
                "update" => key().zip(v()).map(|(key, v)| Op::Update(key, v)),
                "apply" => key().zip(v()).map(|(key, v)| Op::Apply(key, v)),
                "remove" => key().map(Op::Remove),
                "add" => key().zip(v()).map(|(key, v)| Op::Add(key, v)),
                "remove-one" => key().zip(v()).map(|(key, v)| Op::RemoveOne(key, v)),
                "remove-all" => key().map(Op::RemoveAll),
                "get" => key().map(Op::Get),
                "step" => Some(Op::Step),
                "reopen" => Some(Op::Reopen),
                "close" => Some(Op::Close),
                "crash" => words.get(1).and_then(|n| n.parse().ok()).map(Op::Crash),
                _ => None,
            };
            op.ok_or_else(|| format!("no operation: {part}"))
        })
        .collect()
}

/// All sequences of exactly `length` of `kinds`; the values say at which place they were written.
pub fn exhaustive(kinds: &[Op], length: u32) -> impl Iterator<Item = Vec<Op>> {
    (0..kinds.len().pow(length)).map(move |mut number| {
        let place = |at| {
            let op = kinds[number % kinds.len()];
            number /= kinds.len();
            op.with_value(1000 + u64::from(at))
        };
        (0..length).map(place).collect()
    })
}

/// `count` random operations on `keys` keys: phases of growth, churn and shrinking, a
/// few crashes and reopens.
#[must_use]
pub fn random(keys: u16, count: usize, seed: u64) -> Vec<Op> {
    let mut rng = Rng::new(seed);
    let mut removes = 0;
    (0..count)
        .map(|at| {
            if at % 40 == 0 {
                removes = [10, 25, 45, 80][rng.below(4)];
            }
            let key = rng.below(usize::from(keys)) as u16;
            let v = (seed % 1_000_000) * 1_000_000 + at as u64;
            match rng.below(100) {
                0 => Op::Crash(rng.below(100_000) as u32),
                1 if rng.below(2) == 0 => Op::Close,
                1 => Op::Reopen,
                2..=3 => Op::Step,
                4..=8 => Op::Get(key),
                9..=14 => Op::Update(key, v),
                15..=22 => Op::Insert(key, v),
                _ if rng.below(100) < removes => Op::Remove(key),
                _ => Op::Put(key, v),
            }
        })
        .collect()
}

/// `count` hashes that begin with the `bits` bits of `prefix` and are spread evenly behind it: the
/// first two differ in the next bit, the first four in the next two. Their lowest bytes differ as
/// fingerprints do.
pub fn spread(prefix: u64, bits: u32, count: u64) -> impl Iterator<Item = u64> {
    let top = prefix.unbounded_shl(64 - bits);
    (0..count).map(move |at| top | at.reverse_bits() >> bits | (at * 37 + prefix + 1) & 0xff)
}

/// A small generator of pseudo-random numbers (SplitMix64), the same everywhere and forever, so
/// that a seed repeats a failure.
pub struct Rng(u64);

impl Rng {
    /// A generator that begins at `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.number()) * bound as u128) >> 64) as usize
    }
}

/// A bijection in which every bit of the input reaches every bit of the output.
#[must_use]
pub fn mix(v: u64) -> u64 {
    let v = (v ^ v >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let v = (v ^ v >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    v ^ v >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_read_as_they_are_printed() {
        let ops = random(9, 300, 5);
        assert_eq!(parse(&print(&ops)), Ok(ops));
        let ops = vec![Op::Add(1, 2), Op::RemoveOne(3, 4), Op::RemoveAll(5), Op::Apply(6, 7)];
        assert_eq!(parse(&print(&ops)), Ok(ops));
        assert_eq!(parse("put 1"), Err("no operation: put 1".to_string()));
    }

    #[test]
    fn bags_are_words() {
        let bag = Bag::default().with(3).with(11).with(0);
        assert_eq!((bag.size(), bag.counts()[3]), (3, 2));
        assert_eq!(bag.without(3).without(3).without(3).without(0), Bag(0));
        assert_eq!(Op::Add(0, 3).outcome(None), Some(1 << 24));
        assert_eq!(Op::RemoveOne(0, 3).outcome(Some(1 << 24)), None);
        assert_eq!(Op::RemoveOne(0, 3).answer(Some(1 << 24)), Some(1));
        assert_eq!(Op::RemoveOne(0, 2).answer(Some(1 << 24)), None);
        assert_eq!(Op::RemoveAll(0).answer(Some(2 << 24)), Some(2));
    }

    #[test]
    fn exhaustive_sequences_are_all_there() {
        let kinds = [Op::Put(0, 0), Op::Remove(0), Op::Get(0)];
        let mut all: Vec<String> = exhaustive(&kinds, 3).map(|ops| print(&ops)).collect();
        assert_eq!(all.len(), 27);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 27);
        assert!(all.contains(&"put 0 1000, get 0, put 0 1002".to_string()));
    }
}
