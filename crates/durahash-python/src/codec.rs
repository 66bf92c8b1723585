//! Keys and values of caches: what a pool keeps for them.
//!
//! A key is a plain object. A value is one, or a letter of a codec and what the codec has made; in front of it stand `T`
//! and the tag, in four bytes with its length and a plain object, if it has one. So a tag comes and goes with its value.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyBytes;

use crate::error;
use crate::kind::functions;
use crate::plain::{self, Role};

const TAGGED: u8 = b'T';
/// The codecs, by the letters of their values.
const CODECS: [(u8, &str); 4] =
    [(b'j', "json"), (b'k', "msgpack"), (b'p', "pickle"), (b'c', "(encode, decode)")];
/// The codecs that read what anybody may have written, and run nothing of it.
const SAFE: [&str; 2] = ["json", "msgpack"];

/// The keys of a cache.
pub(crate) struct PlainKey;

impl PlainKey {
    pub(crate) fn decode<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        plain::read(py, bytes, 0)?.ok_or_else(unknown)
    }
}

/// What becomes of values that have other objects in them, or are not plain.
pub(crate) struct Codec(Option<Named>);

struct Named {
    letter: u8,
    encode: Py<PyAny>,
    decode: Py<PyAny>,
}

impl Codec {
    /// The codec that a caller names.
    pub(crate) fn named(spec: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(spec) = spec else { return Ok(Codec(None)) };
        if let Some((encode, decode)) = functions(spec) {
            return Ok(Codec(Some(Named { letter: b'c', encode, decode })));
        }
        let name = spec.extract::<String>().unwrap_or_default();
        let known = CODECS[..3].iter().find(|(_, known)| *known == name);
        let Some((letter, name)) = known else {
            let text = format!(
                "{spec} is no codec; there are \"json\", \"msgpack\", \"pickle\" and (encode, decode), \
                 two functions"
            );
            return Err(error::options(text));
        };
        let (encode, decode) = (function(spec.py(), name, 0)?, function(spec.py(), name, 1)?);
        Ok(Codec(Some(Named { letter: *letter, encode, decode })))
    }

    /// The bytes for a value and its tag.
    #[inline]
    pub(crate) fn encode<'py>(
        &self,
        value: &Bound<'py, PyAny>,
        tag: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Vec<u8>> {
        let mut out = Vec::with_capacity(128);
        if let Some(tag) = tag {
            out.push(TAGGED);
            plain::sized(&mut out, |out| plain::write(tag, Role::Key, out, 0))?;
        }
        let Some(codec) = &self.0 else {
            plain::write(value, Role::Value, &mut out, 0)?;
            return Ok(out);
        };
        if !plain::write_scalar(value, Role::Value, &mut out)? {
            let made = codec.encode.bind(value.py()).call1((value,))?;
            let made = made.cast::<PyBytes>().map_err(|_| {
                PyTypeError::new_err(format!("encode is to return bytes, not {}", made.get_type()))
            })?;
            out.push(codec.letter);
            out.extend_from_slice(made.as_bytes());
        }
        Ok(out)
    }

    /// The value that has these bytes.
    pub(crate) fn decode<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let (_, value) = split(bytes);
        if let Some(value) = plain::read(py, value, 0)? {
            return Ok(value);
        }
        let (letter, made) = value.split_first().ok_or_else(unknown)?;
        let made = (PyBytes::new(py, made),);
        if let Some(codec) = self.0.as_ref().filter(|codec| codec.letter == *letter) {
            return codec.decode.bind(py).call1(made);
        }
        let (_, name) = CODECS.iter().find(|(known, _)| known == letter).ok_or_else(unknown)?;
        if SAFE.contains(name) {
            return function(py, name, 1)?.bind(py).call1(made);
        }
        let text = format!(
            "the value was written by another codec, {name}: open the cache with it, if nobody else can \
             write the file"
        );
        Err(error::new("TypesError", (text,)))
    }

    /// Shows the collector of garbage what a codec refers to, which may be an object that refers to the cache.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Some(codec) = &self.0 {
            visit.call(&codec.encode)?;
            visit.call(&codec.decode)?;
        }
        Ok(())
    }
}

/// The function that makes bytes of objects, or the one that makes objects of bytes.
fn function(py: Python<'_>, codec: &str, which: usize) -> PyResult<Py<PyAny>> {
    let codecs = py.import("durahash._codecs")?;
    if codec == "msgpack" {
        return Ok(codecs.call_method0("msgpack")?.get_item(which)?.unbind());
    }
    Ok(codecs.getattr(format!("{codec}_{}", ["encode", "decode"][which]))?.unbind())
}

/// The tag of a value, if it has one, and the rest.
#[inline]
pub(crate) fn split(bytes: &[u8]) -> (Option<&[u8]>, &[u8]) {
    match bytes.split_first() {
        Some((&TAGGED, rest)) => {
            plain::split_sized(rest).map_or((None, &[]), |(tag, value)| (Some(tag), value))
        }
        _ => (None, bytes),
    }
}

/// The object of a tag, or None.
pub(crate) fn tag_object<'py>(
    py: Python<'py>,
    bytes: &[u8],
) -> PyResult<Option<Bound<'py, PyAny>>> {
    split(bytes).0.map(|tag| PlainKey.decode(py, tag)).transpose()
}

#[cold]
fn unknown() -> PyErr {
    let text =
        "the pool has what no durahash.Cache of this version writes: read it as it was written";
    error::new("TypesError", (text,))
}
