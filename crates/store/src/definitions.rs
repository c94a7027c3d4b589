//! A cache of parsed definitions, shared by all jobs with the same text.
//!
//! Many jobs often share one definition text. Parsing its JSON and its cron expression costs more than reading all the
//! rest of the row.

use std::sync::Arc;

use punctual_core::ids::JobId;
use punctual_core::job::Definition;
use punctual_core::run::{Origin, Run};
use rustc_hash::FxHashMap;
use sha2::{Digest, Sha256};

use crate::{Result, codec, refusal};

/// With more texts than this the jobs do not share them, and caching would only cost memory.
const REMEMBERED_MAX: usize = 256;
/// What all texts have together at most. The largest workflow is read again for each page of its graph.
const REMEMBERED_BYTES_MAX: usize = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct Definitions {
    /// By the hash of the text.
    known: FxHashMap<[u8; 32], Arc<Definition>>,
    /// What the texts have together.
    bytes: usize,
}

impl Definitions {
    pub(crate) fn read(&mut self, text: &str) -> Result<Arc<Definition>> {
        let hash: [u8; 32] = Sha256::digest(text).into();
        if let Some(known) = self.known.get(&hash) {
            return Ok(Arc::clone(known));
        }
        let definition = codec::definition(text)?;
        if self.known.len() >= REMEMBERED_MAX || self.bytes + text.len() > REMEMBERED_BYTES_MAX {
            *self = Definitions::default();
        }
        self.bytes += text.len();
        self.known.insert(hash, Arc::clone(&definition));
        Ok(definition)
    }
}

/// The definitions of steps, which the runs of a step share.
#[derive(Debug, Default)]
pub(crate) struct StepDefinitions(FxHashMap<(JobId, u32, Arc<str>), Arc<Definition>>);

impl StepDefinitions {
    /// The definition of a run, given the one of its origin.
    pub(crate) fn of(&mut self, run: &Run, of_origin: Arc<Definition>) -> Result<Arc<Definition>> {
        let (Some(step), Origin::Job { id, revision, .. }) = (&run.step, &run.origin) else {
            return Ok(of_origin);
        };
        let key = (*id, *revision, Arc::clone(&step.path));
        if let Some(known) = self.0.get(&key) {
            return Ok(Arc::clone(known));
        }
        let definition =
            step.definition(&of_origin).ok_or_else(|| refusal::no_step(run.id, *id, &step.path))?;
        Ok(Arc::clone(self.0.entry(key).or_insert(Arc::new(definition))))
    }
}
