//! `remote check`: every invariant of an index in the memory of nodes.

use durahash::ErrorKind;
use serde_json::json;

use super::index::{Index, named};
use super::memory::Memory;
use crate::exit::{Exit, Failure};
use crate::output::print_as;
use crate::progress::Progress;
use crate::store::Store;

/// `durahash remote check`. It ends at the first finding.
pub(super) fn check<M: Memory>(index: &Index<M>, json: bool) -> Result<Exit, Failure> {
    let progress = Progress::without_end("checking");
    let surveyed = index.survey();
    drop(progress);
    let pool = index.name();
    let (exit, text, answer) = match surveyed {
        Ok(report) => {
            let keys = report.keys;
            let answer = json!({ "pool": pool, "ok": true, "keys": keys, "findings": [] });
            (Exit::Ok, format!("{pool}: ok, {keys} keys\n"), answer)
        }
        Err(e) => match e.kind() {
            ErrorKind::Corrupt { what, off } => {
                let findings = json!([{ "offset": off, "what": what }]);
                let answer = json!({ "pool": pool, "ok": false, "findings": findings });
                let text = format!("{pool}: at offset {off:#x}: {what}\n{pool}: 1 finding\n");
                (Exit::Corrupt, text, answer)
            }
            _ => return Err(index.failed(&e)),
        },
    };
    print_as(json, || answer, || text)?;
    Ok(exit)
}

/// With `--json`, what is no sound index that can be looked at is an answer, too.
pub(super) fn failed(addresses: &[String], failure: Failure) -> Result<Exit, Failure> {
    if failure.exit != Exit::Corrupt {
        return Err(failure);
    }
    let answer = json!({ "pool": named(addresses), "ok": false, "error": failure.message });
    print_as(true, || answer, String::new)?;
    Ok(failure.exit)
}
