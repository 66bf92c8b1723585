//! By frequency: W-TinyLFU (Einziger, Friedman and Manes, ACM Transactions on Storage 13, 2017) over first-in, first-out
//! queues, whose hits move nothing.
//!
//! A new entry comes into a window. From its end it is held against the next to go of the main queue: the oldest that was not
//! hit since it was looked at last; the others go round once more. It stays in place of that one if its key came
//! more often of late, or as often and it was hit in the window, and else is the victim. The frequencies are also those
//! of keys that went: what comes again and again stays in the end.
//!
//! The window grows and shrinks with what comes again of what went ([`window`](super::window)). While it is wide, what was used last comes
//! again soon: then an entry stays if it was hit in the window, or if its key came as often.

use super::frequencies::{Frequencies, Rows};
use super::queue::Queue;
use super::sharded::Queues;
use super::table::Table;
use super::window::{Origin, Window};

/// The most of the main queue that go round for one victim.
const ROUND: usize = 12;
/// What is saved of an entry that was hit, beside how often its key came: that counts up to 3.
const USED: u8 = 4;

#[derive(Default)]
pub(super) struct TinyLfu {
    window: Queue,
    main: Queue,
    share: Window,
}

impl Queues for TinyLfu {
    type Table = Frequencies;

    fn insert(&mut self, hash: u64, frequencies: &Frequencies) {
        frequencies.came(hash);
        self.share.came(hash, self.len() + 1);
        self.push(hash);
    }

    fn pop(&mut self, frequencies: &Frequencies) -> Option<u64> {
        let (rows, entries) = (frequencies.rows(), self.len());
        // A window that is to grow does, and that of a shard to which none come keeps a part.
        let is_short = self.window.len() <= self.share.size(entries) * 3 / 4;
        let candidate = if is_short { None } else { self.window.pop() };
        let (gone, from) = match (candidate, self.oldest(rows)) {
            (Some(candidate), Some((victim, least))) => {
                let (count, is_used) = rows.take_used(candidate);
                let stays = if self.share.is_wide() {
                    is_used || count >= least
                } else {
                    count + u16::from(is_used) > least
                };
                self.main.push(if stays { candidate } else { victim });
                if stays { (victim, Origin::Main) } else { (candidate, Origin::Window) }
            }
            (None, Some((victim, _))) => {
                self.main.shrink();
                (victim, Origin::Main)
            }
            (candidate, None) => (candidate.or_else(|| self.window.pop())?, Origin::Window),
        };
        self.share.went(gone, from, entries);
        // What the next pop asks for, which is a while away where there are several shards.
        [self.window.peek(0), self.main.peek(0), self.main.peek(1)]
            .into_iter()
            .flatten()
            .for_each(|hash| rows.fetch(hash));
        Some(gone)
    }

    fn each(&self, frequencies: &Frequencies, f: &mut dyn FnMut(u64, u8)) {
        let rows = frequencies.rows();
        for queue in [&self.main, &self.window] {
            queue.each(&mut |hash| {
                let (count, is_used) = rows.get(hash);
                f(hash, count.min(3) as u8 | if is_used { USED } else { 0 });
            });
        }
    }

    fn restore(&mut self, hash: u64, known: u8, frequencies: &Frequencies) {
        let is_used = known & USED > 0;
        (u8::from(is_used)..known & !USED).for_each(|_| frequencies.came(hash));
        if is_used {
            frequencies.hit(hash);
        }
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
        self.window.bytes() + self.main.bytes() + self.share.bytes()
    }
}

impl TinyLfu {
    fn push(&mut self, hash: u64) {
        self.window.push(hash);
        // While nothing is evicted, the window's excess is the main queue's.
        while self.window.len() > self.share.size(self.len()) + 1 {
            let Some(oldest) = self.window.pop() else { return };
            self.main.push(oldest);
        }
    }

    /// Takes the next to go of the main queue, and how often its key came: the oldest that was not hit, or that one of the oldest
    /// whose key came least.
    fn oldest(&mut self, rows: Rows<'_>) -> Option<(u64, u16)> {
        let mut rarest: Option<(u64, u16)> = None;
        for _ in 0..ROUND.min(self.main.len()) {
            let hash = self.main.pop_to_push()?;
            let (count, is_used) = rows.take_used(hash);
            let is_rarer = !is_used || rarest.is_none_or(|(_, least)| count < least);
            let goes_round = if is_rarer {
                rarest.replace((hash, count)).map(|(other, _)| other)
            } else {
                Some(hash)
            };
            goes_round.into_iter().for_each(|hash| self.main.push(hash));
            if !is_used {
                break;
            }
        }
        rarest
    }
}
