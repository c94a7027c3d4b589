//! The preview of a put: the resulting job, and warnings about probable mistakes.

use std::sync::Arc;
use std::time::Duration;

use crate::Timestamp;
use crate::ids::JobId;
use crate::job::{Definition, Job, MisfirePolicy, Overlap};
use crate::name::{Name, Namespace};
use crate::schedule::When;

/// A warning about a valid definition that is probably a mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    pub field: &'static str,
    pub message: String,
}

/// The job that a put would result in. Without an id its jitter is only a guess.
pub fn as_if_put(
    known: Option<&Job>,
    namespace: Namespace,
    name: Name,
    definition: Arc<Definition>,
    now: Timestamp,
) -> Job {
    let Some(known) = known else { return Job::new(JobId(0), namespace, name, definition, now) };
    let mut job = known.clone();
    if known.definition != definition {
        job.revise(definition, false, now);
    }
    job
}

pub fn of(job: &Job) -> Vec<Advice> {
    let mut advice = Vec::new();
    let mut say = |field, message: &str| advice.push(Advice { field, message: message.to_owned() });
    let definition = &job.definition;
    if job.is_paused() {
        say("state", "the job is paused: it is due again when someone resumes it");
    } else if definition.schedules.is_empty() && definition.ping().is_none() {
        say(
            "schedule",
            "there is none: it runs only when someone asks; `manual: true` says that this is meant",
        );
    } else if job.cursor.next_due.is_none()
        && !definition.schedules.iter().all(|one| one.when == When::Manual)
    {
        say("schedule", "it is never due again: every instant it names has passed");
    }
    if let (Some(timeout), Some(gap)) = (definition.timeout, gap(job))
        && timeout > gap
        && definition.overlap == Overlap::Skip
    {
        say("timeout", "longer than the time between two fires: a slow run makes the next ones skipped");
    }
    let retry = &definition.retry;
    if retry.attempts > 1 && retry.max_delay < retry.delay {
        say("retry.max_delay", "shorter than retry.delay, so it has no effect");
    }
    let misfire = &definition.misfire;
    if misfire.policy != MisfirePolicy::Skip && misfire.window < misfire.grace {
        say("misfire.window", "shorter than misfire.grace: whatever is missed is skipped");
    }
    advice
}

/// The time from the next due time to the one after it.
fn gap(job: &Job) -> Option<Duration> {
    let first = job.cursor.next_due?;
    let mut later = job.clone();
    later.count_fire(first);
    later.plan_after(first);
    later.cursor.next_due.map(|second| second.since(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Pause;
    use crate::retry::Retry;
    use crate::schedule::Schedule;
    use crate::task::Task;

    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);
    const MINUTE: Duration = Duration::from_secs(60);

    fn put(known: Option<&Job>, definition: Definition) -> Job {
        let name = "a".parse().unwrap();
        as_if_put(known, Namespace::default(), name, Arc::new(definition), NOW)
    }

    fn on(when: When) -> Definition {
        Definition { schedules: vec![Schedule::new(when)], ..Definition::of(Task::Noop) }
    }

    fn pause() -> Pause {
        Pause { reason: Box::default(), by: None, since: NOW, until: None }
    }

    #[track_caller]
    fn check(definition: Definition, fields: &[&str]) {
        let advice = of(&put(None, definition));
        assert_eq!(advice.iter().map(|advice| advice.field).collect::<Vec<_>>(), fields, "{advice:?}");
    }

    #[test]
    fn a_job_is_due_as_if_it_had_been_put() {
        assert_eq!(put(None, on(When::Every(MINUTE))).cursor.next_due, Some(NOW + MINUTE));
        assert_eq!(put(None, on(When::AfterFinish(MINUTE))).cursor.next_due, Some(NOW));
        let known = put(None, on(When::Every(MINUTE)));
        assert_eq!(put(Some(&known), on(When::Every(MINUTE))), known);
        let ended = Schedule { end: Some(NOW.before(MINUTE)), ..Schedule::new(When::AfterFinish(MINUTE)) };
        let ended = Definition { schedules: vec![ended], ..Definition::of(Task::Noop) };
        assert_eq!(put(None, ended).cursor.next_due, None, "its end has passed");
        let mut paused = known;
        paused.pause(pause());
        let edited = put(Some(&paused), on(When::Every(2 * MINUTE)));
        assert_eq!((edited.revision, edited.is_paused()), (2, true));
    }

    #[test]
    fn what_is_probably_not_meant_is_said() {
        check(on(When::Every(MINUTE)), &[]);
        check(on(When::Manual), &[]);
        check(Definition::of(Task::Noop), &["schedule"]);
        check(on(When::At(NOW.before(MINUTE))), &["schedule"]);
        check(Definition { timeout: Some(2 * MINUTE), ..on(When::Every(MINUTE)) }, &["timeout"]);
        let retry = Retry { attempts: 2, delay: MINUTE, max_delay: MINUTE / 2, ..Retry::default() };
        check(Definition { retry, ..on(When::Every(MINUTE)) }, &["retry.max_delay"]);
        let mut impatient = on(When::Every(MINUTE));
        impatient.misfire.window = Duration::from_secs(1);
        check(impatient, &["misfire.window"]);
        let mut paused = put(None, on(When::Every(MINUTE)));
        paused.pause(pause());
        assert_eq!(of(&paused)[0].field, "state");
    }
}
