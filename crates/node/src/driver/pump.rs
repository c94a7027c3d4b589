//! Applies all waiting input in order of priority.
//!
//! Commands go before timers, due timers before reports; then free slots are given to the first runs of the ready
//! queue. Events are applied only while engine time is current, so that no outdated time is recorded.

use std::collections::VecDeque;
use std::time::Duration;

use punctual_core::Timestamp;
use punctual_core::attempt::{Assignment, Order, Report};
use punctual_core::command::{ActOnSteps, Answer, Command, Refusal, RetryRun};
use punctual_core::ids::{RunId, ShardId, Token, WorkerId};
use punctual_core::queue::{Acted, Ask, QueueRefusal, Said};
use punctual_engine::pool::{Heard, Match};
use punctual_engine::{Context, Effect, Event, Silence, Ticket};

use super::shard_entry::{self, ShardEntry, Standing};
use super::{Driver, Joining, Output, UNHEARD_BYTES_MAX, Waiting};
use crate::failure::Failure;

/// Maximum number of rows from timers in one commit while there are free slots for the runs they fire. Two or three
/// small commits instead of a large one let the first runs start while the last are still being written.
const TIMER_ROWS: usize = 720;
/// The same when no slot is free: the runs have to wait anyway, so larger commits are better.
const TIMER_ROWS_BEHIND: usize = 2048;
/// How long a command waits for a shard without a leader before it is answered `Unavailable`.
pub(super) const COMMAND_WAIT: Duration = Duration::from_secs(5);

/// How old an assignment of a former leader may be if its worker did not know it yet when it joined. The clocks of two
/// nodes differ by up to a second, and messages take time.
const ON_ITS_WAY: Duration = Duration::from_secs(2);

impl Driver {
    pub(super) fn pump(&mut self) {
        self.renew();
        self.start_pending();
        if self.may_apply() {
            self.apply_all();
        } else {
            // Refuse commands for shards led elsewhere; the rest waits.
            self.take_commands();
        }
        for lane in 0..self.lanes.len() {
            self.send_batch(lane);
        }
        self.release_left();
        self.expire_commands();
    }

    fn apply_all(&mut self) {
        self.admit_workers();
        self.notice_silence();
        self.take_commands();
        self.take_timers();
        // Due timers go before reports, unless runs wait for the slots that finished attempts free.
        if self.pool.is_behind() || !self.owes_timers() {
            self.take_reports();
        }
        self.offer_to_returned();
        self.give_up_departed();
        self.dispatch();
        self.tell_waiting();
        self.ask_for_rows();
        self.ask_for_pages();
        self.ask_for_message_pages();
    }

    /// Applies an event to a shard led by this node, and updates the counts of its lane.
    pub(super) fn apply(&mut self, id: ShardId, event: Event) {
        let lane = self.lane_of(id);
        let Some(entry) = self.shards.get_mut(usize::from(id.0)) else { return };
        let Standing::Leading(shard) = &mut entry.standing else { return };
        let (before, is_queue) = (shard.dirty_rows(), event.is_of_queue());
        let lane = &mut self.lanes[lane];
        let mut cx = Context {
            now: self.now,
            elapsed: self.elapsed,
            shard: id,
            pool: &mut self.pool,
            effects: &mut lane.effects,
        };
        shard.apply(event, &mut cx);
        let rows = shard.dirty_rows();
        lane.rows = (lane.rows + rows).saturating_sub(before);
        if is_queue {
            lane.queue_rows += rows.saturating_sub(before);
        }
        entry.note_wake();
    }

    pub(super) fn lane_of(&self, id: ShardId) -> usize {
        usize::from(id.0) % self.lanes.len()
    }

    pub(super) fn lane_has_room(&self, id: ShardId) -> bool {
        self.lanes[self.lane_of(id)].rows < self.settings.commit_batch
    }

    /// Timers have their own room, so that many commands do not make them late.
    pub(super) fn lane_takes_timers(&self, id: ShardId) -> bool {
        let lane = &self.lanes[self.lane_of(id)];
        let most = if self.pool.is_behind() { TIMER_ROWS_BEHIND } else { TIMER_ROWS };
        lane.timer_rows < most.min(self.settings.commit_batch)
    }

    pub(super) fn entry(&mut self, id: ShardId) -> Option<&mut ShardEntry> {
        self.shards.get_mut(usize::from(id.0))
    }

    /// Admits workers when every shard is loaded. An attempt that a joining worker does not name is lost, and the shard
    /// must know that before it offers the attempt again.
    fn admit_workers(&mut self) {
        if self.joining.is_empty() || !self.is_settled() {
            return;
        }
        while let Some(Joining { worker, announced, holding, since, said }) = self.joining.pop_front() {
            let age = self.lived().since(since) + ON_ITS_WAY;
            let lost = self.pool.join(&worker, announced, &holding, self.elapsed);
            if !lost.is_empty() {
                let attempts = lost.len();
                tracing::warn!(%worker, attempts, "a worker joins without attempts that it was given: they are lost");
            }
            for (run, token) in lost {
                // The former leader may have assigned it after the worker joined.
                let since = self.given_by_former_leader((run, token), &worker);
                if since.is_none_or(|since| self.now.since(since) >= age) {
                    self.apply(run.shard(), Event::Lost { run, token });
                }
            }
            self.hear(&worker, said);
        }
    }

    /// Offers to workers again what former leaders gave them: a worker reports on an attempt to the node that offered
    /// it last. What was loaded while the worker was present was offered then; an attempt that is offered twice starts
    /// once. Outcomes that came before its heartbeat are applied first: the attempts have ended.
    fn offer_to_returned(&mut self) {
        for worker in std::mem::take(&mut self.returned) {
            if self.reports.iter().any(|(theirs, _)| *theirs == worker) {
                self.returned.push(worker);
                continue;
            }
            for (run, token) in self.pool.roster().attempts_of(&worker) {
                let is_leading = self.entry(run.shard()).is_some_and(|entry| entry.is_leading());
                if is_leading && self.given_by_former_leader((run, token), &worker).is_some() {
                    self.apply(run.shard(), Event::OfferAgain { run });
                }
            }
        }
    }

    fn given_by_former_leader(&self, attempt: (RunId, Token), to: &WorkerId) -> Option<Timestamp> {
        self.shard(attempt.0.shard())?.given_by_former_leader(attempt, to)
    }

    /// A worker's reports about itself take effect at once; its reports about attempts wait to be applied.
    pub(super) fn hear(&mut self, worker: &WorkerId, reports: Vec<Report>) {
        let lease = self.settings.engine.attempt_lease;
        for report in reports {
            if report.run().is_none()
                && let Some(joining) = self.joining.iter_mut().find(|joining| joining.worker == *worker)
            {
                joining.hear(report);
                self.pool.is_joining(worker, self.elapsed);
                continue;
            }
            if report.run().is_some() {
                let size = size_of_report(&report);
                if self.unheard_bytes + size <= UNHEARD_BYTES_MAX {
                    self.unheard_bytes += size;
                    self.reports.push_back((worker.clone(), report));
                }
                continue;
            }
            let worker = worker.clone();
            match self.pool.hear(&worker, &report, lease, self.elapsed) {
                Heard::Nothing => {}
                Heard::Order(order) => self.outputs.push(Output::Order { worker, order }),
                Heard::Alive { lost, is_back } => {
                    lost.into_iter().for_each(|(run, token)| self.lose(run, token));
                    self.returned.extend(is_back.then_some(worker));
                }
                Heard::Impossible(why) => self.outputs.push(Output::Refuse { worker, why }),
            }
        }
    }

    fn take_reports(&mut self) {
        let mut later = VecDeque::new();
        while let Some((worker, report)) = self.reports.pop_front() {
            let shard = report.run().map(RunId::shard);
            let entry = shard.and_then(|shard| self.shards.get_mut(usize::from(shard.0)));
            let (Some(shard), Some(entry)) = (shard, entry) else {
                self.unheard_bytes -= size_of_report(&report);
                continue;
            };
            if entry.is_elsewhere() || entry.leaving.is_some() {
                // The leader of the shard asks the worker for it.
                self.unheard_bytes -= size_of_report(&report);
            } else if !entry.is_leading() {
                entry.reports.push((worker, report));
            } else if self.lane_has_room(shard) {
                self.unheard_bytes -= size_of_report(&report);
                self.apply(shard, Event::Report { worker, report });
            } else {
                later.push_back((worker, report));
            }
        }
        self.reports = later;
    }

    /// Applies reports that arrived while the shard was not loaded.
    pub(super) fn apply_waiting(&mut self, id: ShardId) {
        let Some(entry) = self.entry(id) else { return };
        for (worker, report) in std::mem::take(&mut entry.reports) {
            self.unheard_bytes -= size_of_report(&report);
            self.apply(id, Event::Report { worker, report });
        }
    }

    /// Gives the attempts of workers that are shutting down to others, after their last outcomes are applied. Those of a
    /// shard that is not loaded follow when it is.
    fn give_up_departed(&mut self) {
        let departing = std::mem::take(&mut self.departing);
        for worker in departing {
            if self.reports.iter().any(|(theirs, _)| *theirs == worker) {
                self.departing.push(worker);
                continue;
            }
            for (run, token) in self.pool.roster().attempts_of(&worker) {
                self.lose(run, token);
            }
            if !self.is_settled() {
                self.departing.push(worker);
            }
        }
    }

    /// Gives an attempt up, if that can be recorded now. If not, nothing is kept for later, because the worker may come back
    /// with the attempt meanwhile. The loss is noticed again: a load takes up every running attempt, and each heartbeat
    /// names the attempts that the worker has.
    fn lose(&mut self, run: RunId, token: Token) {
        let is_leading = self.entry(run.shard()).is_some_and(|entry| entry.is_leading());
        if is_leading && self.may_apply() {
            self.apply(run.shard(), Event::Lost { run, token });
        }
    }

    fn notice_silence(&mut self) {
        let lease = self.settings.engine.attempt_lease;
        if self.pool.roster().next_silence(lease).is_some_and(|at| at <= self.elapsed) {
            let Silence { lost, ask } = self.pool.silence(lease, self.elapsed);
            for (run, token) in lost {
                self.lose(run, token);
            }
            let ask = ask.into_iter().map(|worker| Output::Order { worker, order: Order::Resend });
            self.outputs.extend(ask);
        }
    }

    /// Applies commands. A command that needs rows waits for them, and later commands of its shard wait behind it.
    fn take_commands(&mut self) {
        let may_apply = self.may_apply();
        let mut later = VecDeque::new();
        while let Some(waiting) = self.intake.pop_front() {
            let shard = waiting.command.shard(self.settings.shards);
            let has_room = self.lane_has_room(shard);
            let Some(entry) = self.shards.get_mut(usize::from(shard.0)) else {
                let answer = no_such_shard(&waiting.command);
                self.outputs.push(Output::Answer { ticket: waiting.ticket, answer });
                continue;
            };
            match &entry.standing {
                Standing::Resting { full: true, .. } => self.refuse(waiting.ticket, shard_entry::full()),
                Standing::Elsewhere { .. } => self.refuse(waiting.ticket, shard_entry::not_led()),
                Standing::Leading(_) if entry.leaving.is_some() => {
                    self.refuse(waiting.ticket, shard_entry::not_led());
                }
                Standing::Leading(_) if !may_apply => later.push_back(waiting),
                Standing::Leading(shard_value)
                    if entry.commands.is_empty() && shard_value.wants(&waiting.command).is_empty() =>
                {
                    if has_room {
                        let Waiting { ticket, command, .. } = waiting;
                        self.apply(shard, Event::Command { ticket, command });
                    } else {
                        later.push_back(waiting);
                    }
                }
                _ => entry.commands.push_back(waiting),
            }
        }
        self.intake = later;
    }

    /// Fires the due timers of all shards, a limited number per shard and turn so that no shard starves.
    fn take_timers(&mut self) {
        const TURN: usize = 256;
        loop {
            let mut progressed = false;
            for index in 0..self.shards.len() {
                let (id, due) = (self.shards[index].id, self.is_due(&self.shards[index]));
                if due && self.lane_takes_timers(id) {
                    let lane = self.lane_of(id);
                    let before = self.lanes[lane].rows;
                    self.apply(id, Event::Tick { limit: TURN });
                    self.lanes[lane].timer_rows += self.lanes[lane].rows.saturating_sub(before);
                    progressed = true;
                }
            }
            if !progressed {
                return;
            }
        }
    }

    fn is_due(&self, entry: &ShardEntry) -> bool {
        entry.is_leading()
            && (entry.wake.is_some_and(|at| at <= self.now)
                || entry.deadline.is_some_and(|at| at <= self.elapsed))
    }

    /// Whether a due timer found no room in its lane.
    fn owes_timers(&self) -> bool {
        self.shards.iter().any(|entry| self.is_due(entry))
    }

    /// Gives free slots to the first runs of the ready queue, across all shards.
    fn dispatch(&mut self) {
        for (run, lack) in self.pool.notice() {
            self.apply(run.shard(), Event::Fits { run, lack });
        }
        while let Some(given) = self.next_match() {
            self.apply(given.run.shard(), Event::Assign(given));
        }
    }

    fn next_match(&mut self) -> Option<Match> {
        let (lanes, most) = (&self.lanes, self.settings.commit_batch);
        self.pool.next_match(|shard| lanes[usize::from(shard.0) % lanes.len()].rows < most)
    }

    /// Tells workers without free slots how many runs wait for them.
    fn tell_waiting(&mut self) {
        let words = self.pool.tell_waiting().into_iter();
        self.outputs.extend(words.map(|(worker, order)| Output::Order { worker, order }));
    }

    fn expire_commands(&mut self) {
        let (may_apply, now) = (self.may_apply(), self.elapsed);
        let mut expired = Vec::new();
        let stuck = self.shards.iter_mut().filter(|entry| !may_apply || !entry.is_leading());
        let stuck = stuck.map(|entry| &mut entry.commands).chain((!may_apply).then_some(&mut self.intake));
        for commands in stuck {
            while let Some(waiting) = commands.pop_front_if(|waiting| waiting.since + COMMAND_WAIT <= now) {
                expired.push(waiting.ticket);
            }
        }
        let why = if may_apply {
            "no node leads its shard right now; try again"
        } else {
            "this node cannot reach the store: nothing was changed; try again"
        };
        for ticket in expired {
            self.refuse(ticket, Failure::Unavailable(why.to_owned()));
        }
    }

    pub(super) fn refuse(&mut self, ticket: Ticket, failure: Failure) {
        self.outputs.push(Output::Answer { ticket, answer: Err(failure) });
    }

    pub(super) fn release(&mut self, effects: Vec<(ShardId, Effect)>) {
        if self.membership.as_ref().is_some_and(|members| !members.holds(self.lived())) {
            return self.withheld.extend(effects);
        }
        for (_, mut effect) in effects {
            if let Effect::Order { worker, order: Order::Assign(assignment) } = &mut effect
                && !self.may_leave(worker, assignment)
            {
                continue;
            }
            if let Effect::CrossShard(request) = &effect
                && request.starts_for().is_some_and(|sender| !self.is_under_way(sender.run, sender.token))
            {
                continue;
            }
            self.outputs.push(match effect {
                Effect::Answer { ticket, answer } => {
                    Output::Answer { ticket, answer: answer.map_err(Failure::Refused) }
                }
                Effect::Order { worker, order } => Output::Order { worker, order },
                Effect::CrossShard(request) => Output::CrossShard(request),
            });
        }
    }

    fn is_under_way(&self, run: RunId, token: Token) -> bool {
        self.shard(run.shard()).is_some_and(|shard| shard.runs_under(run, token))
    }

    /// Whether an assignment may still be sent after its commit: meanwhile the attempt may have been given up, or its
    /// worker may have left. A shard that was reloaded offers the assignment again.
    ///
    /// A worker that has joined anew meanwhile does not count the credit of its earlier connection, so the assignment is
    /// sent with `again`, which uses no credit.
    fn may_leave(&mut self, worker: &WorkerId, assignment: &mut Assignment) -> bool {
        let Assignment { run, token, again, .. } = *assignment;
        if !self.is_under_way(run, token) {
            return false;
        }
        let is_present = self.pool.roster().is_present(worker);
        if is_present || again {
            // A worker that gets an assignment again may already have it and come back with it: the lease starts now.
            assignment.again |= !self.pool.sent(worker, run, token, self.elapsed);
        } else if self.entry(run.shard()).is_some_and(|entry| entry.leaving.is_none()) {
            // The assignment was never sent, so no worker would ever report on it.
            let (worker, report) = (worker.clone(), Report::Declined { run, token });
            self.apply(run.shard(), Event::Report { worker, report });
        }
        is_present
    }
}

impl Joining {
    /// Keeps a joining worker's reports about itself, the newest of each kind.
    fn hear(&mut self, report: Report) {
        let kind = std::mem::discriminant(&report);
        let before = self.said.iter().position(|said| std::mem::discriminant(said) == kind);
        let report = match (report, before.map(|index| self.said.remove(index))) {
            // A total only grows: a smaller one comes late.
            (Report::Lent { total }, Some(Report::Lent { total: before })) => {
                Report::Lent { total: total.max(before) }
            }
            (report, _) => report,
        };
        self.said.push(report);
    }
}

/// The size of a waiting report.
pub(super) fn size_of_report(report: &Report) -> usize {
    match report {
        Report::Finished { outcome, .. } => size_of::<Report>() + outcome.output.len() + outcome.error.len(),
        _ => size_of::<Report>(),
    }
}

/// The answer to a command for a shard that does not exist. Only an invalid id leads here, so its run, message or
/// incident does not exist either.
fn no_such_shard(command: &Command) -> Result<Answer, Failure> {
    let failure = match command {
        Command::Queue(Ask::Act(_)) => return Ok(Answer::Queue(Said::Acted(Acted::default()))),
        Command::Queue(Ask::Show { .. }) => return Ok(Answer::Queue(Said::Shown(None))),
        Command::Queue(Ask::Working { .. }) => {
            return Ok(Answer::Queue(Said::Refused(QueueRefusal::NoSuchMessage)));
        }
        Command::CancelRun { run, .. }
        | Command::MoveRun { run, .. }
        | Command::DiscardDeadLetter { run, .. }
        | Command::Progress { run, .. }
        | Command::ActOnSteps(ActOnSteps { run, .. })
        | Command::RetryRun(RetryRun { run, .. }) => Failure::Refused(Refusal::NoSuchRun(*run)),
        Command::ActOnIncident(ask) => Failure::Refused(Refusal::NoSuchIncident(ask.incident)),
        _ => Failure::Unavailable("the store has no shard for it; check the id".to_owned()),
    };
    Err(failure)
}
