//! Steps that wait for an approval: each has a row, and a namespace may have only so many of them.

use punctual_core::command::StepsAct;
use punctual_core::limits::APPROVALS_MAX;

use super::by_hand::{act, approval, named};
use super::*;

/// The waiting approvals that the store lists.
fn waiting(rig: &Rig) -> Vec<String> {
    let rows = rig.rows.all().filter_map(|row| match row {
        Row::Approval(approval) => Some(approval.step.to_string()),
        _ => None,
    });
    rows.collect()
}

fn count(rig: &Rig) -> usize {
    rig.pool.approvals(&Namespace::default())
}

#[test]
fn an_approval_has_a_row_while_it_waits() {
    let mut rig = Rig::new(4);
    let forever = Step { work: Work::Approve(None), ..step("sign", &[]) };
    let steps = vec![approval("review", &[]), approval("check", &[]), forever, step("ship", &["review"])];
    let run = rig.start_workflow(job(workflow(steps, vec![])));
    assert_eq!(waiting(&rig), ["review", "check", "sign"]);
    let row = rig.rows.all().find_map(|row| match row {
        Row::Approval(approval) => Some(approval.clone()),
        _ => None,
    });
    let row = row.expect("an approval waits");
    assert_eq!((row.key.run, row.job, row.since), (run, Some(named("flow")), rig.now));
    assert_eq!(row.until, Some(rig.now + Duration::from_secs(60)));
    rig.reload();
    assert_eq!(count(&rig), 3);
    rig.ask(act(run, StepsAct::Approve(named("review")))).unwrap();
    assert_eq!((waiting(&rig), count(&rig)), (vec!["check".to_owned(), "sign".to_owned()], 2));
    rig.advance("2m");
    assert_eq!(waiting(&rig), ["sign"], "nobody approved it in time");
    rig.ask(cancel(run)).unwrap();
    assert_eq!((waiting(&rig).len(), count(&rig)), (0, 0));
}

#[test]
fn an_approval_beyond_the_limit_fails() {
    let mut rig = Rig::new(4);
    let many = |steps: usize| {
        let steps = (0..steps).map(|n| Step { work: Work::Approve(None), ..step(&format!("s{n}"), &[]) });
        job(workflow(steps.collect(), vec![]))
    };
    let mut runs = Vec::new();
    for (name, steps) in [("a", 5000), ("b", APPROVALS_MAX - 5000), ("c", 1)] {
        rig.ask(put(name, many(steps))).unwrap();
        runs.push(rig.start(name));
        rig.advance("1s");
    }
    assert_eq!((waiting(&rig).len(), count(&rig)), (APPROVALS_MAX, APPROVALS_MAX));
    assert_eq!(rig.rows_of(runs[2]), ["0 failed (too_many_approvals)"]);
    let error = rig.run(runs[2]).error.clone();
    assert_eq!(&*error, "step `s0`: too_many_approvals: 10000 approvals wait in `default`");
    rig.ask(act(runs[0], StepsAct::Skip(named("s7")))).unwrap();
    let again = rig.start("c");
    assert_eq!((rig.status(again), count(&rig)), (Status::Running, APPROVALS_MAX));
}
