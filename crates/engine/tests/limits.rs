//! Limits of a job: at once, by rate and by key, and how many runs may wait.

use std::collections::BTreeMap;

use Status::{Running, Skipped, Succeeded, Waiting};
use proptest::prelude::*;
use punctual_core::command::{Command, Refusal, RetryRun, RunJob};
use punctual_core::ids::RunId;
use punctual_core::job::limit::{Beyond, Rate};
use punctual_core::job::{Definition, Limit, Overlap, Route, limit};
use punctual_core::run::{Reason, Run, State, Status, Wait};
use punctual_core::task::Params;

use crate::support::{Rig, cancel, every, made, manual, on, retry, seconds, span, start};

fn job(limits: impl IntoIterator<Item = Limit>) -> Definition {
    Definition { overlap: Overlap::Allow, limits: limits.into_iter().collect(), ..manual() }
}

fn per_customer(mut limit: Limit) -> Limit {
    limit.per = Some("{{ params.customer }}".to_owned());
    limit
}

fn rate(count: u32, within: &str, burst: u32) -> Limit {
    Limit { rate: Some(Rate { count, span: span(within), burst }), ..Limit::default() }
}

fn waiting(max: u32, beyond: Beyond) -> Limit {
    Limit { waiting: Some(limit::Waiting { max, beyond }), ..Limit::default() }
}

fn of(customer: &str) -> Command {
    let params = Some(Params(format!("{{\"customer\":\"{customer}\"}}").into()));
    Command::RunJob(RunJob { params, ..start("job") })
}

fn start_of(rig: &mut Rig, customer: &str) -> RunId {
    made(rig.ask(of(customer)))
}

#[test]
fn runs_of_one_key_never_run_at_once() {
    let mut rig = Rig::new(5);
    rig.put("job", job([per_customer(Limit::of_running(1))]));
    let runs = ["a", "a", "b", "a"].map(|customer| start_of(&mut rig, customer));
    assert_eq!(rig.running(), [runs[0], runs[2]], "a run of another key starts at once");
    assert_eq!(rig.run(runs[1]).state, State::Waiting { wait: Wait::Limit(0) });
    rig.succeed(runs[2]);
    assert_eq!(rig.running(), [runs[0]]);
    rig.succeed(runs[0]);
    assert_eq!(rig.running(), [runs[1]], "in the order of their due times");
    rig.succeed(runs[1]);
    assert_eq!(rig.running(), [runs[3]]);
}

/// After the edit its runs are split, but a run of the older revision has no child runs that could be counted.
#[test]
fn a_run_of_an_older_revision_keeps_its_place() {
    let mut rig = Rig::new(5);
    rig.put("job", job([Limit::of_running(2)]));
    let whole = rig.start("job");
    let split =
        Definition { route: Route { shards: Some(3), ..Route::default() }, ..job([Limit::of_running(2)]) };
    rig.put("job", split);
    rig.start("job");
    assert_eq!(rig.running().len(), 3, "the run, the split run and one part of it");
    rig.succeed(whole);
    assert_eq!(rig.running().len(), 3, "the split run and two parts of it");
}

#[test]
fn every_limit_must_allow_a_run() {
    let mut rig = Rig::new(5);
    rig.put("job", job([Limit::of_running(2), per_customer(Limit::of_running(1))]));
    let runs = ["a", "a", "b", "c", "b"].map(|customer| start_of(&mut rig, customer));
    assert_eq!(rig.running(), [runs[0], runs[2]]);
    rig.succeed(runs[2]);
    assert_eq!(rig.running(), [runs[0], runs[3]], "the second run of `a` blocks no run behind it");
    rig.succeed(runs[0]);
    assert_eq!(rig.running(), [runs[1], runs[3]]);
    rig.succeed_all();
    assert_eq!(rig.running(), [runs[4]]);
}

#[test]
fn a_rate_spreads_the_starts() {
    let mut rig = Rig::new(9);
    rig.put("job", job([rate(1, "10s", 2)]));
    let runs = [(); 4].map(|()| rig.start("job"));
    assert_eq!(rig.running(), runs[..2], "a burst of two");
    rig.advance("9s");
    assert_eq!(rig.running(), runs[..2]);
    rig.advance("1s");
    assert_eq!(rig.running(), runs[..3]);
    rig.advance("10s");
    assert_eq!(rig.running(), runs);
}

#[test]
fn each_key_has_a_rate_of_its_own() {
    let mut rig = Rig::new(9);
    rig.put("job", job([per_customer(rate(1, "10s", 1))]));
    let runs = ["a", "b", "a", "b"].map(|customer| start_of(&mut rig, customer));
    assert_eq!(rig.running(), runs[..2]);
    rig.advance("10s");
    assert_eq!(rig.running(), runs);
}

#[test]
fn a_rate_outlives_a_restart() {
    let mut rig = Rig::new(9);
    rig.put("job", job([rate(1, "1h", 1)]));
    let first = rig.start("job");
    rig.succeed(first);
    rig.reload();
    rig.join(9);
    let second = rig.start("job");
    assert_eq!(rig.status(second), Waiting);
    rig.reload();
    rig.join(9);
    rig.advance("59m");
    assert_eq!(rig.status(second), Waiting);
    rig.advance("1m");
    assert_eq!(rig.status(second), Running);
}

#[test]
fn a_rate_that_is_free_again_needs_no_row() {
    let mut rig = Rig::new(9);
    rig.put("job", job([per_customer(rate(1, "10s", 1))]));
    for customer in ["a", "b"] {
        let run = start_of(&mut rig, customer);
        rig.succeed(run);
    }
    assert_eq!(rig.rates(), 2);
    rig.advance("11s");
    assert_eq!(rig.rates(), 0);
}

#[test]
fn an_edit_to_a_faster_rate_applies_at_once() {
    let mut rig = Rig::new(9);
    rig.put("job", job([rate(1, "1h", 1)]));
    let runs = [(); 3].map(|()| rig.start("job"));
    assert_eq!(rig.running(), runs[..1]);
    rig.put("job", job([rate(1, "1s", 1)]));
    rig.advance("2s");
    assert_eq!(rig.running(), runs);
}

#[test]
fn an_edit_of_a_limit_counts_anew() {
    let mut rig = Rig::new(9);
    rig.put("job", job([per_customer(Limit::of_running(1))]));
    let runs = ["a", "a", "b", "b"].map(|customer| start_of(&mut rig, customer));
    rig.put("job", job([Limit::of_running(3)]));
    assert_eq!(rig.running(), runs[..3]);
    rig.put("job", job([]));
    assert_eq!(rig.running(), runs);
    rig.put("job", job([per_customer(Limit::of_running(1))]));
    let next = start_of(&mut rig, "a");
    rig.succeed(runs[0]);
    assert_eq!(rig.status(next), Waiting, "another run of `a` is still running");
    rig.succeed(runs[1]);
    assert_eq!(rig.status(next), Running);
}

#[test]
fn beyond_the_runs_that_may_wait_a_new_one_is_skipped() {
    let mut rig = Rig::new(5);
    rig.put("job", job([Limit { running: Some(1), ..waiting(1, Beyond::Skip) }]));
    let runs = [(); 3].map(|()| rig.start("job"));
    assert_eq!(rig.statuses("job"), [Running, Waiting, Skipped]);
    assert_eq!(rig.run(runs[2]).reason, Some(Reason::HeldTooMany));
}

#[test]
fn the_oldest_makes_room_for_a_new_one() {
    let mut rig = Rig::new(5);
    rig.put("job", job([per_customer(Limit { running: Some(1), ..waiting(1, Beyond::Oldest) })]));
    let runs = ["a", "a", "b", "b", "a"].map(|customer| start_of(&mut rig, customer));
    let statuses = runs.map(|run| rig.status(run));
    assert_eq!(statuses, [Running, Skipped, Running, Waiting, Waiting]);
}

#[test]
fn a_run_that_has_started_is_never_skipped_for_a_new_one() {
    let mut rig = Rig::new(5);
    let mut definition = job([Limit { running: Some(1), ..waiting(1, Beyond::Oldest) }]);
    definition.retry.attempts = 2;
    rig.put("job", definition);
    let (first, second) = (rig.start("job"), rig.start("job"));
    rig.fail(first);
    rig.advance("10s");
    assert_eq!((rig.status(first), rig.status(second)), (Waiting, Running), "the retry waits for its turn");
    let (third, fourth) = (rig.start("job"), rig.start("job"));
    assert_eq!([first, third, fourth].map(|run| rig.status(run)), [Waiting, Skipped, Waiting]);
}

#[test]
fn runs_that_wait_for_an_earlier_one_count_too() {
    let mut rig = Rig::new(5);
    rig.put("job", Definition { overlap: Overlap::Queue, ..job([waiting(2, Beyond::Oldest)]) });
    for _ in 0..4 {
        rig.start("job");
        rig.advance("1s");
    }
    assert_eq!(rig.statuses("job"), [Running, Skipped, Waiting, Waiting]);
}

#[test]
fn a_run_that_waits_for_a_limit_can_be_cancelled() {
    let mut rig = Rig::new(5);
    rig.put("job", job([rate(1, "10s", 1)]));
    let runs = [(); 3].map(|()| rig.start("job"));
    rig.ask(cancel(runs[1])).expect("a waiting run can be cancelled");
    rig.advance("10s");
    assert_eq!(rig.running(), [runs[0], runs[2]]);
}

#[test]
fn a_rate_and_overlap_go_together() {
    let mut rig = Rig::new(5);
    rig.put("job", Definition { overlap: Overlap::Queue, ..job([rate(1, "10s", 1)]) });
    let runs = [(); 3].map(|()| rig.start("job"));
    rig.succeed(runs[0]);
    assert_eq!(rig.running(), [], "the rate holds the second");
    rig.advance("10s");
    assert_eq!(rig.running(), [runs[1]]);
    rig.advance("20s");
    assert_eq!(rig.running(), [runs[1]], "the third waits for the second");
    rig.succeed(runs[1]);
    assert_eq!(rig.running(), [runs[2]]);
}

#[test]
fn fires_are_spread_too() {
    let mut rig = Rig::new(9);
    let limits = vec![rate(1, "5s", 1)];
    rig.put("job", Definition { overlap: Overlap::Allow, limits, ..on([every("1s")]) });
    for _ in 0..12 {
        rig.advance("1s");
    }
    let started = rig.runs("job").iter().filter(|run| run.status() == Running).count();
    assert!((2..=3).contains(&started), "{started} started in twelve seconds");
}

#[test]
fn parameters_without_a_key_are_refused() {
    let mut rig = Rig::new(5);
    rig.put("job", job([Limit::of_running(1), per_customer(Limit::of_running(1))]));
    let Err(Refusal::Invalid(error)) = rig.ask(of(&"x".repeat(300))) else { panic!("it was accepted") };
    assert_eq!(error.field, "limits[1].per");
    assert!(rig.runs("job").is_empty());
    let run = start_of(&mut rig, "a");
    rig.fail(run);
    let Command::RunJob(RunJob { params, .. }) = of(&"x".repeat(300)) else { unreachable!() };
    let Err(Refusal::Invalid(error)) = rig.ask(Command::RetryRun(RetryRun { params, ..retry(run) })) else {
        panic!("it was accepted")
    };
    assert_eq!((&*error.field, rig.runs("job").len()), ("limits[1].per", 1));
}

/// What may happen to a job with limits.
#[derive(Debug, Clone)]
enum Happening {
    Start(u8),
    End(usize),
    Cancel(usize),
    Pass(u16),
    Reload,
    Edit(u8),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => (0u8..3).prop_map(Happening::Start),
        4 => (0usize..20).prop_map(Happening::End),
        1 => (0usize..20).prop_map(Happening::Cancel),
        3 => (1u16..4000).prop_map(Happening::Pass),
        1 => Just(Happening::Reload),
        1 => (0u8..3).prop_map(Happening::Edit),
    ]
}

/// The limits that edits choose from. All of them have these first two.
fn limits(edit: u8) -> Vec<Limit> {
    let mut limits =
        vec![Limit::of_running(3), per_customer(Limit::of_running(2)), per_customer(rate(1, "2s", 2))];
    limits.truncate(usize::from(edit) + 1);
    limits
}

fn customer_of(run: &Run) -> String {
    run.params.as_ref().map(|params| params.0.to_string()).unwrap_or_default()
}

/// Fails if more runs are at work than the limits allow, as long as no edit has narrowed them.
fn check_running(rig: &Rig, edit: u8) -> Result<(), TestCaseError> {
    let at_work: Vec<_> =
        rig.runs("job").into_iter().filter(|run| matches!(run.status(), Running | Status::Ready)).collect();
    let mut customers: BTreeMap<String, usize> = BTreeMap::new();
    at_work.iter().for_each(|run| *customers.entry(customer_of(run)).or_default() += 1);
    prop_assert!(at_work.len() <= 3, "{} run at once", at_work.len());
    prop_assert!(edit == 0 || customers.values().all(|count| *count <= 2), "{customers:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn no_limit_is_exceeded_and_no_run_is_forgotten(
        narrow in 0u8..3,
        happenings in proptest::collection::vec(happening(), 1..60),
    ) {
        let mut rig = Rig::new(9);
        let mut edit = narrow;
        let mut strict = true;
        rig.put("job", job(limits(edit)));
        for happening in happenings {
            let running = rig.running();
            let live: Vec<RunId> =
                rig.runs("job").iter().filter(|run| !run.status().is_terminal()).map(|run| run.id).collect();
            match happening {
                Happening::Start(customer) => drop(start_of(&mut rig, &customer.to_string())),
                Happening::End(index) if !running.is_empty() => rig.succeed(running[index % running.len()]),
                Happening::Cancel(index) if !live.is_empty() => {
                    drop(rig.ask(cancel(live[index % live.len()])));
                }
                Happening::Pass(millis) => rig.advance_by(std::time::Duration::from_millis(millis.into())),
                Happening::Reload => {
                    rig.reload();
                    rig.join(9);
                }
                Happening::Edit(next) => {
                    strict &= next <= edit;
                    edit = next;
                    rig.put("job", job(limits(edit)));
                }
                Happening::End(_) | Happening::Cancel(_) => {}
            }
            if strict {
                check_running(&rig, edit)?;
            }
        }
        for _ in 0..200 {
            rig.succeed_all();
            rig.advance("1s");
        }
        let live: Vec<_> = rig.runs("job").into_iter().filter(|run| !run.status().is_terminal()).collect();
        prop_assert!(live.is_empty(), "still there: {live:?}");
        rig.advance("1m");
        prop_assert_eq!(rig.rates(), 0);
    }
}

#[test]
fn the_due_time_may_be_a_key() {
    let mut rig = Rig::new(5);
    let limit = Limit { per: Some("{{ due | date }}".to_owned()), ..Limit::of_running(1) };
    rig.put("job", job([limit]));
    let first = rig.start("job");
    let second = rig.start("job");
    assert_eq!((rig.status(first), rig.status(second)), (Running, Waiting));
    assert!(seconds(rig.run(first).due) >= 0);
    rig.succeed_all();
    assert_eq!(rig.statuses("job"), [Succeeded, Running]);
}
