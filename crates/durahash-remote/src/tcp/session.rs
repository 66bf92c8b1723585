//! A connection, at the node: records come in, and their answers go out.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendFlags, send};

use super::frames::ENDED;
use super::memory::{Served, TcpMemory};
use super::requests::Requests;
use super::work::End;
use crate::executor::Patience;
use crate::node::{Attend, Figure, Limits, Service};
use crate::wire::Channel;

/// A thread that had to sleep no longer than this looks for the next request before it sleeps.
const HOT: Duration = Duration::from_micros(100);
/// Answers are sent when there are so many bytes of them, or no more requests have arrived.
const ANSWER_BYTES: usize = 16 << 10;

impl From<&TcpMemory> for Service {
    fn from(memory: &TcpMemory) -> Self {
        Service { offer: memory.offer(), attend: Box::new(memory.clone()), is_open: true }
    }
}

impl Attend for TcpMemory {
    fn attend(&self, channel: Channel, limits: &Limits) -> Option<&'static str> {
        channel.stream.set_read_timeout(Some(limits.idle)).ok()?;
        channel.stream.set_write_timeout(Some(limits.silence)).ok()?;
        let requests = Requests::new(self, Some(Arc::clone(&channel.stream)));
        let served = &self.0;
        let mut session = Session {
            served,
            channel,
            requests,
            out: Vec::new(),
            hot: false,
            patience: Patience::default(),
        };
        let done = session.serve();
        let end = session.end(&done);
        if done.is_err() {
            session.tell_end();
        }
        end.inspect(|end| self.0.ends.add(*end)).and_then(End::why)
    }

    fn figures(&self) -> Vec<Figure> {
        self.0.figures()
    }
}

/// A connection, at the node.
struct Session<'a> {
    served: &'a Served,
    channel: Channel,
    requests: Requests,
    /// Sealed answers that were not sent.
    out: Vec<u8>,
    /// The last requests came soon after the answers before them.
    hot: bool,
    patience: Patience,
}

impl Session<'_> {
    /// Serves requests until the client leaves, which is the only end without an error.
    fn serve(&mut self) -> io::Result<()> {
        let mut room = Vec::new();
        loop {
            while let Some(sealed) = self.channel.inbox.next() {
                let request = self.channel.cipher.open(sealed, &mut room)?;
                let (answer, goes_on) = self.requests.answer(request)?;
                self.channel.cipher.seal(answer, &mut self.out)?;
                if !goes_on {
                    return self.send();
                }
                if self.out.len() >= ANSWER_BYTES {
                    self.send()?;
                }
            }
            self.send()?;
            self.wait()?;
        }
    }

    /// How the client has ended; `None` where there was none, or it has left before.
    fn end(&self, done: &io::Result<()>) -> Option<End> {
        let Err(e) = done else { return Some(End::Left) };
        self.requests.row()?;
        Some(match e.kind() {
            _ if self.requests.connection().has_ended() => End::Barred,
            io::ErrorKind::TimedOut => End::Silent,
            // The system's word for a time limit of what it sends.
            io::ErrorKind::WouldBlock => End::Clogged,
            io::ErrorKind::InvalidData => End::Wrong,
            _ => End::Gone,
        })
    }

    fn send(&mut self) -> io::Result<()> {
        let mut sent = 0;
        let done = self.send_from(&mut sent, true);
        self.out.drain(..sent);
        self.requests.connection().work.sent(sent);
        done
    }

    /// Sends the answers from `sent` on, of which the system takes all, or if it shall not `wait` as much as it can.
    fn send_from(&self, sent: &mut usize, wait: bool) -> io::Result<()> {
        let stream: &TcpStream = &self.channel.stream;
        let at_once = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        while *sent < self.out.len() {
            let rest = &self.out[*sent..];
            *sent += match retry_on_intr(|| send(stream, rest, at_once)) {
                Err(Errno::AGAIN) if wait => {
                    let wait = || Ok(retry_on_intr(|| send(stream, rest, SendFlags::NOSIGNAL))?);
                    self.requests.connection().while_it_waits(wait)?
                }
                sent => sent?,
            };
        }
        Ok(())
    }

    /// Waits for requests.
    fn wait(&mut self) -> io::Result<()> {
        let begun = Instant::now();
        self.requests.connection().waits_from(begun);
        let received = self.receive(begun)?;
        self.requests.connection().work.received(received);
        Ok(())
    }

    fn receive(&mut self, begun: Instant) -> io::Result<usize> {
        let Channel { stream, inbox, .. } = &mut self.channel;
        if self.hot
            && let Some(_spinning) = self.served.spin()
        {
            let mut filled = Ok(0);
            let is_there = || {
                filled = inbox.fill(stream, false);
                !matches!(filled, Ok(0))
            };
            if self.patience.look(None, is_there) {
                return filled;
            }
        }
        let filled = inbox.fill(stream, true)?;
        if filled == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.hot = begun.elapsed() < HOT;
        Ok(filled)
    }

    /// Tells a client that is evicted, silent or wrong that its connection ends, if it takes that at once.
    fn tell_end(&mut self) {
        // After the answers that are sealed already: each record has its number.
        if self.channel.cipher.seal(&[ENDED], &mut self.out).is_ok() {
            let _ = self.send_from(&mut 0, false);
        }
    }
}
