//! A field that is one map, or a list of such maps.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::error::Error;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    One(Box<T>),
    Many(Vec<T>),
}

/// An entry of such a field.
pub trait Entry {
    /// An example of an entry, for error messages.
    const EXAMPLE: &str;
}

impl<T> OneOrMany<T> {
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one),
            OneOrMany::Many(many) => many,
        }
    }

    /// One entry is written as a map. `None` means that there are none.
    pub(super) fn of(mut entries: Vec<T>) -> Option<Self> {
        match entries.len() {
            0 => None,
            1 => entries.pop().map(Box::new).map(OneOrMany::One),
            _ => Some(OneOrMany::Many(entries)),
        }
    }

    /// Converts the entries. Errors name the entry, as `field` or `field[2]`.
    pub(super) fn convert<U>(
        self,
        field: &str,
        convert: impl Fn(T) -> Result<U, Error>,
    ) -> Result<Vec<U>, Error> {
        match self {
            OneOrMany::One(one) => Ok(vec![convert(*one).map_err(|error| error.under(field))?]),
            OneOrMany::Many(many) => {
                let one = |(index, entry)| {
                    convert(entry).map_err(|error| error.under(&format!("{field}[{index}]")))
                };
                many.into_iter().enumerate().map(one).collect()
            }
        }
    }
}

/// Written by hand, because an untagged enum would lose the position of an error.
impl<'de, T: Deserialize<'de> + Entry> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrManyVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de> + Entry> Visitor<'de> for OneOrManyVisitor<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a map like {} or a list of such maps", T::EXAMPLE)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMany<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Box::new).map(OneOrMany::One)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<OneOrMany<T>, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(list)).map(OneOrMany::Many)
            }
        }
        deserializer.deserialize_any(OneOrManyVisitor(PhantomData))
    }
}
