//! Who may come in, and what they may do.

use punctual_store::Tokens;
use punctual_store::memory::Memory;
use punctual_store::token::{Record, Role};

use super::*;
use crate::auth::Secret;

const PASSWORD: &str = "correct-horse-battery-staple";

fn guarded() -> Settings {
    Settings { password: Some(PASSWORD.to_owned()), ..Settings::default() }
}

#[tokio::test]
async fn a_stranger_is_told_nothing_and_a_password_opens_everything() {
    let scene = Scene::with(guarded(), Gate::open()).await;
    let mut client = scene.client().await;
    for line in ["PING", "QLEN q", "INFO", "CLUSTER MYID", "HELLO", "nosuch", "CONFIG GET *", "COMMAND"] {
        client.ask(line, "-NOAUTH Authentication required.\r\n").await;
    }
    client.ask("HELLO 3", "-NOAUTH HELLO must be called with the client already authenticated,").await;
    client.line().await;
    client.ask("AUTH wrong", "-ERR invalid password\r\n").await;
    client
        .ask("AUTH default wrong", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
        .await;
    client.ask(&format!("AUTH {PASSWORD}"), "+OK\r\n").await;
    client.ask("QLEN q", ":0\r\n").await;
    client.ask("RESET", "+RESET\r\n").await;
    client.ask("QLEN q", "-NOAUTH Authentication required.\r\n").await;
    client.ask(&format!("HELLO 3 AUTH default {PASSWORD}"), "%7\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn a_pipeline_may_begin_with_the_password() {
    let scene = Scene::with(guarded(), Gate::open()).await;
    let mut client = scene.client().await;
    let long = "x".repeat(20_000);
    let mut bytes = request(&[b"AUTH", PASSWORD.as_bytes()]);
    bytes.extend(request(&[b"ADDJOB", b"q", long.as_bytes(), b"0"]));
    bytes.extend(b"QLEN q\r\n");
    client.send(bytes).await;
    client.expect("+OK\r\n+D-").await;
    client.line().await;
    client.expect(":1\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn a_stranger_may_not_send_much_and_not_for_long() {
    let settings = Settings { request_time: Duration::from_millis(300), ..guarded() };
    let scene = Scene::with(settings, Gate::open()).await;
    let mut client = scene.client().await;
    client.send("*11\r\n").await;
    client.expect("-ERR Protocol error: unauthenticated multibulk length\r\n").await;
    client.expect_end().await;
    let mut client = scene.client().await;
    client.send("*2\r\n$4\r\nAUTH\r\n$16385\r\n").await;
    client.expect("-ERR Protocol error: unauthenticated bulk length\r\n").await;
    client.expect_end().await;
    scene.client().await.expect_end().await;
    scene.stop().await;
}

#[tokio::test]
async fn password_guesses_are_limited() {
    let scene = Scene::with(guarded(), Gate::open()).await;
    let mut client = scene.client().await;
    for _ in 0..10 {
        client.ask("AUTH wrong", "-ERR invalid password\r\n").await;
    }
    let told = "-ERR too many wrong passwords came from this address: try again in a minute\r\n";
    client.ask("AUTH wrong", told).await;
    client.ask(&format!("AUTH {PASSWORD}"), "+OK\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn a_token_gives_the_rights_of_its_role() {
    let store = Arc::new(Memory::new(1));
    let mut secrets = Vec::new();
    for (name, role) in [("boss", Role::Admin), ("looker", Role::Reader)] {
        let secret = Secret::new().unwrap();
        let record = Record {
            name: name.to_owned(),
            hash: secret.hash(),
            role,
            created_at: fake::NOW,
            expires_at: None,
        };
        assert!(store.add_token(&record).await.unwrap());
        secrets.push(secret);
    }
    let gate = Gate::guarded(store, Arc::new(ManualClock::at(fake::NOW)), false);
    let scene = Scene::with(Settings::default(), gate).await;
    let (mut boss, mut looker) = (scene.client().await, scene.client().await);
    boss.ask("QLEN q", "-NOAUTH Authentication required.\r\n").await;
    boss.ask("AUTH boss pct_wrong", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
        .await;
    boss.ask(&format!("AUTH boss {}", secrets[0].as_str()), "+OK\r\n").await;
    boss.add("q b 0").await;
    looker.ask(&format!("AUTH {}", secrets[1].as_str()), "+OK\r\n").await;
    looker.ask("QLEN q", ":1\r\n").await;
    for line in
        ["ADDJOB q b 0", "GETJOB FROM q", "PAUSE q in", "QFLUSH q", "CONFIG GET *", "CLIENT LIST", "MONITOR"]
    {
        looker.ask(line, "-NOPERM ").await;
        looker.line().await;
    }
    looker.ask("QLEN q", ":1\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn a_web_page_cannot_speak_through_a_browser() {
    let scene = Scene::new().await;
    for head in ["POST / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"] {
        let mut client = scene.client().await;
        client.send(format!("{head}\r\nADDJOB q b 0\r\n")).await;
        let said = String::from_utf8(client.some(4096).await).unwrap();
        assert!(said.is_empty() || said == "-ERR unknown command 'GET'\r\n", "{said}");
    }
    scene.client().await.ask("QLEN q", ":0\r\n").await;
    scene.stop().await;
}

#[tokio::test]
async fn secrets_are_not_told_to_those_who_watch() {
    let scene = Scene::with(guarded(), Gate::open()).await;
    let (mut watcher, mut other) = (scene.client().await, scene.client().await);
    watcher.ask(&format!("AUTH {PASSWORD}"), "+OK\r\n").await;
    watcher.ask("MONITOR", "+OK\r\n").await;
    other.ask(&format!("AUTH {PASSWORD}"), "+OK\r\n").await;
    other.ask(&format!("HELLO 2 AUTH default {PASSWORD}"), "*14\r\n").await;
    other.send("QLEN q\r\n").await;
    let line = watcher.line().await;
    assert!(
        line.starts_with("+1800000000.000000 [0 127.0.0.1:") && line.ends_with("] \"QLEN\" \"q\""),
        "{line}"
    );
    scene.stop().await;
}
