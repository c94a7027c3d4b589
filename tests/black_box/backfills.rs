//! Backfills: every due time has one run through kills of the node, and the guide is followed exactly.

use std::collections::BTreeSet;

use punctual_tests::api::RUNS;
use punctual_tests::guide;
use punctual_tests::history::has_ended;
use punctual_tests::wait::{self, SOON};
use punctual_tests::{Cli, Export, Node, Scene};
use punctual_verify::Options;
use serde_json::{Value, json};

const GUIDE: &str = include_str!("../../docs/guides/backfill.md");
const DAYS: usize = 1000;

fn children(node: &Node, parent: &str, query: &str) -> Vec<Value> {
    let path = format!("{RUNS}?parent={parent}&limit=1000{query}");
    let page = node.api().get(&path).expect("the node answers").ok();
    page["items"].as_array().expect("a page has items").clone()
}

/// The id of the backfill that a command line has started.
fn parent_of(said: &Cli) -> String {
    let told: Value = serde_json::from_str(&said.out).expect("it prints JSON");
    told["run"]["id"].as_str().expect("it was made").to_owned()
}

#[test]
fn every_day_has_one_run_though_the_node_is_killed() {
    let scene = Scene::new();
    let mut node = scene.start();
    let job = json!({
        "schedule": { "cron": "0 1 * * *" }, "overlap": "allow", "limits": { "running": 8 },
        "task": { "process": { "command": ["echo", "{{ due | date }}"] } }, "keep": { "days": 3650 },
    });
    node.api().put_job("report", &job);
    let span = ["--from", "2020-01-01T00:00:00Z", "--to", "2022-09-27T00:00:00Z", "-o", "json"];
    let said = node.cli(["job", "backfill", "report"].into_iter().chain(span));
    let parent = parent_of(&said);
    for round in 1..=4 {
        wait::until_so("more days have ended", SOON, || {
            children(&node, &parent, "&state=COMPLETED").len() >= round * DAYS / 6
        });
        node.kill();
        node.start();
    }
    let ended =
        wait::until("the backfill ends", 4 * SOON, || Some(node.api().run(&parent)).filter(has_ended));
    assert_eq!(ended["state"], "succeeded", "{ended:#}");
    let runs = children(&node, &parent, "");
    let days: BTreeSet<&str> = runs.iter().filter_map(|run| run["due_at"].as_str()?.get(..10)).collect();
    assert_eq!((runs.len(), days.len()), (DAYS, DAYS), "each day once");
    let tells_its_day = |run: &&Value| {
        run["output"].as_str().map(str::trim) == run["due_at"].as_str().and_then(|due| due.get(..10))
    };
    assert_eq!(runs.iter().filter(|run| tells_its_day(run)).count(), DAYS);
    let again = node.cli(["job", "backfill", "report"].into_iter().chain(span)).json();
    assert_eq!((&again["total"], &again["run"]), (&json!(0), &Value::Null));
    assert_eq!(again["left_out"].as_array().map(Vec::len), Some(DAYS));
    let options = Options { may_be_empty: true, still: true, ..Options::default() };
    Export::of(&node).verify(&scene, &node, &options);
}

#[test]
fn the_commands_of_the_guide_do_what_it_says() {
    let scene = Scene::new();
    let node = scene.start();
    for block in guide::blocks(GUIDE).iter().filter(|block| block.language == "yaml") {
        let file = scene.write(&format!("line-{}.yaml", block.line), &block.text);
        node.cli(["job", "apply", file.to_str().expect("a path is text")]).ok();
    }
    let slow = json!({ "schedule": { "cron": "0 1 * * *" }, "task": { "shell": "sleep 600" } });
    node.api().put_job("slow", &slow);
    let span = ["--from", "2026-01-01T00:00:00Z", "--to", "2026-01-04T00:00:00Z", "-o", "json"];
    let parent = parent_of(&node.cli(["job", "backfill", "slow"].into_iter().chain(span)));
    let mut typed = 0;
    for block in guide::blocks(GUIDE).iter().filter(|block| block.language == "console") {
        let mut shown = String::new();
        for line in block.text.lines() {
            let Some(command) = line.strip_prefix("$ ") else {
                // The relative time is another one each day.
                let expected = line.split('…').next().unwrap_or_default();
                assert!(
                    shown.contains(expected.trim_end()),
                    "backfill.md, line {}: `{line}`: {shown}",
                    block.line
                );
                continue;
            };
            let command = command.replace("PARENT", &parent);
            let said = Cli::run(&mut guide::shell(&command, &scene.path(""), &node));
            assert!(said.status.success(), "backfill.md, line {}: `{command}`: {said:?}", block.line);
            shown = said.out;
            typed += 1;
        }
    }
    assert_eq!(typed, 7);
    let runs: Vec<Value> = node.api().runs_of("report");
    let is_backfill = |run: &&Value| run["trigger"] == "backfill" && run["state"] == "succeeded";
    assert_eq!(runs.iter().filter(is_backfill).count(), 1, "{runs:#?}");
    let backfill = runs.iter().find(is_backfill).and_then(|run| run["id"].as_str()).expect("it has an id");
    let outputs: Vec<Value> = children(&node, backfill, "").iter().map(|run| run["output"].clone()).collect();
    assert_eq!(outputs.len(), 31);
    let output = outputs[0].as_str().unwrap_or_default();
    assert!(output.contains("for east"), "its own parameters: {output}");
    wait::until_so("the slow backfill is cancelled", SOON, || {
        node.api().run(&parent)["state"] == "cancelled"
    });
}
