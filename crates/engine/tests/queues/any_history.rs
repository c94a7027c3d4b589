//! Any history of a queue, compared with a plain list of messages.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use punctual_core::Timestamp;
use punctual_core::command::Answer;
use punctual_core::queue::{Message, MessageId, MessageStatus, NewMessage, QueueRefusal, Said, Verb, rank};
use punctual_engine::{Settings, Ticket};

use super::message;
use crate::support::Rig;

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
            let ticket = self.waiting.pop_front().expect("a consumer waits");
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

    /// After any sequence of commands, a queue equals a plain list of messages. Before a crash the deliveries of the last
    /// second are written, as on a stop.
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
