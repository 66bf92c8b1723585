//! The program that redb's documentation begins with, and what follows there, with durahash.
//!
//!     cargo run -p durahash-examples --bin from_redb

use durahash::{Map, Options, Result};

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("my_data.pool");

    // Database::create(path), and TableDefinition::<&str, u64>::new("my_data")
    let table: Map<str, u64> = Options::new().open_or_create(&path)?;

    // begin_write, open_table, insert, commit
    table.put("my_key", &123)?;

    // begin_read, open_table, get, value
    assert_eq!(table.get("my_key")?, Some(123));

    // extract_from_if, retain, iter, len
    table.put_many(&[("one", 1), ("two", 2), ("three", 3)])?;
    table.retain(|_, value| value % 2 == 1)?;
    let mut all = table.iter().collect::<Result<Vec<_>>>()?;
    all.sort(); // a hash index has no order
    println!("{all:?}");
    assert_eq!(all.len(), 3);

    // commit with Durability::Immediate, after others without
    table.sync()?;
    table.close()?;

    // Database::open, and what redb does in a transaction of one key: read, decide, write
    let table: Map<str, u64> = Options::new().open(&path)?;
    assert_eq!(table.fetch_add("my_key", 1)?, 123);
    assert_eq!(table.remove("my_key")?, Some(124));
    Ok(())
}
