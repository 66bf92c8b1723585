//! The directory of extendible hashing on the medium, of CCEH and of Dash.
//!
//! ```text
//! root word 0   offset of the array | global depth G
//! array         2^G words, by the top G bits of a hash: number of an extent (bits 8-63), local depth (0-7)
//! ```
//!
//! A split names the new segment by the upper half of the old one's words, and goes from right to left: the first word
//! of the range is the last one stored, and the others are durable before. A recovery goes by the first word of each
//! range, and gives the others what it says: a split that has not come to its first word has not happened.
//!
//! Lookups go by a copy of the array in DRAM, which the papers do not have: an array of some KiB is in the processor's caches,
//! and the designs that these tables stand beside have such a copy. So what is counted is without the directory for all.

use durahash::Finding;
use durahash_media::{Error, ErrorKind, Medium, Place, PmU64, Result, bits};

/// The deepest directory.
const DEPTH_MAX: u32 = 28;

/// A word of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry(u64);

impl Entry {
    /// A segment of local depth `depth`.
    pub(super) fn new(number: u64, depth: u32) -> Self {
        Entry(number << 8 | u64::from(depth))
    }

    /// The number of its extent.
    pub(super) fn number(self) -> u64 {
        self.0 >> 8
    }

    /// Its local depth.
    pub(super) fn depth(self) -> u32 {
        bits(self.0, 0, 8) as u32
    }
}

/// A directory. What it keeps in DRAM is a copy of the root word, and of the array.
pub(super) struct Directory<M: Medium> {
    place: Place<M>,
    off: u64,
    depth: u32,
    entries: Vec<Entry>,
}

impl<M: Medium> Directory<M> {
    /// A new one, of two segments, which are durable.
    pub(super) fn create(place: Place<M>, segments: [u64; 2]) -> Result<Self> {
        let mut directory = Directory { place, off: 0, depth: 0, entries: Vec::new() };
        directory.replace(1, segments.map(|number| Entry::new(number, 1)).into())?;
        Ok(directory)
    }

    /// The one that is there.
    #[cfg(test)]
    pub(super) fn open(place: Place<M>) -> Result<Self> {
        let root = place.root(0)?;
        let depth = bits(root, 0, 8) as u32;
        if !(1..=DEPTH_MAX).contains(&depth) {
            return Err(Error::corrupt("depth of the directory", 0));
        }
        let mut directory = Directory { place, off: root >> 8 << 8, depth, entries: Vec::new() };
        directory.entries = (0..1 << depth).map(|i| directory.stored(i)).collect::<Result<_>>()?;
        Ok(directory)
    }

    /// The place of the table.
    pub(super) fn place(&self) -> &Place<M> {
        &self.place
    }

    fn medium(&self) -> &M {
        self.place.pool().medium()
    }

    /// Bytes of the array.
    pub(super) fn bytes(&self) -> u64 {
        8 << self.depth
    }

    fn index(&self, h: u64) -> u64 {
        h >> (64 - self.depth)
    }

    fn word(&self, i: u64) -> Result<&PmU64> {
        self.place.pool().at(self.off + i * 8)
    }

    /// What stands on the medium.
    fn stored(&self, i: u64) -> Result<Entry> {
        Ok(Entry(self.medium().load(self.word(i)?)))
    }

    fn entry(&self, i: u64) -> Entry {
        self.entries[i as usize]
    }

    /// The segment of a hash.
    pub(super) fn find(&self, h: u64) -> Entry {
        self.entry(self.index(h))
    }

    /// Words of a segment of local depth `depth`.
    fn stride(&self, depth: u32) -> Result<u64> {
        let log = self.depth.checked_sub(depth).filter(|_| depth > 0);
        log.map(|log| 1 << log).ok_or_else(|| Error::corrupt("local depth", self.off))
    }

    /// The smallest hash of each segment, and its entry.
    pub(super) fn segments(&self) -> Result<Vec<(u64, Entry)>> {
        let (mut segments, mut i) = (Vec::new(), 0);
        while i < 1 << self.depth {
            let entry = self.entry(i);
            segments.push((i << (64 - self.depth), entry));
            i += self.stride(entry.depth())?;
        }
        Ok(segments)
    }

    /// Puts a new array in the place of the present one.
    fn replace(&mut self, depth: u32, entries: Vec<Entry>) -> Result<()> {
        let pool = self.place.pool();
        let bytes = pool.extent_bytes();
        let array_bytes: u64 = 8 << depth;
        let first = self.place.take_directory_extents(array_bytes.div_ceil(bytes))?;
        let words = pool.words(first * bytes, 1 << depth)?;
        for (word, entry) in words.iter().zip(&entries) {
            self.medium().store(word, entry.0);
        }
        self.medium().flush_fresh(words);
        self.medium().fence();
        self.place.set_root(0, (first * bytes) | u64::from(depth))?;
        (self.off, self.depth, self.entries) = (first * bytes, depth, entries);
        self.release_arrays()
    }

    /// Makes room for segments of local depth `depth`.
    pub(super) fn deepen(&mut self, depth: u32) -> Result<()> {
        if depth <= self.depth {
            return Ok(());
        }
        if depth > DEPTH_MAX {
            return Err(ErrorKind::Skewed { depth }.into());
        }
        let twice = self.entries.iter().flat_map(|entry| [*entry; 2]).collect();
        self.replace(self.depth + 1, twice)
    }

    /// Gives the upper half of a segment's hashes to another segment; both are durable.
    pub(super) fn split(&mut self, h: u64, lower: u64, depth: u32, upper: u64) -> Result<()> {
        let stride = self.stride(depth)?;
        let first = self.index(h) & !(stride - 1);
        let entry = |i| Entry::new(if i < stride / 2 { lower } else { upper }, depth + 1);
        let words = self.place.pool().words(self.off + first * 8, stride)?;
        for i in (1..stride).rev() {
            self.medium().store(&words[i as usize], entry(i).0);
        }
        self.medium().flush(&words[1..]);
        self.medium().fence();
        self.medium().store(&words[0], entry(0).0);
        self.medium().flush(&words[0]);
        self.medium().fence();
        (0..stride).for_each(|i| self.entries[(first + i) as usize] = entry(i));
        Ok(())
    }

    /// Takes back splits that a crash has interrupted.
    #[cfg(test)]
    pub(super) fn recover(&mut self) -> Result<()> {
        for (h, entry) in self.segments()? {
            let stride = self.stride(entry.depth())?;
            let first = self.index(h) as usize;
            self.entries[first..first + stride as usize].fill(entry);
            let words = self.place.pool().words(self.off + self.index(h) * 8, stride)?;
            for word in words.iter().filter(|word| self.medium().load(word) != entry.0) {
                self.medium().store(word, entry.0);
                self.medium().flush(word);
            }
        }
        self.medium().fence();
        Ok(())
    }

    /// The segments that it names.
    fn named(&self) -> Result<Vec<u64>> {
        let mut named: Vec<u64> =
            self.segments()?.iter().map(|(_, entry)| entry.number()).collect();
        named.sort_unstable();
        Ok(named)
    }

    /// Gives back the extents that a crash left unnamed.
    #[cfg(test)]
    pub(super) fn release_others(&self) -> Result<()> {
        let named = self.named()?;
        for number in self.place.unit_extents() {
            if named.binary_search(&number).is_err() {
                self.place.pool().release_extent(number)?;
            }
        }
        self.release_arrays()
    }

    fn release_arrays(&self) -> Result<()> {
        let shift = self.place.format().geometry.extent_shift;
        let kept = self.off >> shift..(self.off + self.bytes()).div_ceil(1 << shift);
        for number in self.place.directory_extents() {
            if !kept.contains(&number) {
                self.place.pool().release_extent(number)?;
            }
        }
        Ok(())
    }

    /// Verifies that all words of a segment agree, and that all extents are named.
    pub(super) fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
        for (h, entry) in self.segments()? {
            for i in 0..self.stride(entry.depth())? {
                if self.stored(self.index(h) + i)? != entry {
                    let off = self.off + (self.index(h) + i) * 8;
                    found(Finding::new("TABLE-2", off, "words of a segment differ"));
                }
            }
        }
        let mut units = self.place.unit_extents();
        units.sort_unstable();
        if units != self.named()? {
            found(Finding::new("TABLE-3", 0, "segments and named ones differ"));
        }
        Ok(())
    }
}
