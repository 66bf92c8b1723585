//! Options of an index and of a client.

/// Sizes of an index, which are stored with it, and settings of one client. Fields may be
/// added: begin with the default, and set fields.
///
/// ```
/// let mut options = durahash_remote::Options::default();
/// options.max_clients = 8;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Options {
    /// Entries of a CurSegment, 2 to 4,096; 128 by default (1 KiB).
    pub cur_entries: u32,
    /// Entries of a MainSegment before it splits, at least `cur_entries`; 16 CurSegments by default. With more, up to the 64
    /// of the paper, the index takes 0.7 bytes a key less, and each put more of the network and the processor, as merges write
    /// MainSegments.
    pub main_entries: u32,
    /// The maximum depth of the directory, 1 to 40; 20 by default. Reserves 8 bytes for each of
    /// 2^depth cells. At that depth segments grow beyond `main_entries`.
    pub max_depth: u32,
    /// The initial depth of the directory, with 2^depth segments; 0 by default.
    pub first_depth: u32,
    /// Clients at once, at most, each with a row of the client table; 1 to 4,096, 64 by default. A client whose row in the fabric is
    /// not below this cannot open the index.
    pub max_clients: u32,
    /// The seed of the hash, a constant by default. Choose an unguessable one if the keys come from others.
    pub seed: u64,
    /// Of this client: bytes of a chunk, its unit of allocation from a node; 256 KiB by default.
    pub chunk_bytes: u64,
    /// Of this client: a quarter of the time that it waits for another client to merge a full segment, before it
    /// merges it, in ns; 20 µs by default. Over TCP it waits for as long as a merge's round trips take, if that is longer.
    pub wait_ns: u64,
    /// Of this client: the interval of its heartbeats, which also advance the epoch, in ns; 1 ms by default, at most a
    /// quarter of the lease.
    pub tick_ns: u64,
    /// Of this client: entries of MainSegments that it keeps, at most, of those that its merges wrote last, an empty one
    /// counted as one; 65,536 by default (1 MiB), 0 with a technique turned off. What it looks up among them takes one round
    /// trip, and merges do not read them.
    pub kept_entries: u32,
    /// Of this client: a technique to turn off, for measuring its effect; none by default.
    pub without: Option<Technique>,
}

/// A technique that makes operations cheaper and can be turned off. The index is the same, so clients with
/// and without it may share one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Technique {
    /// FPTables. Without them, lookups read the counts of a MainSegment before its entries.
    Tables,
    /// The cache of segments, including FPTables. Without it, each operation reads the whole CurSegment.
    Segments,
    /// Depth information in entries. Without it, every split reads all keys, not every fourth.
    Depths,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            cur_entries: 128,
            main_entries: 16 * 128,
            max_depth: 20,
            first_depth: 0,
            max_clients: 64,
            seed: 0x5e9_5e9,
            chunk_bytes: 256 << 10,
            wait_ns: 20_000,
            tick_ns: 1_000_000,
            kept_entries: 1 << 16,
            without: None,
        }
    }
}
