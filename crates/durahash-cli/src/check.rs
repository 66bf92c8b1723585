//! `check`: every invariant verified.

use durahash::{Error, ErrorKind, Finding, Pool};
use serde_json::{Value, json};

use crate::args::{File, Kind};
use crate::exit::{Exit, Failure};
use crate::opened::{MAIN, Opened, own_names};
use crate::output::print_as;
use crate::pool::{open_failed, read_options};
use crate::progress::Progress;

/// `durahash check`.
pub(crate) fn check(read: &File, json: bool) -> Result<Exit, Failure> {
    let path = &read.pool;
    let pool = path.display().to_string();
    let mut progress = Progress::without_end("checking");
    let looked = read_options(read)
        .open(path)
        .map_err(|e| open_failed(path, &e))
        .and_then(|pool| look(&pool, &mut progress).map_err(|e| Failure::pool(path, &e)));
    drop(progress);
    let looked = match looked {
        Err(failure) if json && failure.exit == Exit::Corrupt => {
            let answer = json!({ "pool": pool, "ok": false, "error": failure.message });
            print_as(json, || answer, String::new)?;
            return Ok(failure.exit);
        }
        looked => looked?,
    };
    print_as(json, || as_json(&pool, &looked), || as_text(&pool, &looked))?;
    Ok(if looked.findings.is_empty() { Exit::Ok } else { Exit::Corrupt })
}

/// The result of a check.
struct Looked {
    /// The word for entries: keys, if no map is a multimap.
    called: &'static str,
    /// How many there are, where it can be told.
    entries: Option<u64>,
    /// How many maps there are, if there are others than one that has no name of its own.
    maps: Option<usize>,
    /// True if pages may be missing without a check noticing it; `None` if unknown.
    suspect: Option<bool>,
    /// Blocks that have a check word, and all that get one, where it can be told.
    blocks: Option<[u64; 2]>,
    /// Each with the name of its map.
    findings: Vec<(String, Finding)>,
}

fn look(pool: &Pool, progress: &mut Progress) -> Result<Looked, Error> {
    let mut findings = Vec::new();
    pool.check_watched(
        &mut |map, finding| findings.push((map.to_owned(), finding)),
        &mut |done, of| progress.watch(done, of),
    )?;
    let names = own_names(pool);
    let maps = (names != [MAIN]).then_some(names.len());
    let mut looked = Looked {
        called: Kind::Map.names().1,
        entries: Some(0),
        maps,
        suspect: maps.map(|_| false),
        blocks: None,
        findings,
    };
    for name in names {
        match Opened::of(pool, &name).and_then(|map| Ok((map.kind(), map.stats()?))) {
            Ok((kind, stats)) => {
                if kind == Kind::Multimap {
                    looked.called = Kind::Multimap.names().1;
                }
                looked.entries = looked.entries.map(|entries| entries + stats.keys);
                looked.suspect = Some(stats.suspect);
                let space = stats.space;
                looked.blocks = Some([space.verifiable_blocks, space.checked_blocks]);
            }
            // Then it is among the findings.
            Err(e)
                if matches!(e.kind(), ErrorKind::Corrupt { .. }) && !looked.findings.is_empty() =>
            {
                (looked.entries, looked.suspect) = (None, None);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(looked)
}

fn as_json(pool: &str, looked: &Looked) -> Value {
    let Looked { called, entries, maps, suspect, blocks, findings } = looked;
    let list = findings.iter().map(|(map, finding)| {
        let mut found = json!({
            "invariant": finding.invariant,
            "offset": finding.off,
            "what": finding.what,
        });
        if maps.is_some() {
            found["map"] = json!(map);
        }
        found
    });
    let mut answer = json!({
        "pool": pool,
        "ok": findings.is_empty(),
        (*called): entries,
        "suspect": suspect,
        "blocks": blocks.map(|[verified, all]| json!({ "verified": verified, "of": all })),
        "findings": list.collect::<Vec<_>>(),
    });
    if let Some(maps) = maps {
        answer["maps"] = json!(maps);
    }
    answer
}

fn as_text(pool: &str, looked: &Looked) -> String {
    let Looked { called, entries, maps, suspect, blocks, findings } = looked;
    let mut text = String::new();
    for (map, Finding { invariant, off, what, .. }) in findings {
        let map = if maps.is_none() || map.is_empty() { "" } else { &format!("map {map}: ") };
        text.push_str(&format!("{pool}: {map}{invariant} at offset {off:#x}: {what}\n"));
    }
    let of_maps = maps.map_or_else(String::new, |maps| format!(" in {maps} maps"));
    text.push_str(&match (findings.len(), entries) {
        (0, Some(entries)) => format!("{pool}: ok, {entries} {called}{of_maps}\n"),
        (found, _) => format!("{pool}: {found} findings\n"),
    });
    if let Some([verified, all]) = blocks
        && verified < all
    {
        text.push_str(&format!(
            "{pool}: {verified} of {all} blocks verified: the others have no check word, until a close\n"
        ));
    }
    if *suspect == Some(true) {
        text.push_str(&format!("{pool}: suspect: pages may have been lost with the power\n"));
    }
    text
}
