//! An index that grows by new keys: how its segments fill, and what it takes.

use durahash_remote::fabric::{Sim, SimOptions};
use durahash_remote::{Options, RemoteMap, Report, Result, Stats};

use crate::document::{Table, count, number};

/// Entries of a CurSegment, and of a MainSegment before it splits.
#[derive(Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) cur: u32,
    pub(crate) limit: u32,
}

pub(crate) const OF_PAPER: Sizes = Sizes { cur: 128, limit: 64 * 128 };

/// When there are so many keys, it is looked at.
pub(crate) const KEYS: [u64; 24] = [
    1_000, 2_000, 4_000, 8_000, 9_000, 12_000, 16_000, 18_000, 24_000, 32_000, 36_000, 48_000,
    64_000, 72_000, 100_000, 130_000, 150_000, 200_000, 260_000, 300_000, 400_000, 520_000,
    600_000, 1_000_000,
];

/// The index at one of these times.
#[derive(Debug)]
pub(crate) struct Sample {
    cur: u64,
    limit: u64,
    pub(crate) report: Report,
    pub(crate) stats: Stats,
}

/// Puts new keys of 16 bytes with values of 32, by one client, and looks at each of `counts`.
pub(crate) fn samples(sizes: Sizes, counts: &[u64]) -> Result<Vec<Sample>> {
    let last = counts.last().copied().unwrap_or(0);
    let mut options = SimOptions::default();
    (options.max_clients, options.node_bytes) = (1, vec![(64 << 20) + 192 * last]);
    let sim = Sim::new(options);
    let client = sim.client()?;
    let task = sim.spawn(&client, grow(client.clone(), sizes, counts.to_vec()));
    sim.run();
    task.take().expect("the task ends")
}

async fn grow(
    client: durahash_remote::fabric::SimClient,
    sizes: Sizes,
    counts: Vec<u64>,
) -> Result<Vec<Sample>> {
    let mut options = Options::default();
    (options.cur_entries, options.main_entries) = (sizes.cur, sizes.limit);
    options.kept_entries = 0;
    let map = RemoteMap::create(client, options).await?;
    let (mut samples, mut next) = (Vec::new(), 0_u64);
    for count in counts {
        while next < count {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&next.to_le_bytes());
            map.put(&key, &[0; 32]).await?;
            next += 1;
        }
        let (cur, limit) = (sizes.cur.into(), sizes.limit.into());
        samples.push(Sample { cur, limit, report: map.check().await?, stats: map.stats() });
    }
    Ok(samples)
}

impl Sample {
    /// Entries of MainSegments, as a part of what they hold before they split.
    pub(crate) fn fill(&self) -> f64 {
        let Report { capacity, segments, .. } = self.report;
        (capacity - segments * self.cur) as f64 / (segments * self.limit) as f64
    }

    /// Splits and fill, if all segments filled together.
    fn together(&self) -> (u64, f64) {
        let segments = self.segments_of(self.report.keys);
        let of_each = self.report.keys as f64 / segments as f64;
        // A CurSegment is half full.
        let entries = (of_each - self.cur as f64 / 2.0).max(0.0);
        (segments - 1, entries / self.limit as f64)
    }

    /// The number of segments for so many keys, if all fill together: each splits when its MainSegment has its
    /// limit and its CurSegment is full.
    pub(crate) fn segments_of(&self, keys: u64) -> u64 {
        keys.div_ceil(self.limit + self.cur).next_power_of_two()
    }

    /// Entries in use, of those that the segments' memory has room for.
    pub(crate) fn utilization(&self) -> f64 {
        self.report.entries as f64 / self.report.capacity as f64
    }

    pub(crate) fn index_bytes_per_entry(&self) -> f64 {
        self.report.index_bytes as f64 / self.report.entries as f64
    }

    /// Bytes of the FPTable of a segment, with record points and without.
    pub(crate) fn table_bytes(&self) -> [f64; 2] {
        [self.stats.table_bytes, self.stats.plain_table_bytes]
            .map(|bytes| bytes as f64 / self.stats.known_segments as f64)
    }
}

/// The curve of filling, of each second sample.
pub(crate) fn filling(samples: &[Sample]) -> Table {
    let head = "| keys | merges | splits | splits, all together | MainSegments filled to | the same, all \
                together |";
    let row = |sample: &Sample| {
        let (splits, fill) = sample.together();
        vec![
            count(sample.report.keys),
            count(sample.stats.merges),
            count(sample.stats.splits),
            count(splits),
            number(sample.fill(), 3),
            number(fill, 3),
        ]
    };
    Table { head, rows: samples.iter().skip(1).step_by(2).map(row).collect() }
}

/// The space of the index and of the client's cache, of each second sample.
pub(crate) fn space(samples: &[Sample]) -> Table {
    let head = "| keys | segments | entries used | index bytes an entry | FPTable, bytes a segment | \
                plain | part of it | bytes of all FPTables | directory, bytes |";
    let row = |sample: &Sample| {
        let [table, plain] = sample.table_bytes();
        vec![
            count(sample.report.keys),
            count(sample.report.segments),
            number(sample.utilization(), 3),
            number(sample.index_bytes_per_entry(), 2),
            number(table, 0),
            number(plain, 0),
            number(table / plain, 3),
            count(sample.stats.table_bytes),
            count(sample.stats.directory_bytes),
        ]
    };
    Table { head, rows: samples.iter().skip(1).step_by(2).map(row).collect() }
}
