//! `remote`: the commands for an index in the memory of nodes. Their output, and their exit codes, are those
//! of the commands for pools; their options are fewer.

mod bench;
mod check;
mod clients;
mod index;
mod memory;
mod stats;

use std::os::unix::ffi::OsStrExt;

use durahash_remote::node::{Limits, Nodes, Offers};
use durahash_remote::tcp::Tcp;

use crate::args::remote::{Remote, RemoteCommand};
use crate::exit::{Exit, Failure};
use crate::token::token;
use crate::{dump, load, point};
use index::{Index, Share, explained, not_attached};
use memory::Memory;

/// `durahash remote`.
pub(crate) fn remote(args: &Remote) -> Result<Exit, Failure> {
    let done = reach(args);
    match (&args.command, done) {
        (RemoteCommand::Check { json: true }, Err(failure)) => {
            check::failed(&args.nodes.addresses, failure)
        }
        (_, done) => done,
    }
}

/// Over which fabric, the nodes say.
fn reach(args: &Remote) -> Result<Exit, Failure> {
    let nodes = &args.nodes;
    let token = token(nodes.token_file.as_deref())?;
    let offers = Offers::gather(&nodes.addresses, token.as_ref(), &Limits::default());
    let offers = offers.map_err(|e| explained(&nodes.addresses, &e))?;
    match (&args.command, offers.fabric()) {
        (RemoteCommand::Clients { json }, _) => clients::list(args, offers, *json),
        (RemoteCommand::Evict { client, silent }, _) => {
            clients::evict(args, offers, *client, *silent)
        }
        (_, "tcp") => run(args, Tcp::attach(offers)),
        (_, "ucx") => over_ucx(args, offers),
        _ => run(args, Nodes::attach(offers)),
    }
}

#[cfg(feature = "ucx")]
fn over_ucx(args: &Remote, offers: Offers) -> Result<Exit, Failure> {
    use durahash_ucx::{Trusted, Ucx};
    durahash_ucx::quiet();
    // The lease, of which the deadline is a part, is the node's.
    run(args, Ucx::attach(Trusted::as_told(offers), Limits::default().silence))
}

#[cfg(not(feature = "ucx"))]
fn over_ucx(_: &Remote, _: Offers) -> Result<Exit, Failure> {
    Err(Failure::no_ucx("the node lends its memory over UCX"))
}

fn run<M: Memory>(args: &Remote, attached: durahash::Result<M>) -> Result<Exit, Failure> {
    let addresses = &args.nodes.addresses;
    let memory = attached.map_err(|e| not_attached(addresses, &e))?;
    let open = |memory| Index::open(memory, addresses, Share::Little);
    match &args.command {
        RemoteCommand::Put { key, value } => {
            point::put_into(|| open(memory), key, value.as_deref(), None)
        }
        RemoteCommand::Get { keys } => point::get_from(&open(memory)?, keys),
        RemoteCommand::Del { key } => point::del_from(open(memory)?, key.as_bytes()),
        RemoteCommand::Load { file, json } => {
            load::load_into(file, *json, || Index::open_or_create(memory, addresses))
        }
        RemoteCommand::Dump { limit } => dump::dump_from(&open(memory)?, *limit),
        RemoteCommand::Stats { quick: true, json } => stats::quick(&open(memory)?, *json),
        RemoteCommand::Stats { quick: false, json } => stats::stats(&open(memory)?, *json),
        RemoteCommand::Bench(args) => bench::bench(memory, addresses, args),
        RemoteCommand::Check { json } => check::check(&open(memory)?, *json),
        RemoteCommand::Clients { .. } | RemoteCommand::Evict { .. } => {
            unreachable!("they need no memory")
        }
    }
}
