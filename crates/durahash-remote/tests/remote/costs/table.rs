//! The table of costs in `docs/benchmarks-remote.md`: of each kind of operation the round trips, the verbs and the
//! bytes of payload, counted with the paper's sizes, keys of 16 bytes and values of 32. The document must
//! have it as it is printed here.

use durahash_media::hash::ByteHash;
use durahash_remote::fabric::{Counts, SimClient};
use durahash_remote::{Compared, Options, RemoteMap, Result};

use super::{cost, key, run};
use crate::document;

const VALUE: [u8; 32] = [7; 32];

fn options() -> Options {
    let mut options = Options::default();
    // A chunk for all, and no ticks: both are rows of their own.
    options.chunk_bytes = 16 << 20;
    options.tick_ns = u64::MAX / 8;
    // As many rows as the fabric has.
    options.max_clients = 8;
    (options.main_entries, options.kept_entries) = (64 * 128, 0);
    options
}

type Map = RemoteMap<SimClient>;

/// The sums of the operations of each kind.
#[derive(Default)]
struct Table(Vec<(&'static str, u64, Counts)>);

impl Table {
    fn add(&mut self, kind: &'static str, counts: Counts) {
        match self.0.iter_mut().find(|row| row.0 == kind) {
            Some((_, n, sum)) => (*n, *sum) = (*n + 1, *sum + counts),
            None => self.0.push((kind, 1, counts)),
        }
    }

    /// Counts an operation that neither merges nor takes a chunk; returns its result.
    async fn of<T>(
        &mut self,
        kind: &'static str,
        map: &Map,
        operation: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (counts, stats, value) = cost(map, operation).await?;
        assert_eq!((stats.merges, stats.splits, stats.chunks), (0, 0, 0), "{kind}");
        self.add(kind, counts);
        Ok(value)
    }

    fn of_document(&self) -> document::Table {
        let head = "| operation | of | round trips | reads | writes | not awaited | swaps | adds | bytes out \
                | bytes in |";
        let row = |(kind, n, sum): &(&str, u64, Counts)| {
            let mean = |sum: u64, digits: usize| match sum % n {
                0 => (sum / n).to_string(),
                _ => document::number(sum as f64 / *n as f64, digits),
            };
            let verbs =
                [sum.round_trips, sum.reads, sum.writes, sum.unsignaled, sum.swaps, sum.adds]
                    .map(|sum| mean(sum, 2));
            let bytes = [sum.bytes_out, sum.bytes_in].map(|sum| mean(sum, 0));
            [vec![(*kind).to_owned(), n.to_string()], verbs.into(), bytes.into()].concat()
        };
        document::Table { head, rows: self.0.iter().map(row).collect() }
    }
}

/// The `i`-th of keys that `load` does not put.
fn other(i: u64) -> Vec<u8> {
    key(i | 1 << 40)
}

/// Puts new keys until `stop`, and counts those that fill a CurSegment by what comes of that. All
/// clients tick at each, so that memory is used again.
async fn load(table: &mut Table, maps: &[&Map], next: &mut u64, stop: u64) -> Result<()> {
    while *next < stop {
        let map = maps[0];
        let (counts, stats, ()) = cost(map, map.put(&key(*next), &VALUE)).await?;
        *next += 1;
        // Every fourth level reads all keys of the segment.
        let kind = match (stats.splits > 0, stats.keys_read > 1000, stats.doublings > 0) {
            (true, false, false) => "put that splits",
            (true, false, true) => "put that splits, and doubles the directory",
            (true, true, false) => "put that splits, reading all keys",
            (true, true, true) => "put that splits, reading all keys, and doubles the directory",
            _ if stats.merges == 0 => continue,
            _ if map.stats().merges == 1 => "put that merges, the first",
            _ => "put that merges",
        };
        assert_eq!(stats.chunks, 0, "{kind}");
        table.add(kind, counts);
        for _ in 0..3 {
            for map in maps {
                map.tick().await?;
            }
        }
    }
    Ok(())
}

/// Puts new keys until the first client has merged.
async fn turn(table: &mut Table, maps: &[&Map], next: &mut u64) -> Result<()> {
    let before = maps[0].stats().merges;
    while maps[0].stats().merges == before {
        let stop = *next + 1;
        load(table, maps, next, stop).await?;
    }
    Ok(())
}

/// Lookups and plain puts of a client that knows the segment. They fill a CurSegment but for one entry.
async fn warm(table: &mut Table, map: &Map) -> Result<()> {
    let mut puts = Table::default();
    let long = map.put(b"a longer one", &[7; 1000]);
    table.of("put, key and value of 1,012 bytes", map, long).await?;
    for i in 0..63 {
        puts.of("put, new key", map, map.put(&other(i), &VALUE)).await?;
    }
    for i in 0..100 {
        assert!(table.of("get, in the MainSegment", map, map.get(&key(i))).await?.is_some());
    }
    for i in 0..63 {
        assert!(table.of("get, in the CurSegment", map, map.get(&other(i))).await?.is_some());
    }
    let long = "get, key and value of 1,012 bytes";
    assert!(table.of(long, map, map.get(b"a longer one")).await?.is_some());
    for i in 1000..1100 {
        let (counts, _, found) = cost(map, map.get(&other(i))).await?;
        assert!(found.is_none());
        let kind = match counts.round_trips {
            1 => "get, no such key",
            _ => "get, no such key, but both fingerprints",
        };
        table.add(kind, counts);
    }
    for i in 63..126 {
        puts.of("put, new key", map, map.put(&other(i), &VALUE)).await?;
    }
    table.0.append(&mut puts.0);
    Ok(())
}

/// The next key that is not there, nor another one with its fingerprints.
async fn absent(map: &Map, from: &mut u64) -> Result<Vec<u8>> {
    loop {
        *from += 1;
        let name = other(*from);
        let (counts, _, found) = cost(map, map.get(&name)).await?;
        if counts.round_trips == 1 {
            assert_eq!(found, None);
            return Ok(name);
        }
    }
}

/// Conditional operations of a client that knows the segment. They append 48 entries.
async fn conditional(table: &mut Table, map: &Map) -> Result<()> {
    let mut fresh = 2000;
    let mut old = 1000..;
    let mut there = || key(old.next().expect("there are enough"));
    let zeros = [0; 32];
    for _ in 0..8 {
        let name = absent(map, &mut fresh).await?;
        assert!(table.of("insert_new, no such key", map, map.insert_new(&name, &VALUE)).await?);
        let put = map.insert_new(&name, &VALUE);
        assert!(!table.of("insert_new, key that is there", map, put).await?);

        let name = absent(map, &mut fresh).await?;
        let put = map.compare_set(&name, None, Some(&VALUE));
        let compared = table.of("compare_set, no such key as expected", map, put).await?;
        assert_eq!(compared, Compared::Set);
        let name = there();
        let put = || map.compare_set(&name, Some(&VALUE), Some(&zeros));
        assert_eq!(table.of("compare_set, equal", map, put()).await?, Compared::Set);
        assert_ne!(table.of("compare_set, another value", map, put()).await?, Compared::Set);

        let name = absent(map, &mut fresh).await?;
        assert_eq!(table.of("replace, no such key", map, map.replace(&name, &VALUE)).await?, None);
        let name = there();
        let put = map.replace(&name, &VALUE);
        assert!(table.of("replace, key that is there", map, put).await?.is_some());

        let name = there();
        assert!(table.of("take, key that is there", map, map.take(&name)).await?.is_some());
        let name = absent(map, &mut fresh).await?;
        assert!(table.of("take, no such key", map, map.take(&name)).await?.is_none());
    }
    Ok(())
}

/// Returns whether the first split moves a key.
fn moves(key: &[u8]) -> bool {
    ByteHash::new(options().seed).hash(key) & 1 == 1
}

async fn measure([a, b, c, d]: [SimClient; 4]) -> Result<()> {
    let (mut table, mut growth) = (Table::default(), Table::default());
    let a = RemoteMap::create(a, options()).await?;
    // The first put and this one take the chunks.
    a.put(&key(0), &VALUE).await?;
    a.put(b"a longer one", &[7; 1000]).await?;
    let mut next = 1;
    load(&mut growth, &[&a], &mut next, 4095).await?;
    warm(&mut table, &a).await?;
    turn(&mut growth, &[&a], &mut next).await?;
    for i in 0..127 {
        table.of("put, key that is there", &a, a.put(&key(i), &VALUE)).await?;
    }
    let (counts, stats, ()) = cost(&a, a.put(&key(127), &VALUE)).await?;
    assert!(stats.merges == 1 && stats.keys_read >= 256, "{stats:?}");
    growth.add("put that merges, of 128 keys that are there", counts);
    for i in 3000..3064 {
        table.of("delete", &a, a.delete(&key(i))).await?;
    }
    conditional(&mut table, &a).await?;
    turn(&mut growth, &[&a], &mut next).await?;

    // Clients that do not know the segment, or not as it is now.
    let mut others = Table::default();
    let [b, c, d] = {
        let mut maps = Vec::new();
        for client in [b, c, d] {
            let map = RemoteMap::open(client, options()).await?;
            others.add("open", map.counts());
            maps.push(map);
        }
        <[Map; 3]>::try_from(maps).unwrap_or_else(|_| unreachable!("three"))
    };
    others.of("get, the first of a client", &b, b.get(&key(0))).await?;
    others.of("get, the first of a client", &d, d.get(&key(0))).await?;
    let (counts, stats, ()) = cost(&c, c.put(&key(0), &VALUE)).await?;
    assert_eq!(stats.chunks, 1);
    others.add("put, the first of a client, with a chunk", counts);
    let all = [&a, &b, &c, &d];
    for i in 0..8 {
        turn(&mut growth, &all, &mut next).await?;
        let name = key(i);
        others.of("get, after a merge that was not seen", &b, b.get(&name)).await?;
        let put = c.put(&name, &VALUE);
        others.of("put, after a merge that was not seen", &c, put).await?;
    }
    for _ in 0..64 {
        others.of("", &a, a.put(&key(next), &VALUE)).await?;
        next += 1;
    }
    others.0.pop();
    let name = key(100);
    others.of("get, after 64 puts that were not seen", &b, b.get(&name)).await?;
    let put = c.put(&name, &VALUE);
    others.of("put, after 64 puts that were not seen", &c, put).await?;
    while a.stats().splits == 0 {
        let stop = next + 1;
        load(&mut growth, &all, &mut next, stop).await?;
    }
    let mut names = (0..).map(key);
    let [upper, lower] = [true, false]
        .map(|upper| names.by_ref().find(|name| moves(name) == upper).expect("there are enough"));
    others.of("get, after a split that was not seen, lower half", &d, d.get(&lower)).await?;
    others.of("get, after a split that was not seen, upper half", &b, b.get(&upper)).await?;
    let put = c.put(&upper, &VALUE);
    others.of("put, after a split that was not seen, upper half", &c, put).await?;
    for map in [b, c, d] {
        map.close().await?;
    }
    load(&mut growth, &[&a], &mut next, 80_000).await?;
    others.of("tick", &a, a.tick()).await?;
    table.0.append(&mut others.0);
    table.0.append(&mut growth.0);
    table.of_document().assert_documented();
    Ok(())
}

#[test]
fn the_table_of_costs() {
    run(measure);
}
