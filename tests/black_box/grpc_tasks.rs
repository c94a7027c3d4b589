//! gRPC tasks, as someone meets them on the first day: against a server on the same machine.

use std::path::Path;

use punctual_tests::authority::Authority;
use punctual_tests::guide;
use punctual_tests::history::has_ended;
use punctual_tests::shop::{self, Reflection, Shop};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Cli, Scene};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tonic::transport::{Identity, Server, ServerTlsConfig};

/// A server that runs in the background.
fn shop(reflection: Reflection) -> (Runtime, Shop) {
    let runtime = Runtime::new().expect("threads can be started");
    let shop = runtime.block_on(Shop::start(reflection));
    (runtime, shop)
}

fn settle(shop: &Shop, message: &Value) -> Value {
    json!({ "grpc": { "address": shop.address, "method": "shop.v1.Orders/Settle", "message": message } })
}

#[track_caller]
fn ended(api: &Api, run: &Value) -> Value {
    let id = run["id"].as_str().expect("a run has an id");
    wait::until(&format!("run {id} has ended"), SOON, || Some(api.run(id)).filter(has_ended))
}

#[test]
fn a_grpc_task_calls_a_service_that_knows_nothing_of_punctual() {
    let scene = Scene::new();
    let node = scene.start();
    let (_runtime, shop) = shop(Reflection::V1);
    let message =
        json!({ "customerName": "{{ params.name }}", "lines": [{ "amount": 40 }, { "amount": 2 }] });
    node.api().put_job("settle", &json!({ "task": settle(&shop, &message), "params": { "name": "Ada" } }));
    let run = ended(node.api(), &node.api().start_job("settle"));
    assert_eq!((&run["state"], &run["error"]), (&json!("succeeded"), &Value::Null), "{run}");
    let output: Value =
        serde_json::from_str(run["output"].as_str().expect("it has an output")).expect("it is JSON");
    assert_eq!(output, json!({ "isSettled": true, "total": "42", "customer": "Ada" }));
    assert_eq!(
        shop.metadata()[0].get("punctual-run-id").map(tonic::metadata::MetadataValue::as_bytes),
        run["id"].as_str().map(str::as_bytes)
    );
}

#[test]
fn a_status_is_retried_as_the_http_status_that_means_the_same() {
    let scene = Scene::new();
    let node = scene.start();
    let (_runtime, shop) = shop(Reflection::V1);
    for (id, attempts, error) in [
        (503, 2, "status UNAVAILABLE, expected OK: closed at night"),
        (404, 1, "status NOT_FOUND, expected OK: there is no order 404"),
    ] {
        let retry = json!({ "attempts": 2, "delay": "10ms" });
        let run = node.api().submit(&json!({ "task": settle(&shop, &json!({ "id": id })), "retry": retry }));
        let run = ended(node.api(), &run);
        assert_eq!((&run["state"], &run["attempt"]), (&json!("failed"), &json!(attempts)), "{run}");
        assert_eq!(run["error"], error);
    }
}

#[test]
fn a_grpc_task_trusts_the_authority_that_it_names() {
    let scene = Scene::new();
    let node = scene.start();
    let [own, other] = ["own", "other"].map(|name| Authority::make(&scene.path(""), name));
    let pem = |path: &Path| std::fs::read(path).expect("openssl has written it");
    let identity = Identity::from_pem(pem(&own.cert), pem(&own.key));
    let server = Server::builder().tls_config(ServerTlsConfig::new().identity(identity));
    let runtime = Runtime::new().expect("threads can be started");
    let shop = runtime.block_on(Shop::start_on(server.expect("the certificate is good"), Reflection::V1));
    let port = shop.address.port();
    let run = |host: &str, tls: Value| {
        let mut task = settle(&shop, &json!({ "lines": [{ "amount": 42 }] }));
        task["grpc"]["address"] = json!(format!("{host}:{port}"));
        task["grpc"]["tls"] = tls;
        let run = ended(node.api(), &node.api().submit(&json!({ "task": task })));
        (run["state"].clone(), run["error"].as_str().unwrap_or_default().to_owned())
    };
    for host in ["127.0.0.1", "localhost"] {
        assert_eq!(run(host, json!({ "ca": own.ca })), (json!("succeeded"), String::new()));
    }
    assert_eq!(shop.metadata().len(), 2);
    for tls in [json!({ "ca": other.ca }), json!({})] {
        let (state, error) = run("127.0.0.1", tls.clone());
        assert_eq!(state, json!("failed"), "{tls}");
        let words = format!("no TLS with 127.0.0.1:{port}: invalid peer certificate: ");
        assert!(error.starts_with(&words), "{tls}: {error}");
    }
    assert_eq!(run("127.0.0.1", Value::Null).0, json!("failed"), "a call without TLS");
    assert_eq!(shop.metadata().len(), 2);
}

const DESCRIPTORS: &str = "/api/v1/namespaces/default/descriptors";

#[test]
fn a_stored_schema_serves_a_server_without_reflection() {
    let scene = Scene::new();
    let node = scene.start();
    let (_runtime, shop) = shop(Reflection::None);
    scene.write("orders.proto", shop::PROTO);
    let blocks = guide::blocks(include_str!("../../docs/guides/grpc-tasks.md"));
    let commands = blocks.iter().find(|block| block.language == "sh").expect("the guide has commands");
    let type_in = || Cli::run(&mut guide::shell(&commands.text, &scene.path("."), &node)).ok();
    let said = type_in();
    assert!(said.starts_with("created default/orders, version "), "{said}");
    assert_eq!(type_in().trim(), "unchanged default/orders");
    let shown = node.cli(["descriptor", "show", "orders"]).ok();
    assert!(shown.contains("shop.v1.Orders/Settle") && !shown.contains("Watch"), "{shown}");

    let mut task = settle(&shop, &json!({ "id": "{{ params.id }}", "lines": [{ "amount": 42 }] }));
    task["grpc"]["descriptor"] = json!("orders");
    node.api().put_job("settle", &json!({ "task": task, "params": { "id": 1 } }));
    // The job carries what it needs.
    node.cli(["descriptor", "delete", "orders"]).ok();
    let run = ended(node.api(), &node.api().start_job("settle"));
    assert_eq!((&run["state"], &run["error"]), (&json!("succeeded"), &Value::Null), "{run}");
    let answer = node.api().put("/api/v1/namespaces/default/jobs/later", &json!({ "task": task }));
    let answer = answer.expect("the node answers");
    assert_eq!((answer.status, &answer.json()["field"]), (422, &json!("task.grpc.descriptor")), "{answer:?}");
}

#[test]
fn what_a_stored_schema_lacks_is_found_when_the_job_is_saved() {
    let scene = Scene::new();
    let node = scene.start();
    let file = scene.path("shop.binpb");
    std::fs::write(&file, shop::schema()).expect("the file can be written");
    node.cli(["descriptor", "apply", "shop", &file.display().to_string()]).ok();
    let saved = |method: &str, message: Value| {
        let grpc = json!({ "address": "shop:1", "method": method, "message": message, "descriptor": "shop" });
        let path = "/api/v1/namespaces/default/jobs/settle";
        let answer = node.api().put(path, &json!({ "task": { "grpc": grpc } })).expect("the node answers");
        (answer.status, answer.json()["field"].as_str().unwrap_or_default().to_owned())
    };
    let at = |field: &str| (422, format!("task.grpc.{field}"));
    assert_eq!(saved("shop.v1.Sales/Settle", json!({})), at("method"));
    assert_eq!(saved("shop.v1.Orders/Sell", json!({})), at("method"));
    assert_eq!(saved("shop.v1.Orders/Watch", json!({})), at("method"));
    assert_eq!(saved("shop.v1.Orders/Settle", json!({ "colour": "{{ params.c }}" })), at("message.colour"));
    assert_eq!(
        saved("shop.v1.Orders/Settle", json!({ "lines": [{ "amount": -1 }] })),
        at("message.lines[0].amount")
    );
    assert_eq!(saved("shop.v1.Orders/Settle", json!({ "id": "{{ params.id }}" })).0, 201);
}

#[test]
fn a_descriptor_is_changed_by_its_version_and_bad_ones_are_refused() {
    let scene = Scene::new();
    let node = scene.start();
    let api = node.api();
    let path = format!("{DESCRIPTORS}/shop");
    assert_eq!(api.get(&path).expect("the node answers").json()["code"], "no_such_descriptor");
    for (set, words) in [
        ("%", "is no base64"),
        ("", "has no service"),
        ("/w==", "is no usable google.protobuf.FileDescriptorSet"),
    ] {
        let answer = api.put(&path, &json!({ "set_base64": set })).expect("the node answers");
        assert_eq!((answer.status, &answer.json()["field"]), (422, &json!("set_base64")), "{answer:?}");
        assert!(answer.text.contains(words), "{answer:?}");
    }
    let file = scene.path("shop.binpb");
    std::fs::write(&file, shop::schema()).expect("the file can be written");
    let made = node.cli(["descriptor", "apply", "shop", &file.display().to_string(), "-o", "json"]).json();
    let body = json!({ "set_base64": api.get(&path).expect("the node answers").ok()["set_base64"] });
    let version = made["version"].as_u64().expect("it has a version");
    let listed = api.get(DESCRIPTORS).expect("the node answers").ok();
    assert_eq!(listed["items"], json!([made]));
    let put = |header: &str, value: String| {
        let answer = api
            .send(Method::PUT, &path, Some(body.to_string()), Some((header, &value)))
            .expect("the node answers");
        (answer.status, answer.json()["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(put("If-None-Match", "*".to_owned()), (409, "descriptor_exists".to_owned()));
    assert_eq!(put("If-Match", format!("\"{}\"", version + 1)), (412, "wrong_version".to_owned()));
    assert_eq!(put("If-Match", format!("\"{version}\"")).0, 200);
}
