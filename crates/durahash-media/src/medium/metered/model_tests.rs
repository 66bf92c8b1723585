//! The model on a clock of its own: where lines are found, and what that takes.

use super::{Processor, Profile, Touch, Traffic};

/// Lets one thread of `profile` make `accesses`. What became of them, and how long it took.
fn run(profile: Profile, accesses: impl IntoIterator<Item = (Touch, u64)>) -> (Traffic, u64) {
    let mut processor = Processor::new(&profile, 1).unwrap();
    for (touch, line) in accesses {
        processor.run(0, touch, line);
    }
    (processor.traffic(0), processor.now(0))
}

fn loads(lines: impl IntoIterator<Item = u64>) -> impl Iterator<Item = (Touch, u64)> {
    lines.into_iter().map(|line| (Touch::Load, line))
}

#[test]
fn the_lines_of_a_block_come_from_the_buffer_behind_the_first() {
    let (traffic, ns) = run(Profile::OPTANE_100, loads(0..4));
    assert_eq!((traffic.misses, traffic.buffer_hits, traffic.media_reads), (4, 3, 1));
    assert_eq!(ns, 305 + 3 * 124);
    // One line of each block.
    let (traffic, ns) = run(Profile::OPTANE_100, loads((0..100).map(|i| i * 4)));
    assert_eq!((traffic.misses, traffic.buffer_hits, traffic.media_reads), (100, 0, 100));
    assert_eq!(ns, 100 * 305);
    // Where the medium has no larger unit, each line is a read of it.
    let (traffic, ns) = run(Profile::DRAM, loads(0..4));
    assert_eq!((traffic.buffer_hits, traffic.media_reads, ns), (3, 4, 101 + 3 * 75));
}

#[test]
fn what_is_read_again_is_in_the_cache_that_it_fits_into() {
    // The core has 16,384 lines, its share of the other cache 22,528 more; a hit takes this machine's own time.
    let twice = |lines: u64| {
        let (once, ns) = run(Profile::OPTANE_100, loads(0..lines));
        let (both, ns_both) = run(Profile::OPTANE_100, loads((0..lines).chain(0..lines)));
        (both - once, ns_both - ns)
    };
    let (hot, ns) = twice(8192);
    assert_eq!((hot.core_hits, hot.shared_hits, hot.misses, ns), (8192, 0, 0, 0));
    let (warm, ns) = twice(32_768);
    assert_eq!((warm.core_hits, warm.shared_hits, warm.misses, ns), (0, 32_768, 0, 0));
    // Least recently used, in turns, is what never is found.
    let (cold, _) = twice(65_536);
    assert_eq!((cold.core_hits, cold.shared_hits, cold.misses), (0, 0, 65_536));
    // A thread that has the machine to itself has all of the shared cache.
    let alone = Profile::OPTANE_100.shared_by(1);
    let (both, _) = run(alone, loads((0..65_536).chain(0..65_536)));
    assert_eq!((both.shared_hits, both.misses), (65_536, 65_536));
    // What is touched again at once is in the innermost cache, which counts nothing.
    let (traffic, ns) = run(Profile::OPTANE_100, loads([7, 7, 7]));
    assert_eq!((traffic.misses, traffic.core_hits, ns), (1, 0, 305));
}

#[test]
fn a_flush_evicts_the_line_or_keeps_it() {
    let persist = [(Touch::Load, 9), (Touch::Store, 9), (Touch::Flush, 9), (Touch::Fence, 0)];
    let again = || persist.into_iter().chain([(Touch::Load, 9)]);
    let (traffic, ns) = run(Profile::OPTANE_100, persist);
    assert_eq!((traffic.lines_sent, ns), (1, 305 + 62));
    let (traffic, ns) = run(Profile::OPTANE_100, again());
    assert_eq!((traffic.misses, traffic.buffer_hits, ns), (2, 1, 305 + 62 + 713));
    let (traffic, ns) = run(Profile::OPTANE_200, again());
    assert_eq!((traffic.misses, traffic.core_hits, ns), (1, 1, 305 + 62));
    // A line without stores in it is not written, nor waited for.
    let (traffic, ns) =
        run(Profile::OPTANE_200, [(Touch::Load, 9), (Touch::Flush, 9), (Touch::Fence, 0)]);
    assert_eq!((traffic.lines_sent, ns), (0, 305));
    // Stores to one line fetch it once.
    let (traffic, _) = run(Profile::OPTANE_100, [(Touch::Store, 9); 8]);
    assert_eq!((traffic.misses, traffic.core_hits), (1, 0));
    // A store does not wait for its line, but a flush behind it does.
    let (_, ns) = run(Profile::OPTANE_100, [(Touch::Store, 9)]);
    assert_eq!(ns, 0);
    let (_, ns) = run(Profile::OPTANE_100, persist.into_iter().skip(1));
    assert_eq!(ns, 305 + 62);
}

#[test]
fn stores_past_the_cache_are_combined_to_blocks() {
    let past = |lines: &mut dyn Iterator<Item = u64>| {
        let (traffic, _) = run(Profile::OPTANE_100, lines.map(|line| (Touch::StorePast, line)));
        (traffic.lines_sent, traffic.media_writes, traffic.merges, traffic.media_reads)
    };
    // The buffer's share is one set of 16 blocks, which are written when others come.
    assert_eq!(past(&mut (0..400)), (400, 84, 0, 0));
    // Words of a line go together.
    assert_eq!(past(&mut (0..400).flat_map(|line| [line; 8])), (400, 84, 0, 0));
    // A block with one line written is read to complete it.
    assert_eq!(past(&mut (0..100).map(|i| i * 4)), (100, 84, 84, 84));
    // It leaves the cache.
    let (traffic, _) =
        run(Profile::OPTANE_100, [(Touch::Load, 0), (Touch::StorePast, 0), (Touch::Load, 0)]);
    assert_eq!((traffic.misses, traffic.core_hits), (2, 0));
}

#[test]
fn what_is_evicted_with_stores_in_it_is_sent() {
    let lines = 65_536;
    let stores = (0..lines).map(|line| (Touch::Store, line));
    let (traffic, _) = run(Profile::OPTANE_100, stores);
    assert_eq!((traffic.misses, traffic.lines_sent), (lines, lines - 16_384 - 22_528));
}

#[test]
fn threads_share_bandwidth_and_nothing_else() {
    const LINES: u64 = 4096;
    let read = |threads: usize, profile: Profile| {
        let mut processor = Processor::new(&profile, threads).unwrap();
        for i in 0..LINES {
            for thread in 0..threads {
                processor.run(thread, Touch::Prefetch, (thread as u64 * LINES + i) * 4);
            }
        }
        let ns = (0..threads).map(|thread| processor.now(thread)).max().unwrap();
        let traffic: Vec<_> = (0..threads).map(|thread| processor.traffic(thread)).collect();
        assert!(traffic.iter().all(|one| *one == traffic[0]));
        (traffic[0], threads as u64 * LINES * 256 * 1000 / ns)
    };
    let (alone, mb_s) = read(1, Profile::OPTANE_100);
    // Fourteen lines at a time, each of a block of its own.
    assert!((11_700..11_800).contains(&mb_s), "{mb_s}");
    let (beside_others, mb_s) = read(24, Profile::OPTANE_100);
    assert_eq!(alone, beside_others);
    assert!((37_000..38_000).contains(&mb_s), "{mb_s}");
    assert_eq!(Processor::new(&Profile::OPTANE_FLAT, 1).map(|_| ()), None);
}
