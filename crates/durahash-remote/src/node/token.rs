//! The secret that admits a client.

use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::path::Path;

use durahash_media::{Error, ErrorKind, Result};

/// Bytes of a token, at most.
pub(super) const TOKEN_BYTES: usize = 1024;

/// A secret that a node and its clients know: 1 to 1,024 bytes.
#[derive(Clone)]
pub struct Token {
    /// Padded with zeros, so that all comparisons take the same time.
    bytes: [u8; TOKEN_BYTES],
    len: usize,
}

impl Token {
    /// The token of these bytes.
    ///
    /// # Errors
    /// [`Options`](ErrorKind::Options) when there are no bytes, or too many.
    pub fn new(token: &[u8]) -> Result<Self> {
        if !(1..=TOKEN_BYTES).contains(&token.len()) {
            let what = "a token must have 1 to 1024 bytes";
            return Err(ErrorKind::Options { what }.into());
        }
        let mut bytes = [0; TOKEN_BYTES];
        bytes[..token.len()].copy_from_slice(token);
        Ok(Token { bytes, len: token.len() })
    }

    /// Reads a token from a file, without the line feed at its end.
    ///
    /// # Errors
    /// [`Io`](ErrorKind::Io) when the file cannot be read; otherwise as [`new`](Self::new).
    pub fn read(path: &Path) -> Result<Self> {
        let failed = |e: io::Error| Error::io("reading the token", Some(path.into()), e);
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(TOKEN_BYTES as u64 + 3).read_to_end(&mut bytes).map_err(failed)?;
        let token = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
        Token::new(token.strip_suffix(b"\r").unwrap_or(token))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Compares in a time that does not depend on where the tokens differ.
    pub(super) fn is(&self, other: &Token) -> bool {
        let mut differing = self.len ^ other.len;
        for (one, two) in self.bytes.iter().zip(&other.bytes) {
            differing |= usize::from(black_box(one ^ two));
        }
        black_box(differing) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_same_in_every_byte_and_in_length() {
        let token = Token::new(b"secret").unwrap();
        assert!(token.is(&Token::new(b"secret").unwrap()));
        for other in [&b"Secret"[..], b"secreT", b"secre", b"secret\0", b"x"] {
            assert!(!token.is(&Token::new(other).unwrap()), "{other:?}");
        }
        let long = [b'x'; TOKEN_BYTES];
        assert!(Token::new(&long).unwrap().is(&Token::new(&long).unwrap()));
        assert!(Token::new(&[b'x'; TOKEN_BYTES + 1]).is_err());
        assert!(Token::new(b"").is_err());
    }

    #[test]
    fn a_file_has_the_token_as_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for text in ["secret", "secret\n", "secret\r\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Token::read(&path).unwrap().as_bytes(), b"secret");
        }
        for text in ["", "\n", &"x".repeat(5000)] {
            std::fs::write(&path, text).unwrap();
            let error = Token::read(&path).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Options { .. }), "{error}");
        }
        let missing = Token::read(&dir.path().join("none")).unwrap_err();
        assert!(matches!(missing.kind(), ErrorKind::Io { .. }));
    }
}
