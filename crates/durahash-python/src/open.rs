//! How maps are made and opened.

use std::path::PathBuf;

use durahash::{Design, Error, ErrorKind, Openable, Options, SyncMode, Type};
use pyo3::prelude::*;

use crate::error;
use crate::kind::Kind;

/// What a caller says of a pool.
pub(crate) struct Open {
    path: Option<PathBuf>,
    create: Option<bool>,
    is_read_only: bool,
    options: Options,
    kinds: (Option<Kind>, Option<Kind>),
}

/// Options by their names, of which `None` leaves the library's choice.
pub(crate) struct Named<'py> {
    pub(crate) key: Option<Bound<'py, PyAny>>,
    pub(crate) value: Option<Bound<'py, PyAny>>,
    pub(crate) create: Option<bool>,
    pub(crate) mode: Option<String>,
    pub(crate) read_only: bool,
    pub(crate) readers: bool,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) design: Option<String>,
    pub(crate) live_image: Option<bool>,
    pub(crate) verify: bool,
    pub(crate) accept_suspect: bool,
}

impl Open {
    pub(crate) fn new(path: Option<PathBuf>, named: Named<'_>) -> PyResult<Self> {
        let mut options = Options::new()
            .read_only(named.read_only)
            .readers(named.readers)
            .verify(named.verify)
            .accept_suspect(named.accept_suspect);
        if let Some(mode) = named.mode {
            options = options.sync_mode(mode.parse::<SyncMode>().map_err(error::options)?);
        }
        if let Some(max_bytes) = named.max_bytes {
            options = options.max_bytes(max_bytes);
        }
        if let Some(design) = named.design {
            options = options.design(design.parse::<Design>().map_err(error::of)?);
        }
        if let Some(live_image) = named.live_image {
            options = options.live_image(live_image);
        }
        let kind = |spec: Option<Bound<'_, PyAny>>| spec.map(|spec| Kind::named(&spec)).transpose();
        let kinds = (kind(named.key)?, kind(named.value)?);
        if kinds.0.as_ref().is_some_and(Kind::is_coded) {
            let text = "keys are compared by their bytes, so they are no json and no pickle: make \
                        a str or bytes of them";
            return Err(error::options(text));
        }
        if let (Some(key), Some(value)) = &kinds {
            options = options.types(key.ty(), value.ty());
        }
        let (create, is_read_only) = (named.create, named.read_only);
        Ok(Open { path, create, is_read_only, options, kinds })
    }

    /// The same with more options.
    pub(crate) fn with(self, options: impl FnOnce(Options) -> Options) -> Self {
        Open { options: options(self.options), ..self }
    }

    /// Opens or makes it.
    pub(crate) fn open<T: Openable + Send>(&self, py: Python<'_>) -> PyResult<T> {
        let has_kinds = self.kinds.0.is_some() && self.kinds.1.is_some();
        let Some(path) = &self.path else {
            if !has_kinds {
                return Err(error::options("a new map needs its key= and its value="));
            }
            return py.detach(|| self.options.in_memory()).map_err(error::of);
        };
        if self.create == Some(true) && !has_kinds {
            return Err(error::options("a new map needs its key= and its value="));
        }
        py.detach(|| match self.create {
            Some(true) => self.options.create(path),
            None if has_kinds && !self.is_read_only => self.options.open_or_create(path),
            _ => self.options.open(path),
        })
        .map_err(if has_kinds { error::of } else { error::unmade })
    }

    /// The kinds of keys and values: those that were named, which must be of the pool's types, or those for its types.
    pub(crate) fn kinds(self, key: Type, value: Type) -> PyResult<(Kind, Kind)> {
        let types = |key, value| format!("keys of {key} and values of {value}");
        let wanted = |kind: &Option<Kind>, found| kind.as_ref().map_or(found, Kind::ty);
        let want = (wanted(&self.kinds.0, key), wanted(&self.kinds.1, value));
        if want != (key, value) {
            let (found, wanted) = (types(key, value), types(want.0, want.1));
            let e = Error::from(ErrorKind::Types { found, wanted }).at_path(self.path.as_deref());
            return Err(error::of(e));
        }
        let kind = |kind: Option<Kind>, ty| kind.map_or_else(|| Kind::of(ty), Ok);
        Ok((kind(self.kinds.0, key)?, kind(self.kinds.1, value)?))
    }
}
