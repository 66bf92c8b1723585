//! The operations on a map, or a multimap, that loses its power, and a model of its contents.

use durahash::Result;

use super::Plan;
use crate::logged::{Contents, Table};
use crate::script::Rng;

const KEYS: usize = 3000;
/// So few that their lists become long.
const MULTI_KEYS: usize = 60;

/// One operation.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// The key has this value; in a multimap, besides its others.
    Put(u64, u64),
    /// Of a multimap: the key has this value no more.
    RemoveOne(u64, u64),
    /// The key is gone.
    Remove(u64),
}

impl Change {
    /// Number `i` of a plan, from 1 on.
    pub(super) fn of(plan: Plan, i: u64) -> Change {
        let mut rng = Rng::new(plan.seed ^ i << 20);
        let key = rng.below(if plan.multi { MULTI_KEYS } else { KEYS }) as u64;
        if !plan.multi {
            return if rng.below(5) > 0 { Change::Put(key, i) } else { Change::Remove(key) };
        }
        match rng.below(64) {
            0 => Change::Remove(key),
            1..16 if i > 1 => match Change::of(plan, 1 + rng.below(i as usize - 1) as u64) {
                Change::Put(key, value) => Change::RemoveOne(key, value),
                other => other,
            },
            _ => Change::Put(key, i),
        }
    }

    /// Applies it to the model.
    pub(super) fn model(self, contents: &mut Contents, multi: bool) {
        match self {
            Change::Put(key, value) if multi => contents.entry(key).or_default().push(value),
            Change::Put(key, value) => drop(contents.insert(key, vec![value])),
            Change::RemoveOne(key, value) => {
                if let Some(values) = contents.get_mut(&key) {
                    values.retain(|other| *other != value);
                    if values.is_empty() {
                        contents.remove(&key);
                    }
                }
            }
            Change::Remove(key) => drop(contents.remove(&key)),
        }
    }

    pub(super) fn apply(self, table: &Table) -> Result<()> {
        match self {
            Change::Put(key, value) => table.put(key, value),
            Change::RemoveOne(key, value) => table.remove_one(key, value),
            Change::Remove(key) => table.remove(key),
        }
    }
}
