//! Tables of queues and messages.

use punctual_core::schedule::format_duration;
use punctual_wire::rest::{Message, Queue, QueueSettings, Taken};

use super::super::output::{Output, fields, one_line, text};
use super::super::time;
use crate::wiring;

/// The columns of a message, for every verb.
const TITLES: [&str; 8] = ["ID", "QUEUE", "STATE", "DELAY", "DELIVERIES", "TTL", "NODE", "BODY"];
/// Characters of a body in a table.
const BODY_MAX: usize = 60;

pub(super) fn taken(output: Output, messages: &[Taken]) -> String {
    let mut table = output.table(&TITLES).sparing(&["NODE", "DELAY", "TTL", "QUEUE", "STATE"]);
    for message in messages {
        table.add_row([
            message.id.clone(),
            one_line(&message.queue, BODY_MAX),
            message.state.as_str().to_owned(),
            // A queued or taken message is no longer delayed.
            "-".to_owned(),
            message.deliveries().to_string(),
            format_duration(message.ttl.0),
            message.node.clone(),
            body(&message.bytes()),
        ]);
    }
    text(table)
}

pub(super) fn shown(output: Output, message: &Message) -> String {
    let mut table = output.table(&TITLES).sparing(&["NODE", "DELAY", "TTL", "QUEUE", "STATE"]);
    table.add_row([
        message.id.clone(),
        one_line(&message.queue, BODY_MAX),
        message.state.as_str().to_owned(),
        format_duration(message.delay.0),
        message.attempts.to_string(),
        time::span(message.ttl.0),
        message.delivery_info.node.clone(),
        body(&message.bytes()),
    ]);
    text(table)
}

pub(super) fn queues(output: Output, queues: &[Queue]) -> String {
    let now = wiring::now();
    let mut table = output.table(&["NAME", "QUEUED", "MESSAGES", "PAUSED", "CREATED (UTC)"]);
    for queue in queues {
        table.add_row([
            one_line(&queue.name, BODY_MAX),
            queue.queued.to_string(),
            queue.messages.to_string(),
            queue.paused.as_str().to_owned(),
            output.time(queue.created_at.0, now),
        ]);
    }
    text(table)
}

pub(crate) fn describe_queue(queue: &Queue) -> String {
    let now = wiring::now();
    fields(&[
        ("queue", Some(format!("{}/{}", queue.namespace, queue.name))),
        ("queued", Some(queue.queued.to_string())),
        ("messages", Some(queue.messages.to_string())),
        ("paused", Some(queue.paused.as_str().to_owned())),
        ("unacknowledged", Some(queue.unacked.to_string())),
        ("waiting", queue.waiting.map(|waiting| waiting.to_string())),
        ("added", queue.added.map(|added| added.to_string())),
        ("taken", queue.taken.map(|taken| taken.to_string())),
        ("expired", queue.expired.map(|expired| expired.to_string())),
        ("moved", queue.dead.map(|dead| dead.to_string())),
        ("settings", queue.settings.as_ref().map(describe_settings)),
        ("oldest", queue.oldest_at.map(|at| time::both(at.0, now))),
        ("created", Some(time::both(queue.created_at.0, now))),
        ("used", queue.used_at.map(|at| time::both(at.0, now))),
    ])
}

/// The settings as the options that set them.
fn describe_settings(settings: &QueueSettings) -> String {
    let QueueSettings { running, rate, hold, max_deliveries, dead_letter } = settings;
    let options = [
        running.map(|most| format!("--running {most}")),
        rate.as_ref().map(|rate| format!("--rate {rate}")),
        hold.map(|hold| format!("--hold {}", format_duration(hold.0))),
        max_deliveries.map(|most| format!("--max-deliveries {most}")),
        dead_letter.as_ref().map(|queue| format!("--dead-letter {queue}")),
    ];
    options.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A body on one line, or its length if it is not text.
fn body(bytes: &[u8]) -> String {
    match str::from_utf8(bytes) {
        Ok(text) => one_line(text, BODY_MAX),
        Err(_) => format!("({} bytes)", bytes.len()),
    }
}
