//! All values of a key, or their number, as they are at one instant.

use durahash_media::probe::BitMask;
use durahash_media::{Medium, Result};

use crate::designs::pea::buffer::offset;
use crate::designs::pea::layout::Bucket;
use crate::designs::pea::{Hit, MultiPea};
use crate::index::{Keys, MultiReader, Values};

impl<M: Medium> MultiPea<M> {
    /// The bucket in which a lookup found a hash: of another segment only if the lookup is not valid
    /// any more.
    fn bucket_of(&self, h: u64, found: Hit) -> Result<&Bucket> {
        self.bucket(self.find(h).number(), found.bucket)
    }

    /// Collects the entries of a key, which was found in this bucket.
    fn gather(
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
        let medium = self.medium();
        let bucket = self.bucket_of(h, found)?;
        let head = self.head(bucket);
        let mut damage = None;
        for i in BitMask(self.slots_of(bucket, head, h)) {
            let payload = self.payload(bucket, i);
            if head.lists() & 1 << i == 0 {
                if keys.is_meant(payload)? {
                    out.payloads.push(payload);
                }
                continue;
            }
            let mut is_meant = None;
            let walked = self.walk(h, payload, still, &mut |buffer| {
                let meant = match is_meant {
                    Some(meant) => meant,
                    None => *is_meant.insert(keys.is_meant(buffer.any(medium))?),
                };
                let room = out.payloads.capacity() - out.payloads.len();
                if !meant || (buffer.state.count > room && !still()) {
                    return Ok(false);
                }
                out.buffers.push(offset(buffer.name));
                buffer.each(medium, |v| out.payloads.push(v));
                Ok(true)
            });
            // The lists of other keys of the hash are sound.
            damage = damage.or(walked.err());
        }
        damage.map_or(Ok(()), Err)
    }

    pub(super) fn read_values(
        &self,
        h: u64,
        keys: &dyn Keys,
        out: &mut Values,
        f: MultiReader<'_>,
    ) -> Result<()> {
        self.look(h, |found, still| {
            let done = found.and_then(|found| self.gather(found, h, keys, out, still));
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
