//! Steps that wait for an event.
//!
//! The event may belong to another shard. The row of the step is written together with a notice that makes the step a
//! listener there. The step waits from the moment that the event's shard has confirmed it.
//!
//! start ──notice──▶ listener at the event ──event──▶ notice ──▶ end of the step

use std::sync::Arc;

use punctual_core::command::Answer;
use punctual_core::name::Name;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::Content;
use punctual_core::topic::{Listener, Topic, TopicKey, Wake};
use punctual_core::workflow::{Output, State, StepKey, StepReason, StepRecord, Wait, Work};

use super::index;
use crate::Shard;
use crate::event::Context;
use crate::intake::Reply;

impl Shard {
    /// Lets a step begin to wait for an event.
    pub(super) fn start_event_wait(
        &mut self,
        record: StepRecord,
        topic: TopicKey,
        key: Option<Arc<str>>,
        cx: &Context<'_>,
    ) {
        let listener = Listener::Step(record.key);
        self.step_timers.extend(record.until.map(|until| (until, record.key)));
        self.write_step(record);
        self.notify(Content::Listen { topic, listener, key }, cx);
    }

    /// The shard of the event has taken the step as a listener, under this number.
    pub(crate) fn step_listens(&mut self, key: StepKey, number: Option<i64>, cx: &Context<'_>) -> Reply {
        let Some(row) = self.waiting_for_event(key) else { return Ok(Answer::NotListening) };
        match number {
            Some(_) => self.write_step(StepRecord { listener: number, ..(*row).clone() }),
            None => self.end_step(key, cx, |record| {
                let reason = StepReason::TooManyListeners;
                record.end(State::Failed, Some(reason), cx.now);
                record.error = reason.as_str().into();
            }),
        }
        Ok(Answer::Noted)
    }

    /// Ends a step that waits for the event that has come.
    pub(crate) fn event_came(&mut self, key: StepKey, wake: &Wake, cx: &Context<'_>) -> Reply {
        if self.waiting_for_event(key).is_none() {
            return Ok(Answer::NotListening);
        }
        let text = wake.event().to_string();
        let output = match self.flows.get_mut(&key.run) {
            Some(flow) => flow.keep_output(&text),
            None => Output::Nothing,
        };
        self.end_step(key, cx, |record| {
            let reason = (output == Output::TooLong).then_some(StepReason::OutputTooLong);
            record.end(State::Succeeded, reason, cx.now);
            if let Output::Text(text) = output {
                record.output = Some(text.into());
            }
        });
        Ok(Answer::Noted)
    }

    /// The row of a step that waits for an event. `None` means that it does not, or no more.
    fn waiting_for_event(&self, key: StepKey) -> Option<Arc<StepRecord>> {
        let row = self.flows.get(&key.run)?.rows.get(&(key.step, key.item))?;
        self.awaited_name(key).filter(|_| row.state == State::Active).map(|_| Arc::clone(row))
    }

    pub(super) fn awaited_name(&self, key: StepKey) -> Option<&Name> {
        let step = self.runs.get(&key.run)?.workflow()?.step(index(key.step))?;
        if let Work::Wait(Wait::Event(event)) = &step.work { Some(&event.name) } else { None }
    }

    /// Removes the listener of a step that has ended without its event. The event itself has removed it already.
    pub(super) fn end_listening(&mut self, record: &StepRecord, cx: &Context<'_>) {
        if record.state == State::Succeeded || is_planted(Fault::StepGoesOnListening) {
            return;
        }
        let (Some(_), Some(name)) = (record.listener, self.awaited_name(record.key)) else { return };
        let Some(live) = self.runs.get(&record.key.run) else { return };
        let topic = TopicKey { namespace: live.run.namespace.clone(), topic: Topic::Event(name.clone()) };
        self.notify(Content::StopListening { topic, step: record.key }, cx);
    }
}
