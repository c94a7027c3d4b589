//! SHOW id: all fields of a job, as a flat list of names and values.

use punctual_core::Timestamp;
use punctual_core::queue::{Ask, MessageStatus, MessageView, Said};
use punctual_wire::resp::{JobId, Replies, Request, parse_id};

use crate::resp::fault::{Fault, UNEXPECTED};
use crate::resp::names::NodeId;
use crate::resp::session::Session;

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let Some(id) = parse_id(request.word(1))? else {
        session.out.nil();
        return Ok(());
    };
    let ask = Ask::Show { namespace: session.namespace.clone(), id };
    match session.endpoint.queues.queue(ask).await? {
        Said::Shown(Some(view)) => write(session, &view),
        Said::Shown(None) => session.out.nil(),
        Said::Refused(refusal) => return Err(refusal.into()),
        _ => return Err(UNEXPECTED),
    }
    Ok(())
}

pub(super) fn write(session: &mut Session, view: &MessageView) {
    let (endpoint, out) = (&session.endpoint, &mut session.out);
    let leader =
        endpoint.queues.leader_of(view.id).map_or_else(|| endpoint.node.clone(), |name| NodeId::of(&name));
    let ttl = view.expires_at.since(view.created_at);
    let id = JobId::new(view.id, ttl, view.retry.is_zero());
    let (state, until) = match view.status {
        MessageStatus::Queued => ("queued", None),
        line => ("active", line.back_at()),
    };
    out.array(30);
    out.text("id");
    out.bulk(id.as_bytes());
    out.text("queue");
    out.text(view.queue.name.as_str());
    out.text("state");
    out.text(state);
    // The store keeps the job; its own replication is not visible here.
    field(out, "repl", 1);
    field(out, "ttl", seconds(view.expires_at.since(view.now).as_secs()));
    // Nanoseconds; the last digits distinguish jobs of one millisecond.
    field(out, "ctime", view.created_at.as_millis().saturating_mul(1_000_000) + (view.id.number & 0xfff));
    field(out, "delay", seconds(view.delay.as_secs()));
    field(out, "retry", seconds(view.retry.as_secs()));
    field(out, "nacks", i64::from(view.nacks));
    field(out, "additional-deliveries", i64::from(view.redeliveries));
    out.text("nodes-delivered");
    out.array(1);
    out.text(leader.as_str());
    out.text("nodes-confirmed");
    out.array(0);
    let within = until.map(|until: Timestamp| until.since(view.now).as_millis());
    for name in ["next-requeue-within", "next-awake-within"] {
        out.text(name);
        match within {
            Some(millis) => out.number(i64::try_from(millis).unwrap_or(i64::MAX)),
            None => out.nil(),
        }
    }
    out.text("body");
    out.bulk(&view.body);
}

fn field(out: &mut Replies, name: &str, value: i64) {
    out.text(name);
    out.number(value);
}

fn seconds(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}
