//! The part of a handle that concerns descriptor sets: stores them, and gives a job the schema that it names.
//!
//! A job carries the part of the set that its method needs, as it was when the job was saved. So a run never sees half
//! a change, workers need no store, and a set can be deleted while jobs use it.

use std::sync::Arc;

use punctual_core::command::{Command, Expect, Made, PutJob, Refusal, Submit};
use punctual_core::job::{Definition, Invalid};
use punctual_core::limits::DESCRIPTOR_BYTES_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::task::{Descriptor, Schema, StoredDescriptor, Task};
use punctual_store::{PutDescriptor, Swap};

use crate::failure::Failure;
use crate::handle::Handle;

/// The field of a request that has the set.
const SET: &str = "set_base64";

impl Handle {
    /// Puts a `google.protobuf.FileDescriptorSet` with all its imports.
    pub async fn put_descriptor(
        &self,
        namespace: Namespace,
        name: Name,
        set: Vec<u8>,
        expect: Expect,
    ) -> Result<(Descriptor, Made), Failure> {
        if set.len() > DESCRIPTOR_BYTES_MAX {
            return Err(refuse(SET, format!("at most {DESCRIPTOR_BYTES_MAX} bytes before base64")));
        }
        let schema = Schema::decode(&set).map_err(|why| refuse(SET, unusable(&why)))?;
        if schema.services().is_empty() {
            return Err(refuse(SET, "has no service; compile the file that declares it"));
        }
        let there = self.store.descriptor(&namespace, &name).await?;
        let may_stay = |version: u32| match expect {
            Expect::Anything => true,
            Expect::Revision(expected) => expected == version,
            Expect::Absent => false,
        };
        if let Some(StoredDescriptor { about, set: known }) = &there
            && **known == *set
            && may_stay(about.version)
        {
            return Ok((about.clone(), Made::Unchanged));
        }
        let at = self.clock.now();
        let put =
            PutDescriptor { namespace: namespace.clone(), name: name.clone(), set: set.into(), at, expect };
        match self.store.put_descriptor(put).await? {
            Swap::Done(about) => Ok((about, if there.is_some() { Made::Changed } else { Made::Created })),
            Swap::Refused { actual } => Err(refused(expect, actual, namespace, name)),
        }
    }

    /// Removes a descriptor set. Jobs that carry a part of it keep it.
    pub async fn delete_descriptor(
        &self,
        namespace: Namespace,
        name: Name,
        expect: Expect,
    ) -> Result<(), Failure> {
        match self.store.delete_descriptor(&namespace, &name, expect).await? {
            Swap::Done(_) => Ok(()),
            Swap::Refused { actual } => Err(refused(expect, actual, namespace, name)),
        }
    }

    pub async fn descriptor(&self, namespace: Namespace, name: Name) -> Result<StoredDescriptor, Failure> {
        let stored = self.store.descriptor(&namespace, &name).await?;
        stored.ok_or_else(|| Refusal::NoSuchDescriptor { namespace, name }.into())
    }

    /// The descriptor sets of a namespace by name, after the given one.
    pub async fn descriptors(
        &self,
        namespace: &Namespace,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<Descriptor>, Failure> {
        Ok(self.store.descriptors(namespace, after, limit).await?)
    }

    /// Adds the schema to a command that saves a task which names a descriptor set.
    pub(crate) async fn look_up_schema(&self, command: &mut Command) -> Result<(), Failure> {
        if let Command::PutJob(PutJob { namespace, definition, .. })
        | Command::Submit(Submit { namespace, definition, .. }) = command
        {
            *definition = self.with_descriptor(namespace, Arc::clone(definition)).await?;
        }
        Ok(())
    }

    /// A definition whose task carries the schema of its method, if it names a descriptor set; a put does this by
    /// itself. The error names the field of the task that does not fit the schema.
    pub async fn with_descriptor(
        &self,
        namespace: &Namespace,
        definition: Arc<Definition>,
    ) -> Result<Arc<Definition>, Failure> {
        let Task::Grpc(grpc) = &definition.task else { return Ok(definition) };
        let Some(named) = &grpc.descriptor else { return Ok(definition) };
        const FIELD: &str = "task.grpc.descriptor";
        let Some(stored) = self.store.descriptor(namespace, &named.name).await? else {
            let message = format!(
                "no descriptor `{}` in namespace `{namespace}`; put it first, as `punctual descriptor apply` does",
                named.name
            );
            return Err(refuse(FIELD, message));
        };
        let schema = Schema::decode(&stored.set).map_err(|why| refuse(FIELD, unusable(&why)))?;
        let grpc = grpc.carrying(stored.about.version, &schema).map_err(Refusal::Invalid)?;
        Ok(Arc::new(Definition { task: Task::Grpc(Box::new(grpc)), ..(*definition).clone() }))
    }
}

fn unusable(why: &str) -> String {
    format!("is no usable google.protobuf.FileDescriptorSet: {why}; make it with `protoc --include_imports`")
}

fn refuse(field: &'static str, message: impl Into<String>) -> Failure {
    Refusal::Invalid(Invalid::new(field, message)).into()
}

fn refused(expect: Expect, actual: Option<u32>, namespace: Namespace, name: Name) -> Failure {
    let refusal = match (expect, actual) {
        (_, None) => Refusal::NoSuchDescriptor { namespace, name },
        (Expect::Revision(expected), Some(actual)) => Refusal::WrongVersion { name, expected, actual },
        (_, Some(_)) => Refusal::DescriptorExists(name),
    };
    refusal.into()
}
