//! The file with the token.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use durahash_remote::node::Token;

use crate::exit::{Failure, quoted};
use crate::output::complain;

/// Who is not the owner, and may read.
const OTHERS: u32 = 0o044;

/// Reads the token, if there is a file, and complains if others may do so, too.
pub(crate) fn token(path: Option<&Path>) -> Result<Option<Token>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let token = Token::read(path).map_err(|e| Failure::node(&e))?;
    // It is there, or was a moment ago.
    let mode = fs::metadata(path).map_or(0, |file| file.permissions().mode());
    if mode & OTHERS != 0 {
        complain(&format!("durahash: others may read the token: `chmod 600 {}`", quoted(path)));
    }
    Ok(Some(token))
}
