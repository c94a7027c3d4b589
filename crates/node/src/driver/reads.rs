//! Reads in progress: rows for commands, and pages of timers.
//!
//! A read that began before a commit was confirmed may not have seen its rows. Therefore the pins of a commit are
//! released only when every read that began before its confirmation has returned. Reads are numbered for this.

use std::collections::{BTreeSet, VecDeque};

use punctual_core::change::{Found, TimerPage};
use punctual_core::ids::ShardId;
use punctual_core::limits::LIVE_RUNS_MAX;
use punctual_engine::{Context, Event};
use punctual_store::Error;
use rustc_hash::FxHashSet;

use super::shard_entry::Standing;
use super::{Driver, Output, Waiting};
use crate::failure::Failure;

/// Maximum number of rows in one fetch.
const WANTS_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Reads {
    next: u64,
    pub(super) under_way: BTreeSet<u64>,
    fetching: Option<Fetching>,
    /// Committed seals, with the number of the first read that begins after the commit.
    releases: VecDeque<(u64, Vec<(ShardId, u64)>)>,
}

#[derive(Debug)]
struct Fetching {
    read: u64,
    /// The number of commands, from the head of each shard's queue, that this read serves.
    commands: Vec<(ShardId, usize)>,
}

impl Reads {
    pub(super) fn begin(&mut self) -> u64 {
        self.next += 1;
        self.under_way.insert(self.next);
        self.next
    }

    pub(super) fn release_after_those_under_way(&mut self, seals: Vec<(ShardId, u64)>) {
        self.releases.push_back((self.next + 1, seals));
    }

    fn releasable(&mut self) -> Option<Vec<(ShardId, u64)>> {
        let oldest = self.under_way.first().copied().unwrap_or(u64::MAX);
        self.releases.front().filter(|(began_after, _)| *began_after <= oldest)?;
        self.releases.pop_front().map(|(_, seals)| seals)
    }

    /// A shard's memory was discarded: ignore what is still being read for it.
    pub(super) fn forget(&mut self, shard: ShardId) {
        if let Some(fetching) = &mut self.fetching {
            fetching.commands.retain(|(of, _)| *of != shard);
        }
        for (_, seals) in &mut self.releases {
            seals.retain(|(of, _)| *of != shard);
        }
    }
}

impl Driver {
    pub(super) fn release_pins(&mut self) {
        while let Some(seals) = self.reads.releasable() {
            for (shard, seal) in seals {
                if let Some(Standing::Leading(shard)) = self.entry(shard).map(|entry| &mut entry.standing) {
                    shard.release_pins(seal);
                }
            }
        }
    }

    /// Fetches the rows that commands wait for; one fetch at a time.
    pub(super) fn ask_for_rows(&mut self) {
        if self.reads.fetching.is_some() {
            return;
        }
        let (mut wants, mut commands) = (Vec::new(), Vec::new());
        let mut seen = FxHashSet::default();
        for entry in &mut self.shards {
            let Standing::Leading(shard) = &entry.standing else { continue };
            if entry.commands.is_empty() || wants.len() >= WANTS_MAX {
                continue;
            }
            let mut count = 0;
            for waiting in entry.commands.iter_mut() {
                if wants.len() >= WANTS_MAX {
                    break;
                }
                count += 1;
                for want in shard.wants(&waiting.command).into_iter().chain(waiting.more.drain(..)) {
                    if !waiting.asked.contains(&want) {
                        waiting.asked.push(want);
                    }
                }
                // Request all of them again: rows of an earlier read have left memory since.
                for want in &waiting.asked {
                    if seen.insert((entry.id, want.clone())) {
                        wants.push((entry.id, want.clone()));
                    }
                }
            }
            commands.push((entry.id, count));
        }
        if commands.is_empty() {
            return;
        }
        let read = self.reads.begin();
        self.reads.fetching = Some(Fetching { read, commands });
        if wants.is_empty() {
            // The rows are in memory by now.
            return self.fetched(read, Ok(Found::default()));
        }
        self.outputs.push(Output::Fetch { read, wants });
    }

    pub(super) fn fetched(&mut self, read: u64, result: Result<Found, Error>) {
        self.reads.under_way.remove(&read);
        let Some(fetching) = self.reads.fetching.take_if(|fetching| fetching.read == read) else { return };
        match result {
            Ok(found) if self.may_apply() => self.serve(found, &fetching.commands),
            // The commands wait until the time is known, then their rows are read again.
            Ok(_) => {}
            Err(Error::Unusable(why)) => self.outputs.push(Output::Fail { why }),
            Err(error) => self.fail_fetch(&fetching.commands, &error),
        }
        self.release_pins();
    }

    /// Applies the commands that waited for these rows. A command that turns out to need more waits for another read.
    fn serve(&mut self, found: Found, commands: &[(ShardId, usize)]) {
        let mut parts = split(found, commands);
        for (id, count) in commands {
            let part = parts.iter_mut().find(|(of, _)| of == id).map(|(_, part)| std::mem::take(part));
            let Some(entry) = self.shards.get_mut(usize::from(id.0)) else { continue };
            let Standing::Leading(shard) = &mut entry.standing else { continue };
            shard.supply(part.unwrap_or_default());
            for _ in 0..*count {
                if !self.serve_next(*id) {
                    break;
                }
            }
            if let Some(Standing::Leading(shard)) = self.entry(*id).map(|entry| &mut entry.standing) {
                shard.supplied();
            }
            if let Some(entry) = self.entry(*id) {
                entry.note_wake();
            }
        }
    }

    /// False means the next command of this shard needs rows that were not requested.
    fn serve_next(&mut self, id: ShardId) -> bool {
        let Some(entry) = self.shards.get_mut(usize::from(id.0)) else { return false };
        let Standing::Leading(shard) = &entry.standing else { return false };
        let Some(first) = entry.commands.front_mut() else { return false };
        let mut more = shard.wants(&first.command);
        more.retain(|want| !first.asked.contains(want));
        if !more.is_empty() {
            // Remember them: the row that led to them leaves memory before the next read.
            first.more = more;
            return false;
        }
        let Some(Waiting { ticket, command, .. }) = entry.commands.pop_front() else { return false };
        self.apply(id, Event::Command { ticket, command });
        true
    }

    /// Refuses the commands whose rows could not be read. Commands that need no rows stay in the queue.
    fn fail_fetch(&mut self, commands: &[(ShardId, usize)], error: &Error) {
        let mut tickets = Vec::new();
        for (id, count) in commands {
            if let Some(entry) = self.entry(*id) {
                let behind = entry.commands.split_off((*count).min(entry.commands.len()));
                let (failed, unharmed): (VecDeque<_>, VecDeque<_>) =
                    entry.commands.drain(..).partition(|waiting| !waiting.asked.is_empty());
                entry.commands = unharmed;
                entry.commands.extend(behind);
                tickets.extend(failed.into_iter().map(|waiting| waiting.ticket));
            }
        }
        for ticket in tickets {
            self.refuse(ticket, Failure::Unavailable(format!("{error}; try again")));
        }
    }

    /// Requests timer pages for shards that run low, while there is room for the runs they will fire.
    pub(super) fn ask_for_pages(&mut self) {
        // Runs in queues do not count: they wait for messages, and a page may contain timers that end them.
        if self.pool.live_runs().saturating_sub(self.pool.in_queues()) > LIVE_RUNS_MAX / 2 {
            return;
        }
        let (now, elapsed) = (self.now, self.elapsed);
        for entry in &mut self.shards {
            let Standing::Leading(shard) = &mut entry.standing else { continue };
            if entry.paging.is_some() || entry.page_again_at.is_some_and(|at| at > elapsed) {
                continue;
            }
            let lane = usize::from(entry.id.0) % self.lanes.len();
            let effects = &mut self.lanes[lane].effects;
            let mut cx = Context { now, elapsed, shard: entry.id, pool: &mut self.pool, effects };
            if let Some((after, limit)) = shard.ask_page(&mut cx) {
                let read = self.reads.begin();
                entry.paging = Some(read);
                entry.note_wake();
                self.outputs.push(Output::Page { read, shard: entry.id, after, limit });
            }
        }
    }

    pub(super) fn paged(&mut self, read: u64, id: ShardId, result: Result<TimerPage, Error>) {
        self.reads.under_way.remove(&read);
        let (now, elapsed, lane) = (self.now, self.elapsed, self.lane_of(id));
        if let Some(entry) = self.shards.get_mut(usize::from(id.0))
            && entry.paging == Some(read)
        {
            entry.paging = None;
            if let Standing::Leading(shard) = &mut entry.standing {
                let effects = &mut self.lanes[lane].effects;
                let mut cx = Context { now, elapsed, shard: id, pool: &mut self.pool, effects };
                match result {
                    Ok(page) => {
                        entry.page_again_at = None;
                        shard.page(page, &mut cx);
                    }
                    Err(Error::Unusable(why)) => self.outputs.push(Output::Fail { why }),
                    Err(_) => {
                        entry.page_again_at = Some(elapsed + super::REST);
                        shard.page_failed();
                    }
                }
                entry.note_wake();
            }
        }
        self.release_pins();
    }
}

/// Splits the found rows by shard.
fn split(found: Found, commands: &[(ShardId, usize)]) -> Vec<(ShardId, Found)> {
    let mut parts: Vec<(ShardId, Found)> =
        commands.iter().map(|(shard, _)| (*shard, Found::default())).collect();
    let mut part = |shard: ShardId, put: &mut dyn FnMut(&mut Found)| {
        if let Some((_, part)) = parts.iter_mut().find(|(of, _)| *of == shard) {
            put(part);
        }
    };
    for job in found.jobs {
        part(job.shard(), &mut |found| found.jobs.push(job.clone()));
    }
    for record in found.runs {
        part(record.run.shard(), &mut |found| found.runs.push(record.clone()));
    }
    for step in found.steps {
        part(step.key.run.shard(), &mut |found| found.steps.push(step.clone()));
    }
    for unique in found.uniques {
        part(unique.holder.shard(), &mut |found| found.uniques.push(unique.clone()));
    }
    for message in found.messages {
        part(message.id.shard(), &mut |found| found.messages.push(message.clone()));
    }
    for due in found.due_runs {
        part(due.run.shard(), &mut |found| found.due_runs.push(due));
    }
    parts
}
