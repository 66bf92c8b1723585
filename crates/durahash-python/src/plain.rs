//! Plain objects of Python as bytes: a letter that says what it is, and then what it has.
//!
//! | letter | object | behind the letter |
//! |---|---|---|
//! | `n` `t` `f` | None, True, False | |
//! | `i` | int | 64 bits |
//! | `I` | int that has no room there | two's complement, lowest byte first, as few bytes as it takes |
//! | `d` | float | 64 bits |
//! | `s`, `b` | str, bytes | UTF-8; the bytes |
//! | `u`, `l` | tuple, list | each item: four bytes with its length, and the item |
//! | `m` | dict | keys and values by turns, each as an item |
//!
//! An object has one form: keys are equal if their bytes are. What is read is of the type that was written.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyNone, PyString, PyTuple, PyType,
};
use pyo3::{PyTypeInfo, intern};

/// How deep tuples, lists and dicts stand in one another at most.
const MAX_DEPTH: usize = 100;

pub(crate) const INT: u8 = b'i';
pub(crate) const FLOAT: u8 = b'd';

/// What an object is to become.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Role {
    /// A key or a tag, which a subclass of a plain type may be, too, since it is equal to an object of that type; but no
    /// dict, which has no order.
    Key,
    /// A value, which is to come back as it was.
    Value,
}

impl Role {
    #[inline]
    fn cast<'a, 'py, T: PyTypeInfo>(
        self,
        object: &'a Bound<'py, PyAny>,
    ) -> Option<&'a Bound<'py, T>> {
        match self {
            Role::Key => object.cast().ok(),
            Role::Value => object.cast_exact().ok(),
        }
    }
}

/// The bytes of a key or a tag.
#[inline]
pub(crate) fn key(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let mut out = Vec::with_capacity(64);
    write(object, Role::Key, &mut out, 0)?;
    Ok(out)
}

/// Appends an object that has no others in it; false if it is another one.
#[inline]
pub(crate) fn write_scalar(
    object: &Bound<'_, PyAny>,
    role: Role,
    out: &mut Vec<u8>,
) -> PyResult<bool> {
    if let Some(text) = role.cast::<PyString>(object) {
        out.push(b's');
        out.extend_from_slice(text.encode_utf8()?.as_bytes());
    } else if let Some(bytes) = role.cast::<PyBytes>(object) {
        out.push(b'b');
        out.extend_from_slice(bytes.as_bytes());
    } else if let Ok(is) = object.cast::<PyBool>() {
        out.push(if is.is_true() { b't' } else { b'f' });
    } else if let Some(number) = role.cast::<PyInt>(object) {
        write_int(number, out)?;
    } else if let Some(number) = role.cast::<PyFloat>(object) {
        write_float(number.value(), out);
    } else if object.is_none() {
        out.push(b'n');
    } else {
        return Ok(false);
    }
    Ok(true)
}

pub(crate) fn write_number(number: i64, out: &mut Vec<u8>) {
    out.push(INT);
    out.extend_from_slice(&number.to_le_bytes());
}

pub(crate) fn write_float(number: f64, out: &mut Vec<u8>) {
    out.push(FLOAT);
    out.extend_from_slice(&number.to_le_bytes());
}

fn write_int(number: &Bound<'_, PyInt>, out: &mut Vec<u8>) -> PyResult<()> {
    if let Ok(number) = number.extract() {
        write_number(number, out);
        return Ok(());
    }
    let py = number.py();
    let bits: usize = number.call_method0("bit_length")?.extract()?;
    let signed = PyDict::new(py);
    signed.set_item("signed", true)?;
    let bytes = number.call_method("to_bytes", (bits / 8 + 1, "little"), Some(&signed))?;
    out.push(b'I');
    out.extend_from_slice(bytes.cast::<PyBytes>()?.as_bytes());
    Ok(())
}

/// Appends any plain object.
pub(crate) fn write(
    object: &Bound<'_, PyAny>,
    role: Role,
    out: &mut Vec<u8>,
    depth: usize,
) -> PyResult<()> {
    if write_scalar(object, role, out)? {
        return Ok(());
    }
    if depth == MAX_DEPTH {
        let text =
            format!("tuples, lists and dicts stand at most {MAX_DEPTH} deep in one another here");
        return Err(PyValueError::new_err(text));
    }
    let item = |item: Bound<'_, PyAny>, out: &mut Vec<u8>| {
        sized(out, |out| write(&item, role, out, depth + 1))
    };
    if let Some(items) = role.cast::<PyTuple>(object) {
        out.push(b'u');
        items.iter().try_for_each(|it| item(it, out))
    } else if let Some(items) = role.cast::<PyList>(object) {
        out.push(b'l');
        items.iter().try_for_each(|it| item(it, out))
    } else if role == Role::Value
        && let Some(pairs) = role.cast::<PyDict>(object)
    {
        out.push(b'm');
        // A list of them: a key of another class may have code that changes the dict.
        pairs.items().iter().try_for_each(|pair| {
            let (key, value) = pair.extract()?;
            item(key, out)?;
            item(value, out)
        })
    } else if role == Role::Key
        && let Ok(number) = object.call_method0(intern!(object.py(), "__index__"))
        && let Ok(number) = number.cast::<PyInt>()
    {
        // Of numpy, say.
        write_int(number, out)
    } else {
        Err(refused(role, &object.get_type()))
    }
}

/// Appends what `f` appends, behind four bytes with its length.
pub(crate) fn sized(
    out: &mut Vec<u8>,
    f: impl FnOnce(&mut Vec<u8>) -> PyResult<()>,
) -> PyResult<()> {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    f(out)?;
    let length = u32::try_from(out.len() - at - 4)
        .map_err(|_| PyValueError::new_err("a part of it is larger than 4 GiB"))?;
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

/// What `sized` has appended, and the bytes behind it.
pub(crate) fn split_sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

#[cold]
fn refused(role: Role, class: &Bound<'_, PyType>) -> PyErr {
    let class = class.name().map(|name| name.to_string()).unwrap_or_default();
    PyTypeError::new_err(match role {
        Role::Key => format!(
            "{class} is no key of a cache: keys are str, bytes, int, float, bool, None, and tuples \
             and lists of these"
        ),
        Role::Value => format!(
            "{class} is no value of a cache without a codec: those are str, bytes, int, float, bool, \
             None, and tuples, lists and dicts of these; codec= names what makes bytes of others"
        ),
    })
}

/// The object that has no others in it, and has these bytes; `None` if they are another one, or none. It is made without
/// code of Python, without what garbage is collected for, and without an exception.
#[inline]
pub(crate) fn read_scalar<'py>(py: Python<'py>, bytes: &[u8]) -> Option<Bound<'py, PyAny>> {
    let (letter, body) = bytes.split_first()?;
    Some(match (*letter, body) {
        (b's', _) => PyString::new(py, str::from_utf8(body).ok()?).into_any(),
        (b'b', _) => PyBytes::new(py, body).into_any(),
        (INT, _) => {
            let Ok(number) = i64::from_le_bytes(body.try_into().ok()?).into_pyobject(py);
            number.into_any()
        }
        (FLOAT, _) => PyFloat::new(py, f64::from_le_bytes(body.try_into().ok()?)).into_any(),
        (b'n', []) => PyNone::get(py).to_owned().into_any(),
        (b't' | b'f', []) => PyBool::new(py, *letter == b't').to_owned().into_any(),
        _ => return None,
    })
}

/// The object that has these bytes, `depth` deep in others; `None` if they are no plain object, as `write` makes it.
pub(crate) fn read<'py>(
    py: Python<'py>,
    bytes: &[u8],
    depth: usize,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    if let Some(object) = read_scalar(py, bytes) {
        return Ok(Some(object));
    }
    let Some((letter, body)) = bytes.split_first() else { return Ok(None) };
    let items = || {
        let (mut items, mut rest) = (Vec::new(), body);
        while let Some((item, behind)) = split_sized(rest) {
            let Some(item) = read(py, item, depth + 1)? else { return Ok(None) };
            items.push(item);
            rest = behind;
        }
        PyResult::Ok(Some(items).filter(|_| rest.is_empty()))
    };
    Ok(Some(match letter {
        b'I' => {
            let signed = PyDict::new(py);
            signed.set_item("signed", true)?;
            let from_bytes = PyInt::type_object(py).getattr(intern!(py, "from_bytes"))?;
            from_bytes.call((PyBytes::new(py, body), "little"), Some(&signed))?
        }
        b'u' | b'l' | b'm' if depth < MAX_DEPTH => {
            let Some(items) = items()? else { return Ok(None) };
            match letter {
                b'u' => PyTuple::new(py, items)?.into_any(),
                b'l' => PyList::new(py, items)?.into_any(),
                _ if items.len() % 2 == 1 => return Ok(None),
                _ => {
                    let pairs = PyDict::new(py);
                    for pair in items.chunks_exact(2) {
                        pairs.set_item(&pair[0], &pair[1])?;
                    }
                    pairs.into_any()
                }
            }
        }
        _ => return Ok(None),
    }))
}
