//! Keys and values of types that other crates define, each behind a feature.

#[cfg(feature = "zerocopy")]
pub use self::plain::Plain;
#[cfg(feature = "serde")]
pub use self::serde::Serde;

#[cfg(feature = "zerocopy")]
mod plain {
    use std::fmt;

    use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};

    use crate::engine::data::{Data, Type, sealed};

    /// A key or a value of fixed size without padding, kept as its bytes: those of `[u8; size_of::<T>()]`, which is
    /// also the type that the pool names.
    ///
    /// `T` derives `TryFromBytes` (or `FromBytes`), `IntoBytes`, `Immutable` and `KnownLayout` of the crate
    /// `zerocopy`. Numbers stand in the byte order of the machine, which a pool has, too.
    ///
    /// ```
    /// use durahash::{Map, Options, Plain};
    /// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
    ///
    /// #[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
    /// #[repr(C)]
    /// struct Extent {
    ///     offset: u64,
    ///     bytes: u32,
    ///     copies: u32,
    /// }
    ///
    /// # fn main() -> durahash::Result<()> {
    /// let chunks: Map<[u8; 32], Plain<Extent>> = Options::new().in_memory()?;
    /// let extent = Extent { offset: 4096, bytes: 512, copies: 1 };
    /// chunks.put(&[7; 32], &Plain(extent))?;
    /// assert_eq!(chunks.get(&[7; 32])?, Some(Plain(extent)));
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Plain<T>(pub T);

    impl<T> sealed::Sealed for Plain<T> {}
    impl<T> Data for Plain<T>
    where
        T: TryFromBytes + IntoBytes + Immutable + KnownLayout,
        T: Clone + fmt::Debug + Send + Sync + 'static,
    {
        type Ref = Self;
        type Owned = Self;
        type Buffer = ();
        const TYPE: Type = {
            assert!(size_of::<T>() < 1 << 24, "larger structs are kept by Serde");
            Type::Array(size_of::<T>() as u32)
        };
        #[inline]
        fn to_word(value: &Self) -> u64 {
            Type::word(value.0.as_bytes())
        }
        #[inline]
        fn from_word(word: u64) -> Option<Self> {
            let word = word.to_le_bytes();
            let (own, rest) = word.split_at(size_of::<T>().min(8));
            if rest.iter().any(|b| *b != 0) {
                return None;
            }
            Self::from_bytes(own)
        }
        #[inline]
        fn bytes<'a>(value: &'a Self, (): &'a mut ()) -> &'a [u8] {
            value.0.as_bytes()
        }
        fn with<R>(bytes: &[u8], f: impl FnOnce(&Self) -> R) -> Option<R> {
            Self::from_bytes(bytes).map(|v| f(&v))
        }
        fn from_bytes(bytes: &[u8]) -> Option<Self> {
            T::try_read_from_bytes(bytes).ok().map(Plain)
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[derive(
            Clone, Copy, Debug, PartialEq, TryFromBytes, IntoBytes, Immutable, KnownLayout,
        )]
        #[repr(C)]
        struct Flags {
            bits: [u8; 2],
            set: bool,
        }

        #[test]
        fn structs_come_back_and_others_are_refused() {
            let flags = Plain(Flags { bits: [1, 2], set: true });
            let word = Plain::to_word(&flags);
            assert_eq!(word, 0x01_0201);
            assert_eq!(Plain::from_word(word), Some(flags));
            assert_eq!(Plain::<Flags>::from_word(0x02_0201), None);
            assert_eq!(Plain::<Flags>::from_word(0x100_0000), None);
            let wide = Plain([flags.0; 4]);
            let bytes = Plain::bytes(&wide, &mut ()).to_vec();
            assert_eq!(Plain::<[Flags; 4]>::TYPE, Type::Array(12));
            assert_eq!(Plain::<[Flags; 4]>::from_bytes(&bytes), Some(wide));
            assert_eq!(Plain::<[Flags; 4]>::from_bytes(&bytes[1..]), None);
            assert_eq!(Plain::<[Flags; 4]>::from_bytes(&[2; 12]), None);
        }
    }
}

#[cfg(feature = "serde")]
mod serde {
    use std::fmt;

    use ::serde::Serialize;
    use ::serde::de::DeserializeOwned;

    use crate::engine::data::{Data, Type, never_words, sealed};

    /// A key or a value that serde writes and reads, kept as the bytes of the format postcard; the pool names its type
    /// `[u8]`.
    ///
    /// Bytes that are not those of a `T`, to the last one, are [`Corrupt`](crate::ErrorKind::Corrupt): a pool does not
    /// know `T`, so keep its definition, or write an enum of versions. A key must always be written as the same bytes,
    /// which a `HashMap` inside of it is not.
    ///
    /// # Panics
    /// Operations panic if the `Serialize` of `T` fails: derived ones do not.
    ///
    /// ```
    /// use durahash::{Map, Options, Serde};
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    /// struct Session {
    ///     user: String,
    ///     roles: Vec<String>,
    /// }
    ///
    /// # fn main() -> durahash::Result<()> {
    /// let sessions: Map<u64, Serde<Session>> = Options::new().in_memory()?;
    /// let ada = Session { user: "Ada".into(), roles: vec!["admin".into()] };
    /// sessions.put(&1, &Serde(ada.clone()))?;
    /// assert_eq!(sessions.get(&1)?, Some(Serde(ada)));
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Serde<T>(pub T);

    impl<T> sealed::Sealed for Serde<T> {}
    impl<T> Data for Serde<T>
    where
        T: Serialize + DeserializeOwned + Clone + fmt::Debug + Send + Sync + 'static,
    {
        type Ref = Self;
        type Owned = Self;
        type Buffer = Vec<u8>;
        const TYPE: Type = Type::Bytes;
        never_words!();
        fn bytes<'a>(value: &'a Self, buffer: &'a mut Vec<u8>) -> &'a [u8] {
            *buffer = postcard::to_stdvec(&value.0).expect("a Serialize that does not fail");
            buffer
        }
        fn with<R>(bytes: &[u8], f: impl FnOnce(&Self) -> R) -> Option<R> {
            Self::from_bytes(bytes).map(|v| f(&v))
        }
        fn from_bytes(bytes: &[u8]) -> Option<Self> {
            let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
            rest.is_empty().then_some(Serde(value))
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn values_come_back_and_others_are_refused() {
            type Value = Serde<(String, Vec<u32>)>;
            let value = Serde(("text".to_owned(), vec![1, 1 << 20]));
            let mut buffer = Vec::new();
            let bytes = Value::bytes(&value, &mut buffer).to_vec();
            assert_eq!(Value::from_bytes(&bytes), Some(value));
            assert_eq!(Value::from_bytes(&bytes[1..]), None);
            assert_eq!(Value::from_bytes(&[&bytes[..], &[0]].concat()), None);
        }
    }
}
