//! Whichever node is asked (R29, R30).

use punctual_tests::api::{JOBS, RUNS};
use punctual_tests::cluster::{Kept, NODES, SHARDS, node_name};
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Scene};
use serde_json::{Value, json};

/// What every node answers, if they agree.
#[track_caller]
fn everywhere(cluster: &Cluster, path: &str) -> Value {
    let answers: Vec<Value> = (0..NODES).map(|node| cluster.insist(node, |api| api.get(path))).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{path}: {answers:#?}");
    answers[0].clone()
}

fn id_of(run: &Value) -> String {
    run["id"].as_str().expect("a run has an id").to_owned()
}

#[test]
fn every_node_gives_the_same_answers_and_takes_the_same_commands() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene, &Kept::Postgres.address(), &["--shard-lease", "1s"]);
    cluster.add_worker("a", &[]);
    let job = json!({ "schedule": { "cron": "0 3 * * *" }, "task": { "noop": {} } });
    for number in 0..6 {
        cluster.insist(number % NODES, |api| api.put(&format!("{JOBS}/job-{number}"), &job));
        assert_eq!(everywhere(&cluster, &format!("{JOBS}/job-{number}"))["name"], format!("job-{number}"));
    }
    let page = everywhere(&cluster, JOBS);
    let named = page["items"].as_array().expect("a page has items").iter();
    let named: Vec<&str> = named.filter_map(|job| job["name"].as_str()).collect();
    assert_eq!(named, (0..6).map(|number| format!("job-{number}")).collect::<Vec<_>>(), "sorted by name");

    // A command to one node, the same again to another: one run.
    let mut ids = Vec::new();
    for number in 0..12 {
        let body = json!({ "task": { "noop": {} }, "key": format!("key-{number}") });
        let runs = (0..NODES).map(|node| id_of(&cluster.insist(node, |api| api.post(RUNS, &body))));
        let runs: Vec<String> = runs.collect();
        assert!(runs.iter().all(|run| *run == runs[0]), "{runs:?}");
        ids.push(runs[0].clone());
    }
    for id in &ids {
        wait::until_so("it ends", SOON, || has_ended(&cluster.api(0).run(id)));
        assert_eq!(everywhere(&cluster, &format!("{RUNS}/{id}"))["state"], "succeeded");
    }
    // A listing that is begun at one node goes on at the next.
    let mut listed = Vec::new();
    let mut after = String::new();
    for turn in 0..ids.len() {
        let page = cluster.insist(turn % NODES, |api| api.get(&format!("{RUNS}?limit=5{after}")));
        listed.extend(page["items"].as_array().expect("a page has items").iter().map(id_of));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    // Ids are numbers that grow with time: the newest run comes first.
    ids.sort_by_key(|id| std::cmp::Reverse(id.parse::<u64>().expect("an id is a number")));
    assert_eq!(listed, ids, "in order, nothing twice and nothing left out");
}

#[test]
fn while_one_node_is_dead_the_others_take_every_command() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene, &Kept::Postgres.address(), &["--shard-lease", "1s"]);
    cluster.add_worker("a", &[]);
    cluster.nodes[2].kill();
    // More than there are shards: some were led by the dead one.
    let runs: Vec<String> = (0..40)
        .map(|number| {
            let body = json!({ "task": { "noop": {} }, "key": format!("key-{number}") });
            id_of(&cluster.insist(number % 2, |api| api.post(RUNS, &body)))
        })
        .collect();
    for (number, id) in runs.iter().enumerate() {
        let state = || cluster.api(number % 2).run(id)["state"] == "succeeded";
        wait::until_so("it succeeds", SOON, state);
    }
    cluster.nodes[2].start();
    assert_eq!(id_of(&cluster.api(2).run(&runs[0])), runs[0], "back again, it knows them too");
}

/// The store keeps the state, so one node of three is enough (R118).
#[test]
fn while_two_nodes_are_dead_the_last_one_takes_every_command() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene, &Kept::Postgres.address(), &["--shard-lease", "1s"]);
    cluster.add_worker("a", &[]);
    let body = |number: usize| json!({ "task": { "noop": {} }, "key": format!("key-{number}") });
    let submit = |cluster: &Cluster, node: usize, number: usize| {
        id_of(&cluster.insist(node, |api| api.post(RUNS, &body(number))))
    };
    let mut runs: Vec<String> = (0..12).map(|number| submit(&cluster, number % NODES, number)).collect();
    cluster.nodes[1].kill();
    cluster.nodes[2].kill();
    runs.extend((12..52).map(|number| submit(&cluster, 0, number)));
    for (number, id) in runs.iter().enumerate() {
        wait::until_so("it succeeds", SOON, || cluster.api(0).run(id)["state"] == "succeeded");
        assert_eq!(&submit(&cluster, 0, number), id, "what was acknowledged is known: one key, one run");
    }
}

/// The rows of a listing, each as the words under these names.
fn listed(cluster: &Cluster, node: usize, path: &str, fields: [&str; 2]) -> Vec<[Value; 2]> {
    let page = cluster.insist(node, |api| api.get(path));
    let rows = page["items"].as_array().expect("a page has items").clone();
    rows.iter().map(|row| fields.map(|field| row[field].clone())).collect()
}

#[test]
fn every_node_tells_of_all_nodes_and_of_all_workers() {
    let scene = Scene::new();
    let mut cluster = Cluster::start(&scene, &Kept::Postgres.address(), &["--shard-lease", "1s"]);
    cluster.add_worker("a", &[]);
    cluster.add_worker("b", &[]);
    let names: Vec<String> = (0..NODES).map(node_name).collect();
    for node in 0..NODES {
        wait::until_so("all nodes are ready", SOON, || {
            let all = listed(&cluster, node, "/api/v1/nodes", ["name", "ready"]);
            all == names.iter().map(|name| [json!(name), json!(true)]).collect::<Vec<_>>()
        });
        wait::until_so("both workers are linked to all nodes", SOON, || {
            let all = listed(&cluster, node, "/api/v1/workers", ["nodes", "slots"]);
            all == [[json!(names), json!(8)], [json!(names), json!(8)]]
        });
        wait::until_so("every shard is led", SOON, || {
            let all = listed(&cluster, node, "/api/v1/nodes", ["name", "shards"]);
            all.iter().filter_map(|row| row[1].as_u64()).sum::<u64>() == u64::from(SHARDS)
        });
    }
    // What runs is counted once, whichever nodes gave it.
    let long = json!({ "task": { "shell": "sleep 30" } });
    let runs: Vec<String> =
        (0..6).map(|turn| id_of(&cluster.insist(turn % NODES, |api| api.post(RUNS, &long)))).collect();
    wait::until_so("six slots are busy", SOON, || {
        let all = listed(&cluster, 1, "/api/v1/workers", ["name", "busy"]);
        all.iter().filter_map(|row| row[1].as_u64()).sum::<u64>() == 6
    });
    for run in runs {
        cluster.insist(2, |api| api.post(&format!("{RUNS}/{run}/cancel"), &json!({})));
    }
}
