//! Messages: added, taken, acknowledged, and back in the queue when they are not.

mod any_history;
mod paging;
mod settings;

use std::time::Duration;

use punctual_core::change::Row;
use punctual_core::command::{Answer, Command};
use punctual_core::name::Namespace;
use punctual_core::queue::{
    Act, Acted, Add, Ask, Body, Delivered, Message, MessageId, NewMessage, Notice, Pause, QueueKey,
    QueueRefusal, QueueStat, Said, Take, Verb,
};
use punctual_engine::Ticket;

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

    /// The messages that a waiting consumer got. `None` means it still waits.
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
            Row::Queue(record) => Some((record.queued, record.messages, record.unacked)),
            _ => None,
        });
        let queued = rows.iter().filter(|message| message.is_queued()).count() as u64;
        let unacked = rows.iter().filter(|message| message.is_unacked()).count() as u64;
        let counts = (queued, rows.len() as u64, unacked);
        assert_eq!(record.unwrap_or_default(), counts, "queued, messages, unacknowledged");
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
fn only_a_message_with_retry_is_redelivered() {
    let mut rig = Rig::new(0);
    rig.add(message("again"));
    let lost = rig.add(once("once"));
    assert_eq!(text(&rig.take(10)), ["again", "once"]);
    rig.reload();
    // The delivery just before the crash was not written, so its message comes at once. The delivery of the message
    // without retry was written first.
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
    assert_eq!(rig.act(Verb::Nack { delay: Duration::ZERO }, id), 0, "it is queued already");
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
fn the_longest_waiting_consumer_is_served_first() {
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
fn a_queue_has_a_maximum_length_and_a_key_makes_one_message() {
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
