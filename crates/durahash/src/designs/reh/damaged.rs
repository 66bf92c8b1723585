//! Ranges that are known to be damaged, and stay so as long as the pool is open.

use std::collections::BTreeMap;

use durahash_media::{Error, ErrorKind};

/// By their beginning: their end, and the damage with its offset.
#[derive(Default)]
pub(super) struct Damaged(BTreeMap<u64, (Option<u64>, &'static str, u64)>);

impl Damaged {
    /// Adds a range, if it is the bytes on the medium that are wrong.
    pub(super) fn add(&mut self, from: u64, end: Option<u64>, e: &Error) {
        if let ErrorKind::Corrupt { what, off } = *e.kind() {
            self.0.insert(from, (end, what, off));
        }
    }

    /// The end of the damaged range that `h` is in, and its error.
    pub(super) fn at(&self, h: u64) -> Option<(Option<u64>, Error)> {
        let (_, (end, what, off)) = self.0.range(..=h).next_back()?;
        end.is_none_or(|end| h < end).then(|| (*end, Error::corrupt(what, *off)))
    }

    /// True if there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
