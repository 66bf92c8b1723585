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
            "let options = Options::new().types(Type::U64, Type::Str);\n",
            "let map: ",
            stringify!($Any),
            " = options.create(&path)?;"
        )
    };
}

/// Their methods that are the same.
macro_rules! any_methods {
    ($Any:ident, $Kind:ty) => {
        pub(crate) fn new(engine: Engine<$Kind>) -> Self {
            $Any { engine: Arc::new(engine) }
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
            self.engine.key
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
            self.engine.value
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
            self.engine.check(found, watch)
        }
    };
}

use {any_example, any_methods};
