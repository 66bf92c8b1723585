//! Anonymous memory: the pure DRAM variant of every design.

use std::io;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

use super::room::{FIRST_BYTES, HUGE_PAGE_BYTES, Room};
use super::{ADDRESS_BYTES, Durability, LINE_BYTES, Memory, Region, Storage, sys};
use crate::copied::CopiedWords;
use crate::error::{Error, Limit, Result};
use crate::primitive::lock;
use crate::word::{OnMedia, PmU64};

/// An anonymous mapping, zeroed, huge pages asked for. Nothing outlives the process, so flush,
/// fence and drain are nothing.
pub struct Dram {
    region: Region,
    mapping: Anonymous,
    /// Held while the medium grows.
    growth: Mutex<()>,
}

impl Dram {
    /// A medium of up to as many bytes as the process may have of memory: those of the machine, or of its control
    /// group. What needs more is refused, and the process not killed.
    ///
    /// # Errors
    /// As [`new`](Dram::new).
    pub fn of_all_memory() -> Result<Self> {
        Self::new(sys::memory_bytes() & !(LINE_BYTES - 1))
    }

    /// Bytes of memory that the process may still take now. They are not kept for it.
    #[must_use]
    pub fn memory_left() -> u64 {
        sys::memory_left()
    }

    /// A medium of up to `max_bytes`; addresses are reserved ahead of use, memory is taken as it is
    /// touched.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) when the system has no address space.
    pub fn new(max_bytes: u64) -> Result<Self> {
        let max_bytes = max_bytes.min(ADDRESS_BYTES);
        let mapping = Anonymous::growing(0, max_bytes)?;
        // SAFETY: the mapping is aligned, readable and writable, and lives as long as `self`.
        let region = unsafe { Region::new(mapping.base(), 0, max_bytes) };
        Ok(Dram { region, mapping, growth: Mutex::new(()) })
    }
}

impl Memory for Dram {
    #[inline(always)]
    fn same_line_order(&self) -> bool {
        true
    }
    #[inline(always)]
    fn copy_words(&self, src: &[PmU64], dst: &mut CopiedWords) {
        dst.fill_at_once(src);
    }
    #[inline(always)]
    fn region(&self) -> &Region {
        &self.region
    }
    #[inline(always)]
    fn flush<T: OnMedia + ?Sized>(&self, _obj: &T) {}
    #[inline(always)]
    fn fence(&self) {}
}

impl Storage for Dram {
    fn grow(&self, bytes: u64) -> Result<()> {
        let max_bytes = self.region.max_bytes();
        if bytes > max_bytes {
            return Err(Error::full(bytes, self.region.limit()));
        }
        let _growth = lock(&self.growth);
        if bytes > self.region.len() {
            self.mapping.cover(bytes, max_bytes)?;
            // SAFETY: all bytes of the mapping are readable and writable.
            unsafe { self.region.set_len(bytes) };
        }
        Ok(())
    }

    fn sync(&self, _off: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }
    fn durability(&self) -> Durability {
        Durability::None
    }
    fn huge_bytes(&self) -> Option<u64> {
        self.mapping.huge_bytes()
    }
}

/// Zeroed anonymous memory, taken as it is touched; unmapped when dropped.
pub(crate) struct Anonymous {
    room: Room,
    /// The first bytes, for which huge pages were asked.
    wished: AtomicU64,
}

/// Memory that can grow is wished in huge pages when more of it than this is in use: the first word in such
/// a page takes all of it.
pub(crate) const SMALL_BYTES: u64 = 2 * HUGE_PAGE_BYTES;

impl Anonymous {
    /// Reserves `bytes`, in huge pages where there is at least one.
    pub(crate) fn reserve(bytes: u64) -> Result<Self> {
        let bytes = bytes.min(ADDRESS_BYTES);
        let room = Room::fixed(bytes, &map_part).map_err(|e| Error::io(RESERVING, None, e))?;
        let anonymous = Anonymous { room, wished: AtomicU64::new(0) };
        if bytes >= HUGE_PAGE_BYTES {
            anonymous.wish_huge_pages();
        }
        Ok(anonymous)
    }

    /// Reserves `bytes` and room for more, up to `most`.
    pub(crate) fn growing(bytes: u64, most: u64) -> Result<Self> {
        let (bytes, most) = (bytes.min(ADDRESS_BYTES), most.min(ADDRESS_BYTES));
        // Miri knows plain mappings only.
        let room = if cfg!(miri) {
            Room::fixed(most, &map_part)
        } else {
            Room::new(bytes, FIRST_BYTES, most, &map_part)
        };
        let room = room.map_err(|e| Error::io(RESERVING, None, e))?;
        let anonymous = Anonymous { room, wished: AtomicU64::new(0) };
        if bytes > SMALL_BYTES {
            anonymous.wish_huge_pages();
        }
        Ok(anonymous)
    }

    /// Sees to it that the first `bytes` can be used, of `most` at the most. One thread at a time.
    ///
    /// # Errors
    /// [`Full`](crate::ErrorKind::Full) where there are no addresses for them.
    pub(crate) fn cover(&self, bytes: u64, most: u64) -> Result<()> {
        let had = self.bytes();
        if bytes > had {
            let lengthened = self.room.lengthen(bytes, most, &map_part);
            if !lengthened.map_err(|e| Error::io(RESERVING, None, e))? {
                return Err(Error::full(bytes - had, Limit::Addresses));
            }
        }
        if bytes > SMALL_BYTES {
            self.wish_huge_pages();
        }
        Ok(())
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.room.base()
    }

    /// Bytes that can be used.
    pub(crate) fn bytes(&self) -> u64 {
        self.room.bytes()
    }

    fn wish_huge_pages(&self) {
        let bytes = self.bytes();
        if self.wished.swap(bytes, Ordering::Relaxed) != bytes && !cfg!(miri) {
            // SAFETY: our own mapping.
            unsafe { sys::wish_huge_pages(self.base().as_ptr(), bytes) };
        }
    }

    /// Bytes of this mapping in huge pages, as the kernel accounts them.
    pub(crate) fn huge_bytes(&self) -> Option<u64> {
        huge_bytes(self.base().as_ptr().addr() as u64, self.bytes())
    }
}
const RESERVING: &str = "reserving memory";

/// Maps zeros; where in the room they are does not matter.
fn map_part(at: *mut u8, _off: u64, bytes: u64, flags: MapFlags) -> io::Result<*mut u8> {
    let mut flags = MapFlags::PRIVATE | flags;
    flags.set(MapFlags::NORESERVE, !cfg!(miri));
    // SAFETY: the flags that come in replace nothing.
    unsafe { sys::map_anonymous(at, bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }
}

/// Bytes in huge pages among the mappings inside `base .. base + bytes`, from the kernel's
/// per-mapping account.
pub(crate) fn huge_bytes(base: u64, bytes: u64) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let mut inside = false;
    let mut total = 0;
    for line in text.lines() {
        let mut parts = line.split_ascii_whitespace();
        let Some(first) = parts.next() else { continue };
        if let Some((from, to)) = first.split_once('-')
            && let (Ok(from), Ok(to)) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16))
        {
            inside = from < base + bytes && to > base;
        } else if inside
            && matches!(first, "AnonHugePages:" | "ShmemPmdMapped:" | "FilePmdMapped:")
            && let Some(Ok(kib)) = parts.next().map(str::parse::<u64>)
        {
            total += kib * 1024;
        }
    }
    Some(total)
}
