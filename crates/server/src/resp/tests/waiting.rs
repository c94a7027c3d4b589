//! Clients that wait for a job, and what becomes of them.

use std::sync::atomic::Ordering::SeqCst;

use super::*;

/// Waits until so many wait in GETJOB.
async fn until_waiting(scene: &Scene, count: usize) {
    let seen = async {
        while scene.fake.waiting.load(SeqCst) != count {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, seen).await.unwrap_or_else(|_| panic!("{count} should wait"));
}

#[tokio::test]
async fn a_client_that_waits_is_woken_by_the_next_job_and_gets_one() {
    let scene = Scene::new().await;
    let (mut waiting, mut adding) = (scene.client().await, scene.client().await);
    waiting.send("PING\r\nGETJOB COUNT 10 FROM empty mail\r\nPING\r\n").await;
    waiting.expect("+PONG\r\n").await;
    until_waiting(&scene, 1).await;
    adding.send("INFO clients\r\n").await;
    assert!(adding.bulk().await.contains("blocked_clients:1\r\n"));
    let id = adding.add("mail hello 0").await;
    waiting.expect(&format!("*1\r\n*3\r\n$4\r\nmail\r\n$40\r\n{id}\r\n$5\r\nhello\r\n+PONG\r\n")).await;
    until_waiting(&scene, 0).await;
    scene.stop().await;
}

#[tokio::test]
async fn a_wait_that_is_over_says_nothing_came() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    client.ask("GETJOB TIMEOUT 20 FROM empty", "*-1\r\n").await;
    client.ask("HELLO 3", "%7\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn a_client_that_hangs_up_waits_no_longer() {
    let scene = Scene::new().await;
    let (mut gone, mut other) = (scene.client().await, scene.client().await);
    gone.send("GETJOB FROM mail\r\n").await;
    until_waiting(&scene, 1).await;
    // What it sends meanwhile does not make it look alive.
    gone.send("PING\r\n").await;
    drop(gone);
    until_waiting(&scene, 0).await;
    other.add("mail hello 0").await;
    other.ask("QLEN mail", ":1\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn an_endpoint_that_closes_tells_those_who_wait_and_ends_everyone() {
    let scene = Scene::new().await;
    let (mut waiting, idle, mut half) = (scene.client().await, scene.client().await, scene.client().await);
    waiting.send("GETJOB FROM mail\r\n").await;
    half.send("*2\r\n$4\r\nQL").await;
    until_waiting(&scene, 1).await;
    scene.stop().await;
    waiting.expect("-LEAVING This node is leaving the cluster, please connect to a different one\r\n").await;
    waiting.expect_end().await;
    idle.expect_end().await;
    half.expect_end().await;
}

#[tokio::test]
async fn waitjob_returns_how_many_are_done() {
    let scene = Scene::new().await;
    let (mut waiting, mut other) = (scene.client().await, scene.client().await);
    let (one, two) = (other.add("mail one 0").await, other.add("mail two 0").await);
    waiting.ask(&format!("WAITJOB {one} {two} TIMEOUT 30"), ":0\r\n").await;
    waiting.send(format!("WAITJOB {one} {two}\r\n")).await;
    other.ask(&format!("ACKJOB {one}"), ":1\r\n").await;
    other.ask(&format!("DELJOB {two}"), ":1\r\n").await;
    waiting.expect(":2\r\n").await;
    scene.stop().await;
}
