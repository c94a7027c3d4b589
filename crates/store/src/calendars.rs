//! Changes of calendars. Jobs follow a calendar later, so a changed one is not settled until every job follows it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use punctual_core::Timestamp;
use punctual_core::command::Expect;
use punctual_core::name::{Name, Namespace};
use punctual_core::schedule::calendar;

use crate::Result;

/// Changes of calendars.
#[async_trait]
pub trait Calendars: Send + Sync + fmt::Debug {
    /// Puts a calendar if `expect` holds for the stored one. It gets a version that no calendar of this store ever had,
    /// and is not settled. Durable when it returns.
    async fn put_calendar(&self, put: PutCalendar) -> Result<Swap>;

    /// Removes a calendar if `expect` holds for it. Durable when it returns.
    async fn delete_calendar(&self, namespace: &Namespace, name: &Name, expect: Expect) -> Result<Swap>;

    /// Records that every job follows this version of a calendar. Does nothing if the calendar has another version by
    /// now.
    async fn settle_calendar(&self, namespace: &Namespace, name: &Name, version: u32) -> Result<()>;
}

#[derive(Debug, Clone, PartialEq)]
pub struct PutCalendar {
    pub namespace: Namespace,
    pub name: Name,
    pub days: calendar::Days,
    pub description: String,
    pub at: Timestamp,
    pub expect: Expect,
}

/// The outcome of a compare-and-swap on a version.
#[derive(Debug, Clone, PartialEq)]
pub enum Swap<T = Arc<calendar::Record>> {
    /// What is stored after the change; for a delete, as it was before.
    Done(T),
    /// Nothing changed: `actual` is the stored version. `None` means there is nothing of this name.
    Refused { actual: Option<u32> },
}
