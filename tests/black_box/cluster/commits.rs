//! Connections that are cut at COMMIT (P6; T-11). The outcome is unknown, and a retry with the same key has one effect.
//! `CUTS=1000` for more.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::chance::told;
use punctual_tests::cluster::{Kept, NODES};
use punctual_tests::fault::Cut;
use punctual_tests::{Cluster, Scene};
use reqwest::Method;
use serde_json::{Value, json};

const CUTS: usize = 20;
const JOBS: usize = 3;

fn cut_at_commit(kept: Kept) {
    let scene = Scene::new();
    let store = kept.address();
    let ways = kept.ways(&store);
    let mut cluster = Cluster::start_by(&ways, &scene, &store, &["--shard-lease", "1s"]);
    cluster.add_worker("a", &[]);
    cluster.put_jobs(JOBS);
    let cuts = told("CUTS").unwrap_or(CUTS);
    let body = json!({ "task": { "noop": {} } }).to_string();
    let mut runs = BTreeMap::new();
    let (mut met, mut asked) = (0, 0);
    for number in 0..cuts {
        let key = format!("cut-{number:05}-at-commit");
        let cut = [Cut::After, Cut::Amid, Cut::Before][number % 3];
        let before: u64 = ways.iter().map(|way| way.counts().commits_met).sum();
        // The shard's leader commits, whichever node is asked.
        ways.iter().for_each(|way| way.cut_commit(&key, cut));
        let mut submit = |node: usize| {
            let run = cluster.insist(node, |api| {
                asked += 1;
                let header = Some(("idempotency-key", key.as_str()));
                api.send(Method::POST, RUNS, Some(body.clone()), header)
            });
            run["id"].as_str().expect("a run has an id").to_owned()
        };
        let run = submit(number % NODES);
        assert_eq!(submit((number + 1) % NODES), run, "one key, one run");
        met += ways.iter().map(|way| way.counts().commits_met).sum::<u64>() - before;
        ways.iter().for_each(punctual_tests::fault::Proxy::repair);
        assert!(runs.insert(run, key).is_none(), "another key, another run");
    }
    println!("{cuts} submissions, {met} commits cut, {asked} requests");
    // More than one each, if the shard went to another node meanwhile.
    assert!(met >= cuts as u64, "{met} of {cuts} met their cut");
    cluster.wait_for_fires(0, JOBS);
    let export = cluster.verified(&scene, 0, Duration::ZERO);
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for run in export.runs().values().filter(|run| run["job"] == Value::Null) {
        let id = run["id"].as_str().expect("a run has an id");
        assert_eq!(run["state"], "succeeded", "{run}");
        assert!(runs.contains_key(id), "nobody was told of {run}");
        *found.entry(id).or_default() += 1;
    }
    assert_eq!(found.len(), runs.len(), "everything that was acknowledged is there, once");
}

#[test]
fn a_submit_cut_at_a_postgresql_commit_has_one_effect() {
    cut_at_commit(Kept::Postgres);
}

#[test]
fn a_submit_cut_at_a_mariadb_commit_has_one_effect() {
    cut_at_commit(Kept::MariaDb);
}
