//! The operations on a pool that loses its power, and a model of its contents.
//!
//! Each thread has keys of its own. A value is the number of its operation, and above that how many operations of the next
//! thread had returned when it began: those must be there if it is.

use std::sync::atomic::{AtomicU64, Ordering};

use durahash::Result;

use super::Plan;
use crate::logged::{Contents, Kind, Table};
use crate::script::Rng;

/// Threads of the child.
pub(super) const THREADS: usize = 2;
const KEYS: usize = 1500;
/// So few that their lists become long.
const MULTI_KEYS: usize = 30;
const NUMBER_BITS: u32 = 32;

/// One operation.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// The key has the value of this operation; in a multimap, besides its others.
    Put(u64),
    /// Of a multimap: the key has the value of that operation no more.
    RemoveOne(u64, u64),
    /// The key is gone.
    Remove(u64),
}

fn first_key(thread: usize) -> u64 {
    (thread * KEYS) as u64
}

/// Number `i` of a thread, from 1 on.
fn change(plan: Plan, thread: usize, i: u64) -> Change {
    let mut rng = Rng::new(plan.seed ^ i << 20 ^ (thread as u64) << 56);
    let is_multi = plan.kind == Kind::Lists;
    let key = first_key(thread) + rng.below(if is_multi { MULTI_KEYS } else { KEYS }) as u64;
    if !is_multi {
        return if rng.below(5) > 0 { Change::Put(key) } else { Change::Remove(key) };
    }
    match rng.below(64) {
        0 => Change::Remove(key),
        1..16 if i > 1 => {
            let before = 1 + rng.below(i as usize - 1) as u64;
            match change(plan, thread, before) {
                Change::Put(key) => Change::RemoveOne(key, before),
                other => other,
            }
        }
        _ => Change::Put(key),
    }
}

/// Applies a change to the model, whose values are the numbers of operations.
fn apply(contents: &mut Contents, change: Change, i: u64, is_multi: bool) {
    match change {
        Change::Put(key) if is_multi => contents.entry(key).or_default().push(i),
        Change::Put(key) => drop(contents.insert(key, vec![i])),
        Change::RemoveOne(key, before) => {
            if let Some(values) = contents.get_mut(&key) {
                values.retain(|other| *other != before);
                if values.is_empty() {
                    contents.remove(&key);
                }
            }
        }
        Change::Remove(key) => drop(contents.remove(&key)),
    }
}

/// Runs the operations of a thread. `returned` counts those of all; `then` is told of each that has returned.
pub(super) fn run(
    plan: Plan,
    table: &Table,
    thread: usize,
    returned: &[AtomicU64; THREADS],
    mut then: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let mut values = vec![0];
    for i in 1..=plan.ops {
        let seen = returned[(thread + 1) % THREADS].load(Ordering::Acquire);
        values.push(seen << NUMBER_BITS | i);
        match change(plan, thread, i) {
            Change::Put(key) => table.put(key, values[i as usize])?,
            Change::RemoveOne(key, before) => table.remove_one(key, values[before as usize])?,
            Change::Remove(key) => table.remove(key)?,
        }
        returned[thread].store(i, Ordering::Release);
        then(i)?;
    }
    Ok(())
}

/// The contents of each thread's keys must be those after some number of its operations, not less than were promised;
/// and of the next thread, there must be what these had seen.
pub(super) fn check(plan: Plan, found: Contents, promised: [u64; THREADS]) -> Result<(), String> {
    let (mut last, mut seen) = ([0; THREADS], [0; THREADS]);
    let mut rest = found;
    for thread in 0..THREADS {
        let behind = rest.split_off(&first_key(thread + 1));
        let mut own = std::mem::replace(&mut rest, behind);
        for values in own.values_mut() {
            for value in values.iter_mut() {
                seen[thread] = seen[thread].max(*value >> NUMBER_BITS);
                *value &= (1 << NUMBER_BITS) - 1;
            }
            values.sort_unstable();
        }
        let mut contents = Contents::new();
        let mut matches = None;
        for i in 0..=plan.ops {
            if i > 0 {
                apply(&mut contents, change(plan, thread, i), i, plan.kind == Kind::Lists);
            }
            if i >= promised[thread] && contents == own {
                matches = Some(i);
            }
        }
        last[thread] = matches.ok_or_else(|| {
            format!("{} keys of thread {thread}, and not as after any operation since", own.len())
        })?;
    }
    for (thread, seen) in seen.iter().enumerate() {
        let there = last[(thread + 1) % THREADS];
        if *seen > there {
            return Err(format!(
                "thread {thread} had seen {seen} operations of the other, of which {there} are there"
            ));
        }
    }
    Ok(())
}
