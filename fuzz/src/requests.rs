//! Records of any bytes, as clients over TCP send them, to the memory of a node.
//!
//! Nothing may panic, hang or take memory without bounds; an answer fits into a record; and the memory is what a model
//! of the requests that were answered says. Records reach this decrypted: no others do.

use std::net::TcpStream;
use std::sync::Arc;

use durahash_remote::tcp::{Requests, TcpMemory};

use crate::{Features, Rng, Target};

/// Bytes of the memory.
const MEMORY_BYTES: usize = 4096;
/// Rows of the memory.
const ROWS: u32 = 3;
/// Bytes of an answer, at most: those of a record of 65,535 bytes without its tag.
const ANSWER_BYTES: usize = 65_519;
/// Requests of an input that are served.
const REQUESTS_MAX: usize = 200;

/// Byte strings as the records of several connections.
///
/// An input is cut into records: each begins with the number of its connection, 1 byte, and its length, 2 bytes.
#[derive(Default)]
pub struct NodeRequests {
    /// The model forgets the last byte of each write, to see that this would be found.
    pub forgets: bool,
}

fn record(to: &mut Vec<u8>, connection: u8, bytes: &[u8]) {
    to.push(connection);
    to.extend((bytes.len() as u16).to_le_bytes());
    to.extend(bytes);
}

/// A request to join, of a client that has node 0 in common with all others.
fn join(row: u32, incarnation: u64) -> Vec<u8> {
    [&[2][..], &row.to_le_bytes(), &incarnation.to_le_bytes(), &[0; 8]].concat()
}

/// A record of verbs: heads and what follows them.
fn verbs(all: &[(u64, u64, &[u8])]) -> Vec<u8> {
    let verb = |(kind, off, rest): &(u64, u64, &[u8])| {
        [&(kind << 48 | off).to_le_bytes()[..], rest].concat()
    };
    [vec![3], all.iter().flat_map(verb).collect()].concat()
}

impl Target for NodeRequests {
    fn seeds(&self, _: &mut Rng) -> Vec<Vec<u8>> {
        let write = [&5_u16.to_le_bytes()[..], b"bytes"].concat();
        let swap = [0_u64.to_le_bytes(), 7_u64.to_le_bytes()].concat();
        let all = verbs(&[
            (1, 61, &write),
            (0, 56, &16_u16.to_le_bytes()),
            (2, 128, &swap),
            (3, 128, &9_u64.to_le_bytes()),
            (0, 0, &4096_u16.to_le_bytes()),
        ]);
        let mut one = Vec::new();
        record(&mut one, 0, &join(u32::MAX, 0));
        record(&mut one, 0, &all);
        for kind in [1, 6, 7] {
            record(&mut one, 0, &[kind]);
        }
        let mut two = Vec::new();
        record(&mut two, 0, &join(u32::MAX, 0));
        record(&mut two, 1, &join(1, 5));
        record(&mut two, 1, &all);
        record(&mut two, 0, &[&[4][..], &1_u32.to_le_bytes()].concat());
        record(&mut two, 1, &[7]);
        record(&mut two, 0, &[&[5][..], &1_u32.to_le_bytes(), &u64::MAX.to_le_bytes()].concat());
        record(&mut two, 2, &join(1, 9));
        record(&mut two, 0, &all);
        // Of one that looks after the node.
        record(&mut two, 3, &[&[8][..], &0_u32.to_le_bytes()].concat());
        record(&mut two, 3, &[&[5][..], &2_u32.to_le_bytes(), &9_u64.to_le_bytes()].concat());
        vec![one, two]
    }

    fn mutate(&self, rng: &mut Rng, input: &mut Vec<u8>, other: &[u8]) {
        let at = rng.below(input.len() + 1);
        match rng.below(6) {
            0 => input.truncate(at),
            1 => input.insert(at, rng.number() as u8),
            2 if at < input.len() => drop(input.remove(at)),
            3 => {
                let from = rng.below(other.len() + 1);
                input.truncate(at);
                input.extend(&other[from..]);
            }
            4 if at + 8 <= input.len() => {
                let edges = [0, 1, 7, 8, 4088, 4095, 4096, 65_518, 65_519, 65_535, u64::MAX >> 16];
                let value = edges[rng.below(edges.len())];
                let len = [1, 2, 6, 8][rng.below(4)];
                input[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
            }
            _ if at < input.len() => input[at] ^= 1 << rng.below(8),
            _ => input.push(3),
        }
    }

    fn run(&self, input: &[u8], features: &mut Features) {
        let memory = TcpMemory::anonymous(MEMORY_BYTES as u64, ROWS).expect("there is memory");
        let mut model = vec![0; MEMORY_BYTES];
        let mut connections: [Option<Requests>; 4] = Default::default();
        let mut seats: [Option<Vec<u8>>; 4] = Default::default();
        let mut rest = input;
        for _ in 0..REQUESTS_MAX {
            let [number, low, high, after @ ..] = rest else { break };
            let len = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
            let bytes;
            (bytes, rest) = after.split_at(len);
            // Both wait until the thread of the row's client has ended its connection, which is this thread.
            let waits = matches!(bytes.first(), Some(2 | 5));
            if waits
                && seats.iter().any(|seat| seat.is_some() && bytes.get(1..5) == seat.as_deref())
            {
                continue;
            }
            let number = usize::from(*number) % connections.len();
            let place = &mut connections[number];
            let requests =
                place.get_or_insert_with(|| Requests::new(&memory, None::<Arc<TcpStream>>));
            match requests.answer(bytes) {
                Ok((answer, stays)) => {
                    assert!(answer.len() <= ANSWER_BYTES);
                    features.add((bytes.first(), answer.len().min(40), stays));
                    if bytes[0] == 3 {
                        self.replay(&mut model, &bytes[1..], &answer[1..], features);
                    }
                    if bytes[0] == 2 && answer.len() > 1 {
                        seats[number] = Some(answer[1..5].to_vec());
                    }
                    if !stays {
                        (*place, seats[number]) = (None, None);
                    }
                }
                Err(e) => {
                    features.add((bytes.first(), bytes.len().min(40), e.kind() as u8));
                    (*place, seats[number]) = (None, None);
                }
            }
        }
        // What is in the memory now.
        let mut reader = Requests::new(&memory, None);
        drop(connections);
        reader.answer(&join(u32::MAX, 0)).expect("a row is free");
        let all = verbs(&[(0, 0, &(MEMORY_BYTES as u16).to_le_bytes())]);
        let (answer, _) = reader.answer(&all).expect("it lies in the memory");
        assert!(answer[1..] == model, "the memory is not what the model says");
        assert_eq!(memory.clients(), 1);
    }
}

impl NodeRequests {
    /// Runs verbs that were answered on the model, and compares what they brought back.
    fn replay(&self, model: &mut [u8], mut rest: &[u8], mut back: &[u8], features: &mut Features) {
        let word = |rest: &mut &[u8]| {
            let (word, after) = rest.split_first_chunk().expect("a word follows");
            *rest = after;
            u64::from_le_bytes(*word)
        };
        let mut count = 0;
        while !rest.is_empty() {
            let head = word(&mut rest);
            let (off, kind) = ((head & 0xffff_ffff_ffff) as usize, head >> 48);
            let mut expect = |bytes: &[u8]| {
                let (brought, after) = back.split_at(bytes.len());
                assert!(brought == bytes, "verb {count} at {off}");
                back = after;
            };
            if kind < 2 {
                let len = usize::from(u16::from_le_bytes([rest[0], rest[1]]));
                rest = &rest[2..];
                if kind == 0 {
                    expect(&model[off..off + len]);
                } else {
                    let kept = len - usize::from(self.forgets && len > 0);
                    model[off..off + kept].copy_from_slice(&rest[..kept]);
                    rest = &rest[len..];
                }
                features.add((kind, off % 8, len.min(70)));
            } else {
                let was = u64::from_le_bytes(model[off..off + 8].try_into().expect("8 bytes"));
                expect(&was.to_le_bytes());
                let first = word(&mut rest);
                let new = match kind {
                    2 => {
                        let new = word(&mut rest);
                        if was == first { new } else { was }
                    }
                    _ => was.wrapping_add(first),
                };
                model[off..off + 8].copy_from_slice(&new.to_le_bytes());
                features.add((kind, was == first));
            }
            count += 1;
        }
        assert!(back.is_empty());
        features.add(("verbs", count.min(20)));
    }
}
