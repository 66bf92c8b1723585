//! What a map of several pools needs of each, and of its keys: `durahash.ray` has the rest.

use durahash::Cursor;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::column::Column;
use crate::kind::Kind;
use crate::map::Map;

/// The positions of the keys that belong to each of `count` shards, as so many buffers of 64-bit integers.
#[pyfunction]
pub(crate) fn split<'py>(
    py: Python<'py>,
    kind: &Bound<'py, PyAny>,
    keys: &Bound<'py, PyAny>,
    count: usize,
) -> PyResult<Vec<Bound<'py, PyBytes>>> {
    let kind = Kind::named(kind)?;
    let mut keys = Column::new(keys, &kind)?;
    let mut places = vec![Vec::new(); count];
    let mut at = 0_u64;
    loop {
        let piece = keys.next(&kind, keys.most())?;
        if piece.count == 0 {
            return Ok(places.iter().map(|places| PyBytes::new(py, places)).collect());
        }
        for i in 0..piece.count {
            let shard = (u128::from(hash(piece.rows().row(i))) * count as u128) >> 64;
            places[shard as usize].extend_from_slice(&at.to_le_bytes());
            at += 1;
        }
    }
}

/// A key's hash: FNV-1a, whose upper bits a last mix makes depend on all of a short key. Where keys lie depends on it,
/// so it stays as it is.
fn hash(key: &[u8]) -> u64 {
    let fold = |h: u64, byte: &u8| (h ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let mut h = key.iter().fold(0xcbf2_9ce4_8422_2325, fold);
    for odd in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        h = (h ^ (h >> 33)).wrapping_mul(odd);
    }
    h ^ (h >> 33)
}

/// Keys, their values, and where the next ones begin.
type Step<'py> = (Vec<Bound<'py, PyAny>>, Vec<Bound<'py, PyAny>>, Option<u64>);

#[pymethods]
impl Map {
    /// Some entries from a place on, which is 0 at first.
    fn _scan<'py>(&self, py: Python<'py>, at: u64, n: usize) -> PyResult<Step<'py>> {
        let core = &self.core;
        let (found, next) = core.wait(py, |map| map.scan_raw(Cursor::from_word(at), n))?;
        let keys =
            found.iter().map(|(key, _)| core.key.decode(py, key)).collect::<PyResult<_>>()?;
        let values = found.iter().map(|(_, value)| core.value.decode(py, value));
        Ok((keys, values.collect::<PyResult<_>>()?, next.map(Cursor::to_word)))
    }
}
