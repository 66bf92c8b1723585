//! That a medium costs nothing where it need not: a load and a store on [`Dram`] and [`Mapped`] are
//! the plain instructions, and nothing is left of a flush, fence, drain, event or question about the
//! order within a line on [`Dram`].
//!
//! The functions here are compiled as the code that uses a medium is, so this holds for optimised
//! builds, which all profiles of this workspace are.
#![cfg(all(target_arch = "x86_64", not(miri)))]

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Dram, Event, Mapped, Memory};
use crate::word::PmU64;

#[inline(never)]
fn load<M: Memory>(medium: &M, word: &PmU64) -> u64 {
    medium.load(word)
}

#[inline(never)]
fn plain_load(_: &u8, word: &AtomicU64) -> u64 {
    word.load(Ordering::Acquire)
}

#[inline(never)]
fn store<M: Memory>(medium: &M, word: &PmU64, v: u64) {
    medium.store(word, v);
}

#[inline(never)]
fn plain_store(_: &u8, word: &AtomicU64, v: u64) {
    word.store(v, Ordering::Release);
}

#[inline(never)]
fn persist<M: Memory>(medium: &M, word: &PmU64) {
    medium.event(Event::Begin);
    if !medium.same_line_order() {
        medium.store(word, 0);
    }
    medium.flush(word);
    medium.fence();
    medium.flush_fresh(word);
    medium.drain();
    medium.event(Event::Ack);
}

#[inline(never)]
fn nothing(_: &u8, _: &AtomicU64) {}

/// The machine code of a function, up to its first return: what these functions are made of has no
/// byte of that value inside an instruction.
fn code(function: *const ()) -> Vec<u8> {
    const RET: u8 = 0xc3;
    const LONGEST: usize = 64;
    let mut code = Vec::new();
    while code.last() != Some(&RET) {
        assert!(code.len() < LONGEST, "no return found: {code:x?}");
        // SAFETY: a function's code is readable memory, and ends with a return at the latest.
        code.push(unsafe { function.cast::<u8>().add(code.len()).read() });
    }
    code
}

#[test]
fn a_load_or_store_is_the_plain_instruction() {
    let plain = code(plain_load as *const ());
    // mov rax, [rsi]; ret
    assert_eq!(plain, [0x48, 0x8b, 0x06, 0xc3]);
    assert_eq!(code(load::<Dram> as *const ()), plain);
    assert_eq!(code(load::<Mapped> as *const ()), plain);

    let plain = code(plain_store as *const ());
    // mov [rsi], rdx; ret
    assert_eq!(plain, [0x48, 0x89, 0x16, 0xc3]);
    assert_eq!(code(store::<Dram> as *const ()), plain);
    assert_eq!(code(store::<Mapped> as *const ()), plain);

    let plain = code(nothing as *const ());
    assert_eq!(plain, [0xc3]);
    assert_eq!(code(persist::<Dram> as *const ()), plain);
}
