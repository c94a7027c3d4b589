//! What the settings of a queue do: they limit deliveries, and put off a message that no consumer takes.
//!
//! A delivery from a queue with settings is written before the message is handed out, so that a new leader knows how many
//! messages are with consumers. What a rate has used up is stored like that of a job (`limits`). The order of messages that
//! were put off is in memory only: a new leader begins with the order of their creation.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::RATE_PREFIX;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::{Acted, QueueKey, QueueNumber, QueueRecord, QueueRefusal, QueueSettings, Said};
use punctual_core::time::Elapsed;

use super::queues::Queue;
use crate::Shard;
use crate::deadline::Deadline;
use crate::event::Context;
use crate::limits::rates::Rates;

/// Whether a queue delivers messages now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// Until it is resumed, or a message is acknowledged.
    Closed,
    /// Its rate allows the next delivery then.
    ClosedUntil(Timestamp),
}

/// The message that is first in a queue with `hold`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct First {
    number: i64,
    /// It is put off then, if it is still the first.
    until: Elapsed,
}

impl Queue {
    pub(super) fn gate(&self, rates: &Rates, now: Timestamp) -> Gate {
        if self.record.pause.output {
            return Gate::Closed;
        }
        let Some(settings) = &self.record.settings else { return Gate::Open };
        if self.is_full() && !is_planted(Fault::RunningIsIgnored) {
            return Gate::Closed;
        }
        match settings.rate.map(|rate| rate.next_start(rates.used(&rate_row(&self.record)))) {
            Some(next) if next > now => Gate::ClosedUntil(next),
            _ => Gate::Open,
        }
    }

    /// Whether as many messages are unacknowledged as `running` allows.
    pub(super) fn is_full(&self) -> bool {
        let most = self.record.settings.as_ref().and_then(|settings| settings.running);
        most.is_some_and(|most| self.unacked >= u64::from(most))
    }
}

/// The key of the row that stores what the rate of a queue has used up. A number of a queue may be given again, so the key
/// has the time of its creation too.
fn rate_row(record: &QueueRecord) -> Arc<str> {
    Arc::from(format!("{RATE_PREFIX}queue:{}:{}", record.number.0, record.created_at.as_millis()))
}

impl Shard {
    pub(super) fn set_queue(
        &mut self,
        key: &QueueKey,
        settings: QueueSettings,
        cx: &mut Context<'_>,
    ) -> Said {
        let settings = (settings != QueueSettings::default()).then(|| Arc::new(settings));
        let number = match settings {
            Some(_) => self.make_queue(key, cx),
            None => self.queues.find(key),
        };
        let Some(queue) = number.and_then(|number| self.queues.get_mut(number)) else {
            let refused = Said::Refused(QueueRefusal::TooManyQueues);
            return settings.map_or(Said::Acted(Acted::default()), |_| refused);
        };
        let number = queue.record.number;
        queue.used_at = cx.now;
        queue.record.settings = settings;
        // The deadlines of the former settings have no effect any more.
        (queue.opens_at, queue.first, queue.watched_until) = (None, None, None);
        if let Some(rate) = queue.record.settings.as_ref().and_then(|settings| settings.rate) {
            let row = rate_row(&queue.record);
            self.forget_slower_rate(row, rate, cx.now);
        }
        self.queues.touch(number);
        // The next leader counts the deliveries that are written.
        self.queues.write_all_deliveries();
        self.look_for_unused(cx);
        self.serve(number, cx);
        self.watch_first(number, cx);
        Said::Acted(Acted { count: 1 })
    }

    /// Notes a delivery in the rate of its queue.
    pub(super) fn use_queue_rate(&mut self, of: QueueNumber, cx: &mut Context<'_>) {
        let Some(record) = self.queues.get(of).map(|queue| &queue.record) else { return };
        if let Some(rate) = record.settings.as_ref().and_then(|settings| settings.rate) {
            let row = rate_row(record);
            self.use_rate(row, rate, cx);
            self.expect_free_rates(cx);
        }
    }

    /// Serves the queue again when its rate allows the next delivery.
    pub(super) fn expect_opening(&mut self, of: QueueNumber, cx: &Context<'_>) {
        let Some(queue) = self.queues.get_mut(of).filter(|queue| queue.opens_at.is_none()) else { return };
        if let Gate::ClosedUntil(at) = queue.gate(&self.rates, cx.now) {
            let at = cx.elapsed_at(at);
            queue.opens_at = Some(at);
            self.deadlines.insert(at, Deadline::QueueOpens(of));
        }
    }

    pub(crate) fn queue_opens(&mut self, of: QueueNumber, cx: &mut Context<'_>) {
        if let Some(queue) = self.queues.get_mut(of)
            && queue.opens_at.take_if(|at| *at <= cx.elapsed).is_some()
        {
            self.serve(of, cx);
        }
    }

    /// Serves the queues with settings whose messages have changed: an acknowledged message makes room for another.
    pub(crate) fn mind_queues(&mut self, cx: &mut Context<'_>) {
        while let Some(of) = self.queues.pop_noted() {
            self.serve(of, cx);
            self.watch_first(of, cx);
        }
    }

    /// Notes which message is first in a queue with `hold`, and since when.
    fn watch_first(&mut self, of: QueueNumber, cx: &Context<'_>) {
        let Some(queue) = self.queues.get_mut(of) else { return };
        let hold = queue.record.settings.as_ref().and_then(|settings| settings.hold);
        let first = hold.and(queue.window.first()).map(|place| place.number);
        if queue.first.map(|first| first.number) != first {
            let until = cx.elapsed + hold.unwrap_or_default();
            queue.first = first.map(|number| First { number, until });
        }
        if let Some(First { until, .. }) = queue.first
            && queue.watched_until.is_none()
        {
            queue.watched_until = Some(until);
            self.deadlines.insert(until, Deadline::StillFirst(of));
        }
    }

    /// Puts the first message of a queue to the end, if it has been the first for long enough.
    pub(crate) fn still_first(&mut self, of: QueueNumber, cx: &mut Context<'_>) {
        let Some(queue) = self.queues.get_mut(of) else { return };
        if queue.watched_until.take_if(|until| *until <= cx.elapsed).is_none() {
            return;
        }
        let place = queue.window.first();
        if let Some((first, place)) = queue.first.zip(place)
            && first.until <= cx.elapsed
        {
            queue.first = None;
            // The only message is first and last.
            if first.number == place.number && queue.window.len() > 1 {
                queue.window.put_off(place, self.ids.next(cx.now));
            }
        }
        self.watch_first(of, cx);
    }
}
