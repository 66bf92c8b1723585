//! Answers of yes and no to many keys.

use pyo3::prelude::*;

use crate::column::Array;
use crate::kind::Kind;

/// Answers of yes and no, in an array or a list.
pub(crate) struct Flags<'py> {
    out: Option<Array<'py>>,
    all: Vec<bool>,
    from: usize,
    yes: usize,
}

impl<'py> Flags<'py> {
    pub(crate) fn new(out: Option<&Bound<'py, PyAny>>, count: Option<usize>) -> PyResult<Self> {
        let out = Array::output(out, &Kind::Bool, count)?;
        Ok(Flags { out, all: Vec::new(), from: 0, yes: 0 })
    }

    /// The answers that `f` gives to the next `count` keys.
    pub(crate) fn piece(
        &mut self,
        count: usize,
        f: impl FnOnce(&mut Vec<bool>) -> PyResult<()>,
    ) -> PyResult<()> {
        let begin = self.all.len();
        f(&mut self.all)?;
        self.yes += self.all[begin..].iter().filter(|is| **is).count();
        if let Some(out) = &self.out {
            let mut answers = out.answers(self.from, count)?;
            self.all.iter().enumerate().for_each(|(i, is)| answers.put(i, &[u8::from(*is)]));
            out.write(self.from, &answers)?;
            self.all.clear();
        }
        self.from += count;
        Ok(())
    }

    pub(crate) fn answer(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.out.is_some() {
            return Ok(self.yes.into_pyobject(py)?.into_any());
        }
        Ok(self.all.into_pyobject(py)?.into_any())
    }
}
