//! The types that are made and opened, each for the map that a pool has.

use std::sync::Arc;

use durahash_media::Result;

use super::any::{AnyMap, AnyMultiMap};
use super::cache::Cache;
use super::cache::any::AnyCache;
use super::map::Map;
use super::multi_map::MultiMap;
use crate::engine::data::Data;
use crate::engine::expiry::Timed;
use crate::engine::maps::{Handle, OpenPool};
use crate::engine::settings::Settings;
use crate::engine::spec::{Required, refuse_cache};
use crate::engine::{Kind, Multi, Single};

pub(super) mod sealed {
    use super::*;

    pub trait Sealed: Sized {
        /// The map that a pool has for it.
        const REQUIRED: Required;
        fn new(pool: Arc<OpenPool>, settings: &Settings) -> Result<Self>;
    }

    pub trait SealedMap: Sealed {
        // No lock of the pool is held.
        fn numbered(pool: &Arc<OpenPool>, map: u8, settings: &Settings) -> Result<Self>;
        fn named(pool: &Arc<OpenPool>, name: &str, settings: &Settings) -> Result<Self>;
        fn pool(&self) -> &Arc<OpenPool>;
    }
}

/// The types that [`Options`](crate::Options) make and open: [`Map`], [`MultiMap`] and [`Cache`]; [`AnyMap`], [`AnyMultiMap`] and
/// [`AnyCache`], whose keys and values have types that are known at run time only; and [`Pool`](crate::Pool), a file of several maps.
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

/// A map without types.
fn any(handle: Handle<Single>) -> Result<AnyMap> {
    let engine = &*handle.engine;
    if !engine.store.is_read_only() {
        refuse_cache(engine.key, engine.value)?;
    }
    Ok(AnyMap::new(handle))
}

macro_rules! openable {
    ($(<$($K:ident, $V:ident)?> $Type:ty, $Kind:ty, $types:expr, $expires:expr, $of:expr, $($to:ident).+;)*) => {$(
        impl<$($K: Data + ?Sized, $V: Data + ?Sized)?> sealed::Sealed for $Type {
            const REQUIRED: Required = Required {
                kind: Some((<$Kind>::NUMBER, <$Kind>::DESIGN)),
                types: $types,
                expires: $expires,
                changes: true,
            };
            fn new(pool: Arc<OpenPool>, settings: &Settings) -> Result<Self> {
                <Self as sealed::SealedMap>::numbered(&pool, 0, settings)
            }
        }

        impl<$($K: Data + ?Sized, $V: Data + ?Sized)?> sealed::SealedMap for $Type {
            fn numbered(pool: &Arc<OpenPool>, map: u8, settings: &Settings) -> Result<Self> {
                $of(pool.handle(map, $types)?, settings)
            }
            fn named(pool: &Arc<OpenPool>, name: &str, settings: &Settings) -> Result<Self> {
                $of(pool.open(name, $types)?, settings)
            }
            fn pool(&self) -> &Arc<OpenPool> {
                self.$($to).+.pool()
            }
        }

        impl<$($K: Data + ?Sized, $V: Data + ?Sized)?> Openable for $Type {}
        impl<$($K: Data + ?Sized, $V: Data + ?Sized)?> NamedMap for $Type {}
    )*};
}

openable! {
    <K, V> Map<K, V>, Single, Some((K::TYPE, V::TYPE)), false, |handle, _| Ok(Self::new(handle)), handle;
    <K, V> MultiMap<K, V>, Multi, Some((K::TYPE, V::TYPE)), false, |handle, _| Ok(Self::new(handle)), handle;
    <K, V> Cache<K, V>, Single, Some((K::TYPE, Timed::<V>::TYPE)), false, Self::new, map.handle;
    <> AnyMap, Single, None, false, |handle, _| any(handle), handle;
    <> AnyMultiMap, Multi, None, false, |handle, _| Ok(Self::new(handle)), handle;
    <> AnyCache, Single, None, true, Self::new, cache.map.handle;
}
