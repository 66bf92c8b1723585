//! Addresses in the nodes' regions.

use std::fmt;

/// A byte in the region of a node: 8 bits of node, 56 bits of offset. Never a virtual address.
///
/// ```
/// use durahash_remote::fabric::Addr;
/// let addr = Addr::new(2, 0x40).add(8);
/// assert_eq!((addr.node(), addr.off()), (2, 0x48));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addr(u64);

const OFF_BITS: u32 = 56;

impl Addr {
    /// Offset `off` in the region of `node`.
    ///
    /// # Panics
    /// When the offset has more than 56 bits.
    #[must_use]
    pub const fn new(node: u8, off: u64) -> Self {
        assert!(off >> OFF_BITS == 0, "an offset has 56 bits");
        Addr((node as u64) << OFF_BITS | off)
    }

    /// The node.
    #[must_use]
    pub const fn node(self) -> u8 {
        (self.0 >> OFF_BITS) as u8
    }

    /// The offset in its region, in bytes.
    #[must_use]
    pub const fn off(self) -> u64 {
        self.0 & (u64::MAX >> (64 - OFF_BITS))
    }

    /// `bytes` further in the same region.
    ///
    /// # Panics
    /// When the offset has more than 56 bits then.
    #[must_use]
    #[allow(clippy::should_implement_trait, reason = "an address plus bytes, as of pointers")]
    pub const fn add(self, bytes: u64) -> Self {
        match self.off().checked_add(bytes) {
            Some(off) => Addr::new(self.node(), off),
            None => panic!("an offset has 56 bits"),
        }
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:#x}", self.node(), self.off())
    }
}
