//! Which worker gets a run: labels, kinds and strategies, and runs that wait for a worker of their own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::attempt::{End, Report};
use punctual_core::command::Command;
use punctual_core::ids::{RunId, WorkerId};
use punctual_core::job::{Definition, Overlap, Route, Strategy};
use punctual_core::retry::Retry;
use punctual_core::run::{Run, Status, What};
use punctual_core::task::{Accept, Http, Kind, Method, Params, Task};
use punctual_core::worker::Announcement;
use punctual_engine::{Event, Settings};

use crate::support::{Rig, made, manual, put, start};

pub(crate) fn id(name: &str) -> WorkerId {
    WorkerId::new(name, 1)
}

fn labels(disk: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("disk".to_owned(), disk.to_owned())])
}

/// A rig that these workers have joined, each with so many slots, all lent.
pub(crate) fn with_workers(workers: &[(&str, usize)]) -> Rig {
    let mut rig = Rig::with(1, 0, Settings::default());
    for (name, slots) in workers {
        join(&mut rig, name, Announcement::of(*slots));
    }
    rig
}

fn join(rig: &mut Rig, name: &str, announced: Announcement) {
    let slots = announced.slots.into();
    rig.pool.join(&id(name), announced, &[], rig.elapsed());
    rig.lend(&id(name), slots);
    rig.settle();
}

pub(crate) fn leave(rig: &mut Rig, name: &str) {
    rig.pool.leave(&id(name));
    rig.settle();
}

pub(crate) fn routed(route: Route) -> Definition {
    Definition { route, overlap: Overlap::Allow, ..manual() }
}

pub(crate) fn by(strategy: Strategy) -> Route {
    Route { strategy, ..Route::default() }
}

fn needs(disk: &str) -> Route {
    Route { selector: Arc::new(labels(disk)), ..Route::default() }
}

/// The name of the worker that has a run.
pub(crate) fn worker_of(rig: &Rig, run: RunId) -> String {
    let run = rig.run(run);
    assert_eq!(run.status(), Status::Running, "{run:?}");
    run.assignee.as_ref().expect("it runs somewhere").name().to_string()
}

pub(crate) fn whats(run: &Run) -> Vec<What> {
    run.entries.iter().map(|entry| entry.what).collect()
}

/// Starts a job so often.
fn start_times(rig: &mut Rig, job: &str, times: usize) -> Vec<RunId> {
    (0..times).map(|_| made(rig.ask(Command::RunJob(start(job))))).collect()
}

#[test]
fn round_robin_spreads_the_runs_of_a_job_evenly() {
    let mut rig = with_workers(&[("a", 4), ("b", 4), ("c", 4)]);
    for job in ["one", "other"] {
        rig.ask(put(job, routed(by(Strategy::RoundRobin)))).expect("put");
    }
    // Another job in between does not disturb the turn: each has a memory of its own.
    let mut names = String::new();
    for _ in 0..3 {
        let runs = start_times(&mut rig, "one", 2);
        runs.iter().for_each(|run| names.push_str(&worker_of(&rig, *run)));
        start_times(&mut rig, "other", 1);
    }
    assert_eq!(names, "abcabc");
}

#[test]
fn runs_that_poll_one_origin_go_to_one_worker() {
    let mut rig = with_workers(&[("a", 8), ("b", 8), ("c", 8)]);
    let polling = |path: usize| {
        let accept = Some(Accept { poll: Duration::from_secs(5), all: None });
        let url = format!("http://example.com/{path}");
        Definition::of(Task::Http(Box::new(Http { method: Method::Post, accept, ..Http::get(url) })))
    };
    let workers: BTreeSet<String> = (0..6)
        .map(|path| {
            let run = rig.submit(polling(path));
            worker_of(&rig, run)
        })
        .collect();
    assert_eq!(workers.len(), 1, "{workers:?}");
}

fn why(rig: &Rig, run: RunId) -> String {
    rig.run(run).reason.as_ref().map(ToString::to_string).unwrap_or_default()
}

fn lacks(worker: &str, disk: &str) -> String {
    format!("no worker fits: `{worker}` is the nearest and lacks the label `disk={disk}`")
}

#[test]
fn a_run_that_no_worker_fits_waits_says_why_and_holds_up_nobody() {
    let mut rig = with_workers(&[("plain", 4)]);
    let waits = rig.submit(Definition { priority: 9, ..routed(needs("ssd")) });
    let goes = rig.submit(manual());
    assert_eq!(worker_of(&rig, goes), "plain");
    assert_eq!((rig.status(waits), why(&rig, waits)), (Status::Ready, lacks("plain", "ssd")));
    join(&mut rig, "slow", Announcement { labels: labels("hdd"), ..Announcement::of(1) });
    assert_eq!(rig.status(waits), Status::Ready);
    join(&mut rig, "fast", Announcement { labels: labels("ssd"), ..Announcement::of(1) });
    assert_eq!((worker_of(&rig, waits).as_str(), rig.run(waits).reason.clone()), ("fast", None));
}

#[test]
fn the_reason_follows_the_workers_that_come_and_go() {
    let mut rig = with_workers(&[]);
    let ssd = || Announcement { labels: labels("ssd"), ..Announcement::of(1) };
    join(&mut rig, "fast", ssd());
    let first = rig.submit(routed(needs("ssd")));
    let second = rig.submit(routed(needs("ssd")));
    assert_eq!(
        (worker_of(&rig, first).as_str(), rig.run(second).reason.clone()),
        ("fast", None),
        "it waits for a slot"
    );
    leave(&mut rig, "fast");
    rig.advance("1s");
    assert_eq!(why(&rig, second), "no worker fits: none is connected", "written within a second");
    join(&mut rig, "plain", Announcement::of(1));
    rig.advance("1s");
    assert_eq!(why(&rig, second), lacks("plain", "ssd"), "the reason follows");
    rig.reload();
    assert_eq!(why(&rig, second), lacks("plain", "ssd"));
    join(&mut rig, "other", ssd());
    assert_eq!((worker_of(&rig, second).as_str(), rig.run(second).reason.clone()), ("other", None));
}

#[test]
fn a_worker_gets_only_the_kinds_that_it_allows() {
    let mut rig = with_workers(&[]);
    let kinds = [Kind::Http].into_iter().collect();
    join(&mut rig, "web", Announcement { kinds, ..Announcement::of(4) });
    let shell = rig.submit(Definition { task: Task::Shell("true".to_owned()), ..manual() });
    assert_eq!(why(&rig, shell), "no worker fits: none allows `shell` tasks");
    join(&mut rig, "all", Announcement::of(1));
    assert_eq!(worker_of(&rig, shell), "all");
}

#[test]
fn a_function_runs_only_on_workers_that_registered_it() {
    let mut rig = with_workers(&[("plain", 4)]);
    let settle = Definition { task: Task::Function("settle".parse().unwrap()), ..manual() };
    let run = rig.submit(settle);
    assert_eq!(rig.status(run), Status::Ready);
    assert_eq!(why(&rig, run), "no worker fits: none has the function `settle`");
    let having = |name: &str| Announcement {
        functions: [name.parse().unwrap()].into_iter().collect(),
        ..Announcement::of(1)
    };
    join(&mut rig, "other", having("notify"));
    assert_eq!(rig.status(run), Status::Ready);
    join(&mut rig, "app", having("settle"));
    assert_eq!((worker_of(&rig, run).as_str(), rig.run(run).reason.clone()), ("app", None));
}

#[test]
fn runs_of_one_key_stay_together_while_their_worker_lives() {
    let mut rig = with_workers(&[("a", 2), ("b", 2), ("c", 2)]);
    let of = |region: &str| {
        let params = Params(format!(r#"{{"region":"{region}"}}"#).into());
        let route = Route { key: Some("{{ params.region }}".to_owned()), ..by(Strategy::Sticky) };
        Definition { params, ..routed(route) }
    };
    let east: Vec<RunId> = (0..3).map(|_| rig.submit(of("east"))).collect();
    let home = worker_of(&rig, east[0]);
    assert_eq!(worker_of(&rig, east[1]), home);
    assert_eq!(rig.status(east[2]), Status::Ready, "its worker is full, and it waits for that one");
    let regions = ["north", "south", "west", "inner", "outer"];
    let elsewhere = regions.map(|region| rig.submit(of(region)));
    let homes: Vec<String> = elsewhere
        .iter()
        .filter(|run| rig.status(**run) == Status::Running)
        .map(|run| worker_of(&rig, *run))
        .collect();
    assert!(!homes.is_empty() && !homes.contains(&home), "others are not held up: {homes:?}");
    leave(&mut rig, &home);
    rig.report(elsewhere[0], End::Succeeded);
    for name in ["a", "b", "c"].into_iter().filter(|name| *name != home) {
        let used = homes.iter().filter(|home| *home == name).count() as u64;
        rig.lend(&id(name), 2 + used);
    }
    rig.settle();
    assert_ne!(worker_of(&rig, east[2]), home, "its worker is gone, so it belongs to another");
}

#[test]
fn a_run_whose_first_choice_is_full_goes_to_another_worker() {
    let mut rig = with_workers(&[("a", 1), ("b", 2)]);
    let runs: Vec<RunId> = (0..2).map(|_| rig.submit(routed(by(Strategy::First)))).collect();
    assert_eq!((worker_of(&rig, runs[0]), worker_of(&rig, runs[1])), ("a".to_owned(), "b".to_owned()));
    assert_eq!(whats(&rig.run(runs[0])), [What::Created, What::Due, What::Assigned]);
    assert_eq!(whats(&rig.run(runs[1])), [What::Created, What::Due, What::PassedOver, What::Assigned]);
}

#[test]
fn what_a_stopping_worker_gives_back_moves_to_another_and_costs_nothing() {
    let mut rig = with_workers(&[("a", 1), ("b", 1)]);
    let run = rig.submit(Definition { at_most_once: true, ..manual() });
    assert_eq!(worker_of(&rig, run), "a");
    let token = rig.run(run).token;
    rig.apply(run.shard(), Event::Report { worker: id("a"), report: Report::Declined { run, token } });
    rig.settle();
    assert_eq!(worker_of(&rig, run), "b");
    let moved = rig.run(run);
    assert_eq!(whats(&moved), [What::Created, What::Due, What::Assigned, What::Moved, What::Assigned]);
    assert_eq!((moved.failures, moved.losses, moved.attempt), (0, 0, 2));
    rig.apply(run.shard(), Event::Report { worker: id("a"), report: Report::Declined { run, token } });
    assert_eq!(rig.pool.counts().stale_reports, 1, "it is no longer its own");
}

#[test]
fn a_run_that_failed_on_one_worker_fails_over_to_another() {
    let mut rig = with_workers(&[("a", 4), ("b", 4)]);
    let retry = Retry { attempts: 3, ..Retry::default() };
    let run = rig.submit(Definition { retry, ..routed(by(Strategy::Failover)) });
    assert_eq!(worker_of(&rig, run), "a");
    rig.report(run, End::Failed);
    rig.advance("1m");
    assert_eq!(worker_of(&rig, run), "b");
}

#[test]
fn lines_of_their_own_survive_a_reload() {
    let mut rig = with_workers(&[]);
    let ssd = rig.submit(routed(needs("ssd")));
    let sticky = rig.submit(routed(by(Strategy::Sticky)));
    rig.reload();
    assert_eq!(rig.pool.ready_runs(), 2);
    join(&mut rig, "fast", Announcement { labels: labels("ssd"), ..Announcement::of(2) });
    assert_eq!((worker_of(&rig, ssd), worker_of(&rig, sticky)), ("fast".to_owned(), "fast".to_owned()));
    assert!(rig.pool.ready_runs() == 0);
}
