//! `task.grpc:`, a call of a unary method and the expected answer, or work for an executor.

use std::collections::BTreeMap;
use std::fmt;

use punctual_core::limits;
use punctual_core::name::Name;
use punctual_core::task as rule;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::ArrayBuilder;

use super::http::Tls;
use crate::error::Error;
use crate::job_file::JsonObject;
use crate::schema::{self, one_of};
use crate::text::Span;

#[derive(Debug, Clone, Default, PartialEq, Serialize, DeriveDeserialize, ToSchema)]
#[serde(
    deny_unknown_fields,
    expecting = "a map like { address: \"orders.internal:50051\", method: orders.v1.Orders/Settle }"
)]
pub struct Grpc {
    /// A host and a port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The service with its package, a slash and the method. Not with `accept`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The message as JSON. Its texts are templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub message: Option<JsonObject>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<GrpcExpect>,
    /// TLS is used if it is there, even if it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// A stored descriptor set with the schema. By default the server tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub descriptor: Option<Name>,
    /// The server is an executor: it speaks `punctual.v1.Executor`, accepts the message and works on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<GrpcAccept>,
}

/// It has no settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, DeriveDeserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "an empty map, {}")]
pub struct GrpcAccept {}

#[derive(Debug, Clone, Default, PartialEq, Serialize, DeriveDeserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { status: [OK, NOT_FOUND], condition: json.ok }")]
pub struct GrpcExpect {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Codes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// One status of gRPC or a list of them, by their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Codes(pub Vec<rule::Code>);

schema::by_hand!(Codes as "GrpcStatus": {
    let one = || schema::words(rule::Code::all().map(rule::Code::word));
    one_of([one(), ArrayBuilder::new().items(one()).min_items(Some(1)).into()])
});

impl Grpc {
    pub(super) fn into_core(self) -> Result<rule::Grpc, Error> {
        let missing = |field: &str, what: &str| {
            Error::invalid(format!("task.grpc.{field}"), format!("is missing; write {what}"))
        };
        let address =
            self.address.ok_or_else(|| missing("address", "the host and the port of the server"))?;
        let default = match (self.method, self.accept) {
            (Some(method), None) => rule::Grpc::call(address, method),
            (None, Some(GrpcAccept {})) => rule::Grpc::work(address),
            (Some(_), Some(_)) => {
                let message = "leave it out: with `accept`, the methods are those of punctual.v1.Executor";
                return Err(Error::invalid("task.grpc.method", message));
            }
            (None, None) => {
                return Err(missing("method", "the method to call, such as orders.v1.Orders/Settle"));
            }
        };
        let expect = self.expect.unwrap_or_default();
        Ok(rule::Grpc {
            message: self
                .message
                .map_or(default.message, |message| serde_json::Value::Object(message).to_string()),
            metadata: self.metadata,
            timeout: self.timeout.map_or(default.timeout, |span| span.0),
            expect: rule::GrpcExpect {
                status: expect.status.map_or(default.expect.status, |codes| codes.0),
                condition: expect.condition,
            },
            tls: self.tls.map(|Tls { ca }| rule::GrpcTls { ca }),
            descriptor: self.descriptor.map(|name| rule::NamedDescriptor { name, carried: None }),
            address: default.address,
            method: default.method,
            accept: default.accept,
        })
    }

    /// The task as a file, without default values of `message`, `timeout` and `expect`.
    pub(super) fn of(grpc: &rule::Grpc) -> Grpc {
        let message: JsonObject = serde_json::from_str(&grpc.message).unwrap_or_default();
        let expect = GrpcExpect {
            status: Some(Codes(grpc.expect.status.clone())),
            condition: grpc.expect.condition.clone(),
        };
        Grpc {
            address: Some(grpc.address.clone()),
            method: (!grpc.accept).then(|| grpc.method.clone()),
            message: (!message.is_empty()).then_some(message),
            metadata: grpc.metadata.clone(),
            timeout: (grpc.timeout != limits::HTTP_TIMEOUT).then_some(Span(grpc.timeout)),
            expect: (grpc.expect != rule::GrpcExpect::default()).then_some(expect),
            tls: grpc.tls.clone().map(|rule::GrpcTls { ca }| Tls { ca }),
            descriptor: grpc.descriptor.as_ref().map(|named| named.name.clone()),
            accept: grpc.accept.then_some(GrpcAccept {}),
        }
    }
}

impl Serialize for Codes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|code| code.word()))
    }
}

impl<'de> Deserialize<'de> for Codes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct CodesVisitor;

        impl<'de> Visitor<'de> for CodesVisitor {
            type Value = Codes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status like OK or NOT_FOUND, or a list of them")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Codes, E> {
                read(text).map(|code| Codes(vec![code]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Codes, A::Error> {
                let mut codes = Vec::new();
                while let Some(word) = items.next_element::<String>()? {
                    codes.push(read(&word)?);
                }
                Ok(Codes(codes))
            }
        }
        deserializer.deserialize_any(CodesVisitor)
    }
}

fn read<E: de::Error>(word: &str) -> Result<rule::Code, E> {
    rule::Code::parse(word).ok_or_else(|| {
        let known: Vec<&str> = rule::Code::all().map(rule::Code::word).collect();
        let shown: String = word.chars().take(30).collect();
        E::custom(format!("`{shown}` is no status of gRPC; known are {}", known.join(", ")))
    })
}
