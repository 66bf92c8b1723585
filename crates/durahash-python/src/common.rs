//! The methods that all classes have, and their iterators.

use std::vec::IntoIter;

use durahash::{Cursor, Finding, Stats};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::PyDict;

use crate::cache::Cache;
use crate::codec::PlainKey;
use crate::core::Any;
use crate::map::Map;
use crate::multi_map::MultiMap;

/// Entries that a walk asks for in its first step, and at most in another.
pub(crate) const STEP: usize = 16;
const LONGEST_STEP: usize = 1024;
/// Bytes of the entries of a step, about, unless a single one has more.
const STEP_BYTES: usize = 1 << 20;

/// How many entries a walk asks for after a step of `n` that has found these: all are copied.
pub(crate) fn next_step(n: usize, found: &[(Vec<u8>, Vec<u8>)]) -> usize {
    let bytes: usize = found.iter().map(|(key, value)| key.len() + value.len() + 1).sum();
    let fitting = STEP_BYTES * found.len().max(1) / bytes.max(1);
    fitting.min(4 * n).clamp(1, LONGEST_STEP)
}

/// The map that an iterator goes over. It is not kept open by it.
pub(crate) enum Owner {
    Map(Py<Map>),
    MultiMap(Py<MultiMap>),
    Cache(Py<Cache>),
}

/// What an iterator gives.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Given {
    Keys,
    Values,
    Items,
}

/// An iterator over a map. Each key that is there all the time comes exactly once, whatever comes and goes meanwhile.
#[pyclass(module = "durahash._native")]
pub(crate) struct Entries {
    owner: Owner,
    given: Given,
    found: IntoIter<(Vec<u8>, Vec<u8>)>,
    at: Option<Cursor>,
    step: usize,
}

impl Entries {
    pub(crate) fn new(owner: Owner, given: Given) -> Self {
        Entries { owner, given, found: Vec::new().into_iter(), at: Some(Cursor::START), step: STEP }
    }
}

/// Runs `$f` with the core of the map, whichever it is, and with what its keys and values are.
macro_rules! with_core {
    ($owner:expr, $core:ident, $key:ident, $value:ident => $f:expr) => {
        match $owner {
            Owner::Map(map) => {
                let $core = &map.get().core;
                let ($key, $value) = (&$core.key, &$core.value);
                $f
            }
            Owner::MultiMap(map) => {
                let $core = &map.get().core;
                let ($key, $value) = (&$core.key, &$core.value);
                $f
            }
            Owner::Cache(cache) => {
                let $core = &cache.get().core;
                let ($key, $value) = (&PlainKey, &cache.get().codec);
                $f
            }
        }
    };
}

#[pymethods]
impl Entries {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match &self.owner {
            Owner::Map(map) => visit.call(map),
            Owner::MultiMap(map) => visit.call(map),
            Owner::Cache(cache) => visit.call(cache),
        }
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        loop {
            if let Some((key, value)) = self.found.next() {
                let (is_key, is_value) = (self.given != Given::Values, self.given != Given::Keys);
                return with_core!(&self.owner, _core, keys, values => Ok(Some(match (is_key, is_value) {
                    (true, false) => keys.decode(py, &key)?,
                    (false, _) => values.decode(py, &value)?,
                    _ => {
                        let pair = (keys.decode(py, &key)?, values.decode(py, &value)?);
                        pair.into_pyobject(py)?.into_any()
                    }
                })));
            }
            let Some(at) = self.at.take() else { return Ok(None) };
            let n = self.step;
            let step = with_core!(&self.owner, core, _keys, _values => core.wait(py, |map| map.scan(at, n)));
            let (found, at) = step?;
            self.step = next_step(n, &found);
            self.found = found.into_iter();
            self.at = at;
        }
    }
}

/// The figures as a `durahash.Stats`, or of a cache a `durahash.CacheStats`.
pub(crate) fn stats<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyAny>> {
    let figures = PyDict::new(py);
    figures.set_item("entries", stats.keys)?;
    figures.set_item("file_bytes", stats.space.bytes)?;
    figures.set_item("bytes_per_entry", stats.medium_bytes_per_key())?;
    figures.set_item("dram_bytes_per_entry", stats.dram_bytes_per_key())?;
    figures.set_item("load_factor", stats.load_factor())?;
    figures.set_item("design", stats.design.to_string())?;
    figures.set_item("key_type", stats.key_type.to_string())?;
    figures.set_item("value_type", stats.value_type.to_string())?;
    figures.set_item("mode", stats.sync_mode.to_string())?;
    figures.set_item("durability", stats.durability.to_string())?;
    figures.set_item("recovered", stats.recovered)?;
    figures.set_item("suspect", stats.suspect)?;
    figures.set_item("open_seconds", stats.open_time.as_secs_f64())?;
    let Some(cache) = &stats.cache else {
        return py.import("durahash._types")?.getattr("Stats")?.call((), Some(&figures));
    };
    figures.set_item("size_limit", cache.max_bytes_used)?;
    figures.set_item("max_entries", cache.max_entries)?;
    figures.set_item("eviction_policy", cache.eviction.map(|policy| policy.to_string()))?;
    figures.set_item("evicted", cache.evicted)?;
    figures.set_item("expired", cache.expired)?;
    py.import("durahash._types")?.getattr("CacheStats")?.call((), Some(&figures))
}

/// A finding as a `durahash.Finding`.
pub(crate) fn finding<'py>(py: Python<'py>, finding: &Finding) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import("durahash._types")?.getattr("Finding")?;
    class.call1((finding.invariant, finding.off, &finding.what))
}

/// The methods of all classes.
macro_rules! common_methods {
    ($Class:ident) => {
        #[pymethods]
        impl $Class {
            fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
                self.core.wait(py, |map| crate::core::Any::len(map)).map(|n| n as usize)
            }

            fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
                slf
            }

            #[pyo3(signature = (*_exception))]
            fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
                self.core.close(py)
            }

            fn __repr__(slf: &Bound<'_, Self>) -> PyResult<String> {
                let core = &slf.get().core;
                let place =
                    core.path.as_ref().map_or("in memory".into(), |path| format!("{path:?}"));
                let name = slf.get_type().name()?;
                let state = if core.is_open() { "" } else { ", closed" };
                Ok(format!("<durahash.{name} {place}{}{state}>", slf.get().types()))
            }

            /// Closes the map, and with it the pool: the next open has nothing to recover. To close it twice does nothing.
            ///
            /// It waits for no other thread. Where one is in an operation, the pool closes when that ends, or of a batch the
            /// piece that is under way, after which the batch raises a ClosedError. An open before that raises a LockedError.
            ///
            /// >>> m = durahash.Map(key=str, value=int)
            /// >>> m.close()
            /// >>> m.closed
            /// True
            fn close(&self, py: Python<'_>) -> PyResult<()> {
                self.core.close(py)
            }

            /// True after ``close``, and in a forked child.
            #[getter]
            fn closed(&self) -> bool {
                !self.core.is_open()
            }

            /// The pool's file; None in memory.
            #[getter]
            fn path(&self) -> Option<&Path> {
                self.core.path.as_deref()
            }

            /// What an operation that has returned survives: a text that begins with ``none``, ``process``,
            /// ``interval`` or ``strict``.
            ///
            /// >>> durahash.Map(key=str, value=int).durability
            /// 'none (dies with the process)'
            #[getter]
            fn durability(&self) -> String {
                self.core.durability.to_string()
            }

            /// Puts everything that has returned on the disk.
            ///
            /// >>> m = durahash.Map(key=str, value=int)
            /// >>> m["one"] = 1
            /// >>> m.sync()
            fn sync(&self, py: Python<'_>) -> PyResult<()> {
                self.core.wait(py, |map| crate::core::Any::sync(map))
            }

            /// Writes the pool to the new file ``to`` while operations go on: a backup, which opens as any pool.
            ///
            /// >>> import os, tempfile
            /// >>> to = os.path.join(tempfile.mkdtemp(), "backup.pool")
            /// >>> m = durahash.Map(key=str, value=int)
            /// >>> m["one"] = 1
            /// >>> m.backup(to)
            /// >>> durahash.Map(to)["one"]
            /// 1
            fn backup(&self, py: Python<'_>, to: PathBuf) -> PyResult<()> {
                self.core.wait(py, |map| crate::core::Any::backup(map, &to))
            }

            /// Verifies every invariant of the pool, and changes nothing; returns what it finds, which is an empty list for
            /// a sound pool. No thread may write meanwhile.
            ///
            /// >>> durahash.Map(key=str, value=int).check()
            /// []
            fn check<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
                let findings = self.core.wait(py, |map| {
                    let mut findings = Vec::new();
                    crate::core::Any::check(map, &mut |finding| findings.push(finding))?;
                    Ok(findings)
                })?;
                findings.iter().map(|found| crate::common::finding(py, found)).collect()
            }

            fn __reduce__(&self) -> PyResult<()> {
                Err(PyTypeError::new_err(
                    "a map is neither pickled nor copied: pass its path, and open it where it is \
                     used, after this process has closed it; dict(m.items()) has a copy of the \
                     entries, and m.backup(path) makes one of the pool",
                ))
            }

            fn __iter__(slf: &Bound<'_, Self>) -> Entries {
                Entries::new(Owner::$Class(slf.clone().unbind()), Given::Keys)
            }
        }
    };
}

/// The methods of the classes whose keys and values have types.
macro_rules! typed_methods {
    ($Class:ident) => {
        impl $Class {
            fn types(&self) -> String {
                let (key, value) = (self.core.key.to_string(), self.core.value.to_string());
                format!(", key={key:?}, value={value:?}")
            }
        }

        #[pymethods]
        impl $Class {
            /// What the keys are.
            #[getter]
            fn key(&self) -> String {
                self.core.key.to_string()
            }

            /// What the values are.
            #[getter]
            fn value(&self) -> String {
                self.core.value.to_string()
            }

            /// Makes room for so many more entries, so that their inserts need not.
            ///
            /// >>> m = durahash.Map(key=str, value=int)
            /// >>> m.reserve(1000)
            fn reserve(&self, py: Python<'_>, additional: u64) -> PyResult<()> {
                self.core.wait(py, |map| map.reserve(additional))
            }

            /// Removes everything.
            ///
            /// >>> m = durahash.Map(key=str, value=int)
            /// >>> m["one"] = 1
            /// >>> m.clear()
            /// >>> len(m)
            /// 0
            fn clear(&self, py: Python<'_>) -> PyResult<()> {
                self.core.wait(py, |map| map.clear())
            }

            /// Figures about the entries and the pool, as a ``durahash.Stats``.
            ///
            /// >>> m = durahash.Map(key=str, value=int)
            /// >>> m["one"] = 1
            /// >>> m.stats().entries
            /// 1
            fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
                let stats = self.core.wait(py, |map| crate::core::Any::stats(map))?;
                crate::common::stats(py, &stats)
            }

            fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
                self.core.value.traverse(&visit)
            }

            fn _items(slf: &Bound<'_, Self>) -> Entries {
                Entries::new(Owner::$Class(slf.clone().unbind()), Given::Items)
            }

            fn _values(slf: &Bound<'_, Self>) -> Entries {
                Entries::new(Owner::$Class(slf.clone().unbind()), Given::Values)
            }
        }
    };
}

pub(crate) use {common_methods, typed_methods};
