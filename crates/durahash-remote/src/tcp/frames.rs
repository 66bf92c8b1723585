//! What records hold: the requests of clients, and the answers of nodes.
//!
//! Each request has one answer, in the order of the requests. Numbers are little-endian.
//!
//! ```text
//! request  kind, 1 byte, then
//!          1 ping   nothing
//!          2 join   row, 4 bytes, incarnation, 8, and the id of the memory, 8: those of node 0; the row NONE asks node 0
//!                   for the first two
//!          3 verbs  as below, any number
//!          4 row    row, 4 bytes: whether it has a client
//!          5 bar    row, 4 bytes, and incarnation, 8: ends clients of that row up to that incarnation
//!          6 rows   nothing: how many rows have clients
//!          7 leave  nothing: gives up the row
//!          8 who    row, 4 bytes: the clients of the 64 rows from that one on
//! verb     word, 8 bytes: offset in bits 0 to 47, kind in bits 48 to 55, then
//!          0 read   length, 2 bytes
//!          1 write  length, 2 bytes, and the bytes
//!          2 swap   two words: old and new
//!          3 add    one word
//! answer   status, 1 byte, then
//!          0 done   of join: row, 4 bytes, and incarnation, 8; of verbs: what they bring back, in their order;
//!                   of row: incarnation, 8 bytes, 0 if it has a client; of rows: a number, 4 bytes;
//!                   of who: for each row incarnation, 8 bytes, 0 if it has no client, milliseconds since the node
//!                   last heard of it, 8, its address, 16, IPv4 mapped, and port, 2
//!          1 full   of join: no row is free
//!          2 ended  the client is evicted, and the connection ends
//!          3 other  of join: the node's clients have another node 0
//! ```

use crate::fabric::{Addr, Kind, Verb};
use crate::wire::RECORD_BYTES;

/// The name of the fabric in an offer.
pub(super) const FABRIC: &str = "tcp";

/// The kind of a request.
pub(super) const PING: u8 = 1;
pub(super) const JOIN: u8 = 2;
pub(super) const VERBS: u8 = 3;
pub(super) const ROW: u8 = 4;
pub(super) const BAR: u8 = 5;
pub(super) const ROWS: u8 = 6;
pub(super) const LEAVE: u8 = 7;
pub(super) const WHO: u8 = 8;

/// The status of an answer.
pub(super) const DONE: u8 = 0;
pub(super) const FULL: u8 = 1;
pub(super) const ENDED: u8 = 2;
pub(super) const OTHER: u8 = 3;

/// Rows of one answer to `WHO`, and bytes of each.
pub(super) const WHO_ROWS: u32 = 64;
pub(super) const WHO_BYTES: usize = 34;

/// In place of a row: one that the node chooses.
pub(super) const NO_ROW: u32 = u32::MAX;

const OFF_BITS: u32 = 48;
/// Bytes of a verb without what it writes.
const HEAD_BYTES: usize = 10;
/// Bytes of the longest atomic.
const ATOMIC_BYTES: usize = 24;
/// Bytes that the answer to one record of verbs brings back at most.
const BACK_BYTES: usize = RECORD_BYTES - 1;
/// Bytes of a record that a client fills, and that its answer brings back, at most: a node answers one while the next one is
/// on its way.
const FILLED_BYTES: usize = 16 << 10;

/// A request that is not of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Ping,
    Join { row: u32, incarnation: u64, zero: u64 },
    Verbs,
    Row { row: u32 },
    Bar { row: u32, incarnation: u64 },
    Rows,
    Leave,
    Who { row: u32 },
}

/// Reads a request; of verbs, only that it is of verbs. `None` when it is malformed.
pub(super) fn request(bytes: &[u8]) -> Option<Request> {
    let (&kind, rest) = bytes.split_first()?;
    let one = || Some(u32::from_le_bytes(rest.try_into().ok()?));
    let place = || {
        let (row, rest) = rest.split_first_chunk()?;
        let (incarnation, rest) = rest.split_first_chunk()?;
        Some((u32::from_le_bytes(*row), u64::from_le_bytes(*incarnation), rest))
    };
    match kind {
        VERBS => Some(Request::Verbs),
        PING if rest.is_empty() => Some(Request::Ping),
        ROWS if rest.is_empty() => Some(Request::Rows),
        LEAVE if rest.is_empty() => Some(Request::Leave),
        ROW => one().map(|row| Request::Row { row }),
        WHO => one().map(|row| Request::Who { row }),
        JOIN => place().and_then(|(row, incarnation, rest)| {
            let zero = u64::from_le_bytes(rest.try_into().ok()?);
            Some(Request::Join { row, incarnation, zero })
        }),
        BAR => place()
            .filter(|(_, _, rest)| rest.is_empty())
            .map(|(row, incarnation, _)| Request::Bar { row, incarnation }),
        _ => None,
    }
}

/// A request with these numbers, but for a join.
pub(super) fn plain(kind: u8, row: u32, incarnation: u64) -> Vec<u8> {
    let mut bytes = vec![kind];
    if matches!(kind, BAR | ROW | WHO) {
        bytes.extend(row.to_le_bytes());
    }
    if kind == BAR {
        bytes.extend(incarnation.to_le_bytes());
    }
    bytes
}

/// A request to join, with the id of node 0's memory.
pub(super) fn join(row: u32, incarnation: u64, zero: u64) -> Vec<u8> {
    let mut bytes = vec![JOIN];
    bytes.extend(row.to_le_bytes());
    bytes.extend(incarnation.to_le_bytes());
    bytes.extend(zero.to_le_bytes());
    bytes
}

/// Reads the verbs of a record into `verbs`. Bytes to be written stay in the record: each verb's `start` is where its
/// own begin. Returns how many bytes they bring back; `None` when the record is malformed, or that is too many.
pub(super) fn verbs(record: &[u8], verbs: &mut Vec<Verb>) -> Option<usize> {
    verbs.clear();
    let mut rest = record.get(1..)?;
    let mut back = 0;
    while !rest.is_empty() {
        let word = take_word(&mut rest)?;
        let addr = Addr::new(0, word & ((1 << OFF_BITS) - 1));
        let (kind, len) = match word >> OFF_BITS {
            0 => (Kind::Read, take_len(&mut rest)?),
            1 => (Kind::Write, take_len(&mut rest)?),
            2 => {
                let (old, new) = (take_word(&mut rest)?, take_word(&mut rest)?);
                (Kind::CompareSwap { old, new }, 8)
            }
            3 => (Kind::FetchAdd { n: take_word(&mut rest)? }, 8),
            _ => return None,
        };
        let start = if let Kind::Write = kind {
            let start = record.len() - rest.len();
            rest = rest.get(usize::from(len)..)?;
            start
        } else {
            let start = back;
            back += usize::from(len);
            start
        };
        if back > BACK_BYTES {
            return None;
        }
        verbs.push(Verb { addr, kind, start: start as u32, len: len.into() });
    }
    Some(back)
}

fn take_word(rest: &mut &[u8]) -> Option<u64> {
    let (word, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u64::from_le_bytes(*word))
}

fn take_len(rest: &mut &[u8]) -> Option<u16> {
    let (len, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u16::from_le_bytes(*len))
}

/// A record of verbs that is being filled.
#[derive(Default)]
pub(super) struct Filling {
    bytes: Vec<u8>,
    /// Bytes that the answer brings back.
    back: usize,
}

impl Filling {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The record.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes that its answer brings back.
    pub(super) fn back(&self) -> usize {
        self.back
    }

    /// Begins another record.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.back = 0;
    }

    /// Adds `verb`, or as much of it as fits, of which so many bytes were added to earlier records: `done`. `out` are the
    /// bytes that its batch writes. Returns how many bytes were added; `None` when the record is full.
    ///
    /// A part ends where a word does: the bytes of a verb in one word take effect together.
    pub(super) fn add(&mut self, verb: &Verb, done: usize, out: &[u8]) -> Option<usize> {
        if self.bytes.is_empty() {
            self.bytes.push(VERBS);
        }
        let room = FILLED_BYTES - self.bytes.len();
        let (left, off) = (verb.len as usize - done, verb.addr.off() + done as u64);
        let part = |most: usize| match most {
            most if most >= left => Some(left),
            most => {
                let end = off + most as u64;
                (most as u64)
                    .checked_sub(end % 8)
                    .filter(|part| *part > 0)
                    .map(|part| part as usize)
            }
        };
        match verb.kind {
            Kind::Read => {
                let part = part(FILLED_BYTES - self.back).filter(|_| room >= HEAD_BYTES)?;
                self.head(off, 0);
                self.bytes.extend((part as u16).to_le_bytes());
                self.back += part;
                Some(part)
            }
            Kind::Write => {
                let part = part(room.checked_sub(HEAD_BYTES)?)?;
                self.head(off, 1);
                self.bytes.extend((part as u16).to_le_bytes());
                self.bytes.extend(&out[verb.start as usize + done..][..part]);
                Some(part)
            }
            Kind::CompareSwap { .. } | Kind::FetchAdd { .. } => {
                if room < ATOMIC_BYTES || self.back + 8 > FILLED_BYTES {
                    return None;
                }
                match verb.kind {
                    Kind::CompareSwap { old, new } => {
                        self.head(off, 2);
                        self.bytes.extend(old.to_le_bytes());
                        self.bytes.extend(new.to_le_bytes());
                    }
                    Kind::FetchAdd { n } => {
                        self.head(off, 3);
                        self.bytes.extend(n.to_le_bytes());
                    }
                    Kind::Read | Kind::Write => unreachable!("an atomic"),
                }
                self.back += 8;
                Some(8)
            }
        }
    }

    fn head(&mut self, off: u64, kind: u64) {
        self.bytes.extend((off | kind << OFF_BITS).to_le_bytes());
    }
}
