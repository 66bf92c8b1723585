//! The types that are made and opened, each for the map that a pool has.

use std::sync::Arc;

use durahash_media::Result;

use super::any::{AnyMap, AnyMultiMap};
use super::map::Map;
use super::multi_map::MultiMap;
use crate::engine::data::Data;
use crate::engine::maps::OpenPool;
use crate::engine::spec::Required;
use crate::engine::{Kind, Multi, Single};

pub(super) mod sealed {
    use super::*;

    pub trait Sealed: Sized {
        /// The map that a pool has for it.
        const REQUIRED: Required;
        fn new(pool: Arc<OpenPool>) -> Result<Self>;
    }

    pub trait SealedMap: Sized {
        fn numbered(pool: &Arc<OpenPool>, map: u8) -> Result<Self>;
        fn named(pool: &Arc<OpenPool>, name: &str) -> Result<Self>;
        fn pool(&self) -> &Arc<OpenPool>;
    }
}

/// The types that [`Options`](crate::Options) make and open: [`Map`] and [`MultiMap`]; [`AnyMap`] and [`AnyMultiMap`], whose
/// keys and values have types that are known at run time only; and [`Pool`](crate::Pool), a file of several maps.
///
/// ```
/// use durahash::{Openable, Options};
///
/// fn reopen<T: Openable>(path: &std::path::Path) -> durahash::Result<T> {
///     Options::new().read_only(true).open(path)
/// }
/// ```
pub trait Openable: sealed::Sealed {}

/// The types of maps, which a [`Pool`](crate::Pool) may have several of.
///
/// ```
/// use durahash::{NamedMap, Pool};
///
/// fn users<T: NamedMap>(pool: &Pool) -> durahash::Result<T> {
///     pool.open("users")
/// }
/// ```
pub trait NamedMap: Openable + sealed::SealedMap {}

macro_rules! openable {
    ($(<$($K:ident, $V:ident)?> $Type:ty, $Kind:ty, $types:expr;)*) => {$(
        impl<$($K: Data + ?Sized, $V: Data + ?Sized)?> sealed::Sealed for $Type {
            const REQUIRED: Required =
                Required { kind: Some((<$Kind>::NUMBER, <$Kind>::DESIGN)), types: $types };
            fn new(pool: Arc<OpenPool>) -> Result<Self> {
                <Self as sealed::SealedMap>::numbered(&pool, 0)
            }
        }

        impl<$($K: Data + ?Sized, $V: Data + ?Sized)?> sealed::SealedMap for $Type {
            fn numbered(pool: &Arc<OpenPool>, map: u8) -> Result<Self> {
                pool.handle(map, $types).map(<$Type>::new)
            }
            fn named(pool: &Arc<OpenPool>, name: &str) -> Result<Self> {
                pool.open(name, $types).map(<$Type>::new)
            }
            fn pool(&self) -> &Arc<OpenPool> {
                self.handle.pool()
            }
        }

        impl<$($K: Data + ?Sized, $V: Data + ?Sized)?> Openable for $Type {}
        impl<$($K: Data + ?Sized, $V: Data + ?Sized)?> NamedMap for $Type {}
    )*};
}

openable! {
    <K, V> Map<K, V>, Single, Some((K::TYPE, V::TYPE));
    <K, V> MultiMap<K, V>, Multi, Some((K::TYPE, V::TYPE));
    <> AnyMap, Single, None;
    <> AnyMultiMap, Multi, None;
}
