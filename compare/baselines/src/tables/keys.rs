//! Keys in the slots themselves, or strings in records that the slots name.
//!
//! ```text
//! record, a block of the pool   byte 0  length of the key; 8  the key, of 16 bytes: its hash, twice
//! ```
//!
//! The papers keep a string that way: the word of the slot points to it, and every comparison, and every hash that is
//! needed again, reads it there (Dash, §4.5; REH, §IV-A, for all three tables). A record is durable before a slot
//! names it. Nothing frees one: the papers leave space to an allocator, and CCEH leaves words of keys that were removed
//! or moved, which would name another key's record then.

use durahash_media::{Error, Limit, Medium, Pool, Result};

const WORDS: u64 = 3;
const KEY_BYTES: u64 = 16;

/// What the words of slots are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Keys, which are their own hashes.
    Words,
    /// Offsets of records of strings.
    Strings,
}

impl Keys {
    /// The word for a slot of a new key of this hash.
    pub(super) fn make<M: Medium>(self, pool: &Pool<M>, h: u64) -> Result<u64> {
        if self == Keys::Words {
            return Ok(h);
        }
        let full = || Error::full(8 * WORDS, Limit::Disk);
        let off = pool.alloc_block(8 * WORDS, true)?.ok_or_else(full)?;
        let words = pool.words(off, WORDS)?;
        for (word, value) in words.iter().zip([KEY_BYTES, h, h]) {
            pool.medium().store(word, value);
        }
        pool.medium().flush(words);
        pool.medium().fence();
        Ok(off)
    }

    /// The hash of the key that a slot's word stands for.
    pub(super) fn hash<M: Medium>(self, pool: &Pool<M>, word: u64) -> Result<u64> {
        match self {
            Keys::Words => Ok(word),
            Keys::Strings => Ok(pool.medium().load(&pool.words(word, WORDS)?[1])),
        }
    }

    /// True if a slot's word stands for the key of this hash.
    pub(super) fn is<M: Medium>(self, pool: &Pool<M>, word: u64, h: u64) -> Result<bool> {
        if self == Keys::Words {
            return Ok(word == h);
        }
        let words = pool.words(word, WORDS)?.iter();
        Ok(words.zip([KEY_BYTES, h, h]).all(|(word, value)| pool.medium().load(word) == value))
    }
}
