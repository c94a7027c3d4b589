//! A call of a unary gRPC method, with a message written as JSON, or work for an executor.
//!
//! The address cannot be a template, for the same reason as the host of a URL: a user who starts a job chooses its
//! parameters, and must not choose where its metadata and message go. The schema of the message comes with the task if it
//! names a descriptor set; otherwise the worker learns it from the server. An executor gets the message as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::address::{check_url, scheme_and_authority};
use super::call_checks::{check_ca, check_timeout, parse_condition};
use super::descriptor::{CarriedSchema, NamedDescriptor};
use super::headers::{check_headers, render_headers};
use super::json::{check_json, render_json};
use super::schema::Schema;
use crate::invalid::Invalid;
use crate::limits::{GRPC_MESSAGE_BYTES_MAX, GRPC_METHOD_BYTES_MAX, HTTP_TIMEOUT};
use crate::template::{Condition, Scope, Values};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grpc {
    /// The host and the port.
    pub address: String,
    /// Such as `orders.v1.Orders/Settle`. Work for an executor is started with [`EXECUTOR_START`].
    pub method: String,
    /// A JSON object as text. Each string in it is a template.
    pub message: String,
    pub metadata: BTreeMap<String, String>,
    /// For the whole call, including the connection and the questions about the schema. For an executor: until it has
    /// accepted the work.
    pub timeout: Duration,
    pub expect: GrpcExpect,
    /// `None` means a connection without TLS.
    pub tls: Option<GrpcTls>,
    /// `None` means that the server tells its schema.
    pub descriptor: Option<NamedDescriptor>,
    /// Whether the server is an executor: it speaks `punctual.v1.Executor`, accepts the work and works on.
    pub accept: bool,
}

/// Starts work at an executor.
pub const EXECUTOR_START: &str = "punctual.v1.Executor/Start";

/// What the answer must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrpcExpect {
    pub status: Vec<Code>,
    pub condition: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GrpcTls {
    /// A PEM file on the worker with certificates that are trusted besides the system's.
    pub ca: Option<String>,
}

/// A call with every expression evaluated.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    pub message: Json,
    pub metadata: BTreeMap<String, String>,
}

/// A status code of gRPC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Code(u8);

/// The codes in the order of their numbers, each with the HTTP status that means the same (as in `google.rpc.Code`).
const CODES: [(&str, u16); 17] = [
    ("OK", 200),
    ("CANCELLED", 499),
    ("UNKNOWN", 500),
    ("INVALID_ARGUMENT", 400),
    ("DEADLINE_EXCEEDED", 504),
    ("NOT_FOUND", 404),
    ("ALREADY_EXISTS", 409),
    ("PERMISSION_DENIED", 403),
    ("RESOURCE_EXHAUSTED", 429),
    ("FAILED_PRECONDITION", 400),
    ("ABORTED", 409),
    ("OUT_OF_RANGE", 400),
    ("UNIMPLEMENTED", 501),
    ("INTERNAL", 500),
    ("UNAVAILABLE", 503),
    ("DATA_LOSS", 500),
    ("UNAUTHENTICATED", 401),
];

impl Code {
    pub const OK: Code = Code(0);
    const UNKNOWN: Code = Code(2);

    /// The code with this number. A number that no code has means `UNKNOWN`, as in gRPC.
    pub fn of(number: i32) -> Code {
        let known = u8::try_from(number).ok().filter(|number| usize::from(*number) < CODES.len());
        known.map_or(Code::UNKNOWN, Code)
    }

    pub fn parse(word: &str) -> Option<Code> {
        Code::all().find(|code| code.word() == word)
    }

    pub fn all() -> impl Iterator<Item = Code> {
        (0..).take(CODES.len()).map(Code)
    }

    pub fn word(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status that means the same: retry rules are written with these.
    pub fn http_status(self) -> u16 {
        self.row().1
    }

    fn row(self) -> (&'static str, u16) {
        CODES.get(usize::from(self.0)).copied().unwrap_or(("UNKNOWN", 500))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl Default for GrpcExpect {
    fn default() -> Self {
        GrpcExpect { status: vec![Code::OK], condition: None }
    }
}

impl Grpc {
    /// A call with an empty message.
    pub fn call(address: impl Into<String>, method: impl Into<String>) -> Grpc {
        Grpc {
            address: address.into(),
            method: method.into(),
            message: "{}".to_owned(),
            metadata: BTreeMap::new(),
            timeout: HTTP_TIMEOUT,
            expect: GrpcExpect::default(),
            tls: None,
            descriptor: None,
            accept: false,
        }
    }

    /// Work for an executor, with an empty message.
    pub fn work(address: impl Into<String>) -> Grpc {
        Grpc { accept: true, ..Grpc::call(address, EXECUTOR_START) }
    }

    /// The full name of the service, and the name of the method in it.
    pub fn service_and_method(&self) -> (&str, &str) {
        self.method.split_once('/').unwrap_or((&self.method, ""))
    }

    /// The address, and whether it is called with TLS.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.tls.is_some() { "grpcs" } else { "grpc" };
        format!("{scheme}://{}", self.address.to_ascii_lowercase())
    }

    /// `scope` has the variables of its templates.
    pub(crate) fn check_in(&self, scope: &Scope<'_>) -> Result<(), Invalid> {
        self.check_address()?;
        self.check_method()?;
        if self.message.len() > GRPC_MESSAGE_BYTES_MAX {
            return Err(too_long("has"));
        }
        if !check_json(MESSAGE, &self.message, scope)?.is_object() {
            return Err(Invalid::new(MESSAGE, "must be a map with the fields of the message"));
        }
        self.check_metadata(scope)?;
        if self.expect.status.is_empty() {
            return Err(Invalid::new("task.grpc.expect.status", "at least one status, such as OK"));
        }
        self.condition()?;
        self.check_accept()?;
        check_timeout("task.grpc.timeout", self.timeout)?;
        check_ca("task.grpc.tls.ca", self.tls.as_ref().and_then(|tls| tls.ca.as_deref()))
    }

    fn check_address(&self) -> Result<(), Invalid> {
        let url = format!("http://{}", self.address);
        let is_alone = scheme_and_authority(&url).is_some_and(|(_, authority)| authority == self.address);
        let port = self.address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if self.address.contains("://") || !is_alone || port.is_none_or(|port| port == 0) {
            let message =
                "a host and a port, such as orders.internal:50051; write `tls: {}` beside it for TLS";
            return Err(Invalid::new("task.grpc.address", message));
        }
        check_url("task.grpc.address", &url, &Scope::TASK)
    }

    fn check_method(&self) -> Result<(), Invalid> {
        let is_name = |name: &str| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
                && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
        };
        let (service, method) = self.service_and_method();
        let is_well = service.split('.').all(is_name) && is_name(method);
        if !is_well || self.method.len() > GRPC_METHOD_BYTES_MAX {
            let message = format!(
                "the service with its package, a slash and the method, such as orders.v1.Orders/Settle; at most \
                 {GRPC_METHOD_BYTES_MAX} bytes"
            );
            return Err(Invalid::new("task.grpc.method", message));
        }
        Ok(())
    }

    fn check_metadata(&self, scope: &Scope<'_>) -> Result<(), Invalid> {
        let belongs_to_grpc =
            |name: &str| name.starts_with("grpc-") || ["content-type", "user-agent"].contains(&name);
        check_headers("task.grpc.metadata", &self.metadata, belongs_to_grpc, scope)?;
        match self.metadata.keys().find(|name| name.to_ascii_lowercase().ends_with("-bin")) {
            Some(name) => {
                let message = "is binary by its name, and a job has only text to send; use another name";
                Err(Invalid::new(format!("task.grpc.metadata.{name}"), message))
            }
            None => Ok(()),
        }
    }

    fn check_accept(&self) -> Result<(), Invalid> {
        if !self.accept {
            return Ok(());
        }
        if self.expect != GrpcExpect::default() {
            let message = "with `accept`, the executor says whether the work has succeeded";
            return Err(Invalid::new("task.grpc.expect", message));
        }
        match self.descriptor {
            Some(_) => {
                let message = "with `accept`, the schema is that of punctual.v1.Executor";
                Err(Invalid::new("task.grpc.descriptor", message))
            }
            None => Ok(()),
        }
    }

    pub fn condition(&self) -> Result<Option<Condition>, Invalid> {
        parse_condition("task.grpc.expect.condition", self.expect.condition.as_deref())
    }

    /// The same task with the part of a schema that it needs. The error names the field that does not fit the schema.
    pub fn carrying(&self, version: u32, schema: &Schema) -> Result<Grpc, Invalid> {
        let (service, method) = self.service_and_method();
        schema.method(service, method)?.check_templates(&self.message)?;
        let set = schema.part_for(service)?.into();
        let carried = Some(CarriedSchema { version, set });
        let descriptor =
            self.descriptor.as_ref().map(|named| NamedDescriptor { name: named.name.clone(), carried });
        Ok(Grpc { descriptor, ..self.clone() })
    }

    /// The call with every expression evaluated.
    pub fn render(&self, values: &Values) -> Result<Call, Invalid> {
        let metadata = render_headers("task.grpc.metadata", &self.metadata, values)?;
        let message = render_json(MESSAGE, &self.message, values)?;
        if message.to_string().len() > GRPC_MESSAGE_BYTES_MAX {
            return Err(too_long("gives"));
        }
        Ok(Call { message, metadata })
    }
}

const MESSAGE: &str = "task.grpc.message";

fn too_long(verb: &str) -> Invalid {
    Invalid::new(MESSAGE, format!("{verb} more than {GRPC_MESSAGE_BYTES_MAX} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Grpc {
        Grpc::call("orders.internal:50051", "orders.v1.Orders/Settle")
    }

    #[track_caller]
    fn check_refused(grpc: &Grpc, field: &str) {
        assert_eq!(grpc.check_in(&Scope::TASK).unwrap_err().field, field, "{grpc:?}");
    }

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for address in ["orders.internal:50051", "10.0.0.1:1", "[::1]:50051"] {
            assert_eq!(
                Grpc { address: address.to_owned(), ..good() }.check_in(&Scope::TASK),
                Ok(()),
                "{address}"
            );
        }
        for address in [
            "",
            "orders.internal",
            ":50051",
            "http://orders.internal:50051",
            "orders.internal:50051/",
            "orders.internal:0",
            "orders.internal:65536",
            "me@orders.internal:50051",
            "{{ params.host }}:50051",
            "orders.internal:50051\n",
            "a b:50051",
            "[::1]",
        ] {
            check_refused(&Grpc { address: address.to_owned(), ..good() }, "task.grpc.address");
        }
    }

    #[test]
    fn a_method_is_named_with_its_service() {
        for method in ["Orders/Settle", "orders.v1.Orders/Settle_2"] {
            assert_eq!(
                Grpc { method: method.to_owned(), ..good() }.check_in(&Scope::TASK),
                Ok(()),
                "{method}"
            );
        }
        let long = format!("a.{}/b", "c".repeat(GRPC_METHOD_BYTES_MAX));
        for method in
            ["", "Settle", "/orders.Orders/Settle", "a/b/c", "a..b/c", "1a/b", "a/", "a/{{ run.id }}", &long]
        {
            check_refused(&Grpc { method: method.to_owned(), ..good() }, "task.grpc.method");
        }
    }

    #[test]
    fn the_other_fields_are_checked_too() {
        for message in ["[]", "\"a\"", "{"] {
            check_refused(&Grpc { message: message.to_owned(), ..good() }, "task.grpc.message");
        }
        let message = r#"{"a": ["{{ nobody }}"]}"#.to_owned();
        check_refused(&Grpc { message, ..good() }, "task.grpc.message.a[0]");
        for (name, field) in [
            ("grpc-timeout", "task.grpc.metadata.grpc-timeout"),
            ("TE", "task.grpc.metadata.TE"),
            ("punctual-run-id", "task.grpc.metadata.punctual-run-id"),
            ("trace-bin", "task.grpc.metadata.trace-bin"),
            ("a b", "task.grpc.metadata"),
        ] {
            let metadata = [(name.to_owned(), "1".to_owned())].into();
            check_refused(&Grpc { metadata, ..good() }, field);
        }
        let expect = GrpcExpect { status: Vec::new(), condition: None };
        check_refused(&Grpc { expect, ..good() }, "task.grpc.expect.status");
        let expect = GrpcExpect { condition: Some("json.".to_owned()), ..GrpcExpect::default() };
        check_refused(&Grpc { expect, ..good() }, "task.grpc.expect.condition");
        check_refused(&Grpc { timeout: Duration::ZERO, ..good() }, "task.grpc.timeout");
        let tls = Some(GrpcTls { ca: Some("ca.pem".to_owned()) });
        check_refused(&Grpc { tls, ..good() }, "task.grpc.tls.ca");
    }

    #[test]
    fn what_an_executor_decides_or_knows_is_refused() {
        let refused = |grpc: Grpc| grpc.check_in(&Scope::TASK).unwrap_err().field;
        let work = || Grpc::work("example.com:50051");
        assert_eq!(work().check_in(&Scope::TASK), Ok(()));
        let expect = GrpcExpect { condition: Some("json.ok".to_owned()), ..GrpcExpect::default() };
        assert_eq!(refused(Grpc { expect, ..work() }), "task.grpc.expect");
        let descriptor = Some(NamedDescriptor { name: "a".parse().unwrap(), carried: None });
        assert_eq!(refused(Grpc { descriptor, ..work() }), "task.grpc.descriptor");
    }

    #[test]
    fn strings_of_the_message_are_templates() {
        let values = Values::of_params(r#"{"n": 5}"#);
        let message = r#"{"n": "{{ params.n }}", "text": "n is {{ params.n }}"}"#.to_owned();
        let call = Grpc { message, ..good() }.render(&values).unwrap();
        assert_eq!(call.message, serde_json::json!({ "n": 5, "text": "n is 5" }));
    }

    #[test]
    fn a_code_has_a_word_and_an_http_status() {
        assert_eq!((Code::of(14).word(), Code::of(14).http_status()), ("UNAVAILABLE", 503));
        assert_eq!(Code::of(99), Code::UNKNOWN);
        assert_eq!(Code::of(-1), Code::UNKNOWN);
        for code in Code::all() {
            assert_eq!(Code::parse(code.word()), Some(code));
        }
        assert_eq!(Code::parse("ok"), None);
    }
}
