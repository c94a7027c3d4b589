//! The list of jobs: searched, filtered by labels and state, with the last runs of each.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use punctual_core::ids::JobId;
use punctual_core::job;
use punctual_core::limits::{
    JOB_LABEL_BYTES_MAX, JOB_LABELS_MAX, PAGE_MAX, SEARCH_BYTES_MAX, SEARCH_BYTES_MIN,
};
use punctual_core::name::{Name, Namespace};
use punctual_store::JobFilter;
use punctual_wire::Text;
use punctual_wire::rest::{Job, JobState, LastRun, Page, Problem};
use punctual_wire::text::Several;
use serde::Deserialize;

use super::problem::Failed;
use super::request::{Asked, In, page_limit};
use crate::Endpoints;

/// The last runs of one job that a listing shows.
pub(crate) const LAST_MAX: usize = 100;
/// The last runs in one answer, over all its jobs.
const LAST_IN_ALL_MAX: usize = 10_000;
/// Jobs that one request looks at when it filters. Then the page ends, and `next` goes on from there.
const VISITS_MAX: usize = 20_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Listing {
    limit: Option<Text<usize>>,
    after: Option<Name>,
    /// A text in the name or in a label.
    search: Option<String>,
    /// `name=value`; several have to match all.
    label: Option<Several>,
    state: Option<String>,
    /// How many of its last runs each job has.
    last: Option<Text<usize>>,
}

pub(crate) async fn list(
    State(endpoints): State<Endpoints>,
    In(namespace): In,
    Asked(listing): Asked<Listing>,
) -> Result<Json<Page<Job>>, Failed> {
    let limit = page_limit(listing.limit)?;
    let last = last(listing.last, limit)?;
    let wanted = Wanted::of(&listing)?;
    let page = wanted.page(&endpoints, &namespace, listing.after, limit).await?;
    let mut runs = match last {
        Some(last) => Some(last_runs(&endpoints, &page.items, last).await?),
        None => None,
    };
    let mut item = |job: &Arc<job::Job>| {
        let last = runs.as_mut().map(|runs| runs.remove(&job.id).unwrap_or_default());
        Job { last, ..Job::from(&**job) }
    };
    Ok(Json(Page { items: page.items.iter().map(&mut item).collect(), next: page.next }))
}

fn last(last: Option<Text<usize>>, limit: usize) -> Result<Option<usize>, Failed> {
    let wrong = |message: String| Err(Problem::parameter("last", message).into());
    match last.map(|last| last.0) {
        Some(last) if !(1..=LAST_MAX).contains(&last) => wrong(format!("must be 1 to {LAST_MAX}")),
        Some(last) if last * limit > LAST_IN_ALL_MAX => {
            wrong(format!("times `limit` may be at most {LAST_IN_ALL_MAX}; this is {}", last * limit))
        }
        last => Ok(last),
    }
}

/// The last runs of each job, oldest first.
async fn last_runs(
    endpoints: &Endpoints,
    jobs: &[Arc<job::Job>],
    last: usize,
) -> Result<HashMap<JobId, Vec<LastRun>>, Failed> {
    let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
    let mut by_job: HashMap<JobId, Vec<LastRun>> = HashMap::new();
    for run in endpoints.handle.reads().last_runs(&ids, last).await?.iter().rev() {
        if let Some(job) = run.job() {
            by_job.entry(job).or_default().push(LastRun::from(&**run));
        }
    }
    Ok(by_job)
}

/// Which jobs a request wants.
struct Wanted {
    /// In lower case.
    search: Option<String>,
    labels: Vec<(String, String)>,
    state: Option<JobState>,
}

impl Wanted {
    fn of(listing: &Listing) -> Result<Wanted, Failed> {
        let labels = listing.label.as_ref().map_or(&[][..], |labels| &labels.0);
        if labels.len() > JOB_LABELS_MAX {
            return Err(Problem::parameter("label", format!("at most {JOB_LABELS_MAX} labels")).into());
        }
        Ok(Wanted {
            search: listing.search.as_deref().map(searched).transpose()?,
            labels: labels.iter().map(|label| named(label)).collect::<Result<_, _>>()?,
            state: listing.state.as_deref().map(state).transpose()?,
        })
    }

    fn is_everything(&self) -> bool {
        self.search.is_none() && self.labels.is_empty() && self.state.is_none()
    }

    /// Reads jobs until the page is full, or until many were looked at.
    async fn page(
        &self,
        endpoints: &Endpoints,
        namespace: &Namespace,
        after: Option<Name>,
        limit: usize,
    ) -> Result<Page<Arc<job::Job>>, Failed> {
        let filter = JobFilter { namespace: Some(namespace.clone()), calendar: None };
        let mut after = after.map(|name| (namespace.clone(), name));
        let (mut found, mut visits) = (Vec::new(), 0);
        loop {
            let size = if self.is_everything() { limit + 1 } else { PAGE_MAX };
            let jobs = endpoints.handle.reads().jobs(&filter, after, size).await?;
            visits += jobs.len();
            let (is_last, next) = (jobs.len() < size, jobs.last().map(|job| job.name.clone()));
            found.extend(jobs.into_iter().filter(|job| self.takes(job)));
            if found.len() > limit || is_last {
                return Ok(Page::cut(found, limit, |job| job.name.to_string()));
            }
            if visits >= VISITS_MAX {
                return Ok(Page { items: found, next: next.map(|name| name.to_string()) });
            }
            after = next.map(|name| (namespace.clone(), name));
        }
    }

    fn takes(&self, job: &job::Job) -> bool {
        let labels = &job.definition.labels;
        let has = |text: &str, search: &str| text.to_lowercase().contains(search);
        self.state.is_none_or(|state| JobState::of(job) == state)
            && self.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
            && self.search.as_deref().is_none_or(|search| {
                has(job.name.as_str(), search) || labels.values().any(|value| has(value, search))
            })
    }
}

/// The text to look for.
fn searched(text: &str) -> Result<String, Failed> {
    if (SEARCH_BYTES_MIN..=SEARCH_BYTES_MAX).contains(&text.len()) {
        return Ok(text.to_lowercase());
    }
    let message = format!("must have {SEARCH_BYTES_MIN} to {SEARCH_BYTES_MAX} bytes");
    Err(Problem::parameter("search", message).into())
}

/// A label, `name=value`.
fn named(label: &str) -> Result<(String, String), Failed> {
    let wrong = |message: String| Err(Problem::parameter("label", message).into());
    match label.split_once('=') {
        None | Some(("", _)) => wrong("must be like `team=billing`".to_owned()),
        Some((name, value)) if name.len() > JOB_LABEL_BYTES_MAX || value.len() > JOB_LABEL_BYTES_MAX => {
            wrong(format!("name and value have at most {JOB_LABEL_BYTES_MAX} bytes each"))
        }
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
    }
}

fn state(word: &str) -> Result<JobState, Failed> {
    let known = [JobState::Active, JobState::Paused, JobState::Finished];
    known.into_iter().find(|state| state.as_str() == word).ok_or_else(|| {
        let known = known.map(JobState::as_str).join(", ");
        Problem::parameter("state", format!("`{word}` is not a state of a job; known are {known}")).into()
    })
}
