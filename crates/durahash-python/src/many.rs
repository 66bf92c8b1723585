//! The methods of maps for many keys at once.

use pyo3::prelude::*;

use crate::column::{Array, Column, Pace, Pairs, Rows};
use crate::core::{Any, Core};
use crate::flags::Flags;
use crate::kind::Kind;
use crate::map::Map;

/// The answers to all keys, some at a time: `ask` asks a map about so many, and pushes what it answers.
pub(crate) fn each_piece<'py, M: Any>(
    core: &Core<M>,
    py: Python<'py>,
    keys: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
    ask: fn(&M, usize, Rows<'_>, &mut Vec<bool>) -> durahash::Result<()>,
) -> PyResult<Bound<'py, PyAny>> {
    let mut keys = Column::new(keys, &core.key)?;
    let mut flags = Flags::new(out, keys.count())?;
    loop {
        let piece = keys.next(&core.key, keys.most())?;
        if piece.count == 0 {
            return flags.answer(py);
        }
        let (count, rows) = (piece.count, piece.rows());
        flags.piece(count, |done| core.wait(py, |map| ask(map, count, rows, done)))?;
        py.check_signals()?;
    }
}

#[pymethods]
impl Map {
    /// The values of many keys.
    ///
    /// Without ``out`` a list of values, with ``default`` for keys that are absent. With ``out``, an array of as many
    /// rows as there are keys, the values are written there, rows of absent keys stay as they are, and the number of
    /// keys that are there is returned; what another thread writes to it meanwhile may be lost. ``missing``, an array of
    /// bools or bytes, gets True for each key that is absent. ``keys`` is any iterable, or an array; with ``out`` or
    /// ``missing`` it is an array.
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
        each_piece(&self.core, py, keys, out, |map, count, rows, done| {
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
        each_piece(&self.core, py, keys, out, |map, count, rows, done| {
            map.remove_many_raw(count, |i| rows.row(i), |_, is| done.push(is))
        })
    }
}
