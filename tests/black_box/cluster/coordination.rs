//! Servers that are cut off from the store of the sessions (etcd, Redis), and from nothing else (T-09).
//!
//! One node that is cut off loses its shards to the others. When all are cut off, every node keeps its shards.

use std::time::Duration;

use punctual_store::conformance::servers::{etcd, postgres, redis};
use punctual_tests::cluster::{NODES, SHARDS, shards_of, with_parameters};
use punctual_tests::fault::{Language, Proxy, Way, Whose};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Scene};

const JOBS: usize = 10;
const SHARD_LEASE: Duration = Duration::from_secs(1);

fn cut_off(sessions: &str, port: u16) {
    let scene = Scene::new();
    let server = postgres::Server::shared();
    let store = server.database();
    let (_, database) = store.rsplit_once('/').expect("an address ends in a name");
    let ways: Vec<Proxy> = (0..NODES).map(|_| Proxy::local(Language::Any, port)).collect();
    let mut cluster = Cluster::of_each(&scene, |number, _| {
        let by = ways[number].instead(sessions);
        let words = ["--store", &with_parameters(&store), "--coordination", &by];
        words.iter().chain(&["--shard-lease", "1s"]).map(|word| (*word).to_owned()).collect()
    });
    cluster.start_all();
    cluster.add_worker("a", &[]);
    cluster.put_jobs(JOBS);
    cluster.wait_until_settled();

    let leaders = || server.sql(database, "SELECT shard, epoch, owner FROM punctual.shards ORDER BY shard");
    ways.iter().for_each(|way| way.hold(&Way::BOTH, Whose::Everyones));
    // On a busy machine a shard may be on its way: it arrives.
    let (mut before, mut since) = (leaders(), wait::now());
    wait::until_so("no shard is on its way", SOON, || {
        let now = leaders();
        if now != before {
            (before, since) = (now, wait::now());
        }
        since.elapsed() > SHARD_LEASE
    });
    let since = wait::now();
    // They go on as if nothing were, for as long as it takes several leases to end.
    cluster.wait_for_fires(0, 3 * JOBS);
    wait::until_so("leases would have ended", SOON, || since.elapsed() > 3 * SHARD_LEASE);
    assert_eq!(leaders(), before, "nothing moves");
    ways.iter().for_each(Proxy::repair);
    cluster.wait_until_settled();

    ways[0].hold(&Way::BOTH, Whose::Everyones);
    wait::until_so("the others lead what the lost one led", SOON, || {
        shards_of(cluster.api(1)) + shards_of(cluster.api(2)) == usize::from(SHARDS)
    });
    wait::until_so("the lost one knows", SOON, || shards_of(cluster.api(0)) == 0);
    cluster.wait_for_fires(0, JOBS);
    ways[0].repair();
    cluster.wait_until_spread();
    cluster.verified(&scene, 0, Duration::ZERO);
}

#[test]
fn a_node_cut_off_from_redis_loses_its_shards() {
    let sessions = redis::start();
    cut_off(&redis::url(&sessions), sessions.port);
}

#[test]
fn a_node_cut_off_from_etcd_loses_its_shards() {
    let sessions = etcd::start();
    cut_off(&etcd::url(&sessions), sessions.port);
}
