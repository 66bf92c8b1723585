//! The order in which entries go, from a close to the next open.
//!
//! A policy knows it in DRAM. A close stores it in the map beside that of the cache, in values of up to [`WORDS`] words,
//! and the next open that writes takes it out of there before anything changes: behind a kill there is none. It is a
//! hint. Entries are those that the walk meets, so what is missing of it, and what a kill leaves of it while it is
//! taken out, costs hits alone.

use durahash_media::Result;

use super::super::map::Map;
use crate::cache::policy::Evict;
use crate::engine::records::is_damage;

/// The first key.
const FIRST: u64 = 1 << 16;
/// Words of a value.
const WORDS: usize = 8192;

/// Stores what a policy knows.
pub(super) fn leave(beside: &Map<u64, [u8]>, order: &dyn Evict) -> Result<()> {
    let mut key = FIRST;
    for saved in (0..).map_while(|part| order.save(part)) {
        for words in saved.chunks(WORDS) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            if let Err(e) = beside.put(&key, &bytes) {
                // A part of it is not worth the room.
                take(beside)?;
                return Err(e);
            }
            key += 1;
        }
    }
    Ok(())
}

/// Takes it out, if there is one.
pub(super) fn take(beside: &Map<u64, [u8]>) -> Result<Vec<u64>> {
    let (mut saved, mut end) = (Vec::new(), FIRST);
    let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    loop {
        match beside.get_with(&end, |bytes| saved.extend(bytes.chunks_exact(8).map(word))) {
            Ok(None) => break,
            Err(e) if !is_damage(&e) => return Err(e),
            _ => end += 1,
        }
    }
    // From the last on: what a kill leaves begins with the first.
    for key in (FIRST..end).rev() {
        match beside.remove(&key) {
            Err(e) if is_damage(&e) => {
                let h = beside.hash(&key);
                beside.handle.run(|engine| engine.clear_hash(h, true))?;
            }
            removed => drop(removed?),
        }
    }
    Ok(saved)
}
