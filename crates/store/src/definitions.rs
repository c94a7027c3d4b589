//! A cache of parsed definitions, shared by all jobs with the same text.
//!
//! Many jobs often share one definition text. Parsing its JSON and its cron expression costs more than reading all the
//! rest of the row.

use std::sync::Arc;

use punctual_core::job::Definition;
use rustc_hash::FxHashMap;

use crate::{Result, codec};

/// With more texts than this the jobs do not share them, and caching would only cost memory.
const REMEMBERED_MAX: usize = 256;
/// A longer text is not cached.
const TEXT_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Definitions(FxHashMap<Box<str>, Arc<Definition>>);

impl Definitions {
    pub(crate) fn read(&mut self, text: &str) -> Result<Arc<Definition>> {
        if let Some(known) = self.0.get(text) {
            return Ok(Arc::clone(known));
        }
        let definition = codec::definition(text)?;
        if text.len() <= TEXT_MAX {
            if self.0.len() >= REMEMBERED_MAX {
                self.0.clear();
            }
            self.0.insert(text.into(), Arc::clone(&definition));
        }
        Ok(definition)
    }
}
