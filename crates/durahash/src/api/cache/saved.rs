//! The order in which entries go, from a close to the next open.
//!
//! A policy knows it in DRAM. A close stores it in the map beside that of the cache, in values of up to [`WORDS`] words,
//! and the next open that writes takes it out of there before anything changes: behind a kill there is none. It is a
//! hint. Entries are those that the walk meets, so what is missing of it, and what a kill leaves of it while it is
//! taken out, costs hits alone.

use durahash_media::Result;

use super::super::map::Map;
use crate::cache::policy::Evict;
use crate::engine::records::{is_damage, is_whole};

/// The first key.
const FIRST: u64 = 1 << 16;
/// Words of a value.
const WORDS: usize = 8192;
/// Damaged values behind which no others are looked for.
const DAMAGED_MAX: u32 = 64;

/// Stores what a policy knows, and waits once until it is durable.
pub(super) fn leave(beside: &Map<u64, [u8]>, order: &dyn Evict) -> Result<()> {
    beside.handle.engine.batch(|| store(beside, order))
}

fn store(beside: &Map<u64, [u8]>, order: &dyn Evict) -> Result<()> {
    let mut key = FIRST;
    for saved in (0..).map_while(|part| order.save(part)) {
        for words in saved.chunks(WORDS) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            if let Err(e) = beside.put(&key, &bytes) {
                // A part of it is not worth the room.
                remove(beside, key)?;
                return Err(e);
            }
            key += 1;
        }
    }
    Ok(())
}

/// Takes it out, if there is one.
pub(super) fn take(beside: &Map<u64, [u8]>) -> Result<Vec<u64>> {
    let (mut saved, mut end, mut damaged) = (Vec::new(), FIRST, 0);
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    // Keys that are not there may look damaged as well.
    while damaged < DAMAGED_MAX {
        match beside.get_with(&end, |bytes| saved.extend(bytes.chunks_exact(8).map(word))) {
            Ok(None) => break,
            Ok(Some(())) => {}
            Err(e) if is_damage(&e) => damaged += 1,
            Err(e) => return Err(e),
        }
        end += 1;
    }
    beside.handle.engine.batch(|| remove(beside, end))?;
    Ok(saved)
}

/// Removes it up to `end`, from the last on: what a kill leaves begins with the first. What is damaged may stay.
fn remove(beside: &Map<u64, [u8]>, end: u64) -> Result<()> {
    for key in (FIRST..end).rev() {
        match beside.remove(&key) {
            Err(e) if is_damage(&e) => {
                let h = beside.hash(&key);
                let cleared = beside.handle.run(|engine| engine.clear_hash(h, true));
                is_whole(cleared.map(drop))?;
            }
            removed => drop(removed?),
        }
    }
    Ok(())
}
