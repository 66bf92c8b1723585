//! What SepHash takes, counted: `cargo run --release -p durahash-remote --example figures [FILE]`.
//!
//! Prints tables for `docs/benchmarks.md`, and writes them to FILE as JSON. Everything is counted over a
//! simulated fabric, by one seed, so it is the same on any machine.

mod filter;
mod growth;
mod table;

use durahash_remote::Result;

fn main() -> Result<()> {
    let samples = growth::samples(growth::DEFAULT, &growth::KEYS)?;
    let sums: Vec<_> = filter::WORKLOADS.into_iter().map(filter::run).collect::<Result<_>>()?;
    let [lookups, puts] = filter::tables(&sums);
    let tables = [growth::filling(&samples), growth::space(&samples), lookups, puts];
    for table in &tables {
        println!("{}", table.markdown());
    }
    if let Some(file) = std::env::args_os().nth(1) {
        let json: Vec<String> = tables.iter().map(table::Table::json).collect();
        let text = format!("{{\n{}\n}}\n", json.join(",\n"));
        std::fs::write(&file, text).map_err(|e| durahash_remote::Error::io("writing", None, e))?;
    }
    Ok(())
}
