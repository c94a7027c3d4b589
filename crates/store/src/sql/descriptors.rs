//! Descriptor sets: few rows, changed by compare-and-swap on their version. They share the versions and the lock of
//! calendars.

use async_trait::async_trait;
use punctual_core::command::Expect;
use punctual_core::name::{Name, Namespace};
use punctual_core::task::{Descriptor, StoredDescriptor};

use super::backend::{Backend, Purpose, Scope, work};
use super::calendars::lock;
use super::connection::{Connection, ask};
use super::decode;
use super::queries::calendars::SET_VERSION;
use super::queries::descriptors as queries;
use crate::listing::holds;
use crate::{Descriptors, PutDescriptor, Result, Swap};

#[async_trait]
impl<B: Backend> Descriptors for B {
    async fn put_descriptor(&self, new: PutDescriptor) -> Result<Swap<Descriptor>> {
        self.run(Purpose::Change, Scope::Transaction, work!(|c| put(c, new).await)).await
    }

    async fn delete_descriptor(
        &self,
        namespace: &Namespace,
        name: &Name,
        expect: Expect,
    ) -> Result<Swap<Descriptor>> {
        let key = (namespace.clone(), name.clone());
        self.run(Purpose::Change, Scope::Transaction, work!(|c| delete(c, key, expect).await)).await
    }

    async fn descriptor(&self, namespace: &Namespace, name: &Name) -> Result<Option<StoredDescriptor>> {
        let get = ask!(queries::GET, namespace.as_str().to_owned(), name.as_str().to_owned());
        self.list(work!(|c| c.one(get, decode::stored_descriptor).await)).await
    }

    async fn descriptors(
        &self,
        namespace: &Namespace,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<Descriptor>> {
        // No name is empty, so an empty name sorts before all.
        let after = after.map_or_else(String::new, |name| name.as_str().to_owned());
        let list = ask!(queries::LIST, namespace.as_str().to_owned(), after, limit);
        self.list(work!(|c| c.all(list, decode::descriptor).await)).await
    }
}

async fn about(c: &mut dyn Connection, namespace: &Namespace, name: &Name) -> Result<Option<Descriptor>> {
    c.one(ask!(queries::ABOUT, namespace.as_str(), name.as_str()), decode::descriptor).await
}

async fn put(c: &mut dyn Connection, put: PutDescriptor) -> Result<Swap<Descriptor>> {
    let version = lock(c).await? + 1;
    let actual = about(c, &put.namespace, &put.name).await?.map(|stored| stored.version);
    if !holds(put.expect, actual) {
        return Ok(Swap::Refused { actual });
    }
    let sql = if actual.is_some() { queries::UPDATE } else { queries::INSERT };
    let StoredDescriptor { about, set } = put.stored(version);
    let (namespace, name, bytes) = (about.namespace.as_str(), about.name.as_str(), about.bytes);
    c.execute(&[
        ask!(SET_VERSION, version),
        ask!(sql, version, set.to_vec(), bytes, about.updated_at, namespace, name),
    ])
    .await?;
    Ok(Swap::Done(about))
}

async fn delete(
    c: &mut dyn Connection,
    (namespace, name): (Namespace, Name),
    expect: Expect,
) -> Result<Swap<Descriptor>> {
    lock(c).await?;
    let stored = about(c, &namespace, &name).await?;
    let actual = stored.as_ref().map(|stored| stored.version);
    match stored {
        Some(stored) if holds(expect, actual) => {
            c.execute(&[ask!(queries::DELETE, namespace.as_str(), name.as_str())]).await?;
            Ok(Swap::Done(stored))
        }
        _ => Ok(Swap::Refused { actual }),
    }
}
