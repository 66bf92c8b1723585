//! Keys and values as text, for programs that know their types at run time only.
//!
//! Integers and floats are decimal, `bool` is `true` or `false`, `char` and `str` are UTF-8; bytes and arrays
//! stand for themselves. The parts of a tuple have commas between them. Of a value of a cache the text has the time at
//! which it expires before it, in milliseconds since 1970; no text is one, nor an object of Python, which is shown as its bytes.

use durahash_media::{ErrorKind, Result};

use super::data::{Data, Object, Type, no_value, with_type};

trait Text: Data {
    /// The bytes in a record of what `text` says.
    fn parse(text: &[u8]) -> Option<Vec<u8>>;
    /// The text of a value.
    fn show(value: &Self::Ref) -> Vec<u8>;
}

macro_rules! displayed {
    ($($ty:ident)*) => {$(
        impl Text for $ty {
            fn parse(text: &[u8]) -> Option<Vec<u8>> {
                let v: $ty = str::from_utf8(text).ok()?.parse().ok()?;
                Some($ty::bytes(&v, &mut Default::default()).to_vec())
            }
            fn show(value: &$ty) -> Vec<u8> {
                value.to_string().into_bytes()
            }
        }
    )*};
}

displayed!(bool char u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

impl Text for [u8] {
    fn parse(text: &[u8]) -> Option<Vec<u8>> {
        Some(text.to_vec())
    }
    fn show(value: &[u8]) -> Vec<u8> {
        value.to_vec()
    }
}

impl Text for Object {
    fn parse(_: &[u8]) -> Option<Vec<u8>> {
        None
    }
    fn show(value: &[u8]) -> Vec<u8> {
        value.to_vec()
    }
}

impl Text for str {
    fn parse(text: &[u8]) -> Option<Vec<u8>> {
        str::from_utf8(text).ok().map(|text| text.as_bytes().to_vec())
    }
    fn show(value: &str) -> Vec<u8> {
        value.as_bytes().to_vec()
    }
}

/// The longest part of a text that an error repeats.
const SHOWN_BYTES: usize = 64;

impl Type {
    /// The bytes in a record of the value that `text` names.
    pub(crate) fn parse(self, text: &[u8]) -> Result<Vec<u8>> {
        let parsed = with_type!(self, T => <T as Text>::parse(text),
            array bytes => (text.len() == bytes as usize).then(|| text.to_vec()),
            tuple => self.parse_tuple(text),
            expiring _of => None);
        parsed.ok_or_else(|| {
            let shown = &text[..text.len().min(SHOWN_BYTES)];
            let text = String::from_utf8_lossy(shown).into_owned();
            ErrorKind::Text { text, wanted: self.to_string() }.into()
        })
    }

    /// The text of a value's bytes.
    pub(crate) fn show(self, bytes: Vec<u8>) -> Result<Vec<u8>> {
        let shown = with_type!(self, T => T::with(&bytes, T::show),
        array n => (bytes.len() == n as usize).then_some(bytes),
        tuple => self.parts(&bytes).and_then(|parts| {
            let texts = parts.iter().map(|(ty, part)| ty.show(part.to_vec()));
            Some(texts.collect::<Result<Vec<_>>>().ok()?.join(&b','))
        }),
        expiring of => of.parts(&bytes).and_then(|(expiry, value)| {
            let value = of.value_type().show(value.to_vec()).ok()?;
            Some([expiry.to_string().as_bytes(), b",", &value].concat())
        }));
        shown.ok_or_else(no_value)
    }

    /// The same of a tuple. An array takes as many bytes as it has and a `char` as many as its first one says, so
    /// that either may be a comma.
    fn parse_tuple(self, text: &[u8]) -> Option<Vec<u8>> {
        let Type::Tuple(tuple) = self else { return None };
        let (mut rest, mut out) = (text, Vec::new());
        for (i, ty) in tuple.types().enumerate() {
            if i > 0 {
                rest = rest.strip_prefix(b",")?;
            }
            let bytes = match ty {
                Type::Array(bytes) => bytes as usize,
                Type::Char => (rest.first()?.leading_ones() as usize).max(1),
                _ => rest.iter().position(|b| *b == b',').unwrap_or(rest.len()),
            };
            let (own, after) = rest.split_at_checked(bytes)?;
            out.extend(ty.parse(own).ok()?);
            rest = after;
        }
        rest.is_empty().then_some(out)
    }

    /// The bytes of a value's word.
    pub(crate) fn unword(self, word: u64) -> Result<Vec<u8>> {
        match self.fixed_bytes() {
            Some(bytes) if self.has_word(word) => Ok(word.to_le_bytes()[..bytes].to_vec()),
            _ => Err(no_value()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_and_others_are_refused() {
        let cases: [(Type, &[&str], &[&str]); 11] = [
            (
                Type::U64,
                &["0", "18446744073709551615"],
                &["", "-1", "x", "1 ", "18446744073709551616"],
            ),
            (Type::I8, &["-128", "127"], &["128", "1.0"]),
            (Type::I128, &["-170141183460469231731687303715884105728"], &["--1"]),
            (Type::Bool, &["true", "false"], &["1", "True"]),
            (Type::Char, &["x", "é"], &["", "xy"]),
            (Type::Array(3), &["abc"], &["ab", "abcd"]),
            (Type::F64, &["0.5", "-0", "inf", "NaN"], &["", "x"]),
            (
                <(i8, char, [u8; 2])>::TYPE,
                &["-1,,,,,", "7,é,ab"],
                &["", "1", "1,a", "1,a,abc", "300,a,ab", "1,a,ab,"],
            ),
            (<(u64, u64)>::TYPE, &["1,2"], &["1,2,3", "1, 2"]),
            (Type::Str, &["", "text"], &[]),
            (Type::Bytes, &["", "bytes"], &[]),
        ];
        for (ty, good, bad) in cases {
            for text in good {
                let bytes = ty.parse(text.as_bytes()).unwrap();
                if ty.is_word() {
                    assert_eq!(ty.unword(Type::word(&bytes)).unwrap(), bytes);
                }
                assert_eq!(ty.show(bytes).unwrap(), text.as_bytes());
            }
            for text in bad {
                let e = ty.parse(text.as_bytes()).unwrap_err();
                assert_eq!(e.to_string(), format!("{text:?} is not a valid {ty}"));
            }
        }
        assert!(Type::Str.parse(&[0xff]).is_err());
        assert_eq!(Type::I64.unword(u64::MAX).and_then(|b| Type::I64.show(b)).unwrap(), b"-1");
    }
}
