//! A store that keeps each block once, under its SHA-256; a file is the list of its blocks' digests.
//!
//!     cargo run -p durahash-examples --bin dedup

use std::collections::HashSet;

use durahash::{Map, Options, Result};
use sha2::{Digest, Sha256};

const BLOCK_BYTES: usize = 4096;

type Sha = [u8; 32];

struct Store {
    blocks: Map<Sha, [u8]>,
    files: Map<str, [u8]>,
}

impl Store {
    /// Stores a file. Its blocks first: whatever happens in between, no list names a block that is missing.
    fn add(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let mut list = Vec::new();
        for block in bytes.chunks(BLOCK_BYTES) {
            let digest: Sha = Sha256::digest(block).into();
            if !self.blocks.contains_key(&digest)? {
                self.blocks.put(&digest, block)?;
            }
            list.extend(digest);
        }
        self.files.put(name, &list)
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
    let blocks = Options::new().create(dir.path().join("blocks.pool"))?;
    let store = Store { blocks, files: Options::new().create(dir.path().join("files.pool"))? };
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
