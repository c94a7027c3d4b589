//! Limits of an evaluation: its steps and the size of its results.

use std::sync::Arc;

use super::value::Value;
use crate::limits::{EXPRESSION_RESULT_BYTES_MAX, EXPRESSION_STEPS_MAX};

#[derive(Debug)]
pub(super) struct Work {
    steps_left: u32,
}

impl Work {
    pub(super) fn new() -> Work {
        Work { steps_left: EXPRESSION_STEPS_MAX }
    }

    pub(super) fn spend(&mut self, steps: usize) -> Result<(), String> {
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        let left = self.steps_left.checked_sub(steps);
        self.steps_left = left.ok_or_else(|| format!("takes more than {EXPRESSION_STEPS_MAX} steps"))?;
        Ok(())
    }

    /// To be called before this many bytes are made or read.
    pub(super) fn bytes(&mut self, bytes: usize) -> Result<(), String> {
        if bytes > EXPRESSION_RESULT_BYTES_MAX {
            return Err(format!("gives more than {EXPRESSION_RESULT_BYTES_MAX} bytes"));
        }
        self.spend(bytes / 1024)
    }

    /// To be called before this many items are made or visited.
    pub(super) fn items(&mut self, items: usize) -> Result<(), String> {
        self.spend(items / 64)
    }
}

/// The text of a value in a template.
pub(super) fn written(value: &Value, work: &mut Work) -> Result<Arc<str>, String> {
    work.items(value.weight())?;
    let text = value.to_text().ok_or("is null, which has no text; give it a value by `| default(…)`")?;
    work.bytes(text.len())?;
    Ok(text)
}
