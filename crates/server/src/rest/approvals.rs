//! The steps of a namespace that wait for an approval.

use std::fmt;
use std::str::FromStr;

use axum::Json;
use axum::extract::State;
use punctual_core::ids::RunId;
use punctual_core::workflow::ApprovalKey;
use punctual_wire::Text;
use punctual_wire::rest::{Approval, Page};
use serde::Deserialize;

use super::problem::Failed;
use super::request::{Asked, In, page_limit};
use crate::Endpoints;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    limit: Option<Text<usize>>,
    after: Option<Text<Cursor>>,
}

/// The place in the list after a page: the run and the index of the step.
#[derive(Debug, Clone, Copy)]
struct Cursor {
    run: RunId,
    step: u32,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.run, self.step)
    }
}

impl FromStr for Cursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (run, step) = text.split_once('-')?;
            Some(Cursor { run: run.parse().ok()?, step: step.parse().ok()? })
        };
        read().ok_or("take the `next` of the page before, such as `4683711365120-2`")
    }
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<Approval>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let key =
        |Text(Cursor { run, step }): Text<Cursor>| ApprovalKey { namespace: namespace.clone(), run, step };
    let after = listing.after.map(key);
    let reads = endpoints.handle.reads();
    let found = reads.approvals(Some(&namespace), after.as_ref(), limit + 1).await?;
    let page = Page::cut(found, limit, |last| Cursor { run: last.key.run, step: last.key.step }.to_string());
    Ok(Json(Page { items: page.items.iter().map(Approval::from).collect(), next: page.next }))
}
