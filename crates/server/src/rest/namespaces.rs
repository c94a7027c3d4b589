//! The namespaces that have jobs or queues.

use axum::Json;
use axum::extract::State;
use punctual_core::name::Namespace;
use punctual_store::NamespaceCounts;
use punctual_wire::Text;
use punctual_wire::rest::{self, Page};
use serde::Deserialize;

use super::problem::Failed;
use super::request::{Asked, page_limit};
use crate::Endpoints;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    limit: Option<Text<usize>>,
    after: Option<Namespace>,
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<rest::NamespaceCounts>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let mut found = endpoints.handle.reads().namespaces(listing.after.as_ref(), limit + 1).await?;
    with_default(&mut found, listing.after.as_ref());
    let page = Page::cut(found, limit, |counts| counts.namespace.to_string());
    let item = |counts: NamespaceCounts| rest::NamespaceCounts {
        name: counts.namespace,
        jobs: counts.jobs,
        queues: counts.queues,
    };
    Ok(Json(Page { items: page.items.into_iter().map(item).collect(), next: page.next }))
}

/// The namespace `default` is listed even if it is empty: clients use it unless they name another.
fn with_default(found: &mut Vec<NamespaceCounts>, after: Option<&Namespace>) {
    let default = Namespace::default();
    let position = found.binary_search_by(|counts| counts.namespace.cmp(&default));
    if let Err(position) = position
        && after.is_none_or(|after| *after < default)
    {
        found.insert(position, NamespaceCounts { namespace: default, jobs: 0, queues: 0 });
    }
}
