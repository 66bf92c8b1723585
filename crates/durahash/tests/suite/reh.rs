//! Easy mistakes of an implementation of REH, each by itself: ambiguities of the paper's text, and faults
//! of extendible hash tables that were published. The crash tester meets most of them too, but it
//! does not say which one it was.

use std::collections::HashMap;
use std::sync::Arc;

use durahash::index::{Index, IndexBase};
use durahash::reh::Reh;
use durahash::{ErrorKind, Result};
use durahash_media::sim::{Sim, Step};
use durahash_media::{Geometry, Memory, Pool};
use durahash_testkit::pool_on;

use super::{assert_gives_back, assert_holds, put, remove};

const MAX_BYTES: u64 = 1 << 20;
const TINY: Geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 0 };
/// The largest depth of a bucket.
const MAX_DEPTH: u64 = 44;
/// Words of a bucket, and where its link is.
const BUCKET_WORDS: usize = 32;
const LINK: usize = 30;
/// Root word 0, in words.
const ROOT_WORD: usize = 32;

/// REH on a simulated medium, and what it shall hold.
struct Run {
    sim: Sim,
    reh: Reh<Sim>,
    model: HashMap<u64, u64>,
}

impl Run {
    fn new() -> Self {
        let sim = Sim::new(MAX_BYTES);
        let reh = Reh::create(pool_on(sim.clone(), TINY)).unwrap();
        Run { sim, reh, model: HashMap::new() }
    }

    fn put(&mut self, h: u64, v: u64) {
        assert_eq!(put(&self.reh, h, v), self.model.insert(h, v));
    }

    fn remove(&mut self, h: u64) {
        assert_eq!(remove(&self.reh, h), self.model.remove(&h));
    }

    /// Dies, and is recovered from what is on the medium.
    fn die(self) -> Self {
        let sim = Sim::from_image(&self.sim.image(), MAX_BYTES);
        let reh = open(&sim).unwrap();
        Run { sim, reh, ..self }
    }

    fn assert_right(&self) {
        assert_holds(&self.reh, &self.model);
    }
}

fn open(sim: &Sim) -> Result<Reh<Sim>> {
    Reh::open(Arc::new(Pool::open(sim.clone(), false)?))
}

/// `count` hashes that begin with these bits.
fn with_prefix(prefix: u64, bits: u32, count: u64) -> impl Iterator<Item = u64> {
    let top = prefix << (64 - bits);
    (0..count).map(move |i| top | i.reverse_bits() >> bits | (i + 1))
}

/// Algorithm 1 compares a prefix with the index `i`, which is one of the global depth: buckets of a
/// lower local depth would be taken for the wrong ones.
#[test]
fn recovery_compares_prefixes_at_the_local_depth() {
    let mut run = Run::new();
    for h in with_prefix(0b0110, 4, 20).chain(with_prefix(0b1, 1, 2)) {
        run.put(h, !h);
    }
    let depths = run.reh.stats().depths;
    assert!(depths[1] == 1 && depths.len() > 6, "one shallow, some deep: {depths:?}");
    let run = run.die();
    assert_eq!(run.reh.stats().depths, depths);
    run.assert_right();
}

/// At depth zero, hashes would be shifted by all of their bits.
#[test]
fn depths_begin_at_one() {
    let mut run = Run::new();
    let hashes: Vec<u64> = (0..60).map(|i: u64| i.reverse_bits() | i).collect();
    for h in &hashes {
        run.put(*h, 1);
    }
    for h in &hashes {
        run.remove(*h);
    }
    assert_eq!(run.reh.stats().depths, [0, 2], "both halves stay");
    let run = run.die();
    assert_eq!((run.reh.stats().depths, run.reh.stats().global_depth), (vec![0, 2], 1));
    run.assert_right();

    let first = run.sim.image()[ROOT_WORD] as usize * BUCKET_WORDS;
    for depth in [0, MAX_DEPTH + 1, 64, 0xffff] {
        let mut image = run.sim.image();
        image[first + LINK] = image[first + LINK] & !0xffff | depth;
        let refused = open(&Sim::from_image(&image, MAX_BYTES)).err().expect("no such depth");
        assert!(matches!(refused.kind(), ErrorKind::Corrupt { .. }), "{refused}");
    }
}

/// The global depth is nowhere on the medium: the walk has to find it before the first entry is
/// stored, and it may lie below what it was before the crash.
#[test]
fn the_global_depth_is_that_of_the_deepest_bucket() {
    let mut run = Run::new();
    let deep: Vec<u64> = with_prefix(0b10110, 5, 24).collect();
    for h in &deep {
        run.put(*h, 7);
    }
    let deepest = |run: &Run| run.reh.stats().depths.len() as u32 - 1;
    assert!(deepest(&run) > 6);
    run = run.die();
    assert_eq!(run.reh.stats().global_depth, deepest(&run));
    run.assert_right();
    for h in &deep[2..] {
        run.remove(*h);
    }
    assert!(deepest(&run) < run.reh.stats().global_depth, "a depth is kept to spare");
    run = run.die();
    assert_eq!(run.reh.stats().global_depth, deepest(&run));
    run.assert_right();
}

/// After a split the old bucket keeps copies of what moved. A merge makes its prefix match them
/// again: values that were replaced since, and what was removed, would come back.
#[test]
fn a_merge_does_not_revive_copies_of_a_split() {
    let mut run = Run::new();
    let (lower, upper) = (with_prefix(0b00, 2, 1), with_prefix(0b01, 2, 2));
    let (lower, upper): (Vec<u64>, Vec<u64>) = (lower.collect(), upper.collect());
    for h in lower.iter().chain(&upper) {
        run.put(*h, 1);
    }
    let other = with_prefix(0b00, 2, 2).last().unwrap();
    run.put(other, 1);
    assert_eq!(run.reh.stats().splits, 1);
    run.put(upper[0], 2);
    run.remove(upper[1]);
    // Sparse enough to merge.
    run.remove(other);
    assert_eq!(run.reh.stats().merges, 1);
    assert_eq!(run.reh.get(upper[1]).unwrap(), None);
    run.assert_right();
    let run = run.die();
    assert_eq!(run.reh.get(upper[0]).unwrap(), Some(2));
    assert_eq!(run.reh.get(upper[1]).unwrap(), None);
    run.assert_right();
}

/// No hash is reserved to say that a slot is empty: the mark in one half of the hashes is a key
/// of the other.
#[test]
fn marks_of_empty_slots_are_keys_like_all_others() {
    let markers = [u64::MAX, 0];
    let mut run = Run::new();
    run.assert_right();
    for h in markers {
        run.put(h, h);
    }
    // Beside empty slots, through splits, merges and a death, and gone again.
    for round in 0..2 {
        run = run.die();
        run.assert_right();
        let others: Vec<u64> = with_prefix(0, 1, 9).chain(with_prefix(1, 1, 9)).collect();
        for h in &others {
            run.put(*h, round);
        }
        run.assert_right();
        for h in &others {
            run.remove(*h);
        }
    }
    for h in markers {
        run.remove(h);
    }
    let run = run.die();
    run.assert_right();
    assert_eq!(run.reh.len().unwrap(), 0);
}

/// Siblings are offsets: a pool is mapped at another address each time, and at two at once.
#[test]
fn a_pool_is_sound_at_any_address() {
    let mut run = Run::new();
    for h in with_prefix(0, 1, 30).chain(with_prefix(1, 1, 30)) {
        run.put(h, 3);
    }
    let image = run.sim.image();
    let sims = [(); 2].map(|()| Sim::from_image(&image, MAX_BYTES));
    let bases = sims.each_ref().map(|sim| sim.region().words(0, 1).unwrap().as_ptr());
    assert_ne!(bases[0], bases[1]);
    for sim in sims {
        let reh = open(&sim).unwrap();
        Run { sim, reh, model: run.model.clone() }.assert_right();
    }
}

/// A bucket that no sibling leads to, because a split did not commit or a merge did, is free space
/// again; without a mark on it, and however often this happens.
#[test]
fn buckets_that_nothing_links_to_are_found_again() {
    let mut run = Run::new();
    let hashes: Vec<u64> = with_prefix(0b011, 3, 4).collect();
    for h in &hashes[..3] {
        run.put(*h, 1);
    }
    let before = run.sim.image();
    run.sim.record(Vec::new());
    run.put(hashes[3], 1);
    let steps = run.sim.recorded();
    assert!(run.reh.stats().splits > 0);
    // Every instant of the operation: what is not linked yet is no part of the table, and not lost.
    for end in 0..=steps.len() {
        let mut image = before.clone();
        Step::replay(&steps[..end], &mut image);
        let sim = Sim::from_image(&image, MAX_BYTES);
        let reh = open(&sim).unwrap();
        let there = reh.get(hashes[3]).unwrap().is_some();
        let model = hashes[..3 + usize::from(there)].iter().map(|h| (*h, 1)).collect();
        Run { sim, reh, model }.assert_right();
    }

    // Growing, shrinking and dying in turn takes no more space than once.
    let mut run = Run::new();
    let mut bytes = Vec::new();
    for round in 0..12 {
        let hashes: Vec<u64> = with_prefix(round % 2, 1, 30).collect();
        for h in &hashes {
            run.put(*h, round);
        }
        bytes.push(run.sim.image().len());
        for h in &hashes {
            run.remove(*h);
        }
        run = run.die();
        run.assert_right();
    }
    assert!(bytes[2..].iter().all(|len| *len <= bytes[1]), "{bytes:?}");
}

/// A bucket that left the chain and is used again must not be taken for what it was: of two that
/// cover a hash, the one that is linked is live.
#[test]
fn a_reused_bucket_is_not_what_it_was() {
    let mut run = Run::new();
    let (low, high): (Vec<u64>, Vec<u64>) =
        (with_prefix(0b0, 1, 4).collect(), with_prefix(0b1, 1, 4).collect());
    for round in 0..4 {
        // Split, merge, and the bucket that is given up goes to the other half.
        for hashes in [&low, &high] {
            for h in hashes {
                run.put(*h, round);
            }
            run.assert_right();
            for h in hashes {
                run.remove(*h);
            }
            run = run.die();
            run.assert_right();
        }
    }
}

#[test]
fn extents_of_an_emptied_map_go_back_to_the_pool() {
    let sim = Sim::new(MAX_BYTES);
    let pool = pool_on(sim.clone(), TINY);
    let reh = Reh::create(pool.clone()).unwrap();
    let hashes: Vec<u64> = with_prefix(0, 1, 400).collect();
    assert_gives_back(&pool, &reh, &hashes, 3, || ());
    let reh = open(&Sim::from_image(&sim.image(), MAX_BYTES)).unwrap();
    assert_holds(&reh, &HashMap::new());
}
