//! A leader that dies between its decision and the store, and one that dies between the store and its word (R89): those
//! who take over act on what is stored, and on nothing else.

use std::thread;
use std::time::Duration;

use punctual_tests::cluster::Kept;
use punctual_tests::fault::failpoint::{Death, VARIABLE};
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Scene};

use super::load;

const JOBS: usize = 12;

#[test]
fn a_leader_that_dies_before_its_commit_doubles_and_loses_no_run() {
    let scene = Scene::new();
    let mut cluster = Cluster::new(&scene, &Kept::Postgres.address(), &["--shard-lease", "1s"]);
    // One dies before the store hears of what it decided, one before anybody else does.
    let deaths = [Death::at("node.commit.begun", 60), Death::at("node.commit.done", 60)];
    for (node, death) in cluster.nodes.iter_mut().zip(&deaths) {
        node.set_env(VARIABLE, Some(&death.plan()));
    }
    cluster.start_all();
    cluster.add_worker("a", &[]);
    cluster.put_jobs(JOBS);
    // Asked is the one that stays.
    let endpoint = cluster.endpoints().split_off(deaths.len());
    let talk = load::Asking::default();
    let acknowledged = thread::scope(|scope| {
        let _over = talk.at_most();
        let asking = scope.spawn(|| load::ask_on(&endpoint, &talk));
        for node in &mut cluster.nodes[..deaths.len()] {
            wait::until_so("it dies", SOON, || !node.is_running());
            node.wait_for_end();
            node.set_env(VARIABLE, None);
            node.start();
        }
        talk.stop(true);
        asking.join().expect("asking does not fail")
    });
    for death in &deaths {
        assert!(cluster.nodes[0].printed().contains(&death.last_words()), "{death:?}");
    }
    let export = cluster.verified(&scene, 0, Duration::ZERO);
    load::check_kept(&export, &acknowledged);
}
