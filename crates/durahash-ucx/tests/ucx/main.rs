//! Nodes and clients in processes of their own, over TCP and over shared memory.

mod fabric;
mod index;
mod process;
#[path = "../../../durahash-remote/tests/remote/verbs/mod.rs"]
mod verbs;

use std::path::{Path, PathBuf};
use std::time::Duration;

use durahash_media::Result;
use durahash_remote::node::FileMemory;
use durahash_ucx::{Trusted, Ucx, UcxNode, UcxNodeOptions};

use process::{Process, Transport, hear, tell};

/// Of clients whose nodes are there: nothing that a busy machine does takes as long, nor as a quarter of
/// the leases, to which clients cut it.
const DEADLINE: Duration = Duration::from_secs(30);

/// The other processes: this binary, started with a role in its environment.
#[test]
fn a_role_in_another_process() {
    let Some(role) = process::role() else { return };
    match role.as_str() {
        "node" => node(),
        "listen" => index::listen(),
        "find" => index::find(),
        "verbs" => fabric::verb_bodies(),
        "lengths" => fabric::lengths(),
        "seen" => fabric::seen(),
        "adds" => fabric::adds(),
        "words" => fabric::words(),
        "writes" => fabric::writes(),
        "reads" => fabric::reads(),
        "rows" => fabric::rows(),
        "late" => fabric::late(),
        "last" => fabric::last(),
        "idle" => fabric::idle(),
        "beside" => fabric::beside(),
        "create" => index::create(),
        "load" => index::load(),
        "check" => index::check(),
        "lose" => index::lose(),
        "stale" => index::stale(),
        _ => panic!("there is no role {role}"),
    }
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that reach nodes, in a line.
fn hear_infos() -> Vec<Vec<u8>> {
    let digits = |text: &str, at| u8::from_str_radix(&text[at..at + 2], 16).unwrap();
    let info = |text: &str| (0..text.len()).step_by(2).map(|at| digits(text, at)).collect();
    hear().split(' ').map(info).collect()
}

/// A client of nodes.
fn reach(infos: &[Vec<u8>], deadline: Duration) -> Result<Ucx> {
    // SAFETY: processes that a test has started have told them, or they are refused before UCX sees them.
    let infos = unsafe { Trusted::new(infos) };
    Ucx::connect(&infos, deadline)
}

/// A client of the nodes that the next line tells of.
fn connect() -> Ucx {
    reach(&hear_infos(), DEADLINE).unwrap()
}

/// Serves a region until it is told to end.
fn node() {
    let (bytes, rows, lease_ms, file) = (hear(), hear(), hear(), hear());
    let mut options = UcxNodeOptions::default();
    options.bytes = bytes.parse().unwrap();
    options.max_clients = rows.parse().unwrap();
    options.lease = Duration::from_millis(lease_ms.parse().unwrap());
    options.loopback = true;
    let node = match Path::new(&file) {
        path if path == NO_FILE => UcxNode::start(&options).unwrap(),
        path => UcxNode::start_in(FileMemory::open(path, None, false).unwrap(), &options).unwrap(),
    };
    tell(&to_hex(node.connect_info()));
    assert_eq!(hear(), "end");
    assert!(node.serves());
    let memory = node.stop().unwrap();
    memory.map_or(Ok(()), |memory| memory.close(Duration::ZERO)).unwrap();
}

/// In place of the path of a file, for a node without one.
const NO_FILE: &str = "-";

/// Processes with a region each.
struct Nodes {
    transport: Transport,
    processes: Vec<Process>,
    /// Their connect info.
    infos: String,
}

impl Nodes {
    fn start(transport: Transport, bytes: &[u64], rows: u32, lease_ms: u64) -> Self {
        let of = |bytes: &u64| [bytes.to_string(), rows.to_string(), NO_FILE.into()];
        Self::start_all(transport, bytes.iter().map(of), lease_ms)
    }

    /// The same in files, which have their sizes.
    fn start_in(transport: Transport, files: &[PathBuf], lease_ms: u64) -> Self {
        let of = |file: &PathBuf| ["0".into(), "0".into(), file.display().to_string()];
        Self::start_all(transport, files.iter().map(of), lease_ms)
    }

    fn start_all(
        transport: Transport,
        nodes: impl Iterator<Item = [String; 3]>,
        lease_ms: u64,
    ) -> Self {
        let start = |[bytes, rows, file]: [String; 3]| {
            Process::start(transport, "node", &[bytes, rows, lease_ms.to_string(), file])
        };
        let processes: Vec<_> = nodes.map(start).collect();
        let infos: Vec<_> =
            processes.iter().map(|node| node.next().expect("the node starts")).collect();
        Nodes { transport, processes, infos: infos.join(" ") }
    }

    /// Runs one client to its end, with nodes as `start` makes them.
    fn serve(
        role: &str,
        arguments: &[&str],
        transport: Transport,
        bytes: &[u64],
        rows: u32,
        lease_ms: u64,
    ) {
        let nodes = Nodes::start(transport, bytes, rows, lease_ms);
        nodes.client(role, arguments).end();
        nodes.end();
    }

    /// Starts a process with a client that is told so much more.
    fn client(&self, role: &str, arguments: &[&str]) -> Process {
        let mut lines = vec![self.infos.clone()];
        lines.extend(arguments.iter().map(|&argument| argument.to_owned()));
        Process::start(self.transport, role, &lines)
    }

    fn end(self) {
        for mut node in self.processes {
            node.say("end");
            node.end();
        }
    }

    /// Kills all of them.
    fn kill(self) {
        for node in self.processes {
            node.kill();
        }
    }
}
