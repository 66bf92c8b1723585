//! The secret that admits a client.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use durahash_media::{Error, ErrorKind, Result};

use crate::wire::Key;

/// Bytes of a token, at most.
const TOKEN_BYTES: usize = 1024;
/// Bytes of a token that may be random enough to keep out who can test guesses.
const STRONG_BYTES: usize = 16;

/// A secret that a node and its clients know: 1 to 1,024 bytes. It never crosses the network. Who recorded the first
/// message of a client, or had one connect, can test guesses of it, so only a random one of 16 bytes or more keeps out
/// attackers: `(umask 077; head -c 32 /dev/urandom | base64 > FILE)`.
///
/// It names no address: of several nodes with one token, each can pose as another. Nodes that do not trust one another
/// have one each.
#[derive(Clone)]
pub struct Token {
    key: Key,
    is_strong: bool,
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
        Ok(Token { key: Key::of(Some(token)), is_strong: token.len() >= STRONG_BYTES })
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

    /// Returns whether it is as long as a random one must be to keep out attackers.
    #[must_use]
    pub fn is_strong(&self) -> bool {
        self.is_strong
    }

    /// The key of a handshake with this token, or without one.
    pub(crate) fn key(token: Option<&Token>) -> Key {
        token.map_or_else(|| Key::of(None), |token| token.key.clone())
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
    fn tokens_have_a_bounded_length() {
        assert!(!Token::new(&[b'x'; 15]).unwrap().is_strong());
        assert!(Token::new(&[b'x'; 16]).unwrap().is_strong());
        assert!(Token::new(&[b'x'; TOKEN_BYTES]).is_ok());
        assert!(Token::new(&[b'x'; TOKEN_BYTES + 1]).is_err());
        assert!(Token::new(b"").is_err());
    }

    #[test]
    fn a_file_has_the_token_as_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        for text in ["secret", "secret\n", "secret\r\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(Token::read(&path).unwrap().key == Token::new(b"secret").unwrap().key);
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
