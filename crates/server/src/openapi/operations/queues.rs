//! Queues and messages.

use punctual_core::limits::TAKE_MAX;
use punctual_wire::rest::{
    ActOnMessages, ActedOnMessages, AddMessage, AddMessages, Added, AddedMessages, Code, Flushed, Message,
    Messages, Postponed, Queue, QueueSettings, Take, Way,
};
use punctual_wire::schema;
use serde_json::json;

use super::{Operation, get, listing, number, post, put};

pub(super) fn queues() -> Vec<Operation> {
    const QUEUES: &str = "/api/v1/namespaces/{namespace}/queues";
    const REFUSED: [Code; 3] = [Code::QueueTooLong, Code::QueuePaused, Code::TooManyQueues];
    vec![
        listing(get(QUEUES, "list_queues", "List the queues of a namespace, by name"))
            .query_of::<schema::QueueName>("after")
            .answers_a_page_of::<Queue>(),
        get("/api/v1/namespaces/{namespace}/queues/{queue}", "show_queue", "Show the state of a queue")
            .answers::<Queue>(200, "The queue")
            .refuses(&[Code::NoSuchQueue]),
        put(
            "/api/v1/namespaces/{namespace}/queues/{queue}",
            "set_queue",
            "Replace the settings of a queue; empty settings remove them",
        )
        .takes::<QueueSettings>()
        .answers::<Queue>(200, "The queue after the change")
        .refuses(&[Code::NoSuchQueue, Code::TooManyQueues]),
        post("/api/v1/namespaces/{namespace}/queues/{queue}/messages", "add_message", "Add a message")
            .takes::<AddMessage>()
            .answers::<Added>(201, "The message that was added")
            .answers::<Added>(200, "The message that was added with this key before")
            .refuses(&REFUSED),
        post(
            "/api/v1/namespaces/{namespace}/queues/{queue}/batch",
            "add_messages",
            "Add several messages; each succeeds or fails on its own",
        )
        .takes::<AddMessages>()
        .answers::<AddedMessages>(200, "The result for each"),
        post(
            "/api/v1/namespaces/{namespace}/queues/{queue}/take",
            "take_messages",
            "Take messages from a queue: at most `count`, possibly none",
        )
        .may_take::<Take>()
        .answers::<Messages>(200, "The messages: each is redelivered unless it is acknowledged")
        .refuses(&[Code::TooManyQueues]),
        get(
            "/api/v1/namespaces/{namespace}/queues/{queue}/peek",
            "peek_messages",
            "Show the first or the last messages of a queue without taking them",
        )
        .query("count", &number(1, TAKE_MAX as usize))
        .query("newest", &json!({ "type": "boolean" }))
        .answers::<Messages>(200, "The messages"),
        post(
            "/api/v1/namespaces/{namespace}/queues/{queue}/pause",
            "pause_queue",
            "Stop adding, taking, or both",
        )
        .may_take::<Way>()
        .answers::<Queue>(200, "The queue after the change")
        .refuses(&[Code::NoSuchQueue, Code::TooManyQueues]),
        post(
            "/api/v1/namespaces/{namespace}/queues/{queue}/resume",
            "resume_queue",
            "Allow adding and taking again",
        )
        .may_take::<Way>()
        .answers::<Queue>(200, "The queue after the change")
        .refuses(&[Code::NoSuchQueue, Code::TooManyQueues]),
        post(
            "/api/v1/namespaces/{namespace}/queues/{queue}/flush",
            "flush_queue",
            "Delete all messages that are queued",
        )
        .answers::<Flushed>(200, "How many, and whether there may be more"),
    ]
}

pub(super) fn messages() -> Vec<Operation> {
    const MESSAGES: &str = "/api/v1/namespaces/{namespace}/messages";
    vec![
        post(MESSAGES, "act_on_messages", "Acknowledge messages, give them back, or delete them")
            .takes::<ActOnMessages>()
            .answers::<ActedOnMessages>(200, "To how many of them it was done"),
        get("/api/v1/namespaces/{namespace}/messages/{message}", "show_message", "Show a message")
            .answers::<Message>(200, "The message")
            .refuses(&[Code::NoSuchMessage]),
        post(
            "/api/v1/namespaces/{namespace}/messages/{message}/working",
            "keep_message",
            "Extend a delivery: the message is redelivered one `retry` from now",
        )
        .answers::<Postponed>(200, "When it is redelivered")
        .refuses(&[Code::NoSuchMessage, Code::TooLate]),
    ]
}
