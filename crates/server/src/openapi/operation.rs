//! One operation of the document: its parameters, its body and its answers.

use std::collections::BTreeMap;

use axum::http::Method;
use punctual_wire::rest::Code;
use punctual_wire::schema::{self, Components};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// Problems that any request can get.
const ANYWHERE: [Code; 10] = [
    Code::Unauthenticated,
    Code::Forbidden,
    Code::TooManyFailures,
    Code::CrossOrigin,
    Code::AddressTooLong,
    Code::HeadersTooLarge,
    Code::Internal,
    Code::Unavailable,
    Code::TooManyConnections,
    Code::BadParameter,
];
/// Problems that a request with a body can get.
const WITH_A_BODY: [Code; 5] =
    [Code::Malformed, Code::TooSlow, Code::BodyTooLarge, Code::UnsupportedMediaType, Code::Invalid];
/// Problems that a change can get: the disk is full.
const FOR_A_CHANGE: [Code; 1] = [Code::Full];

/// Describes a part of the document, and adds the schemas that it needs.
type Describe = Box<dyn Fn(&mut Components) -> Value>;

pub(super) struct Operation {
    pub(super) method: Method,
    pub(super) path: &'static str,
    id: &'static str,
    summary: &'static str,
    parameters: Vec<Parameter>,
    /// Media types, the schema, and whether the body is required.
    body: Option<(&'static [&'static str], Describe, bool)>,
    answers: Vec<Answer>,
    problems: Vec<Code>,
}

struct Parameter {
    place: &'static str,
    name: &'static str,
    schema: Describe,
    /// Whether the parameter is required.
    required: bool,
}

struct Answer {
    status: u16,
    about: &'static str,
    content: Option<(&'static str, Describe)>,
    headers: &'static [(&'static str, &'static str)],
}

pub(super) fn operation(
    method: Method,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
) -> Operation {
    let parameters = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = |name| Parameter { place: "path", name, schema: segment(name), required: true };
    let parameters = parameters.map(in_path).collect();
    Operation { method, path, id, summary, parameters, body: None, answers: Vec::new(), problems: Vec::new() }
}

/// The schema of a path parameter, by its name.
fn segment(name: &'static str) -> Describe {
    match name {
        "namespace" => plain(&schema::dotted_namespace()),
        "id" => of::<schema::Id>(),
        "queue" => of::<schema::QueueName>(),
        "message" => of::<schema::MessageId>(),
        "worker" => plain(&json!({ "type": "string", "minLength": 1, "maxLength": 256 })),
        "file" => plain(&json!({ "type": "string", "pattern": "^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$" })),
        "step" => plain(
            &json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}(/[A-Za-z0-9_-]{1,128}){0,15}$" }),
        ),
        "revision" => plain(&json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX })),
        _ => of::<schema::Name>(),
    }
}

fn plain(schema: &impl serde::Serialize) -> Describe {
    let schema = serde_json::to_value(schema).unwrap_or_default();
    Box::new(move |_| schema.clone())
}

fn of<T: ToSchema + 'static>() -> Describe {
    Box::new(Components::reference::<T>)
}

impl Operation {
    /// Adds a query parameter.
    pub(super) fn query(self, name: &'static str, schema: &impl serde::Serialize) -> Self {
        self.parameter("query", name, plain(schema))
    }

    pub(super) fn query_of<T: ToSchema + 'static>(self, name: &'static str) -> Self {
        self.parameter("query", name, of::<T>())
    }

    pub(super) fn header(self, name: &'static str, schema: &Value) -> Self {
        self.parameter("header", name, plain(schema))
    }

    pub(super) fn header_of<T: ToSchema + 'static>(self, name: &'static str) -> Self {
        self.parameter("header", name, of::<T>())
    }

    fn parameter(mut self, place: &'static str, name: &'static str, schema: Describe) -> Self {
        self.parameters.push(Parameter { place, name, schema, required: false });
        self
    }

    /// Makes the last parameter required.
    pub(super) fn needed(mut self) -> Self {
        if let Some(parameter) = self.parameters.last_mut() {
            parameter.required = true;
        }
        self
    }

    pub(super) fn takes<T: ToSchema + 'static>(mut self) -> Self {
        self.body = Some((&["application/json"], of::<T>(), true));
        self
    }

    /// An optional body.
    pub(super) fn may_take<T: ToSchema + 'static>(mut self) -> Self {
        self.body = Some((&["application/json"], of::<T>(), false));
        self
    }

    /// An optional text.
    pub(super) fn may_take_text(mut self) -> Self {
        let text = plain(&json!({ "type": "string" }));
        self.body = Some((&["text/plain"], text, false));
        self
    }

    pub(super) fn takes_a_job(mut self) -> Self {
        self.body = Some((&["application/json", "application/yaml"], Box::new(Components::job_body), true));
        self
    }

    /// A body with the fields of a job to change.
    pub(super) fn takes_a_patch(mut self) -> Self {
        const KINDS: &[&str] = &["application/merge-patch+json", "application/json"];
        self.body = Some((KINDS, Box::new(Components::job_patch), true));
        self
    }

    pub(super) fn takes_a_calendar(mut self) -> Self {
        self.body =
            Some((&["application/json", "application/yaml"], Box::new(Components::calendar_body), true));
        self
    }

    pub(super) fn answers<T: ToSchema + 'static>(self, status: u16, about: &'static str) -> Self {
        self.answers_as(status, about, "application/json", of::<T>())
    }

    /// Answers with one page of a listing.
    pub(super) fn answers_a_page_of<T: ToSchema + 'static>(self) -> Self {
        let page = |components: &mut Components| {
            json!({
                "type": "object",
                "required": ["items", "next"],
                "properties": {
                    "items": { "type": "array", "items": components.reference::<T>() },
                    "next": {
                        "type": ["string", "null"],
                        "description": "The value of `after` for the next page. `null` means this is the last page.",
                    },
                },
            })
        };
        self.answers_as(200, "A page", "application/json", Box::new(page))
    }

    pub(super) fn answers_text(self, status: u16, kind: &'static str, about: &'static str) -> Self {
        self.answers_as(status, about, kind, plain(&json!({ "type": "string" })))
    }

    pub(super) fn answers_json(self, about: &'static str) -> Self {
        self.answers_as(200, about, "application/json", plain(&json!({ "type": "object" })))
    }

    pub(super) fn answers_nothing(mut self, about: &'static str) -> Self {
        self.answers.push(Answer { status: 204, about, content: None, headers: &[] });
        self
    }

    fn answers_as(mut self, status: u16, about: &'static str, kind: &'static str, schema: Describe) -> Self {
        self.answers.push(Answer { status, about, content: Some((kind, schema)), headers: &[] });
        self
    }

    /// Sets the headers of the last answer.
    pub(super) fn with(mut self, headers: &'static [(&'static str, &'static str)]) -> Self {
        if let Some(answer) = self.answers.last_mut() {
            answer.headers = headers;
        }
        self
    }

    /// Adds problems, besides those that any request can get.
    pub(super) fn refuses(mut self, codes: &[Code]) -> Self {
        self.problems.extend(codes);
        self
    }

    pub(super) fn describe(&self, components: &mut Components) -> Value {
        let mut about = json!({
            "operationId": self.id,
            "summary": self.summary,
            "parameters": self.parameters.iter().map(|parameter| json!({
                "in": parameter.place,
                "name": parameter.name,
                "required": parameter.required,
                "schema": (parameter.schema)(components),
            })).collect::<Vec<_>>(),
        });
        if let Some((kinds, schema, required)) = &self.body {
            let content: Map<String, Value> = kinds
                .iter()
                .map(|kind| ((*kind).to_owned(), json!({ "schema": schema(components) })))
                .collect();
            about["requestBody"] = json!({ "required": required, "content": content });
        }
        let mut responses = self.problem_responses();
        for answer in &self.answers {
            let described = answer.describe(components);
            match responses.get_mut(&answer.status.to_string()) {
                // The same status with another media type; a problem of that status is added the same way.
                Some(known) => {
                    for (kind, content) in described["content"].as_object().into_iter().flatten() {
                        known["content"][kind] = content.clone();
                    }
                }
                None => drop(responses.insert(answer.status.to_string(), described)),
            }
        }
        about["responses"] = json!(responses);
        about
    }

    fn problem_responses(&self) -> BTreeMap<String, Value> {
        let changes = !matches!(self.method, Method::GET | Method::HEAD);
        let mut codes: Vec<Code> = self.problems.clone();
        codes.extend(ANYWHERE);
        codes.extend(self.body.iter().flat_map(|_| WITH_A_BODY));
        codes.extend(FOR_A_CHANGE.iter().filter(|_| changes));
        let mut by_status: BTreeMap<u16, Vec<Code>> = BTreeMap::new();
        for code in Code::ALL.iter().filter(|code| codes.contains(code)) {
            by_status.entry(code.status()).or_default().push(*code);
        }
        let described = by_status.into_iter().map(|(status, codes)| {
            let about: Vec<String> =
                codes.iter().map(|code| format!("`{}`: {}", code.as_str(), code.title())).collect();
            let schema = json!({ "$ref": "#/components/schemas/Problem" });
            let response = json!({
                "description": about.join("; "),
                "content": { "application/problem+json": { "schema": schema } },
            });
            (status.to_string(), response)
        });
        described.collect()
    }
}

impl Answer {
    fn describe(&self, components: &mut Components) -> Value {
        let mut about = json!({ "description": self.about });
        if let Some((kind, schema)) = &self.content {
            about["content"] = json!({ *kind: { "schema": schema(components) } });
        }
        for (name, what) in self.headers {
            about["headers"][*name] = json!({ "description": what, "schema": { "type": "string" } });
        }
        about
    }
}
