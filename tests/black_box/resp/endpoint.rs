//! On which address the Redis-protocol endpoint listens, and which password it asks for.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use punctual_tests::node::Cli;
use punctual_tests::{Scene, binary};

use super::redis_cli;

#[test]
fn dev_starts_without_the_endpoint_if_its_default_port_is_taken() {
    // If another process has the port already, it is taken just as well.
    let _taken = TcpListener::bind("127.0.0.1:7711");
    let scene = Scene::new();
    let data = scene.data().display().to_string();
    let words = ["dev", "--http", "127.0.0.1:0", "--data", &data];
    let mut node = scene.node().with_program(binary::path(), words);
    node.start();
    assert_eq!(node.resp(), None);
    assert!(node.printed().contains("the port for queues is taken"), "{}", node.printed());
    assert!(node.stop().success());
}

#[test]
fn a_port_that_was_asked_for_and_is_taken_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().expect("it has an address").to_string();
    let scene = Scene::new();
    let mut node = scene.node().with_env("PUNCTUAL_RESP", &address);
    node.spawn();
    assert_eq!(node.wait_for_end().code(), Some(1));
    assert!(node.printed().contains(&format!("cannot listen on {address}")), "{}", node.printed());
}

#[test]
fn beyond_loopback_the_endpoint_needs_tls() {
    let scene = Scene::new();
    let data = scene.data().display().to_string();
    for words in [
        &["dev", "--data", &data, "--http", "127.0.0.1:0", "--resp", "0.0.0.0:0"],
        &["server", "--data", &data, "--http", "127.0.0.1:0", "--resp", "0.0.0.0:0"],
    ] {
        let refused = Cli::run(Command::new(binary::path()).args(*words));
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(refused.err.contains("0.0.0.0:0"), "{refused:?}");
    }
}

#[test]
fn a_password_from_a_file_is_asked_for() {
    let scene = Scene::new();
    let file = scene.write("password", "correct-horse-battery\n");
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("its mode can be set");
    let mut node =
        scene.node().with_env("PUNCTUAL_RESP", "127.0.0.1:0").with_env("PUNCTUAL_RESP_PASSWORD_FILE", &file);
    node.start();
    assert_eq!(redis_cli(&node, &["QLEN", "mail"]), "NOAUTH Authentication required.");
    assert_eq!(redis_cli(&node, &["--no-auth-warning", "-a", "correct-horse-battery", "QLEN", "mail"]), "0");
    assert!(!node.printed().contains("correct-horse"), "a secret is not printed");
}

#[test]
fn queues_without_a_password_are_served_on_loopback_only() {
    let scene = Scene::new();
    let data = scene.data().display().to_string();
    let server = |words: &[&str]| {
        let all = [&["server", "--data", &data, "--http", "127.0.0.1:0"], words].concat();
        all.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for (words, why) in [
        (&["--resp", "0.0.0.0:0", "--insecure", "--resp-open"][..], "without a password"),
        (
            &["--resp", "127.0.0.1:0", "--resp-open", "--resp-password-file", "p"],
            "excludes resp.password_file",
        ),
    ] {
        let refused = Cli::run(Command::new(binary::path()).args(server(words)));
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(refused.err.contains(why), "{refused:?}");
    }
    let words = server(&["--resp", "127.0.0.1:0", "--resp-open"]);
    let mut node = scene.node().with_program(binary::path(), words).with_env("PUNCTUAL_TOKEN", "");
    node.start();
    assert_eq!(redis_cli(&node, &["QLEN", "mail"]), "0");
    let jobs = "/api/v1/namespaces/default/jobs";
    assert_eq!(node.api().get(jobs).expect("it answers").status, 401, "REST still asks for a token");
}
