//! What is measured side by side: the designs, with options that papers vary, and tables of other papers.

use durahash::pea::{Policy, Strategy};
use durahash::rewo::Cache;
use durahash::{Design, IndexStats, Map, Options};
use durahash_bench::{Error, Make, Result, driver};
use durahash_media::{Geometry, Medium};

use crate::tables::{Baseline, Keys, OfSize, Subject};

/// A table to be made on any medium, and its name in reports.
#[derive(Clone)]
pub(crate) struct Contender {
    pub(crate) name: String,
    of: Of,
}

#[derive(Clone)]
enum Of {
    Design(Options),
    /// With strings of 16 bytes as keys.
    Strings(Options),
    Baseline(OfSize),
    /// In memory, whatever the medium.
    Peer(fn() -> Box<dyn Subject>),
}

/// A map in memory that takes part where a crate has it.
pub struct Peer {
    name: &'static str,
    make: fn() -> Box<dyn Subject>,
}

impl Peer {
    /// The maps of a type.
    #[must_use]
    pub fn of<T: driver::Table + Default + Send + 'static>(name: &'static str) -> Self {
        Peer { name, make: || Box::new(Alone(T::default())) }
    }
}

/// A map of another crate, of which nothing but its operations is known.
struct Alone<T>(T);

impl<T: driver::Table> driver::Table for Alone<T> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        self.0.get(key)
    }

    fn put(&self, key: u64, value: u64) -> Result<()> {
        self.0.put(key, value)
    }

    fn remove(&self, key: u64) -> Result<bool> {
        self.0.remove(key)
    }
}

impl<T: driver::Table> Subject for Alone<T> {
    fn figures(&self) -> IndexStats {
        IndexStats::default()
    }
}

/// Pea Hash with other strategies than its own: the first and the last of a segment.
const STRATEGIES: [(&str, Strategy, Strategy); 4] = [
    ("pea, single", Strategy::Single, Strategy::Single),
    ("pea, two-choice", Strategy::TwoChoice, Strategy::TwoChoice),
    ("pea, two-choice with stash", Strategy::Stash, Strategy::Stash),
    ("pea, single to two-choice", Strategy::Single, Strategy::TwoChoice),
];

/// Bytes of Rewo-Hash's tables for a key, of a million.
const REWO_BYTES: u64 = 34;

impl Contender {
    /// A design as it is.
    pub(crate) fn of_design(design: Design, seed: u64) -> Self {
        let of = Of::Design(Options::new().design(design).seed(seed));
        Contender { name: design.to_string(), of }
    }

    /// A table of a paper, with segments of 16 KiB.
    pub(crate) fn of_baseline(baseline: Baseline) -> Self {
        let of = Of::Baseline(OfSize { baseline, shift: 14, keys: Keys::Words });
        Contender { name: baseline.name().to_owned(), of }
    }

    /// True if threads share it as its paper has it.
    pub(crate) fn shares(&self) -> bool {
        !matches!(self.of, Of::Baseline(_))
    }

    /// All of these names, for so many keys. One that ends with `?` is a map of another crate, and left out where there
    /// is none.
    ///
    /// # Errors
    /// As [`named`](Self::named).
    pub(crate) fn all(peers: &[Peer], names: &str, seed: u64, keys: u64) -> Result<Vec<Self>> {
        let of_name = |name: &str| {
            let Some(name) = name.strip_suffix('?') else {
                return Some(Self::named(name, seed, keys));
            };
            let peer = peers.iter().find(|peer| peer.name == name)?;
            Some(Ok(Contender { name: name.to_owned(), of: Of::Peer(peer.make) }))
        };
        names.split("; ").filter_map(of_name).collect()
    }

    /// The contender of a name, for so many keys.
    ///
    /// # Errors
    /// [`Error::Config`] where there is no such name.
    pub(crate) fn named(name: &str, seed: u64, keys: u64) -> Result<Self> {
        let design = |design| Options::new().design(design).seed(seed);
        let keyed = |baseline, shift, keys| Of::Baseline(OfSize { baseline, shift, keys });
        let baseline = |baseline, shift| keyed(baseline, shift, Keys::Words);
        let known = |name: &str| Baseline::ALL.into_iter().find(|known| known.name() == name);
        let of = if let Ok(known) = name.parse::<Design>() {
            Of::Design(design(known))
        } else if let Some(known) = known(name) {
            baseline(known, 14)
        } else if let Some((_, first, last)) = STRATEGIES.into_iter().find(|known| known.0 == name)
        {
            Of::Design(design(Design::Pea).policy(of_paper(first, last)))
        } else if let Some(of) = name.strip_suffix(", strings") {
            match known(of) {
                Some(known) => keyed(known, 14, Keys::Strings),
                None => Of::Strings(design(of.parse().map_err(|_| unknown(name))?)),
            }
        } else if let Some(part) = name.strip_prefix("rewo, cache of 1/") {
            let part: u64 = part.parse().map_err(|_| unknown(name))?;
            Of::Design(design(Design::Rewo).cache(Cache::of_bytes(keys * REWO_BYTES / part.max(1))))
        } else {
            match name {
                "pea, split in four" => Of::Design(
                    design(Design::Pea).policy(of_paper(Strategy::Single, Strategy::Stash)),
                ),
                "esh, 16 KiB" => {
                    let geometry = Geometry { buckets: 64, ..Geometry::default() };
                    Of::Design(design(Design::Esh).geometry(geometry))
                }
                "rewo, no cache" => Of::Design(design(Design::Rewo).cache(Cache::of_bytes(0))),
                "dash, 512 KiB" => baseline(Baseline::Dash, 19),
                "level, made large" => baseline(Baseline::Level, (keys * 24).ilog2().max(14) as u8),
                _ => return Err(unknown(name)),
            }
        };
        Ok(Contender { name: name.to_owned(), of })
    }
}

/// Splits in four, and balanced inserts, as in Pea Hash's paper.
fn of_paper(first: Strategy, last: Strategy) -> Policy {
    let mut policy = Policy::default();
    (policy.split_bits, policy.first_until, policy.first, policy.last) = (2, 0, first, last);
    policy
}

fn unknown(name: &str) -> Error {
    Error::Config { what: format!("nothing is called {name}") }
}

impl Make for Contender {
    type Made = Box<dyn Subject>;

    fn on<M: Medium>(self, medium: M) -> Result<Box<dyn Subject>> {
        match self.of {
            Of::Design(options) => Ok(Box::new(options.create_on::<Map<u64, u64>, _>(medium)?)),
            Of::Strings(options) => Ok(Box::new(Strings(options.create_on(medium)?))),
            Of::Baseline(sized) => sized.on(medium),
            Of::Peer(make) => Ok(make()),
        }
    }
}

/// A map of strings, whose keys are words twice.
struct Strings(Map<[u8], u64>);

fn string(key: u64) -> [u8; 16] {
    let mut string = [0; 16];
    string[..8].copy_from_slice(&key.to_le_bytes());
    string[8..].copy_from_slice(&key.to_le_bytes());
    string
}

impl driver::Table for Strings {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        Ok(self.0.get(&string(key)[..])?)
    }

    fn put(&self, key: u64, value: u64) -> Result<()> {
        Ok(self.0.put(&string(key)[..], &value)?)
    }

    fn remove(&self, key: u64) -> Result<bool> {
        Ok(self.0.remove(&string(key)[..])?.is_some())
    }
}

impl Subject for Strings {
    fn figures(&self) -> IndexStats {
        self.0.index_stats()
    }

    fn step(&self) -> Result<bool> {
        Ok(self.0.step()?)
    }
}
