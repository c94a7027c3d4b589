//! The checks bite: a random story that core and a small scheduler tell holds; the same story with one fault
//! in it is found out by the check that is there for it.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use punctual_core::Timestamp;
use punctual_core::attempt::{End, Outcome};
use punctual_core::change::{Skip, SkipReason};
use punctual_core::ids::{Epoch, JobId, RunId, Token, WorkerId};
use punctual_core::job::{Cursor, Definition, Job, Keep, Overlap};
use punctual_core::name::Namespace;
use punctual_core::run::{Event, Origin, Run, Status, Trigger};
use punctual_core::schedule::{Schedule, When};
use punctual_core::task::Task;
use punctual_verify::{Check, History, Options, Report};

#[derive(Debug, Clone)]
struct Story {
    job: Job,
    runs: Vec<Run>,
    skips: Vec<Skip>,
    now: Timestamp,
}

/// What befalls one due time.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Succeeds,
    Fails,
    LosesItsWorkerOnce,
    /// Nobody was there, for this and some more.
    Outage(u8),
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        5 => Just(Fate::Succeeds),
        1 => Just(Fate::Fails),
        1 => Just(Fate::LosesItsWorkerOnce),
        1 => (1u8..20).prop_map(Fate::Outage),
    ];
    proptest::collection::vec(fate, 3..40)
}

fn when() -> impl Strategy<Value = When> {
    const CRON: [&str; 4] = ["*/5 * * * * *", "0 */2 * * *", "30 2 * * *", "0 9 * * MON-FRI"];
    const ZONE: [&str; 4] = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Shanghai"];
    prop_oneof![
        (1u64..100_000).prop_map(|period| When::Every(Duration::from_millis(period * 10))),
        (proptest::sample::select(&CRON[..]), proptest::sample::select(&ZONE[..])).prop_map(
            |(cron, zone)| {
                When::parse_cron(cron, zone, Default::default(), None).expect("a good expression")
            }
        ),
    ]
}

prop_compose! {
    fn story()(
        when in when(),
        fates in fates(),
        created in 1_735_689_600_000i64..1_900_000_000_000,
        at_most_once: bool,
    ) -> Story {
        let schedules = vec![Schedule::new(when)];
        // Retention takes nothing: what it took could not be asked for.
        let keep = Keep { runs: 1_000_000, days: 100_000 };
        let definition = Definition { schedules, keep, ..Definition::of(Task::Noop) };
        let mut story = Story::new(definition, Timestamp::from_millis(created));
        for fate in fates {
            // Losing a worker and at most once do not go together here: that story is core's own to test.
            let fate = match fate {
                Fate::LosesItsWorkerOnce if at_most_once => Fate::Succeeds,
                fate => fate,
            };
            story.befall(fate);
        }
        story.befall(Fate::Succeeds);
        Arc::make_mut(&mut story.job.definition).at_most_once = at_most_once;
        story
    }
}

impl Story {
    fn new(definition: Definition, created: Timestamp) -> Story {
        let mut job = Job {
            id: JobId(1),
            namespace: Namespace::default(),
            name: "beat".parse().expect("a good name"),
            revision: 1,
            definition: Arc::new(definition),
            paused: false,
            created_at: created,
            updated_at: created,
            cursor: Cursor { fired_through: created, ..Cursor::default() },
        };
        job.plan_after(created);
        Story { job, runs: Vec::new(), skips: Vec::new(), now: created }
    }

    fn befall(&mut self, fate: Fate) {
        let due = self.job.cursor.next_due.expect("these schedules go on for ever");
        if let Fate::Outage(missed) = fate {
            let mut last = due;
            for _ in 1..missed {
                self.carried_out(last);
                last = self.job.cursor.next_due.expect("these schedules go on for ever");
            }
            let (job, revision, reason) = (self.job.id, self.job.revision, SkipReason::Misfire);
            self.skips.push(Skip { job, revision, from: due, to: last, reason, at: last });
            return self.carried_out(last);
        }
        self.carried_out(due);
        self.job.count_fire(due);
        self.now = self.now.max(due);
        let Job { id, name, revision, namespace, .. } = &self.job;
        let origin = Origin::Job { id: *id, name: name.clone(), revision: *revision };
        let id = RunId(100 + i64::try_from(self.runs.len()).expect("few runs"));
        let mut run = Run::new(id, namespace.clone(), origin, Trigger::Schedule, due, self.now);
        self.attempt(&mut run, fate);
        self.runs.push(run);
    }

    fn attempt(&mut self, run: &mut Run, fate: Fate) {
        self.tell(run, Event::Due);
        let token = run.token.next(Epoch(3));
        self.tell(run, Event::Assigned { worker: WorkerId(Arc::from("w")), token });
        let started_at = self.now;
        self.now = self.now + Duration::from_millis(5);
        match fate {
            Fate::LosesItsWorkerOnce => {
                self.tell(run, Event::Lost { token });
                self.attempt(run, Fate::Succeeds);
            }
            Fate::Fails => {
                self.tell(run, Event::Reported { token, outcome: Outcome::failed(started_at, "it broke") });
            }
            _ => {
                let outcome = Outcome { end: End::Succeeded, ..Outcome::succeeded(started_at) };
                self.tell(run, Event::Reported { token, outcome });
            }
        }
    }

    fn tell(&self, run: &mut Run, event: Event) {
        run.apply(event, &Definition::of(Task::Noop), self.now)
            .expect("the small scheduler follows the arrows");
    }

    fn carried_out(&mut self, due: Timestamp) {
        self.job.cursor.fired_through = due;
        self.job.plan_after(due);
    }

    fn check(&self) -> Report {
        let mut history = History::new();
        history.add_job(&self.job);
        self.runs.iter().for_each(|run| history.add_run(run));
        self.skips.iter().for_each(|skip| history.add_skip(skip));
        let through = self.job.cursor.fired_through;
        let options = Options {
            still: true,
            fired_through: Some(through),
            ended_through: Some(through),
            ..Options::default()
        };
        history.check(&options)
    }
}

fn millisecond_before(at: Timestamp) -> Timestamp {
    at.before(Duration::from_millis(1))
}

/// The faults: each changes a story and says who must notice. None: this story has no place for it.
type Fault = fn(&mut Story, Index) -> Option<Check>;

const FAULTS: [(&str, Fault); 16] = [
    ("a run is lost", |story, place| {
        story.runs.remove(place.index(story.runs.len()));
        Some(Check::NeverLost)
    }),
    ("a skip record is lost", |story, place| {
        (!story.skips.is_empty()).then(|| story.skips.remove(place.index(story.skips.len())))?;
        Some(Check::NeverLost)
    }),
    ("a skip record ends too soon", |story, place| {
        (!story.skips.is_empty()).then_some(())?;
        let place = place.index(story.skips.len());
        story.skips[place].to = millisecond_before(story.skips[place].to);
        Some(Check::NeverLost)
    }),
    ("a plan passes over a due time", |story, _| {
        let next = story.job.cursor.next_due?;
        story.job.plan_after(next);
        Some(Check::NeverLost)
    }),
    ("a fire is made twice", |story, place| {
        let mut run = story.runs[place.index(story.runs.len())].clone();
        run.id.0 += 10_000;
        story.runs.push(run);
        Some(Check::NeverTwice)
    }),
    ("a fire was recorded as skipped", |story, place| {
        let due = story.runs[place.index(story.runs.len())].due;
        let (job, revision, reason) = (story.job.id, 1, SkipReason::Misfire);
        story.skips.push(Skip { job, revision, from: due, to: due, reason, at: due });
        Some(Check::NeverTwice)
    }),
    ("a cursor lags behind", |story, _| {
        let last = story.runs.iter().map(|run| run.due).max()?;
        story.job.cursor.fired_through = millisecond_before(last);
        Some(Check::Accounted)
    }),
    ("a run starts too early", |story, place| {
        let place = place.index(story.runs.len());
        let run = &mut story.runs[place];
        for entry in &mut run.entries {
            entry.at = millisecond_before(run.due);
        }
        run.finished_at = run.entries.last().map(|entry| entry.at);
        Some(Check::NeverEarly)
    }),
    ("a due time is the moment of firing", |story, place| {
        let place = place.index(story.runs.len());
        let run = &mut story.runs[place];
        let moved = run.due + Duration::from_millis(1);
        (story.job.definition.schedules[0].previous(moved, story.job.created_at) != Some(moved))
            .then_some(())?;
        run.due = moved;
        Some(Check::OnSchedule)
    }),
    ("an event is lost", |story, place| {
        let run = place.index(story.runs.len());
        let entries = &mut story.runs[run].entries;
        entries.remove(place.index(entries.len() - 1));
        Some(Check::LegalStates)
    }),
    ("a run moves after its end", |story, place| {
        let run = place.index(story.runs.len());
        let run = &mut story.runs[run];
        let last = run.entries.last()?.clone();
        run.entries.push(last);
        Some(Check::LegalStates)
    }),
    ("two results are accepted", |story, place| {
        let run = place.index(story.runs.len());
        let run = &mut story.runs[run];
        let last = run.entries.last()?.clone();
        run.entries.push(last);
        Some(Check::OneResult)
    }),
    ("an outdated token reports", |story, place| {
        let run = place.index(story.runs.len());
        let last = story.runs[run].entries.last_mut()?;
        last.token = Token(last.token.0 - 1);
        Some(Check::OneResult)
    }),
    ("a run that may start once starts twice", |story, place| {
        let run = place.index(story.runs.len());
        let run = &mut story.runs[run];
        let starts = run.entries.iter().filter(|entry| entry.to == Status::Running).count();
        (starts > 1).then_some(())?;
        Arc::make_mut(&mut story.job.definition).at_most_once = true;
        Some(Check::AtMostOnce)
    }),
    ("two runs of a job run side by side", |story, place| {
        (story.runs.len() > 1).then_some(())?;
        let first = place.index(story.runs.len() - 1);
        let next = story.runs[first + 1].entries.iter().find(|entry| entry.to == Status::Running)?.at;
        let run = &mut story.runs[first];
        run.entries.last_mut()?.at = next + Duration::from_millis(1);
        run.finished_at = Some(next + Duration::from_millis(1));
        Some(Check::Overlap)
    }),
    ("a run hangs", |story, place| {
        let run = place.index(story.runs.len());
        let run = &mut story.runs[run];
        run.entries.pop();
        run.finished_at = None;
        run.state = punctual_core::run::State::Running {
            worker: WorkerId(Arc::from("w")),
            token: run.token,
            since: run.due,
            cancelling: None,
        };
        Some(Check::Ended)
    }),
];

proptest! {
    #[test]
    fn a_story_without_faults_holds(story in story()) {
        let report = story.check();
        prop_assert!(report.is_ok(), "{}", report);
    }

    #[test]
    fn every_fault_is_found_by_the_check_that_is_there_for_it(story in story(), place: Index) {
        for (name, fault) in FAULTS {
            let mut story = story.clone();
            let Some(check) = fault(&mut story, place) else { continue };
            let report = story.check();
            prop_assert!(report.of(check).next().is_some(), "{}: {} saw nothing\n{}", name, check, report);
        }
    }

    /// What is allowed to overlap is not called a fault.
    #[test]
    fn runs_side_by_side_are_fine_where_the_job_says_so(mut story in story()) {
        Arc::make_mut(&mut story.job.definition).overlap = Overlap::Allow;
        for run in &mut story.runs {
            let end = run.entries.last().map(|entry| entry.at + Duration::from_secs(3600));
            run.finished_at = end;
            if let (Some(last), Some(end)) = (run.entries.last_mut(), end) {
                last.at = end;
            }
        }
        let report = story.check();
        prop_assert!(report.is_ok(), "{}", report);
    }
}
