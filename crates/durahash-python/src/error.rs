//! Errors of the library as exceptions of `durahash._errors`, by the names of their kinds.

use std::io;

use durahash::{Error, ErrorKind, Type};
use pyo3::BoundObject;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The class for a kind of error.
fn class(kind: &ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Io { .. } => "IoError",
        ErrorKind::NotAPool { .. } => "NotAPoolError",
        ErrorKind::Version { .. } | ErrorKind::ByteOrder => "VersionError",
        ErrorKind::Design { .. } | ErrorKind::Types { .. } | ErrorKind::Text { .. } => "TypesError",
        ErrorKind::Truncated { .. } => "TruncatedError",
        ErrorKind::Corrupt { .. } => "CorruptError",
        ErrorKind::Full { .. } => "FullError",
        ErrorKind::Locked | ErrorKind::WriterGone => "LockedError",
        ErrorKind::Exists => "ExistsError",
        ErrorKind::ReadOnly => "ReadOnlyError",
        ErrorKind::Poisoned => "PoisonedError",
        ErrorKind::PowerLoss => "PowerLossError",
        ErrorKind::Copied => "CopiedError",
        ErrorKind::NoLiveImage { .. } => "NoLiveImageError",
        ErrorKind::TooLarge { .. } => "TooLargeError",
        ErrorKind::Options { .. } | ErrorKind::NoDax => "OptionsError",
        _ => "Error",
    }
}

/// The exception for an error of the library.
#[cold]
pub(crate) fn of(e: Error) -> PyErr {
    let hint = match e.kind() {
        ErrorKind::Locked => {
            "; close it there, or pass the map that is open to the code that needs it"
        }
        ErrorKind::Types { found, .. } if found.contains(&Type::Object.to_string()) => {
            "; it is one of durahash.Cache"
        }
        _ => "",
    };
    hinted(e, hint)
}

/// The same for a pool that is not there, and could not be made as nobody said of what.
#[cold]
pub(crate) fn unmade(e: Error) -> PyErr {
    match class(e.kind()) {
        "NotFoundError" => hinted(e, "; a new map needs its key= and its value="),
        _ => of(e),
    }
}

fn hinted(e: Error, hint: &str) -> PyErr {
    // Options by their names here.
    let text = format!("{e}{hint}").replace("`Options::", "`");
    let (text, kind) = (text.replace("`max_bytes_used`", "`size_limit`"), e.kind());
    let errno = match kind {
        ErrorKind::Io { source, .. } => source.raw_os_error(),
        _ => None,
    };
    match errno {
        Some(errno) => new(class(kind), (errno, text)),
        None => new(class(kind), (text,)),
    }
}

/// The exception of this class.
#[cold]
pub(crate) fn new<A>(class: &str, args: A) -> PyErr
where
    A: for<'py> IntoPyObject<'py, Target = PyTuple>,
{
    Python::attach(|py| {
        let made = || {
            let args = args.into_pyobject(py).map_err(Into::into)?.into_bound();
            py.import("durahash._errors")?.getattr(class)?.call1(args)
        };
        made().map_or_else(|e| e, PyErr::from_value)
    })
}

/// What a caller asks for is not there to be had.
#[cold]
pub(crate) fn options(text: impl Into<String>) -> PyErr {
    new("OptionsError", (text.into(),))
}

/// A key that is absent.
#[cold]
pub(crate) fn absent(key: &Bound<'_, PyAny>) -> PyErr {
    // In a tuple: one that is the key would be the arguments.
    PyKeyError::new_err((key.clone().unbind(),))
}

/// The map was closed.
#[cold]
pub(crate) fn closed() -> PyErr {
    new("ClosedError", ("this map was closed; open another",))
}

/// The map belongs to the process that forked this one.
#[cold]
pub(crate) fn forked() -> PyErr {
    let text = "this map was opened by the process that forked this one, and works there only: open the pool in the \
                child, after the parent has closed it, or have the parent do the work; with multiprocessing use \
                get_context(\"spawn\"), and open the map in the worker";
    new("ForkedError", (text,))
}
