//! Backfills: which due times get a run, how many of these are active, and what a person does with the whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::Row;
use punctual_core::command::{ActOnSteps, Answer, BackfillJob, Backfilled, Command, Refusal, StepsAct};
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Limit, Overlap, Route};
use punctual_core::limits::BACKFILL_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Cause, Part, Reason, Run, Status, Trigger};
use punctual_core::schedule::Schedule;
use punctual_core::task::{Params, Task};
use punctual_core::workflow::{Step, Work, Workflow};

use crate::support::{Rig, START, cancel, delete, every, made, manual, name, on, put, retry, seconds, span};

const DAY: i64 = 86_400;

/// So long before the beginning of the test.
fn ago(text: &str) -> Timestamp {
    START.before(span(text))
}

/// A schedule that has been there for 600 days.
fn old(period: &str) -> Schedule {
    Schedule { start: Some(ago("600d")), ..every(period) }
}

fn daily(overlap: Overlap) -> Definition {
    Definition { overlap, ..on([old("1d")]) }
}

fn ask(from: Timestamp, to: Timestamp) -> BackfillJob {
    BackfillJob {
        namespace: Namespace::default(),
        name: name("report"),
        from,
        to,
        params: None,
        running: None,
        newest_first: false,
        dry_run: false,
        by: None,
    }
}

fn act(run: RunId, act: StepsAct) -> Command {
    let (namespace, comment) = (Namespace::default(), Box::default());
    Command::ActOnSteps(ActOnSteps { namespace, run, act, by: None, comment })
}

/// A rig with the job, which is due for the first time a period after the beginning.
fn rig_with(slots: usize, definition: Definition) -> Rig {
    let mut rig = Rig::new(slots);
    rig.put("report", definition);
    rig
}

trait Backfills {
    fn backfill(&mut self, ask: BackfillJob) -> Backfilled;
    fn children(&self, parent: RunId) -> Vec<Arc<Run>>;
    fn begin_backfill(&mut self, from: &str) -> RunId;
}

impl Backfills for Rig {
    fn backfill(&mut self, ask: BackfillJob) -> Backfilled {
        match self.ask(Command::Backfill(ask)) {
            Ok(Answer::Backfill(told)) => *told,
            other => panic!("{other:?}"),
        }
    }

    fn children(&self, parent: RunId) -> Vec<Arc<Run>> {
        self.all_runs().into_iter().filter(|run| run.parent() == Some(parent)).collect()
    }

    /// A backfill up to the beginning of the test.
    fn begin_backfill(&mut self, from: &str) -> RunId {
        self.backfill(ask(ago(from), START)).run.expect("some due times have no run").id
    }
}

fn days(runs: &[Arc<Run>]) -> Vec<i64> {
    runs.iter().map(|run| seconds(run.due) / DAY).collect()
}

fn active(runs: &[Arc<Run>]) -> usize {
    runs.iter().filter(|run| !run.status().is_terminal()).count()
}

#[test]
fn each_due_time_gets_a_child_run() {
    let mut rig = rig_with(16, daily(Overlap::Allow));
    let before = rig.batches.len();
    let params = Some(Params(r#"{"region":"east"}"#.into()));
    let told = rig.backfill(BackfillJob { params: params.clone(), ..ask(ago("5d"), START) });
    assert_eq!(rig.batches.len(), before + 1, "one batch");
    assert_eq!((told.total, told.first, told.last), (5, Some(ago("5d")), Some(ago("1d"))));
    assert_eq!(told.left_out, []);
    let parent = told.run.expect("it was made").id;
    let children = rig.children(parent);
    assert_eq!(days(&children), [-5, -4, -3, -2, -1]);
    for child in &children {
        assert_eq!(
            (child.trigger, child.part(), &child.params),
            (Trigger::Backfill, Part::default(), &params)
        );
        assert_eq!(child.status(), Status::Running);
    }
    for (child, done) in children.iter().zip(1..) {
        assert_eq!(rig.status(parent), Status::Running);
        rig.succeed(child.id);
        assert_eq!(rig.run(parent).percent(), Some(done * 20));
    }
    let ended = rig.run(parent);
    assert_eq!((ended.status(), ended.trigger, ended.attempt), (Status::Succeeded, Trigger::Backfill, 0));
    assert_eq!((rig.pool.live_runs(), rig.pool.roster().attempts_held()), (0, 0));
}

#[test]
fn due_times_with_a_run_are_left_out() {
    let mut rig = rig_with(16, daily(Overlap::Allow));
    rig.advance("1d");
    rig.succeed_attempts();
    rig.advance("2d");
    let to = rig.now;
    let told = rig.backfill(BackfillJob { dry_run: true, ..ask(ago("3d"), to) });
    let fired: Vec<RunId> = rig.runs("report").iter().map(|run| run.id).collect();
    let left_out = |told: &Backfilled| told.left_out.iter().filter_map(|left| left.run).collect::<Vec<_>>();
    assert_eq!((told.total, left_out(&told)), (4, fired[..2].to_vec()), "one ended and one running");
    assert_eq!(told.run, None);

    // Not committed yet, and it has started one of its four due times.
    rig.hold_commits();
    rig.begin(Command::Backfill(BackfillJob { running: Some(1), ..ask(ago("3d"), to) }));
    rig.commit();
    let second = rig.begin(Command::Backfill(ask(ago("3d"), to)));
    rig.let_commits_through();
    rig.settle();
    let Some(Ok(Answer::Backfill(again))) = rig.answer(second) else { panic!("no answer") };
    assert_eq!((again.total, again.left_out.len(), again.run), (0, 6, None));
    while active(&rig.runs("report")) > 0 {
        rig.succeed_attempts();
    }
    let again = rig.backfill(ask(ago("4d"), to));
    assert_eq!((again.total, again.first, again.left_out.len()), (1, Some(ago("4d")), 6));
}

#[test]
fn child_runs_of_a_job_without_overlap_start_one_by_one() {
    let mut rig = rig_with(16, daily(Overlap::Skip));
    let parent = rig.begin_backfill("4d");
    assert_eq!((days(&rig.children(parent)), active(&rig.children(parent))), (vec![-4], 1));
    rig.advance("1d");
    let fired = rig.runs("report").pop().expect("the schedule goes on");
    assert_eq!((fired.trigger, fired.status()), (Trigger::Schedule, Status::Running), "beside the backfill");
    rig.succeed(rig.children(parent)[0].id);
    assert_eq!((days(&rig.children(parent)), active(&rig.children(parent))), (vec![-4, -3], 1));
    rig.advance("1d");
    let skipped = rig.runs("report").into_iter().filter(|run| run.status() == Status::Skipped).count();
    assert_eq!(skipped, 1, "the first fire is still running");
}

#[test]
fn the_limit_of_the_job_counts_fires_and_child_runs() {
    let definition = Definition { limits: vec![Limit::of_running(2)], ..daily(Overlap::Allow) };
    let mut rig = rig_with(16, definition);
    let parent = rig.backfill(BackfillJob { running: Some(9), ..ask(ago("6d"), START) }).run.unwrap().id;
    assert_eq!(active(&rig.children(parent)), 2);
    rig.advance("1d");
    let fire = |rig: &Rig| {
        rig.runs("report").into_iter().rfind(|run| run.trigger == Trigger::Schedule).expect("it is due").id
    };
    let fired = fire(&rig);
    assert_eq!(rig.status(fired), Status::Waiting);
    rig.succeed(rig.children(parent)[0].id);
    assert_eq!(rig.status(fired), Status::Running, "it does not wait for the whole backfill");
    while active(&rig.children(parent)) > 0 {
        assert!(rig.running().len() <= 3, "two and the backfill itself");
        rig.succeed_attempts();
    }
    assert_eq!(rig.status(parent), Status::Succeeded);
}

#[test]
fn the_newest_due_time_may_come_first() {
    let mut rig = rig_with(16, daily(Overlap::Skip));
    let told = rig.backfill(BackfillJob { newest_first: true, ..ask(ago("3d"), START) });
    assert_eq!((told.first, told.last), (Some(ago("3d")), Some(ago("1d"))));
    let parent = told.run.unwrap().id;
    while active(&rig.children(parent)) > 0 {
        rig.succeed_attempts();
    }
    assert_eq!(days(&rig.children(parent)), [-1, -2, -3]);
}

#[test]
fn a_paused_backfill_starts_no_further_run() {
    let mut rig = rig_with(16, daily(Overlap::Skip));
    let parent = rig.begin_backfill("3d");
    made(rig.ask(act(parent, StepsAct::Pause)));
    rig.succeed(rig.children(parent)[0].id);
    rig.reload();
    assert_eq!((rig.children(parent).len(), rig.status(parent)), (1, Status::Running));
    assert!(rig.run(parent).is_paused());
    let again = rig.ask(act(parent, StepsAct::Pause));
    assert!(matches!(again, Err(Refusal::WrongState { .. })), "{again:?}");
    made(rig.ask(act(parent, StepsAct::Resume)));
    assert_eq!(rig.children(parent).len(), 2);
    let skip = rig.ask(act(parent, StepsAct::Skip(name("parts"))));
    assert_eq!(skip, Err(Refusal::NotAWorkflow(parent)));
}

#[test]
fn a_cancelled_backfill_stops_its_runs_and_starts_no_other() {
    let mut rig = rig_with(16, daily(Overlap::Skip));
    let parent = rig.begin_backfill("3d");
    made(rig.ask(cancel(parent)));
    let child = rig.children(parent)[0].id;
    assert_eq!((rig.cancelled_orders(), rig.status(parent)), (vec![child], Status::Running));
    rig.fail(child);
    let ended = rig.run(parent);
    assert_eq!((ended.status(), &ended.reason), (Status::Cancelled, &Some(Reason::Cancelled(Cause::User))));
    assert_eq!(rig.children(parent).len(), 1);
    let again = rig.backfill(ask(ago("3d"), START));
    assert_eq!((again.total, again.left_out.len()), (2, 1), "only the cancelled run was there");
    rig.ask(delete("report")).unwrap();
    let second = again.run.unwrap().id;
    rig.fail(rig.children(second)[0].id);
    assert_eq!(rig.run(second).reason, Some(Reason::Cancelled(Cause::JobDeleted)));
    assert_eq!(rig.pool.live_runs(), 0);
}

#[test]
fn a_failed_child_run_is_tried_again_by_itself() {
    let definition = Definition { dead_letter: true, pause_after: Some(1), ..daily(Overlap::Allow) };
    let mut rig = rig_with(16, definition);
    let params = Some(Params(r#"{"day":7}"#.into()));
    let told = rig.backfill(BackfillJob { params: params.clone(), ..ask(ago("2d"), START) });
    let parent = told.run.unwrap().id;
    let [first, second] = [0, 1].map(|index| rig.children(parent)[index].id);
    rig.fail(first);
    rig.succeed(second);
    let failed = rig.run(parent);
    assert_eq!(failed.reason, Some(Reason::Children { failed: 1, total: 2, first: 0 }));
    assert!(!rig.is_dead_letter(parent) && !rig.is_dead_letter(first));
    assert!(!rig.job("report").unwrap().is_paused(), "a backfill is no failed run of the job");
    let refused = rig.ask(Command::RetryRun(retry(parent)));
    assert!(matches!(refused, Err(Refusal::WrongState { .. })), "{refused:?}");
    let again = made(rig.ask(Command::RetryRun(retry(first))));
    let again = rig.run(again);
    assert_eq!((again.due, again.parent(), &again.params), (ago("2d"), None, &params));
}

/// Ends all attempts under way, and throws the memory away after every third time.
fn finish_with_reloads(rig: &mut Rig, parent: RunId) {
    for round in 1.. {
        if rig.status(parent).is_terminal() {
            return;
        }
        rig.succeed_attempts();
        if round % 3 == 0 {
            rig.reload();
        } else {
            rig.advance("10ms");
        }
    }
}

#[test]
fn every_due_time_has_one_run_whatever_is_loaded_again() {
    let definition = Definition { overlap: Overlap::Allow, ..on([old("1h")]) };
    let mut rig = rig_with(400, definition);
    let told = rig.backfill(ask(ago("60d"), START));
    let parent = told.run.unwrap().id;
    let page = rig.children(parent).len();
    assert!(told.total == 1440 && (900..=1000).contains(&page), "{page}: the rest starts page by page");
    rig.reload();
    finish_with_reloads(&mut rig, parent);
    let dues: BTreeSet<i64> = rig.children(parent).iter().map(|run| seconds(run.due)).collect();
    assert_eq!((rig.children(parent).len(), dues.len()), (1440, 1440));
    assert_eq!(rig.status(parent), Status::Succeeded);
    assert_eq!((rig.pool.live_runs(), rig.pool.ready_runs()), (0, 0));
}

#[test]
fn runs_of_a_workflow_that_begins_with_an_approval_end_by_themselves() {
    let approval = Step::of(name("sign"), Work::Approve(Some(span("1h"))));
    let task =
        Task::Workflow(Box::new(Workflow { steps: vec![approval], finally: Vec::new(), output: None }));
    let mut rig = rig_with(4, Definition { task, ..daily(Overlap::Allow) });
    let parent = rig.backfill(ask(ago("3d"), START)).run.unwrap().id;
    let is_approval = |row: &&Row| matches!(row, Row::Approval(_));
    assert_eq!(rig.rows.all().filter(is_approval).count(), 3);
    rig.advance("2h");
    assert_eq!((rig.status(parent), rig.rows.all().filter(is_approval).count()), (Status::Failed, 0));
}

#[test]
fn a_split_run_and_a_workflow_are_child_runs_too() {
    let route = Route { shards: Some(2), ..Route::default() };
    let step = |name: &str| Step::of(name.parse::<Name>().unwrap(), Work::Task(Task::Noop));
    let steps = vec![step("a"), Step { needs: vec![name("a")], ..step("b") }];
    let task = Task::Workflow(Box::new(Workflow { steps, finally: Vec::new(), output: None }));
    let timeout = Some(span("1h"));
    for definition in
        [Definition { route, ..daily(Overlap::Allow) }, Definition { task, timeout, ..daily(Overlap::Allow) }]
    {
        let mut rig = Rig::new(16);
        rig.put("report", definition);
        let parent = rig.backfill(BackfillJob { running: Some(1), ..ask(ago("2d"), START) }).run.unwrap().id;
        let first = rig.children(parent)[0].id;
        assert!(!rig.children(first).is_empty(), "it is split, or has steps");
        made(rig.ask(act(parent, StepsAct::Pause)));
        while !rig.status(first).is_terminal() {
            rig.succeed_attempts();
            rig.reload();
        }
        assert_eq!((rig.status(first), rig.children(first).len()), (Status::Succeeded, 2));
        assert_eq!(rig.children(parent).len(), 1, "the backfill is paused");
        rig.advance("2h");
        made(rig.ask(act(parent, StepsAct::Resume)));
        while !rig.status(parent).is_terminal() {
            rig.succeed_attempts();
        }
        assert_eq!((rig.status(parent), days(&rig.children(parent))), (Status::Succeeded, vec![-2, -1]));
    }
}

#[test]
fn a_backfill_without_a_span_of_due_times_is_refused() {
    let mut rig = rig_with(1, daily(Overlap::Allow));
    rig.ask(put("by-hand", manual())).unwrap();
    rig.ask(put("often", on([old("1m")]))).unwrap();
    let rows = rig.rows.all().count();
    let mut check = |job: &str, from: Timestamp, to: Timestamp, field: &str| {
        let (running, name) = (if field == "limits.running" { Some(0) } else { None }, name(job));
        match rig.ask(Command::Backfill(BackfillJob { name, running, ..ask(from, to) })) {
            Err(Refusal::Invalid(invalid)) => assert_eq!(invalid.field, field, "{invalid}"),
            other => panic!("{field}: {other:?}"),
        }
    };
    check("report", START, START, "from");
    check("report", START, ago("1d"), "from");
    check("report", ago("1d"), START + span("1s"), "to");
    check("report", ago("1h"), ago("1m"), "from");
    check("report", ago("2d"), ago("1d"), "limits.running");
    check("by-hand", ago("1d"), START, "from");
    let minutes = u64::try_from(BACKFILL_MAX).unwrap() + 1;
    check("often", START.before(span("1m") * u32::try_from(minutes).unwrap()), START, "to");
    let unknown = rig.ask(Command::Backfill(BackfillJob { name: name("none"), ..ask(ago("1d"), START) }));
    assert!(matches!(unknown, Err(Refusal::NoSuchJob { .. })), "{unknown:?}");
    let told = rig.backfill(BackfillJob { dry_run: true, ..ask(ago("1d"), START) });
    assert_eq!((told.total, rig.rows.all().count()), (1, rows), "nothing was changed");
}

impl Rig {
    /// Every attempt under way ends well. A run with child runs has none.
    fn succeed_attempts(&mut self) {
        for run in self.running() {
            if self.run(run).assignee.is_some() {
                self.succeed(run);
            }
        }
    }
}
