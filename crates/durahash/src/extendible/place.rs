//! An entry of the directory in DRAM.

use durahash_media::bits;

/// Where the segment of a hash is, and its strategy. Equal places are the same segment at the same
/// depth and with the same strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) const fn new(number: u64, depth: u32) -> Self {
        Place(number << 16 | depth as u64)
    }

    /// The same with another tag.
    pub(crate) const fn with_tag(self, tag: u8) -> Self {
        Place(self.0 & !0xff00 | (tag as u64) << 8)
    }

    #[inline(always)]
    pub(crate) const fn from_entry(entry: u64) -> Self {
        Place(entry)
    }

    #[inline(always)]
    pub(crate) const fn to_entry(self) -> u64 {
        self.0
    }

    /// The tag of the strategy.
    #[inline(always)]
    pub(crate) const fn tag(self) -> u8 {
        bits(self.0, 8, 8) as u8
    }

    /// The segment's number.
    #[inline(always)]
    pub(crate) const fn number(self) -> u64 {
        self.0 >> 16
    }

    /// Its local depth.
    #[inline(always)]
    pub(crate) const fn depth(self) -> u32 {
        bits(self.0, 0, 8) as u32
    }
}
