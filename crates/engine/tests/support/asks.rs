//! What a test asks of a rig, one line each.

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::End;
use punctual_core::command::{Answer, Command, Expect, Key, PutJob, Refusal, RetryRun, RunJob, Submit};
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Job};
use punctual_core::name::{Name, Namespace};

use super::Rig;

pub(crate) fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

pub(crate) fn put(job: &str, definition: Definition) -> Command {
    Command::PutJob(PutJob {
        namespace: Namespace::default(),
        name: name(job),
        definition: Arc::new(definition),
        expect: Expect::Anything,
    })
}

pub(crate) fn pause(job: &str) -> Command {
    pause_for(job, "", None)
}

pub(crate) fn pause_for(job: &str, reason: &str, until: Option<Timestamp>) -> Command {
    let (namespace, by) = (Namespace::default(), (!reason.is_empty()).then(|| "ops".into()));
    Command::PauseJob { namespace, name: name(job), reason: reason.into(), by, until }
}

pub(crate) fn resume(job: &str) -> Command {
    Command::ResumeJob { namespace: Namespace::default(), name: name(job) }
}

pub(crate) fn delete(job: &str) -> Command {
    Command::DeleteJob { namespace: Namespace::default(), name: name(job), expect: Expect::Anything }
}

/// Starts a job by hand, now.
pub(crate) fn start(job: &str) -> RunJob {
    RunJob {
        namespace: Namespace::default(),
        name: name(job),
        params: None,
        due: None,
        key: None,
        caller: None,
    }
}

/// Submits a run without a job, now.
pub(crate) fn submit(definition: Definition) -> Submit {
    let namespace = Namespace::default();
    Submit { namespace, definition: Arc::new(definition), due: None, key: None, spread: 0 }
}

pub(crate) fn cancel_saying(run: RunId, now: bool, comment: &str) -> Command {
    let (namespace, by) = (Namespace::default(), (!comment.is_empty()).then(|| "ops".into()));
    Command::CancelRun { namespace, run, now, by, comment: comment.into() }
}

pub(crate) fn cancel(run: RunId) -> Command {
    cancel_saying(run, false, "")
}

pub(crate) fn retry(run: RunId) -> RetryRun {
    RetryRun {
        namespace: Namespace::default(),
        run,
        params: None,
        due: None,
        key: None,
        resume: false,
        dead_letter: false,
        from: None,
        step_params: None,
        by: None,
        comment: Box::default(),
    }
}

/// Tries a run again only if it is a dead letter.
pub(crate) fn replay(run: RunId) -> RetryRun {
    RetryRun { dead_letter: true, ..retry(run) }
}

pub(crate) fn discard(run: RunId) -> Command {
    Command::DiscardDeadLetter { namespace: Namespace::default(), run }
}

pub(crate) fn key(text: &str, kept: Duration) -> Option<Key> {
    Some(Key { text: Arc::from(text), kept })
}

impl Rig {
    pub(crate) fn put(&mut self, job: &str, definition: Definition) -> Arc<Job> {
        match self.ask(put(job, definition)) {
            Ok(Answer::Job { job, .. }) => job,
            other => panic!("{other:?}"),
        }
    }

    /// Starts a job by hand.
    pub(crate) fn start(&mut self, job: &str) -> RunId {
        made(self.ask(Command::RunJob(start(job))))
    }

    pub(crate) fn start_at(&mut self, job: &str, due: Timestamp) -> RunId {
        made(self.ask(Command::RunJob(RunJob { due: Some(due), ..start(job) })))
    }

    pub(crate) fn submit(&mut self, definition: Definition) -> RunId {
        made(self.ask(Command::Submit(submit(definition))))
    }

    pub(crate) fn succeed(&mut self, run: RunId) {
        self.report(run, End::Succeeded);
    }

    pub(crate) fn fail(&mut self, run: RunId) {
        self.report(run, End::Failed);
    }

    /// Every attempt under way ends well.
    pub(crate) fn succeed_all(&mut self) {
        for run in self.running() {
            self.succeed(run);
        }
    }
}

/// The run that a command made.
pub(crate) fn made(answer: Result<Answer, Refusal>) -> RunId {
    match answer {
        Ok(Answer::Run(run)) => run.id,
        other => panic!("{other:?}"),
    }
}
