//! Many keys or values at once: of any iterable, or the rows of an array or of anything else with a buffer.
//!
//! A buffer is taken in pieces, each copied as a whole: other threads may write to an array while the library reads,
//! and a copy costs a hundredth of a lookup.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyMemoryView, PySlice, PyTuple};

use crate::kind::{Kind, Room};

/// Rows of an array, or objects, of which each is so many at a time: enough to hide that between two pieces the
/// interpreter's lock is taken, few enough to come back soon to a signal.
const ROWS: usize = 1 << 16;
const OBJECTS: usize = 1 << 13;

/// Bytes of a piece, about, at the most.
const PIECE_BYTES: usize = 16 << 20;

/// How many keys or values are in a piece, where their values turn out to have any length.
pub(crate) struct Pace {
    most: usize,
    limit: usize,
}

impl Pace {
    /// Begins with few, if it is not known how many bytes each has.
    pub(crate) fn new(limit: usize, bytes: Option<usize>) -> Self {
        let most = bytes.map_or(64, |bytes| PIECE_BYTES / bytes.max(1)).clamp(1, limit);
        Pace { most, limit }
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Tells how many bytes the last ones had.
    pub(crate) fn had(&mut self, count: usize, bytes: usize) {
        let fit = PIECE_BYTES / (bytes / count.max(1)).max(1);
        self.most = fit.clamp(1, self.limit.min(16 * self.most));
    }
}

/// Where keys or values come from.
pub(crate) enum Column<'py> {
    Rows { array: Array<'py>, at: usize },
    Objects(Bound<'py, PyIterator>),
}

/// A buffer as rows of equally many bytes.
pub(crate) struct Array<'py> {
    /// A view of its bytes, in one dimension.
    bytes: Bound<'py, PyAny>,
    pub(crate) width: usize,
    pub(crate) count: usize,
}

/// Some keys or values as bytes.
pub(crate) struct Piece<'py> {
    bytes: Held<'py>,
    /// Where each ends; empty where all have `width`.
    ends: Vec<usize>,
    width: usize,
    pub(crate) count: usize,
}

enum Held<'py> {
    Copy(Bound<'py, PyBytes>),
    Encoded(Vec<u8>),
}

/// The same for threads that have no part in the interpreter.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    bytes: &'a [u8],
    ends: &'a [usize],
    width: usize,
}

impl<'a> Rows<'a> {
    #[inline]
    pub(crate) fn row(self, i: usize) -> &'a [u8] {
        match self.ends.get(i) {
            None => &self.bytes[i * self.width..][..self.width],
            Some(end) => &self.bytes[if i == 0 { 0 } else { self.ends[i - 1] }..*end],
        }
    }
}

impl<'py> Column<'py> {
    pub(crate) fn new(object: &Bound<'py, PyAny>, kind: &Kind) -> PyResult<Self> {
        Ok(match Array::new(object, kind, false)? {
            Some(array) => Column::Rows { array, at: 0 },
            None => Column::Objects(object.try_iter()?),
        })
    }

    /// How many there are, if that is known.
    pub(crate) fn count(&self) -> Option<usize> {
        match self {
            Column::Rows { array, .. } => Some(array.count),
            Column::Objects(_) => None,
        }
    }

    /// The most of a piece.
    pub(crate) fn most(&self) -> usize {
        match self {
            Column::Rows { array, .. } => ROWS.min(PIECE_BYTES / array.width).max(1),
            Column::Objects(_) => OBJECTS,
        }
    }

    /// The next ones, at most so many; none at the end.
    pub(crate) fn next(&mut self, kind: &Kind, most: usize) -> PyResult<Piece<'py>> {
        self.next_within(kind, most, PIECE_BYTES)
    }

    /// The same; fewer where objects have more bytes than these.
    fn next_within(&mut self, kind: &Kind, most: usize, bytes: usize) -> PyResult<Piece<'py>> {
        match self {
            Column::Rows { array, at } => {
                let (from, count) = (*at, most.min(array.count - *at));
                *at += count;
                let held = Held::Copy(array.read(from, count)?);
                Ok(Piece { bytes: held, ends: Vec::new(), width: array.width, count })
            }
            Column::Objects(objects) => {
                let mut piece = Piece::new();
                for object in objects.take(most) {
                    piece.push(kind, &object?)?;
                    if piece.bytes() >= bytes {
                        break;
                    }
                }
                Ok(piece)
            }
        }
    }
}

impl<'py> Piece<'py> {
    pub(crate) fn new() -> Self {
        Piece { bytes: Held::Encoded(Vec::new()), ends: Vec::new(), width: 0, count: 0 }
    }

    pub(crate) fn push(&mut self, kind: &Kind, object: &Bound<'py, PyAny>) -> PyResult<()> {
        if let Held::Encoded(all) = &mut self.bytes {
            all.extend_from_slice(kind.encode(object, &mut Room::None)?);
            self.ends.push(all.len());
            self.count += 1;
        }
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.rows().bytes.len()
    }

    pub(crate) fn rows(&self) -> Rows<'_> {
        let bytes = match &self.bytes {
            Held::Copy(bytes) => bytes.as_bytes(),
            Held::Encoded(bytes) => bytes,
        };
        Rows { bytes, ends: &self.ends, width: self.width }
    }
}

/// Pairs of keys and values: two columns, or one of pairs.
pub(crate) enum Pairs<'py> {
    Columns(Column<'py>, Column<'py>, Pace),
    Pairs(Bound<'py, PyIterator>),
}

impl<'py> Pairs<'py> {
    /// Those of two columns; or without the second those of a mapping, or of an iterable of pairs.
    pub(crate) fn new(
        keys: &Bound<'py, PyAny>,
        values: Option<&Bound<'py, PyAny>>,
        kinds: (&Kind, &Kind),
    ) -> PyResult<Self> {
        if let Some(values) = values {
            let (keys, values) = (Column::new(keys, kinds.0)?, Column::new(values, kinds.1)?);
            if let (Some(keys), Some(values)) = (keys.count(), values.count())
                && keys != values
            {
                return Err(uneven(format!("{keys} keys and {values} values")));
            }
            let bytes = match &values {
                Column::Rows { array, .. } => Some(array.width),
                Column::Objects(_) => kinds.1.ty().fixed_bytes(),
            };
            let pace = Pace::new(keys.most().min(values.most()), bytes);
            return Ok(Pairs::Columns(keys, values, pace));
        }
        Ok(Pairs::Pairs(match keys.getattr("items") {
            Ok(items) => items.call0()?.try_iter()?,
            Err(_) => keys.try_iter()?,
        }))
    }

    /// The next keys and values; none at the end.
    pub(crate) fn next(&mut self, kinds: (&Kind, &Kind)) -> PyResult<(Piece<'py>, Piece<'py>)> {
        match self {
            Pairs::Columns(keys, values, pace) => {
                let keys = keys.next(kinds.0, pace.most())?;
                // At the end one more is asked for, which must not be there.
                let values = values.next_within(kinds.1, keys.count.max(1), usize::MAX)?;
                if keys.count != values.count {
                    return Err(uneven("there are fewer of the one than of the other".into()));
                }
                pace.had(keys.count, keys.bytes() + values.bytes());
                Ok((keys, values))
            }
            Pairs::Pairs(pairs) => {
                let (mut keys, mut values) = (Piece::new(), Piece::new());
                for pair in pairs.take(OBJECTS) {
                    let (key, value) = two(pair?)?;
                    keys.push(kinds.0, &key)?;
                    values.push(kinds.1, &value)?;
                    if keys.bytes() + values.bytes() >= PIECE_BYTES {
                        break;
                    }
                }
                Ok((keys, values))
            }
        }
    }
}

/// The two objects of a pair: a tuple, or as for dict whatever gives two.
fn two<'py>(pair: Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if pair.is_exact_instance_of::<PyTuple>() {
        return pair.extract();
    }
    pair.py().get_type::<PyTuple>().call1((pair,))?.extract()
}

fn uneven(what: String) -> PyErr {
    PyValueError::new_err(format!("as many values as keys are wanted: {what}"))
}

impl<'py> Array<'py> {
    /// The rows of an object with a buffer, each a key or a value; `None` where its elements are objects.
    pub(crate) fn new(
        object: &Bound<'py, PyAny>,
        kind: &Kind,
        is_output: bool,
    ) -> PyResult<Option<Self>> {
        let Ok(view) = PyMemoryView::from(object) else { return Ok(None) };
        let format: String = view.getattr("format")?.extract()?;
        let format = format.trim_start_matches(['@', '=', '<']);
        let item: usize = view.getattr("itemsize")?.extract()?;
        let shape: Vec<usize> = view.getattr("shape")?.extract()?;
        let total: usize = shape.iter().product::<usize>() * item;
        if format.ends_with(['O', 'w']) && !is_output {
            return Ok(None);
        }
        let is_bytes = matches!(format, "B" | "b" | "c");
        let is_text = format.ends_with(['s', 'x']);
        // A row is an element, or the bytes along the last axis.
        let row = match (is_bytes, &shape[..]) {
            (true, [_, .., last]) => *last,
            (true, _) => 1,
            _ => item,
        };
        let width = match kind {
            Kind::Int { bytes, is_signed: true } if "bhilqn".contains(format) => *bytes,
            Kind::Int { bytes, is_signed: false } if "BHILQN".contains(format) => *bytes,
            Kind::Float { bytes } if "fd".contains(format) => *bytes,
            Kind::Bool if format == "?" || is_bytes => 1,
            Kind::Array(bytes) if is_text && item == *bytes => *bytes,
            Kind::Array(bytes) if is_bytes && (row == *bytes || shape.len() == 1) => *bytes,
            Kind::Bytes if is_text => item,
            Kind::Bytes if is_bytes && shape.len() > 1 => row,
            _ => 0,
        };
        let is_number = matches!(kind, Kind::Int { .. } | Kind::Float { .. } | Kind::Bool);
        if width == 0 || is_number && item != width || !total.is_multiple_of(width) {
            let text = format!(
                "{kind} is wanted here, but the array has items of the format {format:?} and {item} bytes in the \
                 shape {shape:?}: convert it (astype), or give a list (tolist())"
            );
            return Err(PyTypeError::new_err(text));
        }
        let count = total / width;
        let is_contiguous: bool = view.getattr("c_contiguous")?.extract()?;
        let bytes = if total == 0 {
            PyMemoryView::from(&PyBytes::new(object.py(), b""))?.into_any()
        } else if is_contiguous && format.len() == 1 && !is_text {
            view.call_method1("cast", ("B",))?
        } else if is_contiguous && let Ok(bytes) = object.call_method1("view", ("u1",)) {
            PyMemoryView::from(&bytes)?.call_method1("cast", ("B",))?
        } else if is_output {
            let text = "an array that is written to has to be contiguous (numpy.ascontiguousarray)";
            return Err(PyValueError::new_err(text));
        } else {
            PyMemoryView::from(&view.call_method0("tobytes")?)?.into_any()
        };
        Ok(Some(Array { bytes, width, count }))
    }

    /// The array that answers for `count` keys go to; `None` if there is none.
    pub(crate) fn output(
        object: Option<&Bound<'py, PyAny>>,
        kind: &Kind,
        count: Option<usize>,
    ) -> PyResult<Option<Self>> {
        let Some(object) = object else { return Ok(None) };
        let array = Array::new(object, kind, true)?.ok_or_else(|| {
            PyTypeError::new_err("answers are written to an array, or something else with a buffer")
        })?;
        if array.bytes.getattr("readonly")?.extract::<bool>()? && array.count > 0 {
            return Err(PyValueError::new_err("the array for answers is read-only"));
        }
        match count {
            Some(count) if count != array.count => Err(PyValueError::new_err(format!(
                "the array for answers has room for {}, and there are {count} keys",
                array.count
            ))),
            None => Err(PyTypeError::new_err("answers in an array need keys in an array")),
            _ => Ok(Some(array)),
        }
    }

    fn slice(&self, from: usize, count: usize) -> Bound<'py, PySlice> {
        let at = |row: usize| (row * self.width) as isize;
        PySlice::new(self.bytes.py(), at(from), at(from + count), 1)
    }

    /// A copy of some rows.
    fn read(&self, from: usize, count: usize) -> PyResult<Bound<'py, PyBytes>> {
        let piece = self.bytes.get_item(self.slice(from, count))?;
        Ok(piece.call_method0("tobytes")?.cast_into()?)
    }

    /// What is in some rows, for answers to be put there.
    pub(crate) fn answers(&self, from: usize, count: usize) -> PyResult<Answers> {
        Ok(Answers {
            bytes: self.read(from, count)?.as_bytes().to_vec(),
            width: self.width,
            bad: None,
        })
    }

    /// Writes answers to the rows from this one on.
    pub(crate) fn write(&self, from: usize, answers: &Answers) -> PyResult<()> {
        if let Some((row, bytes)) = answers.bad {
            let text = format!(
                "the value of key {} has {bytes} bytes, and a row of the array {}",
                from + row,
                answers.width
            );
            return Err(PyValueError::new_err(text));
        }
        let count = answers.bytes.len() / self.width;
        let bytes = PyBytes::new(self.bytes.py(), &answers.bytes);
        self.bytes.set_item(self.slice(from, count), bytes)
    }
}

/// Rows that answers are put to.
pub(crate) struct Answers {
    bytes: Vec<u8>,
    width: usize,
    /// The first that did not fit, and its length.
    bad: Option<(usize, usize)>,
}

impl Answers {
    #[inline]
    pub(crate) fn put(&mut self, row: usize, answer: &[u8]) {
        if answer.len() == self.width {
            self.bytes[row * self.width..][..self.width].copy_from_slice(answer);
        } else if self.bad.is_none() {
            self.bad = Some((row, answer.len()));
        }
    }
}
