//! Links between jobs: what ends or happens reaches each listener once.
//!
//! The end of a run is written together with a notice for each job that follows it, and for the step that waits for it.
//! A notice starts one run. None is left when nothing is in flight.

use std::collections::BTreeMap;
use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Change, Holder, Row, RowKey};
use punctual_core::ids::RunId;
use punctual_core::name::Name;
use punctual_core::queue::{Content, END_NOTICES, EndNotice, Sender, parse_id};
use punctual_core::run::{Run, Status, Trigger};
use punctual_core::topic::{Listener, ListenerRecord, Topic, TopicKey, Wake, What};
use punctual_core::workflow::{State, StepKey, StepRecord};
use rustc_hash::{FxHashMap, FxHashSet};

use super::incidents::SENT_WITHIN;
use super::{Seen, Verdict};

type Listeners = BTreeMap<i64, Arc<ListenerRecord>>;

#[derive(Debug, Default)]
pub(super) struct Topics {
    listeners: Listeners,
    open: BTreeMap<i64, Content>,
    /// Each notice to a listener: the listener, and what happened.
    asked: FxHashSet<(Listener, i64)>,
    /// The events that each run was recorded to have, in their order.
    taken: FxHashMap<RunId, Vec<String>>,
    /// Each step that a notice told of its event.
    woken: FxHashSet<StepKey>,
    /// The runs that the ends of others started, and those that steps started.
    followed: FxHashMap<(Name, RunId), RunId>,
    called: FxHashMap<Sender, RunId>,
}

/// The event in a key that records that a job was started for it.
fn event_of(key: &str) -> Option<String> {
    key.strip_prefix("topic/")?.rsplit(':').next().map(str::to_owned)
}

impl Topics {
    pub(super) fn landed(&mut self, batch: &Batch, born: &[Arc<Run>], seen: &mut Seen) -> Verdict {
        let before = self.listeners.clone();
        let mut fresh = Vec::new();
        for (key, change) in batch.changes.iter() {
            match (key, change) {
                (_, Change::Insert(Row::Listener(row))) => {
                    self.listeners.insert(row.number, Arc::clone(row));
                }
                (RowKey::Listener(number), Change::Delete) => drop(self.listeners.remove(number)),
                (_, Change::Insert(Row::Message(row))) => {
                    fresh.extend(EndNotice::of(row));
                }
                (_, Change::Insert(Row::Unique(row)) | Change::Update(Row::Unique(row))) => {
                    if let (Some(event), Holder::Run(run)) = (event_of(&row.key), row.holder) {
                        self.taken.entry(run).or_default().push(event);
                    }
                }
                (RowKey::Message(END_NOTICES, place), Change::Delete) => {
                    drop(self.open.remove(&place.number));
                }
                _ => {}
            }
        }
        for notice in &fresh {
            if let Content::Wake(wake) = &notice.content
                && !self.asked.insert((wake.listener.clone(), wake.happening.id))
            {
                return Err(format!("topics: {} is told twice of {}", wake.listener, wake.happening.id));
            }
            if let Content::Wake(wake) = &notice.content
                && let Listener::Step(step) = wake.listener
            {
                self.woken.insert(step);
            }
            self.open.insert(notice.number, notice.content.clone());
        }
        for (_, change) in batch.changes.iter() {
            match change {
                Change::Insert(Row::History(run)) => {
                    self.told_of(run, &before, &fresh)?;
                    self.has_its_events(run, seen)?;
                }
                Change::Insert(Row::Step(step)) | Change::Update(Row::Step(step)) => {
                    self.woken(step, seen)?;
                }
                _ => {}
            }
        }
        let before = before.into_iter().filter(|(number, _)| self.listeners.contains_key(number)).collect();
        fresh.iter().try_for_each(|notice| Self::all_are_told(notice, &before, &fresh))?;
        born.iter().try_for_each(|run| self.born(run, seen))
    }

    /// The end of a run has a notice for each job that follows it, and for the step that waits for it.
    fn told_of(&self, run: &Run, before: &Listeners, fresh: &[EndNotice]) -> Verdict {
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
        for (_, record) in before.iter().filter(|(number, record)| record.topic == topic && stays(number)) {
            let follower = &record.listener;
            let is_told = fresh.iter().any(|notice| {
                matches!(&notice.content, Content::Wake(wake) if wake.listener == *follower && wake.happening.id == run.id.0)
            });
            if !is_told {
                return Err(format!("topics: {follower} is not told that run {} has ended", run.id));
            }
        }
        Ok(())
    }

    /// What happened is told to all who listened before, and still do. Some listen only to events with their key.
    fn all_are_told(notice: &EndNotice, before: &Listeners, fresh: &[EndNotice]) -> Verdict {
        let Content::Wake(event) = &notice.content else { return Ok(()) };
        // A message is handed to one of the jobs.
        if matches!(event.topic.topic, Topic::Queue(_)) {
            return Ok(());
        }
        let is_told = |number: i64| {
            let told = |wake: &Wake| (wake.number, wake.happening.id) == (number, event.happening.id);
            fresh.iter().any(|other| matches!(&other.content, Content::Wake(wake) if told(wake)))
        };
        let key = event.happening.what.key();
        let listening = before.iter().filter(|(_, record)| {
            record.topic == event.topic && (record.key.is_none() || record.key.as_ref() == key)
        });
        match listening.map(|(number, _)| *number).find(|number| !is_told(*number)) {
            Some(number) => {
                Err(format!("topics: {} is not told of {}", before[&number].listener, event.happening.id))
            }
            None => Ok(()),
        }
    }

    /// A run has the events that it was recorded to have: all of them, or one of them with `debounce`.
    fn has_its_events(&mut self, run: &Run, seen: &mut Seen) -> Verdict {
        let Some(mut taken) = self.taken.remove(&run.id) else { return Ok(()) };
        if run.trigger != Trigger::Event || run.gathers().is_some() {
            return Ok(());
        }
        let params = run.params.as_ref().and_then(|params| serde_json::from_str(&params.0).ok());
        let params: serde_json::Value = params.unwrap_or_default();
        // The key of a start has the number of the message, the event its id.
        let id = |event: &serde_json::Value| {
            let text = event["id"].as_str().unwrap_or_default();
            let message = parse_id(text.as_bytes()).ok().flatten();
            message.map_or_else(|| text.to_owned(), |id| RunId(id.number).to_string())
        };
        let mut has: Vec<String> = match params["events"].as_array() {
            Some(events) => events.iter().map(id).collect(),
            // Which one is the last is not known of those that came in one batch.
            None => {
                let last = id(&params["event"]);
                taken.retain(|event| *event == last);
                vec![last]
            }
        };
        seen.gathered += u64::from(has.len() > 1);
        has.sort();
        taken.sort();
        if has == taken {
            return Ok(());
        }
        Err(format!("topics: run {} has the events {has:?} and was recorded to have {taken:?}", run.id))
    }

    /// A step that waited for an event succeeds only with one.
    fn woken(&self, step: &StepRecord, seen: &mut Seen) -> Verdict {
        if step.listener.is_none() || step.state != State::Succeeded {
            return Ok(());
        }
        seen.steps_woken += 1;
        if self.woken.contains(&step.key) {
            return Ok(());
        }
        Err(format!("topics: step {} of run {} ended without its event", step.key.step, step.key.run))
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
        if !self.asked.contains(&(Listener::Job(job.clone()), upstream.0)) {
            return Err(format!("topics: nothing asked for run {} after run {upstream}", run.id));
        }
        match self.followed.insert((job.clone(), upstream), run.id) {
            Some(first) => Err(format!("topics: the runs {first} and {} of {job} follow {upstream}", run.id)),
            None => Ok(()),
        }
    }

    /// The events that steps wait for, by name and key.
    pub(super) fn awaited(&self) -> Vec<(Name, Arc<str>)> {
        let of_event = |record: &ListenerRecord| match &record.topic.topic {
            Topic::Event(name) => Some((name.clone(), record.key.clone()?)),
            _ => None,
        };
        self.steps().filter_map(of_event).collect()
    }

    fn steps(&self) -> impl Iterator<Item = &ListenerRecord> {
        let records = self.listeners.values().map(|record| &**record);
        records.filter(|record| matches!(record.listener, Listener::Step(_)))
    }

    /// `is_paused` tells whether a job is paused: a message for it waits. An incident that goes on is notified again and again,
    /// also shortly before the end.
    pub(super) fn at_rest(&self, reached: Timestamp, is_paused: impl Fn(&Name) -> bool) -> Verdict {
        if let Some(ListenerRecord { topic, listener, .. }) = self.steps().next() {
            return Err(format!("topics: {listener} listens to {} for ever", topic.topic));
        }
        let waits = |content: &Content| match content {
            Content::Wake(wake) => {
                let is_message = matches!(wake.happening.what, What::Message(_));
                is_message && matches!(&wake.listener, Listener::Job(job) if is_paused(job))
            }
            Content::Notify(notification) => notification.at + SENT_WITHIN > reached,
            _ => false,
        };
        match self.open.iter().find(|(_, content)| !waits(content)) {
            None => Ok(()),
            Some((number, content)) => {
                Err(format!("topics: notice {number} is never delivered: {content:?}"))
            }
        }
    }
}
