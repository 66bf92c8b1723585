//! Emulated media beside what is published of them: latency by pattern, on the model's own clock and on this machine's, and
//! bandwidth by threads on the model's. `docs/media.md` shows it, and names the sources.

use std::time::Instant;

use durahash_media::metered::{Metered, Processor, Profile, Touch};
use durahash_media::{Dram, Event, Memory, PmU64, Storage};

use super::{About, Recorder};
use crate::config::Config;
use crate::error::Result;
use crate::report::Samples;

/// Bytes that are read at random: some caches' worth.
const REGION_BYTES: u64 = 128 << 20;
const LINE_BYTES: u64 = 64;
const LINES: u64 = REGION_BYTES / LINE_BYTES;
/// Bytes that are read again and again, and fit into every core's cache.
const HOT_LINES: u64 = (512 << 10) / LINE_BYTES;
/// Accesses of a measured pattern: a multiple of [`FENCED`].
const ACCESSES: u64 = 51_200;
/// Lines that each thread streams, and how many of them between two fences: 4 KiB.
const STREAMED: u64 = 1 << 14;
const FENCED: u64 = 64;
/// Numbers of threads of a machine.
const THREADS: [usize; 8] = [1, 2, 4, 6, 8, 12, 16, 24];

/// A pattern of latency: its name, and what it does to the line that it comes to.
type Pattern = (&'static str, fn(u64) -> u64, &'static [Touch]);
const PATTERNS: [Pattern; 6] = [
    ("read 512 KiB again and again", |i| i % HOT_LINES, &[Touch::Load]),
    ("read in order", |i| i, &[Touch::Load]),
    ("read at random", at_random, &[Touch::Load]),
    ("store past the cache, fence", |i| i, &[Touch::StorePast, Touch::Fence]),
    ("load; store, flush, fence", |i| i, &[Touch::Store, Touch::Flush, Touch::Fence]),
    ("the same to one line", |_| 0, &[Touch::Store, Touch::Flush, Touch::Fence]),
];
/// The pattern whose loads are not a part of the time.
const LOADED: &str = "load; store, flush, fence";

/// A pattern of bandwidth: its name, the line of a thread's own that it comes to, what it does to it, and the bytes of that.
type Stream = (&'static str, fn(u64) -> u64, &'static [Touch]);
const STREAMS: [Stream; 5] = [
    ("reads in order", |i| i, &[Touch::Prefetch]),
    ("reads of 64 B at random", at_random, &[Touch::Prefetch]),
    ("stores past the cache in order", |i| i, &[Touch::StorePast]),
    ("stores of 64 B at random past the cache", at_random, &[Touch::StorePast]),
    ("stores and flushes in order", |i| i, &[Touch::Store, Touch::Flush]),
];

/// The lines in an order without pattern, each once: an odd factor, and a shift.
fn at_random(i: u64) -> u64 {
    let i = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % LINES;
    (i ^ i >> 9).wrapping_mul(0x5851_f42d_4c95_7f2d) % LINES
}

/// Nanoseconds of `PATTERNS`, as published: Yang et al., FAST 2020, Fig. 2, their own data; 0 is nothing.
const PUBLISHED_NS: [(&str, [f64; 6]); 2] = [
    ("optane-100", [0.0, 169.4, 305.0, 90.4, 62.3, 0.0]),
    ("dram", [0.0, 81.4, 101.5, 86.9, 57.3, 0.0]),
];

/// Gigabytes a second of `STREAMS` by `THREADS`, as published: the same, Fig. 4, and Fig. 5, which is of the number of threads
/// that is best, for 64 bytes at random.
const PUBLISHED_GB_S: [(&str, [[f64; 8]; 5]); 2] = [
    (
        "optane-100",
        [
            [2.88, 5.75, 11.63, 16.63, 21.13, 28.75, 34.88, 37.56],
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 9.67],
            [4.13, 8.19, 12.50, 12.31, 12.00, 10.69, 10.00, 7.50],
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.17],
            [1.42, 2.85, 5.75, 8.50, 9.98, 9.50, 8.67, 7.50],
        ],
    ),
    (
        "dram",
        [
            [7.38, 14.50, 29.31, 46.88, 65.38, 91.88, 103.56, 104.56],
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 93.35],
            [4.31, 8.69, 17.25, 25.75, 33.81, 49.56, 64.19, 76.81],
            [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 74.76],
            [1.44, 3.00, 6.00, 9.00, 11.75, 17.75, 23.75, 35.56],
        ],
    ),
];

/// The work of the suite, in runs of all keys.
pub(super) fn work(_config: &Config) -> u64 {
    Profile::ALL.len() as u64
}

impl Recorder<'_> {
    pub(super) fn media(&mut self) -> Result<()> {
        for profile in Profile::ALL {
            self.next(1, profile.name);
            self.latencies(profile)?;
            self.bandwidths(profile);
        }
        Ok(())
    }

    fn latencies(&mut self, profile: Profile) -> Result<()> {
        let published = PUBLISHED_NS.iter().find(|(name, _)| *name == profile.name);
        let mut samples = Samples::default();
        for (i, pattern) in PATTERNS.iter().enumerate() {
            let about = About {
                table: "media latency",
                design: profile.name,
                case: pattern.0,
                threads: 1,
                keys: 0,
            };
            for _ in 0..self.config.repeats {
                samples.add(&about, "measured_ns", measured_ns(profile, pattern)?);
            }
            if let Some(ns) = modelled_ns(profile, pattern) {
                self.add(&about, "model_ns", ns);
            }
            if let Some(ns) = published.map(|(_, ns)| ns[i]).filter(|ns| *ns > 0.0) {
                self.add(&about, "published_ns", ns);
            }
        }
        self.rows.extend(samples.rows());
        Ok(())
    }

    fn bandwidths(&mut self, profile: Profile) {
        let published = PUBLISHED_GB_S.iter().find(|(name, _)| *name == profile.name);
        for (i, stream) in STREAMS.iter().enumerate() {
            for (j, threads) in THREADS.into_iter().enumerate() {
                let Some(rate) = bytes_per_ns(profile, stream, threads) else { return };
                let (design, case) = (profile.name, stream.0);
                let about = About { table: "media bandwidth", design, case, threads, keys: 0 };
                self.add(&about, "model_gb_s", rate);
                let known = published.map(|(_, rates)| rates[i][j]).filter(|rate| *rate > 0.0);
                if let Some(rate) = known {
                    self.add(&about, "published_gb_s", rate);
                }
            }
        }
    }
}

/// Nanoseconds of one step of a pattern on the model's clock; none of a flat medium.
fn modelled_ns(profile: Profile, (name, line, touches): &Pattern) -> Option<f64> {
    let mut processor = Processor::new(&profile, 1)?;
    // What is read again was read before.
    for i in 0..HOT_LINES {
        processor.run(0, Touch::Load, line(i));
    }
    let mut ns = 0;
    for i in HOT_LINES..HOT_LINES + ACCESSES {
        if *name == LOADED {
            processor.run(0, Touch::Load, line(i));
        }
        let from = processor.now(0);
        touches.iter().for_each(|touch| processor.run(0, *touch, line(i)));
        ns += processor.now(0) - from;
    }
    Some(ns as f64 / ACCESSES as f64)
}

/// The same on this machine's clock, with a medium in memory. Each step is an operation.
fn measured_ns(profile: Profile, (name, line, touches): &Pattern) -> Result<f64> {
    let medium = Dram::new(REGION_BYTES)?;
    medium.grow(REGION_BYTES)?;
    let medium = Metered::with_profile(medium, profile);
    let words = medium.region().words(0, REGION_BYTES / 8)?;
    let word = |i: u64| &words[(line(i) * LINE_BYTES / 8) as usize];
    let step = |word: &PmU64, i: u64| {
        for touch in *touches {
            match touch {
                Touch::Load | Touch::Prefetch => {
                    std::hint::black_box(medium.load(word));
                }
                Touch::Store => medium.store(word, i),
                Touch::Flush => medium.flush(word),
                Touch::StorePast => medium.store_nt(word, i),
                Touch::Fence => medium.fence(),
            }
        }
    };
    // Pages are there, and what is read again was read before.
    for page in words.iter().step_by(512) {
        medium.inner().store(page, 1);
    }
    for i in 0..HOT_LINES {
        medium.load(word(i));
    }
    let mut elapsed = std::time::Duration::ZERO;
    for first in (HOT_LINES..HOT_LINES + ACCESSES).step_by(FENCED as usize) {
        if *name == LOADED {
            for i in first..first + FENCED {
                medium.load(word(i));
            }
        }
        let from = Instant::now();
        for i in first..first + FENCED {
            medium.event(Event::Begin);
            step(word(i), i);
            medium.event(Event::Ack);
        }
        elapsed += from.elapsed();
    }
    Ok(elapsed.as_nanos() as f64 / ACCESSES as f64)
}

/// Gigabytes a second that so many threads stream, on the model's clock; none of a flat medium.
fn bytes_per_ns(profile: Profile, (_, line, touches): &Stream, threads: usize) -> Option<f64> {
    let mut processor = Processor::new(&profile, threads)?;
    let mut done = vec![0; threads];
    // The thread whose clock is least goes on.
    while let Some(thread) = (0..threads)
        .filter(|thread| done[*thread] < STREAMED)
        .min_by_key(|thread| (processor.now(*thread), done[*thread]))
    {
        let i = done[thread];
        let own = thread as u64 * LINES + line(i);
        touches.iter().for_each(|touch| processor.run(thread, *touch, own));
        if i % FENCED == FENCED - 1 {
            processor.run(thread, Touch::Fence, 0);
        }
        done[thread] += 1;
    }
    let ns = (0..threads).map(|thread| processor.now(thread)).max()?;
    Some((threads as u64 * STREAMED * LINE_BYTES) as f64 / ns.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_is_near_what_is_published() {
        for profile in Profile::ALL {
            let ns = PUBLISHED_NS.iter().find(|(name, _)| *name == profile.name);
            for (pattern, published) in PATTERNS.iter().zip(ns.map_or([0.0; 6], |(_, ns)| *ns)) {
                let near = published * 0.99..=published * 1.01;
                let ns = modelled_ns(profile, pattern).unwrap_or_default();
                assert!(
                    published == 0.0 || near.contains(&ns),
                    "{} {}: {ns}",
                    profile.name,
                    pattern.0
                );
            }
        }
        // Streams of one thread, and of as many as reach the most that is published.
        for (name, rates) in PUBLISHED_GB_S {
            let profile = Profile::ALL.into_iter().find(|profile| profile.name == name).unwrap();
            for (stream, published) in STREAMS.iter().zip(rates) {
                let most = published.iter().copied().fold(0.0, f64::max);
                for (threads, known) in THREADS.into_iter().zip(published) {
                    if threads > 1 && known < most || known == 0.0 {
                        continue;
                    }
                    let rate = bytes_per_ns(profile, stream, threads).unwrap();
                    let near = known * 0.8..=known * 1.3;
                    assert!(near.contains(&rate), "{name}, {}, {threads}: {rate}", stream.0);
                }
            }
        }
    }

    #[test]
    fn lines_at_random_are_each_met_once() {
        let mut met = vec![false; LINES as usize];
        for i in 0..LINES {
            assert!(!std::mem::replace(&mut met[at_random(i) as usize], true));
        }
    }
}
