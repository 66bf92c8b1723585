//! `dump`: all entries as text.

use std::io::{self, BufWriter, IsTerminal, Write};

use durahash::ErrorKind;

use crate::args::Read;
use crate::escape::write_line;
use crate::exit::{Exit, Failure};
use crate::input::GZIP_START;
use crate::output::complain;
use crate::pool::open_of_several;
use crate::progress::{Progress, STEP};
use crate::store::Store;

/// `durahash dump`. Damaged entries are named and left out: a dump is how a pool is salvaged. Entries that damage
/// has hidden from the walk are missed by a check.
pub(crate) fn dump(read: &Read, limit: Option<u64>) -> Result<Exit, Failure> {
    let (pool, others) = open_of_several(read)?;
    if read.map.is_none() && !others.is_empty() {
        let (name, others) = (pool.name(), others.join(", "));
        complain(&format!(
            "durahash: {name}: the map main alone; --map dumps one of the others: {others}"
        ));
    }
    let exit = dump_from(&pool, limit)?;
    if limit.is_some() || exit != Exit::Ok {
        return Ok(exit);
    }
    let mut findings = 0;
    let checked = pool.map.check_watched(&mut |_| findings += 1, &mut |_, _| ());
    checked.map_err(|e| pool.failed(&e))?;
    if findings == 0 {
        return Ok(Exit::Ok);
    }
    let (name, check) = (pool.name(), pool.check_command());
    let message = format!("{name}: dumped, but entries may be missing: `{check}` lists the damage");
    Err(Failure::new(Exit::Corrupt, message))
}

pub(crate) fn dump_from(store: &impl Store, limit: Option<u64>) -> Result<Exit, Failure> {
    let limit = limit.unwrap_or(u64::MAX);
    let stdout = io::stdout();
    let progress = if stdout.is_terminal() {
        // The entries themselves show how far it is.
        Progress::none()
    } else {
        match store.len() {
            Some(len) => Progress::of_entries("dumping", len.min(limit)),
            None => Progress::without_end("dumping"),
        }
    };
    let mut out = BufWriter::with_capacity(64 << 10, stdout.lock());
    let mut line = Vec::new();
    let (mut dumped, mut damaged) = (0, 0);
    for pair in store.entries() {
        if dumped == limit {
            break;
        }
        match pair {
            Ok((key, value)) => {
                line.clear();
                write_line(&key, &value, &mut line);
                if dumped == 0 && line.starts_with(&GZIP_START) {
                    // A comment before it keeps load from taking the dump for compressed.
                    out.write_all(b"#\n").map_err(|e| Failure::output(&e))?;
                }
                out.write_all(&line).map_err(|e| Failure::output(&e))?;
                dumped += 1;
            }
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt { .. }) => {
                damaged += 1;
                let text = format!("durahash: {}: left out: {e}", store.name());
                progress.complain(&text);
            }
            Err(e) => return Err(store.failed(&e)),
        }
        if dumped.is_multiple_of(STEP) {
            progress.set(dumped);
        }
    }
    out.flush().map_err(|e| Failure::output(&e))?;
    drop(progress);
    if damaged == 0 {
        return Ok(Exit::Ok);
    }
    let (name, check) = (store.name(), store.check_command());
    let message =
        format!("{name}: {dumped} entries dumped, damage met {damaged} times; `{check}` lists it");
    Err(Failure::new(Exit::Corrupt, message))
}
