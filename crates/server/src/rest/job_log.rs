//! The log of a job: one line per run, newest first, each with its command and its output.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use punctual_core::Timestamp;
use punctual_core::ids::RunId;
use punctual_core::job::{Definition, Job};
use punctual_core::run::{Origin, Run};
use punctual_store::{Children, RunFilter};
use punctual_wire::Text;
use punctual_wire::rest::{LogRecord, Page};
use serde::Deserialize;

use super::problem::Failed;
use super::request::{Asked, Named, page_limit};
use super::runs::statuses;
use crate::Endpoints;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    /// One or several states, separated by commas.
    state: Option<String>,
    since: Option<Text<Timestamp>>,
    until: Option<Text<Timestamp>>,
    limit: Option<Text<usize>>,
    after: Option<Text<RunId>>,
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    at: Named,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<LogRecord>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let statuses = listing.state.as_deref().map(statuses).transpose()?.unwrap_or_default();
    let job = endpoints.find_job(&at.namespace, &at.name).await?;
    let filter = RunFilter {
        namespace: Some(at.namespace),
        jobs: vec![job.id],
        statuses,
        since: listing.since.map(|since| since.0),
        until: listing.until.map(|until| until.0),
        children: Children::LeftOut,
        ..RunFilter::default()
    };
    let runs = endpoints.handle.reads().runs(&filter, listing.after.map(|after| after.0), limit + 1).await?;
    let page = Page::cut(runs, limit, |run| run.id.to_string());
    let mut definitions = BTreeMap::from([(job.revision, Some(Arc::clone(&job.definition)))]);
    let mut items = Vec::with_capacity(page.items.len());
    for run in &page.items {
        let definition = definition_of(&endpoints, &job, run, &mut definitions).await?;
        items.push(LogRecord::of(run, definition.as_deref()));
    }
    Ok(Json(Page { items, next: page.next }))
}

/// Most runs of a page share few revisions: each is read once.
async fn definition_of(
    endpoints: &Endpoints,
    job: &Job,
    run: &Run,
    known: &mut BTreeMap<u32, Option<Arc<Definition>>>,
) -> Result<Option<Arc<Definition>>, Failed> {
    let Origin::Job { revision, .. } = &run.origin else { return Ok(None) };
    if let Some(definition) = known.get(revision) {
        return Ok(definition.clone());
    }
    let found = endpoints.handle.reads().revision(job.id, *revision).await?;
    let definition = found.map(|found| Arc::clone(&found.definition));
    known.insert(*revision, definition.clone());
    Ok(definition)
}
