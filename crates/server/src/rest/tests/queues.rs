//! Queues over REST: what goes in comes out, once, and what is wrong is said.

use punctual_wire::rest::{
    ActedOnMessages, Added, AddedMessages, Flushed, Message, MessageState, Messages, Paused, Queue,
};

use super::*;

const QUEUES: &str = "/api/v1/namespaces/default/queues";
const MESSAGES: &str = "/api/v1/namespaces/default/messages";

/// An id as a segment of an address.
fn at(id: &str) -> String {
    format!("{MESSAGES}/{}", id.replace('+', "%2B").replace('/', "%2F"))
}

impl Scene {
    async fn add(&self, queue: &str, body: Value) -> String {
        self.post(&format!("{QUEUES}/{queue}/messages"), body).await.read::<Added>(201).id
    }

    async fn take(&self, queue: &str, body: Value) -> Vec<punctual_wire::rest::Taken> {
        self.post(&format!("{QUEUES}/{queue}/take"), body).await.read::<Messages>(200).items
    }

    async fn act(&self, action: &str, ids: &[&str]) -> u64 {
        let body = json!({ "action": action, "ids": ids });
        self.post(MESSAGES, body).await.read::<ActedOnMessages>(200).done
    }
}

#[tokio::test]
async fn a_message_is_added_shown_taken_and_acknowledged() {
    let scene = Scene::new().await;
    let id = scene.add("mail", json!({ "body": "hello" })).await;
    assert_eq!(id.len(), 40);
    let shown: Message = scene.get(&at(&id)).await.read(200);
    assert_eq!(
        (shown.state, shown.body.as_deref(), shown.attempts),
        (MessageState::Queued, Some("hello"), 0)
    );
    assert_eq!((shown.queue.as_str(), shown.delivery_info.node.as_str()), ("mail", "test"));

    let taken = scene.take("mail", json!({})).await;
    assert_eq!(taken.len(), 1);
    assert_eq!((&taken[0].id, taken[0].body.as_deref()), (&id, Some("hello")));
    assert_eq!(scene.take("mail", json!({})).await, [], "another consumer has it");
    let shown: Message = scene.get(&at(&id)).await.read(200);
    assert_eq!((shown.state, shown.attempts), (MessageState::Active, 1));
    assert!(shown.next_requeue_within.is_some());

    assert_eq!(scene.act("ack", &[&id]).await, 1);
    assert_eq!(scene.act("ack", &[&id]).await, 0, "it is gone");
    let gone: Problem = scene.get(&at(&id)).await.read(404);
    assert_eq!(gone.code.as_str(), "no_such_message");
    assert_eq!(gone.message, format!("no message `{id}` in namespace `default`"));
}

/// One call takes as many as there are, in their order.
#[tokio::test]
async fn one_take_gives_one_message_or_as_many_as_it_asks_for() {
    let scene = Scene::new().await;
    for body in ["a", "b", "c", "d"] {
        scene.add("mail", json!({ "body": body })).await;
    }
    let bodies = |taken: Vec<punctual_wire::rest::Taken>| -> Vec<String> {
        taken.into_iter().filter_map(|message| message.body).collect()
    };
    assert_eq!(bodies(scene.take("mail", json!({})).await), ["a"]);
    assert_eq!(bodies(scene.take("mail", json!({ "count": 100 })).await), ["b", "c", "d"]);
    for (queue, body) in [("x", "x1"), ("x", "x2"), ("y", "y1")] {
        scene.post(&format!("{QUEUES}/{queue}/messages"), json!({ "body": body })).await;
    }
    let taken = scene.take("none", json!({ "count": 9, "also": ["x", "y", "x"] })).await;
    let from: Vec<String> = taken.iter().map(|message| message.queue.clone()).collect();
    assert_eq!(
        (from, bodies(taken)),
        (vec!["x".into(), "y".into(), "x".into()], vec!["x1".into(), "y1".into(), "x2".into()])
    );
}

#[tokio::test]
async fn several_messages_are_added_in_one_go_each_by_itself() {
    let scene = Scene::new().await;
    let batch = json!({ "messages": [
        { "body": "a" }, { "body_base64": "AP8=" }, { "body": "c", "max_len": 2 }, { "body": "d", "priority": 9 },
    ] });
    let added: AddedMessages = scene.post(&format!("{QUEUES}/mail/batch"), batch).await.read(200);
    let codes: Vec<&str> = added
        .items
        .iter()
        .map(|one| one.problem.as_ref().map_or("", |problem| problem.code.as_str()))
        .collect();
    assert_eq!(codes, ["", "", "queue_too_long", ""]);
    let taken = scene.take("mail", json!({ "count": 9 })).await;
    let bodies: Vec<Vec<u8>> = taken.iter().map(punctual_wire::rest::Taken::bytes).collect();
    assert_eq!(bodies, [b"d".to_vec(), b"a".to_vec(), vec![0, 255]], "the highest priority goes first");
}

#[tokio::test]
async fn a_key_adds_one_message_however_often_it_is_asked_for() {
    let scene = Scene::new().await;
    let path = format!("{QUEUES}/mail/messages");
    let body = json!({ "body": "a", "key": "order-17" });
    let first: Added = scene.post(&path, body.clone()).await.read(201);
    let again: Added = scene.post(&path, body.clone()).await.read(200);
    assert_eq!((&again.id, first.is_new, again.is_new), (&first.id, true, false));
    assert_eq!(scene.act("delete", &[&first.id]).await, 1);
    assert!(scene.post(&path, body).await.read::<Added>(201).is_new, "its key went with it");
}

/// A delayed message is not seen before its time, and one that is deleted before never is.
#[tokio::test]
async fn a_delayed_message_waits_and_may_be_called_off() {
    let scene = Scene::new().await;
    let id = scene.add("orders", json!({ "body": "unpaid", "delay": "30m" })).await;
    assert_eq!(scene.take("orders", json!({})).await, []);
    let shown: Message = scene.get(&at(&id)).await.read(200);
    assert_eq!((shown.state, shown.attempts), (MessageState::Active, 0));
    assert_eq!(scene.act("delete", &[&id]).await, 1);
    assert_eq!(scene.get(&at(&id)).await.status, 404);
}

#[tokio::test]
async fn messages_are_returned_dequeued_and_enqueued() {
    let scene = Scene::new().await;
    let id = scene.add("mail", json!({ "body": "a" })).await;
    assert_eq!(scene.act("nack", &[&id]).await, 0, "nobody has it");
    scene.take("mail", json!({})).await;
    assert_eq!(scene.act("nack", &[&id]).await, 1);
    let taken = scene.take("mail", json!({})).await;
    assert_eq!((taken[0].nacks, taken[0].deliveries()), (1, 2));
    assert_eq!(scene.act("return", &[&id]).await, 1);
    assert_eq!(
        scene.take("mail", json!({})).await[0].deliveries(),
        2,
        "what never reached anyone is not counted"
    );
    assert_eq!(scene.act("enqueue", &[&id]).await, 1);
    assert_eq!(scene.act("dequeue", &[&id]).await, 1);
    assert_eq!(scene.take("mail", json!({})).await, []);
    let kept: Value = scene.post(&format!("{}/working", at(&id)), json!({})).await.read(200);
    assert_eq!(kept["postponed"], "5m");
}

#[tokio::test]
async fn a_queue_is_listed_told_about_paused_and_flushed() {
    let scene = Scene::new().await;
    for queue in ["a%2Fb", "mail", "zoo"] {
        scene.add(queue, json!({ "body": "x" })).await;
    }
    scene.add("mail", json!({ "body": "y" })).await;
    let first: Page<Queue> = scene.get(&format!("{QUEUES}?limit=2")).await.read(200);
    let names: Vec<&str> = first.items.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!((names, first.next.as_deref()), (vec!["a/b", "mail"], Some("mail")));
    let rest: Page<Queue> = scene.get(&format!("{QUEUES}?limit=2&after=mail")).await.read(200);
    assert_eq!((rest.items.len(), rest.next), (1, None));

    let stat: Queue = scene.get(&format!("{QUEUES}/mail")).await.read(200);
    assert_eq!((stat.queued, stat.messages, stat.paused, stat.added), (2, 2, Paused::None, Some(2)));
    let seen: Messages = scene.get(&format!("{QUEUES}/mail/peek?count=5")).await.read(200);
    assert_eq!(seen.items.iter().filter_map(|one| one.body.as_deref()).collect::<Vec<_>>(), ["x", "y"]);
    let last: Messages = scene.get(&format!("{QUEUES}/mail/peek?newest=true")).await.read(200);
    assert_eq!(last.items[0].body.as_deref(), Some("y"));

    let paused: Queue =
        scene.post(&format!("{QUEUES}/mail/pause"), json!({ "direction": "in" })).await.read(200);
    assert_eq!(paused.paused, Paused::In);
    let refused = scene.post(&format!("{QUEUES}/mail/messages"), json!({ "body": "z" })).await;
    assert_eq!(refused.read::<Problem>(409).code.as_str(), "queue_paused");
    let paused: Queue =
        scene.post(&format!("{QUEUES}/mail/pause"), json!({ "direction": "out" })).await.read(200);
    assert_eq!(paused.paused, Paused::All);
    assert_eq!(scene.take("mail", json!({})).await, []);
    let open: Queue = scene.post(&format!("{QUEUES}/mail/resume"), json!({})).await.read(200);
    assert_eq!(open.paused, Paused::None);

    let flushed: Flushed = scene.post(&format!("{QUEUES}/mail/flush"), json!({})).await.read(200);
    assert_eq!(flushed, Flushed { deleted: 2, more: false });
    assert_eq!(scene.take("mail", json!({})).await, []);
}

#[tokio::test]
async fn a_waiting_consumer_gets_the_next_message_at_once() {
    let scene = Scene::new().await;
    let waiting = scene.take("mail", json!({ "wait": "30s" }));
    let adding = async {
        // Add the message only after the consumer waits.
        while scene.get(&format!("{QUEUES}/mail")).await.status == 404 {
            tokio::task::yield_now().await;
        }
        scene.add("mail", json!({ "body": "at last" })).await
    };
    let (taken, id) = tokio::join!(waiting, adding);
    assert_eq!((taken[0].body.as_deref(), &taken[0].id), (Some("at last"), &id));
}

#[tokio::test]
async fn what_is_wrong_about_a_queue_or_a_message_is_said_with_its_field() {
    let scene = Scene::new().await;
    let id = scene.add("mail", json!({ "body": "a" })).await;
    let strange = "D-0a1b2c3d-AAAAAAAAAAAAAAAAAAAAAAAA-05a1";
    let long = "x".repeat(513);
    let (add, take) = (format!("{QUEUES}/mail/messages"), format!("{QUEUES}/mail/take"));
    let rows = [
        (scene.get(&format!("{QUEUES}/none")).await, 404, "no_such_queue", ""),
        (scene.get(&format!("{QUEUES}/{long}")).await, 400, "bad_parameter", "queue"),
        (scene.get(&format!("{QUEUES}?limit=0")).await, 400, "bad_parameter", "limit"),
        (scene.get(&format!("{QUEUES}?name=a")).await, 400, "bad_parameter", "name"),
        (scene.get(&format!("{QUEUES}/mail/peek?count=0")).await, 400, "bad_parameter", "count"),
        (scene.get(&format!("{QUEUES}/mail/peek?newest=maybe")).await, 400, "bad_parameter", "newest"),
        (scene.get(&format!("{MESSAGES}/17")).await, 400, "bad_parameter", "message"),
        (scene.get(&at(strange)).await, 404, "no_such_message", ""),
        (scene.get(&at(&id).replace("default", "other")).await, 404, "no_such_message", ""),
        (scene.post(&format!("{}/working", at(strange)), json!({})).await, 404, "no_such_message", ""),
        (scene.post(&add, json!({})).await, 422, "invalid", "body"),
        (scene.post(&add, json!({ "body": "a", "delay": "2d" })).await, 422, "invalid", "delay"),
        (scene.post(&add, json!({ "body": "a", "colour": "red" })).await, 422, "invalid", "colour"),
        (scene.post(&take, json!({ "count": 1001 })).await, 422, "invalid", "count"),
        (scene.post(&take, json!({ "wait": "31s" })).await, 422, "invalid", "wait"),
        (scene.post(MESSAGES, json!({ "action": "ack", "ids": ["17"] })).await, 422, "invalid", "ids[0]"),
        (
            scene.post(&format!("{QUEUES}/mail/pause"), json!({ "direction": "up" })).await,
            422,
            "invalid",
            "direction",
        ),
    ];
    for (answer, status, code, field) in rows {
        let problem: Problem = answer.read(status);
        assert_eq!(
            (problem.code.as_str(), problem.field.as_deref().unwrap_or("")),
            (code, field),
            "{problem:?}"
        );
    }
}

#[tokio::test]
async fn the_largest_message_goes_through_and_a_larger_one_does_not() {
    let scene = Scene::new().await;
    let body = "x".repeat(punctual_core::limits::MESSAGE_BYTES_MAX);
    let id = scene.add("mail", json!({ "body": body })).await;
    assert_eq!(scene.take("mail", json!({})).await[0].body.as_deref(), Some(body.as_str()));
    assert_eq!(scene.act("ack", &[&id]).await, 1);
    let larger = scene.post(&format!("{QUEUES}/mail/messages"), json!({ "body": body + "x" })).await;
    assert_eq!(larger.read::<Problem>(422).field.as_deref(), Some("body"));
    let huge = "x".repeat(crate::limits::MESSAGES_BODY_BYTES_MAX);
    let huge = scene.post(&format!("{QUEUES}/mail/messages"), json!({ "body": huge })).await;
    assert_eq!(huge.read::<Problem>(413).code.as_str(), "body_too_large");
}

#[tokio::test]
async fn a_queue_with_settings_moves_a_message_that_nobody_acknowledges() {
    let scene = Scene::new().await;
    let settings = json!({ "running": 1, "max_deliveries": 1, "dead_letter": "mail.dead" });
    let queue: Queue = scene.put(&format!("{QUEUES}/mail"), settings.clone()).await.read(200);
    assert_eq!(serde_json::to_value(queue.settings).unwrap(), settings);
    let first = scene.add("mail", json!({ "body": "first" })).await;
    scene.add("mail", json!({ "body": "second" })).await;
    assert_eq!(scene.take("mail", json!({ "count": 9 })).await.len(), 1, "one at a time");
    assert_eq!(scene.act("nack", &[&first]).await, 1);
    let dead = scene.take("mail.dead", json!({ "wait": "20s" })).await;
    assert_eq!(dead.iter().filter_map(|message| message.body.as_deref()).collect::<Vec<_>>(), ["first"]);
    let queue: Queue = scene.get(&format!("{QUEUES}/mail")).await.read(200);
    assert_eq!((queue.queued, queue.unacked, queue.dead), (1, 0, Some(1)));
    let queue: Queue = scene.put(&format!("{QUEUES}/mail"), json!({})).await.read(200);
    assert_eq!(queue.settings, None);
}

#[tokio::test]
async fn settings_that_a_queue_cannot_have_are_refused_by_their_field() {
    let scene = Scene::new().await;
    for (settings, field) in [
        (json!({ "running": 0 }), "running"),
        (json!({ "rate": "0/s" }), "rate"),
        (json!({ "hold": "25h" }), "hold"),
        (json!({ "max_deliveries": 3 }), "max_deliveries"),
        (json!({ "dead_letter": "mail" }), "dead_letter"),
        (json!({ "limit": 3 }), "limit"),
    ] {
        let problem: Problem = scene.put(&format!("{QUEUES}/mail"), settings).await.read(422);
        assert_eq!(problem.field.as_deref(), Some(field));
    }
    let problem: Problem = scene.put(&format!("{QUEUES}/mail"), json!({})).await.read(404);
    assert_eq!(problem.code.as_str(), "no_such_queue");
}
