//! The smallest store: a map of rows that takes batches and refuses what a store must refuse.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use punctual_core::change::{
    Batch, Change, Found, Loaded, RATE_PREFIX, Row, RowKey, RunRecord, TimerPage, TimerPosition, Want,
};
use punctual_core::ids::{Epoch, JobId, RunId, ShardId};
use punctual_core::job::{Definition, Job};
use punctual_core::name::{Name, Namespace};
use punctual_core::queue::{Message, MessageId, MessagePosition, QueueNumber};
use punctual_core::run::{Origin, Run};

pub(crate) const EPOCH: Epoch = Epoch(1);

#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: BTreeMap<(ShardId, RowKey), Row>,
    timers: BTreeSet<(ShardId, TimerPosition)>,
    names: BTreeMap<(Namespace, Name), JobId>,
    numbers: BTreeMap<i64, MessageId>,
    /// A shard's commits so far, and its last id.
    heads: BTreeMap<ShardId, (u64, i64)>,
}

impl Rows {
    /// Applies a batch, or panics where a store would refuse it.
    pub(crate) fn commit(&mut self, batch: &Batch) {
        let head = self.heads.entry(batch.shard).or_default();
        assert_eq!((batch.epoch, batch.commit), (EPOCH, head.0), "the fence");
        assert!(batch.last_id >= head.1, "the last id went back");
        *head = (head.0 + 1, batch.last_id);
        for (key, change) in batch.changes.iter() {
            let old = self.rows.remove(&(batch.shard, key.clone()));
            let new = match (change, &old) {
                (Change::Insert(row), None) | (Change::Update(row), Some(_)) => Some(row.clone()),
                (Change::Delete, Some(_)) => None,
                (change, old) => panic!("the store has {old:?} and refuses {change:?}"),
            };
            if let (Some(Row::Job(old)), Some(Row::Job(new))) = (&old, &new) {
                assert!(new.cursor.fired_through >= old.cursor.fired_through, "the cursor went back");
            }
            self.put(batch.shard, key, old.as_ref(), new);
        }
    }

    pub(crate) fn put(&mut self, shard: ShardId, key: &RowKey, old: Option<&Row>, new: Option<Row>) {
        old.and_then(timer).map(|place| self.timers.remove(&(shard, place)));
        old.and_then(name).map(|(name, _)| self.names.remove(&name));
        if let Some(Row::Message(message)) = old {
            self.numbers.remove(&message.id.number);
        }
        if let Some(row) = new {
            timer(&row).map(|place| self.timers.insert((shard, place)));
            name(&row).map(|(name, id)| self.names.insert(name, id));
            if let Row::Message(message) = &row {
                self.numbers.insert(message.id.number, message.id);
            }
            self.rows.insert((shard, key.clone()), row);
        }
    }

    pub(crate) fn load(&self, shard: ShardId) -> Loaded {
        let (commit, last_id) = self.heads.get(&shard).copied().unwrap_or_default();
        let runs = self.all().filter_map(|row| match row {
            Row::Run(run) if run.shard() == shard && run.wake_at().is_none() => Some(self.record(run)),
            _ => None,
        });
        let queues = self.rows.iter().filter(|((of, _), _)| *of == shard).filter_map(|(_, row)| match row {
            Row::Queue(queue) => Some(queue.clone()),
            _ => None,
        });
        let recent = self.rows.iter().filter(|((of, _), _)| *of == shard).filter_map(|(_, row)| match row {
            Row::RecentCounts(recent) => Some(recent.clone()),
            _ => None,
        });
        let listeners =
            self.rows.iter().filter(|((of, _), _)| *of == shard).filter_map(|(_, row)| match row {
                Row::Listener(listener) => Some(Arc::clone(listener)),
                _ => None,
            });
        let listeners = listeners.collect();
        let locks = self.rows.iter().filter(|((of, _), _)| *of == shard).filter_map(|(_, row)| match row {
            Row::Lock(lock) => Some(Arc::clone(lock)),
            _ => None,
        });
        let locks = locks.collect();
        let holds = self.rows.iter().filter(|((of, _), _)| *of == shard).filter_map(|(_, row)| match row {
            Row::Hold(hold) => Some(Arc::clone(hold)),
            _ => None,
        });
        let holds = holds.collect();
        let (runs, queues, recent_counts) = (runs.collect::<Vec<_>>(), queues.collect(), recent.collect());
        let is_loaded =
            |id: RunId| runs.iter().any(|record| record.run.id == id && record.run.may_have_steps());
        let steps = self.all().filter_map(|row| match row {
            Row::Step(step) if is_loaded(step.key.run) => Some(Arc::clone(step)),
            _ => None,
        });
        let steps = steps.collect();
        let rates = self.rows.iter().filter(|((of, _), _)| *of == shard).filter_map(|(_, row)| match row {
            Row::Unique(unique) if unique.key.starts_with(RATE_PREFIX) => Some(unique.clone()),
            _ => None,
        });
        let rates = rates.collect();
        let incidents = self.all().filter_map(|row| match row {
            Row::Incident(incident) if incident.id.shard() == shard => Some(Arc::clone(incident)),
            _ => None,
        });
        let incidents = incidents.collect();
        Loaded {
            shard,
            epoch: EPOCH,
            commit,
            last_id,
            runs,
            steps,
            listeners,
            locks,
            holds,
            incidents,
            queues,
            recent_counts,
            rates,
        }
    }

    pub(crate) fn fetch(&self, shard: ShardId, wants: &[Want]) -> Found {
        let mut found = Found::default();
        for want in wants {
            match want {
                Want::Job(namespace, name) => {
                    let id = self.names.get(&(namespace.clone(), name.clone()));
                    found.jobs.extend(id.and_then(|id| self.job(*id)));
                }
                Want::Run(id) => found.runs.extend(self.run(*id).map(|run| self.record(run))),
                Want::Steps(id) => found.steps.extend(self.all().filter_map(|row| match row {
                    Row::Step(step) if step.key.run == *id && step.key.item.is_none() => {
                        Some(Arc::clone(step))
                    }
                    _ => None,
                })),
                Want::Message(id) => found.messages.extend(self.message(*id)),
                Want::DueRuns(span) => found.due_runs.extend(self.all().filter_map(|row| match row {
                    Row::History(run) => span.due_of(run),
                    _ => None,
                })),
                Want::Unique(key) => {
                    if let Some(Row::Unique(unique)) = self.get(shard, &RowKey::Unique(Arc::clone(key))) {
                        found.uniques.push(unique.clone());
                    }
                }
            }
        }
        found
    }

    pub(crate) fn due(&self, shard: ShardId, after: TimerPosition, limit: usize) -> TimerPage {
        let beyond = (Bound::Excluded((shard, after)), Bound::Unbounded);
        let places = self.timers.range(beyond).take_while(|(of, _)| *of == shard).take(limit);
        let mut page = TimerPage::default();
        for (_, place) in places {
            match self.job(JobId(place.id)) {
                Some(job) => page.jobs.push(job),
                None if self.numbers.contains_key(&place.id) => {
                    page.messages.extend(self.message(self.numbers[&place.id]));
                }
                None => page.runs.extend(self.run(RunId(place.id)).map(|run| self.record(run))),
            }
            page.end = Some(*place);
        }
        page
    }

    pub(crate) fn message_page(
        &self,
        shard: ShardId,
        queue: QueueNumber,
        after: MessagePosition,
        limit: usize,
    ) -> Vec<Arc<Message>> {
        let after = (Bound::Excluded((shard, RowKey::Message(queue, after))), Bound::Unbounded);
        let rows = self.rows.range(after).map_while(|((of, key), row)| match (key, row) {
            (RowKey::Message(of_queue, _), Row::Message(message)) if *of == shard && *of_queue == queue => {
                Some(message)
            }
            _ => None,
        });
        rows.filter(|message| message.is_queued()).take(limit).cloned().collect()
    }

    pub(crate) fn message(&self, id: MessageId) -> Option<Arc<Message>> {
        (0..=9).find_map(|rank| {
            let key = RowKey::Message(id.queue, MessagePosition { rank, number: id.number });
            match self.get(id.shard(), &key) {
                Some(Row::Message(message)) => Some(Arc::clone(message)),
                _ => None,
            }
        })
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    pub(crate) fn get(&self, shard: ShardId, key: &RowKey) -> Option<&Row> {
        self.rows.get(&(shard, key.clone()))
    }

    /// A run, whether it is still moving or has ended.
    pub(crate) fn run(&self, id: RunId) -> Option<&Arc<Run>> {
        let live = self.get(id.shard(), &RowKey::Run(id));
        match live.or_else(|| self.get(id.shard(), &RowKey::History(id))) {
            Some(Row::Run(run) | Row::History(run)) => Some(run),
            _ => None,
        }
    }

    fn job(&self, id: JobId) -> Option<Arc<Job>> {
        match self.get(id.shard(), &RowKey::Job(id)) {
            Some(Row::Job(job)) => Some(Arc::clone(job)),
            _ => None,
        }
    }

    fn record(&self, run: &Arc<Run>) -> RunRecord {
        let dead_letter = self.get(run.shard(), &RowKey::DeadLetter(run.id)).is_some();
        let job = run.job().and_then(|id| self.job(id));
        let definition = match &run.step {
            Some(step) if run.job().is_some() => {
                Arc::new(step.definition(&self.definition(run)).expect("the step of a run"))
            }
            _ => self.definition(run),
        };
        RunRecord { run: Arc::clone(run), definition, job, dead_letter }
    }

    fn definition(&self, run: &Run) -> Arc<Definition> {
        match &run.origin {
            Origin::AdHoc(definition) => Arc::clone(definition),
            Origin::Job { id, revision, .. } => match self.get(id.shard(), &RowKey::Revision(*id, *revision))
            {
                Some(Row::Revision(revision)) => Arc::clone(&revision.definition),
                _ => panic!("run {} lost its revision", run.id),
            },
        }
    }
}

fn timer(row: &Row) -> Option<TimerPosition> {
    match row {
        Row::Job(job) => Some(TimerPosition { at: job.timer_at()?, id: job.id.0 }),
        Row::Run(run) => Some(TimerPosition { at: run.wake_at()?, id: run.id.0 }),
        Row::Message(message) => Some(TimerPosition { at: message.wake_at(), id: message.id.number }),
        _ => None,
    }
}

fn name(row: &Row) -> Option<((Namespace, Name), JobId)> {
    match row {
        Row::Job(job) => Some(((job.namespace.clone(), job.name.clone()), job.id)),
        _ => None,
    }
}
