//! The file of a node: a region that outlives the process which lends it.
//!
//! Stores go to the page cache. A process that dies leaves that as it was, so after a kill nothing is missing. A machine
//! that dies leaves a mixture of old and new pages. So the second line of the file's first page says whether what is in
//! the file can be trusted:
//!
//! ```text
//! off 64  state: 1 closed, 2 open, by bit 8 once served although pages may have been missing;
//!         from bit 16 on the number of the last opening
//!     72  boot id of the machine at the last open, two words, and in them the device that the file lay on
//!     88  the file that was opened last, see `FileId`
//!     96  CRC-32 of the four words before
//!    128  to the end of the page: for the fabric
//! ```
//!
//! | step | the file after the death of the process | after that of the machine |
//! |---|---|---|
//! | make it, closed, and sync it; then give it its name | there is none, or a whole one | the same |
//! | open it: state open, synced before the first store | open | open, and refused |
//! | stores | open | the same |
//! | close it: sync all of it | open | the same |
//! | then state closed, synced | closed | closed; or open, and refused |
//! | or, if that sync fails, state open, pages may be missing | open | open, and refused |
//!
//! When it is opened after a kill, and when it is asked while it is open, the system may say that it could not write pages
//! back, which it does once: then, too, pages may be missing, and the state says so.
//!
//! While the state is open it names the file, so a copy that was made meanwhile is found out.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use super::mapped::{MAPPING, PoolFile};
use super::shared::{HEADER_BYTES, HEADER_WORDS, SharedHeader, SharedRegion, check_bytes};
use super::sys;
use crate::error::{Error, ErrorKind, Result};
use crate::hash::WordMix;
use crate::identity::{FileId, boot_id};
use crate::word::bits;

const STATE_OFF: u64 = 64;
const STATE_WORDS: usize = 5;
const CLOSED: u64 = 1;
const OPEN: u64 = 2;
const SUSPECT: u64 = 1 << 8;
/// Bits of the state below the number of the opening.
const FLAG_BITS: u32 = 16;
/// Where the system tells no boot, every boot is another.
const UNKNOWN_BOOT: [u64; 2] = [0; 2];

/// A region in a file that this process has open, as no other.
///
/// Dropping it leaves the file open, as a kill does; [`close`](Self::close) closes it.
///
/// A process that cuts the file while it is mapped ends this one (SIGBUS).
pub struct NodeFile {
    region: SharedRegion,
    state: State,
    /// The system has told that it could not write pages back.
    failed: AtomicBool,
    may_be_mapped: bool,
    // After the region: what is unlocked is no longer mapped here.
    file: PoolFile,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    closed: bool,
    suspect: bool,
    opening: u64,
    boot: [u64; 2],
    file: FileId,
}

impl NodeFile {
    /// Makes a file of zeros at `path`, which must be free. It is closed, and its space is taken.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) when the size is none; [`Exists`](ErrorKind::Exists);
    /// [`Full`](ErrorKind::Full); [`Io`](ErrorKind::Io). After any of them there is no file.
    pub fn create(path: &Path, header: SharedHeader, mode: u32) -> Result<()> {
        check_bytes(header.bytes)?;
        let file = PoolFile::create(path, mode)?;
        let bytes = HEADER_BYTES + header.bytes;
        file.extend(0, bytes, bytes)?;
        let write = |e| file.error("writing the header of the region", e);
        sys::write_at(file.file(), &header.to_bytes(), 0).map_err(write)?;
        let (boot, file_id) = (UNKNOWN_BOOT, FileId::default());
        let state = State { closed: true, suspect: false, opening: 0, boot, file: file_id };
        sys::write_at(file.file(), &state.to_bytes(), STATE_OFF).map_err(write)?;
        file.publish()
    }

    /// Opens and maps the file at `path`, whose region must have `bytes` bytes where that is given. On the disk it is open
    /// when this returns.
    ///
    /// # Errors
    /// [`Locked`](ErrorKind::Locked) when a process has it open;
    /// [`NotAPool`](ErrorKind::NotAPool), [`Region`](ErrorKind::Region) and [`Truncated`](ErrorKind::Truncated) when
    /// it is no whole file of a node of this build, or of another size; [`PowerLoss`](ErrorKind::PowerLoss) when the
    /// machine went down before it was closed, or it lies on another device, as in a snapshot, and
    /// [`Copied`](ErrorKind::Copied) when it is a copy of a file that was not closed, unless `accept_suspect`, which is remembered in the file; [`Full`](ErrorKind::Full) when it has
    /// holes and there is no space for them; [`Io`](ErrorKind::Io). What is in the region is untouched then.
    pub fn open(path: &Path, bytes: Option<u64>, accept_suspect: bool) -> Result<Self> {
        Self::open_after(path, bytes, accept_suspect, |_| Ok(())).map(|(file, ())| file)
    }

    /// The same, and calls `prepare` before it is open on the disk: nobody may store to it yet.
    ///
    /// # Errors
    /// As [`open`](Self::open), and that of `prepare`, which leaves a closed file closed.
    pub fn open_after<T>(
        path: &Path,
        bytes: Option<u64>,
        accept_suspect: bool,
        prepare: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<(Self, T)> {
        let file = PoolFile::open(path, false, true)?;
        let (header, before) = read(&file).map_err(|e| e.at_path(path))?;
        let expected = bytes.unwrap_or(header.bytes);
        if header.bytes != expected {
            let (what, found) = ("the bytes of the region", header.bytes);
            return Err(Error::from(ErrorKind::Region { what, found, expected }).at_path(path));
        }
        let metadata = file.metadata()?;
        let (id, boot) = (FileId::of(&metadata), boot_and_device(&metadata));
        let same_boot = before.boot == boot && boot != UNKNOWN_BOOT;
        let copied = !before.closed && id.differs(before.file);
        let lost = !before.closed && !same_boot;
        if (copied || lost) && !accept_suspect {
            let kind = if copied { ErrorKind::Copied } else { ErrorKind::PowerLoss };
            return Err(Error::from(kind).at_path(path));
        }
        let may_be_mapped = !before.closed && !copied && !lost;
        // A store into a hole of a full disk would end this process. The last node has filled what clients may have mapped.
        if !may_be_mapped {
            file.fill_all(&metadata, HEADER_BYTES + header.bytes, 0..0)?;
        }
        let suspect = before.suspect || copied || lost;
        let opening = opening_after(before.opening);
        let state = State { closed: false, suspect, opening, boot, file: id };
        let region = SharedRegion::map(file.file(), header).map_err(|e| file.error(MAPPING, e))?;
        let opened =
            NodeFile { region, state, failed: AtomicBool::new(false), may_be_mapped, file };
        let prepared = prepare(&opened)?;
        opened.state.store(&opened.file).inspect_err(|_| {
            if !before.closed {
                opened.fail();
            }
        })?;
        Ok((opened, prepared))
    }

    /// The region.
    #[must_use]
    pub fn region(&self) -> &SharedRegion {
        &self.region
    }

    /// The first page and the region behind it, as they are mapped. The page's bytes from
    /// [`FABRIC_OFF`](Self::FABRIC_OFF) on are the fabric's.
    #[must_use]
    pub fn memory(&self) -> NonNull<[u8]> {
        // The region begins a page behind the beginning of its mapping, which is never null.
        let start = self.region.base().as_ptr().wrapping_sub(HEADER_BYTES as usize);
        let start = NonNull::new(start).unwrap_or(self.region.base());
        let bytes = HEADER_BYTES + self.region.header().bytes;
        NonNull::slice_from_raw_parts(start, bytes as usize)
    }

    /// The region, mapped once more, for who drops it before this is closed or dropped.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io).
    pub fn map_again(&self) -> Result<SharedRegion> {
        let mapped = SharedRegion::map(self.file.file(), self.region.header());
        mapped.map_err(|e| self.file.error(MAPPING, e))
    }

    /// The file.
    #[must_use]
    pub fn id(&self) -> FileId {
        self.state.file
    }

    /// The number of this opening, larger than those of all openings before it, and less than 2^24.
    #[must_use]
    pub fn opening(&self) -> u64 {
        self.state.opening
    }

    /// Where in the file's first page that is which the fabric keeps for itself.
    pub const FABRIC_OFF: usize = 128;

    /// True if it was once opened although pages may have been missing.
    #[must_use]
    pub fn is_suspect(&self) -> bool {
        self.state().suspect
    }

    fn state(&self) -> State {
        let suspect = self.state.suspect || self.failed.load(Ordering::Acquire);
        State { suspect, ..self.state }
    }

    /// Marks it: the system tells once of pages that were not written, so the next sync would not hear of them.
    fn fail(&self) {
        self.failed.store(true, Ordering::Release);
        let _ = self.state().store(&self.file);
    }

    /// Asks the system whether it could not write pages back since it was asked last: those may be read as they were before,
    /// and the file is suspect from then on.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) with what the system says.
    pub fn written_back(&self) -> Result<()> {
        match sys::write_back_error(self.file.file()) {
            // Where it cannot be asked.
            Err(e) if !sys::is(&e, Errno::NOSYS) => {
                self.fail();
                Err(self.file.error("writing pages of the memory back", e))
            }
            _ => Ok(()),
        }
    }

    /// True if processes may be alive that had mapped the file before it was opened here: its last node was killed.
    #[must_use]
    pub fn may_be_mapped(&self) -> bool {
        self.may_be_mapped
    }

    /// Puts all of it on the disk; it stays open.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io).
    pub fn sync(&self) -> Result<()> {
        self.file.sync().inspect_err(|_| self.fail())
    }

    /// Puts all of it on the disk, and marks it as closed there. No process may store to it meanwhile, nor later. Until what
    /// this returns is dropped, none can open it.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io); it stays open then.
    pub fn close(self) -> Result<impl Sized> {
        self.sync()?;
        State { closed: true, ..self.state() }.store(&self.file)?;
        Ok(self.file)
    }
}

/// What is in the page cache is lost with either. All zeros where the system tells no boot.
fn boot_and_device(file: &Metadata) -> [u64; 2] {
    match boot_id() {
        UNKNOWN_BOOT => UNKNOWN_BOOT,
        [one, two] => [one, two ^ WordMix::new(0).mix(file.dev())],
    }
}

/// The number of an opening after that of number `before`. By the clock, if that allows it, so that an old copy of a file
/// does not count as its newer one has; a number lasts 18 minutes.
fn opening_after(before: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (before + 1).max(now.as_nanos() as u64 >> 40)
}

/// The header and the state of a file, which is whole.
fn read(file: &PoolFile) -> Result<(SharedHeader, State)> {
    let found_bytes = file.metadata()?.len();
    if found_bytes < HEADER_BYTES {
        let expected_bytes = HEADER_BYTES;
        return Err(ErrorKind::Truncated { found_bytes, expected_bytes }.into());
    }
    let (mut header, mut state) = ([0; HEADER_WORDS * 8], [0; STATE_WORDS * 8]);
    let read = |bytes: &mut [u8], off| {
        sys::read_at(file.file(), bytes, off)
            .map_err(|e| file.error("reading the header of the region", e))
    };
    read(&mut header, 0)?;
    read(&mut state, STATE_OFF)?;
    let header = SharedHeader::from_bytes(&header)?;
    let state = State::from_bytes(&state)?;
    let expected_bytes = HEADER_BYTES + header.bytes;
    if found_bytes < expected_bytes {
        return Err(ErrorKind::Truncated { found_bytes, expected_bytes }.into());
    }
    if found_bytes != expected_bytes {
        let (what, found, expected) = ("the length of its file", found_bytes, expected_bytes);
        return Err(ErrorKind::Region { what, found, expected }.into());
    }
    Ok((header, state))
}

impl State {
    fn to_bytes(self) -> [u8; STATE_WORDS * 8] {
        let State { closed, suspect, opening, boot, file } = self;
        let flags = if closed { CLOSED } else { OPEN } | if suspect { SUSPECT } else { 0 };
        let word = opening << FLAG_BITS | flags;
        let mut bytes = [0; STATE_WORDS * 8];
        let (words, _) = bytes.as_chunks_mut::<8>();
        for (to, word) in words.iter_mut().zip([word, boot[0], boot[1], file.0]) {
            *to = word.to_le_bytes();
        }
        let sum = crc32fast::hash(&bytes[..(STATE_WORDS - 1) * 8]);
        bytes[(STATE_WORDS - 1) * 8..].copy_from_slice(&u64::from(sum).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; STATE_WORDS * 8]) -> Result<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let [state, boot0, boot1, file, found] =
            std::array::from_fn(|i| u64::from_le_bytes(words[i]));
        let expected = crc32fast::hash(&bytes[..(STATE_WORDS - 1) * 8]).into();
        let flags = bits(state, 0, FLAG_BITS);
        // In the file of a region that no node has made there are zeros.
        if found != expected || ![CLOSED, OPEN].contains(&(flags & !SUSPECT)) {
            let what = "the checksum of its state";
            return Err(ErrorKind::Region { what, found, expected }.into());
        }
        let (closed, suspect) = (state & CLOSED != 0, state & SUSPECT != 0);
        let (opening, boot) = (state >> FLAG_BITS, [boot0, boot1]);
        Ok(State { closed, suspect, opening, boot, file: FileId(file) })
    }

    /// Puts it on the disk: 40 bytes of one sector, which is old or new after a loss of power.
    fn store(self, file: &PoolFile) -> Result<()> {
        let put = |to: &File| {
            sys::write_at(to, &self.to_bytes(), STATE_OFF).and_then(|()| sys::sync_file_data(to))
        };
        put(file.file()).map_err(|e| file.error("writing the state of the region", e))
    }
}

#[cfg(test)]
mod tests;
