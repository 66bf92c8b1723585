//! A program of redb's kind, with durahash: tables in one database, and transactions over them.
//!
//!     cargo run -p durahash-examples --bin from_redb

use durahash::{Map, Options, Pool, Result};

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("my_data.pool");

    // Database::create(path), and TableDefinition::<&str, u64>::new("my_data")
    let db: Pool = Options::new().open_or_create(&path)?;
    let table: Map<str, u64> = db.open_or_create("my_data", &Options::new())?;

    // begin_write, open_table, insert, commit
    table.put("my_key", &123)?;

    // begin_read, open_table, get, value
    assert_eq!(table.get("my_key")?, Some(123));

    // A transaction of one key: read, decide, write
    assert_eq!(table.fetch_add("my_key", 1)?, 123);

    // extract_if, retain, iter, len
    table.put_many(&[("one", 1), ("two", 2), ("three", 3)])?;
    table.retain(|_, value| value % 2 == 1)?;
    let mut all = table.iter().collect::<Result<Vec<_>>>()?;
    all.sort(); // a hash index has no order
    println!("{all:?}");
    assert_eq!(all.len(), 2);

    // commit with Durability::Immediate, after others without
    db.sync()?;
    drop(table);
    db.close()?;

    // Database::open, list_tables
    let db: Pool = Options::new().open(&path)?;
    assert_eq!(db.list()?[0].name, "my_data");
    Ok(())
}
