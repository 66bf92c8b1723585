//! Values that expire: bytes with a word before them that says when, in milliseconds since 1970; 0 is never.

use std::marker::PhantomData;

use super::data::{Data, Expiring, Type, never_words, sealed};

/// The expiry of a value that has none.
pub(crate) const NEVER: u64 = 0;

/// A value of type `V` behind its expiry. A map of such values deals with the bytes of both.
pub(crate) struct Timed<V: ?Sized>(PhantomData<fn(&V)>);

impl<V: Data + ?Sized> sealed::Sealed for Timed<V> {}
impl<V: Data + ?Sized> Data for Timed<V> {
    type Ref = [u8];
    type Owned = Vec<u8>;
    type Buffer = ();
    const TYPE: Type = Type::Expiring(Expiring::of(V::TYPE));
    never_words!();
    #[inline]
    fn bytes<'a>(value: &'a [u8], (): &'a mut ()) -> &'a [u8] {
        value
    }
    fn with<R>(bytes: &[u8], f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        Some(f(bytes))
    }
    fn from_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
    fn from_vec(bytes: Vec<u8>) -> Option<Vec<u8>> {
        Some(bytes)
    }
}

/// The expiry of a value's bytes, and the value behind it.
#[inline]
pub(crate) fn split(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (expiry, value) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*expiry), value))
}

/// True if a value with this expiry is there no more.
#[inline]
pub(crate) fn is_over(expiry: u64, now: u64) -> bool {
    expiry != NEVER && expiry <= now
}
