//! The messages between nodes and clients, of bounded length.

use std::io;
use std::net::TcpStream;
use std::time::Instant;

use crate::wire::{Handshake, read_all};

const MAGIC: [u8; 8] = *b"durnode\0";
/// The protocol version.
pub(super) const VERSION: u32 = 3;
/// Bytes of a client's first message in clear: magic number, version, and whether it has a token.
const HELLO_BYTES: usize = 16;
const ANSWER_BYTES: usize = 20;
const OFFER_BYTES: usize = 8192;
const FABRIC_BYTES: usize = 32;
const PLACE_BYTES: usize = 4096;

/// The client's ping: a record that holds this.
pub(super) const ASK: u8 = 1;
/// The node's answer.
pub(super) const HERE: u8 = 0;

/// The way to the memory of a node: exactly what the protocol carries, so a new field comes with a new version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The random id of the memory.
    pub id: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Clients at once, at most.
    pub max_clients: u32,
    /// The name of the fabric, at most 32 bytes.
    pub fabric: String,
    /// The place on that fabric, at most 4,096 bytes: for `local`, the path of a directory.
    pub place: Vec<u8>,
}

/// A node's answer to the first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Welcome,
    Version,
    TokenWanted,
    AnotherToken,
    NoToken,
    TooMany,
    /// Another one came before it was admitted.
    Crowd,
}

impl Verdict {
    /// For those who watch the node.
    pub(super) const fn why(self) -> &'static str {
        match self {
            Verdict::Welcome => "it is welcome",
            Verdict::Version => "it has another version of the control protocol",
            Verdict::TokenWanted => "it shows no token",
            Verdict::AnotherToken => "it shows a different token",
            Verdict::NoToken => "it shows a token, and this node requires none",
            Verdict::TooMany => "there are too many connections, or wrong tokens from its address",
            Verdict::Crowd => "others came before it was admitted",
        }
    }
}

pub(super) const VERDICTS: [Verdict; 7] = [
    Verdict::Welcome,
    Verdict::Version,
    Verdict::TokenWanted,
    Verdict::AnotherToken,
    Verdict::NoToken,
    Verdict::TooMany,
    Verdict::Crowd,
];

/// Why a message could not be read.
#[derive(Debug)]
pub(super) enum MessageError {
    /// It did not arrive, or not completely.
    Io(io::Error),
    /// It does not begin with the magic number.
    Magic,
    /// It has this other version.
    Version(u32),
    /// A length in it is too large, or contradicts another.
    Malformed,
}

impl From<io::Error> for MessageError {
    fn from(e: io::Error) -> Self {
        MessageError::Io(e)
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_le_bytes(*bytes.first_chunk().expect("four bytes are asked for"))
}

/// The first message of a client as far as it is in clear.
pub(super) fn hello(has_token: bool) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(u32::from(has_token).to_le_bytes());
    bytes
}

/// Reads the start of a first message, of this version.
fn read_head<const N: usize>(stream: &TcpStream, until: Instant) -> Result<[u8; N], MessageError> {
    let mut head = [0; N];
    // The first bytes of garbage are answered; the rest is not waited for.
    read_all(stream, &mut head[..MAGIC.len()], until)?;
    if head[..MAGIC.len()] != MAGIC {
        return Err(MessageError::Magic);
    }
    read_all(stream, &mut head[MAGIC.len()..], until)?;
    match number(&head[8..]) {
        VERSION => Ok(head),
        version => Err(MessageError::Version(version)),
    }
}

/// Reads a message of [`hello`], and the first message of a handshake. Returns what was in clear, and whether the
/// client has a token.
#[allow(clippy::type_complexity, reason = "two messages of fixed length")]
pub(super) fn read_hello(
    stream: &TcpStream,
    until: Instant,
) -> Result<([u8; HELLO_BYTES], bool, [u8; Handshake::MESSAGE_BYTES]), MessageError> {
    let head: [u8; HELLO_BYTES] = read_head(stream, until)?;
    let has_token = match number(&head[12..]) {
        0 => false,
        1 => true,
        _ => return Err(MessageError::Malformed),
    };
    let mut first = [0; Handshake::MESSAGE_BYTES];
    read_all(stream, &mut first, until)?;
    Ok((head, has_token, first))
}

/// The answer of a node: the second message of the handshake, with its offer, or why there is none.
pub(crate) fn answer(said: Result<&[u8], Verdict>) -> Vec<u8> {
    let (verdict, second) = match said {
        Ok(second) => (Verdict::Welcome, second),
        Err(verdict) => (verdict, &[][..]),
    };
    let mut bytes = MAGIC.to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend((verdict as u32).to_le_bytes());
    bytes.extend((second.len() as u32).to_le_bytes());
    bytes.extend(second);
    bytes
}

/// Reads a message of [`answer`].
pub(super) fn read_answer(
    stream: &TcpStream,
    until: Instant,
) -> Result<Result<Vec<u8>, Verdict>, MessageError> {
    let head: [u8; ANSWER_BYTES] = read_head(stream, until)?;
    let (verdict, len) = (number(&head[12..]) as usize, number(&head[16..]) as usize);
    match VERDICTS.get(verdict) {
        Some(Verdict::Welcome) if len <= OFFER_BYTES => {
            let mut second = vec![0; len];
            read_all(stream, &mut second, until)?;
            Ok(Ok(second))
        }
        Some(&verdict) if verdict != Verdict::Welcome && len == 0 => Ok(Err(verdict)),
        _ => Err(MessageError::Malformed),
    }
}

pub(crate) fn encode(offer: &Offer) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(offer.id.to_le_bytes());
    bytes.extend(offer.bytes.to_le_bytes());
    bytes.extend(offer.max_clients.to_le_bytes());
    for part in [offer.fabric.as_bytes(), &offer.place] {
        bytes.extend((part.len() as u16).to_le_bytes());
        bytes.extend(part);
    }
    bytes
}

pub(super) fn decode(bytes: &[u8]) -> Option<Offer> {
    let (id, rest) = bytes.split_first_chunk()?;
    let (size, rest) = rest.split_first_chunk()?;
    let (max_clients, rest) = rest.split_first_chunk()?;
    let part = |bytes: &[u8], limit: usize| {
        let (len, rest) = bytes.split_first_chunk()?;
        let len = usize::from(u16::from_le_bytes(*len));
        let (part, rest) = rest.split_at_checked(len).filter(|_| len <= limit)?;
        Some((part.to_vec(), rest.to_vec()))
    };
    let (fabric, rest) = part(rest, FABRIC_BYTES)?;
    let (place, rest) = part(&rest, PLACE_BYTES)?;
    let offer = Offer {
        id: u64::from_le_bytes(*id),
        bytes: u64::from_le_bytes(*size),
        max_clients: u32::from_le_bytes(*max_clients),
        fabric: String::from_utf8(fabric).ok()?,
        place,
    };
    rest.is_empty().then_some(offer)
}

impl Offer {
    /// Returns whether the offer fits into a message.
    pub(super) fn fits(&self) -> bool {
        self.fabric.len() <= FABRIC_BYTES && self.place.len() <= PLACE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer() -> Offer {
        let place = b"/dev/shm/\xff".to_vec();
        Offer { id: 7, bytes: 1 << 30, max_clients: 64, fabric: "local".into(), place }
    }

    #[test]
    fn an_offer_comes_back_and_no_other_bytes_are_one() {
        let bytes = encode(&offer());
        assert_eq!(decode(&bytes), Some(offer()));
        for len in 0..bytes.len() {
            assert_eq!(decode(&bytes[..len]), None, "{len}");
        }
        assert_eq!(decode(&[&bytes[..], b"x"].concat()), None);
        let long = Offer { fabric: "x".repeat(FABRIC_BYTES + 1), ..offer() };
        assert!(!long.fits() && offer().fits());
        assert_eq!(decode(&encode(&long)), None);
        let long = Offer { place: vec![b'x'; PLACE_BYTES + 1], ..offer() };
        assert!(!long.fits());
        assert_eq!(decode(&encode(&long)), None);
    }

    #[test]
    fn messages_lie_as_the_documentation_says() {
        assert_eq!(hello(true), b"durnode\0\x03\0\0\0\x01\0\0\0");
        let answer = answer(Ok(&encode(&offer())));
        assert_eq!(&answer[..20], b"durnode\0\x03\0\0\0\0\0\0\0\x27\0\0\0");
        assert_eq!(&answer[36..47], b"\x40\0\0\0\x05\0local");
        assert_eq!(VERDICTS.map(|verdict| verdict as usize), [0, 1, 2, 3, 4, 5, 6]);
    }
}
