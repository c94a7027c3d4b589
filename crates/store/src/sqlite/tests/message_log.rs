//! Messages that are only in the log behave like messages that are rows, also when the process dies.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::prelude::*;
use punctual_core::change::{TimerPosition, Want};
use punctual_core::queue::{Body, Message, MessageId, MessagePosition, MessageStatus, QueueKey, QueueNumber};
use rusqlite::Connection;
use rusqlite::config::DbConfig;

use super::damage::contents;
use super::*;
use crate::conformance::given::{NOW, deletes, message_row};
use crate::memory::Memory;
use crate::{End, Error};

/// A log this short turns its messages into rows all the time.
const SHORT_LOG: usize = 600;
const QUEUES: [u32; 2] = [1, 2];
/// Sizes of bodies: some fit into the log, and some are too large for it.
const BODIES: [usize; 3] = [0, 100, 5000];

#[derive(Debug, Clone)]
enum Step {
    Add {
        queue: u32,
        priority: u8,
        bytes: usize,
        is_delayed: bool,
    },
    /// Marks a queued message as delivered, or a delivered one as queued.
    Move {
        which: prop::sample::Index,
    },
    Remove {
        which: prop::sample::Index,
    },
    /// Inserts a removed message again.
    Return {
        which: prop::sample::Index,
    },
    /// The next steps belong to another batch of the same commit.
    Batch,
    Commit,
    /// The process dies, and uncommitted changes are lost.
    Die,
}

fn step() -> impl Strategy<Value = Step> {
    let add = (
        prop::sample::select(&QUEUES[..]),
        0..3_u8,
        prop::sample::select(&BODIES[..]),
        prop::bool::weighted(0.2),
    );
    let add =
        add.prop_map(|(queue, priority, bytes, is_delayed)| Step::Add { queue, priority, bytes, is_delayed });
    prop_oneof![
        6 => add,
        3 => any::<prop::sample::Index>().prop_map(|which| Step::Move { which }),
        5 => any::<prop::sample::Index>().prop_map(|which| Step::Remove { which }),
        2 => any::<prop::sample::Index>().prop_map(|which| Step::Return { which }),
        2 => Just(Step::Batch),
        4 => Just(Step::Commit),
        1 => Just(Step::Die),
    ]
}

/// A store on disk and one in memory that are told the same.
struct Twins {
    store: Sqlite,
    dir: TempDir,
    leader: Leader,
    model: Memory,
    model_leader: Leader,
    queues: Vec<QueueKey>,
    /// As of the last commit.
    messages: Vec<Message>,
    /// With what the next commit does.
    next: Vec<Message>,
    removed: Vec<Message>,
    batches: Vec<Changes>,
    seen: Vec<MessageId>,
}

impl Twins {
    async fn new() -> Twins {
        let (store, dir) = open_temporary();
        store.message_log.write().limit(SHORT_LOG);
        let model = Memory::new(8);
        let mut leader = Leader::of(&store, SHARD).await.unwrap();
        let mut model_leader = Leader::of(&model, SHARD).await.unwrap();
        let queues =
            QUEUES.map(|number| leader.queue_in(&store, "default", &format!("queue-{number}"), number));
        let rows = || queues.iter().cloned().map(punctual_core::change::Row::Queue);
        leader.insert(&store, rows()).await.unwrap();
        model_leader.insert(&model, rows()).await.unwrap();
        let queues = queues.iter().map(|queue| queue.key.clone()).collect();
        let (messages, next, removed, seen) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let batches = vec![Changes::default()];
        Twins { store, dir, leader, model, model_leader, queues, messages, next, removed, batches, seen }
    }

    fn changes(&mut self) -> &mut Changes {
        self.batches.last_mut().expect("there is always a batch")
    }

    async fn carry_out(&mut self, step: Step) {
        match step {
            Step::Add { queue, priority, bytes, is_delayed } => {
                let status =
                    if is_delayed { MessageStatus::Delayed { until: at(50) } } else { MessageStatus::Queued };
                let message = self.leader.message(queue, priority);
                let body = Body::from(vec![b'x'; bytes]);
                let message = Message { status, body, key: None, ..message };
                self.seen.push(message.id);
                self.changes().insert(message_row(&message));
                self.next.push(message);
            }
            Step::Move { which } if !self.next.is_empty() => {
                let message = which.get_mut(&mut self.next);
                let until = Some(at(i64::from(message.nacks) % 7));
                let status =
                    if message.is_queued() { MessageStatus::Active { until } } else { MessageStatus::Queued };
                *message = Message { status, nacks: message.nacks + 1, ..message.clone() };
                let row = message_row(message);
                self.changes().update(row);
            }
            Step::Remove { which } if !self.next.is_empty() => {
                let message = self.next.swap_remove(which.index(self.next.len()));
                self.changes().delete(message_row(&message).key());
                self.removed.push(message);
            }
            Step::Return { which } if !self.removed.is_empty() => {
                let message = self.removed.swap_remove(which.index(self.removed.len()));
                self.changes().insert(message_row(&message));
                self.next.push(message);
            }
            Step::Move { .. } | Step::Remove { .. } | Step::Return { .. } => (),
            Step::Batch => self.batches.push(Changes::default()),
            Step::Commit => {
                let batches = std::mem::replace(&mut self.batches, vec![Changes::default()]);
                commit(&self.store, &mut self.leader, batches.clone()).await;
                commit(&self.model, &mut self.model_leader, batches).await;
                self.messages.clone_from(&self.next);
            }
            Step::Die => {
                self.dir = as_if_killed(self.dir.path());
                self.store = Sqlite::open(self.dir.path(), options(Durability::Relaxed)).unwrap();
                self.store.message_log.write().limit(SHORT_LOG);
                let ids = self.leader.ids.clone();
                self.leader = Leader { ids, ..Leader::of(&self.store, SHARD).await.unwrap() };
                self.batches = vec![Changes::default()];
                self.next.clone_from(&self.messages);
                self.removed.clear();
            }
        }
    }

    async fn check(&self) {
        assert_eq!(
            told(&self.store, &self.queues, &self.seen).await,
            told(&self.model, &self.queues, &self.seen).await
        );
    }
}

/// All batches at once.
async fn commit(store: &dyn Store, leader: &mut Leader, batches: Vec<Changes>) {
    let mut all = Vec::new();
    for changes in batches {
        all.push(leader.batch(changes));
        leader.commit += 1;
    }
    store.commit(Arc::new(all)).await.unwrap();
}

/// All that a store tells of messages, in every way it can be asked.
async fn told(store: &dyn Store, queues: &[QueueKey], ids: &[MessageId]) -> Vec<Vec<Message>> {
    let mut told = Vec::new();
    for queue in QUEUES {
        for limit in [1, 3, 1000] {
            let (mut after, mut line) = (MessagePosition::START, Vec::new());
            while let page = store.backlog(SHARD, QueueNumber(queue), after, limit).await.unwrap()
                && let Some(last) = page.last()
            {
                after = last.position();
                line.extend(plain(&page));
            }
            told.push(line);
        }
    }
    for queue in queues {
        for limit in [1, 4, 1000] {
            let mut all = Vec::new();
            while let page = store.messages(queue, all.last().map(Message::position), limit).await.unwrap()
                && !page.is_empty()
            {
                all.extend(plain(&page));
            }
            told.push(all);
            told.push(plain(&store.queued_messages(queue, End::First, limit).await.unwrap()));
            told.push(plain(&store.queued_messages(queue, End::Last, limit).await.unwrap()));
        }
    }
    for limit in [1, 5, 1000] {
        let (mut after, mut timers) = (TimerPosition::START, Vec::new());
        while let page = store.due(SHARD, after, limit).await.unwrap()
            && let Some(end) = page.end
        {
            after = end;
            timers.extend(plain(&page.messages));
        }
        told.push(timers);
    }
    let wants = ids.iter().map(|id| (SHARD, Want::Message(*id))).collect();
    let mut found = plain(&store.fetch(wants).await.unwrap().messages);
    found.sort_unstable_by_key(|message| message.id);
    told.push(found);
    told
}

fn plain(messages: &[Arc<Message>]) -> Vec<Message> {
    messages.iter().map(|message| message.as_ref().clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_message_log_and_the_memory_store_agree(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let mut twins = Twins::new().await;
            for step in steps {
                let is_told = matches!(step, Step::Commit | Step::Die);
                twins.carry_out(step).await;
                if is_told {
                    twins.check().await;
                }
            }
        });
    }
}

fn rows_in(dir: &Path) -> i64 {
    let connection = Connection::open(dir.join("punctual.db")).unwrap();
    connection.query_row("SELECT count(*) FROM messages", [], |row| row.get(0)).unwrap()
}

/// Small queued messages.
fn small(leader: &mut Leader, count: usize) -> Vec<Message> {
    let body = Body::from(vec![b'x'; 100]);
    (0..count).map(|_| Message { body: body.clone(), ..leader.message(1, 5) }).collect()
}

#[tokio::test]
async fn a_message_that_is_acknowledged_soon_is_never_a_row() {
    let (store, dir) = open_temporary();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    for _ in 0..10 {
        let messages = small(&mut leader, 100);
        leader.insert(&store, messages.iter().map(message_row)).await.unwrap();
        assert_eq!(rows_in(dir.path()), 0);
        leader
            .commit(&store, deletes(messages.iter().map(|message| message_row(message).key())))
            .await
            .unwrap();
    }
    assert_eq!((rows_in(dir.path()), store.message_log.read().count()), (0, 0));
}

#[tokio::test]
async fn messages_become_rows_when_the_log_is_full() {
    let (store, dir) = open_temporary();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    store.message_log.write().limit(10_000);
    let messages = small(&mut leader, 2000);
    for some in messages.chunks(20) {
        leader.insert(&store, some.iter().map(message_row)).await.unwrap();
    }
    let logged = store.message_log.read().count();
    assert_eq!(rows_in(dir.path()), 2000 - i64::try_from(logged).unwrap());
    assert!((1..100).contains(&logged), "{logged} are in the log");
    drop(store);
    let store = Sqlite::open(dir.path(), options(Durability::Relaxed)).unwrap();
    assert_eq!(store.message_log.read().count(), logged, "they are still in the log");
    let line = store.backlog(SHARD, QueueNumber(1), MessagePosition::START, 5000).await.unwrap();
    assert_eq!(plain(&line), messages);
}

#[tokio::test]
async fn a_large_message_and_one_that_is_delayed_are_rows_at_once() {
    let (store, dir) = open_temporary();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let large = Message { body: Body::from(vec![b'x'; 5000]), ..leader.message(1, 5) };
    let delayed = Message { status: MessageStatus::Delayed { until: NOW }, ..leader.message(1, 5) };
    leader.insert(&store, [&large, &delayed].map(message_row)).await.unwrap();
    assert_eq!((rows_in(dir.path()), store.message_log.read().count()), (2, 0));
}

#[tokio::test]
async fn a_refused_commit_does_not_change_the_log() {
    let (store, _dir) = open_temporary();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let [first, second] = [leader.message(1, 5), leader.message(1, 5)];
    leader.insert(&store, [message_row(&first)]).await.unwrap();
    let mut changes = deletes([message_row(&first).key()]);
    changes.insert(message_row(&second));
    changes.delete(message_row(&leader.message(1, 5)).key());
    let refused = leader.commit(&store, changes).await.unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    let line = store.backlog(SHARD, QueueNumber(1), MessagePosition::START, 10).await.unwrap();
    assert_eq!(plain(&line), [first]);
}

#[tokio::test]
async fn a_message_that_exists_is_refused_whether_logged_or_a_row() {
    let (store, dir) = open_temporary();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let messages = small(&mut leader, 2);
    leader.insert(&store, messages[..1].iter().map(message_row)).await.unwrap();
    store.message_log.write().limit(0);
    leader.insert(&store, messages[1..].iter().map(message_row)).await.unwrap();
    assert_eq!((rows_in(dir.path()), store.message_log.read().count()), (1, 1));
    for message in &messages {
        let refused = leader.insert(&store, [message_row(message)]).await.unwrap_err();
        assert!(refused.to_string().contains("exists already"), "{refused}");
    }
    drop(store);
    let store = Sqlite::open(dir.path(), options(Durability::Relaxed)).unwrap();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    for message in &messages {
        let refused = leader.insert(&store, [message_row(message)]).await.unwrap_err();
        assert!(refused.to_string().contains("exists already"), "after a restart: {refused}");
    }
}

#[tokio::test]
async fn a_backup_has_logged_messages_and_rows() {
    let (store, dir) = open_temporary();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    store.message_log.write().limit(SHORT_LOG);
    let messages = small(&mut leader, 20);
    for message in &messages {
        leader.insert(&store, [message_row(message)]).await.unwrap();
    }
    let copy = tempfile::tempdir().unwrap();
    let copy = copy.path().join("copy");
    backup(dir.path(), &copy).unwrap();
    assert!(rows_in(&copy) > 0);
    let restored = Sqlite::open(&copy, options(Durability::Full)).unwrap();
    assert!(restored.message_log.read().count() > 0);
    let line = restored.backlog(SHARD, QueueNumber(1), MessagePosition::START, 100).await.unwrap();
    assert_eq!(plain(&line), messages);
}

#[tokio::test]
async fn a_log_that_this_version_cannot_read_is_refused_and_not_passed_over() {
    let (store, dir) = open_temporary();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let messages = small(&mut leader, 3);
    leader.insert(&store, messages.iter().map(message_row)).await.unwrap();
    drop(store);
    for damage in ["substr(bytes, 1, length(bytes) - 1)", "x'09' || substr(bytes, 2)", "x''", "x'01ff'"] {
        let copy = as_if_killed(dir.path());
        let connection = Connection::open(copy.path().join("punctual.db")).unwrap();
        // It stays in the log, as after a kill.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
        connection.execute(&format!("UPDATE message_log SET bytes = CAST({damage} AS BLOB)"), []).unwrap();
        drop(connection);
        let before = contents(copy.path());
        let refused = refusal(copy.path());
        assert!(refused.contains("a log of messages"), "{damage}: {refused}");
        assert!(contents(copy.path()) == before, "{damage}: a store that was refused was changed");
    }
}

/// While messages are added, become rows and are removed, a reader sees every remaining message exactly once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_read_once_while_it_becomes_a_row() {
    let (store, _dir) = open_temporary();
    let mut leader = Leader::of(&store, SHARD).await.unwrap();
    let stays = small(&mut leader, 40);
    let (store, done) = (Arc::new(store), Arc::new(AtomicBool::new(false)));
    leader.insert(&*store, stays[..1].iter().map(message_row)).await.unwrap();
    store.message_log.write().limit(SHORT_LOG);
    let written = Arc::new(AtomicUsize::new(1));
    let writing = tokio::spawn({
        let (store, done, written, stays) =
            (Arc::clone(&store), Arc::clone(&done), Arc::clone(&written), stays.clone());
        async move {
            let mut others = VecDeque::new();
            for message in &stays[1..] {
                leader.insert(&*store, [message_row(message)]).await.unwrap();
                written.fetch_add(1, Ordering::Release);
                // They live long enough to become rows.
                for _ in 0..40 {
                    let some = small(&mut leader, 4);
                    let mut changes = inserts(some.iter().map(message_row));
                    others.push_back(some);
                    if others.len() > 3 {
                        let old: Vec<Message> = others.pop_front().unwrap_or_default();
                        old.iter().for_each(|message| changes.delete(message_row(message).key()));
                    }
                    leader.commit(&*store, changes).await.unwrap();
                }
            }
            done.store(true, Ordering::Release);
        }
    });
    let must = |what: &str, mut found: Vec<i64>, is_written: usize| {
        let count = found.len();
        found.sort_unstable();
        found.dedup();
        assert_eq!(found.len(), count, "{what}: one was read twice");
        let is_there = |message: &Message| found.binary_search(&message.id.number).is_ok();
        assert!(stays[..is_written].iter().all(is_there), "{what}: one was missed");
    };
    let numbers = |page: &[Arc<Message>]| page.iter().map(|message| message.id.number).collect::<Vec<_>>();
    while !done.load(Ordering::Acquire) {
        let is_written = written.load(Ordering::Acquire);
        let line = store.backlog(SHARD, QueueNumber(1), MessagePosition::START, 1000).await.unwrap();
        must("line", numbers(&line), is_written);
        let timers = store.due(SHARD, TimerPosition::START, 1000).await.unwrap();
        must("timers", numbers(&timers.messages), is_written);
        let wants = stays.iter().map(|message| (SHARD, Want::Message(message.id))).collect();
        must("by id", numbers(&store.fetch(wants).await.unwrap().messages), is_written);
    }
    writing.await.unwrap();
}
