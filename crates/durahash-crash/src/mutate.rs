//! Mutants: the runs of a design without one of its flushes, fences, drains or orders.
//!
//! A mutant changes recorded traces, not the design: one recorded run serves all mutants, nothing is
//! compiled in, and a site is a place in the source. A mutant does not change what the
//! program itself reads and decides: dropping a flush or letting a store be durable
//! later changes only the states that a crash may leave.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use durahash_media::Event;
use durahash_media::sim::{Action, Site, Step};

/// A change at one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// Its site.
    pub site: Site,
    /// Its kind.
    pub kind: Kind,
}

/// The change that a mutant makes at its site, each time that the site is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The flush, fence or drain is left out.
    Drop,
    /// The flush, fence or drain comes after this thread's next store instead. (A flush that moves
    /// past no fence is left alone: it would flush the same and more.)
    Delay,
    /// Only the first line is flushed.
    FirstLine,
    /// The store changes places with this thread's next one, to the same line and before a fence.
    SwapInLine,
    /// The store changes places with this thread's next one, which follows a fence.
    SwapAcrossFence,
    /// The lock is released before the fence or drain that comes before its release, and then the
    /// thread is stopped: others do the rest, and see changes that are not durable yet.
    UnlockEarly,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] = [
        Kind::Drop,
        Kind::Delay,
        Kind::FirstLine,
        Kind::SwapInLine,
        Kind::SwapAcrossFence,
        Kind::UnlockEarly,
    ];
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{}", self.kind, self.site)
    }
}

fn is_fence(action: Action) -> bool {
    matches!(action, Action::Fence | Action::Drain)
}

/// The word that an action stores to.
fn stored(action: Action) -> Option<u32> {
    match action {
        Action::Store { word, .. } | Action::StoreNt { word, .. } | Action::Cas { word, .. } => {
            Some(word)
        }
        _ => None,
    }
}

/// The steps of `steps[at]`'s thread behind it.
fn after(steps: &[Step], at: usize) -> impl Iterator<Item = (usize, Action)> {
    let thread = steps[at].thread;
    let rest = steps.iter().enumerate().skip(at + 1);
    rest.filter(move |(_, step)| step.thread == thread).map(|(at, step)| (at, step.action))
}

/// The steps of `steps[at]`'s thread before it, the nearest first.
fn before(steps: &[Step], at: usize) -> impl Iterator<Item = (usize, Action)> {
    let thread = steps[at].thread;
    let earlier = steps[..at].iter().enumerate().rev();
    earlier.filter(move |(_, step)| step.thread == thread).map(|(at, step)| (at, step.action))
}

/// One change to a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit {
    Drop(usize),
    FirstLine(usize),
    /// Moves the first step behind the second.
    Move(usize, usize),
    Swap(usize, usize),
}

/// The edit of the step at `at` that `kind` means, if there is one.
fn edit(kind: Kind, steps: &[Step], at: usize) -> Option<Edit> {
    let action = steps[at].action;
    match kind {
        Kind::Drop => {
            let is_flush = matches!(action, Action::Flush { .. });
            (is_flush || is_fence(action)).then_some(Edit::Drop(at))
        }
        Kind::FirstLine => {
            let many = matches!(action, Action::Flush { lines: 2.., .. });
            many.then_some(Edit::FirstLine(at))
        }
        Kind::Delay => {
            let is_flush = matches!(action, Action::Flush { .. });
            if !is_flush && !is_fence(action) {
                return None;
            }
            let mut fenced = false;
            let next = after(steps, at).find(|(_, action)| {
                fenced |= is_fence(*action);
                stored(*action).is_some()
            });
            let behind = next.map_or(steps.len() - 1, |(next, _)| next);
            (behind != at && (fenced || !is_flush)).then_some(Edit::Move(at, behind))
        }
        Kind::SwapInLine | Kind::SwapAcrossFence => {
            let word = stored(action)?;
            let mut fenced = false;
            let mut marked = false;
            let (next, other) = after(steps, at).find_map(|(next, action)| {
                fenced |= is_fence(action);
                marked |= matches!(action, Action::Mark(_));
                Some((next, stored(action)?))
            })?;
            let wanted =
                if kind == Kind::SwapInLine { !fenced && word / 8 == other / 8 } else { fenced };
            (wanted && !marked && word != other).then_some(Edit::Swap(at, next))
        }
        Kind::UnlockEarly => {
            if !matches!(action, Action::Event(Event::Unlocked(_))) {
                return None;
            }
            // Only the persist that this release waits for: nothing was stored since.
            let (fence, _) = before(steps, at)
                .take_while(|(_, action)| {
                    stored(*action).is_none() && !matches!(action, Action::Mark(_))
                })
                .find(|(_, action)| is_fence(*action))?;
            // The other locks are released with this one.
            let behind = after(steps, at)
                .take_while(|(_, action)| matches!(action, Action::Event(Event::Unlocked(_))))
                .last()
                .map_or(at, |(last, _)| last);
            Some(Edit::Move(fence, behind))
        }
    }
}

impl Mutant {
    /// Changes `steps` as the mutant would have, into `out`. Returns the first step that differs,
    /// or `None` where nothing does.
    ///
    /// Most mutants change all passes of their site at once. A thread is stopped only once, so for
    /// [`Kind::UnlockEarly`] each pass is a `variant`, from zero on.
    pub fn apply(&self, steps: &[Step], variant: usize, out: &mut Vec<Step>) -> Option<usize> {
        out.clear();
        let here = |at: &usize| steps[*at].site == self.site;
        let mut edits = (0..steps.len()).filter(here).filter_map(|at| {
            let edit = edit(self.kind, steps, at)?;
            Some((at, edit))
        });
        if self.kind == Kind::UnlockEarly {
            let mut edits: Vec<Edit> = edits.map(|(_, edit)| edit).collect();
            edits.dedup();
            let Some(Edit::Move(fence, release)) = edits.get(variant) else {
                return None;
            };
            stop(steps, *fence, *release, out);
            return Some(*fence);
        }
        if variant > 0 {
            return None;
        }
        // Each step gets its place; a moved one goes behind another.
        let place = |(at, step): (usize, &Step)| (at, 0, Some(*step));
        let mut places: Vec<(usize, usize, Option<Step>)> =
            steps.iter().enumerate().map(place).collect();
        let mut first = None;
        let mut swapped = 0;
        for (at, edit) in edits.by_ref() {
            match edit {
                Edit::Drop(at) => places[at].2 = None,
                Edit::FirstLine(at) => {
                    if let Some(step) = &mut places[at].2
                        && let Action::Flush { lines, .. } = &mut step.action
                    {
                        *lines = 1;
                    }
                }
                Edit::Move(at, behind) => (places[at].0, places[at].1) = (behind, 1),
                // In a loop, pairs: what was swapped once stays where it is.
                Edit::Swap(..) if at < swapped => continue,
                Edit::Swap(at, other) => {
                    (places[at].0, places[other].0) = (other, at);
                    swapped = other + 1;
                }
            }
            first = first.or(Some(at));
        }
        places.sort_by_key(|(place, behind, _)| (*place, *behind));
        out.extend(places.iter().filter_map(|(_, _, step)| *step));
        first
    }
}

/// Added to a thread's number for what others do in its stead.
const OTHERS: u32 = 1 << 31;
/// So many operations are done by others.
const BY_OTHERS: usize = 8;

/// A thread that was to fence and then release is stopped after the release, before the fence.
fn stop(steps: &[Step], fence: usize, release: usize, out: &mut Vec<Step>) {
    let thread = steps[fence].thread;
    // Others do the steps that it has not done yet, and the operation that these belong to.
    let begin = before(steps, fence)
        .find(|(_, action)| matches!(action, Action::Mark(_)))
        .map(|(at, _)| at);
    let mut left = BY_OTHERS;
    for (at, step) in steps.iter().enumerate() {
        let mut step = *step;
        if step.thread == thread && (at > release || Some(at) == begin) {
            step.thread |= OTHERS;
        }
        if at != fence {
            out.push(step);
        }
        if at > release && matches!(step.action, Action::Mark(mark) if mark % 2 == 1) {
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    out.push(steps[fence]);
}

/// Adds all mutants that change something in `steps`.
pub fn collect(steps: &[Step], mutants: &mut BTreeSet<Mutant>) {
    for (at, step) in steps.iter().enumerate() {
        for kind in Kind::ALL {
            let site = step.site;
            let mutant = Mutant { site, kind };
            if !mutants.contains(&mutant) && edit(kind, steps, at).is_some() {
                mutants.insert(mutant);
            }
        }
    }
}

/// How a mutant fared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A state that it allows is not recovered right: what is wrong.
    Caught(String),
    /// It allows states that the design does not, this many, and all are recovered right.
    Survived(u64),
    /// It allows no state that the design does not allow anyway.
    Equivalent,
}

/// Mutants that need not be caught, and why.
#[derive(Clone, Copy, Debug)]
pub struct Accepted {
    /// The function that the site is in.
    pub function: &'static str,
    /// The source there, or a part of it.
    pub source: &'static str,
    /// The changes that the mutants make.
    pub kinds: &'static [Kind],
    /// Why their survival is right.
    pub why: &'static str,
}

/// Adds verdicts from another case or model: a mutant that is caught anywhere is caught.
pub fn add(all: &mut BTreeMap<Mutant, Verdict>, verdicts: Vec<(Mutant, Verdict)>) {
    for (mutant, verdict) in verdicts {
        let known = all.entry(mutant).or_insert(Verdict::Equivalent);
        *known = match (&*known, verdict) {
            (Verdict::Survived(a), Verdict::Survived(b)) => Verdict::Survived(a + b),
            (Verdict::Equivalent, other) | (_, other @ Verdict::Caught(_)) => other,
            (known, _) => known.clone(),
        };
    }
}

/// The mutants that were neither caught nor `accepted`, in words; and what was accepted in vain.
///
/// A flush, fence or drain whose removal changes nothing is as suspicious as one whose removal
/// goes unnoticed: it is not needed. That nothing relies on the order of two stores to one line is
/// no fault.
#[must_use]
pub fn unproven(verdicts: &BTreeMap<Mutant, Verdict>, accepted: &[Accepted]) -> Vec<String> {
    let mut used = vec![false; accepted.len()];
    let mut unproven = Vec::new();
    for (mutant, verdict) in verdicts {
        let fine = match verdict {
            Verdict::Caught(_) => true,
            Verdict::Survived(_) => mutant.kind == Kind::SwapInLine,
            Verdict::Equivalent => mutant.kind != Kind::Drop,
        };
        if fine {
            continue;
        }
        let (function, source) = source(mutant.site);
        let known = accepted.iter().position(|accepted| {
            accepted.function == function
                && source.contains(accepted.source)
                && accepted.kinds.contains(&mutant.kind)
        });
        match known {
            Some(known) => used[known] = true,
            None => unproven.push(format!("{mutant}, {function}: {source}: {verdict:?}")),
        }
    }
    let vain = accepted.iter().zip(used).filter(|(_, used)| !used);
    unproven.extend(vain.map(|(accepted, _)| format!("accepted in vain: {accepted:?}")));
    unproven
}

/// The function that a site is in, and its line; nothing where the source is not there.
#[must_use]
pub fn source(site: Site) -> (String, String) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let path = std::path::Path::new(root).join(site.file());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().take(site.line() as usize).collect();
    let name = |line: &&str| {
        let (_, rest) = line.split_once("fn ")?;
        rest.split(['<', '(']).next().map(str::to_string)
    };
    let function = lines.iter().rev().find_map(name).unwrap_or_default();
    let line = lines.last().map_or("", |line| line.trim());
    (function, line.to_string())
}
