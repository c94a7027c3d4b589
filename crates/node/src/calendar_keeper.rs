//! Stores calendar edits and re-plans the jobs that use the calendar.
//!
//! A job carries a copy of its calendars, so a shard decides without a lookup, and a fire never sees half an edit. The
//! keeper stores an edit, then walks the jobs that name the calendar, page by page, and asks each job's shard to
//! re-plan it. After the walk the calendar is marked as settled. A node that starts continues the walks of unsettled
//! calendars.
//!
//! Saving a job holds a read lock (the gate) from the moment its calendar is read until its commit is known; an edit
//! takes the write lock. So the walk after an edit sees every job that was saved with the older version.
//!
//! In a cluster every node has a keeper. It walks the jobs for its own edits, whichever node leads them; the leader of
//! the first shard also finishes the walks of other nodes. Two walks of one calendar do no harm: a job never goes back
//! to an older version, and the store decides which version is the newest. The gate is local to a node. Therefore a job
//! is checked once more after its commit, see `calendars::saved`. When leaders change, a node may have died before that
//! check, so recently edited calendars are walked again.
//!
//! Newer time zone data is handled likewise: every stored due time names the data it was computed with, and the keeper
//! of the first shard's leader re-plans those with older data, page by page.
//!
//! endpoint ──edit──▶ keeper ──replan──▶ shards
//!                      └──▶ store

use std::sync::Arc;
use std::time::Duration;

use punctual_core::command::{Answer, Command, Expect, Made, PutJob, Refusal};
use punctual_core::ids::ShardId;
use punctual_core::job::{Definition, Invalid, Job};
use punctual_core::limits::PAGE_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::ZONE_DATA;
use punctual_core::schedule::calendar::{Calendar, Record};
use punctual_core::time::Clock;
use punctual_store::{CalendarFilter, JobFilter, PutCalendar, Swap};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tracing::warn;

use crate::calendars::{Edit, EditCalendar, SaveGuard};
use crate::failure::{Failure, stopped};
use crate::handle::Handle;
use crate::leaders::{self, Leaders};

/// Jobs re-planned at once: enough to share commits, few enough not to delay the next edit.
const PAGE: usize = PAGE_MAX / 2;
/// The pause before a failed walk continues.
const REST: Duration = Duration::from_secs(1);
/// How often the keeper in a cluster looks for unfinished walks of other nodes.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The shard whose leader does that.
const FIRST: ShardId = ShardId(0);
/// Edits older than this need not be walked again: every save that was in progress when a node died is more recent.
const LATELY: Duration = Duration::from_secs(600);
/// Calendars read at once. They can be large.
const CALENDARS: usize = 16;

impl Handle {
    /// Puts a calendar. The answer comes when every job is re-planned, or after ten seconds with `settled` still false.
    pub async fn put_calendar(&self, edit: EditCalendar) -> Result<(Arc<Record>, Made), Failure> {
        self.calendars.put(edit).await
    }

    /// Removes a calendar that no job uses.
    pub async fn delete_calendar(
        &self,
        namespace: Namespace,
        name: Name,
        expect: Expect,
    ) -> Result<(), Failure> {
        self.calendars.delete(namespace, name, expect).await
    }

    /// Adds the current calendars to a command that puts a job, and returns the lock that keeps them unchanged until
    /// its commit.
    pub(crate) async fn look_up_calendars(
        &self,
        command: &mut Command,
    ) -> Result<Option<SaveGuard>, Failure> {
        let Command::PutJob(PutJob { namespace, name, definition, .. }) = command else { return Ok(None) };
        if definition.calendars().next().is_none() {
            return Ok(None);
        }
        let guard = self.calendars.begin_save((namespace.clone(), name.clone())).await;
        *definition = self.with_calendars(namespace, Arc::clone(definition)).await?;
        Ok(Some(guard))
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

/// Stores calendar edits and re-plans the jobs.
#[derive(Debug)]
pub(crate) struct Keeper {
    handle: Handle,
    clock: Arc<dyn Clock>,
    edits: mpsc::Receiver<Edit>,
    settled: watch::Sender<u32>,
    stop: watch::Receiver<bool>,
    leaders: watch::Receiver<Leaders>,
    /// The newest version that this node has stored.
    newest: u32,
    /// An edit of this node has not reached all jobs yet.
    owes: bool,
    recent: RecentWalk,
    /// The calendar whose jobs are being walked.
    walk: Option<Walk>,
}

/// The walk over recently edited calendars.
#[derive(Debug)]
enum RecentWalk {
    NotNeeded,
    FromTheFirst,
    After((Namespace, Name)),
}

#[derive(Debug)]
struct Walk {
    record: Arc<Record>,
    /// The last job that was re-planned. `None` means the walk begins.
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
        let (newest, owes, recent, walk) = (0, false, RecentWalk::NotNeeded, None);
        Keeper { handle, clock, edits, settled, stop, leaders, newest, owes, recent, walk }
    }

    /// Handles edits first, then one page of jobs at a time, until every job is re-planned; then waits for the next
    /// edit.
    pub(crate) async fn run(mut self) {
        // After a start: finish the walks of earlier processes.
        let mut step = self.follow().await;
        loop {
            match self.next(step).await {
                Next::Edit(edit) => self.carry_out(edit).await,
                Next::Page => {}
                Next::Stop => return,
            }
            step = self.follow().await;
        }
    }

    async fn next(&mut self, step: Result<Step, Failure>) -> Next {
        let rest = match step {
            Ok(Step::More) if *self.stop.borrow() => return Next::Stop,
            Ok(Step::More) => return self.edits.try_recv().map_or(Next::Page, Next::Edit),
            Ok(Step::Done) => (self.is_in_cluster() && self.finishes_for_others()).then_some(LOOK_EVERY),
            Err(failure) => {
                warn!(%failure, "jobs could not be re-planned for a calendar or newer time zone data; retrying");
                Some(REST)
            }
        };
        tokio::select! {
            edit = self.edits.recv() => edit.map_or(Next::Page, Next::Edit),
            // A dropped sender means stop, too.
            changed = self.stop.changed() => {
                if changed.is_ok() && !*self.stop.borrow() { Next::Page } else { Next::Stop }
            }
            () = tokio::time::sleep(rest.unwrap_or_default()), if rest.is_some() => Next::Page,
            () = self.handle.calendars.job_saved() => Next::Page,
            () = leaders::changed(&mut self.leaders) => {
                self.recent =
                    if self.finishes_for_others() { RecentWalk::FromTheFirst } else { RecentWalk::NotNeeded };
                Next::Page
            }
        }
    }

    fn is_in_cluster(&self) -> bool {
        self.handle.calendars.is_in_cluster()
    }

    fn finishes_for_others(&self) -> bool {
        self.handle.leaders.borrow().is_here(FIRST)
    }

    async fn carry_out(&mut self, edit: Edit) {
        // The caller may have gone; the decision stands.
        match edit {
            Edit::Put { edit, reply } => drop(reply.send(self.put(edit).await)),
            Edit::Delete { namespace, name, expect, reply } => {
                drop(reply.send(self.delete(&namespace, &name, expect).await));
            }
        }
    }

    async fn put(&mut self, edit: EditCalendar) -> Result<(Arc<Record>, Made), Failure> {
        let EditCalendar { namespace, name, days, description, expect } = edit;
        let _alone = self.handle.calendars.begin_edit().await;
        let store = &self.handle.store;
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
        // Compare and set with the version just read: another node may have edited it in between.
        let expect = actual.map_or(Expect::Absent, Expect::Revision);
        let at = self.clock.now();
        let put =
            PutCalendar { namespace: namespace.clone(), name: name.clone(), days, description, at, expect };
        match store.put_calendar(put).await? {
            Swap::Done(record) => {
                self.newest = self.newest.max(record.calendar.version);
                self.owes = true;
                // A walk for the older version is no longer needed.
                self.walk
                    .take_if(|walk| walk.record.namespace == namespace && walk.record.calendar.name == name);
                Ok((record, if actual.is_some() { Made::Changed } else { Made::Created }))
            }
            Swap::Refused { actual } => Err(refused(expect, actual, &namespace, &name)),
        }
    }

    async fn delete(&mut self, namespace: &Namespace, name: &Name, expect: Expect) -> Result<(), Failure> {
        let _alone = self.handle.calendars.begin_edit().await;
        let store = &self.handle.store;
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

    /// Re-plans the next page of jobs.
    async fn follow(&mut self) -> Result<Step, Failure> {
        self.look_again().await?;
        if self.follow_zone_data().await? {
            return Ok(Step::More);
        }
        let store = Arc::clone(&self.handle.store);
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

    /// Re-plans a page of the jobs whose due times were computed with older time zone data. False means there are none,
    /// or the nodes that lead them have older data too: then it is retried later.
    async fn follow_zone_data(&self) -> Result<bool, Failure> {
        if !self.finishes_for_others() {
            return Ok(false);
        }
        let jobs = self.handle.store.outdated_jobs(ZONE_DATA, PAGE).await?;
        let answers = self.replan_all(jobs.iter().map(|job| (job, None))).await?;
        let is_current = |answer: &Answer| matches!(answer, Answer::Job { job, .. } if !job.is_outdated());
        Ok(answers.iter().any(is_current))
    }

    /// The next calendar whose jobs are to be walked: an unsettled one, else a recently edited one.
    async fn next_record(&mut self) -> Result<Option<Arc<Record>>, Failure> {
        let store = &self.handle.store;
        if self.owes || self.finishes_for_others() {
            let unsettled = CalendarFilter { namespace: None, unsettled: true };
            if let Some(record) = store.calendars(&unsettled, None, 1).await?.pop() {
                return Ok(Some(record));
            }
        }
        let since = self.clock.now().before(LATELY);
        loop {
            let after = match &self.recent {
                RecentWalk::NotNeeded => return Ok(None),
                RecentWalk::FromTheFirst => None,
                RecentWalk::After(last) => Some(last.clone()),
            };
            let page = store.calendars(&CalendarFilter::default(), after, CALENDARS).await?;
            let found = page.iter().find(|record| record.updated_at >= since);
            let last = found.or(page.last().filter(|_| page.len() == CALENDARS));
            self.recent = last.map_or(RecentWalk::NotNeeded, |record| {
                RecentWalk::After((record.namespace.clone(), record.calendar.name.clone()))
            });
            if found.is_some() {
                return Ok(found.cloned());
            }
        }
    }

    /// Checks the jobs saved on this node since the last call: another node may have edited their calendars.
    async fn look_again(&mut self) -> Result<(), Failure> {
        let noted = self.handle.calendars.take_saved();
        if noted.more {
            self.recent = RecentWalk::FromTheFirst;
        }
        let mut jobs = noted.jobs.into_iter();
        while let Some(job) = jobs.next() {
            if let Err(failure) = self.catch_up(&job).await {
                self.handle.calendars.keep_saved(jobs.chain([job]));
                return Err(failure);
            }
        }
        Ok(())
    }

    async fn catch_up(&self, (namespace, name): &(Namespace, Name)) -> Result<(), Failure> {
        let store = &self.handle.store;
        let Some(job) = store.job(namespace, name).await? else { return Ok(()) };
        for keeping in job.definition.calendars() {
            // If the calendar was deleted meanwhile, the job keeps the days it was saved with.
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

    /// Re-plans a page at once, so that the jobs share commits.
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
                // The job was deleted meanwhile.
                Err(Failure::Refused(Refusal::NoSuchJob { .. })) => {}
                Err(failure) => return Err(failure),
            }
        }
        Ok(answers)
    }
}

/// What the keeper does next.
enum Next {
    Edit(Edit),
    /// Walk the next page of jobs.
    Page,
    Stop,
}

enum Step {
    /// There may be more to do.
    More,
    /// Every job uses the newest calendars.
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
        (Expect::Revision(expected), Some(actual)) => {
            Refusal::WrongVersion { name: name.clone(), expected, actual }
        }
        (_, Some(_)) => Refusal::CalendarExists(name.clone()),
    };
    refusal.into()
}

#[cfg(test)]
mod tests;
