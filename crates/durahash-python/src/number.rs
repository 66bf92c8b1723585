//! Numbers that `incr` adds.

use pyo3::prelude::*;
use pyo3::types::PyFloat;

use crate::plain;

/// A number that is stored.
#[derive(Clone, Copy)]
pub(crate) enum Number {
    Int(i64),
    Float(f64),
}

/// Why there is no sum.
pub(crate) enum NoSum {
    Absent,
    NoNumber,
    Overflow,
}

impl<'py> FromPyObject<'_, 'py> for Number {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        match object.cast::<PyFloat>() {
            Ok(number) => Ok(Number::Float(number.value())),
            Err(_) => object.extract().map(Number::Int),
        }
    }
}

impl Number {
    /// That of a value's bytes.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (letter, body) = bytes.split_first()?;
        match (*letter, body.try_into()) {
            (plain::INT, Ok(word)) => Some(Number::Int(i64::from_le_bytes(word))),
            (plain::FLOAT, Ok(word)) => Some(Number::Float(f64::from_le_bytes(word))),
            _ => None,
        }
    }

    pub(crate) fn write(self, out: &mut Vec<u8>) {
        match self {
            Number::Int(number) => plain::write_number(number, out),
            Number::Float(number) => plain::write_float(number, out),
        }
    }

    pub(crate) fn plus(self, other: Self) -> Result<Self, NoSum> {
        let float = |number| match number {
            Number::Int(number) => number as f64,
            Number::Float(number) => number,
        };
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => {
                a.checked_add(b).map(Number::Int).ok_or(NoSum::Overflow)
            }
            (a, b) => Ok(Number::Float(float(a) + float(b))),
        }
    }
}
