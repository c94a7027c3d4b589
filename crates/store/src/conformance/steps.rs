//! The steps of workflows: they are loaded with their run, and go with it.

use std::sync::Arc;

use punctual_core::backfill::Backfill;
use punctual_core::change::{Row, RowKey, Want};
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Job};
use punctual_core::run::{Event, Origin, Run, StepOf, StepsEnd, Trigger};
use punctual_core::task::{Params, Task};
use punctual_core::workflow::{
    Approval, ApprovalKey, ByHand, Items, State, Step, StepKey, StepReason, StepRecord, Work, Workflow,
};

use super::given::*;
use crate::{Error, PrunePolicy, Result, Store};

fn workflow() -> Workflow {
    let inner = Step::of(name("book"), Work::Task(Task::Shell("./book".to_owned())));
    let inner = Workflow { steps: vec![inner], finally: Vec::new(), output: None };
    let steps = vec![
        Step::of(name("load"), Work::Task(Task::Shell("./load".to_owned()))),
        Step::of(name("settle"), Work::Workflow(Box::new(inner))),
    ];
    Workflow { steps, finally: Vec::new(), output: Some("steps.load.output".to_owned()) }
}

fn definition() -> Arc<Definition> {
    Arc::new(Definition::of(Task::Workflow(Box::new(workflow()))))
}

/// A workflow without a job whose steps have begun.
fn begun(leader: &mut Leader) -> Run {
    let origin = Origin::AdHoc(definition());
    let id = RunId(leader.ids.next(NOW));
    let mut run = Run::new(id, namespace("default"), origin, Trigger::Submit, at(0), NOW);
    for event in [Event::Due, Event::StepsBegun] {
        run.apply(event, &definition(), at(0)).expect("a case follows the arrows");
    }
    run
}

fn ended(run: &Run, when: punctual_core::Timestamp) -> Run {
    let mut run = run.clone();
    let ended = Event::StepsEnded { end: StepsEnd::Succeeded, output: "7".into() };
    run.apply(ended, &definition(), when).expect("a case follows the arrows");
    run
}

/// A step with a value in every field.
pub(super) fn step_of(run: &Run, step: u32, item: Option<u32>) -> StepRecord {
    StepRecord {
        key: StepKey { run: run.id, step, item },
        state: State::Failed,
        child: Some(RunId(run.id.0 + 1)),
        decided_at: at(1),
        started_at: Some(at(2)),
        ended_at: Some(at(2)),
        until: Some(at(3)),
        listener: Some(i64::MAX),
        items: Some(Items { total: 10_000, succeeded: 9_999, failed: 1 }),
        reason: Some(StepReason::NotApproved),
        workers: [Arc::from("build-7"), Arc::from("ländlich")].into(),
        output: Some(r#"{"größe": 7}"#.into()),
        error: "it broke".into(),
        by_hand: Some(Box::new(ByHand { by: Some("ops".into()), at: at(4), comment: "später".into() })),
        backfill: Some(Box::new(Backfill {
            from: at(5),
            to: at(9),
            dues: [at(6), at(7)].into(),
            running: Some(2),
        })),
    }
}

fn row(step: &StepRecord) -> Row {
    Row::Step(Arc::new(step.clone()))
}

fn keys(steps: &[Arc<StepRecord>]) -> Vec<(RunId, u32, Option<u32>)> {
    steps.iter().map(|step| (step.key.run, step.key.step, step.key.item)).collect()
}

pub async fn steps_read_back_as_they_were_written(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let run = begun(&mut leader);
    let whole = step_of(&run, 4_999, None);
    let long = StepRecord { output: Some("x".repeat(64 * 1024).into()), ..step_of(&run, 4_999, Some(9_999)) };
    let plain = StepRecord::active(StepKey { run: run.id, step: 0, item: None }, NOW);
    leader.insert(store, [row(&whole), row(&long), row(&plain)]).await?;
    let found = store.steps(run.id, None, 10).await?;
    assert_eq!(found.iter().map(|step| &**step).collect::<Vec<_>>(), [&plain, &whole, &long]);
    let mut now = plain.clone();
    now.end(State::Succeeded, Some(StepReason::OutputTooLong), at(7));
    leader.update(store, [row(&now)]).await?;
    assert_eq!(*store.steps(run.id, None, 1).await?[0], now);
    Ok(())
}

pub async fn a_load_brings_the_steps_of_running_workflows(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (first, second, over) = (begun(&mut leader), begun(&mut leader), begun(&mut leader));
    let rows = [
        run_row(&first),
        run_row(&second),
        history_row(&ended(&over, at(5))),
        row(&step_of(&second, 0, None)),
        row(&step_of(&first, 1, Some(0))),
        row(&step_of(&first, 1, None)),
        row(&step_of(&first, 0, None)),
        row(&step_of(&over, 0, None)),
    ];
    leader.insert(store, rows).await?;
    let expected = [(first.id, 0, None), (first.id, 1, None), (first.id, 1, Some(0)), (second.id, 0, None)];
    assert_eq!(keys(&leader.load(store).await?.steps), expected);
    let mut other = Leader::of(store, OTHER).await?;
    assert_eq!(other.load(store).await?.steps, []);
    let foreign = other.insert(store, [row(&step_of(&first, 3, None))]).await;
    assert!(matches!(foreign, Err(Error::Refused { .. })), "{foreign:?}");
    Ok(())
}

pub async fn a_load_brings_what_a_retry_reuses(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let old = begun(&mut leader);
    let mut held = begun(&mut leader);
    held.state = punctual_core::run::State::Waiting { wait: punctual_core::run::Wait::Overlap };
    held.retry_of = Some(old.id);
    held.step_params = Some(Box::new([(name("load"), Params(r#"{"day":7}"#.into()))].into()));
    leader.insert(store, [run_row(&held), row(&step_of(&held, 0, None))]).await?;
    let loaded = leader.load(store).await?;
    assert_eq!(keys(&loaded.steps), [(held.id, 0, None)]);
    assert_eq!(*loaded.runs[0].run, held);
    Ok(())
}

pub async fn a_fetch_brings_steps_without_their_items(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (over, other) = (begun(&mut leader), begun(&mut leader));
    let rows = [
        history_row(&ended(&over, at(5))),
        row(&step_of(&over, 2, None)),
        row(&step_of(&over, 1, Some(0))),
        row(&step_of(&over, 1, None)),
        row(&step_of(&other, 0, None)),
    ];
    leader.insert(store, rows).await?;
    let found = store.fetch(vec![(SHARD, Want::Steps(over.id))]).await?;
    assert_eq!(keys(&found.steps), [(over.id, 1, None), (over.id, 2, None)]);
    assert_eq!(*found.steps[0], step_of(&over, 1, None));
    Ok(())
}

pub async fn steps_are_listed_in_order_and_by_pages(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let run = begun(&mut leader);
    let mut all: Vec<(RunId, u32, Option<u32>)> = vec![(run.id, 0, None), (run.id, 1, None)];
    all.extend((0..12).map(|item| (run.id, 1, Some(item))));
    all.push((run.id, 2, None));
    leader.insert(store, all.iter().rev().map(|(_, step, item)| row(&step_of(&run, *step, *item)))).await?;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.steps(run.id, after, 4).await?;
        let Some(last) = page.last() else { break };
        after = Some((last.key.step, last.key.item));
        found.extend(keys(&page));
    }
    assert_eq!(found, all);
    Ok(())
}

pub async fn a_run_of_a_step_comes_with_the_definition_of_the_step(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = Job { definition: definition(), ..leader.job("workflow") };
    let whole = leader.run_of(&job, at(0));
    let step = |run: Run, path: &str| {
        let step = StepOf { parent: whole.id, step: 0, path: path.into(), item: None };
        ready(&Run { step: Some(Box::new(step)), ..run })
    };
    let load = step(leader.run_of(&job, at(0)), "load");
    let book = step(leader.run_of(&job, at(0)), "settle/book");
    let rows = [job_row(&job), revision_of(&job), run_row(&whole), run_row(&load), run_row(&book)];
    leader.insert(store, rows).await?;
    let loaded = leader.load(store).await?.runs;
    for (run, task) in [(&load, "./load"), (&book, "./book")] {
        let record = loaded.iter().find(|record| record.run.id == run.id).expect("the run is live");
        assert_eq!((&*record.run, &record.definition.task), (run, &Task::Shell(task.to_owned())));
    }
    let stray = step(leader.run_of(&job, at(0)), "settle/none");
    leader.insert(store, [run_row(&stray)]).await?;
    assert!(matches!(leader.load(store).await, Err(Error::Unusable(_))));
    leader.delete(store, [RowKey::Run(stray.id)]).await
}

pub async fn steps_go_with_their_run(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (old, recent) = (begun(&mut leader), begun(&mut leader));
    let rows = [
        history_row(&ended(&old, NOW.before(8 * DAY))),
        history_row(&ended(&recent, NOW)),
        row(&step_of(&old, 0, None)),
        row(&step_of(&old, 1, Some(3))),
        row(&step_of(&recent, 0, None)),
    ];
    leader.insert(store, rows).await?;
    let policy = PrunePolicy { now: NOW, ad_hoc_kept: 7 * DAY };
    assert_eq!(store.prune(&policy, 1000).await?, 1, "steps are part of their run");
    assert_eq!(store.steps(old.id, None, 10).await?, []);
    assert_eq!(keys(&store.steps(recent.id, None, 10).await?), [(recent.id, 0, None)]);
    Ok(())
}

/// A waiting approval with a value in every field.
pub(super) fn approval_of(run: &Run, step: u32) -> Approval {
    let key = ApprovalKey { namespace: run.namespace.clone(), run: run.id, step };
    Approval {
        key: Arc::new(key),
        job: Some(name("release")),
        step: name("review"),
        since: NOW,
        until: Some(at(7)),
    }
}

pub async fn approvals_are_listed_by_namespace_and_by_pages(store: &dyn Store) -> Result<()> {
    let (mut here, mut there) = (Leader::of(store, SHARD).await?, Leader::of(store, OTHER).await?);
    let mut all: Vec<Approval> = Vec::new();
    for n in 0..3 {
        for (leader, of) in [(&mut here, "b"), (&mut there, "a")] {
            let run = Run { namespace: namespace(of), ..begun(leader) };
            let made =
                [Approval { job: None, until: None, ..approval_of(&run, 0) }, approval_of(&run, n + 5)];
            leader.insert(store, made.iter().cloned().map(Row::Approval)).await?;
            all.extend(made);
        }
    }
    all.sort_by(|a, b| a.key.cmp(&b.key));
    for of in [None, Some(namespace("a")), Some(namespace("b")), Some(namespace("c"))] {
        for limit in [1, 3, 100] {
            let mut found: Vec<Approval> = Vec::new();
            loop {
                let after = found.last().map(|last| (*last.key).clone());
                let page = store.approvals(of.as_ref(), after.as_ref(), limit).await?;
                if page.is_empty() {
                    break;
                }
                found.extend(page);
            }
            let is_wanted = |approval: &&Approval| of.as_ref().is_none_or(|of| approval.key.namespace == *of);
            let expected: Vec<Approval> = all.iter().filter(is_wanted).cloned().collect();
            assert_eq!(found, expected, "{of:?}, pages of {limit}");
        }
    }
    Ok(())
}
