//! Operations that wait for answers.

use std::task::Waker;

use durahash_media::{Error, ErrorKind, Result};

/// Why a connection is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The node has ended, or does not answer.
    Gone,
    /// The node has evicted this client.
    Evicted,
}

impl Lost {
    pub(super) fn error(self, node: u8) -> Error {
        match self {
            Lost::Gone => ErrorKind::NodeLost { node }.into(),
            Lost::Evicted => ErrorKind::Evicted.into(),
        }
    }
}

/// Operations by number. One that ended makes place for another.
#[derive(Default)]
pub(super) struct Ops {
    all: Vec<Op>,
    free: Vec<usize>,
    /// To be woken when nothing is locked.
    woken: Vec<Waker>,
}

#[derive(Default)]
struct Op {
    /// Parts of answers that have not arrived.
    left: usize,
    back: Vec<u8>,
    failed: Option<(Lost, u8)>,
    waker: Option<Waker>,
    /// Its future was dropped.
    dropped: bool,
}

impl Ops {
    /// A new operation, which brings back so many bytes.
    pub(super) fn add(&mut self, back: usize) -> usize {
        let op = Op { back: vec![0; back], ..Op::default() };
        match self.free.pop() {
            Some(number) => {
                self.all[number] = op;
                number
            }
            None => {
                self.all.push(op);
                self.all.len() - 1
            }
        }
    }

    pub(super) fn await_part(&mut self, op: usize) {
        self.all[op].left += 1;
    }

    /// A part of an answer has arrived.
    pub(super) fn arrive(&mut self, op: usize, at: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.all[op].back[at..at + bytes.len()].copy_from_slice(bytes);
        }
        self.ended_part(op);
    }

    /// A part will not arrive.
    pub(super) fn fail(&mut self, op: usize, lost: Lost, node: u8) {
        self.all[op].failed.get_or_insert((lost, node));
        self.ended_part(op);
    }

    fn ended_part(&mut self, number: usize) {
        let op = &mut self.all[number];
        op.left -= 1;
        if op.left == 0 || op.failed.is_some() {
            self.woken.extend(op.waker.take());
        }
        if op.left == 0 && op.dropped {
            self.free.push(number);
        }
    }

    /// The bytes that an operation brought back, when all have arrived. Then its number is free.
    pub(super) fn poll(&mut self, number: usize, waker: Option<&Waker>) -> Option<Result<Vec<u8>>> {
        let op = &mut self.all[number];
        if let Some((lost, node)) = op.failed {
            let error: Error = lost.error(node);
            self.drop_op(number);
            return Some(Err(error));
        }
        if op.left > 0 {
            op.waker = waker.cloned();
            return None;
        }
        self.free.push(number);
        Some(Ok(std::mem::take(&mut self.all[number].back)))
    }

    /// The future of an operation is dropped: its number is free when its answers have arrived.
    pub(super) fn drop_op(&mut self, number: usize) {
        let op = &mut self.all[number];
        op.dropped = true;
        op.waker = None;
        if op.left == 0 {
            self.free.push(number);
        }
    }

    /// Those to be woken.
    pub(super) fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }
}
