//! The block of tables that the root names, as it is read.

use durahash_media::hash::WordMix;
use durahash_media::{Medium, Place, Result, bits};

use super::layout::{self, BUCKET_BYTES, TABLES, Tables};
use super::tables::{self, Resize, Table, TableSet};

/// The hash of hashes that chooses buckets, and that check sums are made of.
pub(super) fn remix_of(seed: u64) -> WordMix {
    WordMix::new(!seed)
}

/// The words of a block of tables; `None` where its check sum says otherwise.
///
/// # Errors
/// [`Corrupt`](crate::ErrorKind::Corrupt) where the pool ends before it.
pub(super) fn block_words<M: Medium>(
    map: &Place<M>,
    number: u64,
) -> Result<Option<[u64; layout::BLOCK_WORDS]>> {
    let medium = map.pool().medium();
    let block: &Tables = map.pool().at(number.wrapping_mul(BUCKET_BYTES))?;
    let mut words = [0; layout::BLOCK_WORDS];
    for (word, v) in layout::fields(block).zip(&mut words) {
        *v = medium.load(word);
    }
    let sum = layout::sum_of(remix_of(map.format().seed), words.into_iter());
    Ok((medium.load(&block.sum) == sum).then_some(words))
}

/// The tables in the words of a block; `None` where no pool has such.
pub(super) fn tables_in<M: Medium>(
    map: &Place<M>,
    words: &[u64; layout::BLOCK_WORDS],
) -> Option<TableSet> {
    let pool = map.pool();
    let per_extent = pool.extent_bytes() / BUCKET_BYTES;
    let resize = Resize::from_code(bits(words[0], 0, 3))?;
    let count = (words[0] >> 3) as usize;
    if !(resize.needs()..=TABLES).contains(&count) {
        return None;
    }
    let mut wanted = TableSet { resize, count, tables: [None; tables::ALL] };
    for (i, (entry, table)) in words[2..].iter().zip(&mut wanted.tables).enumerate() {
        let is_used = resize.has(count, i);
        if is_used != (*entry != 0) {
            return None;
        }
        if is_used {
            let (first, shift) = (entry >> 8, bits(*entry, 0, 8) as u32);
            let end = 1_u64.checked_shl(shift).and_then(|extents| first.checked_add(extents))?;
            if end > pool.max_bytes() / pool.extent_bytes() {
                return None;
            }
            let shift = shift + per_extent.ilog2();
            *table = Some(Table { first: first * per_extent, shift });
        }
    }
    Some(wanted)
}
