//! Saved JSON, read field by field, with errors that say which one is wrong.

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// An object of saved JSON, and what it is called in errors.
pub(crate) struct Object<'a> {
    fields: &'a Map<String, Value>,
    name: &'static str,
}

impl<'a> Object<'a> {
    pub(crate) fn of(value: &'a Value, name: &'static str) -> Result<Self> {
        let fields = value
            .as_object()
            .ok_or_else(|| Error::Report { what: format!("{name} is not an object") })?;
        Ok(Object { fields, name })
    }

    pub(crate) fn wrong(&self, field: &str, kind: &str) -> Error {
        Error::Report { what: format!("{} of {} is not {kind}", field, self.name) }
    }

    pub(crate) fn get(&self, field: &str) -> Result<&'a Value> {
        self.fields
            .get(field)
            .ok_or_else(|| Error::Report { what: format!("{} has no {field}", self.name) })
    }

    pub(crate) fn text(&self, field: &str) -> Result<String> {
        let text = self.get(field)?.as_str();
        Ok(text.ok_or_else(|| self.wrong(field, "a text"))?.to_owned())
    }

    pub(crate) fn text_or_null(&self, field: &str) -> Result<Option<String>> {
        match self.get(field)? {
            Value::Null => Ok(None),
            _ => self.text(field).map(Some),
        }
    }

    pub(crate) fn count(&self, field: &str) -> Result<u64> {
        let count = self.get(field)?.as_u64();
        count.ok_or_else(|| self.wrong(field, "a count"))
    }

    pub(crate) fn number(&self, field: &str) -> Result<f64> {
        let number = self.get(field)?.as_f64();
        number.ok_or_else(|| self.wrong(field, "a number"))
    }

    pub(crate) fn texts(&self, field: &str) -> Result<Vec<String>> {
        self.list(field, |value| value.as_str().map(str::to_owned))
    }

    pub(crate) fn counts(&self, field: &str) -> Result<Vec<u64>> {
        self.list(field, Value::as_u64)
    }

    fn list<T>(&self, field: &str, item: impl Fn(&Value) -> Option<T>) -> Result<Vec<T>> {
        let items = self.get(field)?.as_array();
        items
            .and_then(|items| items.iter().map(item).collect())
            .ok_or_else(|| self.wrong(field, "a list of such"))
    }
}

/// A type as a JSON object and back: its name in errors; its fields, in order; and the method of
/// [`Object`] that reads each.
macro_rules! saved {
    ($Type:ident, $name:literal { $($field:ident: $read:ident),* $(,)? }) => {
        impl $Type {
            pub(crate) fn to_value(&self) -> serde_json::Value {
                serde_json::json!({ $(stringify!($field): self.$field),* })
            }

            pub(crate) fn from_value(value: &serde_json::Value) -> crate::error::Result<Self> {
                let object = crate::json::Object::of(value, $name)?;
                Ok($Type { $($field: object.$read(stringify!($field))?),* })
            }
        }
    };
}

pub(crate) use saved;
