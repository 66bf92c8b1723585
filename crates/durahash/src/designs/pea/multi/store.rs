//! The stores that the commit steps consist of.

use durahash_media::{Medium, PmU64, Result};

use crate::designs::pea::MultiPea;
use crate::designs::pea::buffer::{BESIDE_HEADER, Buffer};
use crate::designs::pea::layout::{Bucket, Head, LINES, better};
use crate::designs::pea::write::Locks;

impl<M: Medium> MultiPea<M> {
    /// Puts one entry in the place of several slots of a bucket, in a free one: by one word.
    pub(super) fn replace_slots(
        &self,
        held: &Locks<'_, M, true>,
        (number, bucket): (u32, &Bucket),
        head: Head<true>,
        slots: u16,
        (h, payload, is_list): (u64, u64, bool),
    ) {
        let medium = self.medium();
        held.touch(number);
        let free = self.shape().used & !head.live();
        let near = free & LINES[0];
        let i = if near != 0 { near } else { better::<true>(free) }.trailing_zeros();
        let slot = &bucket.slots[i as usize];
        medium.store(&slot.payload, payload);
        medium.store(&slot.h, h);
        medium.flush(slot);
        let with = if is_list { head.with_list(i, h) } else { head.with(i, h) };
        // Not yet the fingerprints of slots that go: they are found until the commit.
        medium.store(&bucket.head[1], with.0[1]);
        if !medium.same_line_order() {
            medium.flush(&bucket.head[1]);
        }
        medium.fence();
        let new = with.without_all(slots);
        held.exclude_readers(number);
        self.store_head(bucket, new, h);
    }

    /// Stores a head from which slots of `h` have gone: the commit.
    pub(super) fn store_head(&self, bucket: &Bucket, new: Head<true>, h: u64) {
        let medium = self.medium();
        medium.store(&bucket.head[0], new.0[0]);
        if medium.same_line_order() {
            // Never durable before the commit. It matters for damage only.
            medium.store(&bucket.head[1], new.0[1]);
        }
        medium.flush(&bucket.head);
        medium.drain();
        self.changed_entry(h);
    }

    /// Stores the word that commits a change of a list of `h`.
    pub(super) fn store_word_of<'a>(
        &self,
        held: &mut Locks<'a, M, true>,
        (bucket, h): (u32, u64),
        word: &'a PmU64,
        v: u64,
    ) {
        let medium = self.medium();
        held.touches(word);
        self.pool.touch(medium.region().offset_of(word));
        held.exclude_readers(bucket);
        medium.store(word, v);
        medium.flush(word);
        medium.drain();
        self.changed_entry(h);
    }

    /// Stores a value where no reader looks for one, before the state that says so.
    pub(super) fn store_value(&self, buffer: &Buffer<'_>, at: usize, v: u64) {
        let medium = self.medium();
        self.pool.touch(medium.region().offset_of(&buffer.values[at]));
        medium.store(&buffer.values[at], v);
        if !medium.same_line_order() || at >= BESIDE_HEADER {
            medium.flush(&buffer.values[at]);
            medium.fence();
        }
    }

    /// Before the commit after which nothing names these buffers: a sweep that ends between the two does not find
    /// them free, whose release is still to come.
    pub(super) fn mark_buffers(&self, offs: &[u64]) -> Result<()> {
        offs.iter().try_for_each(|off| self.pool.mark_block(*off).map(drop))
    }

    /// Gives buffers back that nothing names.
    pub(super) fn free_buffers(&self, offs: impl IntoIterator<Item = u64>) {
        for off in offs {
            // The operation has its result; the next sweep finds buffers that cannot be freed now.
            let _ = self.pool.free_block(off);
        }
    }
}
