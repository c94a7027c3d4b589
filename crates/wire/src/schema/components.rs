//! The schemas of a document, each once, with the rules that cannot be derived from types.

use std::collections::BTreeMap;

use punctual_core::limits;
use punctual_core::schedule::calendar::ENTRIES_MAX;
use punctual_core::schedule::{EXPRESSION_MAX, ZONE_MAX};
use punctual_core::task::HTTP_REDIRECTS_MAX;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::json_of;
use crate::calendar_file::{self, CalendarFile};
use crate::job_file::{self, JobFile};
use crate::rest::{DECIDED_MAX, MESSAGES_MAX};

/// The body of a job put: the job file, and the server's fields, which are accepted and ignored.
const JOB_BODY: &str = "JobBody";
/// The same for a calendar.
const CALENDAR_BODY: &str = "CalendarBody";
/// The fields of a job to change.
const JOB_PATCH: &str = "JobPatch";

/// Minimums and maximums of fields: schema, field, rule, value.
pub(super) const BOUNDS: [(&str, &str, &str, usize); 67] = [
    ("JobFile", "description", "maxLength", limits::DESCRIPTION_BYTES_MAX),
    ("JobFile", "labels", "maxProperties", limits::JOB_LABELS_MAX),
    ("JobFile", "search", "maxItems", limits::SEARCH_PARAMS_MAX),
    ("JobFile", "priority", "maximum", limits::PRIORITY_MAX as usize),
    ("Submit", "description", "maxLength", limits::DESCRIPTION_BYTES_MAX),
    ("Submit", "priority", "maximum", limits::PRIORITY_MAX as usize),
    ("Submit", "key", "minLength", 1),
    ("Submit", "key", "maxLength", limits::KEY_BYTES_MAX),
    ("Start", "key", "minLength", 1),
    ("Start", "key", "maxLength", limits::KEY_BYTES_MAX),
    ("Again", "key", "minLength", 1),
    ("Again", "key", "maxLength", limits::KEY_BYTES_MAX),
    ("Retry", "attempts", "minimum", 1),
    ("Retry", "attempts", "maximum", limits::ATTEMPTS_MAX as usize),
    ("Retry", "priority", "maximum", limits::PRIORITY_MAX as usize),
    ("Retry", "on", "minItems", 1),
    ("Retry", "on", "maxItems", limits::HTTP_STATUS_RANGES_MAX),
    ("Limit", "running", "minimum", 1),
    ("Limit", "burst", "minimum", 1),
    ("Limit", "burst", "maximum", limits::RATE_MAX as usize),
    ("Limit", "per", "minLength", 1),
    ("Limit", "per", "maxLength", limits::KEY_BYTES_MAX),
    ("Schedule", "max_runs", "minimum", 1),
    ("Schedule", "cron", "maxLength", EXPRESSION_MAX),
    ("Schedule", "timezone", "maxLength", ZONE_MAX),
    ("Route", "shards", "minimum", 1),
    ("Route", "shards", "maximum", limits::CHILDREN_MAX as usize),
    ("Process", "command", "minItems", 1),
    ("Http", "url", "maxLength", limits::URL_BYTES_MAX),
    ("Http", "redirects", "maximum", HTTP_REDIRECTS_MAX as usize),
    ("Http", "headers", "maxProperties", limits::HTTP_HEADERS_MAX),
    ("Accept", "all", "maxLength", limits::URL_BYTES_MAX),
    ("Expect", "body", "minLength", 1),
    ("Expect", "body", "maxLength", limits::HTTP_BODY_BYTES_MAX),
    ("Expect", "condition", "maxLength", limits::EXPRESSION_BYTES_MAX),
    ("Grpc", "address", "maxLength", limits::URL_BYTES_MAX),
    ("Grpc", "method", "maxLength", limits::GRPC_METHOD_BYTES_MAX),
    ("Grpc", "metadata", "maxProperties", limits::HTTP_HEADERS_MAX),
    ("GrpcExpect", "condition", "maxLength", limits::EXPRESSION_BYTES_MAX),
    ("CalendarFile", "description", "maxLength", limits::DESCRIPTION_BYTES_MAX),
    ("CalendarFile", "include", "maxItems", ENTRIES_MAX),
    ("CalendarFile", "exclude", "maxItems", ENTRIES_MAX),
    ("ActOnRuns", "ids", "minItems", 1),
    ("ActOnRuns", "ids", "maxItems", DECIDED_MAX),
    ("Decide", "ids", "minItems", 1),
    ("Decide", "ids", "maxItems", DECIDED_MAX),
    ("Decide", "limit", "minimum", 1),
    ("Decide", "limit", "maximum", DECIDED_MAX),
    ("Progress", "percent", "maximum", 100),
    ("TaskProgress", "progress", "maximum", 100),
    ("Enqueue", "body", "maxLength", limits::MESSAGE_BYTES_MAX),
    ("Enqueue", "priority", "maximum", limits::PRIORITY_MAX as usize),
    ("AddMessage", "body", "maxLength", limits::MESSAGE_BYTES_MAX),
    ("AddMessage", "priority", "maximum", limits::PRIORITY_MAX as usize),
    ("AddMessage", "max_len", "minimum", 1),
    ("AddMessage", "key", "minLength", 1),
    ("AddMessage", "key", "maxLength", limits::KEY_BYTES_MAX),
    ("AddMessages", "messages", "minItems", 1),
    ("AddMessages", "messages", "maxItems", MESSAGES_MAX),
    ("ActOnMessages", "ids", "minItems", 1),
    ("ActOnMessages", "ids", "maxItems", MESSAGES_MAX),
    ("AcquireLock", "owner", "minLength", 1),
    ("AcquireLock", "owner", "maxLength", limits::LOCK_OWNER_BYTES_MAX),
    ("Take", "count", "minimum", 1),
    ("Take", "count", "maximum", limits::TAKE_MAX as usize),
    ("Message", "priority", "maximum", limits::PRIORITY_MAX as usize),
    ("DeliveryInfo", "ack_times", "maximum", 0),
];

/// Formats of texts that have no pattern.
const FORMATS: [(&str, &str, &str); 2] =
    [("Schedule", "cron", "cron"), ("Schedule", "timezone", "iana-time-zone")];

#[derive(Debug, Default)]
pub struct Components(BTreeMap<String, Value>);

impl Components {
    /// Adds a type with all types that it refers to, and returns a reference to it.
    pub fn reference<T: ToSchema>(&mut self) -> Value {
        let mut others = Vec::new();
        T::schemas(&mut others);
        for (name, schema) in others {
            self.0.entry(name).or_insert_with(|| serde_json::to_value(schema).unwrap_or_default());
        }
        self.0.entry(T::name().into_owned()).or_insert_with(json_of::<T>);
        reference(&T::name())
    }

    /// The body of a job put.
    pub fn job_body(&mut self) -> Value {
        self.reference::<JobFile>();
        self.0.insert(JOB_BODY.to_owned(), Value::Null);
        reference(JOB_BODY)
    }

    /// The body of a calendar put.
    pub fn calendar_body(&mut self) -> Value {
        self.reference::<CalendarFile>();
        self.0.insert(CALENDAR_BODY.to_owned(), Value::Null);
        reference(CALENDAR_BODY)
    }

    /// The body of a job patch.
    pub fn job_patch(&mut self) -> Value {
        self.reference::<JobFile>();
        self.0.insert(JOB_PATCH.to_owned(), Value::Null);
        reference(JOB_PATCH)
    }

    /// All schemas, with their rules.
    pub fn finish(mut self) -> Value {
        for (schema, field, rule, bound) in BOUNDS {
            self.rule(schema, field, rule, json!(bound));
        }
        for (schema, field, format) in FORMATS {
            self.rule(schema, field, "format", json!(format));
        }
        self.exactly_one("Task", |_| true);
        self.exactly_one("Grpc", |field| matches!(field, "method" | "accept"));
        self.exactly_one("Schedule", |field| {
            matches!(field, "cron" | "every" | "after_finish" | "at" | "after" | "event" | "manual")
        });
        self.exactly_one("Decide", |field| matches!(field, "ids" | "job"));
        self.exactly_one("AddMessage", |field| matches!(field, "body" | "body_base64"));
        for (schema, field) in [
            ("Submit", "task"),
            ("Process", "command"),
            ("Http", "url"),
            ("Grpc", "address"),
            ("Enqueue", "name"),
        ] {
            if let Some(schema) = self.0.get_mut(schema) {
                need(schema, field);
            }
        }
        self.body(JOB_BODY, "JobFile", &job_file::SAID_BY_THE_SERVER);
        if let Some(body) = self.0.get_mut(JOB_BODY) {
            need(body, "task");
        }
        self.body(CALENDAR_BODY, "CalendarFile", &calendar_file::SAID_BY_THE_SERVER);
        self.patch();
        for (whole, file) in [("Job", "JobFile"), ("RevisionFile", "JobFile"), ("Calendar", "CalendarFile")] {
            self.flatten(whole, file);
        }
        let mut all = json!(self.0);
        without_widths(&mut all);
        all
    }

    fn rule(&mut self, schema: &str, field: &str, rule: &str, value: Value) {
        if let Some(schema) = self.0.get_mut(schema)
            && let Some(field) = schema["properties"].get_mut(field)
        {
            field[rule] = value;
        }
    }

    /// Requires exactly one of several fields. Null counts as absent.
    fn exactly_one(&mut self, schema: &str, is_choice: impl Fn(&str) -> bool) {
        let Some(schema) = self.0.get_mut(schema) else { return };
        let Some(fields) = schema["properties"].as_object() else { return };
        let choice = |(field, about): (&String, &Value)| match field.as_str() {
            // `manual: false` counts as absent.
            "manual" => json!({ "required": [field], "properties": { field: { "const": true } } }),
            _ => json!({ "required": [field], "properties": { field: said(about) } }),
        };
        let choices: Vec<Value> = fields.iter().filter(|(field, _)| is_choice(field)).map(choice).collect();
        schema["oneOf"] = json!(choices);
    }

    /// A body: the file with the server's fields added.
    fn body(&mut self, body: &str, file: &str, said: &[&str]) {
        let Some(mut described) = self.0.get(file).cloned() else { return };
        for field in said {
            described["properties"][field] = json!({ "description": "Said by the server. Not read." });
        }
        if let Some(place) = self.0.get_mut(body) {
            *place = described;
        }
    }

    /// A patch has any fields of the file; the patched job is checked as a whole.
    fn patch(&mut self) {
        let Some(place) = self.0.get_mut(JOB_PATCH) else { return };
        *place = json!({
            "type": "object",
            "description": "A JSON merge patch (RFC 7396) of a job file: null takes a part away.",
        });
    }

    /// Merges a file and further fields into one schema, because the schema of the file allows no other fields.
    fn flatten(&mut self, whole: &str, file: &str) {
        let Some(file) = self.0.get(file).map(|file| file["properties"].clone()) else { return };
        let Some(place) = self.0.get_mut(whole) else { return };
        let parts = place["allOf"].as_array().cloned().unwrap_or_default();
        let own = parts.into_iter().find(|part| part.get("properties").is_some());
        let mut described = own.unwrap_or_default();
        for (field, schema) in file.as_object().into_iter().flatten() {
            described["properties"][field] = schema.clone();
        }
        *place = described;
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// Removes `int32` and `int64`, which are wrong for unsigned numbers; minimum and maximum give the range.
fn without_widths(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("format").is_some_and(|format| format == "int32" || format == "int64") {
                fields.remove("format");
            }
            fields.values_mut().for_each(without_widths);
        }
        Value::Array(items) => items.iter_mut().for_each(without_widths),
        _ => {}
    }
}

/// Makes a field required.
fn need(schema: &mut Value, field: &str) {
    match schema["required"].as_array_mut() {
        Some(needed) if needed.iter().any(|one| one == field) => {}
        Some(needed) => needed.push(json!(field)),
        None => schema["required"] = json!([field]),
    }
    schema["properties"][field] = said(&schema["properties"][field]);
}

/// The schema of a field without null, which means "absent".
fn said(about: &Value) -> Value {
    let mut about = about.clone();
    if let Some(types) = about["type"].as_array() {
        about["type"] = types.iter().find(|one| *one != "null").cloned().unwrap_or_default();
    }
    match about["oneOf"].as_array() {
        Some(choices) => choices.iter().find(|one| one["type"] != "null").cloned().unwrap_or_default(),
        None => about,
    }
}
