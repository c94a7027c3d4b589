//! A server that dies or leaves (P1 to P3; T-01).

use std::time::Duration;

use punctual_tests::chance::{Throws, told};
use punctual_tests::cluster::{Kept, NODES, instant, job_name, lateness};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Export, Machine, Scene};

const JOBS: usize = 20;
const KILLS: u32 = 5;
/// Between a restart and the next kill.
const BETWEEN: Duration = Duration::from_millis(1500);
/// The lease of a shard, and a second to notice and to load.
const LATE_MAX: Duration = Duration::from_secs(4);
/// A shard that is handed over is led again by then.
const HANDED_OVER_MAX: Duration = Duration::from_millis(500);

/// Kills a server again and again while jobs fire, and looks at all that came of it.
fn kill_again_and_again(store: &str, kills: u32) {
    let scene = Scene::new();
    let machine = Machine::watched();
    let mut cluster = Cluster::start(&scene, store, &[]);
    cluster.add_worker("a", &[]);
    cluster.add_worker("b", &[]);
    cluster.add_worker("c", &[]);
    cluster.put_jobs(JOBS);
    let mut throws = Throws::new(told("SEED").unwrap_or(1));
    for _ in 0..kills {
        wait::pass(BETWEEN + throws.span_below(Duration::from_secs(1)));
        let node = &mut cluster.nodes[throws.below(NODES)];
        node.kill();
        // It is away for as long as a lease lasts, or comes back before anybody missed it.
        wait::pass(throws.span_below(Duration::from_millis(2500)));
        node.start();
    }
    let export = cluster.verified(&scene, throws.below(NODES), Duration::ZERO);
    for number in 0..JOBS {
        let fires = export.fires(&job_name(number)).len();
        assert!(fires >= 2 * kills as usize, "{} fired {fires} times only", job_name(number));
    }
    let (late, run) = export
        .all_fires()
        .map(|run| (lateness(run), run))
        .max_by_key(|(late, _)| *late)
        .expect("something fired");
    println!("{} fires, the latest {late:?} late", export.all_fires().count());
    assert!(late < LATE_MAX + machine.taken(), "{late:?} late: {run}");
}

#[test]
fn killing_any_node_loses_and_doubles_nothing() {
    let kept = match told::<String>("STORE").as_deref() {
        Some("mysql") => Kept::MariaDb,
        _ => Kept::Postgres,
    };
    kill_again_and_again(&kept.address(), told("KILLS").unwrap_or(KILLS));
}

#[test]
fn killing_a_node_on_mariadb_loses_and_doubles_nothing() {
    kill_again_and_again(&Kept::MariaDb.address(), 2);
}

#[test]
fn killing_nodes_on_a_durable_store_loses_and_doubles_nothing() {
    kill_again_and_again(&Kept::Postgres.durable_address(), 3);
}

#[test]
fn killing_nodes_on_a_durable_mariadb_loses_and_doubles_nothing() {
    kill_again_and_again(&Kept::MariaDb.durable_address(), 2);
}

#[test]
fn a_node_that_stops_gracefully_makes_no_fire_late() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene, &Kept::Postgres.address(), &[]);
    cluster.add_worker("a", &[]);
    cluster.put_jobs(JOBS);
    let fired = |export: &Export| export.all_fires().count();
    wait::until_so("jobs fire", SOON, || fired(&Export::of(&cluster.nodes[0])) > JOBS);
    let (asked, machine) = (wait::wall_clock(), Machine::watched());
    let status = cluster.nodes[0].stop();
    assert!(status.success(), "{status}");
    cluster.nodes[0].start();
    // Shards also move when it has come back.
    cluster.wait_until_spread();
    let export = cluster.verified(&scene, 0, Duration::ZERO);
    let late =
        export.all_fires().filter(|run| instant(&run["due_at"]) > asked).map(|run| (lateness(run), run));
    let (late, run) = late.max_by_key(|(late, _)| *late).expect("something fired meanwhile");
    println!("{} fires, the latest {late:?} late", fired(&export));
    assert!(late < HANDED_OVER_MAX + machine.taken(), "{late:?} late: {run}");
}
