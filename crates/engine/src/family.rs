//! Splits a run into child runs, and joins what became of them into one result.
//!
//! A run of a job that names `route.shards` or `broadcast` has no attempt of its own. When its turn has come its children
//! are made in the very change that makes it `running`, so a crash leaves all of them or none; from then on each goes its
//! own way, with its own attempts and retries, and the parent's row notes how each ended, in the batch of that end. The
//! last one ends the parent too.
//!
//! The surprise: who gets a broadcast is settled here, not at the creation of the run, because a run may wait long for
//! its turn. While nobody is here to get it, it stands in the line like any other.
//!
//! overlap ──ready──▶ family ──children──▶ assign … settle ──the last has ended──▶ family

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Strategy};
use punctual_core::limits::CHILDREN_MAX;
use punctual_core::run::{Cause, Child, Event, Kin, Origin, Part, Reason, Run, State, Trigger, Wait};
use punctual_core::task::Params;

use crate::Shard;
use crate::assign::class_of;
use crate::event::Context;
use crate::memory::LiveRun;
use crate::shard::Deadline;

/// How long a broadcast that found nobody waits for others when the first worker comes: after a node has started, all of
/// them come within moments of each other.
const GATHER: Duration = Duration::from_secs(1);

/// With so many changed runs in the next batch, whoever is to be split waits for the one after: a batch holds about two
/// families of the largest size.
const CHANGED_MAX: usize = CHILDREN_MAX as usize;
const NEXT_BATCH: Duration = Duration::from_millis(1);

/// Whether a run is one that goes on in its children.
pub(crate) fn is_to_split(live: &LiveRun) -> bool {
    live.definition.route.splits() && live.run.kin.is_none()
}

impl Shard {
    /// Splits a ready run; one that cannot be split yet stays where it is.
    pub(crate) fn split(&mut self, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let State::Ready { since } = live.run.state else { return };
        if !is_to_split(live) {
            return;
        }
        if self.dirty.runs.len() >= CHANGED_MAX {
            return self.split_after(run, NEXT_BATCH, cx);
        }
        let Some(meant_for) = meant_for(live, cx) else {
            self.transition(run, Event::Skipped(Reason::TooManyWorkers), cx);
            return;
        };
        if meant_for.is_empty() {
            // It may have been taken out of the line to be split.
            return self.join_line(run, since, cx);
        }
        self.make_children(run, meant_for, cx);
    }

    /// A worker for it has come or is free.
    pub(crate) fn split_soon(&mut self, run: RunId, cx: &Context<'_>) {
        let Some(live) = self.runs.get(&run).filter(|live| is_to_split(live)) else { return };
        let is_broadcast = live.definition.route.strategy == Strategy::Broadcast;
        self.split_after(run, if is_broadcast { GATHER } else { NEXT_BATCH }, cx);
    }

    fn split_after(&mut self, run: RunId, span: Duration, cx: &Context<'_>) {
        self.deadlines.insert(cx.elapsed + span, Deadline::Split(run));
    }

    fn make_children(&mut self, parent: RunId, meant_for: Vec<Option<Arc<str>>>, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&parent) else { return };
        let (whole, definition) = (Arc::clone(&live.run), Arc::clone(&live.definition));
        let (origin, definition) = passed_on(&whole.origin, definition);
        let total = u32::try_from(meant_for.len()).unwrap_or(u32::MAX);
        let children: Vec<Child> = meant_for
            .into_iter()
            .map(|worker| Child { run: RunId(self.ids.next(cx.now)), worker, ended: None })
            .collect();
        if !self.transition(parent, Event::Split(children.clone()), cx) {
            return;
        }
        for (Child { run, worker, .. }, index) in children.into_iter().zip(0..) {
            let (namespace, origin) = (whole.namespace.clone(), origin.clone());
            let mut child = Run::new(run, namespace, origin, Trigger::Parent, whole.due, cx.now);
            child.sign(cx.pool.node.as_ref());
            child.priority = whole.priority;
            child.state = State::Waiting { wait: Wait::Limit };
            child.kin = Some(Box::new(Kin::Child { parent, part: Part { index, total }, worker }));
            let definition = Arc::clone(&definition);
            self.remember_run(LiveRun { run: Arc::new(child), definition, stored: false }, cx);
            self.place(run, cx);
        }
    }

    /// A child has left memory with its result: its parent notes it, and ends with the last one.
    pub(crate) fn child_ended(&mut self, parent: RunId, child: &Run, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get_mut(&parent) else { return };
        Arc::make_mut(&mut live.run).child_ended(child);
        let is_last = !live.run.has_children_under_way();
        self.dirty.runs.insert(parent);
        if is_last {
            self.transition(parent, Event::Joined, cx);
        }
    }

    /// What stops a parent stops its children; it ends when they have.
    pub(crate) fn stop_children(&mut self, parent: RunId, cause: Cause, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&parent) else { return };
        let under_way = live.run.children().iter().filter(|child| child.ended.is_none());
        let children: Vec<RunId> = under_way.map(|child| child.run).collect();
        for child in children {
            self.stop(child, cause, cx);
        }
    }

    /// The parameters of a run; a child has those of its parent, which outlives it.
    pub(crate) fn params_of(&self, live: &LiveRun) -> Params {
        let of = self.whole_of(live);
        of.run.params.clone().unwrap_or_else(|| of.definition.params.clone())
    }

    /// The parent of a child, which outlives it; any other run itself.
    pub(crate) fn whole_of<'a>(&'a self, live: &'a LiveRun) -> &'a LiveRun {
        live.run.parent().and_then(|parent| self.runs.get(&parent)).unwrap_or(live)
    }

    /// The only worker that a ready child may go to is here, or it is not: then it has a lease's time to come back.
    pub(crate) fn note_presence(&mut self, run: RunId, is_here: bool, cx: &Context<'_>) {
        if is_here {
            self.absent.remove(&run);
        } else if self.runs.get(&run).is_some_and(|live| live.run.pinned_to().is_some()) {
            self.absent.insert(run, cx.elapsed);
            self.deadlines.insert(cx.elapsed + self.settings.attempt_lease, Deadline::Gone(run));
        }
    }

    /// Nobody else may have it: better a failure that is seen than a run that waits for ever.
    pub(crate) fn give_up_absent(&mut self, run: RunId, cx: &mut Context<'_>) {
        let lease = self.settings.attempt_lease;
        if self.absent.get(&run).is_some_and(|since| *since + lease <= cx.elapsed) {
            self.transition(run, Event::WorkerGone, cx);
        }
    }
}

/// The workers that the children are meant for, one a child: none of them where it may go to any. None: there would be
/// too many.
fn meant_for(live: &LiveRun, cx: &Context<'_>) -> Option<Vec<Option<Arc<str>>>> {
    let most = usize::try_from(CHILDREN_MAX).unwrap_or(usize::MAX);
    let list: Vec<Option<Arc<str>>> = match live.definition.route.shards {
        Some(shards) => vec![None; usize::try_from(shards).unwrap_or(most)],
        None => cx.pool.names_fitting(&class_of(live)).into_iter().map(Some).collect(),
    };
    (list.len() <= most).then_some(list)
}

/// What a child has of its parent's definition. One without a job carries a copy: it need not hold what only the parent
/// is asked for.
fn passed_on(origin: &Origin, definition: Arc<Definition>) -> (Origin, Arc<Definition>) {
    match origin {
        Origin::Job { .. } => (origin.clone(), definition),
        Origin::AdHoc(_) => {
            let (params, description) = (Params::default(), String::new());
            let own = Arc::new(Definition { params, description, ..(*definition).clone() });
            (Origin::AdHoc(Arc::clone(&own)), own)
        }
    }
}
