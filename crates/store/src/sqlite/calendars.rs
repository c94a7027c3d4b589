//! Calendars: few rows, changed by compare-and-swap on their version.

use std::sync::Arc;

use punctual_core::command::Expect;
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::calendar::{Calendar, Record};
use rusqlite::{Connection, OptionalExtension, Row};

use super::doors::rows_max;
use super::failure::Failure;
use super::reader::Snapshot;
use super::writer::Writer;
use super::{queries, rows};
use crate::listing::holds;
use crate::{CalendarFilter, PutCalendar, Swap, codec};

type Result<T, E = Failure> = std::result::Result<T, E>;

impl Snapshot<'_> {
    pub(super) fn calendar(&self, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Record>>> {
        get(self.connection, namespace, name)
    }

    pub(super) fn calendars(
        &self,
        filter: &CalendarFilter,
        after: Option<&(Namespace, Name)>,
        limit: usize,
    ) -> Result<Vec<Arc<Record>>> {
        // No name is empty, so an empty name sorts before all.
        let (after_namespace, after_name) = match after {
            Some((namespace, name)) => (namespace.as_str(), name.as_str()),
            None => ("", ""),
        };
        let sql = if filter.unsettled { queries::calendars::UNSETTLED } else { queries::calendars::LIST };
        let namespace = filter.namespace.as_ref().map(Namespace::as_str);
        self.all(sql, (after_namespace, after_name, namespace, rows_max(limit)), record)
    }
}

impl Writer {
    pub(super) fn put_calendar(&mut self, put: &PutCalendar) -> crate::Result<Swap> {
        self.transact(|connection, _| {
            let there = get(connection, &put.namespace, &put.name)?;
            let actual = there.map(|record| record.calendar.version);
            if !holds(put.expect, actual) {
                return Ok(Swap::Refused { actual });
            }
            let version: u32 = connection
                .prepare_cached(queries::calendars::NEXT_VERSION)?
                .query_row([], |row| row.get(0))?;
            let sql = if actual.is_some() { queries::calendars::UPDATE } else { queries::calendars::INSERT };
            let days = codec::json(&put.days)?;
            let key = (put.namespace.as_str(), put.name.as_str());
            let params = (key.0, key.1, version, days, &put.description, put.at.as_millis());
            connection.prepare_cached(sql)?.execute(params)?;
            let calendar = Calendar { name: put.name.clone(), version, days: put.days.clone() };
            Ok(Swap::Done(Arc::new(Record {
                namespace: put.namespace.clone(),
                calendar: Arc::new(calendar),
                description: put.description.clone(),
                updated_at: put.at,
                settled: false,
            })))
        })
    }

    pub(super) fn delete_calendar(
        &mut self,
        namespace: &Namespace,
        name: &Name,
        expect: Expect,
    ) -> crate::Result<Swap> {
        self.transact(|connection, _| {
            let there = get(connection, namespace, name)?;
            let actual = there.as_ref().map(|record| record.calendar.version);
            match there {
                Some(record) if holds(expect, actual) => {
                    let mut delete = connection.prepare_cached(queries::calendars::DELETE)?;
                    delete.execute((namespace.as_str(), name.as_str()))?;
                    Ok(Swap::Done(record))
                }
                _ => Ok(Swap::Refused { actual }),
            }
        })
    }

    pub(super) fn settle_calendar(
        &mut self,
        namespace: &Namespace,
        name: &Name,
        version: u32,
    ) -> crate::Result<()> {
        self.transact(|connection, _| {
            let mut settle = connection.prepare_cached(queries::calendars::SETTLE)?;
            settle.execute((namespace.as_str(), name.as_str(), version))?;
            Ok(())
        })
    }
}

fn get(connection: &Connection, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Record>>> {
    let mut statement = connection.prepare_cached(queries::calendars::GET)?;
    let key = (namespace.as_str(), name.as_str());
    statement.query_row(key, |row| Ok(record(row))).optional()?.transpose()
}

/// Reads the columns of `queries::calendar_columns`.
fn record(row: &Row<'_>) -> Result<Arc<Record>> {
    let calendar = Calendar {
        name: rows::name(rows::text(row, 1)?)?,
        version: row.get(2)?,
        days: codec::from_json(rows::text(row, 3)?)?,
    };
    Ok(Arc::new(Record {
        namespace: rows::name(rows::text(row, 0)?)?,
        calendar: Arc::new(calendar),
        description: rows::text(row, 4)?.to_owned(),
        updated_at: rows::instant(row, 5)?,
        settled: row.get(6)?,
    }))
}
