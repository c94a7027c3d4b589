//! `redis-cli` as it comes with Debian.

use std::io::Write;
use std::process::{Command, Stdio};

use punctual_tests::Scene;

use super::{redis_cli, start};

/// R128: the words of a job's whole way.
#[test]
fn a_job_is_added_taken_and_acknowledged_from_a_shell() {
    let scene = Scene::new();
    let mut node = start(&scene);
    let say = |words: &[&str]| redis_cli(&node, words);
    assert_eq!(say(&["PING"]), "PONG");
    let id = say(&["ADDJOB", "mail", "hello world", "0"]);
    assert!(id.len() == 40 && id.starts_with("D-") && id.ends_with("-05a1"), "{id}");
    assert_eq!(say(&["QLEN", "mail"]), "1");
    assert_eq!(say(&["GETJOB", "FROM", "mail"]), format!("mail\n{id}\nhello world"));
    assert_eq!(say(&["QLEN", "mail"]), "0");
    assert!(say(&["SHOW", &id]).contains("\nactive\n"));
    assert_eq!(say(&["NACK", &id]), "1");
    let again = say(&["GETJOB", "NOHANG", "WITHCOUNTERS", "FROM", "mail"]);
    assert_eq!(again, format!("mail\n{id}\nhello world\nnacks\n1\nadditional-deliveries\n0"));
    assert_eq!(say(&["ACKJOB", &id]), "1");
    assert_eq!(say(&["SHOW", &id]), "");
    assert_eq!(say(&["ACKJOB", "nonsense"]), "BADID Invalid Job ID format.");
    assert!(node.stop().success());
}

/// R128, as a person types: redis-cli asks for COMMAND DOCS first, and shows answers with their kinds.
#[test]
fn a_person_types_commands() {
    let scene = Scene::new();
    let node = start(&scene);
    let address = node.resp().expect("the node has a Redis-protocol endpoint");
    for protocol in ["-2", "-3"] {
        let (host, port) = address.rsplit_once(':').expect("host:port");
        let mut child = Command::new("redis-cli")
            .args([protocol, "--no-raw", "-h", host, "-p", port])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-cli can be started");
        let typed = "GETJOB NOHANG FROM nothing\nQLEN nothing\nQSTAT nothing\nnosuch\n";
        child.stdin.take().expect("it reads").write_all(typed.as_bytes()).expect("it takes what is typed");
        let output = child.wait_with_output().expect("it ends");
        let printed = String::from_utf8(output.stdout).expect("it prints text");
        assert_eq!(
            printed.trim_end(),
            "(nil)\n(integer) 0\n(nil)\n(error) ERR unknown command 'nosuch'",
            "{protocol}"
        );
    }
}

/// R133, on one node.
#[test]
fn a_waiting_client_is_woken_by_the_next_job() {
    let scene = Scene::new();
    let node = start(&scene);
    let address = node.resp().expect("the node has a Redis-protocol endpoint");
    let (host, port) = address.rsplit_once(':').expect("host:port");
    let waiting = Command::new("redis-cli")
        .args(["-h", host, "-p", port, "GETJOB", "COUNT", "5", "FROM", "a", "b"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-cli can be started");
    punctual_tests::wait::until_so("a consumer waits", punctual_tests::wait::SOON, || {
        redis_cli(&node, &["INFO", "clients"]).contains("blocked_clients:1")
    });
    let id = redis_cli(&node, &["ADDJOB", "b", "now", "0"]);
    let output = waiting.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), format!("b\n{id}\nnow"));
}
