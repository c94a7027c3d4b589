//! `/api/v1/openapi.json`: what this server understands, for programs.
//!
//! `operations` describes every row of the table of routes, once; the schemas come from the types that are read and
//! written. A test names the routes that are not described and the descriptions that nothing serves.

mod operation;
mod operations;

use std::sync::OnceLock;

use axum::body::Bytes;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use punctual_wire::rest::Problem;
use punctual_wire::schema::Components;
use serde_json::{Map, Value, json};

use operations::operations;

pub(crate) async fn openapi() -> Response {
    static DOCUMENT: OnceLock<Bytes> = OnceLock::new();
    let document = DOCUMENT.get_or_init(|| document().to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], document.clone()).into_response()
}

fn document() -> Value {
    let mut components = Components::default();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations() {
        let (path, method) = (operation.path, operation.method.as_str().to_ascii_lowercase());
        paths.entry(path).or_insert_with(|| json!({}))[method] = operation.describe(&mut components);
    }
    components.reference::<Problem>();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Punctual",
            "version": "v1",
            "description": "Whatever is wrong is answered as `application/problem+json`; `code` names it.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": { "schemas": components.finish() },
    })
}

#[cfg(test)]
mod tests;
