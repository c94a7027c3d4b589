//! Calendars: put, show, list, delete, and which days they include.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use punctual_core::command::{Expect, Made, Refusal};
use punctual_core::schedule::calendar::{Entry, Record};
use punctual_node::calendars::EditCalendar;
use punctual_store::CalendarFilter;
use punctual_wire::rest::{self, Calendar, Day, Page, Problem};
use punctual_wire::tree::Node;
use punctual_wire::{Text, calendar_file};
use serde::Deserialize;

use super::body::FileBody;
use super::problem::Failed;
use super::request::{Asked, ByName, Expected, In, Named, page_limit};
use crate::Endpoints;

/// Days shown in one answer: almost three years.
const DAYS_MAX: i64 = 1_000;
/// Days shown when the request names no end.
const DAYS_DEFAULT: i64 = 31;
const DAY_MILLIS: i64 = 86_400_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Span {
    from: Option<Text<Entry>>,
    to: Option<Text<Entry>>,
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    Asked(listing): Asked<ByName>,
) -> Result<Json<Page<Calendar>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let filter = CalendarFilter { namespace: Some(namespace.clone()), unsettled: false };
    let after = listing.after.map(|name| (namespace, name));
    let calendars = endpoints.handle.reads().calendars(&filter, after, limit + 1).await?;
    let page = Page::cut(calendars, limit, |record| record.calendar.name.to_string());
    Ok(Json(Page {
        items: page.items.iter().map(|record| Calendar::from(&**record)).collect(),
        next: page.next,
    }))
}

pub(crate) async fn put(
    State(endpoints): State<Endpoints>,
    at: Named,
    Expected(expect): Expected,
    FileBody { node, source }: FileBody,
) -> Result<Response, Failed> {
    save(&endpoints, at, expect, node).await.map_err(|failed| source.located(failed))
}

async fn save(endpoints: &Endpoints, at: Named, expect: Expect, node: Node) -> Result<Response, Failed> {
    let draft = calendar_file::read_for(node, &at.namespace, &at.name)?;
    let calendar_file::Draft { namespace, name, days, description } = draft;
    let edit = EditCalendar { namespace, name, days, description, expect };
    let (record, made) = endpoints.handle.put_calendar(edit).await?;
    let status = if made == Made::Created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [(rest::MADE_HEADER, rest::Made::from(made).as_str())], tagged(&record)).into_response())
}

pub(crate) async fn show(State(endpoints): State<Endpoints>, at: Named) -> Result<Response, Failed> {
    Ok(tagged(&*find(&endpoints, at).await?))
}

pub(crate) async fn delete(
    State(endpoints): State<Endpoints>,
    at: Named,
    Expected(expect): Expected,
) -> Result<StatusCode, Failed> {
    endpoints.handle.delete_calendar(at.namespace, at.name, expect).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn days(
    State(endpoints): State<Endpoints>,
    at: Named,
    Asked(span): Asked<Span>,
) -> Result<Json<Page<Day>>, Failed> {
    let today = endpoints.clock.now().as_millis().div_euclid(DAY_MILLIS);
    let from = span.from.map_or(Ok(today), |from| day("from", from.0))?;
    let to = span.to.map_or(Ok(from + DAYS_DEFAULT - 1), |to| day("to", to.0))?;
    if to < from {
        return Err(Problem::parameter("to", "must not be before `from`").into());
    }
    if to - from >= DAYS_MAX {
        return Err(Problem::parameter("to", format!("must be at most {DAYS_MAX} days after `from`")).into());
    }
    let record = find(&endpoints, at).await?;
    let items = (from..=to).map(|day| Day::of(&record.calendar.days, day)).collect();
    Ok(Json(Page { items, next: None }))
}

fn day(parameter: &'static str, entry: Entry) -> Result<i64, Failed> {
    match entry {
        Entry::Span { first, last } if first == last => Ok(first),
        _ => Err(Problem::parameter(parameter, "must be one day, like 2026-10-01").into()),
    }
}

async fn find(endpoints: &Endpoints, at: Named) -> Result<std::sync::Arc<Record>, Failed> {
    let record = endpoints.handle.reads().calendar(&at.namespace, &at.name).await?;
    record.ok_or_else(|| {
        let Named { namespace, name } = at;
        Failed(Refusal::NoSuchCalendar { namespace, name }.into())
    })
}

/// A calendar with its version as the ETag that `If-Match` accepts.
fn tagged(record: &Record) -> Response {
    let tag = format!("\"{}\"", record.calendar.version);
    ([(header::ETAG, tag)], Json(Calendar::from(record))).into_response()
}

#[cfg(test)]
mod tests;
