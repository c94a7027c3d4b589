//! What producers and consumers do with queues. They use random numbers of their own, so a world without queues is not
//! changed by them.
//!
//! They use every kind of message, on few queues and with few keys, so that keys collide. The body of each message is a
//! unique number. One queue grows longer than the part that is kept in memory before a consumer takes from it, and one
//! queue is never consumed. In half of the worlds one more queue has settings, and a dead-letter queue.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::job::limit::Rate;
use punctual_core::name::Namespace;
use punctual_core::queue::{Act, Add, Ask, Body, MessageId, NewMessage, QueueKey, QueueSettings, Verb};

use crate::dice::Dice;

/// The number of queues that are consumed. One more queue is not.
const QUEUES: usize = 4;
/// The queue with settings, and its dead-letter queue, which is not consumed either.
const LIMITED: usize = QUEUES + 1;
const DEAD: usize = QUEUES + 2;
/// The queue that grows long, and the time until which it is not consumed.
const DEEP: usize = 0;
const DEEP_UNTIL: u64 = 100_000;
/// Messages in one add to it, and the number of such adds: together more than is kept in memory of a queue that is not
/// consumed.
const BURST: u64 = 40;
const BURSTS: u64 = 6;

#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) dice: Dice,
    pub(crate) consumers: usize,
    /// Consumers continue to take messages.
    pub(crate) is_open: bool,
    /// Maximum time between two adds.
    add_gap: u64,
    flushes: bool,
    bursts: u64,
    /// `None` means that no queue of this world has settings.
    settings: Option<QueueSettings>,
    /// The last number given to a message.
    last: u64,
}

/// A take that a consumer wants.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    pub(crate) queue: QueueKey,
    pub(crate) count: u32,
    /// How long the consumer waits for a message. `None` means it does not wait.
    pub(crate) wait: Option<u64>,
}

/// What a consumer does with a message, and after how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deed {
    pub(crate) after: u64,
    pub(crate) what: What,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Act(Verb),
    /// The consumer asks for more time, and decides again.
    Work,
    /// The consumer never answers.
    Vanish,
}

impl Traffic {
    /// Half of all worlds have queues.
    pub(crate) fn of(mut dice: Dice) -> Option<Traffic> {
        if dice.one_in(2) {
            return None;
        }
        let consumers = 2 + usize::try_from(dice.below(5)).unwrap_or(0);
        let add_gap = dice.pick(&[600, 1_500, 4_000]).copied().unwrap_or(600);
        let flushes = dice.one_in(3);
        let settings = dice.one_in(2).then(|| settings(&mut dice));
        Some(Traffic { dice, consumers, is_open: true, add_gap, flushes, bursts: 0, settings, last: 0 })
    }

    /// Sets the queue that has settings.
    pub(crate) fn set(&self) -> Option<Ask> {
        let settings = Box::new(self.settings.clone()?);
        Some(Ask::Set { queue: queue(LIMITED), settings })
    }

    pub(crate) fn gap(&mut self) -> u64 {
        self.dice.below(self.add_gap)
    }

    /// The next request of a producer or an operator.
    pub(crate) fn produce(&mut self, time: u64) -> Ask {
        if self.settings.is_some() && self.dice.one_in(4) {
            let messages = (0..1 + self.dice.below(3)).map(|_| self.limited_message()).collect();
            return Ask::Add(Add { queue: queue(LIMITED), messages });
        }
        let of = usize::try_from(self.dice.below(QUEUES as u64 + 1)).unwrap_or(0);
        let is_deep = of == DEEP && time < DEEP_UNTIL;
        match self.dice.below(40) {
            0 => Ask::Stat { queue: queue(of) },
            1 if self.flushes => Ask::Flush { queue: queue(of), limit: self.number(30) },
            _ => {
                let is_deep = is_deep && self.bursts < BURSTS;
                self.bursts += u64::from(is_deep);
                let count = if is_deep { BURST } else { 1 + self.dice.below(4) };
                let messages = (0..count).map(|_| self.message(is_deep)).collect();
                Ask::Add(Add { queue: queue(of), messages })
            }
        }
    }

    /// Adds one plain message to a queue that is consumed.
    pub(crate) fn add_plain(&mut self) -> Ask {
        let of = usize::try_from(self.dice.below(QUEUES as u64)).unwrap_or(0);
        Ask::Add(Add { queue: queue(of), messages: vec![self.message(true)] })
    }

    fn message(&mut self, is_plain: bool) -> NewMessage {
        const LONG: u64 = 30 * 24 * 3_600_000;
        self.last += 1;
        let kind = if is_plain { 99 } else { self.dice.below(30) };
        let seconds = |dice: &mut Dice, most: u64| Duration::from_millis(1_000 + dice.below(most * 1_000));
        NewMessage {
            body: Body::from(self.last.to_string().into_bytes()),
            delay: if kind < 6 { seconds(&mut self.dice, 20) } else { Duration::ZERO },
            retry: if (4..9).contains(&kind) { Duration::ZERO } else { seconds(&mut self.dice, 15) },
            ttl: Duration::from_millis(if kind == 5 || (8..13).contains(&kind) {
                // Longer than any delay.
                22_000 + self.dice.below(8_000)
            } else if (13..15).contains(&kind) {
                1_000 + self.dice.below(4_000)
            } else {
                LONG
            }),
            priority: u8::try_from(self.dice.below(if is_plain { 2 } else { 10 })).unwrap_or(0),
            max_len: (kind == 15 || kind == 16).then(|| 1 + self.dice.below(20)),
            key: (16..20).contains(&kind).then(|| Arc::from(format!("key-{}", self.dice.below(6)))),
        }
    }

    /// A message for the queue with settings. One without a retry would occupy its place for ever.
    fn limited_message(&mut self) -> NewMessage {
        let new = self.message(true);
        let ttl = if self.dice.one_in(4) {
            Duration::from_millis(2_000 + self.dice.below(20_000))
        } else {
            new.ttl
        };
        NewMessage { retry: Duration::from_millis(1_000 + self.dice.below(5_000)), ttl, ..new }
    }

    pub(crate) fn wish(&mut self, time: u64) -> Wish {
        let first = if time < DEEP_UNTIL { DEEP + 1 } else { DEEP };
        let of = first + usize::try_from(self.dice.below((QUEUES - first) as u64)).unwrap_or(0);
        let count = match self.dice.below(6) {
            0 => self.number(100),
            1 | 2 => self.number(8),
            _ => 1,
        };
        let wait = self.dice.one_in(2).then(|| 200 + self.dice.below(5_000));
        let of = if self.settings.is_some() && self.dice.one_in(3) { LIMITED } else { of };
        Wish { queue: queue(of), count, wait }
    }

    /// How long a consumer rests before it asks again.
    pub(crate) fn rest(&mut self) -> u64 {
        self.dice.below(1_500)
    }

    pub(crate) fn deed(&mut self, stormy: bool) -> Deed {
        if !stormy {
            return Deed { after: self.dice.below(50), what: What::Act(Verb::Ack) };
        }
        let after = match self.dice.below(12) {
            0 => self.dice.below(20_000),
            1..=4 => self.dice.below(3_000),
            _ => self.dice.below(50),
        };
        let delay = Duration::from_millis(1_000 + self.dice.below(8_000));
        let what = match self.dice.below(30) {
            0..=3 => What::Vanish,
            4..=6 => What::Act(Verb::Nack { delay: Duration::ZERO }),
            7 | 8 => What::Act(Verb::Nack { delay }),
            9..=11 => What::Work,
            12 => What::Act(Verb::Delete),
            13 => What::Act(Verb::Enqueue),
            14 => What::Act(Verb::Dequeue),
            _ => What::Act(Verb::Ack),
        };
        Deed { after, what }
    }

    fn number(&mut self, most: u64) -> u32 {
        u32::try_from(1 + self.dice.below(most)).unwrap_or(1)
    }
}

fn settings(dice: &mut Dice) -> QueueSettings {
    let span = Duration::from_secs(1);
    QueueSettings {
        running: (!dice.one_in(4)).then(|| u32::try_from(1 + dice.below(3)).unwrap_or(1)),
        rate: dice.one_in(3).then(|| Rate {
            count: u32::try_from(5 + dice.below(20)).unwrap_or(5),
            span,
            burst: 1,
        }),
        hold: dice.one_in(3).then(|| Duration::from_millis(200 + dice.below(2_000))),
        max_deliveries: Some(u32::try_from(1 + dice.below(3)).unwrap_or(1)),
        dead_letter: Some(queue(DEAD).name),
    }
}

/// All queues.
pub(crate) fn queues() -> impl Iterator<Item = QueueKey> {
    (0..=DEAD).map(queue)
}

/// Whether the queue may have settings.
pub(crate) fn is_limited(key: &QueueKey) -> bool {
    *key == queue(LIMITED)
}

pub(crate) fn queue(index: usize) -> QueueKey {
    let name = format!("queue-{index}").parse().expect("the name of a queue is a name");
    QueueKey { namespace: Namespace::default(), name }
}

/// Whether no consumer takes from the queue.
pub(crate) fn is_never_consumed(key: &QueueKey) -> bool {
    *key == queue(QUEUES) || *key == queue(DEAD)
}

/// The number in the body of a message.
pub(crate) fn number_of(body: &[u8]) -> u64 {
    std::str::from_utf8(body).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub(crate) fn act(verb: Verb, ids: Vec<MessageId>) -> Ask {
    Ask::Act(Act { namespace: Namespace::default(), verb, ids })
}
