//! What `/metrics` tells of this endpoint and of queues.

use axum::body::to_bytes;
use axum::extract::State;

use super::real::Real;
use super::*;
use crate::metrics::metrics;

/// More than the page of a test has.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

async fn page(real: &Real) -> String {
    let Ok(page) = metrics(State(real.endpoints.clone())).await else { panic!("there is a page") };
    let bytes = to_bytes(page.into_body(), PAGE_BYTES_MAX).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Waits until a metric has this value: some change shortly after the answer is sent.
async fn seen(real: &Real, name: &str, value: u64) {
    let until_so = async {
        while metric(&page(real).await, name) != value {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, until_so).await.unwrap_or_else(|_| panic!("{name} becomes {value}"));
}

fn metric(page: &str, name: &str) -> u64 {
    let of_line = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    page.lines().find_map(of_line).unwrap_or_else(|| panic!("no `{name}` in {page}"))
}

#[track_caller]
fn check(page: &str, expected: &[(&str, u64)]) {
    for (name, value) in expected {
        assert_eq!(metric(page, &format!("punctual_{name}")), *value, "{name} in {page}");
    }
}

#[tokio::test]
async fn commands_are_counted_by_name_and_by_how_they_ended() {
    let real = Real::start().await;
    let mut client = real.client().await;
    client.send("ADDJOB q a 0\r\nADDJOB q b x\r\nADDJOB q c 0\r\n").await;
    let first = client.line().await[1..].to_owned();
    assert!(client.line().await.starts_with("-ERR"));
    client.line().await;
    client.send("GETJOB COUNT 2 FROM q\r\n").await;
    assert_eq!(client.line().await, "*2");
    for _ in 0..2 {
        client.line().await;
        let _ = (client.bulk().await, client.bulk().await, client.bulk().await);
    }
    client.ask(&format!("ACKJOB {first}"), ":1\r\n").await;
    client.ask("QLEN", "-ERR wrong number of arguments for 'qlen' command\r\n").await;
    client.ask("MADEUP", "-ERR unknown command 'MADEUP'\r\n").await;
    client.ask("MADEUPTOO", "-ERR unknown command 'MADEUPTOO'\r\n").await;
    seen(&real, "punctual_messages_acknowledged_total", 1).await;
    let page = page(&real).await;
    check(
        &page,
        &[
            ("resp_commands_total{command=\"ADDJOB\",outcome=\"ok\"}", 2),
            ("resp_commands_total{command=\"ADDJOB\",outcome=\"error\"}", 1),
            ("resp_commands_total{command=\"GETJOB\",outcome=\"ok\"}", 1),
            ("resp_commands_total{command=\"ACKJOB\",outcome=\"ok\"}", 1),
            ("resp_commands_total{command=\"QLEN\",outcome=\"error\"}", 1),
            ("resp_commands_total{command=\"unknown\",outcome=\"error\"}", 2),
            ("resp_command_duration_seconds_count{command=\"ADDJOB\"}", 3),
            ("messages_added_total", 2),
            ("messages_delivered_total", 2),
            ("messages_acknowledged_total", 1),
            ("messages_expired_total", 0),
            ("messages_dead_total", 0),
            ("queue_length{namespace=\"default\",queue=\"q\"}", 0),
            ("queue_unacknowledged{namespace=\"default\",queue=\"q\"}", 1),
            ("queue_added_total{namespace=\"default\",queue=\"q\"}", 2),
            ("queue_delivered_total{namespace=\"default\",queue=\"q\"}", 2),
        ],
    );
    assert!(!page.contains("MADEUP"), "an unknown command does not become a label: {page}");
    real.stop().await;
}

#[tokio::test]
async fn connections_bytes_and_nonsense_are_counted() {
    let real = Real::start().await;
    let mut one = real.client().await;
    one.ask("PING", "+PONG\r\n").await;
    let mut two = real.client().await;
    two.send("*1\r\n!\r\n").await;
    assert!(two.line().await.starts_with("-ERR Protocol error"));
    two.expect_end().await;
    let mut three = real.client().await;
    three.send("POST / HTTP/1.1\r\n").await;
    three.expect_end().await;
    let page = page(&real).await;
    check(
        &page,
        &[
            ("resp_connections_accepted_total", 3),
            ("resp_connections_refused_total", 0),
            ("resp_protocol_errors_total{reason=\"malformed\"}", 1),
            ("resp_protocol_errors_total{reason=\"http\"}", 1),
            ("resp_protocol_errors_total{reason=\"too_long\"}", 0),
            ("resp_received_bytes_total", 6 + 7 + 17),
        ],
    );
    assert!(metric(&page, "punctual_resp_sent_bytes_total") > 7, "{page}");
    real.stop().await;
}

#[tokio::test]
async fn waiting_consumers_are_counted_until_they_leave() {
    let real = Real::start().await;
    let mut waiting = real.client().await;
    waiting.send("GETJOB FROM nothing\r\n").await;
    seen(&real, "punctual_resp_clients_blocked", 1).await;
    drop(waiting);
    seen(&real, "punctual_resp_clients_blocked", 0).await;
    seen(&real, "punctual_resp_connections", 0).await;
    check(&page(&real).await, &[("resp_commands_total{command=\"GETJOB\",outcome=\"gone\"}", 1)]);
    real.stop().await;
}
