//! Other listings and counts for the endpoints.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::alert::Incident;
use punctual_core::change::{DeadLetter, Row, RowKey, Skip, SkipReason};
use punctual_core::ids::{JobId, RunId, ShardId};
use punctual_core::job::{Cursor, Job};
use punctual_core::name::{Name, Namespace};
use punctual_core::run::Run;

use super::given::*;
use crate::{IncidentFilter, JobFilter, LetterFilter, NamespaceCounts, PrunePolicy, Result, Stats, Store};

/// Jobs are listed in order of namespace, then name, over all shards.
pub async fn jobs_are_listed_by_namespace_and_name(store: &dyn Store) -> Result<()> {
    let mut expected: Vec<(Namespace, Name)> = Vec::new();
    for (shard, space) in [(SHARD, "b"), (OTHER, "a/b"), (ShardId(0), "a")] {
        let mut leader = Leader::of(store, shard).await?;
        for job in ["zeta", "Alpha", "m-1", "m.1", "m_1"] {
            let job = Job { namespace: namespace(space), ..leader.job(job) };
            leader.insert(store, [job_row(&job)]).await?;
            expected.push((job.namespace, job.name));
        }
    }
    expected.sort();
    for limit in [1, 4, 100] {
        assert_eq!(paged_jobs(store, &JobFilter::default(), limit).await?, expected, "pages of {limit}");
    }
    for space in ["a", "a/b", "b", "c"].map(namespace) {
        let within: Vec<_> = expected.iter().filter(|(of, _)| *of == space).cloned().collect();
        let filter = JobFilter { namespace: Some(space.clone()), calendar: None };
        assert_eq!(paged_jobs(store, &filter, 2).await?, within, "in {space}");
    }
    Ok(())
}

/// The commit number of a shard moves with its commits, and with no other's.
pub async fn a_commit_is_seen_in_the_numbers_of_its_shard(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let before = store.commits().await?;
    assert_eq!(before.len(), usize::from(store.shards()));
    assert_eq!(store.commits().await?, before);
    let job = leader.job("a");
    leader.insert(store, [job_row(&job)]).await?;
    let after = store.commits().await?;
    let moved: Vec<usize> = (0..after.len()).filter(|shard| after[*shard] != before[*shard]).collect();
    assert_eq!(moved, [usize::from(SHARD.0)]);
    Ok(())
}

/// Namespaces with a job or a queue are listed by name, with the numbers of both.
pub async fn namespaces_are_listed_with_their_counts(store: &dyn Store) -> Result<()> {
    for (shard, spaces) in [(SHARD, ["b", "a"]), (OTHER, ["a", "c/d"])] {
        let mut leader = Leader::of(store, shard).await?;
        for (number, space) in (0..).zip(spaces) {
            let job = Job { namespace: namespace(space), ..leader.job(&format!("job-{}", shard.0)) };
            let queue = leader.queue_in(store, "c", &format!("queue-{}-{number}", shard.0), number);
            leader.insert(store, [job_row(&job), Row::Queue(queue)]).await?;
        }
    }
    let counts = |space, jobs, queues| NamespaceCounts { namespace: namespace(space), jobs, queues };
    let expected = [counts("a", 2, 0), counts("b", 1, 0), counts("c", 0, 4), counts("c/d", 1, 0)];
    assert_eq!(store.namespaces(None, 100).await?, expected);
    assert_eq!(store.namespaces(None, 2).await?, expected[..2]);
    assert_eq!(store.namespaces(Some(&namespace("b")), 100).await?, expected[2..]);
    assert_eq!(store.namespaces(Some(&namespace("d")), 100).await?, []);
    Ok(())
}

async fn paged_jobs(store: &dyn Store, filter: &JobFilter, limit: usize) -> Result<Vec<(Namespace, Name)>> {
    let mut all: Vec<(Namespace, Name)> = Vec::new();
    loop {
        let page = store.jobs(filter, all.last().cloned(), limit).await?;
        assert!(page.len() <= limit);
        if page.is_empty() {
            return Ok(all);
        }
        all.extend(page.iter().map(|job| (job.namespace.clone(), job.name.clone())));
    }
}

/// Dead letters are listed oldest first, by namespace.
pub async fn dead_letters_are_listed_oldest_first(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut ids = Vec::new();
    for n in 0..6 {
        let space = namespace(if n % 2 == 0 { "even" } else { "odd" });
        let run = Run { namespace: space, ..failed(&leader.ad_hoc(at(n)), at(n)) };
        leader.insert(store, [history_row(&run), Row::DeadLetter(letter_of(&run))]).await?;
        ids.push(run.id);
    }
    let listed = async |space: Option<&str>, after: Option<RunId>, limit| -> Result<Vec<RunId>> {
        let filter = LetterFilter { namespace: space.map(namespace), ..LetterFilter::default() };
        let letters = store.dead_letters(&filter, after, limit).await?;
        Ok(letters.into_iter().map(|letter| letter.run).collect())
    };
    assert_eq!(listed(None, None, 100).await?, ids);
    assert_eq!(listed(None, Some(ids[1]), 2).await?, ids[2..4]);
    assert_eq!(listed(Some("odd"), None, 100).await?, [ids[1], ids[3], ids[5]]);
    assert_eq!(listed(Some("odd"), Some(ids[1]), 1).await?, [ids[3]]);
    assert!(listed(Some("nobody"), None, 100).await?.is_empty());
    Ok(())
}

pub async fn incidents_are_listed_newest_first(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut incidents = Vec::new();
    for n in 0..6 {
        let incident = leader.incident(if n % 2 == 0 { "a" } else { "b" });
        let ended_at = (n < 4).then(|| at(n));
        let space = namespace(if n == 5 { "other" } else { "default" });
        let incident = Incident { ended_at, namespace: space, ..incident };
        leader.insert(store, [Row::Incident(Arc::new(incident.clone()))]).await?;
        incidents.push(Arc::new(incident));
    }
    let check = async |filter: IncidentFilter, expected: &[usize]| -> Result<()> {
        let expected: Vec<_> = expected.iter().map(|index| Arc::clone(&incidents[*index])).collect();
        assert_eq!(store.incidents(&filter, None, 100).await?, expected, "{filter:?}");
        let first = store.incidents(&filter, None, 1).await?;
        let before = first.first().map(|incident| incident.id);
        assert_eq!(store.incidents(&filter, before, 100).await?, expected[first.len()..], "{filter:?}");
        Ok(())
    };
    check(IncidentFilter::default(), &[5, 4, 3, 2, 1, 0]).await?;
    check(IncidentFilter { is_open: true, ..IncidentFilter::default() }, &[5, 4]).await?;
    check(IncidentFilter { job: Some(name("b")), ..IncidentFilter::default() }, &[5, 3, 1]).await?;
    let of_default = IncidentFilter { namespace: Some(namespace("default")), ..IncidentFilter::default() };
    check(of_default.clone(), &[4, 3, 2, 1, 0]).await?;
    check(IncidentFilter { job: Some(name("b")), is_open: true, ..of_default }, &[]).await?;
    let loaded = leader.load(store).await?.incidents;
    assert_eq!(loaded, incidents, "a shard is loaded with its incidents");
    Ok(())
}

/// A filter takes the dead letters of one job, those since an instant, or both.
pub async fn dead_letters_are_listed_by_job_and_time(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut letters = Vec::new();
    for n in 0..8 {
        let run = failed(&leader.ad_hoc(at(n)), at(n));
        let job = [Some(name("a")), Some(name("b")), None][usize::try_from(n % 3).unwrap_or(0)].clone();
        let letter = DeadLetter { job, at: at(n), ..letter_of(&run) };
        leader.insert(store, [history_row(&run), Row::DeadLetter(letter.clone())]).await?;
        letters.push(letter);
    }
    let check = async |job: Option<&str>, since: Option<i64>, expected: &[usize]| -> Result<()> {
        let filter = LetterFilter { job: job.map(name), since: since.map(at), ..LetterFilter::default() };
        let expected: Vec<_> = expected.iter().map(|index| letters[*index].clone()).collect();
        assert_eq!(store.dead_letters(&filter, None, 100).await?, expected, "{filter:?}");
        let first = store.dead_letters(&filter, None, 1).await?;
        let after = first.first().map(|letter| letter.run);
        assert_eq!(store.dead_letters(&filter, after, 100).await?, expected[first.len()..], "{filter:?}");
        Ok(())
    };
    check(None, None, &[0, 1, 2, 3, 4, 5, 6, 7]).await?;
    check(Some("a"), None, &[0, 3, 6]).await?;
    check(Some("a"), Some(3), &[3, 6]).await?;
    check(None, Some(6), &[6, 7]).await?;
    check(Some("nobody"), None, &[]).await
}

/// All revisions of one job, newest first, in pages.
pub async fn revisions_are_listed_newest_first(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (job, other) = (leader.job("wanted"), leader.job("other"));
    leader.insert(store, [revision_of(&other)]).await?;
    for revision in 1..=5 {
        leader.insert(store, [revision_of(&Job { revision, ..job.clone() })]).await?;
    }
    let listed = async |before: Option<u32>, limit| -> Result<Vec<u32>> {
        let revisions = store.revisions(job.id, before, limit).await?;
        assert!(revisions.iter().all(|revision| revision.job == job.id));
        Ok(revisions.iter().map(|revision| revision.revision).collect())
    };
    assert_eq!(listed(None, 100).await?, [5, 4, 3, 2, 1]);
    assert_eq!(listed(None, 2).await?, [5, 4]);
    assert_eq!(listed(Some(4), 2).await?, [3, 2]);
    assert!(listed(Some(1), 2).await?.is_empty());
    assert!(listed(Some(0), 2).await?.is_empty());
    let whole = store.revisions(job.id, None, 1).await?;
    assert_eq!(whole.first().cloned(), store.revision(job.id, 5).await?);
    Ok(())
}

/// Skip records of one job, newest revision and newest due time first, in pages. One instant may be skipped under
/// several revisions.
pub async fn skips_are_listed_newest_first(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (job, other) = (leader.job("wanted"), leader.job("other"));
    let reasons = SkipReason::ALL;
    let mut expected = Vec::new();
    for (revision, reason) in (1..).zip(reasons) {
        expected.extend([0, 60, 3600].map(|n| Skip { revision, reason, ..skip_of(&job, at(n)) }));
    }
    leader.insert(store, expected.iter().cloned().chain([skip_of(&other, at(5))]).map(Row::Skip)).await?;
    expected.reverse();
    for limit in [1, 2, 5, 100] {
        let (mut listed, mut before) = (Vec::new(), None);
        loop {
            let page = store.skips(job.id, before, limit).await?;
            let Some(last) = page.last() else { break };
            before = Some((last.revision, last.from));
            listed.extend(page);
        }
        assert_eq!(listed, expected, "pages of {limit}");
    }
    Ok(())
}

/// All deleted jobs of a name are found by it.
pub async fn deleted_jobs_are_listed_by_name(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let jobs = [leader.job("again"), leader.job("other"), leader.job("again"), leader.job("again")];
    for job in &jobs {
        leader.insert(store, [job_row(job), revision_of(job)]).await?;
        // The last one is not deleted.
        if job.id != jobs[3].id {
            leader.delete_job(store, job).await?;
        }
    }
    let listed = async |named: Option<&str>, after: Option<usize>, limit| -> Result<Vec<JobId>> {
        let (space, named) = (Namespace::default(), named.map(name));
        let named = named.as_ref().map(|name| (&space, name));
        let found = store.deleted_jobs(named, after.map(|index| jobs[index].id), limit).await?;
        for gone in &found {
            let job = jobs.iter().find(|job| job.id == gone.id).expect("one of these");
            assert_eq!((&gone.namespace, &gone.name), (&job.namespace, &job.name));
        }
        Ok(found.iter().map(|gone| gone.id).collect())
    };
    let ids = |places: &[usize]| places.iter().map(|place| jobs[*place].id).collect::<Vec<_>>();
    assert_eq!(listed(None, None, 10).await?, ids(&[0, 1, 2]));
    assert_eq!(listed(None, Some(0), 1).await?, ids(&[1]));
    assert_eq!(listed(Some("again"), None, 10).await?, ids(&[0, 2]));
    assert_eq!(listed(Some("again"), Some(0), 10).await?, ids(&[2]));
    assert!(listed(Some("nobody"), None, 10).await?.is_empty());
    Ok(())
}

/// Jobs planned with older time zone data are found; a job that needs none, or is re-planned, is not.
pub async fn jobs_of_older_zone_data_are_found(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut planned = |name: &str, zone_data: Option<&'static str>| {
        let job = leader.job(name);
        Job { cursor: Cursor { zone_data: zone_data.map(Into::into), ..job.cursor }, ..job }
    };
    let jobs = [
        planned("none", None),
        planned("old", Some("2024b")),
        planned("older", Some("2019c")),
        planned("newest", Some("2026a")),
    ];
    leader.insert(store, jobs.each_ref().map(job_row)).await?;
    let found = async |limit| -> Result<Vec<String>> {
        let jobs = store.outdated_jobs("2026a", limit).await?;
        let mut names: Vec<_> = jobs.iter().map(|job| job.name.to_string()).collect();
        names.sort();
        Ok(names)
    };
    assert_eq!(found(10).await?, ["old", "older"]);
    assert_eq!(found(1).await?.len(), 1);
    let cursor = Cursor { zone_data: Some("2026a".into()), ..jobs[1].cursor.clone() };
    leader.update(store, [job_row(&Job { cursor, ..jobs[1].clone() })]).await?;
    assert_eq!(found(10).await?, ["older"]);
    Ok(())
}

/// The counts are right after inserts and deletes.
pub async fn stats_count_jobs_and_runs(store: &dyn Store) -> Result<()> {
    assert_eq!(store.stats().await?, Stats::default());
    let mut leader = Leader::of(store, SHARD).await?;
    let (job, gone) = (leader.job("stays"), leader.job("goes"));
    let runs: Vec<Run> = (0..5).map(|n| leader.ad_hoc(at(n))).collect();
    leader.insert(store, [job_row(&job), job_row(&gone)].into_iter().chain(runs.iter().map(run_row))).await?;
    for run in &runs[..3] {
        leader.settle(store, &failed(run, at(9))).await?;
    }
    leader
        .insert(store, [Row::DeadLetter(letter_of(&runs[0])), Row::DeadLetter(letter_of(&runs[1]))])
        .await?;
    leader.delete(store, [RowKey::Job(gone.id), RowKey::DeadLetter(runs[1].id)]).await?;
    leader.update(store, [job_row(&job)]).await?;
    assert!(
        leader.clone().insert(store, [run_row(&runs[4])]).await.is_err(),
        "a refused commit counts nothing"
    );
    let queues = [leader.queue(store, 0), leader.queue_in(store, "default", "another", 1)];
    leader.insert(store, queues.map(Row::Queue)).await?;
    let stats = Stats { jobs: 1, live_runs: 2, history_runs: 3, dead_letters: 1, queues: 2, messages: 18 };
    assert_eq!(store.stats().await?, stats);

    let policy = PrunePolicy { now: Timestamp::MAX, ad_hoc_kept: DAY };
    assert_eq!(store.prune(&policy, 100).await?, 2);
    assert_eq!(store.stats().await?, Stats { history_runs: 1, ..stats });
    Ok(())
}
