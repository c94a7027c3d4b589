//! Why a definition is refused.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Why a definition is refused: the field, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Invalid {
    /// Its path, such as `task.process.command[2]`.
    pub field: Cow<'static, str>,
    pub message: String,
}

impl Invalid {
    pub fn new(field: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Invalid { field: field.into(), message: message.into() }
    }

    /// The same error one level further out: `retry.attempts` becomes `steps.load.retry.attempts`.
    #[must_use]
    pub fn under(self, parent: &str) -> Self {
        Invalid { field: format!("{parent}.{}", self.field).into(), message: self.message }
    }
}
