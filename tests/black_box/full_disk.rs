//! No room left (T-13), under each of the stores.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use punctual_store::conformance::servers::{mariadb, postgres};
use punctual_tests::api::{JOBS, RUNS};
use punctual_tests::chance::Throws;
use punctual_tests::cluster::server;
use punctual_tests::fault::SmallDisk;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Node, Scene};
use punctual_verify::Options;
use serde_json::{Value, json};

/// How long the disk stays full: several fires fall into it.
const FULL_FOR: Duration = Duration::from_secs(3);
/// One node leads them all.
const SHARDS: &str = "?shards=4";

/// What is expected of a store while its disk is full.
struct Expected<'a> {
    /// Reads are answered all the time. Otherwise the store may be down, and 503 says so.
    reads_go_on: bool,
    /// At least one write is told that the store is full: 507, not only 503.
    says_full: bool,
    /// What the operator does once there is room.
    repair: &'a dyn Fn(),
}

#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    let scene = Scene::new();
    let shell = format!(
        "exec {} dev --http 127.0.0.1:0 --resp 127.0.0.1:0 --log debug --data {} 2> /dev/full",
        punctual_tests::binary::path().display(),
        scene.data().display()
    );
    let mut node = scene.node().with_program("sh", ["-c", &shell]);
    node.start();
    let id = node.api().submit(&json!({ "task": { "shell": "echo done" } }))["id"].clone();
    let id = id.as_str().expect("a run has an id");
    let run = wait::until("it ends", SOON, || Some(node.api().run(id)).filter(has_ended));
    assert_eq!(run["state"], "succeeded", "{run}");
}

/// Submits that take room, whatever the store compresses.
struct Ballast(Throws);

impl Ballast {
    fn next(&mut self) -> Value {
        let random = |_| char::from(b'a' + u8::try_from(self.0.below(26)).expect("less than 26"));
        let ballast: String = (0..100_000).map(random).collect();
        json!({ "task": { "noop": {} }, "params": { "ballast": ballast } })
    }
}

/// The runs that were acknowledged, and how all submits were answered.
struct Submits {
    ballast: Ballast,
    acknowledged: Vec<String>,
    refusals: BTreeSet<u16>,
}

impl Submits {
    /// Whether the node took one more.
    #[track_caller]
    fn is_taken(&mut self, node: &Node) -> bool {
        let answer = node.api().post(RUNS, &self.ballast.next()).expect("the node answers");
        if answer.is_ok() {
            self.acknowledged.push(answer.json()["id"].as_str().expect("a run has an id").to_owned());
            return true;
        }
        assert!(matches!(answer.status, 503 | 507), "{answer:?}");
        assert!(answer.json()["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer:?}");
        self.refusals.insert(answer.status);
        false
    }
}

#[track_caller]
fn fill_and_clear(scene: &Scene, disk: &SmallDisk, node: &mut Node, expected: &Expected<'_>) {
    let beat = json!({ "schedule": { "every": "500ms" }, "task": { "shell": "echo beat" },
        "misfire": { "policy": "once", "grace": "50ms" }, "keep": { "runs": 100_000 } });
    node.api().put_job("beat", &beat);
    let ballast = Ballast(Throws::new(13));
    let mut submits = Submits { ballast, acknowledged: Vec::new(), refusals: BTreeSet::new() };
    assert!(submits.is_taken(node), "there is room at first");

    disk.fill();
    wait::until_so("a write is refused", SOON, || !submits.is_taken(node));
    let end = wait::now() + FULL_FOR;
    while wait::now() < end {
        let listed = node.api().get(&format!("{RUNS}?limit=10")).expect("the node answers");
        let shown = node.api().get(&format!("{JOBS}/beat")).expect("the node answers");
        for read in [listed, shown] {
            let may_be_down = !expected.reads_go_on && read.status == 503;
            assert!(read.status == 200 || may_be_down, "reads go on: {read:?}");
        }
        submits.is_taken(node);
        assert!(node.is_running());
        wait::pass(Duration::from_millis(100));
    }
    println!("writes were refused with {:?}", submits.refusals);
    assert!(!expected.says_full || submits.refusals.contains(&507), "{:?}", submits.refusals);

    disk.clear();
    (expected.repair)();
    wait::until_so("writes work again", SOON, || submits.is_taken(node));
    let fires = || Export::if_given(node).map(|export| export.fires("beat").len());
    let before = wait::until("the history can be read", SOON, fires);
    wait::until_so("the schedule goes on", SOON, || fires().is_some_and(|now| now > before + 2));
    // And what is on the disk is whole.
    node.kill();
    (expected.repair)();
    node.start();
    let export = Export::of(node);
    for id in &submits.acknowledged {
        assert!(export.runs().contains_key(id.as_str()), "run {id} was acknowledged and is gone");
    }
    export.verify(scene, node, &Options::default());
}

/// A disk that the user of a database server can reach.
fn shared_disk(scene: &Scene, mebibytes: u32) -> SmallDisk {
    fs::set_permissions(scene.path(""), Permissions::from_mode(0o711)).expect("a mode can be set");
    SmallDisk::mount(scene.path("disk"), mebibytes)
}

#[test]
fn a_full_disk_refuses_writes_goes_on_reading_and_loses_nothing() {
    let scene = Scene::new();
    let disk = SmallDisk::mount(scene.path("disk"), 64);
    let mut node = scene.node().with_data(disk.path().join("data"));
    node.start();
    let expected = Expected { reads_go_on: true, says_full: true, repair: &|| {} };
    fill_and_clear(&scene, &disk, &mut node, &expected);
}

#[test]
fn a_full_disk_under_the_tables_of_postgresql_loses_nothing() {
    let scene = Scene::new();
    let disk = shared_disk(&scene, 64);
    let store = postgres::Server::start_on(disk.path(), "base", &[]);
    let mut node = server(&scene, "node", &(store.database() + SHARDS), &["--slots", "2"]);
    node.start();
    let expected = Expected { reads_go_on: true, says_full: true, repair: &|| {} };
    fill_and_clear(&scene, &disk, &mut node, &expected);
}

/// PostgreSQL stops when it cannot write its log, and does not start before it can: its operator starts it again.
#[test]
fn a_full_disk_under_the_wal_of_postgresql_loses_nothing() {
    let scene = Scene::new();
    let disk = shared_disk(&scene, 64);
    let store = postgres::Server::start_on(disk.path(), "pg_wal", &[]);
    let mut node = server(&scene, "node", &(store.database() + SHARDS), &["--slots", "2"]);
    node.start();
    let restart = || {
        store.stop();
        store.start_again();
    };
    let expected = Expected { reads_go_on: false, says_full: false, repair: &restart };
    fill_and_clear(&scene, &disk, &mut node, &expected);
}

/// MariaDB refuses what it has no room for, but some versions abort where a large row does not fit (InnoDB, 10.11.14): then
/// its operator starts it again.
#[test]
fn a_full_disk_under_mariadb_loses_nothing() {
    let scene = Scene::new();
    let disk = shared_disk(&scene, 160);
    let store = mariadb::Server::start_on(disk.path(), &[]);
    let mut node = server(&scene, "node", &(store.database() + SHARDS), &["--slots", "2"]);
    node.start();
    let restart = || {
        store.stop();
        store.start_again();
    };
    let expected = Expected { reads_go_on: false, says_full: false, repair: &restart };
    fill_and_clear(&scene, &disk, &mut node, &expected);
}
