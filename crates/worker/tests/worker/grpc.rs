//! Calls of gRPC methods, against a tonic server of our own that knows nothing of Punctual.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::{Assignment, End, Outcome};
use punctual_core::ids::RunId;
use punctual_core::log::Stream;
use punctual_core::retry::Failed;
use punctual_core::run::Cause;
use punctual_core::task::{Code, Grpc, GrpcExpect, Params, Task};
use punctual_worker::{Egress, Order as WorkerOrder, Rule};
use serde_json::{Value, json};

use crate::egress::scripted;
use crate::http::outcome_through;
use crate::rig::{Rig, TOKEN, assignment, until};
use crate::shop::{Reflection, Shop};

fn settle(shop: &Shop, message: &Value) -> Grpc {
    Grpc { message: message.to_string(), ..Grpc::call(shop.address.to_string(), "shop.v1.Orders/Settle") }
}

fn task(grpc: Grpc) -> Task {
    Task::Grpc(Box::new(grpc))
}

fn loopback() -> Egress {
    Egress::new(vec![Rule::Loopback])
}

async fn outcome_of(grpc: Grpc) -> Outcome {
    outcome_through(loopback(), task(grpc)).await
}

async fn rig() -> Rig {
    Rig::start_with(|config| config.egress = Arc::new(loopback())).await
}

#[tokio::test]
async fn a_method_is_called_with_json_by_the_schema_that_the_server_tells() {
    let shop = Shop::start(Reflection::V1).await;
    let message = json!({
        "id": "1", "customerName": "{{ params.name }}", "lines": [{ "amount": "{{ params.amount }}" }, { "amount": 2 }],
        "patience": "1.5s",
    });
    let grpc = Grpc {
        metadata: [("Authorization".to_owned(), "Bearer {{ params.key }}".to_owned())].into(),
        expect: GrpcExpect {
            condition: Some(
                "json.isSettled and status == 'OK' and headers['served-by'] == 'till-3'".to_owned(),
            ),
            ..GrpcExpect::default()
        },
        ..settle(&shop, &message)
    };
    let mut rig = rig().await;
    let params = Params(r#"{"name": "Ada", "amount": 40, "key": "s3"}"#.into());
    rig.order(vec![WorkerOrder::Assign(Assignment { params, ..assignment(1, task(grpc)) })]).await;
    let outcome = rig.finished(1).await;
    assert_eq!((outcome.end, outcome.exit_code, &*outcome.error), (End::Succeeded, None, ""));
    let answer: Value = serde_json::from_str(&outcome.output).unwrap();
    assert_eq!(answer, json!({ "isSettled": true, "total": "42", "customer": "Ada" }));
    assert_eq!(serde_json::from_str::<Value>(&rig.logs.text(1, Stream::Out)).unwrap(), answer);
    let note = rig.logs.text(1, Stream::Note);
    assert!(
        note.starts_with(&format!("shop.v1.Orders/Settle of {}: status OK after ", shop.address)),
        "{note}"
    );
    let seen = shop.metadata()[0].clone();
    let text = |name: &str| seen.get(name).unwrap().to_str().unwrap().to_owned();
    assert_eq!((text("authorization"), text("punctual-run-id")), ("Bearer s3".to_owned(), "1".to_owned()));
    assert_eq!((text("punctual-attempt"), text("grpc-timeout")), ("2".to_owned(), "60000000u".to_owned()));
    rig.shut_down().await;
}

#[tokio::test]
async fn a_server_with_the_older_reflection_is_called_too() {
    let shop = Shop::start(Reflection::V1Alpha).await;
    let outcome = outcome_of(settle(&shop, &json!({ "lines": [{ "amount": 3 }] }))).await;
    assert_eq!((outcome.end, &*outcome.error), (End::Succeeded, ""));
    let shop = Shop::start(Reflection::None).await;
    let outcome = outcome_of(settle(&shop, &json!({}))).await;
    let expected = format!(
        "{} does not tell its schema: switch its reflection service on, or name a `descriptor`",
        shop.address
    );
    assert_eq!((outcome.end, &*outcome.error), (End::Failed, &*expected));
    assert_eq!(shop.metadata().len(), 0);
}

#[tokio::test]
async fn a_call_that_the_schema_does_not_allow_names_its_field() {
    let shop = Shop::start(Reflection::V1).await;
    let to = |method: &str| Grpc { method: method.to_owned(), ..settle(&shop, &json!({})) };
    for (grpc, words) in [
        (to("shop.v1.Sales/Settle"), "task.grpc.method: the server has no service `shop.v1.Sales`"),
        (to("shop.v1.Orders/Sell"), "task.grpc.method: the service `shop.v1.Orders` has no method `Sell`"),
        (to("shop.v1.Orders/Watch"), "task.grpc.method: `Watch` is a streaming method"),
        (settle(&shop, &json!({ "colour": 1 })), "task.grpc.message.colour: is no field of `shop.v1.Order`"),
        (settle(&shop, &json!({ "lines": [{ "amount": "a" }] })), "task.grpc.message.lines[0].amount: "),
        (settle(&shop, &json!({ "id": "{{ params.id }}" })), "task.grpc.message.id: "),
    ] {
        let outcome = outcome_of(grpc).await;
        assert_eq!((outcome.end, outcome.failed), (End::Failed, Failed::Error));
        assert!(outcome.error.starts_with(words), "{}", outcome.error);
    }
    assert_eq!(shop.metadata().len(), 0);
}

#[tokio::test]
async fn a_status_or_an_answer_that_is_not_expected_fails() {
    let shop = Shop::start(Reflection::V1).await;
    let outcome = outcome_of(settle(&shop, &json!({ "id": 404 }))).await;
    assert_eq!(&*outcome.error, "status NOT_FOUND, expected OK: there is no order 404");
    assert_eq!((outcome.end, outcome.failed), (End::Failed, Failed::Status(404)));
    let outcome = outcome_of(settle(&shop, &json!({ "id": 503 }))).await;
    assert_eq!((&*outcome.output, outcome.failed), ("closed at night", Failed::Status(503)));

    let expecting = |id: i64, status: &[&str], condition: Option<&str>| {
        let status = status.iter().map(|word| Code::parse(word).unwrap()).collect();
        let expect = GrpcExpect { status, condition: condition.map(str::to_owned) };
        outcome_of(Grpc { expect, ..settle(&shop, &json!({ "id": id })) })
    };
    let outcome = expecting(404, &["OK", "NOT_FOUND"], Some("json is none and 'order' in body")).await;
    assert_eq!(
        (outcome.end, &*outcome.output),
        (End::Succeeded, "there is no order 404"),
        "{}",
        outcome.error
    );
    let outcome = expecting(1, &["NOT_FOUND"], None).await;
    assert!(outcome.error.starts_with("status OK, expected NOT_FOUND: {"), "{}", outcome.error);
    // A field that has its default value is there.
    let outcome = expecting(1, &["OK"], Some("json.isSettled")).await;
    assert!(
        outcome.error.starts_with("the condition `json.isSettled` does not hold: {"),
        "{}",
        outcome.error
    );
    assert_eq!(outcome.failed, Failed::Error);
    let outcome = outcome_of(settle(&shop, &json!({ "id": 8 }))).await;
    assert!(outcome.error.starts_with("status OUT_OF_RANGE, expected OK: "), "{}", outcome.error);
}

#[tokio::test]
async fn a_call_ends_at_its_timeout_and_when_it_is_cancelled() {
    let shop = Shop::start(Reflection::V1).await;
    let hangs = settle(&shop, &json!({ "id": 7 }));
    let outcome = outcome_of(Grpc { timeout: Duration::from_secs(2), ..hangs.clone() }).await;
    assert_eq!((&*outcome.error, outcome.failed), ("no answer within 2s", Failed::Timeout));
    let calls = shop.metadata().len();
    let mut rig = rig().await;
    rig.assign(1, task(hangs)).await;
    until("the call arrives", || shop.metadata().len() > calls).await;
    rig.order(vec![WorkerOrder::Cancel { run: RunId(1), token: TOKEN, cause: Cause::User }]).await;
    assert_eq!(&*rig.finished(1).await.error, "cancelled on request");
    until("the server learns of both", || shop.dropped() == shop.metadata().len()).await;
    rig.shut_down().await;
}

#[tokio::test]
async fn the_egress_rules_hold_for_grpc_tasks() {
    let shop = Shop::start(Reflection::V1).await;
    let to = |host: &str| {
        let address = format!("{host}:{}", shop.address.port());
        task(Grpc { address, ..settle(&shop, &json!({})) })
    };
    let refused = async |egress: Egress, host: &str, words: &str| {
        let outcome = outcome_through(egress, to(host)).await;
        assert_eq!(outcome.end, End::Failed);
        assert!(outcome.error.contains(words), "{host}: {}", outcome.error);
    };
    refused(Egress::default(), "127.0.0.1", "which tasks may not call here").await;
    refused(Egress::default(), "localhost", "which tasks may not call here").await;
    refused(loopback(), "169.254.169.254", "which no task may call").await;
    refused(loopback(), "[fe80::1]", "which no task may call").await;
    let own = loopback();
    own.listens_on(shop.address);
    refused(own, "localhost", "where Punctual itself listens").await;
    let metadata = loopback().with_resolver(scripted(&["169.254.169.254"]));
    refused(metadata, "rebind.test", "the cloud's metadata, which no task may call").await;
    refused(
        Egress::default().with_resolver(scripted(&[])),
        "nowhere.test",
        "cannot find the host `nowhere.test`",
    )
    .await;
    assert_eq!(shop.metadata().len(), 0);

    let resolver = scripted(&["169.254.169.254 127.0.0.1", "10.0.0.1"]);
    let outcome = outcome_through(loopback().with_resolver(resolver.clone()), to("mixed.test")).await;
    assert_eq!((outcome.end, &*outcome.error), (End::Succeeded, ""));
}

#[tokio::test]
async fn a_server_that_is_not_there_or_speaks_no_tls_is_named() {
    let shop = Shop::start(Reflection::V1).await;
    let nobody = Grpc::call("127.0.0.1:1", "shop.v1.Orders/Settle");
    assert_eq!(&*outcome_of(nobody.clone()).await.error, "127.0.0.1:1 refused the connection");
    let tls = |ca: Option<&str>| Some(punctual_core::task::GrpcTls { ca: ca.map(str::to_owned) });
    let outcome = outcome_of(Grpc { tls: tls(None), ..settle(&shop, &json!({})) }).await;
    assert!(outcome.error.starts_with(&format!("no TLS with {}: ", shop.address)), "{}", outcome.error);
    let outcome = outcome_of(Grpc { tls: tls(Some("/nowhere.pem")), ..nobody }).await;
    assert!(outcome.error.starts_with("cannot read task.grpc.tls.ca: "), "{}", outcome.error);
}
