//! Clients that others wrote, installed from their registries and run unmodified with their defaults (R129).

use std::process::Command;

use punctual_tests::{Cli, Scene};

/// Runs a client's ordinary flow against the Redis-protocol endpoint of a new node.
#[track_caller]
fn flow(name: &str) {
    let scene = Scene::new();
    let mut node = scene.node();
    node.start();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts/clients/run");
    let told = Cli::run(Command::new(script).args([name, &node.resp_port().to_string()]));
    assert!(told.status.success(), "{}{}", told.out, told.err);
}

#[test]
fn pydisque_adds_gets_shows_and_acknowledges() {
    flow("pydisque_flow.py");
}

#[test]
fn redis_py_speaks_raw_commands_in_either_protocol() {
    flow("redis_flow.py");
}

#[test]
fn disqueue_node_adds_gets_and_acknowledges() {
    flow("disqueue.js");
}

#[test]
fn node_redis_speaks_raw_commands_in_either_protocol() {
    flow("node_redis.js");
}

#[test]
fn ioredis_speaks_raw_commands_and_waits() {
    flow("ioredis.js");
}
