//! Descriptor sets of gRPC services.

use punctual_core::name::{Name, Namespace};
use punctual_wire::rest::{Descriptor, MADE_HEADER, Made, Page, PutDescriptor};
use reqwest::Method;

use crate::{ANSWER_MAX, Client, Result};

impl Client {
    /// Puts a `google.protobuf.FileDescriptorSet` with all its imports.
    pub async fn put_descriptor(
        &self,
        namespace: &Namespace,
        name: &Name,
        set: &[u8],
    ) -> Result<(Made, Descriptor)> {
        let request = self.in_namespace(Method::PUT, namespace, &format!("/descriptors/{name}"));
        let response = self.send(request.json(&PutDescriptor::of(set)).timeout(ANSWER_MAX)).await?;
        let made = response.headers().get(MADE_HEADER).and_then(|made| made.to_str().ok());
        let made = made.and_then(Made::parse).unwrap_or(Made::Changed);
        Ok((made, self.read(response).await?))
    }

    pub async fn descriptor(&self, namespace: &Namespace, name: &Name) -> Result<Descriptor> {
        self.get(self.in_namespace(Method::GET, namespace, &format!("/descriptors/{name}"))).await
    }

    pub async fn descriptors(
        &self,
        namespace: &Namespace,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Descriptor>> {
        let request = self.in_namespace(Method::GET, namespace, "/descriptors").query(&[("limit", limit)]);
        self.get(request.query(&after.map(|after| [("after", after)]))).await
    }

    pub async fn delete_descriptor(&self, namespace: &Namespace, name: &Name) -> Result<()> {
        let request = self.in_namespace(Method::DELETE, namespace, &format!("/descriptors/{name}"));
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }
}
