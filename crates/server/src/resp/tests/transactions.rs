//! MULTI, EXEC and DISCARD.

use super::*;
use crate::resp::settings::TRANSACTION_MAX;

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";

#[tokio::test]
async fn queued_commands_run_in_order_at_exec() {
    let scene = Scene::new().await;
    let (mut client, mut other) = (scene.client().await, scene.client().await);
    client.ask("MULTI", "+OK\r\n").await;
    for line in ["ADDJOB mail one 0", "ADDJOB mail two 0", "QLEN mail", "ACKJOB", "GETJOB COUNT 2 FROM mail"]
    {
        client.ask(line, "+QUEUED\r\n").await;
    }
    other.ask("QLEN mail", ":0\r\n").await;
    client.send("EXEC\r\n").await;
    client.expect("*5\r\n").await;
    let ids = [client.line().await, client.line().await];
    let ids = ids.map(|line| line.strip_prefix('+').unwrap_or(&line).to_owned());
    client.expect(":2\r\n:0\r\n").await;
    let [one, two] = &ids;
    let jobs = format!(
        "*2\r\n*3\r\n$4\r\nmail\r\n$40\r\n{one}\r\n$3\r\none\r\n*3\r\n$4\r\nmail\r\n$40\r\n{two}\r\n$3\r\ntwo\r\n"
    );
    client.expect(&jobs).await;
    client.ask("QLEN mail", ":0\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn an_error_while_queueing_makes_exec_refuse_everything() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    for (wrong, error) in [
        ("NOSUCH", "-ERR unknown command 'NOSUCH'\r\n"),
        ("ADDJOB mail", "-ERR wrong number of arguments for 'addjob' command\r\n"),
        ("HELLO 3", "-ERR HELLO is not allowed in transactions\r\n"),
        ("MONITOR", "-ERR MONITOR is not allowed in transactions\r\n"),
        ("CLIENT REPLY OFF", "-ERR CLIENT is not allowed in transactions\r\n"),
    ] {
        client.ask("MULTI", "+OK\r\n").await;
        client.ask("ADDJOB mail one 0", "+QUEUED\r\n").await;
        client.ask(wrong, error).await;
        client.ask("ADDJOB mail two 0", "+QUEUED\r\n").await;
        client.ask("EXEC", ABORTED).await;
        client.ask("QLEN mail", ":0\r\n").await;
    }
    scene.stop().await;
}

#[tokio::test]
async fn an_error_while_running_stops_no_other_command() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    client.send("MULTI\r\nADDJOB mail one x\r\nADDJOB mail two 0\r\nQLEN mail\r\nEXEC\r\n").await;
    client.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n*3\r\n").await;
    client.expect("-ERR timeout is not an integer or out of range\r\n+D-").await;
    client.line().await;
    client.expect(":1\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn nothing_waits_inside_a_transaction() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let id = client.add("mail one 0").await;
    let lines = format!("MULTI\r\nGETJOB FROM empty\r\nWAITJOB {id}\r\nEXEC\r\n");
    client.send(&lines).await;
    client.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n*-1\r\n:0\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn discard_and_reset_forget_what_was_queued() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    for (end, answer) in [("DISCARD", "+OK\r\n"), ("RESET", "+RESET\r\n")] {
        client.ask("MULTI", "+OK\r\n").await;
        client.ask("ADDJOB mail one 0", "+QUEUED\r\n").await;
        client.ask("MULTI", "-ERR MULTI calls can not be nested\r\n").await;
        client.ask(end, answer).await;
        client.ask("QLEN mail", ":0\r\n").await;
    }
    client.ask("DISCARD", "-ERR DISCARD without MULTI\r\n").await;
    client.ask("EXEC", "-ERR EXEC without MULTI\r\n").await;
    client.ask("MULTI", "+OK\r\n").await;
    client.ask("EXEC", "*0\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn a_transaction_is_bounded() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    client.ask("MULTI", "+OK\r\n").await;
    client.send(&"PING\r\n".repeat(TRANSACTION_MAX)).await;
    client.expect(&"+QUEUED\r\n".repeat(TRANSACTION_MAX)).await;
    client.ask("PING", "-ERR a transaction has at most 10000 commands and 8388608 bytes\r\n").await;
    client.ask("EXEC", ABORTED).await;
    client.ask("MULTI", "+OK\r\n").await;
    // Eight bodies of nearly a mebibyte, with what is around them, are more than it may have.
    let body = "x".repeat(1024 * 1024 - 1);
    let add = format!("*4\r\n$6\r\nADDJOB\r\n$4\r\nmail\r\n${}\r\n{body}\r\n$1\r\n0\r\n", body.len());
    for _ in 0..7 {
        client.send(&add).await;
        client.expect("+QUEUED\r\n").await;
    }
    client.send(&add).await;
    client.expect("-ERR a transaction has at most").await;
    client.line().await;
    client.ask("EXEC", ABORTED).await;
    scene.stop().await;
}
