//! Takes commands: each is carried out whole or refused whole, and answered after its commit.
//!
//! An edit, a pause or a delete first fires what the job owes up to now: the old definition decides every due time up
//! to the edit and the new one every due time after it, never both and never neither.
//!
//! door ──command──▶ intake ──job──▶ plan
//!                        └──run───▶ overlap

use std::sync::Arc;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::change::{Revision, RunRecord, SkipReason, UniqueKey};
use punctual_core::command::{Answer, Command, Expect, Key, Made, PutJob, Refusal, RetryRun, RunJob, Submit};
use punctual_core::ids::{JobId, RunId, Token};
use punctual_core::job::{Cursor, Definition, Invalid, Job};
use punctual_core::limits::LIVE_RUNS_MAX;
use punctual_core::name::{Name, Namespace};
use punctual_core::run::{Cause, Origin, Run, State, Status, Trigger, Wait};
use punctual_core::schedule::calendar::Calendar;
use punctual_core::schedule::{Keeping, When};
use punctual_core::task::Params;

use crate::Shard;
use crate::event::{Context, Ticket};
use crate::memory::LiveRun;
use crate::shard::Stored;

type Reply = Result<Answer, Refusal>;

/// A key as it was given, and the row that remembers it.
struct Claim {
    given: Arc<str>,
    row: Key,
}

/// What is special about a run that a command makes.
#[derive(Default)]
struct Launch {
    params: Option<Params>,
    key: Option<Claim>,
    retry_of: Option<RunId>,
    /// It waits its turn, whatever its job's overlap policy says of others.
    patient: bool,
}

impl Claim {
    fn new(given: Key, under: impl FnOnce(&str) -> Arc<str>) -> Claim {
        Claim { row: Key { text: under(&given.text), kept: given.kept }, given: given.text }
    }
}

/// Keys of different kinds of asks do not meet: each is kept under what it was given for.
pub(crate) fn job_run_key(namespace: &Namespace, name: &Name, key: &str) -> Arc<str> {
    Arc::from(format!("job/{namespace}/{name}/{key}"))
}

pub(crate) fn retry_key(namespace: &Namespace, run: RunId, key: &str) -> Arc<str> {
    Arc::from(format!("retry/{namespace}/{run}/{key}"))
}

pub(crate) fn submit_key(namespace: &Namespace, key: &str) -> Arc<str> {
    Arc::from(format!("submit/{namespace}/{key}"))
}

/// The key of a submit: its own, else the one its definition asks for.
pub(crate) fn given_key(submit: &Submit) -> Result<Option<Key>, Invalid> {
    match &submit.key {
        Some(key) => Ok(Some(key.clone())),
        None => unique_of(&submit.definition, None),
    }
}

/// The key that a definition asks for, of a run with its own parameters or the definition's.
pub(crate) fn unique_of(definition: &Definition, own: Option<&Params>) -> Result<Option<Key>, Invalid> {
    let Some(unique) = &definition.unique else { return Ok(None) };
    let text = unique.key_for(own.unwrap_or(&definition.params))?;
    Ok(Some(Key { text, kept: unique.kept }))
}

impl Shard {
    /// Carries a command out. All are answered at once, but for those of queues: a take may be answered later.
    pub(crate) fn intake(&mut self, ticket: Ticket, command: Command, cx: &mut Context<'_>) {
        let reply = match command {
            Command::PutJob(put) => self.put_job(put, cx),
            Command::ReplanJob { namespace, name, calendar } => {
                self.replan_job(&namespace, &name, &calendar, cx)
            }
            Command::DeleteJob { namespace, name, expect } => self.delete_job(&namespace, &name, expect, cx),
            Command::PauseJob { namespace, name } => self.pause_job(&namespace, &name, cx),
            Command::ResumeJob { namespace, name } => self.resume_job(&namespace, &name, cx),
            Command::RunJob(run) => self.run_job(run, cx),
            Command::Submit(submit) => self.submit(submit, cx),
            Command::CancelRun { namespace, run } => self.cancel_run(&namespace, run, cx),
            Command::RetryRun(retry) => self.retry_run(retry, cx),
            Command::DiscardDeadLetter { namespace, run } => self.discard(&namespace, run),
            Command::Progress { namespace, run, token, percent } => {
                self.progress(&namespace, run, (token, percent), cx)
            }
            Command::Tell { sender, news } => {
                self.hear(sender, &news, cx);
                Ok(Answer::Noted)
            }
            Command::Queue(ask) => return self.queue(ticket, ask, cx),
        };
        cx.answer(ticket, reply);
    }

    fn put_job(&mut self, put: PutJob, cx: &mut Context<'_>) -> Reply {
        put.definition.check()?;
        if put.definition.calendars().any(|keeping| keeping.calendar.is_none()) {
            // Whoever hands us a command looks calendars up; a job without its days would never fire.
            return Err(Invalid::new("schedule.calendar", "the calendar was not looked up").into());
        }
        match self.find_job(&put.namespace, &put.name) {
            None => self.create_job(put, cx),
            Some(id) => self.change_job(id, put, cx),
        }
    }

    fn create_job(&mut self, put: PutJob, cx: &mut Context<'_>) -> Reply {
        if let Expect::Revision(_) = put.expect {
            return Err(Refusal::NoSuchJob { namespace: put.namespace, name: put.name });
        }
        let id = JobId(self.ids.next(cx.now));
        let mut job = Job {
            id,
            namespace: put.namespace,
            name: put.name,
            revision: 1,
            definition: put.definition,
            paused: false,
            created_at: cx.now,
            updated_at: cx.now,
            // One millisecond ago, so that a job may fire in the instant of its creation.
            cursor: Cursor { fired_through: cx.now.before(Duration::from_millis(1)), ..Cursor::default() },
        };
        plan_from(&mut job, false, cx.now);
        self.revise(&job);
        let job = Arc::new(job);
        self.remember_job(Arc::clone(&job), false);
        self.dirty.jobs.insert(id);
        Ok(Answer::Job { job, made: Made::Created })
    }

    fn change_job(&mut self, id: JobId, put: PutJob, cx: &mut Context<'_>) -> Reply {
        self.expect(id, &put.expect)?;
        if self.jobs.get(&id).is_some_and(|live| live.job.definition == put.definition) {
            return self.job_answer(id, Made::Unchanged);
        }
        self.revise_job(id, put.definition, cx)
    }

    /// A calendar has changed. It goes the way of an edit: what the job owes up to now the old days decide, and all that
    /// comes later the new ones.
    fn replan_job(
        &mut self,
        namespace: &Namespace,
        name: &Name,
        calendar: &Arc<Calendar>,
        cx: &mut Context<'_>,
    ) -> Reply {
        let id = self.known_job(namespace, name)?;
        let newer = |keeping: &Keeping| {
            // One that is newer still came with an edit of the job.
            let is_behind = keeping.version().is_none_or(|version| version < calendar.version);
            (keeping.name == calendar.name && is_behind).then(|| Arc::clone(calendar))
        };
        let definition = self.jobs.get(&id).and_then(|live| live.job.definition.with_calendars(newer));
        match definition {
            Some(definition) => self.revise_job(id, Arc::new(definition), cx),
            None => self.job_answer(id, Made::Unchanged),
        }
    }

    /// The old definition decides every due time up to now, the new one every later one.
    fn revise_job(&mut self, id: JobId, definition: Arc<Definition>, cx: &mut Context<'_>) -> Reply {
        self.fire_owed(id, cx);
        self.skip_paused(id, cx.now);
        let has_fires = self.has_fires(id);
        let mut forgotten = false;
        self.edit_job(id, |job| {
            let same_schedule = job.definition.schedules == definition.schedules;
            // Other days of the same schedule: it goes on counting, and what hangs on a run still does.
            let only_days = !same_schedule && job.definition.has_schedules_of(&definition);
            let hanging = if only_days { job.hanging_due() } else { None };
            job.revision += 1;
            job.definition = definition;
            job.updated_at = cx.now;
            if !same_schedule && !only_days {
                job.cursor.fires.clear();
            }
            if job.paused || same_schedule {
                return;
            }
            if only_days {
                replan(job, hanging, cx.now);
                forgotten = hanging.is_none() && !has_fires;
            } else {
                plan_from(job, has_fires, cx.now);
            }
        });
        if forgotten {
            // An earlier due time had stood before that of `after_finish`, and may be gone.
            self.plan_after_finish(id, cx);
        }
        if let Some(job) = self.jobs.get(&id).map(|live| Arc::clone(&live.job)) {
            self.revise(&job);
        }
        self.release(id, cx);
        self.job_answer(id, Made::Changed)
    }

    fn revise(&mut self, job: &Job) {
        self.dirty.revisions.push(Arc::new(Revision {
            job: job.id,
            revision: job.revision,
            definition: Arc::clone(&job.definition),
            at: job.updated_at,
        }));
    }

    fn expect(&self, id: JobId, expect: &Expect) -> Result<(), Refusal> {
        let Some(live) = self.jobs.get(&id) else { return Ok(()) };
        match expect {
            Expect::Anything => Ok(()),
            Expect::Absent => Err(Refusal::JobExists(live.job.name.clone())),
            Expect::Revision(expected) if *expected == live.job.revision => Ok(()),
            Expect::Revision(expected) => {
                Err(Refusal::WrongRevision { expected: *expected, actual: live.job.revision })
            }
        }
    }

    fn job_answer(&self, id: JobId, made: Made) -> Reply {
        let live = self.jobs.get(&id);
        let job = live.map(|live| Arc::clone(&live.job)).expect("the job at hand is in memory");
        Ok(Answer::Job { job, made })
    }

    fn known_job(&mut self, namespace: &Namespace, name: &Name) -> Result<JobId, Refusal> {
        self.find_job(namespace, name)
            .ok_or_else(|| Refusal::NoSuchJob { namespace: namespace.clone(), name: name.clone() })
    }

    /// What the job has waiting ends with it; what runs is told to stop and ends by itself.
    fn delete_job(
        &mut self,
        namespace: &Namespace,
        name: &Name,
        expect: Expect,
        cx: &mut Context<'_>,
    ) -> Reply {
        let id = self.known_job(namespace, name)?;
        if expect != Expect::Anything {
            self.expect(id, &expect)?;
        }
        self.fire_owed(id, cx);
        self.skip_paused(id, cx.now);
        let mut theirs: Vec<RunId> =
            self.runs.values().filter(|live| live.run.job() == Some(id)).map(|live| live.run.id).collect();
        theirs.sort_unstable();
        // Out of sight first: a run that ends now must not let the next one in.
        if let Some(gone) = self.forget_job(id) {
            self.dirty.jobs.remove(&id);
            self.dirty.deleted_jobs.push(gone);
            self.pins.job(self.next_batch(), (namespace.clone(), name.clone()), None);
        }
        for run in theirs {
            self.stop(run, Cause::JobDeleted, cx);
        }
        Ok(Answer::Deleted)
    }

    fn pause_job(&mut self, namespace: &Namespace, name: &Name, cx: &mut Context<'_>) -> Reply {
        let id = self.known_job(namespace, name)?;
        if self.jobs.get(&id).is_some_and(|live| live.job.paused) {
            return self.job_answer(id, Made::Unchanged);
        }
        self.fire_owed(id, cx);
        self.edit_job(id, |job| {
            job.paused = true;
            job.updated_at = cx.now;
            job.cursor.next_due = None;
            job.cursor.wake_at = None;
        });
        self.job_answer(id, Made::Changed)
    }

    fn resume_job(&mut self, namespace: &Namespace, name: &Name, cx: &mut Context<'_>) -> Reply {
        let id = self.known_job(namespace, name)?;
        if self.jobs.get(&id).is_some_and(|live| !live.job.paused) {
            return self.job_answer(id, Made::Unchanged);
        }
        self.skip_paused(id, cx.now);
        let has_fires = self.has_fires(id);
        self.edit_job(id, |job| {
            job.paused = false;
            job.updated_at = cx.now;
            plan_from(job, has_fires, cx.now);
        });
        self.job_answer(id, Made::Changed)
    }

    /// What fell into a pause is on record, under the definition it fell under: people ask why nothing ran.
    fn skip_paused(&mut self, id: JobId, now: Timestamp) {
        let Some(live) = self.jobs.get(&id).filter(|live| live.job.paused) else { return };
        let mut job = (*live.job).clone();
        job.plan_after(job.cursor.fired_through.max(job.updated_at));
        if let (Some(first), Some(last)) = (job.cursor.next_due, job.previous_due(now))
            && first <= last
        {
            self.skip(&job, first, last, SkipReason::Paused, now);
            self.edit_job(id, |job| job.cursor.fired_through = last);
        }
    }

    fn run_job(&mut self, ask: RunJob, cx: &mut Context<'_>) -> Reply {
        let id = self.known_job(&ask.namespace, &ask.name)?;
        let key = match (ask.key, self.jobs.get(&id)) {
            (None, Some(live)) => unique_of(&live.job.definition, ask.params.as_ref())?,
            (key, _) => key,
        };
        let key = key.map(|key| Claim::new(key, |text| job_run_key(&ask.namespace, &ask.name, text)));
        if let Some(existing) = self.bearer(key.as_ref(), cx.now) {
            return Ok(Answer::Existing(existing));
        }
        room_for_one(cx)?;
        // A manual start in the same instant as a fire comes after it.
        self.fire_due(id, cx);
        let due = ask.due.unwrap_or(cx.now);
        let run = self.make_run(id, due, Trigger::Manual, cx).expect("the job at hand is in memory");
        self.launch(run, Launch { params: ask.params, key, ..Launch::default() }, cx)
    }

    fn submit(&mut self, submit: Submit, cx: &mut Context<'_>) -> Reply {
        submit.definition.check()?;
        submit.definition.check_alone()?;
        let key = given_key(&submit)?.map(|key| Claim::new(key, |text| submit_key(&submit.namespace, text)));
        if let Some(existing) = self.bearer(key.as_ref(), cx.now) {
            return Ok(Answer::Existing(existing));
        }
        room_for_one(cx)?;
        let due = submit.due.unwrap_or(cx.now);
        let run = self.make_ad_hoc(submit.namespace, submit.definition, Trigger::Submit, due, cx);
        self.launch(run, Launch { key, ..Launch::default() }, cx)
    }

    fn make_ad_hoc(
        &mut self,
        namespace: Namespace,
        definition: Arc<Definition>,
        trigger: Trigger,
        due: Timestamp,
        cx: &mut Context<'_>,
    ) -> RunId {
        let id = RunId(self.ids.next(cx.now));
        let mut run = Run::new(id, namespace, Origin::AdHoc(Arc::clone(&definition)), trigger, due, cx.now);
        run.priority = definition.priority;
        if due <= cx.now {
            run.state = State::Waiting { wait: Wait::Overlap };
        }
        self.remember_run(LiveRun { run: Arc::new(run), definition, stored: false }, cx);
        id
    }

    /// Sends a run made by a command on its way, and answers with it.
    fn launch(&mut self, run: RunId, launch: Launch, cx: &mut Context<'_>) -> Reply {
        let Launch { params, key, retry_of, patient } = launch;
        let live = self.runs.get_mut(&run).expect("the run at hand is in memory");
        let made = Arc::make_mut(&mut live.run);
        made.params = params;
        made.retry_of = retry_of;
        made.key = key.as_ref().map(|key| Arc::clone(&key.given));
        let waits = made.wake_at().is_some();
        if let Some(key) = key {
            self.give_key(key.row, run, cx.now);
        }
        if !waits && patient {
            self.line_up(run, cx);
        } else if !waits {
            self.arrive(run, cx);
        }
        let live = self.runs.get(&run).map(|live| &live.run);
        let run = live.or_else(|| self.pins.runs.get(&run).map(|pin| &pin.row.run));
        Ok(Answer::Run(Arc::clone(run.expect("a run made by a command is in memory, or has just ended"))))
    }

    /// The run that bears a key, while the key lives.
    fn bearer(&self, key: Option<&Claim>, now: Timestamp) -> Option<RunId> {
        self.unique_row(&key?.row.text).filter(|row| row.expires_at > now).map(|row| row.run)
    }

    pub(crate) fn unique_row(&self, key: &Arc<str>) -> Option<&UniqueKey> {
        if let Some((row, _)) = self.dirty.uniques.get(key) {
            return row.as_ref();
        }
        match self.pins.uniques.get(key) {
            Some(pin) => pin.row.as_ref(),
            None => self.fetched.uniques.get(key),
        }
    }

    pub(crate) fn give_key(&mut self, key: Key, run: RunId, now: Timestamp) {
        let stored = match self.dirty.uniques.get(&key.text) {
            Some((_, stored)) => *stored,
            // An expired row may still be there: it is taken over, not added.
            None if self.unique_row(&key.text).is_some() => Stored::Yes,
            None => Stored::No,
        };
        let row = UniqueKey { key: Arc::clone(&key.text), run, expires_at: now + key.kept };
        self.dirty.uniques.insert(key.text, (Some(row), stored));
    }

    /// A run that is not in memory: pinned, or read for this command.
    fn record(&self, namespace: &Namespace, run: RunId) -> Option<RunRecord> {
        let pinned = self.pins.runs.get(&run).map(|pin| &pin.row);
        let record = pinned.or_else(|| self.fetched.runs.get(&run))?;
        (record.run.namespace == *namespace).then(|| record.clone())
    }

    fn cancel_run(&mut self, namespace: &Namespace, run: RunId, cx: &mut Context<'_>) -> Reply {
        if !self.runs.contains_key(&run) {
            let record = self.record(namespace, run).ok_or(Refusal::NoSuchRun(run))?;
            if record.run.status().is_terminal() {
                return Err(ended(&record.run));
            }
            if record.run.wake_at().is_some() {
                self.take_waiting(record, cx);
            } else {
                // Under way, and not by us: a later leader's, and we do not know yet that there is one. What is decided
                // here will not be written, and so not be said.
                self.take_up(record, cx);
            }
        }
        let live = self
            .runs
            .get(&run)
            .filter(|live| live.run.namespace == *namespace)
            .ok_or(Refusal::NoSuchRun(run))?;
        let asked_before = live.run.cancelling().is_some_and(|cause| cause != Cause::Timeout);
        if !asked_before {
            self.stop(run, Cause::User, cx);
        }
        let live = self.runs.get(&run).map(|live| Arc::clone(&live.run));
        let run = live
            .or_else(|| self.record(namespace, run).map(|record| record.run))
            .ok_or(Refusal::NoSuchRun(run))?;
        Ok(Answer::Run(run))
    }

    fn retry_run(&mut self, retry: RetryRun, cx: &mut Context<'_>) -> Reply {
        if let Some(live) = self.runs.get(&retry.run).filter(|live| live.run.namespace == retry.namespace) {
            let hint = "only a run that has ended can be tried again";
            return Err(Refusal::WrongState { run: retry.run, status: live.run.status(), hint: hint.into() });
        }
        let record = self.record(&retry.namespace, retry.run).ok_or(Refusal::NoSuchRun(retry.run))?;
        if !record.run.status().is_terminal() {
            let hint = "only a run that has ended can be tried again";
            return Err(Refusal::WrongState {
                run: retry.run,
                status: record.run.status(),
                hint: hint.into(),
            });
        }
        if let Some(parent) = record.run.parent() {
            let hint = format!("it is a child of run {parent}; try that one again, with all its children");
            let (run, status) = (retry.run, record.run.status());
            return Err(Refusal::WrongState { run, status, hint: hint.into() });
        }
        let key = retry.key.map(|key| Claim::new(key, |text| retry_key(&retry.namespace, retry.run, text)));
        if let Some(existing) = self.bearer(key.as_ref(), cx.now) {
            return Ok(Answer::Existing(existing));
        }
        // After the key: whoever asks again with it gets the first answer, though the letter is gone by then.
        if retry.dead_letter && !record.dead_letter {
            return Err(Refusal::NotADeadLetter(retry.run));
        }
        room_for_one(cx)?;
        let params = retry.params.or_else(|| record.run.params.clone());
        let run = self.make_retry(&record, cx);
        let patient = retry.dead_letter;
        let reply = self.launch(run, Launch { params, key, retry_of: Some(retry.run), patient }, cx);
        // One that was skipped at once has tried nothing: the dead letter still waits for someone.
        if self.runs.contains_key(&run) {
            self.decide(record);
        }
        reply
    }

    /// Under the job's newest revision; a run without a job, or whose job is gone, carries its own definition.
    fn make_retry(&mut self, record: &RunRecord, cx: &mut Context<'_>) -> RunId {
        let job = record.job.as_ref().and_then(|job| {
            let known = self.find_job(&job.namespace, &job.name).filter(|id| *id == job.id);
            known.or_else(|| {
                let gone = self.pins.jobs.contains_key(&(job.namespace.clone(), job.name.clone()));
                (!gone && !self.names.contains_key(&(job.namespace.clone(), job.name.clone())))
                    .then(|| self.remember_job(Arc::clone(job), true))
            })
        });
        match job.and_then(|job| self.make_run(job, cx.now, Trigger::Retry, cx)) {
            Some(run) => run,
            None => {
                let definition = Arc::clone(&record.definition);
                self.make_ad_hoc(record.run.namespace.clone(), definition, Trigger::Retry, cx.now, cx)
            }
        }
    }

    fn discard(&mut self, namespace: &Namespace, run: RunId) -> Reply {
        let live = self.runs.get(&run).is_some_and(|live| live.run.namespace == *namespace);
        let record = self.record(namespace, run);
        match record {
            Some(record) if record.dead_letter => {
                self.decide(record);
                Ok(Answer::Discarded)
            }
            Some(_) => Err(Refusal::NotADeadLetter(run)),
            None if live => Err(Refusal::NotADeadLetter(run)),
            None => Err(Refusal::NoSuchRun(run)),
        }
    }

    /// The word of an attempt, through a door: believed as little as a worker's.
    fn progress(
        &mut self,
        namespace: &Namespace,
        run: RunId,
        (token, percent): (Token, u8),
        cx: &mut Context<'_>,
    ) -> Reply {
        let Some(live) = self.runs.get(&run).filter(|live| live.run.namespace == *namespace) else {
            let record = self.record(namespace, run).ok_or(Refusal::NoSuchRun(run))?;
            return Err(not_running(&record.run));
        };
        match live.run.state {
            State::Running { token: newest, .. } if newest == token => {
                self.note(run, token, cx, |run| run.progress = Some(percent.min(100)));
                Ok(Answer::Noted)
            }
            State::Running { .. } => Err(Refusal::OutdatedToken(run)),
            _ => Err(not_running(&live.run)),
        }
    }

    /// Someone has decided about a dead letter: it is only history now.
    fn decide(&mut self, record: RunRecord) {
        if !record.dead_letter {
            return;
        }
        let run = record.run.id;
        match self.dirty.settled.iter_mut().find(|settled| settled.run.id == run) {
            Some(settled) => settled.dead = false,
            None => self.dirty.decided.push(run),
        }
        self.pins.run(self.next_batch(), RunRecord { dead_letter: false, ..record });
    }
}

fn room_for_one(cx: &Context<'_>) -> Result<(), Refusal> {
    if cx.pool.live >= LIVE_RUNS_MAX { Err(Refusal::TooManyRuns) } else { Ok(()) }
}

fn not_running(run: &Run) -> Refusal {
    let hint = "only a running attempt makes progress".into();
    Refusal::WrongState { run: run.id, status: run.status(), hint }
}

fn ended(run: &Run) -> Refusal {
    let hint = match run.status() {
        Status::Cancelled => "it is cancelled already",
        _ => "it has ended already",
    };
    Refusal::WrongState { run: run.id, status: run.status(), hint: hint.into() }
}

/// The first due time after now by other days; `hanging` hangs on the end of a run and stays where it is.
fn replan(job: &mut Job, hanging: Option<Timestamp>, now: Timestamp) {
    job.plan_after(now.max(job.cursor.fired_through));
    if let Some(due) = hanging
        && job.cursor.next_due.is_none_or(|next| due < next)
    {
        job.cursor.next_due = Some(due);
        job.cursor.wake_at = Some(due);
    }
}

/// The first due time after now. A job that counts from the end of its last run begins at once, unless it has one
/// under way: then the end of that one plans the next.
fn plan_from(job: &mut Job, has_fires: bool, now: Timestamp) {
    let after = now.max(job.cursor.fired_through);
    job.plan_after(after);
    if has_fires {
        return;
    }
    // A due time is used once: one that fell on this very instant was fired before the edit.
    let earliest = if after == job.cursor.fired_through { after + Duration::from_millis(1) } else { after };
    let begins = job.open_schedules().filter(|(_, schedule)| matches!(schedule.when, When::AfterFinish(_)));
    let firsts = begins.map(|(_, schedule)| (schedule.start.unwrap_or(earliest).max(earliest), schedule.end));
    let first =
        firsts.filter(|(first, end)| end.is_none_or(|end| *first <= end)).map(|(first, _)| first).min();
    if let Some(first) = first
        && job.cursor.next_due.is_none_or(|next| first < next)
    {
        job.cursor.next_due = Some(first);
        job.cursor.wake_at = Some(first);
    }
}
