//! Times, and a clock that tests set.

use std::time::Duration;

use durahash::cache;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A time of so many seconds; `None` if it never ends.
pub(crate) fn duration(seconds: f64) -> PyResult<Option<Duration>> {
    if seconds.is_nan() {
        return Err(PyValueError::new_err("a number of seconds is wanted, not nan"));
    }
    Ok(Duration::try_from_secs_f64(seconds.max(0.0)).ok())
}

/// The clock of a cache in tests: it stands at so many seconds since 1970 until it is moved on.
///
/// >>> clock = durahash.Clock(1000)
/// >>> c = durahash.Cache(clock=clock)
/// >>> c.set("a", 1, expire=60)
/// True
/// >>> clock.advance(60)
/// >>> c.get("a") is None
/// True
#[pyclass(frozen, module = "durahash")]
pub(crate) struct Clock(pub(crate) cache::Clock);

#[pymethods]
impl Clock {
    #[new]
    #[pyo3(signature = (seconds = 0.0))]
    fn new(seconds: f64) -> PyResult<Self> {
        let since = duration(seconds)?.ok_or_else(|| PyValueError::new_err("no such time"))?;
        let clock = cache::Clock::manual(0);
        clock.advance(since);
        Ok(Clock(clock))
    }

    /// Moves it on by so many seconds.
    ///
    /// >>> clock = durahash.Clock()
    /// >>> c = durahash.Cache(clock=clock)
    /// >>> c.set("a", 1, expire=60)
    /// True
    /// >>> clock.advance(60)
    /// >>> "a" in c
    /// False
    fn advance(&self, seconds: f64) -> PyResult<()> {
        let by = duration(seconds)?.ok_or_else(|| PyValueError::new_err("no such time"))?;
        self.0.advance(by);
        Ok(())
    }
}
