//! What needs a person: lost nodes, clocks, runs that no worker fits, incidents, dead letters, approvals,
//! paused jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::job::Pause;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Reason, State, Status};
use punctual_core::schedule::format_duration;
use punctual_store::{Durability, IncidentFilter, LetterFilter, RunFilter};
use punctual_wire::Text;
use punctual_wire::rest::{Attention, AttentionKind, Incident, Node};

use super::overview::entry;
use super::problem::Failed;
use crate::Endpoints;

/// Entries in one answer.
pub(crate) const MAX: usize = 100;
/// Incidents, dead letters, approvals and ready runs that are read and grouped by job.
const READ_MAX: usize = 1000;
/// A node whose system clock differs by more from the store's gets a warning.
const OFFSET_MAX: Duration = Duration::from_secs(1);

/// The entries, worst first.
pub(crate) async fn list(
    endpoints: &Endpoints,
    namespace: Option<&Namespace>,
    paused: &[(Namespace, Name, Pause)],
    nodes: &[Node],
) -> Result<Vec<Attention>, Failed> {
    let mut all = of_nodes(endpoints, nodes);
    all.extend(unfit_runs(endpoints, namespace).await?);
    all.extend(incidents(endpoints, namespace).await?);
    all.extend(dead_letters(endpoints, namespace).await?);
    all.extend(approvals(endpoints, namespace).await?);
    all.extend(paused.iter().map(|(namespace, job, pause)| Attention {
        namespace: Some(namespace.clone()),
        since: Some(Text(pause.since)),
        ..entry(AttentionKind::JobPaused, Some(job.to_string()), format!("job `{job}` is {}", pause.told()))
    }));
    all.sort_by_key(|entry| (entry.kind, std::cmp::Reverse(entry.count)));
    all.truncate(MAX);
    Ok(all)
}

fn of_nodes(endpoints: &Endpoints, nodes: &[Node]) -> Vec<Attention> {
    let mut all = Vec::new();
    for node in nodes {
        let name = Some(node.name.clone());
        let offset = Duration::from_millis(node.clock_offset_ms.unsigned_abs());
        if let Some(at) = node.lost_at {
            let message = format!("node `{}` was lost; look at its log and start it again", node.name);
            all.push(Attention { since: Some(at), ..entry(AttentionKind::NodeLost, name, message) });
        } else if offset > OFFSET_MAX {
            let way = if node.clock_offset_ms > 0 { "ahead of" } else { "behind" };
            let message = format!(
                "the system clock of node `{}` is {} {way} the store's; synchronise it (NTP)",
                node.name,
                format_duration(Duration::from_secs_f64(offset.as_secs_f64().round()))
            );
            all.push(entry(AttentionKind::ClockOffset, name, message));
        }
    }
    if endpoints.handle.reads().durability() == Durability::Relaxed {
        let message = "the store is relaxed: an acknowledged change may be lost in a power failure";
        all.push(entry(AttentionKind::RelaxedStore, None, message));
    }
    all
}

/// A job, or the runs of a namespace without a job.
type Owner = (Namespace, Option<Name>);

/// How many there are, since when, and what the first of them says.
struct Group {
    count: u64,
    since: Timestamp,
    words: String,
}

fn add(groups: &mut BTreeMap<Owner, Group>, owner: Owner, since: Timestamp, words: impl FnOnce() -> String) {
    let group = groups.entry(owner).or_insert_with(|| Group { count: 0, since, words: words() });
    group.count += 1;
    group.since = group.since.min(since);
}

fn grouped(kind: AttentionKind, groups: BTreeMap<Owner, Group>) -> impl Iterator<Item = Attention> {
    groups.into_iter().map(move |((namespace, job), group)| Attention {
        namespace: Some(namespace),
        count: group.count,
        since: Some(Text(group.since)),
        ..entry(kind, job.map(|job| job.to_string()), group.words)
    })
}

/// Ready runs for which no worker fits, by job.
async fn unfit_runs(
    endpoints: &Endpoints,
    namespace: Option<&Namespace>,
) -> Result<impl Iterator<Item = Attention>, Failed> {
    let filter = RunFilter {
        namespace: namespace.cloned(),
        statuses: vec![Status::Ready],
        oldest_first: true,
        ..RunFilter::default()
    };
    let mut groups = BTreeMap::new();
    for run in endpoints.handle.reads().runs(&filter, None, READ_MAX).await? {
        let (State::Ready { since }, Some(reason @ Reason::NoWorkerFits(_))) = (&run.state, &run.reason)
        else {
            continue;
        };
        let job = run.job_name().cloned();
        add(&mut groups, (run.namespace.clone(), job), *since, || reason.to_string());
    }
    Ok(grouped(AttentionKind::NoWorkerFits, groups))
}

/// Open incidents that nobody has acknowledged, by job. Each entry has the words of the newest.
async fn incidents(
    endpoints: &Endpoints,
    namespace: Option<&Namespace>,
) -> Result<impl Iterator<Item = Attention>, Failed> {
    let filter = IncidentFilter { namespace: namespace.cloned(), is_open: true, ..IncidentFilter::default() };
    let mut groups = BTreeMap::new();
    for incident in endpoints.handle.reads().incidents(&filter, None, READ_MAX).await? {
        if incident.acknowledged.is_none() {
            let owner = (incident.namespace.clone(), incident.job_name().cloned());
            add(&mut groups, owner, incident.opened_at, || Incident::from(&*incident).condition);
        }
    }
    Ok(grouped(AttentionKind::Incidents, groups))
}

async fn dead_letters(
    endpoints: &Endpoints,
    namespace: Option<&Namespace>,
) -> Result<impl Iterator<Item = Attention>, Failed> {
    let filter = LetterFilter { namespace: namespace.cloned(), ..LetterFilter::default() };
    let mut groups = BTreeMap::new();
    for letter in endpoints.handle.reads().dead_letters(&filter, None, READ_MAX).await? {
        let words = "runs used up their attempts; replay or discard them".to_owned();
        add(&mut groups, (letter.namespace, letter.job), letter.at, || words);
    }
    Ok(grouped(AttentionKind::DeadLetters, groups))
}

/// Waiting approvals by job. Each entry names the first run.
async fn approvals(endpoints: &Endpoints, namespace: Option<&Namespace>) -> Result<Vec<Attention>, Failed> {
    let (mut groups, mut runs) = (BTreeMap::new(), BTreeMap::new());
    for approval in endpoints.handle.reads().approvals(namespace, None, READ_MAX).await? {
        let owner = (approval.key.namespace.clone(), approval.job);
        runs.entry(owner.clone()).or_insert(approval.key.run);
        add(&mut groups, owner, approval.since, || format!("step `{}` waits for an approval", approval.step));
    }
    // Both are in the order of owners.
    let entries = grouped(AttentionKind::Approvals, groups).zip(runs.into_values());
    Ok(entries.map(|(entry, run)| Attention { run: Some(Text(run)), ..entry }).collect())
}
