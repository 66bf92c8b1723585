//! The file of a pool: its names, its lock, its length.

use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use rustix::io::Errno;

use super::map::{MAPPING, Mapping, Sharing};
use crate::error::{Error, ErrorKind, Limit, Result};
use crate::identity::FileId;
use crate::medium::process::Process;
use crate::medium::{BLOCK_BYTES, Region, sys};
use crate::primitive::lock;

/// Attempts to have a file that another process does not replace or remove before it is locked.
const ATTEMPTS: u32 = 16;
/// How often, and after which pause, a lock that is held is asked for again: that of a killed process is there until nobody
/// looks at its memory any more (as one does who reads its maps in `/proc`), which may be a moment after its end was told.
const LINGERS: u32 = 20;
const LINGER: Duration = Duration::from_millis(5);
/// A growth by at least so many bytes is first compared with the space that there is.
const LARGE_BYTES: u64 = 1 << 30;

/// A locked file. One that was created has no name until it is published, or a temporary one where the file
/// system does not know such files, and goes away with `self` if it never is.
pub(in crate::medium) struct PoolFile {
    file: File,
    path: PathBuf,
    unpublished: Mutex<Option<Unpublished>>,
    /// True until it is about to get its name: after a loss of power there is no such file, so nothing of it need be
    /// on the disk. The sync for the name has all that was skipped before.
    is_new: AtomicBool,
    /// The process whose lock it is.
    process: Process,
}

/// How a file is reached that was not published yet.
enum Unpublished {
    /// By a temporary name, which a killed process leaves to [`remove_leftovers`].
    Named(PathBuf),
    /// By its descriptor only, so that it ends with the process.
    Unnamed(PathBuf),
}

impl Unpublished {
    fn path(&self) -> &Path {
        let (Unpublished::Named(path) | Unpublished::Unnamed(path)) = self;
        path
    }
}

impl PoolFile {
    /// An empty file beside `path`, which must be free, and still be so when it is published. Who
    /// may open it is what `mode` leaves of the process's own mask.
    pub(in crate::medium) fn create(path: &Path, mode: u32) -> Result<Self> {
        if path.file_name().is_none() {
            let what = "the path of a pool must end in a file name";
            return Err(Error::from(ErrorKind::Options { what }).at_path(path));
        }
        match sys::name_metadata(path) {
            Ok(_) => return Err(Error::from(ErrorKind::Exists).at_path(path)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("creating the pool", Some(path.into()), e)),
        }
        for _ in 0..ATTEMPTS {
            let (file, unpublished) = create_unpublished(path, mode)
                .map_err(|e| Error::io("creating the pool", Some(path.into()), e))?;
            let created = Self::new(file, path, Some(unpublished));
            // Before it was locked, another process may have taken it for a leftover.
            let is_ours = match created.lock(false) {
                Err(e) if matches!(e.kind(), ErrorKind::Locked) => false,
                locked => locked.and_then(|()| created.has_name(&created.current_path()))?,
            };
            if is_ours {
                return Ok(created);
            }
        }
        Err(Error::from(ErrorKind::Locked).at_path(path))
    }

    fn new(file: File, path: &Path, unpublished: Option<Unpublished>) -> Self {
        let process = Process::own();
        let is_new = AtomicBool::new(unpublished.is_some());
        let unpublished = Mutex::new(unpublished);
        PoolFile { file, path: path.into(), unpublished, is_new, process }
    }

    /// The file at `path`, which is a regular one and not empty. If it `asks_again`, it waits a moment for the end of who has it.
    pub(in crate::medium) fn open(path: &Path, read_only: bool, asks_again: bool) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let opened = Self::open_unlocked(path, read_only)?;
            opened.lock_patiently(read_only, if asks_again { LINGERS } else { 0 })?;
            // Before it was locked, a compaction may have put another file in its place: what is
            // stored in this one would be lost.
            if opened.has_name(path)? {
                // Only now: the process that held the lock may have changed it.
                if opened.metadata()?.len() == 0 {
                    return Err(not_a_pool("it is empty", path));
                }
                if !read_only && sys::names_new_files(&opened.file) {
                    remove_leftovers(directory(path), Some(&opened));
                }
                return Ok(opened);
            }
        }
        Err(Error::from(ErrorKind::Locked).at_path(path))
    }

    /// The file that is at `path` now, without a lock.
    pub(super) fn open_unlocked(path: &Path, read_only: bool) -> Result<Self> {
        let file = match sys::open(path, !read_only) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::IsADirectory => {
                return Err(not_a_pool("it is a directory", path));
            }
            Err(e) => return Err(Error::io("opening the pool", Some(path.into()), e)),
        };
        let opened = Self::new(file, path, None);
        let metadata = opened.metadata()?;
        if metadata.is_dir() {
            return Err(not_a_pool("it is a directory", path));
        }
        if !metadata.is_file() {
            return Err(not_a_pool("it is not a regular file", path));
        }
        Ok(opened)
    }

    /// True if `path` leads to this file, and not to another or to nothing.
    fn has_name(&self, path: &Path) -> Result<bool> {
        let file = self.metadata()?;
        match sys::target_metadata(path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (file.dev(), file.ino())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(self.error("looking at the pool", e)),
        }
    }

    fn lock_patiently(&self, shared: bool, asks: u32) -> Result<()> {
        for _ in 0..asks {
            match self.lock(shared) {
                Err(e) if matches!(e.kind(), ErrorKind::Locked) => sleep(LINGER),
                locked => return locked,
            }
        }
        self.lock(shared)
    }

    fn lock(&self, shared: bool) -> Result<()> {
        match sys::try_lock(&self.file, shared) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::from(ErrorKind::Locked).at_path(self.path())),
            Err(e) => Err(self.error("locking the pool", e)),
        }
    }

    pub(in crate::medium) fn metadata(&self) -> Result<Metadata> {
        sys::metadata(&self.file).map_err(|e| self.error("looking at the pool", e))
    }

    pub(in crate::medium) fn file(&self) -> &File {
        &self.file
    }

    pub(in crate::medium) fn path(&self) -> &Path {
        &self.path
    }

    /// The path that leads to it now: its own, once it is published.
    pub(super) fn current_path(&self) -> PathBuf {
        let slot = lock(&self.unpublished);
        slot.as_ref().map_or(&*self.path, Unpublished::path).into()
    }

    /// A failure of `doing` on this file.
    pub(in crate::medium) fn error(&self, doing: &'static str, e: io::Error) -> Error {
        Error::io(doing, Some(self.path.clone()), e)
    }

    /// Lengthens the file from `from` to `to` bytes, with space on the disk under all of it but what is from
    /// `hole` on; the length to which a growth that fails later is cut back, as this does. That is no less than the file has:
    /// readers in other processes may have more of it mapped than the pool has now.
    pub(in crate::medium) fn extend(&self, from: u64, to: u64, hole: u64) -> Result<u64> {
        // The system answers an attempt beyond this limit with a signal that ends the process.
        if to > sys::file_size_limit() {
            return Err(Error::full(to - from, Limit::FileSize).at_path(self.path()));
        }
        // ext4 takes all the space there is before it refuses a request for more. Others meet a full disk meanwhile.
        let wanted = hole.saturating_sub(from);
        let had = self.metadata()?.len().max(from);
        if wanted >= LARGE_BYTES {
            let new = wanted.saturating_sub(had - from);
            if new > sys::space_free(&self.file) {
                return Err(Error::full(to - from, Limit::Disk).at_path(self.path()));
            }
        }
        let mut extended = Ok(());
        if from < hole {
            extended = match sys::allocate(&self.file, from, hole - from) {
                Err(e) if sys::is(&e, Errno::OPNOTSUPP) => self.write_zeros(from, hole),
                other => other,
            };
        }
        if hole < to && had < to {
            extended = extended.and_then(|()| sys::truncate(&self.file, to));
        }
        match extended {
            Ok(()) => Ok(had),
            Err(e) => {
                self.cut_back(had);
                Err(self.no_space(e, to - from))
            }
        }
    }

    /// Makes what the file has of the bytes `from` to `to` zeros.
    pub(super) fn clear(&self, from: u64, to: u64) -> Result<()> {
        let cleared = match sys::punch(&self.file, from, to - from) {
            Err(e) if sys::is(&e, Errno::OPNOTSUPP) => self.write_zeros(from, to),
            cleared => cleared,
        };
        cleared.map_err(|e| self.error("growing the pool", e))
    }

    /// Takes the space of holes in the first `bytes` bytes but for `unused` ones, which a copy by other means may
    /// have left: a store into one would end the process when the disk is full. Fewer blocks than bytes may also
    /// mean compression, on a file system that has no holes to fill then.
    pub(in crate::medium) fn fill_holes(&self, bytes: u64, unused: Range<u64>) -> Result<()> {
        let metadata = self.metadata()?;
        // Of what is unused some may have space, and hide that as much lacks it elsewhere.
        if unused.is_empty() && metadata.blocks() * 512 >= metadata.len() {
            return Ok(());
        }
        self.fill_all(&metadata, bytes, unused)
    }

    /// The same, also where there are as many blocks as bytes: the file system counts its own, too.
    pub(in crate::medium) fn fill_all(
        &self,
        metadata: &Metadata,
        bytes: u64,
        unused: Range<u64>,
    ) -> Result<()> {
        let used = bytes - (unused.end - unused.start);
        let missing = used.saturating_sub(metadata.blocks() * 512);
        let full = || Error::full(missing.max(BLOCK_BYTES), Limit::Holes).at_path(self.path());
        // An attempt that meets a full disk keeps what it took until then.
        let free = sys::space_free(&self.file);
        if missing > free && self.holes_bytes(bytes)? > free {
            return Err(full());
        }
        let filled = self.fill(0, unused.start).and_then(|()| self.fill(unused.end, bytes));
        filled.map_err(|e| match e.kind() {
            ErrorKind::Full { limit: Limit::Disk, .. } => full(),
            _ => e,
        })
    }

    /// Bytes before `to` that nothing was written to; they may have space.
    fn holes_bytes(&self, to: u64) -> Result<u64> {
        let mut sum = 0;
        let summed = self.holes(0, to, |from, to| {
            sum += to - from;
            Ok(())
        });
        summed.map_err(|e| self.error("looking at the pool", e)).map(|()| sum)
    }

    /// Calls `each` with the beginning and the end of each hole.
    fn holes(
        &self,
        from: u64,
        to: u64,
        mut each: impl FnMut(u64, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut at = from;
        while at < to {
            let data = sys::data_from(&self.file, at)?.map_or(to, |data| data.min(to));
            each(at, data)?;
            at = if data < to { sys::hole_from(&self.file, data)? } else { to };
        }
        Ok(())
    }

    /// True if the file lies in memory and has more holes than there is space left: there a hole takes space when it is
    /// read through a mapping, too, and the process ends if there is none.
    pub(super) fn is_short_of_space(&self) -> Result<bool> {
        let metadata = self.metadata()?;
        let missing = metadata.len().saturating_sub(metadata.blocks() * 512);
        Ok(missing > 0 && sys::is_in_memory(&self.file) && sys::space_left(&self.file) < missing)
    }

    /// Copies what the file holds into `region`, which is zeros.
    pub(super) fn copy_to(&self, region: &Region) -> Result<()> {
        let mut bytes = vec![0; 1 << 20];
        let (len, mut off) = (region.len() / 8 * 8, 0);
        while let Some(from) =
            sys::data_from(&self.file, off).map_err(|e| self.error("reading the pool", e))?
            && from < len
        {
            let bytes = &mut bytes[..(len - from).min(1 << 20) as usize];
            sys::read_at(&self.file, bytes, from).map_err(|e| self.error("reading the pool", e))?;
            let words = region.words(from, bytes.len() as u64 / 8)?;
            // As a mapping would show it.
            let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes).to_le();
            let values = bytes.as_chunks().0.iter().map(word);
            words.iter().zip(values).filter(|(_, v)| *v != 0).for_each(|(word, v)| word.store(v));
            off = from + bytes.len() as u64;
        }
        Ok(())
    }

    /// Takes the space of holes from byte `from` up to `to`.
    pub(super) fn fill(&self, from: u64, to: u64) -> Result<()> {
        if from >= to {
            return Ok(());
        }
        let filled = match sys::allocate(&self.file, from, to - from) {
            Err(e) if sys::is(&e, Errno::OPNOTSUPP) => {
                self.holes(from, to, |from, to| self.write_zeros(from, to))
            }
            filled => filled,
        };
        filled.map_err(|e| self.no_space(e, to - from))
    }

    /// A growth by `wanted_bytes` that failed.
    pub(super) fn no_space(&self, e: io::Error, wanted_bytes: u64) -> Error {
        let limit = if [Errno::NOSPC, Errno::DQUOT].into_iter().any(|errno| sys::is(&e, errno)) {
            Limit::Disk
        } else if sys::is(&e, Errno::FBIG) {
            Limit::FileSize
        } else {
            return self.error("allocating space for the pool", e);
        };
        Error::full(wanted_bytes, limit).at_path(self.path())
    }

    /// Undoes a growth. Where even this fails the file stays too long by bytes that the pool does
    /// not count: the next growth takes them over.
    pub(super) fn cut_back(&self, bytes: u64) {
        let _ = sys::truncate(&self.file, bytes);
    }

    /// Takes space where the file system cannot reserve it.
    fn write_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        const CHUNK_BYTES: u64 = 1 << 20;
        let zeros = vec![0; CHUNK_BYTES.min(to - from) as usize];
        (from..to).step_by(CHUNK_BYTES as usize).try_for_each(|at| {
            sys::write_at(&self.file, &zeros[..CHUNK_BYTES.min(to - at) as usize], at)
        })
    }

    pub(super) fn truncate(&self, bytes: u64) -> Result<()> {
        sys::truncate(&self.file, bytes).map_err(|e| self.error("cutting the pool", e))
    }

    pub(in crate::medium) fn sync(&self) -> Result<()> {
        sys::sync_file(&self.file).map_err(|e| self.error("syncing the pool", e))
    }

    /// Another file in the same directory, which no name leads to.
    pub(super) fn unnamed_beside(&self) -> Result<File> {
        let make = || {
            let (file, unpublished) = create_unpublished(&self.path, 0o600)?;
            match unpublished {
                Unpublished::Named(path) => match sys::unlink(&path) {
                    // Another creation has taken it for a leftover.
                    Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
                    _ => Ok(file),
                },
                Unpublished::Unnamed(_) => Ok(file),
            }
        };
        make().map_err(|e| self.no_space(e, BLOCK_BYTES))
    }

    /// True if it need not be synced yet.
    pub(super) fn is_new(&self) -> bool {
        self.is_new.load(Ordering::SeqCst)
    }

    /// Syncs all of it, and lets no thread skip a sync from now on. In this order: writes of a thread
    /// that skipped a sync are on the disk then.
    fn sync_new(&self) -> Result<()> {
        self.is_new.store(false, Ordering::SeqCst);
        self.sync()
    }

    /// Gives a created file its own name, durably.
    pub(in crate::medium) fn publish(&self) -> Result<()> {
        let mut slot = lock(&self.unpublished);
        let Some(unpublished) = &*slot else {
            return Ok(());
        };
        self.sync_new()?;
        let mut leftover = None;
        let named = match (sys::link(unpublished.path(), &self.path), unpublished) {
            // A file system without hard links.
            (Err(e), Unpublished::Named(temporary))
                if sys::is(&e, Errno::PERM) || sys::is(&e, Errno::OPNOTSUPP) =>
            {
                sys::rename_new(temporary, &self.path)
            }
            (linked, Unpublished::Named(temporary)) => {
                leftover = Some(temporary);
                linked
            }
            (linked, Unpublished::Unnamed(_)) => linked,
        };
        named.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => Error::from(ErrorKind::Exists).at_path(self.path()),
            _ => self.error("naming the pool", e),
        })?;
        let durable = match (leftover, unpublished) {
            (Some(temporary), _) => sys::unlink(temporary),
            (None, Unpublished::Named(_)) => Ok(()),
            // A file system without a journal may have the file on the disk as one of no names.
            (None, Unpublished::Unnamed(_)) => sys::sync_file(&self.file),
        };
        if let Err(e) = durable.and_then(|()| sys::sync_dir(directory(&self.path))) {
            // As if it had never been: the temporary name, if it is left, goes with `self`.
            let _ = sys::unlink(&self.path);
            return Err(self.error("naming the pool", e));
        }
        *slot = None;
        Ok(())
    }

    /// Takes the name of `old`, which lies in the same directory, and its owner and permissions.
    pub(super) fn replace(&self, old: &PoolFile) -> Result<()> {
        const DOING: &str = "replacing the pool";
        const MODE_BITS: u32 = 0o7777;
        self.publish()?;
        let (was, is) = (old.metadata()?, self.metadata()?);
        let user = Some(was.uid()).filter(|uid| *uid != is.uid());
        let group = Some(was.gid()).filter(|gid| *gid != is.gid());
        if user.or(group).is_some() {
            sys::change_owner(&self.file, user, group).map_err(|e| old.error(DOING, e))?;
        }
        // Only now: no user gets in meanwhile whom the old owner kept out.
        let mode = was.mode() & MODE_BITS;
        if mode != is.mode() & MODE_BITS {
            sys::change_mode(&self.file, mode).map_err(|e| old.error(DOING, e))?;
        }
        self.sync_new()?;
        if !old.has_name(&old.path)? {
            let other = io::Error::other("another file has its name now, or none");
            return Err(old.error(DOING, other));
        }
        sys::rename(&self.path, &old.path)
            .and_then(|()| sys::sync_dir(directory(&old.path)))
            .map_err(|e| old.error(DOING, e))?;
        // Nobody opens it any more, unless it has another name. A live file in another directory stays.
        if was.nlink() == 1 {
            let live = FileId::of(&was).live_name();
            let _ = sys::unlink(&directory(&old.path).join(live));
        }
        Ok(())
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        // A forked child has a copy of `self`, but the lock and the temporary file are its parent's.
        if self.process != Process::own() {
            return;
        }
        let slot = self.unpublished.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(Unpublished::Named(temporary)) = slot {
            // No caller is left to hear of a failure; the name says what the file was.
            let _ = sys::unlink(temporary);
        }
        // Closing would do it, but not while a child that another thread is just starting still
        // has the open file, which it closes only when it executes its program.
        let _ = self.file.unlock();
    }
}

/// A mapping of the first `len` bytes of `file`, which may have `most` later, and the region over it, which
/// lives no longer. Of what lies before `huge_from` no page is huge.
pub(super) fn map_file(
    file: &PoolFile,
    sharing: Sharing,
    len: u64,
    most: u64,
    (dax, huge_from): (bool, u64),
) -> Result<(Mapping, Region)> {
    let mapping = Mapping::new(file.file(), sharing, len, most, huge_from)
        .map_err(|e| file.error(MAPPING, e))?;
    // SAFETY: the mapping is aligned, readable and writable as far as the file reaches, and the caller
    // keeps it as long as the region; the file is locked, and is never cut under it (see `trim`).
    let region = unsafe { Region::new(mapping.base(), len, most) };
    Ok((mapping, if dax { region.without_speculation() } else { region }))
}

/// A pool file that stays locked until this, and its medium, are dropped.
pub struct FileLock(pub(super) Arc<PoolFile>);

impl FileLock {
    /// As [`Storage::publish`](crate::Storage::publish).
    ///
    /// # Errors
    /// [`Exists`](ErrorKind::Exists), [`Io`](ErrorKind::Io).
    pub fn publish(&self) -> Result<()> {
        self.0.publish()
    }

    /// Puts this file, a closed and published pool, in the place of `old`, in the same directory,
    /// and gives it the owner and the permissions of `old`.
    ///
    /// **Durability.** The name stands for one of the two, whole, whenever power is lost; for this
    /// one after success.
    /// **Concurrency.** An open of the name finds it locked.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) with the system's error, or where the path of `old` leads to another
    /// file by now. Either file may have the name then, if it was the directory that could not be
    /// synced; else nothing was replaced.
    pub fn replace(&self, old: &FileLock) -> Result<()> {
        self.0.replace(&old.0)
    }
}

fn not_a_pool(why: &'static str, path: &Path) -> Error {
    Error::from(ErrorKind::NotAPool { why }).at_path(path)
}

/// A new file in the directory of `path`.
fn create_unpublished(path: &Path, mode: u32) -> io::Result<(File, Unpublished)> {
    const NOT_KNOWN: [Errno; 3] = [Errno::OPNOTSUPP, Errno::ISDIR, Errno::INVAL];
    match sys::create_unnamed(directory(path), mode) {
        Ok(file) => {
            let link = sys::link_to(&file);
            // Without /proc it could not be named later.
            match sys::target_metadata(&link) {
                Ok(_) => return Ok((file, Unpublished::Unnamed(link))),
                Err(e) if sys::is_no_proc(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Err(e) if NOT_KNOWN.into_iter().any(|errno| sys::is(&e, errno)) => {}
        Err(e) => return Err(e),
    }
    remove_leftovers(directory(path), None);
    let temporary = path.with_file_name(temporary_name()?);
    Ok((sys::create(&temporary, mode)?, Unpublished::Named(temporary)))
}

/// The directory in which the file of this path lies.
pub(in crate::medium) fn real_dir(path: &Path) -> io::Result<PathBuf> {
    match std::fs::canonicalize(path) {
        Ok(path) => Ok(path.parent().map(Into::into).unwrap_or_default()),
        // It has no name yet.
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let dir = path.parent().filter(|dir| *dir != Path::new(""));
            std::fs::canonicalize(dir.unwrap_or(Path::new(".")))
        }
        Err(e) => Err(e),
    }
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A name that no other creation, in any process, uses.
fn temporary_name() -> io::Result<String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let random = getrandom::u64().map_err(io::Error::other)?;
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    Ok(format!(".durahash-{process}-{count}-{random:016x}.tmp"))
}

/// True of such names.
fn is_temporary(name: &str) -> bool {
    let middle = name.strip_prefix(".durahash-").and_then(|rest| rest.strip_suffix(".tmp"));
    let parts: Vec<&str> = middle.unwrap_or_default().split('-').collect();
    let is_number = |part: &str, radix| !part.is_empty() && part.chars().all(|c| c.is_digit(radix));
    matches!(parts[..], [process, count, random]
        if is_number(process, 10) && is_number(count, 10) && random.len() == 16 && is_number(random, 16))
}

/// Removes the files that killed creations left in `dir`; what cannot be removed stays.
///
/// None that is in use, by whatever process of whatever container: only the holder of a file's lock removes its
/// temporary name. A creator uses its file only if it holds the lock and has then found the name still there, and holds
/// the lock until the name is gone. Where a creator dies, the system gives the lock back. Where a network file system
/// does not show locks of other machines, a creation there may fail; it has not returned then.
///
/// A killed creation may also leave a second name of a pool that was published. `own`, which is open, removes its own; of
/// others it takes no lock, as that would keep other processes from opening them.
fn remove_leftovers(dir: &Path, own: Option<&PoolFile>) {
    for path in sys::files_in(dir, is_temporary) {
        let _ = remove_leftover(&path, own);
    }
}

fn remove_leftover(path: &Path, own: Option<&PoolFile>) -> Result<()> {
    let leftover;
    let holder = match own {
        Some(own) if own.has_name(path)? => own,
        _ if sys::target_metadata(path).is_ok_and(|named| named.nlink() > 1) => return Ok(()),
        _ => {
            leftover = PoolFile::open_unlocked(path, false)?;
            leftover.lock(false)?;
            &leftover
        }
    };
    if holder.has_name(path)? {
        sys::unlink(path).map_err(|e| holder.error("removing a leftover", e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_names_are_told_from_others() {
        assert!(is_temporary(&temporary_name().unwrap()));
        for other in [
            ".durahash-1-2-0123456789abcdef",
            "durahash-1-2-0123456789abcdef.tmp",
            ".durahash-1-2-3.tmp",
            ".durahash-1-0123456789abcdef.tmp",
            ".durahash-1--0123456789abcdef.tmp",
            ".durahash-1-2-0123456789abcdeg.tmp",
            ".durahash-1-2-3-0123456789abcdef.tmp",
        ] {
            assert!(!is_temporary(other), "{other}");
        }
    }

    #[test]
    fn a_forked_child_leaves_its_parent_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pool");
        std::fs::write(&path, "not empty").unwrap();
        let mut of_child = PoolFile::open(&path, false, true).unwrap();
        // As after a fork, there are two descriptors of the one open file.
        let of_parent = of_child.file.try_clone().unwrap();
        of_child.process = Process(0);
        drop(of_child);
        let refused = PoolFile::open(&path, false, true).err().unwrap();
        assert!(matches!(refused.kind(), ErrorKind::Locked));
        of_parent.unlock().unwrap();
        PoolFile::open(&path, false, true).unwrap();
    }
}
