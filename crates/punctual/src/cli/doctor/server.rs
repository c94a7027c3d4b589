//! Checks the server: answers, readiness, version, clock and workers.

use std::time::Duration;

use punctual_client::{Error, RunQuery};
use punctual_core::Timestamp;
use punctual_core::limits::PAGE_MAX;
use punctual_core::run::{Reason, Status};
use punctual_wire::rest::{Code, Node, Run, Worker};

use super::Check;
use super::folder::Lock;
use crate::cli::{Session, failure, time};
use crate::wiring;

/// The largest accepted difference of two clocks.
const APART_MAX: Duration = Duration::from_secs(1);

pub(super) async fn look(session: &Session, lock: &Lock) -> Vec<Check> {
    let client = &session.client;
    let before = wiring::now();
    let nodes = match client.nodes().await {
        Ok(nodes) => nodes.items,
        Err(error) => return vec![silent(client.server(), &error, lock)],
    };
    let after = wiring::now();
    let mut checks = Vec::new();
    for node in &nodes {
        checks.push(ready(client.server(), node));
        if node.lost_at.is_some() {
            continue;
        }
        checks.extend(durability(node));
        checks.push(version(node));
        checks.push(clock(node.now.0, before, after));
    }
    if let Ok(workers) = client.workers().await {
        checks.push(slots(&workers.items));
    }
    let ready = RunQuery {
        state: Some(Status::Ready.to_string()),
        children: Some(true),
        limit: Some(PAGE_MAX),
        ..RunQuery::default()
    };
    if let Ok(runs) = client.runs(&session.namespace, &ready).await {
        checks.push(waiting(&runs.items));
    }
    checks
}

fn silent(server: &str, error: &Error, lock: &Lock) -> Check {
    match (error, &lock.address) {
        (_, Some(address)) if address.url != server => Check::warn(
            "server",
            format!("{error}, but the node of this data folder listens elsewhere"),
            format!("`export PUNCTUAL_SERVER={}`", address.url),
        ),
        (Error::Unreachable { server, source }, _) => {
            let cause = failure::cause_of(source);
            Check::warn("server", format!("{error}: {cause}"), failure::hint_for(server, &cause))
        }
        (Error::BrokenOff { .. }, _) => Check::warn("server", error.to_string(), "ask again"),
        (Error::Strange { .. }, _) => {
            Check::fail("server", error.to_string(), "--server or PUNCTUAL_SERVER names the right one")
        }
        (Error::Problem(problem), _) if problem.code == Code::Unauthenticated => {
            Check::fail("server", error.to_string(), "PUNCTUAL_TOKEN or --token-file FILE shows a token")
        }
        (Error::Problem(_), _) => {
            Check::fail("server", error.to_string(), "the log of the server tells more")
        }
    }
}

fn ready(server: &str, node: &Node) -> Check {
    let Node { name, shards, .. } = node;
    if let Some(at) = &node.lost_at {
        let found = format!("node {name} was lost at {at}; others lead its shards");
        return Check::warn("server", found, "start it again");
    }
    match (&node.failed, node.ready) {
        (Some(why), _) => {
            Check::fail("server", format!("node {name} at {server} failed: {why}"), "start it again")
        }
        (None, false) => Check::warn(
            "server",
            format!("node {name} at {server} is not ready yet"),
            "it is loading; `punctual node list` shows when it is done",
        ),
        (None, true) => {
            Check::ok("server", format!("node {name} at {server} is ready and leads {shards} shards"))
        }
    }
}

/// Warns about a store that may lose acknowledged changes.
fn durability(node: &Node) -> Option<Check> {
    (node.durability == "relaxed").then(|| {
        let found = format!(
            "node {} acknowledges changes before they are on disk: a power loss loses them",
            node.name
        );
        Check::warn(
            "durability",
            found,
            "start it with --durability full, and without durability=relaxed in --store",
        )
    })
}

fn version(node: &Node) -> Check {
    let ours = env!("CARGO_PKG_VERSION");
    if node.version == ours {
        return Check::ok("version", format!("{ours}, here and there"));
    }
    let found = format!("{ours} here, {} there", node.version);
    Check::warn("version", found, "use the same on both sides: one may not know what the other says")
}

/// The server read its clock at some time between `before` and `after`.
fn clock(theirs: Timestamp, before: Timestamp, after: Timestamp) -> Check {
    let apart = theirs.since(after).max(before.since(theirs));
    if apart <= APART_MAX {
        return Check::ok("server clock", "agrees with ours");
    }
    let way = if theirs > after { "ahead of" } else { "behind" };
    let found = format!("{} {way} ours", time::took(before, before + apart));
    Check::warn("server clock", found, "synchronise both machines: due times go by the server's clock")
}

fn slots(workers: &[Worker]) -> Check {
    let (slots, busy) = workers
        .iter()
        .filter(|worker| !worker.lost)
        .fold((0, 0), |(slots, busy), worker| (slots + worker.slots, busy + worker.busy));
    match (slots, slots - busy.min(slots)) {
        (0, _) => Check::fail("workers", "there are none: nothing can run", "start a node that works"),
        (slots, 0) => Check::warn(
            "workers",
            format!("all {slots} slots are busy: what is due waits"),
            "`punctual run list --state running` shows with what; more --slots take more at a time",
        ),
        (slots, free) => Check::ok("workers", format!("{free} of {slots} slots are free")),
    }
}

/// Ready runs that no worker can take.
fn waiting(ready: &[Run]) -> Check {
    let is_unfit =
        |run: &&Run| run.reason.as_ref().is_some_and(|why| why.starts_with(Reason::NO_WORKER_FITS));
    let mut unfit = ready.iter().filter(is_unfit);
    let Some(first) = unfit.next() else {
        return Check::ok("ready runs", "every one has a worker that fits, or there is none");
    };
    let (more, why) = (unfit.count(), first.reason.as_deref().unwrap_or_default());
    let runs = if more == 0 { String::new() } else { format!(" and {more} more") };
    let found = format!("run {}{runs} cannot start: {why}", first.id);
    let hint = "`punctual node workers` shows the workers with their labels and tasks; start one that fits, or change \
                `route.selector` of the job";
    Check::warn("ready runs", found, hint)
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn clocks_are_compared_across_the_time_that_an_answer_takes() {
        let (before, after) = (NOW, NOW + Duration::from_secs(3));
        assert_eq!(clock(NOW + Duration::from_secs(2), before, after).verdict, Verdict::Ok);
        assert_eq!(clock(NOW + Duration::from_secs(4), before, after).verdict, Verdict::Ok);
        assert_eq!(clock(NOW + Duration::from_secs(9), before, after).found, "6s ahead of ours");
        assert_eq!(clock(NOW.before(Duration::from_secs(60)), before, after).found, "1m behind ours");
    }

    #[test]
    fn workers_without_a_free_slot_are_named() {
        let worker = |slots, busy| Worker {
            name: "w".into(),
            nodes: vec!["n".into()],
            slots,
            busy,
            ..Worker::default()
        };
        assert_eq!(slots(&[]).verdict, Verdict::Fail);
        assert_eq!(slots(&[worker(4, 4)]).verdict, Verdict::Warn);
        assert_eq!(slots(&[worker(4, 4), worker(2, 1)]).found, "1 of 6 slots are free");
    }
}
