//! Words on a medium, and structs made of them.
//!
//! Everything that lies on a medium is built from [`PmU64`], an 8-byte word whose cell is private:
//! only a [`Medium`](crate::Medium) can load or store it. A struct of such words is declared with
//! [`on_media!`](crate::on_media). Therefore any bytes are a valid struct, a reader that races a
//! writer is defined behaviour, and the failure-atomic unit is the only unit there is.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// An 8-byte, 8-byte-aligned word on a medium: the unit of failure atomicity.
///
/// It can be loaded and stored only through a [`Medium`](crate::Medium).
#[repr(transparent)]
pub struct PmU64(AtomicU64);

impl PmU64 {
    /// Bytes of a word.
    pub const BYTES: usize = 8;

    /// A word that lies on no medium.
    #[cfg(any(test, feature = "sim"))]
    pub(crate) fn new(v: u64) -> Self {
        PmU64(AtomicU64::new(v))
    }

    #[inline(always)]
    pub(crate) fn load(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn store(&self, v: u64) {
        self.0.store(v, Ordering::Release);
    }

    #[inline(always)]
    pub(crate) fn cas(&self, old: u64, new: u64) -> Result<u64, u64> {
        // In one order with the closing of a pool's gate, where the word is a lock.
        self.0.compare_exchange(old, new, Ordering::SeqCst, Ordering::Acquire)
    }

    #[inline(always)]
    pub(crate) fn fetch_add(&self, n: u64) -> u64 {
        self.0.fetch_add(n, Ordering::AcqRel)
    }

    /// Has the system make its page one that can be written, and changes nothing.
    #[inline(always)]
    pub(crate) fn touch(&self) {
        // A compiler that knew the zero would leave out the store.
        self.0.fetch_or(black_box(0), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn addr(&self) -> *const u8 {
        std::ptr::from_ref(self).cast()
    }
}

/// Name, offset and size in bytes of one field of a struct on a medium; `docs/format.md` is held
/// to these by a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name in the source.
    pub name: &'static str,
    /// Bytes from the start of the struct.
    pub offset: usize,
    /// Bytes that the field takes.
    pub bytes: usize,
}

/// Types that may be laid over the bytes of a medium.
///
/// # Safety
/// Implementors consist of [`PmU64`] words only, without padding, so that every bit pattern is
/// valid. [`on_media!`](crate::on_media) implements this and checks it.
pub unsafe trait OnMedia {}

// SAFETY: a word is one atomic cell; every bit pattern is a valid u64.
unsafe impl OnMedia for PmU64 {}
// SAFETY: an array has no padding between its elements.
unsafe impl<T: OnMedia, const N: usize> OnMedia for [T; N] {}
// SAFETY: as for arrays.
unsafe impl<T: OnMedia> OnMedia for [T] {}

/// Declares structs on a medium: `#[repr(C)]`, of words and arrays of words only, with their size
/// and alignment checked at compile time and their fields listed in `FIELDS`.
///
/// ```
/// durahash_media::on_media! {
///     /// A slot: hash and payload.
///     pub struct Slot: 16, align 16 {
///         /// The hash.
///         pub h: durahash_media::PmU64,
///         /// The payload.
///         pub payload: durahash_media::PmU64,
///     }
/// }
/// assert_eq!(Slot::FIELDS[1].offset, 8);
/// ```
#[macro_export]
macro_rules! on_media {
    ($($(#[$meta:meta])* $vis:vis struct $name:ident : $size:literal, align $align:literal {
        $($(#[$fmeta:meta])* $fvis:vis $field:ident : $ty:ty),* $(,)?
    })*) => {$(
        $(#[$meta])*
        #[repr(C, align($align))]
        $vis struct $name { $($(#[$fmeta])* $fvis $field: $ty),* }

        impl $name {
            /// The fields with their offsets and sizes, in bytes.
            $vis const FIELDS: &'static [$crate::Field] = &[$($crate::Field {
                name: stringify!($field),
                offset: ::core::mem::offset_of!($name, $field),
                bytes: ::core::mem::size_of::<$ty>(),
            }),*];
        }

        const _: () = {
            assert!(::core::mem::size_of::<$name>() == $size, "size differs from the declared one");
            assert!(0 $(+ ::core::mem::size_of::<$ty>())* == $size, "padding is not allowed");
            const fn words_only<T: $crate::OnMedia + ?Sized>() {}
            $(words_only::<$ty>();)*
        };

        // SAFETY: all fields are OnMedia and their sizes add up to the struct's: no padding.
        unsafe impl $crate::OnMedia for $name {}
    )*};
}

/// Loads `dst.len()` bytes that begin `skip` bytes into `src`.
#[inline]
pub(crate) fn copy_out(
    src: &[PmU64],
    skip: usize,
    mut dst: &mut [u8],
    load: impl Fn(&PmU64) -> u64,
) {
    let (mut at, lead) = (skip / 8, skip % 8);
    if lead != 0 && !dst.is_empty() {
        let word = load(&src[at]).to_le_bytes();
        let n = dst.len().min(8 - lead);
        dst[..n].copy_from_slice(&word[lead..lead + n]);
        dst = &mut dst[n..];
        at += 1;
    }
    let (words, rest) = dst.as_chunks_mut::<8>();
    for bytes in words {
        *bytes = load(&src[at]).to_le_bytes();
        at += 1;
    }
    if !rest.is_empty() {
        let word = load(&src[at]).to_le_bytes();
        let n = rest.len();
        rest.copy_from_slice(&word[..n]);
    }
}

/// The bits `lo .. lo + count` of a word, as a number.
#[inline(always)]
#[must_use]
pub const fn bits(word: u64, lo: u32, count: u32) -> u64 {
    (word >> lo) & (u64::MAX >> (64 - count))
}
