//! Write-back instructions, chosen once for the processor, and the fence that goes with
//! them.
//!
//! They are inline assembly because no stable intrinsic exists for most of them. None is declared
//! `nomem`, so the compiler keeps earlier stores before them and later ones behind.

use crate::word::PmU64;

/// The instruction that starts the write-back of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteBack {
    /// Writes back and may keep the line.
    #[cfg(target_arch = "x86_64")]
    Clwb,
    /// Writes back and drops the line.
    #[cfg(target_arch = "x86_64")]
    ClflushOpt,
    /// As `ClflushOpt`, one after the other; every x86-64 processor has it.
    #[cfg(target_arch = "x86_64")]
    Clflush,
    /// Cleans the line to the point of persistence.
    #[cfg(target_arch = "aarch64")]
    DcCvap,
}

impl WriteBack {
    /// The best instruction of this processor; `None` where there is none that reaches persistent
    /// memory.
    #[cfg(target_arch = "x86_64")]
    pub(crate) fn detect() -> Option<Self> {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        const CLFLUSHOPT: u32 = 1 << 23;
        const CLWB: u32 = 1 << 24;
        #[allow(unused_unsafe, reason = "safe functions in newer versions of the standard library")]
        // SAFETY: every x86-64 processor has the instruction.
        let features = unsafe { if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 } };
        Some(if features & CLWB != 0 {
            WriteBack::Clwb
        } else if features & CLFLUSHOPT != 0 {
            WriteBack::ClflushOpt
        } else {
            WriteBack::Clflush
        })
    }

    /// The best instruction of this processor; `None` where there is none that reaches persistent
    /// memory.
    #[cfg(target_arch = "aarch64")]
    pub(crate) fn detect() -> Option<Self> {
        std::arch::is_aarch64_feature_detected!("dpb").then_some(WriteBack::DcCvap)
    }

    /// The best instruction of this processor; `None` where there is none that reaches persistent
    /// memory.
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    pub(crate) fn detect() -> Option<Self> {
        None
    }

    /// Starts the write-back of the line at `line`, which belongs to a live object.
    #[inline(always)]
    pub(crate) fn line(self, line: *const u8) {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        macro_rules! of_line {
            ($instruction:literal) => {
                // SAFETY: the processor has it (`detect`); writing back changes no contents.
                unsafe {
                    std::arch::asm!($instruction, in(reg) line, options(nostack, preserves_flags));
                }
            };
        }
        match self {
            #[cfg(target_arch = "x86_64")]
            WriteBack::Clwb => of_line!("clwb [{}]"),
            #[cfg(target_arch = "x86_64")]
            WriteBack::ClflushOpt => of_line!("clflushopt [{}]"),
            #[cfg(target_arch = "x86_64")]
            WriteBack::Clflush => of_line!("clflush [{}]"),
            // The system instruction: assemblers want an extension enabled for its name, `dc cvap`.
            #[cfg(target_arch = "aarch64")]
            WriteBack::DcCvap => of_line!("sys #3, c7, c12, #1, {}"),
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            _ => debug_assert!(!line.is_null()),
        }
    }
}

/// Orders and waits: lines that this thread wrote back before are durable before anything that it
/// stores after.
#[inline(always)]
pub(crate) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a fence touches no memory.
    unsafe {
        std::arch::asm!("sfence", options(nostack, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a barrier touches no memory.
    unsafe {
        std::arch::asm!("dsb sy", options(nostack, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

/// Stores `v` past the cache where the processor can. It is durable after the next [`fence`], and
/// until then in no order with other stores, for other threads either.
///
/// Where there is no such store, a plain one and its write-back do the same.
#[inline(always)]
pub(crate) fn store_nt(write_back: Option<WriteBack>, word: &PmU64, v: u64) {
    #[cfg(target_arch = "x86_64")]
    {
        let _ = write_back;
        // SAFETY: the word is a live, aligned cell that may be changed through a shared reference;
        // an aligned store of 8 bytes is single-copy atomic.
        unsafe {
            std::arch::asm!("movnti [{}], {}", in(reg) word.addr(), in(reg) v, options(nostack, preserves_flags));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        word.store(v);
        if let Some(write_back) = write_back {
            write_back.line(word.addr());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(align(64))]
    struct Lines([PmU64; 24]);

    #[test]
    fn every_instruction_of_this_processor_leaves_the_bytes_alone() {
        let mut all: Vec<_> = WriteBack::detect().into_iter().collect();
        #[cfg(target_arch = "x86_64")]
        {
            // A processor that has a better one has the ones before it.
            if all.contains(&WriteBack::Clwb) {
                all.push(WriteBack::ClflushOpt);
            }
            all.push(WriteBack::Clflush);
        }
        all.dedup();
        // SAFETY: words are valid whatever their bits.
        let lines: Box<Lines> = Box::new(unsafe { std::mem::zeroed() });
        for (i, write_back) in all.into_iter().enumerate() {
            for (k, word) in lines.0.iter().enumerate() {
                word.store((i * 100 + k) as u64);
            }
            for word in lines.0.iter().step_by(8) {
                write_back.line(word.addr());
            }
            fence();
            for (k, word) in lines.0.iter().enumerate() {
                assert_eq!(word.load(), (i * 100 + k) as u64, "{write_back:?}");
            }
        }
    }

    #[test]
    fn a_non_temporal_store_is_read_back() {
        // SAFETY: words are valid whatever their bits.
        let lines: Box<Lines> = Box::new(unsafe { std::mem::zeroed() });
        for (k, word) in lines.0.iter().enumerate() {
            store_nt(WriteBack::detect(), word, k as u64 + 1);
        }
        fence();
        let found: Vec<u64> = lines.0.iter().map(PmU64::load).collect();
        assert_eq!(found, (1..=24).collect::<Vec<u64>>());
    }
}
