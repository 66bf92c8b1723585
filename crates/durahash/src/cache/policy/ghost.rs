//! What went a short while ago, by 12 bits of its hash.
//!
//! Rows of eight cells of two bytes. Time passes with what goes: an age is an eighth of the entries that are
//! remembered; a cell is empty or has the age in which it came, from 1 to 15, below its bits. What is eight ages old is
//! forgotten, and its cell used again.

use super::growing::{parent, place};

const CELLS: usize = 8;
const AGES: usize = 8;

#[derive(Default)]
pub(super) struct Ghost {
    rows: Vec<[u16; CELLS]>,
    /// The age, from 0 to 14.
    age: u16,
    /// What came in this age.
    came: usize,
    /// The row that is cleaned next.
    clean: usize,
}

/// The bits of a hash in its cell: neither those of its row nor those of its shard.
fn bits(hash: u64) -> u16 {
    (hash >> 40) as u16 & !15
}

impl Ghost {
    /// Ages that a cell has.
    fn ages(&self, cell: u16) -> u16 {
        (self.age + 15 - ((cell & 15) - 1)) % 15
    }

    fn is_new(&self, cell: u16) -> bool {
        cell & 15 != 0 && self.ages(cell) < AGES as u16
    }

    /// Remembers one, of so many in all.
    pub(super) fn add(&mut self, hash: u64, most: usize) {
        self.resize(most);
        self.came += 1;
        if self.came > most / AGES {
            self.came = 0;
            self.age = (self.age + 1) % 15;
        }
        // All rows are cleaned before the ages come around.
        for _ in 0..2 {
            self.clean = (self.clean + 1) % self.rows.len();
            let mut row = self.rows[self.clean];
            row.iter_mut().filter(|cell| !self.is_new(**cell)).for_each(|cell| *cell = 0);
            self.rows[self.clean] = row;
        }
        let at = place(hash >> 2, self.rows.len());
        let ages = |cell: &u16| if self.is_new(*cell) { self.ages(*cell) } else { u16::MAX };
        let cells = &self.rows[at];
        let oldest = (0..CELLS).max_by_key(|i| ages(&cells[*i])).unwrap_or(0);
        self.rows[at][oldest] = bits(hash) | (self.age + 1);
    }

    /// Takes one out; true if it was there, or one much like it.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        if self.rows.is_empty() {
            return false;
        }
        let at = place(hash >> 2, self.rows.len());
        let same = |cell: &u16| *cell & !15 == bits(hash) && self.is_new(*cell);
        let found = self.rows[at].iter().position(same);
        if let Some(found) = found {
            self.rows[at][found] = 0;
        }
        found.is_some()
    }

    /// Has cells for a fourth more than `most`, and up to an eighth of that.
    fn resize(&mut self, most: usize) {
        let rows = (most + most / 4) / CELLS + 1;
        if self.rows.len() < rows {
            let new = rows + rows / 8;
            self.rows.reserve_exact(new - self.rows.len());
            for at in self.rows.len()..new {
                let row = if at == 0 { [0; CELLS] } else { self.rows[parent(at)] };
                self.rows.push(row);
            }
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.rows.capacity() * CELLS * 2
    }
}
