//! Methods of gRPC services that are known only at run time: finds them in a schema, and turns JSON into messages and
//! back.
//!
//! The JSON is that of Protocol Buffers: names of fields in lowerCamelCase or as in the schema, numbers of 64 bits as text.
//! An error names the field of the job at fault.

mod answer;

use std::collections::BTreeMap;

use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, FieldDescriptor, FileDescriptor, Kind,
    MessageDescriptor, ServiceDescriptor,
};
use serde_json::{Value, json};

use super::json::{check_json, short};
use super::process::template;
use crate::invalid::Invalid;
use crate::limits::{GRPC_CARRIED_BYTES_MAX, GRPC_SCHEMA_BYTES_MAX, GRPC_SCHEMA_FILES_MAX};
use crate::template::Scope;

const METHOD: &str = "task.grpc.method";
const MESSAGE: &str = "task.grpc.message";
/// Names that an error lists at most.
const LISTED_MAX: usize = 20;

/// The types and services that one can call.
#[derive(Debug, Clone)]
pub struct Schema(DescriptorPool);

/// A schema as it arrives, file by file.
#[derive(Debug, Default)]
pub struct SchemaFiles {
    files: BTreeMap<String, FileDescriptorProto>,
    bytes: usize,
}

/// A unary method.
#[derive(Debug, Clone)]
pub struct UnaryMethod {
    input: MessageDescriptor,
    output: MessageDescriptor,
}

impl SchemaFiles {
    /// Adds a `google.protobuf.FileDescriptorProto`. A file that is there already changes nothing.
    pub fn add(&mut self, file: &[u8]) -> Result<(), String> {
        self.bytes += file.len();
        let file =
            FileDescriptorProto::decode(file).map_err(|error| format!("a file is not readable: {error}"))?;
        self.files.entry(file.name().to_owned()).or_insert(file);
        if self.files.len() > GRPC_SCHEMA_FILES_MAX || self.bytes > GRPC_SCHEMA_BYTES_MAX {
            return Err(format!(
                "it has more than {GRPC_SCHEMA_FILES_MAX} files or {GRPC_SCHEMA_BYTES_MAX} bytes"
            ));
        }
        Ok(())
    }

    /// The name of a file that another one imports and that is not there yet.
    pub fn missing(&self) -> Option<&str> {
        let imports = self.files.values().flat_map(|file| &file.dependency);
        imports.map(String::as_str).find(|name| !self.files.contains_key(*name))
    }

    pub fn into_schema(self) -> Result<Schema, String> {
        let mut pool = DescriptorPool::new();
        pool.add_file_descriptor_protos(self.files.into_values()).map_err(|error| error.to_string())?;
        Schema::of(pool)
    }
}

impl Schema {
    /// Reads a `google.protobuf.FileDescriptorSet` with all imports.
    pub fn decode(set: &[u8]) -> Result<Schema, String> {
        DescriptorPool::decode(set).map_err(|error| error.to_string()).and_then(Schema::of)
    }

    fn of(pool: DescriptorPool) -> Result<Schema, String> {
        // The entry of a map is a message that the compiler writes. The library panics if a field is missing in it.
        let is_whole =
            |entry: &MessageDescriptor| [1, 2].iter().all(|field| entry.get_field(*field).is_some());
        let broken = pool.all_messages().find(|message| message.is_map_entry() && !is_whole(message));
        if let Some(entry) = broken {
            return Err(format!("`{}` is an entry of a map without a key or a value", entry.full_name()));
        }
        Ok(Schema(pool))
    }

    /// The services by name, each with its unary methods.
    pub fn services(&self) -> Vec<(String, Vec<String>)> {
        let unary = |service: ServiceDescriptor| {
            let methods = service.methods();
            let unary =
                methods.filter(|method| !method.is_client_streaming() && !method.is_server_streaming());
            unary.map(|method| method.name().to_owned()).collect()
        };
        self.0.services().map(|service| (service.full_name().to_owned(), unary(service))).collect()
    }

    /// The files that a service needs, as a `google.protobuf.FileDescriptorSet` without comments.
    pub(super) fn part_for(&self, service: &str) -> Result<Vec<u8>, Invalid> {
        let mut needed = BTreeMap::new();
        let mut open: Vec<FileDescriptor> = vec![self.service(service)?.parent_file()];
        while let Some(file) = open.pop() {
            if !needed.contains_key(file.name()) {
                let plain =
                    FileDescriptorProto { source_code_info: None, ..file.file_descriptor_proto().clone() };
                needed.insert(file.name().to_owned(), plain);
                open.extend(file.dependencies());
            }
        }
        let set = FileDescriptorSet { file: needed.into_values().collect() }.encode_to_vec();
        if set.len() > GRPC_CARRIED_BYTES_MAX {
            let message = format!(
                "the file of `{service}` and its imports have {} bytes, at most {GRPC_CARRIED_BYTES_MAX}; move the service \
                 to a file with fewer imports",
                set.len()
            );
            return Err(Invalid::new(METHOD, message));
        }
        Ok(set)
    }

    /// The unary method with this name. The service is named with its package.
    pub fn method(&self, service: &str, name: &str) -> Result<UnaryMethod, Invalid> {
        let refuse = |message: String| Invalid::new(METHOD, message);
        let found = self.service(service)?;
        let Some(method) = found.methods().find(|method| method.name() == name) else {
            let known = listed(found.methods().map(|method| method.name().to_owned()));
            return Err(refuse(format!("the service `{service}` has no method `{name}`; {known}")));
        };
        if method.is_client_streaming() || method.is_server_streaming() {
            return Err(refuse(format!("`{name}` is a streaming method; a task calls a unary method")));
        }
        Ok(UnaryMethod { input: method.input(), output: method.output() })
    }

    fn service(&self, name: &str) -> Result<ServiceDescriptor, Invalid> {
        self.0.get_service_by_name(name).ok_or_else(|| {
            let known = listed(self.0.services().map(|service| service.full_name().to_owned()));
            Invalid::new(METHOD, format!("the schema has no service `{name}`; {known}"))
        })
    }
}

impl UnaryMethod {
    /// Checks a message as it is written in a job. What an expression gives is not known yet, so its type is not
    /// checked.
    pub(super) fn check_templates(&self, message: &str) -> Result<(), Invalid> {
        let message = check_json(MESSAGE, message, &Scope::CHECKED_TASK)?;
        check_message(&self.input, &message, MESSAGE, Texts::Templates)?;
        if has_expression(&message) { Ok(()) } else { self.encode(&message).map(|_| ()) }
    }

    /// The bytes of a message. The error names the field that does not fit its type.
    pub fn encode(&self, message: &Value) -> Result<Vec<u8>, Invalid> {
        check_message(&self.input, message, MESSAGE, Texts::Final)?;
        // What concerns several fields is found only now, such as two fields of one `oneof`.
        read(&self.input, message)
            .map(|message| message.encode_to_vec())
            .map_err(|error| Invalid::new(MESSAGE, error))
    }
}

fn read(of: &MessageDescriptor, value: &Value) -> Result<DynamicMessage, String> {
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    DynamicMessage::deserialize_with_options(of.clone(), value, &options).map_err(|error| error.to_string())
}

/// What the texts of a message are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Texts {
    Templates,
    Final,
}

fn has_expression(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            template(MESSAGE, text, &Scope::CHECKED_TASK).is_ok_and(|template| !template.is_literal())
        }
        Value::Array(items) => items.iter().any(has_expression),
        Value::Object(entries) => entries.values().any(has_expression),
        _ => false,
    }
}

/// Whether a value may still become another one.
fn is_open(value: &Value, texts: Texts) -> bool {
    texts == Texts::Templates && has_expression(value)
}

fn check_message(of: &MessageDescriptor, value: &Value, at: &str, texts: Texts) -> Result<(), Invalid> {
    if is_open(value, texts) && (value.is_string() || of.full_name().starts_with("google.protobuf.")) {
        return Ok(());
    }
    if of.full_name().starts_with("google.protobuf.") {
        // Such types may have a JSON form of their own, for example a text for a timestamp.
        return read(of, value).map(|_| ()).map_err(|error| Invalid::new(at.to_owned(), error));
    }
    let Some(entries) = value.as_object() else {
        return Err(Invalid::new(
            at.to_owned(),
            format!("must be a map with fields of `{}`", of.full_name()),
        ));
    };
    for (name, value) in entries {
        let at = format!("{at}.{}", short(name));
        let field = of.get_field_by_json_name(name).or_else(|| of.get_field_by_name(name));
        let Some(field) = field else {
            let known = listed(of.fields().map(|field| field.json_name().to_owned()));
            return Err(Invalid::new(at, format!("is no field of `{}`; {known}", of.full_name())));
        };
        check_field(&field, value, &at, texts)?;
    }
    Ok(())
}

fn check_field(field: &FieldDescriptor, value: &Value, at: &str, texts: Texts) -> Result<(), Invalid> {
    let Kind::Message(of) = field.kind() else { return check_plain(field, value, at, texts) };
    match value {
        // It means that the field is not there.
        Value::Null => Ok(()),
        Value::String(_) if is_open(value, texts) => Ok(()),
        Value::Object(entries) if field.is_map() => {
            let field = of.map_entry_value_field();
            entries.iter().try_for_each(|(key, value)| {
                check_field(&field, value, &format!("{at}.{}", short(key)), texts)
            })
        }
        Value::Array(items) if field.is_list() => {
            let mut items = items.iter().enumerate();
            items.try_for_each(|(index, item)| check_message(&of, item, &format!("{at}[{index}]"), texts))
        }
        _ if field.is_map() => Err(Invalid::new(at.to_owned(), "must be a map")),
        _ if field.is_list() => Err(Invalid::new(at.to_owned(), "must be a list")),
        _ => check_message(&of, value, at, texts),
    }
}

/// Checks a number, a text, or a list of such: alone in its message, so that an error is about no other field.
fn check_plain(field: &FieldDescriptor, value: &Value, at: &str, texts: Texts) -> Result<(), Invalid> {
    let check = |value: Value, at: String| {
        if is_open(&value, texts) {
            return Ok(());
        }
        let alone = json!({ (field.json_name()): value });
        let wrong = |error| Invalid::new(at, format!("must be of type `{}`: {error}", type_of(field)));
        read(field.parent_message(), &alone).map(|_| ()).map_err(wrong)
    };
    match value {
        Value::Array(items) if field.is_list() => {
            let mut items = items.iter().enumerate();
            items.try_for_each(|(index, item)| check(json!([item]), format!("{at}[{index}]")))
        }
        _ => check(value.clone(), at.to_owned()),
    }
}

fn type_of(field: &FieldDescriptor) -> String {
    match field.kind() {
        Kind::Enum(of) => of.full_name().to_owned(),
        plain => format!("{plain:?}"),
    }
}

fn listed(names: impl Iterator<Item = String>) -> String {
    let mut names: Vec<String> = names.take(LISTED_MAX + 1).collect();
    if names.is_empty() {
        return "there are none".to_owned();
    }
    if names.len() > LISTED_MAX {
        names.truncate(LISTED_MAX);
        names.push("…".to_owned());
    }
    format!("it has {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use protox::file::{File, FileResolver, GoogleFileResolver};

    use super::super::{Grpc, NamedDescriptor};
    use super::*;

    const FILE: &str = r#"
        syntax = "proto3";
        package shop.v1;
        import "google/protobuf/timestamp.proto";
        import "google/protobuf/struct.proto";
        import "google/protobuf/any.proto";
        message Order {
          int64 id = 1;
          string customer_name = 2;
          repeated Line lines = 3;
          map<string, int32> counts = 4;
          State state = 5;
          google.protobuf.Timestamp due = 6;
          oneof how { string card = 7; bool cash = 8; }
          repeated int32 numbers = 9;
          google.protobuf.Struct free = 10;
          map<string, Line> by_name = 11;
          google.protobuf.Any any = 12;
        }
        message Line { uint32 amount = 1; bool ok = 2; }
        enum State { NEW = 0; PAID = 1; }
        service Orders {
          rpc Settle(Order) returns (Line);
          rpc Watch(Order) returns (stream Line);
          rpc Upload(stream Order) returns (Line);
        }
    "#;

    struct Resolver;

    impl FileResolver for Resolver {
        fn open_file(&self, name: &str) -> Result<File, protox::Error> {
            match name {
                "shop.proto" => File::from_source(name, FILE),
                _ => GoogleFileResolver::new().open_file(name),
            }
        }
    }

    fn schema() -> Schema {
        let mut compiler = protox::Compiler::with_file_resolver(Resolver);
        let set = compiler.include_imports(true).open_file("shop.proto").unwrap().file_descriptor_set();
        let mut files = SchemaFiles::default();
        let (of_shop, imported): (Vec<_>, Vec<_>) =
            set.file.into_iter().partition(|file| file.name() == "shop.proto");
        files.add(&of_shop[0].encode_to_vec()).unwrap();
        assert!(files.missing().unwrap().starts_with("google/protobuf/"));
        for file in imported {
            files.add(&file.encode_to_vec()).unwrap();
        }
        assert_eq!(files.missing(), None);
        files.into_schema().unwrap()
    }

    pub(super) fn method() -> UnaryMethod {
        schema().method("shop.v1.Orders", "Settle").unwrap()
    }

    #[test]
    fn a_method_that_cannot_be_called_is_refused() {
        for (service, method, words) in [
            ("shop.v1.Order", "Settle", "the schema has no service `shop.v1.Order`; it has shop.v1.Orders"),
            ("shop.v1.Orders", "Sell", "has no method `Sell`; it has Settle, Watch, Upload"),
            ("shop.v1.Orders", "Watch", "`Watch` is a streaming method; a task calls a unary method"),
            ("shop.v1.Orders", "Upload", "`Upload` is a streaming method; a task calls a unary method"),
        ] {
            let refused = schema().method(service, method).unwrap_err();
            assert_eq!(refused.field, "task.grpc.method");
            assert!(refused.message.contains(words), "{}", refused.message);
        }
    }

    #[test]
    fn a_message_is_written_as_its_type_says() {
        let message = json!({
            "id": "9007199254740993", "customerName": "a", "lines": [{ "amount": 3 }, {}], "counts": { "x": -1 },
            "state": "PAID", "due": "2027-01-15T08:00:00Z", "card": "c", "numbers": [1, 2], "free": { "a": [null] },
            "by_name": { "b": { "ok": true } },
        });
        let bytes = method().encode(&message).unwrap();
        let order = UnaryMethod { output: method().input, ..method() }.decode(&bytes).unwrap();
        assert_eq!(order["id"], "9007199254740993");
        assert_eq!(order["lines"], json!([{ "amount": 3, "ok": false }, { "amount": 0, "ok": false }]));
        assert_eq!((&order["state"], &order["due"]), (&json!("PAID"), &json!("2027-01-15T08:00:00Z")));
        assert_eq!(order.get("cash"), None, "a field of a oneof is there if it is set");
        // Both ways to write a name mean the same.
        let other = method().encode(&json!({ "customer_name": "a" })).unwrap();
        assert_eq!(other, method().encode(&json!({ "customerName": "a", "lines": null })).unwrap());
    }

    #[test]
    fn a_message_that_does_not_fit_names_its_field() {
        for (message, field, words) in [
            (json!({ "colour": 1 }), ".colour", "is no field of `shop.v1.Order`; it has id, customerName"),
            (json!({ "id": "many" }), ".id", "must be of type `int64`"),
            (json!({ "id": 1.5 }), ".id", "`int64`"),
            (json!({ "customerName": 7 }), ".customerName", "`string`"),
            (json!({ "lines": [{}, { "amount": -1 }] }), ".lines[1].amount", "`uint32`"),
            (json!({ "lines": {} }), ".lines", "must be a list"),
            (json!({ "lines": [7] }), ".lines[0]", "must be a map with fields of `shop.v1.Line`"),
            (json!({ "counts": { "x": "y" } }), ".counts.x", "`int32`"),
            (json!({ "counts": 1 }), ".counts", "must be a map"),
            (json!({ "byName": { "x": { "amount": [] } } }), ".byName.x.amount", "`uint32`"),
            (json!({ "state": "LOST" }), ".state", "`shop.v1.State`"),
            (json!({ "due": "soon" }), ".due", ""),
            (json!({ "numbers": [1, "two"] }), ".numbers[1]", "`int32`"),
            (json!({ "card": "a", "cash": true }), "", "oneof"),
        ] {
            let refused = method().encode(&message).unwrap_err();
            assert_eq!(refused.field, format!("task.grpc.message{field}"), "{message}: {}", refused.message);
            assert!(refused.message.contains(words), "{message}: {}", refused.message);
        }
    }

    #[test]
    fn a_message_with_templates_is_checked_as_far_as_it_is_known() {
        let check = |message: Value| method().check_templates(&message.to_string());
        let good = json!({
            "id": "{{ params.id }}", "lines": [{ "amount": "{{ params.n }}" }, "{{ params.line }}"], "byName": "{{ params.map }}",
            "counts": { "x": "{{ params.n }}" }, "free": { "a": "{{ params.n }}" }, "due": "{{ due }}", "numbers": ["{{ params.n }}"],
        });
        assert_eq!(check(good), Ok(()));
        for (message, field) in [
            (json!({ "id": "{{ params.id }}", "colour": "{{ params.c }}" }), ".colour"),
            (json!({ "id": "{{ params.id }}", "state": "LOST" }), ".state"),
            (json!({ "lines": [{ "amount": "{{ params.n }}" }, { "amount": "many" }] }), ".lines[1].amount"),
            (json!({ "card": "a", "cash": true }), ""),
        ] {
            assert_eq!(
                check(message.clone()).unwrap_err().field,
                format!("task.grpc.message{field}"),
                "{message}"
            );
        }
    }

    #[test]
    fn a_task_carries_the_part_of_a_schema_that_it_needs() {
        let mut compiler = protox::Compiler::with_file_resolver(Resolver);
        let all = compiler.include_imports(true).include_source_info(true).open_file("shop.proto").unwrap();
        let mut set = all.file_descriptor_set();
        let other =
            FileDescriptorProto { name: Some("other.proto".to_owned()), ..FileDescriptorProto::default() };
        set.file.push(other);
        let schema = Schema::decode(&set.encode_to_vec()).unwrap();
        assert_eq!(schema.services(), [("shop.v1.Orders".to_owned(), vec!["Settle".to_owned()])]);
        let name = NamedDescriptor { name: "shop".parse().unwrap(), carried: None };
        let grpc = Grpc { descriptor: Some(name), ..Grpc::call("a:1", "shop.v1.Orders/Settle") };
        let carrying = grpc.carrying(7, &schema).unwrap();
        let carried = carrying.descriptor.clone().unwrap().carried.unwrap();
        let part = FileDescriptorSet::decode(&*carried.set).unwrap();
        let names: Vec<&str> = part.file.iter().map(FileDescriptorProto::name).collect();
        assert_eq!(
            names,
            [
                "google/protobuf/any.proto",
                "google/protobuf/struct.proto",
                "google/protobuf/timestamp.proto",
                "shop.proto"
            ]
        );
        assert!(part.file.iter().all(|file| file.source_code_info.is_none()));
        assert_eq!(carried.version, 7);
        let method = Schema::decode(&carried.set).unwrap().method("shop.v1.Orders", "Settle").unwrap();
        method.encode(&json!({ "id": 1 })).unwrap();
        let text = serde_json::to_string(&carrying).unwrap();
        assert_eq!(serde_json::from_str::<Grpc>(&text).unwrap(), carrying);
        let lacks = Grpc { message: r#"{"colour": 1}"#.to_owned(), ..grpc };
        assert_eq!(lacks.carrying(7, &schema).unwrap_err().field, "task.grpc.message.colour");
        assert!(
            Schema::decode(&FileDescriptorSet { file: vec![part.file[3].clone()] }.encode_to_vec()).is_err()
        );
    }

    #[test]
    fn a_map_entry_without_a_value_is_refused() {
        let mut set = protox::Compiler::with_file_resolver(Resolver);
        let mut file = set.include_imports(true).open_file("shop.proto").unwrap().file_descriptor_set();
        let shop = file.file.iter_mut().find(|file| file.name() == "shop.proto").unwrap();
        let entry = &mut shop.message_type[0].nested_type[0];
        assert!(entry.options.as_ref().unwrap().map_entry());
        entry.field.pop();
        assert!(Schema::decode(&file.encode_to_vec()).is_err());
    }

    #[test]
    fn bytes_that_are_no_schema_or_no_answer_are_refused() {
        assert!(SchemaFiles::default().add(b"\xff").is_err());
        let mut files = SchemaFiles { bytes: GRPC_SCHEMA_BYTES_MAX, ..SchemaFiles::default() };
        assert!(files.add(b"\x0a\x01a").unwrap_err().contains("more than"));
        assert!(method().decode(b"\x08").is_err());
    }
}
