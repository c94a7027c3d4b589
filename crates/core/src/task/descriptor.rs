//! Descriptor sets: schemas of gRPC services that are stored by name, for servers that do not tell their own.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::Timestamp;
use crate::name::{Name, Namespace};

/// A stored descriptor set, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descriptor {
    pub namespace: Namespace,
    pub name: Name,
    /// No other descriptor set of the store ever had it.
    pub version: u32,
    pub updated_at: Timestamp,
    /// Its size.
    pub bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDescriptor {
    pub about: Descriptor,
    /// A `google.protobuf.FileDescriptorSet`.
    pub set: Arc<[u8]>,
}

/// The descriptor set that a task names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedDescriptor {
    pub name: Name,
    /// `None` until the task is saved.
    pub carried: Option<CarriedSchema>,
}

/// The part of a descriptor set that a task needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CarriedSchema {
    /// The version that it is from.
    pub version: u32,
    /// A `google.protobuf.FileDescriptorSet`.
    #[serde(serialize_with = "write", deserialize_with = "read")]
    pub set: Arc<[u8]>,
}

fn write<S: Serializer>(set: &Arc<[u8]>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&STANDARD.encode(set))
}

fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<[u8]>, D::Error> {
    let text = String::deserialize(deserializer)?;
    STANDARD.decode(text).map(Arc::from).map_err(de::Error::custom)
}
