//! The values of expressions: those of JSON, and instants.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use jiff::Zoned;
use jiff::tz::TimeZone;

use crate::Timestamp;

/// Cheap to clone: large values are shared.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    /// Wide enough for every integer of JSON.
    Int(i128),
    Float(f64),
    Text(Arc<str>),
    List(Arc<[Value]>),
    Map(Arc<BTreeMap<String, Value>>),
    /// An instant with its time zone.
    Instant(Box<Zoned>),
}

/// A computed value, or why there is none.
pub(super) type Made = Result<Value, String>;

impl Value {
    pub fn text(text: impl Into<Arc<str>>) -> Value {
        Value::Text(text.into())
    }

    /// An instant in UTC.
    pub fn instant(instant: Timestamp) -> Value {
        Value::Instant(Box::new(jiff::Timestamp::from(instant).to_zoned(TimeZone::UTC)))
    }

    pub fn map<const N: usize>(entries: [(&str, Value); N]) -> Value {
        Value::Map(Arc::new(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()))
    }

    /// Parses JSON. `None` means that the text is not JSON, or nested too deep.
    pub fn from_json(text: &str) -> Option<Value> {
        serde_json::from_str::<serde_json::Value>(text).ok().map(Value::from)
    }

    /// The kind of the value, for an error.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Int(_) | Value::Float(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
            Value::Instant(_) => "an instant",
        }
    }

    /// The cost of walking the whole value: the number of its values, plus one for every sixteen bytes of text.
    pub(super) fn weight(&self) -> usize {
        match self {
            Value::Text(text) => 1 + text.len() / 16,
            Value::List(items) => 1 + items.iter().map(Value::weight).sum::<usize>(),
            Value::Map(entries) => 1 + entries.values().map(Value::weight).sum::<usize>(),
            _ => 1,
        }
    }

    /// Its truth for `if`, `and`, `or` and `not`: null, zero and empty values are false.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Null => false,
            Value::Bool(value) => *value,
            Value::Int(value) => *value != 0,
            Value::Float(value) => *value != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::List(items) => !items.is_empty(),
            Value::Map(entries) => !entries.is_empty(),
            Value::Instant(_) => true,
        }
    }

    /// Its text in a template: texts unmodified, lists and maps as JSON. `None` for null.
    pub(super) fn to_text(&self) -> Option<Arc<str>> {
        Some(match self {
            Value::Null => return None,
            Value::Text(text) => Arc::clone(text),
            Value::Instant(instant) => told(instant).into(),
            other => other.to_json().to_string().into(),
        })
    }

    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => match (i64::try_from(*value), u64::try_from(*value)) {
                (Ok(value), _) => value.into(),
                (_, Ok(value)) => value.into(),
                _ => (*value as f64).into(),
            },
            Value::Float(value) => (*value).into(),
            Value::Text(text) => text.as_ref().into(),
            Value::List(items) => items.iter().map(Value::to_json).collect(),
            Value::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| (key.clone(), value.to_json()));
                serde_json::Value::Object(entries.collect())
            }
            Value::Instant(instant) => told(instant).into(),
        }
    }
}

pub(super) fn number(value: &Value) -> Result<f64, String> {
    match value {
        Value::Int(number) => Ok(*number as f64),
        Value::Float(number) => Ok(*number),
        other => Err(format!("a number is needed, this is {}", other.kind())),
    }
}

pub(super) fn compare(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Some(left.cmp(right)),
        (Value::Text(left), Value::Text(right)) => Some(left.cmp(right)),
        (Value::Instant(left), Value::Instant(right)) => Some(left.timestamp().cmp(&right.timestamp())),
        _ => number(left).ok()?.partial_cmp(&number(right).ok()?),
    }
}

/// In UTC in the form of every endpoint; else with the offset of its zone.
fn told(instant: &Zoned) -> String {
    if instant.time_zone() == &TimeZone::UTC {
        return Timestamp::from(instant.timestamp()).to_string();
    }
    let mut text = String::new();
    // Writing to a String cannot fail, and these directives are valid.
    let _ = write!(text, "{}", instant.strftime("%Y-%m-%dT%H:%M:%S%:z"));
    text
}

impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Value {
        match json {
            serde_json::Value::Null => Value::Null,
            serde_json::Value::Bool(value) => Value::Bool(value),
            serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
                (Some(value), _) => Value::Int(value.into()),
                (_, Some(value)) => Value::Int(value.into()),
                _ => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
            },
            serde_json::Value::String(text) => Value::text(text),
            serde_json::Value::Array(items) => Value::List(items.into_iter().map(Value::from).collect()),
            serde_json::Value::Object(entries) => {
                let entries = entries.into_iter().map(|(key, value)| (key, Value::from(value)));
                Value::Map(Arc::new(entries.collect()))
            }
        }
    }
}
