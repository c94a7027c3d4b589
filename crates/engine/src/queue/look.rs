//! Reads of a queue and its messages, and actions on a whole queue.

use punctual_core::Timestamp;
use punctual_core::ids::made_at;
use punctual_core::limits::TAKE_BYTES_MAX;
use punctual_core::name::Namespace;
use punctual_core::queue::{
    Delivered, Ending, MessageId, MessageView, Pause, QueueKey, QueueNumber, QueueStat, Said,
};

use super::take::answer;
use crate::Shard;
use crate::event::{Context, Ticket};

/// Messages that one flush deletes at most, so that its batch stays bounded.
const FLUSH_MAX: u32 = 2048;

impl Shard {
    pub(super) fn show(&mut self, namespace: &Namespace, id: MessageId, cx: &mut Context<'_>) -> Said {
        if !self.is_of(namespace, id) || !self.find_message(id, cx) {
            return Said::Shown(None);
        }
        let key = self.queues.get(id.queue).map(|queue| queue.record.key.clone());
        let message = self.queues.message(id.number);
        let view = message.zip(key).map(|(message, queue)| MessageView::of(queue, message, cx.now));
        self.message_is_far(id.number);
        Said::Shown(view)
    }

    pub(super) fn peek(&mut self, key: &QueueKey, count: u32, newest: bool, cx: &mut Context<'_>) -> Said {
        let Some(queue) = self.queues.find(key).and_then(|number| self.queues.get(number)) else {
            return Said::Peeked(Some(Vec::new()));
        };
        let (count, window) = (count as usize, &queue.window);
        if !window.is_everything() && (newest || window.len() < count) {
            // The caller reads the rows: recent deliveries must be written first, or they would look queued.
            self.hurry();
            return Said::Peeked(None);
        }
        let see = |place: punctual_core::queue::MessagePosition| {
            let message = self.queues.message(place.number)?;
            (message.expires_at > cx.now).then(|| Delivered::of(message))
        };
        let mut bytes = 0;
        let fits = |one: &Delivered| {
            let fits = bytes < TAKE_BYTES_MAX;
            bytes += one.body.len();
            fits
        };
        let seen = match newest {
            true => window.places().rev().filter_map(see).take(count).take_while(fits).collect(),
            false => window.places().filter_map(see).take(count).take_while(fits).collect(),
        };
        Said::Peeked(Some(seen))
    }

    pub(super) fn stat(&mut self, key: &QueueKey, cx: &mut Context<'_>) -> Said {
        Said::Stat(self.queue_stat(key, cx.now))
    }

    pub fn queue_stat(&self, key: &QueueKey, now: Timestamp) -> Option<QueueStat> {
        let queue = self.queues.get(self.queues.find(key)?)?;
        Some(QueueStat {
            len: queue.len,
            messages: queue.alive,
            created_at: queue.record.created_at,
            used_at: queue.used_at,
            now,
            waiting: queue.takers.len() as u64,
            added: queue.added,
            taken: queue.taken,
            expired: queue.expired,
            dead: queue.dead,
            unacked: queue.unacked,
            oldest_at: queue.window.oldest().map(made_at),
            pause: queue.record.pause,
            settings: queue.record.settings.clone(),
        })
    }

    pub(super) fn pause(&mut self, key: &QueueKey, pause: Option<Pause>, cx: &mut Context<'_>) -> Said {
        let is_nothing = pause.is_none_or(|pause| pause == Pause::default());
        let number = if is_nothing { self.queues.find(key) } else { self.make_queue(key, cx) };
        let Some(queue) = number.and_then(|number| self.queues.get_mut(number)) else {
            return Said::Paused(Pause::default());
        };
        if let (Some(pause), Some(number)) = (pause, number) {
            queue.used_at = cx.now;
            if queue.record.pause != pause {
                queue.record.pause = pause;
                self.queues.touch(number);
                self.look_for_unused(cx);
                self.serve(number, cx);
            }
            return Said::Paused(pause);
        }
        Said::Paused(queue.record.pause)
    }

    pub(super) fn flush(&mut self, ticket: Ticket, key: &QueueKey, limit: u32, cx: &mut Context<'_>) {
        let Some(number) = self.queues.find(key) else { return answer(ticket, Said::Flushed(0), cx) };
        if let Some(queue) = self.queues.get_mut(number) {
            (queue.used_at, queue.taken_at) = (cx.now, Some(cx.now));
            queue.flushes.push((ticket, limit));
        }
        self.look_for_unused(cx);
        self.serve(number, cx);
    }

    /// Serves waiting flushes once messages are in memory or the queue is known to be empty.
    pub(super) fn serve_flushes(&mut self, of: QueueNumber, cx: &mut Context<'_>) {
        while let Some(queue) = self.queues.get_mut(of)
            && (queue.window.first().is_some() || queue.window.is_everything())
            && let Some((ticket, limit)) = queue.flushes.pop()
        {
            let places = queue.window.places().take(limit.min(FLUSH_MAX) as usize);
            let numbers: Vec<i64> = places.map(|place| place.number).collect();
            for number in &numbers {
                self.drop_message(*number, Ending::Deleted, cx.now);
            }
            answer(ticket, Said::Flushed(numbers.len() as u64), cx);
        }
        self.queues.feed(of);
    }
}
