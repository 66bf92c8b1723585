//! The output of the command: results on the standard output, all else on the standard error.

use std::io::{self, Write};

use serde_json::Value;

use crate::exit::Failure;

/// Writes to the standard output.
pub(crate) fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|e| Failure::output(&e))
}

/// Writes an answer to the standard output, as JSON where that is asked for.
pub(crate) fn print_as(
    json: bool,
    value: impl FnOnce() -> Value,
    text: impl FnOnce() -> String,
) -> Result<(), Failure> {
    let text = if json { format!("{:#}\n", value()) } else { text() };
    print(text.as_bytes())
}

/// Writes a line to the standard error.
pub(crate) fn complain(line: &str) {
    // Where even this fails nobody is left to hear of it.
    let _ = writeln!(io::stderr(), "{line}");
}
