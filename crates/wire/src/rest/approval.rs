//! A step of a workflow that waits for an approval.

use punctual_core::ids::RunId;
use punctual_core::name::{Name, Namespace};
use punctual_core::workflow;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::schema;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Approval {
    #[schema(value_type = schema::Namespace)]
    pub namespace: Namespace,
    /// The run of the workflow. For a step of a sub-workflow it is the run of the sub-workflow.
    #[schema(value_type = schema::Id)]
    pub run: Text<RunId>,
    /// The name of the step in that run.
    #[schema(value_type = schema::Name)]
    pub step: Name,
    /// `null` means that the workflow was submitted without a job.
    #[schema(value_type = Option<schema::Name>)]
    pub job: Option<Name>,
    pub since: Instant,
    /// When it counts as rejected. `null` means never.
    pub until: Option<Instant>,
}

impl From<&workflow::Approval> for Approval {
    fn from(approval: &workflow::Approval) -> Self {
        Approval {
            namespace: approval.key.namespace.clone(),
            run: Text(approval.key.run),
            step: approval.step.clone(),
            job: approval.job.clone(),
            since: Text(approval.since),
            until: approval.until.map(Text),
        }
    }
}
