//! Numbers that identify a pool, its file, and a boot of the machine.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use crate::hash::WordMix;
use crate::word::bits;

use crate::error::{Error, Result};

/// The machine's boot id; zeros where the system does not tell.
pub(crate) fn boot_id() -> [u64; 2] {
    static ID: OnceLock<[u64; 2]> = OnceLock::new();
    let id = ID.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let hex: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let half = |part: Option<&str>| {
            part.and_then(|digits| u64::from_str_radix(digits, 16).ok()).unwrap_or(0)
        };
        [half(hex.get(0..16)), half(hex.get(16..32))]
    });
    #[cfg(any(test, feature = "sim"))]
    return [id[0], id[1] ^ BOOT.get()];
    #[cfg(not(any(test, feature = "sim")))]
    *id
}

/// Random words.
pub(crate) fn new_uuid() -> Result<[u64; 2]> {
    let word = || {
        getrandom::u64()
            .map_err(|e| Error::io("asking for random bytes", None, std::io::Error::other(e)))
    };
    Ok([word()?, word()?])
}

#[cfg(any(test, feature = "sim"))]
thread_local! {
    static PASS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    static BOOT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Lets this thread see another boot of the machine than zero is, this one: what a loss of power leaves, for tests.
#[cfg(any(test, feature = "sim"))]
pub fn set_boot(boot: u64) {
    BOOT.set(boot);
}

/// Lets copies of open pools pass for the files themselves in this thread: what a kill left, for tests.
#[cfg(any(test, feature = "sim"))]
pub fn copies_pass(pass: bool) {
    PASS.set(pass);
}

/// A file, as a word of the superblock names it: 32 bits of its inode's number, and above them 32 of the time at
/// which it was made, zero where the file system does not tell. Both stay if the file is renamed, and if the
/// machine boots again; the number of its device may not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileId(pub(crate) u64);

impl FileId {
    /// That of the file with this metadata.
    #[must_use]
    pub fn of(file: &Metadata) -> Self {
        let half = |v: u64| bits(WordMix::new(0).mix(v), 0, 32).max(1);
        let made = file.created().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        FileId(half(file.ino()) | made.map_or(0, |made| half(made.as_nanos() as u64)) << 32)
    }

    /// The name of the live file of a pool in this file.
    pub(crate) fn live_name(self) -> String {
        format!("durahash-{:016x}.live", self.0)
    }

    /// The name of the file for readers of a pool in this file.
    pub(crate) fn readers_name(self) -> String {
        format!("durahash-{:016x}.readers", self.0)
    }

    /// The name of the directory that clients of a node's file lock.
    #[must_use]
    pub fn clients_name(self) -> String {
        format!("durahash-{:016x}.clients", self.0)
    }

    /// True if a file and a pool that names one are known to differ.
    pub(crate) fn differs(self, named: FileId) -> bool {
        #[cfg(any(test, feature = "sim"))]
        if PASS.get() {
            return false;
        }
        let of = |at: u32| (bits(self.0, at, 32), bits(named.0, at, 32));
        let differ = |(this, named): (u64, u64)| this != named && this != 0 && named != 0;
        // File systems that make up numbers for files keep the times.
        match of(32) {
            (0, _) | (_, 0) => differ(of(0)),
            made => differ(made),
        }
    }
}
