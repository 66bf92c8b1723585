//! Pools alone: opening what is not one, closing, space taken, given back and found again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::medium::metered::Metered;
use crate::medium::sim::{Sim, SimDisk};
use crate::medium::{Dram, FORMAT_VERSION, Mapped, MappedOptions, Memory};

const MAX_BYTES: u64 = 256 << 10;

pub(super) fn format() -> Format {
    Format {
        design: 1,
        kind: 0,
        cells: false,
        in_slots: false,
        key_type: 7,
        value_type: 8,
        geometry: Geometry { extent_shift: 10, slots: 0, hash_bits: 0, buckets: 0 },
        seed: 42,
        max_bytes: MAX_BYTES,
    }
}

fn create() -> Arc<Pool<Sim>> {
    Arc::new(Pool::create(Sim::new(MAX_BYTES), &format()).unwrap())
}

/// Where the pool's own map lies.
pub(super) fn place<M: Medium>(pool: &Arc<Pool<M>>) -> Place<M> {
    Arc::clone(pool).into()
}

/// Opens what `pool` has on its medium, as after a crash in the middle of nothing.
fn reopen(pool: &Pool<Sim>) -> Result<Arc<Pool<Sim>>> {
    open_image(&pool.medium().image())
}

fn open_image(image: &[u64]) -> Result<Arc<Pool<Sim>>> {
    let pool = Pool::open(Sim::from_image(image, MAX_BYTES), false)?;
    pool.begin()?;
    Ok(Arc::new(pool))
}

#[test]
fn a_pool_opens_again_and_counters_come_with_a_clean_close_only() {
    let pool = create();
    pool.save(0, 2, 77);
    place(&pool).set_root(3, 99).unwrap();
    let after_crash = reopen(&pool).unwrap();
    assert_eq!(after_crash.format(), &format());
    assert_eq!((after_crash.was_clean(), after_crash.saved(0, 2)), (false, None));
    assert_eq!(place(&after_crash).root(3).unwrap(), 99);
    assert_eq!(after_crash.epoch(), pool.epoch() + 1);

    pool.close().unwrap();
    let closed = reopen(&pool).unwrap();
    assert_eq!((closed.was_clean(), closed.saved(0, 2)), (true, Some(77)));
    assert_eq!(closed.uuid(), pool.uuid());
    assert!(matches!(pool.writable().unwrap_err().kind(), ErrorKind::Poisoned));
}

#[test]
fn every_damaged_bit_of_the_fixed_lines_is_found() {
    let image = create().medium().image();
    for bit in 0..12 * 64 {
        let mut damaged = image.clone();
        damaged[bit / 64] ^= 1 << (bit % 64);
        let error =
            open_image(&damaged).err().unwrap_or_else(|| panic!("bit {bit} was not missed"));
        let expected = match bit / 64 {
            0 => matches!(error.kind(), ErrorKind::NotAPool { .. }),
            _ => matches!(error.kind(), ErrorKind::Corrupt { .. }),
        };
        assert!(expected, "bit {bit}: {error}");
    }
}

#[test]
fn other_versions_byte_orders_and_lengths_are_named() {
    let pool = create();
    let image = pool.medium().image();
    let error = |image: &[u64]| open_image(image).err().unwrap();

    let swapped: Vec<u64> = image.iter().map(|word| word.swap_bytes()).collect();
    assert!(matches!(error(&swapped).kind(), ErrorKind::ByteOrder));

    // An earlier and a later version, with checksums that are right.
    for version in [FORMAT_VERSION - 1, FORMAT_VERSION + 1] {
        let other = Sim::from_image(&image, MAX_BYTES);
        let superblock = other.region().at::<Superblock>(0).unwrap();
        other.store(&superblock.version, version);
        other.store(&superblock.crc, superblock.fixed_crc(&other).unwrap());
        let error = error(&other.image());
        let named = matches!(*error.kind(), ErrorKind::Version { found, expected }
            if (found, expected) == (version, FORMAT_VERSION));
        let makes_anew = error.to_string().contains("make a new pool");
        assert!(named && makes_anew == (version < FORMAT_VERSION), "{error}");
    }

    let unit = place(&pool).take_unit_extent().unwrap();
    let grown = pool.medium().image();
    let cut = &grown[..(unit * 128) as usize];
    assert!(matches!(error(cut).kind(), ErrorKind::Truncated { .. }));
    assert!(matches!(error(&image[..8]).kind(), ErrorKind::NotAPool { .. }));
    assert!(matches!(error(&[0; 128]).kind(), ErrorKind::NotAPool { .. }));
}

#[test]
fn geometries_and_limits_that_cannot_be_are_refused() {
    for (extent_shift, slots, max_bytes) in
        [(9, 0, MAX_BYTES), (31, 0, MAX_BYTES), (10, 65, MAX_BYTES), (10, 0, 1023), (10, 0, 0)]
    {
        let geometry = Geometry { extent_shift, slots, hash_bits: 0, buckets: 0 };
        let format = Format { geometry, max_bytes, ..format() };
        let refused = Pool::create(Sim::new(MAX_BYTES), &format).err().unwrap();
        assert!(matches!(refused.kind(), ErrorKind::Options { .. }), "{refused}");
    }
}

/// A file whose writer died with the machine: unclean, and another boot id.
#[test]
fn a_pool_in_the_page_cache_that_lost_power_is_suspect_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    let options = MappedOptions { max_bytes: MAX_BYTES, ..MappedOptions::default() };
    let pool = Pool::create(Mapped::create(&path, &options).unwrap(), &format()).unwrap();
    pool.publish().unwrap();
    let superblock = pool.at::<Superblock>(0).unwrap();
    pool.medium().store(&superblock.boot_id[0], 1234);
    drop(pool);

    let open = |accept| -> Result<Pool<Mapped>> {
        let pool = Pool::open(Mapped::open(&path, false, &options)?, accept)?;
        pool.begin()?;
        Ok(pool)
    };
    let before = std::fs::read(&path).unwrap();
    assert!(matches!(open(false).err().unwrap().kind(), ErrorKind::PowerLoss));
    assert_eq!(std::fs::read(&path).unwrap(), before, "a refused file is untouched");
    let pool = open(true).unwrap();
    assert!(pool.is_suspect());
    pool.close().unwrap();
    drop(pool);
    let pool = open(false).unwrap();
    assert!(pool.is_suspect() && pool.was_clean());
}

/// Takes, frees, crashes and sweeps at random; the model knows every block.
#[test]
fn blocks_never_overlap_and_come_back_after_a_sweep() {
    let mut random = 1_u64;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (random >> 33) % below
    };
    let mut pool = create();
    let mut model: BTreeMap<u64, u64> = BTreeMap::new();
    for step in 0..20_000 {
        match next(200) {
            0 => {
                // A crash: what the model knows is what is reachable.
                pool = reopen(&pool).unwrap();
                assert_eq!(pool.sweep_pending(), !model.is_empty() || pool.sweep_pending());
            }
            1..=3 if pool.sweep_pending() => {
                for off in model.keys() {
                    pool.mark_block(*off).unwrap();
                }
                pool.finish_sweep().unwrap();
            }
            4..=104 => {
                let bytes = if next(20) == 0 { 1 + next(5000) } else { 1 + next(600) };
                match pool.alloc_block(bytes, next(2) == 0) {
                    Ok(Some(off)) => {
                        let capacity = pool.block_bytes(off).unwrap();
                        assert!(capacity >= bytes && off % 8 == 0);
                        let before = model.range(..off + capacity).next_back();
                        assert!(before.is_none_or(|(o, b)| o + b <= off), "step {step} overlaps");
                        model.insert(off, capacity);
                    }
                    Ok(None) => assert!(pool.sweep_pending()),
                    Err(e) => assert!(matches!(e.kind(), ErrorKind::Full { .. }), "{e}"),
                }
            }
            _ => {
                let from = next(MAX_BYTES);
                if let Some(off) = model.range(from..).next().map(|(off, _)| *off) {
                    model.remove(&off);
                    pool.free_block(off).unwrap();
                }
            }
        }
        if step % 64 == 0 && !pool.sweep_pending() {
            let mut blocks = Vec::new();
            pool.each_block(&mut |off| blocks.push(off));
            assert!(blocks.iter().eq(model.keys()), "step {step}");
        }
    }
}

/// An extent that is kept stays as it is: no block of it is handed out, freed or given back, until the next open.
#[test]
fn nothing_of_an_extent_that_is_kept_is_given_away() {
    let pool = create();
    let extent_bytes = pool.extent_bytes();
    let blocks: Vec<u64> = (0..3 * extent_bytes / 112)
        .map(|_| pool.alloc_block(100, true).unwrap().unwrap())
        .collect();
    let kept = blocks[0] / extent_bytes;
    let is_in_kept = |off: &u64| off / extent_bytes == kept;
    let pool = reopen(&pool).unwrap();
    // One is freed before it is known.
    pool.free_block(blocks[1]).unwrap();
    pool.keep_extent(blocks[0]);
    pool.finish_sweep().unwrap();
    let of_kept = || {
        let mut found = Vec::new();
        pool.each_block(&mut |off| found.push(off));
        found.retain(is_in_kept);
        found
    };
    assert_eq!(of_kept(), []);
    pool.free_block(blocks[2]).unwrap_err();
    pool.give_back_blocks().unwrap();
    loop {
        match pool.alloc_block(100, true) {
            Ok(off) => assert!(!is_in_kept(&off.unwrap())),
            Err(e) => break assert!(matches!(e.kind(), ErrorKind::Full { .. }), "{e}"),
        }
    }
    let pool = reopen(&pool).unwrap();
    pool.finish_sweep().unwrap();
    assert_eq!(pool.stats().record_bytes, 0, "the next open looks again");
}

/// Everything that is not reachable comes back, so opening without closing does not grow a pool.
#[test]
fn kills_do_not_grow_a_pool() {
    let mut pool = create();
    let mut kept = Vec::new();
    for _ in 0..20 {
        kept.push(pool.alloc_block(100, true).unwrap().unwrap());
    }
    let mut sizes = Vec::new();
    for _ in 0..50 {
        pool = reopen(&pool).unwrap();
        for off in &kept {
            pool.mark_block(*off).unwrap();
        }
        pool.finish_sweep().unwrap();
        for bytes in [100, 100, 700, 3000] {
            pool.alloc_block(bytes, true).unwrap().unwrap();
        }
        sizes.push(pool.stats().bytes);
    }
    assert_eq!(sizes[5], sizes[49], "{sizes:?}");
}

#[test]
fn a_full_medium_changes_nothing_and_freed_blocks_are_room_again() {
    let pool = create();
    let mut blocks = Vec::new();
    let error = loop {
        match pool.alloc_block(400, true) {
            Ok(off) => blocks.push(off.unwrap()),
            Err(e) => break e,
        }
    };
    assert!(matches!(error.kind(), ErrorKind::Full { .. }));
    let before = pool.medium().image();
    assert!(pool.alloc_block(5000, true).is_err());
    assert!(place(&pool).take_unit_extent().is_err());
    assert_eq!(pool.medium().image(), before);
    for off in blocks {
        pool.free_block(off).unwrap();
    }
    pool.alloc_block(100 << 10, true).unwrap().unwrap();
}

/// An object of the largest size that values may have, on a pool of ordinary geometry.
#[test]
fn runs_of_extents_hold_a_gibibyte() {
    let max_bytes = 4 << 30;
    let format = Format { geometry: Geometry::default(), max_bytes, ..format() };
    let pool = Pool::create(Dram::new(max_bytes).unwrap(), &format).unwrap();
    let bytes = (1 << 30) + 100;
    let off = pool.alloc_block(bytes, true).unwrap().unwrap();
    assert_eq!(pool.block_bytes(off).unwrap(), (1 << 30) + (512 << 10));
    assert!(pool.block_bytes(off + (512 << 10)).is_err(), "the middle of a run is no block");
    pool.free_block(off).unwrap();
    assert_eq!(pool.alloc_block(bytes, true).unwrap(), Some(off));
}

#[test]
fn a_closed_pool_is_cut_behind_its_last_extent() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("p");
    let options = MappedOptions { max_bytes: MAX_BYTES, ..MappedOptions::default() };
    let pool = Arc::new(Pool::create(Mapped::create(&path, &options).unwrap(), &format()).unwrap());
    pool.publish().unwrap();
    place(&pool).take_unit_extent().unwrap();
    let blocks: Vec<u64> = (0..50).map(|_| pool.alloc_block(500, true).unwrap().unwrap()).collect();
    for off in blocks {
        pool.free_block(off).unwrap();
    }
    pool.close().unwrap();
    drop(pool);
    // The head, the extent of units, and that of check words.
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 3 << 10);
    let pool = Arc::new(Pool::open(Mapped::open(&path, true, &options).unwrap(), false).unwrap());
    assert!(matches!(pool.writable().unwrap_err().kind(), ErrorKind::ReadOnly));
    assert_eq!(place(&pool).unit_extents(), [1]);
}

/// The place of a map that is being made.
fn begin(pool: &Arc<Pool<Sim>>, name: &str) -> Result<Place<Sim>> {
    Place::of(pool, pool.begin_map(name, &format())?)
}

/// A pool with a map `a` of one unit extent and a map `b` of a unit and a directory.
fn with_maps() -> Arc<Pool<Sim>> {
    let pool = create();
    place(&pool).take_unit_extent().unwrap();
    for (name, directories) in [("a", 0), ("b", 1)] {
        let map = begin(&pool, name).unwrap();
        map.take_unit_extent().unwrap();
        if directories > 0 {
            map.take_directory_extents(directories).unwrap();
            // Stores of a design there are fenced with it.
            pool.medium().fence();
        }
        map.set_root(0, u64::from(map.map())).unwrap();
        pool.publish_map(map.map()).unwrap();
    }
    pool
}

fn names(pool: &Pool<Sim>) -> Vec<(u8, String)> {
    pool.maps().into_iter().map(|(map, name, _)| (map, name)).collect()
}

#[test]
fn further_maps_have_their_own_roots_counters_and_extents() {
    let pool = with_maps();
    let wanted = [(0, "main"), (1, "a"), (2, "b")].map(|(map, name)| (map, name.to_string()));
    pool.save(2, 3, 33);
    let crashed = reopen(&pool).unwrap();
    assert_eq!((names(&crashed), crashed.saved(2, 3)), (wanted.to_vec(), None));
    pool.close().unwrap();
    let pool = reopen(&pool).unwrap();
    assert_eq!(
        (names(&pool), pool.saved(2, 3), pool.saved(1, 3)),
        (wanted.to_vec(), Some(33), Some(0))
    );
    for map in 1..=2 {
        let place = Place::of(&pool, map).unwrap();
        assert_eq!(place.root(0).unwrap(), u64::from(map));
        assert_eq!(place.unit_extents().len(), 1);
        assert_eq!(place.directory_extents().len(), usize::from(map) - 1);
    }
    assert_eq!(place(&pool).unit_extents(), [1]);

    pool.rename_map(1, "c").unwrap();
    let taken = pool.rename_map(2, "c").unwrap_err();
    assert!(matches!(taken.kind(), ErrorKind::MapExists { name } if name == "c"), "{taken}");
    for refused in ["", "main", "a\nb", &"x".repeat(65)] {
        assert!(matches!(
            pool.rename_map(2, refused).unwrap_err().kind(),
            ErrorKind::Options { .. }
        ));
    }
    assert!(pool.rename_map(0, "d").is_err() && pool.begin_removal(0).is_err());
    pool.rename_map(2, "a").unwrap();
    let pool = reopen(&pool).unwrap();
    assert_eq!(names(&pool)[1..], [(1, "c".to_string()), (2, "a".to_string())]);

    // One that is removed half, one that was not made to the end: nothing of them is left.
    let free = pool.stats().free_bytes;
    pool.begin_removal(2).unwrap();
    assert!(Place::of(&pool, 2).is_err());
    let half = begin(&pool, "half").unwrap();
    half.take_unit_extent().unwrap();
    let pool = reopen(&pool).unwrap();
    assert_eq!(names(&pool)[1..], [(1, "c".to_string())]);
    assert!(pool.stats().free_bytes >= free + 2 * 1024);
    assert_eq!(begin(&pool, "again").unwrap().map(), 2);
}

/// 63 maps have room, and the block of their table is no record of anybody.
#[test]
fn a_pool_has_room_for_63_further_maps() {
    let pool = create();
    for i in 1..=63 {
        let map = begin(&pool, &format!("map {i}")).unwrap();
        pool.publish_map(map.map()).unwrap();
    }
    let full = begin(&pool, "one more").err().unwrap();
    assert!(matches!(full.kind(), ErrorKind::Full { .. }), "{full}");
    let pool = reopen(&pool).unwrap();
    assert_eq!(pool.maps().len(), 64);
    pool.finish_sweep().unwrap();
    pool.each_block(&mut |off| panic!("a block at {off}"));
    assert_eq!(reopen(&pool).unwrap().maps().len(), 64);
}

/// Of the words of the table only roots, counters and the name that does not count may be anything.
#[test]
fn every_damaged_bit_of_a_map_is_found() {
    let image = with_maps().medium().image();
    let superblock = std::mem::offset_of!(Superblock, maps) / 8;
    let table = image[superblock] as usize / 8;
    let fixed = (0..6).chain(8..16).flat_map(|word| [table + word, table + 40 + word]);
    for word in fixed.chain([superblock]) {
        for bit in 0..64 {
            let mut damaged = image.clone();
            damaged[word] ^= 1 << bit;
            match open_image(&damaged) {
                Err(e) => assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{word}: {e}"),
                Ok(_) => panic!("bit {bit} of word {word} was missed"),
            }
        }
    }
    for word in (table..table + 63 * 40).chain([superblock]) {
        for forged in [0, 1, u64::MAX] {
            let mut damaged = image.clone();
            damaged[word] = forged;
            if let Ok(pool) = open_image(&damaged) {
                assert_eq!(names(&pool).len(), 3, "word {word}");
            }
        }
    }
    let mut two = image.clone();
    two.copy_within(table..table + 40, table + 80);
    assert!(open_image(&two).is_err(), "a copy of another map's entry");
}

/// The offsets of blocks that are found damaged.
pub(super) fn damaged<M: Medium>(pool: &Pool<M>) -> Vec<u64> {
    let mut found = Vec::new();
    pool.check_blocks(&mut |off, _| found.push(off));
    found
}

/// How many blocks get check words, and how many have one.
pub(super) fn covered<M: Medium>(pool: &Pool<M>) -> [u64; 2] {
    let stats = pool.stats();
    [stats.checked_blocks, stats.verifiable_blocks]
}

fn flip(image: &mut [u64], off: u64) {
    image[off as usize / 8] ^= 1 << (off % 64);
}

/// A closed pool of three extents of units, and where the first begins.
fn closed_with_units() -> (Vec<u64>, u64) {
    let pool = create();
    let first = place(&pool).take_unit_extents(3).unwrap() << 10;
    assert_eq!(covered(&pool), [4, 0]);
    pool.close().unwrap();
    (pool.medium().image(), first)
}

#[test]
fn damage_of_blocks_without_a_store_since_the_close_is_found() {
    let (image, first) = closed_with_units();
    let pool = open_image(&image).unwrap();
    assert_eq!((covered(&pool), damaged(&pool)), ([4, 4], vec![]));
    for off in [0, 200, 488, 520, first, first + 1023, first + 2048] {
        let mut image = image.clone();
        flip(&mut image, off);
        let Ok(pool) = Pool::open(Sim::from_image(&image, MAX_BYTES), false) else { continue };
        let wanted = if off == 488 { vec![488] } else { vec![off / 1024 * 1024] };
        assert_eq!(damaged(&pool), wanted, "{off}");
        let Err(e) = pool.verify() else { panic!("{off} is not refused") };
        assert!(matches!(e.kind(), ErrorKind::Corrupt { off, .. } if *off == wanted[0]), "{e}");
    }
}

#[test]
fn a_block_is_covered_until_the_first_store_and_again_after_a_close() {
    let (image, first) = closed_with_units();
    let pool = open_image(&image).unwrap();
    for off in [first, first + 512, first + 1024] {
        pool.touch(off);
        pool.medium().store(pool.at(off).unwrap(), 77);
    }
    assert_eq!((covered(&pool), damaged(&pool)), ([4, 2], vec![]));
    let after_crash = reopen(&pool).unwrap();
    assert_eq!((covered(&after_crash), damaged(&after_crash)), ([4, 2], vec![]));
    pool.close().unwrap();
    let closed = reopen(&pool).unwrap();
    assert_eq!((covered(&closed), damaged(&closed)), ([4, 4], vec![]));
}

/// A close gives no damage a check word that is right, also if it found none itself.
#[test]
fn damage_is_told_until_its_extent_is_taken_anew() {
    let (mut image, first) = closed_with_units();
    flip(&mut image, first + 100);
    for _ in 0..2 {
        let pool = open_image(&image).unwrap();
        pool.touch(first + 512);
        pool.medium().store(pool.at(first + 512).unwrap(), 77);
        assert_eq!(damaged(&pool), [first]);
        pool.close().unwrap();
        image = pool.medium().image();
    }
    let pool = open_image(&image).unwrap();
    assert_eq!(damaged(&pool), [first]);
    for extent in place(&pool).unit_extents() {
        pool.release_extent(extent).unwrap();
    }
    assert_eq!(place(&pool).take_unit_extents(3).unwrap(), first >> 10);
    pool.close().unwrap();
    assert_eq!(damaged(&reopen(&pool).unwrap()), []);
}

#[test]
fn a_place_of_check_words_that_is_damaged_is_told_and_another_is_made() {
    for off in 488..504 {
        let (mut image, _) = closed_with_units();
        flip(&mut image, off);
        let pool = open_image(&image).unwrap();
        assert_eq!((covered(&pool), damaged(&pool)), ([4, 0], vec![488]), "{off}");
        assert_eq!(pool.stats().check_bytes, 0);
        pool.close().unwrap();
        let closed = reopen(&pool).unwrap();
        assert_eq!((covered(&closed), damaged(&closed)), ([4, 4], vec![]), "{off}");
        assert_eq!(closed.stats().check_bytes, 1024);
    }
}

/// A first store to a block costs one flush and one fence, and takes as long as to read the block.
#[test]
fn check_words_cost_once_for_each_block_stored_to() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("map.pool");
    let options = MappedOptions { max_bytes: 64 << 20, ..MappedOptions::default() };
    let format = Format {
        geometry: Geometry { extent_shift: 16, ..format().geometry },
        max_bytes: 64 << 20,
        ..format()
    };
    let pool = Arc::new(Pool::create(Mapped::create(&path, &options).unwrap(), &format).unwrap());
    let first = place(&pool).take_unit_extents(200).unwrap() << 16;
    pool.publish().unwrap();
    pool.close().unwrap();
    drop(pool);

    let medium = Metered::new(Mapped::open(&path, false, &options).unwrap());
    let pool = Pool::open(medium, false).unwrap();
    pool.begin().unwrap();
    let counted = |f: &dyn Fn()| {
        let before = pool.medium().counts();
        f();
        let counts = pool.medium().counts() - before;
        [counts.flushes, counts.fences + counts.drains]
    };
    assert_eq!(counted(&|| pool.touch(first)), [1, 1]);
    for off in [0, 256, 4095] {
        assert_eq!(counted(&|| pool.touch(first + off)), [0, 0]);
    }
    assert_eq!(counted(&|| pool.touch(first + 4096)), [1, 1]);
    // Two blocks of 201 * 16; then the head, which a close stores to.
    let [flushes, fences] = counted(&|| pool.close().unwrap());
    assert!(flushes < 300 && fences < 10, "{flushes} flushes, {fences} fences");
}

#[test]
fn behind_a_log_a_close_covers_all_and_a_kill_the_blocks_not_stored_to() {
    let mode = crate::medium::SyncMode::INTERVAL;
    let disk = SimDisk::new(MAX_BYTES, 64 << 10, true);
    let pool = Arc::new(Pool::create(disk.clone().create(mode).unwrap(), &format()).unwrap());
    let first = place(&pool).take_unit_extents(3).unwrap() << 10;
    // Never flushed, as the release of a lock that lies on the medium.
    pool.medium().store(pool.at(first + 64).unwrap(), 7);
    pool.close().unwrap();
    let open = |image| {
        let disk = SimDisk::resume(image, Vec::new(), MAX_BYTES, true);
        let pool = Pool::open(disk.clone().open(mode).unwrap(), false).unwrap();
        pool.begin().unwrap();
        (disk, pool)
    };
    let (disk, pool) = open(disk.image());
    assert_eq!((covered(&pool), damaged(&pool)), ([4, 4], vec![]));
    for off in [first, first + 8] {
        pool.touch(off);
        let word = pool.at(off).unwrap();
        pool.medium().store(word, 8);
        pool.medium().flush(word);
    }
    let (_, killed) = open(disk.image());
    assert_eq!((covered(&killed), damaged(&killed)), ([4, 3], vec![]));
}
