//! Takes commands: each is carried out completely or refused completely, and answered after its commit.
//!
//! An edit, a pause or a delete first fires every due time up to now: the old definition decides the due times before
//! the edit, the new one those after it, so that no due time is fired twice or lost.
//!
//! endpoint ──command──▶ intake ──job──▶ plan
//!                            └──run───▶ overlap

mod backfill;
mod jobs;
pub(crate) mod keys;
mod launch;
mod runs;

use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::job::Pause;
use punctual_core::workflow::ByHand;

use crate::Shard;
use crate::event::{Context, Effect, Ticket};

pub(crate) type Reply = Result<Answer, Refusal>;
pub(crate) use launch::room_for_one;
pub(crate) use runs::{ended_already, refused};

impl Shard {
    /// Carries out a command and answers it at once. Only a durable progress, a take or a flush of a queue, and
    /// the acquire of a lock may be answered later.
    pub(crate) fn intake(&mut self, ticket: Ticket, command: Command, cx: &mut Context<'_>) {
        let reply = match command {
            Command::PutJob(put) => self.put_job(put, cx),
            Command::ReplanJob { namespace, name, calendar } => {
                self.replan_job(&namespace, &name, calendar.as_ref(), cx)
            }
            Command::DeleteJob { namespace, name, expect } => self.delete_job(&namespace, &name, expect, cx),
            Command::PauseJob { namespace, name, reason, by, until } => {
                self.pause_job(&namespace, &name, Pause { reason, by, since: cx.now, until }, cx)
            }
            Command::ResumeJob { namespace, name } => self.resume_job(&namespace, &name, cx),
            Command::RunJob(run) => self.run_job(run, cx),
            Command::Ping(ping) => self.ping(ping, cx),
            Command::Backfill(ask) => self.backfill(ask, cx),
            Command::Submit(submit) => self.submit(submit, cx),
            Command::CancelRun { namespace, run, now, by, comment } => {
                let by_hand = ByHand { by, at: cx.now, comment };
                self.cancel_run((&namespace, run), now, Some(by_hand), cx)
            }
            Command::MoveRun { namespace, run, worker } => {
                self.move_run(&namespace, run, worker.as_deref(), cx)
            }
            Command::RetryRun(retry) => self.retry_run(retry, cx),
            Command::ActOnSteps(ask) => self.act_on_steps(ask, cx),
            Command::DiscardDeadLetter { namespace, run } => self.discard(&namespace, run, cx),
            Command::Progress { namespace, run, token, progress, durable } => {
                let may_report = self.may_report(&namespace, run, token, &progress);
                if may_report.is_ok() && durable {
                    let once_stored = |is_taken| Some(Effect::Answer { ticket, answer: Ok(noted(is_taken)) });
                    self.take_progress(run, progress, once_stored, cx);
                    return;
                }
                may_report.map(|()| noted(self.take_progress(run, progress, |_| None, cx)))
            }
            Command::CancelCall(ask) => self.cancel_call(&ask, cx),
            Command::Wake(wake) => self.wake(&wake, cx),
            Command::Listen { topic, listener, key } => self.listen(&topic, listener, key, cx),
            Command::StepListens { step, number } => self.step_listens(step, number, cx),
            Command::Unlisten { topic, listener, notice } => self.unlisten(&topic, listener, notice, cx),
            Command::StopListening { topic, step } => self.stop_listening(&topic, step, cx),
            Command::SendEvent { namespace, name, event } => self.send_event(namespace, name, event, cx),
            Command::Followers { namespace, name } => self.followers(namespace, name),
            Command::Hold { hold, .. } => self.begin_hold(*hold, cx),
            Command::Release { scope, at, .. } => self.release_hold(&scope, at, cx),
            Command::Tell { sender, news } => {
                self.hear(sender, &news, cx);
                Ok(Answer::Noted)
            }
            Command::ActOnIncident(ask) => self.act_on_incident(ask, cx),
            Command::NoteChannel(note) => self.note_channel(&note, cx),
            Command::Queue(ask) => return self.queue(ticket, ask, cx),
            Command::Lock(ask) => return self.lock(ticket, ask, cx),
        };
        cx.answer(ticket, reply);
    }
}

fn noted(is_taken: bool) -> Answer {
    if is_taken { Answer::Noted } else { Answer::Late }
}
