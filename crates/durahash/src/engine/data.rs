//! Typed keys and values.
//!
//! A map whose key and value both fit a word is kept as words: the hash is a bijection of the key,
//! the payload is the value. All others are kept as bytes, in records or cells, where numbers stand in
//! little-endian order.

use std::borrow::Borrow;
use std::fmt;

use durahash_media::Error;

pub use self::types::{Expiring, Tuple, Type};

mod types;

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// Types that can be keys and values of a [`Map`](crate::Map).
///
/// | type | passed as | owned as | kept as |
/// |---|---|---|---|
/// | `u8` to `u64`, `i8` to `i64`, `bool`, `char`, `f32`, `f64` | itself | itself | word |
/// | `usize`, `isize` | itself | itself | word: `u64`, `i64` |
/// | `[u8; N]` with N ≤ 8 | itself | itself | word |
/// | tuples of two to four [words](Word) | itself | itself | word if they fit one, else bytes |
/// | `[u8; N]` with N > 8, `u128`, `i128` | itself | itself | bytes |
/// | `[u8]` or `Vec<u8>` | `[u8]` | `Vec<u8>` | bytes |
/// | [`Object`] | `[u8]` | `Vec<u8>` | bytes, as the package for Python writes its objects |
/// | `str` or `String` | `str` | `String` | bytes |
/// | `Plain<T>`: structs of fixed size, with the feature `zerocopy` | itself | itself | `[u8; N]` |
/// | `Serde<T>`: what serde can write, with the feature `serde` | itself | itself | `[u8]`, by postcard |
///
/// A map is fastest if both its key and its value are words, and second if both have a fixed size. The set is
/// closed, because it is part of the format of pools: a type of one's own goes into `Plain` or `Serde`, or is a
/// newtype around a map of bytes.
///
/// Keys are equal if their bits are: as keys, `0.0` and `-0.0` are two, and a NaN is found by its own bits.
///
/// ```
/// # use durahash::{Map, Options, Result};
/// # fn main() -> Result<()> {
/// let words: Map<u64, f64> = Options::new().in_memory()?;
/// words.put(&1, &0.5)?;
/// let edges: Map<(u32, u32), bool> = Options::new().in_memory()?;
/// edges.put(&(3, 4), &true)?;
/// let texts: Map<str, [u8]> = Options::new().in_memory()?;
/// texts.put("key", b"value")?;
/// // The same pool, by other names:
/// let texts: Map<String, Vec<u8>> = Options::new().in_memory()?;
/// texts.put("key", b"value")?;
/// # Ok(())
/// # }
/// ```
///
/// Of other types the compiler says what to write instead:
///
/// ```compile_fail,E0277
/// # use durahash::{Map, Options};
/// struct Point(u32, u32);
/// let points: Map<u64, Point> = Options::new().in_memory().unwrap();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a key or a value of a map",
    label = "not a type of keys and values",
    note = "for `&str` and `&[u8]` write `str` and `[u8]`: `Map<str, [u8]>`",
    note = "for a struct of fixed size write `durahash::Plain<T>` (feature `zerocopy`), for any type that serde \
            knows `durahash::Serde<T>` (feature `serde`)"
)]
pub trait Data: sealed::Sealed + 'static {
    /// The type that a map is called with: `str` for `String`, `[u8]` for `Vec<u8>`, else the same.
    type Ref: ?Sized;

    /// The type that a map returns.
    type Owned: Borrow<Self::Ref> + Clone + fmt::Debug + Send + Sync + 'static;

    /// Room for the bytes of values that have none of their own.
    #[doc(hidden)]
    type Buffer: Default;

    /// The type's name on the medium.
    #[doc(hidden)]
    const TYPE: Type;

    /// A value as a word, where [`Type::is_word`].
    #[doc(hidden)]
    fn to_word(value: &Self::Ref) -> u64;

    /// The value of a word, if it is one.
    #[doc(hidden)]
    fn from_word(word: u64) -> Option<Self::Owned>;

    /// A value's bytes in a record.
    #[doc(hidden)]
    fn bytes<'a>(value: &'a Self::Ref, buffer: &'a mut Self::Buffer) -> &'a [u8];

    /// The value of bytes, if they are one, lent to `f`.
    #[doc(hidden)]
    fn with<R>(bytes: &[u8], f: impl FnOnce(&Self::Ref) -> R) -> Option<R>;

    /// The value of bytes, if they are one.
    #[doc(hidden)]
    fn from_bytes(bytes: &[u8]) -> Option<Self::Owned>;

    /// The same, where the bytes may be kept.
    #[doc(hidden)]
    fn from_vec(bytes: Vec<u8>) -> Option<Self::Owned> {
        Self::from_bytes(&bytes)
    }
}

/// Types of values that [`Map::fetch_add`](crate::Map::fetch_add) counts with: `u8` to `u128`, `i8` to `i128`,
/// `usize`, `isize`.
pub trait Integer: Data<Ref = Self, Owned = Self> + Copy {
    /// 0.
    #[doc(hidden)]
    const ZERO: Self;

    /// The sum, which wraps around.
    #[doc(hidden)]
    #[must_use]
    fn plus(self, by: Self) -> Self;
}

/// Types that fit a word, of which tuples consist: integers of up to 64 bits, floats, `bool`, `char`, and `[u8; N]`
/// with N ≤ 8.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a part of a tuple that is a key or a value",
    note = "parts are integers of up to 64 bits, floats, `bool`, `char` and `[u8; N]` with N up to 8"
)]
pub trait Word: Data<Ref = Self, Owned = Self> + Copy + fmt::Debug + Send + Sync {}

/// Runs `$body` with `$ty` as the type that `$of` names; arrays, tuples and values that expire are for the caller.
macro_rules! with_type {
    (
        $of:expr, $ty:ident => $body:expr, array $bytes:ident => $array:expr, tuple => $tuple:expr,
        expiring $ex:ident => $expiring:expr
    ) => {
        $crate::engine::data::with_type!(
            @($of, $ty => $body, $bytes => $array, $tuple, $ex => $expiring)
            Bool bool, Char char, U8 u8, U16 u16, U32 u32, U64 u64, U128 u128,
            I8 i8, I16 i16, I32 i32, I64 i64, I128 i128, Bytes [u8], Str str,
            F32 f32, F64 f64, Object $crate::engine::data::Object
        )
    };
    (@(
        $of:expr, $ty:ident => $body:expr, $bytes:ident => $array:expr, $tuple:expr, $ex:ident => $expiring:expr
    ) $($name:ident $type:ty),*) => {
        match $of {
            $($crate::engine::data::Type::$name => {
                type $ty = $type;
                $body
            })*
            $crate::engine::data::Type::Array($bytes) => $array,
            $crate::engine::data::Type::Tuple(_) => $tuple,
            $crate::engine::data::Type::Expiring($ex) => $expiring,
        }
    };
}
pub(crate) use with_type;

impl Type {
    /// True if a word is a value of this type.
    pub(crate) fn has_word(self, word: u64) -> bool {
        let bytes = word.to_le_bytes();
        let (own, rest) = bytes.split_at(self.fixed_bytes().map_or(8, |bytes| bytes.min(8)));
        rest.iter().all(|b| *b == 0) && self.has_bytes(own)
    }

    /// True if bytes are a value of this type.
    pub(crate) fn has_bytes(self, bytes: &[u8]) -> bool {
        with_type!(self, T => T::with(bytes, |_| ()).is_some(),
            array n => bytes.len() == n as usize,
            tuple => self
                .parts(bytes)
                .is_some_and(|parts| parts.iter().all(|(ty, part)| ty.has_bytes(part))),
            expiring of => of
                .parts(bytes)
                .is_some_and(|(_, value)| of.value_type().has_bytes(value)))
    }
}

/// `$unsigned`: what a word holds, by way of which the sign does not spread; `$kept`: the integer of the format.
macro_rules! integers {
    ($($name:ident $ty:ident $kept:ident $unsigned:ident),*) => {$(
        impl sealed::Sealed for $ty {}
        impl Data for $ty {
            type Ref = $ty;
            type Owned = $ty;
            type Buffer = [u8; size_of::<$kept>()];
            const TYPE: Type = Type::$name;
            #[inline(always)]
            fn to_word(value: &$ty) -> u64 {
                *value as $unsigned as u64
            }
            #[inline(always)]
            fn from_word(word: u64) -> Option<$ty> {
                $ty::try_from($unsigned::try_from(word).ok()? as $kept).ok()
            }
            #[inline]
            fn bytes<'a>(value: &'a $ty, buffer: &'a mut Self::Buffer) -> &'a [u8] {
                *buffer = (*value as $kept).to_le_bytes();
                buffer
            }
            fn with<R>(bytes: &[u8], f: impl FnOnce(&$ty) -> R) -> Option<R> {
                Self::from_bytes(bytes).map(|v| f(&v))
            }
            fn from_bytes(bytes: &[u8]) -> Option<$ty> {
                $ty::try_from($kept::from_le_bytes(bytes.try_into().ok()?)).ok()
            }
        }
        impl Integer for $ty {
            const ZERO: Self = 0;
            fn plus(self, by: Self) -> Self {
                self.wrapping_add(by)
            }
        }
    )*};
}

integers!(
    U8 u8 u8 u8, U16 u16 u16 u16, U32 u32 u32 u32, U64 u64 u64 u64, U128 u128 u128 u128,
    I8 i8 i8 u8, I16 i16 i16 u16, I32 i32 i32 u32, I64 i64 i64 u64, I128 i128 i128 u128,
    U64 usize u64 u64, I64 isize i64 u64
);

/// Types that are kept as an integer, of which not every value need be one of theirs.
macro_rules! as_integers {
    ($($name:ident $ty:ident $integer:ident $to:expr, $from:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Data for $ty {
            type Ref = $ty;
            type Owned = $ty;
            type Buffer = [u8; size_of::<$integer>()];
            const TYPE: Type = Type::$name;
            #[inline(always)]
            fn to_word(value: &$ty) -> u64 {
                $integer::to_word(&$to(*value))
            }
            #[inline(always)]
            fn from_word(word: u64) -> Option<$ty> {
                $integer::from_word(word).and_then($from)
            }
            #[inline]
            fn bytes<'a>(value: &'a $ty, buffer: &'a mut Self::Buffer) -> &'a [u8] {
                *buffer = $to(*value).to_le_bytes();
                buffer
            }
            fn with<R>(bytes: &[u8], f: impl FnOnce(&$ty) -> R) -> Option<R> {
                Self::from_bytes(bytes).map(|v| f(&v))
            }
            fn from_bytes(bytes: &[u8]) -> Option<$ty> {
                $integer::from_bytes(bytes).and_then($from)
            }
        }
    )*};
}

as_integers!(
    Bool bool u8 u8::from, |v| (v <= 1).then_some(v == 1);
    Char char u32 u32::from, char::from_u32;
    F32 f32 u32 f32::to_bits, |bits| Some(f32::from_bits(bits));
    F64 f64 u64 f64::to_bits, |bits| Some(f64::from_bits(bits));
);

impl<const N: usize> sealed::Sealed for [u8; N] {}
impl<const N: usize> Data for [u8; N] {
    type Ref = [u8; N];
    type Owned = [u8; N];
    type Buffer = ();
    const TYPE: Type = {
        assert!(N < 1 << 24, "larger arrays are kept as [u8]");
        Type::Array(N as u32)
    };
    #[inline(always)]
    fn to_word(value: &[u8; N]) -> u64 {
        Type::word(value)
    }
    #[inline(always)]
    fn from_word(word: u64) -> Option<[u8; N]> {
        let word = word.to_le_bytes();
        let (bytes, rest) = word.split_at(N.min(8));
        if rest.iter().any(|b| *b != 0) {
            return None;
        }
        bytes.try_into().ok()
    }
    #[inline]
    fn bytes<'a>(value: &'a [u8; N], (): &'a mut ()) -> &'a [u8] {
        value
    }
    fn with<R>(bytes: &[u8], f: impl FnOnce(&[u8; N]) -> R) -> Option<R> {
        Some(f(bytes.try_into().ok()?))
    }
    fn from_bytes(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
}

macro_rules! words {
    ($($ty:ident)*) => {$(impl Word for $ty {})*};
}

words!(bool char u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32 f64);
impl<const N: usize> Word for [u8; N] {}

/// How many bytes a part of a tuple has.
const fn part_bytes<T: Word>() -> usize {
    match T::TYPE.fixed_bytes() {
        Some(bytes) => bytes,
        None => unreachable!(),
    }
}

/// Parts stand one behind the other, without gaps.
macro_rules! tuples {
    ($(($($T:ident $i:tt),*))*) => {$(
        impl<$($T: Word),*> sealed::Sealed for ($($T,)*) {}
        impl<$($T: Word),*> Data for ($($T,)*) {
            type Ref = Self;
            type Owned = Self;
            type Buffer = [u8; 8 * Tuple::PARTS_MAX];
            const TYPE: Type = Type::Tuple(Tuple::of(&[$($T::TYPE),*]));
            #[inline(always)]
            fn to_word(value: &Self) -> u64 {
                let (mut word, mut shift) = (0, 0);
                $(
                    // An empty array may stand at the end of a word.
                    word |= $T::to_word(&value.$i).unbounded_shl(shift);
                    shift += 8 * part_bytes::<$T>() as u32;
                )*
                debug_assert!(shift <= u64::BITS);
                word
            }
            #[inline(always)]
            fn from_word(word: u64) -> Option<Self> {
                let mut rest = word;
                let tuple = ($({
                    let bits = 8 * part_bytes::<$T>() as u32;
                    let own = rest & !u64::MAX.unbounded_shl(bits);
                    rest = rest.unbounded_shr(bits);
                    $T::from_word(own)?
                },)*);
                (rest == 0).then_some(tuple)
            }
            #[inline]
            fn bytes<'a>(value: &'a Self, buffer: &'a mut Self::Buffer) -> &'a [u8] {
                let mut end = 0;
                $(
                    let start = end;
                    end += part_bytes::<$T>();
                    let word = $T::to_word(&value.$i).to_le_bytes();
                    buffer[start..end].copy_from_slice(&word[..end - start]);
                )*
                &buffer[..end]
            }
            fn with<R>(bytes: &[u8], f: impl FnOnce(&Self) -> R) -> Option<R> {
                Self::from_bytes(bytes).map(|v| f(&v))
            }
            fn from_bytes(bytes: &[u8]) -> Option<Self> {
                let mut rest = bytes;
                let tuple = ($({
                    let (own, after) = rest.split_at_checked(part_bytes::<$T>())?;
                    rest = after;
                    $T::from_word(Type::word(own))?
                },)*);
                rest.is_empty().then_some(tuple)
            }
        }
    )*};
}

tuples!((A 0, B 1) (A 0, B 1, C 2) (A 0, B 1, C 2, D 3));

/// The words of types that are never kept as one: no map asks for them.
macro_rules! never_words {
    () => {
        fn to_word(_: &Self::Ref) -> u64 {
            unreachable!("{} is kept as bytes", Self::TYPE)
        }
        fn from_word(_: u64) -> Option<Self::Owned> {
            None
        }
    };
}
pub(crate) use never_words;

/// The type of an object of Python, whose bytes say what it is: the keys and values of the package's `durahash.Cache`. So
/// neither opens what the other wrote, that and a [`Cache`](crate::Cache) of bytes.
///
/// ```
/// use durahash::{Cache, Object, Options, Type};
/// let pages: Cache<Object, Object> = Options::new().in_memory()?;
/// pages.put(b"sa key", &[&b"i"[..], &7_u64.to_le_bytes()].concat())?;
/// assert_eq!(pages.stats()?.key_type, Type::Object);
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Debug)]
pub enum Object {}

/// `[u8]` and `str`, also by the names of what a map returns; an object.
macro_rules! unsized_data {
    ($($name:ident $of:ty, $owned:ty, $ty:ty, $bytes:expr, $with:expr, $from_vec:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Data for $ty {
            type Ref = $of;
            type Owned = $owned;
            type Buffer = ();
            const TYPE: Type = Type::$name;
            never_words!();
            #[inline]
            fn bytes<'a>(value: &'a $of, (): &'a mut ()) -> &'a [u8] {
                $bytes(value)
            }
            fn with<R>(bytes: &[u8], f: impl FnOnce(&$of) -> R) -> Option<R> {
                $with(bytes).map(f)
            }
            fn from_bytes(bytes: &[u8]) -> Option<$owned> {
                $with(bytes).map(<$of>::to_owned)
            }
            fn from_vec(bytes: Vec<u8>) -> Option<$owned> {
                $from_vec(bytes)
            }
        }
    )*};
}

unsized_data!(
    Bytes [u8], Vec<u8>, [u8], |v| v, Some, Some;
    Bytes [u8], Vec<u8>, Vec<u8>, |v| v, Some, Some;
    Object [u8], Vec<u8>, Object, |v| v, Some, Some;
    Str str, String, str, str::as_bytes, as_str, |v| String::from_utf8(v).ok();
    Str str, String, String, str::as_bytes, as_str, |v| String::from_utf8(v).ok();
);

fn as_str(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes).ok()
}

/// A word that is no value of its type, or bytes that are none.
#[cold]
pub(crate) fn no_value() -> Error {
    Error::corrupt("bytes that are not a value of their type", 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: Data + ?Sized>(values: &[&T::Ref])
    where
        T::Ref: PartialEq + fmt::Debug,
        T::Owned: PartialEq,
    {
        for v in values {
            if T::TYPE.is_word() {
                let word = T::to_word(v);
                let back = T::from_word(word).unwrap();
                assert_eq!(back.borrow(), *v);
                assert!(T::TYPE.has_word(word));
            }
            let mut buffer = T::Buffer::default();
            let bytes = T::bytes(v, &mut buffer).to_vec();
            assert!(T::TYPE.has_bytes(&bytes));
            assert!(T::TYPE.fixed_bytes().is_none_or(|n| n == bytes.len()));
            assert!(!T::TYPE.is_word() || Type::word(&bytes) == T::to_word(v));
            assert_eq!(T::with(&bytes, |back| back == *v), Some(true));
            assert_eq!(T::from_bytes(&bytes).unwrap().borrow(), *v);
            assert_eq!(T::from_vec(bytes).unwrap().borrow(), *v);
        }
    }

    #[test]
    fn values_come_back() {
        round_trip::<u8>(&[&0, &255]);
        round_trip::<u16>(&[&0, &u16::MAX]);
        round_trip::<u32>(&[&0, &u32::MAX]);
        round_trip::<u64>(&[&0, &1, &u64::MAX]);
        round_trip::<u128>(&[&0, &u128::MAX]);
        round_trip::<usize>(&[&0, &usize::MAX]);
        round_trip::<i8>(&[&-1, &i8::MIN, &i8::MAX]);
        round_trip::<i16>(&[&-1, &i16::MIN]);
        round_trip::<i32>(&[&-1, &i32::MIN]);
        round_trip::<i64>(&[&-1, &i64::MIN]);
        round_trip::<i128>(&[&-1, &i128::MIN]);
        round_trip::<isize>(&[&-1, &isize::MIN]);
        round_trip::<bool>(&[&true, &false]);
        round_trip::<char>(&[&'\0', &'é', &char::MAX]);
        round_trip::<f32>(&[&0.0, &-1.5, &f32::MAX]);
        round_trip::<f64>(&[&0.0, &-1.5, &f64::NEG_INFINITY]);
        round_trip::<[u8; 0]>(&[&[]]);
        round_trip::<[u8; 5]>(&[&[1, 2, 3, 4, 255]]);
        round_trip::<[u8; 8]>(&[&[255; 8]]);
        round_trip::<[u8; 9]>(&[&[7; 9]]);
        round_trip::<(u32, u32)>(&[&(1, u32::MAX)]);
        round_trip::<(i16, bool, f32)>(&[&(-1, true, 0.25)]);
        round_trip::<(u64, [u8; 0])>(&[&(u64::MAX, [])]);
        round_trip::<(u64, char)>(&[&(u64::MAX, 'é')]);
        round_trip::<(u64, i64, f64, [u8; 8])>(&[&(1, -1, 1.0, [9; 8])]);
        round_trip::<[u8]>(&[b"", b"bytes"]);
        round_trip::<Vec<u8>>(&[b"", b"bytes"]);
        round_trip::<str>(&["", "täxt"]);
        round_trip::<String>(&["", "täxt"]);
    }

    #[test]
    fn bits_of_floats_are_kept() {
        let nan = f64::from_bits(0x7ff8_0000_0000_1234);
        assert_eq!(f64::from_word(f64::to_word(&nan)).unwrap().to_bits(), nan.to_bits());
        assert_ne!(f64::to_word(&0.0), f64::to_word(&-0.0));
        assert_eq!(f32::from_word(1 << 32), None);
    }

    #[test]
    fn tuples_of_eight_bytes_are_words() {
        assert_eq!(<(u64, u64, u64, u64)>::TYPE.fixed_bytes(), Some(32));
        assert!(<(u32, u32)>::TYPE.is_word() && !<(u32, u64)>::TYPE.is_word());
    }

    #[test]
    fn other_bytes_are_refused() {
        assert_eq!(u8::from_word(256), None);
        assert_eq!(i8::from_word(u64::MAX), None);
        assert_eq!(bool::from_word(2), None);
        assert_eq!(char::from_word(0xd800), None);
        assert_eq!(<[u8; 5]>::from_word(1 << 40), None);
        assert_eq!(u64::from_bytes(&[0; 7]), None);
        assert_eq!(<[u8; 9]>::from_bytes(&[0; 8]), None);
        assert_eq!(bool::from_bytes(&[2]), None);
        assert_eq!(str::from_vec(vec![0xff]), None);
        assert_eq!(String::from_vec(vec![0xff]), None);
        assert_eq!(str::with(&[0xff], |_| ()), None);
        assert_eq!(<(u8, bool)>::from_word(0x0200), None);
        assert_eq!(<(u8, bool)>::from_word(0x1_0000), None);
        assert_eq!(<(u8, u64)>::from_bytes(&[0; 8]), None);
        assert_eq!(<(u8, u64)>::from_bytes(&[0; 10]), None);
        assert!(!<(u8, bool)>::TYPE.has_word(0x0200));
        assert!(!<(u64, bool)>::TYPE.has_bytes(&[2; 9]));
        assert!(!<(u64, bool)>::TYPE.has_bytes(&[0; 8]));
    }
}
