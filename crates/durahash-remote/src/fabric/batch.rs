//! Verbs that are posted together, and their results.

use durahash_media::{ErrorKind, Result};

use super::{Addr, Counts};

/// Kinds of verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "named after the methods of `Batch`")]
pub enum Kind {
    Read,
    Write,
    CompareSwap { old: u64, new: u64 },
    FetchAdd { n: u64 },
}

/// One verb, as a fabric sees it; its bytes are in a buffer of its batch.
#[derive(Clone, Copy, Debug)]
pub struct Verb {
    /// Address.
    pub addr: Addr,
    /// Kind.
    pub kind: Kind,
    /// Index of its first byte: of a write, in the bytes to be written; otherwise in the bytes that come back.
    pub start: u32,
    /// Number of bytes; 8 for an atomic.
    pub len: u32,
}

/// Verbs to be posted together. Each method returns the index of its result in [`Done`].
///
/// ```
/// use durahash_remote::fabric::{Addr, Batch};
/// let mut batch = Batch::of(|batch| batch.read(Addr::new(0, 64), 24));
/// assert_eq!(batch.compare_swap(Addr::new(0, 128), 0, 7), 1);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub(super) verbs: Vec<Verb>,
    /// The bytes to be written.
    pub(super) out: Vec<u8>,
    /// Bytes that come back.
    pub(super) back: u32,
}

impl Batch {
    /// A batch without verbs.
    #[must_use]
    pub fn new() -> Self {
        Batch::default()
    }

    /// A batch without verbs that has room for so many.
    pub(crate) fn with_capacity(verbs: usize) -> Self {
        Batch { verbs: Vec::with_capacity(verbs), ..Batch::default() }
    }

    /// A batch with the verbs that `fill` adds.
    pub fn of<T>(fill: impl FnOnce(&mut Batch) -> T) -> Self {
        let mut batch = Batch::new();
        fill(&mut batch);
        batch
    }

    /// Returns whether no verb changes memory.
    #[must_use]
    pub fn only_reads(&self) -> bool {
        self.verbs.iter().all(|verb| matches!(verb.kind, Kind::Read))
    }

    /// The verbs.
    pub(crate) fn verbs(&self) -> &[Verb] {
        &self.verbs
    }

    /// The number of verbs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.verbs.len()
    }

    /// Returns whether there are no verbs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.verbs.is_empty()
    }

    /// Reads `len` bytes from `addr`. Neither needs to be aligned.
    ///
    /// # Panics
    /// When the batch reads more than 4 GiB.
    pub fn read(&mut self, addr: Addr, len: usize) -> usize {
        self.push_back(addr, Kind::Read, len)
    }

    /// Writes `bytes` at `addr`, which need not be aligned. Other bytes of the same words stay.
    ///
    /// # Panics
    /// When the batch writes more than 4 GiB.
    pub fn write(&mut self, addr: Addr, bytes: &[u8]) -> usize {
        let start = size(self.out.len());
        size(self.out.len() + bytes.len());
        self.out.extend_from_slice(bytes);
        self.push(Verb { addr, kind: Kind::Write, start, len: size(bytes.len()) })
    }

    /// Writes a word at `addr`.
    pub fn write_word(&mut self, addr: Addr, word: u64) -> usize {
        self.write(addr, &word.to_le_bytes())
    }

    /// Stores `new` in the word at `addr`, a multiple of 8, if it is `old`; returns the previous word.
    pub fn compare_swap(&mut self, addr: Addr, old: u64, new: u64) -> usize {
        self.push_back(addr, Kind::CompareSwap { old, new }, 8)
    }

    /// Adds `n` to the word at `addr`, a multiple of 8, with wrap-around; returns the previous word.
    pub fn fetch_add(&mut self, addr: Addr, n: u64) -> usize {
        self.push_back(addr, Kind::FetchAdd { n }, 8)
    }

    fn push(&mut self, verb: Verb) -> usize {
        self.verbs.push(verb);
        self.verbs.len() - 1
    }

    fn push_back(&mut self, addr: Addr, kind: Kind, len: usize) -> usize {
        let start = self.back;
        self.back = size(start as usize + len);
        self.push(Verb { addr, kind, start, len: size(len) })
    }

    /// For the fabric: the verbs, the bytes to be written, and how many bytes come back.
    #[must_use]
    pub fn into_parts(self) -> (Vec<Verb>, Vec<u8>, usize) {
        (self.verbs, self.out, self.back as usize)
    }

    /// Checks that every verb lies in its region, and every atomic on a word. `region_bytes` returns the
    /// size of a node's region, or `None` without such a node.
    ///
    /// # Errors
    /// [`OutOfRegion`](ErrorKind::OutOfRegion) and [`Unaligned`](ErrorKind::Unaligned).
    pub fn check(&self, region_bytes: impl Fn(u8) -> Option<u64>) -> Result<()> {
        self.verbs.iter().try_for_each(|verb| verb.check(&region_bytes))
    }

    /// Adds the cost of the batch to `counts`: its verbs and bytes, and a round trip unless it is empty.
    pub fn count(&self, counts: &mut Counts) {
        counts.round_trips += u64::from(!self.verbs.is_empty());
        for verb in &self.verbs {
            verb.count(counts);
        }
    }
}

impl Verb {
    pub(crate) fn check(&self, region_bytes: &impl Fn(u8) -> Option<u64>) -> Result<()> {
        let (node, off, bytes) = (self.addr.node(), self.addr.off(), u64::from(self.len));
        let region_bytes = region_bytes(node);
        if region_bytes.and_then(|all| all.checked_sub(bytes)).is_none_or(|last| off > last) {
            let region_bytes = region_bytes.unwrap_or(0);
            return Err(ErrorKind::OutOfRegion { node, off, bytes, region_bytes }.into());
        }
        let atomic = matches!(self.kind, Kind::CompareSwap { .. } | Kind::FetchAdd { .. });
        if atomic && !off.is_multiple_of(8) {
            return Err(ErrorKind::Unaligned { node, off }.into());
        }
        Ok(())
    }

    fn count(&self, counts: &mut Counts) {
        match self.kind {
            Kind::Read => counts.reads += 1,
            Kind::Write => counts.writes += 1,
            Kind::CompareSwap { .. } => counts.swaps += 1,
            Kind::FetchAdd { .. } => counts.adds += 1,
        }
        counts.bytes_out += self.bytes_out();
        counts.bytes_in += self.bytes_in();
    }

    /// Bytes of payload towards the node.
    pub(super) fn bytes_out(&self) -> u64 {
        match self.kind {
            Kind::Read => 0,
            Kind::Write => self.len.into(),
            Kind::CompareSwap { .. } => 16,
            Kind::FetchAdd { .. } => 8,
        }
    }

    /// Bytes of payload that come back.
    pub(super) fn bytes_in(&self) -> u64 {
        if matches!(self.kind, Kind::Write) { 0 } else { self.len.into() }
    }
}

fn size(len: usize) -> u32 {
    u32::try_from(len).expect("a batch moves at most 4 GiB in each direction")
}

/// Results of the verbs of a batch.
#[derive(Clone, Debug, Default)]
pub struct Done {
    verbs: Vec<Verb>,
    back: Vec<u8>,
}

impl Done {
    /// Results of `verbs`: the bytes that they brought back, those of each verb from its `start` on.
    #[must_use]
    pub fn new(verbs: Vec<Verb>, back: Vec<u8>) -> Self {
        Done { verbs, back }
    }

    #[cfg(test)]
    pub(super) fn verbs_count(&self) -> usize {
        self.verbs.len()
    }

    /// All bytes that the batch brought back.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.back
    }

    /// The bytes that verb `i` brought back: of a read its bytes, of an atomic the previous word, of a write none.
    ///
    /// # Panics
    /// When there is no such verb.
    #[must_use]
    pub fn bytes(&self, i: usize) -> &[u8] {
        let Verb { kind, start, len, .. } = self.verbs[i];
        if matches!(kind, Kind::Write) { &[] } else { &self.back[start as usize..][..len as usize] }
    }

    /// The first 8 bytes that verb `i` brought back: of an atomic, the previous word.
    ///
    /// # Panics
    /// When there is no such verb, or it brought back less.
    #[must_use]
    pub fn word(&self, i: usize) -> u64 {
        let bytes = self.bytes(i).first_chunk().expect("the verb brings back at least a word");
        u64::from_le_bytes(*bytes)
    }
}
