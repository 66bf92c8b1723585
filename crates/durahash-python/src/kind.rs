//! What keys and values are: how objects of Python become the bytes that a pool keeps, and come back.

use std::fmt;

use durahash::Type;
use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyByteArray, PyBytes, PyFloat, PyMemoryView, PyString, PyTuple};

/// What the keys, or the values, of a map are.
pub(crate) enum Kind {
    Int { bytes: usize, is_signed: bool },
    Float { bytes: usize },
    Bool,
    Str,
    Bytes,
    Array(usize),
    Coded(Codec),
}

/// Values that two functions of Python make bytes of, and again values.
pub(crate) struct Codec {
    name: String,
    is_text: bool,
    encode: Py<PyAny>,
    decode: Py<PyAny>,
}

/// Where the bytes of an object are while they are used.
pub(crate) enum Room<'py> {
    None,
    Word([u8; 8]),
    Object(Bound<'py, PyBytes>),
}

const KNOWN: &str = "int, float, bool, str, bytes, \"u8\" to \"u64\", \"i8\" to \"i64\", \"f32\", \"f64\", \"S16\" (bytes of that \
                     length), and for values \"json\", \"pickle\" or (encode, decode)";

impl Kind {
    /// The kind that a caller names: by a text, by a type, module or dtype with that name, or by
    /// two functions.
    pub(crate) fn named(spec: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = spec.py();
        if let Some((encode, decode)) = functions(spec) {
            let name = "(encode, decode)".into();
            return Ok(Kind::Coded(Codec { name, is_text: false, encode, decode }));
        }
        let name = match spec.extract::<String>() {
            Ok(name) => name,
            Err(_) => {
                let name = spec.getattr("__name__").or_else(|_| spec.getattr("name"));
                name.and_then(|name| name.extract()).unwrap_or_default()
            }
        };
        let bits = |prefixes: &[&str]| {
            let bits = prefixes.iter().find_map(|prefix| name.strip_prefix(prefix))?;
            bits.parse::<usize>().ok().filter(|bits| [8, 16, 32, 64].contains(bits))
        };
        if let Some(bits) = bits(&["uint", "u"]) {
            return Ok(Kind::Int { bytes: bits / 8, is_signed: false });
        }
        if let Some(bits) = bits(&["int", "i"]) {
            return Ok(Kind::Int { bytes: bits / 8, is_signed: true });
        }
        if let Some(bits) = bits(&["float", "f"]).filter(|bits| *bits >= 32) {
            return Ok(Kind::Float { bytes: bits / 8 });
        }
        // numpy names S16 by its bits.
        let bits = name.strip_prefix("bytes").and_then(|bits| bits.parse::<usize>().ok());
        let bytes = name.strip_prefix('S').and_then(|bytes| bytes.parse().ok());
        if let Some(bytes) = bytes.or(bits.map(|bits| bits / 8))
            && (1..1 << 24).contains(&bytes)
        {
            return Ok(Kind::Array(bytes));
        }
        Ok(match name.as_str() {
            "int" => Kind::Int { bytes: 8, is_signed: true },
            "float" => Kind::Float { bytes: 8 },
            "bool" => Kind::Bool,
            "str" => Kind::Str,
            "bytes" => Kind::Bytes,
            "json" | "pickle" => {
                let codecs = py.import("durahash._codecs")?;
                let function = |what: &str| codecs.getattr(format!("{name}_{what}"));
                let (encode, decode) = (function("encode")?.unbind(), function("decode")?.unbind());
                Kind::Coded(Codec { is_text: name == "json", name, encode, decode })
            }
            _ => {
                let text = format!("{spec} is no kind of keys or values; there are {KNOWN}");
                return Err(crate::error::options(text));
            }
        })
    }

    /// The kind for a type of a pool.
    pub(crate) fn of(ty: Type) -> PyResult<Self> {
        let bytes = ty.fixed_bytes().unwrap_or_default();
        Ok(match ty {
            Type::U8 | Type::U16 | Type::U32 | Type::U64 => Kind::Int { bytes, is_signed: false },
            Type::I8 | Type::I16 | Type::I32 | Type::I64 => Kind::Int { bytes, is_signed: true },
            Type::F32 | Type::F64 => Kind::Float { bytes },
            Type::Bool => Kind::Bool,
            Type::Str => Kind::Str,
            Type::Bytes => Kind::Bytes,
            Type::Array(_) if bytes > 0 => Kind::Array(bytes),
            _ => {
                let text = match ty {
                    Type::Object | Type::Expiring(_) => {
                        format!(
                            "the pool is that of a cache, with keys or values of {ty}, and no map"
                        )
                    }
                    _ => format!("the pool has keys or values of {ty}, which Python cannot use"),
                };
                return Err(crate::error::new("TypesError", (text,)));
            }
        })
    }

    /// The type of a pool for this kind.
    pub(crate) fn ty(&self) -> Type {
        match self {
            Kind::Int { bytes: 1, is_signed: false } => Type::U8,
            Kind::Int { bytes: 2, is_signed: false } => Type::U16,
            Kind::Int { bytes: 4, is_signed: false } => Type::U32,
            Kind::Int { is_signed: false, .. } => Type::U64,
            Kind::Int { bytes: 1, .. } => Type::I8,
            Kind::Int { bytes: 2, .. } => Type::I16,
            Kind::Int { bytes: 4, .. } => Type::I32,
            Kind::Int { .. } => Type::I64,
            Kind::Float { bytes: 4 } => Type::F32,
            Kind::Float { .. } => Type::F64,
            Kind::Bool => Type::Bool,
            Kind::Str => Type::Str,
            Kind::Bytes => Type::Bytes,
            Kind::Array(bytes) => Type::Array(*bytes as u32),
            Kind::Coded(codec) if codec.is_text => Type::Str,
            Kind::Coded(_) => Type::Bytes,
        }
    }

    pub(crate) fn is_coded(&self) -> bool {
        matches!(self, Kind::Coded(_))
    }

    /// True if the object that has these bytes is made without code of Python, also not that of an error.
    #[inline]
    pub(crate) fn is_quick(&self, bytes: &[u8]) -> bool {
        match self {
            Kind::Coded(_) => false,
            Kind::Str => str::from_utf8(bytes).is_ok(),
            _ => true,
        }
    }

    /// The bytes of an object, which are its own or in `room`.
    #[inline]
    pub(crate) fn encode<'a, 'py>(
        &self,
        object: &'a Bound<'py, PyAny>,
        room: &'a mut Room<'py>,
    ) -> PyResult<&'a [u8]> {
        let (word, bytes) = match self {
            Kind::Int { bytes, is_signed: false } => {
                let n: u64 = object.extract().map_err(|e| self.refused(object, e))?;
                (n, *bytes)
            }
            Kind::Int { bytes, .. } => {
                let n: i64 = object.extract().map_err(|e| self.refused(object, e))?;
                (n as u64, *bytes)
            }
            Kind::Float { bytes: 4 } => {
                let wide: f64 = object.extract().map_err(|e| self.refused(object, e))?;
                let x = wide as f32;
                if x.is_infinite() && wide.is_finite() {
                    return Err(self.refused(object, PyOverflowError::new_err("")));
                }
                (x.to_bits().into(), 4)
            }
            Kind::Float { bytes } => {
                let x: f64 = object.extract().map_err(|e| self.refused(object, e))?;
                (x.to_bits(), *bytes)
            }
            Kind::Bool => {
                let b: bool = object.extract().map_err(|e| self.refused(object, e))?;
                (b.into(), 1)
            }
            Kind::Str => {
                let text = object.cast::<PyString>().map_err(|e| self.refused(object, e.into()))?;
                return Ok(room.keep(text.encode_utf8()?));
            }
            Kind::Bytes => return self.bytes(object, room),
            Kind::Array(length) => {
                let bytes = self.bytes(object, room)?;
                if bytes.len() != *length {
                    let text = format!("{length} bytes are wanted ({self}), not {}", bytes.len());
                    return Err(PyValueError::new_err(text));
                }
                return Ok(bytes);
            }
            Kind::Coded(codec) => {
                let made = codec.encode.bind(object.py()).call1((object,))?;
                let made = made.cast_into::<PyBytes>().map_err(|e| {
                    let text =
                        format!("encode is to return bytes, not {}", e.into_inner().get_type());
                    PyTypeError::new_err(text)
                })?;
                return Ok(room.keep(made));
            }
        };
        // Integers of fewer bytes: the rest is that of the sign.
        if let Kind::Int { bytes, is_signed } = self
            && *bytes < 8
        {
            let bits = 8 * *bytes;
            let is_one = if *is_signed {
                (word as i64) << (64 - bits) >> (64 - bits) == word as i64
            } else {
                word >> bits == 0
            };
            if !is_one {
                return Err(self.refused(object, PyOverflowError::new_err("")));
            }
        }
        *room = Room::Word(word.to_le_bytes());
        match room {
            Room::Word(word) => Ok(&word[..bytes]),
            _ => Ok(&[]),
        }
    }

    fn bytes<'a, 'py>(
        &self,
        object: &'a Bound<'py, PyAny>,
        room: &'a mut Room<'py>,
    ) -> PyResult<&'a [u8]> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(bytes.as_bytes());
        }
        if let Ok(bytes) = object.cast::<PyByteArray>() {
            return Ok(room.keep(PyBytes::new(object.py(), &bytes.to_vec())));
        }
        let refused = |e| self.refused(object, e);
        let view = object.cast::<PyMemoryView>().map_err(|e| refused(e.into()))?;
        Ok(room.keep(view.call_method0("tobytes")?.cast_into()?))
    }

    /// An object that is no key or value of this kind.
    #[cold]
    fn refused(&self, object: &Bound<'_, PyAny>, e: PyErr) -> PyErr {
        let py = object.py();
        if e.is_instance_of::<PyOverflowError>(py) {
            // A number of thousands of digits has no text.
            let number = object.str().map_or("the number".into(), |text| text.to_string());
            return PyOverflowError::new_err(format!("{number} is beyond {self}"));
        }
        if !e.is_instance_of::<PyTypeError>(py) {
            // Of the object's own code, or Ctrl-C in it.
            return e;
        }
        let name = object.get_type().name().map(|name| name.to_string()).unwrap_or_default();
        PyTypeError::new_err(format!("{self} is wanted here, not {name}"))
    }

    /// Shows the collector of garbage what a codec refers to, which may be an object that refers to the map.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        if let Kind::Coded(codec) = self {
            visit.call(&codec.encode)?;
            visit.call(&codec.decode)?;
        }
        Ok(())
    }

    /// The object that has these bytes.
    #[inline]
    pub(crate) fn decode<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let mut word = [0; 8];
        let fixed = &bytes[..bytes.len().min(8)];
        word[..fixed.len()].copy_from_slice(fixed);
        let word = u64::from_le_bytes(word);
        Ok(match self {
            Kind::Int { is_signed: false, .. } => word.into_pyobject(py)?.into_any(),
            Kind::Int { bytes, .. } => {
                let shift = 64 - 8 * *bytes;
                ((word << shift) as i64 >> shift).into_pyobject(py)?.into_any()
            }
            Kind::Float { bytes: 4 } => {
                PyFloat::new(py, f32::from_bits(word as u32).into()).into_any()
            }
            Kind::Float { .. } => PyFloat::new(py, f64::from_bits(word)).into_any(),
            Kind::Bool => (word != 0).into_pyobject(py)?.to_owned().into_any(),
            Kind::Str => PyString::from_bytes(py, bytes)?.into_any(),
            Kind::Bytes | Kind::Array(_) => PyBytes::new(py, bytes).into_any(),
            Kind::Coded(codec) => codec.decode.bind(py).call1((PyBytes::new(py, bytes),))?,
        })
    }
}

/// Two functions, if it is a pair of them.
pub(crate) fn functions(spec: &Bound<'_, PyAny>) -> Option<(Py<PyAny>, Py<PyAny>)> {
    let pair: (Bound<'_, PyAny>, Bound<'_, PyAny>) = spec.cast::<PyTuple>().ok()?.extract().ok()?;
    (pair.0.is_callable() && pair.1.is_callable()).then(|| (pair.0.unbind(), pair.1.unbind()))
}

impl<'py> Room<'py> {
    #[inline]
    fn keep(&mut self, bytes: Bound<'py, PyBytes>) -> &[u8] {
        *self = Room::Object(bytes);
        match self {
            Room::Object(bytes) => bytes.as_bytes(),
            _ => &[],
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Kind::Int { bytes, is_signed } => {
                write!(f, "{}{}", if *is_signed { 'i' } else { 'u' }, 8 * bytes)
            }
            Kind::Float { bytes } => write!(f, "f{}", 8 * bytes),
            Kind::Bool => f.write_str("bool"),
            Kind::Str => f.write_str("str"),
            Kind::Bytes => f.write_str("bytes"),
            Kind::Array(bytes) => write!(f, "S{bytes}"),
            Kind::Coded(codec) => f.write_str(&codec.name),
        }
    }
}
