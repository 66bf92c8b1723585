//! What loses its power: a map, or a multimap, and what it must hold.

use std::collections::BTreeMap;
use std::path::Path;

use durahash::{Map, MultiMap, Result};

use super::Plan;
use crate::script::Rng;

const KEYS: usize = 3000;
/// So few that their lists become long.
const MULTI_KEYS: usize = 60;

/// An index of either kind.
pub(super) enum Index {
    Map(Map<u64, u64>),
    Multi(MultiMap<u64, u64>),
}

/// All values of each key, in their own order.
pub(super) type Contents = BTreeMap<u64, Vec<u64>>;

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

    /// What it makes of what there was.
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
}

impl Index {
    pub(super) fn create(plan: Plan, path: &Path) -> Result<Index> {
        let options = plan.options();
        Ok(if plan.multi {
            Index::Multi(options.create(path)?)
        } else {
            Index::Map(options.create(path)?)
        })
    }

    pub(super) fn open(plan: Plan, path: &Path) -> Result<Index> {
        let options = plan.options();
        Ok(if plan.multi {
            Index::Multi(options.open(path)?)
        } else {
            Index::Map(options.open(path)?)
        })
    }

    pub(super) fn apply(&self, change: Change) -> Result<()> {
        match (self, change) {
            (Index::Map(map), Change::Put(key, value)) => map.put(&key, &value),
            (Index::Map(map), Change::Remove(key) | Change::RemoveOne(key, _)) => {
                map.remove(&key).map(drop)
            }
            (Index::Multi(map), Change::Put(key, value)) => map.add(&key, &value),
            (Index::Multi(map), Change::RemoveOne(key, value)) => {
                map.remove_one(&key, &value).map(drop)
            }
            (Index::Multi(map), Change::Remove(key)) => map.remove_all(&key).map(drop),
        }
    }

    /// What is wrong with it, if anything is.
    pub(super) fn check(&self) -> Result<Option<String>> {
        let mut wrong = None;
        let mut note = |finding: durahash::Finding| {
            wrong = wrong.take().or(Some(format!("{finding:?}")));
        };
        match self {
            Index::Map(map) => map.check(&mut note)?,
            Index::Multi(map) => map.check(&mut note)?,
        };
        Ok(wrong)
    }

    pub(super) fn contents(&self) -> Result<Contents> {
        let mut contents = Contents::new();
        let mut note = |entry: Result<(u64, u64)>| -> Result<()> {
            let (key, value) = entry?;
            contents.entry(key).or_default().push(value);
            Ok(())
        };
        match self {
            Index::Map(map) => map.iter().try_for_each(&mut note)?,
            Index::Multi(map) => map.iter().try_for_each(&mut note)?,
        }
        contents.values_mut().for_each(|values| values.sort_unstable());
        Ok(contents)
    }

    pub(super) fn close(self) -> Result<()> {
        match self {
            Index::Map(map) => map.close(),
            Index::Multi(map) => map.close(),
        }
    }
}
