//! REST keeps to its own OpenAPI document, as schemathesis sees it: a small sweep, `make contract` is a larger one.

use std::process::Command;

use punctual_tests::{Cli, Scene, binary};

/// Cases sent to each operation: enough to meet every field once.
const EXAMPLES: &str = "6";

#[test]
fn rest_keeps_to_its_openapi_document() {
    let _scene = Scene::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/contract/run");
    let told = Cli::run(Command::new(script).arg(binary::path()).arg(EXAMPLES));
    assert!(told.status.success(), "{}{}", told.out, told.err);
}
