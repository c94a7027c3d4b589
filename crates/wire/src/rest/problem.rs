//! What went wrong, as problem+json (RFC 9457) with one vocabulary of codes.

use std::fmt;

use punctual_core::command::Refusal;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub status: u16,
    pub code: Code,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// No JSON at all, or not what the headers promise.
    Malformed,
    /// A field of the body says something that cannot be.
    Invalid,
    /// A part of the address, the query or the headers does.
    BadParameter,
    NoSuchRoute,
    NoSuchJob,
    NoSuchRun,
    MethodNotAllowed,
    JobExists,
    WrongRevision,
    WrongState,
    NotADeadLetter,
    /// The key was given before, to a run that is no longer kept.
    KeyUsed,
    CrossOrigin,
    TooSlow,
    BodyTooLarge,
    AddressTooLong,
    HeadersTooLarge,
    UnsupportedMediaType,
    TooManyRuns,
    /// It cannot be decided now; whether it happened is unknown.
    Unavailable,
    /// There is no room to write; nothing happened.
    Full,
    Internal,
    /// A code of a newer server.
    #[serde(other)]
    Unknown,
}

impl Code {
    pub fn status(self) -> u16 {
        match self {
            Code::Malformed | Code::BadParameter => 400,
            Code::CrossOrigin => 403,
            Code::NoSuchRoute | Code::NoSuchJob | Code::NoSuchRun => 404,
            Code::MethodNotAllowed => 405,
            Code::TooSlow => 408,
            Code::JobExists | Code::WrongState | Code::NotADeadLetter | Code::KeyUsed => 409,
            Code::WrongRevision => 412,
            Code::BodyTooLarge => 413,
            Code::AddressTooLong => 414,
            Code::UnsupportedMediaType => 415,
            Code::Invalid => 422,
            Code::TooManyRuns => 429,
            Code::HeadersTooLarge => 431,
            Code::Internal | Code::Unknown => 500,
            Code::Unavailable => 503,
            Code::Full => 507,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Code::Malformed => "The body cannot be read",
            Code::Invalid => "A field is invalid",
            Code::BadParameter => "A parameter is invalid",
            Code::NoSuchRoute => "Nothing is at this address",
            Code::NoSuchJob => "No such job",
            Code::NoSuchRun => "No such run",
            Code::MethodNotAllowed => "This method is not allowed here",
            Code::JobExists => "The job exists already",
            Code::WrongRevision => "The job has another revision",
            Code::WrongState => "The run is in another state",
            Code::NotADeadLetter => "The run is not a dead letter",
            Code::KeyUsed => "The key was used before",
            Code::CrossOrigin => "Other web sites may not ask",
            Code::TooSlow => "The request took too long to arrive",
            Code::BodyTooLarge => "The body is too large",
            Code::AddressTooLong => "The address is too long",
            Code::HeadersTooLarge => "The headers are too large",
            Code::UnsupportedMediaType => "The media type is not supported",
            Code::TooManyRuns => "Too many runs",
            Code::Unavailable => "Not available now",
            Code::Full => "No room left",
            Code::Internal | Code::Unknown => "Something broke",
        }
    }

    /// Seconds after which asking again makes sense.
    pub fn retry_after(self) -> Option<u32> {
        matches!(self, Code::TooManyRuns | Code::Unavailable | Code::Full).then_some(1)
    }

    fn as_str(self) -> String {
        // A unit variant always serialises to its name.
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

impl Problem {
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Problem {
            kind: format!("urn:punctual:problem:{}", code.as_str()),
            title: code.title().to_owned(),
            status: code.status(),
            code,
            message: message.into(),
            field: None,
        }
    }

    /// A parameter of the address, the query or the headers that cannot be.
    pub fn parameter(field: impl Into<String>, message: impl Into<String>) -> Self {
        Problem::new(Code::BadParameter, message).about(field)
    }

    #[must_use]
    pub fn about(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{field}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Problem {}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let code = match error.kind {
            Kind::Malformed => Code::Malformed,
            Kind::Invalid => Code::Invalid,
        };
        let field = (!error.field.is_empty()).then_some(error.field);
        let message = match (code, error.place) {
            (Code::Malformed, Some(place)) => format!("{place}: {}", error.message),
            _ => error.message,
        };
        Problem { field, ..Problem::new(code, message) }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::NoSuchJob { .. } => Code::NoSuchJob,
            Refusal::NoSuchRun(_) => Code::NoSuchRun,
            Refusal::NotADeadLetter(_) => Code::NotADeadLetter,
            Refusal::JobExists(_) => Code::JobExists,
            Refusal::WrongRevision { .. } => Code::WrongRevision,
            Refusal::WrongState { .. } => Code::WrongState,
            Refusal::Invalid(invalid) => return Error::from(invalid.clone()).into(),
            Refusal::TooManyRuns => Code::TooManyRuns,
        };
        Problem::new(code, refusal.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_its_code_and_field() {
        let problem = Problem::from(Error::invalid("schedule.cron", "no"));
        let json = serde_json::to_value(&problem).unwrap();
        assert_eq!(json["type"], "urn:punctual:problem:invalid");
        assert_eq!((json["status"].as_u64(), json["field"].as_str()), (Some(422), Some("schedule.cron")));
        assert_eq!(serde_json::from_value::<Problem>(json).unwrap(), problem);
    }

    #[test]
    fn a_code_of_a_newer_server_is_still_a_problem() {
        let text = r#"{"type":"x","title":"t","status":418,"code":"teapot","message":"short and stout"}"#;
        assert_eq!(serde_json::from_str::<Problem>(text).unwrap().code, Code::Unknown);
    }
}
