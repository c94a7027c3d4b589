//! ADDJOB queue body ms-timeout [REPLICATE n] [DELAY s] [RETRY s] [TTL s] [MAXLEN n] [ASYNC] [UNIQUE key] [PRIORITY n]
//!
//! Consecutive ADDJOBs for one queue share one request and one commit. Every job is committed before its id
//! is returned, ASYNC or not: the store keeps it, so there are no replicas to wait for.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use punctual_core::limits::{KEY_BYTES_MAX, PRIORITY_MAX};
use punctual_core::queue::{Add, Ask, Body, NewMessage, QueueKey, Said};
use punctual_wire::resp::{JobId, Request};
use tokio::time::timeout;

use crate::resp::args::{self, Words, is, number};
use crate::resp::endpoint::Endpoint;
use crate::resp::fault::{Fault, NOT_REPLICATED, SYNTAX, UNEXPECTED};
use crate::resp::session::Session;

const TTL_DEFAULT: i64 = 86400;
/// The default RETRY is a tenth of the TTL, at least a second and at most this.
const RETRY_DEFAULT_MAX: i64 = 300;
const REPLICATE_MAX: i64 = 65535;
/// The default of REPLICATE, limited by the number of nodes.
const REPLICATE_DEFAULT: usize = 3;
/// The default of PRIORITY, as for any job.
const PRIORITY_DEFAULT: u8 = 5;
/// Bytes of bodies in one request, which may have to travel to another node.
const GROUP_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Jobs for one queue that are added together.
struct Group {
    queue: QueueKey,
    timeout: Option<Duration>,
    messages: Vec<NewMessage>,
    /// The indices of their requests.
    numbers: Vec<usize>,
    bytes: usize,
}

type Outcome = Result<JobId, Fault>;

pub(in crate::resp) async fn many(session: &mut Session, requests: &[&Request]) -> Result<(), Fault> {
    let nodes = session.endpoint.nodes();
    let (mut groups, mut outcomes) = (Vec::<Group>::new(), Vec::<Option<Outcome>>::new());
    for (number, request) in requests.iter().enumerate() {
        outcomes.push(match read(request, nodes) {
            Err(fault) => Some(Err(fault)),
            Ok(wanted) => join(session, &mut groups, request, wanted, number).err().map(Err),
        });
    }
    let endpoint = &session.endpoint;
    let asked = join_all(groups.into_iter().map(|group| add(endpoint, group))).await;
    for (number, outcome) in asked.into_iter().flatten() {
        if let Some(place) = outcomes.get_mut(number) {
            *place = Some(outcome);
        }
    }
    for outcome in outcomes {
        match outcome.unwrap_or(Err(UNEXPECTED)) {
            Ok(id) => session.out.simple(id.as_str()),
            Err(Fault::Said(text)) => session.out.error(&text),
            Err(Fault::Gone) => return Err(Fault::Gone),
        }
    }
    Ok(())
}

fn join(
    session: &Session,
    groups: &mut Vec<Group>,
    request: &Request,
    wanted: Wanted,
    number: usize,
) -> Result<(), Fault> {
    let (name, bytes) = (request.word(1), wanted.message.body.len());
    let fits = |group: &&mut Group| {
        group.queue.name.as_str().as_bytes() == name
            && group.timeout == wanted.timeout
            && group.bytes + bytes <= GROUP_BYTES_MAX
    };
    match groups.iter_mut().find(fits) {
        Some(group) => {
            group.messages.push(wanted.message);
            group.numbers.push(number);
            group.bytes += bytes;
        }
        None => groups.push(Group {
            queue: args::queue(&session.namespace, name)?,
            timeout: wanted.timeout,
            messages: vec![wanted.message],
            numbers: vec![number],
            bytes,
        }),
    }
    Ok(())
}

async fn add(endpoint: &Endpoint, group: Group) -> Vec<(usize, Outcome)> {
    let Group { queue, timeout: patience, messages, numbers, .. } = group;
    let asked = endpoint.queues.queue(Ask::Add(Add { queue, messages }));
    let said = match patience {
        None => asked.await,
        Some(patience) => match timeout(patience, asked).await {
            Ok(said) => said,
            Err(_) => return numbers.into_iter().map(|number| (number, Err(NOT_REPLICATED))).collect(),
        },
    };
    match said {
        Ok(Said::Added(added)) => {
            let outcome = added.into_iter().map(|added| match added {
                Ok(notice) => Ok(JobId::new(notice.id, notice.ttl, notice.at_most_once)),
                Err(refusal) => Err(refusal.into()),
            });
            numbers.into_iter().zip(outcome).collect()
        }
        Ok(Said::Refused(refusal)) => {
            numbers.into_iter().map(|number| (number, Err(refusal.clone().into()))).collect()
        }
        Ok(_) => numbers.into_iter().map(|number| (number, Err(UNEXPECTED))).collect(),
        Err(failure) => numbers.into_iter().map(|number| (number, Err(failure.clone().into()))).collect(),
    }
}

struct Wanted {
    message: NewMessage,
    timeout: Option<Duration>,
}

#[derive(Default)]
struct Options {
    replicate: Option<i64>,
    ttl: Option<i64>,
    retry: Option<i64>,
    delay: i64,
    max_len: Option<u64>,
    key: Option<Arc<str>>,
    priority: Option<u8>,
}

/// Checks everything that needs no node, in the order in which Disque reports errors.
fn read(request: &Request, nodes: usize) -> Result<Wanted, Fault> {
    let options = options(request)?;
    let timeout = args::timeout(request.word(3))?;
    let ttl = options.ttl.unwrap_or(TTL_DEFAULT);
    let retry = options.retry.unwrap_or((ttl / 10).clamp(1, RETRY_DEFAULT_MAX));
    let nodes = i64::try_from(nodes).unwrap_or(i64::MAX);
    let replicate = options.replicate.unwrap_or(nodes.min(REPLICATE_DEFAULT as i64));
    if retry == 0 && replicate > 1 {
        return Err(Fault::new(
            "ERR With RETRY set to 0 please explicitly set  REPLICATE to 1 (at-most-once delivery)",
        ));
    }
    if options.delay >= ttl {
        return Err(Fault::new(
            "ERR The specified DELAY is greater than TTL. Job refused since would never be delivered",
        ));
    }
    if replicate > nodes {
        return Err(Fault::new("NOREPL Not enough reachable nodes for the requested replication level"));
    }
    let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let message = NewMessage {
        body: Body::from(request.word(2)),
        delay: seconds(options.delay),
        retry: seconds(retry),
        ttl: seconds(ttl),
        priority: options.priority.unwrap_or(PRIORITY_DEFAULT),
        max_len: options.max_len,
        key: options.key,
    };
    Ok(Wanted { message, timeout })
}

fn options(request: &Request) -> Result<Options, Fault> {
    let mut options = Options::default();
    let mut words = Words::of(request, 4);
    while let Some(word) = words.next() {
        if is(word, "ASYNC") {
            continue;
        }
        let is_known = ["REPLICATE", "DELAY", "RETRY", "TTL", "MAXLEN", "UNIQUE", "PRIORITY"];
        if !is_known.iter().any(|known| is(word, known)) {
            return Err(SYNTAX);
        }
        let value = words.next().ok_or(SYNTAX)?;
        let at_least = |least: i64| number(value).filter(|number| *number >= least);
        if is(word, "REPLICATE") {
            let copies = at_least(1).filter(|copies| *copies <= REPLICATE_MAX);
            options.replicate = Some(copies.ok_or(Fault::new("ERR REPLICATE must be between 1 and 65535"))?);
        } else if is(word, "DELAY") {
            options.delay = at_least(0).ok_or(Fault::new("ERR DELAY time must be a non negative number"))?;
        } else if is(word, "RETRY") {
            let retry = at_least(0).ok_or(Fault::new("ERR RETRY time must be a non negative number"))?;
            options.retry = Some(retry);
        } else if is(word, "TTL") {
            options.ttl = Some(at_least(1).ok_or(Fault::new("ERR TTL must be a number > 0"))?);
        } else if is(word, "MAXLEN") {
            let most = at_least(1).and_then(|most| u64::try_from(most).ok());
            options.max_len = Some(most.ok_or(Fault::new("ERR MAXLEN must be a positive number"))?);
        } else if is(word, "PRIORITY") {
            let priority = number(value).and_then(|number| u8::try_from(number).ok());
            let priority = priority.filter(|priority| *priority <= PRIORITY_MAX);
            options.priority = Some(priority.ok_or(Fault::new("ERR PRIORITY must be between 0 and 9"))?);
        } else {
            let key = std::str::from_utf8(value).ok();
            let key = key.filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX);
            let key = key.filter(|key| !key.chars().any(char::is_control));
            let fault = || {
                Fault::of(format!(
                    "ERR UNIQUE takes a key of 1 to {KEY_BYTES_MAX} bytes of UTF-8 text without control characters"
                ))
            };
            options.key = Some(Arc::from(key.ok_or_else(fault)?));
        }
    }
    Ok(options)
}
