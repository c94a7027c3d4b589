//! Messages: added, taken, acknowledged, and back in the line when they are not.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use punctual_core::Timestamp;
use punctual_core::change::{Row, RowKey};
use punctual_core::command::{Answer, Command};
use punctual_core::limits::{MESSAGE_BYTES_MAX, TAKE_BYTES_MAX};
use punctual_core::name::Namespace;
use punctual_core::queue::{
    Act, Acted, Add, Ask, Body, Delivered, Message, MessageId, MessageStatus, NewMessage, Notice, Pause,
    QueueKey, QueueRefusal, QueueStat, Said, Take, Verb, rank,
};
use punctual_engine::{Settings, Ticket};

use crate::support::{Rig, span};

fn key(name: &str) -> QueueKey {
    QueueKey { namespace: Namespace::default(), name: name.parse().expect("a name") }
}

fn message(body: &str) -> NewMessage {
    NewMessage {
        body: Body::from(body.as_bytes()),
        delay: Duration::ZERO,
        retry: span("30s"),
        ttl: span("1h"),
        priority: 4,
        max_len: None,
        key: None,
    }
}

/// A message that is delivered once at most.
fn once(body: &str) -> NewMessage {
    NewMessage { retry: Duration::ZERO, ..message(body) }
}

fn text(taken: &[Delivered]) -> Vec<String> {
    taken.iter().map(|one| String::from_utf8_lossy(&one.body).into_owned()).collect()
}

impl Rig {
    pub(crate) fn said(&mut self, ask: Ask) -> Said {
        match self.ask(Command::Queue(ask)) {
            Ok(Answer::Queue(said)) => said,
            other => panic!("{other:?}"),
        }
    }

    fn add_all(&mut self, messages: Vec<NewMessage>) -> Vec<Result<Notice, QueueRefusal>> {
        match self.said(Ask::Add(Add { queue: key("q"), messages })) {
            Said::Added(added) => added,
            other => panic!("{other:?}"),
        }
    }

    fn add(&mut self, message: NewMessage) -> MessageId {
        self.add_all(vec![message])[0].as_ref().expect("added").id
    }

    fn take(&mut self, count: u32) -> Vec<Delivered> {
        match self.said(Ask::Take(Take { queue: key("q"), count, waiter: None })) {
            Said::Taken(taken) => taken,
            other => panic!("{other:?}"),
        }
    }

    fn wait(&mut self, waiter: u64) -> Ticket {
        let take = Take { queue: key("q"), count: 10, waiter: Some(waiter) };
        let ticket = self.begin(Command::Queue(Ask::Take(take)));
        self.settle();
        ticket
    }

    /// What whoever waits has been given; none: it still waits.
    fn given(&self, ticket: Ticket) -> Option<Vec<String>> {
        match self.answer(ticket)? {
            Ok(Answer::Queue(Said::Taken(taken))) => Some(text(&taken)),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn act(&mut self, verb: Verb, id: MessageId) -> u64 {
        match self.said(Ask::Act(Act { namespace: Namespace::default(), verb, ids: vec![id] })) {
            Said::Acted(acted) => acted.count,
            other => panic!("{other:?}"),
        }
    }

    fn stat(&mut self) -> Option<QueueStat> {
        match self.said(Ask::Stat { queue: key("q") }) {
            Said::Stat(stat) => stat,
            other => panic!("{other:?}"),
        }
    }

    fn pause_queue(&mut self, pause: Pause) {
        assert_eq!(self.said(Ask::Pause { queue: key("q"), pause: Some(pause) }), Said::Paused(pause));
    }

    pub(crate) fn message_rows(&self) -> Vec<std::sync::Arc<Message>> {
        let rows = self.rows.all().filter_map(|row| match row {
            Row::Message(message) => Some(std::sync::Arc::clone(message)),
            _ => None,
        });
        rows.collect()
    }

    /// The queue's row counts its messages as the rows have them.
    fn check_counts(&self) {
        let rows = self.message_rows();
        let record = self.rows.all().find_map(|row| match row {
            Row::Queue(record) => Some((record.queued, record.messages)),
            _ => None,
        });
        let queued = rows.iter().filter(|message| message.is_queued()).count() as u64;
        assert_eq!(record.unwrap_or_default(), (queued, rows.len() as u64), "queued, messages");
    }
}

#[test]
fn messages_come_in_order_and_a_higher_priority_first() {
    let mut rig = Rig::new(0);
    for body in ["a", "b", "c"] {
        rig.add(message(body));
    }
    rig.add(NewMessage { priority: 9, ..message("urgent") });
    assert_eq!(text(&rig.take(3)), ["urgent", "a", "b"]);
    assert_eq!(text(&rig.take(3)), ["c"]);
    assert!(rig.take(3).is_empty());
}

#[test]
fn a_message_that_is_acknowledged_soon_is_one_row_that_came_and_went() {
    let mut rig = Rig::new(0);
    let id = rig.add(message("a"));
    let before = rig.batches.len();
    rig.take(1);
    assert_eq!(rig.batches.len(), before, "a delivery causes no commit");
    assert_eq!(rig.act(Verb::Ack, id), 1);
    assert_eq!(rig.act(Verb::Ack, id), 0, "once");
    assert!(rig.message_rows().is_empty());
    rig.advance("10s");
    rig.check_counts();
}

#[test]
fn a_delivery_is_written_within_a_second() {
    let mut rig = Rig::new(0);
    rig.add(message("a"));
    rig.take(1);
    rig.advance("1s");
    assert!(!rig.message_rows()[0].is_queued());
    rig.check_counts();
    rig.reload();
    assert!(rig.take(1).is_empty(), "it is still out");
    rig.advance("30s");
    assert_eq!(rig.take(1)[0].redeliveries, 1);
}

#[test]
fn what_is_not_acknowledged_comes_back_and_what_is_delivered_once_does_not() {
    let mut rig = Rig::new(0);
    rig.add(message("again"));
    let lost = rig.add(once("once"));
    assert_eq!(text(&rig.take(10)), ["again", "once"]);
    rig.reload();
    // What was delivered a moment before the crash comes at once; what may come once at most was known to be out.
    assert_eq!(text(&rig.take(10)), ["again"]);
    rig.advance("40s");
    assert_eq!(text(&rig.take(10)), ["again"]);
    assert_eq!((rig.act(Verb::Enqueue, lost), rig.act(Verb::Nack { delay: Duration::ZERO }, lost)), (0, 0));
    assert_eq!(rig.act(Verb::Return, lost), 1, "it never reached anyone");
    assert_eq!(text(&rig.take(10)), ["once"]);
    rig.advance("2h");
    assert!(rig.message_rows().is_empty(), "their life is over");
    rig.check_counts();
}

#[test]
fn a_delay_a_nack_and_an_enqueue_are_counted_as_they_should_be() {
    let mut rig = Rig::new(0);
    let id = rig.add(NewMessage { delay: span("10s"), ..message("a") });
    assert!(rig.take(1).is_empty());
    rig.advance("10s");
    let taken = rig.take(1);
    assert_eq!((taken[0].nacks, taken[0].redeliveries), (0, 0), "the first time");
    assert_eq!(rig.act(Verb::Nack { delay: Duration::ZERO }, id), 1);
    assert_eq!(rig.act(Verb::Nack { delay: Duration::ZERO }, id), 0, "it is in the line");
    let taken = rig.take(1);
    assert_eq!((taken[0].nacks, taken[0].redeliveries), (1, 0));
    assert_eq!(rig.act(Verb::Enqueue, id), 1);
    assert_eq!(rig.act(Verb::Dequeue, id), 1);
    assert!(rig.take(1).is_empty());
    assert_eq!(rig.act(Verb::Nack { delay: span("5s") }, id), 1);
    rig.advance("4s");
    assert!(rig.take(1).is_empty());
    rig.advance("1s");
    assert_eq!(rig.take(1).len(), 1);
}

#[test]
fn a_nack_with_a_delay_is_counted_once() {
    let mut rig = Rig::new(0);
    let id = rig.add(message("a"));
    rig.take(1);
    assert_eq!(rig.act(Verb::Nack { delay: span("5s") }, id), 1);
    rig.advance("5s");
    let taken = rig.take(1);
    assert_eq!((taken[0].nacks, taken[0].redeliveries), (1, 0));
    rig.advance("30s");
    let taken = rig.take(1);
    assert_eq!((taken[0].nacks, taken[0].redeliveries), (1, 1), "and a consumer that took too long is too");
}

#[test]
fn a_delay_that_ends_while_nothing_is_let_in_is_no_redelivery_either() {
    let mut rig = Rig::new(0);
    rig.add(NewMessage { delay: span("5s"), ..message("a") });
    rig.pause_queue(Pause { input: true, output: false });
    rig.advance("40s");
    rig.pause_queue(Pause::default());
    rig.advance("30s");
    let taken = rig.take(1);
    assert_eq!((taken[0].nacks, taken[0].redeliveries), (0, 0));
}

#[test]
fn whoever_waited_longest_is_served_first_with_one_message() {
    let mut rig = Rig::new(0);
    let (first, second, third) = (rig.wait(1), rig.wait(2), rig.wait(3));
    assert_eq!(
        rig.said(Ask::Unwait { queue: key("q"), waiter: 2 }),
        Said::Acted(punctual_core::queue::Acted { count: 1 })
    );
    assert_eq!(rig.given(second), Some(vec![]), "it no longer waits");
    rig.add_all(vec![message("a"), message("b"), message("c")]);
    assert_eq!(rig.given(first), Some(vec!["a".to_owned()]));
    assert_eq!(rig.given(third), Some(vec!["b".to_owned()]));
    assert_eq!(text(&rig.take(9)), ["c"]);
    let fourth = rig.wait(4);
    assert_eq!(rig.shards[0].dismiss(), [fourth]);
    rig.check_counts();
}

#[test]
fn a_paused_queue_blocks_and_wakes() {
    let mut rig = Rig::new(0);
    rig.add(message("a"));
    rig.pause_queue(Pause { input: true, output: true });
    assert_eq!(rig.add_all(vec![message("b")]), [Err(QueueRefusal::Paused)]);
    assert!(rig.take(1).is_empty());
    let waiting = rig.wait(1);
    rig.reload();
    let waiting_again = rig.wait(2);
    assert_eq!((rig.given(waiting), rig.given(waiting_again)), (None, None), "the pause is kept");
    rig.pause_queue(Pause::default());
    assert_eq!(rig.given(waiting_again), Some(vec!["a".to_owned()]));
}

#[test]
fn a_line_may_have_a_longest_length_and_a_key_makes_one_message() {
    let mut rig = Rig::new(0);
    let short = || NewMessage { max_len: Some(2), ..message("a") };
    let added = rig.add_all(vec![short(), short(), short()]);
    assert!(added[0].is_ok() && added[1].is_ok());
    assert_eq!(added[2], Err(QueueRefusal::TooLong(2)));
    let keyed = || NewMessage { key: Some("k".into()), ..message("keyed") };
    let first = rig.add(keyed());
    rig.reload();
    let again = rig.add_all(vec![keyed()])[0].clone().expect("found");
    assert_eq!((again.id, again.is_new), (first, false));
    assert_eq!(rig.act(Verb::Ack, first), 1);
    let anew = rig.add_all(vec![keyed(), keyed()]);
    let (made, found) = (anew[0].clone().expect("made"), anew[1].clone().expect("found"));
    assert!(made.is_new && made.id != first && !found.is_new && found.id == made.id);
    rig.advance("2h");
    assert!(rig.add_all(vec![keyed()])[0].clone().expect("made").is_new, "its life is over");
    rig.check_counts();
}

#[test]
fn an_empty_queue_that_nobody_uses_is_let_go() {
    let mut rig = Rig::new(0);
    let id = rig.add(message("a"));
    rig.act(Verb::Ack, id);
    rig.advance("4m");
    assert!(rig.rows.all().any(|row| matches!(row, Row::Queue(_))));
    rig.advance("3m");
    assert!(!rig.rows.all().any(|row| matches!(row, Row::Queue(_))));
    assert_eq!(rig.stat(), None);
    assert_eq!(rig.next_wake(), None, "nothing is left to look after");
}

#[test]
fn an_empty_queue_can_be_forgotten_at_once() {
    let mut rig = Rig::new(0);
    let forget = || Ask::Forget { queue: key("q") };
    let forgotten = |count| Said::Acted(Acted { count });
    assert_eq!(rig.said(forget()), forgotten(0), "there is none");
    let id = rig.add(message("a"));
    assert_eq!(rig.said(forget()), forgotten(0), "it has a message");
    rig.act(Verb::Ack, id);
    rig.said(Ask::Pause { queue: key("q"), pause: Some(Pause { input: true, output: true }) });
    assert_eq!(rig.said(forget()), forgotten(1), "paused or not");
    assert!(!rig.rows.all().any(|row| matches!(row, Row::Queue(_))));
    assert_eq!(rig.stat(), None);
    rig.add(message("b"));
    assert_eq!(text(&rig.take(1)), ["b"]);
    rig.check_counts();
}

#[test]
fn a_hundred_thousand_messages_do_not_stay_in_memory_and_come_in_order() {
    const ALL: usize = 100_000;
    let mut rig = Rig::new(0);
    for part in 0..100 {
        rig.add_all((0..1000).map(|index| message(&format!("{}", part * 1000 + index))).collect());
        assert!(rig.shards[0].messages_held() < 4_000, "{}", rig.shards[0].messages_held());
    }
    rig.reload();
    assert_eq!(rig.stat().map(|stat| stat.len), Some(ALL as u64));
    let mut next = 0;
    while next < ALL {
        let taken = rig.take(500);
        assert!(!taken.is_empty(), "{next} were taken");
        for one in &taken {
            assert_eq!(String::from_utf8_lossy(&one.body), next.to_string());
            next += 1;
        }
        let ids = taken.iter().map(|one| one.id).collect();
        rig.said(Ask::Act(Act { namespace: Namespace::default(), verb: Verb::Ack, ids }));
        assert!(rig.shards[0].messages_held() < 6_000, "{}", rig.shards[0].messages_held());
    }
    assert!(rig.take(1).is_empty() && rig.message_rows().is_empty());
    rig.check_counts();
}

#[test]
fn large_messages_are_taken_as_many_as_one_answer_may_bring_and_the_rest_stays_in_the_line() {
    const ALL: usize = 40;
    let large = |number: usize| format!("{number:02}{}", "x".repeat(MESSAGE_BYTES_MAX - 2));
    for is_paged in [false, true] {
        let mut rig = Rig::new(0);
        rig.add_all((0..ALL).map(|number| message(&large(number))).collect());
        if is_paged {
            rig.reload();
        }
        let mut next = 0;
        while next < ALL {
            if let Said::Peeked(Some(seen)) =
                rig.said(Ask::Peek { queue: key("q"), count: 1000, newest: false })
            {
                assert!(seen.len() * MESSAGE_BYTES_MAX <= TAKE_BYTES_MAX, "{} were seen", seen.len());
            }
            let taken = rig.take(1000);
            assert!(
                !taken.is_empty() && taken.len() * MESSAGE_BYTES_MAX <= TAKE_BYTES_MAX,
                "{}",
                taken.len()
            );
            for one in &taken {
                assert_eq!(one.body[..2], *format!("{next:02}").as_bytes());
                next += 1;
            }
            let left = (ALL - next) as u64;
            assert_eq!(rig.stat().map(|stat| stat.len), Some(left));
        }
        rig.check_counts();
    }
}

#[test]
fn a_leader_that_is_outdated_and_does_not_know_it_leaves_its_successors_messages_alone() {
    let mut rig = Rig::new(0);
    let id = rig.add(message("mine"));
    rig.reload();
    let mine = rig.rows.message(id).expect("a row");
    let theirs = MessageId { number: id.number + 1, ..id };
    let row = Message { id: theirs, body: Body::from(b"theirs".as_slice()), ..Message::clone(&mine) };
    let key = RowKey::Message(theirs.queue, row.position());
    rig.rows.put(theirs.shard(), &key, None, Some(Row::Message(row.into())));
    assert_eq!(text(&rig.take(10)), ["mine"]);
    assert_eq!(rig.act(Verb::Ack, theirs), 0);
}

#[test]
fn a_deep_line_is_flushed_piece_by_piece() {
    let mut rig = Rig::new(0);
    for _ in 0..5 {
        rig.add_all((0..1000).map(|_| message("x")).collect());
    }
    rig.reload();
    let mut flushed = 0;
    loop {
        match rig.said(Ask::Flush { queue: key("q"), limit: 700 }) {
            Said::Flushed(0) => break,
            Said::Flushed(count) => flushed += count,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(flushed, 5000);
    rig.check_counts();
}

/// Whoever looks at a line deeper than memory reads its rows: what was delivered must not stand there as if it waited.
#[test]
fn a_look_beyond_memory_has_every_delivery_written_before_it_is_answered() {
    let mut rig = Rig::new(0);
    for _ in 0..5 {
        rig.add_all((0..1000).map(|number| message(&number.to_string())).collect());
    }
    rig.reload();
    let taken = rig.take(3);
    let queued = |rig: &Rig| rig.message_rows().iter().filter(|row| row.is_queued()).count();
    assert_eq!((taken.len(), queued(&rig)), (3, 5000), "deliveries are written later");
    assert!(matches!(
        rig.said(Ask::Peek { queue: key("q"), count: 2, newest: false }),
        Said::Peeked(Some(_))
    ));
    assert_eq!(queued(&rig), 5000, "what memory knows costs nothing");
    for (count, newest) in [(1000, true), (4999, false)] {
        assert_eq!(rig.said(Ask::Peek { queue: key("q"), count, newest }), Said::Peeked(None));
        assert_eq!(queued(&rig), 4997);
    }
    rig.check_counts();
}

// ---- any history ------------------------------------------------------------------------------------------------

#[derive(Debug, Clone)]
enum Step {
    Add { priority: u8, delay: u64, retry: u64, ttl: u64, keyed: bool, max_len: bool },
    Take(u32),
    Wait,
    Act(Verb, usize),
    Pass(u64),
    Reload,
}

fn step() -> impl Strategy<Value = Step> {
    let verb = prop_oneof![
        3 => Just(Verb::Ack),
        1 => Just(Verb::Delete),
        1 => (0..3u64).prop_map(|delay| Verb::Nack { delay: Duration::from_secs(delay) }),
        1 => Just(Verb::Enqueue),
        1 => Just(Verb::Dequeue),
        1 => Just(Verb::Return),
    ];
    prop_oneof![
        6 => (0..3u8, 0..4u64, 0..6u64, 1..40u64, 0..8u8, 0..8u8).prop_map(|(priority, delay, retry, ttl, key, len)| {
            let delay = if delay == 3 { 2 } else { 0 };
            Step::Add { priority, delay, retry, ttl, keyed: key == 0, max_len: len == 0 }
        }),
        4 => (1..5u32).prop_map(Step::Take),
        1 => Just(Step::Wait),
        5 => (verb, any::<prop::sample::Index>()).prop_map(|(verb, which)| Step::Act(verb, which.index(1 << 20))),
        3 => (1..5u64).prop_map(Step::Pass),
        1 => Just(Step::Reload),
    ]
}

/// What messages should be: a list of them, and who waits.
#[derive(Debug, Default)]
struct Model {
    messages: Vec<Message>,
    waiting: VecDeque<Ticket>,
    given: Vec<(Ticket, MessageId)>,
}

impl Model {
    fn due(&mut self, now: Timestamp) {
        loop {
            self.messages.retain(|message| message.expires_at > now);
            let due = self
                .messages
                .iter_mut()
                .find(|message| message.status.back_at().is_some_and(|until| until <= now));
            let Some(message) = due else { return };
            let is_delayed = matches!(message.status, MessageStatus::Delayed { .. });
            message.redeliveries += u32::from(!is_delayed && !message.retry.is_zero());
            message.status = MessageStatus::Queued;
            self.serve(now);
        }
    }

    fn first(&mut self) -> Option<&mut Message> {
        let queued = self.messages.iter_mut().filter(|message| message.is_queued());
        queued.min_by_key(|message| (rank(message.priority), message.id.number))
    }

    fn take(&mut self, now: Timestamp) -> Option<MessageId> {
        let message = self.first()?;
        let until = (!message.retry.is_zero()).then(|| now + message.retry);
        message.status = MessageStatus::Active { until };
        Some(message.id)
    }

    fn serve(&mut self, now: Timestamp) {
        while !self.waiting.is_empty()
            && let Some(id) = self.take(now)
        {
            let ticket = self.waiting.pop_front().expect("somebody waits");
            self.given.push((ticket, id));
        }
    }

    fn act(&mut self, verb: Verb, id: MessageId, now: Timestamp) -> u64 {
        let Some(place) = self.messages.iter().position(|message| message.id == id) else { return 0 };
        let message = &mut self.messages[place];
        let is_delayed = matches!(message.status, MessageStatus::Delayed { .. });
        let is_queued = message.is_queued();
        let is_gone = message.status == (MessageStatus::Active { until: None });
        let counts = u32::from(!is_delayed && !message.retry.is_zero());
        match verb {
            Verb::Ack | Verb::Delete => drop(self.messages.remove(place)),
            Verb::Dequeue if is_queued => {
                let until = (!message.retry.is_zero()).then(|| now + message.retry);
                message.status = MessageStatus::Active { until };
            }
            Verb::Return if !is_queued => message.status = MessageStatus::Queued,
            Verb::Nack { delay } if !is_queued && !is_gone => {
                message.nacks += counts;
                message.status = if delay.is_zero() {
                    MessageStatus::Queued
                } else {
                    MessageStatus::Delayed { until: now + delay }
                };
            }
            Verb::Enqueue if !is_queued && !is_gone => {
                message.redeliveries += counts;
                message.status = MessageStatus::Queued;
            }
            _ => return 0,
        }
        self.serve(now);
        1
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Whatever is done to a queue, it is as a plain list of messages would be. A crash is told from a plan: the
    /// deliveries of the last second are written first, as on a stop.
    #[test]
    fn any_history_of_a_queue_is_that_of_a_plain_list(steps in proptest::collection::vec(step(), 1..120)) {
        let mut rig = Rig::with(1, 0, Settings { page: 4, ..Settings::default() });
        let mut model = Model::default();
        let mut known: Vec<MessageId> = Vec::new();
        let mut waiters = 0;
        for step in steps {
            let now = rig.now;
            match step {
                Step::Add { priority, delay, retry, ttl, keyed, max_len } => {
                    let new = NewMessage {
                        priority,
                        delay: Duration::from_secs(delay),
                        retry: Duration::from_secs(retry),
                        ttl: Duration::from_secs(ttl + delay),
                        key: keyed.then(|| "k".into()),
                        max_len: max_len.then_some(3),
                        ..message("x")
                    };
                    let len = model.messages.iter().filter(|message| message.is_queued()).count() as u64;
                    let bearer = model.messages.iter().find(|message| keyed && message.key.is_some());
                    let result = rig.add_all(vec![new.clone()])[0].clone();
                    match (bearer, result) {
                        (Some(bearer), Ok(notice)) => {
                            prop_assert_eq!((notice.id, notice.is_new), (bearer.id, false));
                        }
                        (None, Err(QueueRefusal::TooLong(3))) => prop_assert!(max_len && len >= 3),
                        (None, Ok(notice)) => {
                            prop_assert!(notice.is_new && !(max_len && len >= 3));
                            known.push(notice.id);
                            let until = now + new.delay;
                            let status = if delay == 0 { MessageStatus::Queued } else { MessageStatus::Delayed { until } };
                            model.messages.push(Message {
                                id: notice.id,
                                priority,
                                body: new.body,
                                created_at: now,
                                expires_at: now + new.ttl,
                                delay: new.delay,
                                retry: new.retry,
                                status,
                                nacks: 0,
                                redeliveries: 0,
                                key: new.key,
                                sender: None,
                            });
                            model.serve(now);
                        }
                        other => prop_assert!(false, "{:?}", other),
                    }
                }
                Step::Take(count) => {
                    let expected: Vec<MessageId> = (0..count).map_while(|_| model.take(now)).collect();
                    let taken: Vec<MessageId> = rig.take(count).iter().map(|one| one.id).collect();
                    prop_assert_eq!(taken, expected);
                }
                Step::Wait => {
                    waiters += 1;
                    let is_empty = model.first().is_none();
                    let ticket = rig.wait(waiters);
                    if is_empty {
                        model.waiting.push_back(ticket);
                    } else {
                        let expected: Vec<MessageId> = (0..10).map_while(|_| model.take(now)).collect();
                        model.given.extend(expected.into_iter().map(|id| (ticket, id)));
                    }
                }
                Step::Act(verb, which) if !known.is_empty() => {
                    let id = known[which % known.len()];
                    prop_assert_eq!(rig.act(verb, id), model.act(verb, id, now), "{:?} {:?}", verb, id);
                }
                Step::Act(..) => {}
                Step::Pass(seconds) => {
                    for _ in 0..seconds {
                        rig.advance("1s");
                        // What is due at this very instant is acted on, too.
                        rig.settle();
                        model.due(rig.now);
                    }
                }
                Step::Reload => {
                    rig.shards[0].hurry();
                    rig.settle();
                    rig.reload();
                    model.waiting.clear();
                }
            }
            for (ticket, id) in &model.given {
                let answer = rig.answer(*ticket);
                let Some(Ok(Answer::Queue(Said::Taken(taken)))) = &answer else {
                    return Err(TestCaseError::fail(format!("{answer:?}")));
                };
                prop_assert!(taken.iter().any(|one| one.id == *id), "{:?} {:?}", id, taken);
            }
            let stat = rig.stat().map(|stat| (stat.len, stat.messages, stat.waiting)).unwrap_or_default();
            let len = model.messages.iter().filter(|message| message.is_queued()).count() as u64;
            let expected = (len, model.messages.len() as u64, model.waiting.len() as u64);
            prop_assert_eq!(stat, expected);
            rig.check_counts();
        }
    }
}
