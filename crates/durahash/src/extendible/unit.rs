//! An entry of the directory in DRAM.

use durahash_media::bits;

/// A unit as the directory names it: number, local depth, and a tag. Equal ones are the same segment at the same
/// depth and with the same tag, which is the strategy in Pea Hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit(u64);

impl Unit {
    pub(crate) const fn new(number: u64, depth: u32) -> Self {
        Unit(number << 16 | depth as u64)
    }

    /// The same with another tag.
    pub(crate) const fn with_tag(self, tag: u8) -> Self {
        Unit(self.0 & !0xff00 | (tag as u64) << 8)
    }

    #[inline(always)]
    pub(crate) const fn from_word(entry: u64) -> Self {
        Unit(entry)
    }

    #[inline(always)]
    pub(crate) const fn to_word(self) -> u64 {
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
