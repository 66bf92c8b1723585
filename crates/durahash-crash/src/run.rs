//! Running scripts: record what the design does, explore what a crash may leave of it.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::rc::Rc;

use durahash::{Durability, ErrorKind};
use durahash_media::sim::{Site, Step, name_thread};

use crate::case::{Case, Prefill, Table};
use crate::mutate::{Kind, Mutant, Verdict, collect};
use crate::oracle::{Counts, Expected, Judge};
use crate::quiet::catch;
use crate::script::{Op, exhaustive, print};
use crate::segment::{Effect, Segment, Watch, ack_mark, begin_mark};
use crate::states::{CrashState, Explorer, Model};

/// A script that led to a state which recovery did not get right.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The design.
    pub design: &'static str,
    /// The model.
    pub model: Model,
    /// The prefill that the script set out from.
    pub prefill: &'static str,
    /// The script.
    pub ops: Vec<Op>,
    /// The violation.
    pub wrong: String,
    /// The crash was before this step of the trace since the last crash or the beginning; zero where
    /// it went wrong without a crash.
    pub at: usize,
    /// The next call of the design there.
    pub site: Option<Site>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (design, model, prefill) = (self.design, self.model.name(), self.prefill);
        let script = print(&self.ops);
        writeln!(f, "{design} under {model}: {}", self.wrong)?;
        if self.at > 0 {
            write!(f, "crash before step {}", self.at)?;
            if let Some(site) = self.site {
                write!(f, " ({site})")?;
            }
            write!(f, ", ")?;
        }
        writeln!(f, "from {prefill}: {script}")?;
        write!(
            f,
            "repeat: cargo run -p durahash-crash -- repeat --design {design} --model {model} \
             --prefill {prefill} --script '{script}'"
        )
    }
}

/// A state to set out from.
#[derive(Clone)]
pub struct Base {
    /// The prefill's name.
    pub name: &'static str,
    image: Rc<[u64]>,
    held: Vec<Option<u64>>,
}

/// Runs scripts of one design under one model.
pub struct Tester<'s> {
    case: &'s Case,
    model: Model,
    explorer: Explorer,
    judge: Judge<'s>,
    /// Segments are kept for [`Tester::mutants`].
    corpus: Option<Vec<Rc<Segment>>>,
    /// How many notable recoveries were gone on from.
    went_on: u64,
}

/// Which crashes of a script are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// All.
    All,
    /// Those within the last operation: the others belong to shorter scripts.
    LastOp,
    /// Those after the last [`Op::Crash`].
    LastSegment,
}

/// The name of [`Tester::nothing`] in commands.
pub const NOTHING: &str = "nothing";
/// Decides what is sampled where all is too much: always the same, so that a failure repeats.
const SAMPLE_SEED: u64 = 1;
/// Threads as the trace names them: operations take turns, so that what one acknowledges is not
/// made durable by the fences of the next.
const OPENER: u32 = 0;
const WRITERS: [u32; 2] = [1, 2];
/// Operations that follow a crash whose recovery is notable.
const BEYOND: usize = 30;

/// Before which step, what the design was about to do there, what is wrong.
type Wrong = (usize, Option<Site>, String);

impl<'s> Tester<'s> {
    /// A tester that has seen nothing.
    pub fn new(case: &'s Case, model: Model) -> Self {
        Tester {
            case,
            model,
            explorer: Explorer::new(model, SAMPLE_SEED),
            judge: Judge::new(case, model, SAMPLE_SEED),
            corpus: None,
            went_on: 0,
        }
    }

    /// The same on media that keep the order of stores to one line, or do not, whatever the model says.
    #[must_use]
    pub fn with_line_order(mut self, line_order: bool) -> Self {
        self.judge.line_order = line_order;
        self
    }

    /// The same on media on which a close writes no check words. Where it does, it flushes all that was stored
    /// to, and a flush that is missing before is not missed.
    #[must_use]
    pub fn without_checks(mut self) -> Self {
        self.judge.durability = Durability::None;
        self
    }

    /// The same, but that of many states at a point about one in so many is looked at, always the same.
    #[must_use]
    pub fn one_in(mut self, one_in: u64) -> Self {
        self.explorer = self.explorer.one_in(one_in);
        self.judge.one_in(one_in);
        self
    }

    /// Counts of the work done so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.judge.counts
    }

    /// Keeps what is recorded from here on, for [`Tester::mutants`].
    pub fn keep_corpus(&mut self) {
        self.corpus.get_or_insert_default();
    }

    /// Forgets which states were looked at, so that memory stays bounded over many random scripts.
    pub fn forget(&mut self) {
        self.judge.forget();
    }

    /// Makes the table that exhaustive scripts set out from; crashes on the way are looked at too.
    ///
    /// # Errors
    /// The first failure.
    pub fn prefill(&mut self, prefill: &Prefill) -> Result<Base, Box<Failure>> {
        let nothing = self.nothing();
        let last = self.run_script(&nothing, &prefill.ops, Look::All)?;
        Ok(Base {
            name: prefill.name,
            image: Rc::from(self.explorer.durable()),
            held: last.after(),
        })
    }

    /// The base of scripts that begin with making the table.
    #[must_use]
    pub fn nothing(&self) -> Base {
        Base { name: NOTHING, image: Rc::from([]), held: vec![None; self.judge.keys().len()] }
    }

    /// The base of this name: [`NOTHING`], or that of a prefill.
    ///
    /// # Errors
    /// The first failure on the way there. `None` where there is no such prefill.
    pub fn base(&mut self, name: &str) -> Result<Option<Base>, Box<Failure>> {
        if name == NOTHING {
            return Ok(Some(self.nothing()));
        }
        let prefill = self.case.prefills.iter().find(|prefill| prefill.name == name);
        prefill.map(|prefill| self.prefill(prefill)).transpose()
    }

    /// Runs `ops` from `base`.
    ///
    /// # Errors
    /// The first failure.
    pub fn script(&mut self, base: &Base, ops: &[Op], look: Look) -> Result<(), Box<Failure>> {
        self.run_script(base, ops, look).map(|_| ())
    }

    /// As [`Tester::script`]; returns what it did after its last crash.
    fn run_script(
        &mut self,
        base: &Base,
        ops: &[Op],
        look: Look,
    ) -> Result<Rc<Segment>, Box<Failure>> {
        let mut image = Rc::clone(&base.image);
        let mut held = base.held.clone();
        let mut rest = ops;
        loop {
            let crash = rest.iter().position(|op| matches!(op, Op::Crash(_)));
            let (now, later) = rest.split_at(crash.unwrap_or(rest.len()));
            let mut segment = self
                .record(&image, held, now)
                .map_err(|wrong| self.failure(base, ops, (0, None, wrong)))?;
            let is_last = later.is_empty();
            if is_last || look == Look::All {
                if look == Look::LastOp {
                    segment.from = segment.begin_of_last(now.len());
                }
                self.explore(&segment).map_err(|wrong| self.failure(base, ops, wrong))?;
            }
            let segment = Rc::new(segment);
            if let Some(corpus) = &mut self.corpus
                && (is_last || look == Look::All)
            {
                corpus.push(Rc::clone(&segment));
            }
            let Some((Op::Crash(which), later)) = later.split_first() else {
                return Ok(segment);
            };
            image = self.crash(&segment, now.len(), *which);
            held = self.holds(&image).map_err(|wrong| {
                let at = segment.steps.len();
                self.failure(base, ops, (at, None, wrong))
            })?;
            rest = later;
        }
    }

    /// Runs `ops` and looks at crashes within the last of them; then goes on from those whose
    /// recovery is notable, looking at every crash.
    fn script_and_beyond(&mut self, base: &Base, ops: &[Op]) -> Result<(), Box<Failure>> {
        let before = self.judge.counts.visited;
        self.judge.notable.clear();
        self.script(base, ops, Look::LastOp)?;
        for visited in std::mem::take(&mut self.judge.notable) {
            let mut longer = ops.to_vec();
            longer.push(Op::Crash((visited - before) as u32));
            longer.extend(self.beyond());
            self.script(base, &longer, Look::LastSegment)?;
        }
        Ok(())
    }

    /// The operations after a notable recovery: in turn, every key is removed (an entry that was not durably
    /// gone comes back), every key is put, or random ones.
    fn beyond(&mut self) -> Vec<Op> {
        let keys = self.judge.keys().len() as u16;
        self.went_on += 1;
        match self.went_on % 3 {
            0 => (0..keys).map(|key| self.case.translate(Op::Remove(key), 0)).collect(),
            1 => (0..keys).map(|key| self.case.translate(Op::Put(key, self.went_on), 0)).collect(),
            _ => self.case.random(BEYOND, self.went_on),
        }
    }

    /// Runs all sequences of up to `length` operations from every prefill.
    ///
    /// # Errors
    /// The first failure.
    pub fn exhaustive(&mut self, length: u32) -> Result<(), Box<Failure>> {
        for prefill in &self.case.prefills {
            let base = self.prefill(prefill)?;
            self.judge.forget_paths();
            for length in 0..=length {
                for ops in exhaustive(&prefill.kinds, length) {
                    self.script_and_beyond(&base, &ops)?;
                }
            }
        }
        Ok(())
    }

    /// Runs all sequences of up to `length` operations from every prefill, of which nothing is under
    /// way any more: the table was `closed` properly, or else its process died long ago. The scripts are
    /// short, so that every state can be looked at.
    ///
    /// # Errors
    /// The first failure.
    pub fn exhaustive_settled(&mut self, length: u32, closed: bool) -> Result<(), Box<Failure>> {
        for prefill in &self.case.prefills {
            let base = self.settled(prefill, closed)?;
            for length in 0..=length {
                for mut ops in exhaustive(&prefill.kinds, length) {
                    self.script(&base, &ops, Look::LastOp)?;
                    // A recovery trusts a table that was closed properly.
                    ops.push(Op::Close);
                    self.script(&base, &ops, Look::LastOp)?;
                }
            }
        }
        Ok(())
    }

    /// Of every single operation from a prefill, which was closed properly, takes so many of the states
    /// that a crash may leave, and opens each: to close it, at once or after a lookup of the same key,
    /// and to do one more operation after such a lookup.
    ///
    /// # Errors
    /// The first failure.
    pub fn crash_and_go_on(&mut self, prefill: &Prefill, states: u32) -> Result<(), Box<Failure>> {
        let base = self.settled(prefill, true)?;
        let last = prefill.kinds.last().copied().unwrap_or(Op::Step);
        for ops in exhaustive(&prefill.kinds, 1) {
            let get = ops[0].key().map_or(Op::Step, Op::Get);
            for which in 0..states {
                // They are counted around: any of them, from everywhere.
                let crash = Op::Crash(which * 7919);
                for then in [&[Op::Close][..], &[get, Op::Close], &[get, last]] {
                    let ops = [&ops[..], &[crash], then].concat();
                    self.script(&base, &ops, Look::LastSegment)?;
                }
            }
        }
        Ok(())
    }

    /// The table after a prefill once every store is durable.
    fn settled(&mut self, prefill: &Prefill, closed: bool) -> Result<Base, Box<Failure>> {
        let nothing = self.nothing();
        let mut held = nothing.held.clone();
        let sim = self.judge.medium(&[]);
        let mut make = || {
            let wrong = |error| format!("no table: {error}");
            let table = (self.case.create)(sim.clone()).map_err(wrong)?;
            for op in &prefill.ops {
                if let Some(key) = op.key() {
                    self.apply(&*table, *op, key, &mut held)?;
                }
            }
            if closed { table.close().map_err(|error| format!("close: {error}")) } else { Ok(()) }
        };
        make().map_err(|wrong| self.failure(&nothing, &prefill.ops, (0, None, wrong)))?;
        Ok(Base { name: prefill.name, image: Rc::from(sim.image()), held })
    }

    /// Runs `count` random operations from the empty table.
    ///
    /// # Errors
    /// The first failure.
    pub fn random(&mut self, seed: u64, count: usize) -> Result<(), Box<Failure>> {
        let ops = self.case.random(count, seed);
        let nothing = self.nothing();
        self.script(&nothing, &ops, Look::All)
    }

    fn failure(&self, base: &Base, ops: &[Op], (at, site, wrong): Wrong) -> Box<Failure> {
        Box::new(Failure {
            design: self.case.name,
            model: self.model,
            prefill: base.name,
            ops: ops.to_vec(),
            wrong,
            at,
            site,
        })
    }

    /// Runs `ops` from `image`, writes down what is done, and compares every answer.
    fn record(
        &mut self,
        image: &Rc<[u64]>,
        held: Vec<Option<u64>>,
        ops: &[Op],
    ) -> Result<Segment, String> {
        let mut now = held.clone();
        let mut effects = Vec::with_capacity(ops.len());
        let steps = catch(|| self.run(image, &mut now, ops, &mut effects))
            .unwrap_or_else(|said| Err(format!("an operation panicked: {said}")))?;
        let mut segment = Segment { image: Rc::clone(image), held, steps, effects, from: 0 };
        segment.from = segment.published();
        Ok(segment)
    }

    fn run(
        &self,
        image: &[u64],
        held: &mut [Option<u64>],
        ops: &[Op],
        effects: &mut Vec<Effect>,
    ) -> Result<Vec<Step>, String> {
        let mut sim = self.judge.medium(image);
        sim.record(Vec::new());
        name_thread(OPENER);
        let mut table = if image.is_empty() {
            (self.case.create)(sim.clone())
        } else {
            (self.case.open)(sim.clone())
        }
        .map_err(|error| format!("no table: {error}"))?;
        for (number, op) in ops.iter().enumerate() {
            name_thread(WRITERS[number % WRITERS.len()]);
            sim.mark(begin_mark(number));
            let mut effect = Effect::None;
            if let Some(key) = op.key() {
                effect = self.apply(&*table, *op, key, held)?;
            } else if matches!(op, Op::Step) {
                table.apply(*op, 0).map_err(|error| format!("{op}: {error}"))?;
            } else {
                if matches!(op, Op::Close) {
                    effect = Effect::Close;
                    table.close().map_err(|error| format!("{op}: {error}"))?;
                } else {
                    drop(table);
                }
                let steps = sim.recorded();
                sim = self.judge.medium(&sim.image());
                sim.record(steps);
                table = (self.case.open)(sim.clone()).map_err(|error| format!("{op}: {error}"))?;
            }
            sim.mark(ack_mark(number));
            effects.push(effect);
        }
        let steps = sim.recorded();
        let expected = Expected::new(held.to_vec());
        self.judge
            .compare(&*table, &expected, &mut Vec::new())
            .map_err(|wrong| format!("without any crash: {wrong}"))?;
        Ok(steps)
    }

    /// Does one operation with a key; returns its effect.
    fn apply(
        &self,
        table: &dyn Table,
        op: Op,
        key: u16,
        held: &mut [Option<u64>],
    ) -> Result<Effect, String> {
        let slot = &mut held[usize::from(key)];
        match table.apply(op, self.judge.keys()[usize::from(key)]) {
            Ok(found) if found == op.answer(*slot) => {
                let before = *slot;
                *slot = op.outcome(before);
                let changed = *slot != before;
                Ok(if changed { Effect::Set(key, *slot) } else { Effect::None })
            }
            Ok(found) => Err(format!("{op} found {found:?}, not {:?}", op.answer(*slot))),
            // Nothing was changed.
            Err(error) if self.case.may_fill && matches!(error.kind(), ErrorKind::Full { .. }) => {
                Ok(Effect::None)
            }
            Err(error) => Err(format!("{op}: {error}")),
        }
    }

    /// Looks at every state that a crash in the segment may leave.
    fn explore(&mut self, segment: &Segment) -> Result<(), Wrong> {
        self.explore_steps(segment, &segment.steps, segment.from)
    }

    fn explore_steps(
        &mut self,
        segment: &Segment,
        steps: &[Step],
        from: usize,
    ) -> Result<(), Wrong> {
        let mut watch = Watch::new(segment, steps, &mut self.judge);
        let flow = self.explorer.explore(&segment.image, steps, from, &mut watch);
        match (flow, watch.wrong) {
            (ControlFlow::Break(()), Some((at, wrong))) => {
                Err((at, steps.get(at).map(|step| step.site), wrong))
            }
            _ => Ok(()),
        }
    }

    /// One of the states that a crash within the last of `count` operations may leave.
    fn crash(&mut self, segment: &Segment, count: usize, which: u32) -> Rc<[u64]> {
        let from = segment.begin_of_last(count);
        let (mut left, mut image) = (u64::MAX, Vec::new());
        // Once to count them, once to take one.
        for _ in 0..2 {
            let seen = u64::MAX - left;
            left = u64::from(which).checked_rem(seen).unwrap_or(u64::MAX);
            let _ = self.explorer.explore(
                &segment.image,
                &segment.steps,
                from,
                &mut |state: &CrashState<'_>| {
                    if left == 0 {
                        image.extend_from_slice(state.image);
                        return ControlFlow::Break(());
                    }
                    left -= 1;
                    ControlFlow::Continue(())
                },
            );
        }
        Rc::from(image)
    }

    /// The contents of a crash state that was judged already.
    fn holds(&mut self, image: &[u64]) -> Result<Vec<Option<u64>>, String> {
        let sim = self.judge.medium(image);
        let mut contents = Vec::new();
        let table = catch(|| (self.case.open)(sim))
            .map_err(|said| format!("recovery panicked: {said}"))?
            .map_err(|error| format!("recovery failed: {error}"))?;
        table.contents(&mut contents).map_err(|error| format!("iteration failed: {error}"))?;
        contents.sort_unstable();
        Ok(self.judge.held(&contents))
    }

    /// Tries every mutant of every site that the corpus reaches, of those that are wanted. All states that
    /// were looked at before are right, so only those that a mutant adds are opened.
    ///
    /// # Panics
    /// When no corpus was kept.
    pub fn mutants(&mut self, wanted: impl Fn(&Mutant) -> bool) -> Vec<(Mutant, Verdict)> {
        let corpus = self.corpus.take().expect("a corpus was kept");
        let mut all = BTreeSet::new();
        for segment in &corpus {
            collect(&segment.steps, &mut all);
        }
        self.judge.keep();
        // Only X86 keeps an order inside a line.
        all.retain(|mutant| self.model == Model::X86 || mutant.kind != Kind::SwapInLine);
        all.retain(wanted);
        let verdicts =
            all.into_iter().map(|mutant| (mutant, self.mutant(mutant, &corpus))).collect();
        self.corpus = Some(corpus);
        verdicts
    }

    /// How a fault fares that changes what was recorded, as a mutant does: `plant` is given the steps
    /// of a run and changes them, from the step on that it returns; `None` where it changes nothing.
    ///
    /// # Panics
    /// When no corpus was kept.
    pub fn planted<F>(&mut self, plant: F) -> Verdict
    where
        F: Fn(&[Step], &mut Vec<Step>) -> Option<usize>,
    {
        let corpus = self.corpus.take().expect("a corpus was kept");
        self.judge.keep();
        let verdict = self.verdict(&corpus, |steps, variant, out| match variant {
            0 => plant(steps, out),
            _ => None,
        });
        self.corpus = Some(corpus);
        verdict
    }

    fn mutant(&mut self, mutant: Mutant, corpus: &[Rc<Segment>]) -> Verdict {
        self.verdict(corpus, |steps, variant, out| mutant.apply(steps, variant, out))
    }

    fn verdict(
        &mut self,
        corpus: &[Rc<Segment>],
        change: impl Fn(&[Step], usize, &mut Vec<Step>) -> Option<usize>,
    ) -> Verdict {
        self.judge.forget();
        let before = self.judge.counts.unique;
        let mut steps = Vec::new();
        let mut caught = None;
        for segment in corpus {
            let mut variant = 0;
            while caught.is_none()
                && let Some(changed) = change(&segment.steps, variant, &mut steps)
            {
                let from = changed.max(segment.from);
                caught = self.explore_steps(segment, &steps, from).err();
                variant += 1;
            }
        }
        match (caught, self.judge.counts.unique - before) {
            (Some((_, _, wrong)), _) => Verdict::Caught(wrong),
            (None, 0) => Verdict::Equivalent,
            (None, states) => Verdict::Survived(states),
        }
    }
}
