//! Workflows that end before all their steps have run: cancelled, too late, or without their job.

use super::*;

#[test]
fn a_cancel_stops_the_steps_and_finally_still_runs() {
    let mut rig = Rig::new(4);
    let rest = Step { work: Work::Wait(Wait::For(Duration::from_secs(60))), ..step("rest", &[]) };
    let steps = vec![step("a", &[]), rest, step("b", &["a", "rest"])];
    let run = rig.start_workflow(job(workflow(steps, vec![step("clean", &[])])));
    let a = rig.steps(run)["a"].id;
    rig.ask(cancel(run)).unwrap();
    assert_eq!(rig.cancelled_orders(), [a]);
    assert_eq!((rig.status(run), rig.at_work(run)), (Status::Running, "a".to_owned()));
    rig.reload();
    rig.report(a, End::Failed);
    assert_eq!(rig.at_work(run), "clean");
    rig.reload();
    rig.end_step(run, "clean", End::Succeeded);
    assert_eq!((rig.status(run), rig.status(a)), (Status::Cancelled, Status::Cancelled));
    let rows = ["0 failed (cancelled)", "1 failed (stopped)", "2 skipped (skipped: stopped)", "3 succeeded"];
    assert_eq!(rig.rows_of(run), rows);
    rig.advance("2m");
    assert_eq!(rig.pool.live_runs(), 0);
}

#[test]
fn a_cancel_cuts_a_fan_out() {
    let mut rig = Rig::new(4);
    let steps = vec![mapped("load", &[], "[1, 2, 3, 4]", Some(1))];
    let run = rig.start_workflow(job(workflow(steps, vec![mapped("clean", &[], "[1, 2]", Some(1))])));
    rig.end_step(run, "load[0]", End::Succeeded);
    rig.ask(cancel(run)).unwrap();
    rig.reload();
    rig.end_step(run, "load[1]", End::Failed);
    assert_eq!(rig.at_work(run), "clean[0]");
    rig.reload();
    rig.finish(run);
    assert_eq!((rig.status(run), rig.steps(run).len()), (Status::Cancelled, 4));
    rig.ask(put("again", job(workflow(vec![mapped("load", &[], "[1, 2]", Some(1))], vec![])))).unwrap();
    let run = rig.start("again");
    rig.ask(Command::CancelRun {
        namespace: Namespace::default(),
        run,
        now: true,
        by: None,
        comment: Box::default(),
    })
    .unwrap();
    rig.end_step(run, "load[0]", End::Failed);
    assert_eq!((rig.status(run), rig.steps(run).len()), (Status::Cancelled, 1));
}

#[test]
fn the_timeout_covers_the_whole_workflow() {
    let mut rig = Rig::new(4);
    let steps = vec![step("a", &[]), step("b", &["a"])];
    let timeout = Some(Duration::from_secs(60));
    let run = rig.start_workflow(Definition { timeout, ..job(workflow(steps, vec![])) });
    rig.advance("30s");
    rig.end_step(run, "a", End::Succeeded);
    rig.reload();
    rig.advance("29s");
    assert_eq!(rig.cancelled_orders(), []);
    rig.advance("1s");
    let b = rig.steps(run)["b"].id;
    assert_eq!(rig.cancelled_orders(), [b]);
    rig.report(b, End::Failed);
    assert_eq!((rig.status(run), rig.status(b)), (Status::TimedOut, Status::TimedOut));
}

#[test]
fn a_deleted_job_stops_its_workflow() {
    let mut rig = Rig::new(4);
    let run =
        rig.start_workflow(job(workflow(vec![step("a", &[]), step("b", &["a"])], vec![step("clean", &[])])));
    let a = rig.steps(run)["a"].id;
    rig.ask(delete("flow")).unwrap();
    rig.report(a, End::Failed);
    rig.reload();
    assert_eq!(rig.at_work(run), "clean");
    rig.finish(run);
    assert_eq!(rig.status(run), Status::Cancelled);
}

#[test]
fn an_approval_that_nobody_gives_fails_in_time() {
    let mut rig = Rig::new(1);
    let review = Step { work: Work::Approve(Some(Duration::from_secs(3600))), ..step("review", &[]) };
    let run = rig.start_workflow(job(workflow(vec![review, step("go", &["review"])], vec![])));
    rig.advance("59m");
    rig.reload();
    assert_eq!(rig.status(run), Status::Running);
    rig.advance("1m");
    assert_eq!(rig.status(run), Status::Failed);
    assert_eq!(rig.rows_of(run), ["0 failed (not approved in time)", "1 skipped (skipped: rule)"]);
}
