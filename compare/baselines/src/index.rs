//! SepHash or RACE, as a client has it.

use std::rc::Rc;

use durahash_media::Result;
use durahash_remote::RemoteMap;
use durahash_remote::fabric::SimClient;

use crate::race::{self, Race};
use crate::stepwise::Stepwise;

/// Which index, with its sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Sep(durahash_remote::Options),
    Race(race::Options),
}

/// A client of an index. Clones are the same client.
#[derive(Clone)]
pub(crate) enum Index {
    Sep(RemoteMap<Stepwise>, Stepwise),
    Race(Rc<Race<SimClient>>),
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
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Space {
    /// Entries of keys.
    pub(crate) entries: u64,
    /// Entries that there is room for.
    pub(crate) capacity: u64,
    /// Bytes of the index in the nodes' memory, blocks of keys and values apart.
    pub(crate) index_bytes: u64,
    /// Bytes of an entry.
    pub(crate) entry_bytes: u64,
    /// Segments, or subtables.
    pub(crate) segments: u64,
    pub(crate) depth: u32,
    /// Bytes that this client remembers: the directory, and SepHash's FPTables.
    pub(crate) cache_bytes: u64,
    /// FPTables, and what they would take without record points.
    pub(crate) table_bytes: u64,
    pub(crate) plain_table_bytes: u64,
}

impl Index {
    pub(crate) async fn create(kind: Kind, client: Stepwise) -> Result<Self> {
        Ok(match kind {
            Kind::Sep(options) => {
                Index::Sep(RemoteMap::create(client.clone(), options).await?, client)
            }
            Kind::Race(options) => {
                Index::Race(Rc::new(Race::create(client.client, options).await?))
            }
        })
    }

    pub(crate) async fn open(kind: Kind, client: Stepwise) -> Result<Self> {
        Ok(match kind {
            Kind::Sep(options) => {
                Index::Sep(RemoteMap::open(client.clone(), options).await?, client)
            }
            Kind::Race(options) => Index::Race(Rc::new(Race::open(client.client, options).await?)),
        })
    }

    pub(crate) async fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self {
            Index::Sep(map, client) => {
                map.put(key, value).await?;
                client.end().await
            }
            Index::Race(race) => race.put(key, value).await,
        }
    }

    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self {
            Index::Sep(map, _) => map.get(key).await,
            Index::Race(race) => race.get(key).await,
        }
    }

    pub(crate) async fn delete(&self, key: &[u8]) -> Result<()> {
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
                let race::Tally { splits, split_ns, conflicts, waits, .. } = race.tally();
                Done { merges: 0, splits, split_ns, conflicts, waits }
            }
        }
    }

    pub(crate) async fn space(&self) -> Result<Space> {
        match self {
            Index::Sep(map, _) => {
                let (report, stats) = (map.check().await?, map.stats());
                Ok(Space {
                    entries: report.keys,
                    capacity: report.capacity,
                    index_bytes: report.index_bytes,
                    entry_bytes: 9,
                    segments: report.segments,
                    depth: report.depth,
                    cache_bytes: stats.directory_bytes + stats.table_bytes,
                    table_bytes: stats.table_bytes,
                    plain_table_bytes: stats.plain_table_bytes,
                })
            }
            Index::Race(race) => {
                let census = race.census().await?;
                Ok(Space {
                    entries: census.entries,
                    capacity: census.capacity,
                    index_bytes: census.index_bytes,
                    entry_bytes: 8,
                    segments: census.subtables,
                    depth: census.depth,
                    cache_bytes: race.directory_bytes(),
                    ..Space::default()
                })
            }
        }
    }
}
