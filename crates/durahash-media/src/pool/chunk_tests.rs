//! Blocks of large classes: what they take, and crashes while chunks and runs of extents are taken and released.

use std::collections::BTreeMap;

use super::table_tests::{Crash, create, open};
use super::{ExtentKind, Pool};
use crate::lock::wait_lock;
use crate::medium::Memory;
use crate::medium::sim::{Action, Sim};

/// The flag of a mark: the block is freed.
const FREED: u64 = 1;

fn kinds(pool: &Pool<Sim>) -> Vec<ExtentKind> {
    wait_lock(&pool.extents, &pool.medium).kinds().to_vec()
}

/// The steps of a pool whose blocks come and go, with a mark where another thread may name one, and where nothing
/// does any more.
fn script() -> (Vec<u64>, Vec<Action>) {
    let pool = create();
    pool.close().unwrap();
    let image = pool.medium.image();
    let pool = open(&image).unwrap();
    pool.medium.record(Vec::new());
    pool.begin().unwrap();
    let (mut blocks, mut random) = (Vec::new(), 1_u64);
    let mut longest = 0;
    for step in 0..300 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let draw = (random >> 40) as usize;
        // More is taken than freed at first, and all is freed at the end.
        if blocks.is_empty() || step < 220 && !draw.is_multiple_of(4) {
            let bytes = [1100, 700, 1100, 90, 3100, 2048][draw / 4 % 6];
            let off = pool.alloc_block(bytes, true).unwrap().unwrap();
            // A run's kinds are fenced with its contents.
            if bytes == 2048 {
                pool.medium.fence();
            }
            pool.medium.mark(off);
            blocks.push(off);
            let rests = |i| wait_lock(&pool.extents, &pool.medium).rests(i);
            longest = longest.max(rests(off >> 10));
        } else {
            let off = blocks.swap_remove(draw / 4 % blocks.len());
            pool.medium.mark(off | FREED);
            pool.free_block(off).unwrap();
        }
        if step % 30 == 29 {
            pool.give_back_blocks().unwrap();
        }
    }
    assert!(longest >= 6, "chunks of up to {longest} rests");
    (image, pool.medium.recorded().into_iter().map(|step| step.action).collect())
}

/// Checks that the image of a crash opens, with the named blocks and no others. Returns how many extents were found
/// to be of nothing, or the violation.
fn recovers(image: &[u64], named: &BTreeMap<u64, ()>) -> Result<usize, String> {
    let pool = open(image).map_err(|e| e.to_string())?;
    let codes = image[64..].iter().flat_map(|word| word.to_le_bytes());
    let on_medium = codes.take(kinds(&pool).len()).filter(|code| *code != 0).count();
    let headless = on_medium - kinds(&pool).iter().filter(|k| **k != ExtentKind::Free).count();
    pool.begin().map_err(|e| e.to_string())?;
    let mut end = 0;
    for off in named.keys() {
        let bytes = pool.block_bytes(*off).map_err(|e| format!("{e} at {off}"))?;
        if end > *off {
            return Err(format!("blocks overlap at {off}"));
        }
        end = off + bytes;
        pool.mark_block(*off).map_err(|e| e.to_string())?;
    }
    pool.finish_sweep().map_err(|e| e.to_string())?;
    let mut blocks = BTreeMap::new();
    pool.each_block(&mut |off| {
        blocks.insert(off, ());
    });
    if blocks != *named {
        return Err(format!("{} blocks of {}", blocks.len(), named.len()));
    }
    named.keys().try_for_each(|off| pool.free_block(*off)).map_err(|e| e.to_string())?;
    pool.retire_free_block_extents().map_err(|e| e.to_string())?;
    let is_kept = |kind: &&ExtentKind| !matches!(kind, ExtentKind::Free | ExtentKind::Checks);
    let kept = kinds(&pool).iter().skip(1).filter(is_kept).count();
    if kept == 0 { Ok(headless) } else { Err(format!("{kept} extents are lost")) }
}

/// How many states there were, and extents of nothing in them.
fn crash_all(image: &[u64], steps: &[Action]) -> Result<(usize, usize), String> {
    let mut crash = Crash::of(image);
    let (mut named, mut found, mut random) = (BTreeMap::new(), (0, 0), 1_u64);
    for action in steps {
        crash.take(*action);
        if let Action::Mark(mark) = action {
            if mark & FREED == 0 {
                named.insert(*mark, ());
            } else {
                named.remove(&(mark & !FREED));
            }
        }
        for look in 0..if matches!(action, Action::Flush { .. }) { 4 } else { 0 } {
            let mut choose = || {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                look == 1 || look > 1 && random >> 63 == 1
            };
            let headless = recovers(&crash.image(&mut choose), &named)
                .map_err(|e| format!("{e} at {action:?}"))?;
            found = (found.0 + 1, found.1 + headless);
        }
    }
    Ok(found)
}

#[test]
fn a_crash_while_blocks_come_and_go_loses_none_and_no_extent() {
    let (image, steps) = script();
    let (states, headless) = crash_all(&image, &steps).unwrap();
    assert!(states > 1000 && headless > 10, "{states} states, {headless} extents of nothing");
    // Kinds that are not durable when another thread may name what is there.
    let is_fence = |action: &Action| *action == Action::Fence;
    let planted: Vec<_> = steps.iter().copied().filter(|action| !is_fence(action)).collect();
    assert!(crash_all(&image, &planted).is_err(), "the fault was not found");
}

/// The first block takes what it must; a chunk has at most half of what the class has.
#[test]
fn a_class_takes_longer_chunks_the_more_it_has() {
    let pool = create();
    let bytes = 1100;
    let block = pool.classes.bytes(pool.classes.of(bytes).unwrap());
    assert_eq!(block, 9 * 128 + 16);
    let mut chunks = Vec::new();
    for _ in 0..600 {
        let off = pool.alloc_block(bytes, true).unwrap().unwrap();
        assert_eq!(pool.block_bytes(off).unwrap(), block);
        assert!(pool.block_bytes(off + 8).is_err());
        let extents = wait_lock(&pool.extents, &pool.medium);
        let kind = extents.kinds()[(off >> 10) as usize];
        if off.is_multiple_of(1024) && kind != ExtentKind::RunRest {
            chunks.push(1 + extents.rests(off >> 10));
        }
    }
    let used = chunks.iter().sum::<u64>() << 10;
    assert_eq!(chunks[..6], [2, 2, 2, 3, 4, 6]);
    assert!(chunks.iter().all(|extents| *extents <= 32));
    assert!(used * 20 <= 600 * block * 21, "{used} bytes");
}

/// In a pool that is full other uses get the end of a chunk, and blocks of its class what is left of it.
#[test]
fn the_end_of_a_chunk_goes_back_when_the_pool_is_full() {
    let pool = create();
    let alloc = || pool.alloc_block(1100, true).unwrap();
    let free = || kinds(&pool).iter().filter(|kind| **kind == ExtentKind::Free).count();
    let (mut blocks, mut extents) = (Vec::new(), 0);
    // Until one is the first of a long chunk.
    while extents < 6 {
        let off = alloc().unwrap();
        blocks.push(off);
        let is_first = matches!(kinds(&pool)[(off >> 10) as usize], ExtentKind::Blocks(_));
        let rests = wait_lock(&pool.extents, &pool.medium).rests(off >> 10);
        extents = if is_first && off.is_multiple_of(1024) { 1 + rests as usize } else { 0 };
    }
    let before = free();
    pool.give_back_blocks().unwrap();
    // Its first block takes two extents.
    let given = extents - 2;
    assert_eq!(free(), before + given);
    pool.give_back_blocks().unwrap();
    assert_eq!(free(), before + given);
    // The next ones have the rest of the extent, and a chunk that is as short as before.
    blocks.extend((0..100).map(|_| alloc().unwrap()));
    let mut sorted = blocks.clone();
    sorted.sort_unstable();
    let bytes = pool.block_bytes(blocks[0]).unwrap();
    assert!(sorted.windows(2).all(|pair| pair[0] + bytes <= pair[1]));
    assert!(blocks.iter().all(|off| pool.block_bytes(*off).unwrap() == bytes));
    let mut in_use = 0;
    pool.each_block(&mut |_| in_use += 1);
    assert_eq!(in_use, blocks.len());
    blocks.into_iter().for_each(|off| pool.free_block(off).unwrap());
    pool.give_back_blocks().unwrap();
    assert!(kinds(&pool).iter().skip(1).all(|kind| *kind == ExtentKind::Free));
}
