//! Values of columns and parameters, and the columns of a row, the same for every database.

use std::borrow::Cow;

use punctual_core::Timestamp;

use crate::{Result, codec};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value<'a> {
    Null,
    /// Also a boolean, as 0 or 1, and an instant, in milliseconds.
    Int(i64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

macro_rules! from_number {
    ($($number:ty),*) => {
        $(impl From<$number> for Value<'_> {
            fn from(number: $number) -> Self {
                Value::Int(i64::from(number))
            }
        })*
    };
}

from_number!(i64, u32, u16, u8, bool);

impl From<u64> for Value<'_> {
    fn from(number: u64) -> Self {
        Value::Int(number.cast_signed())
    }
}

/// A limit of rows.
impl From<usize> for Value<'_> {
    fn from(number: usize) -> Self {
        Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<Timestamp> for Value<'_> {
    fn from(instant: Timestamp) -> Self {
        Value::Int(instant.as_millis())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Value::Text(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Value::Text(Cow::Owned(text))
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Value::Bytes(Cow::Borrowed(bytes))
    }
}

impl From<Vec<u8>> for Value<'_> {
    fn from(bytes: Vec<u8>) -> Self {
        Value::Bytes(Cow::Owned(bytes))
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

/// The columns of one row of an answer.
pub(crate) trait Row {
    fn int_or_none(&self, column: usize) -> Result<Option<i64>>;

    /// Text or bytes.
    fn bytes_or_none(&self, column: usize) -> Result<Option<&[u8]>>;
}

impl dyn Row + '_ {
    pub(crate) fn int(&self, column: usize) -> Result<i64> {
        self.int_or_none(column)?.ok_or_else(|| is_null(column))
    }

    /// A number that is narrower here than in the database.
    pub(crate) fn number<T: TryFrom<i64, Error: std::fmt::Display>>(&self, column: usize) -> Result<T> {
        self.int(column)?.try_into().map_err(|error| codec::cannot_read(&error))
    }

    pub(crate) fn flag(&self, column: usize) -> Result<bool> {
        Ok(self.int(column)? != 0)
    }

    pub(crate) fn instant(&self, column: usize) -> Result<Timestamp> {
        self.int(column).map(Timestamp::from_millis)
    }

    pub(crate) fn instant_or_none(&self, column: usize) -> Result<Option<Timestamp>> {
        Ok(self.int_or_none(column)?.map(Timestamp::from_millis))
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<&[u8]> {
        self.bytes_or_none(column)?.ok_or_else(|| is_null(column))
    }

    pub(crate) fn text(&self, column: usize) -> Result<&str> {
        text(self.bytes(column)?)
    }

    pub(crate) fn text_or_none(&self, column: usize) -> Result<Option<&str>> {
        self.bytes_or_none(column)?.map(text).transpose()
    }

    pub(crate) fn name<T: std::str::FromStr<Err: std::fmt::Display>>(&self, column: usize) -> Result<T> {
        parsed(self.text(column)?)
    }

    pub(crate) fn name_or_none<T: std::str::FromStr<Err: std::fmt::Display>>(
        &self,
        column: usize,
    ) -> Result<Option<T>> {
        self.text_or_none(column)?.map(parsed).transpose()
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|error| codec::cannot_read(&error))
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T> {
    text.parse().map_err(|error| codec::cannot_read(&error))
}

fn is_null(column: usize) -> crate::Error {
    codec::cannot_read(&format!("column {column} is null"))
}
