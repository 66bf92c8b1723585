//! A merge as a pure function of its frozen inputs: a full CurSegment and its MainSegment.
//!
//! It keeps the newest entry of each key, or none if that is a tombstone. Two entries can be of one
//! key only if fp and fp2 are equal; if an fp2 is unknown, all entries of that fp are compared. The
//! result does not depend on which fp2 are known, so all mergers of a generation agree.

use std::collections::HashMap;

use crate::planted::{Fault, planted};

use super::layout::{Entry, Item, dep, fp2};

/// The inputs: the CurSegment's entries in the order of appending, each with the fp2 of its
/// hint if that is known, and the MainSegment's.
#[derive(Clone, Debug)]
pub(super) struct Frozen {
    pub(super) cur: Vec<(Entry, Option<u8>)>,
    pub(super) main: Vec<Item>,
}

/// A key that was read, by the word of its entry's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KnownKey {
    pub(super) hash: u64,
    pub(super) key: Vec<u8>,
    /// Bytes of its KV block.
    pub(super) bytes: usize,
}

pub(super) type Keys = HashMap<u64, KnownKey>;

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Folded {
    /// By fp, then by fp2.
    pub(super) kept: Vec<Item>,
    /// Entries that are unlinked when the merge is committed. Their keys are all known.
    pub(super) dropped: Vec<Entry>,
}

impl Frozen {
    /// Entries whose keys must be read: `all` of them if the depth information is used up.
    pub(super) fn wanted(&self, all: bool) -> Vec<Entry> {
        // Entries by fp and fp2, and the fps with an unknown fp2.
        let mut unknown = [false; 256];
        let mut alike: HashMap<(u8, u8), (u32, bool)> = HashMap::new();
        for &(entry, fp2) in &self.cur {
            match fp2 {
                Some(fp2) => {
                    let class = alike.entry((entry.fp(), fp2)).or_default();
                    *class = (class.0 + 1, true);
                }
                None => unknown[usize::from(entry.fp())] = true,
            }
        }
        for item in &self.main {
            alike.entry((item.entry.fp(), item.fp2)).or_default().0 += 1;
        }
        let compared = |entry: Entry, fp2: Option<u8>| {
            all || unknown[usize::from(entry.fp())]
                || fp2.is_none_or(|fp2| {
                    alike.get(&(entry.fp(), fp2)).is_some_and(|&(n, newer)| n > 1 && newer)
                })
        };
        let cur =
            self.cur.iter().filter(|&&(entry, fp2)| entry.is_tombstone() || compared(entry, fp2));
        let main = self.main.iter().filter(|item| compared(item.entry, Some(item.fp2)));
        cur.map(|&(entry, _)| entry).chain(main.map(|item| item.entry)).collect()
    }

    /// Merges, given the keys that were [wanted](Self::wanted).
    pub(super) fn fold(&self, keys: &Keys) -> Folded {
        let mut out = Folded::default();
        let mut seen: HashMap<&[u8], ()> = HashMap::new();
        let cur = self.cur.iter().rev().copied();
        let main = self.main.iter().map(|item| (item.entry, Some(item.fp2)));
        for (entry, hint) in cur.chain(main) {
            let known = keys.get(&entry.kv().word());
            let forgets = planted(Fault::TombstoneMerged) && entry.is_tombstone()
                || planted(Fault::KeysUncompared) && hint.is_none();
            let newest = forgets || known.is_none_or(|known| seen.insert(&known.key, ()).is_none());
            if newest && !entry.is_tombstone() {
                let fp2 = known.map(|known| fp2(known.hash)).or(hint);
                let fp2 = fp2.expect("the key was wanted where the hint is not known");
                out.kept.push(Item { entry: entry.settled(entry.dep()), fp2 });
            } else {
                out.dropped.push(entry);
            }
        }
        out.kept.sort_unstable_by_key(|item| (item.entry.fp(), item.fp2, item.entry.kv()));
        out
    }
}

/// Divides what a fold kept by the bit that a split at `depth` looks at: first those that stay.
/// After the last split of a round, entries get the four bits of the next one.
pub(super) fn divide(kept: &[Item], depth: u32, keys: &Keys) -> [Vec<Item>; 2] {
    let mut halves = [Vec::new(), Vec::new()];
    for &item in kept {
        let upper = item.entry.dep() >> (depth % 4) & 1;
        let dep = if depth % 4 == 3 && !planted(Fault::DepthBitsKept) {
            dep(keys[&item.entry.kv().word()].hash, depth + 1)
        } else {
            item.entry.dep()
        };
        halves[usize::from(upper)].push(Item { entry: item.entry.settled(dep), fp2: item.fp2 });
    }
    halves
}

#[cfg(test)]
mod tests;
