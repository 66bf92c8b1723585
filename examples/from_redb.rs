//! A program of redb's kind, with durahash: tables in one database, and transactions over them.
//!
//!     cargo run -p durahash-examples --bin from_redb

#![forbid(unsafe_code)]

use durahash::{Batch, Map, Options, Pool, Result};

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("my_data.pool");

    // Database::create(path), and TableDefinition::<&str, u64>::new("my_data")
    let db: Pool = Options::new().open_or_create(&path)?;
    let table: Map<str, u64> = db.open_or_create("my_data", &Options::new())?;
    let names: Map<u64, str> = db.open_or_create("names", &Options::new())?;

    // begin_write, open_table, insert, commit
    table.put("my_key", &123)?;

    // begin_read, open_table, get, value
    assert_eq!(table.get("my_key")?, Some(123));

    // A transaction of one key: read, decide, write
    assert_eq!(table.fetch_add("my_key", 1)?, 123);

    // A transaction of several keys and tables: a crash leaves all of it or nothing
    let mut transaction = Batch::new();
    transaction.remove(&table, "my_key")?;
    transaction.put(&table, "your_key", &125)?;
    transaction.put(&names, &125, "your_key")?;
    transaction.apply()?;
    assert_eq!(table.get("my_key")?, None);

    // extract_if, retain, iter, len
    table.put_many(&[("one", 1), ("two", 2), ("three", 3)])?;
    table.retain(|_, value| value % 2 == 1)?;
    let mut all = table.iter().collect::<Result<Vec<_>>>()?;
    all.sort(); // a hash index has no order
    println!("{all:?}");
    assert_eq!(all.len(), 3);

    // commit with Durability::Immediate, after others without
    db.sync()?;
    drop((table, names, transaction)); // all are handles of the database
    db.close()?;

    // Database::open, list_tables
    let db: Pool = Options::new().open(&path)?;
    assert_eq!(db.list()?.len(), 2);
    let names: Map<u64, str> = db.open("names")?;
    assert_eq!(names.get(&125)?.as_deref(), Some("your_key"));
    Ok(())
}
