//! Text to tree.

use std::collections::HashSet;
use std::fmt;
use std::marker::PhantomData;
use std::thread;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};

use super::{DEPTH_MAX, FILE_BYTES_MAX, Key, Node, Value};
use crate::error::{Error, Place};

/// The stack for the deepest document. A YAML level takes up to 40 KiB in a debug build, and a runtime thread
/// has 2 MiB.
const YAML_STACK_BYTES: usize = 16 * 1024 * 1024;

pub(super) fn json(bytes: &[u8]) -> Result<Node, Error> {
    let plain: Plain = serde_json::from_slice(bytes).map_err(|error| {
        let place = Place { line: narrow(error.line() as u64), column: narrow(error.column() as u64) };
        Error::malformed(without_place(&error.to_string()), Some(place))
    })?;
    if plain.0.depth() > DEPTH_MAX {
        return Err(Error::malformed(format!("nested deeper than {DEPTH_MAX} levels"), None));
    }
    Ok(plain.0)
}

pub(super) fn yaml(text: &str) -> Result<Vec<Node>, Error> {
    if text.len() > FILE_BYTES_MAX {
        let message = format!("at most {} MiB a file", FILE_BYTES_MAX / (1024 * 1024));
        return Err(Error::malformed(message, None));
    }
    // A thread with its own stack, because a stack overflow would end the process.
    thread::scope(|scope| {
        let reading =
            thread::Builder::new().stack_size(YAML_STACK_BYTES).spawn_scoped(scope, || read_yaml(text));
        let unread = |_| Error::malformed("cannot be read now; try again", None);
        reading.map_err(|_| unread(()))?.join().unwrap_or_else(|_| Err(unread(())))
    })
}

fn read_yaml(text: &str) -> Result<Vec<Node>, Error> {
    let options = serde_saphyr::options! {
        // `on`, `yes` and `no` are strings, as in YAML 1.2.
        strict_booleans: true,
        with_snippet: false,
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: 10_000 },
        budget: serde_saphyr::budget! { max_depth: DEPTH_MAX, max_documents: 10_000 },
    };
    let documents: Vec<Placed> =
        serde_saphyr::from_multiple_with_options(text, options).map_err(|error| {
            let place = error.location().and_then(place_of);
            Error::malformed(with_hint(without_place(&error.to_string())), place)
        })?;
    Ok(documents.into_iter().map(|document| document.0).collect())
}

pub(super) fn pairs(pairs: Vec<(String, String)>, repeated: &[&str]) -> Result<Node, Error> {
    let mut entries: Vec<(Key, Node)> = Vec::new();
    for (text, value) in pairs {
        let value = Node { place: None, value: Value::Text(value) };
        match entries.iter_mut().find(|(key, _)| key.text == text) {
            None => entries.push((Key { place: None, text }, value)),
            Some((_, known)) if repeated.contains(&text.as_str()) => match &mut known.value {
                Value::List(values) => values.push(value),
                _ => {
                    let first = std::mem::replace(&mut known.value, Value::Null);
                    known.value = Value::List(vec![Node { place: None, value: first }, value]);
                }
            },
            Some(_) => return Err(Error::invalid(text, "is given twice")),
        }
    }
    Ok(Node { place: None, value: Value::Map(entries) })
}

/// Removes the position, which is shown separately in one form for every error.
fn without_place(message: &str) -> String {
    let end = message.rfind(" at line ").unwrap_or(message.len());
    message[..end].to_owned()
}

/// Adds a hint for the most common YAML mistake: a value that begins with a special character.
fn with_hint(message: String) -> String {
    let sign = ["anchor or alias", "unexpected character: `@", "unexpected character: `%", "unknown anchor"];
    if sign.iter().any(|sign| message.contains(sign)) {
        format!("{message}; put a value that begins with * & @ or % in quotes")
    } else if message.starts_with("duplicate mapping key") {
        let key = message.trim_start_matches("duplicate mapping key: ").split(", set ").next();
        format!("the key `{}` is given twice", key.unwrap_or_default())
    } else {
        message
    }
}

fn place_of(location: Location) -> Option<Place> {
    let place = Place { line: narrow(location.line()), column: narrow(location.column()) };
    (place.line > 0).then_some(place)
}

fn narrow(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A node without a position.
struct Plain(Node);
/// A node with a position.
struct Placed(Node);

/// How a format provides nodes and keys.
trait Source<'de>: Deserialize<'de> {
    type Key: Deserialize<'de>;

    fn node(self) -> Node;
    fn key(key: Self::Key) -> Key;
}

impl<'de> Source<'de> for Plain {
    type Key = String;

    fn node(self) -> Node {
        self.0
    }

    fn key(text: String) -> Key {
        Key { place: None, text }
    }
}

impl<'de> Source<'de> for Placed {
    type Key = Spanned<String>;

    fn node(self) -> Node {
        self.0
    }

    fn key(key: Spanned<String>) -> Key {
        Key { place: place_of(key.referenced), text: key.value }
    }
}

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_any(ValueVisitor::<Plain>(PhantomData))?;
        Ok(Plain(Node { place: None, value }))
    }
}

impl<'de> Deserialize<'de> for Placed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<PlacedValue>::deserialize(deserializer)?;
        Ok(Placed(Node { place: place_of(spanned.referenced), value: spanned.value.0 }))
    }
}

struct PlacedValue(Value);

impl<'de> Deserialize<'de> for PlacedValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor::<Placed>(PhantomData)).map(PlacedValue)
    }
}

struct ValueVisitor<S>(PhantomData<S>);

impl<'de, S: Source<'de>> Visitor<'de> for ValueVisitor<S> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(u64::try_from(value).map_or(Value::Signed(value), Value::Unsigned))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Unsigned(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element::<S>()? {
            list.push(item.node());
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut seen = HashSet::new();
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<S::Key>()? {
            let key = S::key(key);
            // A duplicate key is an error, because the intended value is unknown.
            if !seen.insert(key.text.clone()) {
                return Err(de::Error::custom(format!("the key `{}` is given twice", key.text)));
            }
            map.push((key, entries.next_value::<S>()?.node()));
        }
        Ok(Value::Map(map))
    }
}
