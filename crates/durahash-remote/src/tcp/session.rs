//! A connection, at the node: records come in, and their answers go out.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use super::frames::ENDED;
use super::memory::{Served, TcpMemory};
use super::requests::Requests;
use crate::executor::Patience;
use crate::node::{Attend, Limits, Service};
use crate::wire::{Channel, RECORD_BYTES};

/// A thread that had to sleep no longer than this looks for the next request before it sleeps.
const HOT: Duration = Duration::from_micros(100);
/// Answers are sent when there are so many bytes of them, or no more requests have arrived.
const ANSWER_BYTES: usize = RECORD_BYTES;

impl From<&TcpMemory> for Service {
    fn from(memory: &TcpMemory) -> Self {
        Service { offer: memory.offer(), attend: Box::new(memory.clone()) }
    }
}

impl Attend for TcpMemory {
    fn attend(&self, channel: Channel, limits: &Limits) -> io::Result<()> {
        channel.stream.set_read_timeout(Some(limits.idle))?;
        channel.stream.set_write_timeout(Some(limits.silence))?;
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
        if done.is_err() {
            session.tell_end();
        }
        done
    }
}

/// A connection, at the node.
struct Session<'a> {
    served: &'a Served,
    channel: Channel,
    requests: Requests,
    /// Sealed answers that are not sent yet.
    out: Vec<u8>,
    /// The last requests came soon after the answers before them.
    hot: bool,
    patience: Patience,
}

impl Session<'_> {
    /// Serves requests until the client leaves, which is the only end without an error.
    fn serve(&mut self) -> io::Result<()> {
        let mut request = Vec::new();
        loop {
            while let Some(sealed) = self.channel.inbox.next() {
                self.channel.cipher.open(sealed, &mut request)?;
                let (answer, goes_on) = self.requests.answer(&request)?;
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

    fn send(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while sent < self.out.len() {
            match send(
                &self.channel.stream,
                &self.out[sent..],
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(more) => sent += more,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let (stream, rest) = (&self.channel.stream, &self.out[sent..]);
                    let wait = || Ok(send(stream, rest, SendFlags::NOSIGNAL)?);
                    sent += self.requests.connection().while_it_waits(wait)?;
                }
                Err(e) => return Err(e.into()),
            }
        }
        self.out.clear();
        Ok(())
    }

    /// Waits for requests.
    fn wait(&mut self) -> io::Result<()> {
        let begun = Instant::now();
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
                return filled.map(drop);
            }
        }
        if inbox.fill(stream, true)? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.hot = begun.elapsed() < HOT;
        Ok(())
    }

    /// Tells a client that is evicted, silent or wrong that its connection ends, if it takes that at once.
    fn tell_end(&mut self) {
        self.out.clear();
        if self.channel.cipher.seal(&[ENDED], &mut self.out).is_ok() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = send::<&TcpStream>(&self.channel.stream, &self.out, flags);
        }
    }
}
