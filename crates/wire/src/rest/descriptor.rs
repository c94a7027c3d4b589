//! A descriptor set: the schema of gRPC services.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use punctual_core::name::{Name, Namespace};
use punctual_core::task as rule;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::error::Error;
use crate::schema;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Descriptor {
    #[schema(value_type = schema::Namespace)]
    pub namespace: Namespace,
    #[schema(value_type = schema::Name)]
    pub name: Name,
    /// Grows with every edit; also the tag that `If-Match` takes back.
    pub version: u32,
    pub updated_at: Instant,
    /// Its size.
    pub bytes: usize,
    /// Its services. A listing leaves them out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<Vec<Service>>,
    /// The set itself, as it was put. A listing leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_base64: Option<String>,
}

/// A service of a descriptor set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Service {
    /// With its package.
    pub name: String,
    /// The unary methods, which a task may call.
    pub methods: Vec<String>,
}

/// A descriptor set to put.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { \"set_base64\": \"…\" }")]
pub struct PutDescriptor {
    /// A `google.protobuf.FileDescriptorSet` with all imports, as base64.
    pub set_base64: String,
}

impl From<rule::Descriptor> for Descriptor {
    fn from(about: rule::Descriptor) -> Self {
        let rule::Descriptor { namespace, name, version, updated_at, bytes } = about;
        let updated_at = Text(updated_at);
        Descriptor { namespace, name, version, updated_at, bytes, services: None, set_base64: None }
    }
}

impl From<rule::StoredDescriptor> for Descriptor {
    fn from(stored: rule::StoredDescriptor) -> Self {
        // It was readable when it was put.
        let services = rule::Schema::decode(&stored.set).map(|schema| schema.services()).unwrap_or_default();
        let services = services.into_iter().map(|(name, methods)| Service { name, methods });
        Descriptor {
            services: Some(services.collect()),
            set_base64: Some(STANDARD.encode(&stored.set)),
            ..Descriptor::from(stored.about)
        }
    }
}

impl PutDescriptor {
    pub fn of(set: &[u8]) -> PutDescriptor {
        PutDescriptor { set_base64: STANDARD.encode(set) }
    }

    pub fn set(&self) -> Result<Vec<u8>, Error> {
        STANDARD
            .decode(&self.set_base64)
            .map_err(|error| Error::invalid("set_base64", format!("is no base64: {error}")))
    }
}
