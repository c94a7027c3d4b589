//! The stories: what happens to a job and its runs, as a small scheduler tells it with core's own types.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use punctual_core::Timestamp;
use punctual_core::attempt::{End, Outcome};
use punctual_core::change::{Revision, Skip, SkipReason};
use punctual_core::ids::{Epoch, JobId, RunId, WorkerId};
use punctual_core::job::{Cursor, Definition, Job, Keep, Overlap, Pause};
use punctual_core::name::{Name, Namespace};
use punctual_core::progress::Progress;
use punctual_core::queue::Sender;
use punctual_core::run::{Assignee, Event, Link, Origin, Part, PartOf, Run, StepOf, StepsEnd, Trigger};
use punctual_core::schedule::calendar::{Calendar, Days, Weekday};
use punctual_core::schedule::{After, Ends, Schedule, ScheduleCalendar, When};
use punctual_core::task::Task;
use punctual_core::workflow::{Items, State as StepState, Step, StepKey, StepRecord, Work, Workflow};
use punctual_verify::{History, Options, Report};

#[derive(Debug, Clone)]
pub(super) struct Story {
    pub(super) job: Job,
    /// The job that follows the first one, and that a step of its workflow starts.
    other: Job,
    /// All but the newest.
    pub(super) revisions: Vec<Revision>,
    pub(super) runs: Vec<Run>,
    pub(super) skips: Vec<Skip>,
    /// The rows of the steps of each workflow.
    pub(super) flows: Vec<Vec<StepRecord>>,
    /// The rows of the parts of each split run.
    pub(super) splits: Vec<Vec<StepRecord>>,
    now: Timestamp,
}

/// What befalls one due time.
#[derive(Debug, Clone)]
enum Fate {
    Succeeds,
    Fails,
    LosesItsWorkerOnce,
    /// No node was up at this due time and at so many after it.
    Outage(u8),
    /// It goes on in two child runs.
    Splits,
    /// It executes a workflow of two steps.
    Flows,
    /// It executes a workflow whose second step starts another job.
    Calls,
    /// Before it comes, the schedule is replaced.
    Edit(Box<Schedule>),
    /// Before it comes, the job is paused, and so many due times go by.
    Pause(u8),
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        5 => Just(Fate::Succeeds),
        2 => Just(Fate::Fails),
        1 => Just(Fate::LosesItsWorkerOnce),
        1 => (1u8..20).prop_map(Fate::Outage),
        1 => Just(Fate::Splits),
        1 => Just(Fate::Flows),
        1 => Just(Fate::Calls),
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
    pub(super) fn story()(
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
        let job = job(1, "beat", definition, created);
        let follows = When::After(After { job: job.name.clone(), on: Ends::Failed });
        let schedules = vec![Schedule::new(follows)];
        let keep = job.definition.keep.clone();
        let other = Definition { schedules, keep, overlap: Overlap::Allow, ..Definition::of(Task::Noop) };
        Story {
            other: self::job(2, "settle", other, created),
            job,
            revisions: Vec::new(),
            runs: Vec::new(),
            skips: Vec::new(),
            flows: Vec::new(),
            splits: Vec::new(),
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
                let mut run = self.make_run(&self.job, Trigger::Schedule, due);
                match fate {
                    Fate::Splits => self.split(run),
                    Fate::Flows | Fate::Calls => self.flow(run, matches!(fate, Fate::Calls)),
                    Fate::Fails => self.follow(run),
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

    fn make_run(&self, job: &Job, trigger: Trigger, due: Timestamp) -> Run {
        let Job { id, name, revision, namespace, .. } = job;
        let origin = Origin::Job { id: *id, name: name.clone(), revision: *revision };
        let id = RunId(100 + i64::try_from(self.runs.len()).expect("few runs"));
        Run::new(id, namespace.clone(), origin, trigger, due, self.now)
    }

    fn split(&mut self, mut run: Run) {
        let (due, total) = (run.due, 2);
        self.tell(&mut run, Event::Due);
        let (parent, place) = (run.id, self.runs.len());
        self.runs.push(run.clone());
        let mut rows = vec![StepRecord::of_parts(parent, total, Box::default(), self.now)];
        for index in 0..total {
            let mut child = self.make_run(&self.job, Trigger::Parent, due);
            child.part_of = Some(Box::new(PartOf { parent, part: Part { index, total }, worker: None }));
            let key = StepKey { run: parent, step: 0, item: Some(index) };
            let mut row = StepRecord { child: Some(child.id), ..StepRecord::active(key, self.now) };
            self.attempt(&mut child, &Fate::Succeeds);
            row.end(StepState::Succeeded, None, self.now);
            self.runs.push(child);
            rows.push(row);
        }
        rows[0].end(StepState::Succeeded, None, self.now);
        rows[0].items = Some(Items { total, succeeded: total, failed: 0 });
        self.splits.push(rows);
        let mut definition = Definition::of(Task::Noop);
        definition.route.shards = Some(total);
        run.apply(Event::StepsBegun, &definition, run.due.max(run.created_at))
            .expect("a ready run may be split");
        self.tell(&mut run, end_of_steps());
        self.runs[place] = run;
    }

    fn flow(&mut self, mut run: Run, calls: bool) {
        let (due, parent, place) = (run.due, run.id, self.runs.len());
        let definition = Definition::of(Task::Workflow(Box::new(two_steps())));
        self.tell(&mut run, Event::Due);
        run.apply(Event::StepsBegun, &definition, self.now).expect("a ready workflow may begin");
        self.runs.push(run.clone());
        let mut rows = Vec::new();
        for (step, name) in [(0, "a"), (1, "b")] {
            let mut child = self.make_run(&self.job, Trigger::Parent, due);
            child.step = Some(Box::new(StepOf { parent, step, path: name.into(), item: None }));
            let key = StepKey { run: parent, step, item: None };
            let mut row = StepRecord { child: Some(child.id), ..StepRecord::active(key, self.now) };
            if calls && step == 1 {
                self.call(child);
            } else {
                self.attempt(&mut child, &Fate::Succeeds);
                self.runs.push(child);
            }
            row.end(StepState::Succeeded, None, self.now);
            rows.push(row);
        }
        run.apply(end_of_steps(), &definition, self.now).expect("a workflow ends with its steps");
        self.runs[place] = run;
        self.flows.push(rows);
    }

    /// The run of a step starts a run of the other job, and ends with it.
    fn call(&mut self, mut step: Run) {
        let place = self.runs.len();
        self.tell(&mut step, Event::Due);
        let (to, token) = (Assignee::Job(self.other.name.clone()), step.token.next(Epoch(3)));
        self.tell(&mut step, Event::Sent { to, token });
        self.runs.push(step.clone());
        let started_at = self.now;
        let caller = Some(Sender { run: step.id, token });
        let called = self.start_other(Trigger::Workflow, Link { caller, depth: 1, ..Link::default() });
        step.link = Some(Box::new(Link { called: Some(called), ..Link::default() }));
        self.tell(&mut step, Event::Reported { token, outcome: Outcome::succeeded(started_at) });
        self.runs[place] = step;
    }

    /// A run whose failure starts the other job.
    fn follow(&mut self, mut run: Run) {
        self.attempt(&mut run, &Fate::Fails);
        let upstream = Some(run.id);
        self.runs.push(run);
        self.start_other(Trigger::After, Link { upstream, depth: 1, ..Link::default() });
    }

    /// The place of a run that another job's end has started, between others that were started much earlier and later.
    pub(super) fn started_between_others(&self) -> Option<usize> {
        let hour = Duration::from_secs(3600);
        let upstream = |id: RunId| self.runs.iter().find(|run| run.id == id);
        let after = self.runs.iter().enumerate().filter(|(_, run)| run.trigger == Trigger::After);
        let ends = after.filter_map(|(place, run)| Some((upstream(run.started_by()?)?.finished_at?, place)));
        let ends: Vec<_> = ends.filter(|(at, _)| *at >= self.other.updated_at + hour).collect();
        let ((first, _), (last, _)) = (ends.first()?, ends.last()?);
        ends.iter().find(|(at, _)| at > first && *at + hour <= *last).map(|(_, place)| *place)
    }

    fn start_other(&mut self, trigger: Trigger, link: Link) -> RunId {
        let mut run = self.make_run(&self.other, trigger, self.now);
        run.link = Some(Box::new(link));
        self.attempt(&mut run, &Fate::Succeeds);
        let id = run.id;
        self.runs.push(run);
        id
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

    pub(super) fn check(&self) -> Report {
        let mut history = History::new();
        history.add_job(&self.job);
        history.add_job(&self.other);
        self.revisions.iter().for_each(|revision| history.add_revision(revision));
        self.runs.iter().for_each(|run| history.add_run(run));
        self.skips.iter().for_each(|skip| history.add_skip(skip));
        for rows in &self.flows {
            if let Some(first) = rows.first() {
                history.add_workflow(first.key.run, &two_steps(), rows);
            }
        }
        for rows in &self.splits {
            if let Some(first) = rows.first() {
                history.add_workflow(first.key.run, Workflow::of_parts(), rows);
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

fn job(id: i64, name: &str, definition: Definition, created: Timestamp) -> Job {
    let mut job = Job {
        id: JobId(id),
        namespace: Namespace::default(),
        name: name.parse().expect("a good name"),
        revision: 1,
        definition: Arc::new(definition),
        pause: None,
        failures: 0,
        watch: None,
        created_at: created,
        updated_at: created,
        cursor: Cursor { fired_through: created, ..Cursor::default() },
    };
    job.plan_after(created);
    job
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

pub(super) fn revision_of(run: &Run) -> u32 {
    match run.origin {
        Origin::Job { revision, .. } => revision,
        Origin::AdHoc(_) => 0,
    }
}

pub(super) fn millisecond_before(at: Timestamp) -> Timestamp {
    at.before(Duration::from_millis(1))
}
