//! Operations that change a slot.

use durahash_media::Result;
use durahash_remote::fabric::{Addr, Batch, Fabric};

use super::Race;
use super::layout::{Ptr, Slot, decode, encode};
use super::look::{Found, Known, Look};

/// The result of an insert.
enum Settled {
    Stays,
    /// Its subtable is being split, and its key goes: it was taken back, or has gone.
    Goes,
}

impl<F: Fabric> Race<F> {
    /// Sets the value of a key.
    pub(crate) async fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let h = self.hash(key);
        let bytes = encode(key, value)?;
        let at = self.take(bytes.len() as u64).await?;
        let own = Slot::new((h >> 56) as u8, at, bytes.len() as u64);
        let mut known = Known::default();
        known.own(own, value);
        let mut block = Some((at.addr(), bytes));
        loop {
            let site = self.site(h);
            let subtable = site.cell.subtable();
            let mut reserved = Vec::new();
            if let Some(old) = site.old {
                let Some(look) = self.look_old(site, old, h, &mut block).await? else { continue };
                if self.moves_first(&look, subtable, h, key, &mut known).await? {
                    continue;
                }
                reserved = look.slots().filter(|(_, s)| !s.is_free()).map(|(off, _)| off).collect();
            }
            let look = self.look(subtable, h, &mut block).await?;
            if !look.owns(h) {
                self.refresh(h).await?;
                continue;
            }
            let found = self.find(&look, h, key, &mut known).await?;
            if let Some((&(off, slot), others)) = found.split_first() {
                if found.iter().any(|(_, slot)| slot.is_marked()) {
                    self.pause().await;
                    self.refresh(h).await?;
                } else if !others.is_empty() {
                    self.remove_duplicates(subtable, others).await?;
                } else if slot == own || self.change(subtable, off, slot, own).await? {
                    return Ok(());
                }
                continue;
            }
            let Some(off) = look.free(&reserved) else {
                self.make_room(site, h).await?;
                continue;
            };
            if !self.change(subtable, off, Slot::FREE, own).await? {
                continue;
            }
            match self.settle(subtable, h, key, (off, own), &mut known).await? {
                Settled::Stays => return Ok(()),
                Settled::Goes => self.refresh(h).await?,
            }
        }
    }

    /// Removes a key; true if it was there.
    pub(crate) async fn delete(&self, key: &[u8]) -> Result<bool> {
        let h = self.hash(key);
        let mut known = Known::default();
        'again: loop {
            let site = self.site(h);
            let subtable = site.cell.subtable();
            if let Some(old) = site.old {
                let Some(look) = self.look_old(site, old, h, &mut None).await? else { continue };
                if self.moves_first(&look, subtable, h, key, &mut known).await? {
                    continue;
                }
            }
            let look = self.look(subtable, h, &mut None).await?;
            let found = self.find(&look, h, key, &mut known).await?;
            if found.is_empty() && self.owned(&look, h).await? {
                return Ok(false);
            }
            if !look.owns(h) || found.is_empty() {
                self.refresh(h).await?;
                continue;
            }
            // The lowest counts, so it goes last.
            for (off, slot) in found.into_iter().rev() {
                if slot.is_marked() {
                    self.pause().await;
                    self.refresh(h).await?;
                    continue 'again;
                }
                if !self.change(subtable, off, slot, Slot::FREE).await? {
                    continue 'again;
                }
            }
            return Ok(true);
        }
    }

    /// Swaps a slot; true if it was as expected.
    async fn change(&self, subtable: Ptr, off: u64, old: Slot, new: Slot) -> Result<bool> {
        let swapped = self.swap(subtable.addr().add(off), old.0, new.0).await? == old.0;
        if !swapped {
            self.count(|stats| stats.conflicts += 1);
        }
        Ok(swapped)
    }

    /// Moves the key out of the old subtable, if it is there; then all is to be looked at anew.
    async fn moves_first(
        &self,
        old: &Look,
        to: Ptr,
        h: u64,
        key: &[u8],
        known: &mut Known,
    ) -> Result<bool> {
        let found = self.find(old, h, key, known).await?;
        let Some(&(off, slot)) = found.first() else { return Ok(false) };
        if slot.is_marked() || !self.relocate(old.subtable, to, off, slot).await? {
            self.pause().await;
            return Ok(true);
        }
        // The new subtable may be split by now, if this client was slow.
        let look = self.look(to, h, &mut None).await?;
        if !look.owns(h) {
            self.take_back(to.addr().add(off), slot, key).await?;
        }
        Ok(true)
    }

    /// Reads the pairs again after an insert: the key must still belong there, and be there once.
    async fn settle(
        &self,
        subtable: Ptr,
        h: u64,
        key: &[u8],
        (off, own): Found,
        known: &mut Known,
    ) -> Result<Settled> {
        loop {
            let look = self.look(subtable, h, &mut None).await?;
            if !look.owns(h) {
                self.take_back(subtable.addr().add(off), own, key).await?;
                return Ok(Settled::Goes);
            }
            let found = self.find(&look, h, key, known).await?;
            let others = match found.split_first() {
                Some((_, others)) if !others.is_empty() => others,
                _ => return Ok(Settled::Stays),
            };
            if found.iter().any(|(_, slot)| slot.is_marked()) {
                self.pause().await;
                continue;
            }
            self.remove_duplicates(subtable, others).await?;
        }
    }

    /// Frees slots whose key has a lower one.
    async fn remove_duplicates(&self, subtable: Ptr, others: &[Found]) -> Result<()> {
        let free = |(off, slot): &Found, batch: &mut Batch| {
            batch.compare_swap(subtable.addr().add(*off), slot.0, Slot::FREE.0)
        };
        let done = self.post(|batch| others.iter().map(|one| free(one, batch)).count()).await?;
        let removed = others.iter().enumerate().filter(|(i, (_, slot))| done.word(*i) == slot.0);
        let removed = removed.count() as u64;
        self.count(|stats| stats.duplicates += removed);
        Ok(())
    }

    /// Removes what an insert has put into a subtable that its key does not belong to any more, unless
    /// another client has moved it, or is moving it.
    async fn take_back(&self, at: Addr, own: Slot, key: &[u8]) -> Result<()> {
        self.count(|stats| stats.taken_back += 1);
        let mut expected = own;
        loop {
            let found = Slot(self.swap(at, expected.0, Slot::FREE.0).await?);
            if found == expected || found.is_free() || found.is_marked() {
                return Ok(());
            }
            // An update of it by one who did not see the split either; it came before this insert.
            let (block, bytes) = found.block();
            let done = self.read(block, bytes).await?;
            if decode(done.bytes(0))?.0 != key {
                return Ok(());
            }
            expected = found;
        }
    }
}
