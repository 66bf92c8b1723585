//! A merge as a pure function of its frozen inputs: a full CurSegment and its MainSegment.
//!
//! It keeps the newest entry of each key, or none if that is a tombstone. Two entries can be of one
//! key only if fp and fp2 are equal; if an fp2 is unknown, all entries of that fp are compared. The
//! result does not depend on which fp2 are known, so all mergers of a generation agree.

use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::rc::Rc;

use crate::planted::{Fault, planted};

use super::layout::{Entry, FPS, Item, Ref, dep, fp2};
use super::spread::Spread;

/// The inputs: the CurSegment's entries in the order of appending, each with the fp2 of its
/// hint if that is known, and the MainSegment's.
#[derive(Clone, Debug)]
pub(super) struct Frozen {
    pub(super) cur: Vec<(Entry, Option<u8>)>,
    pub(super) main: Rc<Vec<Item>>,
}

/// A key that was read.
#[derive(Clone, Debug)]
pub(super) struct KnownKey {
    pub(super) hash: u64,
    /// Bytes of its KV block.
    pub(super) bytes: usize,
    /// Where it is among the bytes of all keys.
    at: Range<usize>,
}

/// The keys of entries that were read.
#[derive(Clone, Debug, Default)]
pub(super) struct Keys {
    /// By the word of the entry's address.
    known: HashMap<u64, KnownKey, Spread>,
    bytes: Vec<u8>,
}

/// A key and its hash.
#[derive(PartialEq, Eq)]
struct Name<'a>(&'a [u8], u64);

impl Hash for Name<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.1);
    }
}

impl Keys {
    pub(super) fn with_capacity(count: usize) -> Self {
        let known = HashMap::with_capacity_and_hasher(count, Spread::default());
        Keys { known, bytes: Vec::new() }
    }

    /// Adds the key of an entry, whose KV block has so many bytes.
    pub(super) fn insert(&mut self, entry: Entry, hash: u64, key: &[u8], bytes: usize) {
        let at = self.bytes.len()..self.bytes.len() + key.len();
        self.bytes.extend_from_slice(key);
        self.known.insert(entry.kv().word(), KnownKey { hash, bytes, at });
    }

    fn get(&self, entry: Entry) -> Option<&KnownKey> {
        self.known.get(&entry.kv().word())
    }

    /// The key of an entry that was wanted.
    pub(super) fn of(&self, entry: Entry) -> &KnownKey {
        self.get(entry).expect("the keys of all entries that were wanted were read")
    }

    fn name(&self, known: &KnownKey) -> Name<'_> {
        Name(&self.bytes[known.at.clone()], known.hash)
    }
}

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

    fn add_all(&mut self, fp: usize) {
        let words = self.0.len() / FPS;
        self.0[fp * words..][..words].fill(u64::MAX);
    }

    fn add(&mut self, entry: Entry, fp2: u8) {
        let (word, bit) = Self::at(entry, fp2);
        self.0[word] |= bit;
    }
}

/// Which entries are compared by their keys: those of an fp that has an entry with an unknown fp2, and those that are
/// like another one, of which one is of the CurSegment.
pub(super) struct Compared {
    /// For each entry of the CurSegment.
    cur: Vec<bool>,
    /// The indices of those of the MainSegment.
    main: Vec<u32>,
}

/// The order of entries in a MainSegment.
fn place(item: &Item) -> (u8, u8, Ref) {
    (item.entry.fp(), item.fp2, item.entry.kv())
}

impl Frozen {
    /// The only step of a merge that looks at each entry of the MainSegment by itself.
    pub(super) fn compared(&self) -> Compared {
        let (mut newer, mut alike) = (Classes([0; _]), Classes([0; _]));
        let mut unknown = [false; FPS];
        for &(entry, fp2) in &self.cur {
            match fp2 {
                Some(fp2) if newer.has(entry, fp2) => alike.add(entry, fp2),
                Some(fp2) => newer.add(entry, fp2),
                None => unknown[usize::from(entry.fp())] = true,
            }
        }
        // One look at each entry of the MainSegment, of which there are many, tells of most that they are not compared.
        let mut some = Classes(newer.0);
        for fp in (0..FPS).filter(|&fp| unknown[fp]) {
            some.add_all(fp);
        }
        let mut main = Vec::with_capacity(self.cur.len());
        for (idx, item) in self.main.iter().enumerate() {
            if some.has(item.entry, item.fp2) {
                main.push(idx as u32);
                if newer.has(item.entry, item.fp2) {
                    alike.add(item.entry, item.fp2);
                }
            }
        }
        let is_compared = |&(entry, fp2): &(Entry, Option<u8>)| {
            unknown[usize::from(entry.fp())] || fp2.is_none_or(|fp2| alike.has(entry, fp2))
        };
        Compared { cur: self.cur.iter().map(is_compared).collect(), main }
    }

    /// Entries whose keys must be read: `all` of them if the depth information is used up.
    pub(super) fn wanted(&self, compared: &Compared, all: bool) -> Vec<Entry> {
        let cur = self.cur.iter().zip(&compared.cur);
        let cur = cur.filter(|((entry, _), compared)| all || entry.is_tombstone() || **compared);
        let cur = cur.map(|((entry, _), _)| *entry);
        if all {
            return cur.chain(self.main.iter().map(|item| item.entry)).collect();
        }
        cur.chain(compared.main.iter().map(|&idx| self.main[idx as usize].entry)).collect()
    }

    /// Merges, given the keys that were [wanted](Self::wanted). Of the MainSegment it looks at those that are compared: its
    /// entries are in order, and stay so.
    pub(super) fn fold(&self, compared: &Compared, keys: &Keys) -> Folded {
        let some = compared.main.len() + self.cur.len();
        let mut seen = HashSet::with_capacity_and_hasher(some, Spread::default());
        let mut out = Folded::default();
        let mut newer = Vec::with_capacity(self.cur.len());
        for (&(entry, hint), &compared) in self.cur.iter().zip(&compared.cur).rev() {
            let known = if compared || entry.is_tombstone() { keys.get(entry) } else { None };
            let forgets = planted(Fault::TombstoneMerged) && entry.is_tombstone()
                || planted(Fault::KeysUncompared) && hint.is_none();
            let is_newest = forgets || known.is_none_or(|known| seen.insert(keys.name(known)));
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
        for idx in compared.main.iter().map(|&idx| idx as usize) {
            let entry = self.main[idx].entry;
            if keys.get(entry).is_some_and(|known| !seen.insert(keys.name(known))) {
                out.dropped.push(entry);
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
            dep(keys.of(item.entry).hash, depth + 1)
        } else {
            item.entry.dep()
        };
        halves[usize::from(upper)].push(Item { entry: item.entry.settled(dep), fp2: item.fp2 });
    }
    halves
}

#[cfg(test)]
mod tests;
