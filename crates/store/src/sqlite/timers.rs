//! Reads of messages and timers, from the message log and the rows together.

use std::sync::Arc;

use punctual_core::change::{TimerPage, TimerPosition};
use punctual_core::ids::ShardId;
use punctual_core::queue::{Message, QueueNumber};
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::{Row, Rows, params_from_iter};

use super::failure::Failure;
use super::message_log::Guard;
use super::queries;
use super::session::{Session, ready};
use crate::page_bytes::PageBytes;
use crate::sql::dialect::Dialect;
use crate::sql::messages::Which;
use crate::sql::shard::{message_place, run_place};
use crate::sql::value::Row as Columns;
use crate::sql::{decode, records};
use crate::{Result, live_key};

impl Session<'_> {
    /// Merges a page of rows with the messages of the log.
    pub(super) fn messages(
        &self,
        log: Guard<'_>,
        queue: (ShardId, QueueNumber),
        which: Which,
        limit: usize,
    ) -> Result<Vec<Arc<Message>>> {
        let mut logged = log.page(queue, which, limit).into_iter().peekable();
        drop(log);
        let (statement, mut values) = which.statement(queue);
        values.push(limit.into());
        let comes_first = |a: &Message, b: &Message| match which {
            Which::QueuedFromEnd => a.position() > b.position(),
            Which::All { .. } | Which::Queued { .. } => a.position() < b.position(),
        };
        self.own(|connection| {
            let mut statement = connection.prepare_cached(&Dialect::Sqlite.statement(statement.read).text)?;
            let mut found = statement.query(params_from_iter(&values))?;
            let mut row = found.next()?.map(|row| decode::message(row)).transpose()?;
            let (mut page, mut bytes) = (Vec::new(), PageBytes::default());
            while page.len() < limit && !bytes.is_full() {
                let is_first =
                    |message: &Arc<Message>| row.as_ref().is_none_or(|row| comes_first(message, row));
                let next = match logged.next_if(is_first) {
                    Some(message) => message,
                    None => match row.take() {
                        Some(message) => {
                            row = found.next()?.map(|row| decode::message(row)).transpose()?;
                            message
                        }
                        None => break,
                    },
                };
                bytes.add(&next);
                page.push(next);
            }
            Ok(page)
        })
    }
}

/// Jobs, waiting runs and messages have three indexes in the same order; this merges them, and the messages of the log.
pub(super) fn due(
    s: &mut Session<'_>,
    log: Guard<'_>,
    shard: ShardId,
    after: TimerPosition,
    limit: usize,
) -> Result<TimerPage> {
    let mut logged = log.due(shard, after, limit).into_iter().peekable();
    drop(log);
    let (at, most) = (after.at.as_millis(), i64::try_from(limit).unwrap_or(i64::MAX));
    let (mut page, mut runs_found, mut bytes) = (TimerPage::default(), Vec::new(), PageBytes::default());
    s.own(|connection| {
        let prepared = |sql| connection.prepare_cached(&Dialect::Sqlite.statement(sql).text);
        let (mut jobs, mut runs) = (prepared(queries::jobs::DUE)?, prepared(queries::runs::DUE)?);
        let mut messages = prepared(queries::messages::DUE)?;
        let mut jobs = jobs.query((shard.0, at, after.id, most))?;
        let mut runs = runs.query((shard.0, at, live_key::through(shard, after.id), most))?;
        let mut messages = messages.query((shard.0, at, after.id, most))?;
        let mut next_job = advance(&mut jobs, job_place)?;
        let mut next_run = advance(&mut runs, |row| run_place(row))?;
        let mut next_message = advance(&mut messages, row_message_place)?;
        for _ in 0..limit {
            let next_logged = logged.peek().map(|message| message_place(message));
            let next = [next_job, next_run, next_message, next_logged];
            let Some(place) = next.into_iter().flatten().min() else { break };
            page.end = Some(place);
            if next_job == Some(place) {
                page.jobs.extend(jobs.get().map(|row| decode::job(row, s.definitions)).transpose()?);
                next_job = advance(&mut jobs, job_place)?;
            } else if next_run == Some(place) {
                runs_found.extend(runs.get().map(|row| decode::run(row, 2)).transpose()?);
                next_run = advance(&mut runs, |row| run_place(row))?;
            } else {
                let message = if next_logged == Some(place) {
                    logged.next()
                } else {
                    messages.get().map(|row| decode::message(row)).transpose()?
                };
                page.messages.extend(message.inspect(|message| bytes.add(message)));
                if bytes.is_full() {
                    break;
                }
                if next_logged != Some(place) {
                    next_message = advance(&mut messages, row_message_place)?;
                }
            }
        }
        Ok(())
    })?;
    let runs = runs_found.into_iter().map(|run| (run, false)).collect();
    page.runs = ready(Box::pin(records::records(s, runs)))?;
    Ok(page)
}

/// Goes to the next row and returns its place. `None` means there is no next row.
fn advance(
    rows: &mut Rows<'_>,
    place_of: fn(&Row<'_>) -> Result<TimerPosition>,
) -> Result<Option<TimerPosition>, Failure> {
    rows.advance()?;
    Ok(rows.get().map(place_of).transpose()?)
}

fn job_place(row: &Row<'_>) -> Result<TimerPosition> {
    let row: &dyn Columns = row;
    Ok(TimerPosition { at: row.instant(9)?, id: row.int(0)? })
}

fn row_message_place(row: &Row<'_>) -> Result<TimerPosition> {
    let row: &dyn Columns = row;
    Ok(TimerPosition { at: row.instant(5)?, id: row.int(2)? })
}
