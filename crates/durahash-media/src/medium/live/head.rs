//! Where a ring of batches goes on from, as its area and the live file say it.
//!
//! ```text
//! 0      4096   8192                          end of what is used      area's end
//! +------+------+---------- ... ----------------+----------- ... ----------+
//! | head | head | ring of batches               | a hole of the file       |
//! +------+------+---------- ... ----------------+----------- ... ----------+
//!
//! head    0  "DURALIVE"     8 generation   16 uuid (2)   32 salt   40 batch   48 place
//!        56  chain (bits 0-31), CRC of the head's 144 bytes without this half word (bits 32-63)
//!        64  closed (bit 0), bad (bit 1)   72 bytes of the ring    80 boot id (2)
//!        96  live file: device, inode, time at which it was made   120 next line of a log of lines: below
//!       128  the pool's file, as the superblock names it        136 place at which the ring begins
//! ```
//!
//! The heads of an area are those of a [line log](crate::medium::logged) or of a ring. They lie at the same places,
//! count the same generations, and the newest sound one says what the area holds: it changes its kind while nothing counts
//! in it. A ring keeps the number of the next line of a line log, as lines are numbered once in a pool's life.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use crate::identity::FileId;
use crate::medium::logged::format::{BLOCK_BYTES, is_sealed, put, seal, word};
use crate::medium::sys;
use crate::word::PmU64;

const HEAD_MAGIC: u64 = u64::from_le_bytes(*b"DURALIVE");
/// Bytes of a head that mean something: one sector has them all.
const HEAD_BYTES: usize = 144;
const HEAD_CRC_AT: usize = 56;
const CLOSED: u64 = 1;
const BAD: u64 = 2;
/// Generations, batches and places are smaller.
const COUNT_MAX: u64 = 1 << 62;

/// Where the ring begins in its area.
pub(in crate::medium) const RING_OFF: u64 = 2 * BLOCK_BYTES as u64;

/// Tells a file from others, also from one that had its inode before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileName(pub(in crate::medium) [u64; 3]);

impl FileName {
    pub(in crate::medium) fn of(file: &File) -> io::Result<FileName> {
        let metadata = sys::metadata(file)?;
        let made = metadata.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        let made = made.map_or(0, |made| made.as_nanos() as u64);
        Ok(FileName([metadata.dev(), metadata.ino(), made]))
    }
}

/// A place behind a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::medium) struct Position {
    /// The batch's number.
    pub(super) batch: u64,
    /// Bytes that were written to the ring in the pool's life, up to there.
    pub(super) place: u64,
    /// The sum of the batch's last part.
    pub(super) chain: u32,
}

/// From where the ring counts: all batches up to this one are in the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::medium) struct Head {
    /// Larger than that of any head before.
    pub(in crate::medium) generation: u64,
    /// The pool's.
    pub(in crate::medium) uuid: [u64; 2],
    /// Drawn whenever a live file is made, and whenever the pool is used without one.
    pub(super) salt: u64,
    pub(super) at: Position,
    pub(in crate::medium) ring_bytes: u64,
    /// The place that lies at the ring's beginning, as all do that are whole rings behind it.
    pub(super) start: u64,
    /// The base is the whole pool.
    pub(in crate::medium) closed: bool,
    /// The live file had an error when it was written back.
    pub(super) bad: bool,
    /// The boot in which the live file is to be trusted.
    pub(super) boot: [u64; 2],
    /// The live file.
    pub(super) live: FileName,
    /// Number of the next line of a log of lines.
    pub(in crate::medium) line: u64,
    /// The pool's file while it was open.
    pub(in crate::medium) pool: FileId,
}

/// Batches of a ring that is made in the place of lines have numbers for so many generations.
pub(super) const GENERATION_MAX: u64 = 1 << 30;

impl Head {
    /// The closed head of a ring in which nothing was written, in an area that had a log of lines. Its batches have
    /// larger numbers than those of any ring that the area had before.
    pub(in crate::medium) fn empty(
        generation: u64,
        uuid: [u64; 2],
        ring_bytes: u64,
        line: u64,
    ) -> Head {
        let at = Position { batch: generation << 32, place: 0, chain: 0 };
        let (boot, live) = ([0; 2], FileName::default());
        let (salt, start, closed, bad) = (0, 0, true, false);
        let pool = FileId::default();
        Head { generation, uuid, salt, at, ring_bytes, start, closed, bad, boot, live, line, pool }
    }

    /// The closed head that follows this one, and names no live file.
    pub(in crate::medium) fn disowned(self) -> Head {
        let (generation, live, boot) = (self.generation + 2, FileName::default(), [0; 2]);
        Head { generation, live, boot, bad: false, closed: true, ..self }
    }

    /// This head, and one that says the same and is written before it, to the other place.
    pub(in crate::medium) fn pair(self) -> [Head; 2] {
        [Head { generation: self.generation - 1, ..self }, self]
    }

    /// Where the lap begins in which the first byte lies that counts, and where that of the next one does.
    pub(super) fn lap(&self) -> Range<u64> {
        let laps = (self.at.place - self.start) / self.ring_bytes;
        let start = self.start + laps * self.ring_bytes;
        start..start + self.ring_bytes
    }

    /// Where this head is written: the other one stays.
    pub(in crate::medium) fn off(self) -> u64 {
        self.generation % 2 * BLOCK_BYTES as u64
    }

    pub(in crate::medium) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_BYTES];
        let Head { generation, uuid, salt, at, ring_bytes, start, boot, live, line, pool, .. } =
            self;
        put(&mut bytes, 0, &[HEAD_MAGIC, generation, uuid[0], uuid[1], salt, at.batch, at.place]);
        let flags = CLOSED * u64::from(self.closed) + BAD * u64::from(self.bad);
        let FileName([device, inode, made]) = live;
        let rest = [u64::from(at.chain), flags, ring_bytes, boot[0], boot[1]];
        put(&mut bytes, HEAD_CRC_AT, &rest);
        put(&mut bytes[..HEAD_BYTES], 96, &[device, inode, made, line, pool.0, start]);
        let _ = seal(&mut bytes[..HEAD_BYTES], HEAD_CRC_AT);
        bytes
    }

    /// The head in `bytes`, if it is one of an area of so many bytes.
    pub(in crate::medium) fn from_bytes(bytes: &[u8], area_bytes: u64) -> Option<Head> {
        let bytes = &bytes[..HEAD_BYTES];
        if word(bytes, 0) != HEAD_MAGIC {
            return None;
        }
        is_sealed(bytes, HEAD_CRC_AT)?;
        let at = |at: usize| word(bytes, at);
        // No pool lives so long; sums with them do not overflow.
        if [at(8), at(40), at(48), at(120)].iter().any(|v| *v >= COUNT_MAX) || at(136) > at(48) {
            return None;
        }
        let ring_bytes = at(72);
        let fits = RING_OFF.checked_add(ring_bytes).is_some_and(|end| end <= area_bytes);
        if ring_bytes == 0 || !ring_bytes.is_multiple_of(BLOCK_BYTES as u64) || !fits {
            return None;
        }
        Some(Head {
            generation: at(8),
            uuid: [at(16), at(24)],
            salt: at(32),
            at: Position { batch: at(40), place: at(48), chain: at(HEAD_CRC_AT) as u32 },
            ring_bytes,
            start: at(136),
            closed: at(64) & CLOSED != 0,
            bad: at(64) & BAD != 0,
            boot: [at(80), at(88)],
            live: FileName([at(96), at(104), at(112)]),
            line: at(120),
            pool: FileId(at(128)),
        })
    }
}

/// Words of the first page of a live file, its header.
pub const LIVE_WORDS: usize = 128;
/// Batches whose place a header has.
const BEGINS: u64 = 96;

const LIVE_MAGIC: u64 = u64::from_le_bytes(*b"DURAIMG2");

/// The words of a header. They outlive the process, in the order in which they were stored.
pub(super) struct Header<'a>(pub(super) &'a [PmU64]);

/// Words by their names.
mod at {
    pub(super) const MAGIC: usize = 0;
    pub(super) const BOOT: usize = 1;
    pub(super) const POOL: usize = 3;
    pub(super) const LIVE: usize = 6;
    pub(super) const SALT: usize = 9;
    pub(super) const EPOCH: usize = 10;
    pub(super) const WHICH: usize = 11;
    pub(super) const PLACES: [usize; 2] = [12, 15];
    pub(super) const BAD: usize = 18;
    pub(super) const POISONED: usize = 19;
    pub(super) const MOUNT: usize = 20;
    pub(super) const BEGINS: usize = 32;
}

/// True if these words of a header say that the live file is bad.
#[cfg(any(test, feature = "sim"))]
pub(in crate::medium) fn is_bad(words: &[u64]) -> bool {
    words[at::BAD] != 0
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Noted {
    pub(super) boot: [u64; 2],
    pub(super) pool: FileName,
    pub(super) live: FileName,
    pub(super) salt: u64,
    pub(super) epoch: u64,
    /// The last batch that may be relied upon: the next process goes on behind it.
    pub(super) last: Position,
    pub(super) bad: bool,
    /// The mount through which the file was reached.
    pub(super) mount: u64,
}

impl Noted {
    /// What these words say, if they are a header.
    pub(super) fn from_words(words: &[u64; LIVE_WORDS]) -> Option<Noted> {
        if words[at::MAGIC] != LIVE_MAGIC {
            return None;
        }
        let three = |at: usize| FileName([words[at], words[at + 1], words[at + 2]]);
        let place = at::PLACES[words[at::WHICH] as usize & 1];
        Some(Noted {
            boot: [words[at::BOOT], words[at::BOOT + 1]],
            pool: three(at::POOL),
            live: three(at::LIVE),
            salt: words[at::SALT],
            epoch: words[at::EPOCH],
            last: Position {
                batch: words[place],
                place: words[place + 1],
                chain: words[place + 2] as u32,
            },
            bad: words[at::BAD] != 0,
            mount: words[at::MOUNT],
        })
    }
}

/// The last batch that these words of a header have, each by itself, as it was or was about to be noted: it is durable.
pub(super) fn last_batch(words: &[u64; LIVE_WORDS]) -> u64 {
    at::PLACES.map(|place| words[place]).into_iter().max().unwrap_or(0)
}

/// Where the last batches behind `from` up to `to` begin, as these words of a header have it: what is to be read soon.
pub(super) fn begins(
    words: &[u64; LIVE_WORDS],
    from: Position,
    to: Position,
) -> impl Iterator<Item = u64> {
    let first = from.batch.max(to.batch.saturating_sub(BEGINS));
    let places = (first..to.batch).map(|before| words[at_begin(before)]);
    places.filter(move |place| (from.place..to.place).contains(place))
}

/// The word that says where the batch behind this one begins.
fn at_begin(batch: u64) -> usize {
    at::BEGINS + (batch % BEGINS) as usize
}

impl Header<'_> {
    /// Makes it the header that says so; of a file that nothing names yet.
    pub(super) fn make(&self, noted: &Noted) {
        let store = |at: usize, words: &[u64]| {
            self.0[at..].iter().zip(words).for_each(|(word, v)| word.store(*v));
        };
        self.0.iter().for_each(|word| word.store(0));
        store(at::BOOT, &noted.boot);
        store(at::POOL, &noted.pool.0);
        store(at::LIVE, &noted.live.0);
        store(at::SALT, &[noted.salt, noted.epoch]);
        self.note(noted.last);
        store(at::MOUNT, &[noted.mount]);
        store(at::MAGIC, &[LIVE_MAGIC]);
    }

    pub(super) fn set_epoch(&self, epoch: u64) {
        self.0[at::EPOCH].store(epoch);
    }

    pub(super) fn set_mount(&self, mount: u64) {
        self.0[at::MOUNT].store(mount);
    }

    /// S8: in the place that does not count, and then that counts. A process that is killed between leaves the other.
    pub(super) fn note(&self, last: Position) {
        let which = 1 - (self.0[at::WHICH].load() & 1);
        let place = at::PLACES[which as usize];
        let words = [last.batch, last.place, u64::from(last.chain)];
        self.0[place..].iter().zip(words).for_each(|(word, v)| word.store(v));
        self.0[at_begin(last.batch)].store(last.place);
        self.0[at::WHICH].store(which);
    }

    pub(super) fn set_bad(&self) {
        self.0[at::BAD].store(1);
    }

    /// For a person who looks at the file: the next process trusts it all the same.
    pub(super) fn set_poisoned(&self, errno: i32) {
        self.0[at::POISONED].store(errno as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        Head {
            generation: 3,
            uuid: [7, 8],
            salt: 99,
            at: Position { batch: 41, place: 5 << 12, chain: 77 },
            ring_bytes: 64 << 10,
            start: 1 << 12,
            closed: false,
            bad: true,
            boot: [1, 2],
            live: FileName([3, 4, 5]),
            line: 6,
            pool: FileId(12),
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written_and_no_bit_of_it_is_lost() {
        let bytes = head().to_bytes();
        assert_eq!(Head::from_bytes(&bytes, 1 << 20), Some(head()));
        assert_eq!(Head::from_bytes(&bytes, 64 << 10), None, "longer than its area");
        for bit in 0..HEAD_BYTES * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::from_bytes(&damaged, 1 << 20), None, "bit {bit}");
        }
    }

    #[test]
    fn a_lap_has_the_place_of_the_head() {
        for (start, place, from) in [(1, 5, 1), (1, 16, 1), (1, 17, 17), (0, 33, 32), (0, 32, 32)] {
            let at = Position { place: place << 12, ..head().at };
            let head = Head { start: start << 12, at, ..head() };
            assert_eq!(head.lap(), from << 12..(from + 16) << 12);
        }
    }

    #[test]
    fn a_header_tells_the_last_batch_whenever_the_process_is_killed() {
        let words: Vec<PmU64> = (0..LIVE_WORDS).map(|_| PmU64::new(0)).collect();
        let read = || Noted::from_words(&std::array::from_fn(|i| words[i].load()));
        assert_eq!(read(), None);
        let position = |batch| Position { batch, place: batch << 12, chain: batch as u32 };
        let noted = Noted {
            boot: [1, 2],
            pool: FileName([3, 4, 5]),
            live: FileName([6, 7, 8]),
            salt: 9,
            epoch: 10,
            last: position(1),
            bad: false,
            mount: 11,
        };
        let header = Header(&words);
        header.make(&noted);
        assert_eq!(read(), Some(noted));
        for batch in 2..9 {
            header.note(position(batch));
            assert_eq!(read().unwrap().last, position(batch));
            // All but the last store of the next one.
            let which = words[at::WHICH].load();
            let other = at::PLACES[1 - which as usize];
            words[other].store(1000);
            assert_eq!(read().unwrap().last, position(batch));
        }
        let places = |from, to| {
            let words = std::array::from_fn(|i| words[i].load());
            begins(&words, position(from), position(to)).collect::<Vec<_>>()
        };
        assert_eq!(places(5, 8), [5 << 12, 6 << 12, 7 << 12]);
        (9..300).for_each(|batch| header.note(position(batch)));
        assert_eq!(places(5, 299).len(), BEGINS as usize - 1);
        assert_eq!(places(400, 500), []);
    }
}
