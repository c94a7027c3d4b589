//! Rows are inserted, updated and deleted by key, and read back as they were written.

use std::sync::Arc;

use punctual_core::alert::{Alert, Condition};
use punctual_core::change::{DeletedJob, Row, RowKey, TimerPosition, Want};
use punctual_core::job::{Cursor, Definition, Job, Pause};
use punctual_core::limits::{LISTED_OUTPUT_BYTES_MAX, OUTPUT_BYTES_MAX, PARAMS_BYTES_MAX};
use punctual_core::run::Run;
use punctual_core::search::Search;
use punctual_core::task::{Params, Task};

use super::given::*;
use super::steps::{approval_of, step_of};
use crate::{Error, IncidentFilter, LetterFilter, Result, RunFilter, StatisticsFilter, StatisticsOf, Store};

/// One row of every kind.
fn one_of_each(store: &dyn Store, leader: &mut Leader) -> Vec<Row> {
    let job = leader.job("every-kind");
    let run = leader.run_of(&job, at(0));
    let ended = failed(&leader.run_of(&job, at(0)), at(5));
    vec![
        job_row(&job),
        Row::DeletedJob(DeletedJob::of(&job)),
        revision_of(&job),
        run_row(&run),
        history_row(&ended),
        Row::DeadLetter(letter_of(&ended)),
        Row::Step(Arc::new(step_of(&run, 2, Some(0)))),
        Row::Listener(Arc::new(leader.listener())),
        Row::Lock(Arc::new(leader.lock("default", "backup"))),
        Row::Hold(Arc::new(leader.hold())),
        Row::Approval(approval_of(&run, 2)),
        Row::Incident(Arc::new(leader.incident("its-job"))),
        Row::Unique(key_of(&run, "a-key", at(1000))),
        Row::Skip(skip_of(&job, at(1))),
        statistics_of(leader, &job),
        recent_counts(3, 5),
        term_of(&run, "größe"),
        Row::Queue(leader.queue(store, 4)),
        message_row(&leader.message(4, 5)),
    ]
}

pub async fn an_insert_of_a_row_that_is_there_is_refused(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let rows = one_of_each(store, &mut leader);
    leader.insert(store, rows.clone()).await?;
    for row in rows {
        let result = leader.insert(store, [row.clone()]).await;
        assert!(matches!(&result, Err(Error::Refused { shard: SHARD, .. })), "{:?}: {result:?}", row.key());
    }
    Ok(())
}

/// An update of a missing row is refused: a backend that inserts it would hide a lost row.
pub async fn an_update_of_a_row_that_is_not_there_is_refused(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    for row in one_of_each(store, &mut leader) {
        let result = leader.update(store, [row.clone()]).await;
        assert!(matches!(&result, Err(Error::Refused { shard: SHARD, .. })), "{:?}: {result:?}", row.key());
    }
    Ok(())
}

pub async fn a_delete_of_a_row_that_is_not_there_is_refused(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    for row in one_of_each(store, &mut leader) {
        let result = leader.delete(store, [row.key()]).await;
        assert!(matches!(&result, Err(Error::Refused { shard: SHARD, .. })), "{:?}: {result:?}", row.key());
    }
    Ok(())
}

pub async fn every_kind_of_row_comes_changes_and_goes(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let rows = one_of_each(store, &mut leader);
    for _ in 0..2 {
        leader.insert(store, rows.clone()).await?;
        leader.update(store, rows.clone()).await?;
        leader.delete(store, rows.iter().map(Row::key)).await?;
    }
    Ok(())
}

pub async fn rows_read_back_as_they_were_written(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let rows = one_of_each(store, &mut leader);
    leader.insert(store, rows.clone()).await?;
    for row in rows {
        match row {
            Row::Job(job) => assert_eq!(store.job(&job.namespace, &job.name).await?, Some(job)),
            Row::DeletedJob(job) => assert_eq!(store.deleted_jobs(None, None, 10).await?, [job]),
            Row::Revision(revision) => {
                assert_eq!(store.revision(revision.job, revision.revision).await?, Some(revision));
            }
            Row::Run(run) | Row::History(run) => {
                let record = store.run(&run.namespace, run.id).await?;
                assert_eq!(record.map(|record| record.run), Some(run));
            }
            Row::DeadLetter(letter) => {
                assert_eq!(store.dead_letters(&LetterFilter::default(), None, 10).await?, [letter]);
            }
            Row::Step(step) => assert_eq!(store.steps(step.key.run, None, 10).await?, [step]),
            Row::Listener(listener) => {
                assert_eq!(store.load(SHARD, leader.epoch).await?.listeners, [listener]);
            }
            Row::Lock(lock) => assert_eq!(store.load(SHARD, leader.epoch).await?.locks, [lock]),
            Row::Hold(hold) => {
                assert_eq!(store.load(SHARD, leader.epoch).await?.holds, [Arc::clone(&hold)]);
                assert_eq!(store.holds().await?, [hold]);
            }

            Row::Incident(incident) => {
                assert_eq!(store.incidents(&IncidentFilter::default(), None, 10).await?, [incident]);
            }
            Row::Approval(approval) => assert_eq!(store.approvals(None, None, 10).await?, [approval]),
            Row::Unique(unique) => {
                let found = store.fetch(vec![(SHARD, Want::Unique(Arc::clone(&unique.key)))]).await?;
                assert_eq!(found.uniques, [unique]);
            }
            Row::Skip(skip) => assert_eq!(store.skips(skip.job, None, 10).await?, [skip]),
            Row::Statistics(row) => {
                let of = StatisticsOf::Job(namespace("default"), name("its-job"));
                let filter = StatisticsFilter { of, since: row.key.bucket.at, until: NOW };
                assert_eq!(store.statistics(&filter).await?, [(row.key.bucket.at, row.counts.clone())]);
            }
            Row::RecentCounts(recent) => {
                assert_eq!(store.load(SHARD, leader.epoch).await?.recent_counts, [recent]);
            }
            Row::Term(term) => {
                let search = Some(Search::parse(&term.term).expect("a case searches well"));
                let filter =
                    RunFilter { namespace: Some(term.namespace.clone()), search, ..RunFilter::default() };
                let found = store.runs(&filter, None, 10).await?;
                assert_eq!(found.iter().map(|run| run.id).collect::<Vec<_>>(), [term.run]);
            }
            Row::Queue(queue) => assert_eq!(store.queues(None, None, 10).await?, [queue]),
            Row::Message(message) => {
                let found = store.fetch(vec![(SHARD, Want::Message(message.id))]).await?;
                assert_eq!(found.messages, [message]);
            }
        }
    }
    Ok(())
}

/// "One run per fire" depends on it: a fired due time must not fire again.
pub async fn a_cursor_never_goes_back(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = leader.job("fires");
    leader.insert(store, [job_row(&job)]).await?;
    let with_cursor = |millis, revision| {
        let cursor = Cursor { fired_through: at(millis), ..job.cursor.clone() };
        job_row(&Job { cursor, revision, ..job.clone() })
    };
    leader.update(store, [with_cursor(500, 1)]).await?;
    for (millis, revision) in [(499, 1), (499, 2)] {
        let back = leader.update(store, [with_cursor(millis, revision)]).await;
        assert!(
            matches!(&back, Err(Error::Refused { shard: SHARD, what }) if what.contains("cursor")),
            "{back:?}"
        );
    }
    // An equal cursor is allowed: a pause or an edit does not move it.
    leader.update(store, [with_cursor(500, 1)]).await?;
    leader.update(store, [with_cursor(500, 2)]).await?;
    let stored = store.job(&job.namespace, &job.name).await?.map(|job| job.cursor.fired_through);
    assert_eq!(stored, Some(at(500)));
    Ok(())
}

/// The name of a job is unique in its namespace.
pub async fn two_jobs_cannot_bear_one_name(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (first, second) = (leader.job("same"), leader.job("same"));
    leader.insert(store, [job_row(&first)]).await?;
    let taken = leader.insert(store, [job_row(&second)]).await;
    assert!(matches!(taken, Err(Error::Refused { shard: SHARD, .. })), "{taken:?}");

    let elsewhere = Job { namespace: namespace("payments/clearing"), ..second };
    leader.insert(store, [job_row(&elsewhere)]).await?;
    let found = store.job(&elsewhere.namespace, &elsewhere.name).await?;
    assert_eq!(found.as_deref(), Some(&elsewhere));
    Ok(())
}

/// A job that is deleted and created again under its old name, even in one commit, is a new job.
pub async fn a_deleted_job_frees_its_name(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (old, new) = (leader.job("again"), leader.job("again"));
    leader.insert(store, [job_row(&old)]).await?;
    let mut changes = deletes([RowKey::Job(old.id)]);
    changes.insert(job_row(&new));
    leader.commit(store, changes).await?;
    assert_eq!(store.job(&new.namespace, &new.name).await?.map(|job| job.id), Some(new.id));
    Ok(())
}

/// An edit is a new revision, and all of its definition is stored.
pub async fn an_edit_replaces_the_definition(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = leader.job("edited");
    leader.insert(store, [job_row(&job)]).await?;
    let definition =
        Definition { priority: 9, description: "faster".to_owned(), ..(*job.definition).clone() };
    let edited = Job { revision: 2, definition: Arc::new(definition), updated_at: at(7), ..job };
    leader.update(store, [job_row(&edited)]).await?;
    assert_eq!(store.job(&edited.namespace, &edited.name).await?.as_deref(), Some(&edited));
    Ok(())
}

/// A pause is stored with its reason and its end, and so are the failed runs in a row.
pub async fn a_pause_keeps_its_reason_and_its_end(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = leader.job("paused");
    leader.insert(store, [job_row(&job)]).await?;
    for (by, until) in [(Some("ops".into()), Some(at(9000))), (None, None)] {
        let pause = Pause { reason: "too slow — ☕".into(), by, since: at(8), until };
        let paused = Job { pause: Some(Box::new(pause)), failures: 5, ..job.clone() };
        leader.update(store, [job_row(&paused)]).await?;
        assert_eq!(store.job(&job.namespace, &job.name).await?.as_deref(), Some(&paused));
    }
    leader.update(store, [job_row(&job)]).await?;
    assert_eq!(store.job(&job.namespace, &job.name).await?.as_deref(), Some(&job));
    Ok(())
}

/// What a job watches is stored with it, and so is its next fire when a check comes first.
pub async fn a_check_of_a_job_is_its_timer(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = leader.job("watched");
    let mut definition = (*job.definition).clone();
    let on = Condition::Missing { within: DAY };
    definition.alerts = vec![Alert { on, to: Vec::new(), repeat: DAY }];
    let fresh = Job::new(job.id, job.namespace.clone(), job.name.clone(), Arc::new(definition), NOW);
    let next = Some(at(200_000_000));
    for wake_at in [next, None] {
        let cursor = Cursor { wake_at, next_due: wake_at, ..fresh.cursor.clone() };
        let watched = Job { cursor, ..fresh.clone() };
        let row = job_row(&watched);
        if wake_at == next {
            leader.insert(store, [row]).await?;
        } else {
            leader.update(store, [row]).await?;
        }
        assert_eq!(store.job(&job.namespace, &job.name).await?.as_deref(), Some(&watched));
        let page = store.due(SHARD, TimerPosition::START, 10).await?;
        assert_eq!(page.end, Some(TimerPosition { at: NOW + DAY, id: job.id.0 }));
        assert_eq!(page.jobs.first().map(|job| job.cursor.wake_at), Some(wake_at));
    }
    Ok(())
}

/// A fire moves the cursor, the next due time and the counts, and removes the timer when there is no next due time.
pub async fn a_fire_moves_the_cursor(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let job = leader.job("fires");
    leader.insert(store, [job_row(&job)]).await?;
    for (through, next) in [(900, Some(at(60_900))), (60_900, None)] {
        let cursor = Cursor {
            fired_through: at(through),
            next_due: next,
            wake_at: next,
            fires: [8, 9].into_iter().collect(),
            zone_data: next.map(|_| "2026a".into()),
        };
        let fired = Job { cursor, ..job.clone() };
        leader.update(store, [job_row(&fired)]).await?;
        assert_eq!(store.job(&job.namespace, &job.name).await?.as_deref(), Some(&fired));
    }
    Ok(())
}

/// The largest parameters and the largest output are read back whole.
pub async fn a_large_run_reads_back_whole(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let params = format!("{{\"all\":\"{}\"}}", "x".repeat(PARAMS_BYTES_MAX - 10));
    let run = Run { params: Some(Params(Arc::from(params))), ..leader.ad_hoc(at(0)) };
    leader.insert(store, [run_row(&run)]).await?;
    let ended = Run { output: "y".repeat(OUTPUT_BYTES_MAX).into(), ..succeeded(&run, at(1)) };
    leader.settle(store, &ended).await?;
    let record = store.run(&run.namespace, run.id).await?;
    assert_eq!(record.map(|record| record.run), Some(Arc::new(ended)));
    Ok(())
}

/// Listed runs, and runs that commands fetch, have only the end of a long result: whole results would not fit into
/// memory.
pub async fn a_listing_carries_the_end_of_a_long_result(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (short, long) = (leader.ad_hoc(at(0)), leader.ad_hoc(at(0)));
    leader.insert(store, [run_row(&short), run_row(&long)]).await?;
    let short = Run { output: "z".repeat(LISTED_OUTPUT_BYTES_MAX).into(), ..succeeded(&short, at(1)) };
    let long = Run { output: "y".repeat(OUTPUT_BYTES_MAX).into(), ..succeeded(&long, at(1)) };
    leader.settle(store, &short).await?;
    leader.settle(store, &long).await?;
    let mut abridged = long.clone();
    assert!(abridged.abridge() && abridged.may_be_abridged() && !short.may_be_abridged());
    let filter = RunFilter { oldest_first: true, ..RunFilter::default() };
    let expected = [Arc::new(short), Arc::new(abridged)];
    assert_eq!(store.runs(&filter, None, 10).await?, expected);
    let found = store.fetch(vec![(SHARD, Want::Run(long.id))]).await?;
    assert_eq!(found.runs.len(), 1);
    assert_eq!(found.runs[0].run, expected[1]);
    Ok(())
}

/// Values are never read as SQL.
pub async fn no_text_is_read_as_a_command(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    for (index, text) in
        ["'; DROP TABLE runs; --", "\" OR 1=1", "%_\\", "支付\u{0}\u{1F600}", "?1", ""].iter().enumerate()
    {
        let task = Task::Shell((*text).to_owned());
        let name = name(&format!("strange-{index}"));
        let job = Job { definition: Arc::new(Definition::of(task)), name, ..leader.job("strange") };
        let run = Run { error: (*text).into(), key: Some(Arc::from(*text)), ..leader.run_of(&job, at(0)) };
        let key = key_of(&run, text, at(1));
        leader.insert(store, [job_row(&job), run_row(&run), Row::Unique(key.clone())]).await?;
        let wants = vec![
            (SHARD, Want::Job(job.namespace.clone(), job.name.clone())),
            (SHARD, Want::Run(run.id)),
            (SHARD, Want::Unique(Arc::from(*text))),
        ];
        let found = store.fetch(wants).await?;
        assert_eq!((found.jobs[0].as_ref(), found.runs[0].run.as_ref()), (&job, &run));
        assert_eq!(found.uniques, [key]);
    }
    Ok(())
}
