//! The properties of a table that was recovered from a crash state.
//!
//! For every state: recovery succeeds, within a bound and without a panic; the contents are the
//! acknowledged operations plus, for each operation in flight, all of it or nothing; iteration,
//! `get` and `len` agree; the design's own `check` finds nothing. For some of them: a table that is read before
//! its repair has the same contents; recovery crashes
//! at each of its own steps, two levels deep, and ends in the same contents; twenty more operations
//! work, and nothing has leaked when the background work is done. (Some: the first recoveries that take a path not seen before, then a fixed share.)

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::{AddAssign, ControlFlow};

use durahash::{Durability, ErrorKind};
use durahash_media::sim::{Sim, Site, Step, budget};

use crate::case::{Case, Table};
use crate::quiet::catch;
use crate::script::{Op, Rng, mix};
use crate::states::{CrashState, Explorer, Model};

/// How deep crashes are nested: the recovery of a recovery of a crash.
const LEVELS: usize = 2;
/// So many recoveries along one path have crashes inside them tried, in the suite and in a deep run, before
/// it is a share of them.
const PER_PATH: [u32; 2] = [8, 32];
/// One recovery in so many, after that.
const NESTED_SHARE: u64 = 64;
/// So many states whose recovery takes one path are gone on from by scripts of their own.
const NOTABLE_PER_PATH: u32 = 3;
/// One state in so many has more operations done on it.
const MORE_SHARE: u64 = 16;
/// How many operations.
const MORE: usize = 20;
/// So many steps of background work end it.
const STEPS: usize = 64;
/// One state in so many is also read as it was left, where that is something else.
const AS_LEFT_SHARE: u64 = 4;

/// The contents that a table may have.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The settled value of each key.
    settled: Vec<Option<u64>>,
    /// Operations in flight: the number, its key, and the value if it happened.
    in_flight: Vec<(u64, u16, Option<u64>)>,
    /// Something was settled since the table was opened: it is not closed properly.
    is_open: bool,
}

impl Expected {
    /// Exactly these values.
    #[must_use]
    pub fn new(settled: Vec<Option<u64>>) -> Self {
        Expected { settled, in_flight: Vec::new(), is_open: false }
    }

    /// Operation `op` is in flight and will give `key` this value.
    pub fn begin(&mut self, op: u64, key: u16, v: Option<u64>) {
        self.in_flight.push((op, key, v));
    }

    /// Operation `op` is not in flight any more; if it was, it has happened.
    pub fn settle(&mut self, op: u64) -> bool {
        let Some(at) = self.in_flight.iter().position(|(other, ..)| *other == op) else {
            return false;
        };
        let (_, key, v) = self.in_flight.remove(at);
        self.settled[usize::from(key)] = v;
        self.is_open = true;
        true
    }

    /// The table is being closed.
    pub fn close(&mut self) {
        self.is_open = false;
    }

    fn allows(&self, key: usize, found: Option<u64>) -> bool {
        self.settled[key] == found
            || self.in_flight.iter().any(|(_, other, v)| usize::from(*other) == key && *v == found)
    }

    /// A hash of what is settled, and one of that and what is in flight.
    pub(crate) fn hashes(&self) -> (u64, u64) {
        let one = |key: usize, v: Option<u64>| v.map_or(0, |v| mix(mix(v) ^ !(key as u64)));
        let settled = self.settled.iter().enumerate();
        let settled = settled.fold(0, |hash, (key, v)| hash ^ one(key, *v));
        let all = self.in_flight.iter().fold(settled, |hash, (_, key, v)| {
            mix(hash) ^ one(usize::from(*key), *v) ^ u64::from(*key)
        });
        let is_open = u64::from(self.is_open);
        (settled ^ is_open, all ^ is_open)
    }
}

/// A number for a place in the source.
pub(crate) fn place(site: Site) -> u64 {
    u64::from(site.line()) << 32 | u64::from(site.column())
}

/// Hashes that are hashes already.
#[derive(Default)]
struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only words are hashed");
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = v;
    }
}

type Hashes = HashSet<u64, BuildHasherDefault<Same>>;

/// Counts of the work done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// States that differ, in their image or in what may be expected of it, each opened and
    /// compared.
    pub unique: u64,
    /// States visited, again and again included.
    pub visited: u64,
    /// Recoveries inside which crashes were tried.
    pub nested: u64,
    /// States on which more operations were done.
    pub continued: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.unique += other.unique;
        self.visited += other.visited;
        self.nested += other.nested;
        self.continued += other.continued;
    }
}

/// Opens crash states of a design and compares.
pub struct Judge<'s> {
    case: &'s Case,
    /// True if the media keep the order of stores to one line.
    pub(crate) line_order: bool,
    pub(crate) durability: Durability,
    keys: Vec<u64>,
    /// Positions in `keys` by key.
    order: Vec<u16>,
    /// For the crashes inside recoveries, by level.
    explorers: Vec<Explorer>,
    /// Where the crash is, as far as it tells recoveries apart.
    pub(crate) place: u64,
    /// Crash states of a script, by how many were visited before them, whose recovery took a path
    /// that few took before: worth going on from.
    pub(crate) notable: Vec<u64>,
    /// States that were judged before and found right.
    known: Hashes,
    /// States judged since they were last forgotten.
    fresh: Hashes,
    /// Recoveries by the steps they took.
    paths: HashMap<u64, u32>,
    per_path: u32,
    contents: Vec<(u64, u64)>,
    traces: Vec<Vec<Step>>,
    /// Counts of the work done so far.
    pub counts: Counts,
}

impl<'s> Judge<'s> {
    /// A judge that has seen nothing.
    pub fn new(case: &'s Case, model: Model, seed: u64) -> Self {
        let keys = case.keys.clone();
        let mut order: Vec<u16> = (0..keys.len() as u16).collect();
        order.sort_unstable_by_key(|key| keys[usize::from(*key)]);
        Judge {
            case,
            line_order: model.same_line_order(),
            durability: Durability::Strict,
            keys,
            order,
            explorers: (0..LEVELS).map(|_| Explorer::new(model, seed)).collect(),
            place: 0,
            notable: Vec::new(),
            known: Hashes::default(),
            fresh: Hashes::default(),
            paths: HashMap::new(),
            per_path: budget(PER_PATH[0], PER_PATH[1]),
            contents: Vec::new(),
            traces: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Forgets the states judged since the last [`Judge::keep`].
    pub fn forget(&mut self) {
        self.fresh.clear();
        self.paths.clear();
    }

    /// Takes the states judged so far for right from here on.
    pub fn keep(&mut self) {
        self.known.extend(self.fresh.drain());
        self.paths.clear();
    }

    /// Of many states at a point about one in so many is looked at, inside recoveries, too.
    pub(crate) fn one_in(&mut self, one_in: u64) {
        let all = std::mem::take(&mut self.explorers).into_iter();
        self.explorers = all.map(|explorer| explorer.one_in(one_in)).collect();
    }

    /// From here on, recoveries count as not seen before.
    pub(crate) fn forget_paths(&mut self) {
        self.paths.clear();
    }

    /// The key space.
    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    /// A medium that holds `image`.
    pub(crate) fn medium(&self, image: &[u64]) -> Sim {
        let sim = Sim::from_image(image, self.case.max_bytes);
        sim.with_line_order(self.line_order).with_durability(self.durability)
    }

    /// Looks at a state, unless it was looked at before: what is wrong with it.
    pub(crate) fn look_at_level(
        &mut self,
        state: &CrashState<'_>,
        expected: &Expected,
        (settled, all): (u64, u64),
        level: usize,
    ) -> Result<(), String> {
        self.counts.visited += 1;
        // Contents that are right before an operation begins are right while it is in flight.
        let strict = mix(state.hash ^ settled);
        let hash = mix(state.hash ^ all);
        if self.known.contains(&strict)
            || self.fresh.contains(&strict)
            || self.known.contains(&hash)
            || !self.fresh.insert(hash)
        {
            return Ok(());
        }
        self.counts.unique += 1;
        self.judge(state.image, expected, hash, level)
    }

    fn judge(
        &mut self,
        image: &[u64],
        expected: &Expected,
        hash: u64,
        level: usize,
    ) -> Result<(), String> {
        let sim = self.medium(image);
        sim.set_budget(Some(self.case.recovery_calls));
        let deep = level < LEVELS;
        if deep {
            let mut trace = self.traces.pop().unwrap_or_default();
            trace.clear();
            sim.record(trace);
        }
        let case = self.case;
        if (hash >> 48).is_multiple_of(AS_LEFT_SHARE) {
            self.read_as_left(image, expected)?;
        }
        let table = catch(|| (case.open)(sim.clone()))
            .map_err(|said| format!("recovery panicked: {said}"))?
            .map_err(|error| format!("recovery failed: {error}"))?;
        let trace = sim.recorded();
        let mut contents = std::mem::take(&mut self.contents);
        catch(|| self.compare(&*table, expected, &mut contents))
            .unwrap_or_else(|said| Err(format!("reading after recovery panicked: {said}")))?;
        let before = if deep && !trace.is_empty() { self.taken_before(&trace) } else { u32::MAX };
        if level == 0 && before < NOTABLE_PER_PATH {
            self.notable.push(self.counts.visited - 1);
        }
        let nested = deep && (before < self.per_path || hash.is_multiple_of(NESTED_SHARE));
        let continued = (hash >> 32).is_multiple_of(MORE_SHARE);
        if nested || continued {
            let held = self.held(&contents);
            if continued {
                self.counts.continued += 1;
                sim.set_budget(None);
                let go_on = |table: &dyn Table| {
                    catch(|| self.go_on(table, held.clone(), hash))
                        .unwrap_or_else(|said| Err(format!("an operation panicked: {said}")))
                };
                go_on(&*table)?;
                if case.is_lazy {
                    let unread = (case.open)(self.medium(image))
                        .map_err(|error| format!("recovery failed: {error}"))?;
                    go_on(&*unread).map_err(|wrong| format!("before it was read: {wrong}"))?;
                }
            }
            if nested {
                self.nest(image, &trace, held, level)?;
            }
        }
        self.contents = contents;
        if deep {
            self.traces.push(trace);
        }
        Ok(())
    }

    /// The values by key, where each key is one of the key space.
    pub(crate) fn held(&self, contents: &[(u64, u64)]) -> Vec<Option<u64>> {
        let mut held = vec![None; self.keys.len()];
        let mut contents = contents.iter().peekable();
        for key in &self.order {
            let h = self.keys[usize::from(*key)];
            held[usize::from(*key)] = contents.next_if(|(found, _)| *found == h).map(|(_, v)| *v);
        }
        held
    }

    /// Compares all that can be read with what is expected, and leaves the contents, sorted.
    pub(crate) fn compare(
        &self,
        table: &dyn Table,
        expected: &Expected,
        contents: &mut Vec<(u64, u64)>,
    ) -> Result<(), String> {
        contents.clear();
        table.contents(contents).map_err(|error| format!("iteration failed: {error}"))?;
        contents.sort_unstable();
        let mut found = contents.iter().peekable();
        for key in &self.order {
            let key = usize::from(*key);
            let h = self.keys[key];
            let held = found.next_if(|(found, _)| *found == h).map(|(_, v)| *v);
            if !expected.allows(key, held) {
                return Err(format!(
                    "key {key} ({h:#x}) holds {held:?}, settled is {:?}, in flight {:?}",
                    expected.settled[key], expected.in_flight
                ));
            }
            let get = Op::Get(key as u16);
            let got = table.apply(get, h).map_err(|error| format!("get failed: {error}"))?;
            if got != held {
                return Err(format!("key {key} ({h:#x}): get says {got:?}, iteration {held:?}"));
            }
        }
        if let Some((h, v)) = found.next() {
            return Err(format!("{h:#x} with {v} twice, or never put"));
        }
        if expected.is_open && table.was_closed() == Some(true) {
            return Err("says that it was closed".to_string());
        }
        let len = table.count().map_err(|error| format!("len: {error}"))?;
        let entries: u64 = contents.iter().map(|(_, v)| self.case.entries(*v)).sum();
        if len != entries {
            return Err(format!("len says {len}, iteration {entries}"));
        }
        self.check(table)
    }

    /// A table that is not repaired yet reads the same as the repaired one.
    fn read_as_left(&self, image: &[u64], expected: &Expected) -> Result<(), String> {
        let Some(open) = &self.case.open_as_left else {
            return Ok(());
        };
        let sim = self.medium(image);
        sim.set_budget(Some(self.case.recovery_calls));
        let read = || match open(sim) {
            Ok(table) => self.compare(&*table, expected, &mut Vec::new()),
            Err(error) => Err(format!("opening failed: {error}")),
        };
        catch(read)
            .unwrap_or_else(|said| Err(format!("reading panicked: {said}")))
            .map_err(|wrong| format!("as it was left: {wrong}"))
    }

    fn check(&self, table: &dyn Table) -> Result<(), String> {
        let mut first = None;
        table
            .check(&mut |finding| {
                first.get_or_insert(finding);
            })
            .map_err(|error| format!("check: {error}"))?;
        first.map_or(Ok(()), |finding| {
            Err(format!("{} at {:#x}: {}", finding.invariant, finding.off, finding.what))
        })
    }

    /// How many recoveries took this one's path before, from a crash at the same place.
    fn taken_before(&mut self, trace: &[Step]) -> u32 {
        let path = trace.iter().fold(self.place, |path, step| mix(path ^ place(step.site)));
        let taken = self.paths.entry(path).or_default();
        *taken += 1;
        *taken - 1
    }

    /// Crashes inside a recovery.
    fn nest(
        &mut self,
        image: &[u64],
        trace: &[Step],
        held: Vec<Option<u64>>,
        level: usize,
    ) -> Result<(), String> {
        self.counts.nested += 1;
        let Some(mut explorer) = self.explorers.pop() else {
            return Ok(());
        };
        // Whatever happens, the same contents.
        let expected = Expected::new(held);
        let (hashes, mut wrong) = (expected.hashes(), None);
        let _ = explorer.explore(image, trace, 0, &mut |state: &CrashState<'_>| {
            wrong = self.look_at_level(state, &expected, hashes, level + 1).err();
            if wrong.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.explorers.push(explorer);
        wrong.map_or(Ok(()), |wrong| Err(format!("crash in recovery: {wrong}")))
    }

    /// Does more operations on a recovered table that holds `held`.
    fn go_on(
        &self,
        table: &dyn Table,
        mut held: Vec<Option<u64>>,
        seed: u64,
    ) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        for op in self.case.random(MORE, rng.number()) {
            let Some(key) = op.key().map(usize::from) else {
                self.step(table, 1)?;
                continue;
            };
            let found = match table.apply(op, self.keys[key]) {
                Ok(found) => found,
                Err(error)
                    if self.case.may_fill && matches!(error.kind(), ErrorKind::Full { .. }) =>
                {
                    continue;
                }
                Err(error) => return Err(format!("{op} after recovery: {error}")),
            };
            let answer = op.answer(held[key]);
            if found != answer {
                return Err(format!("{op} after recovery found {found:?}, not {answer:?}"));
            }
            held[key] = op.outcome(held[key]);
        }
        let expected = Expected::new(held);
        let contents = &mut Vec::new();
        self.compare(table, &expected, contents)
            .map_err(|wrong| format!("after more operations: {wrong}"))?;
        // Free space is known once the background work is done: only then are leaks seen.
        self.step(table, STEPS)?;
        self.compare(table, &expected, contents)
            .map_err(|wrong| format!("after all background work: {wrong}"))
    }

    fn step(&self, table: &dyn Table, count: usize) -> Result<(), String> {
        for _ in 0..count {
            table.apply(Op::Step, 0).map_err(|error| format!("step after recovery: {error}"))?;
        }
        Ok(())
    }
}
