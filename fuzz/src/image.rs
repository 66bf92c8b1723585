//! Images of pools: how they are written into inputs, and how a target uses what is in them.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, DefaultHasher};

use durahash::{Data, Result};
use durahash_testkit::Sample;

use crate::kept::Kept;
use crate::{Features, Rng};

/// What a pool of the seeds may grow to.
pub(crate) const MAX_BYTES: u64 = 256 << 10;
pub(crate) const SEED: u64 = 7;

pub(crate) fn input(types: u8, rng: &mut Rng, image: &[u64]) -> Vec<u8> {
    let head = [u64::from(types), rng.number()];
    let all = head.iter().chain(image);
    all.flat_map(|word| word.to_le_bytes()).collect()
}

/// By key. The order is the same in every run, so that a failure can be repeated.
pub(crate) type Keyed<K, V> = HashMap<<K as Data>::Owned, V, BuildHasherDefault<DefaultHasher>>;

/// What is in an image, as one that knows its types uses it: a map or a multimap.
pub(crate) trait Image: Kept {
    /// What was found in it.
    type Found: Default + PartialEq;

    /// Reads everything in every way but `len`.
    fn read(&self, sound: bool, features: &mut Features) -> Self::Found;

    /// What `len` should say.
    fn count(found: &Self::Found) -> u64;

    /// One change, or one look, of a key that is in the model as a rule; the model is changed too.
    fn change(&self, model: &mut Self::Found, sound: bool, rng: &mut Rng) -> Result<()>;

    /// Notes what it did.
    fn note(&self, features: &mut Features);
}

/// A key of the model, or any.
pub(crate) fn some_key<K: Sample + ?Sized, V>(model: &Keyed<K, V>, rng: &mut Rng) -> K::Owned {
    if !model.is_empty() && rng.below(3) > 0 {
        let known = model.keys().nth(rng.below(model.len()));
        return known.expect("one of them").clone();
    }
    K::sample(rng.below(120) as u64)
}
