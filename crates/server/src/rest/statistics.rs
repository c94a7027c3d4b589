//! Statistics of a job, from the rows that are written when runs end.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use punctual_core::Timestamp;
use punctual_core::limits::{BUCKETS_MAX, BUCKETS_SPAN_MAX};
use punctual_store::{StatisticsFilter, StatisticsOf};
use punctual_wire::Text;
use punctual_wire::rest::{JobStatistics, Problem};
use punctual_wire::text::Span;
use serde::Deserialize;

use super::problem::Failed;
use super::request::{Asked, Named};
use crate::Endpoints;

const HOUR: Duration = Duration::from_secs(3600);
/// The span when the request names no `since`.
const SPAN_DEFAULT: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    since: Option<Text<Timestamp>>,
    until: Option<Text<Timestamp>>,
    bucket: Option<Span>,
}

pub(crate) async fn of_job(
    State(endpoints): State<Endpoints>,
    at: Named,
    Asked(wanted): Asked<Wanted>,
) -> Result<Json<JobStatistics>, Failed> {
    let buckets = Buckets::of(&wanted, endpoints.clock.now())?;
    // A deleted job has statistics as long as it has history.
    endpoints.jobs_named(&at.namespace, &at.name).await?;
    let of = StatisticsOf::Job(at.namespace, at.name);
    let filter = StatisticsFilter { of, since: buckets.since, until: buckets.until() };
    let rows = endpoints.handle.reads().statistics(&filter).await?;
    Ok(Json(JobStatistics::of(buckets.since, buckets.length, buckets.count, &rows)))
}

/// The buckets of an answer. They begin at multiples of their length, counted in UTC.
#[derive(Debug, PartialEq, Eq)]
struct Buckets {
    since: Timestamp,
    length: Duration,
    count: usize,
}

impl Buckets {
    fn of(wanted: &Wanted, now: Timestamp) -> Result<Buckets, Problem> {
        let length = wanted.bucket.as_ref().map_or(HOUR, |bucket| bucket.0);
        if length.is_zero() || !length.as_millis().is_multiple_of(HOUR.as_millis()) {
            return Err(Problem::parameter("bucket", "must be whole hours, such as 1h, 6h or 1d"));
        }
        let days = BUCKETS_SPAN_MAX.as_secs() / (24 * 3600);
        if length > BUCKETS_SPAN_MAX {
            return Err(Problem::parameter("bucket", format!("must be at most {days} days")));
        }
        let until = wanted.until.as_ref().map_or(now, |until| until.0);
        let since = wanted.since.as_ref().map_or(until.before(SPAN_DEFAULT), |since| since.0);
        if since >= until {
            return Err(Problem::parameter("since", "must be before `until`, which is now by default"));
        }
        if until.since(since) > BUCKETS_SPAN_MAX {
            return Err(Problem::parameter("since", format!("must be at most {days} days before `until`")));
        }
        let millis = i64::try_from(length.as_millis()).unwrap_or(i64::MAX);
        let since = Timestamp::from_millis(since.as_millis() - since.as_millis().rem_euclid(millis));
        let count = until.since(since).as_millis().div_ceil(length.as_millis());
        match usize::try_from(count) {
            Ok(count) if count <= BUCKETS_MAX => Ok(Buckets { since, length, count }),
            _ => {
                let message = format!("gives {count} buckets, at most {BUCKETS_MAX}; choose longer ones");
                Err(Problem::parameter("bucket", message))
            }
        }
    }

    fn until(&self) -> Timestamp {
        self.since + self.length * u32::try_from(self.count).unwrap_or(u32::MAX)
    }
}
