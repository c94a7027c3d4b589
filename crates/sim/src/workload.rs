//! The commands of users, chosen at random: every kind of command, on few names so that commands collide.
//!
//! A command that makes a run or a revision is tagged with its ticket, in the parameters of the run or in the description
//! of the definition. So every row in the store names the command that made it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::alert::{Alert, Condition};
use punctual_core::command::{ActOnSteps, Command, Expect, Key, PutJob, RetryRun, RunJob, Submit};
use punctual_core::ids::RunId;
use punctual_core::job::limit::{Beyond, Limit, Rate, Waiting};
use punctual_core::job::{Definition, Labels, Misfire, MisfirePolicy, Overlap, Route, Strategy, Unique};
use punctual_core::name::{Name, Namespace};
use punctual_core::retry::{Backoff, Retry};
use punctual_core::schedule::calendar::{Calendar, Days, Weekday, Weekly};
use punctual_core::schedule::{Cron, Schedule, ScheduleCalendar, When};
use punctual_core::task::{Params, Task};
use punctual_core::topic::{After, Ends, Gather, NewEvent, OnEvent, Topic};
use punctual_engine::Ticket;

use crate::dice::Dice;
use crate::traffic;
use crate::weather::Weather;
use crate::workflows;

/// Every key is kept at least this long.
pub(crate) const KEPT_MIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct People {
    weather: Weather,
    /// The last definition of each name: sometimes it is put again unmodified.
    last: BTreeMap<Name, Arc<Definition>>,
    /// The newest version of the calendar that some schedules use.
    calendar: Arc<Calendar>,
}

/// What a user knows of the world.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    pub(crate) runs: &'a [RunId],
    /// Workflows that have ended.
    pub(crate) workflows: &'a [RunId],
    /// Workflows that have not ended.
    pub(crate) running: &'a [RunId],
    /// The events that steps wait for, by name and key.
    pub(crate) awaited: &'a [(Name, Arc<str>)],
    pub(crate) now: Timestamp,
}

pub(crate) fn put(name: Name, definition: Arc<Definition>, expect: Expect) -> Command {
    Command::PutJob(PutJob { namespace: Namespace::default(), name, definition, expect })
}

pub(crate) fn name(index: usize) -> Name {
    format!("job-{index}").parse().expect("the name of a job is a name")
}

pub(crate) fn tag(ticket: Ticket) -> String {
    format!("{{\"ticket\":{}}}", ticket.0)
}

impl People {
    pub(crate) fn new(weather: Weather) -> Self {
        let name = "work".parse().expect("the name of a calendar is a name");
        let days = Days::new(Weekly::EVERY_DAY, [], []);
        People { weather, last: BTreeMap::new(), calendar: Arc::new(Calendar { name, version: 1, days }) }
    }

    pub(crate) fn ask(&mut self, ticket: Ticket, known: Known<'_>, dice: &mut Dice) -> Command {
        let namespace = Namespace::default();
        let run = dice.pick(known.runs).copied().unwrap_or(RunId(1));
        let params = Some(Params(Arc::from(tag(ticket))));
        // Nobody else finds the key of a step that waits. Some events have the right name and another key.
        if let Some((name, key)) = dice.pick(known.awaited).filter(|_| dice.one_in(3)) {
            let key = if dice.one_in(4) { Arc::from(format!("not {key}")) } else { Arc::clone(key) };
            let event = NewEvent { key: Some(key), params: Params(Arc::from(tag(ticket))) };
            return Command::SendEvent { namespace, name: name.clone(), event };
        }
        match dice.below(26) {
            0..=3 => self.put(ticket, known.now, dice),
            4 if self.weather.edits => Command::PauseJob {
                namespace,
                name: self.name(dice),
                reason: Box::default(),
                by: None,
                until: None,
            },
            6 if self.weather.edits && dice.one_in(2) => self.replan(dice),
            5 | 6 if self.weather.edits => Command::ResumeJob { namespace, name: self.name(dice) },
            7 if self.weather.edits => {
                Command::DeleteJob { namespace, name: self.name(dice), expect: Expect::Anything }
            }
            4..=10 => {
                let (due, key) = (due(dice, known.now), key(dice));
                Command::RunJob(RunJob { namespace, name: self.name(dice), params, due, key, caller: None })
            }
            11..=15 => Command::Submit(Submit {
                namespace,
                definition: Arc::new(Definition {
                    description: tag(ticket),
                    ..self.definition(dice, Vec::new())
                }),
                due: due(dice, known.now),
                key: key(dice),
                spread: dice.below(1000),
            }),
            16 | 17 => {
                let (now, by) = (dice.one_in(4), Some("ops".into()));
                Command::CancelRun { namespace, run, now, by, comment: tag(ticket).into() }
            }
            19 | 20 => Command::MoveRun { namespace, run, worker: None },
            18 => {
                let dead_letter = ticket.0.is_multiple_of(2);
                let (key, resume) = (key(dice), ticket.0.is_multiple_of(3));
                let from = workflows::retry_from(dice);
                let flow = if dice.one_in(2) { dice.pick(known.workflows).copied() } else { None };
                Command::RetryRun(RetryRun {
                    namespace,
                    run: flow.unwrap_or(run),
                    params,
                    due: None,
                    key,
                    resume,
                    dead_letter,
                    from,
                    step_params: None,
                    by: Some("ops".into()),
                    comment: tag(ticket).into(),
                })
            }
            21..=23 => {
                let (act, by) = (workflows::act(dice), Some("ops".into()));
                let run = dice.pick(known.running).copied().filter(|_| dice.one_in(2)).unwrap_or(run);
                Command::ActOnSteps(ActOnSteps { namespace, run, act, by, comment: tag(ticket).into() })
            }
            24 | 25 if !dice.one_in(3) => {
                let key = key(dice).map(|key| key.text);
                let event = NewEvent { key, params: Params(Arc::from(tag(ticket))) };
                Command::SendEvent { namespace, name: event_name(dice), event }
            }
            _ => Command::DiscardDeadLetter { namespace, run },
        }
    }

    fn put(&mut self, ticket: Ticket, now: Timestamp, dice: &mut Dice) -> Command {
        let name = self.name(dice);
        let known = self.last.get(&name).filter(|_| dice.one_in(5)).cloned();
        let definition = known.unwrap_or_else(|| {
            let schedules = (0..1 + dice.below(2)).map(|_| self.schedule(dice, now));
            // A server refuses cycles: each run would start more and more others.
            let schedules = schedules.filter(|schedule| match &schedule.when {
                When::After(after) => after.job < name,
                _ => true,
            });
            let schedules = schedules.collect();
            // Workflows start the first job, so it is not one itself.
            let definition = if name == self::name(0) {
                self.plain_definition(dice, schedules)
            } else {
                self.definition(dice, schedules)
            };
            Arc::new(Definition { description: tag(ticket), ..definition })
        });
        self.last.insert(name.clone(), Arc::clone(&definition));
        let expect = match dice.below(6) {
            _ if !self.weather.edits => Expect::Absent,
            0..=2 => Expect::Absent,
            3 => Expect::Revision(u32::try_from(1 + dice.below(3)).unwrap_or(1)),
            _ => Expect::Anything,
        };
        put(name, definition, expect)
    }

    /// Edits the calendar and re-plans one job; the other jobs keep an older version until they are re-planned.
    fn replan(&mut self, dice: &mut Dice) -> Command {
        if dice.one_in(2) {
            let days = Weekday::ALL.into_iter().filter(|_| !dice.one_in(4)).collect();
            let (name, version) = (self.calendar.name.clone(), self.calendar.version + 1);
            self.calendar = Arc::new(Calendar { name, version, days: Days::new(days, [], []) });
        }
        let (namespace, calendar) = (Namespace::default(), Arc::clone(&self.calendar));
        Command::ReplanJob { namespace, name: self.name(dice), calendar: Some(calendar) }
    }

    fn name(&self, dice: &mut Dice) -> Name {
        name(usize::try_from(dice.below(self.weather.names as u64)).unwrap_or(0))
    }

    /// One definition in six is a workflow.
    fn definition(&self, dice: &mut Dice, schedules: Vec<Schedule>) -> Definition {
        let plain = self.plain_definition(dice, schedules);
        if !dice.one_in(6) {
            return plain;
        }
        // Its steps have these instead.
        let (retry, route, at_most_once) = (Retry::default(), Route::default(), false);
        let task = Task::Workflow(Box::new(workflows::workflow(dice)));
        // A workflow takes longer than many intervals: a queue of its fires, or of their steps, would only grow.
        let overlap = if plain.overlap == Overlap::Queue { Overlap::QueueOne } else { plain.overlap };
        // A rate would make the steps of one workflow last longer than the storm.
        let is_slow = |limit: &Limit| overlap == Overlap::Allow || limit.rate.is_some();
        let limits = plain.limits.iter().filter(|limit| !is_slow(limit)).cloned().collect();
        Definition { task, retry, route, at_most_once, overlap, limits, ..plain }
    }

    fn plain_definition(&self, dice: &mut Dice, schedules: Vec<Schedule>) -> Definition {
        let at_most_once = dice.one_in(6);
        let attempts = if at_most_once { 1 } else { u32::try_from(1 + dice.below(4)).unwrap_or(1) };
        let overlaps = [Overlap::Skip, Overlap::Queue, Overlap::QueueOne, Overlap::Replace, Overlap::Allow];
        let route = route(dice);
        let policies = [MisfirePolicy::Skip, MisfirePolicy::Once, MisfirePolicy::All];
        let backoffs = [Backoff::Fixed, Backoff::Linear, Backoff::Exponential];
        Definition {
            schedules,
            at_most_once,
            retry: Retry {
                attempts,
                delay: Duration::from_millis(dice.below(5_000)),
                backoff: *dice.pick(&backoffs).unwrap_or(&Backoff::Fixed),
                max_delay: Duration::from_secs(20),
                jitter_percent: u8::try_from(dice.below(50)).unwrap_or(0),
                priority: dice.one_in(3).then_some(7),
                ..Retry::default()
            },
            timeout: dice.one_in(3).then(|| Duration::from_millis(500 + dice.below(20_000))),
            overlap: *dice.pick(&overlaps).unwrap_or(&Overlap::Skip),
            misfire: Misfire {
                policy: *dice.pick(&policies).unwrap_or(&MisfirePolicy::Once),
                window: Duration::from_secs(dice.below(120)),
                grace: Duration::from_millis(dice.below(15_000)),
            },
            priority: u8::try_from(dice.below(10)).unwrap_or(5),
            unique: dice.one_in(8).then(|| Unique { key: "unique".to_owned(), kept: kept(dice) }),
            dead_letter: !dice.one_in(4),
            labels: Labels::from([("team".to_owned(), format!("team-{attempts}"))]),
            search: vec!["ticket".to_owned()],
            limits: limits(dice, &route),
            alerts: alerts(dice),
            route,
            ..Definition::of(Task::Shell("true".to_owned()))
        }
    }

    fn schedule(&self, dice: &mut Dice, now: Timestamp) -> Schedule {
        let short = self.weather.period_min;
        let when = match dice.below(11) {
            9 => {
                let on = *dice.pick(&Ends::ALL).unwrap_or(&Ends::Ended);
                When::After(After { job: self.name(dice), on })
            }
            10 => {
                let topic = match dice.below(3) {
                    0 => Topic::Queue(traffic::queue(0).name),
                    _ => Topic::Event(event_name(dice)),
                };
                When::Event(Box::new(OnEvent { topic, when: None, key: None, gather: gather(dice) }))
            }
            0 => When::Cron(Cron::parse("*/5 * * * * *", "UTC").expect("a plain cron")),
            1 => When::Cron(Cron::parse("* * * * *", "Asia/Shanghai").expect("a plain cron")),
            2 => When::At(now + Duration::from_millis(dice.below(60_000))),
            3 => When::AfterFinish(Duration::from_millis(500 + dice.below(10_000))),
            4 => When::Every(Duration::from_millis(short / 3 + dice.below(short))),
            5 => When::Every(Duration::from_millis(60_000 + dice.below(60_000))),
            _ => When::Every(Duration::from_millis(short + dice.below(30_000))),
        };
        let mut schedule = Schedule::new(when);
        let has_days = matches!(schedule.when, When::Cron(_) | When::Every(_));
        if self.weather.edits && has_days && dice.one_in(4) {
            schedule.calendar = ScheduleCalendar::of(Arc::clone(&self.calendar), "UTC").ok();
        }
        if dice.one_in(4) && schedule.topic().is_none() {
            schedule.jitter = Duration::from_millis(dice.below(3_000));
        }
        if dice.one_in(5) {
            schedule.max_runs = Some(u32::try_from(1 + dice.below(20)).unwrap_or(1));
        }
        if dice.one_in(6) {
            schedule.end = Some(now + Duration::from_millis(dice.below(300_000)));
        }
        schedule
    }
}

fn gather(dice: &mut Dice) -> Option<Gather> {
    let span = Duration::from_millis(1 + dice.below(4_000));
    match dice.below(3) {
        0 => None,
        1 => Some(Gather::Debounce(span)),
        _ => Some(Gather::Batch { max: u32::try_from(1 + dice.below(4)).unwrap_or(1), within: span }),
    }
}

pub(crate) fn event_name(dice: &mut Dice) -> Name {
    format!("event-{}", dice.below(3)).parse().expect("the name of an event is a name")
}

fn route(dice: &mut Dice) -> Route {
    if dice.one_in(8) {
        let shards = u32::try_from(1 + dice.below(4)).ok();
        return Route { shards, ..Route::default() };
    }
    Route { strategy: *dice.pick(&Strategy::ALL).unwrap_or(&Strategy::Local), ..Route::default() }
}

fn due(dice: &mut Dice, now: Timestamp) -> Option<Timestamp> {
    match dice.below(4) {
        0 => Some(now + Duration::from_millis(dice.below(120_000))),
        1 => Some(now + Duration::from_millis(dice.below(500))),
        _ => None,
    }
}

fn key(dice: &mut Dice) -> Option<Key> {
    dice.one_in(3).then(|| Key { text: Arc::from(format!("key-{}", dice.below(4))), kept: kept(dice) })
}

fn kept(dice: &mut Dice) -> Duration {
    KEPT_MIN + Duration::from_secs(if dice.one_in(3) { dice.below(3_000) } else { dice.below(40) })
}

/// Every other job has alerts.
fn alerts(dice: &mut Dice) -> Vec<Alert> {
    let span = Duration::from_millis(1_000 + dice.below(20_000));
    let others = [
        Condition::FailedOften { of: 2, within: span },
        Condition::Late { by: span },
        Condition::Long { by: span },
        Condition::DeadLetter,
        Condition::Missing { within: span },
    ];
    let mut conditions = vec![Condition::Failed { after: 1 }];
    conditions.extend(others.into_iter().filter(|_| dice.one_in(3)));
    let alert = |on| {
        let channel = "ops".parse().expect("the name of a channel is a name");
        Alert { on, to: vec![channel], repeat: Duration::from_secs(60) }
    };
    if dice.one_in(2) { conditions.into_iter().map(alert).collect() } else { Vec::new() }
}

/// Limits of the runs of a job. Few runs wait for a rate, and no child runs, which are never skipped: they would
/// gather for as long as the storm lasts.
fn limits(dice: &mut Dice, route: &Route) -> Vec<Limit> {
    let mut limits = Vec::new();
    let per = |dice: &mut Dice| dice.one_in(2).then(|| "{{ params.ticket % 3 }}".to_owned());
    if dice.one_in(4) {
        let max = u32::try_from(1 + dice.below(3)).unwrap_or(1);
        limits.push(Limit { per: per(dice), ..Limit::of_running(max) });
    }
    if dice.one_in(4) && !route.splits() {
        let count = u32::try_from(1 + dice.below(4)).unwrap_or(1);
        let span = Duration::from_millis(500 + dice.below(4_000));
        let rate = Some(Rate { count, span, burst: u32::try_from(1 + dice.below(2)).unwrap_or(1) });
        let beyond = if dice.one_in(2) { Beyond::Oldest } else { Beyond::Skip };
        let waiting = Some(Waiting { max: u32::try_from(dice.below(4)).unwrap_or(0), beyond });
        limits.push(Limit { rate, waiting, per: per(dice), ..Limit::default() });
    }
    limits
}
