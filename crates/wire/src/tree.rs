//! A document as a tree whose nodes know their position.
//!
//! Reading has two steps, text to tree and tree to type, because an error must name its field: the second
//! step knows its path, and every YAML node knows its line. JSON and YAML share the tree, so a job has the
//! same error messages in both. JSON in a file is read as YAML, of which it is a subset; JSON in a request
//! needs no lines and uses a faster parser.

mod from;
mod read;

use serde::de::DeserializeOwned;

use crate::error::{Error, Place};

/// The nesting depth of a document, the same for every endpoint. Sixteen levels of workflows need 68.
pub const DEPTH_MAX: usize = 96;
/// The size of a job file.
pub const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One value of a document, and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    pub place: Option<Place>,
    pub value: Value,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    Map(Vec<(Key, Node)>),
}

/// A key of a map, and its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    pub place: Option<Place>,
    pub text: String,
}

impl Node {
    /// One JSON document.
    pub fn from_json(bytes: &[u8]) -> Result<Node, Error> {
        read::json(bytes)
    }

    /// Every document of a YAML or JSON file; empty documents are left out.
    pub fn from_yaml(text: &str) -> Result<Vec<Node>, Error> {
        read::yaml(text)
    }

    /// The parameters of a query: every value is text. Those in `repeated` may be given several times and are lists then.
    pub fn from_pairs(pairs: Vec<(String, String)>, repeated: &[&str]) -> Result<Node, Error> {
        read::pairs(pairs, repeated)
    }

    /// Reads the tree as a type.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, Error> {
        T::deserialize(self)
    }

    /// Removes keys of a map; missing keys are ignored.
    pub fn remove(&mut self, keys: &[&str]) {
        if let Value::Map(entries) = &mut self.value {
            entries.retain(|(key, _)| !keys.contains(&key.text.as_str()));
        }
    }

    /// The position of a field; if it is missing, that of its nearest parent.
    pub fn place_of(&self, field: &str) -> Option<Place> {
        let mut node = self;
        for segment in field.split(['.', '[']).filter(|segment| !segment.is_empty()) {
            let child = match &node.value {
                Value::Map(entries) => {
                    entries.iter().find(|(key, _)| key.text == segment).map(|(_, child)| child)
                }
                Value::List(items) => {
                    segment.trim_end_matches(']').parse::<usize>().ok().and_then(|index| items.get(index))
                }
                _ => None,
            };
            match child {
                Some(child) => node = child,
                None => break,
            }
        }
        node.place
    }

    fn depth(&self) -> usize {
        match &self.value {
            Value::List(items) => 1 + items.iter().map(Node::depth).max().unwrap_or(0),
            Value::Map(entries) => 1 + entries.iter().map(|(_, child)| child.depth()).max().unwrap_or(0),
            _ => 0,
        }
    }
}

/// Reads one JSON document as a type; used for every request body.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    Node::from_json(bytes)?.to()
}
