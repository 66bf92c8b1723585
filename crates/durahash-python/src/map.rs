//! The class of maps.

use std::path::{Path, PathBuf};

use durahash::{AnyMap, Outcome};
use pyo3::exceptions::{PyKeyError, PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::column::{Array, Column, Pace, Pairs, Rows};
use crate::common::{Entries, Given, Owner, common_methods};
use crate::core::Core;
use crate::flags::Flags;
use crate::kind::{Kind, Room};
use crate::open::{Named, Open};

/// A map; `durahash.Map` adds what a MutableMapping has.
#[pyclass(subclass, frozen, module = "durahash._native")]
pub(crate) struct Map {
    pub(crate) core: Core<AnyMap>,
}

common_methods!(Map);

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
        // No code of Python runs while the map is locked: another thread may want it then.
        if core.is_quick() && !core.value.is_coded() {
            return core
                .quick(|map| map.get_raw(key, |value| core.value.decode(py, value)))?
                .transpose();
        }
        let value = core.run(py, 0, |map| map.get_raw(key, <[u8]>::to_vec))?;
        value.map(|value| core.value.decode(py, &value)).transpose()
    }

    /// Puts `new`, or nothing, in the place of `old`; the value that is there instead, if it is another.
    fn exchange(
        &self,
        py: Python<'_>,
        key: &[u8],
        old: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> PyResult<Outcome<Vec<u8>>> {
        let bytes = new.map_or(0, <[u8]>::len);
        self.core.run(py, bytes, |map| map.compare_exchange_raw(key, old, new))
    }

    /// The answers to all keys, some at a time.
    fn each_piece<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        ask: Ask,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut keys = Column::new(keys, &self.core.key)?;
        let mut flags = Flags::new(out, keys.count())?;
        loop {
            let piece = keys.next(&self.core.key, keys.most())?;
            if piece.count == 0 {
                return flags.answer(py);
            }
            let (count, rows) = (piece.count, piece.rows());
            flags.piece(count, |done| self.core.wait(py, |map| ask(map, count, rows, done)))?;
            py.check_signals()?;
        }
    }

    /// Replaces the value of a key by what `f` makes of it, until nobody was quicker.
    fn replace<'py, T>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        mut f: impl FnMut(Option<&[u8]>) -> PyResult<(Replace, T)>,
    ) -> PyResult<T> {
        let mut room = Room::None;
        let key = self.core.key.encode(key, &mut room)?;
        let mut old = self.core.run(py, 0, |map| map.get_raw(key, <[u8]>::to_vec))?;
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
}

/// Asks a map about so many keys, whose answers are pushed to the list.
type Ask = fn(&AnyMap, usize, Rows<'_>, &mut Vec<bool>) -> durahash::Result<()>;

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
        max_bytes = None, design = None, live_image = None, verify = false, accept_suspect = false
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
            max_bytes,
            design,
            live_image,
            verify,
            accept_suspect,
        };
        Ok(Map { core: Core::new(py, Open::new(path, named)?)? })
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.look(py, key)?.ok_or_else(|| PyKeyError::new_err(key.clone().unbind()))
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
        match self.core.run(py, 0, |map| map.remove_raw(bytes))? {
            Some(_) => Ok(()),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
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
        match self.core.run(py, 0, |map| map.remove_raw(bytes))? {
            Some(value) => self.core.value.decode(py, &value),
            None => default.get_item(0).map_err(|_| PyKeyError::new_err(key.clone().unbind())),
        }
    }

    /// The value of ``key``; of an absent one ``default``, which is inserted.
    ///
    /// >>> m = durahash.Map(key=str, value=int)
    /// >>> m.setdefault("one", 1), m.setdefault("one", 2)
    /// (1, 1)
    #[pyo3(signature = (key, default, /))]
    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
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
                let by: i128 = by.map_or(Ok(1), |by| by.extract::<i64>().map(i128::from))?;
                self.replace(py, key, |old| {
                    let old = old.map(|old| kind.decode(py, old)).transpose()?;
                    let old = old.map_or(Ok(0), |old| match is_signed {
                        true => old.extract::<i64>().map(i128::from),
                        false => old.extract::<u64>().map(i128::from),
                    })?;
                    let sum = match is_signed {
                        true => i64::try_from(old + by).ok().map(|sum| sum.into_pyobject(py)),
                        false => u64::try_from(old + by).ok().map(|sum| sum.into_pyobject(py)),
                    };
                    let beyond =
                        || PyOverflowError::new_err(format!("{} is beyond {kind}", old + by));
                    let sum = sum.ok_or_else(beyond)??.into_any();
                    Ok((Replace::Set(kind.encode(&sum, &mut Room::None)?.to_vec()), sum))
                })
            }
            Kind::Float { .. } => {
                let by: f64 = by.map_or(Ok(1.0), |by| by.extract())?;
                self.replace(py, key, |old| {
                    let old = old.map(|old| kind.decode(py, old)?.extract()).transpose()?;
                    let sum = (old.unwrap_or(0.0) + by).into_pyobject(py)?.into_any();
                    Ok((Replace::Set(kind.encode(&sum, &mut Room::None)?.to_vec()), sum))
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

    /// The values of many keys.
    ///
    /// Without ``out`` a list of values, with ``default`` for keys that are absent. With ``out``, an array of as many
    /// rows as there are keys, the values are written there, rows of absent keys stay as they are, and the number of
    /// keys that are there is returned. ``missing``, an array of bools or bytes, gets True for each key that is
    /// absent. ``keys`` is any iterable, or an array; with ``out`` or ``missing`` it is an array.
    ///
    /// >>> m = durahash.Map(key=str, value=int)
    /// >>> m.put_many({"one": 1, "two": 2})
    /// >>> m.get_many(["two", "three"])
    /// [2, None]
    #[pyo3(signature = (keys, out = None, missing = None, default = None))]
    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
        missing: Option<&Bound<'py, PyAny>>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let core = &self.core;
        let mut keys = Column::new(keys, &core.key)?;
        let out = Array::output(out, &core.value, keys.count())?;
        let missing = Array::output(missing, &Kind::Bool, keys.count())?;
        let (mut list, mut from, mut there) = (Vec::new(), 0, 0_usize);
        let bytes = core.value.ty().fixed_bytes().or(out.as_ref().map(|out| out.width));
        let mut pace = Pace::new(keys.most(), bytes);
        loop {
            let piece = keys.next(&core.key, pace.most())?;
            let count = piece.count;
            if count == 0 {
                break;
            }
            let rows = piece.rows();
            let mut flags = missing.as_ref().map(|m| m.answers(from, count)).transpose()?;
            let mut flag = |i: usize, is_there: bool| {
                there += usize::from(is_there);
                if let Some(flags) = &mut flags {
                    flags.put(i, &[u8::from(!is_there)]);
                }
            };
            if let Some(out) = &out {
                let mut answers = out.answers(from, count)?;
                core.wait(py, |map| {
                    map.get_many_raw(
                        count,
                        |i| rows.row(i),
                        |i, value| {
                            flag(i, value.is_some());
                            if let Some(value) = value {
                                answers.put(i, value);
                            }
                        },
                    )
                })?;
                out.write(from, &answers)?;
            } else {
                let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(count));
                core.wait(py, |map| {
                    map.get_many_raw(
                        count,
                        |i| rows.row(i),
                        |i, value| {
                            flag(i, value.is_some());
                            bytes.extend_from_slice(value.unwrap_or_default());
                            ends.push((bytes.len(), value.is_some()));
                        },
                    )
                })?;
                pace.had(count, bytes.len());
                let mut begin = 0;
                for (end, is_there) in ends {
                    list.push(match is_there {
                        true => Some(core.value.decode(py, &bytes[begin..end])?),
                        false => default.clone(),
                    });
                    begin = end;
                }
            }
            if let (Some(missing), Some(flags)) = (&missing, &flags) {
                missing.write(from, flags)?;
            }
            from += count;
            py.check_signals()?;
        }
        if out.is_some() {
            return Ok(there.into_pyobject(py)?.into_any());
        }
        Ok(list.into_pyobject(py)?.into_any())
    }

    /// Inserts or replaces many pairs: ``put_many(keys, values)`` with two iterables or arrays, or
    /// ``put_many(pairs)`` with a mapping or an iterable of pairs.
    ///
    /// All are written in their order, and survive a crash when this returns. After an error, or Ctrl-C, a part of
    /// them, from the first on, is there.
    ///
    /// >>> m = durahash.Map(key=int, value=int)
    /// >>> m.put_many([1, 2], [10, 20])
    /// >>> m.put_many((n, n * n) for n in range(3, 5))
    /// >>> sorted(m.items())
    /// [(1, 10), (2, 20), (3, 9), (4, 16)]
    #[pyo3(signature = (keys, values = None))]
    fn put_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        values: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let kinds = (&self.core.key, &self.core.value);
        let mut pairs = Pairs::new(keys, values, kinds)?;
        loop {
            let (keys, values) = pairs.next(kinds)?;
            if keys.count == 0 {
                return Ok(());
            }
            let (count, keys, values) = (keys.count, keys.rows(), values.rows());
            self.core.wait(py, |map| map.put_many_raw(count, |i| (keys.row(i), values.row(i))))?;
            py.check_signals()?;
        }
    }

    /// Inserts those of many pairs whose keys are absent. Returns a list that has True for each that was inserted; with
    /// ``out``, an array of bools or bytes, writes it there and returns how many were.
    ///
    /// >>> m = durahash.Map(key=int, value=int)
    /// >>> m.add_if_absent_many([1, 2, 1], [10, 20, 30])
    /// [True, True, False]
    #[pyo3(signature = (keys, values = None, out = None))]
    fn add_if_absent_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        values: Option<&Bound<'py, PyAny>>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kinds = (&self.core.key, &self.core.value);
        let mut pairs = Pairs::new(keys, values, kinds)?;
        let count = match &pairs {
            Pairs::Columns(keys, ..) => keys.count(),
            Pairs::Pairs(_) => None,
        };
        let mut flags = Flags::new(out, count)?;
        loop {
            let (keys, values) = pairs.next(kinds)?;
            if keys.count == 0 {
                return flags.answer(py);
            }
            let (count, keys, values) = (keys.count, keys.rows(), values.rows());
            flags.piece(count, |done| {
                self.core.wait(py, |map| {
                    map.insert_many_raw(
                        count,
                        |i| (keys.row(i), values.row(i)),
                        |_, is| done.push(is),
                    )
                })
            })?;
            py.check_signals()?;
        }
    }

    /// Looks many keys up. Returns a list that has True for each that is there; with ``out``, an array of bools or
    /// bytes, writes it there and returns how many are.
    ///
    /// >>> m = durahash.Map(key=int, value=int)
    /// >>> m.put_many([1, 2], [10, 20])
    /// >>> m.contains_many([2, 3])
    /// [True, False]
    #[pyo3(signature = (keys, out = None))]
    fn contains_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.each_piece(py, keys, out, |map, count, rows, done| {
            map.contains_many_raw(count, |i| rows.row(i), |_, is| done.push(is))
        })
    }

    /// Removes many keys. Returns a list that has True for each that was there; with ``out``, an array of bools or
    /// bytes, writes it there and returns how many were.
    ///
    /// >>> m = durahash.Map(key=int, value=int)
    /// >>> m.put_many([1, 2], [10, 20])
    /// >>> m.remove_many([2, 3])
    /// [True, False]
    #[pyo3(signature = (keys, out = None))]
    fn remove_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.each_piece(py, keys, out, |map, count, rows, done| {
            map.remove_many_raw(count, |i| rows.row(i), |_, is| done.push(is))
        })
    }
}
