//! A dead letter: a run that used up its attempts and waits for a replay or a discard.

use punctual_core::change;
use punctual_core::ids::RunId;
use punctual_core::name::{Name, Namespace};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Run;
use crate::job_file::JsonObject;
use crate::schema;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct DeadLetter {
    /// The id of its run, which is also how it is replayed or discarded.
    #[schema(value_type = schema::Id)]
    pub id: Text<RunId>,
    #[schema(value_type = schema::Namespace)]
    pub namespace: Namespace,
    #[schema(value_type = Option<schema::Name>)]
    pub job: Option<Name>,
    pub dead_since: Instant,
    /// The parameters of the run; a replay can change them. `null` if `run` is `null`.
    #[schema(value_type = Option<Object>)]
    pub params: Option<JsonObject>,
    /// The run itself. `null` means it was replayed or discarded while the page was read.
    pub run: Option<Run>,
}

impl DeadLetter {
    pub fn of(letter: &change::DeadLetter, record: Option<&change::RunRecord>) -> Self {
        let params = |record: &change::RunRecord| {
            let own = record.run.params.as_ref().unwrap_or(&record.definition.params);
            serde_json::from_str(&own.0).unwrap_or_default()
        };
        DeadLetter {
            id: Text(letter.run),
            namespace: letter.namespace.clone(),
            job: letter.job.clone(),
            dead_since: Text(letter.at),
            params: record.map(params),
            run: record.map(|record| Run::listed(&record.run)),
        }
    }
}
