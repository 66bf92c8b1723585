//! Sixteen bytes as two words: no vector instructions.

const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const LOW_SEVEN: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// See [`match_byte`](super::match_byte).
#[inline(always)]
#[cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    allow(dead_code, reason = "the tests hold the vector back ends to this one")
)]
pub(super) fn match_byte(words: [u64; 2], byte: u8) -> u16 {
    let [low, high] = words.map(|word| match_word(word, byte));
    low | high << 8
}

#[inline(always)]
fn match_word(word: u64, byte: u8) -> u16 {
    let differs = word ^ (LOW_BITS * u64::from(byte));
    // The top bit of each byte of the sum says whether any of its low seven bits is set; no carry
    // leaves a byte, so every byte is judged on its own.
    let zero = !(((differs & LOW_SEVEN) + LOW_SEVEN) | differs | LOW_SEVEN);
    // Moves bit 8 * i to bit 56 + i. No two products share a bit, so nothing carries.
    ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u16
}
