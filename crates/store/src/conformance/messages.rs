//! Messages of queues: their order, and their timers.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{Changes, Row, RowKey, TimerPosition, Want};
use punctual_core::ids::{RunId, Token};
use punctual_core::limits::{KEY_BYTES_MAX, MESSAGE_BYTES_MAX, PAGE_BYTES_MAX, PRIORITY_MAX};
use punctual_core::queue::{
    Body, Content, EndNotice, Ending, Message, MessageId, MessagePosition, MessageStatus, News, QueueKey,
    QueueNumber, Sender, Whereabouts,
};

use super::given::*;
use crate::{End, Error, Result, Store};

fn rows<'m>(messages: impl IntoIterator<Item = &'m Message>) -> Vec<Row> {
    messages.into_iter().map(message_row).collect()
}

pub(super) fn plain(messages: &[Arc<Message>]) -> Vec<Message> {
    messages.iter().map(|message| message.as_ref().clone()).collect()
}

fn in_order(mut messages: Vec<Message>) -> Vec<Message> {
    messages.sort_unstable_by_key(Message::position);
    messages
}

async fn fetched(store: &dyn Store, ids: &[MessageId]) -> Result<Vec<Message>> {
    let wants = ids.iter().map(|id| (id.shard(), Want::Message(*id)));
    Ok(in_order(plain(&store.fetch(wants.collect()).await?.messages)))
}

/// All queued messages of a queue, read in pages.
async fn backlog(store: &dyn Store, queue: u32, limit: usize) -> Result<Vec<Message>> {
    let (mut after, mut all) = (MessagePosition::START, Vec::new());
    loop {
        let page = store.backlog(SHARD, QueueNumber(queue), after, limit).await?;
        assert!(page.len() <= limit);
        match page.last() {
            Some(last) => after = last.position(),
            None => return Ok(all),
        }
        all.extend(plain(&page));
    }
}

/// The messages among the timers of a shard, read in pages.
async fn timers(store: &dyn Store, limit: usize) -> Result<Vec<MessageId>> {
    let (mut after, mut all) = (TimerPosition::START, Vec::new());
    while let page = store.due(SHARD, after, limit).await?
        && let Some(end) = page.end
    {
        after = end;
        all.extend(page.messages.iter().map(|message| message.id));
    }
    Ok(all)
}

/// Every field of a message is stored, from its smallest to its largest value.
pub async fn messages_read_back_as_they_were_written(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let short = leader.message(0, PRIORITY_MAX);
    let bare = Message {
        body: Body::from(Vec::new()),
        delay: Duration::ZERO,
        retry: Duration::ZERO,
        status: MessageStatus::Active { until: None },
        nacks: 0,
        redeliveries: 0,
        key: None,
        ..leader.message(u32::MAX, 0)
    };
    let odd = Message {
        created_at: Timestamp::MIN,
        expires_at: Timestamp::MAX,
        delay: Duration::from_micros(1),
        status: MessageStatus::Active { until: Some(at(1)) },
        nacks: u32::MAX,
        redeliveries: u32::MAX,
        key: Some("\0 ключ '\\".into()),
        ..leader.message(7, 5)
    };
    let sent = Message {
        status: MessageStatus::Delayed { until: at(1) },
        sender: Some(Sender { run: RunId(i64::MAX), token: Token(u64::MAX) }),
        ..leader.message(8, 5)
    };
    let longest = Message { key: Some("é".repeat(KEY_BYTES_MAX / 2).into()), ..leader.message(9, 5) };
    let messages = [short, bare, odd, sent, longest];
    leader.insert(store, rows(&messages)).await?;
    for message in messages {
        assert_eq!(fetched(store, &[message.id]).await?, [message]);
    }
    Ok(())
}

/// A notice to a sender (`EndNotice`) is among the timers at once, and is not listed with the messages of a queue.
pub async fn an_end_notice_is_a_timer_and_in_no_queue(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let message = leader.message(1, 5);
    let queue = leader.queue(store, 1);
    leader.insert(store, rows([&message])).await?;
    leader.insert(store, [Row::Queue(queue.clone())]).await?;
    let whereabouts = Whereabouts::of(message.id, message.ttl(), false);
    let news = News::Ended { whereabouts, ending: Ending::Acked };
    let sender = Sender { run: RunId(7), token: Token(9) };
    let content = Content::Attempt { sender, news };
    let notice = EndNotice { number: leader.message(1, 5).id.number, content }.row(NOW);
    leader.insert(store, rows([&notice])).await?;
    assert_eq!(timers(store, 10).await?.first(), Some(&notice.id));
    assert_eq!(fetched(store, &[notice.id]).await?, std::slice::from_ref(&notice));
    assert_eq!(plain(&store.messages(&queue.key, None, 10).await?), [message]);
    leader.delete(store, [RowKey::Message(notice.id.queue, notice.position())]).await?;
    assert!(fetched(store, &[notice.id]).await?.is_empty());
    Ok(())
}

/// An update changes the fields that may change: the state of the message, and how often it was delivered.
pub async fn an_updated_message_reads_back_as_it_is_now(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let message = leader.message(1, 5);
    leader.insert(store, rows([&message])).await?;
    let nacked = Message { nacks: 3, redeliveries: 4, ..active(&message, Some(at(77))) };
    leader.update(store, rows([&nacked])).await?;
    assert_eq!(fetched(store, &[message.id]).await?, [nacked]);
    Ok(())
}

pub async fn any_bytes_are_a_body(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let body = Body::from((0..=255).cycle().take(1000).collect::<Vec<u8>>());
    let message = Message { body, ..leader.message(1, 5) };
    leader.insert(store, rows([&message])).await?;
    assert_eq!(fetched(store, &[message.id]).await?, [message]);
    Ok(())
}

/// The largest allowed message, together with small ones.
pub async fn a_large_message_reads_back_whole(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let large = Body::from((0..=255).cycle().take(MESSAGE_BYTES_MAX).collect::<Vec<u8>>());
    let mut messages = vec![leader.message(1, 5), leader.message(1, 5), leader.message(1, 5)];
    messages[1].body = large;
    leader.insert(store, rows(&messages)).await?;
    assert!(backlog(store, 1, 10).await? == messages, "a backlog with a large message in it");
    leader.update(store, rows([&active(&messages[1], Some(at(5)))])).await?;
    assert_eq!(fetched(store, &[messages[1].id]).await?, [active(&messages[1], Some(at(5)))]);
    leader.delete(store, messages.iter().map(|message| message_row(message).key())).await?;
    assert_eq!(backlog(store, 1, 10).await?, []);
    Ok(())
}

/// A thousand large messages would not fit into memory: a page of them ends early, and nothing is lost.
pub async fn a_heavy_page_ends_early_and_loses_nothing(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let key = leader.queue(store, 1).key;
    leader.insert(store, [Row::Queue(leader.queue(store, 1))]).await?;
    let large = Body::from(vec![7; MESSAGE_BYTES_MAX]);
    let fit = PAGE_BYTES_MAX / MESSAGE_BYTES_MAX;
    let mut messages = Vec::new();
    for n in 0..fit + 3 {
        let priority = if n < fit / 2 { 6 } else { 5 };
        messages.push(Message { body: large.clone(), ..leader.message(1, priority) });
        leader.insert(store, rows(&messages[n..])).await?;
    }
    let small = leader.ad_hoc(messages[0].wake_at());
    leader.insert(store, [run_row(&small)]).await?;
    let ids: Vec<MessageId> = messages.iter().map(|message| message.id).collect();
    let of = |page: &[Arc<Message>]| page.iter().map(|message| message.id).collect::<Vec<_>>();

    let first = store.backlog(SHARD, QueueNumber(1), MessagePosition::START, 1000).await?;
    assert_eq!(of(&first), ids[..fit]);
    let rest = store.backlog(SHARD, QueueNumber(1), messages[fit - 1].position(), 1000).await?;
    assert_eq!(of(&rest), ids[fit..]);
    let listed = store.messages(&key, None, 1000).await?;
    assert_eq!(of(&listed), ids[..fit]);
    assert_eq!(of(&store.queued_messages(&key, End::First, 1000).await?), ids[..fit]);
    let backwards: Vec<MessageId> = ids.iter().rev().copied().collect();
    assert_eq!(of(&store.queued_messages(&key, End::Last, 1000).await?), backwards[..fit]);

    let page = store.due(SHARD, TimerPosition::START, 1000).await?;
    assert_eq!((of(&page.messages), page.runs.len()), (ids[..fit].to_vec(), 0));
    let end = page.end.expect("there are timers");
    let page = store.due(SHARD, end, 1000).await?;
    assert_eq!((of(&page.messages), page.runs.len()), (ids[fit..].to_vec(), 1));
    Ok(())
}

/// A higher priority comes first, and within a priority the older message.
pub async fn a_backlog_goes_by_priority_and_then_by_age(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut messages: Vec<Message> =
        (0..30).map(|n| leader.message(1, (n * 7) % (PRIORITY_MAX + 1))).collect();
    leader.insert(store, rows(messages.iter().rev())).await?;
    messages.sort_by_key(|message| (PRIORITY_MAX - message.priority, message.id.number));
    assert_eq!(backlog(store, 1, 100).await?, messages);
    assert_eq!(backlog(store, 1, 1).await?, messages);
    assert_eq!(backlog(store, 1, 7).await?, messages);
    Ok(())
}

/// The messages of a queue are apart from those of a queue with the same number in another shard.
pub async fn queues_do_not_share_messages(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut other = Leader::of(store, OTHER).await?;
    let (first, second) = (leader.message(1, 5), leader.message(2, 5));
    let theirs = other.message(1, 5);
    leader.insert(store, rows([&first, &second])).await?;
    other.insert(store, rows([&theirs])).await?;
    assert_eq!(backlog(store, 1, 10).await?, [first]);
    assert_eq!(backlog(store, 2, 10).await?, [second]);
    assert_eq!(backlog(store, 3, 10).await?, []);
    assert_eq!(plain(&store.backlog(OTHER, QueueNumber(1), MessagePosition::START, 10).await?), [theirs]);
    Ok(())
}

/// A message that is active or delayed is not queued, until it comes back.
pub async fn a_backlog_leaves_out_active_messages(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut messages: Vec<Message> = (0..20).map(|n| leader.message(1, n % 2)).collect();
    for n in (0..20).step_by(3) {
        messages[n] = active(&messages[n], (n % 2 == 0).then(|| at(100)));
    }
    leader.insert(store, rows(&messages)).await?;
    let queued = |messages: &[Message]| {
        in_order(messages.iter().filter(|message| message.is_queued()).cloned().collect())
    };
    for limit in [1, 3, 100] {
        assert_eq!(backlog(store, 1, limit).await?, queued(&messages));
    }
    messages[0].status = MessageStatus::Queued;
    messages[1] = active(&messages[1], None);
    leader.update(store, rows(&messages[..2])).await?;
    assert_eq!(backlog(store, 1, 100).await?, queued(&messages));
    Ok(())
}

/// Messages are added and removed between two pages; every message that stays is seen once.
pub async fn pages_of_a_backlog_neither_skip_nor_repeat(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let messages: Vec<Message> = (0..10).map(|_| leader.message(1, 5)).collect();
    leader.insert(store, rows(&messages)).await?;
    let first = store.backlog(SHARD, QueueNumber(1), MessagePosition::START, 4).await?;
    assert_eq!(plain(&first), messages[..4]);
    let late = leader.message(1, 5);
    let mut changes = deletes(messages[..5].iter().map(|message| message_row(message).key()));
    changes.insert(message_row(&late));
    leader.commit(store, changes).await?;
    let rest = store.backlog(SHARD, QueueNumber(1), messages[3].position(), 100).await?;
    assert_eq!(plain(&rest), [&messages[5..], &[late]].concat());
    Ok(())
}

/// Timers of jobs, runs and messages are in one order, with any page size.
pub async fn messages_are_timers_among_jobs_and_runs(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let mut expected = Vec::new();
    for n in 0..12 {
        // Three of each kind share one instant.
        let when = at(n / 3 * 100);
        let mut job = leader.job(&format!("job-{n}"));
        job.cursor.wake_at = Some(when);
        let run = leader.ad_hoc(when);
        let waiting = Message { expires_at: when, ..leader.message(1, u8::try_from(n % 3).unwrap_or(0)) };
        let delayed = active(&leader.message(2, 5), Some(when));
        let ids = [job.id.0, run.id.0, waiting.id.number, delayed.id.number];
        expected.extend(ids.map(|id| TimerPosition { at: when, id }));
        let messages = [message_row(&waiting), message_row(&delayed)];
        leader.insert(store, [job_row(&job), run_row(&run)].into_iter().chain(messages)).await?;
    }
    expected.sort_unstable();
    for limit in [1, 2, 5, 1000] {
        let (mut after, mut all) = (TimerPosition::START, Vec::new());
        while let page = store.due(SHARD, after, limit).await?
            && let Some(end) = page.end
        {
            let jobs = page.jobs.iter().map(|job| (job.cursor.wake_at.unwrap_or(NOW), job.id.0));
            let runs = page.runs.iter().map(|record| (record.run.due, record.run.id.0));
            let messages = page.messages.iter().map(|message| (message.wake_at(), message.id.number));
            let all_three = jobs.chain(runs).chain(messages);
            let mut places: Vec<_> = all_three.map(|(at, id)| TimerPosition { at, id }).collect();
            places.sort_unstable();
            assert_eq!(places.last(), Some(&end), "a page ends with its last timer");
            all.extend(places);
            after = end;
        }
        assert_eq!(all, expected, "{limit} a page");
    }
    Ok(())
}

/// A message that is postponed is only at its new place among the timers.
pub async fn a_message_that_is_put_off_moves_among_the_timers(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (first, second) = (leader.message(1, 5), leader.message(1, 5));
    let (first, second) = (active(&first, Some(at(10))), active(&second, Some(at(20))));
    leader.insert(store, rows([&first, &second])).await?;
    assert_eq!(timers(store, 1).await?, [first.id, second.id]);
    leader.update(store, rows([&active(&first, Some(at(30)))])).await?;
    assert_eq!(timers(store, 1).await?, [second.id, first.id]);
    // A queued message wakes only to expire.
    leader.update(store, rows([&Message { status: MessageStatus::Queued, ..second.clone() }])).await?;
    assert_eq!(timers(store, 1).await?, [first.id, second.id]);
    leader.delete(store, [message_row(&first).key()]).await?;
    assert_eq!(timers(store, 1).await?, [second.id]);
    Ok(())
}

/// An id has the queue and the number, not the priority.
pub async fn a_message_is_found_whatever_its_priority(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let messages: Vec<Message> =
        (0..=PRIORITY_MAX).flat_map(|n| [leader.message(1, n), leader.message(2, n)]).collect();
    leader.insert(store, rows(&messages)).await?;
    for message in &messages {
        assert_eq!(fetched(store, &[message.id]).await?, std::slice::from_ref(message));
    }
    let strangers = [
        MessageId { queue: QueueNumber(3), ..messages[0].id },
        MessageId { number: messages[0].id.number + 1, queue: QueueNumber(2) },
        MessageId { number: 0, ..messages[0].id },
    ];
    let found = fetched(store, &strangers[..1]).await?;
    assert_eq!(found, []);
    let all: Vec<MessageId> = messages.iter().map(|message| message.id).chain([strangers[2]]).collect();
    assert_eq!(fetched(store, &all).await?, in_order(messages));
    Ok(())
}

/// A message can be inserted once and deleted once; a second time is refused.
pub async fn a_message_comes_once_and_goes_once(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let (message, missing) = (leader.message(1, 5), leader.message(1, 5));
    leader.insert(store, rows([&message])).await?;
    let refused = [
        inserts(rows([&leader.message(1, 5), &message])),
        updates(rows([&message, &missing])),
        deletes([message_row(&message).key(), message_row(&missing).key()]),
    ];
    for changes in refused {
        let result = leader.commit(store, changes).await;
        assert!(matches!(&result, Err(Error::Refused { shard: SHARD, .. })), "{result:?}");
        assert_eq!(backlog(store, 1, 10).await?, std::slice::from_ref(&message));
    }
    leader.delete(store, [message_row(&message).key()]).await?;
    assert_eq!(backlog(store, 1, 10).await?, []);
    Ok(())
}

pub async fn an_outdated_leader_writes_no_message(store: &dyn Store) -> Result<()> {
    let mut old = Leader::of(store, SHARD).await?;
    let message = old.message(1, 5);
    let queue = old.queue(store, 1);
    old.insert(store, [Row::Queue(queue.clone()), message_row(&message)]).await?;
    let new = Leader::of(store, SHARD).await?;
    let late = [
        inserts(rows([&old.message(1, 5)])),
        updates(rows([&active(&message, None)])),
        deletes([message_row(&message).key()]),
        deletes([RowKey::Queue(queue.number)]),
    ];
    for changes in late {
        let result = old.commit(store, changes).await;
        assert!(matches!(result, Err(Error::Fenced { shard: SHARD, .. })), "{result:?}");
    }
    assert_eq!(backlog(store, 1, 10).await?, [message]);
    assert_eq!(new.load(store).await?.queues, [queue]);
    Ok(())
}

/// All messages of a queue by its name, queued or not.
pub async fn messages_are_listed_in_the_order_of_their_places(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let queue = leader.queue(store, 6);
    let mut messages: Vec<Message> = (0..20).map(|n| leader.message(6, n % 4)).collect();
    messages[3] = active(&messages[3], None);
    messages[8] = active(&messages[8], Some(at(5)));
    let beside = leader.message(7, 9);
    leader.insert(store, [Row::Queue(queue.clone()), message_row(&beside)]).await?;
    leader.insert(store, rows(&messages)).await?;
    let messages = in_order(messages);
    assert_eq!(plain(&store.messages(&queue.key, None, 100).await?), messages);
    let mut all = Vec::new();
    while let page = store.messages(&queue.key, all.last().map(Message::position), 3).await?
        && !page.is_empty()
    {
        all.extend(plain(&page));
    }
    assert_eq!(all, messages);
    let nobody = QueueKey { namespace: namespace("nobody"), ..queue.key };
    assert_eq!(store.messages(&nobody, None, 100).await?, []);
    Ok(())
}

/// The queued messages are listed from either end, as last committed.
pub async fn queued_messages_are_listed_from_both_ends(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let queue = leader.queue(store, 6);
    let mut messages: Vec<Message> = (0..20).map(|n| leader.message(6, n % 4)).collect();
    messages[3] = active(&messages[3], None);
    messages[8] = active(&messages[8], Some(at(5)));
    let beside = leader.message(7, 0);
    leader.insert(store, [Row::Queue(queue.clone()), message_row(&beside)]).await?;
    leader.insert(store, rows(&messages)).await?;
    let gone = messages.pop().expect("there are twenty");
    leader.commit(store, deletes([message_row(&gone).key()])).await?;
    let mut queued = in_order(messages.into_iter().filter(Message::is_queued).collect());
    for limit in [0, 1, 7, 100] {
        let seen = plain(&store.queued_messages(&queue.key, End::First, limit).await?);
        assert_eq!(seen, queued[..limit.min(queued.len())]);
    }
    queued.reverse();
    for limit in [0, 1, 7, 100] {
        let seen = plain(&store.queued_messages(&queue.key, End::Last, limit).await?);
        assert_eq!(seen, queued[..limit.min(queued.len())]);
    }
    let nobody = QueueKey { namespace: namespace("nobody"), ..queue.key };
    assert_eq!(store.queued_messages(&nobody, End::Last, 100).await?, []);
    Ok(())
}

/// One batch inserts a thousand messages, the next updates half of them and deletes the rest.
pub async fn a_thousand_messages_come_and_go_in_a_batch(store: &dyn Store) -> Result<()> {
    let mut leader = Leader::of(store, SHARD).await?;
    let messages: Vec<Message> = (0..1000).map(|_| leader.message(1, 5)).collect();
    leader.insert(store, rows(&messages)).await?;
    assert_eq!(backlog(store, 1, 300).await?, messages);
    assert_eq!(timers(store, 300).await?.len(), 1000);
    let mut changes = Changes::default();
    let mut taken = Vec::new();
    for pair in messages.chunks(2) {
        changes.delete(message_row(&pair[0]).key());
        taken.push(active(&pair[1], Some(at(9))));
    }
    rows(&taken).into_iter().for_each(|row| changes.update(row));
    leader.commit(store, changes).await?;
    assert_eq!(backlog(store, 1, 300).await?, []);
    let ids: Vec<MessageId> = messages.iter().map(|message| message.id).collect();
    assert_eq!(fetched(store, &ids).await?, taken);
    assert_eq!(timers(store, 300).await?.len(), 500);
    Ok(())
}
