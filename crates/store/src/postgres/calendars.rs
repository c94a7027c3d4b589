//! Calendars: few rows, changed by compare-and-swap on their version.
//!
//! Each change locks the row with the last version, so that when two nodes create the same calendar at once, the second
//! sees the first.

use std::sync::Arc;

use punctual_core::command::Expect;
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::calendar::{Calendar, Record};
use tokio_postgres::Row;

use super::doors::rows_max;
use super::failure::Failure;
use super::link::{Ask, Link, ask};
use super::{Postgres, queries, rows};
use crate::listing::holds;
use crate::{CalendarFilter, PutCalendar, Result, Swap, codec};

impl Postgres {
    pub(super) async fn one_calendar(
        &self,
        namespace: &Namespace,
        name: &Name,
    ) -> Result<Option<Arc<Record>>> {
        let found = self.doors.take().await?.read(get(namespace, name)).await?;
        found.first().map(record).transpose()
    }

    pub(super) async fn list_calendars(
        &self,
        filter: &CalendarFilter,
        after: Option<(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Record>>> {
        // No name is empty, so an empty name sorts before all.
        let (after_namespace, after_name) = match after {
            Some((namespace, name)) => (namespace.as_str().to_owned(), name.as_str().to_owned()),
            None => (String::new(), String::new()),
        };
        let sql = if filter.unsettled { queries::calendars::UNSETTLED } else { queries::calendars::LIST };
        let namespace = filter.namespace.as_ref().map(|namespace| namespace.as_str().to_owned());
        let ask = ask!(sql, after_namespace, after_name, namespace, rows_max(limit));
        let found = self.doors.take().await?.read(ask).await?;
        found.iter().map(record).collect()
    }

    pub(super) async fn swap_calendar(&self, put: PutCalendar) -> Result<Swap> {
        let mut link = self.lease.take().await?;
        let actual = link.alone_with(&put.namespace, &put.name).await?.map(|there| there.calendar.version);
        if !holds(put.expect, actual) {
            link.finish(Vec::new()).await?;
            return Ok(Swap::Refused { actual });
        }
        let next = link.step_alone(ask!(queries::calendars::NEXT_VERSION)).await?;
        let version = next.first().map_or(Ok(0), |row| rows::number(row, 0))?;
        let sql = if actual.is_some() { queries::calendars::UPDATE } else { queries::calendars::INSERT };
        let write = ask!(
            sql,
            put.namespace.as_str().to_owned(),
            put.name.as_str().to_owned(),
            i64::from(version),
            codec::json(&put.days)?,
            codec::json(&put.description)?,
            put.at.as_millis(),
        );
        link.finish(vec![write]).await?;
        let PutCalendar { namespace, name, days, description, at, .. } = put;
        let calendar = Arc::new(Calendar { name, version, days });
        Ok(Swap::Done(Arc::new(Record { namespace, calendar, description, updated_at: at, settled: false })))
    }

    pub(super) async fn remove_calendar(
        &self,
        namespace: &Namespace,
        name: &Name,
        expect: Expect,
    ) -> Result<Swap> {
        let mut link = self.lease.take().await?;
        let there = link.alone_with(namespace, name).await?;
        let actual = there.as_ref().map(|record| record.calendar.version);
        match there {
            Some(record) if holds(expect, actual) => {
                let key = (namespace.as_str().to_owned(), name.as_str().to_owned());
                link.finish(vec![ask!(queries::calendars::DELETE, key.0, key.1)]).await?;
                Ok(Swap::Done(record))
            }
            _ => {
                link.finish(Vec::new()).await?;
                Ok(Swap::Refused { actual })
            }
        }
    }

    pub(super) async fn mark_settled(&self, namespace: &Namespace, name: &Name, version: u32) -> Result<()> {
        let key = (namespace.as_str().to_owned(), name.as_str().to_owned());
        let settle = ask!(queries::calendars::SETTLE, key.0, key.1, i64::from(version));
        self.lease.take().await?.write(vec![settle]).await?;
        Ok(())
    }
}

impl Link {
    /// Begins a change of a calendar, and locks out other changes.
    async fn alone_with(&mut self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Record>>> {
        self.is_busy = true;
        self.step_alone(ask!(queries::BEGIN)).await?;
        self.step_alone(ask!(queries::calendars::ALONE)).await?;
        let found = self.step_alone(get(namespace, name)).await?;
        found.first().map(record).transpose()
    }

    async fn step_alone(&mut self, ask: Ask) -> Result<Vec<Row>> {
        let answer = self.ask(ask).await.map_err(Failure::writing)?;
        Ok(answer.rows)
    }

    async fn finish(&mut self, asks: Vec<Ask>) -> Result<()> {
        for ask in asks {
            self.step_alone(ask).await?;
        }
        let ended = self.ask(ask!(queries::COMMIT)).await;
        self.is_busy = ended.is_err();
        ended.map(|_| ()).map_err(Failure::committing)
    }
}

fn get(namespace: &Namespace, name: &Name) -> Ask {
    ask!(queries::calendars::GET, namespace.as_str().to_owned(), name.as_str().to_owned())
}

/// Reads the columns of `queries::calendar_columns`.
fn record(row: &Row) -> Result<Arc<Record>> {
    let calendar = Calendar {
        name: rows::name(rows::get(row, 1)?)?,
        version: rows::number(row, 2)?,
        days: codec::from_json(rows::get(row, 3)?)?,
    };
    Ok(Arc::new(Record {
        namespace: rows::name(rows::get(row, 0)?)?,
        calendar: Arc::new(calendar),
        description: codec::from_json(rows::get(row, 4)?)?,
        updated_at: rows::instant(row, 5)?,
        settled: rows::get(row, 6)?,
    }))
}
