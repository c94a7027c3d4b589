//! Why a run waits, or why a job does not run.

use punctual_core::ids::RunId;
use punctual_core::name::Name;
use punctual_core::why as rule;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Why {
    /// `paused`, `overlap`, `limit`, `no_worker_fits`, `no_free_slot`, `events`, `backoff`, `misfire`, `calendar`, `edited`, `delayed`,
    /// `due`, `running`, `cancelling`, `ended`, `finished`, `manual`, `no_leader` or `scheduled`.
    pub code: String,
    /// One sentence.
    pub message: String,
    /// Since when this is so. `null` means that it is not recorded.
    pub since: Option<Instant>,
    /// When it ends by itself. `null` means that it depends on something else.
    pub until: Option<Instant>,
    pub details: WhyDetails,
}

/// What the answer refers to; a field that does not apply is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhyDetails {
    /// What the nearest worker lacks, such as `label zone=eu`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Name>)]
    pub job: Option<Name>,
    /// The run that is waited for or, for a job, the run that the answer is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<schema::Id>)]
    pub run: Option<Text<RunId>>,
    /// The worker that executes the run, or the worker that almost fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<String>,
}

impl From<rule::Why> for Why {
    fn from(why: rule::Why) -> Self {
        let rule::Details { missing, job, run, worker } = why.details;
        Why {
            code: why.code.as_str().to_owned(),
            message: why.message,
            since: why.since.map(Text),
            until: why.until.map(Text),
            details: WhyDetails { missing, job, run: run.map(Text), worker },
        }
    }
}
