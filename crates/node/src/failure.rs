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

impl Failure {
    /// The failure with its subject in front. A refusal names its subject itself.
    #[must_use]
    pub(crate) fn about(self, subject: &str) -> Failure {
        let name = |why: String| format!("{subject}: {why}");
        match self {
            Failure::Refused(refusal) => Failure::Refused(refusal),
            Failure::Unavailable(why) => Failure::Unavailable(name(why)),
            Failure::NotLed(why) => Failure::NotLed(name(why)),
            Failure::Unknown(why) => Failure::Unknown(name(why)),
            Failure::Full(why) => Failure::Full(name(why)),
        }
    }
}

pub(crate) fn no_leader() -> Failure {
    Failure::NotLed("no node leads its shard right now; try again".to_owned())
}

pub(crate) fn stopped() -> Failure {
    Failure::Unavailable("this node is stopping; ask another node".to_owned())
}

impl From<punctual_store::Error> for Failure {
    fn from(error: punctual_store::Error) -> Self {
        tracing::warn!(%error, "the store could not be read");
        match error {
            punctual_store::Error::Full(_) => Failure::Full(
                "the store has no room: nothing was written; free some space and try again".to_owned(),
            ),
            _ => Failure::Unavailable("the store cannot be reached right now; try again".to_owned()),
        }
    }
}
