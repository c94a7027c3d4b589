//! Calendars: few rows, changed by compare-and-swap on their version.
//!
//! Each change locks the row with the last version, so that when two nodes create the same calendar at once, the second
//! sees the first.

use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::command::Expect;
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::calendar::{Calendar, Record};

use super::backend::{Backend, Purpose, Scope, work};
use super::connection::{Connection, ask};
use super::decode;
use super::queries::calendars as queries;
use crate::listing::holds;
use crate::{Calendars, Error, PutCalendar, Result, Swap, codec};

#[async_trait]
impl<B: Backend> Calendars for B {
    async fn put_calendar(&self, new: PutCalendar) -> Result<Swap> {
        self.run(Purpose::Change, Scope::Transaction, work!(|c| put(c, new).await)).await
    }

    async fn delete_calendar(&self, namespace: &Namespace, name: &Name, expect: Expect) -> Result<Swap> {
        let key = (namespace.clone(), name.clone());
        self.run(Purpose::Change, Scope::Transaction, work!(|c| delete(c, key, expect).await)).await
    }

    async fn settle_calendar(&self, namespace: &Namespace, name: &Name, version: u32) -> Result<()> {
        let (namespace, name) = (namespace.as_str().to_owned(), name.as_str().to_owned());
        self.execute(Purpose::Change, ask!(queries::SETTLE, namespace, name, version)).await.map(|_| ())
    }
}

async fn get(c: &mut dyn Connection, namespace: &Namespace, name: &Name) -> Result<Option<Arc<Record>>> {
    c.one(ask!(queries::GET, namespace.as_str(), name.as_str()), decode::calendar).await
}

/// Locks out other changes. Returns the last version that any calendar or descriptor set was given.
pub(super) async fn lock(c: &mut dyn Connection) -> Result<u32> {
    let last = c.one(ask!(queries::LAST_VERSION), |row| row.number(0)).await?;
    last.ok_or_else(|| Error::Unusable("the row with the last calendar version is missing".to_owned()))
}

async fn put(c: &mut dyn Connection, put: PutCalendar) -> Result<Swap> {
    let version = lock(c).await? + 1;
    let actual = get(c, &put.namespace, &put.name).await?.map(|stored| stored.calendar.version);
    if !holds(put.expect, actual) {
        return Ok(Swap::Refused { actual });
    }
    let sql = if actual.is_some() { queries::UPDATE } else { queries::INSERT };
    let (days, description) = (codec::json(&put.days)?, codec::json(&put.description)?);
    let (namespace, name) = (put.namespace.as_str(), put.name.as_str());
    c.execute(&[
        ask!(queries::SET_VERSION, version),
        ask!(sql, version, days, description, put.at, namespace, name),
    ])
    .await?;
    let PutCalendar { namespace, name, days, description, at, .. } = put;
    let calendar = Arc::new(Calendar { name, version, days });
    Ok(Swap::Done(Arc::new(Record { namespace, calendar, description, updated_at: at, settled: false })))
}

async fn delete(
    c: &mut dyn Connection,
    (namespace, name): (Namespace, Name),
    expect: Expect,
) -> Result<Swap> {
    lock(c).await?;
    let stored = get(c, &namespace, &name).await?;
    let actual = stored.as_ref().map(|record| record.calendar.version);
    match stored {
        Some(record) if holds(expect, actual) => {
            c.execute(&[ask!(queries::DELETE, namespace.as_str(), name.as_str())]).await?;
            Ok(Swap::Done(record))
        }
        _ => Ok(Swap::Refused { actual }),
    }
}
