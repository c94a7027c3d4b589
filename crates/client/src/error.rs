//! What can go wrong on the way to a server, by what the caller can do about it.

use punctual_wire::rest::Problem;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server answered and says what is wrong.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// No answer, or half of one: whether a change happened is unknown.
    #[error("no answer from {server}")]
    Unreachable { server: String, source: reqwest::Error },
    /// An answer that was still arriving broke off.
    #[error("{server} broke off in the middle of its answer")]
    BrokenOff { server: String },
    /// Something answers there, but it does not speak Punctual.
    #[error("{server} answered {status}, but not as Punctual does")]
    Strange { server: String, status: u16 },
}

impl Error {
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Problem(problem) => Some(problem),
            _ => None,
        }
    }
}
