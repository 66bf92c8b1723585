//! What a node does with the requests of a connection.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use super::frames::{self, DONE, FULL, OTHER, Request};
use super::memory::TcpMemory;
use super::rows::{Connection, NoSeat, Seat};
use crate::fabric::Verb;

/// The requests of a connection, which come one after the other. Public for tests that have no connection.
pub struct Requests {
    memory: TcpMemory,
    connection: Arc<Connection>,
    /// From its join on.
    seat: Option<Seat>,
    verbs: Vec<Verb>,
    answer: Vec<u8>,
}

impl Requests {
    /// Of a connection that is about to join. Without a stream nobody is told that it is evicted.
    #[must_use]
    pub fn new(memory: &TcpMemory, stream: Option<Arc<TcpStream>>) -> Self {
        let connection = Connection::new(stream);
        let (memory, verbs, answer) = (memory.clone(), Vec::new(), Vec::new());
        Requests { memory, connection, seat: None, verbs, answer }
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The row, from the join on until the client leaves.
    pub(super) fn row(&self) -> Option<u32> {
        self.seat.as_ref().map(|seat| seat.row)
    }

    /// Does what a request asks for. Returns the answer, and `false` when the client leaves.
    ///
    /// # Errors
    /// When the request is malformed, or the client is evicted: then the connection ends.
    pub fn answer(&mut self, bytes: &[u8]) -> io::Result<(&[u8], bool)> {
        let malformed = || io::Error::from(io::ErrorKind::InvalidData);
        let evicted = || io::Error::from(io::ErrorKind::ConnectionAborted);
        let request = frames::request(bytes).ok_or_else(malformed)?;
        if self.connection.has_ended() {
            return Err(evicted());
        }
        let rows = &self.memory.0.rows;
        self.answer.clear();
        self.answer.push(DONE);
        match (request, &self.seat) {
            (Request::Verbs, Some(_)) => self.run(bytes).ok_or_else(malformed)?,
            (Request::Ping, _) => {}
            (Request::Who { row }, _) => rows.who(row, &mut self.answer),
            (Request::Join { row, incarnation, zero }, None) => {
                let seat = match row {
                    frames::NO_ROW => rows.give(zero, &self.connection),
                    _ => rows.take(row, incarnation, zero, &self.connection),
                };
                match seat {
                    Ok(seat) => {
                        self.answer.extend(seat.row.to_le_bytes());
                        self.answer.extend(seat.incarnation.to_le_bytes());
                        self.seat = Some(seat);
                    }
                    Err(NoSeat::Full) => self.answer[0] = FULL,
                    Err(NoSeat::Other) => self.answer[0] = OTHER,
                    Err(NoSeat::Evicted) => return Err(evicted()),
                }
            }
            (Request::Row { row }, Some(_)) => {
                self.answer.extend(rows.free_since(row).unwrap_or(0).to_le_bytes());
            }
            (Request::Bar { row, incarnation }, seat)
                if seat.as_ref().is_none_or(|seat| seat.row != row) =>
            {
                let connection = &self.connection;
                if !rows.bar(row, incarnation, || connection.has_ended()) {
                    return Err(evicted());
                }
            }
            (Request::Rows, Some(_)) => self.answer.extend(rows.taken().to_le_bytes()),
            (Request::Leave, _) => {
                self.seat = None;
                return Ok((&self.answer, false));
            }
            _ => return Err(malformed()),
        }
        Ok((&self.answer, true))
    }

    /// Runs the verbs of a record, all or none.
    fn run(&mut self, record: &[u8]) -> Option<()> {
        let back = frames::verbs(record, &mut self.verbs)?;
        self.answer.resize(1 + back, 0);
        self.memory.0.local.execute(&self.verbs, record, &mut self.answer[1..]).ok()?;
        self.connection.work.ran(&self.verbs);
        Some(())
    }
}
