//! `task.queue`: a message for a queue in the namespace of its job.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::process::template;
use crate::Timestamp;
use crate::attempt::Assignment;
use crate::job::{Definition, Invalid};
use crate::limits::{DURATION_MAX, MESSAGE_BYTES_MAX, PRIORITY_MAX};
use crate::queue::{Body, Deliver, NewMessage, QueueKey, QueueName, Sender};
use crate::template::Values;

/// The time to live of a message if neither the task nor a timeout sets it.
pub const TTL_DEFAULT: Duration = Duration::from_secs(24 * 3600);
/// The longest default retry interval. The default is a tenth of the time to live, at least a second.
pub const RETRY_DEFAULT: Duration = Duration::from_secs(300);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enqueue {
    pub name: QueueName,
    /// A template. `None` means the parameters of the run, as JSON.
    pub body: Option<String>,
    /// How long after its creation it is queued.
    pub delay: Duration,
    /// How long a consumer may take before the message is delivered again. Zero means at-most-once delivery. `None`
    /// means the default.
    pub retry: Option<Duration>,
    /// `None` means as long as the run may take.
    pub ttl: Option<Duration>,
    /// `None` means the priority of the job.
    pub priority: Option<u8>,
}

impl Enqueue {
    /// A message with the run's parameters.
    pub fn of(name: QueueName) -> Self {
        Enqueue { name, body: None, delay: Duration::ZERO, retry: None, ttl: None, priority: None }
    }

    pub(crate) fn check(&self, of: &Definition) -> Result<(), Invalid> {
        let refuse = |field: &'static str, message: String| Err(Invalid::new(field, message));
        if let Some(body) = &self.body {
            if body.len() > MESSAGE_BYTES_MAX {
                return refuse("task.queue.body", format!("at most {MESSAGE_BYTES_MAX} bytes"));
            }
            template("task.queue.body", body)?;
        }
        let spans = [
            ("task.queue.delay", Some(self.delay)),
            ("task.queue.retry", self.retry),
            ("task.queue.ttl", self.ttl),
        ];
        if let Some((field, _)) = spans.iter().find(|(_, span)| span.is_some_and(|span| span > DURATION_MAX))
        {
            return Err(Invalid::new(*field, "at most ten years"));
        }
        if self.ttl.is_some_and(|ttl| ttl.is_zero()) {
            return refuse("task.queue.ttl", "longer than nothing".to_owned());
        }
        if self.delay >= self.ttl_in(of) {
            let message = "shorter than the message's life (`ttl`, else the job's `timeout`, else 24h): it would never \
                           be delivered";
            return refuse("task.queue.delay", message.to_owned());
        }
        if self.priority.is_some_and(|priority| priority > PRIORITY_MAX) {
            return refuse("task.queue.priority", "0 to 9, and 9 goes first".to_owned());
        }
        if of.at_most_once && self.retry.is_some_and(|retry| !retry.is_zero()) {
            let message =
                "0s with `at_most_once`, for else it would be delivered again; leave one of them out";
            return refuse("task.queue.retry", message.to_owned());
        }
        if of.route != crate::job::Route::default() {
            let message = "a message goes to no worker, but to whoever consumes from its queue; leave it out";
            return refuse("route", message.to_owned());
        }
        Ok(())
    }

    fn ttl_in(&self, definition: &Definition) -> Duration {
        self.ttl.or(definition.timeout).unwrap_or(TTL_DEFAULT)
    }

    fn retry_in(&self, definition: &Definition) -> Duration {
        let tenth = Duration::from_secs((self.ttl_in(definition) / 10).as_secs().max(1));
        let default = if definition.at_most_once { Duration::ZERO } else { tenth.min(RETRY_DEFAULT) };
        self.retry.unwrap_or(default)
    }

    /// The message of one attempt, with every expression evaluated.
    pub fn render(&self, given: &Assignment, now: Timestamp) -> Result<Deliver, Invalid> {
        let body = match &self.body {
            None => given.params.0.as_ref().to_owned(),
            Some(text) => {
                let rendered = template("task.queue.body", text)?.render(&Values::of_attempt(given, now));
                rendered.map_err(|error| Invalid::new("task.queue.body", error.in_text(text)))?
            }
        };
        if body.len() > MESSAGE_BYTES_MAX {
            return Err(Invalid::new(
                "task.queue.body",
                format!("gives more than {MESSAGE_BYTES_MAX} bytes"),
            ));
        }
        let message = NewMessage {
            body: Body::from(body.into_bytes()),
            delay: self.delay,
            retry: self.retry_in(&given.definition),
            ttl: self.ttl_in(&given.definition),
            priority: self.priority.unwrap_or(given.definition.priority),
            max_len: None,
            key: None,
        };
        let queue = QueueKey { namespace: given.namespace.clone(), name: self.name.clone() };
        Ok(Deliver { queue, sender: Sender { run: given.run, token: given.token }, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Route, Strategy};
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
        assert_eq!((task().ttl_in(&plain), task().retry_in(&plain)), (TTL_DEFAULT, RETRY_DEFAULT));
        assert_eq!((task().ttl_in(&quick), task().retry_in(&quick)), (minutes(10), minutes(1)));
        assert_eq!((own.ttl_in(&quick), own.retry_in(&quick)), (minutes(1), Duration::from_secs(6)));
        let once = Definition { at_most_once: true, ..plain };
        assert_eq!(task().retry_in(&once), Duration::ZERO);
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
