//! A map of the library and what its keys and values are: what all classes have in common.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use durahash::{
    AnyMap, AnyMultiMap, Cache, Cursor, Durability, Finding, Object, Openable, Result, Stats, Type,
};
use durahash_media::process::Process;
use pyo3::prelude::*;

use crate::error;
use crate::kind::Kind;
use crate::open::Open;

/// Entries as bytes, and where those after them begin, if there are any.
pub(crate) type Step = (Vec<(Vec<u8>, Vec<u8>)>, Option<Cursor>);

/// A cache of objects as bytes, which its pool tells from one of bytes.
pub(crate) type Objects = Cache<Object, Object>;

/// What `AnyMap`, `AnyMultiMap` and `Cache` have in common.
pub(crate) trait Any: Openable + Clone + Send + Sync {
    fn types(&self) -> (Type, Type);
    fn len(&self) -> Result<u64>;
    fn sync(&self) -> Result<()>;
    fn backup(&self, to: &Path) -> Result<()>;
    fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()>;
    fn stats(&self) -> Result<Stats>;
    fn durability(&self) -> Durability;
    fn may_wait(&self) -> bool;
    fn path(&self) -> Option<&Path>;
    fn scan(&self, from: Cursor, n: usize) -> Result<Step>;
    fn close(self) -> Result<()>;
}

macro_rules! any {
    ($($Any:ident, $types:expr, $scan:ident;)*) => {$(
        impl Any for $Any {
            fn types(&self) -> (Type, Type) {
                $types(self)
            }
            fn len(&self) -> Result<u64> {
                self.len()
            }
            fn sync(&self) -> Result<()> {
                self.sync()
            }
            fn backup(&self, to: &Path) -> Result<()> {
                self.backup(to)
            }
            fn check(&self, found: &mut dyn FnMut(Finding)) -> Result<()> {
                self.check(found)
            }
            fn stats(&self) -> Result<Stats> {
                self.stats()
            }
            fn durability(&self) -> Durability {
                self.durability()
            }
            fn may_wait(&self) -> bool {
                self.may_wait()
            }
            fn path(&self) -> Option<&Path> {
                self.path()
            }
            fn scan(&self, from: Cursor, n: usize) -> Result<Step> {
                self.$scan(from, n)
            }
            fn close(self) -> Result<()> {
                self.close()
            }
        }
    )*};
}

any! {
    AnyMap, |map: &AnyMap| (map.key_type(), map.value_type()), scan_raw;
    AnyMultiMap, |map: &AnyMultiMap| (map.key_type(), map.value_type()), scan_raw;
    Objects, |_| (Type::Bytes, Type::Bytes), scan;
}

/// Values of so many bytes are copied without the interpreter's lock.
pub(crate) const LARGE_BYTES: usize = 64 << 10;

/// What a lookup that holds the interpreter's lock has found.
pub(crate) enum Found<'py> {
    Object(Bound<'py, PyAny>),
    /// What code of Python makes an object of.
    Bytes(Vec<u8>),
    /// A value to be copied without that lock.
    Large,
}

/// An open map.
pub(crate) struct Core<M: Any> {
    /// `None` when it was closed. Locked only by a thread that has the interpreter's lock, and never while it gives that
    /// away: no thread waits for it, nor finds it locked in a forked child.
    map: Mutex<Option<M>>,
    pub(crate) key: Kind,
    pub(crate) value: Kind,
    /// The pool's file.
    pub(crate) path: Option<PathBuf>,
    pub(crate) durability: Durability,
    process: Process,
}

impl<M: Any> Core<M> {
    pub(crate) fn new(py: Python<'_>, open: Open) -> PyResult<Self> {
        let map: M = open.open(py)?;
        let (key, value) = map.types();
        let (key, value) = open.kinds(key, value)?;
        let (durability, path) = (map.durability(), map.path().map(Path::to_path_buf));
        let map = Mutex::new(Some(map));
        Ok(Core { map, key, value, path, durability, process: Process::own() })
    }

    fn lock(&self) -> MutexGuard<'_, Option<M>> {
        self.map.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the map is open, in this process.
    pub(crate) fn is_open(&self) -> bool {
        self.process == Process::own() && self.lock().is_some()
    }

    /// Runs a short operation; one that may wait, or moves so many bytes, without the interpreter's lock.
    #[inline]
    pub(crate) fn run<T: Send>(
        &self,
        py: Python<'_>,
        bytes: usize,
        f: impl FnOnce(&M) -> Result<T> + Send,
    ) -> PyResult<T> {
        if self.process == Process::own() {
            let map = self.lock();
            if let Some(open) = map.as_ref().filter(|map| bytes < LARGE_BYTES && !map.may_wait()) {
                let done = f(open);
                // See `quick`.
                drop(map);
                return done.map_err(error::of);
            }
        }
        self.wait(py, f)
    }

    /// True if lookups of small values do not wait for the disk.
    #[inline]
    pub(crate) fn is_quick(&self) -> bool {
        self.durability != Durability::Strict
    }

    /// Runs a short operation that does not wait, with the interpreter's lock.
    #[inline]
    pub(crate) fn quick<T>(&self, f: impl FnOnce(&M) -> Result<T>) -> PyResult<T> {
        if self.process != Process::own() {
            return Err(error::forked());
        }
        // The lock is given back before an exception is made: that may collect garbage, whose finalizers use the map.
        let done = self.lock().as_ref().map(f);
        done.ok_or_else(error::closed)?.map_err(error::of)
    }

    /// Runs an operation that may wait or takes long, without the interpreter's lock. A close meanwhile leaves it to this
    /// handle to close the pool.
    pub(crate) fn wait<T: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&M) -> Result<T> + Send,
    ) -> PyResult<T> {
        if self.process != Process::own() {
            return Err(error::forked());
        }
        let map = self.lock().clone();
        let map = map.ok_or_else(error::closed)?;
        py.detach(move || f(&map)).map_err(error::of)
    }

    /// Closes the map; nothing if it is closed.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        if self.process != Process::own() {
            return Err(error::forked());
        }
        let map = self.lock().take();
        py.detach(|| map.map_or(Ok(()), Any::close)).map_err(error::of)
    }
}

/// As a close, whose error nobody hears of; without the interpreter's lock, as it may wait for the disk.
impl<M: Any> Drop for Core<M> {
    fn drop(&mut self) {
        let mut map = self.lock().take();
        if map.is_some() && self.process == Process::own() {
            Python::try_attach(|py| py.detach(|| drop(map.take())));
        }
    }
}
