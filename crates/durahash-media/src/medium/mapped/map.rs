//! The address space of a pool: all that is reserved is one mapping of the file from its start.
//!
//! The mapping reaches beyond the file's end, which the system allows: growth is then a matter of
//! the file alone, and cannot fail halfway between file and mapping. Addresses beyond the end are
//! never touched, because the [`Region`](crate::Region) ends where the file does.

use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::param::page_size;

use crate::medium::room::{FIRST_BYTES, HUGE_PAGE_BYTES, Map, Room, round_up};
use crate::medium::sys;

pub(in crate::medium) const MAPPING: &str = "mapping the pool";

/// How the file is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::medium) enum Sharing {
    /// Stores go to the page cache.
    PageCache,
    /// Stores go to persistent memory, and a page that can be written has its metadata on it.
    Dax,
    /// Stores stay in pages of our own.
    Private,
    /// There are no stores.
    Seen,
}

impl Sharing {
    fn flags(self) -> MapFlags {
        match self {
            Sharing::PageCache | Sharing::Seen => MapFlags::SHARED,
            Sharing::Dax => MapFlags::SHARED_VALIDATE | MapFlags::SYNC,
            Sharing::Private => MapFlags::PRIVATE | MapFlags::NORESERVE,
        }
    }
}

/// A mapping of a file, aligned to huge pages; unmapped when dropped.
///
/// The system is asked for huge pages, but for what lies before [`huge_from`](Mapping::huge_from): a page that holds bytes of a file and
/// a hole takes the space of all of it at the first store, and ends the process if there is none.
pub(in crate::medium) struct Mapping {
    room: Room,
    huge_from: AtomicU64,
}

impl Mapping {
    /// Maps `needed` bytes, and reserves addresses for more, up to `most`.
    pub(in crate::medium) fn new(
        file: &File,
        sharing: Sharing,
        needed: u64,
        most: u64,
        huge_from: u64,
    ) -> io::Result<Self> {
        let room = Room::new(needed, FIRST_BYTES, most, &map_part(file, sharing))?;
        let mapping = Mapping { room, huge_from: AtomicU64::new(huge_from) };
        mapping.advise(0, mapping.bytes())?;
        Ok(mapping)
    }

    /// The same, of what `map` maps, with fewer addresses at first: see [`Room::new`].
    pub(in crate::medium) fn of_parts(
        needed: u64,
        first: u64,
        most: u64,
        map: Map<'_>,
    ) -> io::Result<Self> {
        let room = Room::new(needed, first, most, map)?;
        let mapping = Mapping { room, huge_from: AtomicU64::new(0) };
        mapping.advise(0, mapping.bytes())?;
        Ok(mapping)
    }

    /// From where on there may be huge pages.
    pub(in crate::medium) fn huge_from(&self) -> u64 {
        self.huge_from.load(Ordering::Relaxed)
    }

    /// Changes that, also of what is mapped.
    pub(in crate::medium) fn set_huge_from(&self, from: u64) {
        let before = self.huge_from.swap(from, Ordering::Relaxed);
        let wish = |from: u64, to: u64, huge: bool| {
            let bytes = to.min(self.bytes()).saturating_sub(from);
            if huge && bytes >= HUGE_PAGE_BYTES {
                // SAFETY: inside our own mapping.
                unsafe { sys::wish_huge_pages(self.at(from), bytes) };
            } else if !huge && bytes > 0 {
                // SAFETY: the same.
                unsafe { sys::wish_small_pages(self.at(from), bytes) };
            }
        };
        wish(before, from, false);
        wish(from, before, true);
    }

    /// Says how pages of a pool are used.
    fn advise(&self, off: u64, bytes: u64) -> io::Result<()> {
        let end = off + bytes;
        // SAFETY: inside our own mapping; children of a fork shall not have it.
        unsafe { sys::advise(self.at(off), bytes, Advice::LinuxDontFork) }?;
        let from = off.max(self.huge_from());
        if from < end && end - from >= HUGE_PAGE_BYTES {
            // SAFETY: inside our own mapping.
            unsafe { sys::wish_huge_pages(self.at(from), end - from) };
        }
        Ok(())
    }

    /// Lengthens the mapping, of `file` and in the way it was made, to `needed` bytes, and more ahead of
    /// need, up to `most`. False where there are no addresses for them. One thread at a time.
    pub(in crate::medium) fn lengthen(
        &self,
        file: &File,
        sharing: Sharing,
        needed: u64,
        most: u64,
    ) -> io::Result<bool> {
        self.lengthen_by_parts(needed, most, &map_part(file, sharing))
    }

    /// The same, of what `map` maps.
    pub(in crate::medium) fn lengthen_by_parts(
        &self,
        needed: u64,
        most: u64,
        map: Map<'_>,
    ) -> io::Result<bool> {
        let had = self.bytes();
        if needed <= had {
            return Ok(true);
        }
        let lengthened = self.room.lengthen(needed, most, map)?;
        if lengthened {
            self.advise(had, self.bytes() - had)?;
        }
        Ok(lengthened)
    }

    /// Maps the file in another way, at the same addresses.
    ///
    /// # Safety
    /// All readers of the mapping cope with other bytes there: those of the file.
    pub(in crate::medium) unsafe fn replace(
        &self,
        file: &File,
        sharing: Sharing,
    ) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.replace_by_parts(self.bytes(), &map_part(file, sharing)) }
    }

    /// The same of the first `bytes` bytes, whole pages, by what `map` maps.
    ///
    /// # Safety
    /// As [`replace`](Mapping::replace).
    pub(in crate::medium) unsafe fn replace_by_parts(
        &self,
        bytes: u64,
        map: Map<'_>,
    ) -> io::Result<()> {
        // Replaces our own mapping by one of the same size; the rest is the caller's promise.
        map(self.base().as_ptr(), 0, bytes, MapFlags::FIXED)?;
        self.advise(0, bytes)
    }

    /// True if `file` can be mapped so that flushed stores survive power failure.
    pub(in crate::medium) fn can_dax(file: &File, read_only: bool) -> io::Result<bool> {
        let prot = if read_only { ProtFlags::READ } else { ProtFlags::READ | ProtFlags::WRITE };
        let bytes = page_size() as u64;
        let flags = Sharing::Dax.flags();
        // SAFETY: a fresh mapping at an address of the system's choice, which nobody touches.
        match unsafe { sys::map_file(std::ptr::null_mut(), bytes, prot, flags, (file, 0)) } {
            Ok(start) => {
                // SAFETY: the mapping just made.
                unsafe { sys::unmap(start, bytes) };
                Ok(true)
            }
            // The second is the answer of systems that know no such flag.
            Err(e) if sys::is(&e, Errno::OPNOTSUPP) || sys::is(&e, Errno::INVAL) => Ok(false),
            Err(e) => Err(e),
        }
    }

    pub(in crate::medium) fn base(&self) -> NonNull<u8> {
        self.room.base()
    }

    pub(in crate::medium) fn bytes(&self) -> u64 {
        self.room.bytes()
    }

    /// Takes the pages of `off .. off + bytes` now, all at once, which costs a small part of what
    /// their first touches would.
    ///
    /// # Safety
    /// The file reaches that far, and what is there already is accessed as atomics only.
    pub(in crate::medium) unsafe fn populate(&self, off: u64, bytes: u64) -> io::Result<()> {
        let page = page_size() as u64;
        let (from, to) = (off / page * page, off + bytes);
        let start = self.at(from);
        // SAFETY: our own mapping, over the file by the caller's promise.
        match unsafe { sys::advise(start, to - from, Advice::LinuxPopulateWrite) } {
            Err(e) if sys::is(&e, Errno::INVAL) => {
                // A system before Linux 5.14: touch every page. Its first word may be in use where
                // the range begins inside a page, so it is changed by an atomic that changes nothing.
                for off in (from..to).step_by(page as usize) {
                    // SAFETY: inside the file; aligned, and accessed as an atomic only.
                    let word = unsafe { &*self.at(off).cast::<std::sync::atomic::AtomicU64>() };
                    let zero = std::hint::black_box(0);
                    word.fetch_or(zero, std::sync::atomic::Ordering::Relaxed);
                }
                Ok(())
            }
            other => other,
        }
    }

    /// Writes the pages of `off .. off + bytes` to the disk.
    pub(in crate::medium) fn sync(&self, off: u64, bytes: u64) -> io::Result<()> {
        let page = page_size() as u64;
        let from = off / page * page;
        let to = round_up(off + bytes).min(self.bytes());
        if from >= to {
            return Ok(());
        }
        // SAFETY: inside our own mapping.
        unsafe { sys::sync_range(self.at(from), to - from) }
    }

    /// Lets go of private pages: what is seen there from now on is the file.
    ///
    /// # Safety
    /// All readers of these pages cope with other bytes there.
    pub(in crate::medium) unsafe fn forget(&self, off: u64, bytes: u64) -> io::Result<()> {
        // SAFETY: inside our own mapping; the rest is the caller's promise.
        unsafe { sys::advise(self.at(off), bytes, Advice::LinuxDontNeed) }
    }

    /// Lets go of the file from offset `from` on: zeros of our own take its place, so that
    /// a late reader does not die of a file that is too short.
    pub(in crate::medium) fn detach(&self, from: u64) -> io::Result<()> {
        self.own(round_up(from), self.bytes())
    }

    /// Maps zeros of our own, in huge pages if they are to be had, over what is from offset `from` up to
    /// `to`, whole pages.
    pub(in crate::medium) fn own(&self, from: u64, to: u64) -> io::Result<()> {
        if from >= to.min(self.bytes()) {
            return Ok(());
        }
        let (start, bytes) = (self.at(from), to.min(self.bytes()) - from);
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: replaces part of our own mapping by memory of the same kind, which all that points
        // into it accesses as atomics.
        unsafe { sys::map_anonymous(start, bytes, prot, flags) }?;
        // SAFETY: the same; children of a fork shall not have it.
        unsafe { sys::advise(start, bytes, Advice::LinuxDontFork) }?;
        // SAFETY: the same.
        unsafe { sys::wish_huge_pages(start, bytes) };
        Ok(())
    }

    /// Gives the addresses behind the first `bytes` bytes back, if the mapping can be lengthened again.
    ///
    /// # Safety
    /// Nothing points there.
    pub(in crate::medium) unsafe fn shorten(&self, bytes: u64) {
        // SAFETY: the caller's promise.
        unsafe { self.room.shorten(bytes) };
    }

    fn at(&self, off: u64) -> *mut u8 {
        self.base().as_ptr().wrapping_add(off as usize)
    }
}

/// Maps parts of `file`, each at its place.
fn map_part(
    file: &File,
    sharing: Sharing,
) -> impl Fn(*mut u8, u64, u64, MapFlags) -> io::Result<*mut u8> {
    let write = if sharing == Sharing::Seen { ProtFlags::empty() } else { ProtFlags::WRITE };
    let prot = ProtFlags::READ | write;
    // SAFETY: the flags that come in replace nothing, or the mapping itself.
    move |at, off, bytes, flags| unsafe {
        sys::map_file(at, bytes, prot, sharing.flags() | flags, (file, off))
    }
}
