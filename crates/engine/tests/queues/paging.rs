//! Queues that are longer than memory holds: pages, large answers and flushes.

use punctual_core::change::{Row, RowKey};
use punctual_core::limits::{MESSAGE_BYTES_MAX, TAKE_BYTES_MAX};
use punctual_core::name::Namespace;
use punctual_core::queue::{Act, Ask, Body, Message, MessageId, Said, Verb};

use super::{key, message, text};
use crate::support::Rig;

#[test]
fn a_hundred_thousand_messages_do_not_stay_in_memory_and_come_in_order() {
    const ALL: usize = 100_000;
    let mut rig = Rig::new(0);
    for part in 0..100 {
        rig.add_all((0..1000).map(|index| message(&format!("{}", part * 1000 + index))).collect());
        assert!(rig.shards[0].messages_held() < 4_000, "{}", rig.shards[0].messages_held());
    }
    rig.reload();
    assert_eq!(rig.stat().map(|stat| stat.len), Some(ALL as u64));
    let mut next = 0;
    while next < ALL {
        let taken = rig.take(500);
        assert!(!taken.is_empty(), "{next} were taken");
        for one in &taken {
            assert_eq!(String::from_utf8_lossy(&one.body), next.to_string());
            next += 1;
        }
        let ids = taken.iter().map(|one| one.id).collect();
        rig.said(Ask::Act(Act { namespace: Namespace::default(), verb: Verb::Ack, ids }));
        assert!(rig.shards[0].messages_held() < 6_000, "{}", rig.shards[0].messages_held());
    }
    assert!(rig.take(1).is_empty() && rig.message_rows().is_empty());
    rig.check_counts();
}

#[test]
fn a_take_of_large_messages_is_bounded_in_bytes() {
    const ALL: usize = 40;
    let large = |number: usize| format!("{number:02}{}", "x".repeat(MESSAGE_BYTES_MAX - 2));
    for is_paged in [false, true] {
        let mut rig = Rig::new(0);
        rig.add_all((0..ALL).map(|number| message(&large(number))).collect());
        if is_paged {
            rig.reload();
        }
        let mut next = 0;
        while next < ALL {
            if let Said::Peeked(Some(seen)) =
                rig.said(Ask::Peek { queue: key("q"), count: 1000, newest: false })
            {
                assert!(seen.len() * MESSAGE_BYTES_MAX <= TAKE_BYTES_MAX, "{} were seen", seen.len());
            }
            let taken = rig.take(1000);
            assert!(
                !taken.is_empty() && taken.len() * MESSAGE_BYTES_MAX <= TAKE_BYTES_MAX,
                "{}",
                taken.len()
            );
            for one in &taken {
                assert_eq!(one.body[..2], *format!("{next:02}").as_bytes());
                next += 1;
            }
            let left = (ALL - next) as u64;
            assert_eq!(rig.stat().map(|stat| stat.len), Some(left));
        }
        rig.check_counts();
    }
}

#[test]
fn an_outdated_leader_changes_no_message_of_its_successor() {
    let mut rig = Rig::new(0);
    let id = rig.add(message("mine"));
    rig.reload();
    let mine = rig.rows.message(id).expect("a row");
    let theirs = MessageId { number: id.number + 1, ..id };
    let row = Message { id: theirs, body: Body::from(b"theirs".as_slice()), ..Message::clone(&mine) };
    let key = RowKey::Message(theirs.queue, row.position());
    rig.rows.put(theirs.shard(), &key, None, Some(Row::Message(row.into())));
    assert_eq!(text(&rig.take(10)), ["mine"]);
    assert_eq!(rig.act(Verb::Ack, theirs), 0);
}

#[test]
fn a_long_queue_is_flushed_in_batches() {
    let mut rig = Rig::new(0);
    for _ in 0..5 {
        rig.add_all((0..1000).map(|_| message("x")).collect());
    }
    rig.reload();
    let mut flushed = 0;
    loop {
        match rig.said(Ask::Flush { queue: key("q"), limit: 700 }) {
            Said::Flushed(0) => break,
            Said::Flushed(count) => flushed += count,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(flushed, 5000);
    rig.check_counts();
}

/// Messages beyond those in memory are peeked at in their rows: a delivered message must not be marked as queued there.
#[test]
fn a_look_beyond_memory_has_every_delivery_written_before_it_is_answered() {
    let mut rig = Rig::new(0);
    for _ in 0..5 {
        rig.add_all((0..1000).map(|number| message(&number.to_string())).collect());
    }
    rig.reload();
    let taken = rig.take(3);
    let queued = |rig: &Rig| rig.message_rows().iter().filter(|row| row.is_queued()).count();
    assert_eq!((taken.len(), queued(&rig)), (3, 5000), "deliveries are written later");
    assert!(matches!(
        rig.said(Ask::Peek { queue: key("q"), count: 2, newest: false }),
        Said::Peeked(Some(_))
    ));
    assert_eq!(queued(&rig), 5000, "what memory knows costs nothing");
    for (count, newest) in [(1000, true), (4999, false)] {
        assert_eq!(rig.said(Ask::Peek { queue: key("q"), count, newest }), Said::Peeked(None));
        assert_eq!(queued(&rig), 4997);
    }
    rig.check_counts();
}
