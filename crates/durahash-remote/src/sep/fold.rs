//! A merge as a pure function of its frozen inputs: a full CurSegment and its MainSegment.
//!
//! It keeps the newest entry of each key, or none if that is a tombstone. Two entries can be of one
//! key only if fp and fp2 are equal; if an fp2 is unknown, all entries of that fp are compared. The
//! result does not depend on which fp2 are known, so all mergers of a generation agree.

use std::collections::{HashMap, HashSet};

use crate::planted::{Fault, planted};

use super::layout::{Entry, FPS, Item, Ref, dep, fp2};

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

/// Sets of entries with the same fp and fp2: a bit each.
struct Classes([u64; 1 << 10]);

impl Classes {
    fn at(entry: Entry, fp2: u8) -> (usize, u64) {
        let class = usize::from(entry.fp()) << 8 | usize::from(fp2);
        (class / 64, 1 << (class % 64))
    }

    fn has(&self, entry: Entry, fp2: u8) -> bool {
        let (word, bit) = Self::at(entry, fp2);
        self.0[word] & bit != 0
    }

    fn add(&mut self, entry: Entry, fp2: u8) {
        let (word, bit) = Self::at(entry, fp2);
        self.0[word] |= bit;
    }
}

/// Which entries are compared by their keys.
struct Compared {
    /// The fps that have an entry with an unknown fp2.
    unknown: [bool; FPS],
    /// Those of an entry of the CurSegment and another one.
    alike: Classes,
}

impl Compared {
    fn has(&self, entry: Entry, fp2: Option<u8>) -> bool {
        self.unknown[usize::from(entry.fp())] || fp2.is_none_or(|fp2| self.alike.has(entry, fp2))
    }
}

/// The order of entries in a MainSegment.
fn place(item: &Item) -> (u8, u8, Ref) {
    (item.entry.fp(), item.fp2, item.entry.kv())
}

impl Frozen {
    fn compared(&self) -> Compared {
        let (mut newer, alike) = (Classes([0; _]), Classes([0; _]));
        let mut compared = Compared { unknown: [false; FPS], alike };
        for &(entry, fp2) in &self.cur {
            match fp2 {
                Some(fp2) if newer.has(entry, fp2) => compared.alike.add(entry, fp2),
                Some(fp2) => newer.add(entry, fp2),
                None => compared.unknown[usize::from(entry.fp())] = true,
            }
        }
        for item in self.main.iter().filter(|item| newer.has(item.entry, item.fp2)) {
            compared.alike.add(item.entry, item.fp2);
        }
        compared
    }

    /// Entries whose keys must be read: `all` of them if the depth information is used up.
    pub(super) fn wanted(&self, all: bool) -> Vec<Entry> {
        let compared = self.compared();
        let is_wanted = |entry, fp2| all || compared.has(entry, fp2);
        let cur =
            self.cur.iter().filter(|(entry, fp2)| entry.is_tombstone() || is_wanted(*entry, *fp2));
        let main = self.main.iter().filter(|item| is_wanted(item.entry, Some(item.fp2)));
        cur.map(|&(entry, _)| entry).chain(main.map(|item| item.entry)).collect()
    }

    /// Merges, given the keys that were [wanted](Self::wanted). It takes time for each entry once: the MainSegment's are in
    /// order, and stay so.
    pub(super) fn fold(&self, keys: &Keys) -> Folded {
        let (compared, mut seen) = (self.compared(), HashSet::new());
        let known = |entry: Entry, fp2| {
            let is_read = entry.is_tombstone() || compared.has(entry, fp2);
            is_read.then(|| keys.get(&entry.kv().word())).flatten()
        };
        let mut out = Folded::default();
        let mut newer = Vec::with_capacity(self.cur.len());
        for &(entry, hint) in self.cur.iter().rev() {
            let known = known(entry, hint);
            let forgets = planted(Fault::TombstoneMerged) && entry.is_tombstone()
                || planted(Fault::KeysUncompared) && hint.is_none();
            let is_newest = forgets || known.is_none_or(|known| seen.insert(&known.key[..]));
            if is_newest && !entry.is_tombstone() {
                let fp2 = known.map(|known| fp2(known.hash)).or(hint);
                let fp2 = fp2.expect("the key was wanted where the hint is not known");
                newer.push(Item { entry: entry.settled(entry.dep()), fp2 });
            } else {
                out.dropped.push(entry);
            }
        }
        newer.sort_unstable_by_key(place);
        out.kept.reserve(newer.len() + self.main.len());
        let mut gone = Vec::new();
        for (idx, item) in self.main.iter().enumerate() {
            let known = known(item.entry, Some(item.fp2));
            if known.is_some_and(|known| !seen.insert(&known.key)) {
                out.dropped.push(item.entry);
                gone.push(idx);
            }
        }
        // Most entries stay side by side.
        let (mut from, mut gone) = (0, gone.into_iter().peekable());
        let mut keep_to = |kept: &mut Vec<Item>, to| {
            while let Some(idx) = gone.next_if(|idx| *idx < to) {
                kept.extend_from_slice(&self.main[from..idx]);
                from = idx + 1;
            }
            kept.extend_from_slice(&self.main[from..to]);
            from = to;
        };
        let mut to = 0;
        for item in newer {
            to += self.main[to..].partition_point(|old| place(old) < place(&item));
            keep_to(&mut out.kept, to);
            out.kept.push(item);
        }
        keep_to(&mut out.kept, self.main.len());
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
