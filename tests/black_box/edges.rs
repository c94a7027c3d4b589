//! Edits at the very fire time (T-27): each due time is decided by the old definition or by the new one, never by
//! both and never by neither.
//!
//! A few jobs are created, updated, paused, resumed and deleted over and over, each command sent so that it meets a
//! due time. What the server answers says when each definition began to hold; from that alone the runs that must be
//! exist are computed, and the exported history has to have exactly these.

use std::collections::BTreeSet;
use std::time::Duration;
use std::{env, thread};

use punctual_core::Timestamp;
use punctual_tests::api::JOBS;
use punctual_tests::{Api, Export, Scene, wait};
use punctual_verify::Options;
use reqwest::Method;
use serde_json::{Value, json};

/// Commands sent by all clients together, unless `PUNCTUAL_TESTS_EDITS` says otherwise.
const EDITS: usize = 400;
const CLIENTS: usize = 4;
/// How far from a due time the commands are aimed, in milliseconds: on the way they take one or two.
const AIMS: [i64; 7] = [-4, -3, -2, -1, 0, 1, 2];
const PERIODS: [i64; 3] = [40, 60, 50];

/// A stretch in which one definition held: due times after `from`, up to `to`.
#[derive(Debug)]
struct Reign {
    job_id: String,
    created: Timestamp,
    revision: u64,
    period: i64,
    paused: bool,
    from: Timestamp,
    to: To,
}

#[derive(Debug, Clone, Copy)]
enum To {
    /// The next command took effect at this instant.
    At(Timestamp),
    /// A delete tells no instant: it took effect between these.
    Between(Timestamp, Timestamp),
    /// Until now.
    Open,
}

/// One client and its job.
struct Client {
    api: Api,
    path: String,
    period: usize,
    job: Option<Value>,
    reigns: Vec<Reign>,
    /// Commands that took effect within five milliseconds of a due time.
    close: usize,
}

fn instant(value: &Value) -> Timestamp {
    value.as_str().and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no instant: {value}"))
}

fn moved(at: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_millis(at.as_millis() + millis)
}

impl Client {
    fn new(api: Api, number: usize) -> Client {
        let path = format!("{JOBS}/edge-{number}");
        Client { api, path, period: number, job: None, reigns: Vec::new(), close: 0 }
    }

    /// One command after the other: a job's whole life, again and again. It ends paused, so that the story has an end.
    fn live(mut self, edits: usize) -> Client {
        for number in 0..edits {
            self.aim(AIMS[number % AIMS.len()]);
            match number % 7 {
                0 | 1 | 4 => self.put(),
                2 | 5 => self.post("pause"),
                3 => self.post("resume"),
                _ => self.delete(),
            }
        }
        if self.job.is_none() {
            self.put();
        }
        self.post("pause");
        self
    }

    /// Waits for the moment to send, so that the command arrives about when the job is due.
    fn aim(&self, offset: i64) {
        let now = wait::wall_clock();
        let Some(job) = &self.job else { return };
        let due = match &job["next_due_at"] {
            Value::Null => moved(now, 15),
            due => instant(due),
        };
        // Sometimes one fire later, so that fires happen between the commands too.
        let due = moved(due, if offset % 2 == 0 { PERIODS[self.period % PERIODS.len()] } else { 0 });
        wait::pass(moved(due, offset).since(now).min(Duration::from_millis(200)));
    }

    fn put(&mut self) {
        self.period += 1;
        let period = PERIODS[self.period % PERIODS.len()];
        let job = json!({
            "schedule": { "every": format!("{period}ms") },
            "task": { "noop": {} },
            "overlap": "allow",
            "keep": { "runs": 100_000 },
        });
        let answer = self.api.put(&self.path, &job).expect("the node answers").ok();
        self.took_effect(answer);
    }

    fn post(&mut self, verb: &str) {
        let answer =
            self.api.post(&format!("{}/{verb}", self.path), &json!({})).expect("the node answers").ok();
        self.took_effect(answer);
    }

    fn delete(&mut self) {
        let sent = wait::wall_clock();
        let answer = self.api.send(Method::DELETE, &self.path, None, None).expect("the node answers");
        assert_eq!(answer.status, 204, "{answer:?}");
        self.end_reign(To::Between(sent, wait::wall_clock()));
        self.job = None;
    }

    fn took_effect(&mut self, job: Value) {
        let at = instant(&job["updated_at"]);
        self.end_reign(To::At(at));
        self.reigns.push(Reign {
            job_id: job["id"].as_str().expect("a job has an id").to_owned(),
            created: instant(&job["created_at"]),
            revision: job["revision"].as_u64().expect("a job has a revision"),
            period: PERIODS[self.period % PERIODS.len()],
            paused: job["state"] == "paused",
            from: at,
            to: To::Open,
        });
        self.job = Some(job);
    }

    fn end_reign(&mut self, to: To) {
        let Some(reign) = self.reigns.last_mut() else { return };
        if let (To::Open, To::At(at)) = (reign.to, to) {
            let beyond = (at.as_millis() - reign.created.as_millis()).rem_euclid(reign.period);
            self.close += usize::from(beyond <= 5 || beyond >= reign.period - 5);
        }
        if matches!(reign.to, To::Open) {
            reign.to = to;
        }
    }
}

impl Reign {
    /// The due times of the schedule in this stretch: those that are certain, and those that a delete may have met.
    fn due_times(&self) -> (BTreeSet<Timestamp>, BTreeSet<Timestamp>) {
        let (certain, possible) = match self.to {
            To::At(at) => (at, at),
            To::Between(sent, answered) => (moved(sent, -1), answered),
            To::Open => (self.from, self.from),
        };
        let first = (self.from.as_millis() - self.created.as_millis()).max(0) / self.period + 1;
        let due = |beat: i64| moved(self.created, beat * self.period);
        let all = (first..).map(due).skip_while(|due| *due <= self.from).take_while(|due| *due <= possible);
        let all: BTreeSet<Timestamp> = all.filter(|_| !self.paused).collect();
        (all.iter().copied().filter(|due| *due <= certain).collect(), all)
    }

    /// What the history has of this stretch: runs of its job and revision.
    fn check(&self, made: &BTreeSet<Timestamp>) -> usize {
        let (certain, possible) = self.due_times();
        let lost: Vec<_> = certain.difference(made).collect();
        assert!(lost.is_empty(), "decided by no definition: {lost:?} of {self:?}");
        let within = |due: &&Timestamp| match self.to {
            To::At(at) => **due > self.from && **due <= at,
            To::Between(..) => **due > self.from,
            To::Open => false,
        };
        let strange: Vec<_> = made.iter().filter(within).filter(|due| !possible.contains(due)).collect();
        assert!(strange.is_empty(), "decided by a definition that did not hold: {strange:?} of {self:?}");
        certain.len()
    }
}

fn edits() -> usize {
    env::var("PUNCTUAL_TESTS_EDITS").ok().and_then(|text| text.parse().ok()).unwrap_or(EDITS)
}

#[test]
fn every_fire_is_decided_by_exactly_one_definition() {
    let scene = Scene::new();
    let node = scene.start();
    let edits = edits();
    let clients: Vec<Client> = thread::scope(|scope| {
        let lives = (0..CLIENTS).map(|number| {
            let client = Client::new(node.api().clone(), number);
            scope.spawn(move || client.live(edits / CLIENTS))
        });
        let lives: Vec<_> = lives.collect();
        lives.into_iter().map(|life| life.join().expect("a client does not panic")).collect()
    });
    let close: usize = clients.iter().map(|client| client.close).sum();
    assert!(close >= edits / 20, "{close} of {edits} commands met a due time: the scene proves little");

    let export = Export::of(&node);
    export.verify(&scene, &node, &Options::default());
    let runs = export.runs();
    let (mut expected, mut fires) = (0, 0);
    for client in &clients {
        for reign in &client.reigns {
            let theirs =
                |run: &&&Value| run["job_id"] == reign.job_id.as_str() && run["trigger"] == "schedule";
            let mut made = BTreeSet::new();
            for run in runs.values().filter(theirs).filter(|run| run["revision"] == reign.revision) {
                let due = instant(&run["due_at"]);
                assert!(made.insert(due), "two runs for {due} of {reign:?}");
            }
            expected += reign.check(&made);
        }
        let ids: BTreeSet<&str> = client.reigns.iter().map(|reign| reign.job_id.as_str()).collect();
        fires +=
            runs.values().filter(|run| run["job_id"].as_str().is_some_and(|id| ids.contains(id))).count();
    }
    assert!(expected >= edits / 4, "{expected} fires only: the scene proves little");
    assert!(fires >= expected, "{fires} runs for {expected} due times");
}

/// A stretch of a hundred milliseconds with a period of forty: due at 40 and 80.
fn check_bites(made: &[i64]) {
    let at = |millis| moved(Timestamp::MIN, 1_000_000 + millis);
    let (created, from, to) = (at(0), at(0), To::At(at(100)));
    let reign = Reign { job_id: "1".to_owned(), created, revision: 1, period: 40, paused: false, from, to };
    assert_eq!(reign.check(&made.iter().copied().map(at).collect()), 2);
}

#[test]
fn a_history_as_it_must_be_is_taken() {
    // What an earlier or a later stretch of the same definition made is theirs.
    check_bites(&[-40, 40, 80, 120]);
}

#[test]
#[should_panic(expected = "decided by no definition")]
fn a_fire_that_nobody_decided_is_noticed() {
    check_bites(&[40]);
}

#[test]
#[should_panic(expected = "decided by a definition that did not hold")]
fn a_fire_of_another_definition_is_noticed() {
    check_bites(&[40, 50, 80]);
}
