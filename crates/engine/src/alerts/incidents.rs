//! The incidents of a shard, and which of their rows are still to be written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::alert::{Incident, Subject};
use punctual_core::change::{Changes, Row, RowKey};
use punctual_core::ids::{IncidentId, JobId};
use punctual_core::limits::{INCIDENTS_ENDED_MAX, INCIDENTS_KEPT};
use punctual_core::name::Namespace;

use crate::memory::Stored;

#[derive(Debug, Default)]
pub(crate) struct Incidents {
    all: BTreeMap<IncidentId, (Arc<Incident>, Stored)>,
    /// Those that are open.
    open: BTreeSet<(Option<JobId>, IncidentId)>,
    /// Those that are over, in the order in which they are forgotten.
    over: BTreeSet<(Timestamp, IncidentId)>,
    /// When those that are open must be looked at again.
    timers: BTreeSet<(Timestamp, IncidentId)>,
    dirty: BTreeSet<IncidentId>,
    /// Rows that the next batch deletes.
    gone: Vec<IncidentId>,
}

impl Incidents {
    pub(super) fn get(&self, id: IncidentId) -> Option<&Arc<Incident>> {
        self.all.get(&id).map(|(incident, _)| incident)
    }

    /// The open incidents of a job; `None` means those of channels.
    pub(super) fn open_of(&self, job: Option<JobId>) -> impl Iterator<Item = &Arc<Incident>> {
        let first = (job, IncidentId(i64::MIN));
        let of_job = self.open.range(first..).take_while(move |(of, _)| *of == job);
        of_job.filter_map(|(_, id)| self.get(*id))
    }

    /// The open incident about this.
    pub(super) fn find(&self, namespace: &Namespace, subject: &Subject) -> Option<&Arc<Incident>> {
        let job = match subject {
            Subject::Job { id, .. } => Some(*id),
            Subject::Channel(_) => None,
        };
        self.open_of(job).find(|incident| incident.subject == *subject && incident.namespace == *namespace)
    }

    /// Adds an incident that was loaded.
    pub(super) fn add(&mut self, incident: Arc<Incident>) {
        self.put(incident, Stored::Yes);
    }

    /// Adds an incident, or changes one that is open. The next batch writes its row.
    pub(super) fn write(&mut self, incident: Incident) {
        let stored = self.take(incident.id);
        self.dirty.insert(incident.id);
        self.put(Arc::new(incident), stored.unwrap_or(Stored::No));
    }

    fn put(&mut self, incident: Arc<Incident>, stored: Stored) {
        let id = incident.id;
        match incident.ended_at {
            None => _ = self.open.insert((incident.job(), id)),
            Some(at) => _ = self.over.insert((at, id)),
        }
        self.timers.extend(incident.due_at().map(|at| (at, id)));
        self.all.insert(id, (incident, stored));
        while self.over.len() > INCIDENTS_ENDED_MAX {
            self.forget_oldest();
        }
    }

    fn take(&mut self, id: IncidentId) -> Option<Stored> {
        let (incident, stored) = self.all.remove(&id)?;
        self.open.remove(&(incident.job(), id));
        if let Some(at) = incident.due_at() {
            self.timers.remove(&(at, id));
        }
        Some(stored)
    }

    fn forget_oldest(&mut self) {
        let Some((_, id)) = self.over.pop_first() else { return };
        self.dirty.remove(&id);
        if let Some((_, Stored::Yes)) = self.all.remove(&id) {
            self.gone.push(id);
        }
    }

    /// When the next incident must be looked at or forgotten.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        let forgotten = self.over.first().map(|(at, _)| *at + INCIDENTS_KEPT);
        self.timers.first().map(|(at, _)| *at).into_iter().chain(forgotten).min()
    }

    /// Forgets an incident that was over long ago, or takes one that must be looked at. `None` means that nothing is due.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<Option<IncidentId>> {
        if self.over.first().is_some_and(|(at, _)| *at + INCIDENTS_KEPT <= now) {
            self.forget_oldest();
            return Some(None);
        }
        self.timers.first().filter(|(at, _)| *at <= now)?;
        self.timers.pop_first().map(|(_, id)| Some(id))
    }

    pub(crate) fn dirty_rows(&self) -> usize {
        self.dirty.len() + self.gone.len()
    }

    pub(crate) fn seal(&mut self, changes: &mut Changes) {
        for id in std::mem::take(&mut self.gone) {
            changes.delete(RowKey::Incident(id));
        }
        for id in std::mem::take(&mut self.dirty) {
            let Some((incident, stored)) = self.all.get_mut(&id) else { continue };
            let row = Row::Incident(Arc::clone(incident));
            match std::mem::replace(stored, Stored::Yes) {
                Stored::Yes => changes.update(row),
                Stored::No => changes.insert(row),
            }
        }
    }
}
