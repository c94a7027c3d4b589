//! Queues with settings: how many messages are out at once, how often, and where unacknowledged messages go.

use std::time::Duration;

use punctual_core::job::limit::Rate;
use punctual_core::job::{Definition, Overlap};
use punctual_core::limits::{DEAD_LETTER_TTL, DEAD_MESSAGES_MAX};
use punctual_core::queue::{
    Acted, Ask, Body, DeadMessage, END_NOTICES, NewMessage, QueueKey, QueueRefusal, QueueSettings, Said,
    Take, Verb,
};
use punctual_core::schedule::{Schedule, When};
use punctual_core::topic::{OnEvent, Topic};
use punctual_engine::{Event, Settings};

use super::{key, message, once, text};
use crate::support::{Rig, every, on, span};

const NACK: Verb = Verb::Nack { delay: Duration::ZERO };

/// Two shards, and the queue `q` with settings.
fn rig(settings: QueueSettings) -> Rig {
    let mut rig = Rig::with(2, 0, Settings::default());
    rig.set(settings);
    rig
}

/// The dead-letter queue of `q`, in the other shard.
fn dead() -> QueueKey {
    let mut keys = (0..).map(|number| key(&format!("dead {number}")));
    keys.find(|dead| dead.shard(2) != key("q").shard(2)).expect("there are many names")
}

fn running(most: u32) -> QueueSettings {
    QueueSettings { running: Some(most), ..QueueSettings::default() }
}

/// One message in ten seconds.
fn slow() -> QueueSettings {
    let rate = Rate { count: 1, span: span("10s"), burst: 1 };
    QueueSettings { rate: Some(rate), ..QueueSettings::default() }
}

/// A job that the messages of the queue `q` start.
fn listening() -> Definition {
    let event = OnEvent { topic: Topic::Queue(key("q").name), when: None, key: None, gather: None };
    Definition { overlap: Overlap::Allow, ..on([Schedule::new(When::Event(Box::new(event)))]) }
}

fn with_dead_letters(max_deliveries: Option<u32>) -> QueueSettings {
    QueueSettings { max_deliveries, dead_letter: Some(dead().name), ..QueueSettings::default() }
}

impl Rig {
    fn set(&mut self, settings: QueueSettings) {
        let set = Ask::Set { queue: key("q"), settings: Box::new(settings) };
        assert_eq!(self.said(set), Said::Acted(Acted { count: 1 }));
    }

    fn take_dead(&mut self) -> Vec<String> {
        match self.said(Ask::Take(Take { queue: dead(), count: 100, waiter: None })) {
            Said::Taken(taken) => text(&taken),
            other => panic!("{other:?}"),
        }
    }

    fn unacked(&mut self) -> u64 {
        self.stat().map_or(0, |stat| stat.unacked)
    }

    /// How many timers of the shard of the queue pass within a minute.
    fn timers_in_a_minute(&mut self) -> usize {
        let (shard, end) = (key("q").shard(2), self.now + span("1m"));
        let mut timers = 0;
        while let Some(wake) = self.next_wake().filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            let now = self.elapsed();
            while self.shards[usize::from(shard.0)].next_deadline().is_some_and(|at| at <= now) {
                self.apply(shard, Event::Tick { limit: 1 });
                timers += 1;
            }
            self.settle();
        }
        timers
    }
}

#[test]
fn no_more_messages_are_out_than_running_allows() {
    let mut rig = rig(running(2));
    let ids = ["a", "b", "c", "d"].map(|body| rig.add(message(body)));
    assert_eq!(text(&rig.take(10)), ["a", "b"]);
    assert!(rig.take(10).is_empty());
    rig.reload();
    assert!(rig.take(10).is_empty(), "the deliveries were written");
    let waiting = [rig.wait(1), rig.wait(2)];
    assert_eq!(rig.act(Verb::Ack, ids[1]), 1);
    assert_eq!(rig.given(waiting[0]), Some(vec!["c".to_owned()]));
    assert_eq!(rig.given(waiting[1]), None);
    assert_eq!(rig.act(Verb::Nack { delay: span("5s") }, ids[0]), 1);
    assert_eq!(rig.given(waiting[1]), Some(vec!["d".to_owned()]), "a message that waits is not out");
    assert_eq!(rig.unacked(), 2);
    rig.check_counts();
}

#[test]
fn one_at_a_time_keeps_the_order_over_all_consumers() {
    let mut rig = rig(running(1));
    let ids = ["a", "b"].map(|body| rig.add(message(body)));
    assert_eq!(text(&rig.take(1)), ["a"]);
    let waiting = rig.wait(1);
    rig.advance("30s");
    assert_eq!(rig.given(waiting), Some(vec!["a".to_owned()]), "its time was over, and it is first again");
    assert!(rig.take(1).is_empty());
    assert_eq!(rig.act(Verb::Ack, ids[0]), 1);
    assert_eq!(text(&rig.take(1)), ["b"]);
}

#[test]
fn a_message_that_is_queued_again_cannot_be_kept_out_of_a_full_queue() {
    let mut rig = rig(running(1));
    let late = rig.add(NewMessage { priority: 1, ..message("late") });
    rig.take(1);
    rig.advance("30s");
    rig.add(NewMessage { priority: 9, ..message("urgent") });
    assert_eq!(text(&rig.take(1)), ["urgent"]);
    let working = Ask::Working { namespace: key("q").namespace, id: late };
    assert_eq!(rig.said(working), Said::Refused(QueueRefusal::Full));
    assert_eq!(rig.act(Verb::Dequeue, late), 0);
    let delayed = rig.add(NewMessage { delay: span("1m"), ..message("delayed") });
    let working = Ask::Working { namespace: key("q").namespace, id: delayed };
    assert_eq!(rig.said(working), Said::Refused(QueueRefusal::Full), "a consumer must take it first");
    assert_eq!(rig.unacked(), 1);
}

#[test]
fn a_rate_spreads_deliveries_also_over_a_reload() {
    let mut rig = rig(slow());
    rig.add_all(["a", "b", "c"].map(message).to_vec());
    assert_eq!(text(&rig.take(10)), ["a"]);
    assert!(rig.take(10).is_empty());
    rig.reload();
    let waiting = rig.wait(1);
    rig.advance("9s");
    assert_eq!(rig.given(waiting), None);
    rig.advance("1s");
    assert_eq!(rig.given(waiting), Some(vec!["b".to_owned()]));
    rig.set(running(5));
    assert_eq!(text(&rig.take(10)), ["c"], "without a rate at once");
}

#[test]
fn a_rate_goes_on_starting_jobs_after_a_reload() {
    let mut rig = Rig::with(2, 0, Settings { page: 4, ..Settings::default() });
    // Their timers fill the first page, so that it brings no message.
    for number in 0..20 {
        rig.put(&format!("other-{number}"), on([every("1m")]));
    }
    rig.set(slow());
    rig.put("job", listening());
    rig.run_requests();
    rig.add_all(["a", "b", "c"].map(message).to_vec());
    rig.run_requests();
    rig.reload();
    rig.advance("9s");
    rig.run_requests();
    assert_eq!(rig.runs("job").len(), 1);
    rig.advance("1s");
    rig.run_requests();
    assert_eq!(rig.runs("job").len(), 2);
}

#[test]
fn repeated_settings_add_no_timers() {
    let hold = QueueSettings { hold: Some(span("10s")), ..QueueSettings::default() };
    for settings in [slow(), hold] {
        let timers = |repeats: usize| {
            let mut rig = rig(settings.clone());
            if settings.rate.is_some() {
                rig.put("job", listening());
                rig.run_requests();
            }
            rig.add_all(vec![message("a"); 20]);
            rig.advance("15s");
            (0..repeats).for_each(|_| rig.set(settings.clone()));
            // The timers that were replaced pass once.
            rig.advance("15s");
            rig.timers_in_a_minute()
        };
        assert_eq!(timers(0), timers(9));
    }
}

#[test]
fn a_held_message_joins_later_and_the_first_goes_to_the_end() {
    let mut rig = rig(QueueSettings { hold: Some(span("10s")), ..QueueSettings::default() });
    rig.add(message("a"));
    rig.advance("2s");
    rig.add_all(["b", "c"].map(message).to_vec());
    rig.add(NewMessage { delay: span("1m"), ..message("delayed") });
    rig.advance("7s");
    assert!(rig.take(1).is_empty());
    rig.advance("5s");
    let Said::Peeked(Some(seen)) = rig.said(Ask::Peek { queue: key("q"), count: 9, newest: false }) else {
        panic!("all are in memory");
    };
    assert_eq!(text(&seen), ["a", "b", "c"]);
    // `a` is first from 10s on, and is put off at 20s.
    rig.advance("7s");
    assert_eq!(text(&rig.take(1)), ["b"]);
    assert_eq!(text(&rig.take(9)), ["c", "a"]);
    rig.advance("45s");
    rig.check_counts();
}

#[test]
fn the_only_message_stays_first() {
    let mut rig = rig(QueueSettings { hold: Some(span("1s")), ..QueueSettings::default() });
    let id = rig.add(message("a"));
    rig.advance("1m");
    assert_eq!(rig.take(1)[0].id, id);
}

#[test]
fn a_message_that_was_delivered_too_often_is_moved_once() {
    let mut rig = rig(with_dead_letters(Some(3)));
    let id = rig.add(NewMessage { key: Some("k".into()), ..message("a") });
    for _ in 0..2 {
        assert_eq!(rig.take(1).len(), 1);
        assert_eq!(rig.act(NACK, id), 1);
    }
    assert_eq!(rig.take(1).len(), 1);
    rig.advance("30s");
    assert!(rig.take(1).is_empty());
    assert_eq!(rig.act(Verb::Ack, id), 0, "it is gone");
    assert_eq!(rig.message_rows()[0].id.queue, END_NOTICES);
    rig.reload();
    rig.run_requests();
    assert_eq!(rig.take_dead(), ["a"]);
    assert_eq!(rig.message_rows().len(), 1, "the notice has gone");
    let stat = rig.stat().expect("a queue with settings");
    assert_eq!((stat.messages, stat.unacked), (0, 0));
    let anew = rig.add_all(vec![NewMessage { key: Some("k".into()), ..message("b") }]);
    assert!(anew[0].as_ref().expect("added").is_new, "its key is free");
}

#[test]
fn a_dead_letter_that_is_sent_again_is_not_added_again() {
    let mut rig = Rig::with(2, 0, Settings::default());
    let mut add = || {
        let message = NewMessage { body: Body::from(&b"a"[..]), ttl: DEAD_LETTER_TTL, ..message("a") };
        let dead = Box::new(DeadMessage { queue: dead(), message });
        let said = rig.said(Ask::AddDead { notice: 7, dead });
        rig.reload();
        said
    };
    assert_eq!(add(), Said::Acted(Acted { count: 1 }));
    assert_eq!(add(), Said::Acted(Acted { count: 0 }));
    assert_eq!(rig.take_dead(), ["a"]);
}

#[test]
fn an_expired_message_is_moved_unless_it_may_have_been_handled() {
    let mut rig = rig(with_dead_letters(None));
    rig.add(once("handled"));
    rig.take(1);
    rig.add(once("handled too"));
    rig.add(message("a"));
    rig.take(2);
    rig.add(once("late"));
    rig.advance("1h");
    rig.run_requests();
    let mut moved = rig.take_dead();
    moved.sort();
    assert_eq!(moved, ["a", "late"]);
    let stat = rig.stat().expect("a queue with settings");
    assert_eq!((stat.expired, stat.dead, stat.messages), (4, 2, 0));
}

#[test]
fn messages_stay_while_too_many_others_are_on_their_way() {
    let mut rig = rig(with_dead_letters(Some(1)));
    for _ in 0..=DEAD_MESSAGES_MAX {
        rig.add(NewMessage { ttl: span("1m"), ..message("a") });
    }
    rig.advance("1m");
    let stat = rig.stat().expect("a queue with settings");
    assert_eq!((stat.messages, stat.expired), (1, DEAD_MESSAGES_MAX as u64));
    rig.run_requests();
    rig.advance("11s");
    rig.run_requests();
    assert_eq!(rig.stat().map(|stat| stat.messages), Some(0));
    rig.check_counts_of_dead(DEAD_MESSAGES_MAX + 1);
}

impl Rig {
    fn check_counts_of_dead(&mut self, count: usize) {
        let Said::Stat(Some(stat)) = self.said(Ask::Stat { queue: dead() }) else {
            panic!("no dead letters")
        };
        assert_eq!((stat.len, stat.messages), (count as u64, count as u64));
    }
}

#[test]
fn a_queue_keeps_its_settings_until_they_are_removed() {
    let mut rig = rig(running(3));
    rig.advance("10m");
    rig.reload();
    let settings = rig.stat().and_then(|stat| stat.settings);
    assert_eq!(settings.as_deref(), Some(&running(3)));
    rig.set(QueueSettings::default());
    rig.advance("10m");
    assert_eq!(rig.stat(), None, "an unused queue is let go");
}
