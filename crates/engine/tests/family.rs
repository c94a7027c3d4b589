//! Runs that are split: shards and broadcasts, what becomes of one child, and what becomes of all.

mod any_history;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::{Assignment, End, Order, Outcome, Report};
use punctual_core::change::{Row, RowKey};
use punctual_core::command::{Command, Refusal, RunJob};
use punctual_core::ids::{RunId, WorkerId};
use punctual_core::job::{Definition, Limit, Overlap, Route, Strategy as Way};
use punctual_core::limits::{BROADCAST_MAX, CHILDREN_MAX, COMMIT_BATCH_MAX, OUTPUT_BYTES_MAX};
use punctual_core::retry::Retry;
use punctual_core::run::{Assignee, Cause, Lack, Part, Reason, Run, Status, Trigger, What};
use punctual_core::task::{Params, Task};
use punctual_core::worker::Announcement;
use punctual_core::workflow::{Step, StepRecord, Work, Workflow};
use punctual_engine::{Event, Settings};

use crate::support::{Rig, cancel, delete, every, made, manual, on, put, retry, start, submit};

/// A rig with workers that lend their slots again when they have done something.
struct Cast {
    rig: Rig,
    lent: BTreeMap<WorkerId, u64>,
}

fn id(name: &str) -> WorkerId {
    WorkerId::new(name, 1)
}

fn with_workers(workers: &[(&str, u32)]) -> Cast {
    let mut cast = Cast { rig: Rig::with(1, 0, Settings::default()), lent: BTreeMap::new() };
    for (name, slots) in workers {
        cast.join(&id(name), *slots);
    }
    cast
}

fn shards(count: u32) -> Route {
    Route { shards: Some(count), ..Route::default() }
}

fn broadcast() -> Route {
    Route { strategy: Way::Broadcast, ..Route::default() }
}

fn split(route: Route) -> Definition {
    Definition { route, ..manual() }
}

impl Cast {
    fn join(&mut self, worker: &WorkerId, slots: u32) {
        let announced = Announcement { slots, ..Announcement::of(1) };
        for (run, token) in self.rig.pool.join(worker, announced, &[], self.rig.elapsed()) {
            self.rig.apply(run.shard(), Event::Lost { run, token });
        }
        self.lent.insert(worker.clone(), slots.into());
        self.rig.lend(worker, slots.into());
        self.rig.settle();
    }

    /// It is killed, and its connection breaks: what it has in hand is lost at the end of its lease.
    fn kill(&mut self, name: &str) {
        self.rig.pool.leave(&id(name));
        self.rig.settle();
        self.lent.remove(&id(name));
        self.rig.advance("15s");
        self.hear();
    }

    /// Every joined worker sends a heartbeat; attempts of other workers are given up.
    fn hear(&mut self) {
        let lease = Settings::default().attempt_lease;
        let runs = self.rig.all_runs();
        for worker in self.lent.keys() {
            let theirs =
                runs.iter().filter(|run| run.assignee.as_ref().and_then(Assignee::worker) == Some(worker));
            let named: Vec<_> = theirs.map(|run| (run.id, run.token)).collect();
            self.rig.pool.hear(worker, &Report::Alive { attempts: named }, lease, self.rig.elapsed());
        }
        for (run, token) in self.rig.pool.silence(lease, self.rig.elapsed()).lost {
            self.rig.apply(run.shard(), Event::Lost { run, token });
        }
        self.rig.settle();
    }

    fn lend_again(&mut self, worker: &WorkerId) {
        if let Some(lent) = self.lent.get_mut(worker) {
            *lent += 1;
            self.rig.lend(worker, *lent);
        }
    }

    /// The worker that has the run reports its end.
    fn end(&mut self, run: RunId, end: End) {
        let Some(Assignee::Worker(worker)) = self.rig.run(run).assignee.clone() else { return };
        self.lend_again(&worker);
        let token = self.rig.run(run).token;
        let outcome = match end {
            End::Succeeded => Outcome::succeeded(self.rig.now),
            _ => Outcome::failed(self.rig.now, "it broke"),
        };
        self.rig
            .apply(run.shard(), Event::Report { worker, report: Report::Finished { run, token, outcome } });
        self.rig.settle();
    }

    fn children(&self, parent: RunId) -> Vec<Arc<Run>> {
        self.rig.all_runs().into_iter().filter(|run| run.parent() == Some(parent)).collect()
    }

    /// The rows of the parts, in order.
    fn parts(&self, parent: RunId) -> Vec<Arc<StepRecord>> {
        let rows = self.rig.rows.all().filter_map(|row| match row {
            Row::Step(row) if row.key.run == parent && row.key.item.is_some() => Some(Arc::clone(row)),
            _ => None,
        });
        rows.collect()
    }

    fn statuses(&self, parent: RunId) -> Vec<Status> {
        self.children(parent).iter().map(|child| child.status()).collect()
    }

    fn workers(&self, parent: RunId) -> Vec<String> {
        let name = |run: &Arc<Run>| {
            run.assignee.as_ref().map_or("-".to_owned(), |assignee| assignee.name().to_string())
        };
        self.children(parent).iter().map(name).collect()
    }

    fn whats(&self, run: RunId) -> Vec<What> {
        self.rig.run(run).entries.iter().map(|entry| entry.what).collect()
    }

    fn end_all(&mut self, parent: RunId) {
        for child in self.children(parent) {
            if child.status() == Status::Running {
                self.end(child.id, End::Succeeded);
            }
        }
    }
}

#[test]
fn a_split_run_ends_with_its_last_child() {
    let mut cast = with_workers(&[("a", 4), ("b", 4)]);
    let before = cast.rig.batches.len();
    let parent = cast.rig.submit(split(shards(4)));
    assert_eq!(cast.rig.batches.len(), before + 1, "one batch");
    let children = cast.children(parent);
    let parts: Vec<Part> = children.iter().map(|child| child.part()).collect();
    assert_eq!(parts, [0, 1, 2, 3].map(|index| Part { index, total: 4 }));
    assert!(children.iter().all(|child| child.trigger == Trigger::Parent && child.attempt == 1));
    assert_eq!(cast.whats(parent), [What::Created, What::Due, What::Split]);
    let told: Vec<Part> = cast
        .rig
        .orders()
        .into_iter()
        .filter_map(|order| match order {
            Order::Assign(Assignment { part, .. }) => Some(part),
            _ => None,
        })
        .collect();
    assert_eq!(told, parts, "the workers are told which part is theirs");
    for (child, done) in children.iter().zip(1..) {
        assert_eq!(cast.rig.status(parent), Status::Running);
        cast.end(child.id, End::Succeeded);
        assert_eq!(cast.rig.run(parent).percent(), Some(done * 25));
    }
    let ended = cast.rig.run(parent);
    assert_eq!((ended.status(), ended.attempt, ended.assignee.clone()), (Status::Succeeded, 0, None));
    assert_eq!(cast.whats(parent), [What::Created, What::Due, What::Split, What::Ended]);
    assert_eq!((cast.rig.pool.live_runs(), cast.rig.pool.roster().attempts_held()), (0, 0));
}

#[test]
fn shards_go_to_different_workers_as_long_as_there_are_some() {
    let mut cast = with_workers(&[("a", 8), ("b", 2), ("c", 2)]);
    let parent = cast.rig.submit(split(shards(3)));
    assert_eq!(cast.workers(parent), ["a", "b", "c"], "though `a` would be the least loaded");
    let six = cast.rig.submit(split(Route { strategy: Way::RoundRobin, ..shards(6) }));
    let workers = cast.workers(six);
    let count = |name: &str| workers.iter().filter(|worker| *worker == name).count();
    // `b` and `c` have one slot left each.
    assert_eq!((count("a"), count("b"), count("c")), (4, 1, 1), "{workers:?}");
}

#[test]
fn the_shard_of_a_lost_worker_is_run_again_elsewhere_and_alone() {
    let mut cast = with_workers(&[("a", 1), ("b", 1), ("c", 1)]);
    let parent = cast.rig.submit(split(shards(3)));
    let children = cast.children(parent);
    assert_eq!(cast.workers(parent), ["a", "b", "c"]);
    cast.end(children[0].id, End::Succeeded);
    cast.kill("b");
    let again = cast.rig.run(children[1].id);
    assert_eq!((again.attempt, again.losses, again.status()), (2, 1, Status::Running));
    assert_eq!(again.assignee.as_ref().map(Assignee::name).as_deref(), Some("a"));
    assert_eq!(cast.rig.run(children[2].id).attempt, 1, "the others go on as they were");
    cast.end_all(parent);
    assert_eq!(cast.rig.status(parent), Status::Succeeded);
    assert_eq!(cast.rig.run(children[0].id).attempt, 1);
}

#[test]
fn a_parent_fails_when_a_child_has_no_retries_left() {
    let mut cast = with_workers(&[("a", 4)]);
    let retry_twice = Retry { attempts: 2, delay: Duration::from_secs(1), ..Retry::default() };
    let parent = cast.rig.submit(Definition { retry: retry_twice, ..split(shards(2)) });
    let [first, second] = [0, 1].map(|index| cast.children(parent)[index].id);
    cast.end(first, End::Succeeded);
    for _ in 0..2 {
        cast.end(second, End::Failed);
        cast.rig.advance("5s");
    }
    assert_eq!(cast.rig.run(second).attempt, 2);
    let failed = cast.rig.run(parent);
    assert_eq!(failed.status(), Status::Failed);
    assert_eq!(failed.reason, Some(Reason::Children { failed: 1, total: 2, first: 1 }));
    assert!(cast.rig.is_dead_letter(parent) && !cast.rig.is_dead_letter(second), "the parent is the letter");

    let refused = cast.rig.ask(Command::RetryRun(retry(second)));
    assert!(matches!(refused, Err(Refusal::WrongState { .. })), "{refused:?}");
    let again = made(cast.rig.ask(Command::RetryRun(retry(parent))));
    assert_eq!((cast.rig.run(again).retry_of, cast.children(again).len()), (Some(parent), 2));
    assert!(!cast.rig.is_dead_letter(parent));
}

#[test]
fn a_broadcast_goes_to_every_worker_that_fits_when_it_starts() {
    let mut cast = with_workers(&[("a", 1), ("b", 1), ("c", 1)]);
    let blocker = cast.rig.submit(manual());
    assert_eq!(cast.rig.run(blocker).assignee.as_ref().map(Assignee::name).as_deref(), Some("a"));
    let parent = cast.rig.submit(split(broadcast()));
    assert_eq!(cast.statuses(parent), [Status::Ready, Status::Running, Status::Running], "`a` is busy");
    cast.join(&id("d"), 1);
    cast.end(blocker, End::Succeeded);
    assert_eq!(cast.workers(parent), ["a", "b", "c"], "each to its own, and `d` came too late");
    cast.end_all(parent);
    assert_eq!(cast.rig.status(parent), Status::Succeeded);
}

#[test]
fn the_child_of_a_worker_that_is_gone_fails_after_a_lease_and_says_so() {
    let mut cast = with_workers(&[("a", 1), ("b", 1)]);
    let blocker = cast.rig.submit(manual());
    let parent = cast.rig.submit(split(broadcast()));
    assert_eq!(cast.statuses(parent), [Status::Ready, Status::Running]);
    cast.end(cast.children(parent)[1].id, End::Succeeded);
    cast.rig.pool.leave(&id("a"));
    cast.rig.settle();
    cast.rig.advance("14s");
    assert_eq!(cast.statuses(parent)[0], Status::Ready, "it may come back");
    cast.rig.advance("2s");
    let child = cast.children(parent)[0].clone();
    assert_eq!((child.status(), child.reason.clone()), (Status::Failed, Some(Reason::WorkerGone)));
    assert_eq!(cast.rig.status(parent), Status::Failed);
    assert_eq!(cast.rig.status(blocker), Status::Running, "which is another matter");
}

#[test]
fn a_worker_that_starts_again_in_time_gets_its_part_of_a_broadcast() {
    let mut cast = with_workers(&[("a", 1), ("b", 1)]);
    let parent = cast.rig.submit(split(broadcast()));
    cast.rig.advance("10s");
    cast.rig.pool.leave(&id("a"));
    cast.rig.settle();
    cast.rig.advance("4s");
    cast.join(&WorkerId::new("a", 2), 1);
    let child = cast.children(parent)[0].clone();
    assert_eq!((child.status(), child.attempt), (Status::Running, 2));
    assert_eq!(child.assignee, Some(Assignee::Worker(WorkerId::new("a", 2))));
    cast.rig.advance("1m");
    assert_eq!(cast.rig.status(child.id), Status::Running, "no earlier absence counts against it");
    cast.end_all(parent);
    assert_eq!(cast.rig.status(parent), Status::Succeeded);
}

#[test]
fn a_broadcast_without_workers_waits_for_them() {
    let mut cast = with_workers(&[]);
    let parent = cast.rig.submit(split(broadcast()));
    assert_eq!(cast.rig.run(parent).reason, Some(Reason::NoWorkerFits(Lack::Workers)));
    cast.rig.advance("1h");
    cast.rig.reload();
    assert_eq!((cast.rig.status(parent), cast.children(parent).len()), (Status::Ready, 0));
    cast.join(&id("a"), 1);
    cast.rig.advance("200ms");
    cast.join(&id("b"), 1);
    assert_eq!(cast.children(parent).len(), 0, "others may be on their way");
    cast.rig.advance("1s");
    assert_eq!(
        (cast.workers(parent), cast.rig.run(parent).reason.clone()),
        (vec!["a".into(), "b".into()], None)
    );
    assert!(cast.rig.pool.ready_runs() == 0);
}

#[test]
fn a_family_is_found_as_it_was_after_a_reload() {
    let mut cast = with_workers(&[("a", 2)]);
    let parent = cast.rig.submit(split(shards(3)));
    let children = cast.children(parent);
    cast.end(children[0].id, End::Failed);
    cast.rig.reload();
    assert_eq!(cast.rig.pool.live_runs(), 3, "the parent and the two that have not ended");
    assert_eq!(cast.statuses(parent), [Status::Failed, Status::Running, Status::Running]);
    cast.end_all(parent);
    let ended = cast.rig.run(parent);
    assert_eq!(ended.reason, Some(Reason::Children { failed: 1, total: 3, first: 0 }));
    assert_eq!((cast.rig.pool.live_runs(), cast.rig.pool.ready_runs()), (0, 0));
}

#[test]
fn what_stops_a_parent_stops_its_children_and_it_ends_when_they_have() {
    let mut cast = with_workers(&[("a", 1)]);
    let parent = cast.rig.submit(split(shards(3)));
    assert_eq!(cast.statuses(parent), [Status::Running, Status::Ready, Status::Ready]);
    made(cast.rig.ask(cancel(parent)));
    let run = cast.rig.run(parent);
    assert_eq!((run.status(), run.cancelling()), (Status::Running, Some(Cause::User)));
    assert_eq!(cast.statuses(parent), [Status::Running, Status::Cancelled, Status::Cancelled]);
    assert_eq!(cast.rig.cancelled_orders(), [cast.children(parent)[0].id]);
    cast.end(cast.children(parent)[0].id, End::Failed);
    let ended = cast.rig.run(parent);
    assert_eq!(
        (ended.status(), ended.reason.clone()),
        (Status::Cancelled, Some(Reason::Cancelled(Cause::User)))
    );

    cast.rig.ask(put("nightly", split(shards(2)))).unwrap();
    let run = cast.rig.start("nightly");
    cast.rig.ask(delete("nightly")).unwrap();
    cast.end(cast.children(run)[0].id, End::Failed);
    assert_eq!(cast.rig.run(run).reason, Some(Reason::Cancelled(Cause::JobDeleted)));
    assert_eq!((cast.rig.pool.live_runs(), cast.rig.pool.ready_runs()), (0, 0));
}

#[test]
fn overlap_counts_the_parent_and_the_limit_its_children() {
    let mut cast = with_workers(&[("a", 16)]);
    let job = |overlap| Definition {
        overlap,
        route: shards(3),
        limits: vec![Limit::of_running(2)],
        ..on([every("10s")])
    };
    cast.rig.ask(put("skip", job(Overlap::Skip))).unwrap();
    cast.rig.advance("20s");
    let parents = |cast: &Cast, job: &str| -> Vec<RunId> {
        cast.rig.runs(job).iter().filter(|run| run.parent().is_none()).map(|run| run.id).collect()
    };
    let runs = parents(&cast, "skip");
    assert_eq!(cast.statuses(runs[0]), [Status::Running, Status::Running, Status::Waiting]);
    assert_eq!(cast.rig.status(runs[1]), Status::Skipped);
    cast.rig.reload();
    cast.end(cast.children(runs[0])[0].id, End::Succeeded);
    assert_eq!(cast.statuses(runs[0]), [Status::Succeeded, Status::Running, Status::Running]);
    cast.end_all(runs[0]);
    assert_eq!(cast.rig.status(runs[0]), Status::Succeeded);
    cast.rig.ask(delete("skip")).unwrap();

    cast.rig.ask(put("replace", job(Overlap::Replace))).unwrap();
    cast.rig.advance("20s");
    let runs = parents(&cast, "replace");
    assert_eq!(cast.children(runs[1]).len(), 0, "it waits for the children of the other");
    for child in cast.children(runs[0]) {
        cast.end(child.id, End::Failed);
    }
    assert_eq!(cast.rig.run(runs[0]).reason, Some(Reason::Cancelled(Cause::Replaced)));
    assert_eq!(cast.children(runs[1]).len(), 3);

    cast.rig.ask(delete("replace")).unwrap();
    cast.rig.ask(put("allow", job(Overlap::Allow))).unwrap();
    cast.rig.advance("20s");
    let runs = parents(&cast, "allow");
    assert_eq!([runs[0], runs[1]].map(|run| cast.rig.status(run)), [Status::Running, Status::Running]);
    let running = cast.rig.runs("allow").iter().filter(|run| run.attempt > 0).count();
    assert_eq!(running, 2, "two attempts at once, whosever children they are");
}

#[test]
fn children_have_the_parameters_of_their_parent_and_copy_none() {
    let mut cast = with_workers(&[("a", 2)]);
    cast.rig.ask(put("job", split(shards(1)))).unwrap();
    let params = Some(Params(Arc::from(r#"{"region":"east"}"#)));
    let of_job = made(cast.rig.ask(Command::RunJob(RunJob { params, ..start("job") })));
    let own = Definition { params: Params(Arc::from(r#"{"region":"west"}"#)), ..split(shards(1)) };
    cast.rig.submit(own);
    cast.rig.reload();
    let given = |order: Order| match order {
        Order::Assign(Assignment { params, again: false, .. }) => Some(params.0.to_string()),
        _ => None,
    };
    let given: Vec<String> = cast.rig.orders().into_iter().filter_map(given).collect();
    assert_eq!(given, [r#"{"region":"east"}"#, r#"{"region":"west"}"#]);
    assert_eq!(cast.children(of_job)[0].params, None);
}

#[test]
fn a_split_run_of_the_largest_size_starts_in_pages() {
    let mut cast = with_workers(&[("a", 1)]);
    cast.rig.begin(Command::Submit(submit(split(shards(CHILDREN_MAX)))));
    cast.rig.commit();
    let parent = cast.rig.all_runs()[0].id;
    assert_eq!(cast.children(parent).len(), 999, "with the parent, the first batch has a thousand runs");
    cast.rig.reload();
    cast.rig.advance("20ms");
    let indices: Vec<u32> = cast.children(parent).iter().map(|child| child.part().index).collect();
    assert_eq!(indices, (0..CHILDREN_MAX).collect::<Vec<u32>>(), "each part has one run");
    assert!(cast.rig.batches.iter().all(|batch| batch.changes.len() < COMMIT_BATCH_MAX));

    let before = cast.rig.batches.len();
    made(cast.rig.ask(cancel(parent)));
    cast.end_all(parent);
    assert_eq!(cast.rig.status(parent), Status::Cancelled);
    let updates = cast.rig.batches[before..].iter().flat_map(|batch| batch.changes.iter());
    let of_parent = updates.filter(|(key, _)| matches!(key, RowKey::Run(run) if *run == parent));
    assert!(of_parent.count() <= 100, "the parent's row is not written with every end");
    assert!(cast.rig.run(parent).output.len() < OUTPUT_BYTES_MAX);
}

#[test]
fn a_crash_between_pages_does_not_change_the_workers_of_a_broadcast() {
    let mut cast = with_workers(&[]);
    let names: Vec<String> = (0..BROADCAST_MAX).map(|index| format!("w{index:04}")).collect();
    for name in &names {
        cast.join(&id(name), 1);
    }
    cast.rig.begin(Command::Submit(submit(split(broadcast()))));
    cast.rig.commit();
    let parent = cast.rig.all_runs()[0].id;
    assert_eq!(cast.children(parent).len(), 999);
    cast.rig.pool.leave(&id("w0999"));
    cast.join(&id("late"), 1);
    cast.rig.reload();
    cast.rig.advance("10ms");
    let pins: Vec<String> =
        cast.children(parent).iter().map(|child| child.pinned_to().unwrap().to_string()).collect();
    assert_eq!(pins, names);
    cast.join(&id("later"), 1);
    let beyond = cast.rig.submit(split(broadcast()));
    assert_eq!(cast.rig.run(beyond).reason, Some(Reason::TooManyWorkers));
}

#[test]
fn a_split_run_that_is_cancelled_between_pages_starts_no_more_parts() {
    let mut cast = with_workers(&[]);
    cast.rig.begin(Command::Submit(submit(split(shards(2_500)))));
    cast.rig.commit();
    let parent = cast.rig.all_runs()[0].id;
    made(cast.rig.ask(cancel(parent)));
    cast.rig.advance("10ms");
    let ended = cast.rig.run(parent);
    assert_eq!((ended.status(), cast.children(parent).len()), (Status::Cancelled, 999));
    assert_eq!(ended.reason, Some(Reason::Cancelled(Cause::User)));
    assert_eq!((cast.rig.pool.live_runs(), cast.rig.pool.ready_runs()), (0, 0));
}

#[test]
fn a_task_that_every_child_would_copy_is_bounded_for_runs_without_a_job() {
    let mut cast = with_workers(&[]);
    let long = |route| Definition { route, ..Definition::of(Task::Shell("x".repeat(40_000))) };
    let refused = cast.rig.ask(Command::Submit(submit(long(shards(2)))));
    assert!(matches!(refused, Err(Refusal::Invalid(invalid)) if invalid.field == "task"));
    let mut step = Step::of("load".parse().unwrap(), Work::Task(Task::Shell("x".repeat(40_000))));
    step.policies.route = Some(Box::new(shards(2)));
    let inner = Workflow { steps: vec![step], finally: Vec::new(), output: None };
    let nested = Step::of("nested".parse().unwrap(), Work::Workflow(Box::new(inner)));
    let whole = Workflow { steps: vec![nested], finally: Vec::new(), output: None };
    let refused = cast.rig.ask(Command::Submit(submit(Definition::of(Task::Workflow(Box::new(whole))))));
    let field = "task.workflow.steps.nested.task.workflow.steps.load.task";
    assert!(matches!(refused, Err(Refusal::Invalid(invalid)) if invalid.field == field));
    cast.rig.ask(put("job", long(shards(2)))).unwrap();
    cast.rig.submit(long(Route::default()));
}
