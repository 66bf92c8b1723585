//! SepHash or RACE, as a client has it.

use std::rc::Rc;

use durahash_bench::Error;
use durahash_media::Result;
use durahash_media::hash::WordMix;
use durahash_remote::RemoteMap;
use durahash_remote::fabric::Fabric;

use crate::assumed::Computing;
use crate::race::{self, Race};
use crate::stepwise::Stepwise;

/// Bytes of a key.
const KEY_BYTES: usize = 16;

/// An operation on the key with a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Put(u64),
    /// The key is there.
    Get(u64),
    Delete(u64),
}

/// Which index, with its sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Sep(durahash_remote::Options),
    Race(race::Options),
}

impl Kind {
    /// What it takes of a client's processor.
    pub(crate) fn computing(&self) -> Computing {
        match self {
            Kind::Sep(_) => Computing::SEPHASH,
            Kind::Race(_) => Computing::RACE,
        }
    }
}

/// A client of an index. Clones are the same client.
#[derive(Clone)]
pub(crate) enum Index<F: Fabric> {
    Sep(RemoteMap<Stepwise<F>>, Stepwise<F>),
    Race(Rc<Race<Stepwise<F>>>),
}

/// The work of clients beside operations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    pub(crate) merges: u64,
    pub(crate) splits: u64,
    /// Time of RACE's splits, all together.
    pub(crate) split_ns: u64,
    /// Swaps that another client was faster at.
    pub(crate) conflicts: u64,
    /// Times that an operation waited for a segment or a subtable.
    pub(crate) waits: u64,
}

impl Done {
    fn zip(self, other: Done, f: fn(u64, u64) -> u64) -> Done {
        Done {
            merges: f(self.merges, other.merges),
            splits: f(self.splits, other.splits),
            split_ns: f(self.split_ns, other.split_ns),
            conflicts: f(self.conflicts, other.conflicts),
            waits: f(self.waits, other.waits),
        }
    }

    pub(crate) fn with(self, other: Done) -> Done {
        self.zip(other, |one, other| one + other)
    }

    pub(crate) fn since(self, before: Done) -> Done {
        self.zip(before, |now, before| now - before)
    }
}

/// The space of an index that no client changes meanwhile.
pub(crate) struct Space {
    /// Segments, or subtables.
    pub(crate) segments: u64,
    /// The parts in use of the room for entries, and of the index's bytes.
    pub(crate) utilization: [(&'static str, f64); 2],
    /// Sizes. `entries` is the room for them; `index_bytes` are in the nodes' memory, blocks of keys and
    /// values apart; `cache_bytes` are those that this client remembers: the directory, and SepHash's
    /// FPTables; `plain_table_bytes` would be FPTables without record points.
    pub(crate) sizes: [(&'static str, f64); 7],
}

fn bytes_of(mix: &WordMix, value_bytes: usize, number: u64) -> ([u8; KEY_BYTES], Vec<u8>) {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&mix.mix(number).to_le_bytes());
    let mut value = vec![0; value_bytes];
    value[..8].copy_from_slice(&number.to_le_bytes());
    (key, value)
}

impl<F: Fabric> Index<F> {
    /// Opens an index, or makes an empty one.
    pub(crate) async fn new(kind: Kind, client: Stepwise<F>, makes: bool) -> Result<Self> {
        let own = client.clone();
        let sep = |map| Index::Sep(map, client);
        let race = |race| Index::Race(Rc::new(race));
        match (kind, makes) {
            (Kind::Sep(options), true) => RemoteMap::create(own, options).await.map(sep),
            (Kind::Sep(options), false) => RemoteMap::open(own, options).await.map(sep),
            (Kind::Race(options), true) => Race::create(own, options).await.map(race),
            (Kind::Race(options), false) => Race::open(own, options).await.map(race),
        }
    }

    /// Does one operation, with a value of so many bytes, at least 8.
    pub(crate) async fn run(
        &self,
        mix: &WordMix,
        value_bytes: usize,
        op: Op,
    ) -> durahash_bench::Result<()> {
        let (Op::Put(number) | Op::Get(number) | Op::Delete(number)) = op;
        let (key, value) = bytes_of(mix, value_bytes, number);
        match op {
            Op::Put(_) => self.put(&key, &value).await?,
            Op::Delete(_) => self.delete(&key).await?,
            Op::Get(_) if self.get(&key).await?.as_ref() == Some(&value) => {}
            Op::Get(_) => {
                let what = format!("key {number} is not there as it was put");
                return Err(Error::Wrong { what });
            }
        }
        Ok(())
    }

    async fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Index::Sep(map, client) => {
                map.put(key, value).await?;
                client.end().await
            }
            Index::Race(race) => race.put(key, value).await,
        }
    }

    async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Index::Sep(map, _) => map.get(key).await,
            Index::Race(race) => race.get(key).await,
        }
    }

    async fn delete(&self, key: &[u8]) -> Result<()> {
        match self {
            Index::Sep(map, client) => {
                map.delete(key).await?;
                client.end().await
            }
            Index::Race(race) => race.delete(key).await.map(drop),
        }
    }

    /// Shows that this client has nothing under way.
    pub(crate) async fn tick(&self) -> Result<()> {
        match self {
            Index::Sep(map, _) => map.tick().await,
            Index::Race(_) => Ok(()),
        }
    }

    /// Leaves, so that nobody waits for this client.
    pub(crate) async fn close(self) -> Result<()> {
        match self {
            Index::Sep(map, _) => map.close().await,
            Index::Race(_) => Ok(()),
        }
    }

    pub(crate) fn done(&self) -> Done {
        match self {
            Index::Sep(map, _) => {
                let stats = map.stats();
                let (merges, splits) = (stats.merges, stats.splits);
                Done { merges, splits, split_ns: 0, conflicts: stats.conflicts, waits: stats.waits }
            }
            Index::Race(race) => {
                let race::Stats { splits, split_ns, conflicts, waits, .. } = race.stats();
                Done { merges: 0, splits, split_ns, conflicts, waits }
            }
        }
    }

    pub(crate) async fn space(&self) -> Result<Space> {
        let (entries, entry_bytes, [capacity, index_bytes, segments, depth], caches) = match self {
            Index::Sep(map, _) => {
                let (report, stats) = (map.check().await?, map.stats());
                let sizes =
                    [report.capacity, report.index_bytes, report.segments, report.depth.into()];
                let cache_bytes = stats.directory_bytes + stats.table_bytes;
                (report.keys, 9, sizes, [cache_bytes, stats.table_bytes, stats.plain_table_bytes])
            }
            Index::Race(race) => {
                let census = race.census().await?;
                let sizes =
                    [census.capacity, census.index_bytes, census.subtables, census.depth.into()];
                (census.entries, 8, sizes, [race.directory_bytes(), 0, 0])
            }
        };
        let part = |of: u64, all: u64| of as f64 / all.max(1) as f64;
        let utilization = [
            ("entry_utilization", part(entries, capacity)),
            ("space_utilization", part(entries * entry_bytes, index_bytes)),
        ];
        let [cache_bytes, table_bytes, plain_table_bytes] = caches;
        let sizes = [
            ("segments", segments),
            ("depth", depth),
            ("entries", capacity),
            ("index_bytes", index_bytes),
            ("cache_bytes", cache_bytes),
            ("table_bytes", table_bytes),
            ("plain_table_bytes", plain_table_bytes),
        ];
        Ok(Space { segments, utilization, sizes: sizes.map(|(name, size)| (name, size as f64)) })
    }
}
