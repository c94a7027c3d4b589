use punctual_core::Timestamp;
use punctual_core::queue::QueueNumber;

use super::*;
use crate::tree;

const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn add(body: &str) -> Result<NewMessage, Error> {
    tree::from_json::<AddMessage>(body.as_bytes())?.into_core()
}

fn some_id() -> String {
    let id = MessageId { queue: QueueNumber(3), number: 77 };
    JobId::new(id, TTL_DEFAULT, false).to_string()
}

fn view(status: MessageStatus, delay: Duration, counts: (u32, u32)) -> MessageView {
    MessageView {
        queue: QueueKey { namespace: "default".parse().unwrap(), name: "mail".parse().unwrap() },
        id: MessageId { queue: QueueNumber(3), number: 77 },
        priority: 5,
        body: Body::from(&b"hello"[..]),
        created_at: NOW.before(Duration::from_secs(10)),
        expires_at: NOW + Duration::from_secs(90),
        delay,
        retry: Duration::from_secs(30),
        status,
        nacks: counts.0,
        redeliveries: counts.1,
        key: None,
        now: NOW,
    }
}

#[test]
fn a_message_needs_only_a_body() {
    let message = add(r#"{"body":"hello"}"#).unwrap();
    assert_eq!(&*message.body, b"hello");
    assert_eq!((message.ttl, message.retry, message.delay), (TTL_DEFAULT, RETRY_DEFAULT, Duration::ZERO));
    assert_eq!(&*add(r#"{"body_base64":"AP8="}"#).unwrap().body, [0, 255]);
    assert_eq!(&*add(r#"{"body":""}"#).unwrap().body, b"", "an empty one is a body, too");
}

#[test]
fn a_short_life_is_tried_again_sooner() {
    let retry = |ttl: &str| add(&format!(r#"{{"body":"","ttl":"{ttl}"}}"#)).unwrap().retry;
    assert_eq!(retry("10m"), Duration::from_secs(60));
    assert_eq!(retry("2s"), Duration::from_secs(1));
    assert_eq!(retry("3d"), RETRY_DEFAULT);
}

#[test]
fn a_message_that_cannot_be_names_the_field() {
    let long = "k".repeat(257);
    let large = "x".repeat(MESSAGE_BYTES_MAX + 1);
    let rows = [
        ("{}".to_owned(), "body"),
        (r#"{"body":"a","body_base64":"YQ=="}"#.to_owned(), "body"),
        (r#"{"body":7}"#.to_owned(), "body"),
        (r#"{"body_base64":"%"}"#.to_owned(), "body_base64"),
        (r#"{"body":"a","ttl":"0s"}"#.to_owned(), "ttl"),
        (r#"{"body":"a","ttl":"1m","delay":"1m"}"#.to_owned(), "delay"),
        (r#"{"body":"a","delay":60}"#.to_owned(), "delay"),
        (r#"{"body":"a","retry":"999w9999d"}"#.to_owned(), "retry"),
        (r#"{"body":"a","priority":10}"#.to_owned(), "priority"),
        (r#"{"body":"a","max_len":0}"#.to_owned(), "max_len"),
        (r#"{"body":"a","key":""}"#.to_owned(), "key"),
        (format!(r#"{{"body":"a","key":"{long}"}}"#), "key"),
        (format!(r#"{{"body":"{large}"}}"#), "body"),
        (r#"{"body":"a","replicate":3}"#.to_owned(), "replicate"),
    ];
    for (body, field) in rows {
        assert_eq!(add(&body).unwrap_err().field, field, "{body:.80}");
    }
    let many = |body: &str| tree::from_json::<AddMessages>(body.as_bytes()).unwrap().into_core();
    assert_eq!(many(r#"{"messages":[]}"#).unwrap_err().field, "messages");
    assert_eq!(many(r#"{"messages":[{"body":"a"},{}]}"#).unwrap_err().field, "messages[1].body");
}

#[test]
fn an_action_names_messages_by_their_ids() {
    let act = |body: &str| tree::from_json::<ActOnMessages>(body.as_bytes())?.into_core();
    let id = some_id();
    let (verb, ids) = act(&format!(r#"{{"action":"nack","delay":"5s","ids":["{id}"]}}"#)).unwrap();
    assert_eq!(verb, Verb::Nack { delay: Duration::from_secs(5) });
    assert_eq!(ids, [MessageId { queue: QueueNumber(3), number: 77 }]);
    let rows = [
        (r#"{"ids":[]}"#.to_owned(), "action"),
        (r#"{"action":"ack","ids":[]}"#.to_owned(), "ids"),
        (r#"{"action":"burn","ids":["a"]}"#.to_owned(), "action"),
        (format!(r#"{{"action":"ack","ids":["{id}","17"]}}"#), "ids[1]"),
        (format!(r#"{{"action":"ack","delay":"5s","ids":["{id}"]}}"#), "delay"),
    ];
    for (body, field) in rows {
        assert_eq!(act(&body).unwrap_err().field, field, "{body}");
    }
}

#[test]
fn an_id_that_nobody_made_is_the_id_of_no_message() {
    let strange = "D-0a1b2c3d-AAAAAAAAAAAAAAAAAAAAAAAA-05a1";
    let body = ActOnMessages { action: MessageAction::Ack, ids: vec![strange.to_owned()], delay: None };
    assert_eq!(body.into_core().unwrap(), (Verb::Ack, vec![]));
}

/// The keys that scripts for other servers look for.
#[test]
fn a_message_is_shown_with_every_key_that_is_promised() {
    let until = Some(NOW + Duration::from_secs(20));
    let shown = Message::of(&view(MessageStatus::Active { until }, Duration::ZERO, (1, 1)), "n1");
    let json = serde_json::to_value(&shown).unwrap();
    let keys = [
        "state",
        "id",
        "replicate",
        "group",
        "ttl",
        "body",
        "next_requeue_within",
        "attempts",
        "registered_at",
        "delivery_info",
    ];
    for key in keys {
        assert!(!json[key].is_null(), "{key}: {json}");
    }
    assert_eq!((&json["ttl"], &json["next_requeue_within"]), (&"1m30s".into(), &"20s".into()));
    let info = json["delivery_info"].as_object().unwrap();
    assert_eq!(info.keys().collect::<Vec<_>>(), ["ack_times", "delivery_count", "node", "qtime"]);
    assert_eq!((shown.attempts, info["node"].as_str()), (3, Some("n1")));
    assert_eq!(serde_json::from_value::<Message>(json).unwrap(), shown);
}

#[test]
fn what_was_never_delivered_has_no_attempts() {
    let attempts = |status, delay, counts| Message::of(&view(status, delay, counts), "n1").attempts;
    assert_eq!(attempts(MessageStatus::Queued, Duration::ZERO, (0, 0)), 0);
    let until = NOW + Duration::from_secs(50);
    assert_eq!(attempts(MessageStatus::Delayed { until }, Duration::from_secs(60), (0, 0)), 0);
    assert_eq!(
        attempts(MessageStatus::Delayed { until }, Duration::ZERO, (1, 0)),
        1,
        "it was refused, and is put off"
    );
    assert_eq!(attempts(MessageStatus::Active { until: Some(until) }, Duration::ZERO, (0, 0)), 1);
    assert_eq!(attempts(MessageStatus::Queued, Duration::ZERO, (2, 0)), 2);
}

#[test]
fn any_bytes_come_back_as_they_were() {
    for body in [&b"text"[..], b"", &[0, 159, 146, 150], "héllo 汉字\n".as_bytes()] {
        let core = AddMessage::of(body).into_core().unwrap();
        assert_eq!(&*core.body, body);
        let id = MessageId { queue: QueueNumber(3), number: 77 };
        let delivered = Delivered {
            id,
            ttl: TTL_DEFAULT,
            at_most_once: false,
            body: core.body,
            nacks: 0,
            redeliveries: 0,
            until: None,
        };
        let key = view(MessageStatus::Queued, Duration::ZERO, (0, 0)).queue;
        let taken = Taken::of(&key, &delivered, MessageState::Active, "n1");
        assert_eq!((taken.bytes().as_slice(), taken.deliveries()), (body, 1));
        assert_eq!(parse_id(taken.id.as_bytes()), Ok(Some(id)));
    }
}
