//! `maps`: the maps of a pool, listed, renamed and removed.

use durahash::{Error, Options, Pool};
use serde_json::{Value, json};

use crate::args::{Maps, MapsChange};
use crate::exit::{Exit, Failure};
use crate::output::print_as;
use crate::pool::read_options;

/// `durahash maps`.
pub(crate) fn maps(args: &Maps) -> Result<Exit, Failure> {
    let failed = |e: Error| Failure::pool(&args.read.pool, &e);
    let path = &args.read.pool;
    let Some(change) = &args.change else {
        let pool: Pool = read_options(&args.read).open(path).map_err(failed)?;
        let listed = list(&pool).map_err(failed)?;
        print_as(args.json, || Value::Array(listed.clone()), || as_text(&listed))?;
        return Ok(Exit::Ok);
    };
    let pool: Pool = Options::new().open(path).map_err(failed)?;
    let changed = match change {
        MapsChange::Rename { name, new } => pool.rename(name, new),
        MapsChange::Remove { name } => pool.remove(name),
    };
    changed.and_then(|()| pool.close()).map_err(failed)?;
    Ok(Exit::Ok)
}

fn list(pool: &Pool) -> Result<Vec<Value>, Error> {
    let maps = pool.list()?.into_iter().map(|map| {
        json!({
            "name": map.name,
            "kind": if map.is_multimap { "multimap" } else { "map" },
            "design": map.design.to_string(),
            "key_type": map.key_type.to_string(),
            "value_type": map.value_type.to_string(),
            "entries": map.entries,
        })
    });
    Ok(maps.collect())
}

/// A line for each map: number of entries, kind, design and types, and the name, which may have spaces.
fn as_text(maps: &[Value]) -> String {
    let line = |map: &Value| {
        let text = |field: &str| map[field].as_str().unwrap_or_default().to_owned();
        let types = format!("{} to {}", text("key_type"), text("value_type"));
        let entries = map["entries"].as_u64().unwrap_or_default();
        let (kind, design, name) = (text("kind"), text("design"), text("name"));
        format!("{entries:>12} {kind:<8} {design:<4} {types:<16} {name}\n")
    };
    maps.iter().map(line).collect()
}
