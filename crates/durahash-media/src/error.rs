//! The one error type of the library.
//!
//! [`Error`] is one pointer wide, so that a `Result` on a hot path stays in registers; what
//! happened is its [`ErrorKind`]. `durahash` uses this type as it is: an umbrella that restates
//! every variant would add nothing.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// A `Result` with the library's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, in one pointer. See [`ErrorKind`].
///
/// ```
/// use std::path::Path;
/// # use durahash_media as durahash;
/// use durahash::{Error, ErrorKind};
/// let error = Error::corrupt("a bucket's link", 0x40);
/// assert!(matches!(error.kind(), ErrorKind::Corrupt { off: 0x40, .. }));
/// assert_eq!(error.to_string(), "the pool is damaged: a bucket's link (at offset 0x40)");
/// let error = error.at_path(Path::new("a.pool"));
/// assert!(error.to_string().starts_with("a.pool: the pool is damaged"));
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    path: Option<PathBuf>,
}

/// The kinds of failure, each with the facts that a person needs to act on it.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A system call failed.
    Io {
        /// The attempt that failed.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is not a pool.
    NotAPool {
        /// Why it was not taken for one.
        why: &'static str,
    },
    /// The pool was written in another format version.
    Version {
        /// Version found in the file.
        found: u64,
        /// Version that this library reads and writes.
        expected: u64,
    },
    /// The pool was written on a machine of the other byte order.
    ByteOrder,
    /// The pool holds another design, or another kind of map, than was asked for.
    Design {
        /// The design or types that the pool has.
        found: String,
        /// The design or types that the caller asked for.
        wanted: String,
    },
    /// The pool holds keys or values of other types than were asked for.
    Types {
        /// The design or types that the pool has.
        found: String,
        /// The design or types that the caller asked for.
        wanted: String,
    },
    /// The file is shorter than the pool in it.
    Truncated {
        /// Bytes that the file has.
        found_bytes: u64,
        /// Bytes that the pool needs.
        expected_bytes: u64,
    },
    /// Bytes on the medium contradict the format.
    Corrupt {
        /// The part of the pool that is wrong.
        what: &'static str,
        /// Offset in the pool, in bytes.
        off: u64,
    },
    /// There is no space left. Nothing was changed, except by earlier parts of a batch.
    Full {
        /// Bytes that were needed.
        wanted_bytes: u64,
        /// The limit that was reached.
        limit: Limit,
    },
    /// Another handle or process has the pool open.
    Locked,
    /// The process that had the pool open for writing has closed it, or removed one of its maps, or could not write to its disk, or
    /// another process has opened it since: a reader beside it opens the pool again.
    WriterGone,
    /// The file exists already.
    Exists,
    /// The pool has a map of this name already.
    MapExists {
        /// The name.
        name: String,
    },
    /// The pool has no map of this name.
    NoMap {
        /// The name.
        name: String,
    },
    /// The pool was opened for reading only.
    ReadOnly,
    /// An earlier failure closed the pool for writing; open it again to recover.
    Poisoned,
    /// The pool lay in the page cache and was not closed before the machine went down: whole pages
    /// may be missing, and no check can prove that none is.
    PowerLoss,
    /// The file is a copy that was made while the pool was open: its pages may be of different times.
    Copied,
    /// The pool was not closed and lies in a live image, which cannot be used: changes that survived the death of their
    /// process may be missing without it.
    NoLiveImage {
        /// Why it cannot be used.
        why: &'static str,
    },
    /// DAX was asked for and the file system does not offer it.
    NoDax,
    /// A key or value is larger than the pool can take.
    TooLarge {
        /// The thing that is too large.
        what: &'static str,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit_bytes: u64,
    },
    /// The text does not parse as the pool's type.
    Text {
        /// The text, or its beginning.
        text: String,
        /// The type that the pool holds.
        wanted: String,
    },
    /// So many keys share a long hash prefix that the directory would outgrow its bound.
    Skewed {
        /// The global depth that would have been needed.
        depth: u32,
    },
    /// The options contradict each other or the machine.
    Options {
        /// The reason.
        what: &'static str,
    },
    /// Access to bytes that the region of a node does not have.
    OutOfRegion {
        /// The node.
        node: u8,
        /// Offset in its region, in bytes.
        off: u64,
        /// Bytes that were to be accessed.
        bytes: u64,
        /// Bytes that the region has; 0 when there is no such node.
        region_bytes: u64,
    },
    /// An atomic operation on a node's memory at an offset that is no multiple of 8.
    Unaligned {
        /// The node.
        node: u8,
        /// Offset in its region, in bytes.
        off: u64,
    },
    /// A node did not answer within the deadline. Operations under way may have taken effect or not.
    NodeLost {
        /// The node.
        node: u8,
    },
    /// No node answers at the address in time.
    Unreachable {
        /// Where the node should be.
        address: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A node does not let this client in.
    Refused {
        /// Where the node is.
        address: String,
        /// Why.
        why: &'static str,
    },
    /// The answer is not a node's, or that of a node of another protocol version.
    NotANode {
        /// Where it is.
        address: String,
        /// Why it was not taken for one.
        why: String,
    },
    /// The nodes accept nothing from this client any more: it showed no life for too long.
    Evicted,
    /// The map was closed by another of its clones. Operations under way may have taken effect or not.
    Closed,
    /// A region of shared memory is not the one that was expected.
    Region {
        /// The field that differs.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The value that was expected.
        expected: u64,
    },
}

/// The limit that a pool reaches when it is [`Full`](ErrorKind::Full).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limit {
    /// The file system, or a quota of it.
    Disk,
    /// The file system, of which the file does not have all it needs: it has holes, as a sparse copy has. The pool can be
    /// read, and written once there is space for them.
    Holes,
    /// The longest file that this process may write (`ulimit -f`).
    FileSize,
    /// The size that the pool was created with as its largest.
    Pool {
        /// That size in bytes.
        max_bytes: u64,
    },
    /// The memory that the machine, or a control group, has left for this process.
    Memory,
    /// The addresses that this process has left in one piece (`ulimit -v`, or other mappings).
    Addresses,
    /// The memory of the nodes.
    Nodes,
    /// No lack of space: while room was made for the new value of a cache's entry, another thread changed or removed the entry, or it
    /// expired. Try again.
    Overtaken,
    /// A bound of the design.
    Design(&'static str),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Disk => f.write_str("the disk is full, or a quota is reached"),
            Limit::Holes => f.write_str(
                "the disk is full, or a quota is reached, and the file has holes, as a sparse copy has, in which a \
                 change would end the process; free so many bytes, or open the pool read-only",
            ),
            Limit::FileSize => {
                f.write_str("the file-size limit of the process (`ulimit -f`) is reached")
            }
            Limit::Pool { max_bytes } => {
                write!(f, "the pool reaches its maximum size of {max_bytes} bytes")
            }
            Limit::Memory => f.write_str("the machine, or a control group, has less memory left"),
            Limit::Addresses => f.write_str("no address space is left after the pool's mapping"),
            Limit::Nodes => f.write_str("the memory of the nodes is used up"),
            Limit::Overtaken => f.write_str(
                "the entry was changed by another thread, or went, while room was made for its new value; try again",
            ),
            Limit::Design(what) => f.write_str(what),
        }
    }
}

impl Error {
    /// The kind of failure.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The file that the failure is about, if it is known.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Names the file that the failure is about. A file that was named before stays.
    #[must_use]
    pub fn at_path<'a>(mut self, path: impl Into<Option<&'a Path>>) -> Self {
        if self.0.path.is_none() {
            self.0.path = path.into().map(Path::to_path_buf);
        }
        self
    }

    /// A system call for `doing` failed.
    pub fn io(doing: &'static str, path: Option<PathBuf>, source: io::Error) -> Self {
        Error::from(ErrorKind::Io { doing, source }).at_path(path.as_deref())
    }

    /// There is no space for `wanted_bytes` more bytes.
    #[cold]
    #[must_use]
    pub fn full(wanted_bytes: u64, limit: Limit) -> Self {
        ErrorKind::Full { wanted_bytes, limit }.into()
    }

    /// Damaged bytes at `off`.
    #[cold]
    #[must_use]
    pub fn corrupt(what: &'static str, off: u64) -> Self {
        ErrorKind::Corrupt { what, off }.into()
    }
}

impl From<ErrorKind> for Error {
    #[cold]
    fn from(kind: ErrorKind) -> Self {
        Error(Box::new(Inner { kind, path: None }))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.kind.fmt(f)?;
        self.0.path.as_ref().map_or(Ok(()), |path| write!(f, " at {}", path.display()))
    }
}

/// The limits that the system's answer is about, where that names none.
fn limits(doing: &str, source: &io::Error) -> &'static str {
    match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => "; RLIMIT_NOFILE limits the open files of a process (ulimit -n)",
        Some(Errno::NFILE) => "; fs.file-max limits the open files of the system",
        Some(Errno::NOMEM) => {
            "; beside memory, vm.max_map_count limits the mappings of a process, and RLIMIT_AS its addresses"
        }
        Some(Errno::AGAIN) if doing.starts_with("starting a thread") => {
            "; RLIMIT_NPROC, kernel.threads-max and pids.max of a control group limit the number of threads"
        }
        _ => "",
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.kind, &self.0.path) {
            (ErrorKind::Io { doing, source }, Some(path)) => {
                return write!(f, "{doing} {}: {source}{}", path.display(), limits(doing, source));
            }
            (_, Some(path)) => write!(f, "{}: ", path.display())?,
            (_, None) => {}
        }
        match &self.0.kind {
            ErrorKind::Io { doing, source } => write!(f, "{doing}: {source}{}", limits(doing, source)),
            ErrorKind::NotAPool { why } => write!(f, "this is not a durahash pool: {why}"),
            ErrorKind::Version { found, expected } if found < expected => write!(
                f,
                "the pool has format version {found}, an earlier one that was never released (this build has \
                 version {expected}): make a new pool; there is no conversion"
            ),
            ErrorKind::Version { found, expected } => write!(
                f,
                "the pool has format version {found}, a later one than this build has ({expected}): dump it with \
                 the build that wrote it, and load the dump"
            ),
            ErrorKind::ByteOrder => f.write_str(
                "the pool was written on a machine of the other byte order: dump it on a machine of that byte \
                 order, and load the dump here",
            ),
            ErrorKind::Design { found, wanted } | ErrorKind::Types { found, wanted } => {
                write!(f, "the pool holds {found}, not {wanted}")
            }
            ErrorKind::Truncated { found_bytes, expected_bytes } => write!(
                f,
                "the file has {found_bytes} bytes, but the pool in it needs {expected_bytes}: \
                 it was cut or copied incompletely"
            ),
            ErrorKind::Corrupt { what, off } => {
                write!(f, "the pool is damaged: {what} (at offset {off:#x})")
            }
            ErrorKind::Full { wanted_bytes, limit: limit @ Limit::Holes } => {
                write!(f, "no space for {wanted_bytes} more bytes: {limit}")
            }
            ErrorKind::Full { wanted_bytes, limit } => write!(
                f,
                "no space for {wanted_bytes} more bytes: {limit} (nothing was changed, except by \
                 earlier parts of a batch; lookups and removals still work)"
            ),
            ErrorKind::Locked => {
                write!(f, "another process, or another handle in this one, has the pool open")
            }
            ErrorKind::WriterGone => write!(
                f,
                "the process that had the pool open for writing has closed it or removed a map, or could not write to its \
                 disk, or another process has opened it since; open it again"
            ),
            ErrorKind::Exists => write!(f, "the file already exists"),
            ErrorKind::MapExists { name } => write!(f, "a map named {name:?} already exists"),
            ErrorKind::NoMap { name } => write!(f, "the pool has no map named {name:?}"),
            ErrorKind::ReadOnly => write!(f, "the pool was opened read-only"),
            ErrorKind::Poisoned => write!(
                f,
                "an earlier failure closed the pool for writing; open it again to recover"
            ),
            ErrorKind::PowerLoss => write!(
                f,
                "the pool was not closed before the machine went down, so pages that were only in \
                 the page cache may be missing; open it with accept_suspect and check it, or dump \
                 it into a new pool"
            ),
            ErrorKind::Copied => write!(
                f,
                "this file is a copy that was made while the pool was open, or after a kill, so its pages may be \
                 of different times; open and close the original, then copy it, or back it up, also while it is open \
                 (`durahash backup`, `Map::backup`), or dump it and load the dump into a new pool. \
                 accept_suspect opens the copy all the same"
            ),
            ErrorKind::NoLiveImage { why } => write!(
                f,
                "the pool was not closed, and {why}; if its live image lies in another directory, name that \
                 (`Options::live_dir`, `--live-dir`); else accept_suspect opens the state that is on the disk, \
                 without the last moments before the kill"
            ),
            ErrorKind::NoDax => write!(
                f,
                "DAX was asked for, but the file cannot be mapped with MAP_SYNC here (it needs a \
                 file system mounted with dax on persistent memory)"
            ),
            ErrorKind::TooLarge { what, bytes, limit_bytes } => {
                write!(f, "the {what} has {bytes} bytes, the limit is {limit_bytes}")
            }
            ErrorKind::Text { text, wanted } => write!(f, "{text:?} is not a valid {wanted}"),
            ErrorKind::Skewed { depth } => write!(
                f,
                "too many keys share a hash prefix of {depth} bits: the directory would outgrow \
                 its bound; dump the pool and load it into a new one, which has another seed"
            ),
            ErrorKind::Options { what } => write!(f, "invalid options: {what}"),
            ErrorKind::OutOfRegion { node, off, bytes, region_bytes } => write!(
                f,
                "{bytes} bytes at offset {off:#x} are not in the region of node {node}, which has \
                 {region_bytes} bytes"
            ),
            ErrorKind::Unaligned { node, off } => {
                write!(f, "offset {off:#x} of node {node} is not a multiple of 8")
            }
            ErrorKind::NodeLost { node } => write!(
                f,
                "node {node} does not answer; operations under way may or may not have taken effect"
            ),
            ErrorKind::Unreachable { address, source } => {
                write!(f, "node {address} does not answer: {source}")
            }
            ErrorKind::Refused { address, why } => {
                write!(f, "node {address} refuses this client: {why}")
            }
            ErrorKind::NotANode { address, why } => {
                write!(f, "{address} is not a node that this build can talk to: {why}")
            }
            ErrorKind::Evicted => write!(
                f,
                "the nodes evicted this client: it was silent for too long, or was to be evicted; connect again"
            ),
            ErrorKind::Closed => write!(f, "this map was closed; open another"),
            ErrorKind::Region { what, found, expected } => write!(
                f,
                "not the expected region of memory: {what} is {found:#x}, not {expected:#x}"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            ErrorKind::Io { source, .. } | ErrorKind::Unreachable { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_told_how_to_be_made() {
        let error = Error::from(ErrorKind::Copied).to_string();
        assert!(error.contains("(`durahash backup`, `Map::backup`)"), "{error}");
    }

    #[test]
    fn the_directory_of_a_live_image_is_asked_for_first() {
        let why = "the file of its live image is not there";
        let error = Error::from(ErrorKind::NoLiveImage { why }).to_string();
        let [dir, accept] = ["`--live-dir`", "accept_suspect"].map(|what| error.find(what));
        assert!(dir.is_some() && dir < accept, "{error}");
    }

    #[test]
    fn a_limit_of_the_system_is_named() {
        for (doing, errno, limit) in [
            ("opening the pool", Errno::MFILE, "RLIMIT_NOFILE"),
            ("opening the pool", Errno::NFILE, "fs.file-max"),
            ("mapping the pool", Errno::NOMEM, "vm.max_map_count"),
            ("starting a thread to read the log", Errno::AGAIN, "RLIMIT_NPROC"),
        ] {
            let path = Some(PathBuf::from("a.pool"));
            for path in [path, None] {
                let error = Error::io(doing, path, errno.into()).to_string();
                assert!(error.contains(limit), "{error}");
            }
        }
        let other = Error::io("locking the pool", None, Errno::AGAIN.into()).to_string();
        assert!(!other.contains("limit"), "{other}");
    }
}
