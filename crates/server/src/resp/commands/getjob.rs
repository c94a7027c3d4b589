//! GETJOB [NOHANG] [TIMEOUT ms] [COUNT n] [WITHCOUNTERS] FROM queue...
//!
//! Takes one of each queue in turn, up to the count; if there is none it waits, and then gets one. Whoever hangs up while
//! waiting is noticed, and what would have been theirs is somebody else's.

use std::time::Duration;

use punctual_core::limits::TAKE_MAX;
use punctual_core::queue::{Delivered, QueueKey};
use punctual_wire::resp::{JobId, Replies, Request};

use crate::resp::args::{self, Words, is, number};
use crate::resp::fault::{Fault, LEAVING, SYNTAX};
use crate::resp::session::Session;
use crate::resp::settings::{FLUSH_BYTES, OUTPUT_BYTES_MAX, QUEUES_MAX};

/// Jobs that are taken together: what has a body of the greatest length each is still held in memory.
const SLICE: u32 = 100;

struct Wanted {
    queues: Vec<QueueKey>,
    count: u32,
    /// None: not at all. Some of none: for ever.
    wait: Option<Option<Duration>>,
    with_counters: bool,
}

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let wanted = read(session, request)?;
    let (mut jobs, mut bytes) = (Vec::new(), 0);
    let mut wait = wanted.wait;
    let mut left = wanted.count;
    while left > 0 && bytes < OUTPUT_BYTES_MAX {
        let slice = left.min(SLICE).min(TAKE_MAX);
        let taken = take(session, &wanted.queues, slice, wait).await;
        let taken = match taken {
            Ok(taken) => taken,
            // What was taken before is theirs all the same.
            Err(Fault::Said(_)) if !jobs.is_empty() => break,
            Err(fault) => return Err(fault),
        };
        let count = u32::try_from(taken.len()).unwrap_or(u32::MAX);
        bytes += taken.iter().map(|(_, job)| job.body.len()).sum::<usize>();
        jobs.extend(taken);
        // There was no more, and nobody waits twice.
        if count < slice {
            break;
        }
        (left, wait) = (left.saturating_sub(count), None);
    }
    if jobs.is_empty() {
        session.out.nil_array();
        return Ok(());
    }
    session.out.array(jobs.len());
    for (queue, job) in jobs {
        write(&mut session.out, &queue, &job, wanted.with_counters);
        if session.out.len() > FLUSH_BYTES && session.mode == crate::resp::session::Mode::On {
            session.send().await?;
        }
    }
    Ok(())
}

async fn take(
    session: &mut Session,
    queues: &[QueueKey],
    count: u32,
    wait: Option<Option<Duration>>,
) -> Result<Vec<(QueueKey, Delivered)>, Fault> {
    if wait.is_none() {
        return Ok(session.door.queues.take(queues, count, None).await?);
    }
    // What was asked for before is not kept from them while this waits.
    if !session.out.is_empty() {
        session.send().await?;
    }
    let Session { door, link, client, .. } = session;
    client.waits(true);
    let taken = tokio::select! {
        biased;
        taken = door.queues.take(queues, count, wait) => taken.map_err(Fault::from),
        () = client.ended() => Err(if door.clients.is_closed() { LEAVING } else { Fault::Gone }),
        () = link.hung_up() => Err(Fault::Gone),
    };
    client.waits(false);
    taken
}

pub(super) fn write(out: &mut Replies, queue: &QueueKey, job: &Delivered, with_counters: bool) {
    out.array(if with_counters { 7 } else { 3 });
    out.text(queue.name.as_str());
    out.bulk(JobId::new(job.id, job.ttl, job.at_most_once).as_bytes());
    out.bulk(&job.body);
    if with_counters {
        out.text("nacks");
        out.number(i64::from(job.nacks));
        out.text("additional-deliveries");
        out.number(i64::from(job.redeliveries));
    }
}

fn read(session: &Session, request: &Request) -> Result<Wanted, Fault> {
    let mut wanted = Wanted { queues: Vec::new(), count: 1, wait: Some(None), with_counters: false };
    let (mut timeout, mut nohang) = (None, false);
    let mut words = Words::of(request, 1);
    while let Some(word) = words.next() {
        if is(word, "NOHANG") {
            nohang = true;
        } else if is(word, "WITHCOUNTERS") {
            wanted.with_counters = true;
        } else if is(word, "TIMEOUT") && words.has_next() {
            timeout = args::timeout(words.next().unwrap_or_default())?;
        } else if is(word, "COUNT") && words.has_next() {
            let count = number(words.next().unwrap_or_default()).filter(|count| *count > 0);
            let count = count.ok_or(Fault::new("ERR COUNT must be a number greater than zero"))?;
            wanted.count = u32::try_from(count).unwrap_or(u32::MAX);
        } else if is(word, "FROM") && words.has_next() {
            let names = request.words(words.place());
            if names.len() > QUEUES_MAX {
                return Err(Fault::of(format!("ERR at most {QUEUES_MAX} queues can be named at once")));
            }
            for name in names {
                let queue = args::queue(&session.namespace, name)?;
                if !wanted.queues.contains(&queue) {
                    wanted.queues.push(queue);
                }
            }
            break;
        } else {
            return Err(SYNTAX);
        }
    }
    if wanted.queues.is_empty() {
        return Err(SYNTAX);
    }
    wanted.wait = if nohang || session.transaction.is_running() { None } else { Some(timeout) };
    Ok(wanted)
}
