//! Creates an index in the nodes' regions, and opens it.
//!
//! | Step of the creation | If the client dies after it |
//! |---|---|
//! | swap the magic of node 0 from 0 to "being made" | it cannot be opened; the regions must be cleared |
//! | write headers, first segments, directory, depth, epoch, bump words | the same |
//! | write the magic of the other nodes, then of node 0 | made |

use std::cell::{Cell, RefCell};

use durahash_media::hash::ByteHash;
use durahash_media::{Error, ErrorKind, Limit, Result};

use crate::fabric::{Addr, Batch, Fabric};

use super::cache::{Cache, Directory};
use super::claim::Reclaim;
use super::layout::{
    BUMP_OFF, EPOCH, Geometry, HEADER_BYTES, Header, MAGIC, ROOT, Ref, Suffix, WordA, cell,
    cur_segment, main_segment, usable_bytes,
};
use super::options::Options;
use super::space::{Space, block_bytes};
use super::tags::Rest;
use super::verbs::Post;
use super::{Core, Stats};

/// The magic of an unfinished index.
const BEING_MADE: u64 = MAGIC | 1 << 56;
/// Bytes read or written at once.
const PIECE: u64 = 1 << 20;
/// The longest time between two ticks of an idle client, unless its options ask for a longer one: some operations of
/// others wait for three of them.
const IDLE_NS: u64 = 1_000_000_000;
/// Idle clients that tick as often as in a small number of them.
const CROWD: u32 = 64;

impl<F: Fabric> Core<F> {
    /// Creates an index in regions that are all zero, and opens it.
    pub(crate) async fn create(fabric: F, options: Options) -> Result<Self> {
        let geometry = Geometry {
            cur: options.cur_entries,
            limit: options.main_entries,
            max_depth: options.max_depth,
            rows: options.max_clients,
            nodes: fabric.nodes(),
        };
        geometry.check()?;
        if options.first_depth > options.max_depth {
            let what = "the first depth of the directory is above its maximum";
            return Err(ErrorKind::Options { what }.into());
        }
        let mut image = Image::new(&fabric, geometry);
        for bits in 0..1u64 << options.first_depth {
            image.segment(bits, options.first_depth)?;
        }
        if fabric.swap_word(Addr::new(0, 0), 0, BEING_MADE).await? != 0 {
            return Err(ErrorKind::Exists.into());
        }
        let seed = ByteHash::new(options.seed).hash(b"the id of an index");
        let Image { writes, bump, cells, .. } = image;
        for piece in writes.chunks(64) {
            let write = |batch: &mut Batch| {
                piece.iter().for_each(|(at, bytes)| _ = batch.write(*at, bytes));
            };
            fabric.post(Batch::of(write)).await?;
        }
        for (piece, from) in cells.chunks(PIECE as usize / 8).zip((0..).step_by(PIECE as usize / 8))
        {
            let bytes: Vec<u8> = piece.iter().flat_map(|cell| cell.to_le_bytes()).collect();
            fabric.write(geometry.directory(from), &bytes).await?;
        }
        let mut batch = Batch::new();
        batch.write_word(ROOT, options.first_depth.into());
        batch.write_word(EPOCH, 1);
        for node in 0..geometry.nodes {
            let header = Header { geometry, node, seed: options.seed, id: seed };
            let bytes: Vec<u8> =
                header.words().iter().flat_map(|word| word.to_le_bytes()).collect();
            batch.write(Addr::new(node, 8), &bytes);
            batch.write_word(Addr::new(node, BUMP_OFF), bump[usize::from(node)]);
        }
        fabric.post(batch).await?;
        let magic = |batch: &mut Batch, node| batch.write_word(Addr::new(node, 0), MAGIC);
        let of_others =
            Batch::of(|batch| (1..geometry.nodes).for_each(|node| _ = magic(batch, node)));
        fabric.post(of_others).await?;
        fabric.post(Batch::of(|batch| magic(batch, 0))).await?;
        Self::open(fabric, options).await
    }

    /// Opens an index. Of `options`, only the fields about the client count.
    pub(crate) async fn open(fabric: F, options: Options) -> Result<Self> {
        let mut batch = Batch::new();
        for node in 0..fabric.nodes() {
            if fabric.node_bytes(node) < HEADER_BYTES as u64 {
                return Err(
                    ErrorKind::NotAPool { why: "a region is too small to hold an index" }.into()
                );
            }
            batch.read(Addr::new(node, 0), HEADER_BYTES);
        }
        let done = fabric.post(batch).await?;
        let headers = (0..usize::from(fabric.nodes())).map(|node| Header::parse(done.bytes(node)));
        let headers = headers.collect::<Result<Vec<_>>>()?;
        let Header { geometry, seed, .. } = headers[0];
        for (node, header) in (0..).zip(&headers) {
            if *header != (Header { node, ..headers[0] }) || geometry.nodes != fabric.nodes() {
                let why =
                    "the nodes do not hold the parts of one index, or are named in another order";
                return Err(ErrorKind::NotAPool { why }.into());
            }
            if geometry.first_chunk(node) > fabric.node_bytes(node) {
                return Err(ErrorKind::Truncated {
                    found_bytes: fabric.node_bytes(node),
                    expected_bytes: geometry.first_chunk(node),
                }
                .into());
            }
        }
        let (epochs, is_after_death) = Self::register(&fabric, &geometry).await?;
        let depth = fabric.read_word(ROOT).await?;
        if depth > geometry.max_depth.into() {
            return Err(Error::corrupt("the depth of the directory", ROOT.off()));
        }
        let depth = depth as u32;
        let mut pieces = Vec::new();
        let cells = 1u64 << depth;
        // From its end, which is there if it has been doubled so often.
        for piece in (0..cells.div_ceil(PIECE / 8)).rev() {
            let from = piece * (PIECE / 8);
            let count = (cells - from).min(PIECE / 8) as usize;
            let words = fabric.read_words(geometry.directory(from), count).await?;
            if words.last() == Some(&0) {
                return Err(Error::corrupt("the depth of the directory", ROOT.off()));
            }
            pieces.push(words);
        }
        let cells = pieces.into_iter().rev().flatten().map(Ref::from_word).collect();
        let directory = Directory::new(depth, cells).ok_or_else(|| {
            Error::corrupt("the first directory cell", geometry.directory(0).off())
        })?;
        let core = Core {
            geometry,
            options,
            hash: ByteHash::new(seed),
            cache: RefCell::new(Cache::new(directory, &options)),
            space: RefCell::new(Space::new(geometry.nodes)),
            reclaim: RefCell::new(Reclaim::from(epochs.latest)),
            epochs: RefCell::new(epochs),
            stats: RefCell::new(Stats::default()),
            global_depth: Cell::new(depth),
            exhausted: (0..geometry.nodes).map(|_| Cell::new(false)).collect(),
            shelf: Cell::new(Ref::NONE),
            taking: Cell::new(false),
            short: Cell::new(false),
            closed: Cell::new(false),
            rest: Cell::new(Rest::No),
            dozing: Cell::new(None),
            fabric,
        };
        // After the row is there, and before there is memory.
        let told = core.listen().await?.ok_or_else(|| core.held_back())?;
        core.heed(told);
        if is_after_death {
            let bytes = core.death_bytes();
            core.space.borrow_mut().owed_bytes += bytes;
            core.repay().await?;
        }
        Ok(core)
    }

    /// Nanoseconds between two ticks of this client, which may take so many times as long.
    pub(crate) fn tick_ns(&self, times: u64) -> u64 {
        let quarter = self.fabric.lease_ns().map_or(u64::MAX, |lease_ns| lease_ns / 4);
        let tick_ns = self.options.tick_ns;
        tick_ns.saturating_mul(times).min(tick_ns.max(IDLE_NS)).min(quarter)
    }

    /// When the last tick ended that did not fail, or this client registered.
    pub(crate) fn ticked_ns(&self) -> u64 {
        self.epochs.borrow().ticked_ns
    }

    /// Times that an idle client may wait longer between two ticks: the nodes serve as few ticks of more clients as of
    /// [`CROWD`].
    pub(crate) fn crowd(&self) -> u64 {
        (self.epochs.borrow().live / CROWD).max(1).into()
    }

    /// Wakes, or beats if a tick is overdue, as without the service, or memory is short. It gives nothing, as futures of operations
    /// are often dropped.
    pub(super) async fn upkeep(&self) -> Result<()> {
        // What is rare is boxed: the futures of many operations move in memory together.
        if self.rest.get() != Rest::No {
            Box::pin(self.wake()).await?;
        }
        let since = self.fabric.now_ns() - self.epochs.borrow().ticked_ns;
        if since >= 4 * self.tick_ns(1) || self.short.get() {
            Box::pin(self.beat(false)).await?;
            self.short.set(false);
        }
        Ok(())
    }
}

/// The first segments, before they are written.
struct Image {
    geometry: Geometry,
    node_bytes: Vec<u64>,
    bump: Vec<u64>,
    writes: Vec<(Addr, Vec<u8>)>,
    cells: Vec<u64>,
}

impl Image {
    fn new<F: Fabric>(fabric: &F, geometry: Geometry) -> Self {
        let nodes = 0..geometry.nodes;
        Image {
            geometry,
            node_bytes: nodes.clone().map(|node| usable_bytes(fabric, node)).collect(),
            bump: nodes.map(|node| geometry.first_chunk(node)).collect(),
            writes: Vec::new(),
            cells: Vec::new(),
        }
    }

    fn place(&mut self, node: u8, bytes: Vec<u8>) -> Result<Ref> {
        let bump = &mut self.bump[usize::from(node)];
        let (off, taken) = (*bump, block_bytes(bytes.len()));
        if off + taken > self.node_bytes[usize::from(node)] {
            return Err(Error::full(taken, Limit::Nodes));
        }
        *bump += taken;
        let at = Addr::new(node, off);
        self.writes.push((at, bytes));
        Ok(Ref::new(at))
    }

    /// A segment of the hashes that end in the low `depth` bits of `bits`.
    fn segment(&mut self, bits: u64, depth: u32) -> Result<()> {
        let node = (bits % u64::from(self.geometry.nodes)) as u8;
        let main = self.place(node, main_segment(&[], 0))?;
        let a = WordA::new(main, 1, depth);
        let place = Suffix { bits, made: depth };
        let cur = self.place(node, cur_segment(&self.geometry, a, place))?;
        self.cells.push(cell(cur, depth));
        Ok(())
    }
}
