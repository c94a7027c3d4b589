//! Topics: a run that ends, or an event that is sent, starts the jobs that listen to it.
//!
//! The listeners of a topic are rows of its shard. What happens is written together with a notice for each listener,
//! and the job's own shard starts the run. A listener that does not listen any more, because its job was deleted or has
//! another schedule, is found out by its next notice.
//!
//! settle, event ──notice──▶ start of the job ──▶ overlap

pub(crate) mod listeners;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::change::Holder;
use punctual_core::command::{Answer, Key, Refusal};
use punctual_core::ids::RunId;
use punctual_core::job::{Invalid, Job};
use punctual_core::limits::{
    CHAIN_MAX, EVENT_COPIES_BYTES_MAX, LINKS_MAX, LISTENERS_MAX, QUEUE_LISTENERS_MAX,
};
use punctual_core::name::{Name, Namespace};
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::Content;
use punctual_core::run::{Event, Link, Reason, Run, Status, Trigger};
use punctual_core::schedule::{Schedule, When};
use punctual_core::template::Value;
use punctual_core::topic::{
    self, Happening, Listener, ListenerRecord, NewEvent, Topic, TopicKey, Upstream, Wake, What,
};
use punctual_core::workflow::StepKey;

use crate::Shard;
use crate::event::Context;
use crate::intake::Reply;

/// How long it is remembered that an event was sent, and that it has started a job.
pub(crate) const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

impl Shard {
    /// Asks every topic of a job to make it a listener.
    pub(crate) fn listen_to_topics(&mut self, job: &Job, cx: &Context<'_>) {
        for topic in job.definition.schedules.iter().filter_map(Schedule::topic) {
            let topic = TopicKey { namespace: job.namespace.clone(), topic };
            let listener = Listener::Job(job.name.clone());
            self.notify(Content::Listen { topic, listener, key: None }, cx);
        }
    }

    /// Adds a listener. If it is one already, it gets a new number, so that a late `Unlisten` does not remove it.
    pub(crate) fn listen(
        &mut self,
        topic: &TopicKey,
        listener: Listener,
        key: Option<Arc<str>>,
        cx: &mut Context<'_>,
    ) -> Reply {
        // A repetition that comes late: the step waits no more.
        if let Listener::Step(step) = listener
            && self.unique_row(&heard_key(step)).is_some_and(|row| row.expires_at > cx.now)
        {
            return Ok(Answer::NotListening);
        }
        self.topics.remove(topic, |other| other.listener == listener);
        let (most, what) = match &topic.topic {
            Topic::Job(_) => (LINKS_MAX, "schedule.after.job"),
            Topic::Event(_) => (LISTENERS_MAX, "schedule.event.name"),
            Topic::Queue(_) => (QUEUE_LISTENERS_MAX, "schedule.event.queue"),
        };
        if self.topics.of(topic).len() >= most {
            let message = format!("at most {most} jobs and steps may listen to {}", topic.topic);
            return Err(Invalid::new(what, message).into());
        }
        let number = self.ids.next(cx.now);
        self.topics.add(ListenerRecord { number, topic: topic.clone(), listener, key });
        self.hand_out(topic, cx);
        Ok(Answer::Listening(number))
    }

    /// The jobs that listen to the ends of a job's runs.
    pub(crate) fn followers(&self, namespace: Namespace, name: Name) -> Reply {
        let listeners = self.topics.of(&TopicKey { namespace, topic: Topic::Job(name) }).iter();
        let jobs = listeners.filter_map(|record| match &record.listener {
            Listener::Job(job) => Some(job.clone()),
            Listener::Step(_) => None,
        });
        Ok(Answer::Followers(jobs.collect()))
    }

    pub(crate) fn unlisten(
        &mut self,
        topic: &TopicKey,
        number: i64,
        notice: i64,
        cx: &mut Context<'_>,
    ) -> Reply {
        self.topics.remove(topic, |listener| listener.number == number);
        self.take_back_message(topic, notice, cx)?;
        Ok(Answer::Noted)
    }

    pub(crate) fn stop_listening(&mut self, topic: &TopicKey, step: StepKey, cx: &Context<'_>) -> Reply {
        self.topics.remove(topic, |other| other.listener == Listener::Step(step));
        self.give_key(Key { text: heard_key(step), kept: REMEMBERED }, Holder::Nobody(self.id), cx.now);
        Ok(Answer::Noted)
    }

    /// Stores an event as notices to its listeners.
    pub(crate) fn send_event(
        &mut self,
        namespace: Namespace,
        name: Name,
        event: NewEvent,
        cx: &Context<'_>,
    ) -> Reply {
        event.check()?;
        let key = event.key.as_ref().map(|key| event_key(&namespace, &name, key));
        let known = key.as_ref().and_then(|key| self.unique_row(key)).filter(|row| row.expires_at > cx.now);
        if let Some(Holder::Message(id)) = known.map(|row| row.holder) {
            return Ok(Answer::Event(id));
        }
        let topic = TopicKey { namespace, topic: Topic::Event(name) };
        let copies = self.topics.of(&topic).len() * event.params.0.len();
        if copies > EVENT_COPIES_BYTES_MAX {
            let message = format!(
                "its listeners would get {copies} bytes together, at most {EVENT_COPIES_BYTES_MAX}; send a reference instead"
            );
            return Err(Invalid::new("params", message).into());
        }
        let id = self.ids.next(cx.now);
        if let Some(text) = key {
            self.give_key(Key { text, kept: REMEMBERED }, Holder::Message(id), cx.now);
        }
        let happening = Happening { id, at: cx.now, depth: 0, what: What::Event(event) };
        self.happened(&topic, &happening, cx);
        Ok(Answer::Event(id))
    }

    /// Tells the jobs that follow the job of a run that it has ended.
    pub(crate) fn tell_followers(&mut self, ended: &Run, cx: &Context<'_>) {
        let Some(name) = ended.job_name().filter(|_| ended.parent().is_none()) else { return };
        if self.topics.is_empty() || ended.status() == Status::Skipped || is_planted(Fault::FollowerIsNotTold)
        {
            return;
        }
        let topic = TopicKey { namespace: ended.namespace.clone(), topic: Topic::Job(name.clone()) };
        let (run, status, due, output) = (ended.id, ended.status(), ended.due, ended.output.clone());
        let what = What::Ended(Box::new(Upstream { run, status, due, output }));
        self.happened(&topic, &Happening { id: run.0, at: cx.now, depth: ended.depth(), what }, cx);
    }

    fn happened(&mut self, topic: &TopicKey, happening: &Happening, cx: &Context<'_>) {
        for record in self.topics.of(topic).to_vec() {
            let is_other_key = record.key.is_some() && record.key.as_ref() != happening.what.key();
            if is_other_key && !is_planted(Fault::EventKeyIsIgnored) {
                continue;
            }
            let (topic, number, happening) = (topic.clone(), record.number, happening.clone());
            // A step hears of one event.
            if let Listener::Step(step) = record.listener {
                if is_planted(Fault::StepIsNotWoken) {
                    continue;
                }
                drop(self.stop_listening(&topic, step, cx));
            }
            let listener = record.listener.clone();
            self.notify(Content::Wake(Box::new(Wake { topic, listener, number, happening })), cx);
        }
    }

    /// Starts a job that listens to a topic, or ends the wait of a step.
    pub(crate) fn wake(&mut self, wake: &Wake, cx: &mut Context<'_>) -> Reply {
        match &wake.listener {
            Listener::Job(job) => self.start_listener(job, wake, cx),
            Listener::Step(step) => self.event_came(*step, wake, cx),
        }
    }

    /// Starts a job that listens to a topic, once for what happened.
    fn start_listener(&mut self, name: &Name, start: &Wake, cx: &mut Context<'_>) -> Reply {
        let Some(id) = self.find_job(&start.topic.namespace, name) else {
            return Ok(Answer::NotListening);
        };
        self.end_pause(id, cx.now);
        let Some(job) = self.jobs.get(&id).map(|live| Arc::clone(&live.job)) else {
            return Ok(Answer::NotListening);
        };
        let mut schedules = job.definition.schedules.iter();
        let Some(schedule) = schedules.find(|schedule| schedule.topic().as_ref() == Some(&start.topic.topic))
        else {
            return Ok(Answer::NotListening);
        };
        let key = start_key(name, start);
        let is_known = self.unique_row(&key).is_some_and(|row| row.expires_at > cx.now)
            && !is_planted(Fault::StartIsNotRemembered);
        if is_known {
            return Ok(Answer::Noted);
        }
        // A message waits until the job is resumed.
        if job.is_paused() && matches!(start.happening.what, What::Message(_)) {
            return Err(Refusal::JobPaused(name.clone()));
        }
        if job.is_paused() || !takes(schedule, start) {
            return Ok(Answer::Noted);
        }
        if let When::Event(on) = &schedule.when
            && let Some(by) = on.gather
        {
            let event = start.event().to_string();
            return self.gather(id, (&start.topic.topic, by), event.into(), key, cx);
        }
        crate::intake::room_for_one(cx)?;
        let (trigger, upstream) = match &start.happening.what {
            What::Ended(upstream) => (Trigger::After, Some(upstream.run)),
            What::Event(_) | What::Message(_) => (Trigger::Event, None),
        };
        let params = start.params(&job.definition.params);
        let run = self.make_run(id, cx.now, trigger, cx).ok_or(Refusal::TooManyRuns)?;
        self.give_key(Key { text: key, kept: REMEMBERED }, Holder::Run(run), cx.now);
        let depth = start.happening.depth + 1;
        if let Some(live) = self.runs.get_mut(&run) {
            let made = Arc::make_mut(&mut live.run);
            made.params = params.as_ref().ok().cloned();
            made.link = Some(Box::new(Link { upstream, depth, ..Link::default() }));
        }
        let unfit = if depth > CHAIN_MAX {
            Some(Reason::ChainTooLong)
        } else {
            params.is_err().then_some(Reason::ParamsTooLong)
        };
        match unfit {
            Some(reason) => _ = self.transition(run, Event::Skipped(reason), cx),
            None => self.arrive(run, cx),
        }
        Ok(Answer::Noted)
    }
}

/// Whether a schedule lets the job start for what happened.
fn takes(schedule: &Schedule, start: &Wake) -> bool {
    let Happening { at, what, .. } = &start.happening;
    let is_within = schedule.start.is_none_or(|from| *at >= from) && schedule.end.is_none_or(|to| *at <= to);
    is_within
        && match (&schedule.when, what) {
            (When::After(after), What::Ended(upstream)) => topic::is_among(upstream.status, after.on),
            (When::Event(on), What::Event(_) | What::Message(_)) => {
                let value = Value::from_json(&start.event().to_string());
                // A condition that cannot be evaluated for this event does not hold.
                value.is_some_and(|value| on.takes(what.key(), value).unwrap_or(false))
            }
            _ => false,
        }
}

/// The key that records that a step has heard of its event, or waits for it no more.
pub(crate) fn heard_key(step: StepKey) -> Arc<str> {
    Arc::from(format!("heard/{}:{}", step.run, step.step))
}

pub(crate) fn event_key(namespace: &Namespace, name: &Name, key: &str) -> Arc<str> {
    Arc::from(format!("event/{namespace}:{name}:{key}"))
}

/// The key that records that a job was started for what happened.
pub(crate) fn start_key(job: &Name, start: &Wake) -> Arc<str> {
    let (namespace, id) = (&start.topic.namespace, RunId(start.happening.id));
    Arc::from(format!("topic/{namespace}:{job}:{id}"))
}
