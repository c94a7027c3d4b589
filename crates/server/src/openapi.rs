//! `/api/v1/openapi.json`: the machine-readable description of the REST API.
//!
//! `operations` describes every row of the route table, once; the schemas come from the types that are read
//! and written. A test lists routes without a description and descriptions without a route.

mod operation;
mod operations;

use std::sync::OnceLock;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use punctual_wire::rest::Problem;
use punctual_wire::schema::Components;
use serde_json::{Map, Value, json};

use operations::operations;

use crate::Endpoints;
use crate::routes::{Right, Route, table};

/// Two documents: where no token is needed, the document must not ask for one.
pub(crate) async fn openapi(State(endpoints): State<Endpoints>) -> Response {
    static OPEN: OnceLock<Bytes> = OnceLock::new();
    static GUARDED: OnceLock<Bytes> = OnceLock::new();
    let guarded = !endpoints.gate.is_open();
    let place = if guarded { &GUARDED } else { &OPEN };
    let document = place.get_or_init(|| document(guarded).to_string().into());
    ([(header::CONTENT_TYPE, "application/json")], document.clone()).into_response()
}

fn document(guarded: bool) -> Value {
    let mut components = Components::default();
    let mut paths: Map<String, Value> = Map::new();
    for operation in operations() {
        let (path, method) = (operation.path, operation.method.as_str().to_ascii_lowercase());
        paths.entry(path).or_insert_with(|| json!({}))[method] = operation.describe(&mut components);
    }
    components.reference::<Problem>();
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Punctual",
            "version": "v1",
            "description": "Every error is answered as `application/problem+json`; `code` names the error.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": { "schemas": components.finish() },
    });
    if guarded {
        require_tokens(&mut document);
    }
    document
}

fn require_tokens(document: &mut Value) {
    document["components"]["securitySchemes"]["token"] = json!({
        "type": "http",
        "scheme": "bearer",
        "description": "A token of `punctual token add`.",
    });
    let needs_token = |route: &Route| !matches!(route.right, Right::Anyone | Right::Ping);
    for route in table().into_iter().filter(needs_token) {
        let method = route.method.as_str().to_ascii_lowercase();
        document["paths"][route.path][method]["security"] = json!([{ "token": [] }]);
    }
}

#[cfg(test)]
mod tests;
