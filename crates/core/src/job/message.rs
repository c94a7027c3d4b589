//! The message of a job whose task is `queue`: how long it lives, when it is delivered again, and what is refused.

use std::time::Duration;

use super::{Definition, Invalid, Route};
use crate::limits::{DURATION_MAX, MESSAGE_BYTES_MAX, PRIORITY_MAX};
use crate::task::{Enqueue, RETRY_DEFAULT, TTL_DEFAULT, template};
use crate::template::Scope;

impl Definition {
    /// Refuses a message that could never be delivered as the job says.
    pub(super) fn check_message(&self, task: &Enqueue, scope: &Scope<'_>) -> Result<(), Invalid> {
        let refuse = |field: &'static str, message: String| Err(Invalid::new(field, message));
        if let Some(body) = &task.body {
            if body.len() > MESSAGE_BYTES_MAX {
                return refuse("task.queue.body", format!("at most {MESSAGE_BYTES_MAX} bytes"));
            }
            template("task.queue.body", body, scope)?;
        }
        let spans = [
            ("task.queue.delay", Some(task.delay)),
            ("task.queue.retry", task.retry),
            ("task.queue.ttl", task.ttl),
        ];
        if let Some((field, _)) = spans.iter().find(|(_, span)| span.is_some_and(|span| span > DURATION_MAX))
        {
            return Err(Invalid::new(*field, "at most ten years"));
        }
        if task.ttl.is_some_and(|ttl| ttl.is_zero()) {
            return refuse("task.queue.ttl", "longer than nothing".to_owned());
        }
        if task.delay >= self.message_ttl(task) {
            let message = "shorter than the message's life (`ttl`, else the job's `timeout`, else 24h): it would never \
                           be delivered";
            return refuse("task.queue.delay", message.to_owned());
        }
        if task.priority.is_some_and(|priority| priority > PRIORITY_MAX) {
            return refuse("task.queue.priority", "0 to 9, and 9 goes first".to_owned());
        }
        if self.at_most_once && task.retry.is_some_and(|retry| !retry.is_zero()) {
            let message =
                "0s with `at_most_once`, for else it would be delivered again; leave one of them out";
            return refuse("task.queue.retry", message.to_owned());
        }
        if self.route != Route::default() {
            let message = "a message goes to the consumers of its queue, not to a worker; leave it out";
            return refuse("route", message.to_owned());
        }
        Ok(())
    }

    /// How long a message lives.
    pub(crate) fn message_ttl(&self, task: &Enqueue) -> Duration {
        task.ttl.or(self.timeout).unwrap_or(TTL_DEFAULT)
    }

    /// How long a consumer may take before the message is delivered again. Zero means at-most-once delivery.
    pub(crate) fn message_retry(&self, task: &Enqueue) -> Duration {
        let tenth = Duration::from_secs((self.message_ttl(task) / 10).as_secs().max(1));
        let default = if self.at_most_once { Duration::ZERO } else { tenth.min(RETRY_DEFAULT) };
        task.retry.unwrap_or(default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Strategy;
    use crate::task::Task;

    fn task() -> Enqueue {
        Enqueue::of("orders".parse().unwrap())
    }

    fn minutes(count: u64) -> Duration {
        Duration::from_secs(60 * count)
    }

    #[track_caller]
    fn check_refused(definition: &Definition, field: &str) {
        assert_eq!(definition.check().unwrap_err().field, field);
    }

    fn definition(task: Enqueue) -> Definition {
        Definition::of(Task::Queue(Box::new(task)))
    }

    #[test]
    fn a_message_lives_as_long_as_its_run_may_take() {
        let plain = definition(task());
        let quick = Definition { timeout: Some(minutes(10)), ..definition(task()) };
        let own = Enqueue { ttl: Some(minutes(1)), ..task() };
        assert_eq!((plain.message_ttl(&task()), plain.message_retry(&task())), (TTL_DEFAULT, RETRY_DEFAULT));
        assert_eq!((quick.message_ttl(&task()), quick.message_retry(&task())), (minutes(10), minutes(1)));
        assert_eq!(
            (quick.message_ttl(&own), quick.message_retry(&own)),
            (minutes(1), Duration::from_secs(6))
        );
        let once = Definition { at_most_once: true, ..plain };
        assert_eq!(once.message_retry(&task()), Duration::ZERO);
    }

    #[test]
    fn what_is_wrong_is_said_of_its_field() {
        assert_eq!(definition(task()).check(), Ok(()));
        check_refused(
            &definition(Enqueue { body: Some("{{ nobody }}".to_owned()), ..task() }),
            "task.queue.body",
        );
        check_refused(&definition(Enqueue { ttl: Some(Duration::ZERO), ..task() }), "task.queue.ttl");
        check_refused(&definition(Enqueue { delay: TTL_DEFAULT, ..task() }), "task.queue.delay");
        check_refused(&definition(Enqueue { priority: Some(10), ..task() }), "task.queue.priority");
        let long = DURATION_MAX + Duration::from_secs(1);
        check_refused(&definition(Enqueue { retry: Some(long), ..task() }), "task.queue.retry");
        let again = definition(Enqueue { retry: Some(minutes(1)), ..task() });
        check_refused(&Definition { at_most_once: true, ..again }, "task.queue.retry");
        let route = Route { strategy: Strategy::Broadcast, ..Route::default() };
        check_refused(&Definition { route, ..definition(task()) }, "route");
    }
}
