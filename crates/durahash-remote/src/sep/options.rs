//! What an index is made and opened with.

/// Sizes of an index, which are kept with it, and how a client goes about it, which is not. Others may be
/// added: begin with the default, and set fields.
///
/// ```
/// let mut options = durahash_remote::Options::default();
/// options.rows = 8;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Entries of a CurSegment, 2 to 4,096; 128 by default (1 KiB).
    pub cur_entries: u32,
    /// Entries that a MainSegment holds before it splits, no less than `cur_entries`; 64 CurSegments by
    /// default.
    pub main_entries: u32,
    /// The directory's depth at most, 1 to 40; 20 by default. It is reserved: 8 bytes for each of
    /// 2^depth cells. At that depth segments grow beyond `main_entries`.
    pub max_depth: u32,
    /// The directory's first depth: 2^depth segments; 0 by default.
    pub first_depth: u32,
    /// Clients at most, 1 to 4,096; 64 by default. A client whose row in the fabric is not below this cannot
    /// open the index.
    pub rows: u32,
    /// The seed of the hash, a constant by default. Choose one that others cannot guess where they
    /// choose the keys.
    pub seed: u64,
    /// Of this client: bytes that it takes from a node at once; 256 KiB by default.
    pub chunk_bytes: u64,
    /// Of this client: a quarter of how long it waits for another to merge a full segment before it does so
    /// itself, in ns; 20 µs by default.
    pub wait_ns: u64,
    /// Of this client: how often it shows life and moves the epoch, in ns; 1 ms by default, or a quarter of
    /// the lease where that is less.
    pub tick_ns: u64,
    /// Of this client: what it goes without, so that the effect of that can be told; nothing by default.
    pub without: Option<Technique>,
}

/// What makes operations cheaper, and can be gone without. The index is the same, so that clients with
/// and without it may share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Technique {
    /// FPTables: the counts of a MainSegment are read before its entries.
    Tables,
    /// All that is remembered of segments, FPTables included: each operation reads the CurSegment whole.
    Segments,
    /// Depth information in entries: every split reads all keys, not every fourth.
    Depths,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cur_entries: 128,
            main_entries: 64 * 128,
            max_depth: 20,
            first_depth: 0,
            rows: 64,
            seed: 0x5e9_5e9,
            chunk_bytes: 256 << 10,
            wait_ns: 20_000,
            tick_ns: 1_000_000,
            without: None,
        }
    }
}
