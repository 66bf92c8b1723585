//! SepHash on real nodes of this machine, each in a process of its own, which
//! `durahash remote bench` measures, in another. UCX takes its transport from the environment of a process.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use durahash_bench::{Config, REAL, Report, Row};

use crate::exit::{Exit, Failure};
use crate::progress::Progress;

/// A fabric: as reports name it, as `node` does, and what UCX finds in the environment.
type Way = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

#[cfg(not(feature = "ucx"))]
const WAYS: [Way; 1] = [("shared memory", "local", &[])];
#[cfg(feature = "ucx")]
const WAYS: [Way; 3] = [
    ("shared memory", "local", &[]),
    ("ucx, tcp", "ucx", &[("UCX_TLS", "tcp"), ("UCX_NET_DEVICES", "lo")]),
    ("ucx, shared memory", "ucx", &[("UCX_TLS", "posix,self")]),
];

/// Keys, of so many that are simulated: TCP takes its time.
const KEYS_MIN: u64 = 1000;
const KEYS_MAX: u64 = 5000;
const PART: u64 = 200;
/// `remote bench` wants as many for each thread.
const KEYS_OF_THREAD: u64 = 100;
/// More than all runs together write.
const SIZE: &str = "48MiB";

/// A node, which ends with this process at the latest.
struct Node {
    child: Child,
    address: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        // The end of its input is what it waits for.
        drop(self.child.stdin.take());
        drop(self.child.wait());
    }
}

/// The rows of `remote bench` over each fabric.
pub(super) fn rows(config: &Config) -> Result<Vec<Row>, Failure> {
    let keys = (config.keys / PART).clamp(KEYS_MIN, KEYS_MAX);
    let threads = config.threads.iter().filter(|n| **n as u64 * KEYS_OF_THREAD <= keys);
    let threads: Vec<_> = threads.map(usize::to_string).collect();
    let (keys, threads) = (keys.to_string(), threads.join(","));
    if threads.is_empty() {
        return Ok(Vec::new());
    }
    let mut rows = Vec::new();
    for way in WAYS {
        let progress = Progress::without_end("measuring real nodes");
        progress.say(|| format!("{}, ", way.0));
        rows.extend(measured(way, &keys, &threads)?);
    }
    Ok(rows)
}

fn failed(what: &str, e: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Io, format!("measuring real nodes: {what}: {e}"))
}

/// This program, with these arguments.
fn durahash<S: AsRef<OsStr>>(
    (_, _, environment): Way,
    arguments: impl IntoIterator<Item = S>,
) -> Result<Command, Failure> {
    let program = std::env::current_exe().map_err(|e| failed("finding this program", e))?;
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().copied());
    Ok(command)
}

fn start(way: Way) -> Result<Node, Failure> {
    let (name, fabric, _) = way;
    let line = ["node", "--listen", "127.0.0.1:0", "--size", SIZE, "--fabric", fabric];
    let mut command = durahash(way, line.into_iter().chain(["--until-eof"]))?;
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let child = child.map_err(|e| failed(name, e))?;
    let mut node = Node { child, address: String::new() };
    let mut said = String::new();
    let heard = node.child.stdout.take().map(|out| BufReader::new(out).read_line(&mut said));
    heard.unwrap_or(Ok(0)).map_err(|e| failed(name, e))?;
    let address = said.strip_prefix("node ").and_then(|rest| rest.split_once(", "));
    // It has said itself why there is none.
    let (address, _) = address.ok_or_else(|| failed(name, "the node does not start"))?;
    node.address = address.into();
    Ok(node)
}

fn measured(way: Way, keys: &str, threads: &str) -> Result<Vec<Row>, Failure> {
    let name = way.0;
    let node = start(way)?;
    let dir = tempfile::tempdir().map_err(|e| failed(name, e))?;
    let saved = dir.path().join("report.json");
    let line = ["remote", "--node", &node.address, "bench", "--keys", keys, "--threads", threads];
    let mut command = durahash(way, line)?;
    let status = command.arg("--json").arg(&saved).stdout(Stdio::null()).status();
    let status = status.map_err(|e| failed(name, e))?;
    if !status.success() {
        return Err(failed(name, status));
    }
    let report = fs::read_to_string(&saved)
        .and_then(|text| Report::from_json(&text).map_err(io::Error::other))
        .map_err(|e| failed(name, e))?;
    let real = |row: Row| Row { table: REAL.into(), design: name.into(), ..row };
    Ok(report.rows.into_iter().map(real).collect())
}
