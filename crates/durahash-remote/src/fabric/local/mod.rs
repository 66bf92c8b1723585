//! Shared memory of one host: no network, and the processor's own atomics.
//!
//! A fabric is a directory, best in a file system in memory, with a file for each node's region and
//! one for each client. Any process that may open them can attach. Or a fabric is anonymous memory
//! for the threads of one process.
//!
//! A client is alive while it holds the lock on the file of its row; the system releases the lock when the
//! process dies. So the fabric knows for certain which clients are dead, and a dead one posts nothing more:
//! there are no leases, and no live client is evicted. A stopped process is alive, and so is one that
//! has forked a child which has not executed another program yet.
//!
//! All processes that can open the files are trusted: they can write anything anywhere, and truncating a file
//! ends all processes that have it mapped (SIGBUS).
//!
//! Verbs take effect when they are posted, one after the other. A client that only ever posts would
//! starve other tasks of its thread, so every 32nd post in a row lets them run first.
//!
//! Each post ends with a sequentially consistent fence: of two clients that each await a write and then
//! read what the other has written, at least one sees it.
//!
//! The memory outlives the node that lent it, and in the file of a node also the machine's next boot: see
//! [`FileMemory`](crate::node::FileMemory). A process that learns of a node's end calls
//! [`Local::node_lost`]; from then on it posts nothing more to that node.

pub(super) mod beside;
mod membership;
mod names;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use durahash_media::{Error, ErrorKind, FileId, Result, SharedHeader, SharedRegion};

use membership::{Membership, RowLock};
use names::{node_path, remove_files};

use super::batch::{Kind, Verb};
use super::{Addr, Batch, Counts, Done, Fabric};
use crate::executor::{sleep_until, yield_now};

/// Posts of a client in a row before other tasks run.
const POSTS_IN_A_ROW: u32 = 32;

/// A node is numbered by a byte.
const NODES_MAX: u64 = 255;

/// Sizes of a local fabric.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LocalOptions {
    /// Bytes of the region of each node, multiples of 4096; at most 255 nodes.
    pub node_bytes: Vec<u64>,
    /// Clients at once, at most.
    pub max_clients: u32,
    /// Permissions of the files, less the process's mask.
    pub mode: u32,
}

impl Default for LocalOptions {
    fn default() -> Self {
        LocalOptions { node_bytes: vec![64 << 20], max_clients: 1024, mode: 0o600 }
    }
}

/// A fabric of shared memory. Clones are the same fabric, for any thread.
///
/// ```
/// use durahash_remote::executor::Executor;
/// use durahash_remote::fabric::{Addr, Batch, Fabric, Local, LocalOptions};
/// let local = Local::anonymous(&LocalOptions::default())?;
/// let client = local.client()?;
/// let mut batch = Batch::new();
/// let word = batch.fetch_add(Addr::new(0, 64), 5);
/// let done = Executor::new().block_on(client.post(batch))?;
/// assert_eq!(done.word(word), 0);
/// # Ok::<(), durahash_remote::Error>(())
/// ```
#[derive(Clone)]
pub struct Local(Arc<Shared>);

struct Shared {
    regions: Vec<SharedRegion>,
    node_bytes: Vec<u64>,
    members: Membership,
    /// Of each region in the file of a node, the lock that keeps the node from closing the file.
    holds: Vec<File>,
    start: Instant,
    /// The lost nodes.
    lost: Vec<AtomicBool>,
}

/// A client of a [`Local`]. It may be used by several threads; they share its row and its counts.
#[derive(Clone)]
pub struct LocalClient(Arc<Endpoint>);

struct Endpoint {
    local: Local,
    row: u32,
    /// Locked as long as the client lives, unless the fabric is anonymous.
    _lock: Option<RowLock>,
    counts: Mutex<Counts>,
    posts: AtomicU32,
    /// For each node, writes that were not awaited, and how many of them are flushed.
    unsignaled: Vec<[AtomicU64; 2]>,
}

impl Local {
    /// Creates a fabric in zeroed memory of this process, freed with the last handle.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) when there are no nodes or too many, or a size is wrong;
    /// [`Io`](ErrorKind::Io) when the system has no memory.
    pub fn anonymous(options: &LocalOptions) -> Result<Self> {
        let regions =
            headers(options)?.into_iter().map(SharedRegion::anonymous).collect::<Result<_>>()?;
        let taken = Mutex::new(vec![false; options.max_clients as usize]);
        Ok(Self::new(regions, Membership::Anonymous(taken), Vec::new()))
    }

    /// Creates a fabric in the directory `dir`, which must not exist.
    ///
    /// # Errors
    /// As [`anonymous`](Local::anonymous); [`Exists`](ErrorKind::Exists). A failure removes the
    /// directory again.
    pub fn create(dir: &Path, options: &LocalOptions) -> Result<Self> {
        // Invalid options do not even create the directory.
        drop(headers(options)?);
        Self::make_dir(dir)?;
        Self::fill(dir, options)
    }

    /// Creates the directory of a fabric, which must not exist.
    pub(crate) fn make_dir(dir: &Path) -> Result<()> {
        fs::create_dir(dir).map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => ErrorKind::Exists.into(),
            _ => Error::io("creating the fabric", Some(dir.into()), e),
        })
    }

    /// Creates a fabric in an empty directory. A failure removes that, too.
    pub(crate) fn fill(dir: &Path, options: &LocalOptions) -> Result<Self> {
        let create = |header: SharedHeader| {
            SharedRegion::create(&node_path(dir, header.number), header, options.mode)
        };
        // Node 0 comes last: a process that finds it finds all of them.
        let made: Result<Vec<_>> =
            headers(options).and_then(|headers| headers.into_iter().rev().map(create).collect());
        match made {
            Ok(mut regions) => {
                regions.reverse();
                let (dir, rows, mode) = (dir.into(), options.max_clients, options.mode);
                Ok(Self::new(regions, Membership::Files { dir, rows, mode }, Vec::new()))
            }
            Err(e) => {
                // The first failure is reported.
                let _ = fs::remove_dir_all(dir);
                Err(e)
            }
        }
    }

    /// Attaches the fabric in the directory `dir`, as other processes may. With an `id`, the fabric must have it.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) when its files cannot be opened; [`Region`](ErrorKind::Region) and
    /// [`Truncated`](ErrorKind::Truncated) when they are not regions of one fabric, or of another
    /// protocol version.
    pub fn attach(dir: &Path, id: Option<u64>) -> Result<Self> {
        // First: a region that is found then is open.
        let holds = Vec::from_iter(beside::hold(dir)?);
        let first = SharedRegion::attach(&node_path(dir, 0))?;
        let expected = SharedHeader { number: 0, ..first.header() };
        let expect = |what, found, expected| {
            if found == expected {
                return Ok(());
            }
            Err(Error::from(ErrorKind::Region { what, found, expected }))
        };
        expect("the id of the fabric", expected.id, id.unwrap_or(expected.id))?;
        expect("the number of nodes", expected.count, expected.count.clamp(1, NODES_MAX))?;
        expect("the number of rows", expected.rows, expected.rows.clamp(1, u32::MAX.into()))?;
        let mut regions = vec![first];
        for number in 1..expected.count {
            regions.push(SharedRegion::attach(&node_path(dir, number))?);
        }
        for (number, region) in (0..).zip(&regions) {
            let header = region.header();
            expect("the id of the fabric", header.id, expected.id)?;
            expect("the number of the node", header.number, number)?;
            expect("the number of nodes", header.count, expected.count)?;
            expect("the number of rows", header.rows, expected.rows)?;
        }
        let failed = |e| Error::io("attaching the fabric", Some(dir.into()), e);
        let metadata = fs::metadata(node_path(dir, 0)).map_err(failed)?;
        if !holds.is_empty() && !beside::is_of(dir, FileId::of(&metadata)) {
            let what = "the path of the node's file leads to another one";
            return Err(failed(io::Error::other(what)));
        }
        // The files of new rows get the permissions of the regions.
        let mode = metadata.permissions().mode();
        let (dir, rows) = (dir.into(), expected.rows as u32);
        Ok(Self::new(regions, Membership::Files { dir, rows, mode: mode & 0o777 }, holds))
    }

    /// Attaches fabrics of one node each as one fabric. The nodes are
    /// numbered in the order of the directories, and the rows are those of the first. Each fabric must have the id beside
    /// its directory. Clients of one index must name the same first directory.
    ///
    /// # Errors
    /// As [`attach`](Local::attach); [`Options`](ErrorKind::Options) when there are no directories, too
    /// many, or one of them twice.
    pub fn attach_each(dirs: &[(PathBuf, u64)]) -> Result<Self> {
        let ids: HashSet<u64> = dirs.iter().map(|(_, id)| *id).collect();
        if dirs.is_empty() || dirs.len() as u64 > NODES_MAX || ids.len() != dirs.len() {
            let what = "an index needs 1 to 255 nodes, each named once";
            return Err(ErrorKind::Options { what }.into());
        }
        let (mut regions, mut holds) = (Vec::new(), Vec::new());
        let mut first_members = None;
        for (dir, id) in dirs {
            let local = Local::attach(dir, Some(*id))?;
            let shared = Arc::into_inner(local.0).expect("it was not shared yet");
            let (found, expected) = (shared.regions.len() as u64, 1);
            if found != expected {
                let what = "the number of nodes";
                return Err(ErrorKind::Region { what, found, expected }.into());
            }
            regions.extend(shared.regions);
            holds.extend(shared.holds);
            first_members.get_or_insert(shared.members);
        }
        Ok(Self::new(regions, first_members.expect("there is a first node"), holds))
    }

    /// Removes the files of the fabric in the directory `dir`, if it has this id, and the directory
    /// if nothing else is in it. Processes that have the fabric attached can go on using it.
    ///
    /// # Errors
    /// As [`attach`](Local::attach), and [`Io`](ErrorKind::Io) when a file cannot be removed.
    pub fn remove(dir: &Path, id: u64) -> Result<()> {
        drop(Local::attach(dir, Some(id))?);
        remove_files(dir)
    }

    /// Removes the files without looking at an id.
    pub(crate) fn remove_files(dir: &Path) -> Result<()> {
        remove_files(dir)
    }

    /// A fabric of one region that this process alone has, whose clients are counted elsewhere.
    pub(crate) fn alone(region: SharedRegion) -> Self {
        Self::new(vec![region], Membership::Anonymous(Mutex::default()), Vec::new())
    }

    fn new(regions: Vec<SharedRegion>, members: Membership, holds: Vec<File>) -> Self {
        let node_bytes = regions.iter().map(|region| region.header().bytes).collect();
        let lost = regions.iter().map(|_| AtomicBool::new(false)).collect();
        let start = Instant::now();
        Local(Arc::new(Shared { regions, node_bytes, members, holds, start, lost }))
    }

    /// Marks a node as lost: from now on verbs to it by clients of this handle and its clones
    /// fail with [`NodeLost`](ErrorKind::NodeLost). Other processes are not affected.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn node_lost(&self, node: u8) {
        self.0.lost[usize::from(node)].store(true, Ordering::Release);
    }

    /// Returns `Ok` if no node is marked as lost.
    ///
    /// # Errors
    /// [`NodeLost`](ErrorKind::NodeLost) with the first lost node.
    pub fn nodes_stand(&self) -> Result<()> {
        self.0.check_lost(0..self.0.lost.len() as u8)
    }

    /// Bytes of the region of `node`.
    ///
    /// # Panics
    /// When there is no such node.
    #[must_use]
    pub fn bytes(&self, node: u8) -> u64 {
        self.0.node_bytes[usize::from(node)]
    }

    /// Clients at once, at most.
    #[must_use]
    pub fn max_clients(&self) -> u32 {
        self.0.members.count()
    }

    /// The number of clients now, in all processes.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) when a file of a row cannot be opened or locked.
    pub fn clients(&self) -> Result<u32> {
        self.0.members.taken_count()
    }

    /// The number of nodes.
    pub(crate) fn nodes(&self) -> u8 {
        self.0.regions.len() as u8
    }

    /// Runs verbs, or none where one of them is invalid: bytes to be written are in `out`, those that come back go
    /// to `back`.
    pub(crate) fn execute(&self, verbs: &[Verb], out: &[u8], back: &mut [u8]) -> Result<()> {
        let bytes = |node: u8| self.0.node_bytes.get(usize::from(node)).copied();
        verbs.iter().try_for_each(|verb| verb.check(&bytes))?;
        self.0.run_all(verbs, out, back)
    }

    /// The random id of this fabric.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.regions[0].header().id
    }

    /// Creates a client, in the first free row.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io), [busy](super::no_row), when no row is free, and when a file of a row
    /// cannot be opened or locked.
    pub fn client(&self) -> Result<LocalClient> {
        let (row, lock) = self.0.members.take()?;
        Ok(LocalClient(Arc::new(Endpoint {
            local: self.clone(),
            row,
            _lock: lock,
            counts: Mutex::default(),
            posts: AtomicU32::new(0),
            unsignaled: self.0.regions.iter().map(|_| Default::default()).collect(),
        })))
    }
}

/// The headers of the regions.
fn headers(options: &LocalOptions) -> Result<Vec<SharedHeader>> {
    let (count, rows) = (options.node_bytes.len() as u64, options.max_clients.into());
    if !(1..=NODES_MAX).contains(&count) || rows == 0 {
        let what = "a fabric has 1 to 255 nodes, and at least one row";
        return Err(ErrorKind::Options { what }.into());
    }
    let id = getrandom::u64()
        .map_err(|e| Error::io("choosing a random id for a fabric", None, io::Error::other(e)))?;
    let header = |(number, &bytes)| SharedHeader { id, number, count, rows, bytes };
    Ok((0..).zip(&options.node_bytes).map(header).collect())
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.local.0.members.give_back(self.row);
    }
}

impl Endpoint {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Nothing panics while it is held.
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, batch: Batch) -> Result<Done> {
        let shared = &self.local.0;
        shared.check(&batch)?;
        shared.check_lost(batch.verbs.iter().map(|verb| verb.addr.node()))?;
        batch.count(&mut self.counts());
        let Batch { verbs, out, back } = batch;
        let mut back = vec![0; back as usize];
        shared.run_all(&verbs, &out, &mut back)?;
        Ok(Done::new(verbs, back))
    }

    /// Lets other tasks run after 32 posts in a row.
    async fn turn(&self) {
        if self.posts.fetch_add(1, Ordering::Relaxed) % POSTS_IN_A_ROW == POSTS_IN_A_ROW - 1 {
            yield_now().await;
        }
    }
}

impl Shared {
    fn check(&self, batch: &Batch) -> Result<()> {
        batch.check(|node| self.node_bytes.get(node as usize).copied())
    }

    /// Fails if one of these nodes is lost.
    fn check_lost(&self, nodes: impl IntoIterator<Item = u8>) -> Result<()> {
        match nodes.into_iter().find(|node| self.lost[usize::from(*node)].load(Ordering::Acquire)) {
            Some(node) => Err(ErrorKind::NodeLost { node }.into()),
            None => Ok(()),
        }
    }

    fn run_all(&self, verbs: &[Verb], out: &[u8], back: &mut [u8]) -> Result<()> {
        verbs.iter().try_for_each(|verb| self.run(verb, out, back))?;
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn run(&self, verb: &Verb, out: &[u8], back: &mut [u8]) -> Result<()> {
        let region = &self.regions[verb.addr.node() as usize];
        let off = verb.addr.off();
        let at = verb.start as usize..verb.start as usize + verb.len as usize;
        let was = match verb.kind {
            Kind::Read => return region.read(off, &mut back[at]),
            Kind::Write => return region.write(off, &out[at]),
            Kind::CompareSwap { old, new } => region.compare_swap(off, old, new)?,
            Kind::FetchAdd { n } => region.fetch_add(off, n)?,
        };
        back[at].copy_from_slice(&was.to_le_bytes());
        Ok(())
    }
}

impl Fabric for LocalClient {
    async fn post(&self, batch: Batch) -> Result<Done> {
        self.0.turn().await;
        self.0.run(batch)
    }

    fn write_unsignaled(&self, addr: Addr, bytes: &[u8]) -> Result<()> {
        let (shared, node) = (&self.0.local.0, addr.node());
        shared.check(&Batch::of(|batch| batch.write(addr, bytes)))?;
        // The next flush reports a lost node.
        if shared.check_lost([node]).is_ok() {
            self.0.counts().write_unsignaled(bytes);
            shared.regions[usize::from(node)].write(addr.off(), bytes)?;
        }
        self.0.unsignaled[usize::from(node)][0].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn flush(&self, node: u8) -> Result<()> {
        self.0.local.0.check(&Batch::of(|batch| batch.read(Addr::new(node, 0), 0)))?;
        let [posted, flushed] = &self.0.unsignaled[usize::from(node)];
        let posted = posted.load(Ordering::Relaxed);
        if flushed.load(Ordering::Relaxed) < posted {
            self.0.local.0.check_lost([node])?;
        }
        if flushed.fetch_max(posted, Ordering::Relaxed) < posted {
            self.0.turn().await;
            self.0.counts().round_trips += 1;
        }
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn nodes(&self) -> u8 {
        self.0.local.0.regions.len() as u8
    }

    fn node_bytes(&self, node: u8) -> u64 {
        self.0.local.0.node_bytes[node as usize]
    }

    fn now_ns(&self) -> u64 {
        self.0.local.0.start.elapsed().as_nanos() as u64
    }

    async fn sleep_ns(&self, ns: u64) {
        sleep_until(Instant::now() + Duration::from_nanos(ns)).await;
    }

    fn counts(&self) -> Counts {
        *self.0.counts()
    }

    fn row(&self) -> u32 {
        self.0.row
    }

    fn max_clients(&self) -> u32 {
        self.0.local.0.members.count()
    }

    fn lease_ns(&self) -> Option<u64> {
        None
    }

    async fn evict(&self, row: u32) -> Result<bool> {
        // Their rows are with node 0.
        self.0.local.0.check_lost([0])?;
        self.0.counts().round_trips += 1;
        Ok(!self.0.local.0.members.taken(row)?)
    }
}
