//! A document as a tree whose parts know where they stand.
//!
//! Reading goes in two steps, text to tree and tree to type, because an error must name its field: the second step
//! knows the path it took, and every node of YAML knows its line. JSON and YAML meet here, so that one job form
//! has one set of messages. JSON in a file is read as YAML, which it is; JSON in a request has no lines to
//! speak of and goes the faster way.

mod from;
mod read;

use serde::de::DeserializeOwned;

use crate::error::{Error, Place};

/// Levels of a document, as promised for every surface.
pub const DEPTH_MAX: usize = 64;
/// Bytes of a file with jobs.
pub const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One value of a document, and where it begins.
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

/// A key of a map, and where it stands.
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

    /// Every document of a YAML or JSON file; empty ones are left out.
    pub fn from_yaml(text: &str) -> Result<Vec<Node>, Error> {
        read::yaml(text)
    }

    /// The words of a query: every value is text.
    pub fn from_pairs(pairs: Vec<(String, String)>) -> Result<Node, Error> {
        read::pairs(pairs)
    }

    /// Reads the tree as a type.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T, Error> {
        T::deserialize(self)
    }

    /// Removes keys of a map and says nothing if they are not there.
    pub fn remove(&mut self, keys: &[&str]) {
        if let Value::Map(entries) = &mut self.value {
            entries.retain(|(key, _)| !keys.contains(&key.text.as_str()));
        }
    }

    /// Where a field stands; if it is missing, where its nearest parent does.
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

/// Reads one JSON document as a type: what every request body goes through.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Error> {
    Node::from_json(bytes)?.to()
}
