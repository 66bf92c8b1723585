//! How the command ends: exit codes, and failures in plain words with what to do about them.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use durahash::{Error, ErrorKind, Limit};

/// The exit codes, as the help of the command lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Found, or done.
    Ok = 0,
    /// The key is not there.
    NotFound = 1,
    /// Wrong usage, or lines that were left out.
    Usage = 2,
    /// The file is no sound pool.
    Corrupt = 3,
    /// The system refused something, or there is no space.
    Io = 4,
    /// Another process has the pool open.
    Locked = 5,
    /// A signal ended the work, as shells say of SIGINT.
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command ended before its work was done.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Nothing where the reader of our output simply went away.
    pub(crate) message: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Failure { exit, message: Some(message.into()) }
    }

    /// A failure of the pool at `path`.
    pub(crate) fn pool(path: &Path, e: &Error) -> Self {
        let mut message = match e.path() {
            // It names the file itself.
            Some(_) => e.to_string(),
            None => format!("{}: {e}", path.display()),
        };
        if let Some(advice) = advice(e, path) {
            message.push_str("; ");
            message.push_str(&advice);
        }
        Failure::new(exit_of(e.kind()), message)
    }

    /// The same, where a lack of space means what `then` says and not what it means to a single operation.
    pub(crate) fn pool_or_full(path: &Path, e: &Error, then: fn(&Limit) -> &'static str) -> Self {
        let ErrorKind::Full { wanted_bytes, limit } = e.kind() else {
            return Failure::pool(path, e);
        };
        let message = format!(
            "{}: no space for {wanted_bytes} more bytes: {limit}; {}",
            path.display(),
            then(limit)
        );
        Failure::new(exit_of(e.kind()), message)
    }

    /// A failure of a node, or of what is in the memory of nodes.
    pub(crate) fn node(e: &Error) -> Self {
        let exit = if is_busy(e.kind()) { Exit::Locked } else { exit_of(e.kind()) };
        Failure::new(exit, e.to_string())
    }

    /// This build cannot do what UCX is needed for.
    #[cfg(not(feature = "ucx"))]
    pub(crate) fn no_ucx(what: &str) -> Self {
        let message = format!(
            "{what}: this build has no UCX; install UCX 1.13 or later with headers (Debian: libucx-dev), then \
             `cargo install --path crates/durahash-cli --features ucx`"
        );
        Failure::new(Exit::Usage, message)
    }

    /// Says more.
    pub(crate) fn add(&mut self, text: &str) {
        let message = self.message.get_or_insert_default();
        message.push_str("; ");
        message.push_str(text);
    }

    /// A failure to write what the command has to say.
    pub(crate) fn output(e: &io::Error) -> Self {
        if e.kind() == io::ErrorKind::BrokenPipe {
            return Failure { exit: Exit::Ok, message: None };
        }
        Failure::new(Exit::Io, format!("writing the output: {e}"))
    }
}

/// True if a node has as many clients, or connections, as it takes.
fn is_busy(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Io { source, .. } | ErrorKind::Unreachable { source, .. }
            if source.kind() == io::ErrorKind::ResourceBusy
    )
}

/// The exit code of a failed operation on a pool.
fn exit_of(kind: &ErrorKind) -> Exit {
    match kind {
        ErrorKind::NotAPool { .. }
        | ErrorKind::Version { .. }
        | ErrorKind::ByteOrder
        | ErrorKind::Truncated { .. }
        | ErrorKind::Corrupt { .. }
        | ErrorKind::PowerLoss
        | ErrorKind::Copied
        | ErrorKind::NoLiveImage { .. }
        | ErrorKind::NotANode { .. }
        | ErrorKind::Region { .. } => Exit::Corrupt,
        ErrorKind::Design { .. }
        | ErrorKind::Types { .. }
        | ErrorKind::Exists
        | ErrorKind::MapExists { .. }
        | ErrorKind::NoMap { .. }
        | ErrorKind::TooLarge { .. }
        | ErrorKind::Text { .. }
        | ErrorKind::Refused { .. }
        | ErrorKind::Options { .. } => Exit::Usage,
        ErrorKind::Locked | ErrorKind::WriterGone => Exit::Locked,
        // Io, Full, ReadOnly, Poisoned, NoDax, Skewed, Unreachable, NodeLost, and what a later library adds.
        _ => Exit::Io,
    }
}

/// Advice where a pool that exists cannot grow.
pub(crate) fn make_room(limit: &Limit) -> &'static str {
    match limit {
        Limit::Disk => "make space on the file system",
        Limit::Pool { .. } => "dump the pool and load the dump into one with a larger --max-size",
        Limit::Design(_) => "put the rest into another pool",
        _ => "raise that limit, or put the rest into another pool",
    }
}

/// The same of a cache, whose bounds the command does not change.
pub(crate) fn make_room_in_cache(limit: &Limit) -> &'static str {
    match limit {
        Limit::Design(_) => {
            "remove entries, or let a program open it with larger bounds, which it keeps"
        }
        _ => make_room(limit),
    }
}

/// A path as a shell reads it.
pub(crate) fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// True if there is no file at `path` that could be opened.
pub(crate) fn is_missing(e: &Error, path: &Path) -> bool {
    let ErrorKind::Io { source, .. } = e.kind() else { return false };
    let is_dir = |dir: &Path| dir.as_os_str().is_empty() || dir.is_dir();
    source.kind() == io::ErrorKind::NotFound
        && e.path() == Some(path)
        && !path.exists()
        && path.parent().is_some_and(is_dir)
}

/// Advice where the error itself has none.
fn advice(e: &Error, path: &Path) -> Option<String> {
    let pool = quoted(path);
    let advice = match e.kind() {
        ErrorKind::Io { .. } if is_missing(e, path) => {
            return Some(format!("`durahash create {pool}` makes a new pool"));
        }
        ErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            "check that its directory exists"
        }
        ErrorKind::Io { .. } => return None,
        ErrorKind::NotAPool { .. } => "check the path",
        ErrorKind::Truncated { .. } => "copy it again, or restore a backup",
        ErrorKind::Corrupt { .. } => {
            return Some(format!(
                "`durahash check {pool}` says where, `durahash dump {pool}` saves what can be read"
            ));
        }
        // Its text says it.
        ErrorKind::Full { limit: Limit::Holes, .. } => return None,
        ErrorKind::Full { limit, .. } => make_room(limit),
        ErrorKind::Locked => "try again when it has been closed",
        ErrorKind::NoMap { .. } => return Some(format!("`durahash maps {pool}` lists its maps")),
        ErrorKind::Exists => "take another name, or remove the file first",
        ErrorKind::PowerLoss | ErrorKind::Copied | ErrorKind::NoLiveImage { .. } => {
            return Some(format!(
                "`durahash dump --accept-suspect {pool}` saves what is there, and get, stats and \
                 check take --accept-suspect too"
            ));
        }
        _ => return None,
    };
    Some(advice.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_their_exit_code_and_say_what_to_do() {
        let pool = Path::new("a.pool");
        let failed = |kind: ErrorKind| {
            let failure = Failure::pool(pool, &kind.into());
            (failure.exit as u8, failure.message.unwrap())
        };
        let (exit, message) = failed(ErrorKind::Locked);
        assert_eq!(exit, 5);
        assert!(message.starts_with("a.pool: another process"), "{message}");
        assert!(message.ends_with("; try again when it has been closed"), "{message}");

        let (exit, message) = failed(ErrorKind::PowerLoss);
        assert_eq!(exit, 3);
        assert!(message.contains("`durahash dump --accept-suspect a.pool`"), "{message}");

        assert_eq!(failed(ErrorKind::Full { wanted_bytes: 1, limit: Limit::Disk }).0, 4);
        assert_eq!(failed(ErrorKind::Corrupt { what: "x", off: 0 }).0, 3);
        assert_eq!(failed(ErrorKind::Exists).0, 2);
        let missing = io::Error::from(io::ErrorKind::NotFound);
        let failure =
            Failure::pool(pool, &Error::io("opening the pool", Some(pool.into()), missing));
        let (exit, message) = (failure.exit as u8, failure.message.unwrap());
        assert_eq!(exit, 4);
        assert!(message.starts_with("opening the pool a.pool: "), "{message}");
        assert!(message.ends_with("`durahash create a.pool` makes a new pool"), "{message}");
    }

    #[test]
    fn advice_is_a_command_that_a_shell_takes() {
        for (path, wanted) in
            [("a.pool", "a.pool"), ("a pool", "'a pool'"), ("it's", r"'it'\''s'"), ("", "''")]
        {
            assert_eq!(quoted(Path::new(path)), wanted);
        }
        let damage = ErrorKind::Corrupt { what: "x", off: 0 }.into();
        let message = Failure::pool(Path::new("a b.pool"), &damage).message.unwrap();
        assert!(message.starts_with("a b.pool: "), "{message}");
        assert!(message.contains("`durahash dump 'a b.pool'`"), "{message}");
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let closed = Failure::output(&io::ErrorKind::BrokenPipe.into());
        assert_eq!((closed.exit, closed.message), (Exit::Ok, None));
        assert_eq!(Failure::output(&io::ErrorKind::StorageFull.into()).exit, Exit::Io);
    }
}
