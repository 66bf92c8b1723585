//! Entries that were removed and whose nodes are still in a queue: how many of each hash.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes are taken as they are.
#[derive(Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0 << 8 ^ u64::from(*byte));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }
}

#[derive(Default)]
pub(super) struct Gone(HashMap<u64, u32, BuildHasherDefault<AsIs>>);

impl Gone {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn add(&mut self, hash: u64) {
        *self.0.entry(hash).or_default() += 1;
    }

    /// Takes one of this hash out, if one is there.
    pub(super) fn take(&mut self, hash: u64) -> bool {
        // Most often nothing is gone.
        if self.0.is_empty() {
            return false;
        }
        let Entry::Occupied(mut found) = self.0.entry(hash) else { return false };
        *found.get_mut() -= 1;
        if *found.get() == 0 {
            found.remove();
        }
        true
    }

    pub(super) fn bytes(&self) -> usize {
        // A byte beside each slot; an eighth of the slots is always free.
        self.0.capacity() * 8 / 7 * (size_of::<(u64, u32)>() + 1)
    }
}
