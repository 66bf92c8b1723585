//! Addresses for what grows and cannot move.
//!
//! A pool grows while references point into it. So it begins where many addresses behind it are free, takes
//! few of them at first, and takes more when it grows: the k-th mapping begins at the k-th point of a van
//! der Corput sequence (1/2, 1/4, 3/4, 1/8, …) over 64 TiB in which systems place nothing by themselves. The
//! distance of two mappings is then as large as their number permits, whatever their sizes. A point is used
//! again when its mapping is gone.
//!
//! Where no point is to be had (another layout of addresses, a limit on them, sanitizers), the system chooses
//! the place. The addresses behind may be taken soon then, so as much as possible is reserved at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::sys;
use crate::primitive::lock;

/// 2 MiB: the huge page of x86-64 and of aarch64 with 4 KiB granules.
pub(crate) const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Bytes that are reserved at first, at the most, where nothing else is asked for.
pub(crate) const FIRST_BYTES: u64 = 1 << 30;
/// Bytes that are reserved at once where the system chooses the place, at the most.
const ELSEWHERE_BYTES: u64 = 1 << 40;
/// Where the points begin.
const POINTS_FROM: u64 = 16 << 40;
/// They spread over `1 << POINTS_SHIFT` bytes.
const POINTS_SHIFT: u32 = 46;
/// There are less than so many: a multiple of 64 MiB is the distance of any two.
const POINTS: u64 = 1 << 20;
/// Points that are tried, if others have mapped something there.
const ATTEMPTS: u32 = 8;

struct Points {
    next: u64,
    free: BinaryHeap<Reverse<u64>>,
}

static POINTS_TAKEN: Mutex<Points> = Mutex::new(Points { next: 1, free: BinaryHeap::new() });

/// A point that no other mapping of this process begins at.
struct Point(u64);

impl Point {
    fn take() -> Option<Point> {
        let mut points = lock(&POINTS_TAKEN);
        if let Some(Reverse(i)) = points.free.pop() {
            return Some(Point(i));
        }
        let i = points.next;
        points.next = (i + 1).min(POINTS);
        (i < POINTS).then_some(Point(i))
    }

    fn addr(&self) -> *mut u8 {
        let addr = POINTS_FROM + (self.0.reverse_bits() >> (64 - POINTS_SHIFT));
        std::ptr::without_provenance_mut(addr as usize)
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        let mut points = lock(&POINTS_TAKEN);
        points.free.push(Reverse(self.0));
    }
}

/// Maps bytes at an address, which is a multiple of a page: the first number is where in the room they are,
/// the other one how many there are. With the flags it replaces nothing, see [`map_at`].
pub(crate) type Map<'a> = &'a dyn Fn(*mut u8, u64, u64, MapFlags) -> io::Result<*mut u8>;

/// A mapping that can be lengthened, aligned to huge pages; unmapped when dropped.
pub(crate) struct Room {
    base: NonNull<u8>,
    bytes: AtomicU64,
    /// Given back after the mapping.
    point: Option<Point>,
}

// SAFETY: addresses; the code that lends them out says how they are accessed.
unsafe impl Send for Room {}
// SAFETY: as above.
unsafe impl Sync for Room {}

impl Room {
    /// Maps at least `needed` bytes; more of them, up to `first`, so that few growths have to ask for any, and where the addresses
    /// behind may be taken soon, up to `most`.
    pub(crate) fn new(needed: u64, first: u64, most: u64, map: Map<'_>) -> io::Result<Self> {
        let needed = round_up(needed.max(1));
        let first = round_up(most.min(first)).max(needed);
        for _ in 0..ATTEMPTS {
            let Some(point) = Point::take() else { break };
            match map_at(point.addr(), 0, first, map) {
                Ok(Some(base)) => {
                    return Ok(Room { base, bytes: AtomicU64::new(first), point: Some(point) });
                }
                // It is taken, and stays so.
                Ok(None) => std::mem::forget(point),
                Err(e) if is_too_much(&e) => break,
                Err(e) => return Err(e),
            }
        }
        let mut bytes = round_up(most.min(ELSEWHERE_BYTES)).max(needed);
        let base = loop {
            match map_elsewhere(bytes, map) {
                Err(e) if bytes > needed && is_too_much(&e) => {
                    bytes = round_up(bytes / 2).max(needed);
                }
                other => break other?,
            }
        };
        Ok(Room { base, bytes: AtomicU64::new(bytes), point: None })
    }

    /// Maps `bytes` bytes where the system likes: whole huge pages, if there is at least one.
    pub(crate) fn fixed(bytes: u64, map: Map<'_>) -> io::Result<Self> {
        // Miri knows plain mappings only.
        let is_huge = bytes >= HUGE_PAGE_BYTES && !cfg!(miri);
        let bytes = bytes.max(1).next_multiple_of(if is_huge { HUGE_PAGE_BYTES } else { 4096 });
        let base = if is_huge {
            map_elsewhere(bytes, map)?
        } else {
            let start = map(null_mut(), 0, bytes, MapFlags::empty())?;
            NonNull::new(start).expect("the system never maps page zero")
        };
        Ok(Room { base, bytes: AtomicU64::new(bytes), point: None })
    }

    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Gives the addresses behind the first `bytes` bytes back, if the room can be lengthened again.
    ///
    /// # Safety
    /// Nothing points there.
    pub(crate) unsafe fn shorten(&self, bytes: u64) {
        let (bytes, had) = (round_up(bytes), self.bytes());
        if self.point.is_some() && bytes < had {
            self.bytes.store(bytes, Ordering::Release);
            // SAFETY: the end of our own mapping; the rest is the caller's promise.
            unsafe { sys::unmap(self.base.as_ptr().wrapping_add(bytes as usize), had - bytes) };
        }
    }

    /// Lengthens the room to at least `needed` bytes: to twice its size, but at most to `most`, if there are
    /// so many addresses. False where there are too few. One thread at a time calls it; where it began.
    pub(crate) fn lengthen(&self, needed: u64, most: u64, map: Map<'_>) -> io::Result<bool> {
        let bytes = self.bytes();
        let needed = needed.next_multiple_of(HUGE_PAGE_BYTES);
        let most = most.next_multiple_of(HUGE_PAGE_BYTES).max(needed);
        for wanted in [bytes.saturating_mul(2).clamp(needed, most), needed] {
            let at = self.base.as_ptr().wrapping_add(bytes as usize);
            match map_at(at, bytes, wanted - bytes, map) {
                Ok(Some(_)) => {
                    self.bytes.store(wanted, Ordering::Release);
                    return Ok(true);
                }
                Ok(None) => {}
                Err(e) if is_too_much(&e) => {}
                Err(e) => return Err(e),
            }
        }
        Ok(false)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and no borrow of it is left.
        unsafe { sys::unmap(self.base.as_ptr(), self.bytes()) };
    }
}

/// Maps where nothing is; `None` where something is.
fn map_at(at: *mut u8, off: u64, bytes: u64, map: Map<'_>) -> io::Result<Option<NonNull<u8>>> {
    match map(at, off, bytes, MapFlags::FIXED_NOREPLACE) {
        Ok(start) if start == at => Ok(NonNull::new(start)),
        // A system before Linux 4.17 takes the address for a wish.
        Ok(start) => {
            // SAFETY: the mapping just made.
            unsafe { sys::unmap(start, bytes) };
            Ok(None)
        }
        Err(e) if sys::is(&e, Errno::EXIST) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Maps `bytes` at an address of the system's choice that is a multiple of the huge page.
///
/// Such an address is found by reserving more than is wanted, and giving it back; another thread may
/// be faster to take it, so nothing is ever mapped over what is there, and it is tried again. Threads
/// that map at the same time are all given the same address first, so it takes many tries at worst.
fn map_elsewhere(bytes: u64, map: Map<'_>) -> io::Result<NonNull<u8>> {
    const ATTEMPTS: u32 = 1 << 12;
    let slack = HUGE_PAGE_BYTES;
    for _ in 0..ATTEMPTS {
        // SAFETY: a fresh mapping at an address of the system's choice, gone again at once.
        let room = unsafe {
            let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
            let none = ProtFlags::empty();
            let room = sys::map_anonymous(null_mut(), bytes + slack, none, flags)?;
            sys::unmap(room, bytes + slack);
            room
        };
        let lead = room.addr().next_multiple_of(slack as usize) - room.addr();
        if let Some(base) = map_at(room.wrapping_add(lead), 0, bytes, map)? {
            return Ok(base);
        }
        std::thread::yield_now();
    }
    Err(Errno::EXIST.into())
}

pub(crate) fn round_up(bytes: u64) -> u64 {
    bytes.next_multiple_of(rustix::param::page_size() as u64)
}

/// True if less might be granted: no address space, more than the file system can ever hold, or
/// more than may be locked into memory.
fn is_too_much(e: &io::Error) -> bool {
    let too_much = [Errno::NOMEM, Errno::OVERFLOW, Errno::AGAIN];
    too_much.into_iter().any(|errno| sys::is(e, errno))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use crate::medium::{Dram, Memory, Storage};

    #[test]
    fn thousands_begin_small_and_each_can_grow() {
        let media: Vec<_> = (0..2000).map(|_| Dram::new(1 << 40).unwrap()).collect();
        for medium in &media {
            medium.grow(4096).unwrap();
            let first = medium.region().words(0, 1).unwrap().as_ptr();
            medium.grow(5 << 30).unwrap();
            let words = medium.region().words(0, (5 << 30) / 8).unwrap();
            assert!(std::ptr::eq(words.as_ptr(), first), "what is lent out stays where it is");
        }
        drop(media);
        Dram::new(1 << 40).unwrap().grow(1 << 40).unwrap();
    }
}
