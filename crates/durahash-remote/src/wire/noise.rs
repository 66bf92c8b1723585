//! Keys and sealed records, by the Noise protocol framework.
//!
//! The pattern is `NNpsk0`: neither side has a key of its own, and both know a secret, which is mixed in before the
//! first message. So a node detects a peer without the secret by its first message, before it has computed anything of
//! weight or answered anything, and each connection has keys that the secret alone does not reveal later. Who recorded
//! a first message can test guesses of the secret against it: a secret must be random, of 128 bits or more.

use std::io;

use snow::params::HashChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};
use snow::{Builder, HandshakeState, TransportState};

const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_BLAKE2s";
/// Before the secret when the key is made of it, so that the key serves nothing else.
const KEY_OF: &[u8] = b"durahash node token\0";
/// Bytes by which a sealed message is longer: its tag.
const TAG_BYTES: usize = 16;
/// Bytes of a sealed record at most: its length is told by 2 bytes.
const SEALED_BYTES: usize = 65_535;
/// Bytes in a record, at most.
pub(crate) const RECORD_BYTES: usize = SEALED_BYTES - TAG_BYTES;

/// A key made of a secret.
#[derive(Clone)]
#[cfg_attr(test, derive(PartialEq))]
pub(crate) struct Key([u8; 32]);

impl Key {
    /// The key of this secret; `None` is a secret that everybody knows.
    pub(crate) fn of(secret: Option<&[u8]>) -> Self {
        let mut hash = DefaultResolver
            .resolve_hash(&HashChoice::Blake2s)
            .expect("a feature of the crate, which the manifest names");
        hash.input(KEY_OF);
        hash.input(&[u8::from(secret.is_some())]);
        hash.input(secret.unwrap_or_default());
        let mut key = [0; 32];
        hash.result(&mut key);
        Key(key)
    }
}

/// The two messages by which the peers agree on keys.
pub(crate) struct Handshake(HandshakeState);

impl Handshake {
    /// Bytes of a message beyond its payload: a public key, and a tag.
    pub(crate) const MESSAGE_BYTES: usize = 32 + TAG_BYTES;

    /// Of the side that begins. Both sides must have the same `clear` bytes, which crossed the wire before.
    pub(crate) fn begin(key: &Key, clear: &[u8]) -> io::Result<Self> {
        Self::new(key, clear, true)
    }

    /// Of the side that answers.
    pub(crate) fn answer(key: &Key, clear: &[u8]) -> io::Result<Self> {
        Self::new(key, clear, false)
    }

    fn new(key: &Key, clear: &[u8], begins: bool) -> io::Result<Self> {
        let made = PATTERN.parse().and_then(|params| {
            let builder = Builder::new(params).psk(0, &key.0)?.prologue(clear)?;
            if begins { builder.build_initiator() } else { builder.build_responder() }
        });
        // It fails where the system has no random bytes.
        made.map(Handshake).map_err(io::Error::other)
    }

    /// The next message, with a payload for nobody else.
    pub(crate) fn write(&mut self, payload: &[u8]) -> io::Result<Vec<u8>> {
        let mut message = vec![0; payload.len() + Self::MESSAGE_BYTES];
        let len = self.0.write_message(payload, &mut message).map_err(io::Error::other)?;
        message.truncate(len);
        Ok(message)
    }

    /// The payload of the peer's message; `None` when the peer has another secret, or the message was changed.
    pub(crate) fn read(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let mut payload = vec![0; message.len()];
        let len = self.0.read_message(message, &mut payload).ok()?;
        payload.truncate(len);
        Some(payload)
    }

    /// The keys, when both messages were read.
    pub(crate) fn finish(self) -> io::Result<Cipher> {
        self.0.into_transport_mode().map(Cipher).map_err(io::Error::other)
    }
}

/// The keys of a connection, one for each direction. Records are opened in the order in which they were sealed: one that
/// is missing, repeated or changed fails.
pub(crate) struct Cipher(TransportState);

impl Cipher {
    /// Appends the record of `plain`, at most [`RECORD_BYTES`], as it crosses the wire.
    pub(crate) fn seal(&mut self, plain: &[u8], to: &mut Vec<u8>) -> io::Result<()> {
        let (start, sealed) = (to.len(), plain.len() + TAG_BYTES);
        let head = u16::try_from(sealed).map_err(io::Error::other)?;
        to.extend(head.to_le_bytes());
        to.resize(start + 2 + sealed, 0);
        self.0.write_message(plain, &mut to[start + 2..]).map_err(io::Error::other)?;
        Ok(())
    }

    /// What the record holds, which came without its length. It is put at the beginning of `to`, which grows for it.
    pub(crate) fn open<'a>(
        &mut self,
        sealed: &[u8],
        to: &'a mut Vec<u8>,
    ) -> io::Result<&'a mut [u8]> {
        if to.len() < sealed.len() {
            to.resize(sealed.len(), 0);
        }
        let len = self.0.read_message(sealed, to).map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(&mut to[..len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ciphers of both ends of a connection.
    fn pair() -> (Cipher, Cipher) {
        let key = Key::of(Some(b"secret"));
        let mut one = Handshake::begin(&key, b"clear").unwrap();
        let mut two = Handshake::answer(&key, b"clear").unwrap();
        assert_eq!(two.read(&one.write(b"").unwrap()).unwrap(), b"");
        assert_eq!(one.read(&two.write(b"offer").unwrap()).unwrap(), b"offer");
        (one.finish().unwrap(), two.finish().unwrap())
    }

    #[test]
    fn the_first_message_shows_the_secret_and_what_was_said_in_clear() {
        let first = |key: &Key, clear: &[u8]| {
            let message = Handshake::begin(key, clear).unwrap().write(b"").unwrap();
            assert_eq!(message.len(), Handshake::MESSAGE_BYTES);
            let secret = Key::of(Some(b"secret"));
            Handshake::answer(&secret, b"clear").unwrap().read(&message).is_some()
        };
        assert!(first(&Key::of(Some(b"secret")), b"clear"));
        assert!(!first(&Key::of(Some(b"secret")), b"other"));
        for other in [Some(&b"secreT"[..]), Some(b""), None] {
            assert!(!first(&Key::of(other), b"clear"), "{other:?}");
        }
        let mut message = Handshake::begin(&Key::of(None), b"").unwrap().write(b"").unwrap();
        for i in 0..message.len() {
            message[i] ^= 1;
            let mut node = Handshake::answer(&Key::of(None), b"").unwrap();
            assert!(node.read(&message).is_none(), "byte {i}");
            message[i] ^= 1;
        }
    }

    #[test]
    fn records_come_whole_once_and_in_their_order() {
        let (mut one, mut two) = pair();
        let mut plain = Vec::new();
        let sealed = |cipher: &mut Cipher, bytes: &[u8]| {
            let mut to = Vec::new();
            cipher.seal(bytes, &mut to).unwrap();
            assert_eq!(to.len(), bytes.len() + 2 + TAG_BYTES);
            to.split_off(2)
        };
        for bytes in [&b""[..], b"x", &vec![7; RECORD_BYTES]] {
            assert_eq!(two.open(&sealed(&mut one, bytes), &mut plain).unwrap(), bytes);
            assert_eq!(one.open(&sealed(&mut two, bytes), &mut plain).unwrap(), bytes);
        }
        assert!(one.seal(&vec![0; RECORD_BYTES + 1], &mut Vec::new()).is_err());
        let (first, second) = (sealed(&mut one, b"first"), sealed(&mut one, b"second"));
        assert!(two.open(&second, &mut plain).is_err());
        let mut bad = first.clone();
        bad[3] ^= 1;
        assert!(two.open(&bad, &mut plain).is_err() && two.open(b"short", &mut plain).is_err());
        two.open(&first, &mut plain).unwrap();
        assert!(two.open(&first, &mut plain).is_err());
        assert_eq!(two.open(&second, &mut plain).unwrap(), b"second");
    }
}
