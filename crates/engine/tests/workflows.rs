//! Workflows: which steps start, what becomes of the whole, and what a crash leaves.

mod alerts;
mod any_history;
mod approvals;
mod by_hand;
mod calls;
mod events;
mod retry;
mod rig;
mod stops;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::{Assignment, End, Order, Outcome};
use punctual_core::change::{Change, Row};
use punctual_core::command::{Command, Refusal};
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Limit, Overlap, Route};
use punctual_core::limits::{STEP_OUTPUT_BYTES_MAX, STEP_VALUES_BYTES_MAX, WORKFLOW_OUTPUT_BYTES_MAX};
use punctual_core::name::Namespace;
use punctual_core::retry::Retry;
use punctual_core::run::{Reason, Run, Status};
use punctual_core::task::{Params, Process, Task};
use punctual_core::workflow::{Map, Rule, State, Step, StepRecord, Wait, Work, Workflow};

use crate::support::{Rig, cancel, delete, put, start};

fn step(name: &str, needs: &[&str]) -> Step {
    let named = |name: &str| name.parse().expect("a valid name");
    Step {
        needs: needs.iter().map(|name| named(name)).collect(),
        ..Step::of(named(name), Work::Task(Task::Noop))
    }
}

fn mapped(name: &str, needs: &[&str], over: &str, parallel: Option<u32>) -> Step {
    Step { map: Some(Box::new(Map { over: over.to_owned(), parallel })), ..step(name, needs) }
}

fn workflow(steps: Vec<Step>, finally: Vec<Step>) -> Workflow {
    Workflow { steps, finally, output: None }
}

fn job(workflow: Workflow) -> Definition {
    Definition::of(Task::Workflow(Box::new(workflow)))
}

fn diamond() -> Workflow {
    let steps = vec![
        step("top", &[]),
        step("left", &["top"]),
        step("right", &["top"]),
        step("join", &["left", "right"]),
    ];
    workflow(steps, vec![])
}

#[test]
fn a_diamond_runs_in_order() {
    let mut rig = Rig::new(4);
    let run = rig.start_workflow(job(diamond()));
    assert_eq!((rig.status(run), rig.at_work(run)), (Status::Running, "top".to_owned()));
    rig.end_step(run, "top", End::Succeeded);
    assert_eq!(rig.at_work(run), "left right");
    rig.end_step(run, "right", End::Succeeded);
    assert_eq!((rig.at_work(run), rig.run(run).percent()), ("left".to_owned(), Some(50)));
    rig.end_step(run, "left", End::Succeeded);
    assert_eq!(rig.at_work(run), "join");
    rig.end_step(run, "join", End::Succeeded);
    assert_eq!(rig.status(run), Status::Succeeded);
    assert_eq!(rig.rows_of(run), ["0 succeeded", "1 succeeded", "2 succeeded", "3 succeeded"]);
    assert_eq!((rig.pool.live_runs(), rig.pool.ready_runs()), (0, 0));
}

#[test]
fn an_end_and_what_it_starts_are_one_batch() {
    let mut rig = Rig::new(4);
    let run = rig.start_workflow(job(diamond()));
    let before = rig.batches.len();
    rig.end_step(run, "top", End::Succeeded);
    let batch = &rig.batches[before];
    let inserted = |wanted: fn(&Row) -> bool| {
        batch
            .changes
            .iter()
            .filter(|(_, change)| matches!(change, Change::Insert(row) if wanted(row)))
            .count()
    };
    assert_eq!(inserted(|row| matches!(row, Row::History(_))), 1);
    assert_eq!(inserted(|row| matches!(row, Row::Run(run) if run.step.is_some())), 2);
    assert_eq!(inserted(|row| matches!(row, Row::Step(_))), 2);
}

#[test]
fn a_workflow_takes_no_slot() {
    let mut rig = Rig::new(1);
    let run = rig.start_workflow(job(workflow(vec![step("a", &[]), step("b", &["a"])], vec![])));
    rig.finish(run);
    assert_eq!(rig.status(run), Status::Succeeded);
}

#[test]
fn a_failed_step_runs_the_failure_branch_and_finally() {
    let mut rig = Rig::new(4);
    let alarm = Step { rule: Rule::AnyFailed, ..step("alarm", &["load"]) };
    let steps = vec![step("load", &[]), step("settle", &["load"]), alarm];
    let run = rig.start_workflow(job(workflow(steps, vec![step("clean", &[])])));
    rig.end_step(run, "load", End::Failed);
    assert_eq!(rig.at_work(run), "alarm");
    rig.end_step(run, "alarm", End::Succeeded);
    assert_eq!(rig.at_work(run), "clean");
    rig.end_step(run, "clean", End::Succeeded);
    assert_eq!(
        rig.rows_of(run),
        ["0 failed (failed)", "1 skipped (skipped: rule)", "2 succeeded", "3 succeeded"]
    );
    let ended = rig.run(run);
    assert_eq!((ended.status(), ended.error.as_ref()), (Status::Failed, "step `load`: it broke"));
    assert_eq!(ended.reason, Some(Reason::Steps { failed: 1, total: 4, first: "load".parse().unwrap() }));
    assert!(rig.is_dead_letter(run));
}

#[test]
fn a_condition_goes_by_the_output_of_a_step() {
    let when = |name: &str, text: &str| Step { when: Some(text.to_owned()), ..step(name, &["load"]) };
    let steps = vec![
        step("load", &[]),
        when("many", "steps.load.output.rows > 5"),
        when("few", "steps.load.output.rows <= 5"),
        when("broken", "steps.load.output.cols > 5"),
        Step {
            rule: Rule::AllDone,
            when: Some("steps.broken.error != none".to_owned()),
            ..step("last", &["many", "few", "broken"])
        },
    ];
    let mut rig = Rig::new(4);
    let run = rig.start_workflow(job(workflow(steps, vec![])));
    rig.say(run, "load", r#"{"rows": 7}"#);
    assert_eq!(rig.at_work(run), "many");
    rig.end_step(run, "many", End::Succeeded);
    assert_eq!(rig.at_work(run), "last");
    let rows = rig.step_rows(run);
    assert_eq!(rows[2].state, State::Skipped);
    assert_eq!(rows[3].state, State::Failed);
    assert!(rows[3].error.contains("steps.broken.when"), "{}", rows[3].error);
    rig.finish(run);
    assert_eq!(rig.status(run), Status::Failed);
}

#[test]
fn a_task_gets_the_steps_that_it_names() {
    let process = |word: &str| {
        let command = vec!["./it".to_owned(), word.to_owned()];
        Work::Task(Task::Process(Process { command, env: BTreeMap::new(), dir: None }))
    };
    let steps = vec![
        step("load", &[]),
        step("other", &[]),
        Step { work: process("{{ steps.load.output.day }}"), ..step("settle", &["load", "other"]) },
    ];
    let mut rig = Rig::new(4);
    let output = Some("{'day': steps.load.output.day, 'run': steps.settle.run}".to_owned());
    let whole = Workflow { output, ..workflow(steps, vec![]) };
    let run = rig.start_workflow(Definition { params: Params(r#"{"a":1}"#.into()), ..job(whole) });
    rig.say(run, "load", r#"{"day": "monday"}"#);
    rig.end_step(run, "other", End::Succeeded);
    let settle = rig.steps(run)["settle"].id;
    let check = |rig: &Rig| {
        let given = rig.orders().into_iter().rev().find_map(|order| match order {
            Order::Assign(assignment) if assignment.run == settle => Some(assignment),
            _ => None,
        });
        let Assignment { step, params, definition, .. } = given.unwrap();
        let step = step.unwrap();
        let steps = step.steps.as_deref().unwrap();
        assert!(steps.contains("monday") && !steps.contains("other"), "{steps}");
        assert_eq!((step.item, params.0.as_ref()), (None, r#"{"a":1}"#));
        let Task::Process(process) = &definition.task else { panic!("{definition:?}") };
        process.clone()
    };
    check(&rig);
    rig.reload();
    let process = check(&rig);
    assert_eq!(process.command.len(), 2);
    rig.end_step(run, "settle", End::Succeeded);
    assert_eq!(rig.run(run).output.as_ref(), format!(r#"{{"day":"monday","run":"{settle}"}}"#));
}

#[test]
fn a_map_executes_each_item_and_lists_their_outputs() {
    let params = Params(r#"{"table": "{{ item }}", "n": "{{ index }}"}"#.into());
    let load = Step { params, ..mapped("load", &[], "params.tables", Some(2)) };
    let whole = workflow(vec![load, step("join", &["load"])], vec![]);
    let whole = Workflow { output: Some("[steps.load.output, steps.load.succeeded]".to_owned()), ..whole };
    let mut rig = Rig::new(8);
    let run =
        rig.start_workflow(Definition { params: Params(r#"{"tables":["a","b","c"]}"#.into()), ..job(whole) });
    assert_eq!(rig.at_work(run), "load[0] load[1]");
    rig.say(run, "load[1]", "one");
    assert_eq!(rig.at_work(run), "load[0] load[2]");
    rig.reload();
    let params = rig.steps(run)["load[2]"].params.clone().unwrap();
    assert_eq!(params.0.as_ref(), r#"{"n":2,"table":"c","tables":["a","b","c"]}"#);
    rig.say(run, "load[2]", "2");
    rig.say(run, "load[0]", r#"{"x":0}"#);
    assert_eq!(rig.at_work(run), "join");
    rig.finish(run);
    assert_eq!(rig.run(run).output.as_ref(), r#"[[{"x":0},"one",2],3]"#);
}

#[test]
fn a_failed_item_fails_its_step_after_the_others() {
    let mut rig = Rig::new(8);
    let steps = vec![mapped("load", &[], "[1, 2, 3]", None), step("after", &["load"])];
    let run = rig.start_workflow(job(workflow(steps, vec![])));
    rig.end_step(run, "load[1]", End::Failed);
    assert_eq!(rig.at_work(run), "load[0] load[2]");
    rig.finish(run);
    let ended = rig.run(run);
    assert_eq!(ended.error.as_ref(), "step `load`: item 1: it broke");
    let whole = &rig.step_rows(run)[0];
    let items = whole.items.unwrap();
    assert_eq!((items.total, items.succeeded, items.failed), (3, 2, 1));
}

#[test]
fn an_empty_map_succeeds_and_a_wrong_or_long_one_fails() {
    let mut rig = Rig::new(1);
    let run = rig.start_workflow(job(workflow(vec![mapped("load", &[], "[]", None)], vec![])));
    assert_eq!((rig.status(run), rig.rows_of(run)), (Status::Succeeded, vec!["0 succeeded".to_owned()]));
    let wrong = workflow(vec![mapped("load", &[], "due", None)], vec![]);
    rig.ask(put("wrong", job(wrong))).unwrap();
    let run = rig.start("wrong");
    let error = "step `load`: steps.load.map: gives an instant, not a list";
    assert_eq!((rig.status(run), rig.run(run).error.as_ref()), (Status::Failed, error));
    let long = workflow(vec![mapped("load", &[], "params.items", None)], vec![]);
    let params = Params(format!(r#"{{"items": [{}]}}"#, vec!["0"; 10_001].join(",")).into());
    rig.ask(put("long", Definition { params, ..job(long) })).unwrap();
    let run = rig.start("long");
    let error = "step `load`: steps.load.map: map_too_long: gives 10001 items, at most 10000";
    assert_eq!((rig.status(run), rig.run(run).error.as_ref()), (Status::Failed, error));
}

#[test]
fn a_large_fan_out_is_made_in_pages_and_survives_crashes() {
    let mut rig = Rig::new(4);
    let params = Params(format!(r#"{{"items": [{}]}}"#, vec!["0"; 2_500].join(",")).into());
    let steps = vec![mapped("load", &[], "params.items", None), step("join", &["load"])];
    rig.ask(put("flow", Definition { params, ..job(workflow(steps, vec![])) })).unwrap();
    let ticket = rig.begin(Command::RunJob(start("flow")));
    rig.commit();
    let made = |rig: &Rig| rig.all_runs().iter().filter(|run| run.step.is_some()).count();
    assert_eq!(made(&rig), 999, "with the workflow itself, the first batch has a thousand runs");
    rig.reload();
    rig.advance("10ms");
    assert!(rig.answer(ticket).is_some());
    assert_eq!(made(&rig), 2_500);
    let run = rig.all_runs().iter().find(|run| run.step.is_none()).unwrap().id;
    assert_eq!(rig.steps(run).len(), 2_500, "each item was made once");
    assert!(rig.batches.iter().all(|batch| batch.changes.len() < 4_096));
    rig.finish(run);
    assert_eq!(rig.status(run), Status::Succeeded);
    assert_eq!(rig.steps(run).len(), 2_501);
}

#[test]
fn many_steps_start_in_pages() {
    let mut rig = Rig::new(4);
    let mut steps: Vec<Step> = (0..2_200).map(|at| step(&format!("s{at}"), &[])).collect();
    let names: Vec<String> = (0..2_200).map(|at| format!("s{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    steps.push(step("join", &names));
    rig.ask(put("flow", job(workflow(steps, vec![])))).unwrap();
    rig.begin(Command::RunJob(start("flow")));
    rig.commit();
    let made = |rig: &Rig| rig.all_runs().iter().filter(|run| run.step.is_some()).count();
    assert_eq!(made(&rig), 999);
    rig.reload();
    rig.advance("10ms");
    assert_eq!(made(&rig), 2_200);
    let run = rig.all_runs()[0].id;
    rig.finish(run);
    assert_eq!((rig.status(run), rig.steps(run).len()), (Status::Succeeded, 2_201));
}

#[test]
fn a_wait_takes_no_slot_and_ends_by_itself() {
    let mut rig = Rig::new(1);
    let rest = Step { work: Work::Wait(Wait::For(Duration::from_secs(1800))), ..step("rest", &["a"]) };
    let until = Work::Wait(Wait::Until("{{ due | plus('2h') }}".to_owned()));
    let until = Step { work: until, ..step("until", &["a"]) };
    let steps = vec![step("a", &[]), rest, until, step("b", &["rest"]), step("c", &["until"])];
    let run = rig.start_workflow(job(workflow(steps, vec![])));
    rig.end_step(run, "a", End::Succeeded);
    rig.advance("29m");
    rig.reload();
    assert_eq!((rig.at_work(run), rig.pool.live_runs()), (String::new(), 1));
    rig.advance("1m");
    assert_eq!(rig.at_work(run), "b");
    rig.finish(run);
    rig.advance("89m");
    assert_eq!(rig.at_work(run), "");
    rig.advance("1m");
    assert_eq!(rig.at_work(run), "c");
    rig.finish(run);
    assert_eq!(rig.status(run), Status::Succeeded);
}

#[test]
fn a_step_has_its_own_retries_and_priority() {
    let mut rig = Rig::new(1);
    let mut first = step("a", &[]);
    let retry = Retry { attempts: 2, delay: Duration::from_secs(10), ..Retry::default() };
    (first.policies.retry, first.policies.priority) = (Some(Box::new(retry)), Some(9));
    let run = rig
        .start_workflow(Definition { priority: 3, ..job(workflow(vec![first, step("b", &["a"])], vec![])) });
    assert_eq!(rig.steps(run)["a"].priority, 9);
    rig.end_step(run, "a", End::Failed);
    assert_eq!(rig.steps(run)["a"].status(), Status::Waiting);
    rig.reload();
    rig.advance("1m");
    rig.end_step(run, "a", End::Succeeded);
    assert_eq!((rig.steps(run)["a"].attempt, rig.steps(run)["b"].priority), (2, 3));
    rig.finish(run);
    assert_eq!(rig.status(run), Status::Succeeded);
    assert!(!rig.is_dead_letter(run));
}

#[test]
fn a_workflow_in_a_workflow_is_a_step() {
    let inner = Workflow {
        output: Some("params.region".to_owned()),
        ..workflow(vec![step("x", &[]), step("y", &["x"])], vec![])
    };
    let work = Work::Workflow(Box::new(inner));
    let params = Params(r#"{"region": "{{ item }}"}"#.into());
    let each = Step { work, params, ..mapped("each", &[], "params.regions", None) };
    let whole = Workflow { output: Some("steps.each.output".to_owned()), ..workflow(vec![each], vec![]) };
    let definition = Definition {
        params: Params(r#"{"regions":["eu","us"]}"#.into()),
        limits: vec![Limit::of_running(1)],
        ..job(whole)
    };
    for is_ad_hoc in [false, true] {
        let mut rig = Rig::new(4);
        let run =
            if is_ad_hoc { rig.submit(definition.clone()) } else { rig.start_workflow(definition.clone()) };
        let inner: Vec<RunId> = rig.steps(run).values().map(|run| run.id).collect();
        for _ in 0..10 {
            rig.reload();
            inner.iter().for_each(|run| {
                let running = rig.steps(*run).into_values().find(|run| run.status() == Status::Running);
                if let Some(running) = running {
                    rig.report(running.id, End::Succeeded);
                }
            });
        }
        assert_eq!((rig.status(run), rig.run(run).output.as_ref()), (Status::Succeeded, r#"["eu","us"]"#));
        assert!(rig.steps(inner[0]).contains_key("each/y"));
        assert_eq!(rig.steps(inner[1]).len(), 2);
    }
}

#[test]
fn a_step_may_be_split() {
    let mut rig = Rig::new(4);
    let mut load = step("load", &[]);
    load.policies.route = Some(Box::new(Route { shards: Some(3), ..Route::default() }));
    let run = rig.start_workflow(Definition {
        limits: vec![Limit::of_running(2)],
        ..job(workflow(vec![load, step("b", &["load"])], vec![]))
    });
    let load = rig.steps(run)["load"].id;
    for _ in 0..3 {
        let part = rig
            .all_runs()
            .into_iter()
            .find(|run| run.split_parent() == Some(load) && run.status() == Status::Running);
        rig.reload();
        rig.report(part.unwrap().id, End::Succeeded);
    }
    assert_eq!((rig.status(load), rig.at_work(run)), (Status::Succeeded, "b".to_owned()));
    rig.finish(run);
    assert_eq!(rig.status(run), Status::Succeeded);
}

#[test]
fn the_overlap_policy_is_about_the_whole_workflow() {
    let mut rig = Rig::new(4);
    let run = rig.start_workflow(Definition { overlap: Overlap::Queue, ..job(diamond()) });
    let second = rig.start("flow");
    rig.end_step(run, "top", End::Succeeded);
    assert_eq!(rig.status(second), Status::Waiting);
    rig.finish(run);
    assert_eq!((rig.status(run), rig.at_work(second)), (Status::Succeeded, "top".to_owned()));
}

#[test]
fn an_output_that_is_too_long_cannot_be_used() {
    let mut rig = Rig::new(4);
    let when = |name: &str, text: &str| Step { when: Some(text.to_owned()), ..step(name, &["load"]) };
    let steps = vec![
        step("load", &[]),
        when("state", "steps.load.succeeded == 1"),
        when("use", "steps.load.output != ''"),
    ];
    let run = rig.start_workflow(job(workflow(steps, vec![])));
    rig.say(run, "load", &"x".repeat(64 * 1024 + 1));
    assert_eq!(rig.at_work(run), "state");
    let rows = rig.step_rows(run);
    assert_eq!((rows[0].state, &rows[0].output), (State::Succeeded, &None));
    assert!(rows[2].error.contains("output_too_long: the output of `load`"), "{}", rows[2].error);
}

#[test]
fn the_outputs_of_a_workflow_have_a_limit_together() {
    let full = WORKFLOW_OUTPUT_BYTES_MAX / STEP_OUTPUT_BYTES_MAX;
    let names: Vec<String> = (0..=full).map(|at| format!("s{at:03}")).collect();
    let mut steps: Vec<Step> = names.iter().map(|name| step(name, &[])).collect();
    let last = &names[full];
    let uses = |name: &str, of: &[String]| {
        let named: Vec<String> = of.iter().map(|of| format!("steps.{of}.output")).collect();
        let needs: Vec<&str> = of.iter().map(String::as_str).collect();
        Step { when: Some(format!("[{}] != []", named.join(", "))), ..step(name, &needs) }
    };
    let most = STEP_VALUES_BYTES_MAX / STEP_OUTPUT_BYTES_MAX;
    steps.extend([
        uses("few", &names[..most - 1]),
        uses("many", &names[..=most]),
        uses("past", &names[full..]),
    ]);
    let mut rig = Rig::new(steps.len());
    let run = rig.start_workflow(job(workflow(steps, vec![])));
    for name in &names {
        rig.say(run, name, &"x".repeat(STEP_OUTPUT_BYTES_MAX));
    }
    let rows = rig.step_rows(run);
    assert_eq!(rows.iter().filter(|row| row.output.is_some()).count(), full);
    let error_of = |of: usize| &*rows[full + of].error;
    assert_eq!((rig.at_work(run), error_of(1)), ("few".to_owned(), ""));
    assert!(error_of(2).contains("output_too_long: the steps that it names have"), "{}", error_of(2));
    assert!(error_of(3).contains(&format!("output_too_long: the output of `{last}`")), "{}", error_of(3));
}

#[test]
fn a_chain_of_a_thousand_steps_needs_no_stack() {
    let names: Vec<String> = (0..1000).map(|at| format!("s{at}")).collect();
    let wait = |name: &str, needs: &[&str]| {
        // It is over when it begins.
        let until = Work::Wait(Wait::Until("2000-01-01T00:00:00Z".to_owned()));
        Step { work: until, ..step(name, needs) }
    };
    let mut steps = vec![wait(&names[0], &[])];
    steps.extend(names.windows(2).map(|pair| wait(&pair[1], &[&pair[0]])));
    let mut rig = Rig::new(1);
    let run = rig.start_workflow(job(workflow(steps, vec![])));
    assert_eq!((rig.status(run), rig.step_rows(run).len()), (Status::Succeeded, 1000));
}

#[test]
fn a_workflow_has_no_retry_of_its_own() {
    let mut rig = Rig::new(1);
    let with_retry = Definition { retry: Retry { attempts: 2, ..Retry::default() }, ..job(diamond()) };
    let refused = rig.ask(put("flow", with_retry));
    let Err(Refusal::Invalid(error)) = refused else { panic!("{refused:?}") };
    assert_eq!(error.field, "retry");
}
