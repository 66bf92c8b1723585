//! The class of maps.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use durahash::{AnyMap, Cursor, Outcome};
use pyo3::exceptions::{PyKeyError, PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyTuple;

use crate::common::{Entries, Given, Owner, common_methods, typed_methods};
use crate::core::{Core, Found, LARGE_BYTES};
use crate::error;
use crate::kind::{Kind, Room};
use crate::open::{Named, Open};

/// A map; `durahash.Map` adds what a MutableMapping has.
#[pyclass(subclass, frozen, module = "durahash._native")]
pub(crate) struct Map {
    pub(crate) core: Core<AnyMap>,
    /// Where `popitem` goes on.
    popped: AtomicU64,
}

common_methods!(Map);
typed_methods!(Map);

impl Map {
    /// The value of a key, as an object.
    #[inline]
    fn look<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (core, mut room) = (&self.core, Room::None);
        let key = core.key.encode(key, &mut room)?;
        let found = if core.is_quick() {
            // No code of Python runs while the map is locked: another thread may want it then.
            let quick = |value: &[u8]| -> PyResult<_> {
                Ok(if value.len() >= LARGE_BYTES {
                    Found::Large
                } else if core.value.is_quick(value) {
                    Found::Object(core.value.decode(py, value)?)
                } else {
                    Found::Bytes(value.to_vec())
                })
            };
            core.quick(|map| map.get_raw(key, quick))?.transpose()?
        } else {
            Some(Found::Large)
        };
        let bytes = match found {
            None => None,
            Some(Found::Object(object)) => return Ok(Some(object)),
            Some(Found::Bytes(bytes)) => Some(bytes),
            Some(Found::Large) => core.wait(py, |map| map.get_raw(key, <[u8]>::to_vec))?,
        };
        bytes.map(|bytes| core.value.decode(py, &bytes)).transpose()
    }

    /// Puts `new`, or nothing, in the place of `old`; the value that is there instead, if it is another.
    fn exchange(
        &self,
        py: Python<'_>,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> PyResult<Outcome<Vec<u8>>> {
        let bytes = [old, new].into_iter().flatten().map(<[u8]>::len).sum();
        self.core.run(py, bytes, |map| map.compare_exchange_raw(key, old, new))
    }

    /// A copy of the value of a key.
    fn copy(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Vec<u8>>> {
        let small = |value: &[u8]| (value.len() < LARGE_BYTES).then(|| value.to_vec());
        match self.core.run(py, 0, |map| map.get_raw(key, small))? {
            Some(None) => self.core.wait(py, |map| map.get_raw(key, <[u8]>::to_vec)),
            found => Ok(found.flatten()),
        }
    }

    /// Replaces the value of a key by what `f` makes of it, until nobody was quicker.
    fn replace<'py, T>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        f: impl FnMut(Option<&[u8]>) -> PyResult<(Replace, T)>,
    ) -> PyResult<T> {
        let mut room = Room::None;
        self.replace_raw(py, self.core.key.encode(key, &mut room)?, f)
    }

    fn replace_raw<T>(
        &self,
        py: Python<'_>,
        key: &[u8],
        mut f: impl FnMut(Option<&[u8]>) -> PyResult<(Replace, T)>,
    ) -> PyResult<T> {
        let mut old = self.copy(py, key)?;
        loop {
            let (replace, answer) = f(old.as_deref())?;
            let new = match &replace {
                Replace::Remove => None,
                Replace::Set(new) => Some(&new[..]),
            };
            if new == old.as_deref() {
                return Ok(answer);
            }
            match self.exchange(py, key, old.as_deref(), new)? {
                Outcome::Done => return Ok(answer),
                Outcome::Present(other) => old = Some(other),
                Outcome::Absent => old = None,
            }
            py.check_signals()?;
        }
    }

    /// Removes a key, and returns its value. One that cannot be decoded stays.
    fn take<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.replace_raw(py, key, |old| {
            let value = old.map(|old| self.core.value.decode(py, old)).transpose()?;
            Ok((Replace::Remove, value))
        })
    }
}

/// What becomes of an entry.
enum Replace {
    Remove,
    Set(Vec<u8>),
}

#[pymethods]
impl Map {
    #[new]
    #[pyo3(signature = (
        path = None, key = None, value = None, *, create = None, mode = None, read_only = false,
        readers = false, max_bytes = None, design = None, live_image = None, verify = false, accept_suspect = false
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are named by the caller")]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        key: Option<Bound<'_, PyAny>>,
        value: Option<Bound<'_, PyAny>>,
        create: Option<bool>,
        mode: Option<String>,
        read_only: bool,
        readers: bool,
        max_bytes: Option<u64>,
        design: Option<String>,
        live_image: Option<bool>,
        verify: bool,
        accept_suspect: bool,
    ) -> PyResult<Self> {
        let named = Named {
            key,
            value,
            create,
            mode,
            read_only,
            readers,
            max_bytes,
            design,
            live_image,
            verify,
            accept_suspect,
        };
        let core = Core::new(py, Open::new(path, named)?)?;
        Ok(Map { core, popped: AtomicU64::new(Cursor::START.to_word()) })
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.look(py, key)?.ok_or_else(|| error::absent(key))
    }

    fn __setitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let (mut of_key, mut of_value) = (Room::None, Room::None);
        let key = self.core.key.encode(key, &mut of_key)?;
        let value = self.core.value.encode(value, &mut of_value)?;
        self.core.run(py, value.len(), |map| map.put_raw(key, value))
    }

    fn __delitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<()> {
        let mut room = Room::None;
        let bytes = self.core.key.encode(key, &mut room)?;
        let mut was_there = false;
        // As of many keys: a value that nobody wants is not copied.
        self.core.run(py, 0, |map| map.remove_many_raw(1, |_| bytes, |_, was| was_there = was))?;
        if was_there { Ok(()) } else { Err(error::absent(key)) }
    }

    fn __contains__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<bool> {
        let mut room = Room::None;
        let key = self.core.key.encode(key, &mut room)?;
        self.core.run(py, 0, |map| map.contains_raw(key))
    }

    /// The value of ``key``, or ``default``.
    ///
    /// >>> m = durahash.Map(key=str, value=int)
    /// >>> m["one"] = 1
    /// >>> m.get("one"), m.get("two"), m.get("two", 0)
    /// (1, None, 0)
    #[pyo3(signature = (key, default = None, /))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.look(py, key)?.or(default))
    }

    /// Removes ``key`` and returns its value; ``default``, or a KeyError, where there is none.
    ///
    /// >>> m = durahash.Map(key=str, value=int)
    /// >>> m["one"] = 1
    /// >>> m.pop("one"), m.pop("one", None)
    /// (1, None)
    #[pyo3(signature = (key, /, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if default.len() > 1 {
            return Err(PyTypeError::new_err("pop takes a key and at most one default"));
        }
        let mut room = Room::None;
        let bytes = self.core.key.encode(key, &mut room)?;
        match self.take(py, bytes)? {
            Some(value) => Ok(value),
            None => default.get_item(0).map_err(|_| error::absent(key)),
        }
    }

    /// Removes some entry, and returns its key and value; a KeyError where there is none.
    ///
    /// >>> m = durahash.Map(key=str, value=int)
    /// >>> m["one"] = 1
    /// >>> m.popitem()
    /// ('one', 1)
    fn popitem<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let core = &self.core;
        // It goes on where the last one was: to begin anew would pass all that is empty by now, each time.
        let mut at = Cursor::from_word(self.popped.load(Relaxed));
        let mut is_all = at == Cursor::START;
        loop {
            let (found, next) = core.wait(py, |map| map.scan_raw(at, 1))?;
            for (key, _) in found {
                let object = core.key.decode(py, &key)?;
                if let Some(value) = self.take(py, &key)? {
                    self.popped.store(at.to_word(), Relaxed);
                    return Ok((object, value));
                }
            }
            at = match next {
                Some(next) => next,
                None if is_all => return Err(PyKeyError::new_err("the map is empty")),
                None => Cursor::START,
            };
            is_all |= next.is_none();
            py.check_signals()?;
        }
    }

    /// The value of ``key``; of an absent one ``default``, which is inserted.
    ///
    /// >>> m = durahash.Map(key=str, value=int)
    /// >>> m.setdefault("one", 1), m.setdefault("one", 2)
    /// (1, 1)
    #[pyo3(signature = (key, default = None, /))]
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let default = default.unwrap_or_else(|| py.None().into_bound(py));
        if let Some(found) = self.look(py, key)? {
            return Ok(found);
        }
        let (mut of_key, mut of_value) = (Room::None, Room::None);
        let key = self.core.key.encode(key, &mut of_key)?;
        let value = self.core.value.encode(&default, &mut of_value)?;
        match self.exchange(py, key, None, Some(value))? {
            Outcome::Present(value) => self.core.value.decode(py, &value),
            _ => Ok(default),
        }
    }

    /// Inserts ``key`` with ``value`` if the key is absent; returns True if it was.
    ///
    /// >>> m = durahash.Map(key=str, value=int)
    /// >>> m.add_if_absent("one", 1), m.add_if_absent("one", 2), m["one"]
    /// (True, False, 1)
    fn add_if_absent<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let (mut of_key, mut of_value) = (Room::None, Room::None);
        let key = self.core.key.encode(key, &mut of_key)?;
        let value = self.core.value.encode(value, &mut of_value)?;
        Ok(self.exchange(py, key, None, Some(value))?.is_done())
    }

    /// Adds ``by`` to the number at ``key``, of which 0 is in the place of none; returns the sum.
    ///
    /// No other thread comes between. A sum that the type of the values cannot hold is an OverflowError, and changes
    /// nothing.
    ///
    /// >>> m = durahash.Map(key=str, value=int)
    /// >>> m.increment("hits"), m.increment("hits", 10)
    /// (1, 11)
    #[pyo3(signature = (key, by = None))]
    fn increment<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        by: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = &self.core.value;
        match kind {
            Kind::Int { is_signed, .. } => {
                let number = |by: Bound<'py, PyAny>| match by.extract::<i64>() {
                    Ok(by) => Ok(by.into()),
                    Err(e) if e.is_instance_of::<PyOverflowError>(py) => by.extract::<i128>(),
                    Err(e) => Err(e),
                };
                let by = by.map_or(Ok(1), number)?;
                self.replace(py, key, |old| {
                    let old = old.map(|old| kind.decode(py, old)).transpose()?;
                    let old = old.map_or(Ok(0), |old| match is_signed {
                        true => old.extract::<i64>().map(i128::from),
                        false => old.extract::<u64>().map(i128::from),
                    })?;
                    let sum = old.saturating_add(by);
                    let beyond = || PyOverflowError::new_err(format!("{sum} is beyond {kind}"));
                    let sum = match is_signed {
                        true => i64::try_from(sum).ok().map(|sum| sum.into_pyobject(py)),
                        false => u64::try_from(sum).ok().map(|sum| sum.into_pyobject(py)),
                    };
                    let sum = sum.ok_or_else(beyond)??.into_any();
                    Ok((Replace::Set(kind.encode(&sum, &mut Room::None)?.to_vec()), sum))
                })
            }
            Kind::Float { .. } => {
                let by: f64 = by.map_or(Ok(1.0), |by| by.extract())?;
                self.replace(py, key, |old| {
                    let old = old.map(|old| kind.decode(py, old)?.extract()).transpose()?;
                    let sum = (old.unwrap_or(0.0) + by).into_pyobject(py)?.into_any();
                    let sum = kind.encode(&sum, &mut Room::None)?.to_vec();
                    let kept = kind.decode(py, &sum)?;
                    Ok((Replace::Set(sum), kept))
                })
            }
            _ => Err(PyTypeError::new_err(format!(
                "increment is for numbers, and values are {kind}"
            ))),
        }
    }

    /// `Map.update` with a function.
    fn _update<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        f: &Bound<'py, PyAny>,
        default: Bound<'py, PyAny>,
        delete: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = &self.core.value;
        self.replace(py, key, |old| {
            let old = old.map_or(Ok(default.clone()), |old| kind.decode(py, old))?;
            let new = f.call1((old,))?;
            if new.is(delete) {
                return Ok((Replace::Remove, new));
            }
            Ok((Replace::Set(kind.encode(&new, &mut Room::None)?.to_vec()), new))
        })
    }
}
