//! Queues over the Redis protocol, with `redis-cli` where a person would take it.

mod endpoint;
mod redis_cli;
mod clients;
mod survives;
mod kills;

use std::process::Command;

use punctual_tests::{Node, Scene};

/// A node whose Redis-protocol endpoint is on a free port.
fn start(scene: &Scene) -> Node {
    let mut node = scene.node();
    node.start();
    node
}

/// What `redis-cli` prints when it is no terminal.
#[track_caller]
fn redis_cli(node: &Node, words: &[&str]) -> String {
    let address = node.resp().expect("the node has a Redis-protocol endpoint");
    let (host, port) = address.rsplit_once(':').expect("host:port");
    let output = Command::new("redis-cli").args(["-h", host, "-p", port]).args(words).output();
    let output = output.expect("redis-cli is installed: scripts/install-deps test");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("it prints text").trim_end().to_owned()
}
