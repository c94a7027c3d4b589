//! Links between jobs: what ends or happens reaches each listener once.
//!
//! The end of a run is written together with a notice for each job that follows it, and for the step that waits for it.
//! A notice starts one run. None is left when nothing is in flight.

use std::collections::BTreeMap;

use punctual_core::change::{Batch, Change, Row, RowKey};
use punctual_core::ids::RunId;
use punctual_core::name::Name;
use punctual_core::queue::{Content, END_NOTICES, EndNotice, Sender};
use punctual_core::run::{Run, Status, Trigger};
use punctual_core::topic::{Listener, Topic, TopicKey};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Seen, Verdict};

#[derive(Debug, Default)]
pub(super) struct Topics {
    listeners: BTreeMap<i64, (TopicKey, Name)>,
    open: BTreeMap<i64, Content>,
    /// Each start of a job that a notice asked for: the job, and what happened.
    asked: FxHashSet<(Name, i64)>,
    /// The runs that the ends of others started, and those that steps started.
    followed: FxHashMap<(Name, RunId), RunId>,
    called: FxHashMap<Sender, RunId>,
}

impl Topics {
    pub(super) fn landed(&mut self, batch: &Batch, born: &[std::sync::Arc<Run>], seen: &mut Seen) -> Verdict {
        let before = self.listeners.clone();
        let mut fresh = Vec::new();
        for (key, change) in batch.changes.iter() {
            match (key, change) {
                (_, Change::Insert(Row::Listener(row))) => {
                    if let Listener::Job(job) = &row.listener {
                        self.listeners.insert(row.number, (row.topic.clone(), job.clone()));
                    }
                }
                (RowKey::Listener(number), Change::Delete) => drop(self.listeners.remove(number)),
                (_, Change::Insert(Row::Message(row))) => {
                    fresh.extend(EndNotice::of(row));
                }
                (RowKey::Message(END_NOTICES, place), Change::Delete) => {
                    drop(self.open.remove(&place.number));
                }
                _ => {}
            }
        }
        for notice in &fresh {
            if let Content::Start(start) = &notice.content
                && !self.asked.insert((start.job.clone(), start.happening.id))
            {
                return Err(format!("topics: job {} is told twice of {}", start.job, start.happening.id));
            }
            self.open.insert(notice.number, notice.content.clone());
        }
        let ended = batch.changes.iter().filter_map(|(_, change)| match change {
            Change::Insert(Row::History(run)) => Some(run),
            _ => None,
        });
        for run in ended {
            self.told_of(run, &before, &fresh)?;
        }
        born.iter().try_for_each(|run| self.born(run, seen))
    }

    /// The end of a run has a notice for each job that follows it, and for the step that waits for it.
    fn told_of(&self, run: &Run, before: &BTreeMap<i64, (TopicKey, Name)>, fresh: &[EndNotice]) -> Verdict {
        if let Some(caller) = run.caller() {
            let is_told = fresh.iter().any(
                |notice| matches!(&notice.content, Content::Attempt { sender, .. } if *sender == caller),
            );
            if !is_told {
                return Err(format!("topics: the step that waits for run {} is not told of its end", run.id));
            }
        }
        let Some(job) = run.job_name().filter(|_| run.parent().is_none()) else { return Ok(()) };
        if run.status() == Status::Skipped {
            return Ok(());
        }
        let topic = TopicKey { namespace: run.namespace.clone(), topic: Topic::Job(job.clone()) };
        let stays = |number: &i64| self.listeners.contains_key(number);
        for (_, (_, follower)) in before.iter().filter(|(number, (of, _))| *of == topic && stays(number)) {
            let is_told = fresh.iter().any(|notice| {
                matches!(&notice.content, Content::Start(start) if start.job == *follower && start.happening.id == run.id.0)
            });
            if !is_told {
                return Err(format!("topics: job {follower} is not told that run {} has ended", run.id));
            }
        }
        Ok(())
    }

    /// A new run that another one started: once, and asked for by a notice.
    fn born(&mut self, run: &Run, seen: &mut Seen) -> Verdict {
        if let Some(caller) = run.caller() {
            seen.calls += 1;
            if let Some(first) = self.called.insert(caller, run.id) {
                return Err(format!("topics: {caller:?} has started the runs {first} and {}", run.id));
            }
        }
        let (Some(job), Trigger::After, Some(upstream)) = (run.job_name(), run.trigger, run.started_by())
        else {
            seen.by_event += u64::from(run.trigger == Trigger::Event);
            return Ok(());
        };
        seen.followed += 1;
        if !self.asked.contains(&(job.clone(), upstream.0)) {
            return Err(format!("topics: nothing asked for run {} after run {upstream}", run.id));
        }
        match self.followed.insert((job.clone(), upstream), run.id) {
            Some(first) => Err(format!("topics: the runs {first} and {} of {job} follow {upstream}", run.id)),
            None => Ok(()),
        }
    }

    pub(super) fn at_rest(&self) -> Verdict {
        match self.open.first_key_value() {
            None => Ok(()),
            Some((number, content)) => {
                Err(format!("topics: notice {number} is never delivered: {content:?}"))
            }
        }
    }
}
