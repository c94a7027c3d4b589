//! The document and the table of routes say the same.

use std::collections::BTreeSet;

use super::*;

fn described() -> BTreeSet<(String, String)> {
    operations().iter().map(|operation| (operation.method.to_string(), operation.path.to_owned())).collect()
}

#[test]
fn every_route_is_described_and_nothing_else_is() {
    let served: BTreeSet<_> =
        table().into_iter().map(|route| (route.method.to_string(), route.path.to_owned())).collect();
    let missing: Vec<_> = served.difference(&described()).cloned().collect();
    assert!(missing.is_empty(), "not described in openapi/operations.rs: {missing:?}");
    let gone: Vec<_> = described().difference(&served).cloned().collect();
    assert!(gone.is_empty(), "described, but nothing serves them: {gone:?}");
    assert_eq!(operations().len(), served.len(), "an operation is described twice");
}

/// A row of the page begins with the request: "| `GET /jobs/{name}".
#[test]
fn the_rest_page_lists_every_route() {
    let page = include_str!("../../../../docs/reference/rest.md");
    let missing: Vec<String> = table()
        .iter()
        .map(|route| {
            let path = route.path.trim_start_matches("/api/v1/namespaces/{namespace}");
            format!("| `{} {path}", route.method)
        })
        .filter(|row| !['`', '?'].iter().any(|end| page.contains(&format!("{row}{end}"))))
        .collect();
    assert!(missing.is_empty(), "docs/reference/rest.md has no row that begins with {missing:#?}");
}

#[test]
fn every_operation_has_a_name_of_its_own_and_an_answer_that_went_well() {
    let document = document(false);
    let paths = document["paths"].as_object().unwrap();
    let mut names = BTreeSet::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().unwrap() {
            let name = operation["operationId"].as_str().unwrap();
            assert!(names.insert(name.to_owned()), "{name} is given twice");
            let answers = operation["responses"].as_object().unwrap();
            assert!(answers.keys().any(|status| status.starts_with('2')), "{method} {path}");
            for parameter in operation["parameters"].as_array().unwrap() {
                assert!(!parameter["schema"].is_null(), "{method} {path}: {parameter}");
            }
        }
    }
}

/// Every reference leads somewhere, however deep it stands.
#[test]
fn every_reference_is_to_a_schema_that_there_is() {
    fn check(part: &Value, document: &Value) {
        match part {
            Value::Object(fields) => {
                if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                    let pointer = reference.strip_prefix('#').expect("references are to this document");
                    assert!(document.pointer(pointer).is_some_and(Value::is_object), "{reference}");
                }
                fields.values().for_each(|part| check(part, document));
            }
            Value::Array(items) => items.iter().for_each(|part| check(part, document)),
            _ => {}
        }
    }
    let document = document(false);
    check(&document, &document);
}

#[test]
fn a_server_says_which_operations_need_a_token_and_dev_says_none() {
    let (guarded, open) = (document(true), document(false));
    for route in table() {
        let method = route.method.as_str().to_ascii_lowercase();
        let needs = guarded["paths"][route.path][&method]["security"].is_array();
        assert_eq!(needs, !matches!(route.right, Right::Anyone | Right::Ping), "{method} {}", route.path);
        assert!(open["paths"][route.path][&method]["security"].is_null());
    }
}

/// The types of the console are made from this file. `UPDATE_DOCS=1` writes it anew.
#[test]
fn the_committed_document_is_the_served_one() {
    /// One line for each operation and each schema, so that git can merge two changes.
    fn lines(part: &Value, depth: usize) -> String {
        match part {
            Value::Object(fields) if depth > 0 => {
                let fields =
                    fields.iter().map(|(name, part)| format!("{}: {}", json!(name), lines(part, depth - 1)));
                format!("{{\n{}\n}}", fields.collect::<Vec<_>>().join(",\n"))
            }
            _ => part.to_string(),
        }
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/openapi.json");
    let expected = lines(&document(true), 3) + "\n";
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(file, &expected).unwrap();
    }
    let committed = std::fs::read_to_string(file).unwrap();
    let [was, is] = [&committed, &expected].map(|document| document.lines().collect::<BTreeSet<_>>());
    let differ: Vec<String> =
        was.symmetric_difference(&is).map(|line| line.chars().take(100).collect()).collect();
    assert!(committed == expected, "UPDATE_DOCS=1 writes it anew; these lines differ: {differ:#?}");
}
