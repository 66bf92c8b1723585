//! The look of operations: the two pairs of buckets of a hash, and the blocks of their entries.

use durahash_media::Result;
use durahash_remote::fabric::{Addr, Batch, Fabric};

use super::Race;
use super::directory::Site;
use super::layout::{Combined, Geometry, Header, Ptr, Slot, cell_at, decode, word};

/// Both pairs of buckets of a hash, as one batch read them.
pub(super) struct Look {
    geometry: Geometry,
    pub(super) subtable: Ptr,
    pairs: [(Combined, Vec<u8>); 2],
}

/// A slot, and its offset in the subtable.
pub(super) type Found = (u64, Slot);

impl Look {
    fn buckets(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let bytes = self.geometry.bucket_bytes();
        self.pairs.iter().flat_map(move |(combined, pair)| {
            [0, bytes].map(|from| (combined.off + from, &pair[from as usize..][..bytes as usize]))
        })
    }

    /// True if all headers say that the hash belongs here.
    pub(super) fn owns(&self, h: u64) -> bool {
        self.buckets().all(|(_, bucket)| Header(word(bucket, 0)).owns(h))
    }

    /// All slots, free ones among them.
    pub(super) fn slots(&self) -> impl Iterator<Item = Found> {
        self.buckets().flat_map(|(off, bucket)| {
            let offs = self.geometry.slot_offs(off);
            offs.zip(1..).map(|(off, idx)| (off, Slot(word(bucket, idx))))
        })
    }

    /// The slot that an insert takes: in the pair with fewer entries, the overflow bucket last. Not those
    /// that `taken` names.
    pub(super) fn free(&self, taken: &[u64]) -> Option<u64> {
        let slots = self.geometry.slots as usize;
        let all: Vec<Found> = self.slots().collect();
        let pairs = all.chunks_exact(2 * slots).zip(&self.pairs).map(|(pair, (combined, _))| {
            let (first, second) = pair.split_at(slots);
            let ordered = if combined.main_last { [second, first] } else { [first, second] };
            let fits = |found: &&Found| found.1.is_free() && !taken.contains(&found.0);
            let free = ordered.into_iter().flatten().find(fits).map(|found| found.0);
            (pair.iter().filter(fits).count(), free)
        });
        let pairs: Vec<_> = pairs.collect();
        let [a, b] = [pairs[0], pairs[1]];
        if b.0 > a.0 { b.1 } else { a.1 }
    }

    /// The offsets of headers.
    fn headers(&self) -> impl Iterator<Item = u64> {
        self.buckets().map(|(off, _)| off)
    }
}

/// The knowledge of an operation about slots: the value of each that is of its key. Blocks do not change.
#[derive(Default)]
pub(super) struct Known(Vec<(Slot, Option<Vec<u8>>)>);

impl Known {
    fn of(&self, slot: Slot) -> Option<&Option<Vec<u8>>> {
        self.0.iter().find(|known| known.0 == slot.unmarked()).map(|known| &known.1)
    }

    /// The block that the operation has written itself.
    pub(super) fn own(&mut self, slot: Slot, value: &[u8]) {
        self.0.push((slot, Some(value.to_vec())));
    }

    fn value(&self, slot: Slot) -> Option<&[u8]> {
        self.of(slot)?.as_deref()
    }
}

impl<F: Fabric> Race<F> {
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.hash.hash(key)
    }

    /// Reads both pairs, and posts a block beside, if there is one yet.
    pub(super) async fn look(
        &self,
        subtable: Ptr,
        h: u64,
        block: &mut Option<(Addr, Vec<u8>)>,
    ) -> Result<Look> {
        self.look_and_read(subtable, h, block, None).await.map(|(look, _)| look)
    }

    /// The same; reads a word after the pairs.
    async fn look_and_read(
        &self,
        subtable: Ptr,
        h: u64,
        block: &mut Option<(Addr, Vec<u8>)>,
        after: Option<Addr>,
    ) -> Result<(Look, Option<u64>)> {
        let mut batch = Batch::new();
        let bytes = 2 * self.geometry.bucket_bytes() as usize;
        let pairs = self.geometry.candidates(h, self.spread.mix(h));
        let pairs = pairs.map(|at| (at, batch.read(subtable.addr().add(at.off), bytes)));
        let after = after.map(|at| batch.read(at, 8));
        if let Some((at, bytes)) = block.take() {
            batch.write(at, &bytes);
        }
        let done = self.fabric.post(batch).await?;
        let pairs = pairs.map(|(at, i)| (at, done.bytes(i).to_vec()));
        let word = after.map(|i| done.word(i));
        Ok((Look { geometry: self.geometry, subtable, pairs }, word))
    }

    /// Looks into the subtable that entries come from; `None` when the cell is another by now.
    pub(super) async fn look_old(
        &self,
        site: Site,
        old: Ptr,
        h: u64,
        block: &mut Option<(Addr, Vec<u8>)>,
    ) -> Result<Option<Look>> {
        let cell = cell_at(self.cell_idx(h));
        let (look, cell) = self.look_and_read(old, h, block, Some(cell)).await?;
        if cell != Some(site.cell.0) {
            self.refresh(h).await?;
            return Ok(None);
        }
        Ok(Some(look))
    }

    /// The slots that hold the key, lowest first; `known` has their values then.
    pub(super) async fn find(
        &self,
        look: &Look,
        h: u64,
        key: &[u8],
        known: &mut Known,
    ) -> Result<Vec<Found>> {
        let fp = (h >> 56) as u8;
        let mut found: Vec<Found> =
            look.slots().filter(|(_, slot)| !slot.is_free() && slot.fp() == fp).collect();
        found.sort_unstable_by_key(|(off, _)| *off);
        let mut new = Vec::new();
        for slot in found.iter().map(|(_, slot)| slot.unmarked()) {
            if known.of(slot).is_none() && !new.contains(&slot) {
                new.push(slot);
            }
        }
        let done = self.read_blocks(new.iter().copied()).await?;
        for (i, slot) in new.into_iter().enumerate() {
            let (of_block, value) = decode(done.bytes(i))?;
            known.0.push((slot, (of_block == key).then(|| value.to_vec())));
        }
        found.retain(|(_, slot)| known.value(*slot).is_some());
        Ok(found)
    }

    /// True if a hash belonged where `look` has looked for all the time of that.
    pub(super) async fn owned(&self, look: &Look, h: u64) -> Result<bool> {
        if !look.owns(h) {
            return Ok(false);
        }
        let read = |off, batch: &mut Batch| batch.read(look.subtable.addr().add(off), 8);
        let done = self.post(|batch| look.headers().map(|off| read(off, batch)).count()).await?;
        Ok((0..look.headers().count()).all(|i| Header(done.word(i)).owns(h)))
    }

    /// The value of a key.
    pub(crate) async fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let h = self.hash(key);
        let mut known = Known::default();
        loop {
            let site = self.site(h);
            // The old subtable first: an entry is in the new one before it leaves the old.
            if let Some(old) = site.old {
                let Some(look) = self.look_old(site, old, h, &mut None).await? else { continue };
                if let Some((_, slot)) = self.find(&look, h, key, &mut known).await?.first() {
                    return Ok(known.value(*slot).map(<[u8]>::to_vec));
                }
            }
            let look = self.look(site.cell.subtable(), h, &mut None).await?;
            if let Some((_, slot)) = self.find(&look, h, key, &mut known).await?.first() {
                return Ok(known.value(*slot).map(<[u8]>::to_vec));
            }
            if self.owned(&look, h).await? {
                return Ok(None);
            }
            self.refresh(h).await?;
        }
    }
}
