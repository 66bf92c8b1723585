//! The log's area, byte by byte.
//!
//! ```text
//! 0      4096   8192                                          area's end
//! +------+------+----------------------+-----+-----+-- ... --+-----+
//! | head | head | staged lines         | block 0, block 1, ... ring|
//! | A    | B    | (an eighth of all)   |     |     |         |     |
//! +------+------+----------------------+-----+-----+-- ... --+-----+
//!
//! head    0  "DURALOGP"    8 generation   16 uuid (2)  32 salt   40 number of the first line
//!        48  block that it is in          56 chain (bits 0-31), CRC (bits 32-63)    64 closed
//!        72  blocks of the ring (bits 0-31), of staged lines (bits 32-63)
//! block   0  "DURALOGB"    8 salt         16 uuid (2)  32 number of the first line
//!        40  count of lines (bits 0-31), CRC (bits 32-63)
//!        48  lines before this number were durable    56 chain (bits 0-31)
//!        64  up to 56 lines {offset in the pool; 64 bytes}
//! staged  0  number        8 offset in the pool  16 sum    24 the line's 64 bytes
//! ```
//!
//! Blocks are counted from the first of the pool's life on; block `b` lies at place `b` modulo the
//! ring's length. A block's chain is the CRC of the block before it (of the first after a head, the
//! head's chain), so a run of blocks is one checked sequence, and yet each is known to be sound by
//! itself. Lines are numbered from 1 on and never again. The salt changes at every open, so that
//! nothing of an earlier open continues a sequence of this one.
//!
//! A log uses the first part of its area, which grows when it is half full (`extend.rs`): staged lines and ring end
//! where the head says. The area behind them is a hole of the file.

use crate::medium::LINE_BYTES;

/// The eight words of a line.
pub type Line = [u64; 8];

/// Log writes are aligned to this, and multiples of it.
pub(crate) const BLOCK_BYTES: usize = 4096;
/// An area begins and ends at multiples of this.
pub(crate) const LOG_ALIGN: u64 = BLOCK_BYTES as u64;
/// Lines that a block has room for.
pub(super) const BLOCK_LINES: u64 = 56;
/// Words of a line in a block: its offset, and itself.
const ENTRY_BYTES: usize = 8 + LINE_BYTES as usize;
const BLOCK_HEAD_BYTES: usize = 64;
const _: () = assert!(BLOCK_HEAD_BYTES + BLOCK_LINES as usize * ENTRY_BYTES == BLOCK_BYTES);

const HEAD_MAGIC: u64 = u64::from_le_bytes(*b"DURALOGP");
const BLOCK_MAGIC: u64 = u64::from_le_bytes(*b"DURALOGB");
/// Bytes of a head that mean something: one sector has them all.
const HEAD_BYTES: usize = 128;
/// Generations, lines and blocks are fewer.
const COUNT_MAX: u64 = 1 << 60;
/// Where CRC and the other half of its word stand.
const HEAD_CRC_AT: usize = 56;
const BLOCK_CRC_AT: usize = 40;
/// True if a log that ends with this head was closed.
const HEAD_CLOSED_AT: usize = 64;
const HEAD_LAYOUT_AT: usize = 72;
const BLOCK_DURABLE_AT: usize = 48;
const BLOCK_CHAIN_AT: usize = 56;

/// Words of a staged line.
pub(super) const STAGED_WORDS: usize = 11;

/// The smallest area: two heads, a block of staged lines, and four blocks.
pub(crate) const AREA_BYTES_MIN: u64 = 7 * BLOCK_BYTES as u64;
/// The bytes of its area that a new log uses.
pub(super) const BEGIN_BYTES: u64 = 512 << 10;

/// Where the parts of an area are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of staged lines, from the second block on.
    pub(crate) staged_bytes: u64,
    /// Blocks of the ring.
    pub(crate) ring_blocks: u64,
}

impl Layout {
    /// Where staged lines begin.
    pub(crate) const STAGED_OFF: u64 = 2 * BLOCK_BYTES as u64;

    /// The parts of an area of so many bytes, at least [`AREA_BYTES_MIN`].
    pub(crate) fn of(area_bytes: u64) -> Layout {
        let blocks = area_bytes / BLOCK_BYTES as u64;
        let staged = (blocks / 8).max(1);
        Layout {
            staged_bytes: staged * BLOCK_BYTES as u64,
            ring_blocks: blocks.saturating_sub(2 + staged),
        }
    }

    /// The parts of a new log in an area of so many bytes.
    pub(crate) fn first(area_bytes: u64) -> Layout {
        Self::of(area_bytes.min(BEGIN_BYTES))
    }

    /// All of an area of so many bytes, of which the ring begins at byte `ring_off`, a whole block.
    pub(super) fn with_ring_at(area_bytes: u64, ring_off: u64) -> Layout {
        Layout {
            staged_bytes: ring_off - Self::STAGED_OFF,
            ring_blocks: (area_bytes - ring_off) / BLOCK_BYTES as u64,
        }
    }

    /// Where the last part ends.
    pub(crate) fn bytes(self) -> u64 {
        self.ring_off() + self.ring_blocks * BLOCK_BYTES as u64
    }

    pub(super) fn to_word(self) -> u64 {
        (self.staged_bytes / BLOCK_BYTES as u64) << 32 | self.ring_blocks
    }

    pub(super) fn from_word(word: u64) -> Layout {
        Layout {
            staged_bytes: (word >> 32) * BLOCK_BYTES as u64,
            ring_blocks: word & u64::from(u32::MAX),
        }
    }

    /// Lines that can be staged.
    pub(super) fn staged_lines(self) -> u64 {
        self.staged_bytes / 8 / STAGED_WORDS as u64
    }

    /// Where the ring begins.
    pub(crate) fn ring_off(self) -> u64 {
        Self::STAGED_OFF + self.staged_bytes
    }

    /// Where block number `block` lies.
    pub(super) fn block_off(self, block: u64) -> u64 {
        self.ring_off() + block % self.ring_blocks * BLOCK_BYTES as u64
    }
}

/// From where the log counts: all lines before `line` are in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    /// Larger than that of any head before.
    pub(crate) generation: u64,
    /// The pool's.
    pub(crate) uuid: [u64; 2],
    /// Drawn at every open for writing.
    pub(crate) salt: u64,
    /// Number of the first line that counts.
    pub(crate) line: u64,
    /// The block that begins with it.
    pub(crate) block: u64,
    /// The CRC of the block before it, as that block has it.
    pub(crate) chain: u32,
    /// True if nothing was logged behind it: the pool was closed, or is in use without the log.
    pub(crate) closed: bool,
    /// Where the parts of the area are.
    pub(crate) parts: Layout,
}

pub(in crate::medium) fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

pub(in crate::medium) fn put(bytes: &mut [u8], at: usize, words: &[u64]) {
    for (bytes, word) in bytes[at..].chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The CRC of `bytes` with its own place, four bytes from `at + 4`, left out.
fn crc(bytes: &[u8], at: usize) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&bytes[..at + 4]);
    crc.update(&bytes[at + 8..]);
    crc.finalize()
}

pub(in crate::medium) fn seal(bytes: &mut [u8], at: usize) -> u32 {
    let crc = crc(bytes, at);
    bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
    crc
}

pub(in crate::medium) fn is_sealed(bytes: &[u8], at: usize) -> Option<u32> {
    let found = (word(bytes, at) >> 32) as u32;
    (found == crc(bytes, at)).then_some(found)
}

impl Head {
    /// This head, and one that says the same and is written before it, to the other place.
    pub(super) fn pair(self) -> [Head; 2] {
        [Head { generation: self.generation - 1, ..self }, self]
    }

    /// Where this head is written: the other one stays.
    pub(super) fn off(self) -> u64 {
        self.generation % 2 * BLOCK_BYTES as u64
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = vec![0; BLOCK_BYTES];
        let [uuid0, uuid1] = self.uuid;
        let words = [HEAD_MAGIC, self.generation, uuid0, uuid1, self.salt, self.line, self.block];
        put(&mut bytes, 0, &words);
        let parts = self.parts.to_word();
        put(&mut bytes, HEAD_CRC_AT, &[u64::from(self.chain), u64::from(self.closed), parts]);
        let _ = seal(&mut bytes[..HEAD_BYTES], HEAD_CRC_AT);
        bytes
    }

    /// The head in `bytes`, if it is one of an area of so many bytes.
    pub(super) fn from_bytes(bytes: &[u8], area_bytes: u64) -> Option<Head> {
        let bytes = &bytes[..HEAD_BYTES];
        if word(bytes, 0) != HEAD_MAGIC {
            return None;
        }
        let parts = Layout::from_word(word(bytes, HEAD_LAYOUT_AT));
        if parts.staged_bytes == 0 || parts.ring_blocks == 0 || parts.bytes() > area_bytes {
            return None;
        }
        is_sealed(bytes, HEAD_CRC_AT)?;
        // No pool lives so long; sums with them do not overflow.
        if [word(bytes, 8), word(bytes, 40), word(bytes, 48)].iter().any(|v| *v >= COUNT_MAX) {
            return None;
        }
        Some(Head {
            generation: word(bytes, 8),
            uuid: [word(bytes, 16), word(bytes, 24)],
            salt: word(bytes, 32),
            line: word(bytes, 40),
            block: word(bytes, 48),
            chain: word(bytes, HEAD_CRC_AT) as u32,
            closed: word(bytes, HEAD_CLOSED_AT) != 0,
            parts,
        })
    }
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHead {
    salt: u64,
    uuid: [u64; 2],
    /// Number of its first line.
    first: u64,
    /// How many lines.
    pub(super) count: u64,
    /// All lines with smaller numbers were on the disk before this block was written.
    pub(super) durable: u64,
    chain: u32,
    /// Of the block itself.
    pub(super) crc: u32,
}

impl BlockHead {
    /// The head of `block`, if that is sound.
    fn read(block: &[u8]) -> Option<BlockHead> {
        if word(block, 0) != BLOCK_MAGIC {
            return None;
        }
        let count = word(block, BLOCK_CRC_AT) & u64::from(u32::MAX);
        let crc = is_sealed(block, BLOCK_CRC_AT)?;
        (1..=BLOCK_LINES).contains(&count).then(|| BlockHead {
            salt: word(block, 8),
            uuid: [word(block, 16), word(block, 24)],
            first: word(block, 32),
            count,
            durable: word(block, BLOCK_DURABLE_AT),
            chain: word(block, BLOCK_CHAIN_AT) as u32,
            crc,
        })
    }

    /// The head of `block`, if it continues the log of `head` with the line and the chain there.
    pub(super) fn next(head: &Head, block: &[u8]) -> Option<BlockHead> {
        Self::read(block).filter(|found| {
            (found.salt, found.uuid) == (head.salt, head.uuid)
                && (found.first, found.chain) == (head.line, head.chain)
        })
    }

    /// True if `block`, of whatever open of pool `uuid`, says that line `line` was on the disk.
    pub(super) fn proves(block: &[u8], uuid: [u64; 2], line: u64) -> bool {
        // The sum last, as nearly all blocks are older than that.
        word(block, BLOCK_DURABLE_AT) > line
            && Self::read(block).is_some_and(|found| found.uuid == uuid)
    }
}

/// Fills `block` with lines from number `first` on, as long as there is room and `next` has some;
/// those below number `durable` are on the disk. Returns how many, and the CRC.
pub(super) fn fill_block(
    head: &Head,
    chain: u32,
    [first, durable]: [u64; 2],
    block: &mut [u8],
    next: &mut dyn FnMut() -> Option<(u64, Line)>,
) -> (u64, u32) {
    block.fill(0);
    let mut count = 0;
    let mut at = BLOCK_HEAD_BYTES;
    while count < BLOCK_LINES
        && let Some((off, line)) = next()
    {
        put(block, at, &[off]);
        put(&mut block[..at + ENTRY_BYTES], at + 8, &line);
        at += ENTRY_BYTES;
        count += 1;
    }
    let [uuid0, uuid1] = head.uuid;
    put(block, 0, &[BLOCK_MAGIC, head.salt, uuid0, uuid1, first]);
    put(&mut block[..BLOCK_HEAD_BYTES], BLOCK_CRC_AT, &[count, durable, u64::from(chain)]);
    (count, seal(block, BLOCK_CRC_AT))
}

/// Line `i` of a block, and its offset.
pub(super) fn line_of(block: &[u8], i: u64) -> (u64, Line) {
    let at = BLOCK_HEAD_BYTES + i as usize * ENTRY_BYTES;
    (word(block, at), std::array::from_fn(|i| word(block, at + 8 + i * 8)))
}

/// The sum over a staged line's other words, in its third. It need not withstand malice: it tells a
/// line from one that was half written back when the power went.
pub(super) fn staged_sum(salt: u64, number: u64, off: u64, line: &Line) -> u64 {
    const M: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |sum: u64, word: u64| {
        let product = u128::from(sum ^ word) * u128::from(M);
        (product as u64) ^ (product >> 64) as u64
    };
    // Two chains, so that their multiplications overlap. An odd addend: zeros count.
    let (even, odd) = (step(salt | 1, number), step(!salt, off));
    let (mut even, mut odd) = (even, odd);
    for pair in line.chunks_exact(2) {
        even = step(even.rotate_left(11), pair[0]).wrapping_add(M);
        odd = step(odd.rotate_left(23), pair[1]).wrapping_add(M);
    }
    step(even, odd.rotate_left(32))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA_BYTES: u64 = 64 << 10;

    fn head() -> Head {
        let parts = Layout::of(AREA_BYTES);
        let (generation, line, block, chain) = (3, 41, 5, 77);
        Head { generation, uuid: [7, 8], salt: 99, line, block, chain, closed: false, parts }
    }

    #[test]
    fn a_head_is_read_as_it_was_written_and_no_bit_of_it_is_lost() {
        let bytes = head().to_bytes();
        assert_eq!(Head::from_bytes(&bytes, AREA_BYTES), Some(head()));
        for bit in 0..HEAD_BYTES * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::from_bytes(&damaged, AREA_BYTES), None, "bit {bit}");
        }
    }

    #[test]
    fn a_head_made_with_malice_is_none() {
        for head in [
            Head { generation: u64::MAX, ..head() },
            Head { line: u64::MAX, ..head() },
            Head { block: u64::MAX, ..head() },
            Head { parts: Layout::of(AREA_BYTES + LOG_ALIGN), ..head() },
            Head { parts: Layout { staged_bytes: 0, ring_blocks: 4 }, ..head() },
            Head { parts: Layout { staged_bytes: LOG_ALIGN, ring_blocks: 0 }, ..head() },
        ] {
            assert_eq!(Head::from_bytes(&head.to_bytes(), AREA_BYTES), None);
        }
    }

    #[test]
    fn a_block_continues_its_own_sequence_only_and_no_bit_of_it_is_lost() {
        let mut lines = (0..60_u64).map(|i| (i * 64, [i; 8]));
        let mut block = vec![1; BLOCK_BYTES];
        let (count, crc) = fill_block(&head(), 77, [41, 9], &mut block, &mut || lines.next());
        assert_eq!(count, BLOCK_LINES);
        let next = |head: Head, block: &[u8]| BlockHead::next(&head, block);
        let found = next(head(), &block).unwrap();
        assert_eq!((found.crc, found.count, found.durable), (crc, count, 9));
        assert_eq!(line_of(&block, 55), (55 * 64, [55; 8]));
        assert_eq!(next(Head { chain: 78, ..head() }, &block), None, "another block before it");
        assert_eq!(next(Head { line: 42, ..head() }, &block), None, "another number");
        assert_eq!(next(Head { salt: 100, ..head() }, &block), None, "another open");
        assert!(BlockHead::proves(&block, [7, 8], 8) && !BlockHead::proves(&block, [7, 8], 9));
        assert!(!BlockHead::proves(&block, [7, 9], 8), "another pool");
        for bit in (0..BLOCK_BYTES * 8).step_by(7) {
            block[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(next(head(), &block), None, "bit {bit}");
            assert!(!BlockHead::proves(&block, [7, 8], 8), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        let (count, _) = fill_block(&head(), 77, [97, 9], &mut block, &mut || lines.next());
        assert_eq!(count, 4, "what is left");
    }

    #[test]
    fn the_sum_of_a_staged_line_sees_every_word_of_it() {
        let line: Line = std::array::from_fn(|i| i as u64 * 3);
        let sum = staged_sum(5, 6, 64, &line);
        assert!(staged_sum(4, 6, 64, &line) != sum && staged_sum(5, 7, 64, &line) != sum);
        assert_ne!(staged_sum(5, 6, 128, &line), sum);
        for i in 0..8 {
            for bit in 0..64 {
                let mut other = line;
                other[i] ^= 1 << bit;
                assert_ne!(staged_sum(5, 6, 64, &other), sum);
            }
        }
        let swapped = std::array::from_fn(|i| line[i ^ 2]);
        assert_ne!(staged_sum(5, 6, 64, &swapped), sum);
    }

    #[test]
    fn the_parts_fill_the_area() {
        for blocks in [7, 8, 100, 16384] {
            let area_bytes = blocks * BLOCK_BYTES as u64;
            let layout = Layout::of(area_bytes);
            let end = layout.block_off(layout.ring_blocks - 1) + BLOCK_BYTES as u64;
            assert_eq!(end, area_bytes);
            assert!(layout.ring_blocks >= 4 && layout.staged_lines() > 0);
            assert_eq!((layout.bytes(), Layout::from_word(layout.to_word())), (area_bytes, layout));
            let ring_off = layout.ring_off();
            assert_eq!(Layout::with_ring_at(area_bytes, ring_off), layout);
        }
    }
}
