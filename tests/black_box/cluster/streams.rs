//! Workers that are cut off from the servers, one way or the other (P8, P12; T-08), and words that are lost on the way
//! (R88, R90).

use std::fs;
use std::path::Path;
use std::time::Duration;

use punctual_tests::api::RUNS;
use punctual_tests::cluster::Kept;
use punctual_tests::fault::{Language, Proxy, Way, Whose};
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cluster, Export, Machine, Scene};
use punctual_verify::Options;
use serde_json::{Value, json};

const ATTEMPT_LEASE: Duration = Duration::from_secs(2);
/// How long it may take to see that a lease is over.
const NOTICED_MAX: Duration = Duration::from_secs(2);
/// A program that is asked to stop and does not is killed after this.
const GRACE: Duration = Duration::from_secs(1);

/// A cluster whose workers come by ways that can be cut.
fn wired(scene: &Scene, words: &[&str]) -> (Cluster, Vec<Proxy>) {
    let store = Kept::Postgres.address();
    let mut ways = Vec::new();
    let mut cluster = Cluster::of_each(scene, |_, place| {
        let way = Proxy::speaking(Language::Any, place.parse().expect("a place is an address"));
        let said = ["--store", &store, "--advertise", &way.place().to_string()];
        let said = said.iter().chain(words).map(|word| (*word).to_owned()).collect();
        ways.push(way);
        said
    });
    cluster.endpoints = ways.iter().map(|way| format!("http://{}", way.place())).collect();
    cluster.start_all();
    (cluster, ways)
}

#[track_caller]
fn submit(cluster: &Cluster, shell: &str) -> String {
    let run = cluster.insist(1, |api| api.post(RUNS, &json!({ "task": { "shell": shell } })));
    run["id"].as_str().expect("a run has an id").to_owned()
}

#[track_caller]
fn ended(cluster: &Cluster, run: &str) -> Value {
    wait::until("the run ends", SOON, || Some(cluster.api(0).run(run)).filter(has_ended))
}

fn lines(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count()
}

#[track_caller]
fn verify(cluster: &Cluster, scene: &Scene) {
    let options = Options { may_be_empty: true, ..Options::default() };
    Export::of(&cluster.nodes[2]).verify(scene, &cluster.nodes[2], &options);
}

/// Cuts the worker that has a run off, and looks what becomes of the run and of its program.
#[track_caller]
fn cut_off(cluster: &Cluster, ways: &[Proxy], scene: &Scene, cut: &[Way]) {
    let file = scene.path(&format!("alive-{cut:?}"));
    // The first attempt writes for ever and does not want to stop; the second one ends.
    let alive = format!("trap '' TERM; while :; do echo x >> '{}'; sleep 0.05; done", file.display());
    let program = format!("test $PUNCTUAL_ATTEMPT = 1 || exit 0; {alive}");
    // A run that was given to a worker in the moment it was lost begins with its second attempt: then another one.
    let run = wait::until("a program is under way", 2 * SOON, || {
        let run = submit(cluster, &program);
        wait::until_so("it is under way, or over", SOON, || {
            lines(&file) > 0 || has_ended(&cluster.api(0).run(&run))
        });
        (lines(&file) > 0).then_some(run)
    });
    let holder = holder(cluster, &run);
    let (since, machine) = (wait::now(), Machine::watched());
    ways.iter().for_each(|way| way.hold(cut, holder));
    let mut last = (lines(&file), wait::now());
    wait::until_so("the program is stopped", SOON, || {
        let now = lines(&file);
        if now > last.0 {
            last = (now, wait::now());
        }
        last.1.elapsed() > Duration::from_millis(500)
    });
    let lived = last.1.duration_since(since);
    println!("{cut:?}: the program lived {lived:?} after the cut");
    let lives_max = ATTEMPT_LEASE + GRACE + NOTICED_MAX + machine.taken();
    assert!(lived < lives_max, "it lived {lived:?} after its worker was cut off");
    let taken = ended(cluster, &run);
    assert_eq!((&taken["state"], &taken["attempt"]), (&json!("succeeded"), &json!(2)), "{taken}");
    assert!(since.elapsed() < SOON, "the other worker had it");
    ways.iter().for_each(Proxy::repair);
    // The one that was cut off is heard again, and what it says of its attempt is too late.
    wait::until_so("both workers are there", SOON, || {
        let workers = cluster.api(0).get("/api/v1/workers").map(|answer| answer.json());
        let items = workers.and_then(|workers| workers["items"].as_array().cloned()).unwrap_or_default();
        items.iter().filter(|worker| worker["lost"] == false).count() == 2
    });
    assert_eq!(ended(cluster, &run), taken, "one result, and it stays");
}

#[test]
fn a_worker_cut_off_one_way_loses_its_run_to_another() {
    let scene = Scene::new();
    let (mut cluster, ways) = wired(&scene, &["--shard-lease", "1s", "--attempt-lease", "2s"]);
    cluster.add_worker("a", &[]);
    cluster.add_worker("b", &[]);
    cut_off(&cluster, &ways, &scene, &[Way::There]);
    cut_off(&cluster, &ways, &scene, &[Way::Back]);
    verify(&cluster, &scene);
}

/// The process of the worker that has a run in hand.
#[track_caller]
fn holder(cluster: &Cluster, run: &str) -> Whose {
    let worker = wait::until("it is known who runs it", SOON, || {
        cluster.api(0).run(run)["worker"].as_str().map(str::to_owned)
    });
    Whose::Process(cluster.workers[usize::from(worker.starts_with('b'))].pid())
}

#[test]
fn a_lost_report_is_sent_again_and_causes_no_second_execution() {
    let scene = Scene::new();
    // The default leases: there is time to come back.
    let (mut cluster, ways) = wired(&scene, &[]);
    cluster.add_worker("a", &[]);
    cluster.add_worker("b", &[]);
    // What was held is lost with its connection.
    let lose = || {
        ways.iter().for_each(|way| way.reset(Whose::Everyones));
        ways.iter().for_each(Proxy::repair);
    };
    let (starts, ends) = (scene.path("starts"), scene.path("ends"));
    let submit = |name: &str| {
        let go = scene.path(&format!("go-{name}"));
        let (go, starts, ends) = (go.display(), starts.display(), ends.display());
        let until_told = format!("while ! test -e '{go}'; do sleep 0.05; done");
        submit(
            &cluster,
            &format!("echo {name} >> '{starts}'; {until_told}; echo {name} >> '{ends}'; echo {name}"),
        )
    };
    let let_go = |name: &str| scene.write(&format!("go-{name}"), "");
    let check_once = |run: &str, name: &str| {
        let run = ended(&cluster, run);
        let (state, attempt, output) = (&run["state"], &run["attempt"], &run["output"]);
        assert_eq!((state, attempt, output), (&json!("succeeded"), &json!(1), &json!(name)), "{run}");
        let text = fs::read_to_string(&starts).expect("something ran");
        assert_eq!(text.lines().filter(|line| *line == name).count(), 1, "it was executed once: {text}");
    };

    // The assignment arrives, and the report that it was started does not. Nodes that forward the run hear each other.
    let workers: Vec<_> = cluster.workers.iter().map(|worker| Whose::Process(worker.pid())).collect();
    ways.iter().for_each(|way| way.hush_after("begun", &workers));
    let begun = submit("begun");
    wait::until_so("the program is under way", SOON, || lines(&starts) == 1);
    lose();
    let_go("begun");
    check_once(&begun, "begun");

    // It ends, and the outcome does not arrive.
    let finished = submit("finished");
    wait::until_so("the program is under way", SOON, || lines(&starts) == 2);
    ways.iter().for_each(|way| way.hold(&[Way::There], Whose::Everyones));
    let_go("finished");
    wait::until_so("the program is over", SOON, || lines(&ends) == 2);
    wait::pass(Duration::from_millis(300));
    assert_eq!(cluster.api(0).run(&finished)["state"], "running", "nobody has heard of it");
    lose();
    check_once(&finished, "finished");
    verify(&cluster, &scene);
}
