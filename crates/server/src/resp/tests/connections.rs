//! Connections: how many, what they hold, how they end.

use super::*;

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let settings = Settings { connections: 2, connections_per_address: 2, ..Settings::default() };
    let scene = Scene::with(settings, Gate::open()).await;
    let (mut one, mut two) = (scene.client().await, scene.client().await);
    one.ask("PING", "+PONG\r\n").await;
    two.ask("PING", "+PONG\r\n").await;
    let mut third = scene.client().await;
    third.expect("-ERR max number of clients reached\r\n").await;
    third.expect_end().await;
    two.ask("QUIT", "+OK\r\n").await;
    two.expect_end().await;
    let again = async {
        loop {
            let mut client = scene.client().await;
            client.send("PING\r\n").await;
            if client.some(7).await == b"+PONG\r\n" {
                return;
            }
        }
    };
    timeout(SOON, again).await.expect("a place is free again");
    scene.stop().await;
}

#[tokio::test]
async fn a_client_may_be_named_listed_and_sent_away() {
    let scene = Scene::new().await;
    let (mut boss, mut other) = (scene.client().await, scene.client().await);
    other
        .ask(
            "CLIENT SETNAME \"a b\"",
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n",
        )
        .await;
    other.ask("CLIENT SETNAME other", "+OK\r\n").await;
    boss.send("CLIENT LIST\r\n").await;
    let list = boss.bulk().await;
    assert!(
        list.lines().count() == 2 && list.contains("name=other ") && list.contains("cmd=CLIENT"),
        "{list}"
    );
    let line = list.lines().find(|line| line.contains("name=other")).unwrap();
    let id = line.split_once(' ').unwrap().0.strip_prefix("id=").unwrap();
    boss.ask(&format!("CLIENT KILL ID {id}"), ":1\r\n").await;
    other.expect_end().await;
    boss.ask("CLIENT KILL 127.0.0.1:1", "-ERR No such client\r\n").await;
    scene.stop().await;
}

/// As with Redis: only if `timeout` is set, and not for clients in GETJOB or MONITOR.
#[tokio::test]
async fn an_idle_client_is_disconnected_if_a_timeout_is_set() {
    let idle_time = Some(Duration::from_secs(1));
    let scene = Scene::with(Settings { idle_time, ..Settings::default() }, Gate::open()).await;
    let (mut resting, mut waiting, mut watching) =
        (scene.client().await, scene.client().await, scene.client().await);
    watching.ask("MONITOR", "+OK\r\n").await;
    resting.ask("CONFIG GET timeout", "*2\r\n$7\r\ntimeout\r\n$1\r\n1\r\n").await;
    // A client that waits for a job is not idle.
    waiting.send("GETJOB TIMEOUT 1500 FROM q\r\nPING\r\n").await;
    assert_eq!(waiting.line().await, "*-1");
    assert_eq!(waiting.line().await, "+PONG");
    resting.expect_end().await;
    for command in ["CONFIG", "GETJOB", "PING"] {
        let line = watching.line().await;
        assert!(line.contains(command), "{line}");
    }
    scene.stop().await;
}

#[tokio::test]
async fn an_idle_client_stays_connected_by_default() {
    let scene = Scene::with(
        Settings { request_time: Duration::from_millis(100), ..Settings::default() },
        Gate::open(),
    )
    .await;
    let mut resting = scene.client().await;
    resting.ask("CONFIG GET timeout", "*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n").await;
    let mut other = scene.client().await;
    other.ask("GETJOB TIMEOUT 300 FROM q", "*-1\r\n").await;
    resting.ask("PING", "+PONG\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn a_client_can_turn_replies_off() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    client.send("CLIENT REPLY OFF\r\nPING\r\nADDJOB q b 0\r\nCLIENT REPLY ON\r\nPING 1\r\n").await;
    client.expect("+OK\r\n$1\r\n1\r\n").await;
    client.send("CLIENT REPLY SKIP\r\nPING 2\r\nPING 3\r\nQLEN q\r\n").await;
    client.expect("$1\r\n3\r\n:1\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn everyone_can_be_stopped_for_a_while() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let began = tokio::time::Instant::now();
    client.send("CLIENT PAUSE 100\r\nPING\r\n").await;
    client.expect("+OK\r\n+PONG\r\n").await;
    assert!(began.elapsed() >= Duration::from_millis(100));
    scene.stop().await;
}

#[tokio::test]
async fn what_took_long_is_on_record() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    client.ask("CONFIG SET slowlog-log-slower-than 0", "+OK\r\n").await;
    client.ask("QLEN q", ":0\r\n").await;
    client.ask("SLOWLOG GET 1", "*1\r\n*6\r\n:1\r\n:1800000000\r\n:").await;
    client.line().await;
    client.expect("*2\r\n$4\r\nQLEN\r\n$1\r\nq\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn many_large_jobs_come_whole_however_slowly_they_are_taken() {
    let scene = Scene::new().await;
    let mut client = scene.client().await;
    let body = vec![b'x'; 1024 * 1024];
    for _ in 0..12 {
        client.send(request(&[b"ADDJOB", b"q", &body, b"0"])).await;
        assert!(client.line().await.starts_with("+D-"));
    }
    client.send("GETJOB COUNT 12 FROM q\r\nPING\r\n").await;
    assert_eq!(client.line().await, "*12");
    for _ in 0..12 {
        assert_eq!(client.line().await, "*3");
        let (_, _) = (client.bulk().await, client.bulk().await);
        assert_eq!(client.bulk().await.len(), body.len());
    }
    client.expect("+PONG\r\n").await;
    // An answer that is longer than may be ends its connection.
    for _ in 0..12 {
        client.send(request(&[b"ADDJOB", b"r", &body, b"0"])).await;
        client.line().await;
    }
    client.send("QPEEK r 12\r\n").await;
    client.expect_end().await;
    scene.stop().await;
}
