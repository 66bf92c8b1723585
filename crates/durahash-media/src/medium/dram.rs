//! Anonymous memory: the pure DRAM variant of every design.

use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags};

use super::{ADDRESS_BYTES, Durability, Memory, Region, Storage, sys};
use crate::error::{Error, Limit, Result};
use crate::word::OnMedia;

/// 2 MiB: the huge page of x86-64 and of aarch64 with 4 KiB granules.
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// An anonymous mapping, zeroed, huge pages asked for. Nothing outlives the process, so flush,
/// fence and drain are nothing.
pub struct Dram {
    region: Region,
    mapping: Anonymous,
}

impl Dram {
    /// Reserves address space for `max_bytes`; memory is taken as it is touched.
    ///
    /// # Errors
    /// [`Io`](crate::ErrorKind::Io) when the system has no address space.
    pub fn new(max_bytes: u64) -> Result<Self> {
        let mapping = Anonymous::reserve(max_bytes)?;
        // SAFETY: the mapping is aligned, readable and writable, and lives as long as `self`.
        let region = unsafe { Region::new(mapping.base, 0, mapping.bytes) };
        Ok(Dram { region, mapping })
    }
}

impl Memory for Dram {
    #[inline(always)]
    fn same_line_order(&self) -> bool {
        true
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
        if bytes > self.region.reserved() {
            return Err(Error::full(bytes, Limit::Pool { max_bytes: self.region.reserved() }));
        }
        if bytes > self.region.len() {
            // SAFETY: all reserved bytes are readable and writable.
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

/// Zeroed anonymous memory, reserved whole and taken as it is touched; unmapped when dropped.
pub(crate) struct Anonymous {
    pub(crate) base: NonNull<u8>,
    pub(crate) bytes: u64,
}

// SAFETY: plain memory; the owner that lends it out says how it is accessed.
unsafe impl Send for Anonymous {}
// SAFETY: as above.
unsafe impl Sync for Anonymous {}

impl Anonymous {
    /// Reserves `bytes`, rounded up to pages (to huge pages, and aligned to them, where there is
    /// at least one).
    pub(crate) fn reserve(bytes: u64) -> Result<Self> {
        // Miri knows plain mappings only.
        let huge = bytes >= HUGE_PAGE_BYTES && !cfg!(miri);
        let unit = if huge { HUGE_PAGE_BYTES } else { 4096 };
        let bytes = bytes.clamp(1, ADDRESS_BYTES).next_multiple_of(unit);
        // Align by hand: map more than is wanted, give back both ends.
        let slack = if huge { HUGE_PAGE_BYTES } else { 0 };
        let mut flags = MapFlags::PRIVATE;
        flags.set(MapFlags::NORESERVE, !cfg!(miri));
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh anonymous mapping at an address of the system's choice.
        let start = unsafe { sys::map_anonymous(std::ptr::null_mut(), bytes + slack, prot, flags) }
            .map_err(|e| Error::io("reserving memory", None, e))?;
        let lead = start.addr().next_multiple_of(unit as usize) - start.addr();
        let base = start.wrapping_add(lead);
        // SAFETY: both ends belong to the mapping just made, and nothing points into them. Without
        // slack they are empty, as the system aligns to pages.
        unsafe {
            sys::unmap(start, lead as u64);
            sys::unmap(base.wrapping_add(bytes as usize), slack - lead as u64);
        }
        let base = NonNull::new(base).expect("the system never maps page zero");
        if huge {
            // SAFETY: our own mapping.
            unsafe { sys::wish_huge_pages(base.as_ptr(), bytes) };
        }
        Ok(Anonymous { base, bytes })
    }

    /// Bytes of this mapping in huge pages, as the kernel accounts them.
    pub(crate) fn huge_bytes(&self) -> Option<u64> {
        huge_bytes(self.base.as_ptr().addr() as u64, self.bytes)
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and no borrow of it is left.
        unsafe { sys::unmap(self.base.as_ptr(), self.bytes) };
    }
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
