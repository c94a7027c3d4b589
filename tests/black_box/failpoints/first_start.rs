//! Over every point that only the first start on an empty store comes by: the next start makes up for it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::thread;

use punctual_tests::cluster::Kept;
use punctual_tests::fault::failpoint::{Death, VARIABLE, points};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Node, Scene, binary};
use serde_json::json;

use super::lives::{Server, dies};

const ADMIN: &str = "5f0c1b7e9d2a4c6831f7e0b9a8d6c5e45f0c1b7e9d2a4c6831f7e0b9a8d6c5e4";

fn server(scene: &Scene, name: &str, store: &str, words: &[&str]) -> Node {
    let data = scene.path(name).display().to_string();
    let said = ["server", "--store", store, "--http", "127.0.0.1:0", "--data", &data, "--slots", "2"];
    let said: Vec<&str> = said.iter().chain(words).copied().collect();
    let node = scene.node().with_data(&data).with_token(ADMIN).with_log(scene.path(&format!("{name}.log")));
    node.with_program(binary::path(), said)
}

fn check(scene: &Scene, point: &str, secret: &str) {
    let name = point.replace('.', "-");
    let store = match point.split('.').next() {
        Some("postgres") => Kept::Postgres.address(),
        Some("mysql") => Kept::MariaDb.address(),
        _ => format!("sqlite:{}", scene.path(&name).display()),
    };
    let mut first = server(scene, &name, &store, &[]);
    let endpoint = Api::new("127.0.0.1:9");
    let death = Death::at(point, 0);
    assert!(dies(&mut Server::new(&mut first, endpoint), &death), "nobody came by {point}");
    // Its tokens, if it made any, were told to nobody: a file is the way in.
    let mut node = server(scene, &name, &store, &["--bootstrap-token-file", secret]);
    node.set_env(VARIABLE, None);
    node.start();
    let run = node.api().submit(&json!({ "task": { "shell": "echo hi" } }));
    let id = run["id"].as_str().expect("a run has an id").to_owned();
    wait::until_so("it works", SOON, || node.api().run(&id)["state"] == "succeeded");
    println!("died at {point}");
}

#[test]
fn a_first_start_that_dies_at_any_failpoint_is_completed_by_the_next() {
    let scene = Scene::new();
    let secret = scene.write("admin-token", ADMIN);
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("a mode can be set");
    let secret = secret.display().to_string();
    let points = points();
    let all: Vec<&str> = points
        .iter()
        .map(String::as_str)
        .filter(|point| point.contains(".migrate.") || point.starts_with("first_start."))
        .collect();
    assert!(all.len() >= 10, "{all:?}");
    // One line for each kind of store.
    thread::scope(|scope| {
        for group in ["sqlite.", "postgres.", "mysql.", "first_start."] {
            let (scene, secret, all) = (&scene, &secret, &all);
            scope.spawn(move || {
                let own = all.iter().filter(|point| point.starts_with(group));
                own.for_each(|point| check(scene, point, secret));
            });
        }
    });
}
