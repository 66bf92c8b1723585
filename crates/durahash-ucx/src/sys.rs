//! Bindings to `shim.c`: the only unsafe code of this crate. Public items are safe to use, except
//! [`Trusted::new`], whose caller vouches for what UCX cannot check.
//!
//! A [`Client`] is used through `&mut`, so by one thread at a time, as UCX requires. Batches are named
//! by keys, and belong to the client: memory that verbs under way read or write is not freed before they
//! are done or the client is gone.

use std::ffi::{CStr, c_char, c_int, c_uint};
use std::io;
use std::ptr::NonNull;
use std::slice;
use std::time::{Duration, Instant};

use durahash_media::{Error, Result};
use durahash_remote::node::{FileMemory, Offers};

use crate::connect_info::ConnectInfo;

#[repr(C)]
struct RawNode {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawClient {
    _opaque: [u8; 0],
}

#[repr(C)]
struct RawBatch {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn dh_version() -> c_uint;
    fn dh_status_text(status: c_int) -> *const c_char;

    fn dh_quiet() -> c_int;
    fn dh_node_start(
        memory: *mut u8,
        bytes: usize,
        loopback: c_int,
        out: *mut *mut RawNode,
    ) -> c_int;
    fn dh_node_stop(node: *mut RawNode);
    fn dh_node_base(node: *const RawNode) -> u64;
    fn dh_node_address(node: *const RawNode, bytes: *mut usize) -> *const u8;
    fn dh_node_rkey(node: *const RawNode, bytes: *mut usize) -> *const u8;
    fn dh_node_set_word(node: *mut RawNode, off: usize, word: u64);
    fn dh_node_serve(node: *mut RawNode, spins: c_int, wait_ms: c_int) -> c_int;

    fn dh_client_open(out: *mut *mut RawClient) -> c_int;
    fn dh_client_connect(
        client: *mut RawClient,
        address: *const u8,
        rkey: *const u8,
        base: u64,
    ) -> c_int;
    fn dh_client_progress(client: *mut RawClient) -> c_uint;
    fn dh_client_tells(client: *const RawClient, node: usize) -> c_int;
    fn dh_client_error(client: *const RawClient, node: usize) -> c_int;
    fn dh_client_overdue(client: *const RawClient, before_ns: u64) -> usize;
    fn dh_client_hang_up(client: *mut RawClient, node: usize);
    fn dh_client_finish(client: *mut RawClient);
    fn dh_client_close(client: *mut RawClient);

    fn dh_batch_new(client: *mut RawClient, bytes: usize, now_ns: u64) -> *mut RawBatch;
    fn dh_batch_data(batch: *mut RawBatch) -> *mut u8;
    fn dh_batch_pending(batch: *const RawBatch) -> u32;
    fn dh_batch_pending_at(batch: *const RawBatch, node: usize) -> u32;
    fn dh_batch_error_at(batch: *const RawBatch, node: usize) -> c_int;
    fn dh_batch_release(batch: *mut RawBatch);
    fn dh_put(batch: *mut RawBatch, node: usize, from: usize, bytes: usize, off: u64);
    fn dh_get(batch: *mut RawBatch, node: usize, to: usize, bytes: usize, off: u64);
    fn dh_atomic(batch: *mut RawBatch, node: usize, at: usize, swap: c_int, off: u64);
    fn dh_flush(batch: *mut RawBatch, node: usize);
}

/// The error for a failed status of UCX.
fn check(doing: &'static str, status: c_int) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: UCX has a constant text for every number.
    let text = unsafe { CStr::from_ptr(dh_status_text(status)) };
    Err(Error::io(doing, None, io::Error::other(format!("UCX: {}", text.to_string_lossy()))))
}

/// The version of UCX: 1000 times the major number, plus the minor.
pub(crate) fn version() -> u64 {
    // SAFETY: it needs nothing.
    u64::from(unsafe { dh_version() })
}

/// Keeps UCX from logging broken connections to the standard output of this process, unless `UCX_LOG_LEVEL` is set. For
/// programs whose output is parsed.
pub fn quiet() {
    if std::env::var_os("UCX_LOG_LEVEL").is_none() {
        // SAFETY: it needs nothing. A level of this name is there in all versions.
        let status = unsafe { dh_quiet() };
        debug_assert_eq!(status, 0);
    }
}

/// Connect info for [`Ucx::connect`](crate::Ucx::connect), or addresses for [`Ucx::find`](crate::Ucx::find), that the
/// caller vouches for.
///
/// ```no_run
/// # use durahash_ucx::{Trusted, Ucx};
/// # fn connect(info: Vec<u8>) -> durahash_media::Result<()> {
/// // SAFETY: it comes from a `UcxNode`, by a pipe.
/// let infos = unsafe { Trusted::new([info]) };
/// let client = Ucx::connect(&infos, std::time::Duration::from_secs(2))?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Trusted<T>(T);

impl<T> Trusted<T> {
    /// Declares that the data come from nodes.
    ///
    /// # Safety
    /// UCX reads addresses and keys of nodes without a length, and trusts them. The checks of this
    /// crate find damage and other versions, not forgery. So:
    ///
    /// - each byte string is, whole and unchanged, from [`UcxNode::connect_info`](crate::UcxNode::connect_info);
    /// - at each address, when the client connects, a process listens that sends the
    ///   [offer](crate::UcxNode::offer) of a `UcxNode`, and no host on the way changes it.
    ///
    /// A token does not ensure that: only the node checks it.
    pub const unsafe fn new(it: T) -> Self {
        Trusted(it)
    }

    pub(crate) fn get(&self) -> &T {
        &self.0
    }

    pub(crate) fn into_inner(self) -> T {
        self.0
    }
}

impl Trusted<Offers> {
    /// Offers of nodes whose addresses the user of the program has named, for instance on the
    /// command line. The user vouches for them, as for a library that a program is told to load. Addresses from
    /// elsewhere, such as another process or a directory service, need [`new`](Self::new).
    #[must_use]
    pub const fn as_told(offers: Offers) -> Self {
        Trusted(offers)
    }
}

/// A registered region, and the worker that serves it.
pub(crate) struct Node {
    raw: NonNull<RawNode>,
    bytes: usize,
    /// Where the region lies, unless UCX has allocated it; dropped when UCX no longer has it.
    memory: Option<FileMemory>,
}

// SAFETY: UCX's objects are not bound to a thread, and `&mut` lets one thread at a time use them.
unsafe impl Send for Node {}

impl Node {
    /// Creates a node with `bytes` bytes of zeroed memory, reached over the loopback device only or over all devices
    /// that UCX chooses.
    pub(crate) fn start(bytes: usize, loopback: bool) -> Result<Self> {
        Self::start_at(std::ptr::null_mut(), bytes, loopback, None)
    }

    /// The same in the memory of a file, from the fabric's part of its first page on.
    pub(crate) fn start_in(memory: FileMemory, loopback: bool) -> Result<Self> {
        let all = memory.file().memory();
        Self::start_at(all.as_ptr().cast(), all.len(), loopback, Some(memory))
    }

    fn start_at(
        at: *mut u8,
        bytes: usize,
        loopback: bool,
        memory: Option<FileMemory>,
    ) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is written on success only. `at` is null, or the `bytes` bytes of `memory`, which are
        // mapped as long as that lives; it goes behind the node.
        let status = unsafe { dh_node_start(at, bytes, loopback.into(), &mut raw) };
        if let Err(e) = check("registering a region", status) {
            // Nobody has stored to it. That it is not served is what is told.
            drop(memory.map(|memory| memory.close(Duration::ZERO)));
            return Err(e);
        }
        let raw = NonNull::new(raw).expect("a node that was started");
        Ok(Node { raw, bytes, memory })
    }

    /// As [`FileMemory::written_back`]; nothing where the memory is in no file.
    pub(crate) fn written_back(&self) -> Result<()> {
        self.memory.as_ref().map_or(Ok(()), FileMemory::written_back)
    }

    /// Ends it, and returns the file that its memory lies in, if it does.
    pub(crate) fn into_memory(mut self) -> Option<FileMemory> {
        let memory = self.memory.take();
        drop(self);
        memory
    }

    /// The memory's address, the worker's address, and the remote key.
    pub(crate) fn parts(&self) -> (u64, Vec<u8>, Vec<u8>) {
        let raw = self.raw.as_ptr();
        let (mut address_bytes, mut rkey_bytes) = (0, 0);
        // SAFETY: the node lives.
        let base = unsafe { dh_node_base(raw) };
        // SAFETY: the same; the length is written.
        let address = unsafe { dh_node_address(raw, &mut address_bytes) };
        // SAFETY: the same.
        let rkey = unsafe { dh_node_rkey(raw, &mut rkey_bytes) };
        // SAFETY: it has that many bytes, constant as long as the node lives.
        let address = unsafe { slice::from_raw_parts(address, address_bytes) };
        // SAFETY: the same.
        let rkey = unsafe { slice::from_raw_parts(rkey, rkey_bytes) };
        (base, address.to_vec(), rkey.to_vec())
    }

    /// Stores a word.
    pub(crate) fn set_word(&mut self, off: usize, word: u64) {
        assert!(off.is_multiple_of(8) && off < self.bytes && self.bytes - off >= 8);
        // SAFETY: an aligned word of the memory, which UCX and this access by atomic words.
        unsafe { dh_node_set_word(self.raw.as_ptr(), off, word) };
    }

    /// Progresses verbs. Without any, polls `spins` times and then waits for at most so long.
    pub(crate) fn serve(&mut self, spins: u32, wait_ms: u32) -> Result<()> {
        let (spins, wait_ms) = (spins.cast_signed(), wait_ms.cast_signed());
        // SAFETY: the node lives, and `&mut` is exclusive.
        let status = unsafe { dh_node_serve(self.raw.as_ptr(), spins, wait_ms) };
        check("serving a region", status)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // SAFETY: it is not used afterwards.
        unsafe { dh_node_stop(self.raw.as_ptr()) };
    }
}

/// Names a batch of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key(usize);

/// Progress of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// All verbs have completed.
    Done,
    /// Verbs to this node have not.
    Pending(u8),
    /// A verb to this node has failed.
    Failed(u8),
}

struct Slot {
    raw: NonNull<RawBatch>,
    bytes: usize,
}

/// A worker with an endpoint to each node.
pub(crate) struct Client {
    raw: NonNull<RawClient>,
    /// For each node, bytes of its memory, and true if it was given up.
    nodes: Vec<(u64, bool)>,
    /// By key.
    slots: Vec<Option<Slot>>,
    free: Vec<usize>,
    start: Instant,
    /// How long a verb may be under way.
    patience: Duration,
}

// SAFETY: as of `Node`.
unsafe impl Send for Client {}

impl Client {
    /// Creates a client. A verb that is under way for longer than `patience` has expired.
    pub(crate) fn open(patience: Duration) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is written on success only.
        let status = unsafe { dh_client_open(&mut raw) };
        check("opening a worker", status)?;
        let raw = NonNull::new(raw).expect("a client that was opened");
        let (nodes, slots, free) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Client { raw, nodes, slots, free, start: Instant::now(), patience })
    }

    /// Adds an endpoint to the next node. Earlier batches must be released. Connect info is parsed from
    /// [`Trusted`] bytes only.
    pub(crate) fn connect(&mut self, info: &ConnectInfo) -> Result<()> {
        assert!(self.nodes.len() < 255 && self.slots.iter().all(Option::is_none));
        let (address, rkey) = (info.address.as_ptr(), info.rkey.as_ptr());
        // SAFETY: there is room for one more, and no batch exists that was made for fewer nodes. The caller of
        // `Trusted::new` vouches that a node has made these bytes, and that they are whole; the
        // node's UCX is of this version: so UCX reads as many of them as it has written.
        let status = unsafe { dh_client_connect(self.raw.as_ptr(), address, rkey, info.base) };
        check("connecting to a node", status)?;
        self.nodes.push((info.bytes(), false));
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Closes the endpoints of nodes with an expired verb, and returns whether there were any.
    fn hang_up_overdue(&mut self) -> bool {
        let patience_ns = self.patience.as_nanos() as u64;
        let Some(before_ns) = self.now_ns().checked_sub(patience_ns) else { return false };
        let mut some = false;
        loop {
            // SAFETY: the client lives.
            let node = unsafe { dh_client_overdue(self.raw.as_ptr(), before_ns) };
            let Some((_, lost)) = self.nodes.get_mut(node) else { return some };
            *lost = true;
            some = true;
            // SAFETY: the node is connected, and no callback is running.
            unsafe { dh_client_hang_up(self.raw.as_ptr(), node) };
        }
    }

    /// Gives up nodes with an expired verb: UCX may still hold it back, and must not send it any more.
    pub(crate) fn expire(&mut self) {
        if self.hang_up_overdue() {
            // SAFETY: the client lives, and no callback is running.
            unsafe { dh_client_finish(self.raw.as_ptr()) };
        }
    }

    /// Progresses verbs that have not [expired](Self::expire), and returns whether there was progress.
    pub(crate) fn progress(&mut self) -> bool {
        self.expire();
        // SAFETY: the client lives, and `&mut` is exclusive.
        unsafe { dh_client_progress(self.raw.as_ptr()) != 0 }
    }

    /// Returns whether UCX reports the node's end: it does over a network, not over shared memory.
    pub(crate) fn tells(&self, node: u8) -> bool {
        // SAFETY: there is a place for every number of 8 bits.
        unsafe { dh_client_tells(self.raw.as_ptr(), node.into()) != 0 }
    }

    /// Returns whether the node was given up, or its endpoint has failed.
    pub(crate) fn is_lost(&self, node: u8) -> bool {
        // SAFETY: there is a place for every number of 8 bits.
        let error = unsafe { dh_client_error(self.raw.as_ptr(), node.into()) };
        error != 0 || self.nodes[usize::from(node)].1
    }

    /// Gives up a node: nothing more is sent to it, and verbs under way fail.
    pub(crate) fn lose(&mut self, node: u8) {
        let lost = &mut self.nodes[usize::from(node)].1;
        if !std::mem::replace(lost, true) {
            // SAFETY: the node was connected, and no callback is running.
            unsafe { dh_client_hang_up(self.raw.as_ptr(), node.into()) };
            // Progress finishes it.
            self.hang_up_overdue();
            // SAFETY: the same.
            unsafe { dh_client_finish(self.raw.as_ptr()) };
        }
    }

    /// Creates a batch with `bytes` zeroed bytes for its verbs to read and write.
    pub(crate) fn batch(&mut self, bytes: usize) -> Result<Key> {
        let now_ns = self.now_ns();
        // SAFETY: the client lives.
        let raw = unsafe { dh_batch_new(self.raw.as_ptr(), bytes, now_ns) };
        let raw = NonNull::new(raw)
            .ok_or_else(|| Error::io("making a batch", None, io::ErrorKind::OutOfMemory.into()))?;
        let slot = Some(Slot { raw, bytes });
        let key = match self.free.pop() {
            Some(key) => {
                self.slots[key] = slot;
                key
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        Ok(Key(key))
    }

    fn slot(&self, key: Key) -> &Slot {
        self.slots[key.0].as_ref().expect("a batch that was not released")
    }

    /// Sets bytes of a batch of which no verb was posted yet.
    pub(crate) fn fill(&mut self, key: Key, at: usize, bytes: &[u8]) {
        let slot = self.slot(key);
        assert!(at <= slot.bytes && slot.bytes - at >= bytes.len());
        // SAFETY: the batch lives.
        let pending = unsafe { dh_batch_pending(slot.raw.as_ptr()) };
        assert_eq!(pending, 0, "no verb of the batch is under way");
        // SAFETY: as said; UCX touches it in verbs under way only.
        let data =
            unsafe { slice::from_raw_parts_mut(dh_batch_data(slot.raw.as_ptr()), slot.bytes) };
        data[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// The bytes of a batch after all its verbs have completed.
    pub(crate) fn bytes(&self, key: Key) -> &[u8] {
        let slot = self.slot(key);
        // SAFETY: the batch lives.
        let pending = unsafe { dh_batch_pending(slot.raw.as_ptr()) };
        assert_eq!(pending, 0, "no verb of the batch is under way");
        // SAFETY: as said; and it is not freed while `self` is borrowed.
        unsafe { slice::from_raw_parts(dh_batch_data(slot.raw.as_ptr()), slot.bytes) }
    }

    /// The batch of a verb, after a check that both ranges exist.
    fn verb(&self, key: Key, node: u8, own: (usize, usize), far: (u64, u64)) -> *mut RawBatch {
        let slot = self.slot(key);
        assert!(own.0 <= slot.bytes && slot.bytes - own.0 >= own.1, "bytes of the batch");
        let (region, lost) = self.nodes[usize::from(node)];
        assert!(far.0 <= region && region - far.0 >= far.1, "bytes of the region");
        assert!(!lost, "nothing is posted to a node that was given up");
        slot.raw.as_ptr()
    }

    /// Posts a write of the batch's bytes from `from` on. It is complete remotely after a flush.
    pub(crate) fn put(&mut self, key: Key, node: u8, from: usize, bytes: usize, off: u64) {
        let batch = self.verb(key, node, (from, bytes), (off, bytes as u64));
        // SAFETY: both ranges are what they should be, and those of the batch live as long as the verb.
        unsafe { dh_put(batch, node.into(), from, bytes, off) };
    }

    /// Posts a read to the batch's bytes from `to` on.
    pub(crate) fn get(&mut self, key: Key, node: u8, to: usize, bytes: usize, off: u64) {
        let batch = self.verb(key, node, (to, bytes), (off, bytes as u64));
        // SAFETY: as of a write.
        unsafe { dh_get(batch, node.into(), to, bytes, off) };
    }

    /// Posts an atomic. At `at` of the batch are the old and the new word of a compare-and-swap, or the addend. The
    /// previous word replaces the second of them.
    pub(crate) fn atomic(&mut self, key: Key, node: u8, at: usize, swap: bool, off: u64) {
        assert!(at.is_multiple_of(8) && off.is_multiple_of(8));
        let batch = self.verb(key, node, (at, 16), (off, 8));
        // SAFETY: as of a write, and both are aligned: blocks of `calloc` are, and the region is.
        unsafe { dh_atomic(batch, node.into(), at, swap.into(), off) };
    }

    /// Posts a flush, which completes when all earlier verbs to the node have taken effect.
    pub(crate) fn flush(&mut self, key: Key, node: u8) {
        let batch = self.verb(key, node, (0, 0), (0, 0));
        // SAFETY: the node is connected.
        unsafe { dh_flush(batch, node.into()) };
    }

    /// The progress of a batch.
    pub(crate) fn state(&self, key: Key) -> State {
        let raw = self.slot(key).raw.as_ptr();
        let mut pending = None;
        for node in (0..self.nodes.len()).rev() {
            // SAFETY: the node existed when the batch was made.
            if unsafe { dh_batch_error_at(raw, node) } != 0 {
                return State::Failed(node as u8);
            }
            // SAFETY: the same.
            if unsafe { dh_batch_pending_at(raw, node) } != 0 {
                pending = Some(node as u8);
            }
        }
        pending.map_or(State::Done, State::Pending)
    }

    /// Releases a batch. Its memory stays until its verbs are done.
    pub(crate) fn release(&mut self, key: Key) {
        let slot = self.slots[key.0].take().expect("a batch is released once");
        self.free.push(key.0);
        // SAFETY: the key was removed, so the batch is not used any more.
        unsafe { dh_batch_release(slot.raw.as_ptr()) };
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: neither it nor its batches are used afterwards.
        unsafe { dh_client_close(self.raw.as_ptr()) };
    }
}
