//! Runs that gather events before they start (`debounce` and `batch`).
//!
//! The first event makes a run, which waits. Further events of the topic are added to it, until its time is over or it has
//! the most. Then it starts like any run that is due. The events are in the row of the run, so a crash loses none.
//!
//! event ──▶ run that waits ──time is over, or full──▶ overlap

use std::sync::Arc;
use std::time::Duration;

use punctual_core::change::Holder;
use punctual_core::command::{Answer, Key, Refusal};
use punctual_core::ids::{JobId, RunId};
use punctual_core::planted::{Fault, is_planted};
use punctual_core::run::{Event, Link, Reason, State, Trigger, Wait};
use punctual_core::search::{RunTerm, terms_of_birth};
use punctual_core::topic::{Gather, Gathered, Topic};

use crate::Shard;
use crate::deadline::Deadline;
use crate::event::Context;
use crate::intake::{Reply, room_for_one};
use crate::topics::REMEMBERED;

impl Shard {
    /// Adds an event to the run that gathers them, or makes such a run. `key` records that the job has the event.
    pub(crate) fn gather(
        &mut self,
        job: JobId,
        (topic, by): (&Topic, Gather),
        event: Box<str>,
        key: Arc<str>,
        cx: &mut Context<'_>,
    ) -> Reply {
        let open = self.jobs.get(&job).and_then(|live| live.gathering.get(topic)).copied();
        let run = match open {
            Some(run) if self.has_room_for(run, &event) => run,
            open => {
                room_for_one(cx)?;
                if let Some(full) = open {
                    self.start_gathered(full, cx);
                }
                self.make_gathering(job, Gathered::new(topic.clone(), by), cx).ok_or(Refusal::TooManyRuns)?
            }
        };
        self.give_key(Key { text: key, kept: REMEMBERED }, Holder::Run(run), cx.now);
        self.add_event(run, event, cx);
        Ok(Answer::Noted)
    }

    fn make_gathering(&mut self, job: JobId, gathers: Gathered, cx: &mut Context<'_>) -> Option<RunId> {
        let run = self.make_run(job, cx.now, Trigger::Event, cx)?;
        let live = self.runs.get_mut(&run)?;
        let gathers = Some(Box::new(gathers));
        Arc::make_mut(&mut live.run).link = Some(Box::new(Link { depth: 1, gathers, ..Link::default() }));
        self.transition(run, Event::Held(Wait::Events(cx.now)), cx);
        Some(run)
    }

    fn has_room_for(&self, run: RunId, event: &str) -> bool {
        let live = self.runs.get(&run);
        let room = live
            .and_then(|live| Some(live.run.gathers()?.has_room_for(event.len(), &live.definition.params)));
        room.unwrap_or(false)
    }

    fn add_event(&mut self, run: RunId, event: Box<str>, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get_mut(&run) else { return };
        let made = Arc::make_mut(&mut live.run);
        let Some(gathered) = made.link.as_mut().and_then(|link| link.gathers.as_mut()) else { return };
        if is_planted(Fault::BatchForgetsEvent) && !gathered.events.is_empty() {
            return;
        }
        let further = gathered.add(event);
        self.dirty.runs.insert(run);
        match further {
            Some(Duration::ZERO) => self.start_gathered(run, cx),
            // Its deadline is set anew when the one before has passed.
            Some(further) => made.state = State::Waiting { wait: Wait::Events(cx.now + further) },
            None => {}
        }
    }

    /// The deadline of a run that gathers events has passed: it starts, unless later events have moved its time.
    pub(crate) fn gathering_is_due(&mut self, run: RunId, cx: &mut Context<'_>) {
        let state = self.runs.get(&run).map(|live| &live.run.state);
        let Some(State::Waiting { wait: Wait::Events(at) }) = state else { return };
        if *at <= cx.now {
            self.start_gathered(run, cx);
        } else {
            self.deadlines.insert(cx.elapsed_at(*at), Deadline::Events(run));
        }
    }

    fn start_gathered(&mut self, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get_mut(&run) else { return };
        let params = live.run.gathers().map(|gathered| gathered.params(&live.definition.params));
        let had = live.stored.then(|| terms_of_birth(&live.run, &live.definition));
        let made = Arc::make_mut(&mut live.run);
        if let State::Waiting { wait: Wait::Events(at) } = made.state {
            made.due = at.min(cx.now);
        }
        match params {
            Some(Ok(params)) => {
                made.params = Some(params);
                if let Some(link) = &mut made.link {
                    link.gathers = None;
                }
                if let Some(had) = had.filter(|_| self.settings.records) {
                    let terms = terms_of_birth(&live.run, &live.definition);
                    let namespace = &live.run.namespace;
                    let new = terms.into_iter().filter(|term| !had.contains(term));
                    self.dirty.terms.extend(new.map(|term| RunTerm {
                        namespace: namespace.clone(),
                        term,
                        run,
                    }));
                }
                self.arrive(run, cx);
            }
            // It has one event, which is too long beside the parameters of the job.
            _ => _ = self.transition(run, Event::Skipped(Reason::ParamsTooLong), cx),
        }
    }
}
