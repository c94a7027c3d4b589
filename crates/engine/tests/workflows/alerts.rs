//! Alerts of steps: their incidents name the job and the step.

use punctual_core::alert::{Alert, Condition, Incident, REPEAT};

use super::*;
use crate::support::span;

fn alerting(step: Step, on: Condition) -> Step {
    Step { alerts: vec![Alert { on, to: Vec::new(), repeat: REPEAT }], ..step }
}

fn one_step(step: Step) -> Definition {
    job(workflow(vec![step], vec![]))
}

fn incidents(rig: &Rig) -> Vec<Arc<Incident>> {
    let rows = rig.rows.all().filter_map(|row| match row {
        Row::Incident(incident) => Some(Arc::clone(incident)),
        _ => None,
    });
    rows.collect()
}

#[track_caller]
fn only(rig: &Rig) -> Arc<Incident> {
    let all = incidents(rig);
    assert_eq!(all.len(), 1, "{all:?}");
    Arc::clone(&all[0])
}

#[test]
fn a_failed_step_opens_an_incident_until_it_succeeds() {
    let mut rig = Rig::new(4);
    let failed = || Condition::Failed { after: 1 };
    let steps = vec![alerting(step("load", &[]), failed()), alerting(step("settle", &["load"]), failed())];
    let run = rig.start_workflow(job(workflow(steps, vec![])));
    rig.end_step(run, "load", End::Succeeded);
    rig.end_step(run, "settle", End::Failed);
    let incident = only(&rig);
    assert_eq!((incident.job_name().unwrap().as_str(), incident.step()), ("flow", Some("settle")));
    assert_eq!(incident.run, Some(rig.steps(run)["settle"].id));
    rig.reload();
    let again = rig.start("flow");
    rig.end_step(again, "load", End::Succeeded);
    assert!(only(&rig).is_open(), "another step has succeeded");
    rig.end_step(again, "settle", End::Succeeded);
    assert!(!only(&rig).is_open());
}

#[test]
fn a_step_of_a_sub_workflow_is_named_by_its_path() {
    let mut rig = Rig::new(4);
    let book = alerting(step("book", &[]), Condition::Long { by: span("30m") });
    let inner = Work::Workflow(Box::new(workflow(vec![book], vec![])));
    let outer = Step::of("settle".parse().expect("a name"), inner);
    let run = rig.start_workflow(one_step(outer));
    rig.reload();
    rig.advance("30m");
    assert_eq!((only(&rig).step(), only(&rig).is_open()), (Some("settle/book"), true));
    let settle = rig.steps(run)["settle"].id;
    rig.end_step(settle, "settle/book", End::Succeeded);
    assert!(!only(&rig).is_open());
}

#[test]
fn items_that_take_long_are_one_incident() {
    let mut rig = Rig::new(4);
    let items = alerting(mapped("item", &[], "[1, 2]", None), Condition::Long { by: span("1m") });
    let run = rig.start_workflow(one_step(items));
    rig.advance("2m");
    assert_eq!(only(&rig).count, 2);
    rig.end_step(run, "item[0]", End::Succeeded);
    assert!(only(&rig).is_open(), "the other item goes on");
    rig.end_step(run, "item[1]", End::Succeeded);
    assert!(!only(&rig).is_open());
}

#[test]
fn a_step_without_a_worker_is_late() {
    let mut rig = Rig::new(0);
    let run = rig.start_workflow(one_step(alerting(step("a", &[]), Condition::Late { by: span("1m") })));
    rig.advance("1m");
    assert!(only(&rig).is_open());
    rig.ask(cancel(run)).expect("cancelled");
    assert!(!only(&rig).is_open());
}

#[test]
fn an_edit_that_removes_the_alert_ends_its_incident() {
    let mut rig = Rig::new(4);
    let definition = || Definition {
        overlap: Overlap::Allow,
        ..one_step(alerting(step("a", &[]), Condition::Failed { after: 1 }))
    };
    let (first, second) = (rig.start_workflow(definition()), rig.start_workflow(definition()));
    rig.end_step(first, "a", End::Failed);
    assert!(only(&rig).is_open());
    rig.ask(put("flow", Definition { overlap: Overlap::Allow, ..one_step(step("a", &[])) })).expect("put");
    assert!(!only(&rig).is_open());
    rig.end_step(second, "a", End::Failed);
    assert!(!only(&rig).is_open(), "its workflow began before the edit");
}
