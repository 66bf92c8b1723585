//! Mutants: what the design would have done without one of its flushes, fences, drains or orders.
//!
//! A mutant changes recorded traces, not the design: one recorded run serves all mutants, nothing is
//! compiled in, and a site is a place in the source. What the mutant must not change is what the
//! program itself read and decided, and so it is: dropping a flush or letting a store be durable
//! later changes nothing but what a crash may leave.

use std::collections::BTreeSet;
use std::fmt;

use durahash_media::{Action, Event, Site, Step};

/// A change at one site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// Where.
    pub site: Site,
    /// What.
    pub kind: Kind,
}

/// What a mutant does at its site, each time that the site is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The flush, fence, drain or sync is left out.
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
    /// The lock is released before the fence or drain that comes before its release.
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

    /// The name in commands.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Drop => "drop",
            Kind::Delay => "delay",
            Kind::FirstLine => "first-line",
            Kind::SwapInLine => "swap-in-line",
            Kind::SwapAcrossFence => "swap-across-fence",
            Kind::UnlockEarly => "unlock-early",
        }
    }
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.kind.name(), self.site)
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
    rest.filter(move |(_, step)| step.thread == thread)
        .map(|(at, step)| (at, step.action))
}

/// The steps of `steps[at]`'s thread before it, the nearest first.
fn before(steps: &[Step], at: usize) -> impl Iterator<Item = (usize, Action)> {
    let thread = steps[at].thread;
    let earlier = steps[..at].iter().enumerate().rev();
    earlier
        .filter(move |(_, step)| step.thread == thread)
        .map(|(at, step)| (at, step.action))
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

/// What `kind` does to the step at `at`, if it does anything.
fn edit(kind: Kind, steps: &[Step], at: usize) -> Option<Edit> {
    let action = steps[at].action;
    match kind {
        Kind::Drop => {
            let drops = matches!(action, Action::Flush { .. } | Action::Sync { .. });
            (drops || is_fence(action)).then_some(Edit::Drop(at))
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
            let wanted = if kind == Kind::SwapInLine {
                !fenced && word / 8 == other / 8
            } else {
                fenced
            };
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
            // It comes as late as this thread can let it: before whatever it does next that is not
            // another release.
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
    pub fn apply(&self, steps: &[Step], out: &mut Vec<Step>) -> Option<usize> {
        out.clear();
        let mut edits = Vec::new();
        let mut swapped = 0;
        for at in 0..steps.len() {
            if steps[at].site != self.site || at < swapped {
                continue;
            }
            if let Some(edit) = edit(self.kind, steps, at) {
                if let Edit::Swap(_, other) = edit {
                    // In a loop, pairs: what was swapped once stays where it is.
                    swapped = other + 1;
                }
                if !edits.contains(&edit) {
                    edits.push(edit);
                }
            }
        }
        // Each step gets its place; what moves goes behind another.
        let mut places: Vec<(usize, usize, Option<Step>)> = Vec::with_capacity(steps.len());
        let steps = steps.iter().copied().enumerate();
        places.extend(steps.map(|(at, step)| (at, 0, Some(step))));
        let mut first = None::<usize>;
        for edit in edits {
            let at = match edit {
                Edit::Drop(at) => {
                    places[at].2 = None;
                    at
                }
                Edit::FirstLine(at) => {
                    if let Some(step) = &mut places[at].2
                        && let Action::Flush { lines, .. } = &mut step.action
                    {
                        *lines = 1;
                    }
                    at
                }
                Edit::Move(at, behind) => {
                    (places[at].0, places[at].1) = (behind, 1);
                    at
                }
                Edit::Swap(at, other) => {
                    (places[at].0, places[other].0) = (other, at);
                    at
                }
            };
            first = Some(first.map_or(at, |first| first.min(at)));
        }
        let first = first?;
        places.sort_by_key(|(place, behind, _)| (*place, *behind));
        out.extend(places.iter().filter_map(|(_, _, step)| *step));
        Some(first)
    }
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
