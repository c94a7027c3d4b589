//! Incidents: an error opens one, the next success ends it, and people are notified once for each.
//!
//! A job has one open incident for a condition. An incident and its notices are one batch: one that opens, one that ends,
//! and one for each new error. A receiver gets only what was committed. Whether every notice is sent is checked together
//! with all other notices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::alert::{Condition, Incident, Notification, Occasion, Subject};
use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::ids::{IncidentId, JobId};
use punctual_core::job::Definition;
use punctual_core::queue::{Content, EndNotice};
use punctual_core::run::{Run, Status};

use super::{Seen, Verdict};

/// How soon a notification is sent when all is well. An incident that goes on is notified until the end of the world.
pub(super) const SENT_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Incidents {
    rows: BTreeMap<IncidentId, Arc<Incident>>,
    definitions: BTreeMap<JobId, Arc<Definition>>,
    /// What each notice says.
    committed: BTreeMap<i64, Notification>,
    received: BTreeSet<i64>,
}

impl Incidents {
    pub(super) fn landed(&mut self, batch: &Batch, seen: &mut Seen) -> Verdict {
        let mut told: BTreeMap<IncidentId, Vec<Occasion>> = BTreeMap::new();
        let (mut edited, mut ended): (BTreeSet<JobId>, Vec<&Arc<Run>>) = Default::default();
        for (key, change) in batch.changes.iter() {
            match (key, change) {
                (_, Change::Insert(Row::Message(row))) => {
                    if let Some(EndNotice { number, content: Content::Notify(notification) }) =
                        EndNotice::of(row)
                    {
                        seen.notified += 1;
                        told.entry(notification.incident.id).or_default().push(notification.occasion);
                        self.committed.insert(number, *notification);
                    }
                }
                (RowKey::Revision(job, _), _) => _ = edited.insert(*job),
                (RowKey::DeletedJob(job), _) => _ = self.definitions.remove(job),
                (_, Change::Insert(Row::Job(job)) | Change::Update(Row::Job(job))) => {
                    self.definitions.insert(job.id, Arc::clone(&job.definition));
                }
                (_, Change::Insert(Row::History(run))) => ended.push(run),
                _ => {}
            }
        }
        for (key, change) in batch.changes.iter() {
            match (key, change) {
                (
                    RowKey::Incident(id),
                    Change::Insert(Row::Incident(row)) | Change::Update(Row::Incident(row)),
                ) => {
                    let before = self.rows.insert(*id, Arc::clone(row));
                    let occasions = told.remove(id).unwrap_or_default();
                    seen.incidents += u64::from(before.is_none());
                    is_told(before.as_deref(), row, &occasions)?;
                }
                (RowKey::Incident(id), Change::Delete) => drop(self.rows.remove(id)),
                _ => {}
            }
        }
        if let Some(id) = told.keys().next() {
            return Err(format!("incidents: people are told of {id}, which has not changed"));
        }
        self.one_is_open()?;
        self.follow_their_runs(&ended, &edited)
    }

    fn one_is_open(&self) -> Verdict {
        let mut open: Vec<&Subject> = Vec::new();
        for row in self.rows.values().filter(|row| row.is_open()) {
            if open.contains(&&row.subject) {
                return Err(format!("incidents: two are open about {:?}", row.subject));
            }
            open.push(&row.subject);
        }
        Ok(())
    }

    /// The runs of a job that ended in one batch have no order, so jobs of which runs failed and succeeded are left out.
    fn follow_their_runs(&self, ended: &[&Arc<Run>], edited: &BTreeSet<JobId>) -> Verdict {
        let mut failed: BTreeMap<JobId, BTreeSet<bool>> = BTreeMap::new();
        for run in ended.iter().filter(|run| run.parent().is_none() && !run.is_backfill()) {
            let has_failed = match run.status() {
                Status::Failed | Status::TimedOut => true,
                Status::Succeeded => false,
                _ => continue,
            };
            if let Some(job) = run.job().filter(|job| !edited.contains(job)) {
                failed.entry(job).or_default().insert(has_failed);
            }
        }
        for (job, failed) in failed {
            let on = Condition::Failed { after: 1 };
            let alerts = self.definitions.get(&job).map_or(&[][..], |definition| &definition.alerts);
            let expected = failed.iter().all(|failed| *failed);
            let is_mixed = failed.len() > 1;
            if is_mixed || !alerts.iter().any(|alert| alert.on == on) {
                continue;
            }
            let is_its = |row: &&Arc<Incident>| {
                row.is_open()
                    && matches!(&row.subject, Subject::Job { id, step: None, on: of, .. } if *id == job && *of == on)
            };
            if self.rows.values().any(|row| is_its(&row)) != expected {
                let what =
                    if expected { "has failed, and none is open" } else { "has succeeded, and one is open" };
                return Err(format!("incidents: a run of job {job} {what}"));
            }
        }
        Ok(())
    }

    /// A receiver got a notification, perhaps once more.
    pub(crate) fn received(&mut self, number: i64, notification: &Notification) -> Verdict {
        self.received.insert(number);
        match self.committed.get(&number) {
            Some(committed) if committed == notification => Ok(()),
            Some(_) => Err(format!("incidents: notification {number} is not as it was committed")),
            None => Err(format!("incidents: notification {number} was sent before it was committed")),
        }
    }

    pub(super) fn at_rest(&self, reached: Timestamp) -> Verdict {
        let is_owed = |(number, notification): &(&i64, &Notification)| {
            !self.received.contains(number) && notification.at + SENT_WITHIN <= reached
        };
        match self.committed.iter().find(is_owed) {
            Some((number, _)) => Err(format!("incidents: notification {number} was never sent")),
            None => Ok(()),
        }
    }
}

/// Whether people are told of a change of an incident: once when it opens, once for each new error, once when it ends.
fn is_told(before: Option<&Incident>, row: &Incident, occasions: &[Occasion]) -> Verdict {
    let count = |wanted: Occasion| occasions.iter().filter(|occasion| **occasion == wanted).count();
    let errors = row.fingerprints.len() - before.map_or(0, |before| before.fingerprints.len());
    let opened = usize::from(before.is_none());
    let ended = usize::from(!row.is_open());
    let is_right = count(Occasion::Opened) == opened
        && count(Occasion::Opened) + count(Occasion::Changed) == errors
        && count(Occasion::Ended) == ended;
    if is_right { Ok(()) } else { Err(format!("incidents: {} is told as {occasions:?}", row.id)) }
}
