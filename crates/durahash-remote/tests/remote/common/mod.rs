//! A history of operations, and a check that it is linearizable; the schedules that make one.

pub(crate) mod schedule;

/// Declares counts that are added up.
macro_rules! counts {
    ($(#[$docs:meta])* $type:ident { $($(#[$doc:meta])* $name:ident,)* }) => {
        $(#[$docs])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct $type { $($(#[$doc])* pub(crate) $name: u64,)* }

        impl std::ops::AddAssign for $type {
            fn add_assign(&mut self, other: Self) { $(self.$name += other.$name;)* }
        }
    };
}

pub(crate) use counts;

use std::collections::{HashMap, HashSet};

use durahash_remote::Options;

/// So small that there are merges and splits all the time.
pub(crate) fn tiny() -> Options {
    let mut options = Options::default();
    (options.cur_entries, options.main_entries) = (8, 32);
    (options.max_depth, options.chunk_bytes) = (10, 16 << 10);
    options
}

/// The state of a key: the number of its value, or none.
pub(crate) type State = Option<u32>;

/// The effect of an operation on the state.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    Read,
    Set(State),
    /// Sets the second if the state is the first.
    SetIf(State, State),
}

/// The previous state that an operation returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Response {
    /// It said nothing.
    Untold,
    Is(State),
    /// Any other state.
    Not(State),
}

/// An operation on one key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) key: u32,
    pub(crate) start: u64,
    /// `None` if it is unknown whether it took effect.
    pub(crate) end: Option<u64>,
    /// The start of one that takes effect before it.
    pub(crate) after: Option<u64>,
    pub(crate) effect: Effect,
    pub(crate) found: Response,
}

/// The operations of a run. Times are counted, so that no two are equal.
#[derive(Default)]
pub(crate) struct History {
    now: u64,
    pub(crate) ops: Vec<Done>,
}

impl History {
    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    pub(crate) fn begin(&mut self, key: u32, effect: Effect) -> usize {
        self.begin_after(key, effect, None)
    }

    /// Begins one that takes effect after another, although that has not ended.
    pub(crate) fn begin_after(&mut self, key: u32, effect: Effect, after: Option<usize>) -> usize {
        let (start, after) = (self.tick(), after.map(|i| self.ops[i].start));
        self.ops.push(Done { key, start, end: None, after, effect, found: Response::Untold });
        self.ops.len() - 1
    }

    pub(crate) fn end(&mut self, i: usize, found: Response) {
        self.ops[i].end = Some(self.tick());
        self.ops[i].found = found;
    }

    /// Checks that an order of each key's operations explains their results, and returns for how
    /// many keys that could not be decided.
    pub(crate) fn check(&self) -> Result<u64, String> {
        let mut undecided = 0;
        let mut keys: HashMap<u32, Vec<Done>> = HashMap::new();
        for op in &self.ops {
            keys.entry(op.key).or_default().push(*op);
        }
        for (key, mut ops) in keys {
            ops.sort_unstable_by_key(|op| op.start);
            let good = search(&ops);
            undecided += u64::from(good.is_none());
            if good == Some(false) {
                let list: String = ops.iter().map(|op| format!("  {op:?}\n")).collect();
                return Err(format!("key {key} is not linearizable:\n{list}"));
            }
        }
        Ok(undecided)
    }
}

/// Points of a search, after which it is given up.
const POINTS_MAX: usize = 200_000;

/// A search over orders (Wing and Gong), with the states that were seen before left out.
fn search(ops: &[Done]) -> Option<bool> {
    // Operations before `from` are done; of later ones, those in the set are.
    type Point = (usize, Vec<usize>, State);
    let mut seen: HashSet<Point> = HashSet::new();
    let mut stack: Vec<Point> = vec![(0, Vec::new(), None)];
    let idle: HashSet<usize> = (0..ops.len()).filter(|&i| explains_nothing(&ops[i], ops)).collect();
    let before = |op: &Done| ops.iter().position(|other| Some(other.start) == op.after);
    let before: Vec<_> = ops.iter().map(before).collect();
    while let Some((from, ahead, state)) = stack.pop() {
        let left = || (from..ops.len()).filter(|i| !ahead.contains(i) && !idle.contains(i));
        let Some(first_end) = left().filter_map(|i| ops[i].end).min() else { return Some(true) };
        let mut next: Vec<usize> = left().take_while(|&i| ops[i].start < first_end).collect();
        // The operation that ended first is tried first.
        next.sort_unstable_by_key(|&i| std::cmp::Reverse(ops[i].end.unwrap_or(u64::MAX)));
        let is_done = |i: usize| i < from || ahead.contains(&i) || idle.contains(&i);
        for i in next.into_iter().filter(|&i| before[i].is_none_or(is_done)) {
            let op = &ops[i];
            match op.found {
                Response::Is(found) if found != state => continue,
                Response::Not(other) if other == state => continue,
                _ => {}
            }
            let state = match op.effect {
                Effect::Set(new) => new,
                Effect::SetIf(expected, new) if state == expected => new,
                Effect::SetIf(..) | Effect::Read => state,
            };
            let (mut from, mut ahead) = (from, ahead.clone());
            ahead.push(i);
            ahead.sort_unstable();
            while ahead.first() == Some(&from) || idle.contains(&from) {
                ahead.retain(|&i| i != from);
                from += 1;
            }
            let point = (from, ahead, state);
            if seen.insert(point.clone()) {
                if seen.len() > POINTS_MAX {
                    return None;
                }
                stack.push(point);
            }
        }
    }
    Some(false)
}

/// Returns whether an operation of unknown outcome can be taken for one that did nothing: no other can have
/// seen what it wrote.
fn explains_nothing(op: &Done, ops: &[Done]) -> bool {
    let (Effect::Set(new) | Effect::SetIf(_, new)) = op.effect else { return op.end.is_none() };
    let seen =
        |other: &Done| other.found == Response::Is(new) || matches!(other.found, Response::Not(_));
    op.end.is_none() && new.is_some() && !ops.iter().any(seen)
}

/// The checker itself.
#[test]
fn the_checker_knows_good_from_bad() {
    let linearizable = |ops: &[Done]| search(ops).unwrap();
    let op = |start, end, effect, found| Done { key: 0, start, end, after: None, effect, found };
    let put = |start, end, v| op(start, end, Effect::Set(Some(v)), Response::Untold);
    let get = |start, end, found| op(start, Some(end), Effect::Read, Response::Is(found));
    let full = |start, end| op(start, Some(end), Effect::Read, Response::Not(None));
    assert!(linearizable(&[put(1, None, 1), full(3, 4)]));
    assert!(!linearizable(&[full(3, 4)]));
    assert!(linearizable(&[put(1, Some(2), 1), get(3, 4, Some(1))]));
    assert!(!linearizable(&[put(1, Some(2), 1), get(3, 4, None)]));
    assert!(linearizable(&[put(1, Some(9), 1), get(3, 4, None), get(5, 6, Some(1))]));
    assert!(!linearizable(&[put(1, Some(9), 1), get(3, 4, Some(1)), get(5, 6, None)]));
    assert!(linearizable(&[put(1, None, 1), get(3, 4, None), get(5, 6, Some(1))]));
    assert!(!linearizable(&[put(1, None, 1), get(3, 4, Some(1)), get(5, 6, None)]));
    let swap = |start, end, a, b, found| {
        op(start, Some(end), Effect::SetIf(a, Some(b)), Response::Is(found))
    };
    assert!(linearizable(&[swap(1, 2, None, 1, None), swap(3, 4, None, 2, Some(1))]));
    assert!(!linearizable(&[swap(1, 2, None, 1, None), swap(3, 4, None, 2, None)]));
    let fails =
        |start, end, a| op(start, Some(end), Effect::SetIf(Some(a), None), Response::Not(Some(a)));
    assert!(linearizable(&[put(1, Some(2), 1), fails(3, 4, 2), get(5, 6, Some(1))]));
    assert!(!linearizable(&[put(1, Some(2), 1), fails(3, 4, 1)]));
    assert!(linearizable(&[put(1, Some(2), 1), put(3, None, 2), fails(4, 5, 1)]));
    let then = |op| Done { after: Some(1), ..op };
    for last in [1, 2] {
        let puts = [put(1, Some(3), 1), then(put(2, Some(4), 2)), get(5, 6, Some(last))];
        assert_eq!(linearizable(&puts), last == 2);
    }
    assert!(linearizable(&[put(1, None, 1), then(put(2, None, 2)), get(5, 6, Some(2))]));
}
