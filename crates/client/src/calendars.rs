//! Calendars.

use punctual_core::command::Expect;
use punctual_core::name::{Name, Namespace};
use punctual_wire::calendar_file::CalendarFile;
use punctual_wire::rest::{Calendar, Day, MADE_HEADER, Made, Page};
use reqwest::Method;
use reqwest::header::{IF_MATCH, IF_NONE_MATCH};

use crate::{ANSWER_MAX, Client, Result};

/// What a put did, and the resulting calendar.
#[derive(Debug, Clone, PartialEq)]
pub struct PutCalendar {
    pub made: Made,
    pub calendar: Calendar,
}

impl Client {
    pub async fn put_calendar(
        &self,
        namespace: &Namespace,
        name: &Name,
        file: &CalendarFile,
        expect: Expect,
    ) -> Result<PutCalendar> {
        let request = self.in_namespace(Method::PUT, namespace, &format!("/calendars/{name}")).json(file);
        let request = match expect {
            Expect::Anything => request,
            Expect::Absent => request.header(IF_NONE_MATCH, "*"),
            Expect::Revision(version) => request.header(IF_MATCH, format!("\"{version}\"")),
        };
        let response = self.send(request.timeout(ANSWER_MAX)).await?;
        let made = response.headers().get(MADE_HEADER).and_then(|made| made.to_str().ok());
        let made = made.and_then(Made::parse).unwrap_or(Made::Changed);
        Ok(PutCalendar { made, calendar: self.read(response).await? })
    }

    pub async fn calendar(&self, namespace: &Namespace, name: &Name) -> Result<Calendar> {
        self.get(self.in_namespace(Method::GET, namespace, &format!("/calendars/{name}"))).await
    }

    pub async fn calendars(
        &self,
        namespace: &Namespace,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Calendar>> {
        let request = self.in_namespace(Method::GET, namespace, "/calendars").query(&[("limit", limit)]);
        self.get(request.query(&after.map(|after| [("after", after)]))).await
    }

    pub async fn delete_calendar(&self, namespace: &Namespace, name: &Name) -> Result<()> {
        let request = self.in_namespace(Method::DELETE, namespace, &format!("/calendars/{name}"));
        self.send(request.timeout(ANSWER_MAX)).await.map(drop)
    }

    /// How a calendar rates the days from one to another, both included, written like 2026-10-01.
    pub async fn calendar_days(
        &self,
        namespace: &Namespace,
        name: &Name,
        from: Option<&str>,
        to: Option<&str>,
    ) -> Result<Page<Day>> {
        let request = self.in_namespace(Method::GET, namespace, &format!("/calendars/{name}/days"));
        let bounds = [("from", from), ("to", to)];
        let bounds: Vec<_> = bounds.into_iter().filter_map(|(name, day)| Some((name, day?))).collect();
        self.get(request.query(&bounds)).await
    }
}
