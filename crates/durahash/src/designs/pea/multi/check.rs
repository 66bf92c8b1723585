//! The invariants of lists.

use std::collections::{HashMap, HashSet};

use durahash_media::{Medium, Result};

use crate::designs::pea::MultiPea;
use crate::designs::pea::buffer::{Lists, offset};
use crate::designs::pea::layout::BUCKET_BYTES;
use crate::extendible::unit::Unit;
use crate::index::Finding;

impl<M: Medium> MultiPea<M> {
    /// PEA-7 and PEA-8, and the number of entries beyond one a slot.
    pub(super) fn check_lists(
        &self,
        segments: &[(u64, Unit)],
        found: &mut dyn FnMut(Finding),
    ) -> Result<()> {
        let mut report = |invariant, off, what| found(Finding { invariant, off, what });
        let mut buffers = HashSet::new();
        let mut extra = 0;
        for (prefix, place) in segments {
            let mut homes: HashMap<u64, u32> = HashMap::new();
            for number in 0..self.shape().buckets() {
                let head = self.head(self.bucket(place.number(), number)?);
                let off = self.offset(place.number()) + u64::from(number) * BUCKET_BYTES;
                if head.has_stray_lists() {
                    report("PEA-7", off, "a list in a slot that is not live".to_owned());
                }
                if head.live() & !self.shape().used != 0 || head.live() == self.shape().used {
                    report("PEA-7", off, "no slot is free".to_owned());
                }
            }
            self.each_hash(*place, *prefix, &mut |number, h, entries| {
                let off = self.offset(place.number()) + u64::from(number) * BUCKET_BYTES;
                if *homes.entry(h).or_insert(number) != number {
                    report("PEA-7", off, format!("hash {h:#018x} is in another bucket, too"));
                }
                for entry in entries.iter().filter(|entry| entry.is_list) {
                    let mut count = 0;
                    let walked = self.walk(h, entry.payload, &|| true, &mut |buffer| {
                        count += buffer.state.live() as u64;
                        Ok(buffers.insert(offset(buffer.name)))
                    });
                    match walked {
                        Err(e) => report("PEA-8", off, format!("list of {h:#018x}: {e}")),
                        Ok(()) if count < 2 => {
                            report("PEA-8", off, format!("list of {h:#018x}: {count} values"));
                        }
                        Ok(()) => {}
                    }
                    extra += count.max(1) - 1;
                }
            })?;
        }
        if let Some(counted) = self.writers.extra_count.get().filter(|counted| *counted != extra) {
            let what = format!("{extra} entries beyond one a slot, the counter says {counted}");
            report("PEA-6", 0, what);
        }
        Ok(())
    }
}
