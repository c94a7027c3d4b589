//! Definitions, read once for all jobs that share the text.
//!
//! A herd is often one definition under many names. Reading its JSON, with the cron expression in it, costs more than
//! all the rest of the row.

use std::sync::Arc;

use punctual_core::job::Definition;
use rustc_hash::FxHashMap;

use crate::{Result, codec};

/// Beyond this the texts are plainly not shared, and remembering them would only cost memory.
const REMEMBERED_MAX: usize = 256;
/// A longer text is read each time.
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
