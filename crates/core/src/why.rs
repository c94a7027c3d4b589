//! Why a run waits, was skipped or has ended, and why a job does not run now: one rule for REST and the command line.
//!
//! The rule reads only rows: the engine writes why a run waits into the run's state, and why no worker fits into its
//! reason. So every node gives the same answer, also for runs that another node leads.

use std::sync::Arc;

use crate::Timestamp;
use crate::change::{Skip, SkipReason};
use crate::hold::Hold;
use crate::ids::RunId;
use crate::job::{Definition, Job, Limit};
use crate::name::Name;
use crate::run::{Cause, Lack, Origin, Reason, Run, State, Status, Wait};
use crate::schedule::{Schedule, Topic, When};

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    pub code: Code,
    /// One sentence.
    pub message: String,
    /// Since when this is so. `None` means that it is not recorded.
    pub since: Option<Timestamp>,
    /// When it ends by itself. `None` means that it depends on something else.
    pub until: Option<Timestamp>,
    pub details: Details,
}

/// What the answer refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Details {
    /// What the nearest worker lacks, such as `label zone=eu`.
    pub missing: Vec<String>,
    pub job: Option<Name>,
    /// The run that the answer is about, or the run that is waited for.
    pub run: Option<RunId>,
    /// The worker that executes the run, or the worker that almost fits.
    pub worker: Option<String>,
}

/// The list of codes: variant and name.
macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident $name:literal)+) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $($(#[$doc])* $code,)+
        }

        impl Code {
            pub const ALL: &[Code] = &[$(Code::$code),+];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Code::$code => $name,)+
                }
            }
        }
    };
}

codes! {
    /// The job is paused.
    Paused "paused"
    /// The namespace, or everything, is on hold, or was when due times were skipped.
    Held "held"
    /// An earlier run of the job is active, or was when the run was skipped.
    Overlap "overlap"
    /// A limit of the job does not allow the run yet.
    Limit "limit"
    NoWorkerFits "no_worker_fits"
    NoFreeSlot "no_free_slot"
    /// The run gathers events before it starts, or the job waits for an event, for the end of another job or for a message.
    Events "events"
    /// The last attempt failed, and the next one is delayed.
    Backoff "backoff"
    /// Due times were missed, and the misfire policy skipped them.
    Misfire "misfire"
    /// A calendar excludes the day.
    Calendar "calendar"
    /// An edit replaced the schedule before the due time.
    Edited "edited"
    /// The due time is still to come.
    Delayed "delayed"
    /// The due time has come, and the run is about to start.
    Due "due"
    Running "running"
    /// The run was told to stop and has not stopped yet.
    Cancelling "cancelling"
    Ended "ended"
    /// The schedules of the job have no further due times.
    Finished "finished"
    /// The job has no schedule: it starts only by hand.
    Manual "manual"
    /// A program outside Punctual reports the runs of the job.
    Ping "ping"
    /// No node leads the shard.
    NoLeader "no_leader"
    /// The job waits for its next due time.
    Scheduled "scheduled"
}

/// What the rule needs besides the run.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'a> {
    pub now: Timestamp,
    /// The hold that covers the namespace. `None` means that there is none.
    pub hold: Option<&'a Hold>,
    /// Whether a node leads the shard of the run or job.
    pub is_led: bool,
}

impl Why {
    fn new(code: Code, message: impl Into<String>) -> Why {
        Why { code, message: message.into(), since: None, until: None, details: Details::default() }
    }

    fn since(self, since: Option<Timestamp>) -> Why {
        Why { since, ..self }
    }

    fn until(self, until: Option<Timestamp>) -> Why {
        Why { until, ..self }
    }

    fn about_run(mut self, run: Option<RunId>) -> Why {
        self.details.run = run;
        self
    }
}

/// Why a run is in its state. `earlier` is the run of the same job that it waits for, if it waits for one.
pub fn of_run(run: &Run, definition: &Definition, earlier: Option<RunId>, facts: Facts<'_>) -> Why {
    let mut why = match &run.state {
        State::Waiting { wait: Wait::Due(at) } if *at > facts.now => delayed(run, *at),
        State::Waiting { .. } | State::Ready { .. } if let Some(hold) = facts.hold => held("the run", hold),
        State::Waiting { wait } => waiting(run, definition, *wait, earlier, facts),
        State::Ready { since } => ready(run, *since, facts),
        State::Running { since, .. } | State::Split { since, .. } => running(run, *since),
        State::Skipped => skipped(run),
        State::Succeeded | State::Failed | State::TimedOut | State::Cancelled => ended(run),
    };
    if let Origin::Job { name, .. } = &run.origin {
        why.details.job = Some(name.clone());
    }
    why
}

fn delayed(run: &Run, at: Timestamp) -> Why {
    let entered = run.entries.last().map(|entry| entry.at);
    Why::new(Code::Delayed, format!("the run is due at {at}")).since(entered).until(Some(at))
}

/// The hold is why a run or a job does not start.
fn held(what: &str, hold: &Hold) -> Why {
    let end = match hold.pause.until {
        Some(until) => format!("it ends at {until}"),
        None => "it ends when someone releases it".to_owned(),
    };
    let message = format!("{what} waits: {}; {end}", hold.told());
    Why::new(Code::Held, message).since(Some(hold.pause.since)).until(hold.pause.until)
}

fn waiting(run: &Run, definition: &Definition, wait: Wait, earlier: Option<RunId>, facts: Facts<'_>) -> Why {
    let entered = run.entries.last().map(|entry| entry.at);
    match wait {
        Wait::Due(at) | Wait::Backoff(at) | Wait::Events(at) if at <= facts.now && !facts.is_led => {
            no_leader(at)
        }
        Wait::Due(at) => Why::new(Code::Due, "the run is due and starts in a moment").since(Some(at)),
        Wait::Hold => {
            Why::new(Code::Due, "the hold has ended, and the run starts in a moment").since(entered)
        }
        Wait::Backoff(at) => {
            let total = definition.retry.attempts;
            let message =
                format!("attempt {} of {total} failed; the next attempt starts at {at}", run.failures.max(1));
            Why::new(Code::Backoff, message).since(entered).until(Some(at))
        }
        Wait::Events(at) => {
            let events = run.gathers().map_or(0, |gathered| gathered.events.len());
            let message = format!("the run has {events} events and takes further ones until {at}");
            Why::new(Code::Events, message).since(entered).until(Some(at))
        }
        Wait::Overlap => {
            let message = match earlier {
                Some(earlier) => format!("the run waits until run {earlier} of the same job has ended"),
                None => "the run waits until the earlier run of the same job has ended".to_owned(),
            };
            Why::new(Code::Overlap, message).since(entered).about_run(earlier)
        }
        Wait::Limit(index) => {
            let limit = definition.limits.get(usize::from(index));
            Why::new(Code::Limit, limited(limit)).since(entered).about_run(earlier)
        }
    }
}

fn limited(limit: Option<&Limit>) -> String {
    let Some(limit) = limit.filter(|limit| limit.running.is_some() || limit.rate.is_some()) else {
        return "the run waits for a limit of its job".to_owned();
    };
    let whose = limit.per.as_ref().map_or(String::new(), |per| format!(" for its key (`per: {per}`)"));
    let max = limit.running.map(|max| format!("{max} at once (`limits.running`)"));
    let rate = limit.rate.map(|rate| format!("{} (`limits.rate`)", rate.in_words()));
    let allowed: Vec<String> = max.into_iter().chain(rate).collect();
    format!(
        "the job has reached its limit of {}{whose}; the run starts when it allows",
        allowed.join(" and ")
    )
}

fn ready(run: &Run, since: Timestamp, facts: Facts<'_>) -> Why {
    if !facts.is_led {
        return no_leader(since);
    }
    match &run.reason {
        _ if run.cancelling().is_some() => {
            let message = "the run is cancelled when a worker has told the service to stop the work";
            Why::new(Code::Cancelling, message).since(Some(since))
        }
        Some(Reason::NoWorkerFits(lack)) => {
            let mut why = Why::new(Code::NoWorkerFits, format!("{}: {lack}", Reason::NO_WORKER_FITS))
                .since(Some(since));
            (why.details.missing, why.details.worker) = missing(lack);
            why
        }
        _ => {
            let message = "every worker that fits is busy; the run starts when a slot is free";
            Why::new(Code::NoFreeSlot, message).since(Some(since))
        }
    }
}

/// What is missing, one entry each, and the worker that is nearest.
fn missing(lack: &Lack) -> (Vec<String>, Option<String>) {
    match lack {
        Lack::Workers => (vec!["worker".to_owned()], None),
        Lack::Kind(kind) => (vec![format!("task {kind}")], None),
        Lack::Function(name) => (vec![format!("function {name}")], None),
        Lack::Labels { worker, labels } => {
            let labels = labels.iter().map(|label| format!("label {label}")).collect();
            (labels, Some(worker.as_ref().to_owned()))
        }
        Lack::Worker(name) => (vec![format!("worker {name}")], Some(name.as_ref().to_owned())),
    }
}

fn running(run: &Run, since: Timestamp) -> Why {
    let on = run.assignee.as_ref().map(|assignee| assignee.name().as_ref().to_owned());
    let (code, message) = match (run.cancelling(), &on) {
        (Some(Cause::Moved), _) => {
            (Code::Cancelling, "the run moves to another worker when its attempt has ended".to_owned())
        }
        (Some(_), _) => (Code::Cancelling, "the run was told to stop and has not stopped yet".to_owned()),
        (None, _) if matches!(run.state, State::Split { .. }) => {
            (Code::Running, "the child runs of the run are at work".to_owned())
        }
        (None, Some(on)) => (Code::Running, format!("the run is at work on `{on}`")),
        (None, None) => (Code::Running, "the run is at work".to_owned()),
    };
    let mut why = Why::new(code, message).since(Some(since));
    why.details.worker = on;
    why
}

fn skipped(run: &Run) -> Why {
    let reason = run.reason.as_ref().map_or_else(|| "no reason is recorded".to_owned(), ToString::to_string);
    Why::new(Code::Overlap, format!("the run was skipped: {reason}")).since(run.finished_at)
}

fn ended(run: &Run) -> Why {
    let message = match &run.reason {
        Some(reason) => format!("the run has ended, {}: {reason}", words(run.status())),
        None => format!("the run has ended, {}", words(run.status())),
    };
    Why::new(Code::Ended, message).since(run.finished_at)
}

fn words(status: Status) -> &'static str {
    match status {
        Status::TimedOut => "timed out",
        other => other.as_str(),
    }
}

fn no_leader(since: Timestamp) -> Why {
    let message = "no node leads the shard of the run right now; another node takes over within seconds";
    Why::new(Code::NoLeader, message).since(Some(since))
}

/// The live run that says best why its job does not go on: the first that waits, else the first at work. Runs that are
/// not due yet say nothing about that.
pub fn foremost(live: &[Arc<Run>], now: Timestamp) -> Option<&Arc<Run>> {
    let mut current = live.iter().filter(|run| run.wake_at().is_none_or(|due| due <= now));
    let is_at_work = |run: &&Arc<Run>| run.status() == Status::Running;
    current.clone().find(|run| !is_at_work(run)).or_else(|| current.next())
}

/// What happened last to a job.
#[derive(Debug, Clone, Copy, Default)]
pub struct Last<'a> {
    /// The live run to tell of ([`foremost`]), with the definition it uses.
    pub live: Option<(&'a Run, &'a Definition)>,
    /// The newest run that has ended.
    pub ended: Option<&'a Run>,
    /// The newest record of skipped due times.
    pub skip: Option<&'a Skip>,
}

/// Why a job does not run now: it is paused, one of its runs waits, its last due times were skipped, or it is not due.
pub fn of_job(job: &Job, last: Last<'_>, facts: Facts<'_>) -> Why {
    let mut why = match last.live {
        _ if let Some(pause) = &job.pause => {
            let end = match pause.until {
                Some(until) => format!("it is resumed at {until}"),
                None => "it is due again when someone resumes it".to_owned(),
            };
            let message = format!("the job is {}; {end}", pause.told());
            Why::new(Code::Paused, message).since(Some(pause.since)).until(pause.until)
        }
        _ if let Some(hold) = facts.hold => held("the job", hold),
        Some((run, definition)) => {
            let why = of_run(run, definition, None, facts);
            let message = format!("run {}: {}", run.id, why.message);
            Why { message, ..why }.about_run(Some(run.id))
        }
        None => idle(job, last, facts),
    };
    why.details.job = Some(job.name.clone());
    why
}

/// Why a job without live runs is idle.
fn idle(job: &Job, last: Last<'_>, facts: Facts<'_>) -> Why {
    let next = job.cursor.next_due;
    if let Some(due) = job.cursor.wake_at.filter(|due| *due <= facts.now) {
        return if facts.is_led {
            Why::new(Code::Due, "the job is due and starts in a moment").since(Some(due))
        } else {
            no_leader(due)
        };
    }
    if let Some(why) = missed(last) {
        return Why { message: format!("{}; {}", why.message, coming(job)), ..why }.until(next);
    }
    let code = match next {
        Some(_) => Code::Scheduled,
        None if job.definition.ping().is_some() => Code::Ping,
        None if topics(job).next().is_some() => Code::Events,
        None if job.is_finished() => Code::Finished,
        None => Code::Manual,
    };
    Why::new(code, coming(job)).until(next)
}

/// What starts the job without a clock.
fn topics(job: &Job) -> impl Iterator<Item = Topic> {
    job.definition.schedules.iter().filter_map(Schedule::topic)
}

/// What the job waits for, in words.
fn coming(job: &Job) -> String {
    let topics: Vec<String> = topics(job).map(|topic| topic.to_string()).collect();
    let by_hand = job.definition.schedules.iter().all(|schedule| schedule.when == When::Manual);
    match job.cursor.next_due {
        Some(due) => format!("the job is due next at {due}"),
        None if job.definition.ping().is_some() => {
            "a program outside Punctual reports the runs of the job by pings".to_owned()
        }
        None if by_hand => "the job has no schedule and starts only by hand".to_owned(),
        None if !topics.is_empty() => format!("the job is started by {}", topics.join(" or ")),
        None if job.is_finished() => "the schedules of the job have no further due times".to_owned(),
        None => "the job is due next after its active run has ended".to_owned(),
    }
}

/// Why the last due time made no run, if it made none.
fn missed(last: Last<'_>) -> Option<Why> {
    let ended = last.ended;
    let newest = ended.map(|run| run.due);
    if let Some(skip) = last.skip.filter(|skip| newest.is_none_or(|newest| skip.to > newest)) {
        let (code, why) = match skip.reason {
            SkipReason::Misfire => (Code::Misfire, "no node could fire them in time"),
            SkipReason::Paused => (Code::Paused, "the job was paused"),
            SkipReason::Held => (Code::Held, "its namespace was on hold"),
            SkipReason::Calendar => (Code::Calendar, "its calendar excludes their days"),
            SkipReason::Edited => (Code::Edited, "an edit replaced the schedule"),
        };
        let message = format!("the due times from {} to {} were skipped: {why}", skip.from, skip.to);
        return Some(Why::new(code, message).since(Some(skip.from)));
    }
    let run = ended.filter(|run| run.status() == Status::Skipped)?;
    let why = skipped(run);
    Some(
        Why { message: format!("run {} was the last: {}", run.id, why.message), ..why }
            .about_run(Some(run.id)),
    )
}

#[cfg(test)]
mod tests;
