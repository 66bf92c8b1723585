//! What all designs over a pool have in common under the tester.

use std::sync::Arc;

use durahash::{Index, Result};
use durahash_media::{Format, Geometry, Medium, Pool};

use crate::script::Op;
use crate::subject::{Slots, Table};

/// A pool of tiny extents for design number `design`.
pub(super) fn create<M: Medium>(
    medium: M,
    design: u8,
    slots: u8,
    max_bytes: u64,
) -> Result<Arc<Pool<M>>> {
    let geometry = Geometry { extent_shift: 10, slots, hash_bits: 0, buckets: 0 };
    create_with(medium, design, geometry, max_bytes)
}

/// The same of another geometry.
pub(super) fn create_with<M: Medium>(
    medium: M,
    design: u8,
    geometry: Geometry,
    max_bytes: u64,
) -> Result<Arc<Pool<M>>> {
    let format =
        Format { design, kind: 0, key_type: 0, value_type: 0, geometry, seed: 1, max_bytes };
    Pool::create(medium, &format).map(Arc::new)
}

/// The pool on `medium`, opened.
pub(super) fn open<M: Medium>(medium: M) -> Result<Arc<Pool<M>>> {
    Pool::open(medium, false).map(Arc::new)
}

/// An index over a pool as a table.
pub(super) fn table<M: Medium>(pool: Arc<Pool<M>>, index: impl Index + 'static) -> Box<dyn Table> {
    let was_closed = Some(pool.was_clean());
    let close = move |index| {
        Index::close(&index);
        drop(index);
        pool.close()
    };
    Box::new(Slots { index, was_closed, close })
}

/// Puts of these keys.
pub(super) fn puts(keys: impl IntoIterator<Item = u16>) -> Vec<Op> {
    keys.into_iter().map(|key| Op::Put(key, 1)).collect()
}

/// The operations that are tried: on a key that is not there, on one that is, and on another.
pub(super) fn kinds(new: u16, present: u16, other: u16) -> Vec<Op> {
    vec![
        Op::Put(new, 0),
        Op::Put(present, 0),
        Op::Insert(other, 0),
        Op::Update(present, 0),
        Op::Remove(present),
        Op::Remove(other),
    ]
}
