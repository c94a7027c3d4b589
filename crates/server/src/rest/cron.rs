//! Explains cron expressions. It reads no data, so no token is needed.

use axum::Json;
use axum::extract::State;
use punctual_core::Timestamp;
use punctual_core::schedule::{Language, Weekdays};
use punctual_wire::rest::{Explained, Problem};
use punctual_wire::{Text, job_file};
use serde::Deserialize;

use super::problem::Failed;
use super::request::Asked;
use crate::Endpoints;

/// The default number of occurrences, and the maximum.
const COUNT_DEFAULT: usize = 5;
pub(crate) const COUNT_MAX: usize = 100;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    expression: Option<String>,
    timezone: Option<String>,
    weekdays: Option<Weekdays>,
    count: Option<Text<usize>>,
    lang: Option<Text<Language>>,
    from: Option<Text<Timestamp>>,
    /// The value that `H` is hashed from: namespace and name of the job, as in `payments/nightly`.
    spread_key: Option<String>,
}

pub(crate) async fn explain(
    State(endpoints): State<Endpoints>,
    Asked(question): Asked<Question>,
) -> Result<Json<Explained>, Failed> {
    let Some(expression) = question.expression else {
        return Err(
            Problem::parameter("expression", "is required: a cron expression such as 0 1 * * *").into()
        );
    };
    let count = question.count.map_or(COUNT_DEFAULT, |count| count.0);
    if !(1..=COUNT_MAX).contains(&count) {
        return Err(Problem::parameter("count", format!("must be 1 to {COUNT_MAX}")).into());
    }
    let from = question.from.map_or_else(|| endpoints.clock.now(), |from| from.0);
    if !(Timestamp::MIN..=Timestamp::MAX).contains(&from) {
        return Err(Problem::parameter("from", "must lie in the years 1970 to 9998").into());
    }
    let zone = question.timezone.as_deref().unwrap_or("UTC");
    let weekdays = question.weekdays.unwrap_or_default();
    let when = job_file::read_cron(&expression, zone, weekdays, question.spread_key.as_deref());
    let when = when.map_err(|error| {
        let field = if error.field == "cron" { "expression" } else { "timezone" };
        Problem::parameter(field, error.message)
    })?;
    let language = question.lang.map_or(Language::default(), |language| language.0);
    Ok(Json(Explained::of(&expression, when, language, from, count)))
}
