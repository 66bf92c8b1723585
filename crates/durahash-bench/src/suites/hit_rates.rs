//! Hit rates of caches by eviction policy and size, simulated: on lookups by Zipf's law, with scans among them, in a
//! loop, and on traces from files.

use durahash::policy::Policy;

use super::{About, Recorder};
use crate::config::Config;
use crate::error::Result;
use crate::simulator::traces::Trace;
use crate::simulator::{Counted, Reference, evicting, of_policy, of_reference, of_restart};

/// Exponents of Zipf's law.
const ZIPF: [f64; 3] = [0.7, 0.99, 1.2];
/// Sizes of caches, in thousandths of the trace's keys, and their metrics.
const SIZES: [(usize, &str); 5] = [
    (1, "hits at 0.1 %"),
    (10, "hits at 1 %"),
    (50, "hits at 5 %"),
    (100, "hits at 10 %"),
    (250, "hits at 25 %"),
];
/// The size of a cache that is opened again, in thousandths of the keys; lookups behind that for each entry, and the metrics
/// of a cache that goes on, and of that one.
const RESTART_PART: usize = 50;
const RESTARTS: [(usize, [&str; 2]); 2] = [
    (1, ["hits of as many", "hits of as many behind a restart"]),
    (10, ["hits of ten times as many", "hits of ten times as many behind a restart"]),
];
/// The fewest entries of a cache: with fewer, rates are of chance.
const ENTRIES_MIN: usize = 10;

/// Where a trace is from.
enum Source<'a> {
    File(&'a std::path::Path),
    Zipf(f64),
    Scans,
    Loop,
}

impl Source<'_> {
    /// Those of a run.
    fn of(config: &Config) -> Vec<Source<'_>> {
        let files = config.traces.iter().map(|path| Source::File(path));
        let mut sources: Vec<_> =
            files.chain(config.zipf.iter().map(|s| Source::Zipf(*s))).collect();
        if sources.is_empty() {
            sources.extend(ZIPF.map(Source::Zipf));
            sources.extend([Source::Scans, Source::Loop]);
        }
        sources
    }

    fn trace(&self, config: &Config) -> Result<Trace> {
        Ok(match self {
            Source::File(path) => Trace::read(path)?,
            Source::Zipf(exponent) => Trace::zipf(config.keys, *exponent, config.seed),
            Source::Scans => Trace::scans(config.keys, config.seed),
            Source::Loop => Trace::loops(config.keys),
        })
    }
}

/// A policy, and what it is held against.
#[derive(Clone, Copy)]
enum Side {
    Own(Policy),
    Reference(Reference),
}

impl Side {
    fn all() -> impl Iterator<Item = Side> {
        evicting().map(Side::Own).chain(Reference::ALL.map(Side::Reference))
    }

    fn name(self) -> String {
        match self {
            Side::Own(policy) => policy.to_string(),
            Side::Reference(reference) => reference.name().into(),
        }
    }

    /// What a restart costs: hits of lookups behind it, and without it.
    fn restarts(self, trace: &Trace, add: &mut dyn FnMut(&str, f64)) {
        let Side::Own(policy) = self else { return };
        let size = trace.keys * RESTART_PART / 1000;
        if size < ENTRIES_MIN {
            return;
        }
        for (times, metrics) in RESTARTS {
            let lookups = size * times;
            for (metric, hits) in metrics.iter().zip(of_restart(policy, trace, size, lookups)) {
                add(metric, hits as f64 / lookups as f64);
            }
        }
    }

    fn count(self, trace: &Trace, size: usize) -> Counted {
        match self {
            Side::Own(policy) => of_policy(policy, trace, size),
            Side::Reference(reference) => of_reference(reference, trace, size),
        }
    }
}

/// The work of the suite, in runs of all keys.
pub(super) fn work(config: &Config) -> u64 {
    (Source::of(config).len() * Side::all().count()) as u64
}

impl Recorder<'_> {
    pub(super) fn hit_rates(&mut self) -> Result<()> {
        for source in Source::of(self.config) {
            let trace = source.trace(self.config)?;
            for side in Side::all() {
                let name = side.name();
                self.next(1, &format!("{}: {name}", trace.name));
                let keys = trace.keys as u64;
                let about = About {
                    table: "hit rates",
                    design: &name,
                    case: &trace.name,
                    threads: 1,
                    keys,
                };
                let restarts = &About { table: "restarts", ..about };
                side.restarts(&trace, &mut |metric, part| self.add(restarts, metric, part));
                for (part, metric) in SIZES {
                    let size = trace.keys * part / 1000;
                    if size < ENTRIES_MIN {
                        continue;
                    }
                    let counted = side.count(&trace, size);
                    self.add(&about, metric, counted.hits as f64 / trace.lookups.len() as f64);
                    if let (250, Some(bytes)) = (part, counted.bytes) {
                        self.add(&about, "bytes_per_entry", bytes as f64 / size as f64);
                    }
                }
            }
        }
        Ok(())
    }
}
