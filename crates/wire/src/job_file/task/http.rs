//! `task.http:`, a request and the expected response.

use std::collections::BTreeMap;
use std::fmt;

use punctual_core::limits;
use punctual_core::task as rule;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use crate::error::Error;
use crate::schema::{self, one_of};
use crate::text::{Span, small};

#[derive(Debug, Clone, Default, PartialEq, Serialize, DeriveDeserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { url: \"https://example.com/\" }")]
pub struct Http {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    #[serde(default, deserialize_with = "small::option", skip_serializing_if = "Option::is_none")]
    pub redirects: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<Expect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<Accept>,
}

/// The receiver accepts the request and works on; it is polled until the work ends.
#[derive(Debug, Clone, Default, PartialEq, Serialize, DeriveDeserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { poll: 5s, all: \"https://example.com/tasks\" }")]
pub struct Accept {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub poll: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, DeriveDeserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schema(as = HttpMethod)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, DeriveDeserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { status: [200, 3xx], condition: json.ok }")]
pub struct Expect {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, DeriveDeserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { ca: /etc/ssl/ours.pem }")]
pub struct Tls {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
}

/// Text that is sent as it is, or a map or a list that is sent as JSON.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    Text(String),
    Json(serde_json::Value),
}

schema::by_hand!(Body as "HttpBody": schema::any_of_types([Type::String, Type::Object, Type::Array]));

/// One status or a list of them: `200`, `2xx`, `200-204`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status(pub Vec<rule::StatusRange>);

schema::by_hand!(Status as "HttpStatus": one_of([one_status(), many_statuses()]));

pub(in crate::job_file) fn one_code() -> RefOr<Schema> {
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(100)).maximum(Some(599)).into()
}

fn one_status() -> RefOr<Schema> {
    let words = schema::text(
        "A status, a hundred of them, or a range.",
        "^([1-5][0-9]{2}|[1-5]xx|[1-5][0-9]{2}-[1-5][0-9]{2})$",
        "200-204".len(),
        "2xx",
    );
    one_of([one_code(), words])
}

fn many_statuses() -> RefOr<Schema> {
    ArrayBuilder::new()
        .items(one_status())
        .min_items(Some(1))
        .max_items(Some(limits::HTTP_STATUS_RANGES_MAX))
        .into()
}

impl Http {
    pub(super) fn into_core(self) -> Result<rule::Http, Error> {
        let url =
            self.url.ok_or_else(|| Error::invalid("task.http.url", "is missing; write the URL to call"))?;
        let expect = self.expect.unwrap_or_default();
        let default = rule::Http::get(url);
        let method = if self.accept.is_some() { rule::Method::Post } else { default.method };
        Ok(rule::Http {
            method: self.method.map_or(method, Method::into_core),
            headers: self.headers,
            body: self.body.map(|body| match body {
                Body::Text(text) => rule::Body::Text(text),
                Body::Json(json) => rule::Body::Json(json.to_string()),
            }),
            timeout: self.timeout.map_or(default.timeout, |span| span.0),
            redirects: self.redirects.unwrap_or(default.redirects),
            expect: rule::Expect {
                status: expect.status.map_or(default.expect.status, |status| status.0),
                body: expect.body,
                condition: expect.condition,
            },
            ca: self.tls.and_then(|tls| tls.ca),
            accept: self.accept.map(|Accept { poll, all }| rule::Accept {
                poll: poll.map_or(limits::HTTP_POLL, |span| span.0),
                all,
            }),
            url: default.url,
        })
    }

    /// The task as a file, without default values of `timeout`, `redirects` and `expect`.
    pub(super) fn of(http: &rule::Http) -> Http {
        let expect = Expect {
            status: Some(Status(http.expect.status.clone())),
            body: http.expect.body.clone(),
            condition: http.expect.condition.clone(),
        };
        Http {
            url: Some(http.url.clone()),
            method: Some(Method::of(http.method)),
            headers: http.headers.clone(),
            body: http.body.as_ref().map(|body| match body {
                rule::Body::Text(text) => Body::Text(text.clone()),
                rule::Body::Json(text) => Body::Json(serde_json::from_str(text).unwrap_or_default()),
            }),
            timeout: (http.timeout != limits::HTTP_TIMEOUT).then_some(Span(http.timeout)),
            redirects: (http.redirects != rule::HTTP_REDIRECTS_MAX).then_some(http.redirects),
            expect: (http.expect != rule::Expect::default()).then_some(expect),
            tls: http.ca.clone().map(|ca| Tls { ca: Some(ca) }),
            accept: http.accept.as_ref().map(|accept| Accept {
                poll: (accept.poll != limits::HTTP_POLL).then_some(Span(accept.poll)),
                all: accept.all.clone(),
            }),
        }
    }
}

impl Method {
    fn into_core(self) -> rule::Method {
        match self {
            Method::Get => rule::Method::Get,
            Method::Head => rule::Method::Head,
            Method::Post => rule::Method::Post,
            Method::Put => rule::Method::Put,
            Method::Patch => rule::Method::Patch,
            Method::Delete => rule::Method::Delete,
            Method::Options => rule::Method::Options,
        }
    }

    fn of(method: rule::Method) -> Method {
        match method {
            rule::Method::Get => Method::Get,
            rule::Method::Head => Method::Head,
            rule::Method::Post => Method::Post,
            rule::Method::Put => Method::Put,
            rule::Method::Patch => Method::Patch,
            rule::Method::Delete => Method::Delete,
            rule::Method::Options => Method::Options,
        }
    }
}

impl Serialize for Body {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Body::Text(text) => text.serialize(serializer),
            Body::Json(json) => json.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct BodyVisitor;

        impl<'de> Visitor<'de> for BodyVisitor {
            type Value = Body;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, or a map or a list to be sent as JSON")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Body, E> {
                Ok(Body::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Body, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Body::Json(serde_json::Value::Array(list)))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Body, A::Error> {
                let mut map = serde_json::Map::new();
                while let Some((key, value)) = entries.next_entry()? {
                    map.insert(key, value);
                }
                Ok(Body::Json(serde_json::Value::Object(map)))
            }
        }
        deserializer.deserialize_any(BodyVisitor)
    }
}

impl Serialize for Status {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|range| OneStatus(*range)))
    }
}

impl<'de> Deserialize<'de> for Status {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StatusVisitor;

        impl<'de> Visitor<'de> for StatusVisitor {
            type Value = Status;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a status like 200, 2xx or 200-204, or a list of them")
            }

            fn visit_u64<E: de::Error>(self, code: u64) -> Result<Status, E> {
                OneStatusVisitor.visit_u64(code).map(|one| Status(vec![one.0]))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Status, E> {
                OneStatusVisitor.visit_str(text).map(|one| Status(vec![one.0]))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Status, A::Error> {
                let mut ranges = Vec::new();
                while let Some(OneStatus(range)) = items.next_element()? {
                    ranges.push(range);
                }
                Ok(Status(ranges))
            }
        }
        deserializer.deserialize_any(StatusVisitor)
    }
}

#[derive(Debug, Clone, Copy)]
pub(in crate::job_file) struct OneStatus(pub(in crate::job_file) rule::StatusRange);

impl Serialize for OneStatus {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.first == self.0.last {
            serializer.serialize_u16(self.0.first)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for OneStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OneStatusVisitor)
    }
}

pub(in crate::job_file) struct OneStatusVisitor;

impl Visitor<'_> for OneStatusVisitor {
    type Value = OneStatus;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a status like 200, 2xx or 200-204")
    }

    fn visit_u64<E: de::Error>(self, code: u64) -> Result<OneStatus, E> {
        // Too large for a status: the range check refuses it.
        let code = u16::try_from(code).unwrap_or(u16::MAX);
        Ok(OneStatus(rule::StatusRange { first: code, last: code }))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<OneStatus, E> {
        let range = match (text.strip_suffix("xx"), text.split_once('-')) {
            (Some(hundred), _) => hundred.parse::<u8>().ok().map(|hundred| {
                let first = u16::from(hundred) * 100;
                (first, first + 99)
            }),
            (None, Some((first, last))) => first.parse().ok().zip(last.parse().ok()),
            (None, None) => text.parse().ok().map(|code: u16| (code, code)),
        };
        match range {
            Some((first, last)) => Ok(OneStatus(rule::StatusRange { first, last })),
            None => {
                let shown: String = text.chars().take(20).collect();
                Err(E::custom(format!("`{shown}` is no status; write 200, 2xx or 200-204")))
            }
        }
    }
}
