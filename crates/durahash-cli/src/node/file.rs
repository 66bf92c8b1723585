//! Memory that lies in a file, and is there again when the node is.

use std::io;
use std::path::Path;
use std::time::Duration;

use durahash::{Error, ErrorKind};
use durahash_remote::node::FileMemory;

use crate::args::remote::{Node, SIZE};
use crate::exit::{Exit, Failure};
use crate::output::complain;

/// How long the close waits for processes of this host that have the memory attached: they learn of the node's end at
/// once, and most of them end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens the file of the memory, which is made if it is not there.
pub(super) fn open(args: &Node, path: &Path) -> Result<FileMemory, Failure> {
    let open = || FileMemory::open(path, args.size, args.accept_suspect);
    let opened = match open() {
        Err(e) if is_missing(&e, path) => match FileMemory::create(path, args.size.unwrap_or(SIZE))
        {
            // Another node was quicker.
            Err(e) if !matches!(e.kind(), ErrorKind::Exists) => Err(e),
            _ => open(),
        },
        opened => opened,
    };
    let memory = opened.map_err(|e| explained(path, &e))?;
    if memory.file().may_be_mapped() {
        complain(&format!(
            "durahash: {}: goes on with what the last node left, which did not close it",
            path.display()
        ));
    }
    if memory.is_suspect() {
        complain(&format!(
            "durahash: {}: pages of this memory may be missing: `durahash remote check` finds much of the damage, not \
             all of it; dump the index, and load the dump into new memory",
            path.display()
        ));
    }
    Ok(memory)
}

/// Closes the memory in this file, when no client is connected any more.
pub(super) fn close(
    path: &Path,
    close: impl FnOnce(Duration) -> Result<(), Error>,
) -> Result<Exit, Failure> {
    match close(PATIENCE) {
        Ok(()) => Ok(Exit::Ok),
        Err(e) if matches!(e.kind(), ErrorKind::Locked) => {
            let message = format!(
                "{}: processes of this host still have the memory attached, so it is on the disk, but not closed: if \
                 the machine goes down before a node on it was started and stopped again, --accept-suspect is needed",
                path.display()
            );
            Err(Failure::new(Exit::Locked, message))
        }
        Err(e) => Err(explained(path, &e)),
    }
}

fn is_missing(e: &Error, path: &Path) -> bool {
    e.path() == Some(path)
        && matches!(e.kind(), ErrorKind::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
}

/// The message and exit code of a failure: what happened to which file, and what to do.
pub(super) fn explained(path: &Path, e: &Error) -> Failure {
    let suspect = "--accept-suspect serves what is there, to be dumped and loaded into new memory";
    let message = match e.kind() {
        ErrorKind::Locked if e.path() == Some(path) => {
            "another node serves this file: name another, or stop that node".into()
        }
        ErrorKind::Locked => {
            "clients of the last node, which lent it to this host, have the memory attached: end them".into()
        }
        ErrorKind::PowerLoss => format!(
            "the memory was not closed before the machine went down, or its disk was mounted anew, or this is a snapshot \
             of it, so pages that were only in the page cache may be missing; {suspect}"
        ),
        ErrorKind::Copied => format!(
            "this file is a copy that was made while its node ran, or after a kill, so its pages may be of different \
             times; stop the node by a signal, and copy the file then; {suspect}"
        ),
        ErrorKind::NotAPool { why } => format!("this is no memory of a node: {why}; check the path"),
        ErrorKind::Region { what: "the bytes of the region", found, expected } => format!(
            "the memory in this file has {found} bytes, not {expected}; leave --size out, or name another file"
        ),
        ErrorKind::Region { what, found, expected } => format!(
            "this is no memory of a node of this build: {what} is {found:#x}, not {expected:#x}; check the path"
        ),
        ErrorKind::Truncated { found_bytes, expected_bytes } => format!(
            "the file has {found_bytes} bytes, but the memory in it needs {expected_bytes}: it was cut or copied \
             incompletely; copy it again"
        ),
        ErrorKind::Full { wanted_bytes, limit } => {
            format!("no space for {wanted_bytes} bytes: {limit}; make space, or lend less with --size")
        }
        ErrorKind::Io { source, .. }
            if e.path() != Some(path) && source.kind() == io::ErrorKind::NotFound =>
        {
            format!(
                "{e}; it was removed, so it is not known which clients are alive: end them all, and start \
                 the node with --accept-suspect"
            )
        }
        ErrorKind::Io { doing, source } => {
            format!("{}: {source}", doing.replace("the pool", "the file"))
        }
        _ => return Failure::node(e),
    };
    Failure::new(Failure::node(e).exit, format!("{}: {message}", path.display()))
}
