//! Space and strategies of Pea Hash over its growth, for each way to split and to place.
//!
//! ```text
//! cargo bench -p durahash --bench pea_space -- 40
//! ```
//!
//! inserts so many million uniform keys under each policy and prints: the largest load factor, average
//! utility (the paper's §2.2.2: bytes of entries over bytes in use, both summed over all inserts),
//! the most and the mean bytes for an entry, the buckets that a lookup reads if it hits and if it misses, both
//! averaged over the growth, how often segments began with each strategy, and how large a part of
//! all inserts found each strategy in force.

use std::sync::Arc;

use durahash::pea::{Policy, Strategy};
use durahash::{Design, Map, Options};
use durahash_media::Dram;
use durahash_media::metered::Metered;

/// Inserts between two looks.
const STEP: u64 = 20_000;
/// Lookups of each kind at a look.
const LOOKUPS: u64 = 200;
/// Bytes of address space.
const BYTES: u64 = 64 << 30;
/// Before this many keys a few segments make leaps of what later is smooth.
const FROM: u64 = 1_000_000;

fn main() -> durahash::Result<()> {
    let millions = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(10);
    println!("{millions} M uniform inserts");
    println!(
        "split until strategies          peak  utility  max B  mean B   hit  miss  began                 in force"
    );
    let all = (Strategy::Single, Strategy::Stash);
    let mut policies: Vec<(u32, u32, (Strategy, Strategy))> = Vec::new();
    for split_bits in [1, 2] {
        for first_until in [0, 6, 10, 12, 13, 14, 15] {
            policies.push((split_bits, first_until, all));
        }
    }
    for pure in Strategy::ALL {
        policies.push((1, 0, (pure, pure)));
    }
    policies.push((1, 0, (Strategy::Single, Strategy::TwoChoice)));
    for (split_bits, first_until, (first, last)) in policies {
        let mut policy = Policy::default();
        (policy.split_bits, policy.first_until) = (split_bits, first_until);
        (policy.first, policy.last) = (first, last);
        growth(millions, policy)?;
    }
    Ok(())
}

fn growth(millions: u64, policy: Policy) -> durahash::Result<()> {
    let options = Options::new().design(Design::Pea).policy(policy).seed(1);
    let medium = Metered::new(Dram::new(BYTES)?);
    let meter = Arc::clone(medium.meter());
    let map: Map<u64, u64> = options.create_on(medium)?;
    let (mut entries, mut space, mut looks) = (0.0, 0.0, 0.0);
    let (mut peak, mut most, mut sum) = (0.0_f64, 0.0_f64, 0.0);
    let (mut hits, mut misses) = (0, 0);
    let mut in_force = [0.0; 3];
    for from in (0..millions * 1_000_000).step_by(STEP as usize) {
        for key in from..from + STEP {
            map.put(&key, &key)?;
        }
        if from < FROM {
            continue;
        }
        let stats = map.stats()?;
        entries += stats.keys as f64 * 16.0;
        space += stats.index.medium_bytes as f64;
        peak = peak.max(stats.load_factor());
        most = most.max(stats.medium_bytes_per_key());
        sum += stats.medium_bytes_per_key();
        looks += 1.0;
        let units: u64 = stats.index.pea.unwrap().strategies.iter().sum();
        for (sum, count) in in_force.iter_mut().zip(stats.index.pea.unwrap().strategies) {
            *sum += count as f64 / units as f64;
        }
        let blocks = || meter.counts().blocks_read;
        let before = blocks();
        for i in 0..LOOKUPS {
            map.get(&(i * (from / LOOKUPS)))?;
        }
        let between = blocks();
        for i in 0..LOOKUPS {
            map.get(&(i + (1 << 40)))?;
        }
        hits += between - before;
        misses += blocks() - between;
    }
    let per = |blocks: u64| blocks as f64 / looks / LOOKUPS as f64;
    let percent = |part: f64, whole: f64| format!("{:5.1} %", 100.0 * part / whole.max(1.0));
    let began = map.stats()?.index.pea.unwrap().strategies_at_start;
    let made: u64 = began.iter().sum();
    let began = began.map(|n| percent(n as f64, made as f64)).join(" ");
    let in_force = in_force.map(|sum| percent(sum, looks)).join(" ");
    println!(
        "{:>5} {:>5} {:<20} {peak:.3}  {:.3}    {most:5.1}  {:5.1}   {:.2}  {:.2}  {began}  {in_force}",
        1 << policy.split_bits,
        policy.first_until,
        format!("{:?}-{:?}", policy.first, policy.last),
        entries / space,
        sum / looks,
        per(hits),
        per(misses),
    );
    Ok(())
}
