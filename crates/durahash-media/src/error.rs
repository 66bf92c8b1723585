//! The one error type of the library.
//!
//! [`Error`] is one pointer wide, so that a `Result` on a hot path stays in registers; what
//! happened is its [`ErrorKind`]. `durahash` uses this type as it is: an umbrella that restates
//! every variant would add nothing.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A `Result` with the library's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in one pointer. See [`ErrorKind`].
///
/// ```
/// use durahash_media::{Error, ErrorKind};
/// let error = Error::corrupt("a bucket's link", 0x40);
/// assert!(matches!(error.kind(), ErrorKind::Corrupt { off: 0x40, .. }));
/// assert_eq!(error.to_string(), "the pool is damaged: a bucket's link (at offset 0x40)");
/// ```
pub struct Error(Box<ErrorKind>);

/// The kinds of failure, each with what a person needs to act on it.
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A system call failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// On which file, if one is known.
        path: Option<PathBuf>,
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
        /// What the pool holds.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// The pool holds keys or values of other types than were asked for.
    Types {
        /// What the pool holds.
        found: String,
        /// What was asked for.
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
        /// What is wrong.
        what: &'static str,
        /// Offset in the pool, in bytes.
        off: u64,
    },
    /// The medium, the pool's size limit, or the memory of nodes is exhausted. Nothing was changed, but
    /// by earlier parts of a batch.
    Full {
        /// Bytes that were needed.
        wanted_bytes: u64,
    },
    /// Somebody else has the pool open.
    Locked,
    /// The file exists already.
    Exists,
    /// The pool was opened for reading only.
    ReadOnly,
    /// An earlier failure closed the pool for writing; open it again to recover.
    Poisoned,
    /// The pool lay in the page cache and was not closed before the machine went down: whole pages
    /// may be missing, and no check can prove that none is.
    PowerLoss,
    /// DAX was asked for and the file system does not offer it.
    NoDax,
    /// A key or value is larger than the pool can take.
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size in bytes.
        bytes: u64,
        /// The limit in bytes.
        limit_bytes: u64,
    },
    /// A text is no key or value of the type that the pool holds.
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
        /// What is wrong with them.
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
    /// A node did not answer within the deadline. What was under way may have taken effect or not.
    NodeLost {
        /// The node.
        node: u8,
    },
    /// Nobody answers where a node should be, or not within the deadline.
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
    /// What answers is no node, or one of another protocol version.
    NotANode {
        /// Where it is.
        address: String,
        /// Why it was not taken for one.
        why: String,
    },
    /// The nodes accept nothing from this client any more: it showed no life for too long.
    Evicted,
    /// The map was closed by another of its clones. What was under way may have taken effect or not.
    Closed,
    /// A region of shared memory is not the one that was expected.
    Region {
        /// What differs.
        what: &'static str,
        /// What was found.
        found: u64,
        /// What was expected.
        expected: u64,
    },
}

impl Error {
    /// What kind of failure this is.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0
    }

    /// An I/O failure of `doing`.
    pub fn io(doing: &'static str, path: Option<PathBuf>, source: io::Error) -> Self {
        ErrorKind::Io { doing, path, source }.into()
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
        Error(Box::new(kind))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            ErrorKind::Io { doing, path: Some(path), source } => {
                write!(f, "{doing} {}: {source}", path.display())
            }
            ErrorKind::Io { doing, path: None, source } => write!(f, "{doing}: {source}"),
            ErrorKind::NotAPool { why } => write!(f, "this is not a durahash pool: {why}"),
            ErrorKind::Version { found, expected } => write!(
                f,
                "the pool has format version {found}, this build reads version {expected}"
            ),
            ErrorKind::ByteOrder => {
                write!(f, "the pool was written on a machine of the other byte order")
            }
            ErrorKind::Design { found, wanted } => {
                write!(f, "the pool holds {found}, but {wanted} was asked for")
            }
            ErrorKind::Types { found, wanted } => {
                write!(f, "the pool holds {found}, but {wanted} was asked for")
            }
            ErrorKind::Truncated { found_bytes, expected_bytes } => write!(
                f,
                "the file has {found_bytes} bytes, but the pool in it needs {expected_bytes}: \
                 it was cut or copied incompletely"
            ),
            ErrorKind::Corrupt { what, off } => {
                write!(f, "the pool is damaged: {what} (at offset {off:#x})")
            }
            ErrorKind::Full { wanted_bytes } => write!(
                f,
                "no space for {wanted_bytes} more bytes (nothing was changed, but by earlier parts of a \
                 batch; in a pool, lookups and removals still work)"
            ),
            ErrorKind::Locked => {
                write!(f, "another process, or another handle in this one, has the pool open")
            }
            ErrorKind::Exists => write!(f, "the file exists already"),
            ErrorKind::ReadOnly => write!(f, "the pool was opened for reading only"),
            ErrorKind::Poisoned => write!(
                f,
                "an earlier failure closed the pool for writing; open it again to recover"
            ),
            ErrorKind::PowerLoss => write!(
                f,
                "the pool lay in the page cache and was not closed before the machine went down, \
                 so pages may be missing; to use what is there, open it as suspect and check it, \
                 or dump it into a new pool"
            ),
            ErrorKind::NoDax => write!(
                f,
                "DAX was asked for, but the file cannot be mapped with MAP_SYNC here (it needs a \
                 file system mounted with dax on persistent memory)"
            ),
            ErrorKind::TooLarge { what, bytes, limit_bytes } => {
                write!(f, "the {what} has {bytes} bytes, the limit is {limit_bytes}")
            }
            ErrorKind::Text { text, wanted } => write!(f, "{text:?} is no {wanted}"),
            ErrorKind::Skewed { depth } => write!(
                f,
                "too many keys share a hash prefix of {depth} bits: the directory would outgrow \
                 its bound (were the keys chosen with the pool's seed in hand?)"
            ),
            ErrorKind::Options { what } => write!(f, "the options cannot be met: {what}"),
            ErrorKind::OutOfRegion { node, off, bytes, region_bytes } => write!(
                f,
                "{bytes} bytes at offset {off:#x} are not in the region of node {node}, which has \
                 {region_bytes} bytes"
            ),
            ErrorKind::Unaligned { node, off } => {
                write!(f, "offset {off:#x} of node {node} is no multiple of 8")
            }
            ErrorKind::NodeLost { node } => write!(
                f,
                "node {node} does not answer; what was under way may have taken effect or not"
            ),
            ErrorKind::Unreachable { address, source } => {
                write!(f, "node {address} does not answer: {source}")
            }
            ErrorKind::Refused { address, why } => {
                write!(f, "node {address} refuses this client: {why}")
            }
            ErrorKind::NotANode { address, why } => {
                write!(f, "what answers at {address} is no node that this build knows: {why}")
            }
            ErrorKind::Evicted => write!(
                f,
                "the nodes have shut this client out because it showed no life for too long; \
                 connect anew"
            ),
            ErrorKind::Closed => write!(f, "this map was closed; open another"),
            ErrorKind::Region { what, found, expected } => write!(
                f,
                "this is not the region that was expected: {what} is {found:#x}, not {expected:#x}"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.0 {
            ErrorKind::Io { source, .. } | ErrorKind::Unreachable { source, .. } => Some(source),
            _ => None,
        }
    }
}
