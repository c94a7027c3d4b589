//! Workflows that cannot be taken, each with the field that is to blame.

use std::time::Duration;

use super::*;
use crate::limits::{
    MAP_ITEMS_MAX, WORKFLOW_DEPTH_MAX, WORKFLOW_EDGES_MAX, WORKFLOW_NESTING_MAX, WORKFLOW_STEPS_MAX,
};

#[track_caller]
fn check_refused(workflow: &Workflow, field: &str, message: &str) {
    let error = workflow.check().expect_err("it was taken");
    assert_eq!((error.field.as_ref(), error.message.as_str()), (field, message));
}

fn one(step: Step) -> Workflow {
    workflow(vec![step], vec![])
}

#[test]
fn a_cycle_is_printed_as_a_path() {
    let steps = vec![step("z", &["a"]), step("a", &["c"]), step("b", &["a"]), step("c", &["b"])];
    let message = "these steps need each other in a cycle: a → c → b → a";
    check_refused(&workflow(steps, vec![]), "steps.a.needs", message);
    check_refused(&one(step("a", &["a"])), "steps.a.needs", "a step cannot need itself");
    let names: Vec<String> = (0..1000).map(|at| format!("s{at}")).collect();
    let ring = (0..1000).map(|at| step(&names[at], &[&names[(at + 1) % 1000]])).collect();
    let message = "these steps need each other in a cycle: s0 → s1 → s2 → s3 → (992 more) → s996 → s997 → s998 → s999 → s0";
    check_refused(&workflow(ring, vec![]), "steps.s0.needs", message);
    let of_finally = workflow(vec![step("a", &[])], vec![step("x", &["y"]), step("y", &["x"])]);
    check_refused(&of_finally, "finally.x.needs", "these steps need each other in a cycle: x → y → x");
}

#[test]
fn every_limit_has_its_refusal() {
    let many = |count: usize| (0..count).map(|at| step(&format!("s{at}"), &[])).collect::<Vec<Step>>();
    assert_eq!(workflow(many(WORKFLOW_STEPS_MAX), vec![]).check(), Ok(()));
    let message = "at most 5000 steps, those of `finally` and of sub-workflows included";
    check_refused(&workflow(many(WORKFLOW_STEPS_MAX), vec![step("more", &[])]), "steps", message);

    let names: Vec<String> = (0..=WORKFLOW_DEPTH_MAX).map(|at| format!("s{at}")).collect();
    let mut chain = vec![step(&names[0], &[])];
    chain.extend(names.windows(2).map(|pair| step(&pair[1], &[&pair[0]])));
    let message = "a chain of more than 1000 steps ends here";
    check_refused(&workflow(chain, vec![]), "steps.s1000.needs", message);

    let (mut wide, width) = (many(200), 200);
    let names: Vec<String> = (0..width).map(|at| format!("s{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    wide.extend((0..WORKFLOW_EDGES_MAX / width).map(|at| step(&format!("t{at}"), &names)));
    assert_eq!(workflow(wide.clone(), vec![]).check(), Ok(()));
    wide.push(step("more", &["s0"]));
    let message = "at most 20000 entries in all `needs` and `switch`, those of sub-workflows included";
    check_refused(&workflow(wide, vec![]), "steps", message);

    let nested = |levels: usize| {
        (1..levels).fold(one(step("a", &[])), |inner, _| {
            one(Step::of("a".parse().unwrap(), Work::Workflow(Box::new(inner))))
        })
    };
    assert_eq!(nested(WORKFLOW_NESTING_MAX).check(), Ok(()));
    let field = format!("{}steps", "steps.a.task.workflow.".repeat(WORKFLOW_NESTING_MAX));
    check_refused(&nested(WORKFLOW_NESTING_MAX + 1), &field, "at most 16 levels of workflows");

    let side_by_side = |items: u32| {
        let map = Some(Box::new(Map { over: "params.x".to_owned(), parallel: Some(items) }));
        one(Step { map, ..step("a", &[]) })
    };
    assert_eq!(side_by_side(MAP_ITEMS_MAX).check(), Ok(()));
    check_refused(&side_by_side(MAP_ITEMS_MAX + 1), "steps.a.parallel", "1 to 10000");
}

#[test]
fn only_steps_that_have_ended_can_be_named() {
    let message = |text: &str| {
        let when = Step { when: Some(text.to_owned()), ..step("c", &["b"]) };
        let steps = vec![step("a", &[]), step("b", &["a"]), when, step("aside", &[]), step("load-all", &[])];
        workflow(steps, vec![]).check().map_err(|error| error.message)
    };
    assert_eq!(message("steps.a.succeeded > 0 and steps['b'].state == 'succeeded'"), Ok(()));
    for (text, expected) in [
        (
            "steps.aside.failed == 0",
            "`aside` may end later than this step starts; add it to `needs`, or to those of a step that this one needs (column 1 of the text)",
        ),
        ("steps.c.failed == 0", "a step cannot name itself: it has not run yet (column 1 of the text)"),
        ("steps.d.failed == 0", "no step is named `d` (column 1 of the text)"),
        (
            "steps.load-all.failed == 0",
            "no step is named `load`; a name with a dash is written `steps[\"load-all\"]` (column 1 of the text)",
        ),
        (
            "steps.a.result == 0",
            "a step has no `result`; it has state, output, error, run, succeeded, failed (column 1 of the text)",
        ),
        (
            "steps[params.x].failed == 0",
            "name the step in quotes, such as `steps[\"load-all\"]` (column 1 of the text)",
        ),
        (
            "steps == 0",
            "`steps` has no value by itself; name a step, such as `steps.load.output` (column 1 of the text)",
        ),
        ("item == 0", "unknown variable `item`; known are params, due, job, steps (column 1 of the text)"),
    ] {
        assert_eq!(message(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn finally_and_the_output_can_name_every_step() {
    let clean = Step { when: Some("steps.a.failed > 0".to_owned()), ..step("clean", &[]) };
    let output = Some("[steps.a.output, steps.clean.output]".to_owned());
    let whole = Workflow { output, ..workflow(vec![step("a", &[]), step("b", &[])], vec![clean]) };
    assert_eq!(whole.check(), Ok(()));
    let unknown = Workflow { output: Some("steps.x.output".to_owned()), ..whole };
    check_refused(&unknown, "output", "no step is named `x` (column 1 of the text)");
}

#[test]
fn the_task_of_a_step_knows_the_steps_and_the_item() {
    let process = |word: &str| {
        let command = vec!["./load".to_owned(), word.to_owned()];
        Work::Task(Task::Process(crate::task::Process { command, env: Default::default(), dir: None }))
    };
    let checked = |word: &str, map: bool| {
        let load =
            Step { needs: vec!["a".parse().unwrap()], ..Step::of("load".parse().unwrap(), process(word)) };
        let map = map.then(|| Box::new(Map { over: "steps.a.output".to_owned(), parallel: Some(2) }));
        workflow(vec![step("a", &[]), Step { map, ..load }], vec![]).check().map_err(|error| error.field)
    };
    assert_eq!(checked("{{ item.name }}-{{ index }}-{{ steps.a.output.day }}-{{ run.id }}", true), Ok(()));
    let field = || Err("steps.load.task.process.command[1]".into());
    assert_eq!(checked("{{ item }}", false), field());
    assert_eq!(checked("{{ steps.load.output }}", true), field());
    let shell = Step::of("a".parse().unwrap(), Work::Task(Task::Shell("echo {{ item }}".to_owned())));
    let map = Some(Box::new(Map { over: "[1]".to_owned(), parallel: None }));
    assert_eq!(one(Step { map, ..shell }).check().unwrap_err().field, "steps.a.task.shell");
}

#[test]
fn each_kind_of_step_refuses_what_it_does_not_use() {
    let retry = Policies { retry: Some(Box::default()), ..Policies::default() };
    let wait = Step::of("a".parse().unwrap(), Work::Wait(Wait::For(Duration::from_secs(1))));
    let refused = |step: Step| one(step).check().unwrap_err().field.into_owned();
    assert_eq!(one(wait.clone()).check(), Ok(()));
    let map = Some(Box::new(Map { over: "[1]".to_owned(), parallel: None }));
    assert_eq!(refused(Step { map: map.clone(), ..wait.clone() }), "steps.a.map");
    assert_eq!(refused(Step { policies: retry.clone(), ..wait.clone() }), "steps.a.retry");
    let job = Step { work: Work::Job("other".parse().unwrap()), ..wait.clone() };
    assert_eq!(one(Step { map, ..job.clone() }).check(), Ok(()));
    assert_eq!(refused(Step { policies: retry.clone(), ..job }), "steps.a.retry");
    let inner = Work::Workflow(Box::new(one(step("b", &[]))));
    assert_eq!(refused(Step { work: inner, policies: retry, ..wait.clone() }), "steps.a.retry");
    let until = |text: &str| Step { work: Work::Wait(Wait::Until(text.to_owned())), ..wait.clone() };
    assert_eq!(one(until("2030-01-01T08:00:00Z")).check(), Ok(()));
    assert_eq!(one(until("{{ due | plus(\"2h\") }}")).check(), Ok(()));
    assert_eq!(refused(until("tomorrow")), "steps.a.wait.until");
    let never = Step { work: Work::Approve(Some(Duration::ZERO)), ..wait };
    assert_eq!(refused(never), "steps.a.approve.within");
}
