//! Files of lines.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;

use crate::error::{Error, Result};

/// The first bytes of gzip data.
const GZIP_START: [u8; 2] = [0x1f, 0x8b];

/// Gives each line of a file, and its number; the file may be compressed by gzip. Empty lines, and those that begin with
/// `#`, are left out.
pub(crate) fn lines(path: &Path, mut each: impl FnMut(&str, u64) -> Result<()>) -> Result<()> {
    let io = |e| Error::io("reading", Some(path), e);
    let mut file = BufReader::with_capacity(1 << 18, File::open(path).map_err(io)?);
    let compressed = file.fill_buf().map_err(io)?.starts_with(&GZIP_START);
    let mut reader: Box<dyn BufRead> = if compressed {
        Box::new(BufReader::new(MultiGzDecoder::new(file)))
    } else {
        Box::new(file)
    };
    let (mut line, mut number) = (String::new(), 0);
    while reader.read_line(&mut line).map_err(io)? > 0 {
        number += 1;
        let text = line.trim_end();
        if !text.is_empty() && !text.starts_with('#') {
            each(text, number)?;
        }
        line.clear();
    }
    Ok(())
}
