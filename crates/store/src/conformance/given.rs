//! Helpers of the cases: a leader of a shard, and rows with a value in every field.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::alert::{Condition, Incident, Subject};
use punctual_core::attempt::Outcome;
use punctual_core::change::{
    Batch, Changes, DeadLetter, DeletedJob, Holder, Loaded, Revision, Row, RowKey, Skip, SkipReason,
    UniqueKey,
};
use punctual_core::hold::{Fires, Hold, HoldRecord, Scope};
use punctual_core::ids::{Epoch, Fence, IdMaker, IncidentId, JobId, RunId, ShardId, WorkerId};
use punctual_core::job::{self, Cursor, Definition, Job};
use punctual_core::lock::{Lock, LockKey};
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{
    Body, Message, MessageId, MessageStatus, Pause, QueueKey, QueueNumber, QueueRecord,
};
use punctual_core::run::{Event, Origin, Run, Trigger, Wait};
use punctual_core::schedule::{Schedule, When};
use punctual_core::search::RunTerm;
use punctual_core::statistics::{Bucket, Counted, Counts, Period, RecentCounts, Statistics, StatisticsKey};
use punctual_core::task::Task;
use punctual_core::topic::{Listener, ListenerRecord, Topic, TopicKey};
use punctual_core::workflow::ByHand;
use smallvec::smallvec;

use crate::{Claim, Result, Store};

pub const SHARD: ShardId = ShardId(3);
pub const OTHER: ShardId = ShardId(5);
/// 2027-01-15T08:00:00Z: the present of the cases.
pub const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
pub const DAY: Duration = Duration::from_secs(24 * 3600);

pub fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(NOW.as_millis() + millis)
}

/// Leads a shard as a node does: keeps its epoch and commit number, and makes ids.
#[derive(Debug, Clone)]
pub struct Leader {
    pub shard: ShardId,
    pub epoch: Epoch,
    pub commit: u64,
    pub ids: IdMaker,
}

impl Leader {
    /// Acquires and loads the shard.
    pub async fn of(store: &dyn Store, shard: ShardId) -> Result<Leader> {
        let acquired = store.acquire(None, &[Claim::any_epoch(shard)]).await?;
        assert_eq!(acquired.len(), 1);
        let loaded = store.load(shard, acquired[0].1).await?;
        let Loaded { epoch, commit, last_id, .. } = loaded;
        Ok(Leader { shard, epoch, commit, ids: IdMaker::new(shard, last_id) })
    }

    pub async fn load(&self, store: &dyn Store) -> Result<Loaded> {
        store.load(self.shard, self.epoch).await
    }

    pub fn batch(&self, changes: Changes) -> Batch {
        let Leader { shard, epoch, commit, .. } = *self;
        Batch { shard, epoch, commit, last_id: self.ids.last(), changes }
    }

    pub async fn commit(&mut self, store: &dyn Store, changes: Changes) -> Result<()> {
        store.commit(Arc::new(vec![self.batch(changes)])).await?;
        self.commit += 1;
        Ok(())
    }

    pub async fn insert(&mut self, store: &dyn Store, rows: impl IntoIterator<Item = Row>) -> Result<()> {
        self.commit(store, inserts(rows)).await
    }

    pub async fn update(&mut self, store: &dyn Store, rows: impl IntoIterator<Item = Row>) -> Result<()> {
        self.commit(store, updates(rows)).await
    }

    pub async fn delete_job(&mut self, store: &dyn Store, job: &Job) -> Result<()> {
        let mut changes = deletes([RowKey::Job(job.id)]);
        changes.insert(Row::DeletedJob(DeletedJob::of(job)));
        self.commit(store, changes).await
    }

    pub async fn delete(&mut self, store: &dyn Store, keys: impl IntoIterator<Item = RowKey>) -> Result<()> {
        self.commit(store, deletes(keys)).await
    }

    /// Deletes the live row and inserts a history row.
    pub async fn settle(&mut self, store: &dyn Store, run: &Run) -> Result<()> {
        let mut changes = deletes([RowKey::Run(run.id)]);
        changes.insert(Row::History(Arc::new(run.clone())));
        self.commit(store, changes).await
    }

    pub fn job(&mut self, name: &str) -> Job {
        self.job_made_at(name, NOW)
    }

    pub fn job_made_at(&mut self, name: &str, now: Timestamp) -> Job {
        let definition = Definition::of(Task::Shell(format!("echo {name}")));
        let schedule = Schedule::new(When::Every(Duration::from_secs(60)));
        Job {
            id: JobId(self.ids.next(now)),
            namespace: Namespace::default(),
            name: self::name(name),
            revision: 1,
            definition: Arc::new(Definition { schedules: vec![schedule], ..definition }),
            pause: None,
            failures: 0,
            watch: None,
            created_at: at(-1000),
            updated_at: at(-500),
            cursor: Cursor {
                fired_through: at(-100),
                next_due: Some(at(900)),
                wake_at: Some(at(1000)),
                fires: smallvec![7],
                zone_data: Some("2020a".into()),
            },
        }
    }

    /// A run without a job that waits for its due time.
    pub fn ad_hoc(&mut self, due: Timestamp) -> Run {
        self.ad_hoc_made_at(due, NOW)
    }

    pub fn ad_hoc_made_at(&mut self, due: Timestamp, now: Timestamp) -> Run {
        let definition = Arc::new(Definition::of(Task::Shell("echo ad hoc".to_owned())));
        let id = RunId(self.ids.next(now));
        Run::new(id, Namespace::default(), Origin::AdHoc(definition), Trigger::Submit, due, now)
    }

    /// A run of a job that waits for its due time.
    pub fn run_of(&mut self, job: &Job, due: Timestamp) -> Run {
        self.run_of_made_at(job, due, NOW)
    }

    pub fn run_of_made_at(&mut self, job: &Job, due: Timestamp, now: Timestamp) -> Run {
        let origin = Origin::Job { id: job.id, name: job.name.clone(), revision: job.revision };
        Run::new(RunId(self.ids.next(now)), job.namespace.clone(), origin, Trigger::Schedule, due, now)
    }

    /// A queue of this shard in a namespace; tries names that begin with `name` until one belongs to this shard.
    pub fn queue_in(&self, store: &dyn Store, namespace: &str, name: &str, number: u32) -> QueueRecord {
        let key = |n: u32| QueueKey {
            namespace: self::namespace(namespace),
            name: format!("{name} {n}").parse().expect("a case uses good names"),
        };
        let own = (0..).map(key).find(|key| key.shard(store.shards()) == self.shard);
        QueueRecord {
            key: own.expect("every shard has names"),
            number: QueueNumber(number),
            created_at: at(-3),
            pause: Pause { input: true, output: false },
            queued: 7,
            messages: 9,
            unacked: 1,
            settings: None,
        }
    }

    /// A job that listens to an event.
    pub fn listener(&mut self) -> ListenerRecord {
        let topic = TopicKey { namespace: namespace("default"), topic: Topic::Event(name("paid")) };
        ListenerRecord {
            number: self.ids.next(NOW),
            topic,
            listener: Listener::Job(name("settle")),
            key: None,
        }
    }

    /// A lock that is held.
    pub fn lock(&mut self, of: &str, called: &str) -> Lock {
        Lock {
            fence: Fence(self.ids.next(NOW)),
            key: LockKey { namespace: namespace(of), name: name(called) },
            owner: "größe@host".into(),
            request: "a key".into(),
            since: at(-3),
            ttl: Duration::from_secs(10),
            expires_at: at(7),
        }
    }

    pub fn hold(&mut self) -> HoldRecord {
        let pause = job::Pause {
            reason: "the bank is closed — 假期".into(),
            by: Some("ops".into()),
            since: NOW,
            until: Some(at(3600)),
        };
        let hold = Hold { scope: Scope::Namespace(namespace("payments/eu")), pause, fires: Fires::Keep };
        HoldRecord { number: self.ids.next(NOW), hold, released_at: Some(at(60)) }
    }

    /// An open incident of a job.
    pub fn incident(&mut self, job: &str) -> Incident {
        let id = IncidentId(self.ids.next(NOW));
        let on = Condition::Failed { after: 2 };
        Incident {
            id,
            namespace: namespace("default"),
            subject: Subject::Job { id: JobId(id.0), name: name(job), step: None, on },
            opened_at: at(0),
            ended_at: None,
            last_at: at(5),
            count: 7,
            run: None,
            error: "größe \"full\"".into(),
            fingerprints: vec![0, u64::MAX],
            to: vec![name("ops")],
            repeat: DAY,
            notified_at: at(5),
            notified: 2,
            acknowledged: Some(Box::new(ByHand { by: None, at: at(6), comment: "known".into() })),
            silence: None,
        }
    }

    pub fn queue(&self, store: &dyn Store, number: u32) -> QueueRecord {
        self.queue_in(store, "default", "queue", number)
    }

    /// A queued message.
    pub fn message(&mut self, queue: u32, priority: u8) -> Message {
        Message {
            id: MessageId { queue: QueueNumber(queue), number: self.ids.next(NOW) },
            priority,
            body: Body::from(&b"\x00\xff'\\;"[..]),
            created_at: at(-5),
            expires_at: NOW + DAY,
            delay: Duration::from_secs(2),
            retry: Duration::from_secs(300),
            status: MessageStatus::Queued,
            nacks: 1,
            redeliveries: 2,
            key: Some("its key".into()),
            sender: None,
        }
    }
}

pub fn inserts(rows: impl IntoIterator<Item = Row>) -> Changes {
    let mut changes = Changes::default();
    rows.into_iter().for_each(|row| changes.insert(row));
    changes
}

pub fn updates(rows: impl IntoIterator<Item = Row>) -> Changes {
    let mut changes = Changes::default();
    rows.into_iter().for_each(|row| changes.update(row));
    changes
}

pub fn deletes(keys: impl IntoIterator<Item = RowKey>) -> Changes {
    let mut changes = Changes::default();
    keys.into_iter().for_each(|key| changes.delete(key));
    changes
}

pub fn name(text: &str) -> Name {
    text.parse().expect("a case uses good names")
}

pub fn namespace(text: &str) -> Namespace {
    text.parse().expect("a case uses good namespaces")
}

pub fn job_row(job: &Job) -> Row {
    Row::Job(Arc::new(job.clone()))
}

pub fn run_row(run: &Run) -> Row {
    Row::Run(Arc::new(run.clone()))
}

pub fn history_row(run: &Run) -> Row {
    Row::History(Arc::new(run.clone()))
}

pub fn message_row(message: &Message) -> Row {
    Row::Message(Arc::new(message.clone()))
}

/// The message as active, until the given instant.
pub fn active(message: &Message, until: Option<Timestamp>) -> Message {
    Message { status: MessageStatus::Active { until }, ..message.clone() }
}

pub fn revision_of(job: &Job) -> Row {
    let Job { id, revision, .. } = *job;
    Row::Revision(Arc::new(Revision {
        job: id,
        revision,
        definition: Arc::clone(&job.definition),
        at: at(-7),
        state: job.state(),
    }))
}

pub fn letter_of(run: &Run) -> DeadLetter {
    DeadLetter { run: run.id, namespace: run.namespace.clone(), job: Some(name("its-job")), at: at(9) }
}

pub fn key_of(run: &Run, key: &str, expires_at: Timestamp) -> UniqueKey {
    UniqueKey { key: Arc::from(key), holder: Holder::Run(run.id), expires_at }
}

/// A page of recent counts: runs of job `a` that succeeded in the minute of `NOW`.
pub fn recent_counts(page: u32, succeeded: u64) -> Row {
    let minute = Period::Minute.bucket_of(NOW);
    let counted = Counted { namespace: namespace("default"), job: Some(name("a")), minute };
    let counts = Counts { succeeded, ..Counts::default() };
    Row::RecentCounts(RecentCounts { page, counts: [(counted, counts)].into() })
}

/// Statistics of a job in the hour before now.
pub fn statistics_of(leader: &Leader, job: &Job) -> Row {
    let (period, namespace) = (Period::Hour, job.namespace.clone());
    let at = period.bucket_of(NOW.before(period.length()));
    let bucket = Bucket { namespace, job: Some(name("its-job")), period, at };
    let key = Arc::new(StatisticsKey { bucket, shard: leader.shard, commit: leader.commit });
    let mut counts = Counts { succeeded: 300, timed_out: 1, ..Counts::default() };
    counts.took.add(Duration::from_secs(7));
    Row::Statistics(Arc::new(Statistics { key, counts }))
}

/// An entry of the search index.
pub fn term_of(run: &Run, term: &str) -> Row {
    let namespace = run.namespace.clone();
    Row::Term(Arc::new(RunTerm { namespace, term: Arc::from(term), run: run.id }))
}

pub fn skip_of(job: &Job, from: Timestamp) -> Skip {
    Skip {
        job: job.id,
        revision: 4,
        from,
        to: from + Duration::from_secs(5),
        reason: SkipReason::Misfire,
        at: at(3),
    }
}

fn happens(run: &Run, event: Event, when: Timestamp) -> Run {
    let mut run = run.clone();
    let definition = match &run.origin {
        Origin::AdHoc(definition) => Arc::clone(definition),
        Origin::Job { .. } => Arc::new(Definition::of(Task::Noop)),
    };
    run.apply(event, &definition, when).expect("a case follows the arrows");
    run
}

pub fn ready(run: &Run) -> Run {
    happens(run, Event::Due, run.due)
}

pub fn held(run: &Run) -> Run {
    happens(run, Event::Held(Wait::Overlap), run.due)
}

pub fn backing_off(run: &Run) -> Run {
    happens(run, Event::Held(Wait::Backoff(run.due + DAY)), run.due)
}

pub fn running(run: &Run) -> Run {
    let token = run.token.next(Epoch(1));
    happens(&ready(run), Event::Assigned { worker: WorkerId(Arc::from("worker-1")), token }, run.due)
}

pub fn succeeded(run: &Run, when: Timestamp) -> Run {
    let run = running(run);
    let outcome = Outcome { exit_code: Some(0), output: "done".into(), ..Outcome::succeeded(when) };
    happens(&run, Event::Reported { token: run.token, outcome }, when)
}

pub fn failed(run: &Run, when: Timestamp) -> Run {
    let run = running(run);
    let outcome = Outcome { exit_code: Some(1), ..Outcome::failed(when, "it broke") };
    happens(&run, Event::Reported { token: run.token, outcome }, when)
}

/// The refusal of a store whose migrations have other checksums: it says which store, why, and what to do.
pub fn check_names_another_build(refused: &str, store: &str) {
    for part in [store, "written by another build of Punctual", "Start the build that wrote it"] {
        assert!(refused.contains(part), "`{part}` is missing: {refused}");
    }
}

/// Polls until the condition holds, because the store's clock has to move.
pub async fn wait_until(what: &str, mut is_so: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    for _ in 0..500 {
        if is_so().await? {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain until {what}");
}
