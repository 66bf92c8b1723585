//! The errors of a benchmark.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why a benchmark did not finish.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An operation on a table failed.
    Table(durahash::Error),
    /// A call of the system failed.
    Io {
        /// The action.
        doing: &'static str,
        /// The file.
        path: Option<PathBuf>,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A table gave a wrong answer, so its times mean nothing.
    Wrong {
        /// The wrong answer, in words.
        what: String,
    },
    /// The configuration cannot be met.
    Config {
        /// The reason, in words.
        what: String,
    },
    /// A saved report cannot be read.
    Report {
        /// The place and the reason, in words.
        what: String,
    },
}

impl Error {
    pub(crate) fn io(doing: &'static str, path: Option<&Path>, source: std::io::Error) -> Self {
        let path = path.map(Path::to_owned);
        Error::Io { doing, path, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Table(e) => e.fmt(f),
            Error::Io { doing, path: Some(path), source } => {
                write!(f, "{doing} {}: {source}", path.display())
            }
            Error::Io { doing, path: None, source } => write!(f, "{doing}: {source}"),
            Error::Wrong { what } => write!(f, "a table gave a wrong answer: {what}"),
            Error::Config { what } => write!(f, "the benchmark cannot be run so: {what}"),
            Error::Report { what } => write!(f, "the report cannot be read: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Table(e) => e.source(),
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl From<durahash::Error> for Error {
    fn from(e: durahash::Error) -> Self {
        Error::Table(e)
    }
}
