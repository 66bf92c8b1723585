//! SepHash beside RACE on simulated nodes: figures 2 and 12 to 22, tables 1 to 3 of SepHash's paper,
//! in virtual time.
//!
//! An index of an eighth of the run's keys is made once, and every run goes on from it; inserts double it, so
//! that each segment and subtable splits about once. With so few keys many clients share a segment; so inserts are
//! also run on small segments and subtables, of which there are as many as the paper has large ones.

mod motives;
mod sensitivity;

use std::rc::Rc;

use durahash_bench::workload::{Random, Zipfian};
use durahash_bench::{About, Error, Recorder, Result};
use durahash_remote::Technique;

use crate::assumed::Assumed;
use crate::bed::{Bed, Image, Phase, Setting};
use crate::index::{Kind, Op};
use crate::race::{self, Moves};
use crate::stepwise::Awaited;

/// Numbers of clients, each a thread of a machine.
const CLIENTS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 128];
/// Those at which RACE with moves in batches is measured.
const BATCHED_AT: [usize; 3] = [1, 16, 128];
/// Those at which updates and deletes are measured.
const CHANGED_AT: [usize; 2] = [1, 128];
/// Coroutines of each of 32 clients, besides one.
const COROUTINES: [usize; 2] = [2, 4];
/// Clients of the runs about sizes.
const SIZED: usize = 64;
/// Clients that make an index.
const MAKERS: usize = 8;
/// Percent of inserts in mixes.
const MIXES: [u64; 5] = [0, 25, 50, 75, 100];
/// YCSB's mixes: percent of reads, and true if the others insert.
const YCSB: [(&str, u64, bool); 4] =
    [("A", 50, false), ("B", 95, false), ("C", 100, false), ("D", 95, true)];
/// Points of the curve of growth, and keys between two of them.
const GROWTH_POINTS: u64 = 48;
const GROWTH_STEP: u64 = 1000;
/// Numbers of clients that insert into many small segments.
const MANY_AT: [usize; 4] = [1, 16, 64, 128];
/// The divisor of the sizes of segments and subtables there.
const MANY_SMALLER: u32 = 16;
/// Lookups of each client there that make it acquainted with the index.
const MANY_LOOKUPS: u64 = 4096;
/// Numbers of clients that go without a technique.
const WITHOUT_AT: [usize; 2] = [1, 16];

const SEP: &str = "sephash";
const RACE: &str = "race";
const BATCHED: &str = "race, batched moves";

fn sep() -> durahash_remote::Options {
    let mut options = durahash_remote::Options::default();
    options.max_clients = 160;
    // As in the paper, which has larger MainSegments, of which a client remembers none.
    (options.main_entries, options.kept_entries) = (64 * 128, 0);
    options
}

pub(crate) fn kinds() -> [(&'static str, Kind); 2] {
    [(SEP, Kind::Sep(sep())), (RACE, Kind::Race(race::Options::default()))]
}

fn batched() -> Kind {
    Kind::Race(race::Options { moves: Moves::Batched, ..race::Options::default() })
}

/// Keys of the index that runs go on from: an eighth of the run's.
pub(crate) fn base(keys: u64) -> u64 {
    keys / 8
}

/// Keys of the index of many small segments, and inserts into it.
fn many(keys: u64) -> u64 {
    keys / 2 * 3
}

/// Indexes with many small segments: of both the same part of the usual size.
fn many_kinds() -> [(&'static str, Kind); 3] {
    let mut options = sep();
    options.cur_entries /= MANY_SMALLER;
    options.main_entries /= MANY_SMALLER;
    let race = |moves| {
        let usual = race::Options::default();
        Kind::Race(race::Options { groups: usual.groups / MANY_SMALLER, moves, ..usual })
    };
    [(SEP, Kind::Sep(options)), (RACE, race(Moves::Each)), (BATCHED, race(Moves::Batched))]
}

/// The runs without a technique of SepHash: the case, true if it is about inserts, and the options.
fn without() -> Vec<(&'static str, bool, Option<Technique>, Awaited)> {
    vec![
        ("insert", true, None, Awaited::Nothing),
        ("insert, hints awaited", true, None, Awaited::Hints),
        ("insert, block awaited before the look", true, None, Awaited::Blocks),
        ("insert, CurSegment read whole", true, Some(Technique::Segments), Awaited::Nothing),
        ("insert, splits read all keys", true, Some(Technique::Depths), Awaited::Nothing),
        ("search", false, None, Awaited::Nothing),
        ("search, no FPTables", false, Some(Technique::Tables), Awaited::Nothing),
        (
            "search, CurSegment read whole, no FPTables",
            false,
            Some(Technique::Segments),
            Awaited::Nothing,
        ),
    ]
}

/// The runs with one size varied: the case, the design, and the setting.
fn varied() -> Vec<(String, &'static str, Kind, usize, usize)> {
    let mut all = Vec::new();
    for entries in [16, 32, 64, 128, 256] {
        let mut options = sep();
        (options.cur_entries, options.main_entries) = (entries, 64 * entries);
        all.push((format!("CurSegment of {} B", 8 * entries), SEP, Kind::Sep(options), 1, 32));
    }
    for times in [8, 16, 32, 64] {
        let mut options = sep();
        options.main_entries = times * options.cur_entries;
        all.push((format!("MainSegment of {times} CurSegments"), SEP, Kind::Sep(options), 1, 32));
    }
    for nodes in 1..=4 {
        for (name, kind) in kinds() {
            let case = if nodes == 1 { "1 node".into() } else { format!("{nodes} nodes") };
            all.push((case, name, kind, nodes, 32));
        }
    }
    for bytes in [64, 128, 256, 512, 1024] {
        all.push((format!("key and value of {bytes} B"), SEP, Kind::Sep(sep()), 1, bytes - 32));
    }
    all
}

/// The work of a run on many small segments.
const MANY_WORK: u64 = 12;

/// The measurements, by name, and the number of runs of each, which count as one part of the work.
type Part = (&'static str, fn() -> u64, for<'a, 'b, 'c> fn(&'a mut Run<'b, 'c>) -> Result<()>);
const PARTS: [Part; 9] = [
    ("clients", clients_work, |run| run.clients()),
    ("mixes", || 2 * MIXES.len() as u64, |run| run.all_mixes()),
    ("ycsb", || 2 * YCSB.len() as u64, |run| run.all_ycsb()),
    ("techniques", || (WITHOUT_AT.len() * without().len()) as u64, |run| run.techniques()),
    ("many", many_work, |run| run.all_many()),
    ("growth", || 2, |run| run.both_growths()),
    ("sizes", || varied().len() as u64, |run| run.sizes()),
    ("access", motives::accesses_work, |run| run.accesses()),
    ("resizes", motives::resizes_work, |run| run.resizes()),
];

fn clients_work() -> u64 {
    let swept =
        2 * 2 * CLIENTS.len() + BATCHED_AT.len() + 2 * (COROUTINES.len() + CHANGED_AT.len());
    swept as u64
}

fn many_work() -> u64 {
    MANY_WORK * (2 + many_kinds().len() as u64 * MANY_AT.len() as u64)
}

/// The number of runs, with the loads of both indexes.
pub(crate) fn work() -> u64 {
    2 + PARTS.iter().map(|(_, work, _)| work()).sum::<u64>()
}

/// Operations of streams, of which there are `count`, `ops` in all.
fn streams(count: usize, ops: u64, mut next: impl FnMut(u64, u64) -> Op) -> Vec<Vec<Op>> {
    let count = count as u64;
    (0..count)
        .map(|stream| (stream..ops).step_by(count as usize).map(|i| next(stream, i)).collect())
        .collect()
}

/// Measures everything, from one image of each index.
pub(crate) fn measure(recorder: &mut Recorder<'_>, assumed: Assumed) -> Result<()> {
    let mut run = Run::new(recorder, assumed);
    run.assumptions();
    PARTS.iter().try_for_each(|(.., part)| part(&mut run))
}

/// Measures one part, or `sensitivity`.
pub(crate) fn part(recorder: &mut Recorder<'_>, name: &str) -> Result<()> {
    let mut run = Run::new(recorder, Assumed::default());
    run.assumptions();
    if name == "sensitivity" {
        return run.sensitivity();
    }
    let known = PARTS.iter().find(|(known, ..)| *known == name);
    let (.., part) =
        known.ok_or_else(|| Error::Config { what: format!("no part is called {name}") })?;
    part(&mut run)
}

/// An index, and the image that runs go on from.
struct Loaded {
    name: &'static str,
    kind: Kind,
    image: Image,
}

/// The measurements under way.
struct Run<'a, 'b> {
    recorder: &'a mut Recorder<'b>,
    assumed: Assumed,
    keys: u64,
    seed: u64,
    /// One of each index, once a part needs them.
    images: Option<Rc<[Loaded; 2]>>,
}

impl<'a, 'b> Run<'a, 'b> {
    fn new(recorder: &'a mut Recorder<'b>, assumed: Assumed) -> Self {
        let (keys, seed) = (recorder.config().keys, recorder.config().seed);
        Run { recorder, assumed, keys, seed, images: None }
    }
}

impl Run<'_, '_> {
    fn images(&mut self) -> Result<Rc<[Loaded; 2]>> {
        if let Some(images) = &self.images {
            return Ok(Rc::clone(images));
        }
        let [sep, race] = kinds();
        let images = Rc::new([self.loaded(sep)?, self.loaded(race)?]);
        self.images = Some(Rc::clone(&images));
        Ok(images)
    }

    fn clients(&mut self) -> Result<()> {
        let images = self.images()?;
        for index in &*images {
            for clients in CLIENTS {
                self.inserts(index, clients, 1)?;
                self.searches(index, clients)?;
            }
            for clients in CHANGED_AT {
                self.changes(index, clients)?;
            }
            for coroutines in COROUTINES {
                self.inserts(index, 32, coroutines)?;
            }
        }
        for clients in BATCHED_AT {
            self.recorder.next(1, &format!("simulated: {BATCHED}, inserts, {clients} clients"));
            let bed = Bed::from_image(self.setting(batched(), clients), &images[1].image)?;
            self.inserts_into(&bed, BATCHED, clients, 1)?;
        }
        Ok(())
    }

    fn all_mixes(&mut self) -> Result<()> {
        self.images()?.iter().try_for_each(|index| self.mixes(index))
    }

    fn all_ycsb(&mut self) -> Result<()> {
        self.images()?.iter().try_for_each(|index| self.ycsb(index))
    }

    fn techniques(&mut self) -> Result<()> {
        let images = self.images()?;
        WITHOUT_AT.into_iter().try_for_each(|clients| self.without(&images[0].image, clients))
    }

    fn all_many(&mut self) -> Result<()> {
        let [sep, race, batched] = many_kinds();
        for of_image in [&[sep][..], &[race, batched]] {
            let (name, kind) = of_image[0];
            let loaded = self.many_load(many(self.keys), name, kind)?;
            for (name, kind) in of_image {
                for clients in MANY_AT {
                    self.many(name, *kind, &loaded, clients)?;
                }
            }
        }
        Ok(())
    }

    fn both_growths(&mut self) -> Result<()> {
        kinds().into_iter().try_for_each(|(name, kind)| self.growth(name, kind))
    }

    fn sizes(&mut self) -> Result<()> {
        varied().into_iter().try_for_each(|(case, name, kind, nodes, value_bytes)| {
            self.varied(&case, name, kind, nodes, value_bytes)
        })
    }

    /// The assumptions, as rows.
    fn assumptions(&mut self) {
        let row =
            |design, case| About { table: "simulated nic", design, case, threads: 1, keys: 0 };
        let nic = self.assumed.nic();
        for (metric, value) in [
            ("round_trip_ns", nic.round_trip_ns),
            ("gigabits", nic.gigabits),
            ("header_bytes", nic.header_bytes),
            ("packet_bytes", nic.packet_bytes),
            ("packets_per_s", nic.packets_per_s),
            ("atomics_per_s", nic.atomics_per_s),
            ("computing_percent", self.assumed.computing),
        ] {
            self.recorder.add(&row("all", "assumed"), metric, value as f64);
        }
        for (name, kind) in kinds() {
            let charged = kind.computing().percent(self.assumed.computing);
            for (metric, value) in [("verb_ns", charged.verb_ns), ("byte_ps", charged.byte_ps)] {
                self.recorder.add(&row(name, "processor"), metric, value as f64);
            }
        }
    }

    fn setting(&self, kind: Kind, clients: usize) -> Setting {
        let bytes = (1 << 30) + self.keys * 512;
        let (seed, awaited) = (self.seed, Awaited::Nothing);
        let assumed = self.assumed;
        Setting { kind, clients, nodes: 1, bytes, value_bytes: 32, awaited, assumed, seed }
    }

    fn loaded(&mut self, (name, kind): (&'static str, Kind)) -> Result<Loaded> {
        self.recorder.next(1, &format!("simulated: {name}, load"));
        let bed = Bed::new(self.setting(kind, MAKERS))?;
        bed.run(streams(MAKERS, base(self.keys), |_, i| Op::Put(i)), false)?;
        Ok(Loaded { name, kind, image: bed.into_image()? })
    }

    /// Says what begins, and opens an index by so many clients.
    fn opened(&mut self, index: &Loaded, clients: usize, what: &str) -> Result<Bed> {
        self.recorder.next(1, &format!("simulated: {}, {what}, {clients} clients", index.name));
        Bed::from_image(self.setting(index.kind, clients), &index.image)
    }

    fn inserts(&mut self, index: &Loaded, clients: usize, coroutines: usize) -> Result<()> {
        let bed = self.opened(index, clients, "inserts")?;
        self.inserts_into(&bed, index.name, clients, coroutines)
    }

    /// As many inserts as there are keys, by so many streams.
    fn insert(&self, bed: &Bed, count: usize) -> Result<Phase> {
        let keys = base(self.keys);
        bed.run(streams(count, keys, |_, i| Op::Put(keys + i)), true)
    }

    fn inserts_into(
        &mut self,
        bed: &Bed,
        name: &str,
        clients: usize,
        coroutines: usize,
    ) -> Result<()> {
        let phase = self.insert(bed, clients * coroutines)?;
        let case = match coroutines {
            1 => "insert".to_owned(),
            _ => format!("insert, {coroutines} coroutines"),
        };
        self.add_phase("simulated", name, &case, clients, &phase);
        Ok(())
    }

    /// A quarter as many lookups as there are keys, after as many that only make the clients acquainted
    /// with the index.
    fn lookups(&self, bed: &Bed, clients: usize) -> Result<Phase> {
        let keys = base(self.keys);
        let mut random = Random::new(self.seed);
        let mut lookups = || streams(clients, keys / 4, |_, _| Op::Get(random.below(keys)));
        let (first, second) = (lookups(), lookups());
        bed.run(first, false)?;
        bed.run(second, true)
    }

    fn searches(&mut self, index: &Loaded, clients: usize) -> Result<()> {
        let bed = self.opened(index, clients, "searches")?;
        let phase = self.lookups(&bed, clients)?;
        self.add_phase("simulated", index.name, "search", clients, &phase);
        Ok(())
    }

    /// An update and a delete for every fourth key, each once.
    fn changes(&mut self, index: &Loaded, clients: usize) -> Result<()> {
        let quarter = base(self.keys) / 4;
        let bed = self.opened(index, clients, "updates and deletes")?;
        bed.run(streams(clients, quarter, |_, i| Op::Get(4 * i)), false)?;
        let updates = bed.run(streams(clients, quarter, |_, i| Op::Put(4 * i)), false)?;
        let deletes = bed.run(streams(clients, quarter, |_, i| Op::Delete(4 * i)), true)?;
        self.add_phase("simulated", index.name, "update", clients, &updates);
        self.add_phase("simulated", index.name, "delete", clients, &deletes);
        Ok(())
    }

    /// Inserts and searches as above, with SepHash and without each technique.
    fn without(&mut self, image: &Image, clients: usize) -> Result<()> {
        for (case, inserts, technique, awaited) in without() {
            self.recorder.next(1, &format!("simulated: {case}, {clients} clients"));
            let mut options = sep();
            options.without = technique;
            let setting = Setting { awaited, ..self.setting(Kind::Sep(options), clients) };
            let bed = Bed::from_image(setting, image)?;
            let phase =
                if inserts { self.insert(&bed, clients)? } else { self.lookups(&bed, clients)? };
            self.add_phase("simulated techniques", SEP, case, clients, &phase);
        }
        Ok(())
    }

    /// An index of many small segments, and how many they are.
    fn many_load(&mut self, keys: u64, name: &str, kind: Kind) -> Result<(Image, u64)> {
        self.recorder.next(MANY_WORK, &format!("simulated: {name}, many segments, load"));
        let bed = Bed::new(self.setting(kind, 1))?;
        bed.run(streams(1, keys, |_, i| Op::Put(i)), false)?;
        let segments = bed.space()?.segments;
        Ok((bed.into_image()?, segments))
    }

    fn many(
        &mut self,
        name: &str,
        kind: Kind,
        (image, segments): &(Image, u64),
        clients: usize,
    ) -> Result<()> {
        self.recorder
            .next(MANY_WORK, &format!("simulated: {name}, many segments, {clients} clients"));
        let keys = many(self.keys);
        let phase = self.many_inserts(keys, kind, image, clients)?;
        let (table, case) = ("simulated many", "insert");
        let about = About { table, design: name, case, threads: clients, keys };
        add_phase(self.recorder, &about, &phase);
        self.recorder.add(&about, "segments", *segments as f64);
        Ok(())
    }

    /// As many inserts as there are keys, by clients that have met segments.
    fn many_inserts(&self, keys: u64, kind: Kind, image: &Image, clients: usize) -> Result<Phase> {
        let bed = Bed::from_image(self.setting(kind, clients), image)?;
        let mut random = Random::new(self.seed);
        let lookups = (MANY_LOOKUPS * clients as u64).min(keys);
        bed.run(streams(clients, lookups, |_, _| Op::Get(random.below(keys))), false)?;
        bed.run(streams(clients, keys, |_, i| Op::Put(keys + i)), true)
    }

    fn mixes(&mut self, index: &Loaded) -> Result<()> {
        let keys = base(self.keys);
        let clients = CLIENTS[CLIENTS.len() - 1];
        for inserts in MIXES {
            let case = format!("{inserts} % inserts");
            let bed = self.opened(index, clients, &case)?;
            let mut random = Random::new(self.seed);
            let warm = streams(clients, keys / 8, |_, _| Op::Get(random.below(keys)));
            bed.run(warm, false)?;
            let ops = streams(clients, keys / 2, |_, i| {
                let inserted = random.below(100) < inserts;
                if inserted { Op::Put(keys + i) } else { Op::Get(random.below(keys)) }
            });
            let phase = bed.run(ops, true)?;
            self.add_phase("simulated mix", index.name, &case, clients, &phase);
        }
        Ok(())
    }

    fn ycsb(&mut self, index: &Loaded) -> Result<()> {
        let clients = CLIENTS[CLIENTS.len() - 1];
        for (case, reads, inserts) in YCSB {
            let case = format!("YCSB {case}");
            let bed = self.opened(index, clients, &case)?;
            let phase = self.mixed(&bed, clients, reads, inserts)?;
            self.add_phase("simulated ycsb", index.name, &case, clients, &phase);
        }
        Ok(())
    }

    /// A mix of YCSB by Zipf's law; where the others insert, reads are of the latest keys of the same client.
    fn mixed(&self, bed: &Bed, clients: usize, reads: u64, inserts: bool) -> Result<Phase> {
        let keys = base(self.keys);
        let zipfian = Zipfian::new(keys);
        let mut random = Random::new(self.seed);
        let warm = streams(clients, keys / 8, |_, _| Op::Get(zipfian.draw(&mut random)));
        bed.run(warm, false)?;
        let mut own: Vec<Vec<u64>> = vec![Vec::new(); clients];
        let ops = streams(clients, keys / 2, |stream, i| {
            let rank = zipfian.draw(&mut random);
            let own = &mut own[stream as usize];
            if random.below(100) >= reads {
                let number = if inserts { keys + i } else { rank };
                own.push(number);
                return Op::Put(number);
            }
            if !inserts {
                return Op::Get(rank);
            }
            let latest = own.len() as u64;
            Op::Get(match rank.checked_sub(latest) {
                None => own[(latest - 1 - rank) as usize],
                Some(age) => keys - 1 - age.min(keys - 1),
            })
        });
        bed.run(ops, true)
    }

    /// How full an index is while one client fills it.
    fn growth(&mut self, name: &str, kind: Kind) -> Result<()> {
        self.recorder.next(1, &format!("simulated: {name}, growth"));
        let bed = Bed::new(self.setting(kind, 1))?;
        let step = GROWTH_STEP.min((self.keys / GROWTH_POINTS).max(1));
        for point in 1..=GROWTH_POINTS {
            let keys = point * step;
            bed.run(streams(1, step, |_, i| Op::Put(keys - step + i)), false)?;
            let space = bed.space()?;
            let about =
                About { table: "simulated space", design: name, case: "growth", threads: 1, keys };
            for (metric, value) in space.utilization {
                self.recorder.add(&about, metric, value);
            }
        }
        Ok(())
    }

    /// One size is another than usual.
    fn varied(
        &mut self,
        case: &str,
        name: &str,
        kind: Kind,
        nodes: usize,
        value_bytes: usize,
    ) -> Result<()> {
        self.recorder.next(1, &format!("simulated: {name}, {case}"));
        let keys = base(self.keys) / 4;
        let bytes = (1 << 30) + self.keys * (512 + 2 * value_bytes as u64);
        let setting = Setting { nodes, value_bytes, bytes, ..self.setting(kind, SIZED) };
        let bed = Bed::new(setting)?;
        bed.run(streams(SIZED, keys, |_, i| Op::Put(i)), false)?;
        let inserts = bed.run(streams(SIZED, keys, |_, i| Op::Put(keys + i)), false)?;
        let mut random = Random::new(self.seed);
        let mut lookups = || streams(SIZED, keys, |_, _| Op::Get(random.below(2 * keys)));
        let (first, second) = (lookups(), lookups());
        bed.run(first, false)?;
        let searches = bed.run(second, false)?;
        let of = |what: &str| format!("{case}, {what}");
        self.add_phase("simulated sizes", name, &of("insert"), SIZED, &inserts);
        self.add_phase("simulated sizes", name, &of("search"), SIZED, &searches);
        if value_bytes == 32 && nodes == 1 {
            let space = bed.space()?;
            let about = About {
                table: "simulated space",
                design: name,
                case,
                threads: SIZED,
                keys: 2 * keys,
            };
            for (metric, value) in space.utilization.into_iter().chain(space.sizes) {
                self.recorder.add(&about, metric, value);
            }
        }
        Ok(())
    }

    fn add_phase(&mut self, table: &str, design: &str, case: &str, clients: usize, phase: &Phase) {
        let keys = base(self.keys);
        add_phase(self.recorder, &About { table, design, case, threads: clients, keys }, phase);
    }
}

/// The rows of a phase.
fn add_phase(recorder: &mut Recorder<'_>, about: &About<'_>, phase: &Phase) {
    numbers(phase, about.design).into_iter().for_each(|(name, n)| recorder.add(about, name, n));
}

/// What there is to tell of a phase of an index.
pub(crate) fn numbers(phase: &Phase, design: &str) -> Vec<(&'static str, f64)> {
    let each = |count: u64| count as f64 / phase.ops.max(1) as f64;
    let latency = &phase.latency;
    let mut numbers = vec![
        ("ops_per_s", phase.ops_per_s()),
        ("p50_ns", latency.value_at_quantile(0.5) as f64),
        ("p99_ns", latency.value_at_quantile(0.99) as f64),
        ("max_ns", latency.max() as f64),
        ("ops", phase.ops as f64),
        ("round_trips", each(phase.counts.round_trips)),
        ("verbs", each(phase.counts.verbs())),
        ("bytes", each(phase.counts.bytes_in + phase.counts.bytes_out)),
        ("merges", phase.done.merges as f64),
        ("splits", phase.done.splits as f64),
        ("conflicts", each(phase.done.conflicts)),
        ("waits", each(phase.done.waits)),
    ];
    // Clients of SepHash take no time of their splits.
    if design != SEP {
        let (split_ns, all_ns) =
            (phase.done.split_ns as f64, latency.mean() * latency.len() as f64);
        numbers.extend([("split_ms", split_ns / 1e6), ("split_part", split_ns / all_ns.max(1.0))]);
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_share_all_operations() {
        let all = streams(3, 10, |_, i| Op::Put(i));
        assert_eq!(all.iter().map(Vec::len).collect::<Vec<_>>(), [4, 3, 3]);
        let mut numbers: Vec<u64> = all
            .into_iter()
            .flatten()
            .map(|op| match op {
                Op::Put(number) | Op::Get(number) | Op::Delete(number) => number,
            })
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    }
}
