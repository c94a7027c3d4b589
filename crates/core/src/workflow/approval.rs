//! Steps that wait for an approval, in rows of their own: so they are listed without reading workflows.

use std::sync::Arc;

use crate::Timestamp;
use crate::ids::RunId;
use crate::name::{Name, Namespace};

/// The primary key of a waiting approval.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApprovalKey {
    pub namespace: Namespace,
    /// The run of the workflow.
    pub run: RunId,
    /// The index of the step in its workflow.
    pub step: u32,
}

/// A step that waits for the decision of a person. The row is deleted when the step ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    pub key: Arc<ApprovalKey>,
    /// `None` means that the workflow was submitted without a job.
    pub job: Option<Name>,
    /// The name of the step in its workflow.
    pub step: Name,
    pub since: Timestamp,
    /// When it counts as rejected. `None` means never.
    pub until: Option<Timestamp>,
}
