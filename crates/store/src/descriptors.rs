//! Schemas of gRPC services, stored by name. Jobs carry a copy of what they use, so a change concerns only later saves.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::command::Expect;
use punctual_core::name::{Name, Namespace};
use punctual_core::task::{Descriptor, StoredDescriptor};

use crate::{Result, Swap};

#[async_trait]
pub trait Descriptors: Send + Sync + fmt::Debug {
    /// Puts a descriptor set if `expect` holds for the stored one. It gets a version that no descriptor set and no
    /// calendar of this store ever had. Durable when it returns.
    async fn put_descriptor(&self, put: PutDescriptor) -> Result<Swap<Descriptor>>;

    /// Removes a descriptor set if `expect` holds for it. Durable when it returns.
    async fn delete_descriptor(
        &self,
        namespace: &Namespace,
        name: &Name,
        expect: Expect,
    ) -> Result<Swap<Descriptor>>;

    async fn descriptor(&self, namespace: &Namespace, name: &Name) -> Result<Option<StoredDescriptor>>;

    /// The descriptor sets of a namespace in order of their names, after the given one. Their bytes are left out, for
    /// they can be large.
    async fn descriptors(
        &self,
        namespace: &Namespace,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<Descriptor>>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutDescriptor {
    pub namespace: Namespace,
    pub name: Name,
    /// A `google.protobuf.FileDescriptorSet`.
    pub set: Arc<[u8]>,
    pub at: Timestamp,
    pub expect: Expect,
}

impl PutDescriptor {
    /// The descriptor set as it is stored under this version.
    pub(crate) fn stored(self, version: u32) -> StoredDescriptor {
        let PutDescriptor { namespace, name, set, at, .. } = self;
        StoredDescriptor {
            about: Descriptor { namespace, name, version, updated_at: at, bytes: set.len() },
            set,
        }
    }
}
