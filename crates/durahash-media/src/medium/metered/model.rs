//! A model of a processor's caches and of the medium behind them: where a line is found, and when it is there.
//!
//! A thread has a part of its own of everything that holds lines: the cache of its core, its share of the cache that all
//! cores have, and its share of the medium's buffer. So what is found where depends on nothing but the thread's accesses,
//! and its counts repeat exactly; the times depend on the others as well, by the bandwidth that all share. An innermost
//! cache, for which nothing is counted, answers what is touched again at once.
//!
//! Times are nanoseconds on a clock of the caller's: a real one, or one that stands still but for what the model takes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::cache::Cache;
use super::counts::{AtomicTraffic, add};
use super::profile::Machine;
use crate::medium::{BLOCK_BYTES, LINE_BYTES};

/// Lines of a block.
const BLOCK_LINES: u64 = BLOCK_BYTES / LINE_BYTES;
/// The mark of a line in the caches that has stores in it.
const DIRTY: u64 = 1;
/// Marks of a block in the buffer: one for each line that was written, and one if all its bytes are there.
const WRITTEN: u64 = (1 << BLOCK_LINES) - 1;
const WHOLE: u64 = 1 << BLOCK_LINES;
/// Lines of the innermost cache, one for each place: 32 KiB.
const INNERMOST: usize = 512;
/// Ways of a medium's buffer.
const BUFFER_WAYS: usize = 16;
/// Lines whose writing-back is remembered.
const SETTLING: usize = 16;

/// What all threads share: bytes wait for their turn.
#[derive(Default)]
pub(super) struct Bandwidth {
    reads: Turn,
    writes: Turn,
}

/// A bucket of tokens that holds none: when the bytes before are through, in picoseconds.
#[derive(Default)]
struct Turn(AtomicU64);

impl Turn {
    /// When `bytes` that come at `now` are through, at so many megabytes a second.
    fn claim(&self, bytes: u64, mb_s: u64, now: u64) -> u64 {
        let through = |before: u64| before.max(now * 1000) + bytes * 1_000_000 / mb_s;
        let before = self.0.fetch_update(Relaxed, Relaxed, |before| Some(through(before)));
        before.map_or(0, through) / 1000
    }
}

/// A line, and a time.
#[derive(Clone, Copy, Default)]
struct Due {
    /// The line's number plus one; 0 is none.
    line: u64,
    ns: u64,
}

/// Some lines that something is due for.
struct Awaited {
    of: Vec<Due>,
    /// How many of them are lines.
    count: usize,
}

impl Awaited {
    fn new(count: usize) -> Self {
        Awaited { of: vec![Due::default(); count], count: 0 }
    }

    /// When the first of them is due, in whose place the next comes.
    fn first(&self) -> u64 {
        self.of.iter().map(|due| due.ns).min().unwrap_or(0)
    }

    fn add(&mut self, line: u64, ns: u64) {
        if let Some(first) = self.of.iter_mut().min_by_key(|due| due.ns) {
            self.count += usize::from(first.line == 0);
            *first = Due { line: line + 1, ns };
        }
    }

    /// The line is there, or need not be waited for.
    fn forget(&mut self, line: u64) {
        for due in &mut self.of {
            if due.line == line + 1 {
                due.line = 0;
                self.count -= 1;
            }
        }
    }

    /// When the last of the lines that `is` one of those asked for is due; 0 if none is.
    fn due(&self, is: impl Fn(u64) -> bool) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let of_lines = self.of.iter().filter(|due| due.line > 0 && is(due.line - 1));
        of_lines.map(|due| due.ns).max().unwrap_or(0)
    }
}

/// What one thread has.
pub(super) struct Thread {
    machine: Machine,
    /// Lines in the innermost cache: the number plus one, twice, and one more if it is known to be marked [`DIRTY`].
    innermost: Box<[u64; INNERMOST]>,
    core: Cache,
    shared: Cache,
    /// The medium's buffer, of blocks.
    buffer: Cache,
    /// Lines on their way to the core.
    coming: Awaited,
    /// Lines that were written back a short time ago, and cannot be read before that.
    settling: Awaited,
    /// The line on its way to the core that was stored to last, plus one.
    stored: u64,
    /// The line that stores past the cache are collected for, plus one.
    collected: u64,
    /// When everything that was flushed is durable.
    durable: u64,
    /// When the latest flush, and the latest line past the cache, leave room for the next.
    flushed: u64,
    passed: u64,
}

impl Thread {
    pub(super) fn new(machine: Machine) -> Self {
        let lines = |bytes: u64| bytes / LINE_BYTES;
        let sharers = u64::from(machine.sharers);
        Thread {
            machine,
            innermost: Box::new([0; INNERMOST]),
            core: Cache::new(lines(machine.core.0), machine.core.1),
            shared: Cache::new(lines(machine.shared.0) / sharers, machine.shared.1),
            buffer: Cache::new(machine.buffer_blocks / sharers, BUFFER_WAYS),
            coming: Awaited::new(machine.outstanding),
            settling: Awaited::new(SETTLING),
            stored: 0,
            collected: 0,
            durable: 0,
            flushed: 0,
            passed: 0,
        }
    }

    /// True if the innermost cache has the line, with the mark `marks`.
    #[inline]
    fn is_innermost(&self, line: u64, marks: u64) -> bool {
        let has = self.innermost[line as usize % INNERMOST];
        has >> 1 == line + 1 && has & marks == marks
    }

    fn put_innermost(&mut self, line: u64, marks: u64) {
        self.innermost[line as usize % INNERMOST] = (line + 1) << 1 | marks;
    }

    fn drop_innermost(&mut self, line: u64) {
        if self.is_innermost(line, 0) {
            self.innermost[line as usize % INNERMOST] = 0;
        }
        if self.stored == line + 1 {
            self.stored = 0;
        }
    }
}

/// A line on its way to the core.
struct Fetch {
    /// When that begins; 0 if nothing has to wait for it.
    begun: u64,
    /// When it is there; 0 if it was.
    due: u64,
    /// Its marks in the caches.
    marks: u64,
}

/// Accesses of a thread, with the bandwidth that it shares, where they are counted, and its clock, which is asked only where
/// something waits.
pub(super) struct Access<'a> {
    pub(super) thread: &'a mut Thread,
    pub(super) bandwidth: &'a Bandwidth,
    pub(super) traffic: &'a AtomicTraffic,
    pub(super) now: &'a dyn Fn() -> u64,
}

impl Access<'_> {
    /// Loads from a line. When it is there; 0 if there is nothing to wait for.
    #[inline]
    pub(super) fn load(&mut self, line: u64) -> u64 {
        if self.thread.is_innermost(line, 0) {
            return 0;
        }
        let Fetch { due, marks, .. } = self.fetch(line, 0);
        if due > 0 {
            // The caller waits for it.
            self.thread.coming.forget(line);
            self.thread.put_innermost(line, marks);
        }
        due
    }

    /// Stores to a line, which is fetched meanwhile. When that can begin.
    #[inline]
    pub(super) fn store(&mut self, line: u64) -> u64 {
        if self.thread.is_innermost(line, 0) {
            if !self.thread.is_innermost(line, DIRTY) {
                self.thread.core.replace_marks(line, DIRTY);
                self.thread.put_innermost(line, DIRTY);
            }
            return 0;
        }
        if self.thread.stored == line + 1 {
            return 0;
        }
        let Fetch { begun, due, .. } = self.fetch(line, DIRTY);
        self.thread.stored = if due > 0 { line + 1 } else { 0 };
        begun
    }

    /// Begins to fetch a line. When that can begin.
    #[inline]
    pub(super) fn prefetch(&mut self, line: u64) -> u64 {
        if self.thread.is_innermost(line, 0) { 0 } else { self.fetch(line, 0).begun }
    }

    /// Brings a line to the core.
    fn fetch(&mut self, line: u64, marks: u64) -> Fetch {
        let Thread { core, shared, coming, .. } = self.thread;
        let fetch = if let Some(had) = core.touch(line, marks) {
            add(&self.traffic.core_hits, 1);
            Fetch { begun: 0, due: coming.due(|one| one == line), marks: had | marks }
        } else {
            let fetch = if let Some(had) = shared.remove(line) {
                add(&self.traffic.shared_hits, 1);
                Fetch { begun: 0, due: 0, marks: had | marks }
            } else {
                add(&self.traffic.misses, 1);
                let (begun, due) = self.read(line);
                Fetch { begun, due, marks }
            };
            self.insert(line, fetch.marks);
            fetch
        };
        if fetch.due == 0 {
            self.thread.put_innermost(line, fetch.marks);
        }
        fetch
    }

    /// Puts a line into the cache of the core; what has to go is then in the shared one, and what has to go there is written.
    fn insert(&mut self, line: u64, marks: u64) {
        let Some((evicted, marks)) = self.thread.core.insert(line, marks) else { return };
        self.thread.drop_innermost(evicted);
        if let Some((gone, DIRTY)) = self.thread.shared.insert(evicted, marks) {
            self.write(gone, (self.now)());
        }
    }

    /// Reads a line from the medium. When that begins, as a core waits for so many lines at most, and when it is there.
    fn read(&mut self, line: u64) -> (u64, u64) {
        let machine = self.thread.machine;
        let begun = (self.now)().max(self.thread.coming.first());
        let block = line / BLOCK_LINES;
        let written = 1 << (line % BLOCK_LINES);
        let mut due = begun;
        let is_near = match self.thread.buffer.touch(block, 0) {
            Some(had) => {
                let near = had & (WHOLE | written) != 0;
                if near {
                    // The block may be on its way itself.
                    due = self.thread.coming.due(|one| one / BLOCK_LINES == block);
                    add(&self.traffic.buffer_hits, 1);
                } else {
                    self.thread.buffer.touch(block, WHOLE);
                }
                near
            }
            None => {
                due = self.insert_block(block, WHOLE, begun);
                false
            }
        };
        due = due.max(begun + if is_near { machine.near_ns } else { machine.far_ns });
        if !is_near || !machine.whole_blocks {
            due = due.max(self.media_read(begun));
        }
        if machine.settle_ns > 0 {
            due = due.max(self.thread.settling.due(|one| one == line));
        }
        self.thread.coming.add(line, due);
        (begun, due)
    }

    /// Puts a block into the buffer that is not there. When the one that had to go is written.
    fn insert_block(&mut self, block: u64, marks: u64, now: u64) -> u64 {
        let Some((_, gone)) = self.thread.buffer.insert(block, marks) else { return 0 };
        let (machine, lines) = (self.thread.machine, u64::from((gone & WRITTEN).count_ones()));
        if lines == 0 {
            return 0;
        }
        if machine.whole_blocks && gone & WHOLE == 0 && lines < BLOCK_LINES {
            add(&self.traffic.merges, 1);
            self.media_read(now);
        }
        let (writes, bytes) =
            if machine.whole_blocks { (1, BLOCK_BYTES) } else { (lines, lines * LINE_BYTES) };
        add(&self.traffic.media_writes, writes);
        self.bandwidth.writes.claim(bytes, machine.write_mb_s, now)
    }

    /// Reads one unit behind the buffer. When it is through.
    fn media_read(&mut self, now: u64) -> u64 {
        let machine = self.thread.machine;
        add(&self.traffic.media_reads, 1);
        let bytes = if machine.whole_blocks { BLOCK_BYTES } else { LINE_BYTES };
        self.bandwidth.reads.claim(bytes, machine.read_mb_s, now)
    }

    /// Sends a line to the medium's buffer. When there is room for it.
    fn write(&mut self, line: u64, now: u64) -> u64 {
        add(&self.traffic.lines_sent, 1);
        let (block, written) = (line / BLOCK_LINES, 1 << (line % BLOCK_LINES));
        match self.thread.buffer.touch(block, written) {
            Some(_) => 0,
            None => self.insert_block(block, written, now),
        }
    }

    /// Writes a line back, if it has stores in it.
    pub(super) fn flush(&mut self, line: u64) {
        let thread = &mut *self.thread;
        let evicts = thread.machine.flush_evicts;
        thread.drop_innermost(line);
        let Thread { core, shared, .. } = thread;
        let take = |cache: &mut Cache| {
            if evicts { cache.remove(line) } else { cache.replace_marks(line, 0) }
        };
        let had = take(core).or_else(|| take(shared));
        if had != Some(DIRTY) {
            return;
        }
        let now = (self.now)().max(self.thread.coming.due(|one| one == line));
        let room = self.write(line, now);
        let (takes, gap) = self.thread.machine.flush_ns;
        let flushed = (now + takes).max(self.thread.flushed + gap).max(room);
        self.thread.flushed = flushed;
        self.sent(line, flushed);
    }

    /// Stores a word of a line past the cache; words of the same line go together.
    pub(super) fn store_past(&mut self, line: u64) {
        let thread = &mut *self.thread;
        if thread.collected == line + 1 {
            return;
        }
        thread.collected = line + 1;
        thread.drop_innermost(line);
        if thread.core.remove(line).is_none() {
            thread.shared.remove(line);
        }
        let now = (self.now)();
        let room = self.write(line, now);
        let (takes, gap) = self.thread.machine.past_ns;
        let passed = (now + takes).max(self.thread.passed + gap).max(room);
        self.thread.passed = passed;
        self.sent(line, passed);
    }

    /// A line is durable at `ns`.
    fn sent(&mut self, line: u64, ns: u64) {
        let thread = &mut *self.thread;
        thread.durable = thread.durable.max(ns);
        if thread.machine.settle_ns > 0 {
            thread.settling.add(line, ns + thread.machine.settle_ns);
        }
    }

    /// When all that was flushed is durable; 0 if nothing was since the last fence.
    pub(super) fn fence(&mut self) -> u64 {
        self.thread.collected = 0;
        std::mem::take(&mut self.thread.durable)
    }
}
