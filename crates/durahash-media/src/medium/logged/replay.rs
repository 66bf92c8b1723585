//! Lines of a log, shown in the image.
//!
//! Lines that follow one another in a log lie anywhere in the pool, and of those that are the same bytes of
//! it the last one counts. Most of the work is to wait for memory: a page is copied when a line of it is
//! shown for the first time, and each line is another one. So pages are dealt out to a few threads, each
//! of which shows the lines of its own in the order of the log, while what follows is read and checked. A
//! short log is shown by the thread that reads it. Shown lines are noted, 16 bytes for each page, so
//! that the same lines are written to the pool later, from the image.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::{fmt, io, mem};

use super::disk::Disk;
use super::format::Line;
use crate::error::Result;
use crate::medium::process::spawn_scoped;
use crate::medium::{LINE_BYTES, prefetch_line};

/// Lines that are handed to a thread at a time: 1.1 MiB of them.
const BATCH_LINES: usize = 1 << 14;
/// Threads that show lines, at the most.
const THREADS_MAX: usize = 4;
/// Lines that are fetched ahead.
const AHEAD: usize = 12;
/// Lines that one word of bits tells of: those of a page of 4 KiB.
const GROUP_LINES: u64 = 64;

type Batch = Vec<(u64, Line)>;
/// Which lines were shown of each group that has any, by its number.
type Groups = HashMap<u64, u64, BuildHasherDefault<NumberHasher>>;

/// The lines that were shown.
#[derive(Default)]
pub(super) struct Replayed(Groups);

/// Lines on their way into the image of `disk`.
pub(super) struct Replaying<'s, 'e, D> {
    disk: &'e D,
    scope: &'s Scope<'s, 'e>,
    parts: Vec<Part<'s>>,
}

/// The groups of one thread.
#[derive(Default)]
struct Part<'s> {
    gathered: Batch,
    /// The lines that were shown without a thread.
    groups: Groups,
    shower: Option<Shower<'s>>,
}

/// A thread that shows batches, one after the other, and gives them back empty.
struct Shower<'s> {
    batches: SyncSender<Batch>,
    used: Receiver<Batch>,
    thread: ScopedJoinHandle<'s, Groups>,
}

/// Numbers need no better one: hostile ones make only the opening of their own pool slow.
#[derive(Default)]
struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u64(&mut self, v: u64) {
        let product = u128::from(self.0 ^ v) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl fmt::Debug for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: u32 = self.0.values().map(|bits| bits.count_ones()).sum();
        write!(f, "{lines} lines")
    }
}

impl Replayed {
    /// All lines that `f` puts, which are in the image when this returns. Where `f` fails, some are.
    ///
    /// # Errors
    /// Those of `f`.
    pub(super) fn gather<D: Disk>(
        disk: &D,
        f: impl FnOnce(&mut Replaying<'_, '_, D>) -> Result<()>,
    ) -> Result<Replayed> {
        // Asked once: the answer takes reading several files of the system.
        static THREADS: OnceLock<usize> = OnceLock::new();
        let threads = *THREADS.get_or_init(|| {
            thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
        });
        thread::scope(|scope| {
            let parts = (0..threads).map(|_| Part::default()).collect();
            let mut replaying = Replaying { disk, scope, parts };
            f(&mut replaying)?;
            Ok(replaying.finish())
        })
    }

    /// The offsets of the lines that were shown, in the order of the pool.
    pub(super) fn lines(&self) -> impl Iterator<Item = u64> + use<> {
        let mut groups: Vec<(u64, u64)> = self.0.iter().map(|(n, bits)| (*n, *bits)).collect();
        groups.sort_unstable();
        groups.into_iter().flat_map(|(group, bits)| {
            let replayed = (0..GROUP_LINES).filter(move |i| (bits >> i) & 1 == 1);
            replayed.map(move |i| (group * GROUP_LINES + i) * LINE_BYTES)
        })
    }
}

impl<'s, 'e, D: Disk> Replaying<'s, 'e, D> {
    /// The line at `off` of the pool is this one from now on.
    pub(super) fn put(&mut self, off: u64, line: &Line) {
        let group = off / LINE_BYTES / GROUP_LINES;
        // A group has one thread, so that its lines stay in the order of the log.
        let at = (group % self.parts.len() as u64) as usize;
        let part = &mut self.parts[at];
        part.gathered.push((off, *line));
        if part.gathered.len() == BATCH_LINES {
            part.hand_over(self.disk, self.scope);
        }
    }

    fn finish(self) -> Replayed {
        let mut all = Groups::default();
        for Part { gathered, mut groups, shower } in self.parts {
            if let Some(Shower { batches, thread, .. }) = shower {
                drop(batches);
                groups = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            }
            show(self.disk, &gathered, &mut groups);
            all.extend(groups);
        }
        Replayed(all)
    }
}

impl<'s> Part<'s> {
    /// Lets what is gathered be shown; here, if there is no thread to be had.
    fn hand_over<'e, D: Disk>(&mut self, disk: &'e D, scope: &'s Scope<'s, 'e>) {
        if self.shower.is_none() && self.groups.is_empty() {
            self.shower = Shower::start(disk, scope).ok();
        }
        let Some(Shower { batches, used, .. }) = &self.shower else {
            show(disk, &self.gathered, &mut self.groups);
            return self.gathered.clear();
        };
        let empty = used.try_recv().unwrap_or_default();
        // It listens as long as it lives, and how it has died is told in the end.
        let _ = batches.send(mem::replace(&mut self.gathered, empty));
    }
}

impl<'s> Shower<'s> {
    fn start<'e, D: Disk>(disk: &'e D, scope: &'s Scope<'s, 'e>) -> io::Result<Shower<'s>> {
        let (batches, receive) = sync_channel::<Batch>(2);
        let (give_back, used) = channel();
        let thread = spawn_scoped(scope, "durahash-show", move || {
            let mut groups = Groups::default();
            for mut batch in receive {
                show(disk, &batch, &mut groups);
                batch.clear();
                // The receiver is gone where all was read.
                let _ = give_back.send(batch);
            }
            groups
        })?;
        Ok(Shower { batches, used, thread })
    }
}

/// Shows lines in the image, and notes them.
fn show<D: Disk>(disk: &D, lines: &[(u64, Line)], groups: &mut Groups) {
    for (i, (off, line)) in lines.iter().enumerate() {
        if let Some((ahead, _)) = lines.get(i + AHEAD)
            && let Ok(words) = disk.region().words(*ahead, 1)
        {
            prefetch_line(words.as_ptr().cast());
        }
        disk.show_line(*off, line);
        let number = off / LINE_BYTES;
        *groups.entry(number / GROUP_LINES).or_default() |= 1 << (number % GROUP_LINES);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::medium::sim::{SimDisk, faults};

    /// By threads, and where there are none.
    #[test]
    fn the_last_of_each_line_is_shown_and_noted_in_the_order_of_the_pool() {
        const POOL_BYTES: u64 = 64 << 10;
        let disk = SimDisk::new(POOL_BYTES, 0, false);
        disk.grow(POOL_BYTES).unwrap();
        // More than are handed over at a time.
        let count = 20 * BATCH_LINES as u64 + 1000;
        let line_at = |v: u64| (count - v) * 3 % 700 + 1;
        for first in [0, count] {
            let refused = Rc::new(Cell::new(0));
            if first > 0 {
                let refused = Rc::clone(&refused);
                let refuse = move || refused.set(refused.get() + 1);
                faults::NO_THREADS.set(Some(Box::new(refuse)));
            }
            let replayed = Replayed::gather(&disk, |replaying| {
                (0..count).for_each(|v| replaying.put(line_at(v) * LINE_BYTES, &[first + v; 8]));
                Ok(())
            });
            faults::NO_THREADS.set(None);
            assert_eq!(refused.get() > 0, first > 0);
            let found: Vec<u64> = replayed.unwrap().lines().map(|off| off / LINE_BYTES).collect();
            assert_eq!(found, (1..=700).collect::<Vec<_>>());
            for line in found {
                let last = first + (0..count).rev().find(|v| line_at(*v) == line).unwrap();
                let words = disk.region().words(line * LINE_BYTES, 8).unwrap();
                assert!(words.iter().all(|word| word.load() == last), "line {line}");
            }
        }
    }
}
