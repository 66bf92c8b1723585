//! Running the command in a directory of its own.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory in which the command is run.
pub(crate) struct Work {
    dir: TempDir,
    environment: Vec<(&'static str, &'static str)>,
}

/// The exit code and output of a command.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Work {
    pub(crate) fn new() -> Self {
        Self::with(Vec::new())
    }

    /// The same, where commands find this in their environment.
    pub(crate) fn with(environment: Vec<(&'static str, &'static str)>) -> Self {
        Work { dir: tempfile::tempdir().unwrap(), environment }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = command_in(self.dir.path(), args);
        command.envs(self.environment.iter().copied());
        command
    }

    /// Runs `durahash` with the words of `line`, and nothing to read.
    pub(crate) fn run(&self, line: &str) -> Answer {
        self.feed(line, b"")
    }

    /// The same with arguments that are no words.
    pub(crate) fn run_args<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Answer {
        answer(self.command(args).stdin(Stdio::null()).spawn().unwrap())
    }

    /// The same with `input` to read.
    pub(crate) fn feed(&self, line: &str, input: &[u8]) -> Answer {
        let mut child = self.start(line);
        let mut stdin = child.stdin.take().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A command that does not want it all is right to close it.
                let _ = stdin.write_all(input);
            });
            answer(child)
        })
    }

    /// Runs commands at the same time, as is quicker where each waits for something.
    pub(crate) fn run_all(&self, lines: &[String]) -> Vec<Answer> {
        let start = |line: &String| {
            let words = line.split_whitespace();
            self.command(words).stdin(Stdio::null()).spawn().unwrap()
        };
        let children: Vec<_> = lines.iter().map(start).collect();
        children.into_iter().map(answer).collect()
    }

    /// Starts a command whose pipes are all open.
    pub(crate) fn start(&self, line: &str) -> Child {
        self.command(line.split(' ')).stdin(Stdio::piped()).spawn().unwrap()
    }
}

pub(crate) fn command_in<S: AsRef<OsStr>>(
    dir: &Path,
    args: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_durahash"));
    command.args(args).current_dir(dir).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn answer(child: Child) -> Answer {
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    Answer { code: output.status.code(), out: output.stdout, err }
}

impl Answer {
    /// The output of a command that did what it should, and had nothing to complain of.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{self:?}");
        String::from_utf8(self.out).unwrap()
    }

    /// The same, as JSON.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        serde_json::from_str(&self.ok()).unwrap()
    }

    /// The output as JSON, however the command ended.
    #[track_caller]
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.out).unwrap()
    }

    /// The complaint of a command that failed with `code`, which is one line.
    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(String::from_utf8_lossy(&self.out), "", "{self:?}");
        let complaint = self.err.strip_prefix("durahash: ").and_then(|e| e.strip_suffix('\n'));
        let complaint = complaint.unwrap_or_else(|| panic!("{self:?}"));
        assert!(!complaint.contains('\n'), "{self:?}");
        complaint.to_string()
    }

    /// The same, where the complaint has this part.
    #[track_caller]
    pub(crate) fn complains(self, code: i32, part: impl AsRef<str>) -> String {
        let complaint = self.failed(code);
        assert!(complaint.contains(part.as_ref()), "{complaint}");
        complaint
    }

    /// The lines of an output, in order.
    pub(crate) fn sorted_lines(&self) -> Vec<&[u8]> {
        let mut lines: Vec<_> = self.out.split_inclusive(|b| *b == b'\n').collect();
        lines.sort();
        lines
    }
}
