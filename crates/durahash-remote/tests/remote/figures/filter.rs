//! The cost of the paper's filter in place of the cached prefix of a CurSegment.
//!
//! Ours is measured: one client puts, another looks keys up, and each verb of the lookup is told by the
//! simulated fabric. The paper's (§4.2.1, §4.3, §4.4.1) is a model over the same keys and the same memory: at
//! each lookup the CurSegment is read from the simulation's memory, at no cost, and
//!
//! - a lookup reads 8 bytes of CurSegMeta and the bitmap of 32 bytes, at once, in place of our word A,
//!   buddies and window;
//! - where the bit of the key's fp is set, it then reads the CurSegment's entries and their fp2, 9 bytes each,
//!   in a round trip of its own, unless it must wait for another FPTable anyway, as the segment was
//!   merged;
//! - it reads the KV blocks of entries with both fingerprints equal;
//! - the MainSegment, and an FPTable that is read again after a merge, cost what they cost us;
//! - an insert reads no buddies, and writes a byte of fp2 and a byte of the bitmap, unsignaled.
//!
//! Not in the model, in the paper's favour: clearing the bitmap at a merge, and that two inserts which write
//! bits of one byte at the same time lose one of them.

use std::cell::RefCell;
use std::rc::Rc;

use durahash_media::hash::{ByteHash, WordMix};
use durahash_remote::fabric::{Addr, Choice, Counts, Sim, SimClient, SimOptions, Stage};
use durahash_remote::{Options, RemoteMap, Result};

use crate::common::counts;
use crate::document::{Table, number};

/// Keys in the MainSegment.
const KEYS: u64 = 4096;
const CUR: u64 = 128;
const KV_BYTES: u64 = 64;
/// Lookups of each workload.
const LOOKUPS: u64 = 2000;

counts! {
    /// Round trips, verbs and bytes of payload.
    Cost {
        trips,
        verbs,
        bytes,
    }
}

impl Cost {
    fn cells(&self) -> [String; 3] {
        [(self.trips, 2), (self.verbs, 2), (self.bytes, 0)]
            .map(|(sum, digits)| number(sum as f64 / LOOKUPS as f64, digits))
    }
}

/// Lookups, and what they cost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) ours: Cost,
    pub(crate) paper: Cost,
    /// Puts that did not merge, and what they cost.
    puts: u64,
    put_ours: Counts,
}

/// The keys that are looked up, and the puts between two lookups.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    name: &'static str,
    hits: bool,
    puts: u64,
    /// The client that looks up puts, too, in place of the other.
    own: bool,
}

pub(crate) const WORKLOADS: [Workload; 9] = [
    Workload { name: "there; none", hits: true, puts: 0, own: false },
    Workload { name: "there; 1", hits: true, puts: 1, own: false },
    Workload { name: "there; 8", hits: true, puts: 8, own: false },
    Workload { name: "there; 32", hits: true, puts: 32, own: false },
    Workload { name: "there; 8 of its own", hits: true, puts: 8, own: true },
    Workload { name: "not there; none", hits: false, puts: 0, own: false },
    Workload { name: "not there; 1", hits: false, puts: 1, own: false },
    Workload { name: "not there; 8", hits: false, puts: 8, own: false },
    Workload { name: "not there; 32", hits: false, puts: 32, own: false },
];

/// Read verbs that were posted: where, and how many bytes.
type Reads = Rc<RefCell<Vec<(Addr, u64)>>>;

pub(crate) fn run(workload: Workload) -> Result<Sums> {
    let mut options = SimOptions::default();
    options.max_clients = 2;
    let sim = Sim::new(options);
    let (writer, reader) = (sim.client()?, sim.client()?);
    let reads = Reads::default();
    let told = Rc::clone(&reads);
    let number = if workload.own { writer.number() } else { reader.number() };
    sim.set_hook(Box::new(move |moment| {
        if moment.client == number && moment.stage == Stage::Posted {
            told.borrow_mut().push((moment.addr, moment.len.into()));
        }
        Choice::Go
    }));
    let task = sim.spawn(&writer.clone(), go(sim.clone(), writer, reader, reads, workload));
    sim.run();
    task.take().expect("the task ends")
}

async fn go(
    sim: Sim,
    writer: SimClient,
    reader: SimClient,
    reads: Reads,
    workload: Workload,
) -> Result<Sums> {
    let mut options = Options::default();
    // Ticks are called for, between what is counted.
    options.tick_ns = u64::MAX / 8;
    (options.main_entries, options.kept_entries) = (64 * 128, 0);
    let hash = ByteHash::new(options.seed);
    let writer = RemoteMap::create(writer, options).await?;
    for i in 0..KEYS {
        writer.put(&key(i), &[0; 32]).await?;
    }
    let reader =
        if workload.own { writer.clone() } else { RemoteMap::open(reader, options).await? };
    // A CurSegment that is half full, as it is on average.
    let mix = WordMix::new(1);
    let mut drawn = 0;
    let mut draw = || {
        drawn += 1;
        mix.mix(drawn) % KEYS
    };
    for _ in 0..CUR / 2 {
        writer.put(&key(draw()), &[0; 32]).await?;
    }
    reader.get(&key(0)).await?;
    let mut sums = Sums::default();
    for i in 0..LOOKUPS {
        for _ in 0..workload.puts {
            let (merges, before) = (writer.stats().merges, writer.counts());
            writer.put(&key(draw()), &[0; 32]).await?;
            if writer.stats().merges == merges {
                sums.puts += 1;
                sums.put_ours = sums.put_ours + (writer.counts() - before);
            }
        }
        for _ in 0..3 {
            writer.tick().await?;
            reader.tick().await?;
        }
        let name = key(if workload.hits { draw() } else { KEYS + i });
        let before = reader.counts();
        reads.borrow_mut().clear();
        let found = reader.get(&name).await?;
        assert_eq!(found.is_some(), workload.hits);
        let counts = reader.counts() - before;
        let ours =
            Cost { trips: counts.round_trips, verbs: counts.verbs(), bytes: counts.bytes_in };
        sums.ours += ours;
        sums.paper += model(&sim, &reads.borrow(), hash.hash(&name))?;
    }
    Ok(sums)
}

fn key(i: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&i.to_le_bytes());
    key
}

/// The cost of a lookup by the paper, where ours made `reads`.
fn model(sim: &Sim, reads: &[(Addr, u64)], hash: u64) -> Result<Cost> {
    // Ours begins with word A of the CurSegment, whose layout is that of `docs/format.md`.
    let cur = reads[0].0;
    let entries_off = 192;
    let in_cur = |at: Addr| {
        at.node() == cur.node()
            && (cur.off()..cur.off() + entries_off + 10 * CUR).contains(&at.off())
    };
    let (fp, fp2) = ((hash >> 56) as u8, (hash >> 48) as u8);
    let generation = sim.peek_word(cur)? >> 42 & 127;
    let (mut bit, mut newer) = (false, 0);
    for idx in 0..CUR {
        let entry = sim.peek_word(cur.add(entries_off + 8 * idx))?;
        if entry == 0 || entry >> 53 & 127 != generation {
            break;
        }
        if (entry >> 42) as u8 == fp {
            bit = true;
            let hint = sim.peek(cur.add(entries_off + 8 * CUR + 2 * idx), 2)?;
            newer += u64::from(hint[1] == fp2);
        }
    }
    // Word A is read again where the segment was merged.
    let looks = reads.iter().filter(|&&read| read == (cur, 8)).count() as u64;
    let main: Vec<u64> = (reads.iter().filter(|(at, len)| !in_cur(*at) && *len != KV_BYTES))
        .map(|(_, len)| *len)
        .collect();
    let settled = settled(sim, cur, fp, fp2)?;
    let kv = newer + settled;
    let mut cost = Cost {
        trips: if looks > 1 { 3 } else { 1 + u64::from(bit) },
        verbs: looks + main.len() as u64,
        bytes: 40 * looks + main.iter().sum::<u64>(),
    };
    if bit {
        cost.verbs += 1;
        cost.bytes += 9 * CUR;
    }
    if kv > 0 {
        cost += Cost { trips: 1, verbs: kv, bytes: KV_BYTES * kv };
    }
    Ok(cost)
}

/// Entries of the MainSegment with both fingerprints.
fn settled(sim: &Sim, cur: Addr, fp: u8, fp2: u8) -> Result<u64> {
    let main = sim.peek_word(cur)? & ((1 << 42) - 1);
    let main = Addr::new((main >> 34) as u8, (main & ((1 << 34) - 1)) * 64);
    let header = sim.peek(main.add(16), 2 * 256)?;
    let count = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let counts: Vec<u64> = header.chunks_exact(2).map(count).collect();
    let from: u64 = counts[..usize::from(fp)].iter().sum();
    let items = sim.peek(main.add(16 + 512 + 9 * from), 9 * counts[usize::from(fp)] as usize)?;
    Ok(items.chunks_exact(9).filter(|item| item[8] == fp2).count() as u64)
}

/// Lookups of the workloads in their order, and puts.
pub(crate) fn tables(all: &[Sums]) -> [Table; 2] {
    let head = "| the key; puts by another client since the last lookup | round trips | verbs | bytes in \
                | bitmap: round trips | bitmap: verbs | bitmap: bytes in |";
    let mut table = Table { head, rows: Vec::new() };
    let (mut puts, mut counts) = (0, Counts::default());
    for (workload, sums) in WORKLOADS.iter().zip(all) {
        let mut row = vec![workload.name.to_owned()];
        row.extend(sums.ours.cells());
        row.extend(sums.paper.cells());
        table.rows.push(row);
        puts += sums.puts;
        counts = counts + sums.put_ours;
    }
    [table, put_table(puts, counts)]
}

/// The cost of a put that does not merge: ours, and the paper's by the model.
fn put_table(puts: u64, counts: Counts) -> Table {
    let mean = |sum: u64, digits| number(sum as f64 / puts as f64, digits);
    let head = "| puts | round trips | verbs | of them not awaited | bytes out | bytes in |";
    let ours = vec![
        "measured".to_owned(),
        mean(counts.round_trips, 2),
        mean(counts.verbs(), 2),
        mean(counts.unsignaled, 2),
        mean(counts.bytes_out, 0),
        mean(counts.bytes_in, 0),
    ];
    // One read less and one write more; a hint of ours has two bytes, as has what takes its place.
    let paper = |name: &str, waited: u64| {
        vec![
            name.to_owned(),
            mean(counts.round_trips + waited * puts, 2),
            mean(counts.verbs(), 2),
            mean(counts.unsignaled + (1 - waited) * puts, 2),
            mean(counts.bytes_out, 0),
            mean(counts.bytes_in - 32 * puts, 0),
        ]
    };
    let rows = vec![ours, paper("with the bitmap", 0), paper("with the bitmap, awaited", 1)];
    Table { head, rows }
}
