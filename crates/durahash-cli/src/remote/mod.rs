//! `remote`: the commands for an index in the memory of nodes. Their output, and their exit codes, are those
//! of the commands for pools.

mod bench;
mod check;
mod index;
mod stats;

use std::os::unix::ffi::OsStrExt;

use crate::args::remote::{Remote, RemoteCommand};
use crate::exit::{Exit, Failure};
use crate::{dump, load, point};
use index::{Index, Share};

/// `durahash remote`.
pub(crate) fn remote(args: &Remote) -> Result<Exit, Failure> {
    let nodes = &args.nodes;
    match &args.command {
        RemoteCommand::Put { key, value } => {
            point::put_into(Index::open(nodes, Share::Little)?, key.as_bytes(), value.as_bytes())
        }
        RemoteCommand::Get { key } => {
            point::get_from(&Index::open(nodes, Share::Little)?, key.as_bytes())
        }
        RemoteCommand::Del { key } => {
            point::del_from(Index::open(nodes, Share::Little)?, key.as_bytes())
        }
        RemoteCommand::Load { file } => load::load_into(file, || Index::open_or_create(nodes)),
        RemoteCommand::Dump { limit } => {
            dump::dump_from(&Index::open(nodes, Share::Little)?, *limit)
        }
        RemoteCommand::Stats { json } => stats::stats(&Index::open(nodes, Share::Little)?, *json),
        RemoteCommand::Bench(args) => bench::bench(nodes, args),
        RemoteCommand::Check { json } => check::check(&Index::open(nodes, Share::Little)?, *json),
    }
}
