use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::*;
use crate::medium::logged::area::LogArea;
use crate::medium::logged::disk::Disk;
use crate::medium::sim::{DiskImage, DiskStep, SimDisk};
use crate::medium::{Line, Medium, SyncMode};

const POOL_BYTES: u64 = 64 << 10;
const AREA_BYTES: u64 = 16 * 4096;

fn empty(mode: SyncMode) -> (SimDisk, Live<SimDisk>) {
    let disk = SimDisk::new(POOL_BYTES, AREA_BYTES, false);
    let medium = disk.clone().create_live(mode, AREA_BYTES).unwrap();
    medium.grow(POOL_BYTES).unwrap();
    (disk, medium)
}

fn open(image: DiskImage, mode: SyncMode) -> Result<(SimDisk, Live<SimDisk>)> {
    let disk = SimDisk::resume(image, Vec::new(), POOL_BYTES, false);
    let medium = disk.clone().open_live(mode)?;
    medium.begin()?;
    Ok((disk, medium))
}

fn word<M: Medium>(medium: &M, off: u64) -> &PmU64 {
    medium.region().at(off).unwrap()
}

fn put<M: Medium>(medium: &M, line: u64, v: u64) {
    medium.store(word(medium, line * 64), v);
}

fn get<M: Medium>(medium: &M, line: u64) -> u64 {
    medium.load(word(medium, line * 64))
}

#[test]
fn a_kill_loses_nothing_and_the_loss_of_power_what_no_snapshot_has() {
    let (disk, medium) = empty(SyncMode::INTERVAL);
    (1..20).for_each(|line| put(&medium, line, line));
    medium.steps().write().unwrap();
    (10..30).for_each(|line| put(&medium, line, 100 + line));
    let image = disk.image();
    let (_, killed) = open(image.clone(), SyncMode::INTERVAL).unwrap();
    let want = |line: u64| if line < 10 { line } else { 100 + line };
    assert!((1..30).all(|line| get(&killed, line) == want(line)));
    let (_, lost) = open(image.of_next_boot(), SyncMode::INTERVAL).unwrap();
    assert!((1..30).all(|line| get(&lost, line) == if line < 20 { line } else { 0 }));
}

#[test]
fn what_was_drained_in_strict_survives_the_loss_of_power() {
    let (disk, medium) = empty(SyncMode::Strict);
    for line in 1..200 {
        put(&medium, line, line);
        medium.drain();
        // Not drained: it may be there or not, but only with what came before.
        put(&medium, 200, line);
    }
    let (_, lost) = open(disk.image().of_next_boot(), SyncMode::Strict).unwrap();
    assert!((1..200).all(|line| get(&lost, line) == line) && get(&lost, 200) == 198);
    assert!(medium.log_stats().unwrap().checkpoints > 2, "the ring was gone round");
}

/// Processes that are killed over and over leave marks of any age; what comes after them is snapped and checkpointed.
#[test]
fn killed_over_and_over() {
    let (mut disk, mut medium) = empty(SyncMode::INTERVAL);
    let mut want = [0; 300];
    for round in 0..600_u64 {
        for i in 0..round % 7 {
            let line = (round * 31 + i * 17) % 300;
            want[line as usize] = round;
            put(&medium, line + 1, round);
        }
        if round % 5 == 0 {
            medium.steps().write().unwrap();
        }
        if round % 11 == 0 {
            medium.steps().checkpoint().unwrap();
        }
        if round % 3 == 0 {
            (disk, medium) = open(disk.image(), SyncMode::INTERVAL).unwrap();
        }
        if round % 50 == 0 {
            medium.steps().write().unwrap();
            (disk, medium) = open(disk.image().of_next_boot(), SyncMode::INTERVAL).unwrap();
        }
        let wrong = (0..300).find(|line| get(&medium, line + 1) != want[*line as usize]);
        assert_eq!(wrong, None, "round {round}");
    }
    assert!(medium.core.head().at.batch > 100);
}

/// More than the ring has room for, in one batch and in many, with and without a checkpoint that waits for it.
#[test]
fn a_batch_that_is_too_long_spills_and_a_full_ring_is_left_by_the_way_out() {
    let (disk, medium) = empty(SyncMode::INTERVAL);
    // Kept from taking snapshots by itself.
    let lines = POOL_BYTES / 64 - 1;
    let store = |v: u64| (1..=lines).for_each(|line| put(&medium, line, v * 10_000 + line));
    for v in 1..6 {
        store(v);
        medium.steps().write().unwrap();
        let (_, lost) = open(disk.image().of_next_boot(), SyncMode::INTERVAL).unwrap();
        assert!((1..=lines).all(|line| get(&lost, line) == v * 10_000 + line), "{v}");
    }
    let steps = disk.steps();
    assert!(steps.iter().any(|step| matches!(step, DiskStep::Line { .. })));
    medium.trim(POOL_BYTES).unwrap();
    let closed = disk.image();
    assert!(closed.spills.is_empty());
    let (_, again) = open(closed.of_next_boot(), SyncMode::INTERVAL).unwrap();
    assert!((1..=lines).all(|line| get(&again, line) == 50_000 + line));
}

#[test]
fn a_batch_of_more_than_half_a_ring_lies_in_a_file() {
    let (disk, medium) = empty(SyncMode::INTERVAL);
    let ring = medium.core.head().ring_bytes;
    let lines = ring / 2 / 72 + 20;
    medium.core.pass(1, lines, || {
        (1..=lines).for_each(|line| word(&medium, line * 64).store(line));
    });
    medium.steps().write().unwrap();
    let image = disk.image();
    assert_eq!(image.spills.len(), 1);
    let (_, lost) = open(image.clone().of_next_boot(), SyncMode::INTERVAL).unwrap();
    assert!((1..=lines).all(|line| get(&lost, line) == line));
    // Who moves a pool moves this file, too.
    let without = DiskImage { spills: Default::default(), ..image };
    let refused = open(without.of_next_boot(), SyncMode::INTERVAL).err().unwrap();
    assert!(matches!(refused.kind(), ErrorKind::Corrupt { .. }), "{refused}");
}

/// A later checkpoint writes no page of these, nor its check words.
#[test]
fn behind_a_way_out_nothing_waits_for_a_checkpoint() {
    let (_, medium) = empty(SyncMode::INTERVAL);
    (1..200).for_each(|line| put(&medium, line, line));
    medium.steps().write().unwrap();
    let last = medium.core.taker.lock().unwrap().last;
    medium.core.make_room(last).unwrap();
    assert_eq!(medium.core.applied.lock().unwrap().take().1, []);
}

/// What the ring holds stays at its place when it gets longer, wherever in a lap it lies.
#[test]
fn a_ring_gets_longer_around_what_it_holds() {
    for before in 0..20 {
        let disk = SimDisk::new(POOL_BYTES, 2 * AREA_BYTES, false);
        let medium = disk.clone().create_live(SyncMode::INTERVAL, AREA_BYTES).unwrap();
        medium.grow(POOL_BYTES).unwrap();
        let short = medium.core.head().ring_bytes;
        let put_all = |v: u64| {
            (1..=3).for_each(|line| put(&medium, line, v * 10 + line));
            medium.steps().write().unwrap();
            for image in [disk.image(), disk.image().of_next_boot()] {
                let (_, found) = open(image, SyncMode::INTERVAL).unwrap();
                assert!((1..=3).all(|line| get(&found, line) == v * 10 + line), "{before} {v}");
            }
        };
        for v in 0..before {
            put_all(v);
            if v % 3 == 0 {
                assert!(medium.core.checkpoint(false));
            }
        }
        let head = medium.core.head();
        let in_one_lap = medium.core.end.load(Ordering::Relaxed) <= head.lap().end;
        medium.core.extend();
        let got_longer = medium.core.head().ring_bytes > short;
        assert_eq!(got_longer, in_one_lap);
        assert_eq!(medium.core.head().at, head.at, "nothing was written to the base for it");
        (before..before + 40).for_each(put_all);
    }
}

/// Also while so much is stored that each checkpoint finds the next one due.
#[test]
fn a_ring_gets_longer_under_constant_load() {
    let disk = SimDisk::new(POOL_BYTES, 4 * AREA_BYTES, false);
    let medium = disk.create_live(SyncMode::INTERVAL, AREA_BYTES).unwrap();
    medium.grow(POOL_BYTES).unwrap();
    let ring = || medium.core.head().ring_bytes;
    let (short, mut checkpoints) = (ring(), 0);
    while ring() == short {
        assert!(checkpoints < 20, "it is as short after {checkpoints} checkpoints");
        while !medium.core.needs_checkpoint() {
            (1..50).for_each(|line| put(&medium, line, checkpoints));
            medium.steps().write().unwrap();
        }
        assert!(medium.core.check_due());
        checkpoints += 1;
        assert_eq!(medium.log_stats().unwrap().checkpoints, checkpoints);
    }
}

#[test]
fn a_change_that_may_wait_is_told_before_it_does() {
    let disk = SimDisk::new(POOL_BYTES, 4 * AREA_BYTES, false);
    let medium = disk.create_live(SyncMode::INTERVAL, 4 * AREA_BYTES).unwrap();
    medium.grow(POOL_BYTES).unwrap();
    let writes = || medium.log_stats().unwrap().writes;
    let (mut before, mut waits) = (writes(), 0);
    assert!(!medium.may_wait());
    for v in 1..3 {
        for line in 1..POOL_BYTES / 64 {
            let told = medium.may_wait();
            put(&medium, line, v);
            if writes() > before {
                assert!(told, "line {line}");
                (before, waits) = (writes(), waits + 1);
            }
        }
    }
    assert!(waits > 0);
    medium.steps().write().unwrap();
    assert!(medium.core.checkpoint(false));
    (1..=64).for_each(|line| put(&medium, line, 3));
    assert!(!medium.may_wait());
}

#[test]
fn a_live_image_that_is_not_the_pools_is_not_trusted() {
    let (disk, medium) = empty(SyncMode::INTERVAL);
    put(&medium, 1, 1);
    medium.steps().write().unwrap();
    let old = disk.image();
    put(&medium, 1, 2);
    medium.steps().write().unwrap();
    put(&medium, 1, 3);
    let now = disk.image();
    let refused = |image: DiskImage| match open(image, SyncMode::INTERVAL) {
        Err(e) => matches!(e.kind(), ErrorKind::NoLiveImage { .. }),
        Ok(_) => false,
    };
    assert!(refused(DiskImage { live: None, ..now.clone() }), "deleted");
    let other = |change: &dyn Fn(&mut crate::medium::sim::LiveState)| {
        let mut image = now.clone();
        change(Arc::make_mut(image.live.as_mut().unwrap()));
        image
    };
    assert!(refused(other(&|live| live.name += 1)), "a copy");
    assert!(refused(other(&|live| live.header[9] ^= 1)), "of another open");
    assert!(refused(other(&|live| live.header[18] = 1)), "bad");
    // An older pool in the place of this one: its log does not lead to the live image's state.
    assert!(refused(DiskImage { live: now.live.clone(), ..old }));
    let (_, whole) = open(now, SyncMode::INTERVAL).unwrap();
    assert_eq!(get(&whole, 1), 3);
}

#[test]
fn a_live_file_that_could_not_be_written_back_ends_it() {
    let (disk, medium) = empty(SyncMode::INTERVAL);
    put(&medium, 1, 1);
    medium.steps().write().unwrap();
    put(&medium, 1, 2);
    disk.set_live_bad(true);
    assert!(medium.steps().write().is_err() && medium.wait_until_durable().is_err());
    let image = disk.image();
    assert!(open(image.clone(), SyncMode::INTERVAL).is_err());
    let (_, lost) = open(image.of_next_boot(), SyncMode::INTERVAL).unwrap();
    assert_eq!(get(&lost, 1), 1);
}

#[test]
fn damage_to_a_noted_batch_is_told_and_to_the_last_one_is_its_end() {
    let (disk, medium) = empty(SyncMode::INTERVAL);
    for v in 1..=3 {
        put(&medium, v, v);
        medium.steps().write().unwrap();
    }
    let image = disk.image().of_next_boot();
    let ring = 2 * 4096;
    for (block, survives) in [(0, None), (1, None), (2, Some(2))] {
        let mut damaged = image.clone();
        damaged.area[ring + block * 4096 + 100] ^= 1;
        match (open(damaged, SyncMode::INTERVAL), survives) {
            (Err(e), None) => assert!(matches!(e.kind(), ErrorKind::Corrupt { .. }), "{e}"),
            (Ok((_, medium)), Some(last)) => {
                assert!((1..=3).all(|v| get(&medium, v) == if v <= last { v } else { 0 }));
            }
            (other, _) => panic!("block {block}: {:?}", other.err()),
        }
    }
}

/// Threads store the next number to one of their lines, and beside it how far they had seen the next thread come. Snapshots,
/// checkpoints and losses of power meanwhile, and kills, behind which others go on at once: what is left has a prefix of each
/// thread's stores, and what these had seen.
#[test]
fn a_loss_of_power_leaves_a_consistent_cut_of_all_threads() {
    const LINES: u64 = 61;
    for (threads, mode, rounds) in [(2, SyncMode::INTERVAL, 60), (3, SyncMode::Strict, 30)] {
        let (mut disk, mut medium) = empty(mode);
        let counts: Vec<AtomicU64> = (0..threads).map(|_| AtomicU64::new(0)).collect();
        let stop = AtomicBool::new(false);
        let line_of = |thread: u64, n: u64| 1 + thread * LINES + n % LINES;
        let check = |image: DiskImage, before: &[u64]| {
            let (_, medium) = open(image.of_next_boot(), mode).unwrap();
            let found = |thread: u64| {
                let all = (0..LINES).map(|i| line_of(thread, i));
                let newest = all.clone().max_by_key(|line| get(&medium, *line)).unwrap();
                let n = get(&medium, newest);
                for line in all {
                    let i = (line - 1 - thread * LINES) % LINES;
                    let want = if n >= i { n - (n - i) % LINES } else { 0 };
                    assert_eq!(get(&medium, line), want, "no prefix of thread {thread} up to {n}");
                }
                (n, medium.load(word(&medium, newest * 64 + 8)))
            };
            let found: Vec<_> = (0..threads).map(found).collect();
            for (thread, (n, seen)) in found.iter().enumerate() {
                assert!(
                    *n >= before[thread],
                    "thread {thread} had come to {}: {n}",
                    before[thread]
                );
                let (other, _) = found[(thread + 1) % found.len()];
                assert!(other >= *seen, "thread {thread} had seen {seen}, there is {other}");
            }
        };
        for _ in 0..3 {
            stop.store(false, Ordering::Relaxed);
            thread::scope(|scope| {
                for thread in 0..threads {
                    let (medium, counts, stop) = (&medium, &counts, &stop);
                    scope.spawn(move || {
                        for n in counts[thread as usize].load(Ordering::Relaxed) + 1.. {
                            let other = &counts[((thread + 1) % threads) as usize];
                            let seen = other.load(Ordering::Acquire);
                            let off = line_of(thread, n) * 64;
                            medium.store(word(medium, off + 8), seen);
                            medium.store(word(medium, off), n);
                            counts[thread as usize].store(n, Ordering::Release);
                            if stop.load(Ordering::Relaxed) {
                                break;
                            }
                        }
                    });
                }
                // Also where something is wrong, so that the threads end.
                let _stops = Stops(&stop);
                for round in 0..rounds / 3 {
                    let before: Vec<u64> =
                        counts.iter().map(|n| n.load(Ordering::Acquire)).collect();
                    medium.sync(0, 0).unwrap();
                    if round % 4 == 0 {
                        medium.steps().checkpoint().unwrap();
                    }
                    check(disk.image(), &before);
                }
            });
            // Its stores may be in no snapshot.
            (disk, medium) = open(disk.image(), mode).unwrap();
        }
    }
}

/// Says so when it is dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A copy in memory. Before each write, and behind each chunk, something happens to the pool.
struct Copy<'a> {
    bytes: Mutex<Vec<u8>>,
    kept: Mutex<Vec<u8>>,
    happens: &'a dyn Fn(),
}

impl Blank for Copy<'_> {
    fn reach(&self, bytes: u64, _hole: std::ops::Range<u64>) -> Result<()> {
        self.bytes.lock().unwrap().resize(bytes as usize, 0);
        Ok(())
    }

    fn write(&self, off: u64, bytes: &[u8]) -> Result<()> {
        (self.happens)();
        self.bytes.lock().unwrap()[off as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn keep(&self, off: u64, bytes: &[u8]) -> Result<()> {
        let mut kept = self.kept.lock().unwrap();
        assert!(off == kept.len() as u64 || off == 0, "behind the last, or anew");
        kept.truncate(off as usize);
        kept.extend_from_slice(bytes);
        Ok(())
    }

    fn kept(&self, off: u64, bytes: &mut [u8]) -> Result<()> {
        bytes.copy_from_slice(&self.kept.lock().unwrap()[off as usize..][..bytes.len()]);
        Ok(())
    }

    fn store_line(&self, off: u64, words: &[u64]) -> Result<()> {
        let mut all = self.bytes.lock().unwrap();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        all[off as usize..][..bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }
}

/// Stores, growth, snapshots, checkpoints and ways out between any two steps of a backup. All that was stored before its
/// cut is in it, as nothing is after it.
#[test]
fn a_backup_has_what_its_cut_has() {
    for seed in 0..60 {
        let disk = SimDisk::new(2 * POOL_BYTES, AREA_BYTES, false);
        let medium = disk.create_live(SyncMode::INTERVAL, AREA_BYTES).unwrap();
        medium.grow(POOL_BYTES).unwrap();
        let random = Cell::new(seed);
        let next = |below: u64| {
            random.set(crate::hash::WordMix::new(seed).mix(random.get() + 1));
            random.get() % below
        };
        let happens = || {
            for _ in 0..next(40) {
                put(&medium, next(medium.region().len() / 64), next(u64::MAX));
            }
            match next(8) {
                0 | 1 => medium.steps().write().unwrap(),
                2 => medium.steps().checkpoint().unwrap(),
                // Batches of which the ring has room for a few.
                3 => (0..3).for_each(|_| {
                    (0..140).for_each(|_| put(&medium, next(POOL_BYTES / 64), next(u64::MAX)));
                    medium.steps().write().unwrap();
                }),
                4 => drop(medium.grow(medium.region().len() + 4096)),
                _ => {}
            }
        };
        (0..20).for_each(|_| happens());
        let copy = Copy { bytes: Mutex::default(), kept: Mutex::default(), happens: &happens };
        let copied = medium.copy_to(&copy, &mut |_, _| happens()).unwrap();
        assert_eq!(copied, CopiedAs::Cut);
        let bytes = copy.bytes.into_inner().unwrap();
        assert_eq!(bytes.len() as u64, medium.region().len());
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let wrong = (0..).step_by(8).zip(words).find(|(off, v)| word(&medium, *off).load() != *v);
        assert_eq!(wrong, None, "seed {seed}");
        assert!(medium.core.base.lock().unwrap().follower.is_none());
    }
}

/// What another process that backs the pool up sees of this one.
struct Seen<'a> {
    disk: &'a SimDisk,
    happens: &'a dyn Fn(),
}

impl beside::Writer for Seen<'_> {
    fn is_there(&self) -> Result<()> {
        (self.happens)();
        Ok(())
    }

    fn pool_bytes(&self) -> Result<u64> {
        Ok(self.disk.region().len())
    }

    /// Which no line says here.
    fn said_bytes(&self, _line: &Line) -> Result<u64> {
        self.pool_bytes()
    }

    fn header(&self) -> Result<[u64; LIVE_WORDS]> {
        Ok(std::array::from_fn(|i| self.disk.header()[i].load()))
    }

    fn is_at_rest(&self, pool_bytes: u64) -> Result<bool> {
        let lines = 0..pool_bytes / 64;
        Ok(self.disk.marks(lines).iter().all(|mark| mark.load(Ordering::Relaxed) == 0))
    }
}

/// The same between any two steps of a backup that nobody in this process knows of. It is the cut of a snapshot, which has all that
/// was stored before.
#[test]
fn a_backup_beside_a_writer_is_one_of_its_cuts() {
    let (mut made, mut made_anew) = (0, 0);
    for seed in 0..200 {
        let disk = SimDisk::new(2 * POOL_BYTES, 2 * AREA_BYTES, false);
        let medium = disk.clone().create_live(SyncMode::INTERVAL, AREA_BYTES).unwrap();
        medium.grow(POOL_BYTES).unwrap();
        let random = Cell::new(seed);
        let next = |below: u64| {
            random.set(crate::hash::WordMix::new(seed).mix(random.get() + 1));
            random.get() % below
        };
        let sum_of = |off: u64, v: u64| crate::hash::WordMix::new(off).mix(v);
        let sum_of = |off, v| if v == 0 { 0 } else { sum_of(off, v) };
        // The sum of all words at the cut of each batch: where a store took the snapshot, before it, too.
        let (now, cuts) = (Cell::new(0_u64), Mutex::new(Vec::new()));
        let note = |before: u64| {
            let batch = medium.core.taker.lock().unwrap().last.batch;
            let mut cuts = cuts.lock().unwrap();
            if cuts.last().is_none_or(|(last, _)| *last < batch) {
                cuts.extend([(batch, before), (batch, now.get())]);
            }
        };
        let put = |line: u64, v: u64| {
            let (off, before) = (line * 64, now.get());
            let had = get(&medium, line);
            put(&medium, line, v);
            now.set(before.wrapping_sub(sum_of(off, had)).wrapping_add(sum_of(off, v)));
            note(before);
        };
        let write = || {
            medium.steps().write().unwrap();
            note(now.get());
        };
        // A third of the writers store little, and take snapshots only when they are waited for.
        let (busy, is_quiet) = (next(12), seed % 3 == 0);
        let happens = || {
            for _ in 0..next(40) {
                put(next(medium.region().len() / 64), next(u64::MAX));
            }
            match next(8) {
                0 | 1 => write(),
                2 => {
                    medium.steps().checkpoint().unwrap();
                    note(now.get());
                }
                // Batches of which the ring has room for a few.
                3 => (0..busy).for_each(|_| {
                    (0..140).for_each(|_| put(next(POOL_BYTES / 64), next(u64::MAX)));
                    write();
                }),
                // Its superblock says so before anything is stored there.
                4 if medium.grow(medium.region().len() + 4096).is_ok() => {
                    put(beside::EXTENTS_LINE / 64, next(u64::MAX));
                }
                _ => {}
            }
        };
        (0..20).for_each(|_| happens());
        if seed % 6 == 0 {
            write();
        }
        let happens_in_copy = || match (is_quiet, next(20)) {
            (false, _) => happens(),
            (true, 0) => put(next(200), next(u64::MAX)),
            _ => {}
        };
        let happens_in_wait = || match (is_quiet, next(4)) {
            (false, _) => happens(),
            (true, 0) => write(),
            _ => {}
        };
        let first = cuts.lock().unwrap().last().map_or(0, |(batch, _)| *batch);
        let seen = Seen { disk: &disk, happens: &|| () };
        let is_marked = !beside::Writer::is_at_rest(&seen, medium.region().len()).unwrap();
        let copy =
            Copy { bytes: Mutex::default(), kept: Mutex::default(), happens: &happens_in_copy };
        let (area, mut rounds, mut had) = (
            LogArea { off: 1 << 40, bytes: 2 * AREA_BYTES, uuid: medium.core.head().uuid },
            0,
            u64::MAX,
        );
        let copied = beside::copy_beside(
            &disk,
            area,
            &Seen { disk: &disk, happens: &happens_in_wait },
            &copy,
            &mut |done, _| {
                rounds += u32::from(done < had);
                had = done;
            },
        );
        if let Err(e) = copied {
            assert!(e.to_string().contains("was written over before"), "seed {seed}: {e}");
            continue;
        }
        made += 1;
        made_anew += u32::from(rounds > 1);
        let bytes = copy.bytes.into_inner().unwrap();
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        let sums = (0..).step_by(8).zip(words).map(|(off, v)| sum_of(off, v));
        let sum = sums.fold(0, u64::wrapping_add);
        let cuts = cuts.into_inner().unwrap();
        let is_cut = cuts
            .iter()
            .any(|(batch, cut)| *cut == sum && (*batch > first || !is_marked && *batch == first));
        assert!(is_cut, "seed {seed}, {} cuts", cuts.len());
    }
    assert!(made > 80 && made_anew > 2, "{made}, {made_anew} of them anew");
}

/// The ring is freed over and over while the backup does nothing: that ends it, and not the pool.
#[test]
fn a_backup_that_is_too_slow_is_given_up() {
    let (disk, medium) = empty(SyncMode::INTERVAL);
    let round = Cell::new(0);
    let fill = || {
        round.set(round.get() + 1);
        for v in 0..40 {
            (1..200).for_each(|line| put(&medium, line, round.get() * 1000 + v));
            medium.steps().write().unwrap();
        }
    };
    put(&medium, 1, 1);
    let copy = Copy { bytes: Mutex::default(), kept: Mutex::default(), happens: &fill };
    let failed = medium.copy_to(&copy, &mut |_, _| ()).unwrap_err();
    assert!(failed.to_string().contains("than the backup's disk takes"), "{failed}");
    let before = disk.image();
    let copy = Copy { bytes: Mutex::default(), kept: Mutex::default(), happens: &|| () };
    medium.copy_to(&copy, &mut |_, _| ()).unwrap();
    let (_, lost) = open(before.of_next_boot(), SyncMode::INTERVAL).unwrap();
    assert!((1..200).all(|line| get(&lost, line) == get(&medium, line)));
}

#[test]
fn readers_beside_strict_are_told_of_what_no_snapshot_has() {
    let (_, medium) = empty(SyncMode::Strict);
    let is_all_durable = || medium.changes().unwrap().is_all_durable();
    // So many that the lowest bytes of epochs come again.
    for v in 1..600 {
        put(&medium, v % 3, v);
        put(&medium, v % 3, v);
        assert!(!is_all_durable());
        medium.drain();
        assert!(is_all_durable());
    }
    medium.defer(true);
    put(&medium, 1, 1);
    medium.drain();
    medium.defer(false);
    assert!(!is_all_durable());
    medium.wait_until_durable().unwrap();
    assert!(is_all_durable());
    put(&medium, 1, 2);
    medium.steps().write().unwrap();
    assert!(is_all_durable(), "what no drain brings to the disk");
    let (_, medium) = empty(SyncMode::INTERVAL);
    put(&medium, 1, 1);
    assert!(medium.changes().unwrap().is_all_durable(), "its own lookups see it");
}
