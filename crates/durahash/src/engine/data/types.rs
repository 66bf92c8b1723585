//! The names of types: what a pool's superblock says of keys and values.

use std::fmt;

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
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// [`Object`](crate::Object)
    Object,
    /// A tuple of words
    Tuple(Tuple),
    /// The values of a [`Cache`](crate::Cache)
    Expiring(Expiring),
}

/// The types without a parameter.
const PLAIN: [Type; 17] = [
    Type::Bool,
    Type::Char,
    Type::U8,
    Type::U16,
    Type::U32,
    Type::U64,
    Type::U128,
    Type::I8,
    Type::I16,
    Type::I32,
    Type::I64,
    Type::I128,
    Type::Bytes,
    Type::Str,
    Type::F32,
    Type::F64,
    Type::Object,
];
/// The tag of arrays; their length stands above it.
const ARRAY: u32 = 15;
/// The tag of tuples; their parts stand above it.
const TUPLE: u32 = 18;

/// The flag of a tag whose values have the time before them at which they expire.
const EXPIRING: u32 = 1 << 7;

/// The values of a [`Cache`](crate::Cache): each has a word before it that says when it expires.
///
/// ```
/// use durahash::{Cache, Options, Type};
/// let cache: Cache<str, u32> = Options::new().in_memory()?;
/// let Type::Expiring(of) = cache.stats()?.value_type else { unreachable!() };
/// assert_eq!(of.value_type(), Type::U32);
/// assert_eq!(Type::Expiring(of).to_string(), "expiring u32");
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Expiring(u32);

impl Expiring {
    /// Bytes of the word.
    pub(crate) const BYTES: usize = size_of::<u64>();

    pub(crate) const fn of(value: Type) -> Self {
        assert!(!matches!(value, Type::Expiring(_)), "values expire once");
        Expiring(value.tag())
    }

    /// The type without the word.
    #[must_use]
    pub const fn value_type(self) -> Type {
        match self.0 & 0xff {
            ARRAY => Type::Array(self.0 >> 8),
            TUPLE => Type::Tuple(Tuple(self.0 >> 8)),
            tag => match Type::of_tag(tag) {
                Some(ty) => ty,
                None => unreachable!(),
            },
        }
    }

    /// The word of a value's bytes, and the value behind it.
    pub(crate) fn parts(self, bytes: &[u8]) -> Option<(u64, &[u8])> {
        let (word, value) = bytes.split_first_chunk()?;
        Some((u64::from_le_bytes(*word), value))
    }
}

/// The parts of a tuple, which are words.
///
/// ```
/// use durahash::{Map, Options, Type};
/// let edges: Map<(u32, u32), bool> = Options::new().in_memory()?;
/// let Type::Tuple(parts) = edges.stats()?.key_type else { unreachable!() };
/// assert!(parts.types().eq([Type::U32; 2]));
/// assert_eq!(Type::Tuple(parts).to_string(), "(u32, u32)");
/// # Ok::<(), durahash::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tuple(u32);

impl Tuple {
    /// Bits of a part's code: the tag of its type, or [`OF_ARRAY`](Self::OF_ARRAY) and an array's length.
    const CODE_BITS: u32 = 6;
    const OF_ARRAY: u32 = 32;
    pub(super) const PARTS_MAX: usize = 4;

    pub(super) const fn of(types: &[Type]) -> Self {
        let (mut codes, mut i) = (0, 0);
        while i < types.len() {
            let code = match (types[i], types[i].plain()) {
                (Type::Array(bytes), _) => Self::OF_ARRAY + bytes,
                (_, Some((tag, _))) => tag,
                _ => panic!("a part of a tuple is no tuple"),
            };
            assert!(types[i].is_word(), "a part of a tuple has at most eight bytes");
            codes |= code << (Self::CODE_BITS * i as u32);
            i += 1;
        }
        Tuple(codes)
    }

    /// The parts of these codes, if they are two to four words.
    fn from_codes(codes: u32) -> Option<Self> {
        let tuple = Tuple(codes);
        let types: Vec<Type> = tuple.types().collect();
        let known =
            types.len() >= 2 && types.iter().all(|ty| ty.is_word()) && Self::of(&types) == tuple;
        known.then_some(tuple)
    }

    const fn part(self, i: usize) -> Option<Type> {
        if i >= Self::PARTS_MAX {
            return None;
        }
        let code = self.0 >> (Self::CODE_BITS * i as u32) & ((1 << Self::CODE_BITS) - 1);
        if code >= Self::OF_ARRAY {
            Some(Type::Array(code - Self::OF_ARRAY))
        } else {
            Type::of_tag(code)
        }
    }

    /// The types of the parts, in their order.
    pub fn types(self) -> impl Iterator<Item = Type> {
        (0..Self::PARTS_MAX).map_while(move |i| self.part(i))
    }

    const fn bytes(self) -> usize {
        let (mut bytes, mut i) = (0, 0);
        while let Some(part) = self.part(i) {
            if let Some(of_part) = part.fixed_bytes() {
                bytes += of_part;
            }
            i += 1;
        }
        bytes
    }
}

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
            Type::U128 | Type::I128 | Type::Expiring(_) => false,
            Type::Bytes | Type::Str | Type::Object => false,
            Type::Array(bytes) => bytes <= 8,
            Type::Tuple(parts) => parts.bytes() <= 8,
            _ => true,
        }
    }

    /// True if it is of a word and the time at which that expires.
    pub(crate) const fn is_expiring_word(self) -> bool {
        match self {
            Type::Expiring(of) => of.value_type().is_word(),
            _ => false,
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
            Type::Char | Type::U32 | Type::I32 | Type::F32 => Some(4),
            Type::U64 | Type::I64 | Type::F64 => Some(8),
            Type::U128 | Type::I128 => Some(16),
            Type::Tuple(parts) => Some(parts.bytes()),
            Type::Array(bytes) => Some(bytes as usize),
            Type::Expiring(of) => match of.value_type().fixed_bytes() {
                Some(bytes) => Some(Expiring::BYTES + bytes),
                None => None,
            },
            Type::Bytes | Type::Str | Type::Object => None,
        }
    }

    /// The tag and the name of a type without a parameter. Tags are part of the format.
    const fn plain(self) -> Option<(u32, &'static str)> {
        Some(match self {
            Type::Bool => (1, "bool"),
            Type::Char => (2, "char"),
            Type::U8 => (3, "u8"),
            Type::U16 => (4, "u16"),
            Type::U32 => (5, "u32"),
            Type::U64 => (6, "u64"),
            Type::U128 => (7, "u128"),
            Type::I8 => (8, "i8"),
            Type::I16 => (9, "i16"),
            Type::I32 => (10, "i32"),
            Type::I64 => (11, "i64"),
            Type::I128 => (12, "i128"),
            Type::Bytes => (13, "bytes"),
            Type::Str => (14, "str"),
            Type::F32 => (16, "f32"),
            Type::F64 => (17, "f64"),
            Type::Object => (19, "Python object"),
            Type::Array(_) | Type::Tuple(_) | Type::Expiring(_) => return None,
        })
    }

    /// The type without a parameter that has this tag.
    const fn of_tag(tag: u32) -> Option<Self> {
        let mut i = 0;
        while i < PLAIN.len() {
            if let Some((known, _)) = PLAIN[i].plain()
                && known == tag
            {
                return Some(PLAIN[i]);
            }
            i += 1;
        }
        None
    }

    /// The tag in the superblock.
    pub(crate) const fn tag(self) -> u32 {
        match (self, self.plain()) {
            (Type::Array(bytes), _) => ARRAY | bytes << 8,
            (Type::Tuple(parts), _) => TUPLE | parts.0 << 8,
            (Type::Expiring(of), _) => EXPIRING | of.0,
            (_, Some((tag, _))) => tag,
            (_, None) => 0,
        }
    }

    /// The type of a tag.
    pub(crate) fn from_tag(tag: u32) -> Option<Self> {
        if tag & EXPIRING != 0 {
            return Type::from_tag(tag ^ EXPIRING).map(|ty| Type::Expiring(Expiring::of(ty)));
        }
        match tag & 0xff {
            ARRAY => Some(Type::Array(tag >> 8)),
            TUPLE => Tuple::from_codes(tag >> 8).map(Type::Tuple),
            _ => Self::of_tag(tag),
        }
    }

    /// A word of a value's bytes, of which there are at most eight. All types that are words stand in it from its
    /// low end on.
    pub(crate) fn word(bytes: &[u8]) -> u64 {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    }

    /// The parts of a tuple's bytes, if they are one.
    pub(crate) fn parts(self, bytes: &[u8]) -> Option<Vec<(Type, &[u8])>> {
        let Type::Tuple(tuple) = self else { return None };
        let (mut parts, mut rest) = (Vec::new(), bytes);
        for ty in tuple.types() {
            let (own, after) = rest.split_at_checked(ty.fixed_bytes()?)?;
            parts.push((ty, own));
            rest = after;
        }
        rest.is_empty().then_some(parts)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Array(bytes) => write!(f, "[u8; {bytes}]"),
            Type::Tuple(parts) => {
                let names: Vec<String> = parts.types().map(|ty| ty.to_string()).collect();
                write!(f, "({})", names.join(", "))
            }
            Type::Expiring(of) => write!(f, "expiring {}", of.value_type()),
            _ => f.write_str(self.plain().map_or("", |(_, name)| name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_frozen_and_come_back() {
        let tags = PLAIN.map(|ty| ty.tag());
        assert_eq!(tags, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19]);
        for ty in PLAIN {
            assert_eq!(Type::from_tag(ty.tag()), Some(ty));
        }
        assert_eq!(Type::Array(5).tag(), 15 | 5 << 8);
        assert_eq!(Type::from_tag(15 | 9 << 8), Some(Type::Array(9)));
        let tuple = Type::Tuple(Tuple::of(&[Type::U32, Type::Array(3)]));
        assert_eq!(tuple.tag(), 18 | 5 << 8 | 35 << 14);
        assert_eq!(Type::from_tag(tuple.tag()), Some(tuple));
        assert_eq!(tuple.to_string(), "(u32, [u8; 3])");
        let timed = Type::Expiring(Expiring::of(tuple));
        assert_eq!(timed.tag(), tuple.tag() | 1 << 7);
        assert_eq!(Type::from_tag(timed.tag()), Some(timed));
        let wrong = [
            0,
            1 << 7,
            6 | 1 << 8,
            18,
            18 | 5 << 8,
            18 | 7 << 8 | 5 << 14,
            18 | 5 << 14 | 5 << 20,
            18 | 5 << 8 | 41 << 14,
        ];
        for tag in wrong {
            assert_eq!(Type::from_tag(tag), None, "{tag:#x}");
        }
    }
}
