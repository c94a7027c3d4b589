//! The checks bite: a random story that core and a small scheduler tell holds; the same story with one fault
//! in it is found out by the check that is there for it. In a story a job fires, fails, is missed, split, edited, paused
//! and resumed, and its schedule may keep to a calendar.

mod faults;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use punctual_core::Timestamp;
use punctual_core::attempt::{End, Outcome};
use punctual_core::change::{Revision, Skip, SkipReason};
use punctual_core::ids::{Epoch, JobId, RunId, Token, WorkerId};
use punctual_core::job::{Cursor, Definition, Job, Keep, Overlap, Pause};
use punctual_core::name::{Name, Namespace};
use punctual_core::progress::{Progress, Resume};
use punctual_core::run::{Assignee, Event, Origin, Part, PartOf, Run, Status, StepOf, StepsEnd, Trigger};
use punctual_core::schedule::calendar::{Calendar, Days, Weekday};
use punctual_core::schedule::{Schedule, ScheduleCalendar, When};
use punctual_core::task::Task;
use punctual_core::workflow::{State as StepState, Step, StepKey, StepRecord, Work, Workflow};
use punctual_verify::{Check, History, Options, Report};

use faults::FAULTS;

#[derive(Debug, Clone)]
struct Story {
    job: Job,
    /// All but the newest.
    revisions: Vec<Revision>,
    runs: Vec<Run>,
    skips: Vec<Skip>,
    /// The rows of the steps of each workflow.
    flows: Vec<Vec<StepRecord>>,
    now: Timestamp,
}

/// What befalls one due time.
#[derive(Debug, Clone)]
enum Fate {
    Succeeds,
    Fails,
    LosesItsWorkerOnce,
    /// Nobody was there, for this and some more.
    Outage(u8),
    /// It goes on in two child runs.
    Splits,
    /// It executes a workflow of two steps.
    Flows,
    /// Before it comes, the schedule is replaced.
    Edit(Box<Schedule>),
    /// Before it comes, the job is paused, and so many due times go by.
    Pause(u8),
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        5 => Just(Fate::Succeeds),
        1 => Just(Fate::Fails),
        1 => Just(Fate::LosesItsWorkerOnce),
        1 => (1u8..20).prop_map(Fate::Outage),
        1 => Just(Fate::Splits),
        1 => Just(Fate::Flows),
        1 => schedule().prop_map(|schedule| Fate::Edit(Box::new(schedule))),
        1 => (0u8..20).prop_map(Fate::Pause),
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

/// Every third keeps to a calendar of working days.
fn schedule() -> impl Strategy<Value = Schedule> {
    (when(), 0..3u8).prop_map(|(when, calendar)| {
        let days = Days::new(Weekday::ALL[..5].iter().copied().collect(), [], []);
        let name = "work".parse().expect("a good name");
        let keeping =
            ScheduleCalendar::of(Arc::new(Calendar { name, version: 1, days }), "UTC").expect("a zone");
        Schedule { calendar: (calendar == 0).then_some(keeping), ..Schedule::new(when) }
    })
}

prop_compose! {
    fn story()(
        schedule in schedule(),
        fates in fates(),
        created in 1_735_689_600_000i64..1_900_000_000_000,
        at_most_once: bool,
    ) -> Story {
        // Retention takes nothing: what it took could not be asked for.
        let keep = Keep { runs: 1_000_000, days: 100_000 };
        let definition = Definition { schedules: vec![schedule], keep, at_most_once, ..Definition::of(Task::Noop) };
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
            pause: None,
            failures: 0,
            created_at: created,
            updated_at: created,
            cursor: Cursor { fired_through: created, ..Cursor::default() },
        };
        job.plan_after(created);
        Story {
            job,
            revisions: Vec::new(),
            runs: Vec::new(),
            skips: Vec::new(),
            flows: Vec::new(),
            now: created,
        }
    }

    fn befall(&mut self, fate: Fate) {
        let due = self.next_due();
        match fate {
            Fate::Outage(missed) => {
                let last = self.nth_due(missed);
                self.skip(due, last, SkipReason::Misfire, last);
                self.carried_out(last);
            }
            Fate::Edit(schedule) => self.edit(*schedule),
            Fate::Pause(missed) => self.pause(missed),
            fate => {
                self.carried_out(due);
                self.job.count_fire(due);
                self.now = self.now.max(due);
                let mut run = self.make_run(Trigger::Schedule, due);
                match fate {
                    Fate::Splits => self.split(run),
                    Fate::Flows => self.flow(run),
                    fate => {
                        self.attempt(&mut run, &fate);
                        self.runs.push(run);
                    }
                }
            }
        }
    }

    fn next_due(&self) -> Timestamp {
        self.job.cursor.next_due.expect("these schedules go on for ever")
    }

    /// The due time that comes as the `n`th from now on, the next one being the first.
    fn nth_due(&self, n: u8) -> Timestamp {
        let mut job = self.job.clone();
        for _ in 1..n {
            let due = job.cursor.next_due.expect("these schedules go on for ever");
            job.plan_after(due);
        }
        job.cursor.next_due.expect("these schedules go on for ever")
    }

    /// An instant before the next due time and after all that is decided.
    fn between(&self) -> Timestamp {
        let after = self.job.cursor.fired_through.max(self.job.updated_at);
        Timestamp::from_millis(i64::midpoint(after.as_millis(), self.next_due().as_millis()))
    }

    fn edit(&mut self, schedule: Schedule) {
        let (at, planned) = (self.between(), self.next_due());
        let before = self.job.clone();
        self.revise(at, |job| Arc::make_mut(&mut job.definition).schedules = vec![schedule]);
        self.job.plan_after(at.max(self.job.cursor.fired_through));
        if !before.definition.has_schedules_of(&self.job.definition) && !self.job.is_due_at(planned) {
            let (job, revision, reason) = (before.id, before.revision, SkipReason::Edited);
            self.skips.push(Skip { job, revision, from: planned, to: planned, reason, at });
        }
    }

    fn pause(&mut self, missed: u8) {
        let (first, last) = (self.next_due(), self.nth_due(missed));
        let at = self.between();
        let pause = Pause { reason: Box::default(), by: None, since: at, until: None };
        self.revise(at, |job| job.pause = Some(Box::new(pause)));
        if missed > 0 {
            self.skip(first, last, SkipReason::Paused, last);
            self.job.cursor.fired_through = last;
            self.job.plan_after(last);
        }
        let at = self.between();
        self.revise(at, |job| job.pause = None);
        self.job.plan_after(at.max(self.job.cursor.fired_through));
    }

    fn revise(&mut self, at: Timestamp, change: impl FnOnce(&mut Job)) {
        self.skip_excluded(at);
        let Job { id: job, revision, updated_at, .. } = self.job;
        let definition = Arc::clone(&self.job.definition);
        self.revisions.push(Revision { job, revision, definition, at: updated_at, state: self.job.state() });
        self.job.revision += 1;
        self.job.updated_at = at;
        change(&mut self.job);
    }

    fn skip(&mut self, from: Timestamp, to: Timestamp, reason: SkipReason, at: Timestamp) {
        let (job, revision) = (self.job.id, self.job.revision);
        self.skips.push(Skip { job, revision, from, to, reason, at });
    }

    fn skip_excluded(&mut self, through: Timestamp) {
        let after = self.job.cursor.fired_through.max(self.job.updated_at);
        if !self.job.is_paused()
            && let Some((from, to)) = self.job.excluded(after, through)
        {
            self.skip(from, to, SkipReason::Calendar, through);
        }
    }

    fn make_run(&self, trigger: Trigger, due: Timestamp) -> Run {
        let Job { id, name, revision, namespace, .. } = &self.job;
        let origin = Origin::Job { id: *id, name: name.clone(), revision: *revision };
        let id = RunId(100 + i64::try_from(self.runs.len()).expect("few runs"));
        Run::new(id, namespace.clone(), origin, trigger, due, self.now)
    }

    fn split(&mut self, mut run: Run) {
        let (due, total) = (run.due, 2);
        self.tell(&mut run, Event::Due);
        let (parent, place) = (run.id, self.runs.len());
        self.runs.push(run.clone());
        for index in 0..total {
            let mut child = self.make_run(Trigger::Parent, due);
            child.part_of = Some(Box::new(PartOf { parent, part: Part { index, total }, worker: None }));
            self.attempt(&mut child, &Fate::Succeeds);
            self.runs.push(child);
        }
        let mut definition = Definition::of(Task::Noop);
        definition.route.shards = Some(total);
        run.apply(Event::StepsBegun, &definition, run.due.max(run.created_at))
            .expect("a ready run may be split");
        self.tell(&mut run, end_of_steps());
        self.runs[place] = run;
    }

    fn flow(&mut self, mut run: Run) {
        let (due, parent, place) = (run.due, run.id, self.runs.len());
        let definition = Definition::of(Task::Workflow(Box::new(two_steps())));
        self.tell(&mut run, Event::Due);
        run.apply(Event::StepsBegun, &definition, self.now).expect("a ready workflow may begin");
        self.runs.push(run.clone());
        let mut rows = Vec::new();
        for (step, name) in [(0, "a"), (1, "b")] {
            let mut child = self.make_run(Trigger::Parent, due);
            child.step = Some(Box::new(StepOf { parent, step, path: name.into(), item: None }));
            let key = StepKey { run: parent, step, item: None };
            let mut row = StepRecord { child: Some(child.id), ..StepRecord::active(key, self.now) };
            self.attempt(&mut child, &Fate::Succeeds);
            row.end(StepState::Succeeded, None, self.now);
            self.runs.push(child);
            rows.push(row);
        }
        run.apply(end_of_steps(), &definition, self.now).expect("a workflow ends with its steps");
        self.runs[place] = run;
        self.flows.push(rows);
    }

    /// A run of the schedule, one that has no children.
    fn plain_run(&self, place: Index) -> Option<usize> {
        let is_plain = |run: &Run| run.trigger == Trigger::Schedule && run.attempt > 0;
        let plain: Vec<usize> = (0..self.runs.len()).filter(|place| is_plain(&self.runs[*place])).collect();
        (!plain.is_empty()).then(|| plain[place.index(plain.len())])
    }

    fn fire(&self, place: Index) -> usize {
        let fires = (0..self.runs.len()).filter(|place| self.runs[*place].trigger == Trigger::Schedule);
        let fires: Vec<usize> = fires.collect();
        fires[place.index(fires.len())]
    }

    /// What an attempt after a lost one was given.
    fn resume(&mut self, place: Index) -> Option<&mut Resume> {
        let resumes = self.runs.iter_mut().filter_map(|run| run.resumes.as_mut()?.starts.last_mut());
        let mut resumes: Vec<_> = resumes.collect();
        (!resumes.is_empty()).then(|| resumes.swap_remove(place.index(resumes.len())))
    }

    /// The rows of a workflow.
    fn flow_at(&mut self, place: Index) -> Option<&mut Vec<StepRecord>> {
        let len = self.flows.len();
        (len > 0).then(|| &mut self.flows[place.index(len)])
    }

    fn skip_of(&self, reason: SkipReason, place: Index) -> Option<usize> {
        let fitting: Vec<usize> =
            (0..self.skips.len()).filter(|place| self.skips[*place].reason == reason).collect();
        (!fitting.is_empty()).then(|| fitting[place.index(fitting.len())])
    }

    fn attempt(&mut self, run: &mut Run, fate: &Fate) {
        self.tell(run, Event::Due);
        let token = run.token.next(Epoch(3));
        self.tell(run, Event::Assigned { worker: WorkerId(Arc::from("w")), token });
        let started_at = self.now;
        self.now = self.now + Duration::from_millis(5);
        match fate {
            Fate::LosesItsWorkerOnce => {
                for row in 1..=2_u64 {
                    let checkpoint = Some(row.to_string().into());
                    run.report(Progress { checkpoint, seq: Some(row), ..Progress::default() }, self.now);
                }
                self.tell(run, Event::Lost { token });
                self.attempt(run, &Fate::Succeeds);
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
        self.skip_excluded(due);
        self.job.cursor.fired_through = due;
        self.job.plan_after(due);
    }

    fn check(&self) -> Report {
        let mut history = History::new();
        history.add_job(&self.job);
        self.revisions.iter().for_each(|revision| history.add_revision(revision));
        self.runs.iter().for_each(|run| history.add_run(run));
        self.skips.iter().for_each(|skip| history.add_skip(skip));
        for rows in &self.flows {
            if let Some(first) = rows.first() {
                history.add_workflow(first.key.run, &two_steps(), rows);
            }
        }
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

impl Story {
    fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.revisions.iter().map(|revision| &*revision.definition).chain([&*self.job.definition])
    }

    /// Adds a fire that was never owed: a copy of one that was.
    fn add_fire(&mut self, due: Timestamp, revision: u32) -> Option<()> {
        let mut run =
            self.runs.iter().find(|run| run.trigger == Trigger::Schedule && run.attempt > 0)?.clone();
        run.id.0 += 10_000;
        run.due = due;
        if let Origin::Job { revision: of, .. } = &mut run.origin {
            *of = revision;
        }
        self.runs.push(run);
        Some(())
    }
}

/// Two steps, of which the second needs the first.
fn two_steps() -> Workflow {
    let [a, b] = ["a", "b"].map(|name| name.parse().expect("a good name"));
    let second = Step { needs: vec![Name::clone(&a)], ..Step::of(b, Work::Task(Task::Noop)) };
    let steps = vec![Step::of(a, Work::Task(Task::Noop)), second];
    Workflow { steps, finally: Vec::new(), output: None }
}

/// All child runs of a run have succeeded.
fn end_of_steps() -> Event {
    Event::StepsEnded { end: StepsEnd::Succeeded, output: Box::default() }
}

fn revision_of(run: &Run) -> u32 {
    match run.origin {
        Origin::Job { revision, .. } => revision,
        Origin::AdHoc(_) => 0,
    }
}

fn millisecond_before(at: Timestamp) -> Timestamp {
    at.before(Duration::from_millis(1))
}

/// Stories in which a fault is tried for each check: few are fit for all of them.
const STORIES_MAX: usize = 1000;

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
        let is_plain = |run: &&mut Run| run.parent().is_none() && !run.has_begun_steps();
        for run in story.runs.iter_mut().filter(is_plain) {
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

/// No check is there for nothing.
#[test]
fn every_check_has_a_fault_that_it_finds() {
    let mut runner = TestRunner::deterministic();
    let mut bitten = BTreeSet::new();
    for _ in 0..STORIES_MAX {
        let (story, place) = (story(), any::<Index>()).new_tree(&mut runner).unwrap().current();
        for (_, fault) in FAULTS {
            let mut story = story.clone();
            bitten.extend(fault(&mut story, place).filter(|check| story.check().of(*check).next().is_some()));
        }
        if bitten.len() == Check::ALL.len() {
            return;
        }
    }
    assert_eq!(bitten, BTreeSet::from(Check::ALL));
}
