//! Calendars: few rows, changed by compare-and-swap on their version.

use std::sync::Arc;

use mysql_async::Row;
use punctual_core::command::Expect;
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::calendar::{Calendar, Record};

use super::doors::rows_max;
use super::failure::{Failure, Moment};
use super::link::Held;
use super::queries::calendars as queries;
use super::{Mysql, rows};
use crate::listing::holds;
use crate::{CalendarFilter, Error, PutCalendar, Result, Swap, codec};

impl Mysql {
    pub(super) async fn read_calendar(
        &self,
        namespace: &Namespace,
        name: &Name,
    ) -> Result<Option<Arc<Record>>> {
        let mut held = self.door().await?;
        let found = get(&mut held, queries::GET, namespace, name).await;
        held.finish(found, Moment::Reading).await
    }

    pub(super) async fn list_calendars(
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
        let sql = if filter.unsettled { queries::UNSETTLED } else { queries::LIST };
        let namespace = filter.namespace.as_ref().map(Namespace::as_str);
        let place = (after_namespace, after_namespace, after_name);
        let mut held = self.door().await?;
        let params = (place.0, place.1, place.2, namespace, namespace, rows_max(limit));
        let found = held.rows(sql, params).await;
        let records = found.and_then(|found| found.iter().map(record).collect());
        held.finish(records, Moment::Reading).await
    }

    pub(super) async fn change_calendar(&self, put: &PutCalendar) -> Result<Swap> {
        let mut held = self.changes.take().await?;
        let swapped = change(&mut held, put).await;
        held.commit(swapped).await
    }

    pub(super) async fn remove_calendar(
        &self,
        namespace: &Namespace,
        name: &Name,
        expect: Expect,
    ) -> Result<Swap> {
        let mut held = self.changes.take().await?;
        let swapped = remove(&mut held, namespace, name, expect).await;
        held.commit(swapped).await
    }

    pub(super) async fn mark_settled(&self, namespace: &Namespace, name: &Name, version: u32) -> Result<()> {
        let mut held = self.changes.take().await?;
        let key = (namespace.as_str(), name.as_str(), version);
        let settled = held.execute(queries::SETTLE, key).await.map(|_| ());
        held.finish(settled, Moment::Committing).await
    }
}

/// Locks the row of versions, so that calendars are changed one at a time. Returns the last version.
async fn lock(held: &mut Held<'_>) -> Result<u32, Failure> {
    held.step("START TRANSACTION").await?;
    let last = held.row(queries::LAST_VERSION, ()).await?;
    let last = last.ok_or_else(|| Error::Unusable("the row of calendar versions is gone".to_owned()))?;
    rows::number(&last, 0)
}

async fn change(held: &mut Held<'_>, put: &PutCalendar) -> Result<Swap, Failure> {
    let version = lock(held).await? + 1;
    let there = get(held, queries::GET, &put.namespace, &put.name).await?;
    let actual = there.map(|record| record.calendar.version);
    if !holds(put.expect, actual) {
        return Ok(Swap::Refused { actual });
    }
    held.execute(queries::SET_VERSION, (version,)).await?;
    let (days, at) = (codec::json(&put.days)?, put.at.as_millis());
    let key = (put.namespace.as_str(), put.name.as_str());
    if actual.is_some() {
        let params = (version, days, &put.description, at, key.0, key.1);
        held.execute(queries::UPDATE, params).await?;
    } else {
        let params = (key.0, key.1, version, days, &put.description, at);
        held.execute(queries::INSERT, params).await?;
    }
    let calendar = Calendar { name: put.name.clone(), version, days: put.days.clone() };
    Ok(Swap::Done(Arc::new(Record {
        namespace: put.namespace.clone(),
        calendar: Arc::new(calendar),
        description: put.description.clone(),
        updated_at: put.at,
        settled: false,
    })))
}

async fn remove(
    held: &mut Held<'_>,
    namespace: &Namespace,
    name: &Name,
    expect: Expect,
) -> Result<Swap, Failure> {
    lock(held).await?;
    let there = get(held, queries::GET, namespace, name).await?;
    let actual = there.as_ref().map(|record| record.calendar.version);
    match there {
        Some(record) if holds(expect, actual) => {
            held.execute(queries::DELETE, (namespace.as_str(), name.as_str())).await?;
            Ok(Swap::Done(record))
        }
        _ => Ok(Swap::Refused { actual }),
    }
}

async fn get(
    held: &mut Held<'_>,
    sql: &str,
    namespace: &Namespace,
    name: &Name,
) -> Result<Option<Arc<Record>>, Failure> {
    let found = held.row(sql, (namespace.as_str(), name.as_str())).await?;
    found.as_ref().map(record).transpose()
}

/// Reads the columns of `queries::calendar_columns`.
fn record(row: &Row) -> Result<Arc<Record>, Failure> {
    let calendar = Calendar {
        name: rows::name(rows::text(row, 1)?)?,
        version: rows::number(row, 2)?,
        days: codec::from_json(rows::text(row, 3)?)?,
    };
    Ok(Arc::new(Record {
        namespace: rows::name(rows::text(row, 0)?)?,
        calendar: Arc::new(calendar),
        description: rows::text(row, 4)?.to_owned(),
        updated_at: rows::instant(row, 5)?,
        settled: rows::int(row, 6)? != 0,
    }))
}
