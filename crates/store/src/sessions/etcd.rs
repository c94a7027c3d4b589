//! Sessions in etcd: a key for each, bound to an etcd lease that ends with it.
//!
//! etcd does not expose its clock, so each node writes the age of its session by its own clock.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use prost::Message;
use punctual_core::ids::SessionId;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic_prost::ProstCodec;

use super::{ANSWER_MAX, Written, strange};
use crate::{Error, Member, Result, Session, Sessions};

const PREFIX: &str = "punctual/sessions/";
/// The first key after the prefix.
const PREFIX_END: &str = "punctual/sessions0";

pub(super) struct Etcd {
    /// One for each endpoint; connects on the first request, and again after a failure.
    channels: Vec<Channel>,
    /// The endpoint that answered last.
    chosen: AtomicUsize,
    lives: Mutex<BTreeMap<SessionId, Life>>,
}

/// The etcd lease of one of this node's sessions, and when it began.
#[derive(Debug, Clone, Copy)]
struct Life {
    lease: i64,
    since: Instant,
}

#[derive(Debug, Serialize, Deserialize)]
struct Value {
    session: Written,
    age_ms: u64,
}

impl fmt::Debug for Etcd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Etcd").field("endpoints", &self.channels.len()).finish_non_exhaustive()
    }
}

impl Etcd {
    pub(super) fn new(address: &str) -> Result<Self> {
        let unusable = |error: &dyn fmt::Display| Error::Unusable(format!("the address of etcd: {error}"));
        let (scheme, places) = address.split_once("://").unwrap_or(("etcd", address));
        let is_tls = scheme == "etcds";
        let mut channels = Vec::new();
        for place in places.trim_end_matches('/').split(',') {
            let uri = format!("{}://{place}", if is_tls { "https" } else { "http" });
            let endpoint = Endpoint::from_shared(uri).map_err(|error| unusable(&error))?;
            let mut endpoint = endpoint.connect_timeout(ANSWER_MAX).timeout(ANSWER_MAX);
            if is_tls {
                let tls = ClientTlsConfig::new().with_native_roots();
                endpoint = endpoint.tls_config(tls).map_err(|error| unusable(&error))?;
            }
            channels.push(endpoint.connect_lazy());
        }
        Ok(Etcd { channels, chosen: AtomicUsize::new(0), lives: Mutex::default() })
    }

    /// Sends a request to the endpoint that answered last, and to the others if it fails.
    async fn ask<Q, A>(&self, path: &'static str, question: Q) -> Result<A>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let first = self.chosen.load(Ordering::Relaxed);
        let mut last = None;
        for turn in 0..self.channels.len() {
            let index = (first + turn) % self.channels.len();
            let mut grpc = Grpc::new(self.channels[index].clone());
            let answer = async {
                grpc.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
                let path = PathAndQuery::from_static(path);
                let question = tonic::Request::new(question.clone());
                grpc.unary(question, path, ProstCodec::<Q, A>::default()).await
            };
            match answer.await {
                Ok(answer) => {
                    self.chosen.store(index, Ordering::Relaxed);
                    return Ok(answer.into_inner());
                }
                Err(status) => last = Some(status),
            }
        }
        let why = last.map_or_else(|| "it has no endpoint".to_owned(), |status| status.message().to_owned());
        Err(Error::Unreachable(format!("etcd, which keeps the sessions: {why}")))
    }

    /// Renews the session's lease, or grants a new one.
    async fn live_on(&self, session: SessionId, ttl: Duration) -> Result<Life> {
        let known = self.lives.lock().get(&session).copied();
        let seconds = i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX) + i64::from(ttl.subsec_nanos() > 0);
        if let Some(life) = known
            && self.is_kept_alive(life.lease).await?
        {
            return Ok(life);
        }
        let granted: LeaseGrantResponse =
            self.ask("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl: seconds, id: 0 }).await?;
        let life = Life { lease: granted.id, since: Instant::now() };
        self.lives.lock().insert(session, life);
        Ok(life)
    }

    /// Uses the keep-alive stream for one request and one response.
    async fn is_kept_alive(&self, lease: i64) -> Result<bool> {
        let answer: Result<LeaseKeepAliveResponse> =
            self.ask("/etcdserverpb.Lease/LeaseKeepAlive", LeaseKeepAliveRequest { id: lease }).await;
        Ok(answer?.ttl > 0)
    }
}

#[async_trait]
impl Sessions for Etcd {
    async fn renew(&self, session: &Session, ttl: Duration) -> Result<Vec<Member>> {
        let life = self.live_on(session.id, ttl).await?;
        let age_ms = u64::try_from(life.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let value = serde_json::to_vec(&Value { session: session.into(), age_ms }).map_err(strange)?;
        let put = PutRequest { key: key(session.id), value, lease: life.lease };
        let put: Result<PutResponse> = self.ask("/etcdserverpb.KV/Put", put).await;
        if put.is_err() {
            // The lease may have expired: the next renewal grants a new one.
            self.lives.lock().remove(&session.id);
        }
        put?;
        let range = RangeRequest { key: PREFIX.into(), range_end: PREFIX_END.into() };
        let found: RangeResponse = self.ask("/etcdserverpb.KV/Range", range).await?;
        let mut members = found.kvs.iter().map(member).collect::<Result<Vec<_>>>()?;
        members.sort_by_key(|member| member.session.id);
        Ok(members)
    }

    async fn leave(&self, session: SessionId) -> Result<()> {
        let life = self.lives.lock().remove(&session);
        let gone = DeleteRangeRequest { key: key(session), range_end: Vec::new() };
        let _: DeleteRangeResponse = self.ask("/etcdserverpb.KV/DeleteRange", gone).await?;
        if let Some(Life { lease, .. }) = life {
            let revoke = LeaseRevokeRequest { id: lease };
            let _: LeaseRevokeResponse = self.ask("/etcdserverpb.Lease/LeaseRevoke", revoke).await?;
        }
        Ok(())
    }
}

fn key(session: SessionId) -> Vec<u8> {
    format!("{PREFIX}{session}").into_bytes()
}

fn member(pair: &KeyValue) -> Result<Member> {
    let value: Value = serde_json::from_slice(&pair.value).map_err(strange)?;
    Ok(Member { session: value.session.into(), age: Duration::from_millis(value.age_ms) })
}

// The part of etcd's protocol that is used here, with its field numbers.

#[derive(Clone, PartialEq, Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(bytes = "vec", tag = "5")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(int64, tag = "3")]
    lease: i64,
}

#[derive(Clone, PartialEq, Message)]
struct PutResponse {}

#[derive(Clone, PartialEq, Message)]
struct DeleteRangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct DeleteRangeResponse {}

#[derive(Clone, PartialEq, Message)]
struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    ttl: i64,
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseRevokeRequest {
    #[prost(int64, tag = "1")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseRevokeResponse {}

#[derive(Clone, PartialEq, Message)]
struct LeaseKeepAliveRequest {
    #[prost(int64, tag = "1")]
    id: i64,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseKeepAliveResponse {
    #[prost(int64, tag = "3")]
    ttl: i64,
}
