//! A client's connection to one node: records that are being filled, sent, and waited for.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use durahash_media::Result;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::frames::{self, DONE, ENDED, Filling};
use super::ops::{Lost, Ops};
use crate::fabric::{Kind, Verb};
use crate::wire::{Channel, Cipher, Inbox};

/// A record that so many bytes cross the network for is sent before a turn.
const EARLY_BYTES: usize = 6 << 10;

/// Bytes of an answer that belong to an operation.
struct Part {
    op: usize,
    /// Where they go.
    at: usize,
    len: usize,
}

/// A record that was sent, or will be.
struct Flight {
    parts: Vec<Part>,
    /// Bytes that its answer brings back.
    back: usize,
    /// When it was sealed.
    since: Instant,
}

pub(super) struct Conn {
    node: u8,
    stream: Arc<TcpStream>,
    cipher: Cipher,
    inbox: Inbox,
    filling: Filling,
    /// Of the record that is being filled.
    parts: Vec<Part>,
    /// Sealed records, of which so many bytes are sent.
    out: Vec<u8>,
    sent: usize,
    /// Those whose answers have not arrived.
    flights: VecDeque<Flight>,
    /// Records that were answered.
    answered: u64,
    /// The number of the last record with a write that is not awaited, from 1.
    unsignaled: u64,
    lost: Option<(Lost, u8)>,
    /// When the node last answered, or the system last took bytes.
    progress: Instant,
    /// For how long behind that a record stays that no operation waits for.
    pub(super) rides: Duration,
    plain: Vec<u8>,
}

impl Conn {
    pub(super) fn new(node: u8, channel: Channel, rides: Duration) -> Self {
        let Channel { stream, cipher, inbox } = channel;
        Conn {
            node,
            stream,
            cipher,
            inbox,
            filling: Filling::default(),
            parts: Vec::new(),
            out: Vec::new(),
            sent: 0,
            flights: VecDeque::new(),
            answered: 0,
            unsignaled: 0,
            lost: None,
            progress: Instant::now(),
            rides,
            plain: Vec::new(),
        }
    }

    pub(super) fn stands(&self) -> Result<()> {
        self.lost.map_or(Ok(()), |(lost, node)| Err(lost.error(node)))
    }

    pub(super) fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Why it is of no more use, and the node that was lost.
    pub(super) fn lost(&self) -> Option<(Lost, u8)> {
        self.lost
    }

    /// Returns whether the system did not take all that is to be sent.
    pub(super) fn is_clogged(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Since when it waits for an answer, and nothing has moved; `None` when it waits for none.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        self.flights.front().map(|flight| flight.since.max(self.progress))
    }

    pub(super) fn is_silent_for(&self, silence: Duration) -> bool {
        self.waits_since().is_some_and(|since| since.elapsed() >= silence)
    }

    /// Adds a verb of an operation; `None` for a write that is not awaited.
    pub(super) fn post(&mut self, ops: &mut Ops, op: Option<usize>, verb: &Verb, out: &[u8]) {
        let mut done = 0;
        loop {
            let Some(added) = self.filling.add(verb, done, out) else {
                self.send_early();
                continue;
            };
            match op {
                Some(op) => {
                    let back = if let Kind::Write = verb.kind { 0 } else { added };
                    self.expect(ops, op, verb.start as usize + done, back);
                }
                None => self.unsignaled = self.next_number(),
            }
            done += added;
            if done >= verb.len as usize {
                break;
            }
        }
        if self.filling.bytes().len() + self.filling.back() >= EARLY_BYTES {
            self.send_early();
        }
    }

    /// Sends the record that is being filled: the node runs it while the next one is.
    fn send_early(&mut self) {
        self.seal();
        // The turn finds out that it has failed.
        drop(self.send());
    }

    /// Adds a request of another kind.
    pub(super) fn ask(&mut self, ops: &mut Ops, op: Option<usize>, request: &[u8], back: usize) {
        self.seal();
        if let Some(op) = op {
            self.expect(ops, op, 0, back);
        }
        self.seal_record(request, back);
    }

    /// Notes that the answer to the record that is being filled brings back bytes of an operation.
    fn expect(&mut self, ops: &mut Ops, op: usize, at: usize, len: usize) {
        match self.parts.last_mut() {
            Some(last)
                if last.op == op && (len == 0 || last.len == 0 || last.at + last.len == at) =>
            {
                if last.len == 0 {
                    last.at = at;
                }
                last.len += len;
            }
            _ => {
                ops.await_part(op);
                self.parts.push(Part { op, at, len });
            }
        }
    }

    /// The number of the record that is being filled.
    fn next_number(&self) -> u64 {
        self.answered + self.flights.len() as u64 + 1
    }

    /// Has an operation wait for the last write that is not awaited.
    pub(super) fn flush(&mut self, ops: &mut Ops, op: usize) {
        let Some(ahead) = self.unsignaled.checked_sub(self.answered + 1) else { return };
        let part = Part { op, at: 0, len: 0 };
        ops.await_part(op);
        match self.flights.get_mut(ahead as usize) {
            Some(flight) => flight.parts.push(part),
            None => self.parts.push(part),
        }
    }

    /// Ends the record that is being filled.
    fn seal(&mut self) {
        if !self.filling.is_empty() {
            let mut filling = std::mem::take(&mut self.filling);
            self.seal_record(filling.bytes(), filling.back());
            filling.clear();
            self.filling = filling;
        }
    }

    fn seal_record(&mut self, plain: &[u8], back: usize) {
        // It fails after 2^64 records, and for one that is too long, which none is.
        self.cipher.seal(plain, &mut self.out).expect("a record that fits is sealed");
        let parts = std::mem::take(&mut self.parts);
        self.flights.push_back(Flight { parts, back, since: Instant::now() });
    }

    /// Sends what was posted, and takes what has arrived. Returns whether anything has moved.
    ///
    /// A record of nothing but writes that are not awaited stays for a moment: it goes with what is awaited next, or when
    /// nothing has moved for a while.
    pub(super) fn turn(&mut self, ops: &mut Ops) -> bool {
        if self.lost.is_some() {
            return false;
        }
        if !self.parts.is_empty()
            || !self.filling.is_empty() && self.progress.elapsed() >= self.rides
        {
            self.seal();
        }
        let sent = self.send();
        // What a node says at its end has arrived before that keeps this from sending.
        match (sent, self.receive(ops)) {
            (Ok(sent), Ok(received)) => sent || received,
            _ => {
                self.lose((Lost::Gone, self.node), ops);
                true
            }
        }
    }

    fn send(&mut self) -> io::Result<bool> {
        let before = self.sent;
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while self.sent < self.out.len() {
            match send(&self.stream, &self.out[self.sent..], flags) {
                Ok(more) => self.sent += more,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(e) => return Err(e.into()),
            }
        }
        let moved = self.sent > before;
        if moved {
            self.progress = Instant::now();
        }
        // Fewer bytes are moved than were sent, and what was sent takes no more room than what was not.
        if self.sent > self.out.len() / 2 {
            self.out.drain(..self.sent);
            self.sent = 0;
        }
        Ok(moved)
    }

    fn receive(&mut self, ops: &mut Ops) -> io::Result<bool> {
        let (mut moved, mut is_all) = (false, false);
        loop {
            while let Some(sealed) = self.inbox.next() {
                moved = true;
                let mut room = std::mem::take(&mut self.plain);
                let plain = self.cipher.open(sealed, &mut room)?;
                if plain.first() == Some(&ENDED) {
                    self.lose((Lost::Evicted, self.node), ops);
                    return Ok(true);
                }
                self.answer(plain, ops)?;
                self.plain = room;
            }
            if is_all || self.inbox.fill(&self.stream, false)? == 0 {
                return Ok(moved);
            }
            // What arrives after a read that found less than there was room for is for the next turn.
            is_all = !self.inbox.is_full();
        }
    }

    /// Takes the answer to the oldest record.
    fn answer(&mut self, plain: &[u8], ops: &mut Ops) -> io::Result<()> {
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        let (status, mut bytes) = plain.split_first().ok_or_else(malformed)?;
        let expected = self.flights.front().map(|flight| flight.back).ok_or_else(malformed)?;
        if *status != DONE || bytes.len() != expected {
            return Err(malformed());
        }
        let flight = self.flights.pop_front().ok_or_else(malformed)?;
        self.answered += 1;
        self.progress = Instant::now();
        for part in flight.parts {
            let brought;
            (brought, bytes) = bytes.split_at(part.len);
            ops.arrive(part.op, part.at, brought);
        }
        Ok(())
    }

    /// Gives up the connection, as this node was lost: what was posted has an unknown outcome.
    pub(super) fn lose(&mut self, (lost, node): (Lost, u8), ops: &mut Ops) {
        if self.lost.is_none() || lost == Lost::Evicted {
            self.lost = Some((lost, node));
        }
        self.filling.clear();
        self.out = Vec::new();
        self.sent = 0;
        let flights = self.flights.drain(..).flat_map(|flight| flight.parts);
        for part in flights.chain(self.parts.drain(..)) {
            ops.fail(part.op, lost, node);
        }
    }

    /// Returns whether nothing is under way.
    pub(super) fn is_quiet(&self) -> bool {
        self.lost.is_some() || (self.flights.is_empty() && self.filling.is_empty())
    }

    /// Asks the node whether it is there.
    pub(super) fn ping(&mut self, ops: &mut Ops) {
        self.ask(ops, None, &frames::plain(frames::PING, 0, 0), 0);
    }
}
