//! The class of caches.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use durahash::Change;
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::pyclass::{PyTraverseError, PyVisit};
use pyo3::types::{PyString, PyTuple};

use crate::clock::{Clock, duration};
use crate::codec::{Codec, split, tag_object};
use crate::common::{Entries, Given, Owner, common_methods};
use crate::core::{Core, Found, LARGE_BYTES, Objects};
use crate::error;
use crate::number::{NoSum, Number};
use crate::open::{Named, Open};
use crate::plain;

/// A cache; `durahash.Cache` adds `memoize` and what is short.
#[pyclass(subclass, frozen, module = "durahash._native")]
pub(crate) struct Cache {
    pub(crate) core: Core<Objects>,
    pub(crate) codec: Codec,
    pub(crate) hits: AtomicU64,
    pub(crate) misses: AtomicU64,
    /// They are counted.
    pub(crate) counts: AtomicBool,
}

/// How long an entry lives; what is shorter than a pool can tell is not nothing.
fn lifetime(expire: Option<f64>) -> PyResult<Option<Duration>> {
    let lifetime = expire.map_or(Ok(None), duration)?;
    Ok(lifetime.map(|it| if it.is_zero() { it } else { it.max(Duration::from_millis(1)) }))
}

/// Seconds since 1970.
fn seconds(at: Option<SystemTime>) -> Option<f64> {
    at.map(|at| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64())
}

common_methods!(Cache);

impl Cache {
    fn types(&self) -> &'static str {
        ""
    }

    /// The value of a key, as an object.
    #[inline]
    fn look<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (core, key) = (&self.core, plain::key(key)?);
        let found = if core.is_quick() {
            // No code of Python runs while the cache is locked, also not that of an error: another thread may want it
            // then, or a finalizer.
            core.quick(|cache| {
                cache.get_with(&key, |bytes| {
                    if bytes.len() >= LARGE_BYTES {
                        return Found::Large;
                    }
                    let object = plain::read_scalar(py, split(bytes).1);
                    object.map_or_else(|| Found::Bytes(bytes.to_vec()), Found::Object)
                })
            })?
        } else {
            Some(Found::Large)
        };
        let bytes = match found {
            None => None,
            Some(Found::Object(object)) => {
                self.count(true);
                return Ok(Some(object));
            }
            Some(Found::Bytes(bytes)) => Some(bytes),
            Some(Found::Large) => core.wait(py, |cache| cache.get(&key))?,
        };
        self.count(bytes.is_some());
        bytes.map(|bytes| self.codec.decode(py, &bytes)).transpose()
    }

    /// A copy of the value of a key, and when it expires.
    fn copy(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<(Vec<u8>, Option<SystemTime>)>> {
        let copied = |bytes: &[u8], at| (bytes.to_vec(), at);
        let small = |bytes: &[u8], at| (bytes.len() < LARGE_BYTES).then(|| copied(bytes, at));
        match self.core.run(py, 0, |cache| cache.get_with_expiry(key, small))? {
            Some(None) => self.core.wait(py, |cache| cache.get_with_expiry(key, copied)),
            found => Ok(found.flatten()),
        }
    }

    /// How many bytes the value of a key has, which the library copies where the entry is changed.
    fn bytes(&self, py: Python<'_>, key: &[u8]) -> PyResult<usize> {
        let bytes = self.core.run(py, 0, |cache| cache.get_with(key, <[u8]>::len))?;
        Ok(bytes.unwrap_or_default())
    }

    #[inline]
    fn count(&self, is_hit: bool) {
        if self.counts.load(Relaxed) {
            let count = if is_hit { &self.hits } else { &self.misses };
            count.fetch_add(1, Relaxed);
        }
    }

    /// The value, alone or with what is asked for beside it.
    fn answer<'py>(
        &self,
        py: Python<'py>,
        found: Option<&(Vec<u8>, Option<SystemTime>)>,
        default: Option<Bound<'py, PyAny>>,
        (expire_time, tag): (bool, bool),
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (value, at, tagged) = match found {
            Some((bytes, at)) => {
                (Some(self.codec.decode(py, bytes)?), seconds(*at), tag_object(py, bytes)?)
            }
            None => (default, None, None),
        };
        Ok(match (expire_time, tag) {
            (false, false) => value,
            (true, false) => Some((value, at).into_pyobject(py)?.into_any()),
            (false, true) => Some((value, tagged).into_pyobject(py)?.into_any()),
            (true, true) => Some((value, at, tagged).into_pyobject(py)?.into_any()),
        })
    }

    #[inline]
    fn put<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        expire: Option<f64>,
        tag: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let (key, lifetime) = (plain::key(key)?, lifetime(expire)?);
        let value = self.codec.encode(value, tag)?;
        self.core.run(py, value.len(), |cache| match lifetime {
            None => cache.put(&key, &value),
            Some(lifetime) => cache.put_for(&key, &value, lifetime),
        })
    }
}

#[pymethods]
impl Cache {
    #[new]
    #[pyo3(signature = (
        path = None, *, size_limit = None, max_entries = None, eviction_policy = None, codec = None,
        create = None, mode = None, read_only = false, readers = false, max_bytes = None,
        live_image = None, verify = false, accept_suspect = false, clock = None
    ))]
    #[expect(clippy::too_many_arguments, reason = "they are named by the caller")]
    fn new(
        py: Python<'_>,
        path: Option<PathBuf>,
        size_limit: Option<u64>,
        max_entries: Option<u64>,
        eviction_policy: Option<String>,
        codec: Option<Bound<'_, PyAny>>,
        create: Option<bool>,
        mode: Option<String>,
        read_only: bool,
        readers: bool,
        max_bytes: Option<u64>,
        live_image: Option<bool>,
        verify: bool,
        accept_suspect: bool,
        clock: Option<PyRef<'_, Clock>>,
    ) -> PyResult<Self> {
        let bytes = || Some(PyString::new(py, "bytes").into_any());
        let named = Named {
            key: bytes(),
            value: bytes(),
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
        if max_entries == Some(0) {
            return Err(error::options("max_entries is at least 1; 2**64 - 1 is no bound"));
        }
        let codec = Codec::named(codec.as_ref())?;
        let policy = eviction_policy.map(|name| match name.as_str() {
            // As diskcache names them.
            "least-recently-used" => "lru".parse(),
            "least-frequently-used" => "tinylfu".parse(),
            name => name.parse(),
        });
        let policy = policy.transpose().map_err(error::of)?;
        let open = Open::new(path, named)?.with(|mut options| {
            if let Some(size_limit) = size_limit {
                options = options.max_bytes_used(size_limit);
            }
            if let Some(max_entries) = max_entries {
                options = options.max_entries(max_entries);
            }
            if let Some(policy) = policy {
                options = options.eviction(policy);
            }
            match &clock {
                Some(clock) => options.clock(clock.0.clone()),
                None => options,
            }
        });
        Ok(Cache {
            core: Core::new(py, open)?,
            codec,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            counts: AtomicBool::new(false),
        })
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
        self.put(py, key, value, None, None)
    }

    fn __delitem__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<()> {
        if self.delete(py, key)? {
            return Ok(());
        }
        Err(error::absent(key))
    }

    fn __contains__<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<bool> {
        let key = plain::key(key)?;
        self.core.run(py, 0, |cache| cache.contains_key(&key))
    }

    /// The value of ``key``, or ``default``. With ``expire_time=True`` a pair of it and the time at which it expires, in
    /// seconds since 1970, or None; with ``tag=True`` also its tag.
    ///
    /// >>> c = durahash.Cache()
    /// >>> c["a"] = 1
    /// >>> c.get("a"), c.get("b"), c.get("b", 0), c.get("a", tag=True)
    /// (1, None, 0, (1, None))
    #[pyo3(signature = (key, default = None, *, expire_time = false, tag = false))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        expire_time: bool,
        tag: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !expire_time && !tag {
            return Ok(self.look(py, key)?.or(default));
        }
        let key = plain::key(key)?;
        let found = self.copy(py, &key)?;
        self.count(found.is_some());
        self.answer(py, found.as_ref(), default, (expire_time, tag))
    }

    /// Inserts or replaces the value of ``key``, which is gone after ``expire`` seconds, or stays if that is None; ``evict``
    /// removes all that have the same ``tag``. Returns True.
    ///
    /// >>> c = durahash.Cache()
    /// >>> c.set("page", "<p>", expire=60, tag="pages")
    /// True
    #[pyo3(signature = (key, value, expire = None, *, tag = None))]
    fn set<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        expire: Option<f64>,
        tag: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        self.put(py, key, value, expire, tag).map(|()| true)
    }

    /// As ``set``, if the key is absent; returns True if it was.
    ///
    /// >>> c = durahash.Cache()
    /// >>> c.add("lock", 1, expire=60), c.add("lock", 2)
    /// (True, False)
    #[pyo3(signature = (key, value, expire = None, *, tag = None))]
    fn add<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
        expire: Option<f64>,
        tag: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        let (key, lifetime) = (plain::key(key)?, lifetime(expire)?);
        let value = self.codec.encode(value, tag)?;
        self.core.run(py, value.len().max(self.bytes(py, &key)?), |cache| {
            Ok(cache.try_insert(&key, &value, lifetime)?.is_done())
        })
    }

    /// Adds ``delta`` to the number at ``key``, of which ``default`` is in the place of none, or a KeyError if that is None;
    /// returns the sum. Expiry and tag stay. No other thread comes between.
    ///
    /// >>> c = durahash.Cache()
    /// >>> c.incr("hits"), c.incr("hits", 10), c.incr("other", default=5)
    /// (1, 11, 6)
    #[pyo3(
        signature = (key, delta = Number::Int(1), default = Some(Number::Int(0))),
        text_signature = "($self, key, delta=1, default=0)"
    )]
    fn incr<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        delta: Number,
        default: Option<Number>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let bytes = plain::key(key)?;
        let mut sum = Err(NoSum::Absent);
        self.core.run(py, 0, |cache| {
            let change = |old: Option<Vec<u8>>| {
                let mut new = Vec::new();
                let before = match &old {
                    None => default.ok_or(NoSum::Absent),
                    Some(old) => {
                        let (_, value) = split(old);
                        new.extend_from_slice(&old[..old.len() - value.len()]);
                        Number::read(value).ok_or(NoSum::NoNumber)
                    }
                };
                sum = before.and_then(|before| before.plus(delta));
                match &sum {
                    Ok(sum) => {
                        sum.write(&mut new);
                        Change::Set(new)
                    }
                    Err(_) => Change::Keep,
                }
            };
            cache.update(&bytes, change).map(drop)
        })?;
        match sum {
            Ok(Number::Int(sum)) => Ok(sum.into_pyobject(py)?.into_any()),
            Ok(Number::Float(sum)) => Ok(sum.into_pyobject(py)?.into_any()),
            Err(NoSum::Absent) => Err(error::absent(key)),
            Err(NoSum::NoNumber) => {
                Err(PyTypeError::new_err("the value is no float, and no int of 64 bits"))
            }
            Err(NoSum::Overflow) => Err(PyOverflowError::new_err("the sum is beyond 64 bits")),
        }
    }

    /// Removes ``key`` and returns its value, or ``default``; with what else is asked for, as of ``get``.
    ///
    /// >>> c = durahash.Cache()
    /// >>> c["a"] = 1
    /// >>> c.pop("a"), c.pop("a", 0)
    /// (1, 0)
    #[pyo3(signature = (key, default = None, *, expire_time = false, tag = false))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        expire_time: bool,
        tag: bool,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let key = plain::key(key)?;
        // What cannot be decoded stays. What changes meanwhile is decoded again.
        loop {
            let found = self.copy(py, &key)?;
            let answer = self.answer(py, found.as_ref(), default.clone(), (expire_time, tag))?;
            let Some((bytes, at)) = &found else { return Ok(answer) };
            let is_it = |now: &[u8], until| now == bytes && until == *at;
            if self.core.run(py, bytes.len(), |cache| cache.remove_if(&key, is_it))?.is_some() {
                return Ok(answer);
            }
            py.check_signals()?;
        }
    }

    /// Removes ``key``; returns True if it was there.
    ///
    /// >>> c = durahash.Cache()
    /// >>> c["a"] = 1
    /// >>> c.delete("a"), c.delete("a")
    /// (True, False)
    fn delete<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<bool> {
        let key = plain::key(key)?;
        Ok(self.core.run(py, self.bytes(py, &key)?, |cache| cache.remove(&key))?.is_some())
    }

    /// Lets ``key`` expire after so many seconds from now on, or never; returns False where there is no such key.
    ///
    /// >>> c = durahash.Cache()
    /// >>> c["a"] = 1
    /// >>> c.touch("a", 60), c.touch("b", 60)
    /// (True, False)
    #[pyo3(signature = (key, expire = None))]
    fn touch<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        expire: Option<f64>,
    ) -> PyResult<bool> {
        let (key, lifetime) = (plain::key(key)?, lifetime(expire)?);
        self.core.run(py, self.bytes(py, &key)?, |cache| match lifetime {
            None => cache.persist(&key),
            Some(lifetime) => cache.expire(&key, lifetime),
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.codec.traverse(&visit)
    }
}
