//! A reader that is held up wherever it is, while others do whole operations and one is held up in
//! the middle of another.

use durahash_crash::cases::named;
use durahash_crash::script::Op::{self, Get, Put, Remove, Step};

use crate::stage::{Scene, every_place, puts};

/// Scenes: what there is before, the key that is read, what is done as a whole while the reader is held up, and
/// the operation that is held up after that, until the reader has its answer.
macro_rules! scenes {
    ($($name:literal: $before:expr, read $read:expr, $whole:expr, held $other:expr;)*) => {
        [$(scene($name, &$before, $read, &$whole, $other)),*]
    };
}

fn scene(name: &'static str, before: &[Op], read: u16, whole: &[Op], other: Op) -> Scene {
    Scene {
        name,
        before: [before, &[Get(read)]].concat(),
        // A value that was seen once stays, also while the writer is held up.
        one: vec![Get(read), Get(read)],
        whole: whole.to_vec(),
        other: vec![other],
        stands: true,
        ..Scene::default()
    }
}

fn play(case: &str, scenes: impl IntoIterator<Item = Scene>) {
    for scene in scenes {
        let plays =
            every_place(&named(case), &scene).unwrap_or_else(|wrong| panic!("{wrong}")).plays;
        println!("{}: {plays} plays", scene.name);
        assert!(plays > 20, "{}: only {plays}", scene.name);
    }
}

fn removes(keys: &[u16]) -> Vec<Op> {
    keys.iter().map(|key| Remove(*key)).collect()
}

#[test]
fn readers_of_buckets_that_change_under_them() {
    // Keys 0 to 7 begin with 00, 8 to 15 with 01, 16 to 23 with 1; a bucket has three slots.
    let mut two_buckets = puts(&[0, 1, 8, 16, 17, 18, 2]);
    two_buckets.push(Remove(2));
    let before_merge = [puts(&[0, 1, 8, 2]), removes(&[2])].concat();
    play(
        "reh",
        scenes! {
            "merged away, and the bucket is another half's": two_buckets, read 8, [Remove(1)], held Put(19, 2);
            "merged, and split again": two_buckets, read 8, [Remove(1), Put(9, 2)], held Put(10, 2);
            "moved by a split, and changed there":
                puts(&[0, 1, 8]), read 8, [Put(2, 2), Put(8, 2)], held Put(8, 3);
            "removed, and the slot is another key's":
                puts(&[0, 1, 8]), read 8, [Remove(8), Put(9, 2)], held Remove(0);
            "the directory doubles and doubles again":
                puts(&[0, 1, 2]), read 2, puts(&[3, 4, 5]), held Put(6, 2);
            "being split": puts(&[0, 1, 8]), read 8, [], held Put(2, 2);
            "being replaced": puts(&[0, 1, 8]), read 8, [Put(8, 2)], held Put(8, 3);
            "being merged": before_merge, read 8, [], held Remove(1);
        },
    );
}

/// Keys 20 to 33 share a segment; the even ones have bucket 0 as their first, the odd ones 1.
#[test]
fn readers_of_segments_that_change_under_them() {
    let full: Vec<u16> = (20..32).collect();
    let merged = [vec![Put(32, 2)], removes(&full[..8])].concat();
    play(
        "pea",
        scenes! {
            "moved within its bucket": puts(&[20]), read 20, [], held Put(22, 2);
            "inserted by the next strategy": puts(&[20, 22, 24]), read 26, [Put(26, 2)], held Remove(26);
            "from its second bucket to its first":
                puts(&[20, 22, 24, 26]), read 26, removes(&[20, 26]), held Put(26, 2);
            "into the stash": puts(&[20, 22, 24, 21, 23, 25]), read 26, [], held Put(26, 2);
            "out of the stash":
                puts(&[20, 22, 24, 21, 23, 25, 26]), read 26, removes(&[26, 20]), held Put(26, 2);
            "being split": puts(&full), read 31, [], held Put(32, 2);
            "split, and merged again": puts(&full), read 31, merged, held Remove(32);
        },
    );
}

/// Keys 22 to 37 share a segment of twelve slots; 22, 23, 25, 27, 29 and 30 have bucket 0 as their
/// home, which has three.
#[test]
fn readers_of_buckets_that_lend_each_other_room() {
    let overflowed = puts(&[22, 23, 25, 27]);
    let full: Vec<u16> = (22..34).collect();
    let merged = [vec![Put(34, 2)], removes(&full[..8])].concat();
    // The first ones leave an extent without any segment that is named.
    let all: Vec<u16> = (0..38).collect();
    let again = [removes(&all[..30]), puts(&all[..30])].concat();
    play(
        "esh",
        scenes! {
            "overflows": puts(&[22, 23, 25]), read 27, [], held Put(27, 2);
            "comes home": overflowed, read 27, [], held Remove(22);
            "came home, and is replaced there": overflowed, read 27, [Remove(22)], held Put(27, 3);
            "replaced elsewhere, then comes home": overflowed, read 27, [Put(27, 3)], held Remove(23);
            "removed elsewhere, and the slot is another key's":
                overflowed, read 27, [Remove(27), Put(29, 2)], held Remove(29);
            "not there, and being inserted where another home's was beyond it":
                puts(&[22, 23, 25, 27, 24, 32, 26, 34, 28, 36]), read 29, [Remove(24)], held Put(29, 2);
            "not there, and being inserted where another home's was in its own":
                puts(&[22, 23, 25, 27, 32, 26, 34, 28, 36, 29]), read 24, [Remove(27)], held Put(24, 2);
            "a segment that is split": puts(&full), read 33, [], held Put(34, 2);
            "a segment that was split, and its key changed there":
                puts(&full), read 33, [Put(34, 2), Put(33, 2)], held Put(33, 3);
            "a segment that was split, and is merged again": puts(&full), read 33, merged, held Remove(34);
            "its extent goes back to the pool": puts(&all), read 36, removes(&all[..30]), held Put(36, 3);
            "its extent comes back": puts(&all), read 36, again, held Put(36, 3);
        },
    );
}

/// Twelve slots of the first table: the inserts that follow evict, add a table, and migrate.
#[test]
fn readers_of_tables_that_are_added() {
    let full: Vec<u16> = (0..11).map(|i| i * 9 % 32).collect();
    let more = [&full[..], &[31, 6]].concat();
    let scenes = full.iter().copied().chain([31]).flat_map(|read| {
        scenes! {
            "what makes room": puts(&full), read read, [], held Put(31, 2);
            "migrates": puts(&more), read read, [Put(read, 2)], held Put(full[0], 3);
        }
    });
    play("rewo", scenes);
}

/// A copy in DRAM is made, or given up, while its slot changes.
#[test]
fn readers_of_copies() {
    let full: Vec<u16> = (0..9).map(|i| i * 9 % 32).collect();
    let gets: Vec<Op> = full.iter().map(|key| Get(*key)).collect();
    let full = puts(&full);
    play(
        "rewo-cached",
        scenes! {
            "is replaced": full, read 9, [], held Put(9, 2);
            "is replaced again": full, read 9, [Get(9), Put(9, 2)], held Put(9, 3);
            "is removed": full, read 9, [Get(9)], held Remove(9);
            "comes again": full, read 9, [Get(9), Remove(9)], held Put(9, 3);
            "gives way": full, read 9, gets, held Put(9, 3);
        },
    );
}

/// The same, where another thread changes it while the writer waits for the medium.
#[test]
fn readers_of_copies_that_others_change() {
    let full: Vec<u16> = (0..9).map(|i| i * 9 % 32).collect();
    let full = puts(&full);
    let scenes = scenes! {
        "is replaced": full, read 9, [Get(9)], held Put(9, 2);
        "is removed": full, read 9, [Get(9)], held Remove(9);
        "comes again": full, read 9, [Remove(9)], held Put(9, 3);
    };
    play("rewo-synced", scenes.map(|scene| Scene { meanwhile: vec![Step], ..scene }));
}

/// The number of copies follows the tables, and so do the places of copies; the record that a copy names
/// goes, and its block is another's.
#[test]
fn readers_of_copies_of_records() {
    let before = [puts(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]), vec![Get(5)]].concat();
    let grow: Vec<Op> = (10..13).map(|key| Put(key, 3)).collect();
    let replace = [Put(5, 2), Put(6, 4)];
    play(
        "rewo-small-map",
        scenes! {
            "the block is another record's": before, read 5, replace, held Put(7, 5);
            "grows, then the block is another's":
                before, read 5, [&grow[..], &replace].concat(), held Put(7, 5);
            "the block is another's while it grows":
                before, read 5, [&grow[..1], &replace].concat(), held Put(11, 3);
            "is removed while it grows": before, read 5, [grow[0], Remove(5)], held Put(11, 3);
        },
    );
}

/// The number of copies changes, and writers look for one elsewhere, while the copy is still where it was:
/// its record goes, and the block is another's.
#[test]
fn readers_of_copies_whose_places_change() {
    // One more, and a table is added.
    let all = puts(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    let scenes = (0..6).flat_map(|read| {
        let scenes = scenes! {
            "left behind by a table of copies that grows":
                [&all[..], &[Get(read)]].concat(), read read, [], held Put(11, 1);
        };
        let meanwhile = vec![Put(read, 2), Put(read + 1, 4)];
        scenes.map(|scene| Scene { meanwhile: meanwhile.clone(), ..scene })
    });
    play("rewo-small-map", scenes);
}

#[test]
fn readers_of_records_that_change_under_them() {
    let all: Vec<u16> = (0..16).collect();
    let replaced: Vec<Op> = all.iter().map(|key| Put(*key, 3)).collect();
    let full = puts(&all);
    play(
        "reh-map",
        scenes! {
            "the block is another record's": full, read 5, [Put(5, 2), Put(6, 4)], held Put(7, 5);
            "a chain that is copied": full, read 5, replaced, held Remove(5);
            "a chain that goes away": full, read 5, removes(&all), held Put(5, 9);
        },
    );
}
