//! Work is shared out among the nodes, and stays where it is while its node lives (R12 to R15, R17 to R20, R22, R34, R92).

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use punctual_core::ids::RunId;
use punctual_store::conformance::servers::postgres;
use punctual_tests::api::{JOBS, RUNS};
use punctual_tests::cluster::{
    NODES, SHARDS, instant, job_name, lateness, node_name, shards_of, with_parameters,
};
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Api, Cluster, Export, Machine, Scene};
use punctual_verify::Options;
use serde_json::{Value, json};

const LEASES: [&str; 4] = ["--shard-lease", "1s", "--attempt-lease", "2s"];
/// Leases that do not end because the machine stands still for a moment.
const CALM: [&str; 4] = ["--shard-lease", "5s", "--attempt-lease", "10s"];
/// With the longest leases of these tests a shard moves about once a second while shards have to move.
const SETTLED: Duration = Duration::from_secs(4);
/// How often the locks are looked at.
const LOOKS_MIN: usize = 10;
/// A fire of a job is late by less than this.
const LATE_MAX: Duration = Duration::from_secs(1);
/// An edit is everywhere by then (R34).
const SEEN_MAX: Duration = Duration::from_secs(1);

/// A cluster, and a look into its database as a stranger has it.
struct Shared {
    scene: Scene,
    cluster: Cluster,
    server: &'static postgres::Server,
    database: String,
}

impl Shared {
    fn start(words: &[&str]) -> Shared {
        let mut shared = Shared::without_worker(words);
        shared.cluster.add_worker("a", &[]);
        shared
    }

    fn without_worker(words: &[&str]) -> Shared {
        Shared::of_each(|_| words.to_vec())
    }

    /// Nodes that are started with words of their own, and no worker.
    fn of_each<'a>(words: impl Fn(usize) -> Vec<&'a str>) -> Shared {
        let scene = Scene::new();
        let server = postgres::Server::shared();
        let url = server.database();
        let (_, database) = url.rsplit_once('/').expect("an address ends in a name");
        let store = with_parameters(&url);
        let mut cluster = Cluster::of_each(&scene, |number, _| {
            ["--store", &store].into_iter().chain(words(number)).map(str::to_owned).collect()
        });
        cluster.start_all();
        Shared { scene, cluster, server, database: database.to_owned() }
    }

    fn sql(&self, statement: &str) -> String {
        self.server.sql(&self.database, statement)
    }

    /// The owner and the epoch of every shard.
    fn leases(&self) -> BTreeMap<u16, (String, u64)> {
        let read = |line: &str| {
            let [shard, owner, epoch] = line.split('|').collect::<Vec<_>>()[..] else { panic!("{line}") };
            (shard.parse().expect("a shard"), (owner.to_owned(), epoch.parse().expect("an epoch")))
        };
        let found = self.sql("SELECT shard, owner, epoch FROM punctual.shards");
        found.lines().map(read).collect()
    }

    /// Waits until nobody is a newcomer and nothing moves any more.
    #[track_caller]
    fn wait_until_settled(&self) {
        let youngest = "SELECT count(*) FROM punctual.sessions WHERE since > extract(epoch FROM clock_timestamp()) * 1000 - 6000";
        wait::until_so("nobody is a newcomer", SOON, || self.sql(youngest) == "0");
        let (mut before, mut since) = (self.leases(), wait::now());
        wait::until_so("nothing moves any more", SOON, || {
            let now = self.leases();
            if now != before {
                (before, since) = (now, wait::now());
            }
            since.elapsed() > SETTLED
        });
    }

    /// The shards that a node leads.
    fn led(&self, node: &str) -> BTreeSet<u16> {
        let found = self.sql(&format!(
            "SELECT shard FROM punctual.shards JOIN punctual.sessions ON owner = id WHERE node = '{node}'"
        ));
        found.lines().map(|line| line.trim().parse().expect("a shard")).collect()
    }

    /// Until when the session of each node lasts.
    fn sessions(&self) -> BTreeMap<String, u64> {
        let found = self.sql("SELECT id, until FROM punctual.sessions");
        let read = |line: &str| {
            let (id, until) = line.split_once('|').unwrap_or_else(|| panic!("{line}"));
            (id.to_owned(), until.parse().expect("milliseconds"))
        };
        found.lines().map(read).collect()
    }

    #[track_caller]
    fn wait_for_fires(&self, by: usize, of_each: usize, jobs: usize) -> Export {
        wait::until("every job fires", SOON, || {
            let export = Export::if_given(&self.cluster.nodes[by])?;
            (0..jobs).all(|number| export.fires(&job_name(number)).len() >= of_each).then_some(export)
        })
    }
}

#[test]
fn a_node_keeps_what_it_leads_and_renews_it_until_it_dies() {
    let jobs = 12;
    let mut shared = Shared::start(&CALM);
    shared.cluster.put_jobs(jobs);
    shared.wait_until_settled();
    let (before, sessions) = (shared.leases(), shared.sessions());
    assert_eq!(sessions.len(), NODES, "{sessions:?}");
    let owners: BTreeSet<&String> = before.values().map(|(owner, _)| owner).collect();
    assert_eq!(owners.len(), NODES, "every node has a share");
    let fired = shared.wait_for_fires(0, 1, jobs).fires(&job_name(0)).len();
    shared.wait_for_fires(0, fired + 3, jobs);
    assert_eq!(shared.leases(), before, "fire after fire is decided by the same node");
    let renewed = shared.sessions();
    for (session, until) in &sessions {
        assert!(renewed[session] > *until, "{session} was not renewed: {sessions:?}, {renewed:?}");
    }
    // Its shards go to the others, each under the next epoch, and their jobs fire on.
    shared.cluster.nodes[0].kill();
    // A shard that moves between nodes may be counted by both, so these counts do not end the wait.
    let after = wait::until("the others lead everything", SOON, || {
        let after = shared.leases();
        let alive: BTreeSet<&String> = after.values().map(|(owner, _)| owner).collect();
        let led = shards_of(shared.cluster.api(1)) + shards_of(shared.cluster.api(2));
        (alive.len() == NODES - 1 && led == usize::from(SHARDS)).then_some(after)
    });
    for (shard, (owner, epoch)) in &before {
        let moved = (&after[shard].0 != owner, after[shard].1 - epoch);
        assert!(
            matches!(moved, (false, 0) | (true, 1)),
            "shard {shard}: {:?} to {:?}",
            before[shard],
            after[shard]
        );
    }
    shared.cluster.verified(&shared.scene, 1, Duration::ZERO);
}

#[test]
fn all_nodes_share_due_jobs_without_waiting_for_locks() {
    let jobs = 30;
    let (shared, machine) = (Shared::start(&LEASES), Machine::watched());
    shared.cluster.put_jobs(jobs);
    let statistics = format!("SELECT deadlocks FROM pg_stat_database WHERE datname = '{}'", shared.database);
    let deadlocks = shared.sql(&statistics);
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    let commits = || (0..NODES).map(|node| commits_of(shared.cluster.api(node))).collect::<Vec<_>>();
    let before = commits();
    let mut looks = 0;
    wait::until_so("they fire for a while", SOON, || {
        assert_eq!(shared.sql(waiting), "0", "a transaction waits for a lock");
        looks += 1;
        looks >= LOOKS_MIN && Export::of(&shared.cluster.nodes[0]).all_fires().count() >= 5 * jobs
    });
    let after = commits();
    assert!(before.iter().zip(&after).all(|(before, after)| after > before), "{before:?}, {after:?}");
    assert_eq!(shared.sql(&statistics), deadlocks);
    let export = shared.cluster.verified(&shared.scene, 1, Duration::ZERO);
    // Nobody is starved: those of one node are as punctual as those of another.
    for number in 0..jobs {
        let fires = export.fires(&job_name(number));
        let late = fires.iter().map(|run| lateness(run)).max().unwrap_or_default();
        assert!(fires.len() >= 4, "{} fired {} times only", job_name(number), fires.len());
        assert!(late < LATE_MAX + machine.taken(), "{}: {late:?}", job_name(number));
    }
}

fn commits_of(api: &Api) -> u64 {
    let nodes = api.get("/api/v1/nodes").expect("the node answers").ok();
    nodes["items"][0]["commits"].as_u64().expect("a node counts its commits")
}

#[test]
fn one_of_three_nodes_fires_a_job_once() {
    let mut shared = Shared::start(&LEASES);
    shared.cluster.put_jobs(1);
    let export = shared.wait_for_fires(0, 3, 1);
    let due: BTreeSet<&str> = export.all_fires().filter_map(|run| run["due_at"].as_str()).collect();
    assert_eq!(due.len(), export.all_fires().count(), "one run a fire");
    let next = |node: usize| {
        let job = shared.cluster.insist(node, |api| api.get(&format!("{JOBS}/{}", job_name(0))));
        instant(&job["next_due_at"])
    };
    let before = next(0);
    for node in 0..NODES {
        wait::until_so("its next time moves on everywhere", SOON, || next(node) > before);
    }
    // Nodes are killed in turn, and every node left gives the same next due time.
    for victim in 0..2 {
        let next = |node: usize| {
            let job = shared.cluster.insist(node, |api| api.get(&format!("{JOBS}/{}", job_name(0))));
            instant(&job["next_due_at"])
        };
        let before = next(2);
        shared.cluster.nodes[victim].kill();
        wait::until_so("its next time moves on", SOON, || {
            let job = shared.cluster.insist(2, |api| api.get(&format!("{JOBS}/{}", job_name(0))));
            instant(&job["next_due_at"]) > before + Duration::from_secs(2)
        });
    }
    shared.cluster.verified(&shared.scene, 2, Duration::ZERO);
}

#[test]
fn an_edit_at_one_node_is_what_all_of_them_go_by_within_a_second() {
    let shared = Shared::start(&LEASES);
    let cluster = &shared.cluster;
    for (turn, number) in (0..NODES).enumerate() {
        let path = format!("{JOBS}/{}", job_name(number));
        let job = |cron: &str| json!({ "schedule": { "cron": cron }, "task": { "noop": {} } });
        cluster.insist(turn % NODES, |api| api.put(&path, &job("0 3 1 1 *")));
        let (edited, machine) = (wait::now(), Machine::watched());
        let revision = cluster.insist((turn + 1) % NODES, |api| api.put(&path, &job("* * * * * *")));
        for node in 0..NODES {
            let seen = cluster.insist(node, |api| api.get(&path));
            assert_eq!(seen["revision"], revision["revision"], "{seen}");
        }
        let after = edited.elapsed();
        assert!(after < SEEN_MAX + machine.taken(), "{after:?}");
        let fired = wait::until("it fires", SOON, || cluster.api(0).runs_of(&job_name(number)).pop());
        // The next full second, and a second of a slow machine's.
        let late = instant(&fired["created_at"]).since(instant(&revision["updated_at"]));
        assert!(late < Duration::from_secs(1) + SEEN_MAX + machine.taken(), "{late:?}: {fired}");
    }
}

#[test]
fn a_thousand_runs_of_which_a_third_lose_their_node_all_succeed() {
    let runs = 1_000;
    // Nobody works before all of them are there, however long that takes.
    let mut shared = Shared::without_worker(&CALM);
    let endpoints = shared.cluster.endpoints();
    let body = &json!({ "task": { "noop": {} } });
    let ids: Vec<String> = thread::scope(|scope| {
        let asked = endpoints.iter().map(|endpoint| {
            let each = runs / NODES + 1;
            scope.spawn(move || (0..each).map(|_| id_of(&endpoint.submit(body))).collect::<Vec<_>>())
        });
        let asked: Vec<_> = asked.collect();
        asked.into_iter().flat_map(|ids| ids.join().expect("they are taken")).collect()
    });
    assert!(ids.len() >= runs);
    let due = wait::wall_clock();
    // The node that leads the most is killed: a busy node may have given shards to the others meanwhile.
    let led_by = |node: usize| {
        let led = shared.led(&node_name(node));
        ids.iter().filter(|id| led.contains(&shard_of(id))).count()
    };
    let (theirs, killed) = (0..NODES).map(|node| (led_by(node), node)).max().expect("there are nodes");
    assert!(theirs >= runs / NODES, "{theirs} runs are a third at least");
    let left = (killed + 1) % NODES;
    shared.cluster.add_worker("a", &[]);
    wait::until_so("work has begun", SOON, || shared.cluster.api(left).run(&ids[0])["state"] == "succeeded");
    shared.cluster.nodes[killed].kill();
    let export = wait::until("all of them have ended", 10 * SOON, || {
        let export = Export::if_given(&shared.cluster.nodes[left])?;
        (export.runs().values().filter(|run| has_ended(run)).count() >= ids.len()).then_some(export)
    });
    for id in &ids {
        assert_eq!(export.runs()[id.as_str()]["state"], "succeeded", "{id} was acknowledged");
    }
    let options = Options { ended_through: Some(due), may_be_empty: true, ..Options::default() };
    export.verify(&shared.scene, &shared.cluster.nodes[left], &options);
}

#[test]
fn a_busy_node_gives_shards_to_the_others() {
    // Only the first node can become too busy, and soon. How many shards it keeps depends on chance: with a tenth of its
    // weight it is first in rank for one or two of them.
    let few = usize::from(SHARDS) / 4;
    let hot = |node| if node == 0 { &["--busy-percent", "1", "--busy-for", "1s"][..] } else { &[] };
    let mut shared = Shared::of_each(|node| [&CALM, hot(node)].concat());
    shared.cluster.add_worker("a", &[]);
    shared.wait_until_settled();
    // Runs without a key come to the shards of the node that is asked.
    let endpoint = &shared.cluster.endpoints()[0];
    let is_over = &AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            let body = json!({ "task": { "noop": {} } });
            scope.spawn(move || {
                while !is_over.load(Relaxed) {
                    endpoint.post_at_once(RUNS, &body, 50);
                }
            });
        }
        let moved = panic::catch_unwind(AssertUnwindSafe(|| {
            wait::until_so("the busy node gives its shards away", 10 * SOON, || {
                shared.led(&node_name(0)).len() <= few
            });
        }));
        is_over.store(true, Relaxed);
        moved.unwrap_or_else(|failed| panic::resume_unwind(failed));
    });
    // Every shard is led, and all nodes are there: they moved because of the load.
    wait::until_so("every shard is led", SOON, || {
        shared.cluster.shards_led().iter().sum::<usize>() == usize::from(SHARDS)
    });
    assert_eq!(shared.sessions().len(), NODES);
    let log = shared.cluster.nodes[0].printed();
    assert!(log.contains("this node's share of the shards changes with its load"), "{log}");
}

#[test]
fn a_hundred_clients_with_one_key_get_one_run() {
    let shared = Shared::start(&LEASES);
    let endpoints = shared.cluster.endpoints();
    let body = &json!({ "task": { "shell": "echo once" }, "key": "order-17" });
    let ids: BTreeSet<String> = thread::scope(|scope| {
        let asked: Vec<_> = endpoints
            .iter()
            .map(|endpoint| scope.spawn(move || endpoint.post_at_once(RUNS, body, 34)))
            .collect();
        let answers = asked.into_iter().flat_map(|asked| asked.join().expect("they are answered"));
        answers.map(|answer| id_of(&answer.expect("the node answers").ok())).collect()
    });
    assert_eq!(ids.len(), 1, "{ids:?}");
    let id = ids.first().expect("one id");
    wait::until_so("it succeeds", SOON, || shared.cluster.api(1).run(id)["state"] == "succeeded");
    assert_eq!(Export::of(&shared.cluster.nodes[2]).runs().len(), 1);
}

/// The shard that a run belongs to.
fn shard_of(run: &str) -> u16 {
    run.parse::<RunId>().expect("an id of a run").shard().0
}

fn id_of(run: &Value) -> String {
    run["id"].as_str().expect("a run has an id").to_owned()
}
