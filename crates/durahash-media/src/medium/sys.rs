//! The system calls of media, in one place: thin, one per function, so that a test can make any of
//! them fail ([`faults`]).

use std::fs::{File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, RenameFlags, StatVfs};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{Advice, MapFlags, MprotectFlags, MsyncFlags, ProtFlags};
use rustix::process::Resource;
use rustix::thread::MembarrierCommand;

#[cfg(any(test, feature = "sim"))]
/// Makes a chosen system call of this thread fail, for tests.
pub mod faults {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        /// Calls left until the one that fails, and its error number.
        static ARMED: Cell<Option<(u64, i32)>> = const { Cell::new(None) };
    }

    /// Lets the `nth` call from here on fail with error number `errno`; the first is number 1.
    pub fn arm(nth: u64, errno: i32) {
        ARMED.set(Some((nth, errno)));
    }

    /// Ends it; true if a call failed.
    pub fn disarm() -> bool {
        matches!(ARMED.take(), Some((0, _)))
    }

    thread_local! {
        /// True if no file may be without a name in this thread, as on file systems that do not know such files.
        pub static NAMED_ONLY: Cell<bool> = const { Cell::new(false) };
        /// Bytes of memory that are left to this thread's questions, if it is not the system that answers.
        pub static MEMORY_LEFT: Cell<Option<u64>> = const { Cell::new(None) };
        /// Is run when this thread asks for a further one, which the system does not give then.
        pub static NO_THREADS: Cell<Option<Box<dyn FnMut()>>> = const { Cell::new(None) };
    }

    thread_local! {
        /// Calls of this thread for which the system waits for a disk: syncs, and openings for writes that are durable.
        pub static SYNCS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count_sync() {
        SYNCS.set(SYNCS.get() + 1);
    }

    #[cfg(test)]
    thread_local! {
        static BEFORE_LOCK: Cell<Option<Box<dyn FnMut()>>> = const { Cell::new(None) };
    }

    /// Lets `f` run in this thread before each attempt to lock a file, or nothing any more.
    #[cfg(test)]
    pub(crate) fn before_lock(f: Option<Box<dyn FnMut()>>) {
        BEFORE_LOCK.set(f);
    }

    #[cfg(test)]
    pub(super) fn run_before_lock() {
        if let Some(mut f) = BEFORE_LOCK.take() {
            f();
            BEFORE_LOCK.set(Some(f));
        }
    }

    pub(super) fn gate() -> io::Result<()> {
        match ARMED.get() {
            None | Some((0, _)) => Ok(()),
            Some((left, errno)) => {
                ARMED.set(Some((left - 1, errno)));
                if left == 1 { Err(io::Error::from_raw_os_error(errno)) } else { Ok(()) }
            }
        }
    }
}

#[cfg(any(test, feature = "sim"))]
use faults::{count_sync, gate};

/// The place where a test makes a call fail.
#[cfg(not(any(test, feature = "sim")))]
#[inline(always)]
#[allow(clippy::unnecessary_wraps, reason = "it fails in tests")]
fn gate() -> io::Result<()> {
    Ok(())
}

#[cfg(not(any(test, feature = "sim")))]
#[inline(always)]
fn count_sync() {}

/// Calls that do nothing else, each behind the [`gate`].
macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $ty:ty),*) -> $answer:ty = $call:expr;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name($($arg: $ty),*) -> io::Result<$answer> {
            gate()?;
            $call
        }
    )*};
}

calls! {
    /// Creates a file that must not exist, to be read and written.
    fn create(path: &Path, mode: u32) -> File =
        OpenOptions::new().read(true).write(true).create_new(true).mode(mode).open(path);
    /// The metadata of a name; a link is not followed.
    fn name_metadata(path: &Path) -> Metadata = std::fs::symlink_metadata(path);
    /// The metadata of the file at the end of a name's links.
    fn target_metadata(path: &Path) -> Metadata = std::fs::metadata(path);
    fn metadata(file: &File) -> Metadata = file.metadata();
    /// Gives the file that a name leads to another name, which must be free.
    fn link(from: &Path, to: &Path) -> () =
        Ok(rustix::fs::linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW)?);
    /// Renames a file, in place of the one that has the name.
    fn rename(from: &Path, to: &Path) -> () = std::fs::rename(from, to);
    /// Gives a file another user and group, where they are given.
    fn change_owner(file: &File, user: Option<u32>, group: Option<u32>) -> () =
        std::os::unix::fs::fchown(file, user, group);
    fn change_mode(file: &File, mode: u32) -> () = file.set_permissions(Permissions::from_mode(mode));
    fn unlink(path: &Path) -> () = std::fs::remove_file(path);
    /// Puts a file's data and metadata on the disk.
    fn sync_file(file: &File) -> () = {
        count_sync();
        file.sync_all()
    };
    /// Puts a file's data on the disk, and of its metadata what is needed to find them.
    fn sync_file_data(file: &File) -> () = {
        count_sync();
        file.sync_data()
    };
    /// Reserves space on the disk and lengthens the file over it.
    fn allocate(file: &File, off: u64, bytes: u64) -> () =
        Ok(retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), off, bytes))?);
    /// Reserves space on the disk for what reads as zeros from now on.
    fn zero(file: &File, off: u64, bytes: u64) -> () =
        Ok(retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::ZERO_RANGE, off, bytes))?);
    /// Gives space back: what is there reads as zeros from now on.
    fn punch(file: &File, off: u64, bytes: u64) -> () = {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(retry_on_intr(|| rustix::fs::fallocate(file, flags, off, bytes))?)
    };
    fn read_at(file: &File, bytes: &mut [u8], off: u64) -> () = file.read_exact_at(bytes, off);
    fn write_at(file: &File, bytes: &[u8], off: u64) -> () = file.write_all_at(bytes, off);
    fn truncate(file: &File, bytes: u64) -> () = file.set_len(bytes);
    /// A barrier in every running thread of this process, or the wish to use it.
    fn membarrier(command: MembarrierCommand) -> () = Ok(rustix::thread::membarrier(command)?);
}

/// True if the error has this number.
pub(crate) fn is(e: &io::Error, errno: Errno) -> bool {
    e.raw_os_error() == Some(errno.raw_os_error())
}

/// Opens a file. Does not wait for the other end of a FIFO.
pub(crate) fn open(path: &Path, write: bool) -> io::Result<File> {
    open_with(OpenOptions::new().read(true).write(write), OFlags::empty(), path)
}

/// A path that leads to an open file of this process, whatever its name is now, where there is a /proc.
pub(crate) fn link_to(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// True if the error of such a path may be that there is no /proc.
pub(crate) fn is_no_proc(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

/// Opens a file for writes that are durable when they return, past the page cache or through it.
pub(crate) fn open_durable(path: &Path, direct: bool) -> io::Result<File> {
    count_sync();
    let flags = if direct { OFlags::DSYNC | OFlags::DIRECT } else { OFlags::DSYNC };
    open_with(OpenOptions::new().write(true), flags, path)
}

/// Opens a file for writes past the page cache, which a sync makes durable.
pub(crate) fn open_direct_write(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().write(true), OFlags::DIRECT, path)
}

/// Opens a file to be read and written, if its name is not a link.
pub(crate) fn open_no_link(path: &Path, to_write: bool) -> io::Result<File> {
    open_with(OpenOptions::new().read(true).write(to_write), OFlags::NOFOLLOW, path)
}

/// The error that the system had when it wrote pages of this open file back, if it has not told it yet. Waits for a page of
/// it that is being written, if there is one, and for nothing else.
pub(crate) fn write_back_error(file: &File) -> io::Result<()> {
    gate()?;
    sync_file_range(file, rustix::param::page_size() as i64, libc::SYNC_FILE_RANGE_WAIT_BEFORE)
}

/// Writes the pages of a file that were changed, and waits; they may be in the drive's cache then.
pub(crate) fn write_back(file: &File) -> io::Result<()> {
    gate()?;
    count_sync();
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    sync_file_range(file, 0, flags)
}

/// `bytes` bytes from the file's beginning on, or all of it.
fn sync_file_range(file: &File, bytes: i64, flags: u32) -> io::Result<()> {
    // SAFETY: a call that takes numbers only.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), 0, bytes, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The mount through which a file was opened; zero where the system does not tell.
pub(crate) fn mount_of(file: &File) -> u64 {
    let flags = AtFlags::EMPTY_PATH;
    let stat = rustix::fs::statx(file, "", flags, rustix::fs::StatxFlags::MNT_ID);
    stat.map_or(0, |stat| stat.stx_mnt_id)
}

/// Opens a file for reads past the page cache.
pub(crate) fn open_direct(path: &Path) -> io::Result<File> {
    open_with(OpenOptions::new().read(true), OFlags::DIRECT, path)
}

fn open_with(options: &mut OpenOptions, flags: OFlags, path: &Path) -> io::Result<File> {
    gate()?;
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed()).open(path)
}

/// True if a file lies on a file system without a disk.
pub(crate) fn is_in_memory(file: &File) -> bool {
    const RAMFS: u64 = 0x8584_58f6;
    kind_of(file).is_some_and(|kind| [TMPFS, RAMFS].contains(&kind))
}

/// Where a file has data, not a hole, from `off` on.
pub(crate) fn data_from(file: &File, off: u64) -> io::Result<Option<u64>> {
    match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(off)) {
        Ok(from) => Ok(Some(from)),
        Err(Errno::NXIO) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Where a file has a hole, or its end, from `off` on, which is before its end.
pub(crate) fn hole_from(file: &File, off: u64) -> io::Result<u64> {
    Ok(rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(off))?)
}

/// Has the system read a part of a file ahead, if it can.
pub(crate) fn will_read(file: &File, off: u64, bytes: u64) {
    let bytes = std::num::NonZeroU64::new(bytes);
    let _ = rustix::fs::fadvise(file, off, bytes, rustix::fs::Advice::WillNeed);
}

/// Bytes on the file system of a file that this process may take; the largest number where it has no bound.
pub(crate) fn space_left(file: &File) -> u64 {
    space(file, |stat| stat.f_bavail)
}

/// Bytes that are free there, those included that only a privileged process may take: none gets more.
pub(crate) fn space_free(file: &File) -> u64 {
    space(file, |stat| stat.f_bfree)
}

fn space(file: &File, blocks: impl FnOnce(&StatVfs) -> u64) -> u64 {
    match rustix::fs::fstatvfs(file) {
        Ok(stat) if stat.f_blocks != 0 => blocks(&stat).saturating_mul(stat.f_frsize),
        _ => u64::MAX,
    }
}

const TMPFS: u64 = 0x0102_1994;

/// The number of the kind of file system that a file lies on.
fn kind_of(file: &File) -> Option<u64> {
    rustix::fs::fstatfs(file).ok().map(|stat| stat.f_type as u64 & 0xffff_ffff)
}

const EXT: u64 = 0xef53;
const XFS: u64 = 0x5846_5342;

/// True if the file system of `file` shows a shared mapping to the next process as the last one left it, and tells of pages
/// that it could not write back.
pub(crate) fn keeps_mappings(file: &File) -> bool {
    kind_of(file).is_some_and(|kind| [EXT, XFS, TMPFS].contains(&kind))
}

/// True if a new file on the file system of `file` may need a name at once: it is none of those that are known to
/// have [files without one](create_unnamed).
pub(crate) fn names_new_files(file: &File) -> bool {
    const BTRFS: u64 = 0x9123_683e;
    const F2FS: u64 = 0xf2f5_2010;
    #[cfg(any(test, feature = "sim"))]
    if faults::NAMED_ONLY.get() {
        return true;
    }
    !kind_of(file).is_some_and(|kind| [BTRFS, EXT, F2FS, TMPFS, XFS].contains(&kind))
}

/// The regular files in a directory that can be seen.
pub(crate) fn files_in(dir: &Path, is: fn(&str) -> bool) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let named = entries.filter(move |e| e.file_name().to_str().is_some_and(is));
    named.filter(|e| e.file_type().is_ok_and(|kind| kind.is_file())).map(|e| e.path())
}

/// Creates a file without a name in a directory, to be read and written, and to be [linked](link).
pub(crate) fn create_unnamed(dir: &Path, mode: u32) -> io::Result<File> {
    gate()?;
    #[cfg(any(test, feature = "sim"))]
    if faults::NAMED_ONLY.get() {
        return Err(Errno::OPNOTSUPP.into());
    }
    let flags = OFlags::TMPFILE.bits().cast_signed();
    OpenOptions::new().read(true).write(true).custom_flags(flags).mode(mode).open(dir)
}

/// Locks a file for one writer, or for readers; `false` when it is locked already.
pub(crate) fn try_lock(file: &File, shared: bool) -> io::Result<bool> {
    #[cfg(test)]
    faults::run_before_lock();
    gate()?;
    let locked = if shared { file.try_lock_shared() } else { file.try_lock() };
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(e)) => Err(e),
    }
}

/// True if another process, or a file that was opened apart from this one, has it locked for writing.
pub(crate) fn is_locked(file: &File) -> io::Result<bool> {
    if !try_lock(file, true)? {
        return Ok(true);
    }
    file.unlock()?;
    Ok(false)
}

/// Renames a file to a name that must be free.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    gate()?;
    Ok(rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
}

/// Puts a directory's names on the disk, where its file system knows how to.
pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    gate()?;
    count_sync();
    match File::open(dir)?.sync_all() {
        Err(e) if is(&e, Errno::INVAL) => Ok(()),
        other => other,
    }
}

/// The longest file that this process may write; the system ends the process that tries more.
pub(crate) fn file_size_limit() -> u64 {
    rustix::process::getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// Maps `bytes` bytes of `file` from `off` on, at `addr`.
///
/// # Safety
/// As `mmap`: with `MapFlags::FIXED` nothing may point into what is replaced.
pub(crate) unsafe fn map_file(
    addr: *mut u8,
    bytes: u64,
    prot: ProtFlags,
    flags: MapFlags,
    (file, off): (&File, u64),
) -> io::Result<*mut u8> {
    gate()?;
    // SAFETY: the caller's promise.
    let start = unsafe { rustix::mm::mmap(addr.cast(), bytes as usize, prot, flags, file, off) }?;
    Ok(start.cast())
}

/// Maps zeroed memory.
///
/// # Safety
/// As `mmap`: with `MapFlags::FIXED` nothing may point into what is replaced.
pub(crate) unsafe fn map_anonymous(
    addr: *mut u8,
    bytes: u64,
    prot: ProtFlags,
    flags: MapFlags,
) -> io::Result<*mut u8> {
    gate()?;
    // SAFETY: the caller's promise.
    let start = unsafe { rustix::mm::mmap_anonymous(addr.cast(), bytes as usize, prot, flags) }?;
    Ok(start.cast())
}

/// Gives addresses back. It fails only where the arguments are wrong, or where cutting a mapping in
/// two is one mapping too many; then they stay taken, which harms nobody.
///
/// # Safety
/// The range is the caller's own, and nothing points into it any more.
pub(crate) unsafe fn unmap(addr: *mut u8, bytes: u64) {
    if bytes != 0 {
        // SAFETY: the caller's promise.
        let _ = unsafe { rustix::mm::munmap(addr.cast(), bytes as usize) };
    }
}

/// A page of zeros that is one again in a forked child, where the system has such pages.
pub(super) fn map_wiped_page() -> io::Result<*mut u8> {
    let (bytes, prot) = (rustix::param::page_size(), ProtFlags::READ | ProtFlags::WRITE);
    // SAFETY: a fresh mapping at an address of the system's choice.
    let page = unsafe { rustix::mm::mmap_anonymous(null_mut(), bytes, prot, MapFlags::PRIVATE) }?;
    // SAFETY: the mapping just made, which nobody has touched.
    let wiped = unsafe { rustix::mm::madvise(page, bytes, Advice::LinuxWipeOnFork) };
    if let Err(e) = wiped {
        // SAFETY: the same.
        unsafe { unmap(page.cast(), bytes as u64) };
        return Err(e.into());
    }
    Ok(page.cast())
}

/// True if the process may have as much address space, and as many mappings, as a thread begins with.
pub(super) fn has_room_for_thread(stack_bytes: usize) -> bool {
    /// Beside the stack: that of its signals, pages that guard both, and what the C library maps.
    const REST_BYTES: usize = 256 << 10;
    const PAIRS: usize = 8;
    #[cfg(any(test, feature = "sim"))]
    if let Some(mut f) = faults::NO_THREADS.take() {
        f();
        faults::NO_THREADS.set(Some(f));
        return false;
    }
    let (page, bytes) = (rustix::param::page_size(), stack_bytes + REST_BYTES);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh mapping at an address of the system's choice, which nobody touches.
    let start = unsafe { rustix::mm::mmap_anonymous(null_mut(), bytes, ProtFlags::empty(), flags) };
    let Ok(start) = start else { return false };
    // Each page in the middle that is unlike its neighbours makes two mappings more.
    let fits = (0..PAIRS).all(|i| {
        let at = start.wrapping_byte_add(2 * i * page);
        // SAFETY: inside the mapping just made.
        unsafe { rustix::mm::mprotect(at, page, MprotectFlags::READ) }.is_ok()
    });
    // SAFETY: the mapping just made.
    unsafe { unmap(start.cast(), bytes as u64) };
    fits
}

/// Gives advice on a mapping.
///
/// # Safety
/// The range is the caller's own mapping, and what the advice does to it is wanted.
pub(crate) unsafe fn advise(addr: *mut u8, bytes: u64, advice: Advice) -> io::Result<()> {
    gate()?;
    // SAFETY: the caller's promise.
    Ok(retry_on_intr(|| unsafe { rustix::mm::madvise(addr.cast(), bytes as usize, advice) })?)
}

/// Asks for huge pages. A refusal only costs speed, so it is no error.
///
/// # Safety
/// The range is the caller's own mapping.
pub(crate) unsafe fn wish_huge_pages(addr: *mut u8, bytes: u64) {
    // SAFETY: the caller's promise; this changes no contents.
    let _ = unsafe { rustix::mm::madvise(addr.cast(), bytes as usize, Advice::LinuxHugepage) };
}

/// Asks for huge pages for a buffer that is long enough to have some, before it is written.
pub(crate) fn wish_huge_buffer(buffer: &mut [u8]) {
    const HUGE_BYTES: usize = 2 << 20;
    let lead = buffer.as_ptr().align_offset(HUGE_BYTES);
    let whole = buffer.len().saturating_sub(lead) / HUGE_BYTES * HUGE_BYTES;
    if whole > 0 {
        // SAFETY: whole pages of the buffer; advice changes no contents.
        unsafe { wish_huge_pages(buffer[lead..].as_mut_ptr(), whole as u64) };
    }
}

/// Bytes of memory that this process may have: the machine's, or what its control groups are allowed.
pub(crate) fn memory_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let info = rustix::system::sysinfo();
        let machine = (info.totalram as u64).saturating_mul(info.mem_unit.into());
        groups_bytes(false).min(machine)
    })
}

/// Bytes of memory that it may still have now, without those of others going to a swap device.
pub(crate) fn memory_left() -> u64 {
    #[cfg(any(test, feature = "sim"))]
    if let Some(bytes) = faults::MEMORY_LEFT.get() {
        return bytes;
    }
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let left = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = left.and_then(|left| left.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    groups_bytes(true).min(kib.map_or(u64::MAX, |kib| kib << 10))
}

/// What the control groups of this process are allowed, or have left of it.
fn groups_bytes(left: bool) -> u64 {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups.lines().filter_map(|line| group_bytes(line, left)).min().unwrap_or(u64::MAX)
}

/// The memory limit of a group, a line of `/proc/self/cgroup`, and of its ancestors, or what is left of it.
fn group_bytes(line: &str, left: bool) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, group) = (parts.next()?, parts.next()?);
    let (root, most, used) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
        _ if controllers.split(',').any(|one| one == "memory") => {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
        }
        _ => return None,
    };
    // In a container the path may be that of the host: then the root is the group itself.
    let group = Path::new(group.trim_start_matches('/'));
    let text = |group: &Path, name: &str| {
        std::fs::read_to_string(Path::new(root).join(group).join(name)).ok()
    };
    let number = |group: &Path, name: &str| text(group, name)?.trim().parse::<u64>().ok();
    let bytes = |group: &Path| {
        let most = number(group, most)?;
        if !left {
            return Some(most);
        }
        // Pages of files go when memory is asked for.
        let files = |text: &str| -> u64 {
            let values = text.lines().filter_map(|line| line.split_once(' '));
            let files = values.filter(|(name, _)| ["active_file", "inactive_file"].contains(name));
            files.filter_map(|(_, bytes)| bytes.parse::<u64>().ok()).sum()
        };
        let files = files(&text(group, "memory.stat").unwrap_or_default());
        Some(most.saturating_sub(number(group, used)?.saturating_sub(files)))
    };
    group.ancestors().filter_map(bytes).min()
}

/// The opposite.
///
/// # Safety
/// The range is the caller's own mapping.
pub(crate) unsafe fn wish_small_pages(addr: *mut u8, bytes: u64) {
    // SAFETY: the caller's promise; this changes no contents.
    let _ = unsafe { rustix::mm::madvise(addr.cast(), bytes as usize, Advice::LinuxNoHugepage) };
}

/// Writes the changed pages of a shared file mapping to the disk.
///
/// # Safety
/// The range is the caller's own mapping.
pub(crate) unsafe fn sync_range(addr: *mut u8, bytes: u64) -> io::Result<()> {
    gate()?;
    count_sync();
    // SAFETY: the caller's promise.
    Ok(unsafe { rustix::mm::msync(addr.cast(), bytes as usize, MsyncFlags::SYNC) }?)
}
