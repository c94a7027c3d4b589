//! Calendars: changed by compare-and-swap on their version.

use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::command::Expect;
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::calendar::{Calendar, Record};

use super::Memory;
use super::tables::Tables;
use crate::listing::holds;
use crate::{Calendars, PutCalendar, Result, Swap};

#[async_trait]
impl Calendars for Memory {
    async fn put_calendar(&self, put: PutCalendar) -> Result<Swap> {
        Ok(self.tables.lock().put_calendar(put))
    }

    async fn delete_calendar(&self, namespace: &Namespace, name: &Name, expect: Expect) -> Result<Swap> {
        Ok(self.tables.lock().delete_calendar(namespace, name, expect))
    }

    async fn settle_calendar(&self, namespace: &Namespace, name: &Name, version: u32) -> Result<()> {
        self.tables.lock().settle_calendar(namespace, name, version);
        self.written.send_modify(|times| *times += 1);
        Ok(())
    }
}

impl Tables {
    pub(super) fn put_calendar(&mut self, put: PutCalendar) -> Swap {
        let PutCalendar { namespace, name, days, description, at, expect } = put;
        let key = (namespace.clone(), name.clone());
        let actual = self.calendars.get(&key).map(|record| record.calendar.version);
        if !holds(expect, actual) {
            return Swap::Refused { actual };
        }
        self.calendar_version += 1;
        let calendar = Arc::new(Calendar { name, version: self.calendar_version, days });
        let record = Arc::new(Record { namespace, calendar, description, updated_at: at, settled: false });
        self.calendars.insert(key, Arc::clone(&record));
        Swap::Done(record)
    }

    pub(super) fn delete_calendar(&mut self, namespace: &Namespace, name: &Name, expect: Expect) -> Swap {
        let key = (namespace.clone(), name.clone());
        let actual = self.calendars.get(&key).map(|record| record.calendar.version);
        match self.calendars.remove(&key) {
            Some(record) if holds(expect, actual) => Swap::Done(record),
            Some(record) => {
                self.calendars.insert(key, record);
                Swap::Refused { actual }
            }
            None => Swap::Refused { actual },
        }
    }

    pub(super) fn settle_calendar(&mut self, namespace: &Namespace, name: &Name, version: u32) {
        if let Some(record) = self.calendars.get_mut(&(namespace.clone(), name.clone()))
            && record.calendar.version == version
        {
            Arc::make_mut(record).settled = true;
        }
    }
}
