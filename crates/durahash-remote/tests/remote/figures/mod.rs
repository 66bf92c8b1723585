//! The counted figures of `docs/benchmarks-remote.md`: how segments fill, what the index takes, what the paper's filter
//! would cost. Everything runs over the simulated fabric, by one seed, so it is the same on any machine.

mod filter;
mod growth;

use crate::deep;
use durahash_remote::Options;
use growth::{KEYS, OF_PAPER, Sample, Sizes};

/// All segments fill together between half of the limit and the limit; the index takes about what the paper
/// says, the more for an entry the fewer a segment has.
fn assert_as_in_the_paper(samples: &[Sample], least_used: f64, most_bytes: f64) {
    for sample in samples {
        let (report, stats) = (&sample.report, &sample.stats);
        assert_eq!((report.keys, report.unaccounted_bytes), (report.entries, 0));
        // Some segments split a little earlier or later than the others.
        let fewest = sample.segments_of(report.keys * 10 / 11);
        let most = sample.segments_of(report.keys * 11 / 10);
        assert!((fewest..=most).contains(&(stats.splits + 1)), "{fewest} to {most}: {sample:?}");
        assert_eq!(report.segments, stats.splits + 1);
        let least = if stats.splits == 0 { 0.0 } else { 0.5 };
        assert!((least..=1.0).contains(&sample.fill()), "{sample:?}");
        assert!(sample.utilization() > least_used, "{sample:?}");
        assert!((9.0..most_bytes).contains(&sample.index_bytes_per_entry()), "{sample:?}");
        let [bytes, plain] = sample.table_bytes();
        assert!(bytes * 3.0 < plain, "{sample:?}");
    }
}

#[test]
fn segments_fill_together() {
    let most = if deep() { u64::MAX } else { 100_000 };
    let keys: Vec<u64> = KEYS.into_iter().take_while(|&keys| keys <= most).collect();
    let samples = growth::samples(OF_PAPER, &keys).unwrap();
    let few = samples.iter().take_while(|sample| sample.report.keys < 4_000).count();
    assert_as_in_the_paper(&samples[..few], 0.95, 11.0);
    assert_as_in_the_paper(&samples[few..], 0.95, 10.2);
    growth::filling(&samples).assert_documented();
    growth::space(&samples).assert_documented();
}

/// The same of the default, whose segments are smaller.
#[test]
fn many_segments_fill_together() {
    let keys: Vec<u64> = (4..=64).map(|i| 2000 * i).collect();
    let Options { cur_entries: cur, main_entries: limit, .. } = Options::default();
    let samples = growth::samples(Sizes { cur, limit }, &keys).unwrap();
    assert_as_in_the_paper(&samples, 0.92, 11.0);
    assert!(samples.last().unwrap().report.segments >= 63);
}

#[test]
fn the_filter_of_the_paper_takes_more_round_trips() {
    let all: Vec<_> =
        filter::WORKLOADS.into_iter().map(|workload| filter::run(workload).unwrap()).collect();
    for sums in &all {
        assert!(sums.ours.trips <= sums.paper.trips, "{sums:?}");
        // Word A, buddies and a window, where the paper reads CurSegMeta with its bitmap.
        assert!(sums.ours.verbs > sums.paper.verbs, "{sums:?}");
    }
    for table in filter::tables(&all) {
        table.assert_documented();
    }
}
