//! A connection of which one thread reads and writes whole records.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use super::inbox::Inbox;
use super::noise::Cipher;
use super::stream::{left, write_all};

/// A connection with its keys.
pub(crate) struct Channel {
    pub(crate) stream: Arc<TcpStream>,
    pub(crate) cipher: Cipher,
    pub(crate) inbox: Inbox,
}

impl Channel {
    pub(crate) fn new(stream: Arc<TcpStream>, cipher: Cipher) -> Self {
        Channel { stream, cipher, inbox: Inbox::default() }
    }

    /// Sends a record.
    pub(crate) fn send(&mut self, plain: &[u8], until: Instant) -> io::Result<()> {
        let mut sealed = Vec::new();
        self.cipher.seal(plain, &mut sealed)?;
        write_all(&self.stream, &sealed, until)
    }

    /// Waits for the next record, and puts what it holds in place of `plain`.
    pub(crate) fn receive(&mut self, plain: &mut Vec<u8>, until: Instant) -> io::Result<()> {
        loop {
            if let Some(sealed) = self.inbox.next() {
                let len = self.cipher.open(sealed, plain)?.len();
                plain.truncate(len);
                return Ok(());
            }
            // What has arrived counts, even if it is read late.
            if self.inbox.fill(&self.stream, false)? == 0 {
                self.stream.set_read_timeout(Some(left(until)?))?;
                self.inbox.fill(&self.stream, true)?;
            }
        }
    }
}
