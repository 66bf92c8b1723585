//! Faults that recovery by ranges invites, each planted by REH itself under the feature `planted`, and found: by crash
//! states of scripts, by threads that are held up, and by the promises of an open. Without a fault all of it passes.

use std::sync::Arc;

use durahash::index::{Change, Index, IndexBase, Room};
use durahash::reh::{Fault, Reh, plant};
use durahash_crash::cases::named;
use durahash_crash::quiet::catch;
use durahash_crash::script::{Op, Rng};
use durahash_media::hash::WordMix;
use durahash_media::sim::{Sim, seed};
use durahash_media::{Format, Geometry, Pool};

use crate::planted::{are_found, by_scripts, with};
use crate::stage::{Scene, every_place};

#[test]
fn every_fault_is_planted_here() {
    for fault in Fault::ALL {
        let tests = [
            include_str!("planted_reh.rs"),
            include_str!("planted_cache.rs"),
            include_str!("onlookers.rs"),
        ];
        let is_planted = tests.iter().any(|test| test.contains(&format!("Fault::{fault:?}")));
        assert!(is_planted, "{fault:?}");
    }
}

#[test]
fn words_that_are_not_right_are_found() {
    let faults = [
        Fault::WordKept,
        Fault::ClearedLate,
        Fault::ClearedUnfenced,
        Fault::WordFirst,
        Fault::WordUnfenced,
        Fault::FreeByName,
    ];
    let find = |fault| with(plant, fault, || by_scripts(&named("reh-ranges"), 4, 200, 1));
    are_found(&faults, find);
}

/// The first of these scenes, held up before each call in turn, in which something is wrong.
fn first_wrong(fault: Option<Fault>, mut scenes: impl Iterator<Item = Scene>) -> Option<String> {
    let case = named("reh-ranges");
    let wrong = |scene| every_place(&case, &Scene { reh_fault: fault, ..scene }).err();
    with(plant, fault, || scenes.find_map(wrong))
}

/// Tables of any load that were opened again, to which several come at once.
fn opened(count: u64) -> impl Iterator<Item = Scene> {
    (seed(0)..seed(count)).map(|seed| {
        let mut rng = Rng::new(seed);
        let mut keys: Vec<u16> = (0..26).collect();
        let mut any = |rng: &mut Rng| keys.swap_remove(rng.below(keys.len()));
        let before: Vec<Op> = (0..8 + rng.below(14)).map(|_| Op::Put(any(&mut rng), 1)).collect();
        let there = |rng: &mut Rng| before[rng.below(before.len())].key().expect("it has one");
        let one = match rng.below(3) {
            0 => Op::Get(there(&mut rng)),
            1 => Op::Remove(there(&mut rng)),
            _ => Op::Put(there(&mut rng), 2),
        };
        let mut other = vec![Op::Step; rng.below(3)];
        other.extend([Op::Put(there(&mut rng), 3), Op::Put(any(&mut rng), 4)]);
        other.extend([Op::Remove(there(&mut rng)), Op::Get(there(&mut rng))]);
        let (reopens, one) = (true, vec![one]);
        Scene { before, one, other, reopens, ..Scene::default() }
    })
}

#[test]
fn ranges_that_are_made_twice_are_found() {
    are_found(&[Fault::NoSecondLook], |fault| first_wrong(fault, opened(40)));
}

/// One merges what another has emptied, while that splits elsewhere until it writes another array.
fn arrays(count: u64) -> impl Iterator<Item = Scene> {
    (seed(0)..seed(count)).map(|seed| {
        let mut rng = Rng::new(seed);
        let lower: Vec<u16> = (0..4 + rng.below(4) as u16).collect();
        let mut before: Vec<Op> = lower.iter().map(|key| Op::Put(*key, 1)).collect();
        let goes = lower[rng.below(lower.len())];
        before.extend(
            lower.iter().filter(|key| **key != goes && *key % 3 != 0).map(|key| Op::Remove(*key)),
        );
        let other = (16..24).chain(8..16).map(|key| Op::Put(key, 3)).collect();
        Scene { before, one: vec![Op::Remove(goes)], other, crashes: true, ..Scene::default() }
    })
}

#[test]
fn an_array_that_is_written_inside_a_merge_is_found() {
    are_found(&[Fault::LockedLate], |fault| first_wrong(fault, arrays(40)));
}

const MAX_BYTES: u64 = 4 << 20;

fn hash(i: u64) -> u64 {
    const MIX: WordMix = WordMix::new(42);
    MIX.mix(i)
}

type Opened = (Sim, Arc<Pool<Sim>>, Reh<Sim>);

/// A table with so many entries, three slots a bucket and a word for each.
fn table(count: u64) -> Opened {
    let sim = Sim::new(MAX_BYTES);
    let geometry = Geometry { extent_shift: 10, slots: 3, hash_bits: 0, buckets: 1 };
    let format = Format::of_index(1, geometry, MAX_BYTES);
    let pool = Arc::new(Pool::create(sim.clone(), &format).unwrap());
    let reh = Reh::create(Arc::clone(&pool)).unwrap();
    (0..count).for_each(|i| put(&reh, hash(i)));
    (sim, pool, reh)
}

/// It dies, and is opened.
fn die((sim, ..): &Opened) -> Opened {
    let sim = Sim::from_image(&sim.image(), MAX_BYTES);
    let pool = Arc::new(Pool::open(sim.clone(), false).unwrap());
    let reh = Reh::open(Arc::clone(&pool)).unwrap();
    (sim, pool, reh)
}

fn put(reh: &Reh<Sim>, h: u64) {
    reh.update(h, Room::ForNew, &mut |_| Ok(Change::Set(h))).unwrap();
}

fn remove(reh: &Reh<Sim>, h: u64) {
    reh.update(h, Room::None, &mut |_| Ok(Change::Remove)).unwrap();
}

/// The violation, or the panic.
fn wrong(fault: Option<Fault>, f: impl FnOnce() -> Result<(), String>) -> Option<String> {
    with(plant, fault, || catch(f).unwrap_or_else(Err)).err()
}

/// Entries come, and as many go elsewhere, in a table that is opened anew all the time or never; the extents it has
/// then.
fn churn(crashes: bool) -> u64 {
    const COUNT: u64 = 3000;
    const PART: u64 = 60;
    let mut run = table(COUNT);
    for from in (0..60).map(|part| part * PART) {
        if crashes {
            run = die(&run);
        }
        (from..from + PART).for_each(|i| put(&run.2, hash(i + COUNT)));
        (from..from + PART).for_each(|i| remove(&run.2, hash(i)));
    }
    run.1.stats().unit_bytes / run.1.extent_bytes()
}

/// Crashes that let no sweep end keep a sixteenth, and what may always be taken.
fn crash_loop() -> Result<(), String> {
    let (kept, needed) = (churn(true), churn(false));
    println!("{kept} extents, {needed} are needed");
    if kept > needed + needed / 16 + 4 {
        return Err(format!("{kept} extents, {needed} are needed"));
    }
    Ok(())
}

#[test]
fn extents_that_are_not_counted_are_found() {
    are_found(&[Fault::Uncounted], |fault| wrong(fault, crash_loop));
}

/// A table that is only read has a front, and a directory, as deep as before.
fn reads() -> Result<(), String> {
    let run = table(3000);
    let bytes = |run: &Opened| run.2.stats().dram_bytes;
    let before = bytes(&run);
    let run = die(&run);
    let first = run.2.front_depth();
    (0..3000).for_each(|i| assert_eq!(run.2.get(hash(i)).unwrap(), Some(hash(i))));
    let after = bytes(&run);
    if before != after || first < 6 {
        return Err(format!("{after} bytes, {before} before; a front of depth {first} at first"));
    }
    Ok(())
}

#[test]
fn a_front_that_stays_shallow_is_found() {
    are_found(&[Fault::FrontShallow], |fault| wrong(fault, reads));
}

/// Hashes that share their first bits.
fn corner(i: u64) -> u64 {
    0b0110 << 60 | (hash(i) >> 4 & (u64::MAX >> 13))
}

/// A corner grows, and the rest shrinks, before anybody has come to all of it.
fn corners() -> Result<(), String> {
    let run = table(6000);
    (0..10).for_each(|i| put(&run.2, corner(i)));
    let run = die(&run);
    (10..30).for_each(|i| put(&run.2, corner(i)));
    let depth = run.2.stats().global_depth;
    if depth < 17 {
        return Err(format!("a directory of depth {depth} says nothing"));
    }
    let run = die(&run);
    (0..6000).filter(|i| hash(*i) >> 60 > 8).for_each(|i| remove(&run.2, hash(i)));
    let stats = run.2.stats();
    if stats.merges < 100 || stats.halvings > 0 {
        return Err(format!("{} merges, {} halvings", stats.merges, stats.halvings));
    }
    Ok(())
}

#[test]
fn directories_that_do_not_wait_for_all_ranges_are_found() {
    are_found(&[Fault::SkewedEarly, Fault::HalvedEarly], |fault| wrong(fault, corners));
}
