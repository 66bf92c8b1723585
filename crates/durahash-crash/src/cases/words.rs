//! Maps of words, by the index itself.

use std::sync::Arc;

use durahash::Result;
use durahash::esh::Esh;
use durahash::index::{Index, IndexBase};
use durahash::pea::{Pea, Policy};
use durahash::reh::Reh;
use durahash::rewo::{Cache, Rewo};
use durahash_media::sim::Sim;
use durahash_media::{Format, Geometry, Pool};

use crate::case::{Case, Make, Prefill, Slots, Table};
use crate::script::{Op, spread};

/// The number of Rewo-Hash in a pool.
pub(super) const REWO: u8 = 4;

/// A pool as indexes have it.
pub(super) type Shared = Arc<Pool<Sim>>;

/// Slots and buckets that are few.
pub(super) const TINY: Geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 0 };

/// How tables of a design are made: it is `created` in a pool of tiny extents.
pub(super) fn creates(
    (design, geometry): (u8, Geometry),
    max_bytes: u64,
    created: impl Fn(Shared) -> Result<Box<dyn Table>> + Send + Sync + 'static,
) -> Make {
    Arc::new(move |sim| {
        let format = Format::of_index(design, geometry, max_bytes);
        let pool = Arc::new(Pool::create(sim, &format)?);
        let table = created(Arc::clone(&pool))?;
        pool.publish()?;
        Ok(table)
    })
}

/// How they are opened.
pub(super) fn opens(
    opened: impl Fn(Shared) -> Result<Box<dyn Table>> + Send + Sync + 'static,
) -> Make {
    Arc::new(move |sim| opened(Arc::new(Pool::open(sim, false)?)))
}

/// An index over a pool as a table.
fn table<I: Index + 'static>(pool: Shared, index: I) -> Box<dyn Table> {
    Box::new(Slots { index: Arc::new(index), step: I::step, pool: Some(pool) })
}

/// A case of words over a pool.
fn case<I: Index + 'static>(
    name: &'static str,
    max_bytes: u64,
    (design, geometry): (u8, Geometry),
    create: impl Fn(Shared) -> Result<I> + Send + Sync + 'static,
    open: impl Fn(Shared) -> Result<I> + Send + Sync + 'static,
) -> Case {
    let create = creates((design, geometry), max_bytes, move |pool| {
        Ok(table(Arc::clone(&pool), create(pool)?))
    });
    let open = opens(move |pool| Ok(table(Arc::clone(&pool), open(pool)?)));
    Case { may_fill: max_bytes < 16 << 10, ..Case::new(name, max_bytes, create, open) }
}

/// Puts of these keys.
fn puts(keys: impl IntoIterator<Item = u16>) -> Vec<Op> {
    keys.into_iter().map(|key| Op::Put(key, 1)).collect()
}

/// The operations that are tried: on a key that is not there, on one that is, and on another.
fn kinds(new: u16, present: u16, other: u16) -> Vec<Op> {
    vec![
        Op::Put(new, 0),
        Op::Put(present, 0),
        Op::Insert(other, 0),
        Op::Update(present, 0),
        Op::Remove(present),
        Op::Remove(other),
    ]
}

pub(super) fn prefill(name: &'static str, ops: Vec<Op>, kinds: Vec<Op>) -> Prefill {
    Prefill { name, ops, kinds }
}

/// Groups of hashes: the bits that they begin with, how many these are, and how many hashes; then the
/// smallest and the largest. `mark` is given the number within the group.
fn hashes(groups: &[(u64, u32, u64)], mark: impl Fn(usize, u64) -> u64) -> Vec<u64> {
    let mut all = Vec::new();
    for (prefix, bits, count) in groups {
        all.extend(spread(*prefix, *bits, *count).enumerate().map(|(i, h)| mark(i, h)));
    }
    all.extend([0, u64::MAX]);
    all
}

/// REH with three slots a bucket and four buckets an extent. Keys 0 to 7 begin with 00, 8 to 15 with 01,
/// 16 to 23 with 1; then the smallest and the largest.
pub(super) fn reh(name: &'static str, max_bytes: u64) -> Case {
    reh_of(name, max_bytes, TINY)
}

/// The same with an array of as many words as there are buckets, so that an open makes nothing.
pub(super) fn reh_ranges(name: &'static str, max_bytes: u64) -> Case {
    Case { is_lazy: true, ..reh_of(name, max_bytes, Geometry { buckets: 1, ..TINY }) }
}

fn reh_of(name: &'static str, max_bytes: u64, geometry: Geometry) -> Case {
    const GROUP: u16 = 8;
    let all = 0..3 * GROUP;
    let mut shrunk = puts(all.clone());
    shrunk.extend((2..3 * GROUP).filter(|key| key % 4 != 0).map(Op::Remove));
    // The last removal empties an extent, beside one that is kept.
    let mut emptied = puts(all.clone());
    emptied.extend((0..22).map(Op::Remove));
    Case {
        keys: hashes(&[(0b00, 2, 8), (0b01, 2, 8), (0b1, 1, 8)], |_, h| h),
        prefills: vec![
            prefill("empty", Vec::new(), kinds(0, 1, 24)),
            prefill("below-full", puts([0, 1]), kinds(2, 0, 8)),
            prefill("full", puts([0, 1, 2, 16, 17, 18]), kinds(3, 0, 25)),
            prefill("just-split", puts([0, 1, 2, 8, 9]), kinds(10, 8, 3)),
            prefill("deep", puts(all), kinds(24, 0, 4)),
            prefill("shrunk", shrunk, kinds(9, 0, 1)),
            prefill("emptied", emptied, kinds(0, 22, 23)),
        ],
        ..case(name, max_bytes, (1, geometry), Reh::create, Reh::open)
    }
}

/// Of Pea Hash's keys, 0 to 9 begin with 000, 10 to 15 with 001, 16 to 19 with 01, 20 to 33 with 1; then the
/// smallest and the largest. Even ones of a group have bucket 0 as their first.
pub(super) fn pea_hashes() -> Vec<u64> {
    /// The bit that says which of two main buckets is a hash's first.
    const FIRST: u32 = 39;
    let groups = [(0b000, 3, 10), (0b001, 3, 6), (0b01, 2, 4), (0b1, 1, 14)];
    hashes(&groups, |i, h| h | (i as u64 & 1) << FIRST)
}

/// How many keys of these are not the smallest or the largest.
pub(super) const PEA_KEYS: u16 = 34;

/// So many of the last group, those of bucket 0 first.
pub(super) fn pea_upper(count: usize) -> impl Iterator<Item = u16> {
    (20..PEA_KEYS).step_by(2).chain((20..PEA_KEYS).skip(1).step_by(2)).take(count)
}

/// As the default one, but that entries leave buckets that are not full.
fn pea_policy() -> Policy {
    let mut policy = Policy::default();
    policy.first_until = 2;
    policy
}

/// Pea Hash with three slots a bucket, two main buckets and two of stash a segment.
pub(super) fn pea(name: &'static str, max_bytes: u64) -> Case {
    pea_of(name, max_bytes, TINY)
}

/// The same with two extents a segment, but one in the first two as long as they are small.
pub(super) fn pea_small(name: &'static str, max_bytes: u64) -> Case {
    let case = pea_of(name, max_bytes, Geometry { buckets: 2, ..TINY });
    // The last key of the first is the first one for which there is no room in a small segment.
    let grown = prefill("grown", puts(pea_upper(13)), kinds(31, 20, 33));
    let mut prefills = case.prefills;
    prefills.retain(|prefill| ["empty", "stash-full", "deep", "shrunk"].contains(&prefill.name));
    prefills.push(grown);
    Case { prefills, ..case }
}

fn pea_of(name: &'static str, max_bytes: u64, geometry: Geometry) -> Case {
    let mut shrunk = puts(0..PEA_KEYS);
    shrunk.extend((0..PEA_KEYS).filter(|key| key % 5 != 0).map(Op::Remove));
    Case {
        keys: pea_hashes(),
        prefills: vec![
            prefill("empty", Vec::new(), kinds(0, 1, PEA_KEYS)),
            prefill("near-full", puts([20]), kinds(22, 20, 24)),
            prefill("single-full", puts(pea_upper(3)), kinds(26, 20, 21)),
            prefill("two-full", puts(pea_upper(6)), kinds(32, 20, 21)),
            prefill("stash-full", puts(pea_upper(12)), kinds(31, 20, 33)),
            prefill("deep", puts(0..PEA_KEYS), kinds(PEA_KEYS, 0, 4)),
            prefill("shrunk", shrunk, kinds(9, 0, 20)),
        ],
        ..case(
            name,
            max_bytes,
            (2, geometry),
            |pool| Pea::create(pool, pea_policy()),
            |pool| Pea::open(pool, pea_policy()),
        )
    }
}

/// ESH with three slots a bucket, four buckets a segment and two segments an extent. Its segments are
/// repaired when an operation comes to them, or else all at once, as the table is opened: crashes inside
/// repairs are tried, too.
pub(super) fn esh(name: &'static str, max_bytes: u64, repaired: bool) -> Case {
    const GEOMETRY: Geometry = Geometry { extent_shift: 11, slots: 3, hash_bits: 0, buckets: 4 };
    /// The lowest bit that says which of the four buckets is a hash's home.
    const HOME: u32 = 8;
    /// Of each group, five in eight have bucket 0 as their home, so that they overflow.
    const HOMES: [u64; 8] = [0, 0, 1, 0, 2, 0, 3, 0];
    /// Keys 0 to 13 begin with 00, 14 to 21 with 01, 22 to 37 with 1.
    const KEYS: u16 = 38;
    let upper = |count: u16| puts(22..22 + count);
    // Of these, keys 22, 23, 25, 27, 29 and 30 have bucket 0 as their home.
    let mut shrunk = puts(0..KEYS);
    shrunk.extend((0..KEYS).filter(|key| key % 4 != 0).map(Op::Remove));
    // The key that comes home first has a value of its own.
    let mut full_and_more = puts([22, 23, 25, 27]);
    full_and_more.push(Op::Put(29, 2));
    // One that is not in the line of the head.
    let mut overflowed = kinds(30, 22, 29);
    overflowed.insert(0, Op::Remove(23));
    // Ten in two segments of twelve: with nine they are merged.
    let mut before_merge = upper(13);
    before_merge.extend([33, 31, 34].map(Op::Remove));
    // The last removal empties an extent, beside one that is kept.
    let mut emptied = puts(0..KEYS);
    emptied.extend((0..28).map(Op::Remove));
    let prefills = if repaired {
        // Each state of these has all states of its repairs, and of theirs.
        vec![
            prefill("overflowed", puts([22, 23, 25, 27, 29]), kinds(30, 22, 29)),
            prefill("just-split", upper(13), kinds(35, 22, 31)),
        ]
    } else {
        vec![
            prefill("empty", Vec::new(), kinds(0, 1, KEYS)),
            prefill("home-full", puts([22, 23, 25]), kinds(27, 22, 29)),
            prefill("overflowed", full_and_more, overflowed),
            prefill("segment-full", upper(12), kinds(34, 22, 27)),
            prefill("just-split", upper(13), kinds(35, 22, 31)),
            prefill("before-merge", before_merge, kinds(35, 26, 28)),
            prefill("deep", puts(0..KEYS), kinds(KEYS, 0, 4)),
            prefill("shrunk", shrunk, kinds(9, 0, 20)),
            prefill("emptied", emptied, kinds(0, 28, 29)),
        ]
    };
    let as_left = opens(|pool| {
        let index = Esh::open(Arc::clone(&pool))?;
        // Nothing writes to it from here on, so nothing is repaired.
        pool.poison();
        Ok(table(pool, index))
    });
    let open = move |pool| {
        let index = Esh::open(pool)?;
        if repaired {
            index.len()?;
        }
        Ok(index)
    };
    Case {
        keys: hashes(&[(0b00, 2, 14), (0b01, 2, 8), (0b1, 1, 16)], |i, h| {
            h | HOMES[i % HOMES.len()] << HOME
        }),
        prefills,
        open_as_left: Some(as_left),
        ..case(name, max_bytes, (3, GEOMETRY), Esh::create, open)
    }
}

/// Rewo-Hash with three slots a bucket and four buckets an extent, and so many bytes for the cached table.
pub(super) fn rewo(name: &'static str, max_bytes: u64, cache_bytes: u64) -> Case {
    rewo_with(name, max_bytes, Cache::of_bytes(cache_bytes), Rewo::step)
}

/// The same with this cache, and a step that is another's. Keys 0 to 7 begin with 00, 8 to 15 with 01, 16 to
/// 31 with 1; then the smallest and the largest.
pub fn rewo_with(
    name: &'static str,
    max_bytes: u64,
    cache: Cache,
    step: fn(&Rewo<Sim>) -> Result<bool>,
) -> Case {
    const KEYS: u16 = 32;
    // Every other key of each group, so that both halves fill alike.
    let some = |count: u16| (0..count).map(|i| (i * 9) % KEYS);
    let mut shrunk = puts(0..KEYS);
    shrunk.extend((0..KEYS).filter(|key| key % 4 != 0).map(Op::Remove));
    let mut rebuilt = puts(0..KEYS);
    rebuilt.extend((0..KEYS).filter(|key| key % 16 != 0).map(Op::Remove));
    let table = move |pool: Shared, index: Rewo<Sim>| -> Box<dyn Table> {
        Box::new(Slots { index: Arc::new(index), step, pool: Some(pool) })
    };
    let create = creates((REWO, TINY), max_bytes, move |pool| {
        Ok(table(Arc::clone(&pool), Rewo::create(pool, cache)?))
    });
    let open = opens(move |pool| Ok(table(Arc::clone(&pool), Rewo::open(pool, cache)?)));
    Case {
        may_fill: max_bytes < 16 << 10,
        keys: hashes(&[(0b00, 2, 8), (0b01, 2, 8), (0b1, 1, 16)], |_, h| h),
        prefills: vec![
            prefill("empty", Vec::new(), kinds(0, 1, KEYS)),
            prefill("below-full", puts(some(9)), kinds(31, 0, 9)),
            prefill("full", puts(some(11)), kinds(31, 0, 9)),
            prefill("resizing", puts(some(13)), kinds(31, 0, 27)),
            prefill("deep", puts(0..KEYS), kinds(KEYS, 0, 4)),
            prefill("shrunk", shrunk, kinds(9, 0, 20)),
            prefill("rebuilt", rebuilt, kinds(9, 0, 16)),
        ],
        ..Case::new(name, max_bytes, create, open)
    }
}
