//! gRPC tasks, as someone meets them on the first day: against a server on the same machine.

use punctual_tests::history::has_ended;
use punctual_tests::shop::{Reflection, Shop};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Scene};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A server that runs in the background.
fn shop() -> (Runtime, Shop) {
    let runtime = Runtime::new().expect("threads can be started");
    let shop = runtime.block_on(Shop::start(Reflection::V1));
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
    let (_runtime, shop) = shop();
    let message = json!({ "customerName": "{{ params.name }}", "lines": [{ "amount": 40 }, { "amount": 2 }] });
    node.api().put_job("settle", &json!({ "task": settle(&shop, &message), "params": { "name": "Ada" } }));
    let run = ended(node.api(), &node.api().start_job("settle"));
    assert_eq!((&run["state"], &run["error"]), (&json!("succeeded"), &Value::Null), "{run}");
    let output: Value = serde_json::from_str(run["output"].as_str().expect("it has an output")).expect("it is JSON");
    assert_eq!(output, json!({ "isSettled": true, "total": "42", "customer": "Ada" }));
    assert_eq!(shop.metadata()[0].get("punctual-run-id").map(|id| id.as_bytes()), run["id"].as_str().map(str::as_bytes));
}

#[test]
fn a_status_is_retried_as_the_http_status_that_means_the_same() {
    let scene = Scene::new();
    let node = scene.start();
    let (_runtime, shop) = shop();
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
