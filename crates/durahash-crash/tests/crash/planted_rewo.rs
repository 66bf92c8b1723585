//! Faults that Rewo-Hash's paper invites, and that its own departures do, each planted by the
//! design itself under the feature `planted`, and found: by crash states of scripts, and by threads that are held
//! up. The design without a fault passes all of it.

use durahash::index::IndexBase;
use durahash::rewo::{Cache, Fault, Rewo, SYNC_BY_CALLS, plant};
use durahash_crash::case::Case;
use durahash_crash::cases::rewo_with;
use durahash_crash::script::{Op, Rng};
use durahash_media::sim::{Sim, budget, seed};

use crate::planted::{are_found, by_scripts, with};
use crate::stage::{Scene, every_place};

/// No cached table; one of two buckets; the same, where steps change copies while writers wait for the medium.
const NO_CACHE: Cache = Cache::of_bytes(0);
const CACHED: Cache = Cache::of_bytes(256);
const SYNCED: Cache = {
    let mut cache = Cache::of_bytes(257);
    cache.sync_threads = SYNC_BY_CALLS;
    cache
};

/// Rewo-Hash with this cached table.
fn rewo(cache: Cache) -> Case {
    let step = |rewo: &Rewo<Sim>| if rewo.sync_copies() { Ok(true) } else { rewo.step() };
    rewo_with("rewo-planted", 64 << 10, cache, step)
}

#[test]
fn every_fault_is_planted_here() {
    println!("{} faults", Fault::ALL.len());
    for fault in Fault::ALL {
        let tests = [include_str!("planted_rewo.rs"), include_str!("onlookers.rs")];
        let is_planted = tests.iter().any(|test| test.contains(&format!("Fault::{fault:?}")));
        assert!(is_planted, "{fault:?}");
    }
}

/// The findings of scripts with this cached table.
fn wrong(fault: Option<Fault>, cache: Cache) -> Option<String> {
    with(plant, fault, || by_scripts(&rewo(cache), 20, 200, 1))
}

#[test]
fn wrong_writes_and_recoveries_are_found() {
    let faults = [
        Fault::CommitFirst,
        Fault::ClearedFirst,
        Fault::Unmarked,
        Fault::MarkedDropped,
        Fault::BothKept,
        Fault::MarksStay,
        Fault::CursorFirst,
        Fault::PassedFirst,
        Fault::PassedKept,
        Fault::RootFirst,
        Fault::GivenUpFirst,
    ];
    are_found(&faults, |fault| wrong(fault, NO_CACHE));
}

#[test]
fn copies_that_are_not_those_of_their_slots_are_found() {
    let faults = [Fault::CopyKept, Fault::CopyOutlives, Fault::OverflowKept];
    are_found(&faults, |fault| wrong(fault, CACHED));
    are_found(&[Fault::Unswept], |fault| wrong(fault, Cache::default()));
}

/// The first of these scenes, held up before each call in turn, in which something is wrong.
fn first_wrong(
    cache: Cache,
    fault: Option<Fault>,
    mut scenes: impl Iterator<Item = Scene>,
) -> Option<String> {
    let case = rewo(cache);
    let wrong = |scene| every_place(&case, &Scene { fault, ..scene }).err();
    with(plant, fault, || scenes.find_map(wrong))
}

/// Tables of any load, to which others add meanwhile, so that they grow. The one reads or adds, too.
fn resizes(count: u64) -> impl Iterator<Item = Scene> {
    (seed(0)..seed(count)).map(|seed| {
        let mut rng = Rng::new(seed);
        let mut keys: Vec<u16> = (0..34).collect();
        let mut any = |rng: &mut Rng| keys.swap_remove(rng.below(keys.len()));
        let before: Vec<Op> = (0..8 + rng.below(23)).map(|_| Op::Put(any(&mut rng), 1)).collect();
        let one = match rng.below(3) {
            0 => Op::Get(before[rng.below(before.len())].key().expect("every one has a key")),
            _ => Op::Put(any(&mut rng), 2),
        };
        let mut others = vec![Op::Put(any(&mut rng), 3), Op::Put(any(&mut rng), 4)];
        others.extend([Op::Step; 8]);
        Scene { before, one: vec![one], other: others, ..Scene::default() }
    })
}

/// A reader of an entry that is being replaced, and the writer that replaces it.
fn replaced(crashes: bool) -> impl Iterator<Item = Scene> {
    [1, 4, 8, 20, 26_u16].into_iter().flat_map(move |count| {
        let before: Vec<Op> = (0..=count).map(|i| Op::Put(i * 9 % 32, 1)).collect();
        (0..=count).map(move |i| i * 9 % 32).map(move |key| {
            let (put, get) = (vec![Op::Put(key, 2)], vec![Op::Get(key)]);
            let (one, other) = if crashes { (put, get) } else { (get, put) };
            Scene { before: before.clone(), one, other, crashes, ..Scene::default() }
        })
    })
}

#[test]
fn entries_seen_before_they_are_durable_are_found() {
    are_found(&[Fault::SeenFirst], |fault| first_wrong(NO_CACHE, fault, replaced(true)));
    are_found(&[Fault::CopyFirst], |fault| first_wrong(CACHED, fault, replaced(true)));
}

/// A copy is changed while its writer is held up and a reader comes.
fn synced() -> impl Iterator<Item = Scene> {
    [1, 4, 8_u16].into_iter().flat_map(|count| {
        let before: Vec<Op> = (0..=count).map(|i| Op::Put(i * 9 % 32, 1)).collect();
        let keys = (0..=count).map(|i| i * 9 % 32);
        let changes = keys.flat_map(|key| [Op::Put(key, 2), Op::Remove(key), Op::Put(31, 2)]);
        changes.map(move |one| {
            let other = vec![Op::Step, Op::Get(one.key().expect("every one has a key"))];
            let one = vec![one];
            Scene { before: before.clone(), one, other, crashes: true, ..Scene::default() }
        })
    })
}

#[test]
fn copies_by_others_that_are_seen_before_they_are_durable_are_found() {
    are_found(&[Fault::SyncedEarly], |fault| first_wrong(SYNCED, fault, synced()));
}

/// A thread that copies for a writer is held up, while that writer ends and changes the key again.
fn late() -> impl Iterator<Item = Scene> {
    [1, 4, 8_u16].into_iter().flat_map(|count| {
        let before: Vec<Op> = (0..=count).map(|i| Op::Put(i * 9 % 32, 1)).collect();
        let writes = |key| vec![Op::Put(key, 2), Op::Put(key, 3)];
        (0..=count).map(move |i| i * 9 % 32).map(move |key| {
            let (one, other) = (writes(key), vec![Op::Step]);
            Scene { before: before.clone(), one, other, stands: true, ..Scene::default() }
        })
    })
}

#[test]
fn copies_by_others_that_come_too_late_are_found() {
    are_found(&[Fault::SyncedLate], |fault| first_wrong(SYNCED, fault, late()));
}

#[test]
fn copies_of_replaced_entries_are_found() {
    are_found(&[Fault::FilledUnseen], |fault| first_wrong(CACHED, fault, replaced(false)));
}

#[test]
fn operations_that_miss_a_change_of_tables_are_found() {
    let scenes = |fault: Option<Fault>| resizes(if fault.is_some() { 20_000 } else { 100 });
    let faults = [Fault::TablesOnce, Fault::TablesOnceToWrite];
    are_found(&faults, |fault| first_wrong(NO_CACHE, fault, scenes(fault)));
    // The suite begins not long before the scene that shows it.
    let late = |fault| scenes(fault).skip(budget(1400, 0));
    are_found(&[Fault::NotPassed], |fault| first_wrong(NO_CACHE, fault, late(fault)));
}
