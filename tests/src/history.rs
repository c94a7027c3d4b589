//! The exported history of a node: asked for, checked, and looked into.

use std::collections::BTreeMap;

use punctual_core::Timestamp;
use punctual_verify::{History, Options};
use serde_json::Value;

use crate::api::Answer;
use crate::node::Node;
use crate::scene::Scene;

#[derive(Debug)]
pub struct Export {
    text: String,
    lines: Vec<Value>,
}

impl Export {
    #[track_caller]
    pub fn of(node: &Node) -> Export {
        let answer = node.api().get("/api/v1/export/history").expect("the node answers");
        Export::read(answer)
    }

    /// None: the node cannot be asked now and says so.
    #[track_caller]
    pub fn if_given(node: &Node) -> Option<Export> {
        let answer = node.api().get("/api/v1/export/history").expect("the node answers");
        (answer.status != 503).then(|| Export::read(answer))
    }

    /// The same from a moment on.
    #[track_caller]
    pub fn since(node: &Node, from: Timestamp) -> Option<Export> {
        let answer =
            node.api().get(&format!("/api/v1/export/history?from={from}")).expect("the node answers");
        (answer.status != 503).then(|| Export::read(answer))
    }

    #[track_caller]
    fn read(answer: Answer) -> Export {
        assert_eq!(answer.status, 200, "{answer:?}");
        let read =
            |line: &str| serde_json::from_str(line).unwrap_or_else(|e| panic!("not JSON ({e}): {line}"));
        let lines = answer.text.lines().filter(|line| !line.is_empty()).map(read).collect();
        Export { text: answer.text, lines }
    }

    fn of_type(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.lines.iter().filter(move |line| line["type"] == kind)
    }

    /// Every run by its id.
    pub fn runs(&self) -> BTreeMap<&str, &Value> {
        self.of_type("run").map(|run| (run["id"].as_str().expect("a run has an id"), run)).collect()
    }

    /// The runs of a job that its schedule made, in order of their due times.
    pub fn fires(&self, job: &str) -> Vec<&Value> {
        let of_schedule = |run: &&Value| run["job"] == job && is_fire(run);
        let mut fires: Vec<&Value> = self.of_type("run").filter(of_schedule).collect();
        fires.sort_by_key(|run| run["due_at"].as_str());
        fires
    }

    /// Every run that a schedule made.
    pub fn all_fires(&self) -> impl Iterator<Item = &Value> {
        self.of_type("run").filter(|run| is_fire(run))
    }

    /// How many runs each step has, by the run of its workflow and by its name.
    pub fn runs_of_steps(&self) -> BTreeMap<(&str, &str), usize> {
        let mut counts = BTreeMap::new();
        for run in self.of_type("run") {
            if let (Some(parent), Some(step)) = (run["parent"].as_str(), run["step"].as_str()) {
                *counts.entry((parent, step)).or_default() += 1;
            }
        }
        counts
    }

    pub fn all_events(&self) -> impl Iterator<Item = &Value> {
        self.of_type("event")
    }

    pub fn events(&self, run: &str) -> Vec<&Value> {
        self.of_type("event").filter(|event| event["run"] == run).collect()
    }

    /// The recorded skips of a job.
    pub fn skips(&self, job: &str) -> Vec<&Value> {
        self.of_type("skip").filter(|skip| skip["job"] == job).collect()
    }

    /// The recorded skips of every job that has some.
    pub fn skips_by_job(&self) -> BTreeMap<&str, Vec<&Value>> {
        let mut skips: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for skip in self.of_type("skip") {
            skips.entry(skip["job"].as_str().expect("a skip is of a job")).or_default().push(skip);
        }
        skips
    }

    /// How many attempts followed a checkpoint.
    pub fn resumes(&self) -> usize {
        self.of_type("resume").count()
    }

    /// Runs `punctual verify` on it, as a user does, and then asks the checks for more than a user can.
    #[track_caller]
    pub fn verify(&self, scene: &Scene, node: &Node, options: &Options) {
        let file = scene.write("history.ndjson", &self.text);
        // A user is told when there was nothing to prove; a scene without schedules knows that itself.
        if !options.may_be_empty {
            let cli = node.cli(["verify".as_ref(), file.as_os_str()]);
            assert!(cli.status.success(), "{}{}", cli.out, cli.err);
        }
        let history = History::read(self.text.lines()).unwrap_or_else(|error| panic!("{error}"));
        let report = history.check(options);
        assert!(report.is_ok(), "{report}");
    }
}

fn is_fire(run: &Value) -> bool {
    run["trigger"] == "schedule" || run["trigger"] == "misfire"
}

/// Whether a run has ended.
pub fn has_ended(run: &Value) -> bool {
    !matches!(run["state"].as_str(), Some("waiting" | "ready" | "running") | None)
}
