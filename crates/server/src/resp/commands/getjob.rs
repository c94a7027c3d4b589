//! GETJOB [NOHANG] [TIMEOUT ms] [COUNT n] [WITHCOUNTERS] FROM queue...
//!
//! Takes one job of each queue in turn, up to the count; if all queues are empty it waits for one job. If the client
//! disconnects while it waits, the job goes to another consumer.

use punctual_core::limits::TAKE_MAX;
use punctual_core::queue::{Delivered, QueueKey, Wait};
use punctual_wire::resp::{JobId, Replies, Request};

use crate::resp::args::{self, Words, is, number};
use crate::resp::fault::{Fault, LEAVING, SYNTAX};
use crate::resp::session::Session;
use crate::resp::settings::{FLUSH_BYTES, OUTPUT_BYTES_MAX, QUEUES_MAX};

/// Jobs taken together: few enough to hold in memory when every body has the maximum size.
const SLICE: u32 = 100;

struct Wanted {
    queues: Vec<QueueKey>,
    count: u32,
    wait: Wait,
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
            // The jobs taken so far must still be delivered.
            Err(Fault::Said(_)) if !jobs.is_empty() => break,
            Err(fault) => return Err(fault),
        };
        let count = u32::try_from(taken.len()).unwrap_or(u32::MAX);
        bytes += taken.iter().map(|(_, job)| job.body.len()).sum::<usize>();
        jobs.extend(taken);
        // The queues are empty now, and only the first slice waits.
        if count < slice {
            break;
        }
        (left, wait) = (left.saturating_sub(count), Wait::No);
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
    wait: Wait,
) -> Result<Vec<(QueueKey, Delivered)>, Fault> {
    if wait == Wait::No {
        return Ok(session.endpoint.queues.take(queues, count, wait).await?);
    }
    // Send earlier replies before waiting.
    if !session.out.is_empty() {
        session.send().await?;
    }
    let Session { endpoint, link, client, .. } = session;
    client.waits(true);
    let taken = tokio::select! {
        biased;
        taken = endpoint.queues.take(queues, count, wait) => taken.map_err(Fault::from),
        () = client.ended() => Err(if endpoint.clients.is_closed() { LEAVING } else { Fault::Gone }),
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
    let mut wanted = Wanted { queues: Vec::new(), count: 1, wait: Wait::Forever, with_counters: false };
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
    wanted.wait = match timeout {
        _ if nohang || session.transaction.is_running() => Wait::No,
        Some(span) => Wait::For(span),
        None => Wait::Forever,
    };
    Ok(wanted)
}
