//! An error in a message.

/// A message that cannot be parsed: which field, and what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Malformed {
    pub field: &'static str,
    pub message: String,
}

impl Malformed {
    pub(crate) fn new(field: &'static str, message: impl Into<String>) -> Self {
        Malformed { field, message: message.into() }
    }

    pub(crate) fn missing(field: &'static str) -> Self {
        Malformed::new(field, "is missing")
    }
}
