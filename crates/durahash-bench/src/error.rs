//! What keeps a benchmark from being finished.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What keeps a benchmark from being finished.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A table says no.
    Table(durahash::Error),
    /// The system says no.
    Io {
        /// What was done.
        doing: &'static str,
        /// To which file.
        path: Option<PathBuf>,
        /// What the system says.
        source: std::io::Error,
    },
    /// A table answered wrongly: its times mean nothing.
    Wrong {
        /// What is wrong, in words.
        what: String,
    },
    /// The configuration cannot be met.
    Config {
        /// Why, in words.
        what: String,
    },
    /// A saved report cannot be read.
    Report {
        /// Where and why, in words.
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
            Error::Wrong { what } => write!(f, "a table answered wrongly: {what}"),
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
