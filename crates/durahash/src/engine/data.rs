//! Typed keys and values.
//!
//! A map whose key and value both fit a word is kept as words: the hash is a bijection of the key,
//! the payload is the value. All others are kept as records of bytes, where integers stand in
//! little-endian order.

use std::borrow::Borrow;
use std::fmt;

use durahash_media::Error;

mod sealed {
    pub trait Sealed {}
}

/// Types that can be keys and values of a [`Map`](crate::Map).
///
/// | type | owned as | kept as |
/// |---|---|---|
/// | `u8` to `u64`, `i8` to `i64`, `bool`, `char` | itself | word |
/// | `[u8; N]` with N ≤ 8 | itself | word |
/// | `[u8; N]` with N > 8, `u128`, `i128` | itself | bytes |
/// | `[u8]` | `Vec<u8>` | bytes |
/// | `str` | `String` | bytes |
///
/// A map is fastest if both its key and its value are words. The set is closed, because it is part
/// of the format of pools: a type of one's own is a newtype around a map of bytes.
///
/// ```
/// # use durahash::{Map, Options, Result};
/// # fn main() -> Result<()> {
/// let words: Map<u64, u64> = Options::new().in_memory()?;
/// words.put(&1, &2)?;
/// let texts: Map<str, [u8]> = Options::new().in_memory()?;
/// texts.put("key", b"value")?;
/// # Ok(())
/// # }
/// ```
pub trait Data: sealed::Sealed + 'static {
    /// The type that a map returns.
    type Owned: Borrow<Self> + Clone + fmt::Debug + Send + Sync + 'static;

    /// The type's name on the medium.
    #[doc(hidden)]
    const TYPE: Type;

    /// The value as a word, where [`Type::is_word`].
    #[doc(hidden)]
    fn to_word(&self) -> u64;

    /// The value of a word, if it is one.
    #[doc(hidden)]
    fn from_word(word: u64) -> Option<Self::Owned>;

    /// The value's bytes in a record; `room` is for those that have none of their own.
    #[doc(hidden)]
    fn bytes<'a>(&'a self, room: &'a mut [u8; 16]) -> &'a [u8];

    /// The value of bytes, if they are one, lent to `f`.
    #[doc(hidden)]
    fn with<R>(bytes: &[u8], f: impl FnOnce(&Self) -> R) -> Option<R>;

    /// The value of bytes, if they are one.
    #[doc(hidden)]
    fn from_bytes(bytes: &[u8]) -> Option<Self::Owned>;

    /// The same, where the bytes may be kept.
    #[doc(hidden)]
    fn from_vec(bytes: Vec<u8>) -> Option<Self::Owned> {
        Self::from_bytes(&bytes)
    }
}

/// Types of values that [`Map::fetch_add`](crate::Map::fetch_add) counts with: `u8` to `u128`, `i8` to `i128`.
pub trait Integer: Data<Owned = Self> + Copy {
    /// 0.
    #[doc(hidden)]
    const ZERO: Self;

    /// The sum, which wraps around.
    #[doc(hidden)]
    #[must_use]
    fn plus(self, by: Self) -> Self;
}

/// A type of keys or values, as a pool names it.
///
/// ```
/// use durahash::Type;
/// assert_eq!(Type::Array(5).to_string(), "[u8; 5]");
/// assert!(Type::U64.is_word() && !Type::Str.is_word());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Type {
    /// `bool`
    Bool,
    /// `char`
    Char,
    /// `u8`
    U8,
    /// `u16`
    U16,
    /// `u32`
    U32,
    /// `u64`
    U64,
    /// `u128`
    U128,
    /// `i8`
    I8,
    /// `i16`
    I16,
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `i128`
    I128,
    /// `[u8; N]`
    Array(u32),
    /// `[u8]`
    Bytes,
    /// `str`
    Str,
}

/// The types without a parameter, with their tags and names. Tags are part of the format.
const PLAIN: [(Type, u32, &str); 14] = [
    (Type::Bool, 1, "bool"),
    (Type::Char, 2, "char"),
    (Type::U8, 3, "u8"),
    (Type::U16, 4, "u16"),
    (Type::U32, 5, "u32"),
    (Type::U64, 6, "u64"),
    (Type::U128, 7, "u128"),
    (Type::I8, 8, "i8"),
    (Type::I16, 9, "i16"),
    (Type::I32, 10, "i32"),
    (Type::I64, 11, "i64"),
    (Type::I128, 12, "i128"),
    (Type::Bytes, 13, "bytes"),
    (Type::Str, 14, "str"),
];
/// The tag of arrays; their length stands above it.
const ARRAY: u32 = 15;

impl Type {
    /// True if values of this type fit a word.
    ///
    /// ```
    /// use durahash::Type;
    /// assert!(Type::U64.is_word() && Type::Array(8).is_word());
    /// assert!(!Type::Array(9).is_word() && !Type::Str.is_word());
    /// ```
    #[must_use]
    pub const fn is_word(self) -> bool {
        match self {
            Type::U128 | Type::I128 | Type::Bytes | Type::Str => false,
            Type::Array(bytes) => bytes <= 8,
            _ => true,
        }
    }

    /// How many bytes a value has in a record, where all have as many.
    ///
    /// ```
    /// use durahash::Type;
    /// assert_eq!((Type::U32.fixed_bytes(), Type::Bytes.fixed_bytes()), (Some(4), None));
    /// ```
    #[must_use]
    pub const fn fixed_bytes(self) -> Option<usize> {
        match self {
            Type::Bool | Type::U8 | Type::I8 => Some(1),
            Type::U16 | Type::I16 => Some(2),
            Type::Char | Type::U32 | Type::I32 => Some(4),
            Type::U64 | Type::I64 => Some(8),
            Type::U128 | Type::I128 => Some(16),
            Type::Array(bytes) => Some(bytes as usize),
            Type::Bytes | Type::Str => None,
        }
    }

    /// The tag in the superblock.
    pub(crate) fn tag(self) -> u32 {
        if let Type::Array(bytes) = self {
            return ARRAY | bytes << 8;
        }
        let plain = PLAIN.iter().find(|(ty, ..)| *ty == self);
        plain.expect("every type but arrays is listed").1
    }

    /// The type of a tag.
    pub(crate) fn from_tag(tag: u32) -> Option<Self> {
        if tag & 0xff == ARRAY {
            return Some(Type::Array(tag >> 8));
        }
        let plain = PLAIN.iter().find(|(_, known, _)| *known == tag);
        plain.map(|(ty, ..)| *ty)
    }
}

/// Runs `$body` with `$ty` as the type that `$of` names; arrays are for the caller.
macro_rules! with_type {
    ($of:expr, $ty:ident => $body:expr, array $bytes:ident => $array:expr) => {
        $crate::engine::data::with_type!(
            @($of, $ty => $body, $bytes => $array)
            Bool bool, Char char, U8 u8, U16 u16, U32 u32, U64 u64, U128 u128,
            I8 i8, I16 i16, I32 i32, I64 i64, I128 i128, Bytes [u8], Str str
        )
    };
    (@($of:expr, $ty:ident => $body:expr, $bytes:ident => $array:expr) $($name:ident $type:ty),*) => {
        match $of {
            $($crate::engine::data::Type::$name => {
                type $ty = $type;
                $body
            })*
            $crate::engine::data::Type::Array($bytes) => $array,
        }
    };
}
pub(crate) use with_type;

impl Type {
    /// True if a word is a value of this type.
    pub(crate) fn has_word(self, word: u64) -> bool {
        with_type!(self, T => T::from_word(word).is_some(),
            array bytes => bytes >= 8 || word >> (8 * bytes) == 0)
    }

    /// True if bytes are a value of this type.
    pub(crate) fn has_bytes(self, bytes: &[u8]) -> bool {
        with_type!(self, T => T::with(bytes, |_| ()).is_some(),
            array n => bytes.len() == n as usize)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Type::Array(bytes) = self {
            return write!(f, "[u8; {bytes}]");
        }
        let plain = PLAIN.iter().find(|(ty, ..)| ty == self);
        f.write_str(plain.expect("every type but arrays is listed").2)
    }
}

macro_rules! integers {
    ($($name:ident $ty:ident $unsigned:ident),*) => {$(
        impl sealed::Sealed for $ty {}
        impl Data for $ty {
            type Owned = $ty;
            const TYPE: Type = Type::$name;
            #[inline(always)]
            fn to_word(&self) -> u64 {
                // By way of the unsigned type, so that the sign does not spread.
                *self as $unsigned as u64
            }
            #[inline(always)]
            fn from_word(word: u64) -> Option<$ty> {
                $unsigned::try_from(word).ok().map(|v| v as $ty)
            }
            #[inline]
            fn bytes<'a>(&'a self, room: &'a mut [u8; 16]) -> &'a [u8] {
                let room = &mut room[..size_of::<$ty>()];
                room.copy_from_slice(&self.to_le_bytes());
                room
            }
            fn with<R>(bytes: &[u8], f: impl FnOnce(&Self) -> R) -> Option<R> {
                Some(f(&$ty::from_le_bytes(bytes.try_into().ok()?)))
            }
            fn from_bytes(bytes: &[u8]) -> Option<$ty> {
                Self::with(bytes, |v| *v)
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
    U8 u8 u8, U16 u16 u16, U32 u32 u32, U64 u64 u64, U128 u128 u128,
    I8 i8 u8, I16 i16 u16, I32 i32 u32, I64 i64 u64, I128 i128 u128
);

/// Types that are kept as an integer of which not every value is one of theirs.
macro_rules! as_integers {
    ($($name:ident $ty:ident $integer:ident $from:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Data for $ty {
            type Owned = $ty;
            const TYPE: Type = Type::$name;
            #[inline(always)]
            fn to_word(&self) -> u64 {
                u64::from(*self as $integer)
            }
            #[inline(always)]
            fn from_word(word: u64) -> Option<$ty> {
                $integer::from_word(word).and_then($from)
            }
            #[inline]
            fn bytes<'a>(&'a self, room: &'a mut [u8; 16]) -> &'a [u8] {
                let room = &mut room[..size_of::<$integer>()];
                room.copy_from_slice(&(*self as $integer).to_le_bytes());
                room
            }
            fn with<R>(bytes: &[u8], f: impl FnOnce(&Self) -> R) -> Option<R> {
                let v = $integer::with(bytes, |v| $from(*v))??;
                Some(f(&v))
            }
            fn from_bytes(bytes: &[u8]) -> Option<$ty> {
                Self::with(bytes, |v| *v)
            }
        }
    )*};
}

as_integers!(
    Bool bool u8 |v| (v <= 1).then_some(v == 1);
    Char char u32 char::from_u32;
);

impl<const N: usize> sealed::Sealed for [u8; N] {}
impl<const N: usize> Data for [u8; N] {
    type Owned = [u8; N];
    const TYPE: Type = {
        assert!(N < 1 << 24, "larger arrays are kept as [u8]");
        Type::Array(N as u32)
    };
    #[inline(always)]
    fn to_word(&self) -> u64 {
        let mut word = [0; 8];
        word[..N].copy_from_slice(self);
        u64::from_le_bytes(word)
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
    fn bytes<'a>(&'a self, _: &'a mut [u8; 16]) -> &'a [u8] {
        self
    }
    fn with<R>(bytes: &[u8], f: impl FnOnce(&Self) -> R) -> Option<R> {
        Some(f(bytes.try_into().ok()?))
    }
    fn from_bytes(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
}

/// The words of types that are never kept as one: no map asks for them.
macro_rules! never_words {
    () => {
        fn to_word(&self) -> u64 {
            unreachable!("{} is kept as bytes", Self::TYPE)
        }
        fn from_word(_: u64) -> Option<Self::Owned> {
            None
        }
    };
}

impl sealed::Sealed for [u8] {}
impl Data for [u8] {
    type Owned = Vec<u8>;
    const TYPE: Type = Type::Bytes;
    never_words!();
    #[inline]
    fn bytes<'a>(&'a self, _: &'a mut [u8; 16]) -> &'a [u8] {
        self
    }
    fn with<R>(bytes: &[u8], f: impl FnOnce(&Self) -> R) -> Option<R> {
        Some(f(bytes))
    }
    fn from_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }
    fn from_vec(bytes: Vec<u8>) -> Option<Vec<u8>> {
        Some(bytes)
    }
}

impl sealed::Sealed for str {}
impl Data for str {
    type Owned = String;
    const TYPE: Type = Type::Str;
    never_words!();
    #[inline]
    fn bytes<'a>(&'a self, _: &'a mut [u8; 16]) -> &'a [u8] {
        self.as_bytes()
    }
    fn with<R>(bytes: &[u8], f: impl FnOnce(&Self) -> R) -> Option<R> {
        Some(f(str::from_utf8(bytes).ok()?))
    }
    fn from_bytes(bytes: &[u8]) -> Option<String> {
        str::from_utf8(bytes).ok().map(str::to_owned)
    }
    fn from_vec(bytes: Vec<u8>) -> Option<String> {
        String::from_utf8(bytes).ok()
    }
}

/// A word that is no value of its type, or bytes that are none.
#[cold]
pub(crate) fn no_value() -> Error {
    Error::corrupt("bytes that are not a value of their type", 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: Data + PartialEq + fmt::Debug + ?Sized>(values: &[&T])
    where
        T::Owned: PartialEq,
    {
        for v in values {
            if T::TYPE.is_word() {
                let back = T::from_word(v.to_word()).unwrap();
                assert_eq!(back.borrow(), *v);
            }
            let mut room = [0; 16];
            let bytes = v.bytes(&mut room).to_vec();
            assert!(T::TYPE.fixed_bytes().is_none_or(|n| n == bytes.len()));
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
        round_trip::<i8>(&[&-1, &i8::MIN, &i8::MAX]);
        round_trip::<i16>(&[&-1, &i16::MIN]);
        round_trip::<i32>(&[&-1, &i32::MIN]);
        round_trip::<i64>(&[&-1, &i64::MIN]);
        round_trip::<i128>(&[&-1, &i128::MIN]);
        round_trip::<bool>(&[&true, &false]);
        round_trip::<char>(&[&'\0', &'é', &char::MAX]);
        round_trip::<[u8; 0]>(&[&[]]);
        round_trip::<[u8; 5]>(&[&[1, 2, 3, 4, 255]]);
        round_trip::<[u8; 8]>(&[&[255; 8]]);
        round_trip::<[u8; 9]>(&[&[7; 9]]);
        round_trip::<[u8]>(&[b"", b"bytes"]);
        round_trip::<str>(&["", "täxt"]);
    }

    #[test]
    fn what_is_no_value_is_refused() {
        assert_eq!(u8::from_word(256), None);
        assert_eq!(i8::from_word(u64::MAX), None);
        assert_eq!(bool::from_word(2), None);
        assert_eq!(char::from_word(0xd800), None);
        assert_eq!(<[u8; 5]>::from_word(1 << 40), None);
        assert_eq!(u64::from_bytes(&[0; 7]), None);
        assert_eq!(<[u8; 9]>::from_bytes(&[0; 8]), None);
        assert_eq!(bool::from_bytes(&[2]), None);
        assert_eq!(str::from_vec(vec![0xff]), None);
        assert_eq!(str::with(&[0xff], |_| ()), None);
    }

    #[test]
    fn tags_are_frozen_and_come_back() {
        for (ty, tag, name) in PLAIN {
            assert_eq!(ty.tag(), tag);
            assert_eq!(Type::from_tag(tag), Some(ty));
            assert_eq!(ty.to_string(), name);
        }
        assert_eq!(Type::Array(5).tag(), 15 | 5 << 8);
        assert_eq!(Type::from_tag(15 | 9 << 8), Some(Type::Array(9)));
        assert_eq!(Type::from_tag(0), None);
        assert_eq!(Type::from_tag(6 | 1 << 8), None);
    }
}
