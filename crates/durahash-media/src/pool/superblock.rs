//! The superblock: the first 512 bytes of a pool.
//!
//! ```text
//! line  bytes
//! 0     0    magic     8 byte_order 16 version  24 contents  32 types  40 geometry
//!       48   max_extents            56 seed
//! 1     64   uuid (2 words)         80 reserved 88 crc of the words before it
//! 2     128  state     136 boot_id (2 words)    152 extents   160 log (2 words)   176 sync_mode  184 file
//! 3     192  saved: seven counters, good after a clean close, and their CRC
//! 4     256  roots: eight words, for the design
//! 5     320  maps      328 batch
//! 5-7   336  tables: where the extent tables behind the first one lie
//! 7     488  checks (2 words)     504 reserved, zero
//! ```
//!
//! Lines 0 and 1 never change. `state` is the word that opens and closes: its low half is the open
//! epoch, above it the flags. Every root changes by one 8-byte store.

use crate::error::{Error, ErrorKind, Result};
use crate::medium::{CHECKS_OFF, FORMAT_VERSION, LOG_OFF, Medium, TABLES, TABLES_OFF};
use crate::on_media;
use crate::word::{PmU64, bits};

/// "DURAHASH", read as a little-endian word.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"DURAHASH");
/// Reads differently on a machine of the other byte order.
pub(crate) const BYTE_ORDER: u64 = 0x0102_0304_0506_0708;

/// Extent tables beside the first one: enough for 2^48 bytes in extents of the default size.
pub(crate) const FURTHER_TABLES: usize = 19;

/// Further maps that a pool has room for, beside the one that the superblock describes.
pub(crate) const MAPS_MAX: u8 = 63;

/// Words of lines 0 and 1 that the CRC covers.
const CRC_WORDS: u64 = 11;

const _: () = assert!(std::mem::offset_of!(Superblock, log) as u64 == LOG_OFF);
const _: () = assert!(std::mem::offset_of!(Superblock, checks) as u64 == CHECKS_OFF);
const _: () = assert!(std::mem::offset_of!(Superblock, tables) as u64 == TABLES_OFF);
const _: () = assert!(FURTHER_TABLES as u64 == TABLES);

on_media! {
    /// The superblock, at offset 0. See `docs/format.md`.
    pub struct Superblock: 512, align 64 {
        /// "DURAHASH".
        pub magic: PmU64,
        /// Eight bytes that tell the byte order.
        pub byte_order: PmU64,
        /// The format's version.
        pub version: PmU64,
        /// Design (bits 0-7) and kind of map (bits 8-15), see [`Format`].
        pub contents: PmU64,
        /// Type tags: of the key (bits 0-31), of the value (bits 32-63).
        pub types: PmU64,
        /// Shifts and limits, see [`Geometry`].
        pub geometry: PmU64,
        /// Extents that the pool may ever have; zero if no limit was set.
        pub max_extents: PmU64,
        /// Seed of every hash.
        pub seed: PmU64,
        /// Random, different for each pool.
        pub uuid: [PmU64; 2],
        /// Zero.
        pub reserved0: PmU64,
        /// CRC-32 of the eleven words before it.
        pub crc: PmU64,
        /// Zero.
        pub reserved1: [PmU64; 4],
        /// Open epoch (bits 0-31), clean (bit 32), suspect (bit 33), page cache (bit 34).
        pub state: PmU64,
        /// The machine's boot id at the last open.
        pub boot_id: [PmU64; 2],
        /// Extents that are backed by the file.
        pub extents: PmU64,
        /// Offset and bytes of the log's area; zero if there is none. Read by the medium, too.
        pub log: [PmU64; 2],
        /// The mode to open the pool in: 0 process, 1 strict, 2 interval and from bit 8 on its
        /// milliseconds.
        pub sync_mode: PmU64,
        /// The file that the pool was last opened in, see [`FileId`](crate::identity::FileId); zero if it is not known.
        pub file: PmU64,
        /// Counters saved by a clean close.
        pub saved: [PmU64; 7],
        /// CRC-32 of the counters and the state word of the close that saved them.
        pub saved_crc: PmU64,
        /// Where the design starts from.
        pub roots: [PmU64; 8],
        /// Offset of the table of further maps, a record block; zero if there is none.
        pub maps: PmU64,
        /// Name of the record of the batch that is being applied; 0 is none. With bit 63 set it is being undone.
        pub batch: PmU64,
        /// Offsets of the extent tables behind the first one; zero for those that are not there.
        pub tables: [PmU64; FURTHER_TABLES],
        /// Offset of the area of check words, zero if there is none; its extents (bits 32-63), with the CRC-32 of
        /// both numbers.
        pub checks: [PmU64; 2],
        /// Zero.
        pub reserved3: PmU64,
    }
}

/// Sizes that are read at open, so that tests can run with tiny ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// An extent has `1 << extent_shift` bytes: 19 by default, 10 to 30.
    pub extent_shift: u8,
    /// Slots of a bucket that are used; 0 is all of them.
    pub slots: u8,
    /// Bits of a byte key's hash that are used, from the most significant; 0 is all 64. For tests
    /// of chains of equal hashes.
    pub hash_bits: u8,
    /// Buckets of a segment of ESH, 0 is its default; extents of a segment of Pea Hash, 0 is one: a power of two up
    /// to 64.
    pub buckets: u8,
}

impl Default for Geometry {
    fn default() -> Self {
        Geometry { extent_shift: 19, slots: 0, hash_bits: 0, buckets: 0 }
    }
}

impl Geometry {
    fn to_word(self) -> u64 {
        let bytes = [self.extent_shift, self.slots, self.hash_bits, self.buckets];
        u64::from(u32::from_le_bytes(bytes))
    }

    /// True if every field is in its range.
    pub(crate) fn is_possible(&self) -> bool {
        (10..=30).contains(&self.extent_shift)
            && self.slots <= 64
            && self.hash_bits <= 64
            && self.buckets <= 64
            && (self.buckets == 0 || self.buckets.is_power_of_two())
    }

    fn from_word(word: u64) -> Result<Self> {
        let geometry = Geometry {
            extent_shift: bits(word, 0, 8) as u8,
            slots: bits(word, 8, 8) as u8,
            hash_bits: bits(word, 16, 8) as u8,
            buckets: bits(word, 24, 8) as u8,
        };
        let known = geometry.is_possible() && word >> 32 == 0;
        if known { Ok(geometry) } else { Err(Error::corrupt("geometry out of range", 40)) }
    }
}

/// The format of a pool: written once, when it is created. Exhaustive: who makes a pool must set a field that is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Number of the design.
    pub design: u8,
    /// Kind of map: 0 a map, 1 a multimap, [`NO_MAP`](Format::NO_MAP) none.
    pub kind: u8,
    /// True if entries of fixed size are kept in cells.
    pub cells: bool,
    /// True if slots have values of a cache themselves, instead of the names of their cells.
    pub in_slots: bool,
    /// Tag of the key's type.
    pub key_type: u32,
    /// Tag of the value's type.
    pub value_type: u32,
    /// Sizes.
    pub geometry: Geometry,
    /// Seed of every hash.
    pub seed: u64,
    /// Bytes beyond which the pool never grows; `u64::MAX` if no limit was set.
    pub max_bytes: u64,
}

impl Format {
    /// The kind of a pool that has further maps only.
    pub const NO_MAP: u8 = 255;

    /// Of a pool for an index alone, whose hashes and payloads have no types.
    ///
    /// ```
    /// use durahash_media::{Format, Geometry};
    /// let format = Format::of_index(1, Geometry::default(), 1 << 30);
    /// assert_eq!((format.kind, format.key_type), (0, 0));
    /// ```
    #[must_use]
    pub const fn of_index(design: u8, geometry: Geometry, max_bytes: u64) -> Self {
        let (kind, cells, in_slots, key_type, value_type, seed) = (0, false, false, 0, 0, 1);
        Format { design, kind, cells, in_slots, key_type, value_type, geometry, seed, max_bytes }
    }

    /// The words that describe a map: contents, types, geometry, seed.
    pub(crate) fn to_words(&self) -> [u64; 4] {
        let flags = u64::from(self.cells) | u64::from(self.in_slots) << 1;
        [
            u64::from(self.design) | u64::from(self.kind) << 8 | flags << 16,
            u64::from(self.key_type) | u64::from(self.value_type) << 32,
            self.geometry.to_word(),
            self.seed,
        ]
    }

    pub(crate) fn from_words(words: [u64; 4], max_bytes: u64) -> Result<Self> {
        let [contents, types, geometry, seed] = words;
        if contents >> 18 != 0 {
            return Err(Error::corrupt("contents that this library does not know", 24));
        }
        Ok(Format {
            design: bits(contents, 0, 8) as u8,
            kind: bits(contents, 8, 8) as u8,
            cells: bits(contents, 16, 1) == 1,
            in_slots: bits(contents, 17, 1) == 1,
            key_type: bits(types, 0, 32) as u32,
            value_type: bits(types, 32, 32) as u32,
            geometry: Geometry::from_word(geometry)?,
            seed,
            max_bytes,
        })
    }

    pub(crate) fn extent_bytes(&self) -> u64 {
        1 << self.geometry.extent_shift
    }

    /// True if the pool was given a limit.
    pub(crate) fn is_limited(&self) -> bool {
        self.max_bytes != u64::MAX
    }

    /// The most extents that the pool may have: as many as its offsets and tables reach, or as was set.
    pub(crate) fn max_extents(&self) -> u64 {
        let shift = u32::from(self.geometry.extent_shift);
        let tables = 1 << (shift - 1 + FURTHER_TABLES as u32);
        (self.max_bytes.min(1 << 48) >> shift).min(tables)
    }
}

pub(crate) fn crc_of(words: impl Iterator<Item = u64>) -> u64 {
    let mut crc = crc32fast::Hasher::new();
    for word in words {
        crc.update(&word.to_le_bytes());
    }
    u64::from(crc.finalize())
}

pub(crate) fn store_all<M: Medium, const N: usize>(
    medium: &M,
    words: &[PmU64; N],
    values: [u64; N],
) {
    words.iter().zip(values).for_each(|(word, v)| medium.store(word, v));
}

impl Superblock {
    /// Says which file the pool lies in; the caller flushes.
    pub(crate) fn name_file<M: Medium>(&self, medium: &M) {
        let id = medium.file_id().0;
        if medium.load(&self.file) != id {
            medium.store(&self.file, id);
            // An unclean state beside the name of another file would be that of a copy.
            medium.flush(&self.file);
            medium.fence();
        }
    }

    /// Stores the boot id of this boot; the caller flushes it.
    pub(crate) fn write_boot_id<M: Medium>(&self, medium: &M) {
        store_all(medium, &self.boot_id, medium.boot_id());
    }

    pub(crate) fn fixed_crc<M: Medium>(&self, medium: &M) -> Result<u64> {
        let words = medium.region().words(0, CRC_WORDS)?;
        Ok(crc_of(words.iter().map(|word| medium.load(word))))
    }

    /// Writes lines 0 and 1; the caller makes them durable.
    pub(crate) fn write_fixed<M: Medium>(
        &self,
        medium: &M,
        format: &Format,
        uuid: [u64; 2],
    ) -> Result<()> {
        medium.store(&self.magic, MAGIC);
        medium.store(&self.byte_order, BYTE_ORDER);
        medium.store(&self.version, FORMAT_VERSION);
        let [contents, types, geometry, seed] = format.to_words();
        medium.store(&self.contents, contents);
        medium.store(&self.types, types);
        medium.store(&self.geometry, geometry);
        let max_extents = if format.is_limited() { format.max_extents() } else { 0 };
        medium.store(&self.max_extents, max_extents);
        medium.store(&self.seed, seed);
        store_all(medium, &self.uuid, uuid);
        medium.store(&self.crc, self.fixed_crc(medium)?);
        Ok(())
    }

    /// Reads and verifies lines 0 and 1.
    pub(crate) fn read_fixed<M: Medium>(&self, medium: &M) -> Result<(Format, [u64; 2])> {
        let magic = medium.load(&self.magic);
        if magic == MAGIC.swap_bytes() {
            return Err(ErrorKind::ByteOrder.into());
        }
        if magic != MAGIC {
            return Err(ErrorKind::NotAPool { why: "it has another magic" }.into());
        }
        match medium.load(&self.byte_order) {
            BYTE_ORDER => {}
            order if order == BYTE_ORDER.swap_bytes() => return Err(ErrorKind::ByteOrder.into()),
            _ => return Err(Error::corrupt("byte order mark", 8)),
        }
        let found = medium.load(&self.version);
        let intact = self.fixed_crc(medium)? == medium.load(&self.crc);
        if !intact {
            return Err(Error::corrupt("checksum of the superblock", 88));
        }
        if found != FORMAT_VERSION {
            return Err(ErrorKind::Version { found, expected: FORMAT_VERSION }.into());
        }
        let words = [&self.contents, &self.types, &self.geometry, &self.seed];
        let mut format = Format::from_words(words.map(|word| medium.load(word)), 0)?;
        let max_extents = medium.load(&self.max_extents);
        let shift = u32::from(format.geometry.extent_shift);
        format.max_bytes = max_extents
            .checked_shl(shift)
            .filter(|bytes| *bytes >> shift == max_extents && *bytes <= 1 << 48)
            .ok_or_else(|| Error::corrupt("size limit out of range", 48))?;
        if max_extents == 0 {
            format.max_bytes = u64::MAX;
        }
        let uuid = [medium.load(&self.uuid[0]), medium.load(&self.uuid[1])];
        Ok((format, uuid))
    }

    /// The counters of map 0.
    pub(crate) fn counters(&self) -> Saved<'_> {
        Saved(&self.saved, &self.saved_crc)
    }

    /// The state word.
    pub(crate) fn state<M: Medium>(&self, medium: &M) -> State {
        State::from_word(medium.load(&self.state))
    }
}

/// Counters of a map that a clean close saves, and their CRC.
#[derive(Clone, Copy)]
pub(crate) struct Saved<'a>(pub(crate) &'a [PmU64; 7], pub(crate) &'a PmU64);

impl Saved<'_> {
    fn crc<M: Medium>(self, medium: &M, state: State) -> u64 {
        let counters = self.0.iter().map(|word| medium.load(word));
        crc_of(counters.chain([state.to_word()]))
    }

    /// Stores the counters of a clean close whose state word will be `state`.
    pub(crate) fn store<M: Medium>(self, medium: &M, counters: [u64; 7], state: State) {
        store_all(medium, self.0, counters);
        medium.store(self.1, self.crc(medium, state));
    }

    /// The counters, if the last close, which left `state`, was clean and they are intact.
    pub(crate) fn load<M: Medium>(self, medium: &M, state: State) -> Option<[u64; 7]> {
        let good = state.clean && medium.load(self.1) == self.crc(medium, state);
        good.then(|| std::array::from_fn(|i| medium.load(&self.0[i])))
    }
}

/// The state word, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Counts opens for writing; dates what a crash left behind.
    pub(crate) epoch: u32,
    /// The pool was closed, and nothing was written since.
    pub(crate) clean: bool,
    /// The pool was once opened although pages may have been missing.
    pub(crate) suspect: bool,
    /// The last writer relied on the page cache.
    pub(crate) page_cache: bool,
}

impl State {
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.epoch)
            | u64::from(self.clean) << 32
            | u64::from(self.suspect) << 33
            | u64::from(self.page_cache) << 34
    }

    pub(super) fn from_word(word: u64) -> Self {
        State {
            epoch: bits(word, 0, 32) as u32,
            clean: bits(word, 32, 1) == 1,
            suspect: bits(word, 33, 1) == 1,
            page_cache: bits(word, 34, 1) == 1,
        }
    }
}
