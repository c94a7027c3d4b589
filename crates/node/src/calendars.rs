//! Keeps the calendars: stores an edit, and sees to it that every job follows.
//!
//! A job carries the calendars it keeps to, so a shard decides without looking anything up and a fire never meets half
//! an edit. What is left is to bring an edit to the jobs: the keeper stores it, then walks the jobs that name the
//! calendar, page by page, and asks each one's shard to re-plan it. The calendar is marked as settled when the walk is
//! through; a node that starts walks on where a mark is missing.
//!
//! A job that is being saved holds the gate open from the moment its calendar is read until its commit is known, and an
//! edit waits for the gate: so the walk that follows an edit sees every job that was saved with the older version.
//!
//! In a cluster every node has a keeper. It brings its own edits to the jobs, wherever those are led; the one that leads
//! the first shard also finishes what others left undone. Two that walk the same calendar do no harm: a job never goes
//! back to an older version, and the store decides which version is the newest. A gate holds only on its own node, so
//! there a job is looked at once more after its commit, see `saved`; and when leaders have changed, which may be because
//! one died before it looked, the calendars that were edited lately are walked again.
//!
//! Newer time zone data is brought to the jobs likewise: every stored due time says which data it was calculated with,
//! and the keeper of the first shard's leader has those re-planned, page by page, that are older than its own.
//!
//! door ──edit──▶ keeper ──replan──▶ shards
//!                  └──▶ store

mod saved;

use std::sync::Arc;
use std::time::Duration;

use punctual_core::command::{Answer, Command, Expect, Made, PutJob, Refusal};
use punctual_core::ids::ShardId;
use punctual_core::job::{Definition, Invalid, Job};
use punctual_core::limits::PAGE_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::ZONE_DATA;
use punctual_core::schedule::calendar::{Calendar, Days, Record};
use punctual_core::time::Clock;
use punctual_store::{CalendarFilter, JobFilter, PutCalendar, Swap};
use tokio::sync::{RwLock, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tracing::warn;

use saved::Saved;

use crate::handle::{Failure, Handle, stopped};
use crate::leaders::{self, Leaders};

pub(crate) use saved::Held;

/// Edits that wait their turn; people make them, so there are few.
const EDITS_MAX: usize = 64;
/// Jobs that are re-planned in one go: enough to share their commits, few enough for the next edit not to wait.
const PAGE: usize = PAGE_MAX / 2;
/// How long whoever edits a calendar waits for the jobs to follow. A million of them take longer; then the answer says so.
const FOLLOW_WAIT: Duration = Duration::from_secs(10);
/// The pause before a walk that failed goes on.
const REST: Duration = Duration::from_secs(1);
/// How often the keeper of a cluster looks for what others left undone.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The shard whose leader does so.
const FIRST: ShardId = ShardId(0);
/// An edit that is older than this is older than every job that was being saved when a node died.
const LATELY: Duration = Duration::from_secs(600);
/// Calendars looked at in one go. They can be large.
const CALENDARS: usize = 16;

/// An edit of a calendar, as a door asks for it.
#[derive(Debug, Clone)]
pub struct EditCalendar {
    pub namespace: Namespace,
    pub name: Name,
    pub days: Days,
    pub description: String,
    pub expect: Expect,
}

/// The part of a [`Handle`] that talks to the keeper.
#[derive(Debug, Clone)]
pub(crate) struct Calendars {
    edits: mpsc::Sender<Edit>,
    gate: Arc<RwLock<()>>,
    /// None: there are no other nodes.
    saved: Option<Arc<Saved>>,
    /// Every job follows every calendar up to this version.
    settled: watch::Receiver<u32>,
}

#[derive(Debug)]
pub(crate) enum Edit {
    Put { edit: EditCalendar, reply: oneshot::Sender<Result<(Arc<Record>, Made), Failure>> },
    Delete { namespace: Namespace, name: Name, expect: Expect, reply: oneshot::Sender<Result<(), Failure>> },
}

impl Calendars {
    pub(crate) fn new(is_alone: bool) -> (Calendars, mpsc::Receiver<Edit>, watch::Sender<u32>) {
        let (edits_in, edits) = mpsc::channel(EDITS_MAX);
        let (settled_in, settled) = watch::channel(0);
        let saved = (!is_alone).then(Arc::default);
        (Calendars { edits: edits_in, gate: Arc::default(), saved, settled }, edits, settled_in)
    }
}

impl Handle {
    /// Puts a calendar; the answer comes when every job follows it, or after ten seconds with `settled` still false.
    pub async fn put_calendar(&self, edit: EditCalendar) -> Result<(Arc<Record>, Made), Failure> {
        let (reply, answer) = oneshot::channel();
        self.calendars.edits.send(Edit::Put { edit, reply }).await.map_err(|_| stopped())?;
        let (record, made) = answer.await.map_err(|_| stopped())??;
        let version = record.calendar.version;
        let mut settled = self.calendars.settled.clone();
        let follows =
            tokio::time::timeout(FOLLOW_WAIT, settled.wait_for(|through| *through >= version)).await;
        let record = match follows {
            Ok(Ok(_)) => Arc::new(Record { settled: true, ..(*record).clone() }),
            _ => record,
        };
        Ok((record, made))
    }

    /// Removes a calendar that no job keeps to.
    pub async fn delete_calendar(
        &self,
        namespace: Namespace,
        name: Name,
        expect: Expect,
    ) -> Result<(), Failure> {
        let (reply, answer) = oneshot::channel();
        let delete = Edit::Delete { namespace, name, expect, reply };
        self.calendars.edits.send(delete).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }

    /// A command with the calendars of its job looked up, and what keeps them as they are until it is carried out.
    pub(crate) async fn look_up(&self, command: Command) -> Result<(Command, Option<Held>), Failure> {
        let Command::PutJob(put) = command else { return Ok((command, None)) };
        if put.definition.calendars().next().is_none() {
            return Ok((Command::PutJob(put), None));
        }
        let gate = Arc::clone(&self.calendars.gate).read_owned().await;
        let (saved, job) = (self.calendars.saved.clone(), (put.namespace.clone(), put.name.clone()));
        let held = Held { _gate: gate, saved, job };
        let definition = self.with_calendars(&put.namespace, put.definition).await?;
        Ok((Command::PutJob(PutJob { definition, ..put }), Some(held)))
    }

    /// A definition with its calendars as they are now; a put does this by itself.
    pub async fn with_calendars(
        &self,
        namespace: &Namespace,
        definition: Arc<Definition>,
    ) -> Result<Arc<Definition>, Failure> {
        let mut known: Vec<Arc<Calendar>> = Vec::new();
        for keeping in definition.calendars() {
            if known.iter().any(|calendar| calendar.name == keeping.name) {
                continue;
            }
            match self.store.calendar(namespace, &keeping.name).await? {
                Some(record) => known.push(Arc::clone(&record.calendar)),
                None => return Err(missing(namespace, &keeping.name)),
            }
        }
        let find = |name: &Name| known.iter().find(|calendar| calendar.name == *name).cloned();
        let looked_up = definition.with_calendars(|keeping| find(&keeping.name));
        Ok(looked_up.map_or(definition, Arc::new))
    }
}

fn missing(namespace: &Namespace, name: &Name) -> Failure {
    let message = format!(
        "no calendar `{name}` in namespace `{namespace}`; put it first, as `punctual calendar apply` does"
    );
    Failure::Refused(Invalid::new("schedule.calendar", message).into())
}

/// The one that edits calendars and brings every edit to the jobs.
#[derive(Debug)]
pub(crate) struct Keeper {
    handle: Handle,
    clock: Arc<dyn Clock>,
    edits: mpsc::Receiver<Edit>,
    settled: watch::Sender<u32>,
    stop: watch::Receiver<bool>,
    leaders: watch::Receiver<Leaders>,
    /// The newest version that was stored here.
    newest: u32,
    /// An edit of this node is still to be brought to the jobs.
    owes: bool,
    /// Which of the calendars that were edited lately are still to be walked again: those after this one.
    again: Option<Option<(Namespace, Name)>>,
    /// The calendar whose jobs are being walked.
    walk: Option<Walk>,
}

#[derive(Debug)]
struct Walk {
    record: Arc<Record>,
    /// The last job that follows; none: the walk begins.
    after: Option<(Namespace, Name)>,
}

impl Keeper {
    pub(crate) fn new(
        handle: Handle,
        clock: Arc<dyn Clock>,
        edits: mpsc::Receiver<Edit>,
        settled: watch::Sender<u32>,
        stop: watch::Receiver<bool>,
    ) -> Keeper {
        let leaders = handle.leaders.clone();
        let (newest, owes, again, walk) = (0, false, None, None);
        Keeper { handle, clock, edits, settled, stop, leaders, newest, owes, again, walk }
    }

    /// Edits first, then a page of jobs, until every job follows; then it waits for the next edit.
    pub(crate) async fn run(mut self) {
        // After a start: whatever an earlier process stored and did not bring to every job.
        let mut step = self.follow().await;
        while let Some(edit) = self.next_edit(step).await {
            if let Some(edit) = edit {
                self.carry_out(edit).await;
            }
            step = self.follow().await;
        }
    }

    /// What to do before the next page: an edit, or nothing. None: the node stops.
    async fn next_edit(&mut self, step: Result<Step, Failure>) -> Option<Option<Edit>> {
        let rest = match step {
            Ok(Step::More) if *self.stop.borrow() => return None,
            Ok(Step::More) => return Some(self.edits.try_recv().ok()),
            Ok(Step::Done) => (self.is_in_cluster() && self.finishes_for_others()).then_some(LOOK_EVERY),
            Err(failure) => {
                warn!(%failure, "jobs could not be re-planned for a calendar or newer time zone data; retrying");
                Some(REST)
            }
        };
        tokio::select! {
            edit = self.edits.recv() => Some(edit),
            // Nobody is left to say it: that is a stop too.
            changed = self.stop.changed() => (changed.is_ok() && !*self.stop.borrow()).then_some(None),
            () = tokio::time::sleep(rest.unwrap_or_default()), if rest.is_some() => Some(None),
            () = news(self.handle.calendars.saved.as_deref()) => Some(None),
            () = leaders::changed(&mut self.leaders) => {
                self.again = self.finishes_for_others().then_some(None);
                Some(None)
            }
        }
    }

    fn is_in_cluster(&self) -> bool {
        self.handle.calendars.saved.is_some()
    }

    fn finishes_for_others(&self) -> bool {
        self.handle.leaders.borrow().is_here(FIRST)
    }

    async fn carry_out(&mut self, edit: Edit) {
        // Whoever asked may have gone: what was decided stands all the same.
        match edit {
            Edit::Put { edit, reply } => drop(reply.send(self.put(edit).await)),
            Edit::Delete { namespace, name, expect, reply } => {
                drop(reply.send(self.delete(&namespace, &name, expect).await));
            }
        }
    }

    async fn put(&mut self, edit: EditCalendar) -> Result<(Arc<Record>, Made), Failure> {
        let EditCalendar { namespace, name, days, description, expect } = edit;
        let _alone = self.handle.calendars.gate.write().await;
        let store = self.handle.store();
        let there = store.calendar(&namespace, &name).await?;
        let actual = there.as_ref().map(|record| record.calendar.version);
        refuse_unless(expect, actual, &namespace, &name)?;
        if let Some(record) = &there
            && (&record.calendar.days, &record.description) == (&days, &description)
        {
            self.newest = self.newest.max(record.calendar.version);
            self.owes = true;
            return Ok((Arc::clone(record), Made::Unchanged));
        }
        // What was looked at is what is swapped: another node may have been here in between.
        let expect = actual.map_or(Expect::Absent, Expect::Revision);
        let at = self.clock.now();
        let put =
            PutCalendar { namespace: namespace.clone(), name: name.clone(), days, description, at, expect };
        match store.put_calendar(put).await? {
            Swap::Done(record) => {
                self.newest = self.newest.max(record.calendar.version);
                self.owes = true;
                // An older version of it need not be brought to anyone any more.
                self.walk
                    .take_if(|walk| walk.record.namespace == namespace && walk.record.calendar.name == name);
                Ok((record, if actual.is_some() { Made::Changed } else { Made::Created }))
            }
            Swap::Refused { actual } => Err(refused(expect, actual, &namespace, &name)),
        }
    }

    async fn delete(&mut self, namespace: &Namespace, name: &Name, expect: Expect) -> Result<(), Failure> {
        let _alone = self.handle.calendars.gate.write().await;
        let store = self.handle.store();
        let actual = store.calendar(namespace, name).await?.map(|record| record.calendar.version);
        if actual.is_none() {
            return Err(refused(expect, None, namespace, name));
        }
        refuse_unless(expect, actual, namespace, name)?;
        if let Some(job) = store.jobs(&of_calendar(namespace, name), None, 1).await?.first() {
            let (calendar, job) = (name.clone(), job.name.clone());
            return Err(Refusal::CalendarInUse { calendar, job }.into());
        }
        let expect = actual.map_or(Expect::Anything, Expect::Revision);
        match store.delete_calendar(namespace, name, expect).await? {
            Swap::Done(_) => Ok(()),
            Swap::Refused { actual } => Err(refused(expect, actual, namespace, name)),
        }
    }

    /// Brings the next page of jobs to follow their calendar.
    async fn follow(&mut self) -> Result<Step, Failure> {
        self.look_again().await?;
        if self.follow_zone_data().await? {
            return Ok(Step::More);
        }
        let store = Arc::clone(self.handle.store());
        let walk = match self.walk.take() {
            Some(walk) => Some(walk),
            None => self.next_record().await?.map(|record| Walk { record, after: None }),
        };
        let Some(Walk { record, after }) = walk else {
            self.owes = false;
            self.settled.send_replace(self.newest);
            return Ok(Step::Done);
        };
        let (namespace, calendar) = (&record.namespace, &record.calendar);
        let jobs = store.jobs(&of_calendar(namespace, &calendar.name), after.clone(), PAGE).await?;
        if let Err(failure) = self.replan(&jobs, calendar).await {
            self.walk = Some(Walk { record, after });
            return Err(failure);
        }
        match jobs.last() {
            Some(last) if jobs.len() == PAGE => {
                let after = Some((last.namespace.clone(), last.name.clone()));
                self.walk = Some(Walk { record, after });
            }
            _ => store.settle_calendar(namespace, &calendar.name, calendar.version).await?,
        }
        Ok(Step::More)
    }

    /// Re-plans a page of the jobs whose due times were calculated with older time zone data. False means that there are
    /// none, or that those who lead them have older data too: then it is tried again later.
    async fn follow_zone_data(&self) -> Result<bool, Failure> {
        if !self.finishes_for_others() {
            return Ok(false);
        }
        let jobs = self.handle.store().outdated_jobs(ZONE_DATA, PAGE).await?;
        let answers = self.replan_all(jobs.iter().map(|job| (job, None))).await?;
        let is_current = |answer: &Answer| matches!(answer, Answer::Job { job, .. } if !job.is_outdated());
        Ok(answers.iter().any(is_current))
    }

    /// The next calendar whose jobs are to be walked: one that is not settled, else one that was edited lately.
    async fn next_record(&mut self) -> Result<Option<Arc<Record>>, Failure> {
        let store = self.handle.store();
        if self.owes || self.finishes_for_others() {
            let unsettled = CalendarFilter { namespace: None, unsettled: true };
            if let Some(record) = store.calendars(&unsettled, None, 1).await?.pop() {
                return Ok(Some(record));
            }
        }
        let since = self.clock.now().before(LATELY);
        while let Some(after) = &self.again {
            let page = store.calendars(&CalendarFilter::default(), after.clone(), CALENDARS).await?;
            let found = page.iter().find(|record| record.updated_at >= since);
            let last = found.or(page.last().filter(|_| page.len() == CALENDARS));
            self.again = last.map(|record| Some((record.namespace.clone(), record.calendar.name.clone())));
            if found.is_some() {
                return Ok(found.cloned());
            }
        }
        Ok(None)
    }

    /// Looks at the jobs that were saved here since the last time: their calendars may have moved on elsewhere.
    async fn look_again(&mut self) -> Result<(), Failure> {
        let Some(saved) = self.handle.calendars.saved.clone() else { return Ok(()) };
        let noted = saved.take();
        if noted.more {
            self.again = Some(None);
        }
        let mut jobs = noted.jobs.into_iter();
        while let Some(job) = jobs.next() {
            if let Err(failure) = self.catch_up(&job).await {
                saved.keep(jobs.chain([job]));
                return Err(failure);
            }
        }
        Ok(())
    }

    async fn catch_up(&self, (namespace, name): &(Namespace, Name)) -> Result<(), Failure> {
        let store = self.handle.store();
        let Some(job) = store.job(namespace, name).await? else { return Ok(()) };
        for keeping in job.definition.calendars() {
            // One that was deleted meanwhile leaves the job the days that it was saved with.
            if let Some(record) = store.calendar(namespace, &keeping.name).await? {
                self.replan(std::slice::from_ref(&job), &record.calendar).await?;
            }
        }
        Ok(())
    }

    async fn replan(&self, jobs: &[Arc<Job>], calendar: &Arc<Calendar>) -> Result<(), Failure> {
        let behind = jobs.iter().filter(|job| is_behind(job, calendar));
        self.replan_all(behind.map(|job| (job, Some(Arc::clone(calendar))))).await.map(drop)
    }

    /// All of a page at once, so that they share their commits.
    async fn replan_all(
        &self,
        jobs: impl Iterator<Item = (&Arc<Job>, Option<Arc<Calendar>>)>,
    ) -> Result<Vec<Answer>, Failure> {
        let mut asks = JoinSet::new();
        for (job, calendar) in jobs {
            let (namespace, name) = (job.namespace.clone(), job.name.clone());
            let replan = Command::ReplanJob { namespace, name, calendar };
            let handle = self.handle.clone();
            asks.spawn(async move { handle.command(replan).await });
        }
        let mut answers = Vec::new();
        while let Some(answer) = asks.join_next().await {
            match answer.unwrap_or_else(|_| Err(stopped())) {
                Ok(answer) => answers.push(answer),
                // It was deleted meanwhile.
                Err(Failure::Refused(Refusal::NoSuchJob { .. })) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(answers)
    }
}

/// Alone, there never is any.
async fn news(saved: Option<&Saved>) {
    match saved {
        Some(saved) => saved.news().await,
        None => std::future::pending().await,
    }
}

enum Step {
    /// There may be more to do.
    More,
    /// Every job follows every calendar.
    Done,
}

fn is_behind(job: &Job, calendar: &Calendar) -> bool {
    let mut theirs = job.definition.calendars().filter(|keeping| keeping.name == calendar.name);
    theirs.any(|keeping| keeping.version().is_none_or(|version| version < calendar.version))
}

fn of_calendar(namespace: &Namespace, name: &Name) -> JobFilter {
    JobFilter { namespace: Some(namespace.clone()), calendar: Some(name.clone()) }
}

fn refuse_unless(
    expect: Expect,
    actual: Option<u32>,
    namespace: &Namespace,
    name: &Name,
) -> Result<(), Failure> {
    match (expect, actual) {
        (Expect::Anything, _) | (Expect::Absent, None) => Ok(()),
        (Expect::Revision(expected), Some(actual)) if expected == actual => Ok(()),
        _ => Err(refused(expect, actual, namespace, name)),
    }
}

fn refused(expect: Expect, actual: Option<u32>, namespace: &Namespace, name: &Name) -> Failure {
    let refusal = match (expect, actual) {
        (_, None) => Refusal::NoSuchCalendar { namespace: namespace.clone(), name: name.clone() },
        (Expect::Revision(expected), Some(actual)) => Refusal::WrongVersion { expected, actual },
        (_, Some(_)) => Refusal::CalendarExists(name.clone()),
    };
    refusal.into()
}

#[cfg(test)]
mod tests;
