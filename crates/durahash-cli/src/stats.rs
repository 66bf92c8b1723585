//! `stats`: figures about a pool.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt;

use durahash::{Durability, Error, Stats};
use serde_json::{Value, json};

use crate::args::{Kind, Read};
use crate::exit::{Exit, Failure};
use crate::opened::Opened;
use crate::output::print_as;
use crate::pool::open_to_read;
use crate::progress::Progress;
use crate::size::human;

/// The longest bar of the histogram.
const BAR_CHARS: u64 = 40;

/// `durahash stats`.
pub(crate) fn stats(read: &Read, json: bool) -> Result<Exit, Failure> {
    let map = open_to_read(read)?.map;
    let progress = Progress::without_end("looking");
    let (mut stats, live) = look(&map).map_err(|e| Failure::pool(&read.file.pool, &e))?;
    // As `maps` has them, and messages.
    [stats.key_type, stats.value_type] = map.types();
    drop(progress);
    let (pool, kind) = (read.file.pool.display().to_string(), map.kind());
    let disk_bytes = fs::metadata(&read.file.pool).ok().map(|file| file.blocks() * 512);
    let taken = Taken { disk_bytes, huge_bytes: map.huge_bytes(), live };
    let (as_json, as_text) =
        (|| as_json(&pool, kind, &stats, &taken), || as_text(&pool, kind, &stats, &taken));
    print_as(json, as_json, as_text)?;
    Ok(Exit::Ok)
}

/// Which blocks of records are free is known when every slot was looked at. The other figure is how many entries of a cache
/// have not expired.
fn look(map: &Opened) -> Result<(Stats, Option<u64>), Error> {
    while map.step()? {}
    let live = match map {
        Opened::Cache(cache) => Some(cache.count()?),
        _ => None,
    };
    Ok((map.stats()?, live))
}

/// How many units have each local depth that occurs.
fn depths(stats: &Stats) -> impl Iterator<Item = (usize, u64)> {
    stats.index.depths.iter().copied().enumerate().filter(|(_, units)| *units != 0)
}

/// What was found out beside the figures of the library: bytes that the pool takes, where the system tells.
struct Taken {
    /// Of the disk: fewer than the size of a file that has holes.
    disk_bytes: Option<u64>,
    /// Of memory, in huge pages.
    huge_bytes: Option<u64>,
    /// And entries of a cache that have not expired.
    live: Option<u64>,
}

fn as_json(pool: &str, kind: Kind, stats: &Stats, taken: &Taken) -> Value {
    let depths = depths(stats).map(|(depth, units)| json!({ "depth": depth, "units": units }));
    let mut figures = json!({
        "pool": pool,
        "design": stats.design.to_string(),
        "kind": kind.names().0,
        "key_type": stats.key_type.to_string(),
        "value_type": stats.value_type.to_string(),
        (kind.names().1): stats.keys,
        "load_factor": stats.load_factor(),
        "global_depth": stats.index.global_depth,
        "depths": depths.collect::<Vec<_>>(),
        "bytes_per_entry": {
            "medium": stats.medium_bytes_per_key(),
            "dram": stats.dram_bytes_per_key(),
        },
        "file_bytes": stats.space.bytes,
        "disk_bytes": taken.disk_bytes,
        "free_bytes": stats.space.free_bytes,
        "max_bytes": stats.space.max_bytes,
        "check_bytes": stats.space.check_bytes,
        "blocks": { "verifiable": stats.space.verifiable_blocks, "of": stats.space.checked_blocks },
        "durability": match stats.durability {
            Durability::None => "none",
            Durability::Process => "process",
            Durability::Interval => "interval",
            Durability::Strict => "strict",
            _ => "other",
        },
        "mode": stats.sync_mode.to_string(),
        "huge_page_bytes": taken.huge_bytes,
        "open_epoch": stats.epoch,
        "open_seconds": stats.open_time.as_secs_f64(),
        "recovered": stats.recovered,
        "suspect": stats.suspect,
    });
    if let (Some(cache), Some(live)) = (stats.cache, taken.live) {
        figures["cache"] = json!({
            "live": live,
            "expired": stats.keys.saturating_sub(live),
            "removed": { "expired": cache.expired, "evicted": cache.evicted },
            "max_entries": cache.max_entries,
            "max_bytes_used": cache.max_bytes_used,
            "eviction": cache.eviction.map(|policy| policy.to_string()),
        });
    }
    // Those of the design.
    if let Some(pea) = stats.index.pea {
        figures["strategies"] = json!(pea.strategies);
    }
    if let Some(esh) = stats.index.esh {
        figures["repairs"] = json!(esh.repairs);
        figures["unrepaired"] = json!(esh.unrepaired);
    }
    if let Some(rewo) = stats.index.rewo {
        figures["tables"] = json!(rewo.tables);
        figures["cached_slots"] = json!(rewo.cached_slots);
    }
    figures
}

fn as_text(pool: &str, kind: Kind, stats: &Stats, taken: &Taken) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<18}{value}");
    };
    row("pool", pool.into());
    row("design", stats.design.to_string());
    row("kind", kind.names().0.into());
    row("types", format!("{} -> {}", stats.key_type, stats.value_type));
    row(kind.names().1, stats.keys.to_string());
    if let (Some(cache), Some(live)) = (stats.cache, taken.live) {
        row(
            "expired",
            format!(
                "{} to be removed yet, {} removed",
                stats.keys.saturating_sub(live),
                cache.expired
            ),
        );
        let bounds = [
            cache.max_entries.map(|max| format!("{max} entries")),
            cache.max_bytes_used.map(human),
        ];
        let bounds: Vec<_> = bounds.into_iter().flatten().collect();
        row("bound", if bounds.is_empty() { "none".into() } else { bounds.join(", ") });
        if let Some(policy) = cache.eviction {
            row("eviction", format!("{policy}, {} evicted", cache.evicted));
        }
    }
    row("load factor", format!("{:.3}", stats.load_factor()));
    row(
        "bytes per entry",
        format!(
            "{:.1} on the medium, {:.1} in DRAM",
            stats.medium_bytes_per_key(),
            stats.dram_bytes_per_key()
        ),
    );
    row(
        "file size",
        format!("{} ({} free)", human(stats.space.bytes), human(stats.space.free_bytes)),
    );
    if let Some(disk_bytes) = taken.disk_bytes {
        row("on the disk", human(disk_bytes));
    }
    if let Some(max_bytes) = stats.space.max_bytes {
        row("largest size", human(max_bytes));
    }
    row(
        "check words",
        format!("of {} of {} blocks", stats.space.verifiable_blocks, stats.space.checked_blocks),
    );
    row("durability", stats.durability.to_string());
    row("mode", stats.sync_mode.to_string());
    row("huge pages", taken.huge_bytes.map_or("unknown".into(), human));
    row("open epoch", stats.epoch.to_string());
    let recovery = if stats.recovered { ", with a recovery" } else { "" };
    row("opened in", format!("{:.1} ms{recovery}", stats.open_time.as_secs_f64() * 1e3));
    if stats.suspect {
        row("suspect", "yes: pages may have been lost with the power".into());
    }
    if let Some(rewo) = stats.index.rewo {
        row("tables", rewo.tables.to_string());
        row("cached table", format!("{} slots", rewo.cached_slots));
    } else {
        row("global depth", stats.index.global_depth.to_string());
    }
    if let Some(pea) = stats.index.pea {
        let [single, two, stash] = pea.strategies;
        row("strategies", format!("{single} single, {two} two-choice, {stash} with stash"));
    }
    if let Some(esh) = stats.index.esh {
        let (done, due) = (esh.repairs, esh.unrepaired);
        row("repaired", format!("{done} segments since the open, {due} to be repaired yet"));
    }
    let most = stats.index.depths.iter().copied().max().unwrap_or(0).max(1);
    for (i, (depth, units)) in depths(stats).enumerate() {
        let name = if i == 0 { "local depths" } else { "" };
        let bar = "#".repeat((units * BAR_CHARS).div_ceil(most) as usize);
        row(name, format!("{depth:>2} {units:>9} {bar}"));
    }
    text
}
