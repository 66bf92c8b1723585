//! The words of the areas of check words in the base, which only who holds the lock of the base reads and writes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::disk::LiveDisk;
use crate::error::{Error, Result};
use crate::medium::logged::disk::aligned;
use crate::medium::logged::format::{BLOCK_BYTES, put, word};
use crate::medium::{SumArea, sum_of};
use crate::word::bits;

pub(super) const PAGE: u64 = BLOCK_BYTES as u64;
/// Bytes that are written at a time.
const RUN_BYTES_MAX: usize = 4 << 20;

/// The words of some areas, and those that are to change.
pub(super) struct Sums<'a, D> {
    disk: &'a D,
    areas: &'a [SumArea],
    /// Blocks that are known to be damaged: their sums stay wrong.
    damaged: &'a BTreeSet<u64>,
    changed: BTreeMap<u64, u64>,
    /// Pages as the base has them.
    read: BTreeMap<u64, Vec<u8>>,
}

impl<'a, D: LiveDisk> Sums<'a, D> {
    pub(super) fn new(disk: &'a D, areas: &'a [SumArea], damaged: &'a BTreeSet<u64>) -> Self {
        Sums { disk, areas, damaged, changed: BTreeMap::new(), read: BTreeMap::new() }
    }

    pub(super) fn word(&mut self, off: u64) -> Result<u64> {
        if let Some(v) = self.changed.get(&off) {
            return Ok(*v);
        }
        let page = off / PAGE * PAGE;
        if !self.read.contains_key(&page) {
            self.read.insert(page, read_page(self.disk, page)?);
        }
        Ok(word(&self.read[&page], (off - page) as usize))
    }

    /// Blocks of these bytes of which an area has words, but those of the areas themselves.
    pub(super) fn blocks(
        &self,
        area: SumArea,
        bytes: Range<u64>,
    ) -> impl Iterator<Item = u64> + use<'a, D> {
        let (shift, areas) = (area.shift(), self.areas);
        let blocks = bytes.start >> shift..(bytes.end >> shift).min(area.blocks());
        blocks.filter(move |block| !areas.iter().any(|own| own.bytes().contains(&(block << shift))))
    }

    pub(super) fn has_mark(&mut self, area: SumArea, block: u64) -> Result<bool> {
        let (off, bit) = area.mark(block);
        Ok(self.word(off)? & bit != 0)
    }

    /// Whether a block with these bytes has the sum that is stored; `None` if there is none.
    pub(super) fn is_right(
        &mut self,
        area: SumArea,
        block: u64,
        bytes: &[u8],
    ) -> Result<Option<bool>> {
        if self.has_mark(area, block)? {
            return Ok(None);
        }
        let (off, from) = area.sum(block);
        Ok(Some(bits(self.word(off)?, from, 32) == u64::from(sum_of(block, bytes))))
    }

    /// Marks some of the blocks of a word of marks, which begins with `first`, if they are not.
    pub(super) fn set_marks(&mut self, area: SumArea, first: u64, mask: u64) -> Result<()> {
        let (off, _) = area.mark(first);
        let before = self.word(off)?;
        if before & mask != mask {
            self.changed.insert(off, before | mask);
        }
        Ok(())
    }

    pub(super) fn set_mark(&mut self, area: SumArea, block: u64, mark: bool) -> Result<()> {
        let (off, bit) = area.mark(block);
        let others = self.word(off)? & !bit;
        self.changed.insert(off, if mark { others | bit } else { others });
        Ok(())
    }

    pub(super) fn set_sum(&mut self, area: SumArea, block: u64, sum: u32) -> Result<()> {
        let (off, from) = area.sum(block);
        let other = self.word(off)? & !(u64::from(u32::MAX) << from);
        self.changed.insert(off, other | u64::from(sum) << from);
        Ok(())
    }

    /// These bytes were written at `off`, whole pages. Where the base had lent some of them, `before` is all that it had
    /// there; it is right unless a process was killed while it wrote them, so that one `may_differ`.
    pub(super) fn written(
        &mut self,
        off: u64,
        bytes: &[u8],
        before: Option<(&[u8], bool)>,
    ) -> Result<()> {
        for area in self.areas {
            for block in self.blocks(*area, off..off + bytes.len() as u64) {
                let at = ((block << area.shift()) - off) as usize;
                let own = at..at + (1 << area.shift());
                let mut is_damaged = self.damaged.contains(&block);
                if let Some((before, may_differ)) = before {
                    match self.is_right(*area, block, &before[own.clone()])? {
                        Some(true) => {}
                        Some(false) if !may_differ => is_damaged = true,
                        // Nobody has verified what was lent.
                        _ => {
                            self.set_mark(*area, block, true)?;
                            continue;
                        }
                    }
                }
                let sum = sum_of(block, &bytes[own]);
                self.set_sum(*area, block, if is_damaged { !sum } else { sum })?;
                self.set_mark(*area, block, false)?;
            }
        }
        Ok(())
    }

    pub(super) fn is_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Writes the words that change, in whole pages, and those beside them as the base has them now; true if there are any.
    pub(super) fn write(self) -> Result<bool> {
        let Sums { disk, changed, .. } = self;
        let mut pages: Vec<(u64, Vec<u8>)> = Vec::new();
        for (off, v) in changed {
            let page = off / PAGE * PAGE;
            if pages.last().is_none_or(|(last, _)| *last != page) {
                pages.push((page, read_page(disk, page)?));
            }
            if let Some((_, bytes)) = pages.last_mut() {
                put(bytes, (off - page) as usize, &[v]);
            }
        }
        let any = !pages.is_empty();
        write_runs(disk, pages.into_iter().map(Ok))?;
        Ok(any)
    }
}

fn read_page<D: LiveDisk>(disk: &D, off: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; disk.region().len().saturating_sub(off).min(PAGE) as usize];
    disk.read_pool(off, &mut bytes)?;
    Ok(bytes)
}

pub(super) fn writing<D: LiveDisk>(disk: &D, e: std::io::Error) -> Error {
    Error::io("writing the log of the pool", disk.path().map(Into::into), e)
}

/// Writes pages to the base, those that adjoin together.
pub(super) fn write_runs<D: LiveDisk>(
    disk: &D,
    pages: impl Iterator<Item = Result<(u64, Vec<u8>)>>,
) -> Result<()> {
    let (mut run, mut buffer, mut start) = (Vec::new(), Vec::new(), 0);
    let mut flush = |start: u64, run: &mut Vec<u8>| {
        if run.is_empty() {
            return Ok(());
        }
        let bytes = aligned(&mut buffer, run.len());
        bytes.copy_from_slice(run);
        run.clear();
        disk.write_pages(start, bytes).map_err(|e| writing(disk, e))
    };
    for page in pages {
        let (off, bytes) = page?;
        if off != start + run.len() as u64 || run.len() >= RUN_BYTES_MAX {
            flush(start, &mut run)?;
            start = off;
        }
        run.extend_from_slice(&bytes);
    }
    flush(start, &mut run)
}
