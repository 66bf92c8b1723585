//! Processes that a test starts: this binary again, with a role in its environment.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

const ROLE: &str = "DURAHASH_TEST_ROLE";
/// No process lives longer, and nothing that a test waits for takes longer.
const LIMIT: Duration = Duration::from_secs(100);
/// Before what a process tells; UCX may write lines, too.
const TELLS: &str = "tells ";

/// The ways between processes of one host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    Tcp,
    Shm,
}

impl Transport {
    pub(crate) const ALL: [Self; 2] = [Transport::Tcp, Transport::Shm];

    fn environment(self) -> [(&'static str, &'static str); 3] {
        let (transports, devices) = match self {
            Transport::Tcp => ("tcp", "lo"),
            Transport::Shm => ("posix,self", "all"),
        };
        // UCX would log the connections that tests break.
        [("UCX_TLS", transports), ("UCX_NET_DEVICES", devices), ("UCX_LOG_LEVEL", "fatal")]
    }
}

/// A process that runs a role, and is killed with this at the latest.
pub(crate) struct Process {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Process {
    pub(crate) fn start(transport: Transport, role: &str, arguments: &[String]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_role_in_another_process", "--nocapture"])
            .envs(transport.environment())
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        for argument in arguments {
            writeln!(stdin, "{argument}").unwrap();
        }
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (tell, lines) = channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some(told) = line.strip_prefix(TELLS)
                    && tell.send(told.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Process { child, stdin, lines }
    }

    /// The next thing it tells; `None` when it ended instead.
    pub(crate) fn next(&self) -> Option<String> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(told) => Some(told),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the process tells nothing"),
        }
    }

    pub(crate) fn expect(&self, what: &str) {
        assert_eq!(self.next().as_deref(), Some(what));
    }

    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.stdin, "{line}").unwrap();
    }

    /// Stops it, as it were a machine that does not answer.
    pub(crate) fn stop(&self) {
        let status = Command::new("kill").args(["-STOP", &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        let status = Command::new("kill").args(["-CONT", &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    /// That is kill -9.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.lines.iter().collect()
    }

    /// Waits for its end, which must be a success.
    pub(crate) fn end(mut self) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < LIMIT, "the process does not end");
            thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In a process that was started so: its role, after which it ends.
pub(crate) fn role() -> Option<String> {
    let role = std::env::var(ROLE).ok()?;
    let parent = std::os::unix::process::parent_id();
    let begun = Instant::now();
    thread::spawn(move || {
        // This process does not outlive the test.
        while std::os::unix::process::parent_id() == parent && begun.elapsed() < LIMIT {
            thread::sleep(Duration::from_millis(50));
        }
        std::process::exit(99);
    });
    Some(role)
}

/// A line from the parent process.
pub(crate) fn hear() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.truncate(line.trim_end().len());
    line
}

pub(crate) fn tell(what: &str) {
    // The harness has written the name of the test without an end of line.
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{TELLS}{what}").unwrap();
    out.flush().unwrap();
}
