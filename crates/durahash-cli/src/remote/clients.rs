//! `remote clients` and `remote evict`: who uses the memory of nodes.

use std::fmt::Write as _;
use std::time::Duration;

use durahash_remote::node::Offers;
use durahash_remote::tcp::{Seated, Warden};
use serde_json::json;

use super::index::explained;
use crate::args::remote::{Remote, Whom};
use crate::exit::{Exit, Failure};
use crate::output::{print, print_as};

fn warden(args: &Remote, offers: Offers) -> Result<Warden, Failure> {
    if offers.fabric() == "tcp" {
        return Warden::attach(offers).map_err(|e| explained(&args.nodes.addresses, &e));
    }
    let what = format!(
        "over {} the nodes do not know their clients: end the process of one that hangs; `--fabric tcp` can evict it",
        offers.fabric()
    );
    Err(Failure::new(Exit::Usage, what))
}

/// `durahash remote clients`.
pub(super) fn list(args: &Remote, offers: Offers, json: bool) -> Result<Exit, Failure> {
    let clients = warden(args, offers)?.clients();
    let clients = clients.map_err(|e| explained(&args.nodes.addresses, &e))?;
    let as_json = || {
        let client = |client: &Seated| {
            let silent_ms = client.silent.as_millis() as u64;
            json!({ "client": client.row, "address": client.address.to_string(), "silent_ms": silent_ms })
        };
        json!({ "clients": clients.iter().map(client).collect::<Vec<_>>() })
    };
    let as_text = || {
        let mut text = format!("{:<8}{:<24}silent\n", "client", "address");
        for Seated { row, address, silent, .. } in &clients {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{row:<8}{:<24}{}", address.to_string(), seconds(*silent));
        }
        text
    };
    print_as(json, as_json, as_text)?;
    Ok(Exit::Ok)
}

/// `durahash remote evict`.
pub(super) fn evict(
    args: &Remote,
    offers: Offers,
    whom: Option<Whom>,
    silent: Option<Duration>,
) -> Result<Exit, Failure> {
    let failed = |e| explained(&args.nodes.addresses, &e);
    let mut warden = warden(args, offers)?;
    let mut clients = warden.clients().map_err(failed)?;
    clients.retain(|client| match whom {
        Some(Whom::Row(row)) => client.row == row,
        Some(Whom::Address(address)) => client.address == address,
        None => silent.is_some_and(|silent| client.silent >= silent),
    });
    for client in &clients {
        warden.evict(client).map_err(failed)?;
        let (Seated { row, address, .. }, silent) = (client, seconds(client.silent));
        print(format!("evicted client {row}, {address}, silent for {silent}\n").as_bytes())?;
    }
    Ok(if whom.is_some() && clients.is_empty() { Exit::NotFound } else { Exit::Ok })
}

fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
