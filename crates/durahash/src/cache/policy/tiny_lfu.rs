//! By frequency: W-TinyLFU (Einziger, Friedman and Manes, ACM Transactions on Storage 13, 2017) over first-in, first-out
//! queues, whose hits move nothing.
//!
//! A new entry comes into a window, a tenth of all. From its end it is held against an entry of the main queue, of the
//! oldest three the one whose key came least of late; the others go round once more. It stays in place of that one if it
//! was hit in the window or its key came more often, and else is the victim. The frequencies are also those of keys that
//! went: what comes again and again stays in the end.

use super::frequencies::{Frequencies, Rows};
use super::queue::Queue;
use super::sharded::Queues;

/// The part of the entries that the window has: one in so many.
const WINDOW_PART: usize = 10;
/// How many of the main queue are looked at.
const OLDEST: usize = 3;

#[derive(Default)]
pub(super) struct TinyLfu {
    window: Queue,
    main: Queue,
}

impl Queues for TinyLfu {
    type Table = Frequencies;

    fn insert(&mut self, hash: u64, frequencies: &Frequencies) {
        frequencies.came(hash);
        self.push(hash);
    }

    fn pop(&mut self, frequencies: &Frequencies) -> Option<u64> {
        // A shard that new entries do not come to keeps a part of its window.
        if self.window.len() <= self.len() / WINDOW_PART * 3 / 4 {
            return self.main.pop().or_else(|| self.window.pop());
        }
        let rows = frequencies.rows();
        let Some(candidate) = self.window.pop() else { return self.main.pop() };
        let Some((victim, least)) = self.rarest(rows) else { return Some(candidate) };
        let (count, is_used) = rows.take_used(candidate);
        let stays = is_used || count > least;
        let (kept, gone) = if stays { (candidate, victim) } else { (victim, candidate) };
        self.main.push(kept);
        // What the next pop asks for, which is a while away where there are several shards.
        [self.window.peek(0), self.main.peek(0), self.main.peek(1), self.main.peek(2)]
            .into_iter()
            .flatten()
            .for_each(|hash| rows.fetch(hash));
        Some(gone)
    }

    fn each(&self, frequencies: &Frequencies, f: &mut dyn FnMut(u64, u8)) {
        let rows = frequencies.rows();
        for queue in [&self.main, &self.window] {
            queue.each(&mut |hash| f(hash, rows.get(hash) as u8));
        }
    }

    fn restore(&mut self, hash: u64, known: u8, frequencies: &Frequencies) {
        (0..known).for_each(|_| frequencies.came(hash));
        self.push(hash);
    }

    fn len(&self) -> usize {
        self.window.len() + self.main.len()
    }

    fn retain(&mut self, keep: &mut dyn FnMut(u64) -> bool) {
        self.window.retain(keep);
        self.main.retain(keep);
    }

    fn bytes(&self) -> usize {
        self.window.bytes() + self.main.bytes()
    }
}

impl TinyLfu {
    fn push(&mut self, hash: u64) {
        self.window.push(hash);
        // While nothing is evicted, the window's excess is the main queue's.
        while self.window.len() > self.len() / WINDOW_PART + 1 {
            let Some(oldest) = self.window.pop() else { return };
            self.main.push(oldest);
        }
    }

    /// Takes that one of the oldest of the main queue whose key came least; and how often that was.
    fn rarest(&mut self, rows: Rows<'_>) -> Option<(u64, u16)> {
        let (mut oldest, count) = ([0; OLDEST], OLDEST.min(self.main.len()));
        for hash in &mut oldest[..count] {
            *hash = self.main.pop_to_push()?;
        }
        // All are asked for before any is compared: their lines come at once.
        let [one, two, three] = oldest;
        let counts = [rows.get(one), rows.get(two), rows.get(three)];
        let mut rarest = 0;
        for i in 1..count {
            let is_rarer = counts[i] < counts[rarest];
            let kept = if is_rarer { std::mem::replace(&mut rarest, i) } else { i };
            self.main.push(oldest[kept]);
        }
        (count > 0).then(|| (oldest[rarest], counts[rarest]))
    }
}
