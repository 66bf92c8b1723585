//! Nodes in processes of their own, and the ways to them.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::tool::{Answer, Work};

/// How clients reach the memory of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Local,
    Net,
    #[cfg(feature = "ucx")]
    Tcp,
    #[cfg(feature = "ucx")]
    Shm,
}

impl Over {
    #[cfg(not(feature = "ucx"))]
    pub(super) const ALL: [Self; 2] = [Over::Local, Over::Net];
    #[cfg(feature = "ucx")]
    pub(super) const ALL: [Self; 2] = [Over::Tcp, Over::Shm];

    /// Where commands run that go over it.
    pub(super) fn work(self) -> Work {
        match self {
            Over::Local | Over::Net => Work::new(),
            // Which is the way to a node that listens at the loopback address.
            #[cfg(feature = "ucx")]
            Over::Tcp => Work::new(),
            #[cfg(feature = "ucx")]
            Over::Shm => Work::with(vec![("UCX_TLS", "posix,self")]),
        }
    }

    /// Over TCP, UCX 1.13 may end a node whose client is killed with writes under way, as `UcxNode` says: so
    /// the client is stopped until they are answered.
    pub(super) fn let_node_answer(self, client: &Child) {
        #[cfg(feature = "ucx")]
        if self == Over::Tcp {
            signal(client, "-STOP");
            std::thread::sleep(Duration::from_millis(500));
        }
        #[cfg(not(feature = "ucx"))]
        let _ = client;
    }

    /// Fewer where each takes longer, since it goes over TCP.
    pub(super) fn fewer(self, n: u64) -> u64 {
        match self {
            Over::Net => n / 10,
            #[cfg(feature = "ucx")]
            Over::Tcp => n / 10,
            _ => n,
        }
    }
}

/// A node that is killed in the end.
pub(super) struct Node<'a> {
    work: &'a Work,
    pub(super) child: Child,
    pub(super) address: String,
    /// Of files in shared memory.
    pub(super) dir: Option<PathBuf>,
}

impl<'a> Node<'a> {
    /// Starts a node with `more` arguments: on a port that the system chooses, unless they tell where it listens.
    pub(super) fn start(work: &'a Work, over: Over, more: &str) -> Self {
        // Large memory does not go to shared memory, of which a container may have little.
        static NODES: AtomicU32 = AtomicU32::new(0);
        let mib = more.split("--size ").nth(1).and_then(|size| size.split_once("MiB"));
        let place = match mib.map(|(mib, _)| mib.parse().unwrap()) {
            _ if over == Over::Net => "--fabric tcp".into(),
            _ if over != Over::Local => "--fabric ucx".into(),
            _ if more.contains("--file ") => String::new(),
            Some(64..=u32::MAX) => format!("--fabric local:m{}", NODES.fetch_add(1, Relaxed)),
            _ => String::new(),
        };
        let listen = if more.contains("--listen ") { "" } else { "--listen 127.0.0.1:0" };
        let line = format!("node {listen} {more} {place}");
        let mut command = work.command(line.split_whitespace());
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
        let parts = said.trim_end().strip_prefix("node ").and_then(|s| s.split_once(", "));
        let (address, rest) = parts.unwrap_or_else(|| panic!("{said:?}"));
        let (_, fabric) = rest.split_once(" bytes, fabric ").unwrap();
        let (fabric, file) = fabric.split_once(", file ").unwrap_or((fabric, ""));
        let dir = fabric.strip_prefix("local:").map(PathBuf::from);
        assert!(dir.is_some() || ["local", "tcp", "ucx"].contains(&fabric), "{fabric}");
        assert!(file.is_empty() != more.contains("--file "), "{said}");
        Node { work, child, address: address.into(), dir }
    }

    /// Runs a command on it alone, with something to read.
    pub(super) fn feed(&self, line: &str, input: &[u8]) -> Answer {
        self.work.feed(&format!("remote --node {} {line}", self.address), input)
    }

    pub(super) fn run(&self, line: &str) -> Answer {
        self.feed(line, b"")
    }

    /// kill -9
    pub(super) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// What it complained of until it is killed here, when it has done so `at_least` so often.
    pub(super) fn complaints(&mut self, at_least: usize) -> Vec<String> {
        let said = BufReader::new(self.child.stderr.take().unwrap());
        let mut lines = said.lines().map(Result::unwrap);
        let mut all: Vec<_> = lines.by_ref().take(at_least).collect();
        self.kill();
        all.extend(lines);
        all
    }

    /// Waits until its memory is removed, which another process does if it is in files.
    pub(super) fn wait_until_removed(&self) {
        patiently(|| self.dir.as_ref().is_none_or(|dir| !dir.exists()));
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        // It may be dead already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs a test over each fabric, with a node of these arguments.
pub(super) fn over_each(arguments: &str, test: impl Fn(Over, &Work, Node<'_>)) {
    for over in Over::ALL {
        let work = over.work();
        test(over, &work, Node::start(&work, over, arguments));
    }
}

pub(super) fn signal(to: &Child, which: &str) {
    let args = [which.to_owned(), to.id().to_string()];
    assert!(std::process::Command::new("kill").args(args).status().unwrap().success());
}

/// Waits until something is so, and fails where it is not for very long.
pub(super) fn patiently(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "it does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}
