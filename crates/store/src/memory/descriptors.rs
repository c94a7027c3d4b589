//! Descriptor sets: changed by compare-and-swap on their version.

use async_trait::async_trait;
use punctual_core::command::Expect;
use punctual_core::name::{Name, Namespace};
use punctual_core::task::{Descriptor, StoredDescriptor};

use super::Memory;
use super::tables::Tables;
use crate::listing::holds;
use crate::{Descriptors, PutDescriptor, Result, Swap};

#[async_trait]
impl Descriptors for Memory {
    async fn put_descriptor(&self, put: PutDescriptor) -> Result<Swap<Descriptor>> {
        Ok(self.tables.lock().put_descriptor(put))
    }

    async fn delete_descriptor(
        &self,
        namespace: &Namespace,
        name: &Name,
        expect: Expect,
    ) -> Result<Swap<Descriptor>> {
        let mut tables = self.tables.lock();
        let key = (namespace.clone(), name.clone());
        let actual = tables.descriptors.get(&key).map(|stored| stored.about.version);
        if !holds(expect, actual) {
            return Ok(Swap::Refused { actual });
        }
        let removed = tables.descriptors.remove(&key);
        Ok(removed.map_or(Swap::Refused { actual }, |stored| Swap::Done(stored.about)))
    }

    async fn descriptor(&self, namespace: &Namespace, name: &Name) -> Result<Option<StoredDescriptor>> {
        Ok(self.tables.lock().descriptors.get(&(namespace.clone(), name.clone())).cloned())
    }

    async fn descriptors(
        &self,
        namespace: &Namespace,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<Descriptor>> {
        let tables = self.tables.lock();
        let of_namespace =
            tables.descriptors.values().map(|stored| &stored.about).filter(|about| {
                about.namespace == *namespace && after.is_none_or(|after| about.name > *after)
            });
        Ok(of_namespace.take(limit).cloned().collect())
    }
}

impl Tables {
    fn put_descriptor(&mut self, put: PutDescriptor) -> Swap<Descriptor> {
        let key = (put.namespace.clone(), put.name.clone());
        let actual = self.descriptors.get(&key).map(|stored| stored.about.version);
        if !holds(put.expect, actual) {
            return Swap::Refused { actual };
        }
        self.calendar_version += 1;
        let stored = put.stored(self.calendar_version);
        let about = stored.about.clone();
        self.descriptors.insert(key, stored);
        Swap::Done(about)
    }
}
