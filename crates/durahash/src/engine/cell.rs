//! Cells: entries of maps whose keys and values have fixed sizes of up to 64 bytes, without header and lengths.
//!
//! ```text
//! byte  0  key, without its first word
//!     ...  value, without a gap
//!     ...  zeros
//!   n - c  check: bits 17 on of the checksum, c bytes of them
//! ```
//!
//! The slot's hash stands for the key's first word (or the whole key, where it is shorter): it is a bijection of it,
//! which the rest of the key and the seed choose. A digest costs no more
//! to hash than its rest costs to verify, and keys that share a prefix, as addresses and padded names do, share no
//! hash.
//!
//! A cell has no `next`. Of keys that share a hash, which takes chance or the seed, all but the last of the chain are
//! records. Bit 0 of a name tells which it is:
//!
//! ```text
//! name  bit  0      1: a cell
//!       bits 1-2    bits 15-16 of its checksum
//!       bits 3-47   bits 3-47 of its offset
//!       bits 48-62  bits 0-14 of its checksum
//!       bit  63     0
//! ```
//!
//! The size n is a multiple of 8, at least 16. The check has four bytes; n is raised to what divides a line, where that is
//! at most twelve bytes more than key and value, so that one line is read. Where the four bytes alone would cost that
//! (`[u8; 32]` and `u64`), the check has those of the zeros, or none, and the seventeen bits of the name are left.
//!
//! # Values in slots
//!
//! Where key and value of a cache are words, the hash stands for the whole key, and the check has four bytes, the payload of a
//! slot is the value itself, if that never expires: no block is taken, and nothing else is read. As in a map of words, nothing
//! verifies it, nor that it is one. Bits 48-63 of a name are 0x7ffb there, in place of bits of the checksum, as those of no number but some NaNs are; a
//! value with these bits lies in a cell, as one that expires does. Hashes are unique, so there are no records.

use durahash_media::LINE_BYTES;

use super::data::{Expiring, Type};
use super::expiry::NEVER;

/// Bytes of the largest key and of the largest value.
const PART_MAX: usize = 64;
/// A cell has at most so many bytes more than key and value.
const MORE_MAX: usize = 12;
/// Bytes of the smallest cell, and of the largest: of parts of 64 bytes and a check.
const BYTES_MIN: usize = 16;
pub(crate) const BYTES_MAX: usize = 136;
/// Bytes of a check.
const CHECK_BYTES: usize = 4;
/// A flag beside them.
const IN_SLOTS: u8 = 0x80;
/// Bits of a checksum that stand in the name.
const NAMED_BITS: u32 = 17;

/// The flag of a name that is a cell's.
const CELL: u64 = 1;
/// What begins a name where other payloads are values.
const NAME: u64 = 0x7ffb << NAME_SHIFT;
const NAME_SHIFT: u32 = 48;

/// True if so many bytes divide a line.
const fn is_in_line(bytes: usize) -> bool {
    LINE_BYTES.is_multiple_of(bytes as u64)
}

/// The least size of a cell with so much in it.
const fn least(content: usize) -> usize {
    let bytes = content.next_multiple_of(8);
    if bytes < BYTES_MIN { BYTES_MIN } else { bytes }
}

/// The layout of all cells of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    key: u8,
    value: u8,
    /// Bytes of the key that the hash stands for.
    skip: u8,
    /// Bytes of the cell.
    bytes: u8,
    /// Bytes of its check; and [`IN_SLOTS`], if slots have values themselves. One field less is compared by each lookup.
    check: u8,
}

impl Cell {
    /// The layout, if keys and values of these types are kept in cells. `hash_bits`: as in the geometry; a hash that
    /// is cut off stands for nothing.
    pub(crate) const fn of(key: Type, value: Type, hash_bits: u8) -> Option<Self> {
        let (Some(key_bytes), Some(value_bytes)) = (key.fixed_bytes(), value.fixed_bytes()) else {
            return None;
        };
        if key.is_word() && value.is_word() || key_bytes > PART_MAX || value_bytes > PART_MAX {
            return None;
        }
        let is_whole = matches!(hash_bits, 0 | 64..);
        let skip = if !is_whole {
            0
        } else if key_bytes < 8 {
            key_bytes
        } else {
            8
        };
        let content = key_bytes - skip + value_bytes;
        let (bare, checked) = (least(content), least(content + CHECK_BYTES));
        let (raised, most) = (checked.next_power_of_two(), key_bytes + value_bytes + MORE_MAX);
        let bytes = if is_in_line(checked) && checked <= most {
            checked
        } else if is_in_line(raised) && raised <= most {
            raised
        } else if is_in_line(bare) {
            bare
        } else {
            checked
        };
        let check = if bytes - content < CHECK_BYTES { bytes - content } else { CHECK_BYTES };
        // Without bits of the checksum in the names only the check tells damage.
        let has_words = is_whole && key.is_word() && value.is_expiring_word();
        let in_slots = has_words && check == CHECK_BYTES;
        Some(Cell {
            key: key_bytes as u8,
            value: value_bytes as u8,
            skip: skip as u8,
            bytes: bytes as u8,
            check: check as u8 | if in_slots { IN_SLOTS } else { 0 },
        })
    }

    /// The same in a map whose slots have names only.
    pub(crate) const fn without_slots(self) -> Self {
        Cell { check: self.check & !IN_SLOTS, ..self }
    }

    /// True if slots have values themselves.
    #[inline(always)]
    pub(crate) const fn is_in_slots(self) -> bool {
        self.check & IN_SLOTS != 0
    }

    #[inline(always)]
    const fn check_bytes(self) -> usize {
        (self.check & !IN_SLOTS) as usize
    }

    /// The value that a payload is, unless it is a name.
    #[inline(always)]
    pub(crate) fn value_in(self, payload: u64) -> Option<u64> {
        (self.is_in_slots() && payload >> NAME_SHIFT != NAME >> NAME_SHIFT).then_some(payload)
    }

    /// The payload that these bytes are, which begin with an expiry, if they are one.
    pub(crate) fn payload_of(self, value: &[u8]) -> Option<u64> {
        if !self.is_in_slots() || value.len() != self.value_bytes() {
            return None;
        }
        let (expiry, value) = value.split_first_chunk()?;
        let never = u64::from_le_bytes(*expiry) == NEVER;
        self.value_in(Type::word(value)).filter(|_| never)
    }

    /// The bytes of a value that a slot has, with its expiry, in the first bytes of these; none if it is longer than
    /// those of its type.
    #[inline(always)]
    pub(crate) fn bytes_of(self, payload: u64) -> Option<[u8; 2 * Expiring::BYTES]> {
        let mut bytes = [0; 2 * Expiring::BYTES];
        bytes[Expiring::BYTES..].copy_from_slice(&payload.to_le_bytes());
        bytes[self.value_bytes()..].iter().all(|byte| *byte == 0).then_some(bytes)
    }

    #[inline(always)]
    pub(crate) fn bytes(self) -> u64 {
        u64::from(self.bytes)
    }

    #[inline(always)]
    pub(crate) fn key_bytes(self) -> usize {
        self.key.into()
    }

    #[inline(always)]
    pub(crate) fn value_bytes(self) -> usize {
        self.value.into()
    }

    /// Bytes of the key that are not in the cell.
    #[inline(always)]
    pub(crate) fn skip(self) -> usize {
        self.skip.into()
    }

    /// The content of a cell whose checksum is `sum`.
    #[inline(always)]
    pub(crate) fn fill<'a>(
        self,
        (key, value): (&[u8], &[u8]),
        sum: u64,
        room: &'a mut [u8; BYTES_MAX],
    ) -> &'a [u8] {
        let cell = &mut room[..self.bytes.into()];
        let (own, rest) = cell.split_at_mut(self.key_bytes() - self.skip());
        own.copy_from_slice(&key[self.skip()..]);
        rest[..value.len()].copy_from_slice(value);
        let check = self.check_bytes();
        let at = rest.len() - check;
        rest[at..].copy_from_slice(&(sum >> NAMED_BITS).to_le_bytes()[..check]);
        cell
    }

    /// The bits of a checksum that are kept.
    #[inline(always)]
    pub(crate) fn kept(self, sum: u64) -> u64 {
        let named = if self.is_in_slots() { !0x7fff } else { !0 };
        sum & named & !(u64::MAX << (NAMED_BITS + 8 * self.check_bytes() as u32))
    }

    /// The same of a cell with this name and last word.
    #[inline(always)]
    pub(crate) fn kept_by(self, name: u64, last: u64) -> u64 {
        let check = last.checked_shr(64 - 8 * self.check_bytes() as u32).unwrap_or(0);
        let named = if self.is_in_slots() { 0 } else { name >> NAME_SHIFT & 0x7fff };
        named | (name >> 1 & 3) << 15 | check << NAMED_BITS
    }

    /// The name of the cell at `off` with this checksum.
    pub(crate) fn name(self, off: u64, sum: u64) -> u64 {
        let named = if self.is_in_slots() { NAME } else { (sum & 0x7fff) << NAME_SHIFT };
        off | CELL | (sum >> 15 & 3) << 1 | named
    }
}

/// True if a name is a cell's.
#[inline]
pub(crate) fn is_cell(name: u64) -> bool {
    name & CELL != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_as_small_and_as_straight_as_they_can_be() {
        let bytes =
            |key, value| Cell::of(key, value, 0).map(|cell| (cell.bytes, cell.check_bytes()));
        let digest = Type::Array;
        assert_eq!(bytes(digest(16), Type::U64), Some((32, 4)));
        assert_eq!(bytes(digest(16), Type::U128), Some((32, 4)));
        assert_eq!(bytes(digest(20), Type::U64), Some((32, 4)));
        assert_eq!(bytes(digest(20), digest(16)), Some((32, 4)));
        assert_eq!(bytes(digest(32), Type::U32), Some((32, 4)));
        assert_eq!(bytes(digest(32), Type::U64), Some((32, 0)));
        assert_eq!(bytes(digest(32), digest(32)), Some((64, 4)));
        assert_eq!(bytes(digest(64), digest(64)), Some((128, 4)));
        assert_eq!(bytes(Type::U64, Type::U128), Some((32, 4)));
        assert_eq!(bytes(digest(9), digest(0)), Some((16, 4)));
        assert_eq!(bytes(Type::U64, Type::U64), None);
        assert_eq!(bytes(Type::Str, Type::U64), None);
        assert_eq!(bytes(digest(65), Type::U64), None);
        for key in 0..=64 {
            for value in 0..=64 {
                for hash_bits in [0, 5] {
                    let Some(cell) = Cell::of(digest(key), digest(value), hash_bits) else {
                        assert!(key <= 8 && value <= 8);
                        continue;
                    };
                    let content = (key + value) as usize;
                    assert!(cell.bytes() as usize <= content + MORE_MAX, "{key} {value}");
                    assert!((BYTES_MIN..=BYTES_MAX).contains(&cell.bytes.into()));
                    let stored = content - cell.skip() + cell.check_bytes();
                    assert!(cell.bytes.is_multiple_of(8) && stored <= cell.bytes.into());
                    assert!(cell.check_bytes() == 4 || LINE_BYTES.is_multiple_of(cell.bytes()));
                }
            }
        }
    }

    #[test]
    fn checksums_come_back() {
        let sum = 0x0123_4567_89ab_cdef;
        let word = Cell::of(Type::U64, Type::Expiring(Expiring::of(Type::U64)), 0).unwrap();
        assert!(word.is_in_slots());
        let narrow = Cell::of(Type::U16, Type::Expiring(Expiring::of(Type::U64)), 0).unwrap();
        assert!(narrow.check_bytes() == 0 && !narrow.is_in_slots());
        for (key, value) in [(32, 8), (32, 32), (31, 8), (20, 16)] {
            let cell = Cell::of(Type::Array(key), Type::Array(value), 0).unwrap();
            let mut room = [0; BYTES_MAX];
            let (key, value) = (vec![1; key as usize], vec![2; value as usize]);
            let bytes = cell.fill((&key, &value), sum, &mut room);
            let last = u64::from_le_bytes(*bytes.last_chunk().unwrap());
            let name = cell.name(0x1234_5678_9ab8, sum);
            assert_eq!(cell.kept_by(name, last), cell.kept(sum));
            assert!(is_cell(name) && name >> 63 == 0);
            assert_eq!(name & 0xffff_ffff_fff8, 0x1234_5678_9ab8);
        }
    }
}
