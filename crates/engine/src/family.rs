//! Splits a run into child runs, and joins their results into one.
//!
//! A run of a job with `route.shards` or `broadcast` has no attempt of its own. Its children are made in the same
//! change that makes the run `running`, so a crash leaves all of them or none. Each child has its own attempts and
//! retries; the parent's row records how each child ended, in the batch of that end. The parent ends with its last
//! child.
//!
//! The surprise: the workers of a broadcast are chosen here and not when the run is created, because a run may wait
//! long before it may start. While no worker fits, it waits like any other ready run.
//!
//! overlap ──ready──▶ family ──children──▶ assign … settle ──last child ended──▶ family

use std::sync::Arc;
use std::time::Duration;

use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Strategy};
use punctual_core::limits::CHILDREN_MAX;
use punctual_core::run::{Cause, Child, Event, Origin, Part, Reason, Run, SplitRole, State, Trigger, Wait};
use punctual_core::task::Params;

use crate::Shard;
use crate::deadline::Deadline;
use crate::event::Context;
use crate::memory::LiveRun;

/// How long a broadcast that found no worker waits for more after the first one joins: after a node starts, its workers
/// join within moments of each other.
const GATHER: Duration = Duration::from_secs(1);

/// With this many changed runs in the next batch, a split waits for the batch after it: so one batch holds at most
/// about two families of the largest size.
pub(crate) const CHANGED_MAX: usize = CHILDREN_MAX as usize;
pub(crate) const NEXT_BATCH: Duration = Duration::from_millis(1);

impl Shard {
    /// Splits a ready run. A run that cannot be split yet stays ready.
    pub(crate) fn split(&mut self, run: RunId, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let State::Ready { since } = live.run.state else { return };
        if live.definition.workflow().is_some() {
            return self.begin_steps(run, cx);
        }
        if !live.is_to_split() {
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
            // It may have been taken out of the queue of waiting runs to be split.
            return self.enqueue(run, since, cx);
        }
        self.make_children(run, meant_for, cx);
    }

    /// A worker that fits the run has joined or become free: splits the run soon.
    pub(crate) fn split_soon(&mut self, run: RunId, cx: &Context<'_>) {
        let Some(live) = self.runs.get(&run).filter(|live| live.is_to_split()) else { return };
        let is_broadcast = live.definition.route.strategy == Strategy::Broadcast;
        self.split_after(run, if is_broadcast { GATHER } else { NEXT_BATCH }, cx);
    }

    pub(crate) fn split_after(&mut self, run: RunId, span: Duration, cx: &Context<'_>) {
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
            child.sign(cx.pool.node());
            child.priority = whole.priority;
            child.state = State::Waiting { wait: Wait::Overlap };
            child.split_role =
                Some(Box::new(SplitRole::Child { parent, part: Part { index, total }, worker }));
            // The definition of a part is that of the step.
            child.step.clone_from(&whole.step);
            let definition = Arc::clone(&definition);
            self.remember_run(LiveRun::new(Arc::new(child), definition, false), cx);
            self.set_limit_keys(run);
            self.place(run, cx);
        }
    }

    /// Records the result of a child in its parent, which ends with its last child.
    pub(crate) fn child_ended(&mut self, parent: RunId, child: &Run, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get_mut(&parent) else { return };
        Arc::make_mut(&mut live.run).child_ended(child);
        let is_last = !live.run.has_children_under_way();
        self.dirty.runs.insert(parent);
        if is_last {
            self.transition(parent, Event::Joined, cx);
        }
    }

    /// Stops the children of a run; the parent ends when they have ended.
    pub(crate) fn stop_children(&mut self, parent: RunId, cause: Cause, cx: &mut Context<'_>) {
        if self.flows.contains_key(&parent) {
            return self.stop_steps(parent, cause, cx);
        }
        let Some(live) = self.runs.get(&parent) else { return };
        let under_way = live.run.children().iter().filter(|child| child.ended.is_none());
        let children: Vec<RunId> = under_way.map(|child| child.run).collect();
        for child in children {
            self.stop(child, cause, cx);
        }
    }

    /// The parameters of a run; a child without its own has those of its parent, which is in memory as long as the
    /// child.
    pub(crate) fn params_of(&self, live: &LiveRun) -> Params {
        let mut of = live;
        while of.run.params.is_none()
            && let Some(parent) = of.run.parent().and_then(|parent| self.runs.get(&parent))
        {
            of = parent;
        }
        of.run.params.as_ref().unwrap_or(&of.definition.params).clone()
    }

    /// The split run of which a run is a part; for any other run, the run itself.
    pub(crate) fn whole_of<'a>(&'a self, live: &'a LiveRun) -> &'a LiveRun {
        live.run.split_parent().and_then(|parent| self.runs.get(&parent)).unwrap_or(live)
    }

    /// Notes whether the only worker that a ready child may go to is here. If not, it may come back within a lease.
    pub(crate) fn note_presence(&mut self, run: RunId, is_here: bool, cx: &Context<'_>) {
        if is_here {
            self.absent.remove(&run);
        } else if self.runs.get(&run).is_some_and(|live| live.run.pinned_to().is_some()) {
            self.absent.insert(run, cx.elapsed);
            self.deadlines.insert(cx.elapsed + self.settings.attempt_lease, Deadline::Gone(run));
        }
    }

    /// Fails a child whose only worker has been absent for a lease: a visible failure is better than waiting forever.
    pub(crate) fn give_up_absent(&mut self, run: RunId, cx: &mut Context<'_>) {
        let lease = self.settings.attempt_lease;
        if self.absent.get(&run).is_some_and(|since| *since + lease <= cx.elapsed) {
            self.transition(run, Event::WorkerGone, cx);
        }
    }
}

/// One entry per child: the worker that it is pinned to, or `None` if any worker may take it. The outer `None` means
/// that there would be too many children.
fn meant_for(live: &LiveRun, cx: &Context<'_>) -> Option<Vec<Option<Arc<str>>>> {
    let most = usize::try_from(CHILDREN_MAX).unwrap_or(usize::MAX);
    let list: Vec<Option<Arc<str>>> = match live.definition.route.shards {
        Some(shards) => vec![None; usize::try_from(shards).unwrap_or(most)],
        None => cx.pool.names_fitting(&live.class()).into_iter().map(Some).collect(),
    };
    (list.len() <= most).then_some(list)
}

/// The origin and definition of a child. Without a job, the child carries a copy of the definition without the parts
/// that only the parent needs.
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
