//! Lookups of what has not expired.
//!
//! The clock is read after a value was loaded: one that has not expired then had not when it was loaded, and is the
//! answer. If it has expired, it may have been there while it was loaded, and may have been given more time since. So it
//! is looked up once more: what is found to have expired by a time that was read before is absent.

use durahash_media::Result;

use super::super::map::Map;
use crate::cache::clock::Time;
use crate::engine::data::Data;
use crate::engine::expiry::{NEVER, Timed, is_over, split};
use crate::engine::record::KeyHash;

/// The result of one look.
enum Seen<R> {
    Live(R),
    Expired(u64),
}

/// The result of `f` with the bytes of the value of `key`, if there is one that has not expired. `f` answers `None` if
/// they are no value, and is called once.
#[inline]
pub(super) fn look<K: Data + ?Sized, V: Data + ?Sized, R>(
    map: &Map<K, Timed<V>>,
    time: &Time,
    key: (&[u8], KeyHash),
    mut f: impl FnMut(u64, &[u8]) -> Option<R>,
) -> Result<Option<R>> {
    match look_once(map, time, key, &mut f)? {
        Some(Seen::Live(found)) => Ok(Some(found)),
        Some(Seen::Expired(_)) => look_again(map, time, key, &mut f),
        None => Ok(None),
    }
}

#[inline]
fn look_once<K: Data + ?Sized, V: Data + ?Sized, R>(
    map: &Map<K, Timed<V>>,
    time: &Time,
    key: (&[u8], KeyHash),
    f: &mut impl FnMut(u64, &[u8]) -> Option<R>,
) -> Result<Option<Seen<R>>> {
    map.find(key, |bytes| {
        let (expiry, value) = split(bytes)?;
        // What never expires is found without the clock.
        if expiry != NEVER && is_over(expiry, time.now()) {
            return Some(Seen::Expired(expiry));
        }
        f(expiry, value).map(Seen::Live)
    })
}

#[cold]
fn look_again<K: Data + ?Sized, V: Data + ?Sized, R>(
    map: &Map<K, Timed<V>>,
    time: &Time,
    key: (&[u8], KeyHash),
    f: &mut impl FnMut(u64, &[u8]) -> Option<R>,
) -> Result<Option<R>> {
    loop {
        let before = time.now();
        match look_once(map, time, key, f)? {
            Some(Seen::Live(found)) => return Ok(Some(found)),
            Some(Seen::Expired(expiry)) if expiry > before => {}
            _ => return Ok(None),
        }
    }
}
