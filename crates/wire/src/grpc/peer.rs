//! Messages between scheduling nodes: commands, answers and failures, as JSON inside the gRPC messages.
//!
//! An unknown field is ignored and an unknown variant is refused. So a newer node may send more fields to an
//! older one, but no command that the older one does not know.

use punctual_core::command::{Answer, Command, Refusal};
use punctual_core::limits::{MESSAGE_BYTES_MAX as BODY_BYTES_MAX, TAKE_BYTES_MAX, TAKE_MAX};
use serde::{Deserialize, Serialize};

use super::v1::ask_response::Result as Outcome;
use super::v1::{AskRequest, AskResponse, LookResponse};
use crate::rest::{Node, Worker};

/// The largest request or response: a job with schedules that all carry the largest calendar, and some reserve.
pub const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// The JSON of a message without its body.
const DELIVERED_BYTES_MAX: usize = 512;
/// The messages of one take fit, with their bodies as base64.
const _: () = assert!(
    (TAKE_BYTES_MAX + BODY_BYTES_MAX).div_ceil(3) * 4 + TAKE_MAX as usize * DELIVERED_BYTES_MAX
        < MESSAGE_BYTES_MAX
);
/// Consumers of one node that wait at another. They share one stream.
pub const WAITS_MAX: usize = 16 * 1024;

/// The failure of a command, in its wire form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    Refused(Refusal),
    NotLed(String),
    Unavailable(String),
    Unknown(String),
    Full(String),
}

/// A message that cannot be parsed.
#[derive(Debug)]
pub struct Unreadable(String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a peer's message cannot be read, it may be of another version: {}", self.0)
    }
}

impl std::error::Error for Unreadable {}

impl From<serde_json::Error> for Unreadable {
    fn from(error: serde_json::Error) -> Self {
        Unreadable(error.to_string())
    }
}

pub fn request(command: &Command) -> Result<AskRequest, Unreadable> {
    Ok(AskRequest { command: serde_json::to_vec(command)? })
}

pub fn command(request: &AskRequest) -> Result<Command, Unreadable> {
    Ok(serde_json::from_slice(&request.command)?)
}

pub fn response(result: &Result<Answer, Failure>) -> Result<AskResponse, Unreadable> {
    let result = match result {
        Ok(answer) => Outcome::Answer(serde_json::to_vec(answer)?),
        Err(failure) => Outcome::Failure(serde_json::to_vec(failure)?),
    };
    Ok(AskResponse { result: Some(result) })
}

/// The state of a node and its workers, as sent to a peer.
pub fn told(node: &Node, workers: &[Worker]) -> Result<LookResponse, Unreadable> {
    Ok(LookResponse { node: serde_json::to_vec(node)?, workers: serde_json::to_vec(workers)? })
}

pub fn heard(response: &LookResponse) -> Result<(Node, Vec<Worker>), Unreadable> {
    Ok((serde_json::from_slice(&response.node)?, serde_json::from_slice(&response.workers)?))
}

pub fn result(response: &AskResponse) -> Result<Result<Answer, Failure>, Unreadable> {
    match &response.result {
        Some(Outcome::Answer(answer)) => Ok(Ok(serde_json::from_slice(answer)?)),
        Some(Outcome::Failure(failure)) => Ok(Err(serde_json::from_slice(failure)?)),
        None => Err(Unreadable("it is empty".to_owned())),
    }
}

#[cfg(test)]
mod tests;
