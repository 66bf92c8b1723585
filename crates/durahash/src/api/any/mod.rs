//! Maps and multimaps whose types are known at run time, for command lines, servers and other languages.

mod map;
mod multi_map;

pub use map::{AnyIter, AnyMap};
pub use multi_map::{AnyMultiIter, AnyMultiMap};

/// The lines of an example that make a `map`.
macro_rules! any_example {
    ($Any:ident) => {
        concat!(
            "use durahash::{",
            stringify!($Any),
            ", Options, Type};\n",
            "# let dir = tempfile::tempdir().unwrap();\n",
            "# let path = dir.path().join(\"map.pool\");\n",
            "let map = ",
            stringify!($Any),
            "::create(&path, Type::U64, Type::Str, &Options::new())?;"
        )
    };
}

/// Their methods that are the same. `multi`: what the names of the methods of [`Options`](crate::Options)
/// end in that make such a map.
macro_rules! any_methods {
    ($Any:ident, $Raw:ty, multi: $multi:literal) => {
        /// Creates a pool file at `path` for keys and values of these types.
        ///
        /// # Errors
        #[doc = concat!("As [`Options::create", $multi, "`].")]
        ///
        /// ```
        #[doc = any_example!($Any)]
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn create(
            path: impl AsRef<Path>,
            key: Type,
            value: Type,
            options: &Options,
        ) -> Result<Self> {
            <$Raw>::create(options, path.as_ref(), key, value).map(Self::new)
        }

        /// Opens the pool file at `path`, whatever its types.
        ///
        /// # Errors
        #[doc = concat!("As [`Options::open", $multi, "`].")]
        ///
        /// ```
        #[doc = any_example!($Any)]
        /// map.close()?;
        #[doc = concat!("let map = ", stringify!($Any), "::open(&path, &Options::new())?;")]
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
            options.open_raw(path.as_ref(), &|_, _, _| Ok(())).map(Self::new)
        }

        /// Opens the pool file at `path`, or creates it for these types where there is none.
        ///
        /// # Errors
        #[doc = concat!("As [`Options::open_or_create", $multi, "`].")]
        ///
        /// ```
        #[doc = concat!("use durahash::{", stringify!($Any), ", Options, Type};")]
        /// # let dir = tempfile::tempdir().unwrap();
        /// # let path = dir.path().join("map.pool");
        /// let (key, value, options) = (Type::U64, Type::Str, Options::new());
        #[doc = concat!("let map = ", stringify!($Any), "::open_or_create(&path, key, value, &options)?;")]
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn open_or_create(
            path: impl AsRef<Path>,
            key: Type,
            value: Type,
            options: &Options,
        ) -> Result<Self> {
            let accept = &|_, _, _| Ok(());
            options.open_or_create_raw(path.as_ref(), key, value, accept).map(Self::new)
        }

        /// Writes the pool at `path` anew, without gaps, as
        /// [`AnyMap::compact`](crate::AnyMap::compact), and tells `watch` how many slots of how many
        /// were copied.
        ///
        /// # Errors
        /// As there.
        ///
        /// ```
        #[doc = any_example!($Any)]
        /// map.close()?;
        /// let watch = &mut |done, of| println!("{done} of {of}");
        #[doc = concat!(stringify!($Any), "::compact_watched(&path, &Options::new(), watch)?;")]
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub fn compact_watched(
            path: impl AsRef<Path>,
            options: &Options,
            watch: &mut dyn FnMut(u64, u64),
        ) -> Result<()> {
            compact::compact::<$Raw>(path.as_ref(), options, watch)
        }

        fn new(raw: $Raw) -> Self {
            $Any { raw: Arc::new(raw) }
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
            self.raw.key
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
            self.raw.value
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
            self.raw.check(found, watch)
        }
    };
}

use {any_example, any_methods};
