//! Replays or discards many dead letters in one request, each independently.

use punctual_core::ids::RunId;
use punctual_core::limits::PAGE_MAX;
use punctual_core::name::Name;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Problem, State};
use crate::error::Error;
use crate::job_file::JsonObject;
use crate::schema;
use crate::text::{Instant, Text};

/// Letters in one request: as many as a page shows.
pub const DECIDED_MAX: usize = PAGE_MAX;

/// A replay or discard of the dead letters named, or of those of a job, the oldest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, expecting = "a map like { action: replay, job: nightly }")]
pub struct Decide {
    pub action: Action,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<schema::Id>>)]
    pub ids: Option<Vec<Text<RunId>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub job: Option<Name>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
    /// For a replay: parameters instead of those they had.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub params: Option<JsonObject>,
    /// For a replay: the due time of the new runs instead of those they had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Instant>,
    /// For a replay: whether each new run starts at the last checkpoint of its old one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub resume: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    Replay,
    Discard,
}

/// Which dead letters a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chosen {
    These(Vec<RunId>),
    OldestOf { job: Name, limit: usize },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decisions {
    pub items: Vec<Decision>,
    /// Whether the job has further dead letters: ask again for them.
    pub more: bool,
}

/// The result for one dead letter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Decision {
    #[schema(value_type = schema::Id)]
    pub id: Text<RunId>,
    pub done: bool,
    /// The run that replays it.
    #[schema(value_type = Option<schema::Id>)]
    pub run: Option<Text<RunId>>,
    pub state: Option<State>,
    /// Why nothing was done.
    pub problem: Option<Problem>,
}

impl Decide {
    /// An action that names no dead letters yet.
    pub fn of(action: Action) -> Decide {
        Decide { action, ids: None, job: None, limit: None, params: None, due_at: None, resume: false }
    }

    /// The chosen dead letters. A request must name ids or a job, so that unseen ones of a whole namespace are
    /// never discarded.
    pub fn chosen(&self) -> Result<Chosen, Error> {
        let limit = self.limit.unwrap_or(DECIDED_MAX);
        if !(1..=DECIDED_MAX).contains(&limit) {
            return Err(Error::invalid("limit", format!("must be 1 to {DECIDED_MAX}")));
        }
        if self.params.is_some() && self.action == Action::Discard {
            return Err(Error::invalid("params", "is allowed with `replay` only"));
        }
        if self.due_at.is_some() && self.action == Action::Discard {
            return Err(Error::invalid("due_at", "is allowed with `replay` only"));
        }
        match (&self.ids, &self.job) {
            (Some(_), Some(_)) => Err(Error::invalid("ids", "give either `ids` or `job`, not both")),
            (None, None) => Err(Error::invalid("ids", "is required: the ids of dead letters; or give `job`")),
            (Some(ids), None) if ids.is_empty() || ids.len() > DECIDED_MAX => {
                Err(Error::invalid("ids", format!("must have 1 to {DECIDED_MAX} ids")))
            }
            (Some(_), None) if self.limit.is_some() => {
                Err(Error::invalid("limit", "is allowed with `job` only"))
            }
            (Some(ids), None) => {
                let mut ids: Vec<RunId> = ids.iter().map(|id| id.0).collect();
                ids.sort_unstable();
                ids.dedup();
                Ok(Chosen::These(ids))
            }
            (None, Some(job)) => Ok(Chosen::OldestOf { job: job.clone(), limit }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    fn chosen(body: &str) -> Result<Chosen, Error> {
        tree::from_json::<Decide>(body.as_bytes())?.chosen()
    }

    #[test]
    fn dead_letters_are_chosen_by_id_or_by_job() {
        let ids = chosen(r#"{"action":"replay","ids":["9","7","9"]}"#).unwrap();
        assert_eq!(ids, Chosen::These(vec![RunId(7), RunId(9)]), "each once, the oldest first");
        let of_job = chosen(r#"{"action":"discard","job":"a","limit":5}"#).unwrap();
        assert_eq!(of_job, Chosen::OldestOf { job: "a".parse().unwrap(), limit: 5 });
    }

    #[test]
    fn a_choice_that_cannot_be_names_the_field() {
        let many = format!(r#"{{"action":"replay","ids":[{}]}}"#, vec!["\"1\""; 1001].join(","));
        let rows = [
            (r#"{"ids":["1"]}"#, "action"),
            (r#"{"action":"burn","ids":["1"]}"#, "action"),
            (r#"{"action":"replay"}"#, "ids"),
            (r#"{"action":"replay","ids":[]}"#, "ids"),
            (r#"{"action":"replay","ids":["1"],"job":"a"}"#, "ids"),
            (r#"{"action":"replay","ids":["one"]}"#, "ids[0]"),
            (r#"{"action":"replay","ids":["1"],"limit":5}"#, "limit"),
            (r#"{"action":"replay","job":"a","limit":0}"#, "limit"),
            (r#"{"action":"replay","job":"a","limit":1001}"#, "limit"),
            (r#"{"action":"discard","job":"a","params":{}}"#, "params"),
            (many.as_str(), "ids"),
        ];
        for (body, field) in rows {
            assert_eq!(chosen(body).unwrap_err().field, field, "{body:.80}");
        }
    }
}
