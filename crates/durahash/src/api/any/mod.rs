//! Maps and multimaps whose types are known at run time, for command lines, servers and other languages.

mod map;
mod multi_map;

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;

use durahash_media::{Durability, Result};

use super::common::common_methods;
use crate::engine::data::Type;
use crate::engine::design::Design;
use crate::engine::entries::Entries;
use crate::engine::maps::Handle;
use crate::engine::records::Pair;
use crate::engine::stats::Stats;
use crate::engine::{Multi, Single};
use crate::index::Finding;

/// A map whose types and design are those of the pool that it finds: for command lines, servers and
/// other languages.
///
/// Keys and values are texts of their types: integers in decimal, `bool` as `true` or `false`,
/// `char` and `str` in UTF-8, bytes as they are. A text that is none of the pool's type is
/// [`Text`](crate::ErrorKind::Text).
///
/// Durability and concurrency are those of [`Map`](crate::Map), method by method.
///
/// ```
/// use durahash::{AnyMap, Map, Options};
///
/// # fn main() -> durahash::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("ages.pool");
/// let ages: Map<str, u32> = Options::new().create(&path)?;
/// ages.put("Ada", &36)?;
/// ages.close()?;
///
/// let any: AnyMap = Options::new().open(&path)?;
/// assert_eq!(any.get(b"Ada")?, Some(b"36".to_vec()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnyMap {
    pub(in crate::api) handle: Handle<Single>,
}

/// A multimap whose types are those of the pool that it finds, as [`AnyMap`](crate::AnyMap) is for
/// maps: keys and values are texts of their types.
///
/// Durability and concurrency are those of [`MultiMap`](crate::MultiMap), method by method.
///
/// ```
/// use durahash::{AnyMultiMap, MultiMap, Options};
///
/// # fn main() -> durahash::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("edges.pool");
/// let edges: MultiMap<u32, u32> = Options::new().create(&path)?;
/// edges.add(&1, &2)?;
/// edges.close()?;
///
/// let any: AnyMultiMap = Options::new().open(&path)?;
/// assert_eq!(any.get_all(b"1")?, [b"2"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AnyMultiMap {
    pub(in crate::api) handle: Handle<Multi>,
}

/// The lines of an example that make a `map`.
macro_rules! any_example {
    ($Any:ident) => {
        concat!(
            "use durahash::{",
            stringify!($Any),
            ", Options, Type};\n",
            "# let dir = tempfile::tempdir().unwrap();\n",
            "# let path = dir.path().join(\"map.pool\");\n",
            "let options = Options::new().types(Type::U64, Type::Str);\n",
            "let map: ",
            stringify!($Any),
            " = options.create(&path)?;"
        )
    };
}

use any_example;

/// The methods and traits that both have. `put`: puts something into a `map`.
macro_rules! any {
    ($Any:ident, $Iter:ident, $Kind:ty, entries: $entries:literal, put: $put:literal) => {
        impl $Any {
            pub(crate) fn new(handle: Handle<$Kind>) -> Self {
                $Any { handle }
            }

            /// The type of the keys.
            ///
            /// ```
            #[doc = any_example!($Any)]
            /// assert_eq!(map.key_type(), Type::U64);
            /// # Ok::<(), durahash::Error>(())
            /// ```
            #[must_use]
            pub fn key_type(&self) -> Type {
                self.handle.engine.key
            }

            /// The type of the values.
            ///
            /// ```
            #[doc = any_example!($Any)]
            /// assert_eq!(map.value_type(), Type::Str);
            /// # Ok::<(), durahash::Error>(())
            /// ```
            #[must_use]
            pub fn value_type(&self) -> Type {
                self.handle.engine.value
            }

            /// As [`check`](Self::check), and tells `watch` how many entries of how many were looked at.
            ///
            /// # Errors
            /// As there.
            ///
            /// ```
            #[doc = any_example!($Any)]
            /// map.check_watched(
            ///     &mut |finding| panic!("{finding:?}"),
            ///     &mut |done, of| println!("{done} of {of}"),
            /// )?;
            /// # Ok::<(), durahash::Error>(())
            /// ```
            pub fn check_watched(
                &self,
                found: &mut dyn FnMut(Finding),
                watch: &mut dyn FnMut(u64, u64),
            ) -> Result<()> {
self.handle.run(|engine| engine.check(found, watch))
}

            /// All keys and values, as [`Map::iter`](crate::Map::iter) or
            /// [`MultiMap::iter`](crate::MultiMap::iter) gives them.
            ///
            /// # Errors
            /// An item is an error where an entry is damaged; the iterator goes on behind it if it can.
            ///
            /// ```
            #[doc = any_example!($Any)]
            #[doc = $put]
            /// for pair in map.iter() {
            ///     assert_eq!(pair?, (b"1".to_vec(), b"one".to_vec()));
            /// }
            /// # Ok::<(), durahash::Error>(())
            /// ```
            #[must_use]
            pub fn iter(&self) -> $Iter {
                $Iter(Entries::new(self.handle.clone()))
            }

            common_methods! { entries: $entries, example: any_example!($Any), put: $put }
        }

        // As of a map with types.
        impl UnwindSafe for $Any {}
        impl RefUnwindSafe for $Any {}

        impl fmt::Debug for $Any {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.handle.engine.describe(stringify!($Any), f)
            }
        }

        impl IntoIterator for &$Any {
            type Item = Result<Pair>;
            type IntoIter = $Iter;

            fn into_iter(self) -> $Iter {
                self.iter()
            }
        }

        #[doc = concat!("Iterator over an [`", stringify!($Any), "`]. See [`", stringify!($Any), "::iter`].")]
        ///
        /// ```
        #[doc = any_example!($Any)]
        #[doc = $put]
        /// for pair in map.iter() {
        ///     let (key, value) = pair?;
        ///     assert_eq!((&key[..], &value[..]), (&b"1"[..], &b"one"[..]));
        /// }
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub struct $Iter(Entries<$Kind>);

        // As of the map: an entry is taken off before it is decoded.
        impl UnwindSafe for $Iter {}
        impl RefUnwindSafe for $Iter {}

        impl Iterator for $Iter {
            type Item = Result<Pair>;

            fn next(&mut self) -> Option<Result<Pair>> {
                self.0.next_texts()
            }
        }
    };
}

any!(AnyMap, AnyIter, Single, entries: "keys", put: "map.put(b\"1\", b\"one\")?;");
any!(
    AnyMultiMap, AnyMultiIter, Multi,
    entries: "pairs of a key and a value",
    put: "map.add(b\"1\", b\"one\")?;"
);
