//! `remote stats`: figures about an index in the memory of nodes.

use durahash_remote::Report;
use serde_json::{Value, json};

use super::index::Index;
use super::memory::Memory;
use crate::exit::{Exit, Failure};
use crate::output::print_as;
use crate::progress::Progress;
use crate::size::human;
use crate::store::Store;

/// `durahash remote stats`.
pub(super) fn stats<M: Memory>(index: &Index<M>, json: bool) -> Result<Exit, Failure> {
    let progress = Progress::without_end("looking");
    let looked = index.survey().and_then(|report| Ok((report, index.clients()?)));
    let (report, clients) = looked.map_err(|e| index.failed(&e))?;
    drop(progress);
    print_as(json, || as_json(index, &report, clients), || as_text(index, &report, clients))?;
    Ok(Exit::Ok)
}

/// `durahash remote stats --quick`.
pub(super) fn quick<M: Memory>(index: &Index<M>, json: bool) -> Result<Exit, Failure> {
    let looked = index.map().summary().and_then(|summary| Ok((summary, index.clients()?)));
    let (summary, clients) = looked.map_err(|e| index.failed(&e))?;
    let as_json = || {
        json!({
            "pool": index.name(),
            "keys_about": summary.keys_about,
            "segments_seen": summary.segments_seen,
            "global_depth": summary.depth,
            "memory_bytes": index.bytes(),
            "taken_bytes": summary.taken_bytes,
            "free_bytes": summary.free_bytes,
            "leaked_bytes": summary.leaked_bytes,
            "nodes": index.addresses(),
            "clients": clients,
        })
    };
    let as_text = || {
        let [memory, taken, free, leaked] =
            [index.bytes(), summary.taken_bytes, summary.free_bytes, summary.leaked_bytes]
                .map(human);
        rows(&[
            ("pool", index.name()),
            ("keys", format!("about {}", summary.keys_about)),
            ("memory", format!("{memory} ({taken} taken, {free} never taken)")),
            ("leaked", format!("{leaked} at most, since the last sweep")),
            ("clients", clients.to_string()),
            ("global depth", summary.depth.to_string()),
        ])
    };
    print_as(json, as_json, as_text)?;
    Ok(Exit::Ok)
}

fn rows(rows: &[(&str, String)]) -> String {
    rows.iter().map(|(name, value)| format!("{name:<18}{value}\n")).collect()
}

fn ratio(part: u64, of: u64) -> f64 {
    part as f64 / of.max(1) as f64
}

/// Bytes of the segments and the directory for each entry, and all bytes for each key.
fn bytes_per_entry(report: &Report) -> [f64; 2] {
    [
        ratio(report.index_bytes, report.entries),
        ratio(report.index_bytes + report.kv_bytes, report.keys),
    ]
}

fn as_json<M: Memory>(index: &Index<M>, report: &Report, clients: u32) -> Value {
    let [index_bytes, medium_bytes] = bytes_per_entry(report);
    json!({
        "pool": index.name(),
        "design": "sephash",
        "kind": "map",
        "key_type": "bytes",
        "value_type": "bytes",
        "keys": report.keys,
        "load_factor": ratio(report.entries, report.capacity),
        "global_depth": report.depth,
        "deepest": report.deepest,
        "segments": report.segments,
        "at_max_depth": report.at_max_depth,
        "entries": report.entries,
        "bytes_per_entry": { "index": index_bytes, "medium": medium_bytes },
        "memory_bytes": index.bytes(),
        "taken_bytes": report.taken_bytes,
        "shelf_bytes": report.shelf_bytes,
        "held_bytes": report.held_bytes,
        "unaccounted_bytes": report.unaccounted_bytes,
        "nodes": index.addresses(),
        "clients": clients,
    })
}

fn as_text<M: Memory>(index: &Index<M>, report: &Report, clients: u32) -> String {
    let [index_bytes, medium_bytes] = bytes_per_entry(report);
    let [taken, shelf] = [report.taken_bytes, report.shelf_bytes].map(human);
    let unaccounted = human(report.unaccounted_bytes);
    let full = report.at_max_depth;
    rows(&[
        ("pool", index.name()),
        ("design", "sephash".into()),
        ("kind", "map".into()),
        ("types", "bytes -> bytes".into()),
        ("keys", report.keys.to_string()),
        ("load factor", format!("{:.3}", ratio(report.entries, report.capacity))),
        ("bytes per entry", format!("{medium_bytes:.1}, {index_bytes:.1} of them in the index")),
        ("memory", format!("{} ({taken} taken, {shelf} of them free)", human(index.bytes()))),
        ("unaccounted", format!("{unaccounted}: other clients have it, or had it when they died")),
        ("clients", clients.to_string()),
        ("global depth", report.depth.to_string()),
        ("segments", format!("{}, {full} of them as deep as they get", report.segments)),
    ])
}
