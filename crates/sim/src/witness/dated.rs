//! The recorded time of a command or a report is not earlier than the time at which its leader accepted it.
//!
//! A leader whose time stands still would date everything back: a run would be made before its command, a delay would end
//! too soon, and an edit would change the past.

use std::sync::Arc;

use punctual_core::Timestamp;
use punctual_core::change::{Batch, Change, Row};
use punctual_core::command::{Answer, Command, Made};
use punctual_core::ids::{RunId, Token};
use punctual_core::queue::Ask;
use punctual_core::run::{Run, Status};
use punctual_engine::Ticket;
use rustc_hash::FxHashMap;

use super::asks::{tag_asked, tag_of};
use super::{Seen, Verdict};
use crate::traffic::number_of;

/// The earliest time that may be recorded for each command and report.
#[derive(Debug, Default)]
pub(super) struct Dated {
    /// By the command's tag.
    commands: FxHashMap<Arc<str>, Timestamp>,
    /// Commands that pause or resume a job.
    changes: FxHashMap<Ticket, Timestamp>,
    /// By the number in the body of the message.
    messages: FxHashMap<u64, Timestamp>,
    /// Reported successes.
    ends: FxHashMap<(RunId, Token), Timestamp>,
}

impl Dated {
    /// A leader accepts a command. A repeated command keeps its first time.
    pub(super) fn asked(&mut self, ticket: Ticket, command: &Command, earliest: Timestamp) {
        match command {
            Command::PauseJob { .. } | Command::ResumeJob { .. } => {
                self.changes.entry(ticket).or_insert(earliest);
            }
            Command::Queue(Ask::Add(add)) => {
                for new in &add.messages {
                    self.messages.entry(number_of(&new.body)).or_insert(earliest);
                }
            }
            _ => {
                if let Some(tag) = tag_asked(command) {
                    self.commands.entry(tag).or_insert(earliest);
                }
            }
        }
    }

    /// The store's clock was set: any time may be recorded for commands that were accepted before.
    pub(super) fn forget_times(&mut self) {
        let Dated { commands, changes, messages, ends } = self;
        commands.values_mut().for_each(|time| *time = Timestamp::MIN);
        changes.values_mut().for_each(|time| *time = Timestamp::MIN);
        messages.values_mut().for_each(|time| *time = Timestamp::MIN);
        ends.values_mut().for_each(|time| *time = Timestamp::MIN);
    }

    /// A node is told that an attempt has succeeded.
    pub(super) fn heard(&mut self, run: RunId, token: Token, earliest: Timestamp) {
        self.ends.entry((run, token)).or_insert(earliest);
    }

    pub(super) fn landed(&self, batch: &Batch, born: &[Arc<Run>], seen: &mut Seen) -> Verdict {
        for run in born {
            if let Some(earliest) = tag_of(run).and_then(|tag| self.commands.get(&tag)) {
                judge(&format_args!("run {} was made", run.id), run.created_at, *earliest, seen)?;
            }
        }
        for (_, change) in batch.changes.iter() {
            match change {
                Change::Insert(Row::Revision(revision)) => {
                    let earliest = self.commands.get(&*revision.definition.description);
                    if let Some(earliest) = earliest {
                        let what = format_args!("revision {} of {}", revision.revision, revision.job);
                        judge(&what, revision.at, *earliest, seen)?;
                    }
                }
                Change::Insert(Row::Message(message)) => {
                    if let Some(earliest) = self.messages.get(&number_of(&message.body)) {
                        let what = format_args!("message {} was added", message.id.number);
                        judge(&what, message.created_at, *earliest, seen)?;
                    }
                }
                Change::Insert(Row::History(run)) if run.status() == Status::Succeeded => {
                    let earliest = self.ends.get(&(run.id, run.token));
                    if let (Some(earliest), Some(at)) = (earliest, run.finished_at) {
                        judge(&format_args!("run {} has ended", run.id), at, *earliest, seen)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn answered(&mut self, ticket: Ticket, answer: &Answer, seen: &mut Seen) -> Verdict {
        match (self.changes.remove(&ticket), answer) {
            (Some(earliest), Answer::Job { job, made: Made::Changed }) => {
                judge(&format_args!("job {} was paused or resumed", job.name), job.updated_at, earliest, seen)
            }
            _ => Ok(()),
        }
    }
}

fn judge(what: &std::fmt::Arguments<'_>, at: Timestamp, earliest: Timestamp, seen: &mut Seen) -> Verdict {
    seen.dated += 1;
    if at >= earliest {
        return Ok(());
    }
    Err(format!("dated back: {what}, which arrived after {earliest}, is recorded at {at}"))
}
