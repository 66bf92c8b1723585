//! NEON, which every aarch64 processor that runs Linux has.

use std::arch::aarch64::{
    vaddv_u8, vand_u8, vceqq_u8, vcombine_u8, vcreate_u8, vdupq_n_u8, vget_high_u8, vget_low_u8,
};

/// Byte `i` holds bit `i`: what is left of it after the comparison adds up to the mask.
const BITS: u64 = 0x8040_2010_0804_0201;

/// See [`match_byte`](super::match_byte).
#[inline(always)]
#[cfg_attr(target_endian = "big", allow(dead_code, reason = "lanes are numbered otherwise there"))]
pub(super) fn match_byte(words: [u64; 2], byte: u8) -> u16 {
    // SAFETY: NEON is part of the aarch64 baseline; the intrinsics touch no memory.
    unsafe {
        let bytes = vcombine_u8(vcreate_u8(words[0]), vcreate_u8(words[1]));
        let equal = vceqq_u8(bytes, vdupq_n_u8(byte));
        let bits = vcreate_u8(BITS);
        let low = vaddv_u8(vand_u8(vget_low_u8(equal), bits));
        let high = vaddv_u8(vand_u8(vget_high_u8(equal), bits));
        u16::from(low) | u16::from(high) << 8
    }
}
