//! `check`: every invariant verified.

use durahash::{Error, ErrorKind, Finding};
use serde_json::{Value, json};

use crate::args::{Kind, Read};
use crate::exit::{Exit, Failure};
use crate::opened::Opened;
use crate::output::print_as;
use crate::pool::open_to_read;
use crate::progress::Progress;

/// `durahash check`.
pub(crate) fn check(read: &Read, json: bool) -> Result<Exit, Failure> {
    let pool = read.pool.display().to_string();
    let mut progress = Progress::without_end("checking");
    let looked = open_to_read(read)
        .and_then(|pool| look(&pool.map, &mut progress).map_err(|e| Failure::pool(&read.pool, &e)));
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
    kind: Kind,
    /// The number of keys, or of a multimap's entries, where it can be told.
    keys: Option<u64>,
    /// Whether pages may be missing that no check can miss, where it can be told.
    suspect: Option<bool>,
    findings: Vec<Finding>,
}

fn look(map: &Opened, progress: &mut Progress) -> Result<Looked, Error> {
    let mut findings = Vec::new();
    map.check_watched(&mut |finding| findings.push(finding), &mut |done, of| {
        progress.watch(done, of)
    })?;
    let (keys, suspect) = match map.stats() {
        Ok(stats) => (Some(stats.keys), Some(stats.suspect)),
        // Then it is among the findings.
        Err(e) if matches!(e.kind(), ErrorKind::Corrupt { .. }) && !findings.is_empty() => {
            (None, None)
        }
        Err(e) => return Err(e),
    };
    Ok(Looked { kind: map.kind(), keys, suspect, findings })
}

fn as_json(pool: &str, looked: &Looked) -> Value {
    let Looked { kind, keys, suspect, findings } = looked;
    let list = findings.iter().map(|finding| {
        json!({
            "invariant": finding.invariant,
            "offset": finding.off,
            "what": finding.what,
        })
    });
    json!({
        "pool": pool,
        "ok": findings.is_empty(),
        (kind.names().1): keys,
        "suspect": suspect,
        "findings": list.collect::<Vec<_>>(),
    })
}

fn as_text(pool: &str, looked: &Looked) -> String {
    let Looked { kind, keys, suspect, findings } = looked;
    let mut text = String::new();
    for Finding { invariant, off, what } in findings {
        text.push_str(&format!("{pool}: {invariant} at offset {off:#x}: {what}\n"));
    }
    text.push_str(&match (findings.len(), keys) {
        (0, Some(keys)) => format!("{pool}: ok, {keys} {}\n", kind.names().1),
        (found, _) => format!("{pool}: {found} findings\n"),
    });
    if *suspect == Some(true) {
        text.push_str(&format!("{pool}: suspect: pages may have been lost with the power\n"));
    }
    text
}
