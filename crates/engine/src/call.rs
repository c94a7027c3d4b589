//! Starts runs of other jobs for steps of workflows, and tells the steps how those runs ended.
//!
//! The job may belong to another shard. The attempt of the step asks for a run under a key of its own, so asking twice
//! starts one run. That run knows the attempt that waits for it, and its end is written together with a notice, which
//! stays until the attempt has confirmed it.
//!
//! deliver ──call──▶ run of the job ──settle──▶ notice ──news──▶ deliver

use std::sync::Arc;
use std::time::Duration;

use punctual_core::change::{Holder, Want};
use punctual_core::command::{Answer, CancelCall, Key, RunJob};
use punctual_core::cross_shard::CrossShardRequest;
use punctual_core::cut::keep_end;
use punctual_core::ids::{RunId, Token};
use punctual_core::limits::ERROR_BYTES_MAX;
use punctual_core::planted::{Fault, is_planted};
use punctual_core::queue::{Content, EndNotice, News, Returned, Sender};
use punctual_core::run::{Caller, Cause, Run, Status};
use punctual_core::task::Task;

use crate::Shard;
use crate::event::Context;
use crate::intake::Reply;
use crate::intake::keys::job_run_key;
use crate::memory::LiveRun;
use crate::queue::delivery_key;

/// How long it is remembered which run an attempt has started: longer than any node asks again.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 3600);

impl Shard {
    /// Asks for the run of another job.
    pub(crate) fn call(&self, run: RunId, token: Token, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let Task::Job(name) = &live.definition.task else { return };
        let sender = Sender { run, token };
        let call = RunJob {
            namespace: live.run.namespace.clone(),
            name: name.clone(),
            params: Some(self.params_of(live)),
            due: None,
            key: (!is_planted(Fault::CallIsNotRemembered))
                .then(|| Key { text: delivery_key(sender), kept: REMEMBERED }),
            caller: Some(Caller { sender, depth: self.outermost(live).run.depth() }),
        };
        cx.cross_shard(CrossShardRequest::Call { sender, run: Box::new(call) });
    }

    /// Asks for the end of the run that a stopped attempt has started. The attempt ends when that run has ended.
    pub(crate) fn cancel_called(&self, run: RunId, token: Token, cx: &mut Context<'_>) {
        let Some(live) = self.runs.get(&run) else { return };
        let Task::Job(job) = live.definition.task.clone() else { return };
        let (namespace, called) = (live.run.namespace.clone(), live.run.called());
        let now = live.run.cancelling() == Some(Cause::UserNow);
        let cancel = CancelCall { sender: Sender { run, token }, namespace, job, called, now };
        cx.cross_shard(CrossShardRequest::CancelCall(cancel));
    }

    /// Cancels the run that an attempt has started. Answers with that run if there was one: its end is told by a notice.
    pub(crate) fn cancel_call(&mut self, ask: &CancelCall, cx: &mut Context<'_>) -> Reply {
        let Some(called) = self.called_by(ask) else {
            // A call that comes late must not start a run any more.
            let key = Key { text: key_of(ask), kept: REMEMBERED };
            self.give_key(key, Holder::Nobody(self.id), cx.now);
            return Ok(Answer::Noted);
        };
        // A run that has ended is not cancelled: its notice is on the way.
        drop(self.cancel_run((&ask.namespace, called), ask.now, None, cx));
        Ok(Answer::Existing(called))
    }

    /// The run that the attempt has started, as far as it is known here.
    fn called_by(&self, ask: &CancelCall) -> Option<RunId> {
        let holder = || match self.unique_row(&key_of(ask))?.holder {
            Holder::Run(run) => Some(run),
            Holder::Message(_) | Holder::Nobody(_) => None,
        };
        ask.called.or_else(holder)
    }

    pub(crate) fn want_called(&self, ask: &CancelCall, wants: &mut Vec<Want>) {
        self.want_unique(&key_of(ask), wants);
        if let Some(called) = self.called_by(ask) {
            self.want_run(called, wants);
        }
    }

    /// The outermost run that a run is a child of; for any other run, the run itself.
    fn outermost<'a>(&'a self, mut live: &'a LiveRun) -> &'a LiveRun {
        while let Some(parent) = live.run.parent().and_then(|parent| self.runs.get(&parent)) {
            live = parent;
        }
        live
    }

    /// Writes a notice to the attempt that waits for the end of a run.
    pub(crate) fn tell_caller(&mut self, ended: &Run, cx: &Context<'_>) {
        let Some(sender) = ended.caller().filter(|_| !is_planted(Fault::CallerIsNotTold)) else { return };
        let returned = Returned {
            run: ended.id,
            status: ended.status(),
            at: cx.now,
            output: ended.output.clone(),
            error: error_of(ended),
        };
        let news = News::Returned(Box::new(returned));
        self.notify(Content::Attempt { sender, news }, cx);
    }
}

impl Shard {
    /// Writes a notice for another shard with the next batch.
    pub(crate) fn notify(&mut self, content: Content, cx: &Context<'_>) {
        let number = self.ids.next(cx.now);
        self.end_notices.add(EndNotice { number, content });
    }
}

/// The key under which the run was asked for.
fn key_of(ask: &CancelCall) -> Arc<str> {
    job_run_key(&ask.namespace, &ask.job, &delivery_key(ask.sender))
}

fn error_of(run: &Run) -> Box<str> {
    if run.status() == Status::Succeeded {
        return Box::default();
    }
    let why = match &run.reason {
        _ if !run.error.is_empty() => run.error.to_string(),
        Some(reason) => reason.to_string(),
        None => String::new(),
    };
    let colon = if why.is_empty() { "" } else { ": " };
    let job = run.job_name().map_or("", |name| name.as_str());
    let error = format!("run {} of job `{job}` is {}{colon}{why}", run.id, run.status());
    keep_end(&error, ERROR_BYTES_MAX).into()
}
