//! A life with everything in it: random commands, reports and ticks, against what must hold of any of them.
//!
//! Two rigs live the same life; one of them loses its memory after every step and reads it back. They never differ:
//! all that the engine knows is in the rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use punctual_core::attempt::{End, Report};
use punctual_core::change::{Row, SkipReason};
use punctual_core::command::{Command, RunJob, Submit};
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Limit, Misfire, MisfirePolicy, Overlap, Unique};
use punctual_core::limits::GRACE_MAX;
use punctual_core::name::Namespace;
use punctual_core::progress::Progress;
use punctual_core::run::{Run, Status, Trigger, What};
use punctual_core::schedule::Schedule;
use punctual_engine::Event;

use crate::statistics::check_add_up;
use crate::support::{
    Rig, after_finish, cancel, delete, discard, every, manual, on, pause, put, resume, retry, span, start,
    submit,
};

const SLOTS: usize = 3;

#[derive(Debug, Clone)]
enum Step {
    Ask(Ask),
    Report(usize, End),
    Progress(usize, u8),
    Lose(usize),
    /// Time goes by, watched or not.
    Wait(u64, bool),
}

#[derive(Debug, Clone)]
enum Ask {
    Put(usize, usize),
    Pause(usize),
    Resume(usize),
    Delete(usize),
    Start(usize, u64),
    Submit(usize, u64),
    Cancel(usize),
    Move(usize),
    Retry(usize),
    Discard(usize),
}

fn ask() -> impl Strategy<Value = Ask> {
    let job = 0usize..3;
    prop_oneof![
        4 => (job.clone(), 0usize..8).prop_map(|(job, kind)| Ask::Put(job, kind)),
        1 => job.clone().prop_map(Ask::Pause),
        1 => job.clone().prop_map(Ask::Resume),
        1 => job.clone().prop_map(Ask::Delete),
        4 => (job, 0u64..20).prop_map(|(job, later)| Ask::Start(job, later.saturating_sub(10))),
        2 => (0usize..8, 0u64..20).prop_map(|(kind, later)| Ask::Submit(kind, later.saturating_sub(10))),
        2 => (0usize..9).prop_map(Ask::Cancel),
        2 => (0usize..9).prop_map(Ask::Move),
        1 => (0usize..9).prop_map(Ask::Retry),
        1 => (0usize..9).prop_map(Ask::Discard),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => ask().prop_map(Step::Ask),
        4 => (0usize..SLOTS, 0usize..5).prop_map(|(nth, end)| {
            let ends = [End::Succeeded, End::Succeeded, End::Failed, End::Failed, End::Yielded];
            Step::Report(nth, ends[end])
        }),
        1 => (0usize..SLOTS, 0u8..=100).prop_map(|(nth, percent)| Step::Progress(nth, percent)),
        1 => (0usize..SLOTS).prop_map(Step::Lose),
        6 => (1u64..9_000, prop::bool::weighted(0.8)).prop_map(|(millis, seen)| Step::Wait(millis, seen)),
    ]
}

fn definition(kind: usize) -> Definition {
    let mut definition = match kind {
        0 => Definition { overlap: Overlap::Queue, ..on([every("3s")]) },
        1 => Definition { overlap: Overlap::Replace, ..on([every("5s"), every("7s")]) },
        2 => Definition { overlap: Overlap::Allow, limits: vec![Limit::of_running(2)], ..on([every("2s")]) },
        3 => {
            Definition { overlap: Overlap::QueueOne, ..on([Schedule { jitter: span("4s"), ..every("3s") }]) }
        }
        4 => on([Schedule { max_runs: Some(4), ..after_finish("4s") }]),
        5 => Definition { at_most_once: true, ..on([every("6s")]) },
        6 => Definition { unique: Some(Unique { key: "k".to_owned(), kept: span("9s") }), ..manual() },
        _ => Definition { priority: 8, overlap: Overlap::Allow, ..manual() },
    };
    if !definition.at_most_once {
        definition.retry.attempts = 1 + u32::try_from(kind % 3).unwrap_or(0);
        definition.retry.delay = span("2s");
        definition.retry.priority = kind.is_multiple_of(2).then_some(9);
    }
    // The worker here may take as long to stop as the whole test.
    definition.grace = Some(GRACE_MAX);
    definition.timeout = (kind % 2 == 1).then(|| span("5s"));
    let policy = [MisfirePolicy::Skip, MisfirePolicy::Once, MisfirePolicy::All][kind % 3];
    definition.misfire = Misfire { policy, grace: span("1s"), window: span("10s") };
    definition
}

fn command(rig: &Rig, ask: &Ask) -> Option<Command> {
    let name = |job: &usize| ["a", "b", "c"][*job];
    let later = |secs: &u64| (*secs > 0).then(|| rig.now + std::time::Duration::from_secs(*secs));
    let nth = |nth: &usize, ended: bool| nth_of(rig, *nth, |run| run.status().is_terminal() == ended);
    Some(match ask {
        Ask::Put(job, kind) => put(name(job), definition(*kind)),
        Ask::Pause(job) => pause(name(job)),
        Ask::Resume(job) => resume(name(job)),
        Ask::Delete(job) => delete(name(job)),
        Ask::Start(job, secs) => Command::RunJob(RunJob { due: later(secs), ..start(name(job)) }),
        Ask::Submit(kind, secs) => Command::Submit(Submit { due: later(secs), ..submit(definition(*kind)) }),
        Ask::Cancel(run) => cancel(nth(run, false)?),
        Ask::Move(run) => {
            Command::MoveRun { namespace: Namespace::default(), run: nth(run, false)?, worker: None }
        }
        Ask::Retry(run) => Command::RetryRun(retry(nth(run, true)?)),
        Ask::Discard(run) => discard(nth(run, true)?),
    })
}

/// One of the runs that fit, counted from the newest.
fn nth_of(rig: &Rig, nth: usize, fits: impl Fn(&Run) -> bool) -> Option<RunId> {
    rig.all_runs().iter().rev().filter(|run| fits(run)).nth(nth).map(|run| run.id)
}

fn take(rig: &mut Rig, step: &Step) {
    // Two attempts that fail in one instant back off to one instant, and who is then first is not on record.
    rig.advance("1ms");
    let running = |nth: &usize, rig: &Rig| nth_of(rig, *nth, |run| run.status() == Status::Running);
    match step {
        Step::Ask(ask) => {
            if let Some(command) = command(rig, ask) {
                // A refusal is an answer too.
                let _ = rig.ask(command);
            }
        }
        Step::Report(nth, end) => {
            if let Some(run) = running(nth, rig) {
                rig.report(run, *end);
            }
        }
        Step::Progress(nth, percent) => {
            if let Some(run) = running(nth, rig) {
                let token = rig.run(run).token;
                rig.tell(Report::Progress { run, token, progress: Progress::percent(*percent) });
                // It is written lazily: what is not written may be lost with the memory, and nothing else may.
                rig.advance("1s");
            }
        }
        Step::Lose(nth) => {
            if let Some(run) = running(nth, rig) {
                let token = rig.run(run).token;
                rig.apply(run.shard(), Event::Lost { run, token });
                // It never reached its worker, or was stopped there.
                rig.lend_again();
                rig.settle();
            }
        }
        Step::Wait(millis, true) => rig.advance_by(std::time::Duration::from_millis(*millis)),
        Step::Wait(millis, false) => rig.outage(&format!("{millis}ms")),
    }
}

/// What must hold after every step.
fn check(rig: &Rig, ended: &mut BTreeMap<RunId, Arc<Run>>) {
    let runs = rig.all_runs();
    let live = runs.iter().filter(|run| !run.status().is_terminal()).count();
    assert_eq!((rig.shards[0].live_runs(), rig.pool.live_runs()), (live, live), "memory holds what is live");
    let running = rig.running().len();
    assert_eq!(rig.pool.roster().attempts_held(), running, "the worker has what runs");
    assert!(running <= SLOTS, "no slot is given twice");
    let ready = runs.iter().filter(|run| run.status() == Status::Ready).count();
    assert_eq!(rig.pool.ready_runs(), ready, "the line has what is ready");
    assert!(ready == 0 || running == SLOTS, "nobody waits while a slot is free");

    let mut fires = BTreeSet::new();
    for run in &runs {
        if matches!(run.trigger, Trigger::Schedule | Trigger::Misfire) {
            assert!(fires.insert((run.job(), run.due)), "one run a fire: {run:?}");
        }
        let starts: Vec<_> = run.entries.iter().filter(|entry| entry.what == What::Assigned).collect();
        assert!(starts.iter().all(|entry| entry.at >= run.due), "never early: {run:?}");
        assert!(
            starts.is_sorted_by(|one, next| one.token < next.token),
            "each under a higher token: {run:?}"
        );
        assert_eq!(starts.len(), run.attempt as usize);
        if run.status().is_terminal() {
            assert_eq!(ended.entry(run.id).or_insert_with(|| Arc::clone(run)), run, "an end is final");
        }
    }
    for job in rig.rows.all().filter_map(|row| if let Row::Job(job) = row { Some(job) } else { None }) {
        // What an edit dropped, a later revision may name again.
        let skipped = rig.skips().into_iter().filter(|skip| skip.reason != SkipReason::Edited);
        let skipped = skipped.filter(|skip| skip.job == job.id);
        for skip in skipped {
            let within =
                |fire: &&(Option<_>, _)| fire.0 == Some(job.id) && skip.from <= fire.1 && fire.1 <= skip.to;
            assert_eq!(fires.iter().find(within), None, "made or passed over, not both: {skip:?}");
        }
        assert!(job.cursor.next_due.is_none_or(|next| next > job.cursor.fired_through));
    }
}

/// All rows but those of statistics: each leader begins rows of its own.
fn rows(rig: &Rig) -> impl Iterator<Item = &Row> {
    rig.rows.all().filter(|row| !matches!(row, Row::Statistics(_) | Row::RecentCounts(_)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_reload_loses_nothing(steps in prop::collection::vec(step(), 1..60)) {
        let (mut keeps, mut loses) = (Rig::new(SLOTS), Rig::new(SLOTS));
        let mut ended = BTreeMap::new();
        for step in &steps {
            take(&mut keeps, step);
            take(&mut loses, step);
            check(&keeps, &mut ended);
            loses.reload();
            prop_assert!(rows(&keeps).eq(rows(&loses)), "they differ after {step:?}");
            check_add_up(&keeps);
            check_add_up(&loses);
        }
    }
}
