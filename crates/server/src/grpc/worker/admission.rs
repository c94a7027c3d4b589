//! Decides which workers may connect.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use tonic::Status;
use tonic::metadata::MetadataMap;

use crate::auth::{Caller, Gate};
use crate::grpc::peer::Key;
use crate::routes::Right;

pub(super) const REFUSED: &str = "the token is missing or not valid for workers; start the worker with \
                                  --token, or PUNCTUAL_TOKEN, as the server printed it";

/// Decides by the token and the connection of a worker.
#[async_trait]
pub trait Admission: Send + Sync + fmt::Debug {
    async fn admits(&self, caller: Caller<'_>) -> bool;
}

/// Admits callers that have the right `Worker`.
#[async_trait]
impl Admission for Gate {
    async fn admits(&self, caller: Caller<'_>) -> bool {
        self.check(&caller, Right::Worker).await.is_ok()
    }
}

/// Also admits nodes of the cluster: an embedded node works for the nodes of a center.
#[derive(Debug, Clone)]
pub struct NodesToo {
    pub key: Key,
    pub others: Arc<dyn Admission>,
}

#[async_trait]
impl Admission for NodesToo {
    async fn admits(&self, caller: Caller<'_>) -> bool {
        caller.bearer.is_some_and(|shown| self.key.is(shown)) || self.others.admits(caller).await
    }
}

/// The token of `authorization: Bearer …`.
pub(super) fn bearer(metadata: &MetadataMap) -> Result<Option<&str>, Status> {
    let Some(value) = metadata.get("authorization") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() => {
            Ok(Some(token))
        }
        _ => Err(Status::unauthenticated("authorization: write it like `Bearer TOKEN`")),
    }
}
