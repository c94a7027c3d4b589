//! Child runs: lists leave them out on request, their parent finds them, and they go with it.

use std::sync::Arc;

use punctual_core::change::{DueSpan, RowKey, Want};
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Job, Keep};
use punctual_core::run::{Part, PartOf, Run, Status, StepOf, Trigger};

use super::given::*;
use crate::{Children, PrunePolicy, Result, RunFilter, Store};

/// A part of a split run.
fn part_of(parent: &Run, index: u32, run: Run) -> Run {
    let role = PartOf { parent: parent.id, part: Part { index, total: 9 }, worker: None };
    Run { trigger: Trigger::Parent, part_of: Some(Box::new(role)), ..run }
}

/// The run of a step.
fn step_of(parent: &Run, step: u32, run: Run) -> Run {
    let step = StepOf { parent: parent.id, step, path: "load".into(), item: None };
    Run { trigger: Trigger::Parent, step: Some(Box::new(step)), ..run }
}

/// Two jobs and runs without a job. Each of them has two runs, each with a live, a succeeded and a failed child.
async fn families(store: &dyn Store) -> Result<(Vec<Job>, Vec<Run>)> {
    let (mut here, mut there) = (Leader::of(store, SHARD).await?, Leader::of(store, OTHER).await?);
    let jobs = vec![here.job("a"), there.job("b")];
    let mut all = Vec::new();
    here.insert(store, [job_row(&jobs[0])]).await?;
    there.insert(store, [job_row(&jobs[1])]).await?;
    for n in 0..6 {
        let (leader, job) = match n % 3 {
            0 => (&mut here, Some(&jobs[0])),
            1 => (&mut there, Some(&jobs[1])),
            _ => (&mut here, None),
        };
        let mut make = || match job {
            Some(job) => leader.run_of(job, at(n)),
            None => leader.ad_hoc(at(n)),
        };
        let whole = make();
        let live = running(&part_of(&whole, 0, make()));
        let first = succeeded(&part_of(&whole, 1, make()), at(n));
        let second = failed(&step_of(&whole, 2, make()), at(n));
        let whole = if n < 3 { whole } else { failed(&whole, at(n)) };
        let row = |run: &Run| if run.status().is_terminal() { history_row(run) } else { run_row(run) };
        let family = [whole, live, first, second];
        leader.insert(store, family.iter().map(row)).await?;
        all.extend(family);
    }
    Ok((jobs, all))
}

/// All pages of a list.
async fn listed(store: &dyn Store, filter: &RunFilter, limit: usize) -> Result<Vec<RunId>> {
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = store.runs(filter, after, limit).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = Some(last.id);
        found.extend(page.iter().map(|run| run.id));
    }
}

async fn check(store: &dyn Store, filter: &RunFilter, runs: &[Run]) -> Result<()> {
    let mut expected: Vec<RunId> = runs.iter().filter(|run| filter.takes(run)).map(|run| run.id).collect();
    expected.sort_unstable();
    if !filter.oldest_first {
        expected.reverse();
    }
    for limit in [1, 2, 100] {
        assert_eq!(listed(store, filter, limit).await?, expected, "{filter:?}, pages of {limit}");
    }
    let counts = store.count_runs(filter, 100).await?;
    let counted: u64 = counts.iter().map(|count| count.runs).sum();
    assert_eq!(counted, expected.len() as u64, "{filter:?}");
    Ok(())
}

/// With any other condition of a filter, child runs are listed, left out, or listed alone.
pub async fn child_runs_are_listed_only_if_they_are_asked_for(store: &dyn Store) -> Result<()> {
    let (jobs, all) = families(store).await?;
    let of_parent = all.iter().filter(|run| run.parent().is_none()).map(|run| Children::Of(run.id));
    let ways = [Children::Included, Children::LeftOut, Children::Of(all[1].id)];
    for children in ways.into_iter().chain(of_parent) {
        let any = RunFilter { children, ..RunFilter::default() };
        let of_both = jobs.iter().map(|job| job.id).collect();
        for filter in [
            any.clone(),
            RunFilter { oldest_first: true, ..any.clone() },
            RunFilter { jobs: vec![jobs[0].id], ..any.clone() },
            RunFilter { jobs: of_both, oldest_first: true, ..any.clone() },
            RunFilter { statuses: vec![Status::Failed], ..any.clone() },
            RunFilter { statuses: vec![Status::Failed, Status::Running], ..any.clone() },
            RunFilter { triggers: vec![Trigger::Parent], ..any.clone() },
            RunFilter { since: Some(NOW), until: Some(at(1)), ..any.clone() },
            RunFilter { namespace: Some(namespace("elsewhere")), ..any.clone() },
            RunFilter { key: Some("no run has it".into()), ..any.clone() },
        ] {
            check(store, &filter, &all).await?;
        }
    }
    Ok(())
}

/// The last runs of a job are whole runs: a workflow is one of them, however many steps it has.
pub async fn the_last_runs_of_a_job_are_no_children(store: &dyn Store) -> Result<()> {
    let (jobs, all) = families(store).await?;
    for job in &jobs {
        let whole = |run: &&Run| run.job() == Some(job.id) && run.parent().is_none();
        let mut expected: Vec<RunId> = all.iter().filter(whole).map(|run| run.id).collect();
        expected.reverse();
        let found = store.last_runs(&[job.id], 2).await?;
        assert_eq!(found.iter().map(|run| run.id).collect::<Vec<_>>(), expected);
    }
    Ok(())
}

pub async fn a_child_is_found_by_its_id(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let whole = leader.ad_hoc(at(0));
    let [first, second, live] = [0, 1, 2].map(|index| part_of(&whole, index, leader.ad_hoc(at(0))));
    let ended = succeeded(&second, at(1));
    let rows = [run_row(&whole), run_row(&running(&first)), history_row(&ended), run_row(&running(&live))];
    leader.insert(store, rows).await?;
    leader.settle(store, &succeeded(&first, at(2))).await?;
    let ended = Status::Succeeded;
    for (run, status) in
        [(&first, ended), (&second, ended), (&live, Status::Running), (&whole, Status::Waiting)]
    {
        let found = store.run(&run.namespace, run.id).await?.expect("the run is stored");
        assert_eq!((found.run.parent(), found.run.status()), (run.parent(), status));
        let found = store.fetch(vec![(SHARD, Want::Run(run.id))]).await?.runs;
        assert_eq!(found.iter().map(|record| record.run.id).collect::<Vec<_>>(), [run.id]);
    }
    Ok(())
}

const POLICY: PrunePolicy = PrunePolicy { now: NOW, ad_hoc_kept: DAY };

/// Prunes with a limit until nothing is left to remove; returns how many rows were removed.
async fn prune(store: &dyn Store, limit: usize) -> Result<usize> {
    let mut gone = 0;
    loop {
        match store.prune(&POLICY, limit).await? {
            0 => return Ok(gone),
            rows => gone += rows,
        }
        assert!(gone < 10_000, "pruning must come to an end");
    }
}

/// A job keeps its newest whole runs. Children count as nothing and stay with their parent, and so do theirs.
pub async fn a_job_keeps_whole_workflows(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = leader.job("workflow");
    let keep = Keep { runs: 2, days: 30 };
    let job = Job { definition: Arc::new(Definition { keep, ..(*job.definition).clone() }), ..job };
    leader.insert(store, [job_row(&job), revision_of(&job)]).await?;
    let mut kept = Vec::new();
    for n in 0..5 {
        let whole = succeeded(&leader.run_of(&job, at(n)), NOW);
        let mut family = vec![whole.clone()];
        for index in 0..3 {
            // Children that ended long ago stay as well.
            let child = part_of(&whole, index, leader.run_of(&job, at(n)));
            family.push(succeeded(&child, NOW.before(40 * DAY)));
        }
        family.push(succeeded(&part_of(&family[1], 0, leader.run_of(&job, at(n))), NOW));
        leader.insert(store, family.iter().map(history_row)).await?;
        if n >= 3 {
            kept.extend(family.iter().map(|run| run.id));
        }
    }
    let last = kept.last().copied().expect("two workflows are kept");
    assert_eq!(prune(store, 4).await?, 3 * 5);
    let all = RunFilter { oldest_first: true, ..RunFilter::default() };
    assert_eq!(listed(store, &all, 100).await?, kept);
    assert_eq!(store.stats().await?.history_runs, 10);
    assert!(store.run(&job.namespace, last).await?.is_some());
    Ok(())
}

/// More children than one transaction removes, of a run without a job.
pub async fn many_children_go_with_their_parent(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let then = NOW.before(2 * DAY);
    let (whole, recent) = (leader.ad_hoc(at(0)), succeeded(&leader.ad_hoc(at(0)), NOW));
    let children: Vec<Run> =
        (0..450).map(|n| failed(&step_of(&whole, n, leader.ad_hoc(at(0))), then)).collect();
    leader.insert(store, children.iter().map(history_row)).await?;
    leader.insert(store, [run_row(&whole), history_row(&recent)]).await?;
    assert_eq!(prune(store, 1000).await?, 0, "children stay while their parent is live");
    let mut changes = deletes([RowKey::Run(whole.id)]);
    changes.insert(history_row(&succeeded(&whole, then)));
    leader.commit(store, changes).await?;
    assert_eq!(prune(store, 1000).await?, 451);
    assert_eq!(listed(store, &RunFilter::default(), 100).await?, [recent.id]);
    let of_parent = RunFilter { children: Children::Of(whole.id), ..RunFilter::default() };
    assert_eq!(listed(store, &of_parent, 100).await?, []);
    Ok(())
}

/// Of a span of due times, the ended runs of a job are found with the child runs of backfills, and without parts, steps and
/// backfills.
pub async fn runs_are_found_by_their_due_time(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (job, other) = (leader.job("a"), leader.job("b"));
    leader.insert(store, [job_row(&job), job_row(&other)]).await?;
    // Runs are made at `NOW`, and those of the span since it began.
    let (from, to) = (at(-10), at(0));
    let whole: Vec<Run> = [-11, -10, -1, 0].map(|n| leader.run_of(&job, at(n))).into();
    let backfill = Run { trigger: Trigger::Backfill, ..leader.run_of(&job, at(-5)) };
    let child = Run { trigger: Trigger::Backfill, ..part_of(&backfill, 0, leader.run_of(&job, at(-8))) };
    let part = part_of(&whole[1], 0, leader.run_of(&job, at(-7)));
    let step = step_of(&whole[1], 0, leader.run_of(&job, at(-6)));
    let elsewhere = leader.run_of(&other, at(-9));
    let wanted = [&whole[1], &child, &whole[2]].map(|run| (run.due, run.id));
    let all = whole.iter().chain([&backfill, &child, &part, &step, &elsewhere]);
    leader.insert(store, all.map(|run| history_row(&succeeded(run, NOW))).collect::<Vec<_>>()).await?;
    let want = Want::DueRuns(DueSpan { job: job.id, from, to });
    let mut found = store.fetch(vec![(SHARD, want)]).await?.due_runs;
    found.sort_by_key(|found| found.due);
    let found: Vec<_> = found.into_iter().map(|found| (found.due, found.run)).collect();
    assert_eq!(found, wanted);
    Ok(())
}
