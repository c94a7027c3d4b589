//! Tree to type: a deserializer that tracks the path.

use std::fmt;

use serde::de::{
    self, Deserializer, EnumAccess, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::{Key, Node, Value};
use crate::error::{Error, Place};

/// Bytes of user input that an error repeats.
const ECHO_MAX: usize = 60;

/// Adds a path segment to an error; the innermost node sets the position.
fn outwards(error: Error, segment: &str, place: Option<Place>) -> Error {
    Error { place: error.place.or(place), ..error.under(&cut(segment)) }
}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Error::invalid("", message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let expected = wanted(expected);
        let bare = matches!(
            found,
            Unexpected::Bool(_) | Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_)
        );
        let hint = if bare && expected == "a string" { "; put it in quotes" } else { "" };
        Error::invalid("", format!("expected {expected}, found {}{hint}", shown(found)))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        <Error as de::Error>::invalid_type(found, expected)
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Error::invalid("", format!("unknown field; {}", nearest(field, known)))
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        let word = cut(word);
        Error::invalid("", format!("`{word}` is not known; {}", nearest(&word, known)))
    }

    fn missing_field(field: &'static str) -> Self {
        Error::invalid(field, "this field is needed")
    }
}

fn cut(text: &str) -> String {
    text.chars().take(ECHO_MAX).collect()
}

/// Replaces Rust's names of types by plain words.
fn wanted(expected: &dyn Expected) -> String {
    match expected.to_string().as_str() {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative".to_owned(),
        "i32" | "i64" => "a whole number".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a boolean" => "true or false".to_owned(),
        other => other.to_owned(),
    }
}

fn shown(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => format!("`{value}`"),
        Unexpected::Unsigned(value) => format!("the number {value}"),
        Unexpected::Signed(value) => format!("the number {value}"),
        Unexpected::Float(value) => format!("the number {value}"),
        Unexpected::Str(text) if text.len() <= ECHO_MAX => format!("`{text}`"),
        Unexpected::Str(_) => "a long string".to_owned(),
        Unexpected::Unit => "nothing".to_owned(),
        Unexpected::Seq => "a list".to_owned(),
        Unexpected::Map => "a map".to_owned(),
        other => other.to_string(),
    }
}

fn nearest(word: &str, known: &[&str]) -> String {
    let near = known.iter().map(|name| (distance(word, name), *name)).min().filter(|(far, _)| *far <= 2);
    match near {
        Some((_, name)) => format!("did you mean `{name}`?"),
        None if known.is_empty() => "this map must be empty".to_owned(),
        None => format!("known are {}", known.join(", ")),
    }
}

/// The edit distance of two words; words of very different length count as far.
fn distance(left: &str, right: &str) -> usize {
    if left.len().abs_diff(right.len()) > 2 {
        return usize::MAX;
    }
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

impl Node {
    fn unexpected(&self) -> Unexpected<'_> {
        match &self.value {
            Value::Null => Unexpected::Unit,
            Value::Bool(value) => Unexpected::Bool(*value),
            Value::Signed(value) => Unexpected::Signed(*value),
            Value::Unsigned(value) => Unexpected::Unsigned(*value),
            Value::Float(value) => Unexpected::Float(*value),
            Value::Text(text) => Unexpected::Str(text),
            Value::List(_) => Unexpected::Seq,
            Value::Map(_) => Unexpected::Map,
        }
    }

    fn visit<'de, V: Visitor<'de>>(&'de self, visitor: V) -> Result<V::Value, Error> {
        match &self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Signed(value) => visitor.visit_i64(*value),
            Value::Unsigned(value) => visitor.visit_u64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(text) => visitor.visit_borrowed_str(text),
            Value::List(items) => visitor.visit_seq(Items { rest: items.iter().enumerate() }),
            Value::Map(entries) => visitor.visit_map(Entries { rest: entries.iter(), current: None }),
        }
    }

    /// Sets the position of an error to this node, unless an inner node has set it.
    fn here<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        result.map_err(|error| outwards(error, "", self.place))
    }
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.here(self.visit(visitor))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    /// Refuses a list for a struct, which serde would fill by position.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.here(match self.value {
            Value::Map(_) => self.visit(visitor),
            _ => Err(de::Error::invalid_type(self.unexpected(), &visitor)),
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.here(match &self.value {
            Value::Text(word) => visitor.visit_enum(Word(word)),
            _ => {
                let known = format!("one of {}", known.join(", "));
                Err(de::Error::invalid_type(self.unexpected(), &known.as_str()))
            }
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'de> {
    rest: std::iter::Enumerate<std::slice::Iter<'de, Node>>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some((index, node)) = self.rest.next() else { return Ok(None) };
        seed.deserialize(node).map(Some).map_err(|error| outwards(error, &format!("[{index}]"), node.place))
    }
}

struct Entries<'de> {
    rest: std::slice::Iter<'de, (Key, Node)>,
    current: Option<&'de (Key, Node)>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = Error;

    fn next_key_seed<K: de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        self.current = self.rest.next();
        let Some((key, _)) = self.current else { return Ok(None) };
        seed.deserialize(key.text.as_str().into_deserializer())
            .map(Some)
            .map_err(|error| outwards(error, &key.text, key.place))
    }

    fn next_value_seed<V: de::DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some((key, node)) = self.current else {
            return Err(de::Error::custom("a value without its key"));
        };
        seed.deserialize(node).map_err(|error| outwards(error, &key.text, node.place))
    }
}

/// A word that names an enum variant.
struct Word<'de>(&'de str);

impl<'de> EnumAccess<'de> for Word<'de> {
    type Error = Error;
    type Variant = Nothing;

    fn variant_seed<V: de::DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Nothing), Error> {
        seed.deserialize(self.0.into_deserializer()).map(|variant| (variant, Nothing))
    }
}

/// The enum variants here are plain words without data.
struct Nothing;

impl<'de> de::VariantAccess<'de> for Nothing {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: de::DeserializeSeed<'de>>(self, _: T) -> Result<T::Value, Error> {
        Err(de::Error::custom("a word alone is not enough here"))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Error> {
        Err(de::Error::custom("a word alone is not enough here"))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Error> {
        Err(de::Error::custom("a word alone is not enough here"))
    }
}
