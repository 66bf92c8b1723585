//! Cache lines and blocks.

/// Bytes of a cache line: what a flush writes back.
pub const LINE_BYTES: u64 = 64;

/// Bytes of a block: the medium's own unit, by which cost is counted.
pub const BLOCK_BYTES: u64 = 256;

/// Bytes of address space that a process has, at the most: a larger wish is cut to it.
pub(crate) const ADDRESS_BYTES: u64 = 1 << 47;

/// Calls `f` with the address of each line that `obj` touches.
#[inline(always)]
pub(crate) fn each_line<T: ?Sized>(obj: &T, mut f: impl FnMut(*const u8)) {
    let start = std::ptr::from_ref(obj).cast::<u8>();
    let bytes = size_of_val(obj);
    let skip = start.addr() % LINE_BYTES as usize;
    let mut at = start.wrapping_sub(skip);
    let end = start.addr() + bytes;
    while at.addr() < end {
        f(at);
        at = at.wrapping_add(LINE_BYTES as usize);
    }
}

/// Asks the processor to fetch the line at `addr`.
#[inline(always)]
pub(crate) fn prefetch_line(addr: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(addr.cast());
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{}]", in(reg) addr, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = addr;
}
