//! All values of a key, or their number, as they are at one instant.

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Memory, Result};

use crate::designs::pea::buffer::{Lists, offset};
use crate::designs::pea::layout::Bucket;
use crate::designs::pea::{Entry, Hit, MultiPea};
use crate::index::{Keys, MultiReader, Values};

/// Values that are copied from one question to the next if they still count.
const ASKED_EVERY: usize = 256;

/// Collects those of the entries of a hash, and of their lists, that are of one key.
pub(super) fn gather<L: Lists>(
    lists: &L,
    (h, entries): (u64, impl Iterator<Item = Entry>),
    keys: &dyn Keys,
    out: &mut Values,
    still: &dyn Fn() -> bool,
) -> Result<()> {
    let medium = lists.pool().medium();
    let mut damage = None;
    for Entry { payload, is_list } in entries {
        if !is_list {
            if keys.is_meant(payload)? {
                out.payloads.push(payload);
            }
            continue;
        }
        let mut is_meant = None;
        let walked = lists.walk(h, payload, still, &mut |buffer| {
            let meant = match is_meant {
                Some(meant) => meant,
                None => *is_meant.insert(keys.is_meant(buffer.any(medium))?),
            };
            let room = out.payloads.capacity() - out.payloads.len();
            if !meant || (buffer.state.count > room && !still()) {
                return Ok(false);
            }
            out.buffers.push(offset(buffer.name));
            for (n, i) in buffer.state.positions().enumerate() {
                // Not so many between two questions that a reader in another process cannot tell what was changed.
                if n != 0 && n.is_multiple_of(ASKED_EVERY) && !still() {
                    return Ok(false);
                }
                out.payloads.push(medium.load(&buffer.values[i]));
            }
            Ok(true)
        });
        // The lists of other keys of the hash are sound.
        damage = damage.or(walked.err());
    }
    damage.map_or(Ok(()), Err)
}

impl<M: Medium> MultiPea<M> {
    /// The bucket in which a lookup found a hash: of another segment only if the lookup is not valid
    /// any more.
    fn bucket_of(&self, h: u64, found: Hit) -> Result<&Bucket> {
        self.bucket(self.find(h).number(), found.bucket)
    }

    /// Collects the entries of a key, which was found in this bucket.
    fn gather_found(
        &self,
        found: Option<Hit>,
        h: u64,
        keys: &dyn Keys,
        out: &mut Values,
        still: &dyn Fn() -> bool,
    ) -> Result<()> {
        out.payloads.clear();
        out.buffers.clear();
        let Some(found) = found else {
            return Ok(());
        };
        let bucket = self.bucket_of(h, found)?;
        let head = self.head(bucket);
        let entry =
            |i| Entry { payload: self.payload(bucket, i), is_list: head.lists() & 1 << i != 0 };
        let entries = BitMask(self.slots_of(bucket, head, h)).map(entry);
        gather(self, (h, entries), keys, out, still)
    }

    pub(super) fn read_values(
        &self,
        h: u64,
        keys: &dyn Keys,
        out: &mut Values,
        f: MultiReader<'_>,
    ) -> Result<()> {
        self.look(h, |found, still| {
            let done = found.and_then(|found| self.gather_found(found, h, keys, out, still));
            f(&out.payloads, still).and(done)
        })
    }

    /// How many entries a key has that was found in this bucket.
    fn count_found(
        &self,
        found: Option<Hit>,
        h: u64,
        keys: &dyn Keys,
        still: &dyn Fn() -> bool,
    ) -> Result<u64> {
        let Some(found) = found else {
            return Ok(0);
        };
        let bucket = self.bucket_of(h, found)?;
        let own = self.own(bucket, self.head(bucket), h, keys)?;
        let mut count = u64::from(own.values.count_ones());
        if let Some(slot) = own.list {
            self.walk(h, self.payload(bucket, slot), still, &mut |buffer| {
                count += buffer.state.live() as u64;
                Ok(true)
            })?;
        }
        Ok(count)
    }

    pub(super) fn count_values(&self, h: u64, keys: &dyn Keys) -> Result<u64> {
        self.look(h, |found, still| self.count_found(found?, h, keys, still))
    }
}
