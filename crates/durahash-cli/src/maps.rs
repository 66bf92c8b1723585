//! `maps`: the maps of a pool, listed, renamed and removed.

use durahash::{Error, MapInfo, Options, Pool, Type};
use serde_json::{Value, json};

use crate::args::{Kind, Maps, MapsChange};
use crate::exit::{Exit, Failure};
use crate::opened::BESIDE;
use crate::output::print_as;
use crate::pool::{in_dir, read_options};

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
    if args.json || args.read.accept_suspect {
        let message = "rename and remove: leave --json and --accept-suspect out, which are for a pool that is read";
        return Err(Failure::new(Exit::Usage, message));
    }
    let options = Options::new().verify(args.read.verify);
    let options = in_dir(options, args.read.live_dir.as_ref());
    let pool: Pool = options.open(path).map_err(failed)?;
    let changed = match change {
        MapsChange::Rename { name, new } => pool.rename(name, new),
        MapsChange::Remove { name } => pool.remove(name),
    };
    changed.and_then(|()| pool.close()).map_err(failed)?;
    Ok(Exit::Ok)
}

fn list(pool: &Pool) -> Result<Vec<Value>, Error> {
    let maps = pool.list()?;
    let is_cache = |map: &MapInfo| matches!(map.value_type, Type::Expiring(_));
    let caches = maps.iter().filter(|map| is_cache(map));
    let beside: Vec<_> = caches.map(|map| format!("{}{BESIDE}", map.name)).collect();
    let own = maps.into_iter().filter(|map| !beside.contains(&map.name));
    let maps = own.map(|map| {
        let (kind, value_type) = match map.value_type {
            Type::Expiring(of) => (Kind::Cache, of.value_type()),
            of if map.is_multimap => (Kind::Multimap, of),
            of => (Kind::Map, of),
        };
        json!({
            "name": map.name,
            "kind": kind.names().0,
            "design": map.design.to_string(),
            "key_type": map.key_type.to_string(),
            "value_type": value_type.to_string(),
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
