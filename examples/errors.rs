//! Failures, and how a program handles each.
//!
//!     cargo run -p durahash-examples --bin errors

#![forbid(unsafe_code)]

use durahash::{Error, ErrorKind, MAX_KEY_BYTES, Map, Options, Result};

/// The decision of a program that meets an error.
fn advice(e: &Error) -> &'static str {
    match e.kind() {
        ErrorKind::Exists => "open it instead",
        ErrorKind::Locked => "clone the handle that has it open, or wait for the other process",
        ErrorKind::Types { .. } => "open it with the types that it has",
        ErrorKind::NotAPool { .. } => "check the path",
        ErrorKind::ReadOnly => "open it for writing",
        ErrorKind::TooLarge { .. } => "split the key or value",
        ErrorKind::Full { .. } => "remove entries, or load them into a pool with a larger limit",
        ErrorKind::Io { .. } | ErrorKind::Poisoned => "open it again, which recovers it",
        ErrorKind::Corrupt { .. } => "check tells where; restore a backup",
        _ => "report it",
    }
}

/// Shows the error of something that must fail, and the decision.
fn refused<T>(done: Result<T>) -> Error {
    let Err(e) = done else { panic!("it must fail") };
    println!("{e}\n    -> {}", advice(&e));
    e
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("map.pool");
    let options = Options::new().max_bytes(8 << 20);

    let map: Map<str, [u8]> = options.create(&path)?;
    let e = refused(options.create::<Map<str, [u8]>>(&path));
    assert!(matches!(e.kind(), ErrorKind::Exists) && e.path() == Some(&path));
    assert!(matches!(refused(options.open::<Map<str, [u8]>>(&path)).kind(), ErrorKind::Locked));
    let long = "k".repeat(MAX_KEY_BYTES + 1);
    assert!(matches!(refused(map.put(&long, b"")).kind(), ErrorKind::TooLarge { .. }));

    // A refused put has changed nothing. Lookups and removals work in a full pool, too.
    let fill = || (0..1000).try_for_each(|i| map.put(&i.to_string(), &[0; 100_000]));
    assert!(matches!(refused(fill()).kind(), ErrorKind::Full { .. }));
    assert_eq!(map.get("0")?, Some(vec![0; 100_000]));
    map.remove("0")?;
    map.put("new", &[1; 100_000])?;
    map.close()?;

    let wrong = refused(options.open::<Map<str, u64>>(&path));
    assert!(matches!(wrong.kind(), ErrorKind::Types { .. }));
    let reader: Map<str, [u8]> = Options::new().read_only(true).open(&path)?;
    assert!(matches!(refused(reader.put("new", b"")).kind(), ErrorKind::ReadOnly));
    let text = dir.path().join("text");
    std::fs::write(&text, "no pool ".repeat(1000)).expect("a file");
    let e = refused(options.open::<Map<str, [u8]>>(&text));
    assert!(matches!(e.kind(), ErrorKind::NotAPool { .. }));
    Ok(())
}
