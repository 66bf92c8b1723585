//! The bytes by which a client connects to a node.

use durahash_media::{ErrorKind, Result};

use crate::leases::{LEASE_MAX, LEASE_MIN, PAGE, REGION_BYTES_MAX, ROWS_MAX};

const MAGIC: u64 = u64::from_le_bytes(*b"duraucx\0");
const VERSION: u64 = 3;
/// Words before the address and the key.
const WORDS: usize = 10;
/// More than the bytes of a worker's address, or of a packed key.
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
///      7  version of the node's UCX: 1000 times the major number, and the minor one
///      8  bytes of the worker's address
///      9  bytes of the packed key
///         address, key, CRC-32 of all that
/// ```
///
/// UCX defines address and key, and reads them without a length: so versions of UCX cannot be mixed, and
/// the caller vouches for the source of the bytes (`Trusted`). The checksum finds damage only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConnectInfo {
    pub(crate) id: u64,
    ucx: u64,
    pub(crate) base: u64,
    pub(crate) region_bytes: u64,
    pub(crate) rows: u32,
    pub(crate) lease_ns: u64,
    pub(crate) address: Vec<u8>,
    pub(crate) rkey: Vec<u8>,
}

impl ConnectInfo {
    pub(crate) fn new(
        id: u64,
        ucx: u64,
        region_bytes: u64,
        rows: u32,
        lease_ns: u64,
        (base, address, rkey): (u64, Vec<u8>, Vec<u8>),
    ) -> Self {
        ConnectInfo { id, ucx, base, region_bytes, rows, lease_ns, address, rkey }
    }

    /// Bytes of the fabric's own pages, before the region.
    pub(crate) fn own_bytes(&self) -> u64 {
        crate::leases::own_bytes(self.rows)
    }

    /// Bytes of both, which end within the address space.
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
            self.ucx,
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
    /// [`Region`](ErrorKind::Region) when the bytes are not from a node of this version and this version of UCX.
    pub(crate) fn from_bytes(bytes: &[u8], ucx: u64) -> Result<Self> {
        let expect = |what, found, expected| {
            if found == expected {
                return Ok(());
            }
            Err(ErrorKind::Region { what, found, expected })
        };
        let least = WORDS * 8 + 4;
        expect("the length of the connect info", bytes.len().min(least) as u64, least as u64)?;
        let (words, _) = bytes.as_chunks::<8>();
        let word = |i: usize| u64::from_le_bytes(words[i]);
        expect("the magic number", word(0), MAGIC)?;
        expect("the protocol version", word(1), VERSION)?;
        let [address, rkey] = [8, 9].map(|i| word(i).min(PART_BYTES_MAX) as usize);
        expect(
            "the length of the connect info",
            bytes.len() as u64,
            (least + address + rkey) as u64,
        )?;
        let (body, sum) = bytes.split_at(bytes.len() - 4);
        let sum = u32::from_le_bytes(*sum.first_chunk().expect("four bytes"));
        expect("the checksum", sum.into(), crc32fast::hash(body).into())?;
        expect("the version of UCX", word(7), ucx)?;
        for (what, bytes) in [
            ("the length of the worker's address", address),
            ("the length of the remote key", rkey),
        ] {
            expect(what, bytes as u64, bytes.max(1) as u64)?;
        }
        expect("the number of rows", word(5), word(5).clamp(1, ROWS_MAX.into()))?;
        let whole = word(4).clamp(PAGE, REGION_BYTES_MAX) / PAGE * PAGE;
        expect("the bytes of the region", word(4), whole)?;
        let all = crate::leases::own_bytes(word(5) as u32) + whole;
        expect("the address of the region", word(3), word(3).clamp(8, u64::MAX - all) / 8 * 8)?;
        let [least, most] = [LEASE_MIN, LEASE_MAX].map(|lease| lease.as_nanos() as u64);
        expect("the lease", word(6), word(6).clamp(least, most))?;
        let parts = &body[WORDS * 8..];
        Ok(ConnectInfo {
            id: word(2),
            ucx,
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

    const UCX: u64 = 1013;
    const LEASE_NS: u64 = 5_000_000_000;

    fn at(base: u64) -> (u64, Vec<u8>, Vec<u8>) {
        (base, vec![1, 2, 3], vec![4, 5])
    }

    fn parts() -> (u64, Vec<u8>, Vec<u8>) {
        at(0x1000)
    }

    #[test]
    fn other_bytes_are_refused() {
        let info = ConnectInfo::new(7, UCX, 4096, 3, LEASE_NS, parts());
        let good = info.to_bytes();
        assert_eq!(ConnectInfo::from_bytes(&good, UCX).unwrap(), info);
        for i in 0..good.len() {
            let mut bad = good.clone();
            bad[i] ^= 0x20;
            assert!(ConnectInfo::from_bytes(&bad, UCX).is_err(), "byte {i}");
            assert!(ConnectInfo::from_bytes(&good[..i], UCX).is_err(), "{i} bytes");
        }
        let mut long = good;
        long.push(0);
        assert!(ConnectInfo::from_bytes(&long, UCX).is_err());
    }

    #[test]
    fn impossible_values_are_refused() {
        let (key, address) = (vec![4, 5], vec![1, 2, 3]);
        let beyond = u64::MAX - 4096;
        for (ucx, bytes, rows, lease_ns, parts, what) in [
            (1014, 4096, 3, LEASE_NS, parts(), "the version of UCX"),
            (UCX, 0, 3, LEASE_NS, parts(), "the bytes of the region"),
            (UCX, 4097, 3, LEASE_NS, parts(), "the bytes of the region"),
            (UCX, u64::MAX - 4095, 3, LEASE_NS, parts(), "the bytes of the region"),
            (UCX, 1 << 48, 3, LEASE_NS, parts(), "the bytes of the region"),
            (UCX, 4096, 0, LEASE_NS, parts(), "the number of rows"),
            (UCX, 4096, 4097, LEASE_NS, parts(), "the number of rows"),
            (UCX, 4096, 3, 0, parts(), "the lease"),
            (UCX, 4096, 3, u64::MAX, parts(), "the lease"),
            (UCX, 4096, 3, LEASE_NS, at(0), "the address of the region"),
            (UCX, 4096, 3, LEASE_NS, at(0x1001), "the address of the region"),
            (UCX, 4096, 3, LEASE_NS, at(beyond), "the address of the region"),
            (UCX, 4096, 3, LEASE_NS, (0x1000, vec![], key), "the length of the worker's address"),
            (UCX, 4096, 3, LEASE_NS, (0x1000, address, vec![]), "the length of the remote key"),
        ] {
            let bytes = ConnectInfo::new(7, ucx, bytes, rows, lease_ns, parts).to_bytes();
            let refused = ConnectInfo::from_bytes(&bytes, UCX).err().unwrap();
            let ErrorKind::Region { what: found, .. } = refused.kind() else { panic!("{refused}") };
            assert_eq!(*found, what);
        }
    }
}
