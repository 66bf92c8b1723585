//! Iterators over typed maps and multimaps.

use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};

use durahash_media::Result;

use crate::engine::data::Data;
use crate::engine::entries::Entries;
use crate::engine::maps::Handle;
use crate::engine::{Multi, Single};

macro_rules! iterator {
    ($(#[$doc:meta])* $Iter:ident, $Kind:ty, $Map:literal, $put:literal) => {
        $(#[$doc])*
        ///
        /// ```
        #[doc = concat!("let map: durahash::", $Map, "<str, u64> = durahash::Options::new().in_memory()?;")]
        #[doc = $put]
        /// for pair in &map {
        ///     let (key, value) = pair?;
        ///     assert_eq!((key.as_str(), value), ("one", 1));
        /// }
        /// # Ok::<(), durahash::Error>(())
        /// ```
        pub struct $Iter<K: Data + ?Sized, V: Data + ?Sized> {
            entries: Entries<$Kind>,
            types: PhantomData<fn(&K, &V)>,
        }

        impl<K: Data + ?Sized, V: Data + ?Sized> $Iter<K, V> {
            pub(crate) fn new(handle: Handle<$Kind>) -> Self {
                $Iter { entries: Entries::new(handle), types: PhantomData }
            }
        }

        // As of the map: an entry is taken off before it is decoded.
        impl<K: Data + ?Sized, V: Data + ?Sized> UnwindSafe for $Iter<K, V> {}
        impl<K: Data + ?Sized, V: Data + ?Sized> RefUnwindSafe for $Iter<K, V> {}

        impl<K: Data + ?Sized, V: Data + ?Sized> Iterator for $Iter<K, V> {
            type Item = Result<(K::Owned, V::Owned)>;

            fn next(&mut self) -> Option<Self::Item> {
                self.entries.next_typed::<K, V>()
            }
        }
    };
}

iterator!(
    /// Iterator over a [`Map`](crate::Map). See [`Map::iter`](crate::Map::iter).
    Iter, Single, "Map", "map.put(\"one\", &1)?;"
);
iterator!(
    /// Iterator over a [`MultiMap`](crate::MultiMap). See [`MultiMap::iter`](crate::MultiMap::iter).
    MultiIter, Multi, "MultiMap", "map.add(\"one\", &1)?;"
);
