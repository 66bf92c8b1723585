//! Bytes that have arrived, cut into records.

use std::io;
use std::net::TcpStream;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

/// Room at first: of a peer that sends little, no more is taken.
const FIRST_BYTES: usize = 4 << 10;
/// Room at most: the longest record with its length, and so the most that a peer can make this hold.
const MOST_BYTES: usize = 2 + 65_535;

/// Bytes of a connection that were read, and are not used yet.
#[derive(Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// The bytes that are used, and the end of those that were read.
    start: usize,
    end: usize,
}

impl Inbox {
    /// Reads what is there, and waits for it if `wait`, as long as the stream's time limit says. The number of bytes;
    /// 0 when nothing has arrived, or nothing within that limit.
    pub(crate) fn fill(&mut self, stream: &TcpStream, wait: bool) -> io::Result<usize> {
        self.make_room();
        let flags = if wait { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
        loop {
            match recv(stream, &mut self.bytes[self.end..], flags) {
                Ok((_, 0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok((_, more)) => {
                    self.end += more;
                    return Ok(more);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(0),
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Whether the last read took as much as there was room for: there may be more.
    pub(crate) fn is_full(&self) -> bool {
        self.end == self.bytes.len()
    }

    /// Makes room for the rest of a record that has begun, or for as much as has arrived at once so far.
    fn make_room(&mut self) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        let was_full = self.end == self.bytes.len();
        if self.start > 0 && was_full {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        } else if was_full {
            let room = (2 * self.bytes.len()).clamp(FIRST_BYTES, MOST_BYTES);
            self.bytes.resize(room, 0);
        }
    }

    /// The next record, without its length; `None` until it has arrived whole.
    pub(crate) fn next(&mut self) -> Option<&[u8]> {
        let (len, rest) = self.bytes[self.start..self.end].split_first_chunk()?;
        let len = usize::from(u16::from_le_bytes(*len));
        let record = rest.get(..len)?;
        self.start += 2 + len;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn records_of_any_length_come_whole_however_they_arrive() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (two, _) = listener.accept().unwrap();
        let lens = [0, 1, 5, 4093, 4094, 4095, 9000, 65_535, 3, 65_535, 65_534];
        let records: Vec<_> = (0..).zip(lens).map(|(i, len)| vec![i; len]).collect();
        let sent = records.clone();
        let writer = std::thread::spawn(move || {
            for record in sent {
                one.write_all(&(record.len() as u16).to_le_bytes()).unwrap();
                one.write_all(&record).unwrap();
            }
        });
        let mut inbox = Inbox::default();
        for record in records {
            loop {
                if let Some(found) = inbox.next() {
                    assert_eq!(found, record);
                    break;
                }
                assert_ne!(inbox.fill(&two, true).unwrap(), 0);
                assert!(inbox.bytes.len() <= MOST_BYTES);
            }
        }
        writer.join().unwrap();
        assert_eq!(inbox.fill(&two, true).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
