//! RACE hashing on a fabric, for SepHash to be compared with.
//!
//! # Paper
//! Pengfei Zuo, Jiazhao Sun, Liu Yang, Shuangwu Zhang, Yu Hua: *One-sided RDMA-Conscious Extendible
//! Hashing for Disaggregated Memory*, USENIX ATC 2021, as SepHash's paper describes it (§2.2, §3.1, §5.1),
//! which compares itself with an implementation of its authors, with 8 slots a bucket. Kept: two candidate
//! pairs of buckets for each key, the pairs of a group sharing an overflow bucket; slots {fingerprint, length,
//! pointer}; the swap of one slot as the only commit; the second read after an insert, which removes
//! duplicates; subtables that are resized entry by entry while others go on; a directory that clients
//! remember and check by the depth and suffix in the buckets.
//!
//! # Round trips
//! | Operation | Batches, each awaited | Trips |
//! |---|---|---|
//! | get | both pairs; blocks whose fingerprints are equal | 2 |
//! | get of no key | both pairs; their headers again, as words of a read are not ordered | 2 |
//! | put of a new key | block and both pairs; swap of a free slot; both pairs again | 3 |
//! | put of a key that is there | block and both pairs; blocks with its fingerprint; swap | 3 |
//! | delete | both pairs; blocks with its fingerprint; swap to free | 3 |
//!
//! More: one where another key has the same fingerprint (a put of a new key, a get of none), one each for a
//! lost swap, for a directory that was stale, and for a subtable that entries are on their way to.
//!
//! # Split of a subtable
//! | Batch, awaited | Why then |
//! |---|---|
//! | swap of the directory's cell to locked | one client at a time splits a subtable |
//! | the new subtable, empty, with its headers | private |
//! | swap of the root to locked; where the cell is as deep as the directory, its other half, the root | cells are written by one client at a time |
//! | all headers of the old subtable: depth + 1 | from here on, inserts of keys that go see so in their second read, and take themselves back |
//! | cells of both, the new one's marked as moving; the root | others find the new subtable, and look into the old one before it |
//! | the old subtable | whatever inserts did not take back is there |
//! | of each bucket: its blocks, for their keys' hashes | slots tell 8 bits only |
//! | of each entry that goes: its slot marked; copied to the same place of the new subtable; freed | a reader of either place finds it whole; other clients do not change a marked one |
//! | root locked, cells without marks, root | others may split either |
//!
//! The marks of a bucket are set in one batch. With [`Moves::Batched`] its copies, and what it frees, are one
//! batch each as well: SepHash's §3.2 shows that line beside RACE as it was.
//!
//! # Concurrency
//! While entries move, a slot of the new subtable is free for others only if the same slot of the old one is:
//! the copies always have room. A writer to a key that is not moved yet moves it first.
//! Of two entries of a key the lower slot counts; inserts see to it that the other goes. A get returns the
//! value of a put that ended last before it, or of one under way; it may miss a key of which two
//! inserts are under way at once.
//!
//! # Departures, and what is left out
//! - **Clients do not die here.** RACE's paper leaves crashes out, too: a lock that a dead client holds
//!   stays.
//! - Replaced blocks are not used again, so that no slot takes the same value twice. SepHash, beside which
//!   this runs, pays for that with its epochs; RACE has it for free here.
//! - Marks on slots, and the rule for free ones, are ours: the descriptions do not say how an entry is moved
//!   beside updates of it. So is the lock on the root.

mod census;
mod directory;
mod layout;
mod look;
mod space;
mod split;
#[cfg(test)]
mod tests;
mod write;

use std::cell::{Cell as Single, RefCell};

use durahash_media::hash::{ByteHash, WordMix};
use durahash_media::{ErrorKind, Result};
use durahash_remote::fabric::{Addr, Batch, Done, Fabric};

use directory::Directory;
use layout::{Cell, Geometry, Header, MAGIC, MAGIC_AT, Ptr, ROOT_AT, Root, Slot};
use layout::{bump_at, cell_at, data_off, word};
use space::Space;

/// How a split moves entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moves {
    /// One by one.
    Each,
    /// A bucket at a time.
    Batched,
}

/// Sizes, which all clients of an index must have alike, and what is a client's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Groups of three buckets of a subtable, at least 2.
    pub(crate) groups: u32,
    /// Slots of a bucket.
    pub(crate) slots: u32,
    /// The directory's depth at most; it is reserved.
    pub(crate) max_depth: u32,
    /// Its first depth: 2^depth subtables.
    pub(crate) first_depth: u32,
    pub(crate) moves: Moves,
    /// Bytes that a client takes from a node at once.
    pub(crate) chunk_bytes: u64,
    /// How long a client waits for another's split before it looks again.
    pub(crate) wait_ns: u64,
}

impl Default for Options {
    /// Subtables of 1,536 slots, 8 a bucket.
    fn default() -> Self {
        Options {
            groups: 64,
            slots: 8,
            max_depth: 20,
            first_depth: 0,
            moves: Moves::Each,
            chunk_bytes: 256 << 10,
            wait_ns: 20_000,
        }
    }
}

/// The counts of a client's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stats {
    /// Subtables split.
    pub(crate) splits: u64,
    /// Time that they took, all together.
    pub(crate) split_ns: u64,
    /// Doublings of the directory.
    pub(crate) doublings: u64,
    /// Entries moved.
    pub(crate) moved: u64,
    /// Swaps of a slot that another client had taken.
    pub(crate) conflicts: u64,
    /// Times that an operation waited for a split of another's.
    pub(crate) waits: u64,
    /// Inserts taken back because their subtable was being split.
    pub(crate) taken_back: u64,
    /// Entries removed because their key had another.
    pub(crate) duplicates: u64,
    /// Chunks taken from nodes.
    pub(crate) chunks: u64,
}

/// A client of an index. Each operation under way is a coroutine of it.
pub(crate) struct Race<F: Fabric> {
    fabric: F,
    options: Options,
    geometry: Geometry,
    hash: ByteHash,
    spread: WordMix,
    directory: RefCell<Directory>,
    space: RefCell<Space>,
    stats: Single<Stats>,
}

impl<F: Fabric> Race<F> {
    /// Makes an index in regions that are all zero.
    ///
    /// # Errors
    /// `Options`, `Exists`, `Full`; those of the fabric.
    pub(crate) async fn create(fabric: F, options: Options) -> Result<Self> {
        if options.groups < 2 || options.slots == 0 || options.first_depth > options.max_depth {
            let what =
                "subtables have two groups and a slot, and the first depth is not above the last";
            return Err(ErrorKind::Options { what }.into());
        }
        let mut batch = Batch::new();
        batch.compare_swap(MAGIC_AT, 0, MAGIC);
        if fabric.post(batch).await?.word(0) != 0 {
            return Err(ErrorKind::Exists.into());
        }
        let mut batch = Batch::new();
        for node in 0..fabric.nodes() {
            batch.write_word(bump_at(node), data_off(node, options.max_depth));
        }
        batch.write_word(ROOT_AT, Root::new(options.first_depth).0);
        fabric.post(batch).await?;
        let race = Race::new(fabric, options, Directory::default());
        let depth = options.first_depth;
        for suffix in 0..1 << depth {
            let subtable = race.take(race.geometry.subtable_bytes()).await?;
            race.post(|batch| {
                batch.write(subtable.addr(), &race.geometry.empty(Header::new(depth, suffix)));
                batch.write_word(cell_at(suffix), Cell::new(subtable, depth).0)
            })
            .await?;
        }
        race.read_directory(depth).await?;
        Ok(race)
    }

    /// Opens an index that was made with the same sizes.
    ///
    /// # Errors
    /// `NotAPool`; those of the fabric.
    pub(crate) async fn open(fabric: F, options: Options) -> Result<Self> {
        let mut batch = Batch::new();
        let (magic, root) = (batch.read(MAGIC_AT, 8), batch.read(ROOT_AT, 8));
        let done = fabric.post(batch).await?;
        if done.word(magic) != MAGIC {
            return Err(ErrorKind::NotAPool { why: "there is no index of this kind" }.into());
        }
        let depth = Root(done.word(root)).depth();
        let race = Race::new(fabric, options, Directory::default());
        race.read_directory(depth).await?;
        Ok(race)
    }

    fn new(fabric: F, options: Options, directory: Directory) -> Self {
        let nodes = fabric.nodes();
        Race {
            fabric,
            options,
            geometry: Geometry { groups: options.groups, slots: options.slots },
            hash: ByteHash::new(0x5ace),
            spread: WordMix::new(0x5ace),
            directory: RefCell::new(directory),
            space: RefCell::new(Space::new(nodes)),
            stats: Single::default(),
        }
    }

    /// The counts of this client's work.
    pub(crate) fn stats(&self) -> Stats {
        self.stats.get()
    }

    /// Bytes of the directory remembered.
    pub(crate) fn directory_bytes(&self) -> u64 {
        self.directory.borrow().bytes()
    }

    fn count(&self, f: impl FnOnce(&mut Stats)) {
        let mut stats = self.stats.get();
        f(&mut stats);
        self.stats.set(stats);
    }

    /// Posts one batch.
    async fn post<T>(&self, fill: impl FnOnce(&mut Batch) -> T) -> Result<Done> {
        let mut batch = Batch::new();
        fill(&mut batch);
        self.fabric.post(batch).await
    }

    /// One swap; returns the word before.
    async fn swap(&self, at: Addr, old: u64, new: u64) -> Result<u64> {
        Ok(self.post(|batch| batch.compare_swap(at, old, new)).await?.word(0))
    }

    async fn read(&self, at: Addr, bytes: usize) -> Result<Done> {
        self.post(|batch| batch.read(at, bytes)).await
    }

    /// The blocks of slots, in their order.
    async fn read_blocks(&self, slots: impl Iterator<Item = Slot>) -> Result<Done> {
        let blocks = slots.map(Slot::block);
        self.post(|batch| blocks.map(|(at, bytes)| batch.read(at, bytes)).count()).await
    }

    /// The slots in use of each bucket of a subtable, with the bucket's offset and header.
    async fn read_buckets(&self, subtable: Ptr) -> Result<Vec<(u64, Header, Vec<(u64, Slot)>)>> {
        let Geometry { slots, .. } = self.geometry;
        let done = self.read(subtable.addr(), self.geometry.subtable_bytes() as usize).await?;
        let buckets = done.bytes(0).chunks_exact(self.geometry.bucket_bytes() as usize).zip(0..);
        let read = buckets.map(|(words, number)| {
            let off = number * self.geometry.bucket_bytes();
            let all =
                self.geometry.slot_offs(off).zip((1..=slots as usize).map(|i| word(words, i)));
            let used = all.map(|(off, word)| (off, Slot(word))).filter(|(_, slot)| !slot.is_free());
            (off, Header(word(words, 0)), used.collect())
        });
        Ok(read.collect())
    }

    async fn write_word(&self, at: Addr, word: u64) -> Result<()> {
        self.post(|batch| batch.write_word(at, word)).await.map(drop)
    }

    /// Waits for another client's split.
    async fn pause(&self) {
        self.count(|stats| stats.waits += 1);
        self.fabric.sleep_ns(self.options.wait_ns).await;
    }
}
