//! Pools behind a log, cut at every step of the disk, recovered, and compared.
//!
//! A script runs once on a simulated disk. Before each step that the disk took, and while it was
//! taking one, power fails or the process is killed; the real recovery opens the pool.
//! It must hold the effects of the script up to some operation: in `Strict`, and after a
//! kill in any mode, the last one that had returned or the one under way; in `Interval`, one not
//! before the last write that was waited for. Some recoveries are cut, too, and some go on.

use std::collections::{BTreeMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::RangeInclusive;

use durahash::{Batch, Design, ErrorKind, Map, MultiMap, Openable, Options, Result, SyncMode};
use durahash_media::sim::{DiskImage, DiskStep, LiveSteps, LogSteps, SimDisk, budget};
use durahash_media::{Geometry, Medium};

use crate::block::{Omit, Pick, Walk};
use crate::script::Rng;

const MAX_BYTES: u64 = 256 << 10;
/// The smallest area there is: a ring of four blocks.
const AREA_BYTES: u64 = 7 * 4096;
/// An area of which a log begins with that part, and comes to use all.
const LONG_AREA_BYTES: u64 = 16 * 4096;
/// The same for a ring, which is as long as all of it when a pool has more than 4 KiB.
const LONG_RING_BYTES: u64 = 10 * 4096;
/// Lines that a part of a batch has room for, and bytes of the area, by the seed: batches of up to four parts, of two blocks each,
/// of two parts, and of one. What is longer lies in a file.
const PARTS: [(usize, u64); 4] =
    [(4, 11 * 4096), (70, 11 * 4096), (2, AREA_BYTES), (usize::MAX, AREA_BYTES)];

/// The contents of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A map of words.
    Words,
    /// A map of byte strings, with hashes of four bits.
    Strings,
    /// A multimap of words.
    Lists,
}

/// A pool under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The design.
    pub design: Design,
    /// The contents.
    pub kind: Kind,
    /// The mode.
    pub mode: SyncMode,
    /// The log uses more of its area from the first checkpoint on.
    pub extends: bool,
    /// A live image in place of a log of lines.
    pub live: bool,
    /// An order or sync that is left out.
    pub omit: Option<Omit>,
    /// With a live image: lines that a part of a batch has room for, and bytes of the area that the ring has at first.
    pub parts: (usize, u64),
}

impl Case {
    /// Every design, kind and mode.
    #[must_use]
    pub fn all() -> Vec<Case> {
        let mut all = Vec::new();
        for design in Design::ALL {
            for kind in [Kind::Words, Kind::Strings, Kind::Lists] {
                // The one that has multimaps.
                if kind == Kind::Lists && *design != Design::Pea {
                    continue;
                }
                for mode in [SyncMode::Strict, SyncMode::INTERVAL] {
                    let (extends, live, omit, parts) = (false, false, None, PARTS[0]);
                    let case = Case { design: *design, kind, mode, extends, live, omit, parts };
                    let live = Case { live: true, ..case };
                    all.extend([case, live]);
                    if *design == Design::Reh {
                        all.extend([case, live].map(|case| Case { extends: true, ..case }));
                    } else if kind == Kind::Words && mode != SyncMode::Strict {
                        all.push(Case { extends: true, ..live });
                    }
                }
            }
        }
        all
    }

    fn options(self) -> Options {
        let (extent_shift, hash_bits) = if self.kind == Kind::Strings { (12, 4) } else { (10, 0) };
        let geometry = Geometry { extent_shift, slots: 3, hash_bits, buckets: 0 };
        Options::new().design(self.design).seed(1).geometry(geometry)
    }

    fn create(self, disk: &SimDisk) -> Result<(Table, Steps)> {
        let disk = disk.clone();
        if self.live {
            disk.set_part_entries(self.parts.0);
            let bytes = if self.extends { AREA_BYTES } else { self.parts.1 };
            let medium = disk.create_live(self.mode, bytes)?;
            let steps = Steps::Live(medium.steps());
            return Ok((self.table(medium, true)?, steps));
        }
        let medium = disk.create_with(self.mode, AREA_BYTES)?;
        let steps = Steps::Lines(medium.steps());
        Ok((self.table(medium, true)?, steps))
    }

    fn open(self, disk: &SimDisk) -> Result<(Table, Steps)> {
        let disk = disk.clone();
        if self.live {
            disk.set_part_entries(self.parts.0);
            let medium = disk.open_live(self.mode)?;
            let steps = Steps::Live(medium.steps());
            return Ok((self.table(medium, false)?, steps));
        }
        let medium = disk.open(self.mode)?;
        let steps = Steps::Lines(medium.steps());
        Ok((self.table(medium, false)?, steps))
    }

    fn table(self, medium: impl Medium, is_new: bool) -> Result<Table> {
        let options = self.options();
        Ok(match self.kind {
            Kind::Words => Table::Words(made(&options, medium, is_new)?),
            Kind::Strings => Table::Strings(made(&options, medium, is_new)?),
            Kind::Lists => Table::Lists(made(&options, medium, is_new)?),
        })
    }

    fn keeps_staged(self) -> bool {
        self.mode != SyncMode::Strict && !self.live
    }
}

/// The steps that threads in the background would take.
enum Steps {
    Lines(LogSteps<SimDisk>),
    Live(LiveSteps<SimDisk>),
}

impl Steps {
    fn write(&self) -> Result<()> {
        match self {
            Steps::Lines(steps) => steps.write(),
            Steps::Live(steps) => steps.write(),
        }
    }

    fn checkpoint(&self) -> Result<()> {
        match self {
            Steps::Lines(steps) => steps.checkpoint(),
            Steps::Live(steps) => steps.checkpoint(),
        }
    }
}

fn made<T: Openable>(options: &Options, medium: impl Medium, is_new: bool) -> Result<T> {
    if is_new { options.create_on(medium) } else { options.open_on(medium) }
}

/// A pool behind a log.
pub(crate) enum Table {
    Words(Map<u64, u64>),
    Strings(Map<str, str>),
    Lists(MultiMap<u64, u64>),
}

fn text(v: u64) -> String {
    // Of several size classes.
    format!("{v:0width$}", width = 4 + (v % 90) as usize)
}

/// The same for a value: some take more than an extent.
fn long_text(v: u64) -> String {
    format!("{v:0width$}", width = text(v).len() + if v % 16 == 5 { 4100 } else { 0 })
}

/// The values of each key, in their order.
pub(crate) type Contents = BTreeMap<u64, Vec<u64>>;

impl Table {
    /// Puts a value, of a multimap one more.
    pub(crate) fn put(&self, key: u64, v: u64) -> Result<()> {
        match self {
            Table::Words(map) => map.put(&key, &v),
            Table::Strings(map) => map.put(&text(key), &long_text(v)),
            Table::Lists(map) => map.add(&key, &v),
        }
    }

    fn put_many(&self, pairs: &[(u64, u64)]) -> Result<()> {
        match self {
            Table::Words(map) => map.put_many(pairs),
            Table::Strings(map) => {
                let pairs: Vec<_> =
                    pairs.iter().map(|(key, v)| (text(*key), long_text(*v))).collect();
                map.put_many(&pairs)
            }
            Table::Lists(map) => map.add_many(pairs),
        }
    }

    /// Gives many keys these values, or none, by a batch.
    fn apply(&self, changes: &[(u64, Option<u64>)]) -> Result<()> {
        let mut batch = Batch::new();
        for (key, v) in changes {
            match (self, v) {
                (Table::Words(map), Some(v)) => batch.put(map, key, v)?,
                (Table::Words(map), None) => batch.remove(map, key)?,
                (Table::Strings(map), Some(v)) => batch.put(map, &text(*key), &long_text(*v))?,
                (Table::Strings(map), None) => batch.remove(map, &text(*key))?,
                (Table::Lists(_), _) => unreachable!("multimaps have no batches"),
            }
        }
        batch.apply()
    }

    /// Removes the values of a key.
    pub(crate) fn remove(&self, key: u64) -> Result<()> {
        match self {
            Table::Words(map) => map.remove(&key).map(drop),
            Table::Strings(map) => map.remove(&text(key)).map(drop),
            Table::Lists(map) => map.remove_all(&key).map(drop),
        }
    }

    /// Removes one value of those that a key of a multimap has.
    pub(crate) fn remove_one(&self, key: u64, v: u64) -> Result<()> {
        match self {
            Table::Lists(map) => map.remove_one(&key, &v).map(drop),
            _ => self.remove(key),
        }
    }

    fn get(&self, key: u64) -> Result<()> {
        match self {
            Table::Words(map) => map.get(&key).map(drop),
            Table::Strings(map) => map.get(&text(key)).map(drop),
            Table::Lists(map) => map.get_all(&key).map(drop),
        }
    }

    pub(crate) fn sync(&self) -> Result<()> {
        match self {
            Table::Words(map) => map.sync(),
            Table::Strings(map) => map.sync(),
            Table::Lists(map) => map.sync(),
        }
    }

    pub(crate) fn close(self) -> Result<()> {
        match self {
            Table::Words(map) => map.close(),
            Table::Strings(map) => map.close(),
            Table::Lists(map) => map.close(),
        }
    }

    /// Everything in it, after a check.
    pub(crate) fn contents(&self) -> Result<Contents, String> {
        let mut wrong = None;
        let mut found = |finding| wrong = wrong.take().or(Some(format!("{finding:?}")));
        let (checked, pairs, len) = match self {
            Table::Words(map) => {
                (map.check(&mut found), map.iter().collect::<Result<Vec<_>>>(), map.len())
            }
            Table::Strings(map) => {
                let number = |text: String| text.parse::<u64>().expect("a number");
                let pairs = map.iter().map(|pair| pair.map(|(k, v)| (number(k), number(v))));
                (map.check(&mut found), pairs.collect(), map.len())
            }
            Table::Lists(map) => (map.check(&mut found), map.iter().collect(), map.len()),
        };
        checked.map_err(|e| e.to_string())?;
        if let Some(wrong) = wrong {
            return Err(wrong);
        }
        let pairs = pairs.map_err(|e| e.to_string())?;
        let count = pairs.len() as u64;
        let mut contents = Contents::new();
        for (key, v) in pairs {
            contents.entry(key).or_default().push(v);
        }
        contents.values_mut().for_each(|values| values.sort_unstable());
        match len {
            Ok(len) if len == count => Ok(contents),
            other => Err(format!("{count} entries, len says {other:?}")),
        }
    }
}

impl Case {
    /// Changes `contents` as `key` gets a value, or loses its own.
    fn change(self, contents: &mut Contents, key: u64, v: Option<u64>) {
        let Some(v) = v else {
            contents.remove(&key);
            return;
        };
        let values = contents.entry(key).or_default();
        if self.kind != Kind::Lists {
            values.clear();
        }
        values.push(v);
        values.sort_unstable();
    }
}

/// The record of a script.
struct Run {
    /// The disk before it.
    image: DiskImage,
    steps: Vec<DiskStep>,
    /// Contents after so many operations.
    after: Vec<Contents>,
    /// How many operations had begun, returned, and were waited for, at the mark of this number.
    marks: Vec<Progress>,
    error: Option<String>,
    /// A call of the disk has failed.
    has_failed: bool,
}

/// Which calls of the disk fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fail {
    /// The one of this number, and all behind it.
    From(u64),
    /// That one alone: what is tried again succeeds.
    Once(u64),
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    begun: usize,
    returned: usize,
    /// In any mode on the disk.
    synced: usize,
}

struct Runner {
    case: Case,
    disk: SimDisk,
    run: Run,
    at: Progress,
}

impl Runner {
    fn mark(&mut self) {
        self.disk.mark(self.run.marks.len() as u64);
        self.run.marks.push(self.at);
    }

    /// Runs `op`, which has `effects`, in this order.
    fn op(
        &mut self,
        effects: &[(u64, Option<u64>)],
        op: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        effects.iter().for_each(|effect| self.begin(std::slice::from_ref(effect)));
        self.end(op)
    }

    /// Runs `op`, which has all of these `effects` or none.
    fn batch(
        &mut self,
        effects: &[(u64, Option<u64>)],
        op: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        self.begin(effects);
        self.end(op)
    }

    fn begin(&mut self, effects: &[(u64, Option<u64>)]) {
        self.at.begun += 1;
        let mut next = self.run.after.last().expect("one at least").clone();
        effects.iter().for_each(|(key, v)| self.case.change(&mut next, *key, *v));
        self.run.after.push(next);
    }

    fn end(&mut self, op: impl FnOnce() -> Result<()>) -> Result<()> {
        self.mark();
        op()?;
        self.at.returned = self.at.begun;
        self.mark();
        Ok(())
    }

    fn synced(&mut self) {
        self.at.synced = self.at.returned;
        self.mark();
    }

    /// Opens the pool, runs `ops` operations, and now and then closes it.
    fn go(&mut self, ops: usize, seed: u64) -> Result<()> {
        let opened = self.case.open(&self.disk);
        self.run.steps = self.disk.steps();
        let (table, steps) = opened?;
        let mut done = self.random_ops(&table, &steps, ops, &mut Rng::new(seed));
        // Before it is dropped, which closes it.
        self.run.steps = self.disk.steps();
        if done.is_ok() && seed.is_multiple_of(3) {
            done = table.close();
            if done.is_ok() {
                self.synced();
            }
            self.run.steps = self.disk.steps();
        }
        done
    }

    fn random_ops(
        &mut self,
        table: &Table,
        steps: &Steps,
        ops: usize,
        rng: &mut Rng,
    ) -> Result<()> {
        // Lists shall be longer than a slot.
        let keys = if self.case.kind == Kind::Lists { 6 } else { 24 };
        for _ in 0..ops {
            let key = rng.below(keys) as u64;
            let v = rng.below(1_000_000) as u64;
            match rng.below(20) {
                0 => {
                    let pairs: Vec<_> = (0..2 + rng.below(12))
                        .map(|_| (rng.below(keys) as u64, rng.below(1_000_000) as u64))
                        .collect();
                    let effects: Vec<_> = pairs.iter().map(|(key, v)| (*key, Some(*v))).collect();
                    self.op(&effects, || table.put_many(&pairs))?;
                }
                1 => {
                    table.sync()?;
                    self.synced();
                }
                2 => {
                    steps.write()?;
                    self.synced();
                }
                3 => {
                    steps.checkpoint()?;
                    table.get(key)?;
                }
                4 if self.case.kind != Kind::Lists => {
                    let changes: Vec<_> = (0..2 + rng.below(9))
                        .map(|_| {
                            let v = rng.below(1_500_000) as u64;
                            (rng.below(keys) as u64, (v < 1_000_000).then_some(v))
                        })
                        .collect();
                    self.batch(&changes, || table.apply(&changes))?;
                }
                4..=9 => self.op(&[(key, None)], || table.remove(key))?,
                _ => self.op(&[(key, Some(v))], || table.put(key, v))?,
            }
        }
        Ok(())
    }
}

/// Makes a pool, closes it, and runs `ops` operations on it; `fail` says which calls fail.
fn run(case: Case, seed: u64, ops: usize, fail: Option<Fail>) -> Result<Run, String> {
    let told = |e: durahash::Error| e.to_string();
    let area_bytes = match case {
        Case { extends: true, live: true, .. } => LONG_RING_BYTES,
        Case { extends: true, .. } => LONG_AREA_BYTES,
        Case { live: true, .. } => case.parts.1,
        _ => AREA_BYTES,
    };
    let disk = SimDisk::new(MAX_BYTES, area_bytes, case.keeps_staged());
    let (table, _) = case.create(&disk).map_err(told)?;
    table.close().map_err(told)?;
    let image = disk.image();
    let disk = SimDisk::resume(image.clone(), Vec::new(), MAX_BYTES, case.keeps_staged());
    match fail {
        Some(Fail::From(nth)) => disk.fail_at(nth),
        Some(Fail::Once(nth)) => disk.fail_once_at(nth),
        None => {}
    }
    let run = Run {
        image,
        steps: Vec::new(),
        after: vec![Contents::new()],
        marks: Vec::new(),
        error: None,
        has_failed: false,
    };
    let mut runner = Runner { case, disk, run, at: Progress::default() };
    runner.mark();
    let done = runner.go(ops, seed);
    let mut run = runner.run;
    run.error = done.err().map(told);
    run.has_failed = runner.disk.has_failed();
    Ok(run)
}

/// Counts of the work done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looked {
    /// Crashes: pairs of an instant and what the disk then holds.
    pub cuts: u64,
    /// Different ones among them, which were recovered.
    pub states: u64,
    /// Of these, in a recovery.
    pub inside: u64,
    /// Kills between two steps with a live image: these are looked at beside the others.
    pub kills: u64,
    /// Blocks that were written to the log: how often the ring was gone round is a quarter of it.
    pub blocks: u64,
    /// Batches of one part, of two, and of more.
    pub batches: [u64; 3],
    /// States of power that failed between two parts of a batch, or in one behind the first.
    pub torn: u64,
    /// Batches that lie in files of their own.
    pub spills: u64,
    /// Blocks of a ring behind what it had at first.
    pub longer: u64,
    /// Recoveries of a log in which a batch is damaged.
    pub damaged: u64,
}

/// Looks for a state that is recovered wrongly.
pub struct Tester {
    case: Case,
    /// Counts of the work done so far.
    pub looked: Looked,
    seen: HashSet<u64>,
    /// Before one in so many steps a process with a live image is killed.
    kill_one_in: usize,
    /// Nothing was written to the base since the last batch was noted.
    is_base_older: bool,
}

impl Tester {
    /// A tester of `case`.
    #[must_use]
    pub fn new(case: Case) -> Self {
        Tester {
            case,
            looked: Looked::default(),
            seen: HashSet::new(),
            kill_one_in: budget(3, 1),
            is_base_older: false,
        }
    }

    /// Runs the script of `seed` and looks at the states that crashes may leave.
    ///
    /// # Errors
    /// The fault of one of them, and how to see it again.
    pub fn random(&mut self, seed: u64, ops: usize) -> Result<(), String> {
        self.case.parts = PARTS[(seed % 4) as usize];
        let run = run(self.case, seed, ops, None)?;
        if let Some(e) = &run.error {
            return Err(format!("{:?}, seed {seed}: {e}", self.case));
        }
        self.look_at(&run, seed)
    }

    /// The same, with each call of the disk failing in turn.
    ///
    /// # Errors
    /// As [`random`](Tester::random); a failure that was not told.
    pub fn failing(&mut self, seed: u64, ops: usize) -> Result<(), String> {
        self.case.parts = PARTS[(seed % 4) as usize];
        // Most steps are those of the run in which the call before fails.
        self.kill_one_in = budget(48, 8);
        for fail in [Fail::From, Fail::Once] {
            for nth in 1.. {
                let run = run(self.case, seed, ops, Some(fail(nth)))?;
                if !run.has_failed {
                    break;
                }
                self.seen.clear();
                self.look_at(&run, seed).map_err(|e| format!("{:?}: {e}", fail(nth)))?;
                let failed = |step: &DiskStep| {
                    matches!(step, DiskStep::LogFailed { .. } | DiskStep::SyncDataFailed)
                };
                if run.steps.iter().any(failed) && run.error.is_none() {
                    let case = self.case;
                    return Err(format!("{case:?}, seed {seed}: {:?} was not told", fail(nth)));
                }
            }
        }
        Ok(())
    }

    fn look_at(&mut self, run: &Run, seed: u64) -> Result<(), String> {
        let omit = self.case.omit;
        let steps = omit.map_or_else(|| run.steps.clone(), |omit| omit.from(run.steps.clone()));
        let mut walk = Walk::new(run.image.clone(), omit);
        let mut progress = Progress::default();
        let mut rng = Rng::new(seed ^ 0xb10c);
        let case = self.case;
        let mut is_to_be_noted = false;
        self.is_base_older = false;
        for at in 0..=steps.len() {
            let step = steps.get(at);
            let part = step.and_then(DiskStep::part).filter(|_| case.live);
            match step {
                Some(DiskStep::Log { off, bytes }) => {
                    self.looked.blocks += bytes.len() as u64 / 4096;
                    self.looked.longer += u64::from(case.extends && *off >= AREA_BYTES);
                }
                Some(DiskStep::Spill { bytes: Some(_), .. }) => self.looked.spills += 1,
                _ => {}
            }
            if let Some((index, true)) = part {
                self.looked.batches[index.min(2) as usize] += 1;
            }
            let states = self.looked.states;
            let wrong = |wrong: String| {
                format!("{case:?}, seed {seed}, before step {at}, {progress:?}: {wrong}")
            };
            // Operations that returned survive a kill. A loss of power takes writes that only the kernel had, but those
            // that were waited for, or found by a recovery, must have been made durable.
            let told = progress.returned..=progress.begun;
            let durable = match case.mode {
                SyncMode::Strict => told.clone(),
                _ => progress.synced..=progress.begun,
            };
            // The states between two steps that make something sure are among those at the second.
            let point = matches!(
                step,
                None | Some(DiskStep::Log { .. } | DiskStep::Again { .. } | DiskStep::SyncData)
                    | Some(DiskStep::Mark(_) | DiskStep::LogFailed { .. } | DiskStep::Resize(_))
                    | Some(DiskStep::SyncDataFailed | DiskStep::Spill { .. })
                    | Some(DiskStep::Soon { .. } | DiskStep::FlushDrive)
            );
            if point {
                let picks = [Pick::Least, Pick::Most, Pick::Random(rng.number())];
                let again = Pick::Random(rng.number());
                for pick in picks.into_iter().chain([again]) {
                    let image = walk.cut(step, pick);
                    self.crash(run, image, None, &durable, &durable, &mut rng).map_err(wrong)?;
                }
            }
            if matches!(part, Some((1.., _))) {
                self.looked.torn += self.looked.states - states;
            }
            // Killed: everything that was written is there.
            if matches!(step, None | Some(DiskStep::Log { .. } | DiskStep::Mark(_))) {
                let image = image_after(run, &steps[..at]);
                self.crash(run, image, Some(&walk), &told, &durable, &mut rng).map_err(wrong)?;
            } else if self.may_be_killed(&steps, at, &mut rng) {
                self.killed(run, walk.killed(), &told).map_err(wrong)?;
            }
            // Killed while the drive writes: it has done so, but nobody has waited for its cache.
            if let Some(DiskStep::Log { off, bytes }) = step {
                let mut walk = walk.clone();
                walk.take(&DiskStep::LogFailed { off: *off, bytes: bytes.clone() });
                let image = image_after(run, &steps[..=at]);
                self.crash(run, image, Some(&walk), &told, &durable, &mut rng).map_err(wrong)?;
            }
            if let Some(step) = step {
                walk.take(step);
                match step {
                    DiskStep::Mark(mark) => progress = run.marks[*mark as usize],
                    DiskStep::Line { .. } => self.is_base_older = false,
                    DiskStep::Live(_) => self.is_base_older |= std::mem::take(&mut is_to_be_noted),
                    _ => is_to_be_noted |= matches!(part, Some((_, true))),
                }
            }
        }
        Ok(())
    }

    /// True where a process with a live image may be killed before this step: anywhere, but of the lines that are written one
    /// behind the other not before each.
    fn may_be_killed(&self, steps: &[DiskStep], at: usize, rng: &mut Rng) -> bool {
        let is_line = |at: usize| matches!(steps[at], DiskStep::Line { .. });
        let is_behind_line = at > 0 && is_line(at) && is_line(at - 1);
        self.case.live
            && (!is_behind_line || rng.below(32) == 0)
            && rng.below(self.kill_one_in) == 0
    }

    /// The process is killed, and the next one finds this.
    fn killed(
        &mut self,
        run: &Run,
        image: &DiskImage,
        expected: &RangeInclusive<usize>,
    ) -> Result<(), String> {
        // A live file that is bad is looked at before other steps.
        let is_bad = image.live.as_ref().is_some_and(|live| live.is_bad());
        if is_bad || !self.is_new(image, expected, true) {
            return Ok(());
        }
        self.looked.kills += 1;
        self.again(run, image.clone(), expected).map_err(|e| format!("killed: {e}"))
    }

    /// True unless this disk was looked at before, with as much expected of it. After a kill the
    /// system may have less of it on the disk, so it is another state than after a loss of power.
    fn is_new(
        &mut self,
        image: &DiskImage,
        expected: &RangeInclusive<usize>,
        killed: bool,
    ) -> bool {
        self.looked.cuts += 1;
        let mut hasher = DefaultHasher::new();
        let live = image.live.as_ref().filter(|_| killed);
        (&image.pool, &image.area, &image.spills, live, expected, killed).hash(&mut hasher);
        self.seen.insert(hasher.finish())
    }

    /// Power fails, or the process is killed where there is a `walk` that says what is on the disk: `image`
    /// is what is read then. Power may fail in its recovery, too: what is then there is one of `durable`.
    fn crash(
        &mut self,
        run: &Run,
        mut image: DiskImage,
        walk: Option<&Walk>,
        expected: &RangeInclusive<usize>,
        durable: &RangeInclusive<usize>,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let killed = walk.is_some();
        let mut walk = walk.cloned().unwrap_or_else(|| Walk::new(image.clone(), self.case.omit));
        if !self.is_new(&image, expected, killed) {
            return Ok(());
        }
        self.looked.states += 1;
        let keeps = self.case.keeps_staged();
        let mut expected = expected;
        if killed && image.live.as_ref().is_some_and(|live| live.is_bad()) {
            let disk = SimDisk::resume(image.clone(), Vec::new(), MAX_BYTES, keeps);
            match self.case.open(&disk) {
                Err(e) if matches!(e.kind(), ErrorKind::NoLiveImage { .. }) => {}
                Err(e) => return Err(format!("with a live file that is bad: {e}")),
                Ok(_) => return Err("a live file that is bad was trusted".into()),
            }
            // What is on the disk, for who accepts it, and for another boot.
            (image.boot, expected) = (image.boot + 1, durable);
            walk.boot();
        }
        if self.case.live && !killed && self.case.omit.is_none() && rng.below(4) == 0 {
            self.damaged(run, image.clone(), *expected.end(), rng)
                .map_err(|e| format!("damaged: {e}"))?;
        }
        let disk = SimDisk::resume(image, Vec::new(), MAX_BYTES, keeps);
        disk.set_past_cache(rng.below(2) == 0);
        let found = self.recover(run, &disk, expected, rng)?;
        self.inside(run, walk, disk.steps(), &(found..=found), durable, killed, rng)
    }

    /// A bit of one of the batches that a recovery finds is wrong. That is told; of the last one, which nothing behind it proves, the
    /// pool may be what it was before, if the base is.
    fn damaged(
        &mut self,
        run: &Run,
        mut image: DiskImage,
        latest: usize,
        rng: &mut Rng,
    ) -> Result<(), String> {
        let on = |image| SimDisk::resume(image, Vec::new(), MAX_BYTES, false);
        let batches = on(image.clone()).batches().map_err(|e| e.to_string())?;
        if batches.is_empty() {
            return Ok(());
        }
        let at = rng.below(batches.len());
        let is_last = at + 1 == batches.len();
        if is_last && !self.is_base_older {
            return Ok(());
        }
        let (places, file) = &batches[at];
        let bytes = match file.and_then(|batch| image.spills.get_mut(&batch)) {
            Some(file) if rng.below(2) == 0 => &mut file[..],
            _ => {
                let place = places[rng.below(places.len())].clone();
                &mut image.area[place.start as usize..place.end as usize]
            }
        };
        let bit = rng.below(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        self.looked.damaged += 1;
        let table = match self.case.open(&on(image)) {
            Ok((table, _)) => table,
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt { .. }) => return Ok(()),
            Err(e) => return Err(e.to_string()),
        };
        let which = format!("bit {bit} of batch {at} of {}", batches.len());
        if !is_last {
            return Err(format!("{which} was not told"));
        }
        let contents = table.contents().map_err(|e| format!("{which}: {e}"))?;
        let is_prefix = run.after[..=latest].contains(&contents);
        if is_prefix { Ok(()) } else { Err(format!("{which}: {contents:?}")) }
    }

    /// Opens the pool, compares, and sometimes goes on; returns after how many operations it is.
    fn recover(
        &self,
        run: &Run,
        disk: &SimDisk,
        expected: &RangeInclusive<usize>,
        rng: &mut Rng,
    ) -> Result<usize, String> {
        let case = Case { omit: None, ..self.case };
        let (table, steps) = case.open(disk).map_err(|e| format!("open: {e}"))?;
        if case.live && rng.below(8) == 0 {
            // What an open leaves to its first snapshot and checkpoint.
            steps.checkpoint().map_err(|e| format!("checkpoint: {e}"))?;
        }
        disk.mark(0);
        let contents = table.contents()?;
        let found = expected.clone().rev().find(|i| run.after[*i] == contents);
        let Some(found) = found else {
            let nearest = run.after.iter().rposition(|after| *after == contents);
            return Err(format!("expected one of {expected:?}, found {nearest:?}: {contents:?}"));
        };
        if rng.below(8) == 0 {
            let mut contents = contents;
            for _ in 0..20 {
                let (key, v) = (rng.below(24) as u64, rng.below(1000) as u64);
                table.put(key, v).map_err(|e| format!("after recovery: {e}"))?;
                case.change(&mut contents, key, Some(v));
            }
            steps.checkpoint().map_err(|e| format!("after recovery: {e}"))?;
            if table.contents()? != contents {
                return Err("other contents after more operations".into());
            }
        }
        Ok(found)
    }

    /// Cuts a recovery that took `steps`; its contents must be found again. With a live image it is killed, too.
    #[allow(clippy::too_many_arguments, reason = "what is expected changes on the way")]
    fn inside(
        &mut self,
        run: &Run,
        mut walk: Walk,
        steps: Vec<DiskStep>,
        after: &RangeInclusive<usize>,
        before: &RangeInclusive<usize>,
        killed: bool,
        rng: &mut Rng,
    ) -> Result<(), String> {
        if rng.below(4) != 0 {
            return Ok(());
        }
        let steps = match self.case.omit {
            Some(omit) => omit.from(steps),
            None => steps,
        };
        // Its own mark says that it is over, and what it has found may be relied on.
        let end = steps.iter().position(|step| *step == DiskStep::Mark(0)).unwrap_or(steps.len());
        for (at, step) in steps[..end].iter().enumerate() {
            if !matches!(step, DiskStep::Line { .. }) {
                let image = walk.cut(Some(step), Pick::Random(rng.number()));
                if self.is_new(&image, before, killed) {
                    self.looked.inside += 1;
                    self.again(run, image, before)
                        .map_err(|e| format!("step {at} of recovery: {e}"))?;
                }
            }
            if self.may_be_killed(&steps, at, rng) {
                self.killed(run, walk.killed(), after)
                    .map_err(|e| format!("step {at} of recovery: {e}"))?;
            }
            walk.take(step);
        }
        let image = walk.cut(None, Pick::Random(rng.number()));
        // What a killed process had not brought to the disk comes there with the first snapshot, for which only `Strict` waits.
        let is_batch = |step: &DiskStep| step.part().is_some_and(|(_, is_final)| is_final);
        let waits = !self.case.live || self.case.mode == SyncMode::Strict;
        let has_all = !killed || waits || steps[..end].iter().any(is_batch);
        let after = if has_all { after } else { &(*before.start()..=*after.end()) };
        if self.is_new(&image, after, killed) {
            self.looked.inside += 1;
            self.again(run, image, after).map_err(|e| format!("after recovery: {e}"))?;
        }
        Ok(())
    }

    fn again(
        &self,
        run: &Run,
        image: DiskImage,
        expected: &RangeInclusive<usize>,
    ) -> Result<(), String> {
        let disk = SimDisk::resume(image, Vec::new(), MAX_BYTES, self.case.keeps_staged());
        // Without more operations.
        self.recover(run, &disk, expected, &mut Rng::new(1)).map(drop)
    }
}

/// The contents that are read after these steps.
fn image_after(run: &Run, steps: &[DiskStep]) -> DiskImage {
    let mut image = run.image.clone();
    steps.iter().for_each(|step| image.apply(step));
    image
}
