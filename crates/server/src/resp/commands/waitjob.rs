//! WAITJOB id... [TIMEOUT ms]: waits until all jobs are acknowledged, deleted or expired. Replies with how many are.

use std::time::Duration;

use punctual_core::queue::{Ask, MessageId, Said};
use punctual_wire::resp::Request;
use tokio::time::{Instant, sleep, timeout_at};

use crate::resp::args::{self, is};
use crate::resp::endpoint::Endpoint;
use crate::resp::fault::{Fault, LEAVING, UNEXPECTED};
use crate::resp::session::Session;
use crate::resp::settings::WAITED_MAX;
use punctual_core::name::Namespace;

/// The polling interval: short at first, then doubled up to the maximum.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(500);

pub(in crate::resp) async fn run(session: &mut Session, request: &Request) -> Result<(), Fault> {
    let last = request.len() - 1;
    let has_timeout = last >= 2 && is(request.word(last - 1), "TIMEOUT");
    let named = if has_timeout { last - 2 } else { last };
    if named > WAITED_MAX {
        return Err(Fault::of(format!("ERR at most {WAITED_MAX} jobs can be waited for at once")));
    }
    let patience = if has_timeout { args::timeout(request.word(last))? } else { None };
    let patience = if session.transaction.is_running() { Some(Duration::ZERO) } else { patience };
    let mut left = args::ids(request.words(1).take(named))?;
    if !session.out.is_empty() {
        session.send().await?;
    }
    let Session { endpoint, client, link, namespace, .. } = session;
    client.waits(true);
    let until = patience.map(|patience| Instant::now() + patience);
    let done = tokio::select! {
        biased;
        done = gone(endpoint, namespace, &mut left, until) => done,
        () = client.ended() => Err(if endpoint.clients.is_closed() { LEAVING } else { Fault::Gone }),
        () = link.hung_up() => Err(Fault::Gone),
    };
    client.waits(false);
    done?;
    session.out.count(u64::try_from(named - left.len()).unwrap_or(0));
    Ok(())
}

/// Waits until all are gone or the time is over; the jobs that still exist stay in `left`.
async fn gone(
    endpoint: &Endpoint,
    namespace: &Namespace,
    left: &mut Vec<MessageId>,
    until: Option<Instant>,
) -> Result<(), Fault> {
    let mut pause = LOOK_MIN;
    loop {
        let mut there = Vec::with_capacity(left.len());
        for id in left.iter() {
            match endpoint.queues.queue(Ask::Show { namespace: namespace.clone(), id: *id }).await? {
                Said::Shown(Some(_)) => there.push(*id),
                Said::Shown(None) => {}
                Said::Refused(refusal) => return Err(refusal.into()),
                _ => return Err(UNEXPECTED),
            }
        }
        *left = there;
        if left.is_empty() {
            return Ok(());
        }
        match until {
            None => sleep(pause).await,
            Some(until) if timeout_at(until, sleep(pause)).await.is_err() => return Ok(()),
            Some(_) => {}
        }
        pause = (pause * 2).min(LOOK_MAX);
    }
}
