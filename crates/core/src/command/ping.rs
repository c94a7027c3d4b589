//! The report of a program outside Punctual on a run of its job.

use serde::{Deserialize, Serialize};

use crate::ids::RunId;
use crate::name::{Name, Namespace};

/// What a program outside Punctual reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ping {
    pub namespace: Namespace,
    pub name: Name,
    pub signal: Signal,
    /// The run that has ended. `None` means the newest one that has started; if there is none, one is recorded that has
    /// ended.
    pub run: Option<RunId>,
    pub exit_code: Option<i32>,
    /// The output of a run that has succeeded, or the error of one that has failed.
    pub text: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    Started,
    Succeeded,
    Failed,
}
