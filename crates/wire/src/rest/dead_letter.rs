//! A run that used up its attempts and waits for someone to decide.

use punctual_core::change;
use punctual_core::ids::RunId;
use punctual_core::name::{Name, Namespace};
use serde::{Deserialize, Serialize};

use super::Run;
use crate::text::{Instant, Text};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeadLetter {
    /// The id of its run, which is also how it is replayed or discarded.
    pub id: Text<RunId>,
    pub namespace: Namespace,
    pub job: Option<Name>,
    pub dead_since: Instant,
    /// The run itself; null if it was decided about while the page was read.
    pub run: Option<Run>,
}

impl DeadLetter {
    pub fn of(letter: &change::DeadLetter, run: Option<Run>) -> Self {
        DeadLetter {
            id: Text(letter.run),
            namespace: letter.namespace.clone(),
            job: letter.job.clone(),
            dead_since: Text(letter.at),
            run,
        }
    }
}
