//! What a node tells a client so that it can connect.

use durahash_media::{ErrorKind, Result};

const MAGIC: u64 = u64::from_le_bytes(*b"duraucx\0");
const VERSION: u64 = 1;
/// Words before the address and the key.
const WORDS: usize = 9;
/// A worker's address, or a packed key, is smaller.
const PART_BYTES_MAX: u64 = 1 << 20;

/// How a region is reached.
///
/// ```text
/// word 0  "duraucx\0"
///      1  version
///      2  id of the region, which is also in its first word
///      3  where the region's memory begins, in the node's process
///      4  bytes of the region, without the fabric's own page or pages before it
///      5  rows of clients
///      6  lease in nanoseconds
///      7  bytes of the worker's address
///      8  bytes of the packed key
///         address, key, CRC-32 of all that
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) id: u64,
    base: u64,
    pub(crate) region_bytes: u64,
    pub(crate) rows: u32,
    pub(crate) lease_ns: u64,
    address: Vec<u8>,
    rkey: Vec<u8>,
}

impl Blob {
    pub(crate) fn new(
        id: u64,
        region_bytes: u64,
        rows: u32,
        lease_ns: u64,
        (base, address, rkey): (u64, Vec<u8>, Vec<u8>),
    ) -> Self {
        Blob { id, base, region_bytes, rows, lease_ns, address, rkey }
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn address(&self) -> &[u8] {
        &self.address
    }

    pub(crate) fn rkey(&self) -> &[u8] {
        &self.rkey
    }

    /// Bytes of the fabric itself, before the region.
    pub(crate) fn own_bytes(&self) -> u64 {
        crate::rows::own_bytes(self.rows)
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.own_bytes() + self.region_bytes
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let words: [u64; WORDS] = [
            MAGIC,
            VERSION,
            self.id,
            self.base,
            self.region_bytes,
            self.rows.into(),
            self.lease_ns,
            self.address.len() as u64,
            self.rkey.len() as u64,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(&self.address);
        bytes.extend_from_slice(&self.rkey);
        bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    /// # Errors
    /// [`Region`](ErrorKind::Region) when it is not what a node of this version has made.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let expect = |what, found, expected| {
            if found == expected {
                return Ok(());
            }
            Err(ErrorKind::Region { what, found, expected })
        };
        let least = WORDS * 8 + 4;
        expect("the bytes that reach it", bytes.len().min(least) as u64, least as u64)?;
        let (words, _) = bytes.as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(words[i]);
        expect("the magic number", word(0), MAGIC)?;
        expect("the protocol version", word(1), VERSION)?;
        let [address, rkey] = [7, 8].map(|i| word(i).min(PART_BYTES_MAX) as usize);
        expect("the bytes that reach it", bytes.len() as u64, (least + address + rkey) as u64)?;
        let (body, sum) = bytes.split_at(bytes.len() - 4);
        let sum = u32::from_le_bytes(*sum.first_chunk().expect("four bytes"));
        expect("the checksum", sum.into(), crc32fast::hash(body).into())?;
        expect("the number of rows", word(5), word(5).clamp(1, u64::from(crate::rows::ROWS_MAX)))?;
        let parts = &body[WORDS * 8..];
        Ok(Blob {
            id: word(2),
            base: word(3),
            region_bytes: word(4),
            rows: word(5) as u32,
            lease_ns: word(6),
            address: parts[..address].to_vec(),
            rkey: parts[address..].to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_nodes_is_refused() {
        let blob = Blob::new(7, 4096, 3, 5, (0x1000, vec![1, 2, 3], vec![4, 5]));
        let good = blob.to_bytes();
        assert_eq!(Blob::from_bytes(&good).unwrap(), blob);
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 0x20;
            assert!(Blob::from_bytes(&bad).is_err(), "byte {i}");
            assert!(Blob::from_bytes(&good[..i]).is_err(), "{i} bytes");
        }
        let mut long = good;
        long.push(0);
        assert!(Blob::from_bytes(&long).is_err());
        let none = Blob::new(7, 4096, 0, 5, (0, vec![], vec![])).to_bytes();
        assert!(matches!(
            Blob::from_bytes(&none).err().unwrap().kind(),
            ErrorKind::Region { what: "the number of rows", .. }
        ));
    }
}
