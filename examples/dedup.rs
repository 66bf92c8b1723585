//! A store that keeps each block once, under its SHA-256; a file is the list of its blocks' digests.
//!
//!     cargo run -p durahash-examples --bin dedup

#![forbid(unsafe_code)]

use std::collections::HashSet;

use durahash::{Map, Options, Pool, Result};
use sha2::{Digest, Sha256};

const BLOCK_BYTES: usize = 4096;

struct Store {
    blocks: Map<[u8; 32], [u8]>,
    files: Map<str, [u8]>,
}

impl Store {
    /// Stores a file. Its blocks first: whatever happens in between, no list names a block that is missing.
    fn add(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let blocks = || bytes.chunks(BLOCK_BYTES);
        let digests: Vec<[u8; 32]> = blocks().map(|block| Sha256::digest(block).into()).collect();
        let mut known = vec![false; digests.len()];
        self.blocks.contains_many(&digests, &mut known)?;
        let all = digests.iter().copied().zip(blocks()).zip(known);
        self.blocks.extend(all.filter(|(_, known)| !known).map(|(block, _)| block))?;
        self.files.put(name, digests.as_flattened())
    }

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let Some(list) = self.files.get(name)? else { return Ok(None) };
        let (digests, _) = list.as_chunks::<32>();
        let mut blocks = vec![None; digests.len()];
        self.blocks.get_many(digests, &mut blocks)?;
        Ok(blocks.into_iter().collect::<Option<Vec<_>>>().map(|blocks| blocks.concat()))
    }

    /// Removes the blocks that no file names. Nothing may be added meanwhile.
    fn sweep(&self) -> Result<u64> {
        let mut named = HashSet::new();
        for list in self.files.values() {
            named.extend(list?.as_chunks::<32>().0.iter().copied());
        }
        self.blocks.retain(|digest, _| named.contains(digest))
    }
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let pool: Pool = Options::new().create(dir.path().join("store.pool"))?;
    let (blocks, files) =
        (pool.create("blocks", &Options::new())?, pool.create("files", &Options::new())?);
    let store = Store { blocks, files };
    let old: Vec<u8> = (0..1_000_000_u32).map(|i| (i / 4096 * i) as u8).collect();
    let new = [&old[..], b"a new end"].concat();
    store.add("old", &old)?;
    store.add("new", &new)?;
    assert_eq!(store.read("new")?, Some(new));
    println!("{} bytes in {} blocks", 2 * old.len() + 9, store.blocks.len()?);
    store.files.remove("new")?;
    assert_eq!(store.sweep()?, 1);
    assert_eq!(store.read("old")?, Some(old));
    Ok(())
}
