//! Workflows whose leader is killed in the middle (P15; R78): each ends as it must, no step starts twice, none is forgotten.
//!
//! All shapes run at the same time, in jobs that one node leads, and this node is killed. The kill counts for every shape that is
//! in the middle. `KILLS=50` kills the leader of each shape so often, `FULL=1` takes the full sizes, `SEED=n` other moments.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use punctual_core::job::shard_of;
use punctual_core::name::Namespace;
use punctual_tests::api::{JOBS, RUNS};
use punctual_tests::chance::{Throws, told};
use punctual_tests::cluster::{Kept, NODES, SHARDS, node_name};
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Answer, Api, Cluster, Export, Scene};
use punctual_verify::Options;
use serde_json::{Map, Value, json};

const KILLS: u32 = 1;
const LEVELS: usize = 16;
/// While small shapes and full ones are busy.
const LATER_MAX: Duration = Duration::from_millis(400);
const LATER_MAX_FULL: Duration = Duration::from_secs(8);
/// How often a test looks whether it is time for the kill.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How long a killed node is away, at most: its lease may end meanwhile, or not.
const AWAY_MAX: Duration = Duration::from_millis(1500);
/// How long all shapes of the full sizes may take together in a debug build.
const ENDS_MAX: Duration = Duration::from_secs(600);

struct Shape {
    name: &'static str,
    workflow: Value,
    /// The state in which the workflow ends.
    end: &'static str,
    /// How many runs its steps have.
    runs: usize,
    /// How many steps are left when it is not in the middle any more. A wide shape is in the middle while its steps are
    /// executed side by side, without the gate and what comes after them. The others are until their last step.
    last: usize,
}

impl Shape {
    /// The percentage with which it is not in the middle any more.
    fn middle_ends(&self) -> usize {
        let count = |part: &str| self.workflow[part].as_object().map_or(0, Map::len);
        let steps = count("steps") + count("finally");
        (steps - self.last) * 100 / steps
    }

    /// Whether a step of this run has ended and more than the last ones are left.
    fn is_in_the_middle(&self, run: &Value) -> bool {
        let percent = run["progress"].as_u64().and_then(|percent| usize::try_from(percent).ok());
        !has_ended(run) && percent.is_some_and(|percent| (1..self.middle_ends()).contains(&percent))
    }
}

struct Sizes {
    chain: usize,
    fan: usize,
    map: usize,
    jobs: usize,
    /// From the end of the first step to the kill, at most.
    later: Duration,
}

impl Sizes {
    fn told() -> Sizes {
        if std::env::var_os("FULL").is_some() {
            // A workflow has at most 5,000 steps.
            return Sizes { chain: 1000, fan: 4998, map: 10_000, jobs: 100, later: LATER_MAX_FULL };
        }
        Sizes { chain: 50, fan: 200, map: 300, jobs: 10, later: LATER_MAX }
    }
}

fn step(needs: &Value, task: &Value) -> Value {
    json!({ "needs": needs, "task": task })
}

/// The shapes. Each has a step that waits for the file `gate`, so that it does not end before the kill. `load` is a job that
/// another node leads.
fn shapes(sizes: &Sizes, gate: &Path, load: &str) -> [Shape; 7] {
    let (noop, none, top) = (&json!({ "noop": {} }), &json!([]), &json!(["top"]));
    let gate = &json!({ "shell": format!("until test -e {}; do sleep 0.05; done", gate.display()) });
    let name = |number: usize| format!("s{number}");
    let diamond = json!({ "steps": {
        "top": step(none, noop),
        "left": step(top, gate),
        "right": step(top, noop),
        "join": step(&json!(["left", "right"]), noop),
    } });
    let mut chain = Map::from_iter([(name(0), step(none, noop))]);
    chain.extend((1..sizes.chain).map(|at| {
        let task = if at == sizes.chain / 2 { gate } else { noop };
        (name(at), step(&json!([name(at - 1)]), task))
    }));
    let mut fan: Map<_, _> = (1..sizes.fan).map(|at| (name(at), step(top, noop))).collect();
    fan.insert(name(0), step(top, gate));
    let all: Vec<&String> = fan.keys().collect();
    let join = step(&json!(all), noop);
    fan.extend([("top".to_owned(), step(none, noop)), ("join".to_owned(), join)]);
    let map = json!({ "steps": {
        "list": { "task": { "shell": format!("echo [$(seq -s, {})]", sizes.map) } },
        "each": { "needs": ["list"], "map": "steps.list.output", "task": noop },
        "gate": step(&json!(["list"]), gate),
        "join": { "needs": ["each", "gate"], "when": "steps.each.succeeded > 1", "task": noop },
    } });
    let nested = (0..LEVELS).fold(gate.clone(), |inner, _| {
        let steps = json!({
            "top": step(none, noop),
            "inner": step(top, &inner),
            "after": step(&json!(["inner"]), noop),
        });
        json!({ "workflow": { "steps": steps } })
    });
    let failing = json!({
        "steps": {
            "top": step(none, noop),
            "load": { "needs": ["top"], "task": { "shell": "exit 3" }, "retry": { "attempts": 2, "delay": "10ms" } },
            "settle": step(&json!(["load"]), noop),
            "alarm": { "needs": ["load"], "rule": "any_failed", "task": gate },
        },
        "finally": { "clean": step(none, noop) },
    });
    let mut jobs: Map<_, _> =
        (0..sizes.jobs).map(|at| (name(at), json!({ "needs": ["top"], "job": load }))).collect();
    jobs.extend([("top".to_owned(), step(none, noop)), ("gate".to_owned(), step(top, gate))]);
    [
        Shape { name: "diamond", workflow: diamond, end: "succeeded", runs: 4, last: 1 },
        Shape {
            name: "chain",
            workflow: json!({ "steps": chain }),
            end: "succeeded",
            runs: sizes.chain,
            last: 1,
        },
        Shape {
            name: "fan",
            workflow: json!({ "steps": fan }),
            end: "succeeded",
            runs: sizes.fan + 2,
            last: 2,
        },
        Shape { name: "map", workflow: map, end: "succeeded", runs: sizes.map + 3, last: 2 },
        Shape {
            name: "nested",
            workflow: nested["workflow"].clone(),
            end: "succeeded",
            runs: 3 * LEVELS,
            last: 1,
        },
        Shape { name: "failing", workflow: failing, end: "failed", runs: 4, last: 1 },
        Shape {
            name: JOB_STEPS,
            workflow: json!({ "steps": jobs }),
            end: "succeeded",
            runs: sizes.jobs + 2,
            last: 1,
        },
    ]
}

/// The shape whose steps start another job, after which a third one starts.
const JOB_STEPS: &str = "jobs";
/// The same shape, if the node leads the other job or the one after it.
const UPSTREAM: &str = "upstream";

/// The names of the jobs of a round.
struct Names {
    /// The job of each shape. The node that is killed leads it, except that of `JOB_STEPS` where it leads `load`.
    shapes: BTreeMap<&'static str, String>,
    /// The job that the steps of a workflow start.
    load: String,
    /// The job that starts after `load`. Another node leads it.
    settle: String,
}

impl Names {
    /// The jobs whose leaders matter to a shape.
    fn of(&self, shape: &str) -> Vec<&str> {
        match shape {
            JOB_STEPS => vec![&self.shapes[JOB_STEPS], &self.load],
            UPSTREAM => vec![&self.load, &self.settle],
            name => vec![&self.shapes[name]],
        }
    }
}

struct Stage {
    scene: Scene,
    cluster: Cluster,
    kept: Kept,
    store: String,
    sizes: Sizes,
    throws: Throws,
    /// How often the leader of each shape was killed.
    kills: BTreeMap<&'static str, u32>,
    names: Vec<Names>,
}

impl Stage {
    fn new(kept: Kept) -> Stage {
        let (scene, store) = (Scene::new(), kept.address());
        let mut cluster = Cluster::start(&scene, &store, &["--shard-lease", "1s"]);
        cluster.add_worker("a", &["--slots", "64"]);
        let (sizes, throws) = (Sizes::told(), Throws::new(told("SEED").unwrap_or(1)));
        Stage { scene, cluster, kept, store, sizes, throws, kills: BTreeMap::new(), names: Vec::new() }
    }

    /// The node that leads each job.
    fn leaders(&self) -> impl Fn(&str) -> Option<usize> + use<> {
        let rows =
            self.kept.sql(&self.store, "SELECT shard, node FROM {}shards JOIN {}sessions ON owner = id");
        let read = |line: &str| {
            let (shard, node) = line.split_once(['|', '\t']).unwrap_or_else(|| panic!("{line}"));
            Some((shard.parse::<u16>().ok()?, (0..NODES).find(|number| node_name(*number) == node)?))
        };
        let nodes: BTreeMap<u16, usize> = rows.lines().filter_map(read).collect();
        move |job| {
            let name = job.parse().expect("it is a name");
            nodes.get(&shard_of(&Namespace::default(), &name, SHARDS).0).copied()
        }
    }

    /// Names for jobs of which the victim leads each shape. Another node leads one of every two jobs that start each other.
    fn names(&mut self, round: usize, victim: usize) -> Names {
        let leads_load = self.throws.below(2) == 0;
        let kinds: Vec<&str> =
            shapes(&self.sizes, Path::new(""), "load").iter().map(|shape| shape.name).collect();
        wait::until("all nodes lead shards", SOON, || {
            let leader = self.leaders();
            let led = |what: &str, by_victim: bool| {
                let mut names = (0..40).map(|number| format!("{what}-{round}-{number}"));
                names.find(|name| leader(name).is_some_and(|node| (node == victim) == by_victim))
            };
            let shape = |kind: &&'static str| Some((*kind, led(kind, *kind != JOB_STEPS || !leads_load)?));
            let shapes = kinds.iter().map(shape).collect::<Option<_>>()?;
            Some(Names { shapes, load: led("load", leads_load)?, settle: led("settle", !leads_load)? })
        })
    }

    fn put(&self, name: &str, job: &Value) {
        self.cluster.insist(0, |api| api.put(&format!("{JOBS}/{name}"), job));
    }

    fn start(&self, name: &str, round: usize) -> String {
        let body = json!({ "key": format!("{name}-{round}") });
        let run = self.cluster.insist(1, |api| api.post(&format!("{JOBS}/{name}/run"), &body));
        run["id"].as_str().expect("a run has an id").to_owned()
    }

    /// Starts all shapes, kills their leader, and looks at all that came of it.
    fn round(&mut self, round: usize) {
        let (began, gate) = (wait::wall_clock(), self.scene.path(&format!("gate-{round}")));
        let victim = self.throws.below(NODES);
        let names = self.names(round, victim);
        self.put(&names.load, &json!({ "task": { "noop": {} }, "overlap": "allow" }));
        let after = json!({ "after": { "job": names.load } });
        self.put(&names.settle, &json!({ "schedule": after, "task": { "noop": {} }, "overlap": "allow" }));
        let mut shapes = shapes(&self.sizes, &gate, &names.load);
        for shape in &shapes {
            let keep = json!({ "runs": 1_000_000 });
            let job = json!({ "task": { "workflow": shape.workflow }, "keep": keep });
            self.put(&names.shapes[shape.name], &job);
        }
        // The shape with the fewest kills is the last one to start, so that it is busy when its leader is killed.
        shapes.sort_by_key(|shape| Reverse(self.kills.get(shape.name).copied()));
        let runs: Vec<String> = shapes.iter().map(|it| self.start(&names.shapes[it.name], round)).collect();
        self.names.push(names);
        self.kill(victim, &shapes, &runs, &gate);
        wait::pass(self.throws.span_below(AWAY_MAX));
        self.cluster.nodes[victim].start();

        let (api, names) = (self.cluster.api(victim), &self.names[round]);
        for (shape, run) in shapes.iter().zip(&runs) {
            let whole =
                wait::until(&format!("{} ends", shape.name), ENDS_MAX, || look(api, run).filter(has_ended));
            assert_eq!(whole["state"], shape.end, "{}: {whole:#}", shape.name);
        }
        wait::until_so("every upstream run is followed", SOON, || {
            api.runs_of(&names.settle).iter().filter(|run| has_ended(run)).count() >= self.sizes.jobs
        });
        self.check(began, victim, &shapes, names);
    }

    /// Kills a node, some time after the end of the first step of the last shape.
    fn kill(&mut self, victim: usize, shapes: &[Shape], runs: &[String], gate: &Path) {
        let target = shapes.len() - 1;
        wait::until_so("a step has ended", SOON, || {
            look(self.cluster.api(0), &runs[target]).is_some_and(|run| run["progress"].as_u64() > Some(0))
        });
        let open = || fs::write(gate, "").expect("a file of the scene can be written");
        // Seldom, because small shapes may end before the kill then.
        if self.throws.below(4) == 0 {
            open();
        }
        self.wait_for_the_moment(&shapes[target], &runs[target]);
        // Nothing stands between this look and the kill: a hand-over would make another node the leader.
        let leader = self.leaders();
        self.cluster.nodes[victim].kill();
        // What the victim led stands still until another node takes over, so the store tells how far it had come.
        let other = self.cluster.api((victim + 1) % NODES);
        let is_hit =
            |shape: &Shape, run: &str| look(other, run).is_some_and(|run| shape.is_in_the_middle(&run));
        let hit = shapes.iter().zip(runs).filter(|(shape, run)| is_hit(shape, run)).map(|(it, _)| it.name);
        let hit = hit.flat_map(|name| [Some(name), (name == JOB_STEPS).then_some(UPSTREAM)]).flatten();
        let names = self.names.last().expect("a round has names");
        let hit: Vec<&str> =
            hit.filter(|shape| names.of(shape).iter().any(|job| leader(job) == Some(victim))).collect();
        println!("killed {}, which led {} in the middle", node_name(victim), hit.join(", "));
        for name in hit {
            *self.kills.entry(name).or_default() += 1;
        }
        open();
    }

    /// Waits some time, or until some part of the middle of a shape is over: a wide shape may need less than that time.
    fn wait_for_the_moment(&mut self, shape: &Shape, run: &str) {
        let (later, part) =
            (self.throws.span_below(self.sizes.later), self.throws.below(shape.middle_ends()));
        let is_so_far = |run: Value| {
            has_ended(&run) || run["progress"].as_u64().is_some_and(|percent| percent >= part as u64)
        };
        let began = wait::now();
        while began.elapsed() < later && !look(self.cluster.api(0), run).is_some_and(is_so_far) {
            wait::pass(LOOK_EVERY);
        }
    }

    /// Checks the runs of this round.
    fn check(&self, began: punctual_core::Timestamp, by: usize, shapes: &[Shape], names: &Names) {
        let through = wait::wall_clock();
        let node = &self.cluster.nodes[by];
        let export = wait::until("the history is given", SOON, || Export::since(node, began));
        let of_steps = export.runs_of_steps();
        assert!(of_steps.values().all(|count| *count == 1), "a step has two runs: {of_steps:?}");
        for shape in shapes {
            let (runs, job) = (export.runs(), &names.shapes[shape.name]);
            let of_steps = runs.values().filter(|run| run["job"] == *job && run["step"].is_string());
            assert_eq!(of_steps.count(), shape.runs, "{}", shape.name);
        }
        let options = Options {
            from: Some(began),
            ended_through: Some(through),
            may_be_empty: true,
            ..Options::default()
        };
        export.verify(&self.scene, node, &options);
    }

    /// Checks that every step started one run of the other job, and each of them one of the job after it.
    fn check_followers(&self) {
        let api = self.cluster.api(0);
        let ids = |runs: &[Value], field: &str| -> BTreeSet<String> {
            runs.iter().filter_map(|run| Some(run[field].as_str()?.to_owned())).collect()
        };
        for Names { load, settle, .. } in &self.names {
            let (loads, settles) = (api.runs_of(load), api.runs_of(settle));
            assert_eq!((loads.len(), settles.len()), (self.sizes.jobs, self.sizes.jobs), "{load}, {settle}");
            assert_eq!(
                ids(&loads, "id"),
                ids(&settles, "started_by"),
                "one run of {settle} for each of {load}"
            );
            assert_eq!(ids(&loads, "started_by").len(), loads.len(), "one run of {load} for each step");
        }
    }
}

/// A run, if the node answers.
fn look(api: &Api, run: &str) -> Option<Value> {
    api.get(&format!("{RUNS}/{run}")).filter(Answer::is_ok).map(|answer| answer.json())
}

fn kill_leaders(kept: Kept) {
    let mut stage = Stage::new(kept);
    let kills = told("KILLS").unwrap_or(KILLS);
    let names = shapes(&stage.sizes, Path::new(""), "load").len() + 1;
    let mut rounds = 0;
    while stage.kills.len() < names || stage.kills.values().any(|had| *had < kills) {
        stage.round(rounds);
        rounds += 1;
    }
    println!("{rounds} rounds, kills: {:?}", stage.kills);
    stage.check_followers();
}

#[test]
fn workflows_on_postgresql_survive_the_kill_of_their_leader() {
    kill_leaders(Kept::Postgres);
}

#[test]
fn workflows_on_mariadb_survive_the_kill_of_their_leader() {
    kill_leaders(Kept::MariaDb);
}
