//! Makes runs for commands: of a job, of a submit, and as a retry of a run that has ended.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Holder, RunRecord};
use punctual_core::command::{Answer, Refusal, RetryRun, RunJob, Submit};
use punctual_core::ids::{JobId, RunId};
use punctual_core::job::{Definition, Invalid, limit};
use punctual_core::limits::{CHAIN_MAX, LIVE_RUNS_MAX};
use punctual_core::name::Namespace;
use punctual_core::progress::Reported;
use punctual_core::run::{Caller, Link, Origin, Run, State, Status, Trigger, Wait};
use punctual_core::task::Params;
use punctual_core::workflow::{ByHand, StepParams};

use super::keys::{Claim, given_key, job_run_key, retry_key, submit_key, unique_of};
use super::{Reply, refused};
use crate::Shard;
use crate::event::Context;
use crate::memory::LiveRun;
use crate::workflow::Reuse;

/// Why no command starts a ping.
const PING_STARTS: &str = "its program runs outside Punctual, and is started there";

/// What a command sets on the run it makes.
#[derive(Default)]
struct Launch {
    params: Option<Params>,
    key: Option<Claim>,
    retry_of: Option<RunId>,
    /// The checkpoint that it starts at.
    checkpoint: Option<Reported>,
    step_params: Option<Box<StepParams>>,
    /// The run is held instead of skipped, whatever the overlap policy of its job.
    patient: bool,
    link: Option<Link>,
    /// Who asked for it. `None` means that this is not recorded.
    by_hand: Option<ByHand>,
}

impl Shard {
    pub(super) fn run_job(&mut self, ask: RunJob, cx: &mut Context<'_>) -> Reply {
        let id = self.known_job(&ask.namespace, &ask.name)?;
        if self.jobs.get(&id).is_some_and(|live| live.job.definition.ping().is_some()) {
            return Err(Invalid::new("name", format!("job `{}` is a ping: {PING_STARTS}", ask.name)).into());
        }
        let key = match (ask.key, self.jobs.get(&id)) {
            (None, Some(live)) => unique_of(&live.job.definition, ask.params.as_ref())?,
            (key, _) => key,
        };
        let key = key.map(|key| Claim::new(key, |text| job_run_key(&ask.namespace, &ask.name, text)));
        if let Some(existing) = self.bearer(key.as_ref(), cx.now) {
            return Ok(Answer::Existing(existing));
        }
        let (link, params) = match ask.caller {
            Some(caller) => (Some(self.link_to(caller, key.as_ref())?), self.params_on_top(id, ask.params)?),
            None => (None, ask.params),
        };
        if let Some(live) = self.jobs.get(&id) {
            check_limit_keys(&live.job.definition, params.as_ref(), cx.now)?;
        }
        room_for_one(cx)?;
        // A manual start in the same instant as a fire comes after it.
        self.fire_due(id, cx);
        let due = ask.due.unwrap_or(cx.now);
        let trigger = if link.is_some() { Trigger::Workflow } else { Trigger::Manual };
        let run = self.make_run(id, due, trigger, cx).expect("the job at hand is in memory");
        self.launch(run, Launch { params, key, link, ..Launch::default() }, cx)
    }

    /// The link of a run to the attempt that starts it.
    fn link_to(&self, caller: Caller, key: Option<&Claim>) -> Result<Link, Invalid> {
        if key.is_some_and(|key| self.unique_row(&key.row.text).is_some()) {
            return Err(Invalid::new("job", "the step was stopped before the run was started"));
        }
        if caller.depth >= CHAIN_MAX {
            let message =
                format!("chain_too_long: {CHAIN_MAX} runs led to this one, each started by the one before");
            return Err(Invalid::new("job", message));
        }
        Ok(Link { caller: Some(caller.sender), depth: caller.depth + 1, ..Link::default() })
    }

    /// Parameters on top of those of a job.
    fn params_on_top(&self, job: JobId, params: Option<Params>) -> Result<Option<Params>, Invalid> {
        let Some((live, params)) = self.jobs.get(&job).zip(params) else { return Ok(None) };
        live.job.definition.params.merged(&params).map(Some)
    }

    pub(super) fn submit(&mut self, submit: Submit, cx: &mut Context<'_>) -> Reply {
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
        run.sign(cx.pool.node());
        run.priority = definition.priority;
        if due <= cx.now {
            run.state = State::Waiting { wait: Wait::Overlap };
        }
        self.remember_run(LiveRun::new(Arc::new(run), definition, false), cx);
        id
    }

    /// Starts a run made by a command, and answers with it.
    fn launch(&mut self, run: RunId, launch: Launch, cx: &mut Context<'_>) -> Reply {
        let Launch { params, key, retry_of, checkpoint, step_params, patient, link, by_hand } = launch;
        let live = self.runs.get_mut(&run).expect("the run at hand is in memory");
        let made = Arc::make_mut(&mut live.run);
        made.params = params;
        made.retry_of = retry_of;
        made.step_params = step_params;
        if let Some(by_hand) = by_hand {
            made.asked_by(by_hand);
        }
        live.definition = made.own_definition(Arc::clone(&live.definition));
        if let Some(checkpoint) = checkpoint {
            made.continue_at(checkpoint);
        }
        // The key of a step that starts the run is of no use to users.
        made.key = key.as_ref().filter(|_| link.is_none()).map(|key| Arc::clone(&key.given));
        made.link = link.map(Box::new);
        let waits = made.wake_at().is_some();
        if let Some(key) = key {
            self.give_key(key.row, Holder::Run(run), cx.now);
        }
        if !waits && patient {
            self.arrive_patiently(run, cx);
        } else if !waits {
            self.arrive(run, cx);
        }
        let live = self.runs.get(&run).map(|live| &live.run);
        let run = live.or_else(|| self.pins.runs.get(&run).map(|pin| &pin.row.run));
        Ok(Answer::Run(Arc::clone(run.expect("a run made by a command is in memory, or has just ended"))))
    }

    pub(super) fn retry_run(&mut self, retry: RetryRun, cx: &mut Context<'_>) -> Reply {
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
        if record.run.is_backfill() {
            let hint = "try its child runs again that did not succeed, or start another backfill";
            return Err(refused(&record.run, hint));
        }
        let newest = record.job.as_ref().map_or(&record.definition, |job| &job.definition);
        if newest.ping().is_some() {
            return Err(refused(&record.run, PING_STARTS));
        }
        if let Some(parent) = record.run.parent().filter(|_| !record.run.is_backfilled()) {
            let hint = format!("it is a child of run {parent}; try that one again, with all its children");
            let (run, status) = (retry.run, record.run.status());
            return Err(Refusal::WrongState { run, status, hint: hint.into() });
        }
        let key =
            retry.key.clone().map(|key| Claim::new(key, |text| retry_key(&retry.namespace, retry.run, text)));
        if let Some(existing) = self.bearer(key.as_ref(), cx.now) {
            return Ok(Answer::Existing(existing));
        }
        // Checked after the key: a repeated command gets the answer of the first one, which used up the dead letter.
        if retry.dead_letter && !record.dead_letter {
            return Err(Refusal::NotADeadLetter(retry.run));
        }
        // A run that waits for its due time could still be skipped then, and its dead letter would already be gone.
        if retry.dead_letter && retry.due.is_some_and(|due| due > cx.now) {
            return Err(Invalid::new("due_at", "lies in the future; a replay starts at once").into());
        }
        let Reuse { rows, params: step_params } = self.plan_reuse(&retry, &record, cx)?;
        let params = retry.params.or_else(|| record.run.params.clone());
        if let Some(job) = &record.job {
            check_limit_keys(&job.definition, params.as_ref(), cx.now)?;
        }
        room_for_one(cx)?;
        let run = self.make_retry(&record, retry.due.unwrap_or(record.run.due), cx);
        self.write_reused(run, rows);
        let patient = retry.dead_letter;
        let reported = record.run.progress.as_deref().filter(|_| retry.resume);
        let checkpoint = reported.and_then(|reported| reported.clone().for_new_run());
        let by_hand = Some(ByHand { by: retry.by, at: cx.now, comment: retry.comment });
        let retry_of = Some(retry.run);
        let launch = Launch { params, key, retry_of, checkpoint, step_params, patient, link: None, by_hand };
        let reply = self.launch(run, launch, cx);
        // A run that was skipped at once tried nothing, so the dead letter stays.
        if self.runs.contains_key(&run) {
            self.decide(record, cx);
        }
        if matches!(&reply, Ok(Answer::Run(made)) if made.status() == Status::Skipped) {
            self.drop_reused(run);
        }
        reply
    }

    /// Uses the job's newest revision. A run without a job, or of a deleted job, carries its own definition.
    fn make_retry(&mut self, record: &RunRecord, due: Timestamp, cx: &mut Context<'_>) -> RunId {
        let job = record.job.as_ref().and_then(|job| {
            let known = self.find_job(&job.namespace, &job.name).filter(|id| *id == job.id);
            known.or_else(|| {
                let gone = self.pins.jobs.contains_key(&(job.namespace.clone(), job.name.clone()));
                (!gone && !self.names.contains_key(&(job.namespace.clone(), job.name.clone())))
                    .then(|| self.remember_job(Arc::clone(job), true))
            })
        });
        match job.and_then(|job| self.make_run(job, due, Trigger::Retry, cx)) {
            Some(run) => run,
            None => {
                let definition = Arc::clone(&record.definition);
                self.make_ad_hoc(record.run.namespace.clone(), definition, Trigger::Retry, due, cx)
            }
        }
    }
}

/// Refuses parameters that give no key for a limit of the job.
pub(super) fn check_limit_keys(
    definition: &Definition,
    params: Option<&Params>,
    due: Timestamp,
) -> Result<(), Invalid> {
    limit::check_keys(&definition.limits, params.unwrap_or(&definition.params), due)
}

pub(crate) fn room_for_one(cx: &Context<'_>) -> Result<(), Refusal> {
    if cx.pool.live_runs() >= LIVE_RUNS_MAX { Err(Refusal::TooManyRuns) } else { Ok(()) }
}
