//! The class of multimaps.

use std::path::{Path, PathBuf};

use durahash::AnyMultiMap;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyTuple;

use crate::column::{Column, Pairs};
use crate::common::{Entries, Given, Owner, common_methods, typed_methods};
use crate::core::{Core, LARGE_BYTES};
use crate::kind::Room;
use crate::many::each_piece;
use crate::open::{Named, Open};

/// A multimap; `durahash.MultiMap` adds the views.
#[pyclass(subclass, frozen, module = "durahash._native")]
pub(crate) struct MultiMap {
    pub(crate) core: Core<AnyMultiMap>,
}

/// So many values of a key are copied without the interpreter's lock.
const MANY: u64 = 1000;

/// Values one behind the other, and where each ends.
type Values = (Vec<u8>, Vec<usize>);

/// The values of a key; `None` if they have more than `most` bytes.
fn values(map: &AnyMultiMap, key: &[u8], most: usize) -> durahash::Result<Option<Values>> {
    let (mut bytes, mut ends, mut fit) = (Vec::new(), Vec::new(), true);
    map.each_raw(key, |value| {
        fit &= value.len() <= most - bytes.len();
        if fit {
            bytes.extend_from_slice(value);
            ends.push(bytes.len());
        }
    })?;
    Ok(fit.then_some((bytes, ends)))
}

impl MultiMap {
    fn decoded<'py>(
        &self,
        py: Python<'py>,
        (bytes, ends): &Values,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut begin = 0;
        let value = |end: &usize| {
            let value = &bytes[begin..*end];
            begin = *end;
            self.core.value.decode(py, value)
        };
        ends.iter().map(value).collect()
    }
}

common_methods!(MultiMap);
typed_methods!(MultiMap);

#[pymethods]
impl MultiMap {
    #[new]
    #[pyo3(signature = (
        path = None, key = None, value = None, *, create = None, mode = None, read_only = false,
        readers = false, max_bytes = None, live_image = None, verify = false, accept_suspect = false
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
            design: None,
            live_image,
            verify,
            accept_suspect,
        };
        Ok(MultiMap { core: Core::new(py, Open::new(path, named)?)? })
    }

    /// Adds a value of ``key``, beside those that it has.
    ///
    /// >>> edges = durahash.MultiMap(key=int, value=int)
    /// >>> edges.add(1, 2)
    /// >>> edges.add(1, 3)
    /// >>> sorted(edges.get_all(1))
    /// [2, 3]
    fn add<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let (mut of_key, mut of_value) = (Room::None, Room::None);
        let key = self.core.key.encode(key, &mut of_key)?;
        let value = self.core.value.encode(value, &mut of_value)?;
        self.core.run(py, value.len(), |map| map.add_raw(key, value))
    }

    /// Adds many pairs: ``add_many(keys, values)`` with two iterables or arrays, or ``add_many(pairs)`` with a
    /// mapping or an iterable of pairs. After an error, or Ctrl-C, a part of them, from the first on, was added.
    ///
    /// >>> edges = durahash.MultiMap(key=int, value=int)
    /// >>> edges.add_many([1, 1, 2], [2, 3, 4])
    /// >>> len(edges)
    /// 3
    #[pyo3(signature = (keys, values = None))]
    fn add_many<'py>(
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
            self.core.wait(py, |map| map.add_many_raw(count, |i| (keys.row(i), values.row(i))))?;
            py.check_signals()?;
        }
    }

    /// All values of ``key``, as a list in no order, which is empty where there are none.
    ///
    /// >>> edges = durahash.MultiMap(key=int, value=int)
    /// >>> edges.add_many([1, 1], [2, 3])
    /// >>> sorted(edges.get_all(1)), edges.get_all(2)
    /// ([2, 3], [])
    fn get_all<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let mut room = Room::None;
        let key = self.core.key.encode(key, &mut room)?;
        let count = self.core.run(py, 0, |map| map.count_raw(key))?;
        let most = if count < MANY { LARGE_BYTES - 1 } else { usize::MAX };
        let found = match self.core.run(py, most, |map| values(map, key, most))? {
            None => self.core.wait(py, |map| values(map, key, usize::MAX))?,
            found => found,
        };
        self.decoded(py, &found.unwrap_or_default())
    }

    /// The number of values of ``key``.
    ///
    /// >>> edges = durahash.MultiMap(key=int, value=int)
    /// >>> edges.add(1, 2)
    /// >>> edges.count(1), edges.count(2)
    /// (1, 0)
    fn count<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<u64> {
        let mut room = Room::None;
        let key = self.core.key.encode(key, &mut room)?;
        self.core.run(py, 0, |map| map.count_raw(key))
    }

    fn __contains__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<bool> {
        self.count(py, key).map(|count| count > 0)
    }

    /// Removes one of the values of ``key`` that equal ``value``; returns False if there is none.
    ///
    /// >>> edges = durahash.MultiMap(key=int, value=int)
    /// >>> edges.add(1, 2)
    /// >>> edges.remove_one(1, 2), edges.remove_one(1, 2)
    /// (True, False)
    fn remove_one<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> PyResult<bool> {
        let (mut of_key, mut of_value) = (Room::None, Room::None);
        let key = self.core.key.encode(key, &mut of_key)?;
        let value = self.core.value.encode(value, &mut of_value)?;
        self.core.run(py, value.len(), |map| map.remove_one_raw(key, value))
    }

    /// Removes all values of ``key`` at once; returns how many they were.
    ///
    /// >>> edges = durahash.MultiMap(key=int, value=int)
    /// >>> edges.add_many([1, 1], [2, 3])
    /// >>> edges.remove_all(1)
    /// 2
    fn remove_all<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<u64> {
        let mut room = Room::None;
        let key = self.core.key.encode(key, &mut room)?;
        self.core.run(py, 0, |map| map.remove_all_raw(key))
    }

    /// Looks many keys up. Returns a list that has True for each that has values; with ``out``, an array of bools or
    /// bytes, writes it there and returns how many have.
    ///
    /// >>> edges = durahash.MultiMap(key=int, value=int)
    /// >>> edges.add_many([1, 1], [2, 3])
    /// >>> edges.contains_many([1, 2])
    /// [True, False]
    #[pyo3(signature = (keys, out = None))]
    fn contains_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        each_piece(&self.core, py, keys, out, |map, count, rows, done| {
            for i in 0..count {
                done.push(map.count_raw(rows.row(i))? > 0);
            }
            Ok(())
        })
    }

    /// Removes all values of many keys. Returns a list that has True for each that had some; with ``out``, an array of
    /// bools or bytes, writes it there and returns how many had.
    ///
    /// >>> edges = durahash.MultiMap(key=int, value=int)
    /// >>> edges.add_many([1, 1], [2, 3])
    /// >>> edges.remove_all_many([1, 2]), len(edges)
    /// ([True, False], 0)
    #[pyo3(signature = (keys, out = None))]
    fn remove_all_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        out: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        each_piece(&self.core, py, keys, out, |map, count, rows, done| {
            for i in 0..count {
                done.push(map.remove_all_raw(rows.row(i))? > 0);
            }
            Ok(())
        })
    }

    /// The values of many keys: a list of lists, as of `get_all`.
    ///
    /// >>> edges = durahash.MultiMap(key=int, value=int)
    /// >>> edges.add_many([1, 2], [3, 4])
    /// >>> edges.get_all_many([2, 5, 1])
    /// [[4], [], [3]]
    fn get_all_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Vec<Bound<'py, PyAny>>>> {
        let core = &self.core;
        let (mut keys, mut lists) = (Column::new(keys, &core.key)?, Vec::new());
        loop {
            // A key may have any number of values.
            let piece = keys.next(&core.key, 64)?;
            if piece.count == 0 {
                return Ok(lists);
            }
            let (count, rows) = (piece.count, piece.rows());
            let found = core.wait(py, |map| {
                let of = |i| values(map, rows.row(i), usize::MAX);
                (0..count).map(of).collect::<durahash::Result<Vec<_>>>()
            })?;
            for found in found.into_iter().flatten() {
                lists.push(self.decoded(py, &found)?);
            }
            py.check_signals()?;
        }
    }
}
