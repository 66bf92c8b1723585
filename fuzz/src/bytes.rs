//! Numbers from an input, and the limits of what operations from one do.

/// Bytes that a map of operations may grow to.
pub(crate) const MAX_BYTES: u64 = 4 << 20;
/// Operations of an input that are done.
pub(crate) const OPS_MAX: usize = 1000;

/// Reads small numbers from bytes; zeros after their end.
pub(crate) struct Bytes<'a>(std::slice::Iter<'a, u8>);

impl<'a> Bytes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Bytes(bytes.iter())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    /// A number below `bound`, which is at most 256.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    pub(crate) fn number(&mut self, bound: usize) -> u64 {
        self.below(bound) as u64
    }
}
