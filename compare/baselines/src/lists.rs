//! The usual way to many values for a key, which multimaps are compared with: a map from the key to
//! where the list of its values begins. Pea Hash's paper compares with the same behind Dash (§4.3), whose lists begin with room
//! for four values.
//!
//! A list is a block of a pool of its own, beside the map's and on a medium of the same kind. It
//! begins with room for five values; when it is full, one of twice the size takes its place.
//!
//! ```text
//! byte 0  state   positions in use (bits 0-27), the missing one of them, plus one (28-55),
//!                 doublings (56-63)
//!      8  values
//! ```
//!
//! | operation | stored, and durable before the next | then |
//! |---|---|---|
//! | add to no list | a list of one value | the map's entry |
//! | add to a list with room | the value, at the missing position or the end | state |
//! | add to a full list | a list of twice the size | the map's entry; the old list is freed |
//! | remove a value | the last value, at the position that was missing | state, which misses its position |
//! | remove the last value, or all | | the map's entry goes; the list is freed |
//!
//! Every operation is one instant and is durable when it returns, as those of multimaps: writers
//! hold one of a number of locks by the key's hash, and readers start over if one came between.
//! Nothing finds the lists' free space after a crash: these tables are measured, not opened again.

use std::sync::atomic::AtomicU64;

use durahash::{Design, ErrorKind};
use durahash_bench::duplicates::Contender;
use durahash_bench::{Bench, Error, Make, MultiTable, Recorder, Result};
use durahash_media::{Format, Geometry, LINE_BYTES, Medium, PmU64, Pool, VersionLock, bits};

use crate::tables::{Baseline, Subject};

/// Lists to be made on any medium, behind this map.
struct Behind(Box<dyn Subject>);

impl Make for Behind {
    type Made = Box<dyn MultiTable>;

    fn on<M: Medium>(self, medium: M) -> Result<Box<dyn MultiTable>> {
        Ok(Box::new(Lists::new(self.0, medium)?))
    }
}

/// Measures multimaps, and lists behind a map beside each; by one thread also lists behind Dash, which has one lock.
pub(crate) fn beside_multimaps(
    recorder: &mut Recorder<'_>,
    multimaps: Vec<Contender>,
) -> Result<()> {
    let with_lists = |multimap: Contender| {
        let lists = contender(&multimap.name);
        [Some(multimap), lists].into_iter().flatten()
    };
    let mut all: Vec<_> = multimaps.into_iter().flat_map(with_lists).collect();
    if recorder.config().threads == [1] {
        let make = Box::new(|bench: &Bench| bench.make(Behind(bench.make(Baseline::Dash)?)));
        all.push(Contender { name: "dash, lists".to_owned(), make });
    }
    recorder.duplicates(&all)
}

/// Lists behind a map of the design with a name.
fn contender(design: &str) -> Option<Contender> {
    let name = format!("{design}, lists");
    let design: Design = design.parse().ok()?;
    // As the lists themselves and the multimaps: without a log.
    let make = Box::new(move |bench: &Bench| {
        bench.make(Behind(Box::new(bench.without_log().create(design)?)))
    });
    Some(Contender { name, make })
}

/// Bytes of the smallest list.
const LIST_BYTES: u64 = 48;
/// Writers of different keys rarely meet, and all locks stay in the nearest cache.
const LOCKS: usize = 4096;

const COUNT_BITS: u32 = 28;

/// Which positions hold values, and how large the list is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    count: u64,
    /// Never the last of them.
    missing: Option<u64>,
    doublings: u32,
}

impl State {
    fn from_word(word: u64) -> Self {
        State {
            count: bits(word, 0, COUNT_BITS),
            missing: bits(word, COUNT_BITS, COUNT_BITS).checked_sub(1),
            doublings: bits(word, 2 * COUNT_BITS, 8) as u32,
        }
    }

    fn to_word(self) -> u64 {
        let missing = self.missing.map_or(0, |at| at + 1);
        self.count | missing << COUNT_BITS | u64::from(self.doublings) << (2 * COUNT_BITS)
    }

    fn bytes(self) -> u64 {
        LIST_BYTES << self.doublings
    }

    fn capacity(self) -> u64 {
        self.bytes() / 8 - 1
    }

    fn is_possible(self) -> bool {
        self.doublings < COUNT_BITS
            && self.count <= self.capacity()
            && self.missing.is_none_or(|at| at + 1 < self.count)
    }

    fn live(self) -> u64 {
        self.count - u64::from(self.missing.is_some())
    }
}

/// A list as it was loaded.
#[derive(Clone, Copy)]
struct List<'a> {
    off: u64,
    head: &'a PmU64,
    values: &'a [PmU64],
    state: State,
}

/// A map from keys to lists. See the module docs.
pub(crate) struct Lists<M: Medium> {
    heads: Box<dyn Subject>,
    pool: Pool<M>,
    locks: Vec<AtomicU64>,
}

impl<M: Medium> Lists<M> {
    /// Lists on `medium`, which is empty, behind `heads`, which is empty too.
    pub(crate) fn new(heads: Box<dyn Subject>, medium: M) -> Result<Self> {
        let format = Format::of_index(0, Geometry::default(), medium.region().max_bytes());
        let pool = Pool::create(medium, &format)?;
        pool.publish()?;
        Ok(Lists { heads, pool, locks: (0..LOCKS).map(|_| AtomicU64::new(0)).collect() })
    }

    fn medium(&self) -> &M {
        self.pool.medium()
    }

    fn lock(&self, key: u64) -> VersionLock<'_> {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        VersionLock::new(&self.locks[(mixed >> 32) as usize % LOCKS])
    }

    /// Runs `change` alone with the key.
    fn write<R>(&self, key: u64, change: impl FnOnce() -> Result<R>) -> Result<R> {
        let lock = self.lock(key);
        lock.lock(self.medium());
        lock.exclude_readers();
        let done = change();
        lock.unlock_changed(self.medium());
        done
    }

    /// Runs `look` with the key's list until nobody wrote meanwhile.
    fn read<R>(&self, key: u64, look: impl Fn(Option<List<'_>>) -> R) -> Result<R> {
        let lock = self.lock(key);
        loop {
            let version = lock.read(self.medium());
            let seen = self.find(key).map(&look);
            if lock.validate(version) {
                return seen;
            }
        }
    }

    fn find(&self, key: u64) -> Result<Option<List<'_>>> {
        self.heads.get(key)?.map(|off| self.list(off)).transpose()
    }

    fn list(&self, off: u64) -> Result<List<'_>> {
        let head = self.pool.at::<PmU64>(off)?;
        let state = State::from_word(self.medium().load(head));
        if !state.is_possible() {
            // A reader came too late, which its lock will say.
            let what = "no list here";
            return Err(Error::Table(ErrorKind::Corrupt { what, off }.into()));
        }
        let values = self.pool.words(off + 8, state.capacity())?;
        Ok(List { off, head, values, state })
    }

    /// The values of a list.
    fn values(&self, list: List<'_>) -> Vec<u64> {
        let all = &list.values[..list.state.count as usize];
        let mut values = Vec::with_capacity(all.len() + 1);
        values.extend(all.iter().map(|word| self.medium().load(word)));
        if let Some(missing) = list.state.missing {
            values.swap_remove(missing as usize);
        }
        values
    }

    /// A durable list of these values, with room for more.
    fn make(&self, values: &[u64], doublings: u32) -> Result<u64> {
        let state = State { count: values.len() as u64, missing: None, doublings };
        let full = || {
            Error::Table(durahash_media::Error::full(state.bytes(), durahash_media::Limit::Disk))
        };
        let off = self.pool.alloc_block(state.bytes(), true)?.ok_or_else(full)?;
        let words = self.pool.words(off, state.count + 1)?;
        let medium = self.medium();
        medium.store(&words[0], state.to_word());
        for (word, value) in words[1..].iter().zip(values) {
            medium.store(word, *value);
        }
        medium.flush_fresh(words);
        medium.fence();
        Ok(off)
    }

    /// Stores a value that the state does not count yet.
    fn store(&self, list: List<'_>, at: u64, value: u64) {
        let medium = self.medium();
        let word = &list.values[at as usize];
        medium.store(word, value);
        let line = |off: u64| off / LINE_BYTES;
        if !medium.same_line_order() || line(list.off) != line(list.off + 8 + at * 8) {
            medium.flush(word);
            medium.fence();
        }
    }

    /// The commit of what stays in its block.
    fn commit(&self, list: List<'_>, state: State) {
        let medium = self.medium();
        medium.store(list.head, state.to_word());
        medium.flush(list.head);
        medium.drain();
    }

    fn append(&self, key: u64, list: List<'_>, value: u64) -> Result<()> {
        let state = list.state;
        let at = state.missing.unwrap_or(state.count);
        if at < state.capacity() {
            self.store(list, at, value);
            let count = state.count + u64::from(state.missing.is_none());
            self.commit(list, State { count, missing: None, ..state });
            return Ok(());
        }
        let mut values = self.values(list);
        values.push(value);
        let larger = self.make(&values, state.doublings + 1)?;
        self.heads.put(key, larger)?;
        Ok(self.pool.free_block(list.off)?)
    }

    fn remove_at(&self, key: u64, list: List<'_>, at: u64) -> Result<()> {
        let state = list.state;
        if state.live() == 1 {
            return self.drop_list(key, list);
        }
        let last = state.count - 1;
        let gap = match state.missing {
            // The last one goes: the gap stays where it is.
            Some(missing) if at == last => missing,
            Some(missing) => {
                self.store(list, missing, self.medium().load(&list.values[last as usize]));
                at
            }
            None => {
                let count = if at == last { last } else { state.count };
                let missing = (at != last).then_some(at);
                self.commit(list, State { count, missing, ..state });
                return Ok(());
            }
        };
        // The last position is gone, and the gap may be the last one now.
        let (count, missing) = if gap + 1 == last { (gap, None) } else { (last, Some(gap)) };
        self.commit(list, State { count, missing, ..state });
        Ok(())
    }

    fn drop_list(&self, key: u64, list: List<'_>) -> Result<()> {
        self.heads.remove(key)?;
        Ok(self.pool.free_block(list.off)?)
    }
}

impl<M: Medium> MultiTable for Lists<M> {
    fn add(&self, key: u64, value: u64) -> Result<()> {
        self.write(key, || match self.find(key)? {
            Some(list) => self.append(key, list, value),
            None => self.heads.put(key, self.make(&[value], 0)?),
        })
    }

    fn get_all(&self, key: u64) -> Result<Vec<u64>> {
        self.read(key, |list| list.map_or_else(Vec::new, |list| self.values(list)))
    }

    fn count(&self, key: u64) -> Result<u64> {
        self.read(key, |list| list.map_or(0, |list| list.state.live()))
    }

    fn remove_one(&self, key: u64, value: u64) -> Result<bool> {
        self.write(key, || {
            let Some(list) = self.find(key)? else {
                return Ok(false);
            };
            let at = (0..list.state.count).find(|at| {
                let word = &list.values[*at as usize];
                list.state.missing != Some(*at) && self.medium().load(word) == value
            });
            at.map(|at| self.remove_at(key, list, at)).transpose().map(|removed| removed.is_some())
        })
    }

    fn remove_all(&self, key: u64) -> Result<u64> {
        self.write(key, || match self.find(key)? {
            Some(list) => self.drop_list(key, list).map(|()| list.state.live()),
            None => Ok(0),
        })
    }

    fn medium_bytes(&self) -> Result<[u64; 2]> {
        Ok([self.heads.figures().medium_bytes, self.pool.stats().record_bytes])
    }

    fn lists(&self) -> Result<u64> {
        Ok(self.heads.figures().slots_used)
    }
}

#[cfg(test)]
mod tests;
