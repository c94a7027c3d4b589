//! Why a command did not succeed.

use punctual_core::command::Refusal;

/// Why a command did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Nothing happened; the same command would be refused again.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The shard cannot decide now. Whether the command took effect is unknown; repeating it with the same key is safe.
    #[error("{0}")]
    Unavailable(String),
    /// The node that was asked does not lead the shard or could not be reached: nothing happened there.
    #[error("{0}")]
    NotLed(String),
    /// The command was sent to the leader and its answer was lost. Whether it took effect is unknown; repeating it with
    /// the same key is safe.
    #[error("{0}")]
    Unknown(String),
    /// The store has no space left: nothing happened.
    #[error("{0}")]
    Full(String),
}

pub(crate) fn stopped() -> Failure {
    Failure::Unavailable("the node is stopping".to_owned())
}

impl From<punctual_store::Error> for Failure {
    fn from(error: punctual_store::Error) -> Self {
        tracing::warn!(%error, "the store could not be asked");
        match error {
            punctual_store::Error::Full(_) => Failure::Full(
                "the store has no room: nothing was written; free some space and try again".to_owned(),
            ),
            _ => Failure::Unavailable("the store cannot be asked now; try again".to_owned()),
        }
    }
}
