//! Stores on files, and caches.

mod caches;
mod candy;
mod fjall;
mod lmdb;
mod own;
mod redb;

pub(crate) use caches::{CACHES, Cached, OWN_FILE};
pub(crate) use candy::Candy;
pub(crate) use fjall::Fjall;
pub(crate) use lmdb::Lmdb;
pub(crate) use own::own;
pub(crate) use redb::{Redb, Sync};

use crate::store::Pair;

/// Pairs of a batch for stores that write it as one transaction.
const TRANSACTION: usize = 1_000_000;

/// The pairs of a batch in the order of their keys, in which B-trees take them sooner.
fn sorted<'a>(pairs: &[Pair<'a>]) -> Vec<Pair<'a>> {
    let mut pairs = pairs.to_vec();
    pairs.sort_unstable_by_key(|(key, _)| *key);
    pairs
}
