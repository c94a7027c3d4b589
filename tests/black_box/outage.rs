//! Eight hours without a node (T-24), as its wall clock shows them.
//!
//! `FULL=1` for the full count: 10,000 jobs, of which 1,000 are due each second.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_tests::api::JOBS;
use punctual_tests::cluster::instant;
use punctual_tests::fault::Clock;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Export, Machine, Node, Scene};
use punctual_verify::Options;
use serde_json::{Value, json};

const OUTAGE: Duration = Duration::from_secs(8 * 3600);
const AFTERWARDS: Duration = Duration::from_secs(30);
/// Every tenth job is due each second, the others each hour.
const SECONDLY_EVERY: usize = 10;
/// A fire that is late by no more than this is made as if it were on time.
const GRACE: &str = "10s";
const CLIENTS: usize = 8;
/// A node that comes back after an outage is ready by then.
const READY_MAX: Duration = Duration::from_secs(5);

fn count() -> usize {
    if std::env::var_os("FULL").is_some() { 10_000 } else { 200 }
}

fn name(number: usize) -> String {
    format!("job-{number:05}")
}

fn is_secondly(number: usize) -> bool {
    number.is_multiple_of(SECONDLY_EVERY)
}

/// Half of each kind make up for what was missed with one run, the other half with none.
fn is_once(number: usize) -> bool {
    number % (2 * SECONDLY_EVERY) < SECONDLY_EVERY
}

fn definition(number: usize, end: Timestamp) -> Value {
    let period = if is_secondly(number) { "1s" } else { "1h" };
    let policy = if is_once(number) { "once" } else { "skip" };
    json!({ "schedule": { "every": period, "end": end.to_string() }, "task": { "noop": {} }, "overlap": "allow",
        "misfire": { "policy": policy, "grace": GRACE, "window": "24h" }, "keep": { "runs": 100_000 } })
}

/// All jobs by name, with the next time at which each is due. None: its schedule has ended.
#[track_caller]
fn next_dues(node: &Node) -> BTreeMap<String, Option<Timestamp>> {
    let mut dues = BTreeMap::new();
    let mut after = String::new();
    loop {
        let page = node.api().get(&format!("{JOBS}?limit=1000{after}")).expect("the node answers").ok();
        for job in page["items"].as_array().expect("a page has items") {
            let name = job["name"].as_str().expect("a job has a name").to_owned();
            dues.insert(name, job["next_due_at"].is_string().then(|| instant(&job["next_due_at"])));
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return dues,
        }
    }
}

#[track_caller]
fn put_jobs(node: &Node, which: &(dyn Fn(usize) -> bool + Sync), end: Timestamp) {
    let (api, numbers) = (node.api(), (0..count()).filter(|number| which(*number)).collect::<Vec<_>>());
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let numbers = numbers.iter().skip(client).step_by(CLIENTS);
            scope.spawn(move || {
                numbers.for_each(|number| drop(api.put_job(&name(*number), &definition(*number, end))));
            });
        }
    });
}

#[test]
fn an_eight_hour_outage_costs_at_most_one_run_and_one_record_a_job() {
    let jobs = count();
    let scene = Scene::new();
    let clock = Clock::new(scene.path("clock"));
    let mut node = clock.rule(scene.node()).with_env("PUNCTUAL_DURABILITY", "relaxed");
    node.start();
    put_jobs(&node, &|number| !is_secondly(number), Timestamp::MAX);
    // Those that fire often go on for a while only, so that the history can be read at once.
    let end = wait::wall_clock() + OUTAGE + AFTERWARDS;
    put_jobs(&node, &is_secondly, end);
    let first = wait::wall_clock();
    wait::until_so("jobs fire", SOON, || next_dues(&node)[&name(0)] > Some(first));
    node.kill();
    let killed = wait::wall_clock();

    clock.set(i64::try_from(OUTAGE.as_secs()).expect("some hours"));
    let machine = Machine::watched();
    let (started, back) = (wait::now(), wait::wall_clock() + OUTAGE);
    node.start();
    let ready = started.elapsed();
    let slow = SOON + Duration::from_millis(u64::try_from(jobs).expect("a count") * 20);
    wait::until_so("no job owes a fire of the outage", slow, || {
        next_dues(&node).values().all(|due| due.is_none_or(|due| due > back))
    });
    println!("{jobs} jobs: ready after {ready:?}, all caught up after {:?}", started.elapsed());
    assert!(ready < READY_MAX + machine.taken(), "ready after {ready:?}");

    let export = Export::of(&node);
    let mut misfires: BTreeMap<&str, usize> = BTreeMap::new();
    let of_outage = |written: &Value| instant(written) <= back;
    let made_up = |run: &&Value| run["trigger"] == "misfire" && of_outage(&run["due_at"]);
    for run in export.all_fires().filter(made_up) {
        *misfires.entry(run["job"].as_str().expect("a fire is of a job")).or_default() += 1;
    }
    let skips = export.skips_by_job();
    for number in 0..jobs {
        let name = name(number);
        let wanted = usize::from(is_once(number));
        assert_eq!(misfires.get(name.as_str()).copied().unwrap_or(0), wanted, "{name}");
        let skips: Vec<&&Value> =
            skips[name.as_str()].iter().filter(|skip| of_outage(&skip["from"])).collect();
        let [skip] = skips[..] else { panic!("what was missed is one record: {skips:?}") };
        // One is made up for, those within the grace are made, and a few seconds pass around the outage.
        let secondly = || (end.min(back).since(killed).as_secs(), 60);
        let (missed, around) = if is_secondly(number) { secondly() } else { (8, 2) };
        let counted = skip["count"].as_u64().expect("a skip counts");
        assert!((missed - around..=missed + around).contains(&counted), "{name}: {skip}");
    }
    export.verify(&scene, &node, &Options::default());
}
