//! Revisions of a job: when it was edited, its definition then, and what an edit changed.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use punctual_core::change;
use punctual_core::job::Job;
use punctual_wire::Text;
use punctual_wire::rest::{Code, Diff, Page, Problem, Revision, RevisionFile};
use serde::Deserialize;

use super::problem::Failed;
use super::request::{Asked, Named, RevisionAt, page_limit};
use crate::Endpoints;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    limit: Option<Text<usize>>,
    after: Option<Text<u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Comparison {
    from: Option<Text<u32>>,
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    at: Named,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<Revision>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let job = endpoints.find_job(&at.namespace, &at.name).await?;
    let before = listing.after.map(|after| after.0);
    // One more than the page: the last revision of the page is compared with it.
    let revisions = endpoints.handle.reads().revisions(job.id, before, limit + 1).await?;
    let items = revisions.iter().enumerate().map(|(index, this)| {
        let before = revisions.get(index + 1).filter(|before| before.revision + 1 == this.revision);
        Revision::of(&job, this, before.map(AsRef::as_ref))
    });
    Ok(Json(Page::cut(items.collect(), limit, |revision| revision.revision.to_string())))
}

pub(crate) async fn show(
    State(endpoints): State<Endpoints>,
    at: RevisionAt,
) -> Result<Json<RevisionFile>, Failed> {
    let job = endpoints.find_job(&at.job.namespace, &at.job.name).await?;
    let revision = find(&endpoints, &job, at.revision).await?;
    Ok(Json(RevisionFile::of(&job, &revision)))
}

pub(crate) async fn diff(
    State(endpoints): State<Endpoints>,
    at: RevisionAt,
    Asked(comparison): Asked<Comparison>,
) -> Result<Json<Diff>, Failed> {
    let job = endpoints.find_job(&at.job.namespace, &at.job.name).await?;
    let from = match comparison.from {
        Some(from) => from.0,
        None if at.revision > 1 => at.revision - 1,
        None => {
            return Err(
                Problem::parameter("from", "revision 1 has no revision before it; give `from`").into()
            );
        }
    };
    let (from, to) = (find(&endpoints, &job, from).await?, find(&endpoints, &job, at.revision).await?);
    Ok(Json(Diff::of(&job, &from, &to)))
}

async fn find(endpoints: &Endpoints, job: &Job, number: u32) -> Result<Arc<change::Revision>, Failed> {
    let revision = endpoints.handle.reads().revision(job.id, number).await?;
    revision.ok_or_else(|| {
        let message =
            format!("job `{}` is at revision {} and has no revision {number}", job.name, job.revision);
        Problem::new(Code::NoSuchRevision, message).into()
    })
}
