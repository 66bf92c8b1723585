//! The designs by name.

use std::fmt;
use std::str::FromStr;

use durahash_media::{Error, ErrorKind, Geometry, Result};

/// The published designs that a pool can be built as.
///
/// ```
/// use durahash::Design;
/// assert_eq!("reh".parse::<Design>()?, Design::Reh);
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Design {
    /// REH: buckets on the medium; directory, fingerprints and locks in DRAM. Fewest reads and
    /// writes of the medium, steady load factor.
    #[default]
    Reh,
    /// Pea Hash: everything but locks on the medium; segments that change their hashing as they
    /// fill. Opened in milliseconds, dense, and splits are rare.
    Pea,
    /// ESH: everything on the medium, locks too; segments that fill completely before they split.
    /// Dense, opened in milliseconds, and repaired segment by segment when operations
    /// first come there after a crash.
    Esh,
    /// Rewo-Hash: a cuckoo table on the medium, written without logs, and a bounded copy in DRAM of what
    /// is looked up. For skewed lookups on a slow medium.
    Rewo,
}

impl Design {
    /// All designs.
    ///
    /// ```
    /// use durahash::Design;
    /// assert!(Design::ALL.contains(&Design::default()));
    /// ```
    pub const ALL: &'static [Design] = &[Design::Reh, Design::Pea, Design::Esh, Design::Rewo];

    /// The sizes of a new pool's parts.
    pub(crate) fn geometry(self) -> Geometry {
        self.geometry_in(16)
    }

    /// The same in a pool that has such extents already. A segment of Pea Hash is half a mebibyte.
    pub(crate) fn geometry_in(self, extent_shift: u8) -> Geometry {
        const SEGMENT_BYTES: u64 = 512 << 10;
        let extents = (SEGMENT_BYTES >> extent_shift).clamp(1, 8) as u8;
        let buckets = if self == Design::Pea { extents } else { 0 };
        Geometry { extent_shift, buckets, ..Geometry::default() }
    }

    /// The number in the superblock.
    pub(crate) fn number(self) -> u8 {
        match self {
            Design::Reh => 1,
            Design::Pea => 2,
            Design::Esh => 3,
            Design::Rewo => 4,
        }
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Design::Reh => "reh",
            Design::Pea => "pea",
            Design::Esh => "esh",
            Design::Rewo => "rewo",
        })
    }
}

impl FromStr for Design {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        let design = Self::ALL.iter().find(|design| design.to_string() == name);
        design.copied().ok_or_else(|| {
            ErrorKind::Options { what: "no such design (reh, pea, esh, rewo)" }.into()
        })
    }
}
